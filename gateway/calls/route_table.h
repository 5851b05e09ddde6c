/* route_table.h - The routes of the gateway: one of each dialect, and those of
 * ROUTES.
 *
 * A path that ends in '/' has a name behind it, but for "/" itself.  Routes
 * that are not public need a key, if there is a key file.
 *
 * Each route has aliases: with or without /v1 in front, and with a slash at the
 * end.  Base URLs of clients differ in both.
 *
 * Threading: none; constant once made.  Memory: the caller's storage. */
#ifndef GATEWAY_CALLS_ROUTE_TABLE_H
#define GATEWAY_CALLS_ROUTE_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "gateway/dialects/dialects.h"
#include "gateway/http/http.h"
#include "gateway/metrics/metrics.h"
#include "proto/limits.h"

/* X(path, method, handler, public, label, help).  The handler is one of
 * route_handlers.h; label is of gateway/metrics/metrics.h. */
#define ROUTES(X)                                                              \
    X("/", GET, route_index, true, INDEX, "links to the other routes")         \
    X("/v1/models", GET, route_models, false, MODELS,                          \
      "the models that are served")                                            \
    X("/v1/models/", GET, route_model, false, MODELS, "one model")             \
    X("/tokenize", POST, route_tokenize, false, TOKENIZE,                      \
      "text or messages to ids")                                               \
    X("/detokenize", POST, route_detokenize, false, DETOKENIZE, "ids to text") \
    X("/apply-template", POST, route_apply_template, false, APPLY,             \
      "messages to the text of a prompt")                                      \
    X("/props", GET, route_props, false, PROPS,                                \
      "context and chat template of a model")                                  \
    X("/api/tags", GET, route_ollama_tags, false, OLLAMA,                      \
      "the models, as Ollama")                                                 \
    X("/api/show", POST, route_ollama_show, false, OLLAMA,                     \
      "one model, as Ollama")                                                  \
    X("/api/version", GET, route_ollama_version, false, OLLAMA,                \
      "the version, as Ollama")                                                \
    X("/health", GET, route_health, true, HEALTH,                              \
      "200 while the process runs")                                            \
    X("/ready", GET, route_ready, true, READY,                                 \
      "200 if a model can be used, else 503")                                  \
    X("/metrics", GET, route_metrics, false, METRICS, "metrics, for Prometheus")

#define ROUTE_ROWS (DIALECT_ROWS + 16)

/* Bytes of a path with aliases, with its NUL: a model's name and more. */
#define ROUTE_PATH_BYTES (MODEL_NAME_MAX + 64)

enum route_id {
    ROUTE_route_generate, /* all dialects */
#define X(path, method, handler, public, label, help) ROUTE_##handler,
    ROUTES(X)
#undef X
        ROUTE_IDS
};

struct route {
    enum route_id id;
    const char *path;
    enum http_method method;
    bool is_public;
    enum gateway_route label;
    const char *help;
    const struct dialect *dialect; /* NULL: no route of a dialect */
};

struct route_table {
    struct route rows[ROUTE_ROWS]; /* [n] */
    size_t n;
};

/* Makes the table: the dialects of the list, which ends with NULL, then
 * ROUTES. */
void route_table_init(struct route_table *t, const struct dialect *const *list);

/* Returns the route of this path or alias, NULL if there is none. */
const struct route *route_find(const struct route_table *t, const char *path);

/* Returns whether routes of this label need no key. */
bool route_is_public(enum gateway_route label);

#endif
