/* job_threads.h - A bounded queue of jobs, and threads that run them.
 *
 *     submit --> waiting --> N threads --> done --> poll
 *                   ^            |           |
 *                   +-- a slice -+           +--> eventfd is readable
 *
 * A program with one event loop uses it for work that takes long, such as
 * tokenising a text.  Its struct of a job begins with struct thread_job:
 *
 *     struct prompt_job { struct thread_job job; ... };
 *
 * run() does a slice of a job, so that a long job does not hold up the others.
 * Clients take turns, and so do the jobs of each client (job_turns.h).  Jobs
 * may finish in any order, on any thread.
 *
 * Threading: one thread, the loop's, calls all functions here; none of them
 * blocks, except job_threads_free().  run() is called on one of the threads,
 * without a lock.  Memory: a job has one owner; submit() and poll() pass it
 * on.  Limits: JOB_THREADS_MAX threads; queue_max jobs submitted and not yet
 * polled. */
#ifndef COMMON_BASE_JOB_THREADS_H
#define COMMON_BASE_JOB_THREADS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/job_turns.h"
#include "common/base/status.h"

#define JOB_THREADS_MAX 64

/* First member of a job.  The fields belong to the threads while the job is
 * submitted. */
struct thread_job {
    struct job_turn turn; /* first; turn.client is set before submit() */
    struct thread_job *next;
};

struct job_threads;

struct job_threads_ops {
    /* Does a slice of a job, on a thread.  Returns whether the job is done. */
    bool (*run)(void *arg, struct thread_job *j);
    /* Frees a job that was not polled, in job_threads_free(). */
    void (*drop)(void *arg, struct thread_job *j);
    void *arg;
};

/* Starts n_threads threads, 1..JOB_THREADS_MAX.  Returns RESOURCE_EXHAUSTED
 * if a thread or the eventfd cannot be created. */
MUST_CHECK enum status job_threads_new(struct job_threads **out,
                                       const struct job_threads_ops *ops,
                                       unsigned n_threads, uint32_t queue_max,
                                       struct error *e);

/* Joins the threads after their present slices, drops all other jobs, and sets
 * *t to NULL.  A no-op if *t is NULL. */
void job_threads_free(struct job_threads **t);

/* Takes over *j and sets it to NULL.  Returns RESOURCE_EXHAUSTED, and leaves
 * *j to the caller, if the queue is full. */
MUST_CHECK enum status job_threads_submit(struct job_threads *t,
                                          struct thread_job **j);

/* Returns a finished job, which the caller then owns; NULL if there is none. */
struct thread_job *job_threads_poll(struct job_threads *t);

/* Returns an eventfd that is readable when a job may be done; borrowed. */
int job_threads_fd(const struct job_threads *t);

/* Reads the eventfd empty.  Call it before poll(), so that no job is missed. */
void job_threads_quiet(struct job_threads *t);

#endif
