/* matmul_nv_test.c - tests that every matrix is cut so that NVIDIA's kernels
 * can be built: within a work-group, within local memory, and with a split that
 * no number of tokens changes. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#include "kernels/opencl/nv/matmul_nv.h"

/* Bytes of local memory per work-group on sm_86, sm_80 and sm_90. */
static const uint32_t locals[] = {99u << 10, 163u << 10, 227u << 10};

#define LOCALS (sizeof(locals) / sizeof(locals[0]))

static uint32_t define_of(const struct matmul_nv *w, const char *name)
{
    char key[32];
    unsigned v = 0;
    snprintf(key, sizeof(key), "-D%s=", name);
    const char *at = strstr(w->defines, key);
    assert_non_null(at);
    assert_int_equal(sscanf(at + strlen(key), "%u", &v), 1);
    return v;
}

/* Returns the local memory of nv_matmul_decode.cl. */
static uint32_t decode_bytes(const struct matmul_nv *w, uint32_t cols)
{
    uint32_t tokens = define_of(w, "TOKENS"), slab = define_of(w, "SLAB");
    uint32_t split = define_of(w, "SPLIT"), shares = define_of(w, "SHARES");
    uint32_t slabs = (cols / shares + slab - 1) / slab;
    uint32_t held = slab / 64 * ((tokens + 7) / 8) * 2 *
                    (tokens == 1 ? 4 : 32) * 16 * (slabs > 1 ? 2 : 1);
    uint32_t sums = shares > 1 ? 0 : split * tokens * w->rows * 4;
    return held + sums + tokens * 4;
}

/* Checks a decode cut and returns its split. */
static uint32_t check_decode(const struct matmul_nv_product *of,
                             uint32_t tokens, uint32_t local)
{
    struct matmul_nv w;
    assert_true(matmul_nv_decode(&w, of, tokens, local));
    uint32_t slab = define_of(&w, "SLAB"), s = define_of(&w, "SPLIT");
    uint32_t chunk = of->bits == 0 ? 64 : 64 * 16 / of->bits;
    uint32_t cols = (of->cols + chunk - 1) / chunk * chunk;
    uint32_t steps = cols / chunk / s, depth = define_of(&w, "DEPTH");
    uint32_t shares = define_of(&w, "SHARES"), warps = s / shares;
    assert_true(cols % (chunk * s) == 0);
    assert_true(depth >= 1 && steps % depth == 0);
    assert_true(w.tokens >= tokens || w.tokens == 64 || w.tokens == 32 ||
                w.tokens == 16);
    assert_true(w.tokens != 16 || local < 163u << 10);
    assert_true(shares == 1 || (shares == s && of->op == MATMUL_NV_ADD));
    assert_int_equal(w.shares, shares > 1 ? shares : 0);
    assert_int_equal(w.items, define_of(&w, "GROUPS") * warps * 32);
    assert_in_range(w.items, 32, 1024);
    assert_true(shares == 1 || cols == of->cols);
    if (slab != cols / shares) {
        uint32_t of_slab = slab / (chunk * warps);
        assert_true(slab < cols / shares);
        assert_int_equal(slab, of_slab * chunk * warps);
        assert_true(of_slab % depth == 0 || depth % of_slab == 0);
    }
    assert_in_range(decode_bytes(&w, of->cols), 1, local);
    return s;
}

/* Neither tokens nor the device may change the split. */
static void check_decodes(const struct matmul_nv_product *of)
{
    static const uint32_t tokens[] = {1, 8, 9, 33, 128};
    uint32_t split = check_decode(of, 1, locals[0]);
    for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
        for (size_t j = 0; j < LOCALS; j++) {
            assert_int_equal(check_decode(of, tokens[i], locals[j]), split);
        }
    }
}

static void decode_is_cut_to_fit(void **state)
{
    (void)state;
    for (uint32_t cols = 64; cols <= 32768; cols += cols < 4096 ? 64 : 512) {
        for (uint32_t rows = 16; rows <= 300000; rows += 16 + rows / 16 * 8) {
            rows = rows / 16 * 16;
            assert_true(matmul_nv_fits(MATMUL_NV_SILU, rows, cols));
            for (uint32_t bits = 0; bits <= 8; bits += 4) {
                if (matmul_nv_fits_group(MATMUL_NV_SILU, rows, cols,
                                         bits > 0 ? 64 : 0)) {
                    check_decodes(&(struct matmul_nv_product){
                        MATMUL_NV_SILU, rows, cols, bits, false});
                    check_decodes(&(struct matmul_nv_product){
                        MATMUL_NV_ADD, rows, cols, bits, false});
                }
            }
        }
    }
}

