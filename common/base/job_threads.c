#include "common/base/job_threads.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/memory.h"

/* A FIFO list.  n_open bounds all jobs, so it needs no limit. */
struct job_list {
    struct thread_job *first, **end;
};

struct job_threads {
    struct job_threads_ops ops;
    pthread_t threads[JOB_THREADS_MAX];
    unsigned n_threads;
    uint32_t queue_max;
    int fd;

    pthread_mutex_t lock; /* guards all fields below */
    pthread_cond_t wake;
    struct job_turns waiting;
    struct job_list done;
    uint32_t n_open; /* submitted and not yet polled */
    bool stopping;
};

static void done_init(struct job_list *l)
{
    l->first = NULL;
    l->end = &l->first;
}

static void done_put(struct job_list *l, struct thread_job *j)
{
    j->next = NULL;
    *l->end = j;
    l->end = &j->next;
}

static struct thread_job *done_take(struct job_list *l)
{
    struct thread_job *j = l->first;

    if (j != NULL) {
        l->first = j->next;
        if (l->first == NULL) {
            l->end = &l->first;
        }
    }
    return j;
}

/* A stop does not wait for the queue: job_threads_free() drops what is left.
 */
static void *thread_main(void *arg)
{
    static const uint64_t one = 1;
    struct job_threads *t = arg;
    struct thread_job *j;
    bool done;

    pthread_mutex_lock(&t->lock);
    while (!t->stopping) {
        j = (struct thread_job *)job_turns_take(&t->waiting);
        if (j == NULL) {
            pthread_cond_wait(&t->wake, &t->lock);
            continue;
        }
        /* Jobs run without the lock: each belongs to one thread here. */
        pthread_mutex_unlock(&t->lock);
        done = t->ops.run(t->ops.arg, j);
        pthread_mutex_lock(&t->lock);
        if (!done) {
            job_turns_put(&t->waiting, &j->turn);
            continue;
        }
        done_put(&t->done, j);
        if (write(t->fd, &one, sizeof one) != sizeof one) {
            /* The counter is full, so the descriptor is readable already. */
            continue;
        }
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

enum status job_threads_new(struct job_threads **out,
                            const struct job_threads_ops *ops,
                            unsigned n_threads, uint32_t queue_max,
                            struct error *e)
{
    struct job_threads *t = memory_must(calloc(1, sizeof *t));
    int rc = 0;

    assert(n_threads > 0 && n_threads <= JOB_THREADS_MAX);
    t->ops = *ops;
    t->queue_max = queue_max;
    job_turns_init(&t->waiting, queue_max);
    done_init(&t->done);
    t->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wake, NULL);
    for (unsigned i = 0; t->fd >= 0 && rc == 0 && i < n_threads; i++) {
        rc = pthread_create(&t->threads[i], NULL, thread_main, t);
        t->n_threads += rc == 0;
    }
    if (t->fd < 0 || rc != 0) {
        job_threads_free(&t);
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "start %u threads: no resources left; lower "
                         "--text-threads",
                         n_threads);
    }
    *out = t;
    return ST_OK;
}

static void drop_all(struct job_threads *t)
{
    struct thread_job *j;

    while ((j = (struct thread_job *)job_turns_take(&t->waiting)) != NULL) {
        t->ops.drop(t->ops.arg, j);
    }
    while ((j = done_take(&t->done)) != NULL) {
        t->ops.drop(t->ops.arg, j);
    }
    job_turns_fini(&t->waiting);
}

void job_threads_free(struct job_threads **pt)
{
    struct job_threads *t = *pt;

    if (t == NULL) {
        return;
    }
    pthread_mutex_lock(&t->lock);
    t->stopping = true;
    pthread_cond_broadcast(&t->wake);
    pthread_mutex_unlock(&t->lock);
    for (unsigned i = 0; i < t->n_threads; i++) {
        pthread_join(t->threads[i], NULL);
    }
    drop_all(t);
    if (t->fd >= 0) {
        close(t->fd);
    }
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
    free(t);
    *pt = NULL;
}

enum status job_threads_submit(struct job_threads *t, struct thread_job **j)
{
    enum status st = ST_RESOURCE_EXHAUSTED;

    pthread_mutex_lock(&t->lock);
    /* Open jobs count until they are polled, so that a core which does not poll
     * is pushed back too. */
    if (t->n_open < t->queue_max) {
        t->n_open++;
        job_turns_put(&t->waiting, &(*j)->turn);
        *j = NULL;
        pthread_cond_signal(&t->wake);
        st = ST_OK;
    }
    pthread_mutex_unlock(&t->lock);
    return st;
}

/* The eventfd only wakes the loop; poll() may be called without it. */
struct thread_job *job_threads_poll(struct job_threads *t)
{
    struct thread_job *j;

    pthread_mutex_lock(&t->lock);
    j = done_take(&t->done);
    t->n_open -= j != NULL;
    pthread_mutex_unlock(&t->lock);
    return j;
}

int job_threads_fd(const struct job_threads *t)
{
    return t->fd;
}

void job_threads_quiet(struct job_threads *t)
{
    uint64_t n;

    while (read(t->fd, &n, sizeof n) == sizeof n) {
    }
}
