/* prompt_job.h - From a conversation or a text to token ids.
 *
 * Rendering a chat template and tokenising a long text take long, so both run
 * outside the gateway's core, as a job:
 *
 *     core --submit(job)--> prompt seam --poll()--> core
 *
 * The program's seam is gateway/text/prompt_threads.h; the simulator runs jobs
 * in virtual time.  Both run slices, and give clients turns
 * (common/base/job_turns.h).  A template is rendered in one slice, because its
 * steps are limited; the rest of the work is divided.  Jobs may finish in any
 * order.
 *
 * The characters that come from the request are encoded without special
 * tokens, whatever they spell (text/template/chat_template.h).
 *
 * Threading: the core's thread calls the seam; prompt_job_step() runs on any
 * thread.  Memory: a job is on the heap and has one owner; submit() and poll()
 * pass it on.  Its JSON values belong to the job alone.  Limits: the seam's
 * queue, and those of template and tokenizer. */
#ifndef GATEWAY_TEXT_PROMPT_JOB_H
#define GATEWAY_TEXT_PROMPT_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "common/base/job_threads.h"
#include "gateway/text/served_model.h"

enum prompt_kind {
    PROMPT_CHAT,   /* messages to ids */
    PROMPT_TEXT,   /* a text to ids */
    PROMPT_DECODE, /* ids to text */
    PROMPT_CALL    /* a function of the core */
};

/* Input of PROMPT_CHAT; every value is owned and may be NULL but messages. */
struct prompt_chat {
    json_t *messages, *tools, *kwargs;
    bool add_generation_prompt;
    bool continue_final; /* the prompt ends with the last message's text */
    bool renders;        /* the result is the text of the prompt, and no ids */
    int64_t now_unix;    /* seconds, for strftime_now */
};

struct prompt_job {
    struct thread_job job; /* first; the client is its turn.client */
    enum prompt_kind kind;
    void *owner;                      /* set by the core, which gets it back */
    uint32_t index;                   /* likewise */
    const struct served_model *model; /* borrowed */
    struct prompt_chat chat;
    bool parse_special, add_special; /* for PROMPT_TEXT */
    char *text; /* [n_text] input of TEXT, result of DECODE, and of a CHAT
                 * that renders; owned */
    size_t n_text;
    uint32_t *ids; /* [n_ids] result, input of DECODE; owned */
    size_t n_ids;
    bool in_reasoning; /* result of CHAT: the prompt ends after "<think>" */
    /* The model's context, and the tokens of it that the answer may take: a
     * prompt that leaves less is not encoded to its end.  0: no limit. */
    uint32_t context, answer;
    /* Between two slices of CHAT and TEXT; owned. */
    struct chat_prompt rendered;
    struct encoding *encoding;
    /* For PROMPT_CALL: called on a thread, and when the job is freed. */
    void (*call)(void *arg);
    void (*call_free)(void *arg);
    void *call_arg;
    enum status status;
    struct error error; /* set if status is not OK */
    const char *code;   /* constant, of the failure; NULL: by its status */
};

/* Allocates an empty job; NULL without memory. */
struct prompt_job *prompt_job_new(enum prompt_kind kind);

/* Makes a job that encodes a copy of text[0..n) with special tokens; NULL
 * without memory. */
struct prompt_job *prompt_job_text(const char *text, size_t n,
                                   bool add_special);

/* Frees a job and what it owns, and sets *j to NULL.  A no-op if *j is NULL. */
void prompt_job_free(struct prompt_job **j);

/* Runs a slice of a job, of about `bytes` bytes where the job can be divided.
 * Returns whether the job is done; the result and its status are then in *j. */
bool prompt_job_step(struct prompt_job *j, size_t bytes);

struct prompt_seam;

struct prompt_seam_ops {
    /* Takes over *j and sets it to NULL.  Returns RESOURCE_EXHAUSTED, and
     * leaves *j to the caller, if the queue is full. */
    enum status (*submit)(struct prompt_seam *s, struct prompt_job **j);
    /* Returns a finished job, which the caller then owns; NULL if there is
     * none. */
    struct prompt_job *(*poll)(struct prompt_seam *s);
};

struct prompt_seam {
    const struct prompt_seam_ops *ops;
};

#endif
