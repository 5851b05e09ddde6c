/* threads.h - a fork-join pool: the caller and n - 1 helpers share tasks.
 *
 * After each job, helpers spin briefly for the next one, then sleep.  A helper
 * that wakes too late misses the job, which costs nothing.  Any thread may run
 * any task, so no result may depend on the thread.
 *
 * Threading: one caller at a time.  Memory: threads_new() allocates; a job does
 * not. */
#ifndef KERNELS_CPU_THREADS_H
#define KERNELS_CPU_THREADS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"

struct threads;

/* Task number and thread number; the caller is thread 0. */
typedef void (*threads_task_fn)(void *arg, uint32_t task, uint32_t thread);

/* Creates a pool of n threads, the caller included.  Returns NULL if the system
 * refuses memory or threads.  With pin, each thread is pinned to its own CPU;
 * the caller is pinned at its first job and stays so.  n must then be
 * threads_default(), so that every CPU has exactly one thread.  Pinning that
 * the system refuses is skipped. */
struct threads *threads_new(uint32_t n, bool pin);
/* Stops the helpers, frees the pool and nulls *t. */
void threads_free(struct threads **t);

/* Runs tasks 0 .. n_tasks - 1, each once; returns when all are done. */
void threads_run(struct threads *t, threads_task_fn fn, void *arg,
                 uint32_t n_tasks);

/* Returns the number of CPUs that this process may run on, at least 1. */
uint32_t threads_default(void);

#endif
