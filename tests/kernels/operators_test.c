/* Tests each operator against the slow plain reference, on shapes of every
 * kind. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backends/backend.h"
#include "kernels/cpu/threads.h"
#include "tests/kernels/bench.h"
#include "tests/kernels/test_device.h"
#include "tests/unit/cmocka.h"

/* Each kind of shape several times; sanitizers are slow. */
#ifdef __SANITIZE_ADDRESS__
#define ROUNDS   12
#define FEATURES 2
#define TIMES    1 /* of a quantised format */
#else
#define ROUNDS   60
#define FEATURES 8
#define TIMES    2
#endif

static void open_bench(struct bench *b, uint32_t round, enum mixer_kind kind)
{
    static const uint32_t sizes[] = {1, 2, 8, 16, 32, 64};
    struct random_shape shape;

    b->dice.state = round + 1000u * kind;
    random_shape(&shape, &b->dice);
    shape.shape.n_layers = 1;
    shape.mixers[0] = kind;
    b->o = (struct kernels_options){
        .device = test_device(),
        .kv.dtype = round % 4 == 3 ? DTYPE_BF16 : DTYPE_F32,
        .block_tokens = sizes[round % 6],
        .n_threads = 1 + round % 2,
        .max_tokens = BENCH_SEQS * BENCH_LENGTH,
    };
    bench_open(b, &shape);
}

static void expected_mlp(struct reference *r, uint32_t layer, double *x)
{
    reference_mlp(r, layer, x);
}

/* A 16-bit cache may round a value differently from the reference, where the
 * two differ in the last bit before rounding. */
static double bound(const struct bench *b)
{
    return b->o.kv.dtype == DTYPE_F32 ? 2e-5 : 4e-3;
}

static void check(enum mixer_kind kind, bench_operator_fn op,
                  bench_expected_fn expected)
{
    struct bench *b = calloc(1, sizeof *b);

    assert_non_null(b);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        double most;

        open_bench(b, round, kind);
        most = bench_run(b, 0, op, expected);
        if (!(most < bound(b))) {
            fail_msg("round %u: relative error %g", round, most);
        }
        bench_close(b);
    }
    free(b);
}

static void test_attention(void **state)
{
    (void)state;
    check(MIXER_ATTENTION, kernels_mixer, reference_attention);
}

/* Every format, in blocks of every size; codes that differ from the reference's
 * are few. */
static void quantised_attention_matches_the_reference(void **state)
{
    static const uint32_t sizes[] = {1, 2, 8, 16, 32, 64};
    struct bench *b = calloc(1, sizeof *b);
    const uint32_t first = 3; /* past the plain ones */
    const uint32_t n = RANDOM_KV_FORMATS - first;

    (void)state;
    assert_non_null(b);
    for (uint32_t round = 0; round < TIMES * n; round++) {
        struct random_shape shape;
        double most;

        b->dice.state = round + 500;
        random_shape(&shape, &b->dice);
        shape.shape.n_layers = 1;
        shape.mixers[0] = MIXER_ATTENTION;
        b->o = (struct kernels_options){
            .device = test_device(),
            .kv = random_kv_format(first + round % n, &shape.shape),
            .block_tokens = sizes[round % 6],
            .n_threads = 1 + round % 2,
            .max_tokens = BENCH_SEQS * BENCH_LENGTH,
        };
        bench_open(b, &shape);
        most = bench_run(b, 0, kernels_mixer, reference_attention);
        if (!(most < 2e-5)) {
            fail_msg("round %u: relative error %g", round, most);
        }
        bench_close(b);
    }
    assert_true(b->n_codes > 100000);
    assert_true(b->n_differ < b->n_codes / 500);
    free(b);
}

