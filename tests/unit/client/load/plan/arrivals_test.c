/* Arrivals: processes, rates over time, and their exact counts. */
#include "client/load/plan/arrivals.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"

#define SECOND INT64_C(1000000)

static struct arrivals made(const char *process, const char *rate,
                            const char *bursts)
{
    struct arrivals a;
    struct error e = {0};

    if (arrivals_parse(&a, process, &e) != ST_OK ||
        pace_parse(&a.pace, rate, bursts, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    return a;
}

/* Counts arrivals in [from, to), which must ascend. */
static uint64_t count(struct arrivals *a, uint64_t seed, int64_t from,
                      int64_t to)
{
    int64_t us, last = 0;
    uint64_t n = 0;

    arrivals_begin(a, seed);
    while (arrivals_next(a, &us) && us < to) {
        assert_true(us >= last);
        last = us;
        n += us >= from;
    }
    return n;
}

static void constant_arrivals_are_exact(void **state)
{
    struct arrivals a = made("constant", "20", NULL);
    int64_t us;

    (void)state;
    arrivals_begin(&a, 1);
    for (int64_t i = 0; i < 1000; i++) {
        assert_true(arrivals_next(&a, &us));
        assert_int_equal(us, i * 50000);
    }
    assert_int_equal(count(&a, 1, 0, 30 * SECOND), 600);
}

/* Also of a rate whose period is no whole number of microseconds. */
static void ten_million_constant_arrivals_do_not_drift(void **state)
{
    struct arrivals a = made("constant", "30000", NULL);
    int64_t us = 0;

    (void)state;
    arrivals_begin(&a, 1);
    for (int64_t i = 0; i < 10000000; i++) {
        assert_true(arrivals_next(&a, &us));
        if (llabs(us * 3 - i * 100) > 2) {
            fail_msg("arrival %ld is at %ld us", (long)i, (long)us);
        }
    }
    assert_int_equal(us, 333333300);
}

static void poisson_counts_are_within_five_deviations(void **state)
{
    struct arrivals a = made("poisson", "10000", NULL);

    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        double n = (double)count(&a, seed, 0, 100 * SECOND);

        assert_true(fabs(n - 1e6) < 5 * 1e3);
    }
}

/* Mean and coefficient of variation of the gaps. */
static void gaps_have(const char *process, double cv)
{
    struct arrivals a = made(process, "100", NULL);
    double sum = 0, squares = 0, mean, got;
    int64_t us, last = 0;
    int n = 500000;

    arrivals_begin(&a, 9);
    for (int i = 0; i < n; i++) {
        double gap;

        assert_true(arrivals_next(&a, &us));
        gap = (double)(us - last);
        last = us;
        sum += gap;
        squares += gap * gap;
    }
    mean = sum / n;
    got = sqrt(squares / n - mean * mean) / mean;
    assert_true(fabs(mean / 10000 - 1) < 5 * cv / sqrt(n));
    if (fabs(got / cv - 1) > 0.03) {
        fail_msg("%s: the gaps vary by %g", process, got);
    }
}

static void gaps_have_their_coefficient_of_variation(void **state)
{
    (void)state;
    gaps_have("poisson", 1);
    gaps_have("gamma:1", 1);
    gaps_have("gamma:0.25", 0.25);
    gaps_have("gamma:3", 3);
}

static void a_ramp_has_its_exact_count(void **state)
{
    struct arrivals a = made("constant", "5..50/60s", NULL);

    (void)state;
    /* The integral to 60 s is 1650, to 30 s 487.5, then 50 a second. */
    assert_int_equal(count(&a, 1, 0, 60 * SECOND), 1650);
    assert_int_equal(count(&a, 1, 0, 30 * SECOND), 488);
    assert_int_equal(count(&a, 1, 60 * SECOND, 70 * SECOND), 500);
    assert_true(pace_count(&a.pace, 60 * SECOND) == 1650);
    assert_true(pace_count(&a.pace, 70 * SECOND) == 2150);
}

static void a_falling_ramp_to_zero_ends(void **state)
{
    struct arrivals a = made("constant", "10..0/10s", NULL);

    (void)state;
    assert_int_equal(count(&a, 1, 0, INT64_MAX), 50);
}

static void steps_have_their_counts_and_the_last_one_lasts(void **state)
{
    struct arrivals a = made("constant", "10x30s,0x5s,20x30s", NULL);

    (void)state;
    assert_int_equal(count(&a, 1, 0, 30 * SECOND), 300);
    assert_int_equal(count(&a, 1, 30 * SECOND, 35 * SECOND), 0);
    assert_int_equal(count(&a, 1, 35 * SECOND, 65 * SECOND), 600);
    assert_int_equal(count(&a, 1, 65 * SECOND, 75 * SECOND), 200);
}

static void ramps_and_steps_follow_each_other(void **state)
{
    struct arrivals a = made("constant", "0..10/10s,10x10s,4", NULL);

    (void)state;
    assert_int_equal(count(&a, 1, 0, 10 * SECOND), 50);
    assert_int_equal(count(&a, 1, 10 * SECOND, 20 * SECOND), 100);
    assert_int_equal(count(&a, 1, 20 * SECOND, 30 * SECOND), 40);
}

static void bursts_are_the_end_of_each_period(void **state)
{
    struct arrivals a = made("constant", "10", "40x2s/20s");

    (void)state;
    for (int64_t k = 0; k < 100; k++) {
        int64_t period = k * 20 * SECOND;

        assert_int_equal(count(&a, 1, period, period + 18 * SECOND), 180);
        assert_int_equal(
            count(&a, 1, period + 18 * SECOND, period + 20 * SECOND), 100);
        assert_true(fabs(pace_count(&a.pace, period + 19 * SECOND) -
                         (280.0 * (double)k + 230)) < 1e-6);
    }
}

static void bursts_need_no_rate_between_them(void **state)
{
    struct arrivals a = made("constant", "1x1s,0", "0.5x2s/1000s");

    (void)state;
    assert_int_equal(count(&a, 1, 0, SECOND), 1);
    assert_int_equal(count(&a, 1, SECOND, 998 * SECOND), 0);
    assert_int_equal(count(&a, 1, 998 * SECOND, 100000 * SECOND), 100);
}

static void a_burst_may_fill_its_period(void **state)
{
    struct arrivals a = made("constant", "1", "2x3s/3s");

    (void)state;
    assert_int_equal(count(&a, 1, 0, 100 * SECOND), 300);
}

static void a_factor_multiplies_everything(void **state)
{
    struct arrivals a = made("constant", "5..50/60s", "30x5s/10s");

    (void)state;
    pace_scale(&a.pace, 2);
    assert_int_equal(count(&a, 1, 0, 60 * SECOND), 2 * (1650 + 900));
}

/* The expected count of a random process in each second is the rate's. */
static void random_arrivals_follow_the_rate(void **state)
{
    struct arrivals a = made("gamma:0.5", "0..20000/10s", "10000x1s/5s");

    (void)state;
    for (int64_t s = 0; s < 10; s++) {
        double want = pace_count(&a.pace, (s + 1) * SECOND) -
                      pace_count(&a.pace, s * SECOND);
        double n = (double)count(&a, 4, s * SECOND, (s + 1) * SECOND);

        assert_true(fabs(n - want) < 5 * 0.5 * sqrt(want) + 2);
    }
}

/* ---- refusals ---- */

static void rate_refused(const char *rate, const char *bursts, const char *has)
{
    struct pace p;
    struct error e = {0};

    if (pace_parse(&p, rate, bursts, &e) != ST_INVALID_ARGUMENT) {
        fail_msg("\"%s\" was accepted", rate);
    }
    if (strstr(e.text, has) == NULL) {
        fail_msg("\"%s\" has no \"%s\"", e.text, has);
    }
}

static void bad_rates_are_refused(void **state)
{
    static const char *const rates[] = {
        "",         "abc",   "-1",     "5..",        "5..50", "5..50/",
        "5..50/0s", "10x",   "10x0s",  "10x30s,",    ",10",   "20,30",
        "20 ",      "5/60s", "10x30z", "5..50/60s;", "nan",   "1x1e99s"};

    (void)state;
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        rate_refused(rates[i], NULL, "5..50/60s");
    }
    rate_refused("0", NULL, "exceed 0");
    rate_refused("0x5s,0", NULL, "exceed 0");
}

