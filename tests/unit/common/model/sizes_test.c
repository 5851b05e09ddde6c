#include "common/model/sizes.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/model/fixture.h"

static const struct kv_format bf16 = {.dtype = DTYPE_BF16};
static const struct kv_format f16 = {.dtype = DTYPE_F16};
static const struct kv_format f32 = {.dtype = DTYPE_F32};

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
        {"qwen3.5-35b-a3b", 34660610688, 64389120, 20480},
        {"qwen3-next-80b-a3b", 79674391296, 77266944, 24576},
        {"qwen3-30b-a3b", 30532122624, 0, 98304},
        {"gpt-oss-20b", 20914757184, 0, 24576},
        {"gpt-oss-120b", 116829156672, 0, 36864},
        {"mixtral-8x7b", 46702792704, 0, 131072},
        {"gemma-2-9b", 9241705984, 0, 172032},
        {"gemma-3-4b", 3880263168, 0, 20480},
        {"gemma-3-27b", 27009346304, 0, 81920},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct model_config c = config(rows[i].name);
        struct kv_format kv = kv_format_plain(c.shape.dtype);
        struct sizes s = sizes_of(&c, 0, c.shape.n_layers, 32, &kv);

        assert_int_equal(s.parameters, rows[i].parameters);
        assert_int_equal(s.slot_bytes, rows[i].slot);
        assert_int_equal(s.checkpoint_bytes, rows[i].slot);
        assert_int_equal(s.token_bytes, rows[i].token);
        assert_int_equal(s.block_bytes, 32 * rows[i].token);
    }
}