/* Reads groups, split, depth and tiles of a chained product. */
static void cut_of(const struct matmul_nv *w, const char *name, uint32_t cut[4])
{
    char key[32];
    unsigned v[4];
    snprintf(key, sizeof(key), "-D%s_CUT=", name);
    const char *at = strstr(w->defines, key);
    assert_non_null(at);
    assert_int_equal(
        sscanf(at + strlen(key), "%u,%u,%u,%u", &v[0], &v[1], &v[2], &v[3]), 4);
    for (int i = 0; i < 4; i++) {
        cut[i] = v[i];
    }
}

/* Every row has a work-group, the same one for out and down.  Each split is
 * that of the single product.  With several tiles, a tile is a whole number of
 * rounds. */
static void check_chain(const struct matmul_nv_product *of, uint32_t n,
                        uint32_t units)
{
    static const char *const names[] = {"OUT", "GATE_UP", "DOWN", "IN"};
    struct matmul_nv w, alone;
    assert_true(matmul_nv_chain(&w, of, n, NULL, units));
    assert_true(strlen(w.defines) + 1 < sizeof(w.defines));
    assert_int_equal(define_of(&w, "IN_N"), n > 3 ? of[3].rows : 0);
    assert_int_equal(w.items, define_of(&w, "ITEMS"));
    assert_in_range(w.items, 32, 768);
    uint32_t groups[4];
    for (uint32_t i = 0; i < n; i++) {
        uint32_t cut[4];
        cut_of(&w, names[i], cut);
        groups[i] = cut[0] * cut[3];
        assert_true(matmul_nv_decode(&alone, &of[i], 1, locals[0]));
        assert_int_equal(cut[1], define_of(&alone, "SPLIT"));
        uint32_t chunk = of[i].bits ? 64 * 16 / of[i].bits : 64;
        uint32_t steps = of[i].cols / chunk / cut[1];
        assert_true(groups[i] * 8 * units >= of[i].rows);
        assert_true(groups[i] * 8 <= w.items);
        assert_true(cut[0] * cut[1] * 32 <= w.items);
        assert_in_range(cut[2], 1, define_of(&w, "DEPTH"));
        assert_in_range(cut[3], 1, define_of(&w, "TILES"));
        assert_true(cut[3] == 1 || steps % cut[2] == 0);
    }
    assert_int_equal(groups[0], groups[2]);
}

static uint32_t tiles_of(const struct matmul_nv_product *of, uint32_t n,
                         uint32_t units)
{
    struct matmul_nv w;
    check_chain(of, n, units);
    assert_true(matmul_nv_chain(&w, of, n, NULL, units));
    return define_of(&w, "TILES");
}

static void a_chain_is_cut_to_fit(void **state)
{
    struct matmul_nv_product of[] = {{MATMUL_NV_ADD, 4096, 4096, 0, false},
                                     {MATMUL_NV_SILU, 24576, 4096, 0, false},
                                     {MATMUL_NV_ADD, 4096, 12288, 0, false},
                                     {MATMUL_NV_STORE, 12352, 4096, 0, false}};
    struct matmul_nv w;
    (void)state;
    check_chain(of, 4, 132);
    check_chain(of, 3, 132);
    assert_int_equal(tiles_of(of, 4, 129), 1);
    assert_int_equal(tiles_of(of, 4, 128), 2); /* in: 13 blocks, split 2 */
    assert_int_equal(tiles_of(of, 3, 128), 1);
    assert_int_equal(tiles_of(of, 3, 127), 2); /* gate_up: 25 blocks */
    assert_int_equal(tiles_of(of, 3, 32), 4);
    assert_false(
        matmul_nv_chain(&w, of, 3, NULL, 31)); /* gate_up: 100 blocks */
    of[3].rows = 132 * 24 * 8 * 4;
    assert_int_equal(tiles_of(of, 4, 132), 4);
    of[3].rows += 8;
    assert_false(matmul_nv_chain(&w, of, 4, NULL, 132));
    check_chain(of, 3, 132);
    of[2].cols = 32768;
    check_chain(of, 3, 132);
    of[2].cols += 64;
    assert_false(matmul_nv_chain(&w, of, 3, NULL, 132));
    of[2].cols = 12288 + 32; /* half a chunk */
    assert_false(matmul_nv_chain(&w, of, 3, NULL, 132));
}

