/* prompt_threads.h - The prompt seam over threads (common/base/job_threads.h).
 *
 * Threading: the core's thread calls all functions here and in prompt_job.h.
 * Memory: models are borrowed by the jobs and must outlive the threads.
 * Limits: JOB_THREADS_MAX threads, PROMPT_QUEUE_MAX jobs submitted and not yet
 * polled. */
#ifndef GATEWAY_TEXT_PROMPT_THREADS_H
#define GATEWAY_TEXT_PROMPT_THREADS_H

#include "gateway/text/prompt_job.h"

#define PROMPT_QUEUE_MAX 4096

struct prompt_threads;

/* Starts n_threads threads, 1..JOB_THREADS_MAX.  Returns RESOURCE_EXHAUSTED if
 * a thread or the eventfd cannot be created. */
MUST_CHECK enum status prompt_threads_new(struct prompt_threads **out,
                                          unsigned n_threads, struct error *e);

/* Joins the threads after their present slices, frees all other jobs, and sets
 * *t to NULL.  A no-op if *t is NULL. */
void prompt_threads_free(struct prompt_threads **t);

/* Returns the seam of t, borrowed. */
struct prompt_seam *prompt_threads_seam(struct prompt_threads *t);

/* Returns an eventfd that is readable when a job may be done; borrowed. */
int prompt_threads_fd(const struct prompt_threads *t);

/* Reads the eventfd empty.  Call it before poll(), so that no job is missed. */
void prompt_threads_quiet(struct prompt_threads *t);

#endif
