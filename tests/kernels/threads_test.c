/* The fork-join pool: every task once, however many threads and jobs. */
#include <stdatomic.h>
#include <time.h>

#include "kernels/cpu/threads.h"
#include "tests/unit/cmocka.h"

#define TASKS 500

struct tally {
    atomic_uint done[TASKS];
    atomic_uint bad_thread;
    uint32_t plain[TASKS]; /* written by a task, read after the job */
    uint32_t n_threads;
};

static void task(void *arg, uint32_t i, uint32_t thread)
{
    struct tally *t = arg;

    atomic_fetch_add(&t->done[i], 1);
    t->plain[i]++;
    if (thread >= t->n_threads) {
        atomic_fetch_add(&t->bad_thread, 1);
    }
}

static void check(uint32_t n_threads, uint32_t jobs)
{
    static struct tally t;
    struct threads *pool = threads_new(n_threads);
    const struct timespec nap = {0, 3000000};

    assert_non_null(pool);
    t = (struct tally){.n_threads = n_threads};
    for (uint32_t j = 0; j < jobs; j++) {
        uint32_t n = j % 7 == 0 ? TASKS : j % 5;

        threads_run(pool, task, &t, n);
        for (uint32_t i = 0; i < n; i++) {
            assert_int_equal(atomic_load(&t.done[i]), t.plain[i]);
        }
        if (j % 100 == 50) {
            nanosleep(&nap, NULL); /* long enough for helpers to sleep */
        }
    }
    for (uint32_t i = 0; i < TASKS; i++) {
        uint32_t expect = 0;

        for (uint32_t j = 0; j < jobs; j++) {
            expect += i < (j % 7 == 0 ? TASKS : j % 5);
        }
        assert_int_equal(t.plain[i], expect);
    }
    assert_int_equal(atomic_load(&t.bad_thread), 0);
    threads_free(&pool);
    assert_null(pool);
}

static void test_every_task_once(void **state)
{
    (void)state;
    check(1, 50);
    check(2, 2000);
    check(3, 2000);
    check(8, 500);
}

static void test_start_and_stop(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 50; i++) {
        check(4, i % 3);
    }
    assert_true(threads_default() >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_task_once),
        cmocka_unit_test(test_start_and_stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
