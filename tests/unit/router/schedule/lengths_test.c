/* The learned distribution of output lengths: known distributions, the prior,
 * the decay, and sequences that were cut off. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "router/schedule/lengths.h"

#define MAX 6400 /* 100 tokens a bin */

static void ended(struct lengths *l, uint32_t times, uint32_t n)
{
    for (uint32_t i = 0; i < times; i++) {
        lengths_ended(l, n, MAX);
    }
}

static void without_observations_all_of_max_tokens_is_expected(void **state)
{
    struct lengths l;

    (void)state;
    lengths_init(&l);
    assert_int_equal(lengths_expect(NULL, 0, MAX), MAX);
    assert_int_equal(lengths_expect(&l, 0, MAX), MAX);
    assert_int_equal(lengths_expect(&l, MAX - 1, MAX), MAX);
    assert_int_equal(lengths_expect(&l, MAX, MAX), MAX);
    assert_int_equal(lengths_permille(NULL), 1000);
    assert_int_equal(lengths_permille(&l), 1000);
}

/* The prior has the weight of 8 ends, and loses 1/256 with each: with 80 % the
 * quantile leaves the last bin at the first n for which 8 d^n is at most a
 * fifth of the sum, d = 255/256. */
static void the_prior_gives_way_after_about_four_times_its_weight(void **state)
{
    struct lengths l;

    (void)state;
    lengths_init(&l);
    ended(&l, 28, 1600);
    assert_int_equal(lengths_expect(&l, 0, MAX), MAX);
    ended(&l, 4, 1600);
    assert_int_equal(lengths_expect(&l, 0, MAX), 1600);
}

static void the_quantile_of_a_uniform_distribution_is_four_fifths(void **state)
{
    struct lengths l;

    (void)state;
    lengths_init(&l);
    for (uint32_t round = 0; round < 40; round++) {
        /* 37 and 64 have no common divisor: each bin once a round, spread. */
        for (uint32_t i = 0; i < LENGTHS_BINS; i++) {
            lengths_ended(&l, (i * 37 % LENGTHS_BINS) * 100 + 50, MAX);
        }
    }
    /* bins 0..51 have 52/64 = 81 % */
    assert_in_range(lengths_expect(&l, 0, MAX), 5100, 5300);
    assert_in_range(lengths_permille(&l), 796, 828);
}

static void shares_are_learned_whatever_max_tokens_is(void **state)
{
    struct lengths l;

    (void)state;
    lengths_init(&l);
    for (uint32_t i = 0; i < 200; i++) {
        lengths_ended(&l, 16 + 16 * i, 64 + 64 * i);
    }
    assert_int_equal(lengths_expect(&l, 0, 6400), 1600);
    assert_int_equal(lengths_expect(&l, 0, 64), 16);
    assert_int_equal(lengths_expect(&l, 0, 4), 1);
    assert_int_equal(lengths_permille(&l), 250);
}

static void a_long_sequence_is_expected_to_end_past_what_it_has(void **state)
{
    struct lengths l;

    (void)state;
    lengths_init(&l);
    ended(&l, 400, 1600);
    ended(&l, 40, 3200);
    assert_int_equal(lengths_expect(&l, 0, MAX), 1600);
    assert_int_equal(lengths_expect(&l, 1599, MAX), 1600);
    /* All that are longer than 1600 tokens have 3200. */
    assert_int_equal(lengths_expect(&l, 1600, MAX), 3200);
    assert_int_equal(lengths_expect(&l, 3150, MAX), 3200);
    /* None that is longer than 3200 ended; the prior is left. */
    assert_int_equal(lengths_expect(&l, 3200, MAX), MAX);
}

static void no_expectation_is_below_what_was_generated(void **state)
{
    struct lengths l;

    (void)state;
    lengths_init(&l);
    ended(&l, 300, 1);
    for (uint32_t max = 1; max < 200; max++) {
        for (uint32_t n = 0; n < max; n++) {
            assert_in_range(lengths_expect(&l, n, max), n + 1, max);
        }
        assert_int_equal(lengths_expect(&l, max, max), max);
    }
    assert_in_range(lengths_expect(&l, 0, INT32_MAX), 1, INT32_MAX);
    assert_in_range(lengths_expect(&l, INT32_MAX - 1, INT32_MAX), INT32_MAX,
                    INT32_MAX);
}

