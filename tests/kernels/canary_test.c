/* The bound of a device's arithmetic, for each format of the KV cache. */
#include "kernels/backends/canary.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/backends/backend.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/model/fixture.h"

#define MODELS "tests/vectors/models"

static const struct kv_format plain = {.dtype = DTYPE_BF16};
static const struct kv_format affine8 = {DTYPE_BF16, KV_AFFINE, 8,
                                         8,          64,        KV_NO_LAYER};
static const struct kv_format affine4 = {DTYPE_BF16, KV_AFFINE, 4,
                                         4,          64,        KV_NO_LAYER};
static const struct kv_format turbo = {DTYPE_BF16, KV_TURBOQUANT, 3, 4,
                                       0,          KV_NO_LAYER};

static void a_coarser_codec_has_a_wider_bound(void **state)
{
    (void)state;
    assert_true(canary_bound(&plain) == CANARY_BOUND);
    assert_true(fabs(canary_bound(&affine8) - 0.03196) < 1e-5);
    assert_true(fabs(canary_bound(&affine4) - 0.06333) < 1e-5);
    assert_true(fabs(canary_bound(&turbo) - 0.155) < 1e-9);
}

/* Runs the canary on a backend whose cache is `made`, and expects it to be
 * `expected`. */
static enum status run(const struct kv_format *made,
                       const struct kv_format *expected, struct error *e)
{
    struct shard *shard = fixture_shard_all(TINY_HYBRID);
    struct kernels_options o = {.device = "cpu",
                                .kv = *made,
                                .block_tokens = 32,
                                .max_tokens = CANARY_TOKENS,
                                .max_rows = 1,
                                .max_logits = 1,
                                .n_threads = 1};
    struct kernels *k;
    enum status st;

    assert_int_equal(backend_new(&k, shard_weights(shard), &o, e), ST_OK);
    assert_int_equal(kernels_alloc(k, 256, e), ST_OK);
    o.kv = *expected;
    st = canary_run(k, shard_weights(shard), &o, e);
    kernels_free(&k);
    shard_free(&shard);
    return st;
}

static void the_cpu_agrees_with_itself(void **state)
{
    static const struct kv_format *const formats[] = {&plain, &affine8,
                                                      &affine4, &turbo};
    struct error e;

    (void)state;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        assert_int_equal(run(formats[i], formats[i], &e), ST_OK);
    }
}

/* The error of 4 bits is past the bound of a plain cache and of 8 bits. */
static void a_coarser_cache_than_stated_is_found(void **state)
{
    struct error e;

    (void)state;
    assert_int_equal(run(&affine4, &plain, &e), ST_DATA_LOSS);
    assert_non_null(strstr(e.text, "at most 0.03 is allowed"));
    assert_int_equal(run(&affine4, &affine8, &e), ST_DATA_LOSS);
}

/* Runs the canary on a model, with weights of another shape on the cpu. */
static enum status run_other(const char *dir, uint32_t window, uint32_t top_k,
                             struct error *e)
{
    struct shard *shard = fixture_shard_all(dir);
    struct shard_weights other = *shard_weights(shard);
    struct kernels_options o = {.device = "cpu",
                                .kv = plain,
                                .block_tokens = 8,
                                .max_tokens = CANARY_TOKENS,
                                .max_rows = 1,
                                .max_logits = 1,
                                .n_threads = 1};
    struct kernels *k;
    enum status st;

    assert_int_equal(backend_new(&k, shard_weights(shard), &o, e), ST_OK);
    assert_int_equal(kernels_alloc(k, 64, e), ST_OK);
    other.shape.window = window > 0 ? window : other.shape.window;
    other.shape.top_k = top_k > 0 ? top_k : other.shape.top_k;
    st = canary_run(k, &other, &o, e);
    kernels_free(&k);
    shard_free(&shard);
    return st;
}

static void runs_experts_and_windows(void **state)
{
    static const char *const models[] = {
        "tiny-qwen3.5-moe",   "tiny-qwen3-next", "tiny-qwen3-moe",
        "tiny-qwen3-moe-fp8", "tiny-gpt-oss",    "tiny-gemma3"};
    struct error e;
    char dir[64];

    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        snprintf(dir, sizeof dir, MODELS "/%s", models[i]);
        if (run_other(dir, 0, 0, &e) != ST_OK) {
            fail_msg("%s: %s", dir, e.text);
        }
    }
    assert_int_equal(run_other(MODELS "/tiny-gemma3", 4, 0, &e), ST_DATA_LOSS);
    assert_non_null(strstr(e.text, "a window layer differs"));
    assert_int_equal(run_other(MODELS "/tiny-gpt-oss", 4, 0, &e), ST_DATA_LOSS);
    assert_non_null(strstr(e.text, "a window layer's mixer differs"));
    assert_int_equal(run_other(MODELS "/tiny-qwen3-moe", 0, 2, &e),
                     ST_DATA_LOSS);
    assert_non_null(strstr(e.text, "a layer with experts differs"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_coarser_codec_has_a_wider_bound),
        cmocka_unit_test(the_cpu_agrees_with_itself),
        cmocka_unit_test(a_coarser_cache_than_stated_is_found),
        cmocka_unit_test(runs_experts_and_windows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
