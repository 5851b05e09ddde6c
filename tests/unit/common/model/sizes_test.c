#include "common/model/sizes.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/model/fixture.h"

static struct model_config config(const char *name)
{
    struct model_config c;
    struct error e;
    char path[128], *text;
    size_t len;

    snprintf(path, sizeof path, CONFIGS "/%s.json", name);
    text = fixture_read(path, &len);
    if (config_parse(&c, text, len, &e) != ST_OK) {
        fail_msg("%s: %s", path, e.text);
    }
    free(text);
    return c;
}

/* Sizes that the models' publishers and other servers state. */
static void agrees_with_others(void **state)
{
    static const struct {
        const char *name;
        uint64_t parameters, slot, token;
    } rows[] = {
        {"qwen3.5-0.8b", 752393024, 19537920, 12288},
        {"qwen3.5-4b", 4205751296, 51511296, 32768},
        {"qwen3.5-9b", 8953803264, 51511296, 32768},
        {"qwen3.5-27b", 26895998464, 153944064, 65536},
        {"qwen2.5-0.5b", 494032768, 0, 12288},
        {"qwen3-0.6b", 596049920, 0, 114688},
        {"llama-3.2-1b", 1235814400, 0, 32768},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct model_config c = config(rows[i].name);
        struct sizes s = sizes_of(&c, 0, c.shape.n_layers, 32, c.shape.dtype);

        assert_int_equal(s.parameters, rows[i].parameters);
        assert_int_equal(s.slot_bytes, rows[i].slot);
        assert_int_equal(s.checkpoint_bytes, rows[i].slot);
        assert_int_equal(s.token_bytes, rows[i].token);
        assert_int_equal(s.block_bytes, 32 * rows[i].token);
    }
}

/* K 3, C 5, Hv 2, Dv 7, Dk 11, float16, three layers: 3 * (20 + 616). */
static void counts_state_in_float32(void **state)
{
    struct model_shape s = {.conv = 3, .n_v_heads = 2, .v_dim = 7, .k_dim = 11};

    (void)state;
    assert_int_equal(3 * sizes_state(&s, 5, DTYPE_F16), 1908);
    assert_int_equal(3 * sizes_state(&s, 5, DTYPE_F32), 3 * (40 + 616));
    assert_int_equal(sizes_kv(8, 128, DTYPE_F16), 4096);
}

/* A cache has two dtypes, a model three. */
static void gives_a_cache_its_dtype(void **state)
{
    struct model_config c = {.shape.dtype = DTYPE_BF16};

    (void)state;
    assert_int_equal(sizes_kv_dtype(&c, false), DTYPE_BF16);
    assert_int_equal(sizes_kv_dtype(&c, true), DTYPE_F32);
    c.shape.dtype = DTYPE_F16;
    assert_int_equal(sizes_kv_dtype(&c, false), DTYPE_F32);
    c.shape.dtype = DTYPE_F32;
    assert_int_equal(sizes_kv_dtype(&c, false), DTYPE_F32);
}

static void counts_pages(void **state)
{
    struct model_config c = config("qwen3.5-0.8b");
    struct sizes s = sizes_of(&c, 0, 24, 32, DTYPE_BF16);

    (void)state;
    assert_int_equal(s.page_bytes, 393216);
    assert_int_equal(s.pages_per_block, 1);
    assert_int_equal(s.pages_per_slot, 50); /* 49.7 */
    /* Layers 0 to 2 have no attention: a page is a slot. */
    s = sizes_of(&c, 0, 3, 32, DTYPE_BF16);
    assert_int_equal(s.n_attention, 0);
    assert_int_equal(s.block_bytes, 0);
    assert_int_equal(s.page_bytes, 3 * 1085440);
    assert_int_equal(s.pages_per_block, 0);
    assert_int_equal(s.pages_per_slot, 1);
    /* Layer 3 is attention only, so there is no slot. */
    s = sizes_of(&c, 3, 4, 16, DTYPE_F32);
    assert_int_equal(s.token_bytes, 4096);
    assert_int_equal(s.page_bytes, 65536);
    assert_int_equal(s.slot_bytes, 0);
    assert_int_equal(s.pages_per_slot, 0);
}

static void adds_up_over_ranges(void **state)
{
    struct model_config c = config("qwen3.5-9b");
    struct sizes all = sizes_of(&c, 0, 32, 32, DTYPE_BF16);
    struct sizes a = sizes_of(&c, 0, 13, 32, DTYPE_BF16);
    struct sizes b = sizes_of(&c, 13, 32, 32, DTYPE_BF16);

    (void)state;
    assert_int_equal(a.parameters + b.parameters, all.parameters);
    assert_int_equal(a.weight_bytes + b.weight_bytes, all.weight_bytes);
    assert_int_equal(a.block_bytes + b.block_bytes, all.block_bytes);
    assert_int_equal(a.slot_bytes + b.slot_bytes, all.slot_bytes);
    /* A tied embedding is held at both ends. */
    c = config("qwen3.5-0.8b");
    all = sizes_of(&c, 0, 24, 32, DTYPE_BF16);
    a = sizes_of(&c, 0, 12, 32, DTYPE_BF16);
    b = sizes_of(&c, 12, 24, 32, DTYPE_BF16);
    assert_int_equal(a.parameters + b.parameters - all.parameters,
                     248320ull * 1024);
}

static void prices_a_sequence(void **state)
{
    struct model_config c = config("qwen3.5-0.8b");
    struct sizes s = sizes_of(&c, 0, 24, 32, DTYPE_BF16);

    (void)state;
    assert_int_equal(sizes_sequence(&s, 32, 1), 393216 + 19537920);
    assert_int_equal(sizes_sequence(&s, 32, 32), 393216 + 19537920);
    assert_int_equal(sizes_sequence(&s, 32, 33), 2 * 393216 + 19537920);
}

static void limits_the_pages_of_a_slot(void **state)
{
    struct error e;

    (void)state;
    assert_int_equal(sizes_check_pages(0, 32, &e), ST_OK);
    assert_int_equal(sizes_check_pages(SIZES_SLOT_PAGES_MAX, 1, &e), ST_OK);
    assert_int_equal(sizes_check_pages(SIZES_SLOT_PAGES_MAX + 1, 1, &e),
                     ST_INVALID_ARGUMENT);
    assert_string_equal(e.text,
                        "--block-tokens 1: a slot takes 2049 pages, at most "
                        "2048 are allowed; give larger blocks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_others),
        cmocka_unit_test(counts_state_in_float32),
        cmocka_unit_test(gives_a_cache_its_dtype),
        cmocka_unit_test(counts_pages),
        cmocka_unit_test(limits_the_pages_of_a_slot),
        cmocka_unit_test(adds_up_over_ranges),
        cmocka_unit_test(prices_a_sequence),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
