/* The forward pass of shards with some of the layers: hidden states in and
 * out, and the plans that they refuse. golden_stages shows that a chain of
 * them computes what the whole model computes. */
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/random_model.h"
#include "tests/unit/cmocka.h"
#include "worker/engine/forward.h"

#define LAYERS 4 /* linear, attention, linear, attention */
#define BLOCKS 8
#define SLOTS  2
#define ROOM   12 /* tokens of a plan */
#define PLANS  2

static const struct sampling greedy = {.top_p = 1, .repetition_penalty = 1};

struct rig {
    struct random_model model;
    struct shard_weights part;
    struct forward *forward;
    uint32_t slot_pages; /* the slots come before the blocks */
    struct plan plan;
    struct plan_row rows[4];
    uint32_t tokens[64], blocks[64], zero[4];
    float *hidden; /* [64, H] input of the plan, if it reads hidden states */
    struct plan_result result;
};

/* Makes layers [begin, end), without room for hidden states yet. */
static struct rig *rig_new(uint32_t begin, uint32_t end)
{
    struct rig *g = calloc(1, sizeof *g);
    struct kernels_options o = {
        .device = "cpu", .block_tokens = 4, .max_tokens = 8, .n_threads = 1};
    struct dice d = {11};
    struct random_shape r;
    struct kernels_sizes sizes;
    struct error e;

    assert_non_null(g);
    random_shape(&r, &d);
    r.shape.n_layers = LAYERS;
    r.shape.vocab = 100;
    for (uint32_t i = 0; i < LAYERS; i++) {
        r.mixers[i] = i % 2 ? MIXER_ATTENTION : MIXER_DELTANET;
    }
    random_model_new(&g->model, &r, &d);
    g->part = g->model.w;
    g->part.begin = begin;
    g->part.end = end;
    g->part.layers += begin;
    assert_int_equal(forward_new(&g->forward, &g->part, &o, &e), ST_OK);
    forward_sizes(g->forward, &sizes);
    g->slot_pages = sizes.pages_per_slot;
    assert_int_equal(
        forward_alloc(g->forward, SLOTS * g->slot_pages + BLOCKS, &e), ST_OK);
    g->plan.rows = g->rows;
    g->plan.tokens = g->tokens;
    g->plan.blocks = g->blocks;
    g->plan.zero_slots = g->zero;
    g->hidden = calloc((size_t)64 * r.shape.hidden, sizeof *g->hidden);
    assert_non_null(g->hidden);
    for (uint32_t i = 0; i < 64 * r.shape.hidden; i++) {
        g->hidden[i] = dice_float(&d, -1, 1);
    }
    g->plan.hidden = begin > 0 ? g->hidden : NULL;
    return g;
}

static struct rig *rig_with_room(uint32_t begin, uint32_t end)
{
    struct rig *g = rig_new(begin, end);
    struct error e;

    assert_int_equal(forward_alloc_hidden(g->forward, PLANS, ROOM, &e), ST_OK);
    return g;
}

static void rig_free(struct rig *g)
{
    forward_free(&g->forward);
    random_model_free(&g->model);
    free(g->hidden);
    free(g);
}

/* Makes two rows from position 0, on separate blocks and slots. */
static struct plan_row *two_rows(struct rig *g, uint32_t n, uint32_t m)
{
    struct plan *p = &g->plan;

    p->n_rows = p->n_zero = 2;
    p->n_tokens = n + m;
    p->n_blocks = BLOCKS;
    for (uint32_t i = 0; i < n + m; i++) {
        g->tokens[i] = i * 7 % 100;
    }
    for (uint32_t i = 0; i < BLOCKS; i++) {
        g->blocks[i] = SLOTS * g->slot_pages + i;
    }
    for (uint32_t i = 0; i < 2; i++) {
        g->rows[i] = (struct plan_row){.sequence = i,
                                       .n_tokens = i ? m : n,
                                       .token = i ? n : 0,
                                       .block = i * BLOCKS / 2,
                                       .n_blocks = BLOCKS / 2,
                                       .slot = i * g->slot_pages,
                                       .sample = true,
                                       .sampling = &greedy};
        g->zero[i] = i * g->slot_pages;
    }
    return g->rows;
}

