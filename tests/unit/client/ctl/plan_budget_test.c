/* Published figures of the memory that another engine plans. */
#include "client/ctl/plan_budget.h"

#include <string.h>

#include "client/ctl/plan_blocks.h"
#include "tests/unit/cmocka.h"

static struct error e;

static void takes_four_fifths_without_pages(void **state)
{
    (void)state;
    assert_int_equal(plan_budget_unpaged(16000000000, 2000000000), 11200000000);
    assert_int_equal(plan_budget_unpaged(9, 0), 7);
    assert_int_equal(plan_budget_unpaged(UINT64_MAX, 0), 14757395258967641292u);
    assert_int_equal(plan_budget_unpaged(5, 5), 0);
    assert_int_equal(plan_budget_unpaged(5, 6), 0);
}

static uint64_t sequence(uint32_t n_attention, uint32_t n_tokens,
                         uint32_t block_tokens, uint64_t token_bytes)
{
    struct plan_budget_sequence s = {.n_attention = n_attention,
                                     .n_tokens = n_tokens,
                                     .block_tokens = block_tokens,
                                     .token_bytes = token_bytes};

    return plan_budget_sequence_bytes(&s);
}

static void prices_the_longest_sequence(void **state)
{
    (void)state;
    assert_int_equal(sequence(16, 2048, 16, blocks_token_bytes(8, 64, 2, 0)),
                     67108864);
    assert_int_equal(sequence(16, 2048, 16, blocks_token_bytes(8, 128, 2, 0)),
                     134217728);
    assert_int_equal(sequence(4, 2048, 400, blocks_token_bytes(4, 64, 2, 0)),
                     9830400); /* 2400 positions */
    assert_int_equal(sequence(4, 2048, 16, blocks_token_bytes(1, 576, 2, 1)),
                     9437184);
}

static void adds_the_states_of_a_hybrid(void **state)
{
    struct plan_budget_sequence s = {.n_attention = 8,
                                     .n_linear = 3,
                                     .n_tokens = 2048,
                                     .block_tokens = 16,
                                     .token_bytes = 2 * 4 * 256 * 2,
                                     .linear_bytes = 1000000};

    (void)state;
    assert_int_equal(plan_budget_sequence_bytes(&s), 68108864);
    s.padded_bytes = 4096;
    assert_int_equal(plan_budget_sequence_bytes(&s), 67108864 + 3 * 4096);
}

static struct plan_budget_paged plan(uint32_t max_rows)
{
    return (struct plan_budget_paged){.limit = 10000000000,
                                      .fraction = 0.5,
                                      .model_bytes = 1000000000,
                                      .overhead_bytes = 500000000,
                                      .slot_bytes = 64400000,
                                      .max_rows = max_rows,
                                      .block_bytes = 100000000};
}

static void divides_a_budget(void **state)
{
    struct plan_budget_paged b = plan(256);
    struct plan_budget_result r;

    (void)state;
    assert_int_equal(plan_budget_divide(&r, &b, &e), ST_OK);
    assert_int_equal(r.base_bytes, 3500000000);
    assert_int_equal(r.reserved_slots, 3);
    assert_int_equal(r.cache_bytes, 3306800000);
    assert_int_equal(r.n_blocks, 33);
    b = plan(1);
    assert_int_equal(plan_budget_divide(&r, &b, &e), ST_OK);
    assert_int_equal(r.reserved_slots, 1);
    assert_int_equal(r.n_blocks, 34);
}

static void needs_sixteen_blocks(void **state)
{
    struct plan_budget_paged b = plan(1);
    struct plan_budget_result r;

    (void)state;
    b.slot_bytes = 0;
    b.block_bytes = 3500000000 / BUDGET_BLOCKS_MIN;
    assert_int_equal(plan_budget_divide(&r, &b, &e), ST_OK);
    assert_int_equal(r.n_blocks, BUDGET_BLOCKS_MIN);
    b.block_bytes++;
    assert_int_equal(plan_budget_divide(&r, &b, &e), ST_RESOURCE_EXHAUSTED);
    assert_int_equal(r.n_blocks, BUDGET_BLOCKS_MIN - 1);
    assert_null(strstr(e.text, "hybrid_gdn_state"));
    assert_null(strstr(e.text, "--max-num-seqs"));
}

static void explains_a_shortage(void **state)
{
    static const char *const parts[] = {
        "limit=10.00GB, fraction=0.50, model=1.00GB, overhead=3.90GB",
        "kv_budget_before_hybrid=0.10GB",
        "hybrid_gdn_state=lazy",
        "growth_peak_reserve=0.19GB, 64.4MB/seq * peak_slots=3/max_num_seqs=2",
        "kv_budget=-0.09GB",
        "lower --max-num-seqs",
        "raise the memory fraction",
    };
    struct plan_budget_paged b = plan(2);
    struct plan_budget_result r;

    (void)state;
    b.overhead_bytes = 3900000000;
    assert_int_equal(plan_budget_divide(&r, &b, &e), ST_RESOURCE_EXHAUSTED);
    assert_int_equal(r.n_blocks, 0);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (strstr(e.text, parts[i]) == NULL) {
            fail_msg("no \"%s\" in \"%s\"", parts[i], e.text);
        }
    }
}

/* 24 layers, 18 of them linear in 6 pools, 100 bytes of state a layer. */
static void counts_the_old_pool_where_states_are_saved(void **state)
{
    struct plan_budget_paged b = {.limit = 10000,
                                  .fraction = 1,
                                  .model_bytes = 1000,
                                  .overhead_bytes = 1000,
                                  .block_bytes =
                                      plan_budget_saving_block(100, 100, 6)};
    struct plan_budget_result r;

    (void)state;
    assert_int_equal(b.block_bytes, 800);
    /* Too few to start, but that many. */
    assert_int_equal(plan_budget_divide(&r, &b, &e), ST_RESOURCE_EXHAUSTED);
    assert_int_equal(r.cache_bytes, 8000);
    assert_int_equal(r.n_blocks, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_four_fifths_without_pages),
        cmocka_unit_test(prices_the_longest_sequence),
        cmocka_unit_test(adds_the_states_of_a_hybrid),
        cmocka_unit_test(divides_a_budget),
        cmocka_unit_test(needs_sixteen_blocks),
        cmocka_unit_test(explains_a_shortage),
        cmocka_unit_test(counts_the_old_pool_where_states_are_saved),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
