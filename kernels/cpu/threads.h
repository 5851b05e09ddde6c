/* threads.h - a fork-join pool: the caller and n - 1 helpers share tasks.
 *
 * Helpers look for work for a moment after each job, then sleep; a helper that
 * wakes too late misses the job and costs nothing.  Which thread runs a task
 * is open, so no result may depend on it.
 *
 * Threading: one caller at a time.  Memory: threads_new() allocates; a job
 * does not. */
#ifndef KERNELS_CPU_THREADS_H
#define KERNELS_CPU_THREADS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"

struct threads;

/* Task number and thread number, the caller being thread 0. */
typedef void (*threads_task_fn)(void *arg, uint32_t task, uint32_t thread);

/* NULL if memory or threads are refused.  pin: each thread to a cpu of its
 * own, the caller at its first job and for good; n must be threads_default(),
 * so that none is left and none is taken twice.  What the system refuses of
 * it, it does not get. */
struct threads *threads_new(uint32_t n, bool pin);
void threads_free(struct threads **t);

/* Runs task 0 .. n_tasks - 1, each once; returns when all are done. */
void threads_run(struct threads *t, threads_task_fn fn, void *arg,
                 uint32_t n_tasks);

/* Cpus that this process may run on, at least 1. */
uint32_t threads_default(void);

#endif