static void a_chain_is_of_the_same_bits(void **state)
{
    struct matmul_nv_product of[] = {{MATMUL_NV_ADD, 1024, 2048, 8, false},
                                     {MATMUL_NV_SILU, 7168, 1024, 8, false},
                                     {MATMUL_NV_ADD, 1024, 3584, 8, false},
                                     {MATMUL_NV_STORE, 8224, 1024, 8, false}};
    struct matmul_nv w;
    (void)state;
    check_chain(of, 4, 132);
    of[3].bits = 4;
    assert_false(matmul_nv_chain(&w, of, 4, NULL, 132));
    check_chain(of, 3, 132);
    of[0].bits = of[1].bits = of[2].bits = 4;
    check_chain(of, 4, 132);
    of[2].cols = 3584 + 128; /* half a chunk */
    assert_false(matmul_nv_chain(&w, of, 4, NULL, 132));
}

/* Every block has a work-group, and down's rows are out's.  Each split is that
 * of the single product of an expert.  Chunks in flight are whole tasks or a
 * part of one. */
static void check_experts(const struct matmul_nv_product *of, uint32_t n,
                          const struct matmul_nv_route *route, uint32_t units)
{
    struct matmul_nv w, alone;
    uint32_t out[4], cut[4];
    assert_true(matmul_nv_chain(&w, of, n, route, units));
    assert_string_equal(w.file, "nv_chain_decode+nv_chain_experts");
    assert_true(strlen(w.defines) + 1 < sizeof(w.defines));
    assert_in_range(w.items, 32, 768);
    assert_true(define_of(&w, "ROUTES") * units >= route->logits);
    cut_of(&w, "OUT", out);
    for (uint32_t i = 1; i <= 2; i++) {
        const uint32_t pairs = i == 1 ? route->pairs : 1;
        cut_of(&w, i == 1 ? "GATE_UP" : "DOWN", cut);
        assert_true(matmul_nv_decode(&alone, &of[i], 1, locals[0]));
        assert_int_equal(cut[1], define_of(&alone, "SPLIT"));
        const uint32_t chunk = of[i].bits ? 64 * 16 / of[i].bits : 64;
        const uint32_t steps = of[i].cols / chunk / cut[1];
        assert_true(cut[0] * 8 * units >= of[i].rows * pairs);
        assert_true(cut[0] * cut[1] * (i == 1 ? 1 : route->pairs) <=
                    define_of(&w, "TASKS"));
        assert_in_range(cut[2], 1, define_of(&w, "DEPTH"));
        assert_true(steps % cut[2] == 0 || cut[2] % steps == 0);
        assert_int_equal(cut[3], 1);
        assert_true(i == 2 || cut[0] * 4 <= w.items);
    }
    assert_int_equal(cut[0], out[0] * out[3]);
}

static void a_chain_with_experts_is_cut_to_fit(void **state)
{
    struct matmul_nv_product of[] = {{MATMUL_NV_ADD, 2048, 4096, 0, false},
                                     {MATMUL_NV_SILU, 1024, 2048, 0, true},
                                     {MATMUL_NV_STORE, 2048, 512, 0, true},
                                     {MATMUL_NV_STORE, 12352, 2048, 0, false}};
    struct matmul_nv_route route = {257, 9};
    struct matmul_nv w;
    (void)state;
    check_experts(of, 4, &route, 132);
    check_experts(of, 3, &route, 132);
    assert_true(matmul_nv_chain(&w, of, 4, &route, 132));
    assert_int_equal(define_of(&w, "ROUTES"), 2);
    assert_int_equal(define_of(&w, "TASKS"), 72); /* three for each warp */
    assert_int_equal(w.items, 768);
    of[1].cols = 2048 + 32; /* half a chunk */
    assert_false(matmul_nv_chain(&w, of, 4, &route, 132));
    of[1].cols = 2048;
    for (uint32_t bits = 4; bits <= 8; bits += 4) {
        for (uint32_t i = 0; i < 4; i++) {
            of[i].bits = bits;
        }
        check_experts(of, 4, &route, 132);
    }
    of[2].bits = 4;
    assert_false(matmul_nv_chain(&w, of, 4, &route, 132));
}

/* A work-group has at most eight tasks for each of its warps, and 64 KiB of
 * operands and rows of the router. */
static void work_of_experts_is_limited(void **state)
{
    struct matmul_nv_product of[] = {{MATMUL_NV_ADD, 2048, 4096, 0, false},
                                     {MATMUL_NV_SILU, 1024, 2048, 0, true},
                                     {MATMUL_NV_STORE, 2048, 512, 0, true}};
    struct matmul_nv_route route = {132, 24};
    struct matmul_nv w;
    (void)state;
    /* 128 blocks of each pair, split by 8: 24 blocks per unit. */
    check_experts(of, 3, &route, 128);
    assert_true(matmul_nv_chain(&w, of, 3, &route, 128));
    assert_int_equal(define_of(&w, "TASKS"), 192);
    route.pairs = 25;
    assert_false(matmul_nv_chain(&w, of, 3, &route, 128));
    route.pairs = 2;
    /* 3.25 rows of operands, and 12 of the router: 31232 elements. */
    route.logits = 132 * 12;
    check_experts(of, 3, &route, 132);
    route.logits++;
    assert_false(matmul_nv_chain(&w, of, 3, &route, 132));
}