static void run(struct rig *g)
{
    forward_run(g->forward, &g->plan, &g->result);
    if (g->result.status != ST_OK) {
        fail_msg("%s", g->result.error.text);
    }
}

static void refused(struct rig *g, const char *text)
{
    forward_run(g->forward, &g->plan, &g->result);
    assert_int_equal(g->result.status, ST_INTERNAL);
    assert_null(g->result.hidden);
    if (strstr(g->result.error.text, text) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", g->result.error.text, text);
    }
}

static void refuses_wrong_plans(void **state)
{
    struct rig *g = rig_with_room(1, 3);

    (void)state;
    two_rows(g, 5, 5);
    g->plan.hidden = NULL;
    refused(g, "no hidden states for layers 1-3 of 4");
    g->plan.hidden = g->hidden;
    two_rows(g, 5, 1)[1].chained = true;
    refused(g, "row 1, sequence 1: chained to row 0, but layers 1-3 of 4 do "
               "not have its token");
    two_rows(g, 5, 5)[0].token = 1;
    refused(g, "row 0, sequence 0: tokens at 1, but those of the previous "
               "rows end at 0");
    two_rows(g, 5, 5)[1].token = 4;
    refused(g, "row 1, sequence 1: tokens at 4");
    two_rows(g, 5, 5)[1].n_tokens = 4;
    refused(g, "rows of 9 tokens in a plan of 10");
    two_rows(g, 5, 5)[1].n_tokens = 6;
    refused(g, "6 tokens at 5 of 10");
    two_rows(g, 5, 5)[0].slot = SLOT_NONE;
    refused(g, "slot at page 4294967295");
    two_rows(g, 5, 5)[0].n_blocks = 1;
    refused(g, "table of 1 blocks for 5 positions");
    two_rows(g, 5, 5);
    run(g);
    rig_free(g);
    g = rig_with_room(0, 2);
    two_rows(g, 5, 5);
    g->plan.hidden = g->hidden;
    refused(g, "hidden states for layers 0-2 of 4");
    g->plan.hidden = NULL;
    g->tokens[9] = 100;
    refused(g, "token id 100 of 100");
    rig_free(g);
}

/* As many tokens as fit, and one more. */
static void knows_its_room(void **state)
{
    struct rig *g = rig_new(0, 2);
    struct kernels_sizes before, after;
    struct error e;

    (void)state;
    two_rows(g, 1, 1);
    refused(g, "a plan of 2 tokens, but hidden states of only 0 fit");
    g->plan.n_rows = g->plan.n_tokens = g->plan.n_zero = 0;
    run(g);
    assert_null(g->result.hidden);
    assert_int_equal(forward_hidden_plans(g->forward), 0);
    forward_sizes(g->forward, &before);
    assert_int_equal(forward_alloc_hidden(g->forward, PLANS, ROOM, &e), ST_OK);
    forward_sizes(g->forward, &after);
    assert_int_equal(after.scratch_bytes - before.scratch_bytes,
                     PLANS * ROOM * g->part.shape.hidden * sizeof(float));
    assert_int_equal(forward_hidden_plans(g->forward), PLANS);
    two_rows(g, 5, ROOM - 5);
    run(g);
    two_rows(g, 5, ROOM - 4);
    refused(g, "a plan of 13 tokens, but hidden states of only 12 fit");
    rig_free(g);
    g = rig_with_room(2, LAYERS); /* writes none, so it needs no room */
    assert_int_equal(forward_hidden_plans(g->forward), UINT32_MAX);
    two_rows(g, 16, 16);
    run(g);
    rig_free(g);
}

