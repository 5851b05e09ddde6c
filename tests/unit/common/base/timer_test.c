#include "common/base/timer.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"

#define N 200

/* Random arms, moves, clears and pops against a plain array. */
static void agrees_with_a_plain_array(void **state)
{
    struct timer t[N];
    int64_t want[N];
    struct timers ts;

    (void)state;
    srand(1);
    timers_init(&ts);
    memset(t, 0, sizeof t);
    for (int i = 0; i < N; i++) {
        want[i] = INT64_MAX;
    }
    for (int turn = 0; turn < 200000; turn++) {
        int i = rand() % N;
        int64_t earliest = INT64_MAX;

        if (rand() % 3 > 0) {
            want[i] = rand() % 1000;
            timer_set(&ts, &t[i], want[i]);
        } else if (rand() % 2 > 0) {
            want[i] = INT64_MAX;
            if (rand() % 2 > 0) {
                timer_clear(&ts, &t[i]);
            } else {
                timer_set(&ts, &t[i], INT64_MAX);
            }
        }
        for (int j = 0; j < N; j++) {
            earliest = want[j] < earliest ? want[j] : earliest;
        }
        assert_int_equal(timers_due(&ts), earliest);
        if (rand() % 4 == 0) {
            struct timer *p = timers_pop(&ts, 300);

            assert_int_equal(p != NULL, earliest <= 300);
            if (p != NULL) {
                assert_int_equal(want[p - t], earliest);
                assert_int_equal(p->index, 0);
                want[p - t] = INT64_MAX;
            }
        }
    }
    timers_fini(&ts);
}

static void pops_in_order_at_the_moment(void **state)
{
    struct timer a = {0}, b = {0};
    struct timers ts;

    (void)state;
    timers_init(&ts);
    assert_true(timers_due(&ts) == INT64_MAX);
    assert_null(timers_pop(&ts, INT64_MAX));
    timer_set(&ts, &a, 20);
    timer_set(&ts, &b, 10);
    assert_null(timers_pop(&ts, 9));
    assert_ptr_equal(timers_pop(&ts, 20), &b);
    assert_ptr_equal(timers_pop(&ts, 20), &a);
    assert_null(timers_pop(&ts, 20));
    timer_clear(&ts, &a); /* a no-op */
    timers_fini(&ts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_a_plain_array),
        cmocka_unit_test(pops_in_order_at_the_moment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
