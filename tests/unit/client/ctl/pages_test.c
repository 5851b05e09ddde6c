#include "client/ctl/pages.h"

#include <string.h>

#include "tests/unit/cmocka.h"

static void ends_with_the_last_page(void **state)
{
    struct pages p = {0};

    (void)state;
    pages_take(&p, true, 64);
    assert_true(p.more);
    assert_int_equal(p.after, 64);
    pages_take(&p, true, UINT64_MAX);
    assert_true(p.more);
    pages_take(&p, false, 0);
    assert_false(p.more);
    assert_int_equal(p.status, ST_OK);
    assert_int_equal(p.n, 3);
}

static void takes_next_0_as_the_end(void **state)
{
    struct pages p = {0};

    (void)state;
    pages_take(&p, true, 5);
    pages_take(&p, true, 0);
    assert_false(p.more);
    assert_int_equal(p.status, ST_OK);
}

static void refuses_pages_that_do_not_advance(void **state)
{
    (void)state;
    for (uint64_t next = 6; next <= 7; next++) {
        struct pages p = {0};

        pages_take(&p, true, 7);
        pages_take(&p, true, next);
        assert_false(p.more);
        assert_int_equal(p.status, ST_DATA_LOSS);
        assert_non_null(strstr(p.error.text, "page 2 of the list names next="));
    }
}

static void refuses_one_page_past_the_limit(void **state)
{
    struct pages p = {0};

    (void)state;
    for (uint64_t i = 1; i < PAGES_MAX; i++) {
        pages_take(&p, true, i);
        assert_true(p.more);
    }
    {
        struct pages last = p;

        pages_take(&last, false, 0);
        assert_int_equal(last.status, ST_OK);
    }
    pages_take(&p, true, PAGES_MAX);
    assert_false(p.more);
    assert_int_equal(p.status, ST_OUT_OF_RANGE);
    assert_non_null(strstr(p.error.text, "more than 32768 pages"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_with_the_last_page),
        cmocka_unit_test(takes_next_0_as_the_end),
        cmocka_unit_test(refuses_pages_that_do_not_advance),
        cmocka_unit_test(refuses_one_page_past_the_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
