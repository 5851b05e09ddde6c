/* The accounts of the host tier. */
#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "worker/cache/host.h"

static uint32_t take(struct host *h, uint32_t n)
{
    uint32_t first = HOST_NONE;

    assert_true(host_take(h, n, &first));
    return first;
}

static void chains_are_consecutive_where_they_can(void **state)
{
    struct host h;
    uint32_t a, b, page;

    (void)state;
    assert_true(host_init(&h, 8));
    a = take(&h, 3);
    b = take(&h, 4);
    for (uint32_t i = 0; i + 1 < 3; i++) {
        assert_int_equal(host_next(&h, a + i), a + i + 1);
    }
    assert_int_equal(host_next(&h, a + 2), HOST_NONE);
    assert_int_equal(b, a + 3);
    host_give(&h, a);
    assert_int_equal(host_free(&h), 4);
    /* The page behind b, and those that a had. */
    page = take(&h, 4);
    assert_int_equal(page, 7);
    for (uint32_t i = 0; i < 3; i++) {
        page = host_next(&h, page);
        assert_int_equal(page, i);
    }
    assert_int_equal(h.violations, 0);
    host_fini(&h);
}

static void all_pages_can_be_taken_and_none_more(void **state)
{
    struct host h;
    uint32_t first;

    (void)state;
    assert_true(host_init(&h, 5));
    assert_false(host_take(&h, 6, &first));
    assert_false(host_take(&h, 0, &first));
    first = take(&h, 5);
    assert_int_equal(host_free(&h), 0);
    assert_int_equal(h.n_used, 5);
    assert_false(host_take(&h, 1, &first));
    host_give(&h, first);
    assert_int_equal(host_free(&h), 5);
    host_fini(&h);
    assert_true(host_init(&h, 0));
    assert_false(host_take(&h, 1, &first));
    assert_int_equal(host_unmarked(&h, true), 0);
    host_fini(&h);
}

static void wrong_release_is_a_violation(void **state)
{
    struct host h;
    uint32_t a;

    (void)state;
    assert_true(host_init(&h, 4));
    a = take(&h, 2);
    host_give(&h, a);
    host_give(&h, a);
    assert_int_equal(h.violations, 1);
    host_give(&h, 4);
    assert_int_equal(h.violations, 2);
    assert_int_equal(h.n_used, 0);
    host_fini(&h);
}

static void audit_finds_leaks_and_broken_chains(void **state)
{
    struct host h;
    uint32_t a, b;

    (void)state;
    assert_true(host_init(&h, 8));
    a = take(&h, 3);
    b = take(&h, 2);
    host_mark_begin(&h);
    assert_true(host_mark(&h, a, 3));
    assert_int_equal(host_unmarked(&h, false), 2);
    assert_true(host_mark(&h, b, 2));
    assert_int_equal(host_unmarked(&h, false), 0);
    assert_false(host_mark(&h, b, 2)); /* two owners */
    host_mark_begin(&h);
    assert_false(host_mark(&h, a, 2)); /* longer than its owner has it */
    host_mark_begin(&h);
    assert_false(host_mark(&h, a, 4));
    host_mark_begin(&h);
    assert_false(host_mark(&h, 7, 1)); /* free */
    assert_true(host_mark(&h, a, 3));
    assert_int_equal(host_unmarked(&h, true), 2);
    assert_int_equal(h.n_used, 3);
    assert_int_equal(h.violations, 2);
    host_fini(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_are_consecutive_where_they_can),
        cmocka_unit_test(all_pages_can_be_taken_and_none_more),
        cmocka_unit_test(wrong_release_is_a_violation),
        cmocka_unit_test(audit_finds_leaks_and_broken_chains),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
