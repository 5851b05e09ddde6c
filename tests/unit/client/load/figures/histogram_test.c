/* Histograms against sorted arrays of the same values. */
#include "client/load/figures/histogram.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/client/load/figures/draws.h"
#include "tests/unit/cmocka.h"

#define N 100000

static const double quantiles[] = {0,    0.001, 0.01, 0.1,   0.25,   0.5,
                                   0.75, 0.9,   0.99, 0.999, 0.9999, 1};

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Draws of a distribution: small, uniform, log-normal, two modes, huge. */
static int64_t value_of(struct draws *d, int kind)
{
    switch (kind) {
    case 0:
        return (int64_t)draw_below(d, 1500);
    case 1:
        return (int64_t)draw_below(d, 2000000);
    case 2:
        return (int64_t)(50000 * exp(1.2 * draw_normal(d)));
    case 3:
        return draw_below(d, 10) == 0 ? 2000000 + (int64_t)draw_below(d, 1000)
                                      : 9000 + (int64_t)draw_below(d, 300);
    default:
        return (int64_t)(draw(d) % (uint64_t)HISTOGRAM_MAX);
    }
}

/* The rank of a quantile, by whole numbers: q is a multiple of 1/10000. */
static size_t rank_of(double q, size_t n)
{
    size_t parts = (size_t)(q * 10000 + 0.5), rank = (parts * n + 9999) / 10000;

    return rank == 0 ? 1 : rank;
}

static void assert_near(int64_t got, int64_t want)
{
    /* A bucket is at most 1/1024 of its smallest value wide. */
    if (got < want || (double)(got - want) > (double)want / 1024) {
        print_error("got %lld, want %lld\n", (long long)got, (long long)want);
        fail();
    }
}

static void quantiles_are_those_of_the_sorted_values(void **state)
{
    int64_t *values = malloc(N * sizeof *values);

    (void)state;
    assert_non_null(values);
    for (int kind = 0; kind < 5; kind++) {
        struct draws d = {(uint64_t)kind};
        struct histogram h = {0};
        double sum = 0;

        for (size_t i = 0; i < N; i++) {
            values[i] = value_of(&d, kind);
            sum += (double)values[i];
            histogram_add(&h, values[i], 1);
        }
        qsort(values, N, sizeof *values, by_value);
        for (size_t i = 0; i < sizeof quantiles / sizeof *quantiles; i++) {
            double q = quantiles[i];

            assert_near(histogram_quantile(&h, q), values[rank_of(q, N) - 1]);
        }
        assert_int_equal(histogram_quantile(&h, 1), values[N - 1]);
        assert_int_equal(histogram_quantile(&h, 0), values[0]);
        assert_int_equal(h.min, values[0]);
        assert_int_equal(h.max, values[N - 1]);
        assert_true(fabs(histogram_mean(&h) * N - sum) <= 1e-9 * sum);
        histogram_fini(&h);
    }
    free(values);
}

/* Returns how many values are at most `value`, whose bucket counts wholly. */
static uint64_t at_most(const struct histogram *h, int64_t value)
{
    uint64_t count, seen = 0;
    int64_t from, to;
    uint32_t i = 0;

    if (h->n == 0 || value < h->min) {
        return 0;
    }
    while (histogram_next(h, &i, &from, &to, &count) && from <= value) {
        seen += count;
    }
    return seen;
}

static void counts_at_most_a_value_are_those_of_the_sorted_values(void **state)
{
    struct histogram h = {0};

    (void)state;
    assert_int_equal(at_most(&h, 10), 0);
    for (int i = 1; i <= 1000; i++) {
        histogram_add(&h, i, 2);
    }
    assert_int_equal(at_most(&h, -1), 0);
    assert_int_equal(at_most(&h, 0), 0);
    assert_int_equal(at_most(&h, 1), 2);
    assert_int_equal(at_most(&h, 500), 1000);
    assert_int_equal(at_most(&h, 1000), 2000);
    assert_int_equal(at_most(&h, HISTOGRAM_MAX), 2000);
    histogram_fini(&h);
}