static void bad_bursts_are_refused(void **state)
{
    static const char *const bursts[] = {"",        "40",         "40x2s",
                                         "40x2s/",  "40x0s/5s",   "40x6s/5s",
                                         "0x1s/5s", "40x2s/20s ", "1x0.5ms/1s"};

    (void)state;
    for (size_t i = 0; i < sizeof bursts / sizeof bursts[0]; i++) {
        rate_refused("1", bursts[i], "40x2s/20s");
    }
}

static void rates_end_at_their_limits(void **state)
{
    char text[8 * PACE_ITEMS_MAX + 8] = "";
    struct pace p;
    struct error e = {0};

    (void)state;
    for (int i = 0; i < PACE_ITEMS_MAX; i++) {
        strcat(text, i > 0 ? ",1x1s" : "1x1s");
    }
    assert_int_equal(pace_parse(&p, text, NULL, &e), ST_OK);
    strcat(text, ",1x1s");
    rate_refused(text, NULL, "256 items");
    assert_int_equal(pace_parse(&p, "10000000", NULL, &e), ST_OK);
    rate_refused("10000001", NULL, "10000000");
    rate_refused("1..10000001/5s", NULL, "10000000");
    rate_refused("1", "10000001x1s/5s", "--bursts");
}

static void a_rate_too_small_has_an_end(void **state)
{
    struct arrivals a = made("constant", "1e-30", NULL);

    (void)state;
    assert_int_equal(count(&a, 1, 0, INT64_MAX), 1); /* at time 0 */
}

