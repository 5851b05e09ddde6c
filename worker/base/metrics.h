/* metrics.h - The worker's counters.
 *
 * --list-metrics and the log line `counted` on exit are generated from these
 * rows.  tests/system/tables compares the table in docs/operating.md with
 * them.
 *
 * Threading: the core's. */
#ifndef WORKER_BASE_METRICS_H
#define WORKER_BASE_METRICS_H

#include "common/base/metric.h"

/* name, kind, what a counter has counted since the start */
#define WORKER_METRICS(X)                                                 \
    X(sessions, COUNTER, "sessions with a router")                        \
    X(submits, COUNTER, "Submit calls")                                   \
    X(refused, COUNTER, "refused Submit calls")                           \
    X(adopted, COUNTER, "Submit calls that adopted an orphaned sequence") \
    X(steps, COUNTER, "plans that the engine finished or refused")        \
    X(steps_failed, COUNTER, "plans that failed or were refused")         \
    X(prompt_tokens, COUNTER, "computed prompt tokens")                   \
    X(tokens, COUNTER, "generated tokens")                                \
    X(stopped, COUNTER, "sequences that ended by a stop or end token")    \
    X(full, COUNTER, "sequences that ended by their length")              \
    X(cancelled, COUNTER, "sequences that were cancelled or removed")     \
    X(failed, COUNTER, "sequences that failed")                           \
    X(dropped, COUNTER, "sequences that ended with their session")        \
    X(orphans, COUNTER, "sequences orphaned by the end of their session") \
    X(orphans_expired, COUNTER, "orphans that expired")                   \
    X(orphans_disowned, COUNTER, "orphans that the router disowned")      \
    X(assemblies, COUNTER, "replicas that this worker joined as a stage") \
    X(assemblies_broken, COUNTER, "replicas that this worker gave up")    \
    X(streams_broken, COUNTER,                                            \
      "replicas given up because of an invalid message of another stage") \
    X(ledger_violations, COUNTER, "broken ledger identities")

METRIC_TABLE(worker_metrics, WORKER_METRICS);

#endif
