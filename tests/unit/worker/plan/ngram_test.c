/* Drafts from the text itself. */
#include <string.h>

#include "tests/unit/cmocka.h"
#include "worker/plan/ngram.h"

#define COUNT(a) (uint32_t)(sizeof(a) / sizeof *(a))

static uint32_t out[16];

static void a_suffix_goes_on_as_before(void **state)
{
    static const uint32_t ids[] = {1, 2, 3, 4, 5, 9, 1, 2, 3};

    (void)state;
    assert_int_equal(ngram_find(ids, COUNT(ids), out, 3), 3);
    assert_int_equal(out[0], 4);
    assert_int_equal(out[1], 5);
    assert_int_equal(out[2], 9);
}

static void the_longest_suffix_counts(void **state)
{
    static const uint32_t ids[] = {7, 1, 2, 3, 4, 8, 2, 3, 5, 7, 1, 2, 3};

    (void)state;
    assert_int_equal(ngram_find(ids, COUNT(ids), out, 1), 1);
    assert_int_equal(out[0], 4);
}

static void the_newest_of_equal_suffixes_counts(void **state)
{
    static const uint32_t ids[] = {2, 3, 4, 8, 2, 3, 5, 7, 2, 3};

    (void)state;
    assert_int_equal(ngram_find(ids, COUNT(ids), out, 1), 1);
    assert_int_equal(out[0], 5);
}

static void a_repetition_goes_on(void **state)
{
    static const uint32_t ids[] = {1, 5, 6, 5, 6};

    (void)state;
    assert_int_equal(ngram_find(ids, COUNT(ids), out, 5), 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(out[i], i % 2 == 0 ? 5 : 6);
    }
}

static void a_short_suffix_is_none(void **state)
{
    static const uint32_t one[] = {1, 2, 3, 4, 2}, two[] = {1, 2, 3, 1, 2};

    (void)state;
    assert_int_equal(NGRAM_MIN, 2);
    assert_int_equal(ngram_find(one, COUNT(one), out, 4), 0);
    assert_int_equal(ngram_find(two, COUNT(two), out, 4), 4);
    assert_int_equal(ngram_find(two, 0, out, 4), 0);
    assert_int_equal(ngram_find(two, NGRAM_MIN, out, 4), 0);
    assert_int_equal(ngram_find(two, COUNT(two), out, 0), 0);
}

/* Beyond NGRAM_MAX ids all matches are equal, and the newest one counts. */
static void matches_are_compared_up_to_the_limit(void **state)
{
    uint32_t ids[4 * NGRAM_MAX + 6], n = 0;

    (void)state;
    for (uint32_t i = 0; i < NGRAM_MAX + 1; i++) {
        ids[n++] = 10 + i;
    }
    ids[n++] = 100;
    ids[n++] = 99; /* here the first id of the suffix differs */
    for (uint32_t i = 1; i < NGRAM_MAX + 1; i++) {
        ids[n++] = 10 + i;
    }
    ids[n++] = 101;
    for (uint32_t i = 0; i < NGRAM_MAX + 1; i++) {
        ids[n++] = 10 + i;
    }
    assert_int_equal(ngram_find(ids, n, out, 1), 1);
    assert_int_equal(out[0], 101);
    ids[NGRAM_MAX + 4] = 98; /* now it is shorter than the limit */
    assert_int_equal(ngram_find(ids, n, out, 1), 1);
    assert_int_equal(out[0], 100);
}

static void the_window_is_the_most_that_is_searched(void **state)
{
    static uint32_t ids[NGRAM_WINDOW + 1];

    (void)state;
    for (uint32_t i = 0; i < NGRAM_WINDOW + 1; i++) {
        ids[i] = i;
    }
    memcpy(&ids[NGRAM_WINDOW - 3], ids, 3 * sizeof *ids);
    assert_int_equal(ngram_find(ids, NGRAM_WINDOW, out, 2), 2);
    assert_int_equal(out[0], 3);
    assert_int_equal(ngram_find(ids, NGRAM_WINDOW + 1, out, 2), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_suffix_goes_on_as_before),
        cmocka_unit_test(the_longest_suffix_counts),
        cmocka_unit_test(the_newest_of_equal_suffixes_counts),
        cmocka_unit_test(a_repetition_goes_on),
        cmocka_unit_test(a_short_suffix_is_none),
        cmocka_unit_test(matches_are_compared_up_to_the_limit),
        cmocka_unit_test(the_window_is_the_most_that_is_searched),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
