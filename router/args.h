/* args.h - The options of sluice-router.
 *
 * main.c parses them.  `sluicectl cluster check` compares a cluster file with
 * the same rows.
 *
 * Threading: constant data. */
#ifndef ROUTER_ARGS_H
#define ROUTER_ARGS_H

#include "common/base/log_output.h"
#include "common/base/option.h"
#include "common/base/option_sources.h"
#include "common/wire/curve_keys.h"
#include "router/base/router_limits.h"
#include "router/base/router_options.h"
#include "router/text/text_threads.h"

#define ROUTER_OPTIONS(X)                                                      \
    X(workers, STRING, "ENDPOINT", "tcp://127.0.0.1:7070",                     \
      "endpoint for workers", 0, 0)                                            \
    X(clients, STRING, "ENDPOINT", "tcp://127.0.0.1:7071",                     \
      "endpoint for clients", 0, 0)                                            \
    X(admins, STRING, "ENDPOINT", NULL,                                        \
      "endpoint for administrators (default: that of clients)", 0, 0)          \
    X(model, LIST, "NAME=DIR", NULL,                                           \
      "tokenizer of a model: DIR/tokenizer.json", 0, 0)                        \
    X(name, STRING, "NAME", "router",                                          \
      "name of the router, for logs and peers", 0, 0)                          \
    X(max_requests, U32, "N", "16384",                                         \
      "open choices of all requests, at most", 1, 1048576)                     \
    X(max_waiting, U32, "N", "4096",                                           \
      "choices of a model waiting for room, at most", 0, 1048576)              \
    X(kept, U32, "N", "0",                                                     \
      "kept sequences of a tenant that hold memory, at most; the oldest give " \
      "way (default: 0, any number)",                                          \
      0, 1048576)                                                              \
    X(tenant_quota, U32, "TOKENS", "0",                                        \
      "tokens of the sequences of a tenant that wait, run or are kept, at "    \
      "most (default: 0, any number)",                                         \
      0, TENANT_QUOTA_MAX)                                                     \
    X(retry_budget, U32, "PERCENT", "10",                                      \
      "retries of a tenant before the time that a refusal named, of a "        \
      "hundred "                                                               \
      "of its admitted requests; more are refused at once; 0: no limit",       \
      0, RETRY_BUDGET_MAX)                                                     \
    X(queue_timeout, MS, "TIME", "1m",                                         \
      "time in which a request without a deadline must start; one that is "    \
      "expected to be late is refused at once; 0: no limit",                   \
      0, 86400000)                                                             \
    X(max_peers, U32, "N", "4096", "sessions of clients, at most", 1, 65536)   \
    X(max_admins, U32, "N", "256",                                             \
      "sessions of administrators (sluicectl), at most", 1, 65536)             \
    X(max_connections, U32, "N", "8192", "connections at each port, at most",  \
      1, 65536)                                                                \
    X(max_per_address, U32, "N", "0",                                          \
      "connections of one source address at each port, at most; 0: three "     \
      "quarters of --max-connections",                                         \
      0, 65536)                                                                \
    X(worker_wait, MS, "TIME", "10s",                                          \
      "time that requests wait for a worker after the model's last one is "    \
      "lost, and after the start",                                             \
      0, 3600000)                                                              \
    X(worker_silent, MS, "TIME", "1s",                                         \
      "silence after which a worker gets no sequences", 500, 600000)           \
    X(worker_lost, MS, "TIME", "1500ms",                                       \
      "silence after which the session of a worker ends", 500, 600000)         \
    X(worker_hung, MS, "TIME", "1500ms",                                       \
      "time without progress of its engine that ends the session of a worker", \
      500, 600000)                                                             \
    X(gather, MS, "TIME", "1ms",                                               \
      "minimum interval between chunk frames to one client", 0, GATHER_MS_MAX) \
    CURVE_KEYS_OPTIONS(X)                                                      \
    X(metrics, STRING, "HOST:PORT", NULL,                                      \
      "loopback address of http://HOST:PORT/metrics (default: none)", 0, 0)    \
    X(metrics_anyone, FLAG, NULL, NULL,                                        \
      "any address for --metrics, whose readers need no key", 0, 0)            \
    X(text_threads, U32, "N", "2", "tokenizer threads", 1, TEXT_THREADS_MAX)   \
    X(headroom, FLAG, NULL, NULL,                                              \
      "free room kept for the sequences of any one worker", 0, 0)              \
    X(admission, STRING, "RULE", "expected",                                   \
      "what a grant covers: expected (what outputs of the model usually "      \
      "need; "                                                                 \
      "a worker that runs out of memory suspends a sequence for a while) or "  \
      "strict (all of max_tokens: no sequence is ever suspended)",             \
      0, 0)                                                                    \
    X(suspensions, F64, "PERCENT", "0.1",                                      \
      "with --admission expected: sequences that are ever suspended, of a "    \
      "hundred, at most",                                                      \
      0, SUSPENSIONS_MOST / 10000.0)                                           \
    X(tenant_weight, LIST, "TENANT=N", NULL,                                   \
      "share of a tenant in each queue, against 1 of others", 0,               \
      OPTION_LIST_MAX)                                                         \
    X(mixed_arithmetic, FLAG, NULL, NULL,                                      \
      "workers of a model whose arithmetic differs, so that a sequence that "  \
      "moves may continue with other tokens",                                  \
      0, 0)                                                                    \
    X(places, LIST, "MODEL=N", NULL,                                           \
      "places that a model is to have, workers with all layers and replicas "  \
      "of several stages, for model_places_expected (default: the most so "    \
      "far)",                                                                  \
      0, OPTION_LIST_MAX)                                                      \
    X(record, STRING, "FILE", NULL,                                            \
      "file for arrivals, grants and endings, without texts, for sluicectl "   \
      "replay (default: none)",                                                \
      0, 0)                                                                    \
    LOG_OPTIONS(X)                                                             \
    LOG_REQUEST_OPTIONS(X)                                                     \
    CONFIG_OPTIONS(X, "router")                                                \
    X(limits, FLAG, NULL, NULL, "print all limits and exit", 0, 0)             \
    X(list_metrics, FLAG, NULL, NULL, "print all metrics and exit", 0, 0)      \
    X(version, FLAG, NULL, NULL, "print the version and exit", 0, 0)           \
    X(help, FLAG, NULL, NULL, "print this text and exit", 0, 0)

#endif
