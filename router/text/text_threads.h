/* text_threads.h - the text seam over threads: a bounded queue of jobs, N
 * threads that tokenise, and a descriptor that says when one is done.
 *
 * Threading: what text_seam.h lists, and text_threads_fd(), belong to the
 * core's thread; the tokenizers are read-only and shared.  Memory: models are
 * borrowed.  Limits: TEXT_THREADS_MAX, TEXT_QUEUE_MAX jobs not yet polled. */
#ifndef ROUTER_TEXT_TEXT_THREADS_H
#define ROUTER_TEXT_TEXT_THREADS_H

#include "router/text/text_seam.h"

#define TEXT_THREADS_MAX 64
#define TEXT_QUEUE_MAX   1024

struct text_model {
    const char *name;
    const struct tokenizer *tokenizer;
};

struct text_threads;

/* ST_RESOURCE_EXHAUSTED: the threads could not be made. */
MUST_CHECK enum status text_threads_new(struct text_threads **out,
                                        const struct text_model *models,
                                        uint32_t n_models, unsigned n_threads,
                                        struct error *e);

/* Finishes the jobs being worked on, drops the rest, joins. */
void text_threads_free(struct text_threads **t);

struct text_seam *text_threads_seam(struct text_threads *t);

/* An eventfd: readable when a job is done.  text_threads_quiet() reads it. */
int text_threads_fd(const struct text_threads *t);
void text_threads_quiet(struct text_threads *t);

#endif
