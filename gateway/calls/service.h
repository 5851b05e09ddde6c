/* service.h - The requests of HTTP clients, from the route to the last byte.
 *
 *     http ──▶ routes ──▶ route_* ──▶ generation ──▶ upstream
 *                                       │   ▲
 *                                       ▼   │
 *                                    prompt seam
 *
 * This header has what all of these share.  One handler serves each route
 * (routes.h).  Routes that generate text share the life of a request,
 * generation.h.  turn.h is the turn of the clock.
 *
 * Pure: time, randomness and connections come from the gateway's core.
 *
 * Threading: one thread.  Memory: struct service is the core's; requests are on
 * the heap until they end.  Limits: service_limits. */
#ifndef GATEWAY_CALLS_SERVICE_H
#define GATEWAY_CALLS_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/limit.h"
#include "common/base/list.h"
#include "common/base/timer.h"
#include "gateway/calls/model_list.h"
#include "gateway/calls/route_table.h"
#include "gateway/chat/output_parser.h"
#include "gateway/http/http.h"
#include "gateway/http/pages.h"
#include "gateway/keys/keys.h"
#include "gateway/metrics/metrics.h"
#include "gateway/openai/error.h"
#include "gateway/text/prompt_job.h"
#include "gateway/upstream/upstream.h"

/* A stream begins with its first token, or after this time without one: until
 * then a refusal still has its own HTTP status. */
#define SERVICE_OPEN_US 900000
/* A stream that has no token yet sends a comment with its time this often. */
#define SERVICE_WAIT_US 10000000
/* A stream without tokens sends a comment this often, so that proxies keep the
 * connection and a lost client is noticed. */
#define SERVICE_PING_US 15000000
/* Tokens that a completion generates if the request sets no limit, as in
 * OpenAI's API. */
#define SERVICE_COMPLETION_TOKENS 16
/* A chat without a limit generates as many as its context has room for, unless
 * --max-tokens gives another number.  Until its end its tenant is charged for
 * this many. */
#define SERVICE_CHAT_TOKENS 2048
/* A request waits this long for a router that does not answer. */
#define SERVICE_RESUME_MS 30000

/* Longer bodies are parsed on a thread: a parse takes about 12 us per KiB. */
#define SERVICE_PARSE_BYTES (256u << 10)

/* Rows of the limits above, for limits_print(). */
extern const struct limit_row service_limits[];
extern const size_t service_limits_n;

struct service_options {
    const struct served_models *models; /* models with text; borrowed */
    struct keys *keys;                  /* borrowed */
    struct prompt_seam *prompts;        /* borrowed */
    struct http_page_rules pages;       /* borrowed; for pages of browsers */
    const enum output_format *format;   /* NULL: chosen by the template */
    /* Ends with NULL; NULL: those of gateway/dialects/dialects.h. */
    const struct dialect *const *dialects;
    uint32_t chat_tokens;      /* 0: as many as the context has room for */
    bool refuse_unknown;       /* fields without a rule are refused */
    size_t body_bytes_max;     /* for error texts */
    int64_t (*unix_s)(void *); /* seconds since 1970 */
    void *unix_arg;
};

/* How a model's template and parser do tool calls and reasoning. */
struct model_format {
    enum output_format format;
    bool has_chat;      /* the model has a template */
    bool has_reasoning; /* the model writes reasoning blocks */
    bool shows_tools;   /* the template puts tools into the prompt */
    bool reads_calls;   /* the parser finds calls, or --tool-format is given */
    const char *unread; /* the name of a format without a parser; NULL: none */
};

struct service {
    struct service_options options;
    struct upstream *upstream;
    struct gateway_metrics *metrics; /* the core's */
    struct route_table routes;
    struct http_server *http; /* the core's, for its counters */
    struct model_list list;
    struct model_format formats[SERVED_MODELS_MAX]; /* for options.models */
    struct timers timers;                           /* for generations */
    struct list generations; /* struct generation, open */
    struct list ended;       /* struct generation, freed in the next tick */
    uint32_t n_open;         /* requests that are not over */
    bool draining;           /* new requests are refused */
    bool again; /* calls were cancelled: the upstream must run once more */
};

/* Callbacks for an HTTP exchange that waits.  First member of the struct that
 * http_user() of the exchange points to. */
struct waiter {
    /* The client has gone; the exchange ends on return. */
    void (*gone)(struct waiter *w);
    /* A prompt job has run; takes it. */
    void (*encoded)(struct waiter *w, struct prompt_job *j);
};

/* Submits *j, whose result goes to w, and sets *j to NULL.  w lives until
 * then.  Clients take turns: tenants or, without keys, connections.  Returns
 * RESOURCE_EXHAUSTED if the queue is full; *j is then freed. */
MUST_CHECK enum status service_submit(struct service *c, struct waiter *w,
                                      const struct http_exchange *x,
                                      const struct tenant *tenant,
                                      struct prompt_job **j);

/* Sets *e to the failure of a job.  Clients repeat 429 and 5xx, so a text that
 * always fails is 400; without memory it is 503. */
void service_job_error(struct openai_error *e, const struct prompt_job *j);

/* Returns whether requests are accepted and can run: a session is up, a model
 * has a worker, and the gateway does not drain. */
bool service_is_ready(const struct service *c);

/* Returns the time of the core's clock. */
int64_t service_now_us(const struct service *c);

void service_init(struct service *c, const struct service_options *o,
                  struct upstream *u, struct gateway_metrics *m);

/* Returns what a model's template and parser do; m may be NULL. */
struct model_format service_format(const struct service *c,
                                   const struct served_model *m);

/* Returns false, and the error, if tools would vanish from the model's prompts
 * or, where `answers`, their calls would come back as text. */
MUST_CHECK bool service_takes_tools(const struct service *c,
                                    const struct served_model *m, bool answers,
                                    struct openai_error *e);

#endif