static void lost_values_lie_above_all_others(void **state)
{
    struct histogram h = {0};

    (void)state;
    for (int i = 1; i <= 98; i++) {
        histogram_add(&h, i, 1);
    }
    histogram_lose(&h, 2);
    assert_int_equal(histogram_quantile(&h, 0.5), 50);
    assert_int_equal(histogram_quantile(&h, 0.98), 98);
    assert_true(histogram_quantile(&h, 0.99) == HISTOGRAM_LOST);
    assert_true(histogram_quantile(&h, 1) == HISTOGRAM_LOST);
    assert_int_equal(h.max, 98);
    assert_true(histogram_mean(&h) == 49.5);
    histogram_clear(&h);
    histogram_lose(&h, 1);
    assert_true(histogram_quantile(&h, 0) == HISTOGRAM_LOST);
    histogram_fini(&h);
}

static void an_empty_histogram_has_zeros(void **state)
{
    struct histogram h = {0};
    uint32_t i = 0;
    int64_t from, to;
    uint64_t count;

    (void)state;
    assert_int_equal(histogram_quantile(&h, 0.5), 0);
    assert_true(histogram_mean(&h) == 0);
    assert_false(histogram_next(&h, &i, &from, &to, &count));
    histogram_add(&h, 5, 0);
    assert_int_equal(h.n, 0);
    histogram_fini(&h);
}

static void values_outside_the_range_are_counted_at_its_ends(void **state)
{
    struct histogram h = {0};

    (void)state;
    histogram_add(&h, -7, 1);
    assert_int_equal(h.min, 0);
    histogram_add(&h, HISTOGRAM_MAX, 1);
    assert_true(h.max == HISTOGRAM_MAX);
    histogram_add(&h, HISTOGRAM_MAX + 1, 1);
    histogram_add(&h, INT64_MAX, 1);
    assert_true(h.max == HISTOGRAM_MAX);
    assert_true(histogram_quantile(&h, 1) == HISTOGRAM_MAX);
    assert_int_equal(h.n, 4);
    histogram_fini(&h);
}

static void buckets_follow_each_other_without_a_gap(void **state)
{
    struct histogram h = {0};
    uint32_t i = 0, n = 0;
    int64_t from, to, next = 0;
    uint64_t count, total = 0;

    (void)state;
    for (int64_t v = 0; v < 40000; v++) {
        histogram_add(&h, v, 1);
    }
    while (histogram_next(&h, &i, &from, &to, &count)) {
        assert_int_equal(from, next);
        assert_true(to - from + 1 == 1 || (to - from + 1) * 1024 <= from);
        assert_true(to > 39999 || count == (uint64_t)(to - from + 1));
        next = to + 1;
        total += count;
        n++;
    }
    assert_int_equal(total, 40000);
    /* 2048 alone, 1024 of each doubling to 32768, the rest 32 wide. */
    assert_int_equal(n, 2048 + 4 * 1024 + (40000 - 32768) / 32);
    histogram_fini(&h);
}

static void assert_same(const struct histogram *a, const struct histogram *b)
{
    char *x = histogram_write(a), *y = histogram_write(b);

    assert_string_equal(x, y);
    free(x);
    free(y);
}

/* Parts of all sizes, so that sparse and dense ones merge both ways. */
static void merging_equals_taking_all_values_together(void **state)
{
    (void)state;
    for (int kind = 0; kind < 5; kind++) {
        struct histogram parts[7] = {{0}}, joint = {0}, up = {0}, down = {0};
        struct draws d = {(uint64_t)kind + 77};

        for (size_t i = 0; i < N / 10; i++) {
            int64_t v = value_of(&d, kind);
            size_t to = draw_below(&d, 64);
            struct histogram *part = &parts[to < 6 ? to : 6];

            if (draw_below(&d, 50) == 0) {
                histogram_lose(&joint, 1);
                histogram_lose(part, 1);
            } else {
                histogram_add(&joint, v, 3);
                histogram_add(part, v, 3);
            }
        }
        for (size_t i = 0; i < 7; i++) {
            histogram_merge(&up, &parts[i]);
            histogram_merge(&down, &parts[6 - i]);
        }
        assert_same(&up, &joint);
        assert_same(&down, &joint);
        for (size_t i = 0; i < 7; i++) {
            histogram_fini(&parts[i]);
        }
        histogram_fini(&joint);
        histogram_fini(&up);
        histogram_fini(&down);
    }
}

