/* router_log.h - Lines of the log that a peer can cause again and again.
 *
 * Each kind has a gate (common/base/log_gate.h): a bounded number of lines a
 * second, and a count of the others.  Lines without a gate need an operator, a
 * timer, or a place that a stranger does not get again at once.
 *
 * Threading: the core's.  Memory: in struct router_base. */
#ifndef ROUTER_BASE_ROUTER_LOG_H
#define ROUTER_BASE_ROUTER_LOG_H

#include "common/base/log_gate.h"
#include "router/base/router_options.h"

/* gate, level, event, lines a second.  All workers may be lost at once, and
 * then each has its line. */
#define ROUTER_GATES(X)                                             \
    X(hello_refused, LOG_WARN, "hello-refused", 1)                  \
    X(hello_throttled, LOG_WARN, "hello-throttled", 1)              \
    X(evicted, LOG_WARN, "peer-evicted", 1)                         \
    X(expelled, LOG_WARN, "peer-expelled", 1)                       \
    X(violation, LOG_ERROR, "worker-protocol-violation", 8)         \
    X(no_receipt, LOG_WARN, "no-receipt", 8)                        \
    X(assign_refused, LOG_WARN, "assign-refused", 8)                \
    X(slow_reader, LOG_WARN, "slow-reader", 8)                      \
    X(worker_lost, LOG_WARN, "worker-lost", ROUTER_WORKERS_MAX)     \
    X(worker_up, LOG_INFO, "worker-up", ROUTER_WORKERS_MAX)         \
    X(client_up, LOG_INFO, "client-up", 8)                          \
    X(worker_offers, LOG_INFO, "worker-offers", ROUTER_WORKERS_MAX) \
    X(live, LOG_INFO, "live", ROUTER_WORKERS_MAX)

struct router_log {
#define X(gate, level, event, burst) struct log_gate gate;
    ROUTER_GATES(X)
#undef X
};

static inline void router_log_init(struct router_log *l)
{
#define X(gate, level, event, burst) \
    log_gate_init(&l->gate, level, event, burst);
    ROUTER_GATES(X)
#undef X
}

/* Writes the counts of all seconds that are over.  Returns when to call next;
 * INT64_MAX if nothing is held back. */
static inline int64_t router_log_tick(struct router_log *l, int64_t now_us)
{
    int64_t due = INT64_MAX, next;

#define X(gate, level, event, burst)        \
    next = log_gate_tick(&l->gate, now_us); \
    due = next < due ? next : due;
    ROUTER_GATES(X)
#undef X
    return due;
}

/* Writes all counts now. */
static inline void router_log_end(struct router_log *l)
{
#define X(gate, level, event, burst) log_gate_end(&l->gate);
    ROUTER_GATES(X)
#undef X
}

#endif
