/* metrics.h - what the router counts.  One table: --list-metrics, Status and
 * /metrics are printed from these rows.
 *
 * Threading: the core's. */
#ifndef ROUTER_BASE_METRICS_H
#define ROUTER_BASE_METRICS_H

#include "common/base/metric.h"

/* name, kind, what it counts since the start */
#define ROUTER_METRICS(X)                                                \
    X(requests, COUNTER, "Generate calls")                               \
    X(finished, COUNTER, "choices that ended by stop or length")         \
    X(stop_strings, COUNTER, "choices that a stop string ended")         \
    X(cancelled, COUNTER, "choices that were cancelled or removed")      \
    X(failed, COUNTER, "choices that failed after they were taken in")   \
    X(refused, COUNTER, "Generate calls that were refused")              \
    X(held_early, COUNTER, "Generate calls held for a first worker")     \
    X(resumed, COUNTER, "Generate calls that were resumed")              \
    X(had_ended, COUNTER, "choices of these that had ended before")      \
    X(moved, COUNTER, "times a sequence went on at another worker")      \
    X(adopted, COUNTER, "sequences that went on where they lived")       \
    X(adoptions_lost, COUNTER, "sequences that lived there no more")     \
    X(disowned, COUNTER, "sequences that lived where nobody needs them") \
    X(tokens, COUNTER, "tokens generated")                               \
    X(grants, COUNTER, "grants given")                                   \
    X(steps, COUNTER, "StepOutput messages taken")                       \
    X(rows_forgotten, COUNTER, "rows of sequences that had ended")       \
    X(rows_dropped, COUNTER, "rows that started past the next index")    \
    X(ledgers_dropped, COUNTER, "ledgers older than the newest")         \
    X(ledger_violations, COUNTER,                                        \
      "ledger identities broken, here or at a worker")                   \
    X(slow_readers, COUNTER,                                             \
      "Generate calls cancelled because nobody read them")               \
    X(suspects, COUNTER, "sequences a worker may have died of")          \
    X(indicted, COUNTER, "choices that workers died of")                 \
    X(barren_lives, COUNTER, "workers that died with nothing done")      \
    X(workers_lost, COUNTER, "worker sessions that ended")               \
    X(replicas, COUNTER, "replicas of several stages that came up")      \
    X(replicas_over, COUNTER, "assemblies that ended, up or not")        \
    X(replicas_up, GAUGE, "replicas of several stages")                  \
    X(replicas_forming, GAUGE, "assemblies not yet up")                  \
    X(hung, COUNTER, "worker sessions ended because nothing ticked")     \
    X(lies, COUNTER, "worker sessions ended because of what they said")  \
    X(strikes, COUNTER, "frames that broke a rule")                      \
    X(foreign, COUNTER, "frames of another session, answered Goodbye")   \
    X(hellos_refused, COUNTER, "Hello calls refused")

METRIC_TABLE(router_metrics, ROUTER_METRICS);

#endif
