/* metrics.h - what the worker counts.  One table: --list-metrics and the line
 * that is logged at the end are printed from these rows.
 *
 * Threading: the core's. */
#ifndef WORKER_METRICS_H
#define WORKER_METRICS_H

#include "common/base/metric.h"

/* name, kind, what it counts since the start */
#define WORKER_METRICS(X)                                               \
    X(sessions, COUNTER, "sessions with a router")                      \
    X(submits, COUNTER, "Submit calls")                                 \
    X(refused, COUNTER, "Submit calls that were refused")               \
    X(adopted, COUNTER, "Submit calls that went on with what was here") \
    X(steps, COUNTER, "plans that came back from the engine")           \
    X(steps_failed, COUNTER, "plans that failed, or were refused")      \
    X(prompt_tokens, COUNTER, "prompt tokens computed")                 \
    X(tokens, COUNTER, "tokens generated")                              \
    X(stopped, COUNTER, "sequences that ended by a stop or end token")  \
    X(full, COUNTER, "sequences that ended by their length")            \
    X(cancelled, COUNTER, "sequences that were cancelled or removed")   \
    X(failed, COUNTER, "sequences that failed")                         \
    X(dropped, COUNTER, "sequences that ended with their session")      \
    X(orphans, COUNTER, "sequences that outlived their session")        \
    X(orphans_expired, COUNTER, "of these, that nobody asked for")      \
    X(orphans_disowned, COUNTER, "of these, that nobody needed")        \
    X(assemblies, COUNTER, "replicas of which it was a stage")          \
    X(assemblies_broken, COUNTER, "of these, that it gave up itself")   \
    X(streams_broken, COUNTER, "of these, by a message that was wrong") \
    X(ledger_violations, COUNTER, "ledger identities broken")

METRIC_TABLE(worker_metrics, WORKER_METRICS);

#endif
