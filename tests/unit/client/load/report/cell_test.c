/* Numbers as short texts. */
#include "client/load/report/cell.h"

#include <string.h>

#include "tests/unit/cmocka.h"

static void times_have_a_unit_and_three_digits(void **state)
{
    (void)state;
    assert_string_equal(cell_time(0).text, "0 us");
    assert_string_equal(cell_time(999).text, "999 us");
    assert_string_equal(cell_time(999.6).text, "1.00 ms");
    assert_string_equal(cell_time(9994).text, "9.99 ms");
    assert_string_equal(cell_time(9996).text, "10.0 ms");
    assert_string_equal(cell_time(99960).text, "100 ms");
    assert_string_equal(cell_time(999400).text, "999 ms");
    assert_string_equal(cell_time(999600).text, "1.00 s");
    assert_string_equal(cell_time(3600e6).text, "3600 s");
    assert_string_equal(cell_time((double)HISTOGRAM_LOST).text, "lost");
}

static void counts_have_commas(void **state)
{
    (void)state;
    assert_string_equal(cell_count(0).text, "0");
    assert_string_equal(cell_count(999).text, "999");
    assert_string_equal(cell_count(1000).text, "1,000");
    assert_string_equal(cell_count(UINT64_MAX).text,
                        "18,446,744,073,709,551,615");
}

static void numbers_have_three_digits(void **state)
{
    (void)state;
    assert_string_equal(cell_number(0).text, "0.00");
    assert_string_equal(cell_number(0.1234).text, "0.123");
    assert_string_equal(cell_number(1.234).text, "1.23");
    assert_string_equal(cell_number(99.94).text, "99.9");
    assert_string_equal(cell_number(999.6).text, "1,000");
    assert_string_equal(cell_number(12345.4).text, "12,345");
    assert_string_equal(cell_load(30).text, "30");
    assert_string_equal(cell_load(34.5).text, "34.5");
    assert_string_equal(cell_load(1500).text, "1,500");
}

static void a_share_is_only_whole_if_nothing_is_missing(void **state)
{
    (void)state;
    assert_string_equal(cell_share(0, 0).text, "-");
    assert_string_equal(cell_share(5, 5).text, "100 %");
    assert_string_equal(cell_share(999999, 1000000).text, "99.99 %");
    assert_string_equal(cell_share(1, 3).text, "33.33 %");
    assert_string_equal(cell_share(0, 3).text, "0.00 %");
}

static void control_characters_do_not_reach_the_terminal(void **state)
{
    char long_text[3 * CELL_TEXT];

    (void)state;
    assert_string_equal(cell_plain("a\x1b[2J\n\xc3\xa9").text, "a?[2J???");
    assert_string_equal(cell_plain(NULL).text, "-");
    assert_string_equal(cell_plain("").text, "-");
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    assert_int_equal(strlen(cell_plain(long_text).text), CELL_TEXT - 1);
}

static void figures_of_nothing_are_a_dash(void **state)
{
    struct histogram h = {0};

    (void)state;
    assert_string_equal(cell_figure(&h, 0.5, true).text, "-");
    histogram_lose(&h, 1);
    assert_string_equal(cell_figure(&h, 0.5, true).text, "lost");
    assert_string_equal(cell_figure(&h, -1, true).text, "-");
    histogram_add(&h, 1500, 1);
    assert_string_equal(cell_figure(&h, 0.5, true).text, "1.50 ms");
    assert_string_equal(cell_figure(&h, -1, false).text, "1,500");
    histogram_fini(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_have_a_unit_and_three_digits),
        cmocka_unit_test(counts_have_commas),
        cmocka_unit_test(numbers_have_three_digits),
        cmocka_unit_test(a_share_is_only_whole_if_nothing_is_missing),
        cmocka_unit_test(control_characters_do_not_reach_the_terminal),
        cmocka_unit_test(figures_of_nothing_are_a_dash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