static void the_change_from_sparse_to_dense_keeps_every_count(void **state)
{
    (void)state;
    for (int n = HISTOGRAM_SPARSE - 1; n <= HISTOGRAM_SPARSE + 1; n++) {
        struct histogram h = {0};

        for (int i = n; i > 0; i--) {
            histogram_add(&h, 3 * i, (uint64_t)i);
        }
        assert_int_equal(h.dense, n > HISTOGRAM_SPARSE);
        assert_int_equal(h.n, n * (n + 1) / 2);
        for (int i = 1; i <= n; i++) {
            assert_int_equal(at_most(&h, 3 * i), i * (i + 1) / 2);
        }
        histogram_fini(&h);
    }
}

/* ---- text ---- */

static void text_is_read_back_equal(void **state)
{
    (void)state;
    for (int kind = 0; kind < 5; kind++) {
        for (size_t n = 0; n < 30000; n = 10 * n + 1) {
            struct draws d = {(uint64_t)kind};
            struct histogram h = {0}, back = {0};
            char *text;

            for (size_t i = 0; i < n; i++) {
                histogram_add(&h, value_of(&d, kind), 1 + draw_below(&d, 50));
            }
            histogram_lose(&h, n / 7);
            text = histogram_write(&h);
            assert_true(histogram_read(&back, text));
            assert_same(&h, &back);
            assert_int_equal(back.n, h.n);
            assert_int_equal(back.lost, h.lost);
            assert_true(back.min == h.min && back.max == h.max &&
                        back.sum == h.sum);
            free(text);
            histogram_fini(&h);
            histogram_fini(&back);
        }
    }
}

static void text_is_short(void **state)
{
    struct histogram h = {0};
    char *text;

    (void)state;
    histogram_add(&h, 35, 1);
    histogram_add(&h, 36, 2);
    histogram_add(&h, 72, 36);
    histogram_lose(&h, 3);
    text = histogram_write(&h);
    assert_string_equal(text, "3,z,20,22z;z,1:2,10:10");
    free(text);
    histogram_fini(&h);
}

static void malformed_text_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "x",
        "0,0,0,0",
        "0,0,0;",
        "0,0,0,1;",
        "0,1,1,0;",
        "0,0,0,0;,",
        "0,1,1,1;1,",
        "0,1,1,1;1:",
        "0,1,1,1;1:0",
        "0,1,1,1;1:2",
        "0,1,1,1;2",
        "0,1,2,3;1,0",
        "0,1,2,3;1,1x1",
        "0,2,1,3;1,1",
        "0,1,2,9;1,1",
        "0,1,2,-3;1,1",
        "0,1,2,;1,1",
        "0,1,2,zzzzzzzzzzzzz;1,1",
        "0,1,2,3w5e11264sgsg;1,1", /* 2^64 */
        "0,1,2,3;1;1",
        "0,1,2,3;1,1 ",
        "0,0,0,0;q2q", /* one past the last bucket */
        "zzzzzzzzzzzzzzz,0,0,0;",
        "0,1,1,1;1:zzzzzzzzzzz",
        "-1,0,0,0;",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct histogram h = {0};

        if (histogram_read(&h, bad[i])) {
            print_error("accepted: %s\n", bad[i]);
            fail();
        }
        assert_int_equal(h.n, 0);
        assert_null(h.counts);
    }
}

static void the_largest_counts_and_values_are_read(void **state)
{
    struct histogram h = {0}, back = {0};
    char *text;

    (void)state;
    histogram_add(&h, HISTOGRAM_MAX, HISTOGRAM_COUNT_MAX);
    text = histogram_write(&h);
    assert_true(histogram_read(&back, text));
    assert_same(&h, &back);
    free(text);
    histogram_add(&h, HISTOGRAM_MAX, 1); /* one past */
    histogram_fini(&back);
    text = histogram_write(&h);
    assert_false(histogram_read(&back, text));
    free(text);
    histogram_fini(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_those_of_the_sorted_values),
        cmocka_unit_test(counts_at_most_a_value_are_those_of_the_sorted_values),
        cmocka_unit_test(lost_values_lie_above_all_others),
        cmocka_unit_test(an_empty_histogram_has_zeros),
        cmocka_unit_test(values_outside_the_range_are_counted_at_its_ends),
        cmocka_unit_test(buckets_follow_each_other_without_a_gap),
        cmocka_unit_test(merging_equals_taking_all_values_together),
        cmocka_unit_test(the_change_from_sparse_to_dense_keeps_every_count),
        cmocka_unit_test(text_is_read_back_equal),
        cmocka_unit_test(text_is_short),
        cmocka_unit_test(malformed_text_is_refused),
        cmocka_unit_test(the_largest_counts_and_values_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
