/* generation.h - The life of a request that generates text.
 *
 *     ENCODING --ids of all prompts--> RUNNING --first chunk--> ANSWERING
 *         |                               |                         |
 *         +------- refused, failed -------+-------------------------+--> OVER
 *                  client gone                        end of all choices
 *
 * A request has one or more prompts.  Each prompt is one Generate call of the
 * router (client/lib/resumable.h), with n choices.  Choice c of prompt p has
 * index p * n + c in the answer.
 *
 * The call's chunks pass through the parser of the model's output format, and
 * then into the answer:
 *
 *     chunk ──▶ output_parser ──▶ openai_answer ──▶ http exchange
 *
 * A refusal before the first chunk is an HTTP status.  Later it is the last
 * event of the stream.  If the client goes, all calls are cancelled.
 *
 * Threading: one thread.  Memory: one block per generation, one per prompt
 * and one parser per choice; what only the start needs is freed when the calls
 * have begun.  A generation that is OVER is freed by service_tick(), because it
 * may end inside a callback of its own calls.
 * Limits: those of gateway/openai/request.h and service_limits. */
#ifndef GATEWAY_CALLS_GENERATION_H
#define GATEWAY_CALLS_GENERATION_H

#include "client/lib/resumable.h"
#include "gateway/calls/service.h"
#include "gateway/chat/output_parser.h"
#include "gateway/openai/answer.h"

enum generation_state {
    GENERATION_ENCODING,
    GENERATION_RUNNING,
    GENERATION_ANSWERING,
    GENERATION_OVER
};

struct generation_choice {
    struct output_parser *parser; /* NULL: the text is content */
    bool reasoning;               /* its last text was reasoning */
};

/* One prompt and its call. */
struct generation_prompt {
    struct generation *g;
    uint32_t index;
    uint32_t *ids; /* [n_ids], owned; NULL: the router encodes the text */
    size_t n_ids;
    char *echo; /* [n_echo], owned: text of a prompt given as ids */
    size_t n_echo;
    bool in_reasoning;
    uint32_t max_tokens;
    uint32_t n_cached; /* ids reused; the least of its ended choices */
    bool has_cached;
    struct client_core *core; /* NULL: no call is open */
    struct resumable stream;
    bool begun; /* stream is to be finished */
    uint8_t request_id[16];
    Sluice__V1__GenerateRequest message;
    Sluice__V1__Sampling sampling;
    struct generation_choice *choices; /* [n] */
};

struct generation {
    struct waiter waiter; /* first: http_user() of the exchange */
    struct list node;     /* in service.generations, or service.ended */
    struct timer timer;   /* begin of the stream, then comments */
    struct service *service;
    struct http_exchange *x; /* NULL: answered, or its client has gone */
    enum gateway_route route;
    char *cors;   /* header lines, owned; NULL: none */
    bool stalled; /* its client did not read */
    bool failed;  /* ended with an error */
    bool gone;    /* its client went before the end */
    int status;   /* HTTP status of the answer; 0: none yet */
    enum generation_state state;
    struct openai_request *request;
    struct openai_answer *answer;
    struct openai_vocab vocab;
    const struct served_model *model; /* NULL: the router alone has it */
    ProtobufCBinaryData *stops;       /* [n_stops] */
    struct model_format format;
    struct tenant *tenant;
    uint64_t tokens_asked;
    uint32_t n_jobs;  /* prompts that are being encoded */
    uint32_t n_ended; /* prompts whose call has ended */
    struct openai_usage usage;
    int64_t began_us, first_us, last_us; /* last_us: of the last write */
    uint32_t n_prompts;
    struct generation_prompt prompts[]; /* [n_prompts] */
};

/* Begins the request r, which it takes, for the exchange x.  It answers x in
 * any case, now or later. */
void generation_begin(struct service *c, struct http_exchange *x,
                      struct tenant *tenant, struct openai_request **r);

/* Begins the stream of g, or sends a comment on it. */
void generation_timer(struct generation *g, int64_t now_us);

/* Ends g with an error: an HTTP status before the answer began, else the last
 * event.  Cancels its calls. */
void generation_fail(struct generation *g, const struct openai_error *e,
                     uint32_t retry_after_ms);

/* Ends g, whose answer is complete or has no reader: cancels its calls. */
void generation_over(struct generation *g);

/* Begins the answer: the headers and first events of a stream. */
void generation_answer(struct generation *g);

/* Ends the stream of g, whose answer is complete or has failed. */
void generation_end_stream(struct generation *g);

/* Frees g, which is OVER. */
void generation_free(struct generation *g);

/* Sends the Generate calls of all prompts, which are encoded. */
void generation_start(struct generation *g);

/* Returns the context of the model, MODEL_CONTEXT_MAX if the router has not
 * named it yet. */
uint32_t generation_context(const struct generation *g);

/* Callbacks of a prompt's call; arg is the struct generation_prompt. */
extern const struct resumable_ops generation_stream_ops;

#endif
