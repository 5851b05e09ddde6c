#include "common/base/job_threads.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

#include "tests/unit/cmocka.h"

#define QUEUE_MAX 8

struct number {
    struct thread_job job; /* first */
    int value;
};

/* Holds the threads back, so that a test decides when jobs run. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static int n_dropped;

static bool run(void *arg, struct thread_job *j)
{
    (void)arg;
    pthread_mutex_lock(&gate);
    ((struct number *)j)->value *= 2;
    pthread_mutex_unlock(&gate);
    return true;
}

static void drop(void *arg, struct thread_job *j)
{
    (void)arg;
    n_dropped++;
    free(j);
}

static struct thread_job *number(int value)
{
    struct number *n = calloc(1, sizeof *n);

    assert_non_null(n);
    n->value = value;
    return &n->job;
}

static struct job_threads *start(unsigned n_threads)
{
    static const struct job_threads_ops ops = {run, drop, NULL};
    struct job_threads *t = NULL;
    struct error e;

    n_dropped = 0;
    assert_int_equal(job_threads_new(&t, &ops, n_threads, QUEUE_MAX, &e),
                     ST_OK);
    return t;
}

static struct thread_job *await(struct job_threads *t)
{
    struct pollfd p = {.fd = job_threads_fd(t), .events = POLLIN};
    struct thread_job *j;

    while ((j = job_threads_poll(t)) == NULL) {
        assert_true(poll(&p, 1, -1) >= 0);
        job_threads_quiet(t);
    }
    return j;
}

static void runs_every_job_once(void **state)
{
    struct job_threads *t = start(3);
    int sum = 0;

    (void)state;
    for (int i = 1; i <= QUEUE_MAX; i++) {
        struct thread_job *j = number(i);

        assert_int_equal(job_threads_submit(t, &j), ST_OK);
        assert_null(j);
    }
    for (int i = 1; i <= QUEUE_MAX; i++) {
        struct thread_job *j = await(t);

        sum += ((struct number *)j)->value;
        free(j);
    }
    assert_int_equal(sum, QUEUE_MAX * (QUEUE_MAX + 1));
    assert_null(job_threads_poll(t));
    job_threads_free(&t);
    assert_null(t);
    assert_int_equal(n_dropped, 0);
}

static void refuses_one_past_the_queue_until_a_job_is_polled(void **state)
{
    struct job_threads *t = start(1);
    struct thread_job *extra = number(100);

    (void)state;
    for (int i = 0; i < QUEUE_MAX; i++) {
        struct thread_job *j = number(i);

        assert_int_equal(job_threads_submit(t, &j), ST_OK);
    }
    assert_int_equal(job_threads_submit(t, &extra), ST_RESOURCE_EXHAUSTED);
    assert_non_null(extra);
    free(await(t));
    assert_int_equal(job_threads_submit(t, &extra), ST_OK);
    job_threads_free(&t);
    assert_int_equal(n_dropped, QUEUE_MAX);
}

static void drops_what_was_not_polled(void **state)
{
    struct job_threads *t = start(2);

    (void)state;
    pthread_mutex_lock(&gate);
    for (int i = 0; i < 4; i++) {
        struct thread_job *j = number(i);

        assert_int_equal(job_threads_submit(t, &j), ST_OK);
    }
    pthread_mutex_unlock(&gate);
    job_threads_free(&t);
    assert_int_equal(n_dropped, 4);
    job_threads_free(&t);
}

/* A job of many slices, of which a log is kept. */
struct sliced {
    struct thread_job job; /* first */
    int left;
};

static uint64_t log_of[64]; /* [n_log] clients by slice */
static int n_log;

static bool run_slice(void *arg, struct thread_job *j)
{
    struct sliced *s = (struct sliced *)j;

    (void)arg;
    pthread_mutex_lock(&gate);
    if (n_log < (int)(sizeof log_of / sizeof *log_of)) {
        log_of[n_log++] = j->turn.client;
    }
    pthread_mutex_unlock(&gate);
    return --s->left == 0;
}

static struct thread_job *sliced(uint64_t client, int slices)
{
    struct sliced *s = calloc(1, sizeof *s);

    assert_non_null(s);
    s->job.turn.client = client;
    s->left = slices;
    return &s->job;
}

/* The short job of client 2 ends before the second slice of the others.  The
 * thread waits at the gate with the first job until all are there. */
static void a_short_job_waits_for_one_slice(void **state)
{
    static const struct job_threads_ops ops = {run_slice, drop, NULL};
    struct job_threads *t = NULL;
    struct thread_job *j;
    struct error e;
    int at = -1;

    (void)state;
    n_log = 0;
    assert_int_equal(job_threads_new(&t, &ops, 1, QUEUE_MAX, &e), ST_OK);
    pthread_mutex_lock(&gate);
    for (int i = 0; i < 5; i++) {
        j = sliced(1, 8);
        assert_int_equal(job_threads_submit(t, &j), ST_OK);
    }
    j = sliced(2, 1);
    assert_int_equal(job_threads_submit(t, &j), ST_OK);
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < 6; i++) {
        free(await(t));
    }
    assert_int_equal(n_log, 5 * 8 + 1);
    for (int i = 0; i < n_log; i++) {
        at = log_of[i] == 2 ? i : at;
    }
    /* Two slices of client 1 at most: the one at the gate, and its turn. */
    assert_in_range(at, 0, 2);
    job_threads_free(&t);
}

static void drops_a_job_between_its_slices(void **state)
{
    static const struct job_threads_ops ops = {run_slice, drop, NULL};
    struct job_threads *t = NULL;
    struct thread_job *j = sliced(1, 1 << 30);
    struct error e;

    (void)state;
    n_log = n_dropped = 0;
    assert_int_equal(job_threads_new(&t, &ops, 1, QUEUE_MAX, &e), ST_OK);
    assert_int_equal(job_threads_submit(t, &j), ST_OK);
    job_threads_free(&t);
    assert_int_equal(n_dropped, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_every_job_once),
        cmocka_unit_test(refuses_one_past_the_queue_until_a_job_is_polled),
        cmocka_unit_test(drops_what_was_not_polled),
        cmocka_unit_test(a_short_job_waits_for_one_slice),
        cmocka_unit_test(drops_a_job_between_its_slices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
