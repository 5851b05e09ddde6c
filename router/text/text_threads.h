/* text_threads.h - The text seam over threads (common/base/job_threads.h).
 *
 * Each slice is TEXT_SLICE_BYTES of a text (text/text_limits.h).
 *
 * Threading: the core's thread calls all functions here and in text_seam.h.
 * The tokenizers are read-only and shared by all threads.  Memory: models are
 * borrowed and must outlive the threads.  Limits: TEXT_THREADS_MAX threads,
 * TEXT_QUEUE_MAX jobs submitted and not yet polled. */
#ifndef ROUTER_TEXT_TEXT_THREADS_H
#define ROUTER_TEXT_TEXT_THREADS_H

#include "router/text/text_seam.h"

#define TEXT_THREADS_MAX JOB_THREADS_MAX
#define TEXT_QUEUE_MAX   1024

/* A model that has text, and its tokenizer; both borrowed. */
struct text_model {
    const char *name;
    const struct tokenizer *tokenizer;
};

struct text_threads;

/* Starts n_threads threads, 1..TEXT_THREADS_MAX, for models[0, n_models).
 * Returns RESOURCE_EXHAUSTED if a thread or the eventfd cannot be created. */
MUST_CHECK enum status text_threads_new(struct text_threads **out,
                                        const struct text_model *models,
                                        uint32_t n_models, unsigned n_threads,
                                        struct error *e);

/* Joins the threads after their present slices, frees all other jobs, and sets
 * *t to NULL.  A no-op if *t is NULL. */
void text_threads_free(struct text_threads **t);

/* Returns the seam of t, borrowed. */
struct text_seam *text_threads_seam(struct text_threads *t);

/* Returns an eventfd that is readable when a job may be done; borrowed. */
int text_threads_fd(const struct text_threads *t);

/* Reads the eventfd empty.  Call it before poll(), so that no job is missed. */
void text_threads_quiet(struct text_threads *t);

#endif
