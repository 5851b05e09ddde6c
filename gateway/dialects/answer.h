/* answer.h - Answers: one body, or a stream.
 *
 *     begin  (echo | output | logprobs | usage | flush)*  finish  end
 *                        for each choice                 each
 *     fail may take the place of end, at any time after new
 *
 * The dialect (dialect.h) and the request's field stream choose the form.  A
 * stream gets one chunk for each run of events of one kind.  A whole answer is
 * kept until the end and written at once.  Both contain the same text.
 *
 * Threading: none.  Memory: about 2 KB, and 300 bytes per choice.  A stream
 * also keeps the text since the last flush and what its last events repeat, a
 * whole answer all text.
 * Limits: none here; max_tokens of the request bounds the text. */
#ifndef GATEWAY_DIALECTS_ANSWER_H
#define GATEWAY_DIALECTS_ANSWER_H

#include <stdint.h>

#include "gateway/chat/output.h"
#include "gateway/dialects/dialect.h"
#include "gateway/openai/request.h"
#include "gateway/openai/vocab.h"

struct openai_answer;

/* Receives bytes of the body: events as they come, or the whole body once. */
typedef void openai_write_fn(void *arg, const char *bytes, size_t n);

struct openai_answer_options {
    const struct dialect *dialect;        /* borrowed */
    const struct openai_request *request; /* borrowed until free */
    const char *model;                    /* NULL: the request's */
    const uint8_t *request_id;            /* [16] */
    int64_t created_unix;                 /* s */
    openai_write_fn *write;
    void *arg;                        /* passed to write */
    const struct openai_vocab *vocab; /* borrowed; NULL: no logprobs */
    struct memory_budget *memory;     /* counts its text; NULL: none */
};

/* The logprobs of tokens, as struct client_chunk has them. */
struct openai_logprobs {
    uint32_t n_tokens, n_top;
    const uint32_t *tokens;     /* [n_tokens] */
    const float *logprobs;      /* [n_tokens] */
    const uint32_t *top_tokens; /* [n_tokens, n_top] best first */
    const float *top_logprobs;  /* [n_tokens, n_top] */
};

/* Tokens of the request, or of one prompt of it so far. */
struct openai_usage {
    uint64_t prompt, completion, cached, reasoning;
};

/* Makes the answer to a request; nothing is written yet.  The caller frees
 * it. */
struct openai_answer *openai_answer_new(const struct openai_answer_options *o);

/* Returns whether the answer lacks text because memory was short.  Nothing is
 * written from then on; the caller fails the answer. */
bool openai_answer_broken(const struct openai_answer *a);

/* Frees an answer; NULL is legal.  An answer without an end is cut. */
void openai_answer_free(struct openai_answer **a);

/* Writes the first chunks of a stream.  Call it once, when the request is
 * accepted. */
void openai_answer_begin(struct openai_answer *a);

/* Puts the prompt in front of a completion whose request has echo. */
void openai_answer_echo(struct openai_answer *a, uint32_t index,
                        const char *text, size_t n);

/* Adds a piece of choice index, below openai_request_choices(). */
void openai_answer_output(struct openai_answer *a, uint32_t index,
                          const struct output_event *event);

/* Adds the logprobs of generated tokens; ignored if the request wants none. */
void openai_answer_logprobs(struct openai_answer *a, uint32_t index,
                            const struct openai_logprobs *l);

/* Sets the usage that each further chunk carries, if the request asks for
 * continuous usage. */
void openai_answer_usage(struct openai_answer *a, const struct openai_usage *u);

/* Writes to a stream what was given for a choice since the last flush. */
void openai_answer_flush(struct openai_answer *a, uint32_t index);

/* Notes that stop string number stop of the request ended a choice: before its
 * finish. */
void openai_answer_stopped(struct openai_answer *a, uint32_t index,
                           uint32_t stop);

/* Ends a choice, with what was given since the last flush.  reason: "stop",
 * "length", "tool_calls" or "content_filter", a constant. */
void openai_answer_finish(struct openai_answer *a, uint32_t index,
                          const char *reason);

/* Ends the answer, all of whose choices are finished: usage and the end of the
 * stream, or the whole body. */
void openai_answer_end(struct openai_answer *a, const struct openai_usage *u);

/* Ends a stream with an error.  Of an answer that is not streamed, this writes
 * the body of the error. */
void openai_answer_fail(struct openai_answer *a, const struct openai_error *e);

/* Returns the Content-Type of the answer. */
const char *openai_answer_type(const struct openai_answer *a);

#endif