static void posts_of_experts_are_counted(void **state)
{
    const struct matmul_nv_route route = {257, 9};
    (void)state;
    assert_int_equal(matmul_nv_expert_posts(2048, 512, &route),
                     2048 + 256 + 258 + 9 * 256 + 1024 + 256);
}

static void some_do_not_fit(void **state)
{
    (void)state;
    assert_true(matmul_nv_fits(MATMUL_NV_STORE, 24, 64));
    assert_false(matmul_nv_fits(MATMUL_NV_STORE, 25, 64));
    assert_false(matmul_nv_fits(MATMUL_NV_STORE, 24, 65));
    assert_false(matmul_nv_fits(MATMUL_NV_STORE, 8, 64));
    assert_false(matmul_nv_fits(MATMUL_NV_SILU, 24, 64));
    assert_true(matmul_nv_fits(MATMUL_NV_SILU, 32, 64));
    assert_true(matmul_nv_fits_group(MATMUL_NV_SILU, 32, 64, 0));
    assert_true(matmul_nv_fits_group(MATMUL_NV_SILU, 32, 64, 64));
    assert_false(matmul_nv_fits_group(MATMUL_NV_SILU, 32, 96, 32));
    assert_true(matmul_nv_fits_group(MATMUL_NV_SILU, 32, 384, 128));
    assert_false(matmul_nv_fits_group(MATMUL_NV_SILU, 32, 192, 128));
}

/* Checks a cut of nv_matmul_prefill.cl. */
static void check_prefill(enum matmul_nv_op op, uint32_t rows, uint32_t tokens,
                          bool wgmma, uint32_t local)
{
    const struct matmul_nv_product of = {op, rows, 4096, 0, false};
    struct matmul_nv w;
    assert_true(matmul_nv_prefill(&w, &of, tokens, wgmma, local));
    uint32_t tile = w.tokens + w.rows;
    assert_int_equal(define_of(&w, "TILE_T"), w.tokens);
    assert_int_equal(define_of(&w, "TILE_W"), w.rows);
    assert_int_equal(define_of(&w, "WGMMA"), wgmma);
    assert_int_equal(define_of(&w, "N"),
                     op == MATMUL_NV_SILU ? rows / 2 : rows);
    assert_int_equal(w.items, wgmma ? w.tokens / 64 * 128
                                    : w.tokens / 64 * (w.rows / 64) * 32);
    assert_in_range(w.items, 128, 512);
    assert_true(w.tokens % 64 == 0);
    bool few = wgmma && tokens <= 128;
    assert_true(w.rows == 128 || w.rows == 256 ||
                (few && w.rows % 32 == 0 && w.rows < 256));
    uint32_t round = define_of(&w, "ROUND"), stages = define_of(&w, "STAGES");
    assert_in_range(stages, 3, 16);
    assert_in_range(round, 1, few ? 2 : 1);
    assert_true(stages % round == 0 && stages / round >= 3);
    assert_in_range(define_of(&w, "STAGES") * tile * 128 + w.tokens * 4, 1,
                    local);
}

static void prefill_is_cut_to_fit(void **state)
{
    (void)state;
    for (uint32_t rows = 16; rows <= 300000; rows += 16 + rows / 16 * 8) {
        for (uint32_t tokens = 1; tokens <= 8192; tokens += 1 + tokens / 2) {
            check_prefill(MATMUL_NV_SILU, rows / 16 * 16, tokens, true,
                          locals[2]);
            check_prefill(MATMUL_NV_ADD, rows / 16 * 16, tokens, true,
                          locals[2]);
            for (size_t i = 0; i < LOCALS; i++) {
                check_prefill(MATMUL_NV_STORE, rows / 16 * 16, tokens, false,
                              locals[i]);
            }
        }
    }
}

static void expect_tile(uint32_t rows, uint32_t tokens, bool wgmma,
                        uint32_t tile_tokens, uint32_t tile_rows)
{
    const struct matmul_nv_product of = {MATMUL_NV_ADD, rows, 4096, 0, false};
    struct matmul_nv w;
    assert_true(matmul_nv_prefill(&w, &of, tokens, wgmma, locals[2]));
    assert_int_equal(w.tokens, tile_tokens);
    assert_int_equal(w.rows, tile_rows);
}

