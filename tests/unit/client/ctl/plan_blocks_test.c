/* Blocks of an engine with one page size: alignment, kernel blocks, groups. */
#include "client/ctl/plan_blocks.h"

#include <math.h>
#include <string.h>

#include "tests/unit/cmocka.h"

static struct error e;

/* ---- alignment ---- */

/* The fixture of the published tests: 8 heads of 128 in float16, and states
 * (1, 3, 2048) and (1, 8, 128, 128) in float32. */
static const struct blocks_state states[] = {{{1, 3, 2048}, 3, 4},
                                             {{1, 8, 128, 128}, 4, 4}};
static const struct blocks_state latent_states[] = {{{1, 3, 2048}, 3, 4},
                                                    {{1, 4, 256, 128}, 4, 4}};

static struct blocks_model fixture(void)
{
    return (struct blocks_model){.is_hybrid = true,
                                 .token_bytes =
                                     blocks_token_bytes(8, 128, 2, false),
                                 .states = states,
                                 .n_states = 2};
}

static struct blocks_sizes aligned(const struct blocks_model *m,
                                   uint32_t block_tokens, bool saves)
{
    struct blocks_sizes s = {.block_tokens = block_tokens};

    if (blocks_align(&s, m, 32, saves, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    return s;
}

static void a_block_holds_the_state(void **state)
{
    struct blocks_model m = fixture();
    struct blocks_sizes s = aligned(&m, 16, false);

    (void)state;
    assert_int_equal(m.token_bytes, 4096);
    assert_int_equal(s.state_bytes, 24576 + 524288);
    assert_int_equal(s.block_tokens, 160);
    assert_int_equal(s.padded_bytes, 655360);
    assert_int_equal(s.state_block_tokens, 0);
    assert_true(fabs(s.padding_percent - 19.40) < 0.005);
}

static void a_block_that_suffices_stays(void **state)
{
    struct blocks_model m = fixture();
    struct blocks_sizes s = aligned(&m, 256, false);

    (void)state;
    assert_int_equal(s.block_tokens, 256);
    assert_int_equal(s.padded_bytes, 1048576);
}

static void the_smallest_block_grows(void **state)
{
    struct blocks_model m = fixture();

    (void)state;
    assert_int_equal(aligned(&m, 1, false).block_tokens, 160);
    assert_int_equal(aligned(&m, 159, false).block_tokens, 160);
    assert_int_equal(aligned(&m, 161, false).block_tokens, 161);
}

static void other_models_are_left_alone(void **state)
{
    struct blocks_model m = fixture();
    struct blocks_sizes s;

    (void)state;
    m.is_hybrid = false;
    s = aligned(&m, 16, true);
    assert_int_equal(s.block_tokens, 16);
    assert_int_equal(s.padded_bytes, 0);
    assert_int_equal(s.state_block_tokens, 0);
    s = aligned(NULL, 16, true); /* no model */
    assert_int_equal(s.block_tokens, 16);
    assert_int_equal(s.padded_bytes, 0);
}

static void refused(const struct blocks_model *m, uint32_t alignment)
{
    struct blocks_sizes s = {.block_tokens = 16};

    assert_int_equal(blocks_align(&s, m, alignment, false, &e),
                     ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "zero"));
    assert_int_equal(s.block_tokens, 16);
}

static void a_model_without_sizes_is_refused(void **state)
{
    static const struct blocks_state empty[] = {{{0}, 0, 4}, {{3, 0}, 2, 4}};
    struct blocks_model m = fixture();

    (void)state;
    refused(&m, 0);
    m.n_states = 0;
    refused(&m, 32);
    m.states = empty;
    m.n_states = 2;
    refused(&m, 32);
    m = fixture();
    m.token_bytes = 0;
    refused(&m, 32);
}

/* The largest block has 2^32 - 32 positions. */
static void a_state_must_fit_a_block(void **state)
{
    struct blocks_state huge = {{4294967264, 1}, 2, 1};
    struct blocks_model m = {true, 1, &huge, 1};
    struct blocks_sizes s = {.block_tokens = 16};

    (void)state;
    assert_int_equal(blocks_align(&s, &m, 32, false, &e), ST_OK);
    assert_int_equal(s.block_tokens, 4294967264);
    huge.dims[0]++;
    assert_int_equal(blocks_align(&s, &m, 32, false, &e), ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "needs blocks of 4294967296 positions"));
}

static void saved_states_are_a_block_apart(void **state)
{
    struct blocks_model m = fixture();

    (void)state;
    assert_int_equal(aligned(&m, 16, true).state_block_tokens, 160);
    assert_int_equal(aligned(&m, 256, true).state_block_tokens, 256);
}

static void a_latent_position_is_one_vector(void **state)
{
    struct blocks_model m = fixture();
    struct blocks_sizes s;

    (void)state;
    m.states = latent_states;
    m.token_bytes = blocks_token_bytes(8, 128, 2, true);
    assert_int_equal(m.token_bytes, 2048);
    s = aligned(&m, 16, false);
    assert_int_equal(s.state_bytes, 548864);
    assert_int_equal(s.block_tokens, 288);
    assert_int_equal(s.padded_bytes, 589824);
    m.is_hybrid = false;
    assert_int_equal(aligned(&m, 16, false).block_tokens, 16);
}

static void an_equal_page_is_not_padded(void **state)
{
    static const struct blocks_state whole = {{160, 4096}, 2, 1};
    struct blocks_model m = {true, 4096, &whole, 1};
    struct blocks_sizes s = aligned(&m, 16, false);

    (void)state;
    assert_int_equal(s.block_tokens, 160);
    assert_int_equal(s.padded_bytes, 0);
    assert_true(s.padding_percent == 0.0);
}

