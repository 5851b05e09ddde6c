/* text_seam.h - the seam between the router's core and text.
 *
 * Encoding and decoding whole texts take time, so they run elsewhere
 * (router/text/text_threads.c: a bounded queue and threads over text/; in the
 * simulator a fake with virtual time).  Jobs may finish in any order.
 * Streaming detokenisation is bounded work per token and is done by the core
 * itself with the model's tokenizer.
 *
 * Threading: submit and poll by the core's thread, never blocking.  Memory:
 * a job is owned by whoever has it; text_job_new/free on the heap. */
#ifndef ROUTER_TEXT_TEXT_SEAM_H
#define ROUTER_TEXT_TEXT_SEAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

struct tokenizer;

enum text_job_kind { TEXT_ENCODE, TEXT_DECODE };

struct text_job {
    enum text_job_kind kind;
    uint64_t tag;   /* the core's */
    uint32_t model; /* index as text_seam's find gives it */
    bool parse_special;
    char *text; /* [n_text] in of encode, out of decode; owned */
    size_t n_text;
    uint32_t *ids; /* [n_ids] out of encode, in of decode; owned */
    size_t n_ids;
    enum status status; /* out */
    struct error error; /* out */
};

struct text_job *text_job_new(enum text_job_kind kind, uint64_t tag);
void text_job_free(struct text_job **j);

struct text_seam;

struct text_seam_ops {
    /* Takes *j; ST_RESOURCE_EXHAUSTED (and leaves *j) if the queue is full. */
    enum status (*submit)(struct text_seam *s, struct text_job **j);
    /* A finished job, now the caller's; NULL if none. */
    struct text_job *(*poll)(struct text_seam *s);
    /* The model's number for text jobs, by name; false if it has no text. */
    bool (*find)(struct text_seam *s, const char *name, size_t n,
                 uint32_t *model);
    /* Its tokenizer for streaming, NULL if there is none (the simulator). */
    const struct tokenizer *(*tokenizer)(struct text_seam *s, uint32_t model);
    /* 16 bytes: the hash that a worker's Hello must carry; NULL: any. */
    const uint8_t *(*hash)(struct text_seam *s, uint32_t model);
};

struct text_seam {
    const struct text_seam_ops *ops;
};

#endif