/* Two quantised layers and the plain one, each in its own bytes of a page. */
static void one_layer_stays_plain(void **state)
{
    static char before[BENCH_BLOCK_BYTES], after[BENCH_BLOCK_BYTES];
    struct bench *b = calloc(1, sizeof *b);

    (void)state;
    assert_non_null(b);
    for (uint32_t n = 4; n < RANDOM_KV_FORMATS; n += 4) {
        struct random_shape shape;

        b->dice.state = n;
        random_shape(&shape, &b->dice);
        shape.shape.n_layers = 4;
        for (uint32_t i = 0; i < 4; i++) {
            shape.mixers[i] = i == 1 ? MIXER_DELTANET : MIXER_ATTENTION;
        }
        b->o = (struct kernels_options){
            .device = test_device(),
            .kv = random_kv_format(n, &shape.shape),
            .block_tokens = 16,
            .n_threads = 1,
            .max_tokens = BENCH_SEQS * BENCH_LENGTH,
        };
        b->o.kv.whole = 2;
        bench_open(b, &shape);
        for (uint32_t i = 0; i < 4; i++) {
            if (i != 1) {
                assert_true(
                    bench_run(b, i, kernels_mixer, reference_attention) < 4e-3);
                bench_rewind(b);
            }
            kernels_block_copy(b->k, 0, b->seqs[1].blocks[0],
                               i == 0 ? before : after, false);
        }
        assert_memory_equal(before, after, sizeof before);
        bench_close(b);
    }
    free(b);
}

/* ---- windows, caps, experts ---- */

/* Opens a model of one layer of this kind with random features, or of more
 * window layers. */
static void open_features(struct bench *b, uint32_t round, enum mixer_kind kind,
                          enum ffn_kind ffn, uint32_t n_layers)
{
    static const uint32_t sizes[] = {1, 2, 8, 16, 32, 64};
    struct random_shape shape;

    b->dice.state = 7000 + round + 1000u * kind;
    random_shape(&shape, &b->dice);
    shape.shape.n_layers = n_layers;
    random_features(&shape, &b->dice);
    for (uint32_t i = 0; i < n_layers; i++) {
        shape.mixers[i] = kind;
        shape.ffns[i] = ffn;
    }
    b->o = (struct kernels_options){
        .device = test_device(),
        .kv.dtype = round % 4 == 3 ? DTYPE_BF16 : DTYPE_F32,
        .block_tokens = sizes[round % 6],
        .n_threads = 1 + round % 2,
        .max_tokens = BENCH_SEQS * BENCH_LENGTH,
    };
    bench_open(b, &shape);
}

static void check_features(enum mixer_kind kind, enum ffn_kind ffn,
                           bench_operator_fn op, bench_expected_fn expected)
{
    struct bench *b = calloc(1, sizeof *b);

    assert_non_null(b);
    for (uint32_t round = 0; round < FEATURES; round++) {
        double most;

        open_features(b, round, kind, ffn, 1);
        most = bench_run(b, 0, op, expected);
        if (!(most < bound(b))) {
            fail_msg("round %u: relative error %g", round, most);
        }
        bench_close(b);
    }
    free(b);
}

static void attention_has_sinks_caps_and_yarn(void **state)
{
    (void)state;
    check_features(MIXER_ATTENTION, FFN_DENSE, kernels_mixer,
                   reference_attention);
}

static void windows_match_the_reference(void **state)
{
    (void)state;
    check_features(MIXER_WINDOW, FFN_DENSE, kernels_mixer, reference_attention);
}

static void norms_follow_linear_layers(void **state)
{
    (void)state;
    check_features(MIXER_DELTANET, FFN_DENSE, kernels_mixer,
                   reference_deltanet);
}

static void mlps_have_any_activation(void **state)
{
    (void)state;
    check_features(MIXER_ATTENTION, FFN_DENSE, kernels_ffn, reference_ffn);
}

static void experts_match_the_reference(void **state)
{
    (void)state;
    check_features(MIXER_ATTENTION, FFN_EXPERTS, kernels_ffn, reference_ffn);
}

/* Each of several window layers has its own table of pages. */
static void window_layers_have_their_own_pages(void **state)
{
    struct bench *b = calloc(1, sizeof *b);

    (void)state;
    assert_non_null(b);
    for (uint32_t round = 0; round < FEATURES / 2; round++) {
        open_features(b, round, MIXER_WINDOW, FFN_DENSE, 3);
        for (uint32_t i = 0; i < 3; i++) {
            assert_true(bench_run(b, i, kernels_mixer, reference_attention) <
                        bound(b));
            bench_rewind(b);
        }
        bench_close(b);
    }
    free(b);
}