/* Published sizes of models, for both alignments. */
static void aligns_the_models_of_a_family(void **state)
{
    static const struct {
        uint32_t n_kv_heads, channels, n_v_heads;
        uint64_t state, token;
        struct {
            uint32_t block;
            uint64_t page;
            double percent;
        } of[2]; /* 16, 32 */
    } rows[] = {
        {2,
         6144,
         16,
         1085440,
         2048,
         {{544, 1114112, 2.64}, {544, 1114112, 2.64}}},
        {4,
         8192,
         32,
         2146304,
         4096,
         {{528, 2162688, 0.76}, {544, 2228224, 3.82}}},
        {4,
         10240,
         48,
         3207168,
         4096,
         {{784, 3211264, 0.13}, {800, 3276800, 2.17}}},
        {2,
         8192,
         32,
         2146304,
         2048,
         {{1056, 2162688, 0.76}, {1056, 2162688, 0.76}}},
        {2,
         12288,
         64,
         4268032,
         2048,
         {{2096, 4292608, 0.58}, {2112, 4325376, 1.34}}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct blocks_state of[] = {
            {{3, rows[i].channels}, 2, 2},
            {{rows[i].n_v_heads, 128, 128}, 3, 4}};
        struct blocks_model m = {
            true, blocks_token_bytes(rows[i].n_kv_heads, 256, 2, false), of, 2};

        assert_int_equal(m.token_bytes, rows[i].token);
        for (int k = 0; k < 2; k++) {
            struct blocks_sizes s = {.block_tokens = 32};

            assert_int_equal(blocks_align(&s, &m, k ? 32 : 16, false, &e),
                             ST_OK);
            assert_int_equal(s.state_bytes, rows[i].state);
            assert_int_equal(s.block_tokens, rows[i].of[k].block);
            assert_int_equal(s.padded_bytes, rows[i].of[k].page);
            assert_true(fabs(s.padding_percent - rows[i].of[k].percent) <
                        0.005);
        }
    }
}

/* ---- kernel blocks ---- */

static uint32_t kernel_of(uint32_t block)
{
    uint32_t kernel = 0;

    assert_int_equal(blocks_kernel(&kernel, block, &e), ST_OK);
    return kernel;
}

static void the_largest_kernel_block_divides(void **state)
{
    static const uint32_t none[] = {0, 1, 4, 7, 12, 36, 547};
    uint32_t kernel;

    (void)state;
    assert_int_equal(kernel_of(544), 32);
    assert_int_equal(kernel_of(528), 16);
    assert_int_equal(kernel_of(160), 32);
    assert_int_equal(kernel_of(48), 16);
    assert_int_equal(kernel_of(24), 8);
    assert_int_equal(kernel_of(8), 8);
    assert_int_equal(kernel_of(16), 16);
    assert_int_equal(kernel_of(32), 32);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        assert_int_equal(blocks_kernel(&kernel, none[i], &e),
                         ST_INVALID_ARGUMENT);
        assert_non_null(strstr(e.text, "is not divisible"));
    }
}

/* ---- groups ---- */

static void layers_are_grouped(void **state)
{
    static const struct {
        uint32_t n_attention, n_linear;
        struct blocks_groups want;
    } rows[] = {
        {6, 18, {6, 1, 3}}, {8, 24, {8, 1, 3}}, {16, 48, {16, 1, 3}},
        {4, 0, {4, 1, 0}},  {0, 5, {5, 0, 1}},  {4, 5, {5, 1, 1}},
        {4, 6, {4, 1, 2}}, /* half as large again: two groups */
        {2, 6, {2, 1, 3}},  {1, 3, {1, 1, 3}},  {3, 2, {2, 2, 1}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct blocks_groups g =
            blocks_group(rows[i].n_attention, rows[i].n_linear);

        assert_int_equal(g.size, rows[i].want.size);
        assert_int_equal(g.n_attention, rows[i].want.n_attention);
        assert_int_equal(g.n_linear, rows[i].want.n_linear);
    }
}

/* 0.8B: 1 GiB has 160 ids; 1301 positions take 3 and a state in each group. */
static void a_sequence_takes_ids(void **state)
{
    struct blocks_groups g = blocks_group(6, 18);

    (void)state;
    assert_int_equal(1073741824 / (g.size * 1114112ull), 160);
    assert_int_equal(blocks_of_sequence(&g, 544, 1301), 3 + 3);
    assert_int_equal(blocks_of_sequence(&g, 544, 544), 1 + 3);
    assert_int_equal(blocks_of_sequence(&g, 544, 545), 2 + 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_holds_the_state),
        cmocka_unit_test(a_block_that_suffices_stays),
        cmocka_unit_test(the_smallest_block_grows),
        cmocka_unit_test(other_models_are_left_alone),
        cmocka_unit_test(a_model_without_sizes_is_refused),
        cmocka_unit_test(a_state_must_fit_a_block),
        cmocka_unit_test(saved_states_are_a_block_apart),
        cmocka_unit_test(a_latent_position_is_one_vector),
        cmocka_unit_test(an_equal_page_is_not_padded),
        cmocka_unit_test(aligns_the_models_of_a_family),
        cmocka_unit_test(the_largest_kernel_block_divides),
        cmocka_unit_test(layers_are_grouped),
        cmocka_unit_test(a_sequence_takes_ids),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
