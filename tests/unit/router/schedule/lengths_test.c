/* The learned distribution of output lengths: bins, the prior, known
 * distributions, the decay, and sequences that were cut off. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "router/schedule/lengths.h"

#define MAX LENGTHS_MOST

/* A sequence that is observed token by token, and ends by itself after n. */
static void ended(struct lengths *l, uint32_t times, uint32_t n)
{
    for (uint32_t i = 0; i < times; i++) {
        lengths_begun(l, 1);
        for (uint32_t had = 1; had < n; had++) {
            lengths_reached(l, had, had + 1);
        }
        lengths_ended(l, n);
    }
}

static void cut(struct lengths *l, uint32_t times, uint32_t n)
{
    for (uint32_t i = 0; i < times; i++) {
        lengths_begun(l, 1);
        lengths_reached(l, 1, n);
        lengths_cut(l);
    }
}

/* The share of all that are longer than n, in thousandths. */
static uint32_t longer(struct lengths *l, uint32_t n)
{
    return (uint32_t)((uint64_t)lengths_share(l, n) * 1000 / LENGTHS_ONE);
}

static void no_sequence_is_shorter_than_it_is(void **state)
{
    struct lengths l;
    uint32_t before = LENGTHS_ONE;

    (void)state;
    lengths_init(&l, NULL);
    assert_int_equal(lengths_share(NULL, 7), LENGTHS_ONE);
    assert_int_equal(lengths_share(&l, 0), LENGTHS_ONE);
    for (uint32_t n = 1; n <= 5000; n++) {
        uint32_t share = lengths_share(&l, n);

        assert_true(share <= before && before - share < LENGTHS_ONE / 32);
        before = share;
    }
    assert_true(lengths_share(&l, LENGTHS_MOST) ==
                lengths_share(&l, LENGTHS_MOST + 1));
    assert_true(lengths_share(&l, INT32_MAX) < LENGTHS_ONE / 500);
}

static void the_prior_has_a_long_tail(void **state)
{
    struct lengths l;

    (void)state;
    lengths_init(&l, NULL);
    assert_in_range(longer(&l, 16), 850, 900);
    assert_in_range(longer(&l, 1024), 30, 60);
    assert_in_range(longer(&l, 65536), 1, 5);
}

/* Each length up to 16, and each multiple of an eighth of an octave, is the
 * last of its bin: no sequence of it is longer. */
static void ends_are_learned_within_a_bin(void **state)
{
    static const uint32_t lengths[] = {1, 2, 16, 18, 32, 150, 1500, 100000};

    (void)state;
    for (unsigned i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        uint32_t n = lengths[i];
        struct lengths l;

        lengths_init(&l, NULL);
        ended(&l, 200, n);
        assert_true(longer(&l, n + n / 8) < 50);
        assert_true(longer(&l, n - n / 8 - 1) > 800);
        assert_in_range(lengths_expect(&l, 0, MAX), n - n / 8, n + n / 8);
    }
}

static void a_uniform_distribution_is_found(void **state)
{
    struct lengths l;

    (void)state;
    lengths_init(&l, NULL);
    for (uint32_t i = 0; i < 4000; i++) {
        ended(&l, 1, 1 + i * 379 % 1000);
    }
    assert_in_range(longer(&l, 250), 700, 800);
    assert_in_range(longer(&l, 500), 450, 550);
    assert_in_range(longer(&l, 750), 200, 300);
    assert_in_range(lengths_expect(&l, 0, MAX), 740, 860);
}

static void a_long_sequence_is_expected_to_end_past_what_it_has(void **state)
{
    struct lengths l;

    (void)state;
    lengths_init(&l, NULL);
    for (uint32_t i = 0; i < 1000; i++) {
        ended(&l, 1, i % 50 == 0 ? 1500 : 100);
    }
    assert_in_range(lengths_expect(&l, 0, MAX), 96, 112);
    assert_in_range(lengths_expect(&l, 200, MAX), 1400, 1600);
    assert_int_equal(lengths_expect(&l, 200, 1000), 1000);
    assert_int_equal(lengths_expect(&l, 1000, 1000), 1000);
    for (uint32_t n = 0; n < 3000; n++) {
        assert_in_range(lengths_expect(&l, n, 3000), n + 1, 3000);
    }
}

