/* text_seam.h - Interface between the router's core and the text library.
 *
 * Tokenising or detokenising a whole text takes long, so it runs outside the
 * core, as a job:
 *
 *     core --submit(job)--> text seam --poll()--> core
 *
 * The daemon's seam is router/text/text_threads.h (a bounded queue, and threads
 * over text/); the simulator has a fake with virtual time.  Both encode in
 * slices, and give clients turns (common/base/job_turns.h).  Jobs may finish in
 * any order.  The core detokenises streams itself with the model's tokenizer,
 * because the work per token is bounded.
 *
 * Threading: the core's thread calls all functions; none of them blocks.
 * Memory: a job is on the heap and has one owner; submit() and poll() pass it
 * on.  Limits: the implementation's queue. */
#ifndef ROUTER_TEXT_TEXT_SEAM_H
#define ROUTER_TEXT_TEXT_SEAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/job_threads.h"
#include "common/base/status.h"

struct encoding;
struct tokenizer;

enum text_job_kind { TEXT_ENCODE, TEXT_DECODE };

/* One text to convert, and the result. */
struct text_job {
    struct thread_job job; /* first; the caller's id is its turn.client */
    enum text_job_kind kind;
    uint64_t tag;       /* chosen by the core, to find the call of the job */
    uint32_t model;     /* the model's number from find() */
    bool parse_special; /* encode special tokens that are spelt in the text */
    char *text;         /* [n_text] input of ENCODE, result of DECODE; owned */
    size_t n_text;
    size_t max_ids;            /* ENCODE fails past these; 0: no limit */
    bool over;                 /* it failed for this reason */
    struct encoding *encoding; /* state of ENCODE between two slices; owned */
    uint32_t *ids; /* [n_ids] result of ENCODE, input of DECODE; owned */
    size_t n_ids;
    size_t counted;     /* bytes in request_memory.h, for the core */
    enum status status; /* result */
    struct error error; /* set if status is not OK */
};

/* Returns an empty job; NULL without memory. */
struct text_job *text_job_new(enum text_job_kind kind, uint64_t tag);
/* Gives a job a copy of text[0..n).  Returns false without memory. */
MUST_CHECK bool text_job_put(struct text_job *j, const uint8_t *text, size_t n);

/* Runs a slice of a job: of ENCODE about `bytes` bytes, of DECODE all.  Returns
 * whether the job is done; its result is then set. */
bool text_job_step(struct text_job *j, const struct tokenizer *t, size_t bytes);

/* Frees a job with its text and ids, and sets *j to NULL.  A no-op if *j is
 * NULL. */
void text_job_free(struct text_job **j);

struct text_seam;

struct text_seam_ops {
    /* Takes over *j and sets it to NULL.  Returns RESOURCE_EXHAUSTED, and
     * leaves *j to the caller, if the queue is full. */
    enum status (*submit)(struct text_seam *s, struct text_job **j);
    /* Returns a finished job, which the caller then owns; NULL if there is
     * none. */
    struct text_job *(*poll)(struct text_seam *s);
    /* Finds the number of the model name[0, n) for text jobs.  Returns false if
     * the model has no tokenizer. */
    bool (*find)(struct text_seam *s, const char *name, size_t n,
                 uint32_t *model);
    /* Returns a model's tokenizer for streams, borrowed; NULL if there is none,
     * as in the simulator. */
    const struct tokenizer *(*tokenizer)(struct text_seam *s, uint32_t model);
    /* Returns the 16-byte tokenizer hash that a worker's Hello must carry,
     * borrowed; NULL if any is accepted. */
    const uint8_t *(*hash)(struct text_seam *s, uint32_t model);
};

struct text_seam {
    const struct text_seam_ops *ops;
};

#endif