static void prefill_is_wide_where_all_units_have_work(void **state)
{
    (void)state;
    expect_tile(4096, 512, false, 128, 128);
    expect_tile(4096, 4096, false, 128, 256);
    expect_tile(24576, 4096, true, 192, 256); /* 16 rounds of 24 */
    expect_tile(4096, 4096, true, 128, 256);  /* 4 rounds, not 3 of 1.4 */
    expect_tile(4096, 512, true, 128, 128);
    expect_tile(1024, 256, true, 64, 128);
}

/* Each compute unit reads its part of w, once. */
static void few_prompt_tokens_leave_no_unit_idle(void **state)
{
    (void)state;
    expect_tile(4096, 64, true, 64, 32);   /* 128 work-groups */
    expect_tile(4096, 65, true, 128, 32);  /* one tile of tokens */
    expect_tile(10240, 64, true, 64, 96);  /* 107, where 64 took two rounds */
    expect_tile(12352, 64, true, 64, 96);  /* 129 */
    expect_tile(24576, 64, true, 64, 192); /* 128 */
    expect_tile(132 * 32, 1, true, 64, 32);
    expect_tile(132 * 32 + 16, 1, true, 64, 64);
    expect_tile(4096, 64, false, 128, 128);
}

/* A round is two stages only where K has whole rounds. */
static void rounds_divide_the_columns(void **state)
{
    struct matmul_nv_product of = {MATMUL_NV_ADD, 4096, 128, 0, false};
    struct matmul_nv w;
    (void)state;
    assert_true(matmul_nv_prefill(&w, &of, 64, true, locals[2]));
    assert_int_equal(define_of(&w, "ROUND"), 2);
    of.cols = 192;
    assert_true(matmul_nv_prefill(&w, &of, 64, true, locals[2]));
    assert_int_equal(define_of(&w, "ROUND"), 1);
}

/* 128 by 128 in three stages, at the limit and one past it; and one token's
 * operands with the sums of 24 warps. */
static void what_does_not_fit_is_not_cut(void **state)
{
    const struct matmul_nv_product one = {MATMUL_NV_ADD, 4096, 4096, 0, false};
    const uint32_t tile = 3 * 256 * 128 + 128 * 4;
    struct matmul_nv w;
    (void)state;
    assert_true(matmul_nv_prefill(&w, &one, 4096, false, tile));
    assert_int_equal(w.rows, 128);
    assert_false(matmul_nv_prefill(&w, &one, 4096, false, tile - 1));
    assert_true(matmul_nv_decode(&w, &one, 1, locals[0]));
    uint32_t bytes = decode_bytes(&w, one.cols);
    assert_in_range(bytes, 8192 + 1, 16384);
    assert_true(matmul_nv_decode(&w, &one, 1, bytes));
    assert_false(matmul_nv_decode(&w, &one, 1, bytes - 1));
    assert_false(matmul_nv_decode(&w, &one, 32, bytes));
}

static void local_memory_is_the_devices(void **state)
{
    (void)state;
    assert_int_equal(matmul_nv_local(80), 163 * 1024);
    assert_int_equal(matmul_nv_local(86), 99 * 1024);
    assert_int_equal(matmul_nv_local(87), 163 * 1024);
    assert_int_equal(matmul_nv_local(89), 99 * 1024);
    assert_int_equal(matmul_nv_local(90), 227 * 1024);
    assert_int_equal(matmul_nv_local(100), 227 * 1024);
    assert_int_equal(matmul_nv_local(120), 99 * 1024);
    assert_int_equal(matmul_nv_local(999), 99 * 1024); /* an unlisted
                                                        * capability */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decode_is_cut_to_fit),
        cmocka_unit_test(a_chain_is_cut_to_fit),
        cmocka_unit_test(a_chain_is_of_the_same_bits),
        cmocka_unit_test(a_chain_with_experts_is_cut_to_fit),
        cmocka_unit_test(work_of_experts_is_limited),
        cmocka_unit_test(posts_of_experts_are_counted),
        cmocka_unit_test(some_do_not_fit),
        cmocka_unit_test(prefill_is_cut_to_fit),
        cmocka_unit_test(prefill_is_wide_where_all_units_have_work),
        cmocka_unit_test(few_prompt_tokens_leave_no_unit_idle),
        cmocka_unit_test(rounds_divide_the_columns),
        cmocka_unit_test(what_does_not_fit_is_not_cut),
        cmocka_unit_test(local_memory_is_the_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
