/* generation.h - The life of a request that generates text.
 *
 *     ENCODING --ids of all prompts--> RUNNING --first chunk--> ANSWERING
 *         |                               |                         |
 *         +------- refused, failed -------+-------------------------+--> OVER
 *                  client gone                        end of all choices
 *
 * The files follow the life: generation.c begins it, _prompts encodes, _start
 * sends the calls, _stream takes their chunks, _answer writes, _end ends.
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
#include "gateway/dialects/answer.h"

struct respond_headers;

enum generation_state {
    GENERATION_ENCODING,
    GENERATION_RUNNING,
    GENERATION_ANSWERING,
    GENERATION_OVER
};

struct generation_choice {
    struct output_parser *parser; /* NULL: the text is content */
    bool reasoning;               /* its last text was reasoning */
    bool closed;                  /* its answer is complete */
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
    bool begun;    /* stream is to be finished */
    bool counted;  /* its prompt is in the usage */
    bool answered; /* a chunk has come */
    bool enough;   /* all choices are closed */
    bool cut;      /* a choice has as many tokens as the default allows */
    uint32_t n_closed, n_finished; /* choices; finished by the router */
    uint8_t request_id[16];
    Sluice__V1__GenerateRequest message;
    Sluice__V1__Sampling sampling;
    struct generation_choice *choices; /* [n] */
};

/* Charged to the tenant until the end. */
struct generation_asked {
    uint64_t tokens;
    uint32_t n_guaranteed; /* choices */
};

struct generation {
    struct waiter waiter; /* first: http_user() of the exchange */
    struct list node;     /* in service.generations, or service.ended */
    struct timer timer;   /* begin of the stream, then comments */
    struct service *service;
    struct http_exchange *x; /* NULL: answered, or its client has gone */
    enum gateway_route route;
    const struct dialect *dialect;
    char *cors;                    /* header lines, owned; NULL: none */
    bool stalled;                  /* its client did not read */
    bool failed;                   /* ended with an error */
    bool gone;                     /* its client went before the end */
    char client[HTTP_CLIENT_TEXT]; /* its address */
    int status;                    /* HTTP status of the answer; 0: none yet */
    enum generation_state state;
    struct openai_request *request;
    struct openai_answer *answer;
    struct openai_vocab vocab;
    const struct served_model *model; /* NULL: the router alone has it */
    ProtobufCBinaryData *stops;       /* [n_stops] */
    struct model_format format;
    struct tenant *tenant;
    struct generation_asked asked;
    uint32_t n_jobs;  /* prompts that are being encoded */
    uint32_t n_ended; /* prompts whose call has ended */
    struct openai_usage usage;
    int64_t began_us, first_us, last_us; /* last_us: of the last write */
    uint32_t n_prompts;
    struct generation_prompt prompts[]; /* [n_prompts] */
};

/* ---- generation.c ---- */

/* Begins the request r, which it takes, for the exchange x.  It answers x in
 * any case, now or later. */
void generation_begin(struct service *c, struct http_exchange *x,
                      struct tenant *tenant, struct openai_request **r);

/* ---- generation_prompts.c ---- */

/* Starts the jobs that encode the input.  Goes on at once if there are none. */
void generation_prepare(struct generation *g);

/* Takes the result of a job; w is the generation's.  The last one starts the
 * calls. */
void generation_encoded(struct waiter *w, struct prompt_job *j);

/* ---- generation_start.c ---- */

/* Sends the Generate calls of all prompts, which are encoded. */
void generation_start(struct generation *g);

/* As many as the context of the model leaves. */
#define GENERATION_UNLIMITED UINT32_MAX

/* Returns the most tokens of each choice: of the request, else by default. */
uint32_t generation_tokens(const struct service *c, const struct dialect *d,
                           const struct openai_request *r);

/* Returns the context of the model, MODEL_CONTEXT_MAX if the router has not
 * named it yet. */
uint32_t generation_context(const struct generation *g);

/* ---- generation_stream.c ---- */

/* Takes the prompt of p, which no router took, out of the usage. */
void generation_uncount(struct generation_prompt *p);

/* Ends g with an answer whose choices have no token. */
void generation_finish_empty(struct generation *g);

/* Callbacks of a prompt's call; arg is the struct generation_prompt. */
extern const struct resumable_ops generation_stream_ops;

/* ---- generation_answer.c ---- */

/* Makes the answer of g.  Returns false without memory. */
MUST_CHECK bool generation_answer_new(struct generation *g);

/* Begins the answer: the headers and first events of a stream. */
void generation_answer(struct generation *g);

/* Begins the stream of g, or sends the ping of its dialect on it. */
void generation_timer(struct generation *g, int64_t now_us);

/* Returns whether the default limit of tokens cut a choice. */
bool generation_is_cut(const struct generation *g);

/* Writes so at the end of a stream, where clients skip it. */
void generation_remark(struct generation *g);

/* Begins the headers of an answer, which g or its error has. */
void generation_headers(const struct generation *g, struct respond_headers *h);

/* ---- generation_end.c ---- */

/* Ends g with an error: an HTTP status before the answer began, else the last
 * event.  Cancels its calls. */
void generation_fail(struct generation *g, const struct openai_error *e,
                     uint32_t retry_after_ms);

/* Ends g with the failure of a job.  The request's input is to blame if its
 * error names no field. */
void generation_fail_job(struct generation *g, const struct prompt_job *j);

/* Ends g with an error: memory is short. */
void generation_short(struct generation *g);

/* Ends g, as generation_short(), if its answer lacks text for want of memory.
 * Returns whether g goes on. */
MUST_CHECK bool generation_whole(struct generation *g);

/* Ends g, whose client has gone; w is the generation's. */
void generation_gone(struct waiter *w);

/* Ends the stream of g, whose answer is complete or has failed. */
void generation_end_stream(struct generation *g);

/* Ends g, whose answer is complete or has no reader: cancels its calls. */
void generation_over(struct generation *g);

/* Frees g, which is OVER. */
void generation_free(struct generation *g);

#endif