/* Hidden states, or the sampling, are missing. */
static void reads_what_is_its_own(void **state)
{
    struct rig *g = rig_with_room(1, 3);
    struct plan_row *rows = two_rows(g, 5, 5);

    (void)state;
    rows[0].sampling = rows[1].sampling = NULL;
    g->plan.tokens = NULL;
    run(g);
    assert_non_null(g->result.hidden);
    assert_int_equal(g->result.tokens[0], TOKEN_NONE);
    assert_int_equal(g->result.tokens[1], TOKEN_NONE);
    rig_free(g);
    g = rig_with_room(2, LAYERS);
    two_rows(g, 5, 5);
    g->plan.tokens = NULL;
    g->rows[0].sample = false;
    run(g);
    assert_null(g->result.hidden);
    assert_int_equal(g->result.tokens[0], TOKEN_NONE);
    assert_in_range(g->result.tokens[1], 0, 99);
    g->rows[1].sampling = NULL;
    refused(g, "has no sampling parameters");
    rig_free(g);
}

/* A shard of one kind: no tables and blocks, or no slots. */
static void needs_no_memory_of_a_kind_it_lacks(void **state)
{
    struct rig *g = rig_with_room(0, 1);
    struct plan_row *rows = two_rows(g, 5, 5);
    struct kernels_sizes z;

    (void)state;
    forward_sizes(g->forward, &z);
    assert_int_equal(z.pages_per_block, 0);
    assert_int_equal(z.pages_per_slot, 1);
    rows[0].n_blocks = rows[1].n_blocks = g->plan.n_blocks = 0;
    g->plan.blocks = NULL;
    run(g);
    g->zero[1] = SLOT_NONE;
    refused(g, "slot to zero at page 4294967295");
    rig_free(g);
    g = rig_with_room(1, 2);
    rows = two_rows(g, 5, 5);
    forward_sizes(g->forward, &z);
    assert_int_equal(z.pages_per_block, 1);
    assert_int_equal(z.pages_per_slot, 0);
    rows[0].slot = rows[1].slot = SLOT_NONE;
    refused(g, "slot to zero at page 0 of 8; slots have 0 pages");
    g->plan.n_zero = 0;
    run(g);
    rig_free(g);
}

/* Each row has the result of a plan with that row alone, in one pass or
 * several. */
static void keeps_the_order_of_rows(void **state)
{
    struct rig *g = rig_with_room(1, 3), *alone = rig_with_room(1, 3);
    size_t h = g->part.shape.hidden;

    (void)state;
    two_rows(g, 5, 7);
    run(g);
    two_rows(alone, 5, 7);
    alone->rows[0] = alone->rows[1];
    alone->rows[0].token = 0;
    alone->plan.hidden += 5 * h;
    alone->plan.n_rows = 1;
    alone->plan.n_tokens = 7;
    run(alone);
    assert_memory_equal(g->result.hidden + 5 * h, alone->result.hidden,
                        7 * h * sizeof(float));
    rig_free(alone);
    rig_free(g);
}

/* The result stays until PLANS more plans have run. */
static void keeps_what_it_gave(void **state)
{
    struct rig *g = rig_with_room(0, 3);
    size_t bytes = 10 * g->part.shape.hidden * sizeof(float);
    const float *first;
    float *copy = malloc(bytes);

    (void)state;
    assert_non_null(copy);
    two_rows(g, 5, 5);
    run(g);
    first = g->result.hidden;
    memcpy(copy, first, bytes);
    two_rows(g, 6, 4);
    for (uint32_t i = 1; i < PLANS; i++) {
        run(g);
        assert_memory_equal(first, copy, bytes);
        assert_memory_not_equal(g->result.hidden, copy, bytes);
    }
    run(g);
    assert_ptr_equal(g->result.hidden, first);
    free(copy);
    rig_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_wrong_plans),
        cmocka_unit_test(knows_its_room),
        cmocka_unit_test(reads_what_is_its_own),
        cmocka_unit_test(needs_no_memory_of_a_kind_it_lacks),
        cmocka_unit_test(keeps_the_order_of_rows),
        cmocka_unit_test(keeps_what_it_gave),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
