/* Tests that a long step ticks on its way, so that the watchdog does not take
 * it for a stalled one.
 *
 * Ticks are counted, not timed: work between two ticks is bounded for any
 * length of a chunk or context, and any width of a product. */
#include <stdlib.h>

#include "kernels/backends/backend.h"
#include "tests/kernels/random_model.h"
#include "tests/unit/cmocka.h"

#define BLOCK   64
#define TOKENS  1025 /* two parts of a product's rows, and one row more */
#define CONTEXT 8192
#define VOCAB   256
#define WIDE    262144 /* rows of a head in several tasks, by their bytes */

enum { ATTENTION, DELTANET, LAYERS };

struct bench {
    struct random_model model;
    struct kernels *k;
    uint32_t blocks[CONTEXT / BLOCK], tokens[TOKENS];
    struct kernel_row row;
    struct kernel_step step;
};

static struct random_shape shape_of(void)
{
    struct random_shape r = {.mixers = {MIXER_ATTENTION, MIXER_DELTANET}};

    r.shape = (struct model_shape){
        .n_layers = LAYERS,
        .hidden = 64,
        .intermediate = 192,
        .vocab = VOCAB,
        .context = CONTEXT,
        .norm_eps = 1e-6f,
        .dtype = DTYPE_BF16,
        .n_heads = 4,
        .n_kv_heads = 2,
        .head_dim = 16,
        .rope = {.kind = ROPE_DEFAULT, .theta = 10000.0, .dim = 16},
        .n_k_heads = 2,
        .n_v_heads = 4,
        .k_dim = 16,
        .v_dim = 32,
        .conv = 4,
    };
    return r;
}

/* Begins a step of n tokens from this position on. */
static void begin_shape(struct bench *b, const struct random_shape *r,
                        uint32_t position, uint32_t n)
{
    struct dice d = {7};
    struct kernels_options o = {.device = "cpu",
                                .kv.dtype = DTYPE_BF16,
                                .block_tokens = BLOCK,
                                .max_tokens = TOKENS,
                                .max_rows = 1,
                                .n_threads = 1};
    struct kernels_sizes sizes;
    struct error e;

    random_model_new(&b->model, r, &d);
    assert_int_equal(backend_new(&b->k, &b->model.w, &o, &e), ST_OK);
    kernels_sizes(b->k, &sizes);
    assert_int_equal(
        kernels_alloc(b->k, sizes.pages_per_slot + CONTEXT / BLOCK, &e), ST_OK);
    /* Slot 0 comes first. */
    for (uint32_t i = 0; i < CONTEXT / BLOCK; i++) {
        b->blocks[i] = sizes.pages_per_slot + i;
    }
    for (uint32_t i = 0; i < n; i++) {
        b->tokens[i] = i % VOCAB;
    }
    b->row = (struct kernel_row){
        .n_tokens = n, .position = position, .blocks = b->blocks};
    b->step = (struct kernel_step){&b->row, 1, n};
    kernels_zero_slot(b->k, 0);
    kernels_begin(b->k, &b->step);
    kernels_embed(b->k, b->tokens);
}

static void begin(struct bench *b, uint32_t position, uint32_t n)
{
    struct random_shape r = shape_of();

    begin_shape(b, &r, position, n);
}

static void end(struct bench *b)
{
    struct error e;

    assert_int_equal(kernels_end(b->k, &e), ST_OK);
    kernels_free(&b->k);
    random_model_free(&b->model);
}

static uint64_t ticks_of_mlp(uint32_t n)
{
    struct bench b;
    uint64_t before, ticks;

    begin(&b, 0, n);
    before = kernels_progress(b.k);
    kernels_ffn(b.k, ATTENTION);
    ticks = kernels_progress(b.k) - before;
    end(&b);
    return ticks;
}

/* 1,025 rows of x are three parts, 512 are one; operations that tick once per
 * operator tick as often.  Up to 8 rows share larger tasks. */
