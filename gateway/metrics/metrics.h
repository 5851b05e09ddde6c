/* metrics.h - The gateway's counters, gauges and histograms.
 *
 * The core counts into struct gateway_metrics; the functions below count what
 * has labels.  gateway/calls/figures.h prints these rows.
 *
 * Threading: the core's.  Memory: the caller's storage, and the families, which
 * grow when a page is made.  Limits: routes and codes are fixed tables;
 * models and tenants: common/base/metric_names.h. */
#ifndef GATEWAY_METRICS_METRICS_H
#define GATEWAY_METRICS_METRICS_H

#include "common/base/metric.h"
#include "common/base/metric_family.h"
#include "common/base/metric_names.h"

/* name, kind, what is counted since the start or measured */
#define GATEWAY_METRICS(X)                                                    \
    X(first_token, TIMES,                                                     \
      "time from the arrival of a request to its first token")                \
    X(token, TIMES, "mean time per token after the first of an answer")       \
    X(request, TIMES, "time from the arrival of a request to its end")        \
    X(streams_open, GAUGE, "open streams")                                    \
    X(generations_open, GAUGE, "choices and prompts open at the router")      \
    X(prompt_tokens, COUNTER, "prompt tokens of finished requests")           \
    X(cached_tokens, COUNTER,                                                 \
      "prompt tokens of finished requests that were "                         \
      "reused")                                                               \
    X(tokens, COUNTER, "generated tokens")                                    \
    X(body_errors, COUNTER, "requests with an invalid body")                  \
    X(ignored_fields, COUNTER,                                                \
      "fields and kinds of tools in requests that were ignored")              \
    X(template_errors, COUNTER, "conversations that a chat template refused") \
    X(disconnects, COUNTER, "requests cancelled because their client left")   \
    X(slow_readers, COUNTER,                                                  \
      "requests cancelled because their client stopped reading")              \
    X(resumed, COUNTER, "generations resumed after the loss of a router")     \
    X(router_sessions, GAUGE, "sessions with the router that are up")

#define GATEWAY_HTTP_METRICS(X) \
    X(http_requests, COUNTER, "answered HTTP requests")

#define GATEWAY_TENANT_METRICS(X)                                 \
    X(tenant_requests, COUNTER, "requests of a tenant")           \
    X(tenant_refused, COUNTER, "requests over a tenant's limits") \
    X(tenant_prompt_tokens, COUNTER, "prompt tokens of a tenant") \
    X(tenant_tokens, COUNTER, "generated tokens of a tenant")

/* One series per model that has been served when a request named it, and
 * "other" for requests that name none of them: strangers make no series. */
#define GATEWAY_MODEL_METRICS(X)                                           \
    X(model_requests, COUNTER, "requests by model")                        \
    X(model_refused, COUNTER, "requests by model that were not accepted")  \
    X(model_failed, COUNTER, "requests by model that ended with an error") \
    X(model_prompt_tokens, COUNTER, "prompt tokens by model")              \
    X(model_cached_tokens, COUNTER, "reused prompt tokens by model")       \
    X(model_tokens, COUNTER, "generated tokens by model")                  \
    X(model_first_token, TIMES, "time to the first token by model")        \
    X(model_token, TIMES, "mean time per token after the first by model")  \
    X(model_request, TIMES, "time to the end of a request by model")

METRIC_TABLE(gateway_counts, GATEWAY_METRICS);
METRIC_TABLE(gateway_http_counts, GATEWAY_HTTP_METRICS);
METRIC_TABLE(gateway_model_counts, GATEWAY_MODEL_METRICS);
METRIC_TABLE(gateway_tenant_counts, GATEWAY_TENANT_METRICS);

METRIC_SET(gateway_counts, "sluice_gateway", NULL);
METRIC_SET(gateway_http_counts, "sluice_gateway", "route,code");
METRIC_SET(gateway_model_counts, "sluice_gateway", "model");
METRIC_SET(gateway_tenant_counts, "sluice_gateway", "tenant");

#define GATEWAY_SETS_N 4
extern const struct metric_set *const gateway_sets[GATEWAY_SETS_N];

/* Routes by their label. */
#define GATEWAY_ROUTES(X)                 \
    X(COMPLETIONS, "completions")         \
    X(CHAT, "chat_completions")           \
    X(RESPONSES, "responses")             \
    X(MESSAGES, "messages")               \
    X(COUNT, "count_tokens")              \
    X(INDEX, "index")                     \
    X(MODELS, "models")                   \
    X(TOKENIZE, "tokenize")               \
    X(DETOKENIZE, "detokenize")           \
    X(OLLAMA_CHAT, "ollama_chat")         \
    X(OLLAMA_GENERATE, "ollama_generate") \
    X(OLLAMA, "ollama")                   \
    X(APPLY, "apply_template")            \
    X(PROPS, "props")                     \
    X(HEALTH, "health")                   \
    X(READY, "ready")                     \
    X(METRICS, "metrics")                 \
    X(OTHER, "other")

enum gateway_route {
#define X(name, label) GATEWAY_ROUTE_##name,
    GATEWAY_ROUTES(X)
#undef X
        GATEWAY_ROUTES_N
};

/* Status codes with a series of their own; others count by class. */
#define GATEWAY_CODES_N 29

struct gateway_metrics {
    struct gateway_counts counts;
    uint64_t http[GATEWAY_ROUTES_N][GATEWAY_CODES_N];
    struct metric_names model_names, names;
    struct gateway_model_counts models[METRIC_SLOTS];
    struct gateway_tenant_counts tenants[METRIC_SLOTS];
    struct metric_family http_family, model_family, tenant_family;
};

void gateway_metrics_init(struct gateway_metrics *m);
void gateway_metrics_fini(struct gateway_metrics *m);

/* Returns the label of a route. */
const char *gateway_route_name(enum gateway_route route);

/* Counts an answer with this HTTP status code.  Codes without a series of
 * their own count as "2xx", "3xx", "4xx" or "5xx", and numbers that are no
 * code as "5xx". */
void gateway_metrics_http(struct gateway_metrics *m, enum gateway_route route,
                          int code);

/* Returns the figures of a model.  served: the name is that of a served model
 * and gets series of its own; a name without shares those of "other".  They
 * stay in place until fini. */
struct gateway_model_counts *
gateway_metrics_model(struct gateway_metrics *m, const char *name, bool served);

/* Returns the figures of a tenant; NULL: of requests without one.  They stay
 * in place until fini. */
struct gateway_tenant_counts *gateway_metrics_tenant(struct gateway_metrics *m,
                                                     const char *tenant);

/* Counts the times of an answer, also for its model: its arrival, its first
 * token (0: none), its end, and its generated tokens. */
void gateway_metrics_times(struct gateway_metrics *m,
                           struct gateway_model_counts *model,
                           int64_t arrived_us, int64_t first_us,
                           int64_t ended_us, uint64_t n_generated);

/* Fills in the series of the sets, in the order above.  Pairs of route
 * and code that never occurred are left out.  They are valid until the next
 * call. */
void gateway_metrics_series(struct gateway_metrics *m,
                            struct metric_series s[GATEWAY_SETS_N]);

#endif
