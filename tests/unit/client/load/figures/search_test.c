/* The search against servers of known capacity. */
#include "client/load/figures/search.h"

#include <string.h>

#include "tests/unit/client/load/figures/draws.h"
#include "tests/unit/cmocka.h"

/* A server: the share of good requests at a load. */
typedef double (*server_fn)(double load, double capacity);

/* Good up to the capacity, then all fail. */
static double cliff(double load, double capacity)
{
    return load <= capacity ? 1 : 0;
}

/* 0.99 at the capacity; each 10 % more load multiplies the misses by 8. */
static double slope(double load, double capacity)
{
    return 1 - fmin(1, 0.01 * pow(8, (load / capacity - 1) / 0.1));
}

static double always(double load, double capacity)
{
    (void)load, (void)capacity;
    return 1;
}

static double never(double load, double capacity)
{
    (void)load, (void)capacity;
    return 0;
}

/* Good and bad by turns: no bracket of it is true for long. */
static double comb(double load, double capacity)
{
    return (uint64_t)(load * 8 / capacity) % 2 == 0 ? 1 : 0;
}

/* The share is the objective at every load: each trial is a coin. */
static double coin(double load, double capacity)
{
    (void)load, (void)capacity;
    return 0.99;
}

struct play {
    server_fn server;
    double capacity;
    uint64_t n_requests; /* of a run */
    struct draws draws;
};

static uint64_t good_of(struct play *p, double load)
{
    double share = p->server(load, p->capacity);
    uint64_t good = 0;

    for (uint64_t i = 0; i < p->n_requests; i++) {
        good += draw_unit(&p->draws) <= share;
    }
    return good;
}

static uint32_t run(struct search *s, const struct search_options *o,
                    struct play *p)
{
    uint32_t n_runs = 0;
    double load, again;

    search_init(s, o);
    while (search_next(s, &load)) {
        assert_true(search_next(s, &again) && again == load);
        assert_true(load > 0);
        assert_true(!o->whole || load == floor(load));
        assert_true(o->max == 0 || load <= o->max);
        search_take(s, good_of(p, load), p->n_requests, true);
        assert_in_range(++n_runs, 1, SEARCH_TRIALS * o->repeats);
    }
    return n_runs;
}

static const struct search_options usual = {
    .first = 4, .tolerance = 0.05, .attain = 0.99, .repeats = 3};

static const struct search_trial *last(const struct search *s)
{
    return &s->trials[s->n_trials - 1];
}

static void a_cliff_is_found_within_the_tolerance(void **state)
{
    (void)state;
    for (double capacity = 0.05; capacity < 100000; capacity *= 1.7) {
        struct play p = {cliff, capacity, 500, {1}};
        struct search s;

        run(&s, &usual, &p);
        assert_true(s.confirmed);
        assert_true(search_result(&s) <= capacity);
        assert_true(search_result(&s) * 1.0501 >= capacity);
        assert_int_equal(last(&s)->kind, SEARCH_BEYOND);
        assert_int_equal(last(&s)->verdict, SEARCH_MISSES);
        assert_true(fabs(last(&s)->load - 1.15 * search_result(&s)) < 1e-9);
        assert_int_equal(s.trials[s.n_trials - 2].kind, SEARCH_CONFIRM);
        assert_int_equal(s.trials[s.n_trials - 2].verdict, SEARCH_MEETS);
        assert_true(s.trials[s.n_trials - 2].load == search_result(&s));
    }
}

/* The load at which the share equals the objective is the capacity.  Noise
 * moves the result, but no further than where the share differs clearly. */
static void noise_does_not_move_the_result_far(void **state)
{
    uint32_t n_confirmed = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct play p = {slope, 30 + (double)seed, 1500, {seed}};
        struct search s;

        run(&s, &usual, &p);
        n_confirmed += s.confirmed;
        assert_true(search_result(&s) > 0.87 * p.capacity);
        assert_true(search_result(&s) < 1.08 * p.capacity);
        assert_false(s.invalid);
    }
    assert_int_equal(n_confirmed, 200);
}

static void concurrency_is_a_whole_number(void **state)
{
    struct search_options o = usual;

    (void)state;
    o.whole = true;
    for (uint32_t capacity = 1; capacity < 70; capacity++) {
        for (uint32_t first = 1; first < 70; first += 17) {
            struct play p = {cliff, capacity, 500, {1}};
            struct search s;

            o.first = first;
            run(&s, &o, &p);
            assert_true(s.confirmed);
            assert_true(search_result(&s) <= capacity);
            assert_true(search_result(&s) * 1.0501 >= capacity ||
                        search_result(&s) + 1 > capacity);
            assert_true(last(&s)->load > search_result(&s));
        }
    }
}

static void a_server_that_always_misses_has_no_load(void **state)
{
    struct search_options o = usual;
    struct play p = {never, 1, 100, {1}};
    struct search s;

    (void)state;
    run(&s, &o, &p);
    assert_true(s.done && !s.confirmed && search_result(&s) == 0);
    assert_int_equal(s.n_trials, 11); /* 4 .. 4 / 1024 */
    o.whole = true;
    run(&s, &o, &p);
    assert_true(s.done && search_result(&s) == 0);
    assert_int_equal(s.n_trials, 3); /* 4, 2, 1 */
}

