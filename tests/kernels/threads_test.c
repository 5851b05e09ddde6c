/* Tests the fork-join pool: every task runs once, for any number of threads and
 * jobs. */
#include <pthread.h>
#include <sched.h>
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
    struct threads *pool = threads_new(n_threads, false);
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

/* ---- pinning ---- */

#define CPUS_MAX 16

struct places {
    cpu_set_t of[CPUS_MAX]; /* CPUs of each thread */
    atomic_uint seen;       /* threads in `of` */
    atomic_bool was[CPUS_MAX];
};

/* Runs long enough for every thread to join. */
static void look(void *arg, uint32_t i, uint32_t thread)
{
    struct places *p = arg;
    const struct timespec nap = {0, 2000000};

    (void)i;
    if (!atomic_exchange(&p->was[thread], true)) {
        sched_getaffinity(0, sizeof p->of[thread], &p->of[thread]);
        atomic_fetch_add(&p->seen, 1);
    }
    nanosleep(&nap, NULL);
}

struct pinning {
    uint32_t n;
    bool pin;
    struct places places;
};

/* Runs in its own thread, since a pinned caller stays pinned. */
static void *run_pinned(void *arg)
{
    struct pinning *p = arg;
    struct threads *pool = threads_new(p->n, p->pin);

    for (int tries = 0; tries < 1000 && atomic_load(&p->places.seen) < p->n;
         tries++) {
        threads_run(pool, look, &p->places, 4 * p->n);
    }
    threads_free(&pool);
    return NULL;
}

static void run_pool(struct pinning *p)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, run_pinned, p), 0);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&p->places.seen), p->n);
}

/* Each thread has one CPU; all are allowed and no two the same. */
static void test_pins_a_thread_a_cpu(void **state)
{
    struct pinning p = {.n = threads_default(), .pin = true};
    cpu_set_t allowed, taken;

    (void)state;
    if (p.n > CPUS_MAX) {
        skip();
    }
    sched_getaffinity(0, sizeof allowed, &allowed);
    run_pool(&p);
    CPU_ZERO(&taken);
    for (uint32_t i = 0; i < p.n; i++) {
        assert_int_equal(CPU_COUNT(&p.places.of[i]), 1);
        CPU_OR(&taken, &taken, &p.places.of[i]);
    }
    assert_true(CPU_EQUAL(&taken, &allowed));
    assert_int_equal(threads_default(), p.n); /* the affinity is unchanged */
}

static void test_leaves_threads_alone(void **state)
{
    struct pinning p = {.n = 3};
    cpu_set_t allowed;

    (void)state;
    sched_getaffinity(0, sizeof allowed, &allowed);
    run_pool(&p);
    for (uint32_t i = 0; i < p.n; i++) {
        assert_true(CPU_EQUAL(&p.places.of[i], &allowed));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_task_once),
        cmocka_unit_test(test_start_and_stop),
        cmocka_unit_test(test_pins_a_thread_a_cpu),
        cmocka_unit_test(test_leaves_threads_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
