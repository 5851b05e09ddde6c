/* A damaged sequence beside a whole one: the embedding of one id is NaN.
 *
 *   plan 1   A [0, 17), B [0, 9): prompts; that of A has the damaged id
 *   plan 2   A and B, each chained to its row of plan 1
 *   plan 3   C [0, 13) in the blocks and the slot that A had, and B
 *
 * Every logit of B and C has the bits that it has without the damage.  The
 * device is that of SLUICE_TEST_DEVICE. */
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/random_model.h"
#include "tests/kernels/test_device.h"
#include "tests/unit/cmocka.h"
#include "worker/engine/forward.h"

#define VOCAB   100
#define DAMAGED 42
#define PLANS   3
#define LONG    17 /* tokens of A's prompt */
#define SHORT   9  /* of B's */
#define NEXT    13 /* of C's: NaN of A is behind them in the same block */
#define EACH    5  /* blocks of a sequence */

static const struct sampling greedy = {.top_p = 1, .repetition_penalty = 1};

struct bench {
    struct random_model model;
    struct forward *forward;
    struct plan plan;
    struct plan_row rows[2];
    uint32_t tokens[64], blocks[2 * EACH], zero[2];
    uint32_t slot_pages; /* the slots come before the blocks */
    struct plan_result result;
    float logits[2][VOCAB]; /* of the newest plan's rows */
};

/* The results of all plans of a run. */
struct life {
    uint32_t tokens[PLANS][2];
    uint8_t outcomes[PLANS][2];
    float logits[PLANS][2][VOCAB];
};

static void keep_logits(void *ctx, struct kernels *k, uint32_t row, uint32_t at,
                        uint32_t i)
{
    assert_int_equal(at, 0);
    kernels_logits_read(k, i, ((struct bench *)ctx)->logits[row]);
}

/* Makes the embedding of DAMAGED a NaN, before the backend copies it. */
static void damage(const struct random_model *m)
{
    const struct tensor *t = &m->w.embed;
    size_t bytes = tensor_row_bytes(t);

    memset((char *)(uintptr_t)t->data + DAMAGED * bytes, 0xff, bytes);
}

static struct bench *bench_new(void)
{
    struct bench *b = calloc(1, sizeof *b);
    struct kernels_options o = {
        .device = test_device(), .block_tokens = 4, .max_tokens = 64};
    const struct forward_tap tap = {.ctx = b, .logits = keep_logits};
    struct dice d = {11};
    struct random_shape r;
    struct kernels_sizes sizes;
    struct error e;

    assert_non_null(b);
    random_shape(&r, &d);
    r.shape.n_layers = 2;
    r.shape.vocab = VOCAB;
    r.shape.hidden = 64;
    r.shape.dtype = DTYPE_BF16;
    r.quantised = r.tied = false; /* a tied head would damage every logit */
    r.mixers[0] = MIXER_DELTANET;
    r.mixers[1] = MIXER_ATTENTION;
    random_model_new(&b->model, &r, &d);
    damage(&b->model);
    b->plan.rows = b->rows;
    b->plan.tokens = b->tokens;
    b->plan.blocks = b->blocks;
    b->plan.zero_slots = b->zero;
    if (forward_new(&b->forward, &b->model.w, &o, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    forward_sizes(b->forward, &sizes);
    b->slot_pages = sizes.pages_per_slot;
    if (forward_alloc(b->forward, 2 * b->slot_pages + 2 * EACH, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    forward_set_tap(b->forward, &tap);
    return b;
}

static void bench_free(struct bench *b)
{
    forward_free(&b->forward);
    random_model_free(&b->model);
    free(b);
}

/* Adds a row of the sequence in place 0 or 1: its blocks and its slot. */
static struct plan_row *add_row(struct bench *b, uint32_t place, uint32_t at,
                                uint32_t n, uint32_t salt)
{
    struct plan *p = &b->plan;
    struct plan_row *row = &p->rows[p->n_rows++];

    *row = (struct plan_row){.kind = at > 0 ? ROW_GENERATED : ROW_PROMPT,
                             .sequence = salt,
                             .position = at,
                             .n_tokens = n,
                             .token = p->n_tokens,
                             .chained = at > 0,
                             .chain_row = place,
                             .block = p->n_blocks,
                             .n_blocks = EACH,
                             .slot = place * b->slot_pages,
                             .sample = true,
                             .sampling = &greedy};
    for (uint32_t i = 0; i < EACH; i++) {
        p->blocks[p->n_blocks++] = 2 * b->slot_pages + place * EACH + i;
    }
    for (uint32_t i = 0; i < n; i++) {
        p->tokens[p->n_tokens++] = (i * 7 + salt) % (DAMAGED - 1);
    }
    if (at == 0) {
        p->zero_slots[p->n_zero++] = place * b->slot_pages;
    }
    return row;
}

static void run(struct bench *b, struct life *out, uint32_t i)
{
    forward_run(b->forward, &b->plan, &b->result);
    assert_int_equal(b->result.status, ST_OK);
    assert_int_equal(b->result.n_rows, 2);
    memcpy(out->tokens[i], b->result.tokens, sizeof out->tokens[i]);
    memcpy(out->outcomes[i], b->result.outcomes, sizeof out->outcomes[i]);
    memcpy(out->logits[i], b->logits, sizeof out->logits[i]);
    memset(b->logits, 0, sizeof b->logits);
    b->plan.step++;
    b->plan.n_rows = b->plan.n_tokens = b->plan.n_blocks = b->plan.n_zero = 0;
}

static void live(struct bench *b, uint32_t id, struct life *out)
{
    add_row(b, 0, 0, LONG, 1);
    b->tokens[5] = id;
    add_row(b, 1, 0, SHORT, 2);
    run(b, out, 0);
    add_row(b, 0, LONG, 1, 1);
    add_row(b, 1, SHORT, 1, 2);
    run(b, out, 1);
    add_row(b, 0, 0, NEXT, 3);
    add_row(b, 1, SHORT + 1, 1, 2);
    run(b, out, 2);
}

static void test_damaged_row(void **state)
{
    static struct life whole, hurt;
    struct bench *b = bench_new();

    (void)state;
    live(b, 3, &whole);
    live(b, DAMAGED, &hurt);
    for (uint32_t i = 0; i < PLANS; i++) {
        assert_int_equal(hurt.outcomes[i][1], ROW_DONE);
        assert_int_equal(hurt.tokens[i][1], whole.tokens[i][1]);
        assert_memory_equal(hurt.logits[i][1], whole.logits[i][1],
                            sizeof hurt.logits[i][1]);
    }
    assert_int_equal(hurt.outcomes[0][0], ROW_NOT_FINITE);
    assert_int_equal(hurt.tokens[0][0], TOKEN_NONE);
    assert_int_equal(hurt.outcomes[1][0], ROW_CUT_OFF);
    assert_int_equal(hurt.tokens[1][0], TOKEN_NONE);
    /* The next owner of the blocks and the slot. */
    assert_int_equal(hurt.outcomes[2][0], ROW_DONE);
    assert_int_equal(hurt.tokens[2][0], whole.tokens[2][0]);
    assert_memory_equal(hurt.logits[2][0], whole.logits[2][0],
                        sizeof hurt.logits[2][0]);
    bench_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damaged_row),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
