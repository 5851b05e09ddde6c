/* The forward pass as the engine meets it: plans that are wrong, chained rows,
 * logits that are not finite. */
#include "worker/forward.h"

#include <stdlib.h>
#include <string.h>

#include "tests/kernels/random_model.h"
#include "tests/unit/cmocka.h"

#define BLOCKS 8
#define SLOTS  2

static const struct sampling greedy = {.top_p = 1, .repetition_penalty = 1};

struct rig {
    struct random_model model;
    struct forward *forward;
    struct plan plan;
    struct plan_row rows[4];
    uint32_t tokens[64], blocks[64], zero[4];
    struct plan_result result;
};

static struct rig *rig_new(void)
{
    struct rig *g = calloc(1, sizeof *g);
    struct kernels_options o = {
        .device = "cpu", .block_tokens = 4, .max_tokens = 8, .n_threads = 1};
    struct dice d = {11};
    struct random_shape r;
    struct error e;

    assert_non_null(g);
    random_shape(&r, &d);
    r.shape.n_layers = 2;
    r.shape.vocab = 100;
    r.mixers[0] = MIXER_DELTANET;
    r.mixers[1] = MIXER_ATTENTION;
    random_model_new(&g->model, &r, &d);
    assert_int_equal(forward_new(&g->forward, &g->model.w, &o, &e), ST_OK);
    assert_int_equal(forward_alloc(g->forward, BLOCKS, SLOTS, 0, &e), ST_OK);
    g->plan.rows = g->rows;
    g->plan.tokens = g->tokens;
    g->plan.blocks = g->blocks;
    g->plan.zero_slots = g->zero;
    return g;
}

static void rig_free(struct rig *g)
{
    forward_free(&g->forward);
    random_model_free(&g->model);
    free(g);
}

/* A plan of one row on blocks 0, 1, ... and slot 0. */
static struct plan_row *one_row(struct rig *g, uint32_t position, uint32_t n)
{
    g->plan.step++;
    g->plan.n_rows = 1;
    g->plan.n_tokens = n;
    g->plan.n_blocks = (position + n + 3) / 4;
    g->plan.n_zero = position == 0;
    g->zero[0] = 0;
    for (uint32_t i = 0; i < n; i++) {
        g->tokens[i] = (position + i) * 7 % 100;
    }
    for (uint32_t i = 0; i < g->plan.n_blocks; i++) {
        g->blocks[i] = i;
    }
    g->rows[0] = (struct plan_row){.kind = ROW_PROMPT,
                                   .position = position,
                                   .n_tokens = n,
                                   .n_blocks = g->plan.n_blocks,
                                   .sample = true,
                                   .sampling = &greedy};
    return &g->rows[0];
}

static uint32_t run(struct rig *g)
{
    forward_run(g->forward, &g->plan, &g->result);
    assert_int_equal(g->result.status, ST_OK);
    assert_int_equal(g->result.step, g->plan.step);
    return g->result.tokens[0];
}

static void refused(struct rig *g, enum status code, const char *text)
{
    forward_run(g->forward, &g->plan, &g->result);
    assert_int_equal(g->result.status, code);
    assert_int_equal(g->result.error.code, code);
    assert_int_equal(g->result.n_rows, 1);
    assert_int_equal(g->result.tokens[0], TOKEN_NONE);
    if (strstr(g->result.error.text, text) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", g->result.error.text, text);
    }
}