static void a_server_that_always_meets_is_capped(void **state)
{
    struct search_options o = usual;
    struct play p = {always, 1, 500, {1}};
    struct search s;

    (void)state;
    o.max = 100;
    run(&s, &o, &p);
    assert_true(s.done && s.capped && !s.confirmed);
    assert_true(search_result(&s) == 100);
    assert_int_equal(last(&s)->kind, SEARCH_CONFIRM);
    o.max = 0;
    run(&s, &o, &p);
    assert_true(s.done && !s.capped && !s.confirmed);
    assert_int_equal(s.n_trials, SEARCH_TRIALS);
}

static void contradictory_servers_end(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct play p = {seed % 2 == 0 ? comb : coin, 50, 300, {seed}};
        struct search s;

        run(&s, &usual, &p);
        assert_true(s.done);
        assert_in_range(s.n_trials, 2, SEARCH_TRIALS);
        /* A result counts as confirmed only after the two last trials. */
        assert_true(!s.confirmed || last(&s)->kind == SEARCH_BEYOND);
    }
}

/* Answers in a fixed order. */
static void take(struct search *s, double load, uint64_t good, uint64_t wanted)
{
    double next;

    assert_true(search_next(s, &next));
    assert_true(fabs(next - load) < 1e-9);
    search_take(s, good, wanted, true);
}

static void open_verdicts_repeat_and_count_together(void **state)
{
    struct search s;

    (void)state;
    search_init(&s, &usual);
    take(&s, 4, 99, 100);
    take(&s, 4, 99, 100);
    assert_int_equal(s.n_trials, 1);
    assert_int_equal(s.trials[0].verdict, SEARCH_OPEN);
    take(&s, 4, 99, 100); /* 297 of 300 is 0.99: the share decides */
    assert_int_equal(s.trials[0].n_runs, 3);
    assert_int_equal(s.trials[0].n_good, 297);
    assert_int_equal(s.trials[0].verdict, SEARCH_MEETS);
    take(&s, 8, 98, 100);
    take(&s, 8, 98, 100);
    take(&s, 8, 99, 100); /* 295 of 300 */
    assert_int_equal(s.trials[1].verdict, SEARCH_MISSES);
    take(&s, 6, 1000, 1000); /* clear: no repeat */
    assert_int_equal(s.trials[2].n_runs, 1);
    take(&s, 7, 0, 1000);
    assert_true(s.low == 6 && s.high == 7);
}

static void a_failed_confirmation_corrects_the_bracket(void **state)
{
    struct search_options o = usual;
    struct search s;

    (void)state;
    o.tolerance = 0.3;
    search_init(&s, &o);
    take(&s, 4, 1000, 1000);
    take(&s, 8, 0, 1000);
    take(&s, 6, 1000, 1000);
    take(&s, 7, 1000, 1000);
    assert_int_equal(s.kind, SEARCH_CONFIRM);
    take(&s, 7, 0, 1000); /* what met before misses now */
    assert_true(s.low == 6 && s.high == 7);
    take(&s, 6, 1000, 1000);
    assert_int_equal(s.kind, SEARCH_BEYOND);
    take(&s, 6 * 1.15, 1000, 1000); /* what should miss meets */
    assert_true(fabs(s.low - 6.9) < 1e-9 && s.high == 7);
    take(&s, 6.9, 1000, 1000);
    assert_int_equal(s.kind, SEARCH_BEYOND);
    take(&s, 6.9 * 1.15, 0, 1000);
    assert_true(s.done && s.confirmed);
    assert_true(fabs(search_result(&s) - 6.9) < 1e-9);
}

static void an_invalid_run_ends_the_search(void **state)
{
    struct search s;
    double load;

    (void)state;
    search_init(&s, &usual);
    take(&s, 4, 1000, 1000);
    assert_true(search_next(&s, &load));
    search_take(&s, 1000, 1000, false);
    assert_false(search_next(&s, &load));
    assert_true(s.invalid && !s.confirmed && search_result(&s) == 4);
    search_init(&s, &usual);
    search_take(&s, 0, 0, true); /* nothing was measured */
    assert_true(s.done && s.invalid);
}

static void bounds_are_wilsons(void **state)
{
    double low, high;

    (void)state;
    search_bounds(0, 0, &low, &high);
    assert_true(low == 0 && high == 1);
    search_bounds(8, 10, &low, &high); /* scipy: proportion_ci("wilson") */
    assert_true(fabs(low - 0.490162) < 1e-5 && fabs(high - 0.943318) < 1e-5);
    search_bounds(0, 100, &low, &high);
    assert_true(low == 0 && fabs(high - 0.036995) < 1e-5);
    search_bounds(100, 100, &low, &high);
    assert_true(fabs(low - 0.963005) < 1e-5 && high == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cliff_is_found_within_the_tolerance),
        cmocka_unit_test(noise_does_not_move_the_result_far),
        cmocka_unit_test(concurrency_is_a_whole_number),
        cmocka_unit_test(a_server_that_always_misses_has_no_load),
        cmocka_unit_test(a_server_that_always_meets_is_capped),
        cmocka_unit_test(contradictory_servers_end),
        cmocka_unit_test(open_verdicts_repeat_and_count_together),
        cmocka_unit_test(a_failed_confirmation_corrects_the_bracket),
        cmocka_unit_test(an_invalid_run_ends_the_search),
        cmocka_unit_test(bounds_are_wilsons),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