/* Embedding, each product and the head in each format. */
static void formats_match_the_reference(void **state)
{
    struct bench *b = calloc(1, sizeof *b);
    uint32_t tokens[BENCH_LENGTH];

    (void)state;
    assert_non_null(b);
    for (uint32_t round = 0; round < WEIGHT_FORMATS; round++) {
        struct random_shape shape;
        double most;

        b->dice.state = 300 + round;
        random_shape(&shape, &b->dice);
        shape.shape.n_layers = 2;
        random_features(&shape, &b->dice);
        random_format(&shape, (enum weight_format)round);
        shape.mixers[0] = shape.mixers[1] = MIXER_ATTENTION;
        shape.ffns[0] = FFN_DENSE;
        shape.ffns[1] = FFN_EXPERTS;
        b->o = (struct kernels_options){
            .device = test_device(),
            .block_tokens = 16,
            .n_threads = 2,
            .max_tokens = BENCH_SEQS * BENCH_LENGTH,
        };
        bench_open(b, &shape);
        most = bench_run(b, 0, kernels_mixer, reference_attention);
        for (uint32_t i = 0; i < 2; i++) {
            bench_restart(b);
            most = fmax(most, bench_run(b, i, kernels_ffn, reference_ffn));
        }
        for (uint32_t i = 0; i < BENCH_LENGTH; i++) {
            tokens[i] = dice_below(&b->dice, b->model.w.shape.vocab);
        }
        most = fmax(most, bench_head(b, tokens, 1 + round));
        if (!(most < 1e-4)) {
            fail_msg("round %u: relative error %g", round, most);
        }
        bench_close(b);
    }
    free(b);
}

static void test_deltanet(void **state)
{
    (void)state;
    check(MIXER_DELTANET, kernels_mixer, reference_deltanet);
}

static void test_mlp(void **state)
{
    (void)state;
    check(MIXER_ATTENTION, kernels_ffn, expected_mlp);
}

static void test_embed_and_head(void **state)
{
    struct bench *b = calloc(1, sizeof *b);
    uint32_t tokens[BENCH_LENGTH];

    (void)state;
    assert_non_null(b);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        open_bench(b, round, MIXER_DELTANET);
        for (uint32_t i = 0; i < BENCH_LENGTH; i++) {
            tokens[i] = dice_below(&b->dice, b->model.w.shape.vocab);
        }
        assert_true(bench_head(b, tokens,
                               1 + dice_below(&b->dice, BENCH_LENGTH)) < 1e-4);
        bench_close(b);
    }
    free(b);
}

/* A slot that is copied, overwritten and copied back has its old contents. */
static void test_checkpoint(void **state)
{
    struct bench *b = calloc(1, sizeof *b);
    static float before[65536], after[65536], tail[65536], tail2[65536];
    uint32_t slot, checkpoint;

    (void)state;
    assert_non_null(b);
    open_bench(b, 8, MIXER_DELTANET);
    slot = b->seqs[1].slot;
    checkpoint = BENCH_SEQS * b->pages_per_slot;
    bench_run(b, 0, kernels_mixer, reference_deltanet);
    kernels_slot_copy(b->k, 0, slot, (void *[MIXER_PARTS_MAX]){before, tail},
                      false);
    kernels_copy_pages(b->k, slot, checkpoint, b->pages_per_slot);
    kernels_zero_slot(b->k, slot);
    kernels_slot_copy(b->k, 0, slot, (void *[MIXER_PARTS_MAX]){after, tail2},
                      false);
    assert_true(memcmp(before, after, sizeof after) != 0);
    kernels_copy_pages(b->k, checkpoint, slot, b->pages_per_slot);
    kernels_slot_copy(b->k, 0, slot, (void *[MIXER_PARTS_MAX]){after, tail2},
                      false);
    assert_memory_equal(before, after, sizeof after);
    assert_memory_equal(tail, tail2, sizeof tail);
    bench_close(b);
    free(b);
}

/* A position's values are stored where the canonical layout has them. */
static void test_block_layout(void **state)
{
    struct bench *b = calloc(1, sizeof *b);
    const struct model_shape *s;
    float *kv;

    (void)state;
    assert_non_null(b);
    open_bench(b, 10, MIXER_ATTENTION); /* f32, 32 tokens a block */
    s = &b->model.w.shape;
    b->seqs[0].length = BENCH_LENGTH;
    bench_run(b, 0, kernels_mixer, reference_attention);
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
    bench_close(b);
    free(b);
}

