/* Each operator against the slow plain reference, on shapes of every kind.
 *
 * x is written, one operator runs over a ragged batch, x is read back.  The
 * pool is full of NaN but for what the sequences have written, so a value that
 * is read from where nothing was written shows in every result behind it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/threads.h"
#include "tests/kernels/random_model.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/test_device.h"
#include "tests/unit/cmocka.h"

#define ROUNDS 60
#define SEQS   3
#define LENGTH 100 /* of a sequence, at most */
#define BLOCKS (SEQS * LENGTH)

struct seq {
    struct reference ref;
    uint32_t length;
    uint32_t blocks[LENGTH];
};

struct bench {
    struct dice dice;
    struct random_shape shape;
    struct random_model model;
    struct kernels *k;
    struct kernels_options o;
    struct seq seqs[SEQS];
    float x[SEQS * LENGTH * 256];
    double most; /* largest error, relative to the largest value */
};

static void poison_blocks(struct bench *b)
{
    const struct model_shape *s = &b->model.w.shape;
    size_t n = (size_t)2 * s->n_kv_heads * s->head_dim * b->o.block_tokens *
               dtype_bytes(b->o.kv_dtype);
    void *nan = malloc(n);

    memset(nan, 0xff, n); /* a NaN in every dtype */
    for (uint32_t l = 0; l < s->n_layers; l++) {
        for (uint32_t i = 0;
             b->model.layers[l].kind == MIXER_ATTENTION && i < BLOCKS; i++) {
            kernels_block_copy(b->k, l, i, nan, true);
        }
    }
    free(nan);
}

static void poison_slots(struct bench *b)
{
    const struct model_shape *s = &b->model.w.shape;
    size_t state = (size_t)s->n_v_heads * s->k_dim * s->v_dim * 4;
    size_t wide = 2 * s->n_k_heads * s->k_dim + s->n_v_heads * s->v_dim;
    void *nan = malloc(state + wide * KERNELS_CONV_MAX * 4);

    memset(nan, 0xff, state + wide * KERNELS_CONV_MAX * 4);
    for (uint32_t l = 0; l < s->n_layers; l++) {
        for (uint32_t i = 0;
             b->model.layers[l].kind == MIXER_DELTANET && i < SEQS; i++) {
            kernels_slot_copy(b->k, l, i, nan, nan, true);
        }
    }
    free(nan);
}

static void open_bench(struct bench *b, uint32_t round, enum mixer_kind kind)
{
    static const uint32_t sizes[] = {1, 2, 8, 16, 32, 64};
    struct error e;

    b->dice.state = round + 1000u * kind;
    random_shape(&b->shape, &b->dice);
    b->shape.shape.n_layers = 1;
    b->shape.mixers[0] = kind;
    random_model_new(&b->model, &b->shape, &b->dice);
    b->o = (struct kernels_options){
        .device = test_device(),
        .kv_dtype = round % 4 == 3 ? DTYPE_BF16 : DTYPE_F32,
        .block_tokens = sizes[round % 6],
        .n_threads = 1 + round % 2,
        .max_tokens = SEQS * LENGTH,
    };
    assert_int_equal(kernels_new(&b->k, &b->model.w, &b->o, &e), ST_OK);
    assert_int_equal(kernels_alloc(b->k, BLOCKS, SEQS, 1, &e), ST_OK);
    poison_blocks(b);
    poison_slots(b);
    b->most = 0.0;
    for (uint32_t i = 0; i < SEQS; i++) {
        struct seq *s = &b->seqs[i];

        reference_new(&s->ref, &b->model.w, b->o.kv_dtype);
        s->length = 1 + dice_below(&b->dice, LENGTH);
        kernels_zero_slot(b->k, i);
        for (uint32_t j = 0; j < LENGTH; j++) {
            s->blocks[j] = (j * SEQS + i) * 7 % BLOCKS;
        }
    }
}

static void close_bench(struct bench *b)
{
    for (uint32_t i = 0; i < SEQS; i++) {
        reference_free(&b->seqs[i].ref);
    }
    kernels_free(&b->k);
    random_model_free(&b->model);
}

typedef void (*operator_fn)(struct kernels *k, uint32_t layer);
typedef void (*expected_fn)(struct reference *r, uint32_t layer, double *x);

static void expected_mlp(struct reference *r, uint32_t layer, double *x)
{
    reference_mlp(r, layer, x);
}

