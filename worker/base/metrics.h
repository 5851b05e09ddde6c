/* metrics.h - The worker's counters.  --list-metrics and the log line at the
 * end are printed from this table.
 *
 * Threading: the core's. */
#ifndef WORKER_BASE_METRICS_H
#define WORKER_BASE_METRICS_H

#include "common/base/metric.h"

/* name, kind, description; all count since the start */
#define WORKER_METRICS(X)                                                    \
    X(sessions, COUNTER, "sessions with a router")                           \
    X(submits, COUNTER, "Submit calls")                                      \
    X(refused, COUNTER, "Submit calls refused")                              \
    X(adopted, COUNTER, "Submit calls that adopted a sequence already here") \
    X(steps, COUNTER, "plans returned by the engine")                        \
    X(steps_failed, COUNTER, "plans that failed or that the engine refused") \
    X(prompt_tokens, COUNTER, "prompt tokens computed")                      \
    X(tokens, COUNTER, "tokens generated")                                   \
    X(stopped, COUNTER, "sequences ended by a stop or end token")            \
    X(full, COUNTER, "sequences ended by their length limit")                \
    X(cancelled, COUNTER, "sequences cancelled or removed")                  \
    X(failed, COUNTER, "sequences failed")                                   \
    X(dropped, COUNTER, "sequences dropped at the end of their session")     \
    X(orphans, COUNTER, "sequences that outlived their session")             \
    X(orphans_expired, COUNTER, "orphans that no router adopted in time")    \
    X(orphans_disowned, COUNTER, "orphans disowned by the router")           \
    X(assemblies, COUNTER, "assemblies that came up with this worker")       \
    X(assemblies_broken, COUNTER, "assemblies that this worker gave up")     \
    X(streams_broken, COUNTER, "assemblies given up after a stream error")   \
    X(ledger_violations, COUNTER, "broken ledger identities")

METRIC_TABLE(worker_metrics, WORKER_METRICS);

#endif
