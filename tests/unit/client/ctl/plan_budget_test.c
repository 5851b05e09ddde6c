/* Published figures of the memory that another engine plans. */
#include "client/ctl/plan_budget.h"

#include <string.h>

#include "tests/unit/cmocka.h"

static struct error e;

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

static void counts_the_blocks_of_a_shortage(void **state)
{
    struct plan_budget_paged b = {.limit = 10000,
                                  .fraction = 1,
                                  .model_bytes = 1000,
                                  .overhead_bytes = 1000,
                                  .block_bytes = 800};
    struct plan_budget_result r;

    (void)state;
    /* Too few to start, but that many. */
    assert_int_equal(plan_budget_divide(&r, &b, &e), ST_RESOURCE_EXHAUSTED);
    assert_int_equal(r.cache_bytes, 8000);
    assert_int_equal(r.n_blocks, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(divides_a_budget),
        cmocka_unit_test(needs_sixteen_blocks),
        cmocka_unit_test(explains_a_shortage),
        cmocka_unit_test(counts_the_blocks_of_a_shortage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