/* The next tokens of each sequence that is not at its end: a ragged batch. */
static uint32_t next_rows(struct bench *b, struct kernel_row *rows,
                          uint32_t *seq_of, uint32_t *n_tokens)
{
    static const uint32_t chunks[] = {1, 1, 2, 15, 16, 17, 33, 64};
    uint32_t n = 0;

    *n_tokens = 0;
    for (uint32_t i = 0; i < SEQS; i++) {
        struct seq *s = &b->seqs[i];
        uint32_t left = s->length - s->ref.position;
        uint32_t chunk = dice_pick(&b->dice, chunks, 8);

        if (left == 0) {
            continue;
        }
        rows[n] = (struct kernel_row){
            .first = *n_tokens,
            .n_tokens = chunk < left ? chunk : left,
            .position = s->ref.position,
            .blocks = s->blocks,
            .slot = i,
        };
        *n_tokens += rows[n].n_tokens;
        seq_of[n++] = i;
    }
    return n;
}

static void compare_row(struct bench *b, const struct kernel_row *row,
                        struct seq *s, expected_fn expected)
{
    uint32_t h = b->model.w.shape.hidden;

    for (uint32_t t = 0; t < row->n_tokens; t++) {
        float out[256];
        double x[256], top = 1.0;

        for (uint32_t i = 0; i < h; i++) {
            x[i] = (double)b->x[(row->first + t) * h + i];
        }
        expected(&s->ref, 0, x);
        s->ref.position++;
        kernels_hidden_read(b->k, row->first + t, 1, out);
        for (uint32_t i = 0; i < h; i++) {
            top = fabs(x[i]) > top ? fabs(x[i]) : top;
        }
        for (uint32_t i = 0; i < h; i++) {
            double d = fabs((double)out[i] - x[i]) / top;

            b->most = d > b->most || d != d ? d : b->most;
        }
    }
}

/* Returns the largest relative error. */
static double run_round(struct bench *b, operator_fn op, expected_fn expected)
{
    struct kernel_row rows[SEQS];
    struct kernel_step step = {.rows = rows};
    uint32_t seq_of[SEQS], h = b->model.w.shape.hidden;

    while ((step.n_rows = next_rows(b, rows, seq_of, &step.n_tokens)) > 0) {
        for (uint32_t i = 0; i < step.n_tokens * h; i++) {
            b->x[i] = dice_float(&b->dice, -2.0f, 2.0f);
        }
        kernels_begin(b->k, &step);
        kernels_hidden_write(b->k, 0, step.n_tokens, b->x);
        op(b->k, 0);
        assert_int_equal(kernels_end(b->k, NULL), ST_OK);
        for (uint32_t i = 0; i < step.n_rows; i++) {
            compare_row(b, &rows[i], &b->seqs[seq_of[i]], expected);
        }
    }
    return b->most;
}

/* A 16-bit cache may round a value the other way than the reference does,
 * where the two differ in the last bit before rounding. */
static double bound(const struct bench *b)
{
    return b->o.kv_dtype == DTYPE_F32 ? 2e-5 : 4e-3;
}

static void check(enum mixer_kind kind, operator_fn op, expected_fn expected)
{
    struct bench *b = calloc(1, sizeof *b);

    assert_non_null(b);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        double most;

        open_bench(b, round, kind);
        most = run_round(b, op, expected);
        if (!(most < bound(b))) {
            fail_msg("round %u: relative error %g", round, most);
        }
        close_bench(b);
    }
    free(b);
}

static void test_attention(void **state)
{
    (void)state;
    check(MIXER_ATTENTION, kernels_attention, reference_attention);
}

static void test_deltanet(void **state)
{
    (void)state;
    check(MIXER_DELTANET, kernels_deltanet, reference_deltanet);
}

static void test_mlp(void **state)
{
    (void)state;
    check(MIXER_ATTENTION, kernels_mlp, expected_mlp);
}

static void check_head(struct bench *b, const uint32_t *tokens, uint32_t n)
{
    const struct model_shape *s = &b->model.w.shape;
    struct kernel_row row = {.n_tokens = n, .blocks = b->seqs[0].blocks};
    struct kernel_step step = {&row, 1, n};
    uint32_t at[3] = {n - 1, 0, n / 2};
    float x[256], logits[512];
    double exact[256], expect[512];

    kernels_begin(b->k, &step);
    kernels_embed(b->k, tokens);
    kernels_head(b->k, at, 3);
    for (uint32_t i = 0; i < 3; i++) {
        reference_embed(&b->seqs[0].ref, tokens[at[i]], exact);
        kernels_hidden_read(b->k, at[i], 1, x);
        for (uint32_t j = 0; j < s->hidden; j++) {
            assert_true((double)x[j] == exact[j]);
        }
        reference_head(&b->seqs[0].ref, exact, expect);
        kernels_logits_read(b->k, i, logits);
        for (uint32_t j = 0; j < s->vocab; j++) {
            assert_true(fabs((double)logits[j] - expect[j]) < 1e-4);
        }
    }
    assert_int_equal(kernels_end(b->k, NULL), ST_OK);
}