/* About the newest 256 that reach a bin decide. */
static void a_new_distribution_replaces_the_old_one(void **state)
{
    struct lengths l;

    (void)state;
    lengths_init(&l, NULL);
    ended(&l, 10000, 100);
    assert_true(longer(&l, 200) < 50);
    ended(&l, 100, 3000);
    assert_in_range(longer(&l, 200), 200, 700);
    ended(&l, 400, 3000);
    assert_true(longer(&l, 200) > 900);
    ended(&l, 500, 100);
    assert_true(longer(&l, 200) < 100);
}

/* Long ones are seen while they run: none has ended yet. */
static void running_sequences_count(void **state)
{
    struct lengths l;

    (void)state;
    lengths_init(&l, NULL);
    ended(&l, 1000, 100);
    for (uint32_t i = 0; i < 300; i++) {
        lengths_begun(&l, 1);
        lengths_reached(&l, 1, 400);
    }
    assert_true(longer(&l, 200) > 500);
}

/* Half of the sequences have 1600 tokens and half 4800.  Cut off at 1000, they
 * do not show which. */
static void sequences_cut_off_change_no_share(void **state)
{
    struct lengths l;

    (void)state;
    lengths_init(&l, NULL);
    for (uint32_t i = 0; i < 400; i++) {
        ended(&l, 1, i % 2 == 0 ? 1600 : 4800);
    }
    assert_in_range(longer(&l, 2000), 420, 560);
    cut(&l, 2000, 1000);
    assert_in_range(longer(&l, 2000), 420, 560);
    assert_int_equal(lengths_count(&l), 2400);
    assert_int_equal(l.n_ends, 400);
}

/* All use all of their max_tokens: none is expected to end before. */
static void those_that_max_tokens_ends_are_as_long_as_it_is(void **state)
{
    struct lengths l;

    (void)state;
    lengths_init(&l, NULL);
    cut(&l, 1000, 3900);
    assert_true(longer(&l, 3800) > 900);
    assert_in_range(lengths_expect(&l, 0, 3900), 3900, 3900);
}

/* A sequence that moved, or that its client resumed, is counted from its first
 * token here, and reaches no bin twice. */
static void no_bin_is_reached_twice(void **state)
{
    struct lengths l;
    uint32_t one = 0;

    (void)state;
    lengths_init(&l, NULL);
    lengths_begun(&l, 101);
    for (uint32_t n = 101; n < 300; n++) {
        lengths_reached(&l, n, n + 1);
    }
    lengths_reached(&l, 300, 300);
    for (uint32_t b = 0; b < LENGTHS_BINS; b++) {
        one = l.reached[b] > 0 && one == 0 ? l.reached[b] : one;
        assert_true(l.reached[b] == 0 || l.reached[b] == one);
    }
    assert_int_equal(l.reached[0], 0);
}

/* Outputs of 10 and of 100: 55 at first, and 90 more after the tenth. */
static void the_mean_is_that_of_those_that_are_left(void **state)
{
    struct lengths l;

    (void)state;
    lengths_init(&l, NULL);
    for (int i = 0; i < 300; i++) {
        ended(&l, 1, 10);
        ended(&l, 1, 100);
    }
    assert_in_range(lengths_mean(&l, 0, 1000), 50, 62);
    assert_in_range(lengths_mean(&l, 10, 1000), 82, 98);
    assert_in_range(lengths_mean(&l, 0, 40), 20, 27);
    assert_int_equal(lengths_mean(&l, 0, 10), 10);
    assert_int_equal(lengths_mean(&l, 9, 10), 1);
    assert_int_equal(lengths_mean(&l, 10, 10), 0);
    assert_int_equal(lengths_mean(&l, 11, 10), 0);
    assert_in_range(lengths_mean(&l, 0, INT32_MAX), 50, 100000);
    assert_in_range(lengths_mean(&l, LENGTHS_MOST + 1, LENGTHS_MOST + 9), 7, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_sequence_is_shorter_than_it_is),
        cmocka_unit_test(the_prior_has_a_long_tail),
        cmocka_unit_test(ends_are_learned_within_a_bin),
        cmocka_unit_test(a_uniform_distribution_is_found),
        cmocka_unit_test(a_long_sequence_is_expected_to_end_past_what_it_has),
        cmocka_unit_test(a_new_distribution_replaces_the_old_one),
        cmocka_unit_test(running_sequences_count),
        cmocka_unit_test(sequences_cut_off_change_no_share),
        cmocka_unit_test(those_that_max_tokens_ends_are_as_long_as_it_is),
        cmocka_unit_test(no_bin_is_reached_twice),
        cmocka_unit_test(the_mean_is_that_of_those_that_are_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
