/* route_table.h - The routes of the gateway.
 *
 * A path that ends in '/' has a name behind it.  Routes that are not public
 * need a key, if there is a key file.
 *
 * Threading: constant data. */
#ifndef GATEWAY_CALLS_ROUTE_TABLE_H
#define GATEWAY_CALLS_ROUTE_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "gateway/http/http.h"
#include "gateway/metrics/metrics.h"

/* X(path, method, handler, public, label, help).  The handler is one of
 * route_handlers.h; label is of gateway/metrics/metrics.h. */
#define ROUTES(X)                                                              \
    X("/v1/chat/completions", POST, route_chat, false, CHAT,                   \
      "chat completions")                                                      \
    X("/v1/completions", POST, route_completion, false, COMPLETIONS,           \
      "completions")                                                           \
    X("/v1/responses", POST, route_responses, false, RESPONSES, "responses")   \
    X("/v1/models", GET, route_models, false, MODELS,                          \
      "the models that are served")                                            \
    X("/v1/models/", GET, route_model, false, MODELS, "one model")             \
    X("/tokenize", POST, route_tokenize, false, TOKENIZE,                      \
      "text or messages to ids")                                               \
    X("/detokenize", POST, route_detokenize, false, DETOKENIZE, "ids to text") \
    X("/health", GET, route_health, true, HEALTH,                              \
      "200 while the process runs")                                            \
    X("/ready", GET, route_ready, true, READY,                                 \
      "200 if a model can be used, else 503")                                  \
    X("/metrics", GET, route_metrics, false, METRICS, "metrics, for Prometheus")

enum route_id {
#define X(path, method, handler, public, label, help) ROUTE_##handler,
    ROUTES(X)
#undef X
        ROUTES_N
};

struct route {
    enum route_id id;
    const char *path;
    enum http_method method;
    bool is_public;
    enum gateway_route label;
    const char *help;
};

extern const struct route routes[ROUTES_N];

/* Returns the route of this path, NULL if there is none. */
const struct route *route_find(const char *path);

/* Returns the label of this path's route. */
enum gateway_route route_label(const char *path);

#endif
