/* The sequences that a worker holds at its model's own context with
 * `--max-rows 512` and no other option, and what they leave unused. */
#include <stdio.h>
#include <stdlib.h>

#include "common/model/costs.h"
#include "common/model/sizes.h"
#include "kernels/kernels.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/model/fixture.h"
#include "worker/model/check.h"

#define GIB    (UINT64_C(1) << 30)
#define BLOCK  CHECK_BLOCK_TOKENS /* the worker's default */
#define TOKENS 1024

struct worker {
    struct model_config config;
    struct sizes sizes;
    struct pool_budget need;
    struct pool_split pool;
};

static struct worker w;

static void read_config(struct model_config *c, const char *name)
{
    struct error e;
    char path[128], *text;
    size_t len;

    snprintf(path, sizeof path, CONFIGS "/%s.json", name);
    text = fixture_read(path, &len);
    assert_int_equal(config_parse(c, text, len, &e), ST_OK);
    free(text);
}

/* Divides the memory as a worker does, on the CPU or an OpenCL device. */
static void divide(const char *name, uint64_t bytes, bool opencl,
                   uint32_t threads)
{
    struct model_config *c = &w.config;
    struct costs_step step = {.tokens =
                                  opencl ? STEP_TOKENS_GPU : STEP_TOKENS_CPU,
                              .rows = KERNELS_STEP_ROWS,
                              .threads = threads,
                              .logits = KERNELS_LOGIT_ROWS,
                              .plans = opencl ? 3 : 2,
                              .block_tokens = BLOCK,
                              .opencl = opencl};
    struct kv_format kv;
    uint32_t n;
    struct error e;

    read_config(c, name);
    n = c->shape.n_layers;
    step.context = c->shape.context;
    assert_int_equal(kv_format_choose(&kv, c, &(struct kv_request){0}, &e),
                     ST_OK);
    w.sizes = sizes_of(c, 0, n, BLOCK, &kv);
    w.need = (struct pool_budget){
        .weight_bytes = w.sizes.weight_bytes,
        .scratch_bytes = costs_stage_scratch(c, &step, 0, n),
        .pool = {.page_bytes = w.sizes.page_bytes,
                 .pages_per_slot = w.sizes.pages_per_slot,
                 .pages_per_block = w.sizes.pages_per_block,
                 .block_tokens = BLOCK,
                 .context = step.context,
                 .max_rows = KERNELS_STEP_ROWS}};
    assert_int_equal(pool_split_budget(&w.pool, &w.need, bytes, &e), ST_OK);
}

static uint64_t sequences(void)
{
    return pool_split_sequences(&w.need.pool, &w.pool, TOKENS);
}

/* On a GPU, steps of 2048 tokens take more scratch. */
static void holds_short_sequences_at_a_long_context(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 16; threads *= 2) {
        divide("qwen3.5-0.8b", 6 * GIB, false, threads);
        assert_true(sequences() >= 147);
        divide("qwen3.5-9b", 80 * GIB, false, threads);
        assert_true(sequences() >= 500);
    }
    divide("qwen3.5-0.8b", 6 * GIB, true, 1);
    assert_true(sequences() >= 140);
    divide("qwen3.5-9b", 80 * GIB, true, 1);
    assert_true(sequences() >= 500);
}

static double waste(void)
{
    return pool_split_waste(
        &w.need.pool, &w.pool, TOKENS,
        sizes_sequence(&w.sizes, &w.config.shape, BLOCK, 256, TOKENS));
}

static void wastes_two_percent_at_most(void **state)
{
    static const struct {
        const char *name;
        uint64_t gib;
    } rows[] = {{"qwen3.5-0.8b", 6},
                {"qwen3.5-4b", 24},
                {"qwen3.5-9b", 80},
                {"qwen3.5-27b", 141}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int opencl = 0; opencl < 2; opencl++) {
            divide(rows[i].name, rows[i].gib * GIB, opencl, 4);
            assert_true(waste() > 0 && waste() <= 0.02);
        }
    }
}

/* The same 6 GiB, with a cap: no page is lost, only sequences. */
static void a_cap_takes_no_pages(void **state)
{
    struct pool_split without;

    (void)state;
    divide("qwen3.5-0.8b", 6 * GIB, false, 2);
    without = w.pool;
    w.need.pool.slots = 10;
    w.pool = pool_split_make(&w.need.pool, w.pool.bytes);
    assert_int_equal(w.pool.n_pages, without.n_pages);
    assert_int_equal(sequences(), 10);
}

/* Logits are as few at 512 rows as at 64. */
static void rows_take_no_logits(void **state)
{
    struct costs_step step = {.tokens = STEP_TOKENS_CPU,
                              .rows = 64,
                              .threads = 2,
                              .logits = KERNELS_LOGIT_ROWS,
                              .block_tokens = BLOCK};
    uint64_t few;

    (void)state;
    read_config(&w.config, "qwen3.5-0.8b");
    few = costs_head_scratch(&w.config, &step);
    step.rows = 512;
    assert_int_equal(costs_head_scratch(&w.config, &step), few);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holds_short_sequences_at_a_long_context),
        cmocka_unit_test(wastes_two_percent_at_most),
        cmocka_unit_test(a_cap_takes_no_pages),
        cmocka_unit_test(rows_take_no_logits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