static void test_embed_and_head(void **state)
{
    struct bench *b = calloc(1, sizeof *b);
    uint32_t tokens[LENGTH];

    (void)state;
    assert_non_null(b);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        open_bench(b, round, MIXER_DELTANET);
        for (uint32_t i = 0; i < LENGTH; i++) {
            tokens[i] = dice_below(&b->dice, b->model.w.shape.vocab);
        }
        check_head(b, tokens, 1 + dice_below(&b->dice, LENGTH));
        close_bench(b);
    }
    free(b);
}

/* A slot saved, overwritten and loaded again is the slot that was. */
static void test_checkpoint(void **state)
{
    struct bench *b = calloc(1, sizeof *b);
    static float before[65536], after[65536], tail[65536], tail2[65536];

    (void)state;
    assert_non_null(b);
    open_bench(b, 8, MIXER_DELTANET);
    run_round(b, kernels_deltanet, reference_deltanet);
    kernels_slot_copy(b->k, 0, 1, before, tail, false);
    kernels_save_slot(b->k, 1, 0);
    kernels_zero_slot(b->k, 1);
    kernels_slot_copy(b->k, 0, 1, after, tail2, false);
    assert_true(memcmp(before, after, sizeof after) != 0);
    kernels_load_slot(b->k, 0, 1);
    kernels_slot_copy(b->k, 0, 1, after, tail2, false);
    assert_memory_equal(before, after, sizeof after);
    assert_memory_equal(tail, tail2, sizeof tail);
    close_bench(b);
    free(b);
}

/* What is stored of a position is where the canonical layout says. */
static void test_block_layout(void **state)
{
    struct bench *b = calloc(1, sizeof *b);
    const struct model_shape *s;
    float *kv;

    (void)state;
    assert_non_null(b);
    open_bench(b, 10, MIXER_ATTENTION); /* f32, 32 tokens a block */
    s = &b->model.w.shape;
    b->seqs[0].length = LENGTH;
    run_round(b, kernels_attention, reference_attention);
    kv = calloc((size_t)2 * b->o.block_tokens * s->n_kv_heads * s->head_dim,
                sizeof *kv);
    assert_non_null(kv);
    kernels_block_copy(b->k, 0, b->seqs[0].blocks[1], kv, false);
    size_t n = (size_t)b->o.block_tokens * s->n_kv_heads * s->head_dim;

    for (size_t i = 0; i < n; i++) {
        const struct reference_layer *l = &b->seqs[0].ref.layers[0];

        assert_true(fabs((double)kv[i] - l->k[n + i]) < 1e-4);
        assert_true(fabs((double)kv[n + i] - l->v[n + i]) < 1e-4);
    }
    free(kv);
    close_bench(b);
    free(b);
}

static void expect_refused(struct random_shape *r, struct kernels_options *o,
                           enum status code)
{
    struct dice d = {1};
    struct random_model m;
    struct kernels *k;
    struct error e;

    random_model_new(&m, r, &d);
    assert_int_equal(kernels_new(&k, &m.w, o, &e), code);
    assert_null(k);
    assert_true(strlen(e.text) > 10);
    random_model_free(&m);
}

static void test_limits(void **state)
{
    struct dice d = {7};
    struct random_shape r;
    struct kernels_options o = {.device = "cpu", .block_tokens = 32};

    (void)state;
    random_shape(&r, &d);
    o.block_tokens = KERNELS_BLOCK_MAX + 1;
    expect_refused(&r, &o, ST_INVALID_ARGUMENT);
    o.block_tokens = 24;
    expect_refused(&r, &o, ST_INVALID_ARGUMENT);
    o.block_tokens = 32;
    o.device = "abacus";
    expect_refused(&r, &o, ST_NOT_FOUND);
    o.device = "cpu";
    o.isa = "mmx";
    expect_refused(&r, &o, ST_UNIMPLEMENTED);
    o.isa = NULL;
    o.pin = true; /* a thread more than there are cpus */
    o.n_threads = threads_default() + 1;
    expect_refused(&r, &o, ST_INVALID_ARGUMENT);
    o.pin = false;
    o.n_threads = 0;
    r.shape.k_dim = KERNELS_STATE_DIM_MAX + 1;
    expect_refused(&r, &o, ST_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_deltanet),
        cmocka_unit_test(test_mlp),
        cmocka_unit_test(test_embed_and_head),
        cmocka_unit_test(test_checkpoint),
        cmocka_unit_test(test_block_layout),
        cmocka_unit_test(test_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