/* The newest 256 ends or so decide. */
static void a_new_distribution_replaces_the_old_one(void **state)
{
    struct lengths l;

    (void)state;
    lengths_init(&l);
    ended(&l, 10000, 800);
    assert_int_equal(lengths_expect(&l, 0, MAX), 800);
    ended(&l, 40, 4800);
    assert_int_equal(lengths_expect(&l, 0, MAX), 800);
    ended(&l, 60, 4800);
    assert_int_equal(lengths_expect(&l, 0, MAX), 4800);
    ended(&l, 500, 800);
    assert_int_equal(lengths_expect(&l, 0, MAX), 800);
}

static uint64_t weight_of(const struct lengths *l)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < LENGTHS_BINS; i++) {
        sum += l->weight[i];
    }
    return sum;
}

/* Half of the sequences have 1600 tokens and half 4800; those cut off at 3200
 * would all have had 4800. */
static void sequences_cut_off_count_as_at_least_that_long(void **state)
{
    struct lengths l, m;

    (void)state;
    lengths_init(&l);
    for (uint32_t i = 0; i < 300; i++) {
        ended(&l, 1, i % 2 == 0 ? 1600 : 4800);
    }
    m = l;
    for (uint32_t i = 0; i < 50; i++) {
        lengths_cut(&l, 3200, MAX);
    }
    assert_true(l.weight[15] < m.weight[15]);
    assert_true(l.weight[47] > m.weight[47]);
    assert_true(l.weight[31] < m.weight[31] + 1);
    assert_int_equal(l.n_ends, 300);
    assert_int_equal(l.n_cut, 50);
    assert_int_equal(lengths_expect(&l, 0, MAX), 4800);
}

/* Cut off before any typical end, they change no share. */
static void sequences_cut_off_early_change_no_quantile(void **state)
{
    struct lengths l;

    (void)state;
    lengths_init(&l);
    ended(&l, 300, 1600);
    for (uint32_t i = 0; i < 1000; i++) {
        lengths_cut(&l, 100, MAX);
    }
    assert_int_equal(lengths_expect(&l, 0, MAX), 1600);
}

static void past_the_longest_end_a_cut_counts_as_all_of_it(void **state)
{
    struct lengths l;

    (void)state;
    lengths_init(&l);
    for (uint32_t i = 0; i < LENGTHS_BINS; i++) {
        l.weight[i] = 0;
    }
    lengths_cut(&l, 3200, MAX);
    assert_int_equal(lengths_expect(&l, 0, MAX), MAX);
}

static void a_cut_without_tokens_is_not_counted(void **state)
{
    struct lengths l;
    uint64_t before;

    (void)state;
    lengths_init(&l);
    before = weight_of(&l);
    lengths_cut(&l, 0, MAX);
    assert_int_equal(weight_of(&l), before);
    assert_int_equal(l.n_cut, 0);
}

/* One observation of either kind adds one unit to what the decay leaves. */
static void every_observation_has_the_same_weight(void **state)
{
    struct lengths l;
    uint64_t before, unit;

    (void)state;
    lengths_init(&l);
    unit = weight_of(&l) / LENGTHS_PRIOR;
    ended(&l, 20000, 700);
    before = weight_of(&l);
    assert_in_range(before, 255 * unit, 257 * unit);
    for (uint32_t i = 1; i < 5000; i++) {
        lengths_cut(&l, 1 + i % MAX, MAX);
        assert_in_range(weight_of(&l), 255 * unit, 257 * unit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_observations_all_of_max_tokens_is_expected),
        cmocka_unit_test(the_prior_gives_way_after_about_four_times_its_weight),
        cmocka_unit_test(the_quantile_of_a_uniform_distribution_is_four_fifths),
        cmocka_unit_test(shares_are_learned_whatever_max_tokens_is),
        cmocka_unit_test(a_long_sequence_is_expected_to_end_past_what_it_has),
        cmocka_unit_test(no_expectation_is_below_what_was_generated),
        cmocka_unit_test(a_new_distribution_replaces_the_old_one),
        cmocka_unit_test(sequences_cut_off_count_as_at_least_that_long),
        cmocka_unit_test(sequences_cut_off_early_change_no_quantile),
        cmocka_unit_test(past_the_longest_end_a_cut_counts_as_all_of_it),
        cmocka_unit_test(a_cut_without_tokens_is_not_counted),
        cmocka_unit_test(every_observation_has_the_same_weight),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