/* The bytes of struct kv_block, of whole blocks and of those in part. */
static void quantised_block_is_copied_out_and_in(void **state)
{
    struct bench *b = calloc(1, sizeof *b);

    (void)state;
    assert_non_null(b);
    for (uint32_t n = 3; n < RANDOM_KV_FORMATS; n++) {
        struct random_shape shape;
        struct kv_block at;
        uint8_t *first, *other;

        b->dice.state = n;
        random_shape(&shape, &b->dice);
        shape.shape.n_layers = 1;
        shape.mixers[0] = MIXER_ATTENTION;
        b->o = (struct kernels_options){
            .device = test_device(),
            .kv = random_kv_format(n, &shape.shape),
            .block_tokens = 8,
            .max_tokens = BENCH_SEQS * BENCH_LENGTH,
        };
        bench_open(b, &shape);
        b->seqs[0].length = b->seqs[1].length = b->seqs[2].length = 9;
        bench_run(b, 0, kernels_mixer, reference_attention);
        kv_block_make(&at, &b->o.kv, shape.shape.n_kv_heads,
                      shape.shape.head_dim, 8);
        first = malloc(at.bytes + 1);
        other = malloc(at.bytes + 1);
        assert_true(first != NULL && other != NULL);
        first[at.bytes] = 0x5a;
        kernels_block_copy(b->k, 0, b->seqs[0].blocks[0], first, false);
        assert_int_equal(first[at.bytes], 0x5a);
        kernels_block_copy(b->k, 0, b->seqs[1].blocks[20], first, true);
        kernels_block_copy(b->k, 0, b->seqs[1].blocks[20], other, false);
        assert_memory_equal(first, other, at.bytes);
        kernels_copy_pages(b->k, b->seqs[0].blocks[0], b->seqs[2].blocks[20],
                           1);
        kernels_block_copy(b->k, 0, b->seqs[2].blocks[20], other, false);
        assert_memory_equal(first, other, at.bytes);
        kernels_poison_pages(b->k, b->seqs[2].blocks[20], 1);
        kernels_block_copy(b->k, 0, b->seqs[2].blocks[20], other, false);
        for (size_t i = 0; i < at.bytes; i++) {
            assert_int_equal(other[i], 0xff);
        }
        free(first);
        free(other);
        bench_close(b);
    }
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
    assert_int_equal(backend_new(&k, &m.w, o, &e), code);
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
    o.pin = true; /* one thread more than CPUs */
    o.n_threads = threads_default() + 1;
    expect_refused(&r, &o, ST_INVALID_ARGUMENT);
    o.pin = false;
    o.n_threads = 0;
    r.shape.k_dim = KERNELS_STATE_DIM_MAX + 1;
    expect_refused(&r, &o, ST_INVALID_ARGUMENT);
}

static void expect_served(struct random_shape *r)
{
    struct kernels_options o = {.device = "cpu",
                                .block_tokens = 32,
                                .max_tokens = 1,
                                .max_rows = 1,
                                .max_logits = 1,
                                .n_threads = 1};
    struct dice d = {1};
    struct random_model m;
    struct kernels *k;
    struct error e;

    random_model_new(&m, r, &d);
    assert_int_equal(backend_new(&k, &m.w, &o, &e), ST_OK);
    kernels_free(&k);
    random_model_free(&m);
}

/* The sizes of the largest models that people run are within the limits, and
 * one past each limit is refused. */
