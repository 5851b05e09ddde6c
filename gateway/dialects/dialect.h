/* dialect.h - One API for text, as one row of a table.
 *
 * A request of any dialect becomes a struct openai_request, and lives as
 * described in gateway/calls/generation.h.  What differs between dialects is
 * here: the route, the fields of the body, and the bytes of the answer.  Code
 * outside this room calls these functions and reads these values; it never asks
 * which dialect a request has.
 *
 * To add a dialect: its files in this folder, and its row in dialects.c.
 *
 *     body --parse--> openai_request ... openai_answer
 *                                            |
 *     a stream:  first (delta | logprobs | flush)* finish  end | fail
 *     a whole answer:  (delta | logprobs)* finish  end | error
 *
 * The functions append to a->out, which is written after each of them
 * (answer_base.h).  They write the framing too: answers of one dialect are
 * server-sent events with or without names, those of another lines of JSON.
 *
 * Threading: none; parse may run on any thread.  Memory: constant data. */
#ifndef GATEWAY_DIALECTS_DIALECT_H
#define GATEWAY_DIALECTS_DIALECT_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/metrics/metrics.h"
#include "gateway/openai/request_parse.h"

struct choice;
struct json_out;
struct openai_answer;
struct openai_logprobs;
struct output_event;

/* Values that dialects share: JSON, and server-sent events with comments. */
#define DIALECT_JSON    "application/json"
#define DIALECT_EVENTS  "text/event-stream; charset=utf-8"
#define DIALECT_COMMENT ": ping\n\n"
#define DIALECT_REMARK \
    {                  \
        ": ", "\n\n"   \
    }

struct dialect {
    /* The route, which takes POST. */
    const char *path, *help;
    enum gateway_route label; /* in metrics and logs */

    /* The request. */
    openai_parse_fn *parse;
    const char *input; /* the field with the prompt, for errors */
    /* A prompt is text that the model continues: the answer has no reasoning
     * and no calls, and is short unless the request sets a length. */
    bool is_raw;

    /* The framing. */
    const char *stream_type; /* Content-Type of a stream */
    const char *whole_type;  /* Content-Type otherwise */
    const char *ping;      /* sent on a stream between tokens; NULL: nothing */
    const char *remark[2]; /* around a text that clients skip; NULL: none */

    /* The body of an error that comes before the first byte of an answer; its
     * status of HTTP, NULL: that of *e; and a header that repeats x-request-id,
     * NULL: none. */
    void (*error)(struct json_out *out, const struct openai_error *e);
    int (*status)(const struct openai_error *e);
    const char *id_header;

    /* The body of a route that generates nothing: the number of tokens of its
     * prompt.  NULL: it generates, and has the functions below. */
    void (*counted)(struct json_out *out, uint64_t n);

    /* The answer. */
    const void *form; /* for a writer that several dialects share */
    bool (*init)(struct openai_answer *a);  /* false: no memory */
    void (*first)(struct openai_answer *a); /* begins a stream */
    /* A piece of text, of reasoning or of a call. */
    void (*delta)(struct openai_answer *a, uint32_t index,
                  const struct output_event *event);
    /* Logprobs, which the request asks for. */
    void (*logprobs)(struct openai_answer *a, struct choice *c,
                     const struct openai_logprobs *l);
    void (*flush)(struct openai_answer *a, uint32_t index);  /* in a stream */
    void (*finish)(struct openai_answer *a, uint32_t index); /* ends a choice */
    /* Usage, and the end; of a whole answer all of it. */
    void (*end)(struct openai_answer *a);
    /* The end of a stream that has failed. */
    void (*fail)(struct openai_answer *a, const struct openai_error *e);
    void (*drop)(struct openai_answer *a); /* pending text, before fail */
    void (*fini)(struct openai_answer *a);
};

#endif
