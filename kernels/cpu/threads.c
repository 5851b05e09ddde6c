#include "kernels/cpu/threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/base/cpus.h"

/* Polls before a thread sleeps: some tens of microseconds.  That is the gap
 * between two operators of a step, or between two threads' last tasks. */
#define SPINS 4000

struct job {
    threads_task_fn fn;
    void *arg;
    uint32_t n_tasks;
};

struct threads {
    uint32_t n, n_started;
    pthread_t *helpers; /* [n - 1] */
    pthread_mutex_t lock;
    pthread_cond_t wake; /* signals a job, or stop */
    pthread_cond_t done; /* signals that n_busy fell to 0 */
    struct job job;      /* guarded by lock; may be joined while open */
    bool open, stop;
    uint32_t n_asleep;
    atomic_uint n_busy; /* written under lock */
    atomic_uint number; /* number of the newest job; also changed by stop */
    atomic_uint next;   /* next task to take */

    cpu_set_t cpus; /* one per thread, if pinned */
    bool pinned, has_caller;
    pthread_t caller; /* thread that was pinned as caller */
};

struct helper {
    struct threads *t;
    uint32_t thread;
};

uint32_t threads_default(void)
{
    return cpus_allowed();
}

/* Pins the calling thread to the number-th CPU of the set. */
static void pin_to(const cpu_set_t *cpus, uint32_t number)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, cpus) && number-- == 0) {
            CPU_SET(cpu, &one);
            /* Pinning only affects speed, so a refusal is not an error. */
            (void)sched_setaffinity(0, sizeof one, &one);
            return;
        }
    }
}

/* Not in threads_new(): the thread that runs jobs may be another one. */
static void pin_caller(struct threads *t)
{
    if (t->pinned &&
        !(t->has_caller && pthread_equal(t->caller, pthread_self()))) {
        pin_to(&t->cpus, 0);
        t->caller = pthread_self();
        t->has_caller = true;
    }
}

/* Lets the sibling hyper-thread run while this one spins. */
static void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static void take_tasks(struct threads *t, const struct job *job,
                       uint32_t thread)
{
    for (;;) {
        uint32_t task =
            atomic_fetch_add_explicit(&t->next, 1, memory_order_relaxed);

        if (task >= job->n_tasks) {
            return;
        }
        job->fn(job->arg, task, thread);
    }
}

static void await_job(struct threads *t, uint32_t seen)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&t->number, memory_order_relaxed) != seen) {
            return;
        }
        pause_cpu();
    }
}

/* Joins the open job, if any; t->lock is held on entry and on return. */
static void join_job(struct threads *t, uint32_t thread)
{
    struct job job = t->job;

    if (!t->open) {
        return;
    }
    atomic_fetch_add(&t->n_busy, 1);
    pthread_mutex_unlock(&t->lock);
    take_tasks(t, &job, thread);
    pthread_mutex_lock(&t->lock);
    if (atomic_fetch_sub(&t->n_busy, 1) == 1) {
        pthread_cond_signal(&t->done);
    }
}

static void *helper_main(void *arg)
{
    struct helper h = *(struct helper *)arg;
    struct threads *t = h.t;
    uint32_t seen = 0;

    free(arg);
    if (t->pinned) {
        pin_to(&t->cpus, h.thread);
    }
    pthread_mutex_lock(&t->lock);
    while (!t->stop) {
        /* A number rather than a flag: a helper that overslept several jobs
         * joins the newest. */
        uint32_t number = atomic_load(&t->number);

        if (number != seen) {
            seen = number;
            join_job(t, h.thread);
            pthread_mutex_unlock(&t->lock);
            await_job(t, seen);
            pthread_mutex_lock(&t->lock);
            continue;
        }
        t->n_asleep++;
        pthread_cond_wait(&t->wake, &t->lock);
        t->n_asleep--;
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

static bool start_helper(struct threads *t)
{
    struct helper *h = malloc(sizeof *h);

    if (h == NULL) {
        return false;
    }
    *h = (struct helper){t, t->n_started + 1};
    if (pthread_create(&t->helpers[t->n_started], NULL, helper_main, h)) {
        free(h);
        return false;
    }
    t->n_started++;
    return true;
}

struct threads *threads_new(uint32_t n, bool pin)
{
    struct threads *t = calloc(1, sizeof *t);

    if (t == NULL) {
        return NULL;
    }
    t->n = n;
    t->pinned = pin && sched_getaffinity(0, sizeof t->cpus, &t->cpus) == 0;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wake, NULL);
    pthread_cond_init(&t->done, NULL);
    t->helpers = calloc(n, sizeof *t->helpers);
    while (t->helpers && t->n_started + 1 < n) {
        if (!start_helper(t)) {
            break;
        }
    }
    /* A smaller pool would silently be slower than requested. */
    if (t->helpers == NULL || t->n_started + 1 < n) {
        threads_free(&t);
    }
    return t;
}

void threads_free(struct threads **self)
{
    struct threads *t = *self;

    if (t == NULL) {
        return;
    }
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    atomic_fetch_add(&t->number, 1);
    pthread_cond_broadcast(&t->wake);
    pthread_mutex_unlock(&t->lock);
    for (uint32_t i = 0; i < t->n_started; i++) {
        pthread_join(t->helpers[i], NULL);
    }
    pthread_cond_destroy(&t->done);
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
    free(t->helpers);
    free(t);
    *self = NULL;
}

static void open_job(struct threads *t, const struct job *job)
{
    pthread_mutex_lock(&t->lock);
    /* Copied, so that a late helper never reads the caller's stack. */
    t->job = *job;
    t->open = true;
    atomic_store_explicit(&t->next, 0, memory_order_relaxed);
    atomic_fetch_add(&t->number, 1);
    /* A broadcast costs a system call, so spinning helpers are not
     * signalled. */
    if (t->n_asleep > 0) {
        pthread_cond_broadcast(&t->wake);
    }
    pthread_mutex_unlock(&t->lock);
}

static void close_job(struct threads *t)
{
    pthread_mutex_lock(&t->lock);
    t->open = false; /* no helper joins from here on */
    pthread_mutex_unlock(&t->lock);
    /* The other threads are usually within one task of the end. */
    for (int i = 0; i < SPINS && atomic_load(&t->n_busy) > 0; i++) {
        pause_cpu();
    }
    if (atomic_load(&t->n_busy) == 0) {
        return;
    }
    pthread_mutex_lock(&t->lock);
    while (atomic_load(&t->n_busy) > 0) {
        pthread_cond_wait(&t->done, &t->lock);
    }
    pthread_mutex_unlock(&t->lock);
}

void threads_run(struct threads *t, threads_task_fn fn, void *arg,
                 uint32_t n_tasks)
{
    struct job job = {fn, arg, n_tasks};

    pin_caller(t);
    /* A single task needs no helper, and waking one would cost more. */
    if (t->n == 1 || n_tasks <= 1) {
        for (uint32_t i = 0; i < n_tasks; i++) {
            fn(arg, i, 0);
        }
        return;
    }
    open_job(t, &job);
    take_tasks(t, &job, 0);
    close_job(t);
}