static void processes_are_parsed(void **state)
{
    static const char *const bad[] = {"",          "poison",   "gamma",
                                      "gamma:",    "gamma:0",  "gamma:0.009",
                                      "gamma:101", "gamma:1x", "constant:1"};
    struct arrivals a;
    struct error e = {0};

    (void)state;
    assert_int_equal(arrivals_parse(&a, "gamma:0.01", &e), ST_OK);
    assert_int_equal(arrivals_parse(&a, "gamma:100", &e), ST_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(arrivals_parse(&a, bad[i], &e), ST_INVALID_ARGUMENT);
        assert_non_null(strstr(e.text, "poisson"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constant_arrivals_are_exact),
        cmocka_unit_test(ten_million_constant_arrivals_do_not_drift),
        cmocka_unit_test(poisson_counts_are_within_five_deviations),
        cmocka_unit_test(gaps_have_their_coefficient_of_variation),
        cmocka_unit_test(a_ramp_has_its_exact_count),
        cmocka_unit_test(a_falling_ramp_to_zero_ends),
        cmocka_unit_test(steps_have_their_counts_and_the_last_one_lasts),
        cmocka_unit_test(ramps_and_steps_follow_each_other),
        cmocka_unit_test(bursts_are_the_end_of_each_period),
        cmocka_unit_test(bursts_need_no_rate_between_them),
        cmocka_unit_test(a_burst_may_fill_its_period),
        cmocka_unit_test(a_factor_multiplies_everything),
        cmocka_unit_test(random_arrivals_follow_the_rate),
        cmocka_unit_test(bad_rates_are_refused),
        cmocka_unit_test(bad_bursts_are_refused),
        cmocka_unit_test(rates_end_at_their_limits),
        cmocka_unit_test(a_rate_too_small_has_an_end),
        cmocka_unit_test(processes_are_parsed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
