/* args.h - The options of sluice-gateway, and what they ask for instead of
 * serving.
 *
 * `sluicectl cluster check` compares a cluster file with the same rows.
 *
 * Threading: none.  Memory: strings point into argv and the sources. */
#ifndef GATEWAY_ARGS_H
#define GATEWAY_ARGS_H

#include "common/base/job_threads.h"
#include "common/base/limit.h"
#include "common/base/log_output.h"
#include "common/base/option.h"
#include "common/base/option_sources.h"
#include "common/wire/curve_keys.h"
#include "gateway/chat/output_parser.h"
#include "gateway/http/http_limits.h"
#include "gateway/http/proxies.h"
#include "gateway/text/served_model.h"
#include "gateway/upstream/upstream.h"
#include "proto/limits.h"

#define GATEWAY_OPTIONS(X)                                                     \
    X(router, STRING, "ENDPOINT", "tcp://127.0.0.1:7071",                      \
      "the router's endpoint for clients", 0, 0)                               \
    X(listen, STRING, "HOST:PORT", "127.0.0.1:8000",                           \
      "address for HTTP clients; other than loopback needs --keys; unused "    \
      "with a socket of the service manager",                                  \
      0, 0)                                                                    \
    X(model, LIST, "NAME=DIR", NULL,                                           \
      "tokenizer, chat template and sampling defaults of a model", 0,          \
      SERVED_MODELS_MAX)                                                       \
    X(chat_template, STRING, "FILE", NULL,                                     \
      "chat template in place of the models' own", 0, 0)                       \
    X(tool_format, STRING, "NAME", NULL,                                       \
      "format of tool calls: plain, hermes, qwen3-coder, llama3 or gpt-oss "   \
      "(default: by the chat template)",                                       \
      0, 0)                                                                    \
    X(keys, STRING, "FILE", NULL,                                              \
      "API keys; SIGHUP reads the file again (default: none are needed)", 0,   \
      0)                                                                       \
    X(new_key, STRING, "TENANT", NULL,                                         \
      "print a new key and its line for the key file, and exit", 0, 0)         \
    X(tls_cert, STRING, "FILE", NULL,                                          \
      "certificate chain for TLS, PEM; SIGHUP reads it again", 0, 0)           \
    X(tls_key, STRING, "FILE", NULL, "private key for TLS, PEM", 0, 0)         \
    X(cors, STRING, "ORIGIN", NULL,                                            \
      "origin whose pages may use the gateway, or *", 0, 0)                    \
    X(allow_host, LIST, "NAME", NULL,                                          \
      "host name besides those of loopback under which clients may use a "     \
      "gateway without keys, as behind a proxy; * for any",                    \
      0, 0)                                                                    \
    X(trusted_proxy, LIST, "ADDRESS", NULL,                                    \
      "address or network (10.0.0.0/8, or unix) of a proxy whose "             \
      "X-Forwarded-For names the client in the log",                           \
      0, HTTP_PROXIES_MAX)                                                     \
    X(unknown_fields, STRING, "ignore|refuse", "ignore",                       \
      "fields of requests that the gateway does not know: x-sluice-ignored "   \
      "names them, or status 400",                                             \
      0, 0)                                                                    \
    X(max_tokens, U32, "N", NULL,                                              \
      "tokens of a chat answer, if the request sets no number (default: as "   \
      "many as the model's context has room for)",                             \
      1, MODEL_CONTEXT_MAX)                                                    \
    X(max_body, BYTES, "SIZE", "8MiB", "body of a request, at most", 1024,     \
      268435456)                                                               \
    X(max_clients, U32, "N", "16384", "connections of clients, at most", 1,    \
      HTTP_CONNECTIONS_MOST)                                                   \
    X(sessions, U32, "N", "32", "sessions with the router, at most", 1,        \
      UPSTREAM_SESSIONS_MAX)                                                   \
    X(text_threads, U32, "N", "2", "threads for templates and tokenizers", 1,  \
      JOB_THREADS_MAX)                                                         \
    X(grace, MS, "TIME", "30s", "time for open requests to end after SIGTERM", \
      0, 3600000)                                                              \
    CURVE_KEYS_OPTIONS(X)                                                      \
    X(metrics, STRING, "HOST:PORT", NULL,                                      \
      "loopback address of http://HOST:PORT/metrics, which needs no key "      \
      "(default: none)",                                                       \
      0, 0)                                                                    \
    X(metrics_anyone, FLAG, NULL, NULL,                                        \
      "any address for --metrics, whose readers need no key", 0, 0)            \
    X(name, STRING, "NAME", "gateway", "name of the gateway, for logs", 0, 0)  \
    LOG_OPTIONS(X)                                                             \
    LOG_REQUEST_OPTIONS(X)                                                     \
    CONFIG_OPTIONS(X, "gateway")                                               \
    X(limits, FLAG, NULL, NULL, "print all limits and exit", 0, 0)             \
    X(list_metrics, FLAG, NULL, NULL, "print all metrics and exit", 0, 0)      \
    X(list_routes, FLAG, NULL, NULL, "print all routes and exit", 0, 0)        \
    X(version, FLAG, NULL, NULL, "print the version and exit", 0, 0)           \
    X(help, FLAG, NULL, NULL, "print this text and exit", 0, 0)

struct gateway_args {
    GATEWAY_OPTIONS(OPTION_FIELD)
};

extern const struct option_program gateway_program;

/* The tables of --limits. */
extern const struct limit_table gateway_limits[];

/* Checks what the rows cannot, and sets *format to the value of --tool-format,
 * if it is given.  Returns ST_INVALID_ARGUMENT with the option, the value and
 * what is allowed. */
MUST_CHECK enum status gateway_args_check(const struct gateway_args *a,
                                          enum output_format *format,
                                          struct error *e);

/* Makes the key of --new-key, or prints --list-routes; sets *done if it did.
 * --help prevails over the routes. */
MUST_CHECK enum status gateway_args_print(const struct gateway_args *a,
                                          bool *done, struct error *e);

#endif
