/* Runs of a result: points that thin out, events that end. */
#include "client/load/figures/result.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"

static void points_thin_out_evenly(void **state)
{
    struct run *r = calloc(1, sizeof *r);

    (void)state;
    assert_non_null(r);
    for (int64_t i = 0; i < 5 * RESULT_POINTS; i++) {
        const struct cluster_point p = {.at_us = i};
        int64_t stride = i < RESULT_POINTS       ? 1
                         : i < 2 * RESULT_POINTS ? 2
                         : i < 4 * RESULT_POINTS ? 4
                                                 : 8;

        run_point(r, &p);
        assert_int_equal(r->n_points, i / stride + 1);
        for (uint32_t k = 0; k < r->n_points; k++) {
            assert_int_equal(r->points[k].at_us, k * stride);
        }
    }
    free(r);
}

static void events_past_the_limit_are_dropped(void **state)
{
    struct result result = {0};
    struct run *r = result_add(&result);

    (void)state;
    for (int i = 0; i <= RESULT_EVENTS; i++) {
        const struct load_event e = {.at_us = i};

        run_event(r, &e);
        assert_int_equal(r->n_events,
                         i < RESULT_EVENTS ? i + 1 : RESULT_EVENTS);
    }
    assert_int_equal(r->events[RESULT_EVENTS - 1].at_us, RESULT_EVENTS - 1);
    result_fini(&result);
}

static void runs_are_empty_and_freed_with_their_result(void **state)
{
    struct result result = {0};
    const struct objectives o = {0};

    (void)state;
    for (int i = 0; i < 10; i++) {
        struct run *r = result_add(&result);

        assert_true(r->tally == NULL && r->n_points == 0);
        if (i % 2 == 0) {
            r->tally = tally_new(&o);
            r->plan = strdup("a plan");
        }
    }
    assert_int_equal(result.n_runs, 10);
    assert_string_equal(result.runs[4].plan, "a plan");
    result_fini(&result);
    assert_int_equal(result.n_runs, 0);
    result_fini(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_thin_out_evenly),
        cmocka_unit_test(events_past_the_limit_are_dropped),
        cmocka_unit_test(runs_are_empty_and_freed_with_their_result),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