static void test_wrong_plans(void **state)
{
    struct rig *g = rig_new();

    (void)state;
    one_row(g, 0, 10);
    g->tokens[9] = 100;
    refused(g, ST_INTERNAL, "row 0, sequence 0: token id 100 of 100");
    one_row(g, 0, 10);
    g->blocks[2] = BLOCKS;
    refused(g, ST_INTERNAL, "block 8 of 8");
    one_row(g, 0, 10)->n_blocks = 2;
    refused(g, ST_INTERNAL, "table of 2 blocks for 10 positions");
    one_row(g, 0, 10)->block = 1;
    refused(g, ST_INTERNAL, "table");
    one_row(g, 0, 10)->slot = SLOTS;
    refused(g, ST_INTERNAL, "slot 2 of 2");
    one_row(g, 0, 10)->token = 1;
    refused(g, ST_INTERNAL, "10 tokens at 1 of 10");
    one_row(g, 0, 10)->n_tokens = 0;
    refused(g, ST_INTERNAL, "0 tokens");
    one_row(g, 0, 10);
    g->zero[0] = SLOTS;
    refused(g, ST_INTERNAL, "slot 2 of 2 to zero");
    one_row(g, 0, 10);
    run(g);
    rig_free(g);
}

/* A chained row is the row with the token written out. */
static void test_chained(void **state)
{
    struct rig *g = rig_new();
    struct plan_row *row;
    uint32_t first, second;

    (void)state;
    one_row(g, 0, 10);
    first = run(g);
    one_row(g, 10, 1);
    g->tokens[0] = first;
    second = run(g);

    one_row(g, 0, 10);
    assert_int_equal(run(g), first);
    row = one_row(g, 10, 1);
    row->chained = true;
    g->tokens[0] = TOKEN_NONE; /* not read */
    assert_int_equal(run(g), second);
    rig_free(g);
}

static void test_chained_to_nothing(void **state)
{
    struct rig *g = rig_new();

    (void)state;
    one_row(g, 0, 1)->chained = true;
    refused(g, ST_INTERNAL, "chained to row 0");
    one_row(g, 0, 10)->sample = false;
    forward_run(g->forward, &g->plan, &g->result);
    assert_int_equal(g->result.status, ST_OK);
    assert_int_equal(g->result.tokens[0], TOKEN_NONE);
    one_row(g, 10, 1)->chained = true;
    refused(g, ST_INTERNAL, "chose no token");
    one_row(g, 10, 1)->chained = true;
    refused(g, ST_ABORTED, "the step before failed");
    rig_free(g);
}

/* A weight that is not a number: the plan fails, and says so. */
static void test_not_finite(void **state)
{
    struct rig *g = rig_new();
    float *gamma = (float *)(uintptr_t)g->model.w.final_norm;
    float kept = gamma[0];

    (void)state;
    one_row(g, 0, 10);
    memset(&gamma[0], 0xff, sizeof gamma[0]);
    refused(g, ST_INTERNAL, "not finite");
    gamma[0] = kept;
    run(g);
    rig_free(g);
}

/* Scratch and pool are what the shape says; a part of a model is refused. */
static void test_sizes(void **state)
{
    struct rig *g = rig_new();
    const struct model_shape *s = &g->model.w.shape;
    struct kernels_options o = {.device = "cpu", .block_tokens = 4};
    struct kernels_sizes z;
    struct forward *f;
    struct error e;
    size_t channels = 2 * s->n_k_heads * s->k_dim + s->n_v_heads * s->v_dim;
    size_t state_size = s->n_v_heads * s->k_dim * s->v_dim;

    (void)state;
    forward_sizes(g->forward, &z);
    assert_int_equal(z.block_bytes, 2 * s->n_kv_heads * s->head_dim * 4 * 4);
    assert_int_equal(z.slot_bytes, (state_size + (s->conv - 1) * channels) * 4);
    assert_true(z.scratch_bytes >= 8 * s->hidden * 4);
    assert_true(forward_progress(g->forward) == 0);
    one_row(g, 0, 20);
    run(g);
    assert_true(forward_progress(g->forward) > 20);
    g->model.w.begin = 1;
    assert_int_equal(forward_new(&f, &g->model.w, &o, &e), ST_UNIMPLEMENTED);
    assert_null(f);
    g->model.w.begin = 0;
    rig_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_plans),
        cmocka_unit_test(test_chained),
        cmocka_unit_test(test_chained_to_nothing),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_sizes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