static void experts_past_their_limits_are_refused(void **state)
{
    struct kernels_options o = {.device = "cpu", .block_tokens = 32};
    struct dice d = {7};
    struct random_shape r;

    (void)state;
    random_shape(&r, &d);
    r.shape.n_layers = 1;
    random_features(&r, &d);
    r.mixers[0] = MIXER_WINDOW;
    r.ffns[0] = FFN_EXPERTS;
    r.shape.hidden = 16, r.shape.expert_dim = 1, r.shape.shared_dim = 0;
    r.shape.n_experts = KERNELS_EXPERTS_MAX;
    r.shape.top_k = KERNELS_TOP_K_MAX;
    expect_served(&r);
    r.shape.n_experts++;
    expect_refused(&r, &o, ST_INVALID_ARGUMENT);
    r.shape.n_experts--;
    r.shape.top_k++;
    expect_refused(&r, &o, ST_INVALID_ARGUMENT);
    r.shape.top_k = 4, r.shape.n_experts = 3;
    expect_refused(&r, &o, ST_INVALID_ARGUMENT);
    r.shape.top_k = 3;
    expect_served(&r);
    r.shape.window = 0;
    expect_refused(&r, &o, ST_INVALID_ARGUMENT);
    r.shape.window = 1;
    r.shape.window_rope.dim = r.shape.head_dim + 2;
    expect_refused(&r, &o, ST_INVALID_ARGUMENT);
}

static void groups_past_their_limit_are_refused(void **state)
{
    struct kernels_options o = {.device = "cpu", .block_tokens = 32};
    struct dice d = {7};
    struct random_shape r;

    (void)state;
    random_shape(&r, &d);
    r.shape.head_dim = 8, r.shape.rope.dim = 8;
    r.shape.n_kv_heads = 2;
    r.shape.n_heads = 2 * KERNELS_GROUP_MAX;
    expect_served(&r);
    r.shape.n_heads += 2;
    expect_refused(&r, &o, ST_INVALID_ARGUMENT);
}

/* Each scheme at its limits and one past them. */
static void formats_past_their_limits_are_refused(void **state)
{
    static const struct {
        uint32_t head_dim;
        struct kv_format kv;
    } bad[] = {
        {64, {DTYPE_BF16, KV_TURBOQUANT, 1, 2, 0, KV_NO_LAYER}},
        {64, {DTYPE_BF16, KV_TURBOQUANT, 4, 5, 0, KV_NO_LAYER}},
        {96, {DTYPE_BF16, KV_TURBOQUANT, 3, 4, 0, KV_NO_LAYER}},
        {8, {DTYPE_BF16, KV_TURBOQUANT, 3, 4, 0, KV_NO_LAYER}},
        {64, {DTYPE_BF16, KV_AFFINE, 8, 8, 16, KV_NO_LAYER}},
        {256, {DTYPE_BF16, KV_AFFINE, 8, 8, 256, KV_NO_LAYER}},
        {64, {DTYPE_BF16, KV_AFFINE, 8, 8, 128, KV_NO_LAYER}},
        {64, {DTYPE_BF16, KV_AFFINE, 3, 3, 64, KV_NO_LAYER}},
        {64, {DTYPE_BF16, KV_AFFINE, 8, 4, 64, KV_NO_LAYER}},
    };
    struct kernels_options o = {.device = "cpu", .block_tokens = 32};
    struct dice d = {7};
    struct random_shape r;

    (void)state;
    random_shape(&r, &d);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        r.shape.head_dim = bad[i].head_dim;
        r.shape.rope.dim = 0;
        o.kv = bad[i].kv;
        expect_refused(&r, &o, ST_INVALID_ARGUMENT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention),
        cmocka_unit_test(quantised_attention_matches_the_reference),
        cmocka_unit_test(one_layer_stays_plain),
        cmocka_unit_test(quantised_block_is_copied_out_and_in),
        cmocka_unit_test(attention_has_sinks_caps_and_yarn),
        cmocka_unit_test(windows_match_the_reference),
        cmocka_unit_test(window_layers_have_their_own_pages),
        cmocka_unit_test(norms_follow_linear_layers),
        cmocka_unit_test(mlps_have_any_activation),
        cmocka_unit_test(experts_match_the_reference),
        cmocka_unit_test(formats_match_the_reference),
        cmocka_unit_test(test_deltanet),
        cmocka_unit_test(test_mlp),
        cmocka_unit_test(test_embed_and_head),
        cmocka_unit_test(test_checkpoint),
        cmocka_unit_test(test_block_layout),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(formats_past_their_limits_are_refused),
        cmocka_unit_test(experts_past_their_limits_are_refused),
        cmocka_unit_test(groups_past_their_limit_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