/* q in bf16, k, v and two gates in float32; at most 2 % of a slot. */
static void counts_kept_inputs(void **state)
{
    static const struct {
        const char *name;
        uint64_t layer;
    } rows[] = {
        {"qwen3.5-0.8b", 2048 * 2 + (2048 + 2048 + 2 * 16) * 4},
        {"qwen3.5-9b", 2048 * 2 + (2048 + 4096 + 2 * 32) * 4},
        {"qwen3.5-27b", 2048 * 2 + (2048 + 6144 + 2 * 48) * 4},
        {"qwen3.5-35b-a3b", 2048 * 2 + (2048 + 4096 + 2 * 32) * 4},
        {"llama-3.2-1b", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct model_config c = config(rows[i].name);
        struct sizes s = sizes_of(&c, 0, c.shape.n_layers, 32, &bf16);

        assert_int_equal(s.kept_bytes, s.n_linear * rows[i].layer);
        assert_true(s.kept_bytes * 50 <= s.slot_bytes);
        s = sizes_of(&c, 3, 5, 32, &bf16);
        assert_int_equal(s.kept_bytes, s.n_linear * rows[i].layer);
    }
}

/* Drafts add these to the ranges [0, n), [5, n) and [5, n - 1). */
static void counts_the_mtp_layer(void **state)
{
    static const char *const names[] = {"qwen3.5-0.8b", "qwen3.5-9b",
                                        "qwen3.5-35b-a3b"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct model_config c = config(names[i]), d = c;
        uint32_t n = c.shape.n_layers;
        struct sizes a = sizes_of(&c, 0, n, 32, &bf16), b;
        uint64_t fc = (uint64_t)c.shape.hidden * c.shape.hidden * 2;
        uint64_t attention = c.shape.n_heads > 0 ? sizes_layer(&c, 3) : 0;

        d.drafts = true;
        assert_int_equal(sizes_mtp(&c), 0);
        assert_int_equal(sizes_mtp(&d),
                         attention + 2 * fc + 3 * c.shape.hidden * 4);
        b = sizes_of(&d, 0, n, 32, &bf16);
        assert_int_equal(b.n_attention, a.n_attention + 1);
        assert_int_equal(b.weight_bytes - a.weight_bytes, sizes_mtp(&d));
        assert_int_equal(b.token_bytes - a.token_bytes,
                         sizes_kv(&c.shape, n, &bf16));
        assert_int_equal(b.block_bytes, 32 * b.token_bytes);
        assert_int_equal(b.page_bytes, b.block_bytes);
        assert_int_equal(b.slot_bytes, a.slot_bytes);
        assert_int_equal(b.kept_bytes, a.kept_bytes);
        assert_int_equal(sizes_active(&d), sizes_active(&c));
        /* A tied head is the embedding. */
        a = sizes_of(&c, 5, n, 32, &bf16);
        b = sizes_of(&d, 5, n, 32, &bf16);
        assert_int_equal(b.weight_bytes - a.weight_bytes,
                         sizes_mtp(&d) + (c.tied ? 0 : sizes_embedding(&c)));
        a = sizes_of(&c, 5, n - 1, 32, &bf16);
        b = sizes_of(&d, 5, n - 1, 32, &bf16);
        assert_int_equal(a.weight_bytes, b.weight_bytes);
        assert_int_equal(a.token_bytes, b.token_bytes);
        assert_int_equal(a.page_bytes, b.page_bytes);
        assert_int_equal(a.n_attention, b.n_attention);
    }
}

/* The layer that a quantised cache leaves plain is never the MTP layer. */
static void the_mtp_layer_has_a_quantised_cache(void **state)
{
    struct model_config c = config("qwen3.5-9b");
    struct kv_request r = {.bits = 8};
    struct kv_format kv;
    struct error e;

    (void)state;
    assert_int_equal(kv_format_choose(&kv, &c, &r, &e), ST_OK);
    c.drafts = true;
    assert_int_equal(kv.whole, 31);
    assert_int_equal(sizes_kv(&c.shape, 32, &kv), sizes_kv(&c.shape, 3, &kv));
    assert_int_equal(sizes_of(&c, 0, 32, 32, &kv).token_bytes,
                     sizes_kv(&c.shape, 31, &kv) +
                         8 * sizes_kv(&c.shape, 3, &kv));
}

/* A token of 35B-A3B meets 8 of 256 experts; and 4 of gpt-oss's. */
static void counts_active_parameters(void **state)
{
    struct model_config c = config("qwen3.5-35b-a3b");

    (void)state;
    assert_int_equal(sizes_active(&c), 3454988928);
    c = config("qwen3-30b-a3b");
    assert_int_equal(sizes_active(&c), 3353032704);
    c = config("gpt-oss-20b");
    assert_int_equal(sizes_active(&c), 4187440704);
    c = config("gemma-3-4b");
    assert_int_equal(sizes_active(&c), 3880263168);
}

/* Experts: [32 * 5760, 2880] and [32 * 2880, 2880] of 4 bits and a byte each 32
 * weights; all else bf16, vectors float32. */
static void counts_formats(void **state)
{
    struct model_config c = config("gpt-oss-20b");
    uint64_t weights = UINT64_C(32) * 3 * 2880 * 2880;
    struct sizes s = sizes_of(&c, 0, 24, 32, &bf16);

    (void)state;
    assert_int_equal(sizes_experts(&c, 0), weights / 2 + weights / 32);
    assert_in_range(s.weight_bytes, 13760000000, 13790000000);
    c.quant = (struct quantisation){.format = WEIGHT_FP8};
    /* A float32 for each row and 128 columns of 2880: 23. */
    assert_int_equal(sizes_experts(&c, 0),
                     weights + UINT64_C(32) * 3 * 2880 * 23 * 4);
    c.quant =
        (struct quantisation){.format = WEIGHT_AFFINE, .bits = 4, .group = 64};
    assert_int_equal(sizes_experts(&c, 0), weights / 2 + weights / 64 * 4);
    c.quant = (struct quantisation){.format = WEIGHT_PLAIN};
    assert_int_equal(sizes_experts(&c, 0), weights * 2);
    assert_int_equal(sizes_layer(&c, 0) - sizes_layer(&c, 1), 0);
    c = config("gemma-3-4b");
    assert_int_equal(sizes_experts(&c, 0), 0);
}

/* Five layers to a page, for five global ones are in it: 29 take six. */
static void counts_window_blocks(void **state)
{
    struct model_config c = config("gemma-3-4b");
    struct sizes s = sizes_of(&c, 0, 34, 32, &bf16);
    struct kv_format kv = {.dtype = DTYPE_BF16,
                           .scheme = KV_AFFINE,
                           .k_bits = 8,
                           .v_bits = 8,
                           .group = 64,
                           .whole = KV_NO_LAYER};

    (void)state;
    assert_int_equal(s.n_attention, 5);
    assert_int_equal(s.n_window, 29);
    assert_int_equal(s.token_bytes, 5 * 4096);
    assert_int_equal(s.window_bytes, 32 * 29 * 4096);
    assert_int_equal(s.page_bytes, 32 * 5 * 4096);
    assert_int_equal(s.window_pages, 6);
    assert_int_equal(s.pages_per_slot, 0);
    /* --kv-bits leaves windows plain, and fewer of them fit a page. */
    s = sizes_of(&c, 0, 34, 32, &kv);
    assert_true(s.token_bytes < 5 * 4096);
    assert_int_equal(s.window_bytes, 32 * 29 * 4096);
    assert_int_equal(s.window_pages, 15); /* two in 2.66 */
    /* Layers 0 to 4 are windows alone: a page holds them all. */
    s = sizes_of(&c, 0, 5, 32, &bf16);
    assert_int_equal(s.token_bytes, 0);
    assert_int_equal(s.page_bytes, 32 * 5 * 4096);
    assert_int_equal(s.window_pages, 1);
    assert_int_equal(s.pages_per_block, 0);
}

/* 1024 + 256 tokens are 40 blocks of 32, and one where both ends are cut. */
static void bounds_window_blocks(void **state)
{
    struct model_config c = config("gemma-3-4b");
    struct sizes s = sizes_of(&c, 0, 34, 32, &bf16);

    (void)state;
    assert_int_equal(sizes_window_blocks(1024, 256, 32, 0), 0);
    assert_int_equal(sizes_window_blocks(1024, 256, 32, 1), 1);
    assert_int_equal(sizes_window_blocks(1024, 256, 32, 41 * 32), 41);
    assert_int_equal(sizes_window_blocks(1024, 256, 32, 41 * 32 + 1), 41);
    assert_int_equal(sizes_window_blocks(1024, 257, 32, 131072), 42);
    assert_int_equal(
        sizes_window_blocks(MODEL_CONTEXT_MAX, 8192, 1, MODEL_CONTEXT_MAX),
        MODEL_CONTEXT_MAX);
    assert_int_equal(sizes_window_blocks(0, 256, 32, 4096), 0);
    assert_int_equal(sizes_sequence(&s, &c.shape, 32, 256, 131072),
                     4096 * s.block_bytes + 41 * s.window_bytes);
    s = sizes_of(&c, 5, 6, 32, &bf16); /* a global layer */
    assert_int_equal(sizes_sequence(&s, &c.shape, 32, 256, 131072),
                     4096 * s.block_bytes);
}

/* K 3, Hk 1, Hv 2, Dv 7, Dk 11, so that C is 36: 144 and 616 in float16. */
static void counts_state_in_float32(void **state)
{
    struct model_shape s = {
        .conv = 3, .n_v_heads = 2, .v_dim = 7, .k_dim = 11, .n_k_heads = 1};

    (void)state;
    assert_int_equal(sizes_state(&s, MIXER_DELTANET, DTYPE_F16), 144 + 616);
    assert_int_equal(sizes_state(&s, MIXER_DELTANET, DTYPE_F32), 288 + 616);
    assert_int_equal(sizes_state(&s, MIXER_ATTENTION, DTYPE_F32), 0);
    assert_int_equal(
        sizes_kv(&(struct model_shape){.n_kv_heads = 8, .head_dim = 128}, 0,
                 &f16),
        4096);
}

static void counts_pages(void **state)
{
    struct model_config c = config("qwen3.5-0.8b");
    struct sizes s = sizes_of(&c, 0, 24, 32, &bf16);

    (void)state;
    assert_int_equal(s.page_bytes, 393216);
    assert_int_equal(s.pages_per_block, 1);
    assert_int_equal(s.pages_per_slot, 50); /* 49.7 */
    /* Layers 0 to 2 have no attention: a page is a slot. */
    s = sizes_of(&c, 0, 3, 32, &bf16);
    assert_int_equal(s.n_attention, 0);
    assert_int_equal(s.block_bytes, 0);
    assert_int_equal(s.page_bytes, 3 * 1085440);
    assert_int_equal(s.pages_per_block, 0);
    assert_int_equal(s.pages_per_slot, 1);
    /* Layer 3 is attention only, so there is no slot. */
    s = sizes_of(&c, 3, 4, 16, &f32);
    assert_int_equal(s.token_bytes, 4096);
    assert_int_equal(s.page_bytes, 65536);
    assert_int_equal(s.slot_bytes, 0);
    assert_int_equal(s.pages_per_slot, 0);
}

static struct kv_format affine(const struct model_config *c, double bits)
{
    struct kv_request r = {.bits = bits};
    struct kv_format f;
    struct error e;

    assert_int_equal(kv_format_choose(&f, c, &r, &e), ST_OK);
    return f;
}

/* Published figures for 8 and 4 bits, and a block of 32. */
static void counts_quantised_layers(void **state)
{
    static const struct {
        const char *name;
        double bits;
        uint64_t token;
    } rows[] = {
        {"qwen3.5-0.8b", 8, 7488},  {"qwen3.5-0.8b", 4, 4928},
        {"qwen3.5-9b", 8, 19328},   {"qwen3.5-9b", 4, 12160},
        {"qwen3.5-9b", 3.5, 10480}, {"qwen3.5-27b", 8, 36736},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct model_config c = config(rows[i].name);
        struct kv_format kv = affine(&c, rows[i].bits);
        struct sizes s = sizes_of(&c, 0, c.shape.n_layers, 32, &kv);
        struct sizes plain = sizes_of(&c, 0, c.shape.n_layers, 32, &bf16);

        assert_int_equal(s.token_bytes, rows[i].token);
        assert_int_equal(s.block_bytes, 32 * rows[i].token);
        assert_int_equal(s.page_bytes, s.block_bytes);
        assert_int_equal(s.slot_bytes, plain.slot_bytes);
        assert_int_equal(s.weight_bytes, plain.weight_bytes);
        assert_int_equal(s.pages_per_slot,
                         (s.slot_bytes + s.page_bytes - 1) / s.page_bytes);
    }
}

/* A stage has the whole layer of the model, and no other stage has one. */
static void counts_the_whole_layer_where_it_is(void **state)
{
    struct model_config c = config("qwen3.5-9b");
    struct kv_format kv = affine(&c, 4);
    struct page_sizes p = sizes_page(&c.shape, 28, 32, 16, &kv);

    (void)state;
    assert_int_equal(kv.whole, 31);
    assert_int_equal(p.whole, 4);
    assert_int_equal(p.whole_bytes, 16 * 4096);
    assert_int_equal(p.kv_bytes, 16 * 1152);
    assert_int_equal(p.slots[MIXER_DELTANET].parts[1], 3 * 8192 * 2);
    p = sizes_page(&c.shape, 0, 31, 16, &kv);
    assert_int_equal(p.whole, 0);
    assert_int_equal(sizes_of(&c, 0, 28, 32, &kv).token_bytes, 7 * 1152);
    assert_int_equal(sizes_of(&c, 28, 32, 32, &kv).token_bytes, 4096);
    assert_int_equal(sizes_of(&c, 24, 32, 32, &kv).token_bytes, 4096 + 1152);
}

static void adds_up_over_ranges(void **state)
{
    struct model_config c = config("qwen3.5-9b");
    struct sizes all = sizes_of(&c, 0, 32, 32, &bf16);
    struct sizes a = sizes_of(&c, 0, 13, 32, &bf16);
    struct sizes b = sizes_of(&c, 13, 32, 32, &bf16);

    (void)state;
    assert_int_equal(a.parameters + b.parameters, all.parameters);
    assert_int_equal(a.weight_bytes + b.weight_bytes, all.weight_bytes);
    assert_int_equal(a.block_bytes + b.block_bytes, all.block_bytes);
    assert_int_equal(a.slot_bytes + b.slot_bytes, all.slot_bytes);
    /* A tied embedding is held at both ends. */
    c = config("qwen3.5-0.8b");
    all = sizes_of(&c, 0, 24, 32, &bf16);
    a = sizes_of(&c, 0, 12, 32, &bf16);
    b = sizes_of(&c, 12, 24, 32, &bf16);
    assert_int_equal(a.parameters + b.parameters - all.parameters,
                     248320ull * 1024);
}

static void prices_a_sequence(void **state)
{
    struct model_config c = config("qwen3.5-0.8b");
    struct sizes s = sizes_of(&c, 0, 24, 32, &bf16);

    (void)state;
    assert_int_equal(sizes_sequence(&s, &c.shape, 32, 256, 1),
                     393216 + 19537920);
    assert_int_equal(sizes_sequence(&s, &c.shape, 32, 256, 32),
                     393216 + 19537920);
    assert_int_equal(sizes_sequence(&s, &c.shape, 32, 256, 33),
                     2 * 393216 + 19537920);
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
        cmocka_unit_test(counts_kept_inputs),
        cmocka_unit_test(counts_the_mtp_layer),
        cmocka_unit_test(the_mtp_layer_has_a_quantised_cache),
        cmocka_unit_test(counts_active_parameters),
        cmocka_unit_test(counts_formats),
        cmocka_unit_test(counts_window_blocks),
        cmocka_unit_test(bounds_window_blocks),
        cmocka_unit_test(counts_state_in_float32),
        cmocka_unit_test(counts_quantised_layers),
        cmocka_unit_test(counts_the_whole_layer_where_it_is),
        cmocka_unit_test(counts_pages),
        cmocka_unit_test(limits_the_pages_of_a_slot),
        cmocka_unit_test(adds_up_over_ranges),
        cmocka_unit_test(prices_a_sequence),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