static void a_product_ticks_with_its_rows(void **state)
{
    uint64_t once = ticks_of_mlp(9), most = ticks_of_mlp(512);
    uint64_t tasks = (2 * 192 + 64) / 64;

    (void)state;
    assert_int_equal(most, once);
    assert_int_equal(ticks_of_mlp(8), ticks_of_mlp(1));
    assert_true(ticks_of_mlp(8) < once);
    assert_true(ticks_of_mlp(513) >= once + tasks);
    assert_true(ticks_of_mlp(1025) >= once + 2 * tasks);
}

/* For any number of rows of x and of threads: a tick for every 2 MiB. */
static void a_product_ticks_with_its_weights(void **state)
{
    struct random_shape r = shape_of();
    struct bench b;
    uint64_t before;

    (void)state;
    r.shape.vocab = WIDE;
    begin_shape(&b, &r, 0, 1);
    before = kernels_progress(b.k);
    kernels_head(b.k, (const uint32_t[]){0}, 1);
    assert_true(kernels_progress(b.k) >= before + WIDE * 64 * 2 / 2097152);
    end(&b);
}

static uint64_t ticks_of_experts(uint32_t n)
{
    struct random_shape r = shape_of();
    struct bench b;
    uint64_t before, ticks;

    r.ffns[ATTENTION] = FFN_EXPERTS;
    r.shape.n_experts = r.shape.top_k = 16;
    r.shape.expert_dim = 8;
    begin_shape(&b, &r, 0, n);
    before = kernels_progress(b.k);
    kernels_ffn(b.k, ATTENTION);
    ticks = kernels_progress(b.k) - before;
    end(&b);
    return ticks;
}

/* Two products of each expert tick, once more for each 512 tokens; the norm
 * and the end tick once. */
static void experts_tick_one_by_one(void **state)
{
    uint64_t one = ticks_of_experts(1);

    (void)state;
    assert_true(one >= 2 * 16);
    assert_true(ticks_of_experts(512) >= one);
    assert_true(ticks_of_experts(513) + 2 >= one + ticks_of_experts(512));
}

/* A tick for every four queries: 4 x 8,192 x head_dim x 2 multiply-adds. */
static void attention_ticks_with_its_queries(void **state)
{
    static const uint32_t lengths[] = {1, 2, 8, 64, 512};
    uint64_t one = 0;

    (void)state;
    for (int i = 0; i < 5; i++) {
        uint32_t n = lengths[i];
        struct bench b;
        uint64_t before, ticks;

        begin(&b, CONTEXT - n, n);
        before = kernels_progress(b.k);
        kernels_mixer(b.k, ATTENTION);
        ticks = kernels_progress(b.k) - before;
        one = n == 1 ? ticks : one;
        assert_true(ticks + 2 >= one + (uint64_t)n * 4 / 4);
        end(&b);
    }
}

/* Each operator ticks, and each of its parts, however small. */
static void every_operator_ticks(void **state)
{
    struct bench b;
    uint64_t before;

    (void)state;
    begin(&b, 0, 1);
    before = kernels_progress(b.k);
    assert_true(before >= 2); /* the slot, the embedding */
    kernels_mixer(b.k, ATTENTION);
    assert_true(kernels_progress(b.k) >= before + 5);
    before = kernels_progress(b.k);
    kernels_mixer(b.k, DELTANET);
    assert_true(kernels_progress(b.k) >= before + 7);
    before = kernels_progress(b.k);
    kernels_zero_slot(b.k, 0);
    assert_true(kernels_progress(b.k) > before);
    before = kernels_progress(b.k);
    kernels_head(b.k, (const uint32_t[]){0}, 1);
    assert_true(kernels_progress(b.k) >= before + 2);
    end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_product_ticks_with_its_rows),
        cmocka_unit_test(a_product_ticks_with_its_weights),
        cmocka_unit_test(experts_tick_one_by_one),
        cmocka_unit_test(attention_ticks_with_its_queries),
        cmocka_unit_test(every_operator_ticks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
