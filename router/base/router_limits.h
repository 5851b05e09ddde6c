/* router_limits.h - Limits on what the router accepts from peers, and its
 * time limits.
 *
 * Public limits are in router/base/router_options.h.  The router compares
 * every value from a peer with one of these limits, or with an option, before
 * the value sizes or indexes anything.
 *
 * Units: _US is microseconds, _MS is milliseconds, _BYTES is bytes. */
#ifndef ROUTER_BASE_ROUTER_LIMITS_H
#define ROUTER_BASE_ROUTER_LIMITS_H

#include "proto/limits.h"

#define ASSEMBLE_US           10000000
#define ASSEMBLE_RETRY_US     250000
#define ASSEMBLE_RETRY_US_MAX 16000000
#define BROKEN_US             100000
#define ASSIGN_US             600000000
#define ASSIGN_RETRY_US       10000000
#define RETURN_US             3000000
#define OFFERS_MAX            64
#define PLACE_SETTLE_US       1000000
#define PLACE_LOOK_MAX        64
#define HELLO_CONNECTIONS     4096
#define HELLO_BURST           16
#define HELLO_ROLE_RATE       1000
#define HELLO_ROLE_BURST      4096
#define EXPECTED_MAX          64
#define RECEIPT_SLACK_US      60000000
#define RECEIPT_SNAPSHOTS_MAX 1048576
#define VIOLATIONS_MAX        4294967295
#define PLANS_MAX             64
#define PLAN_AGE_US_MAX       86400000000
#define AUDIT_DIFFERENCES_MAX 16777216
#define OFFER_ORDER_LAYERS    128
#define WORKER_LIVE_MAX       3072
#define LIVE_MS_MAX           60000
#define GRANTS_UNSETTLED_MAX  4096
#define GAP_ROWS_MAX          64
#define CLIENT_UNREAD_BYTES   65536
#define RECEIPT_WAITERS_MAX   64
#define REFUSALS_MAX          16
#define IDLE_MOVES_MAX        16
#define TRIAL_TOKENS          2
#define TRIAL_DEATHS          2
#define TRIAL_MERCY_MAX       6
#define TRIAL_WINDOW_US       30000000
#define TRIALS_ASIDE_MAX      64
#define LIFE_TOKENS           64
#define LINEAGES_MAX          128
#define LINEAGE_QUIET_US      600000000
#define READMIT_US_MAX        60000000
#define QUARANTINE_MAX        64
#define DRAIN_CALLS_MAX       64
#define EARLY_BYTES_MAX       16777216
#define GATHER_MS_MAX         100
#define WORKER_SILENT_US      1000000
#define WORKER_LOST_US        1500000
#define WORKER_HUNG_US        1500000
#define HUNG_GAP_US           500000
#define LISTEN_US             100000
#define REPORT_DUE_US         250000
#define PATIENCE_DELAYS       4
#define PATIENCE_FACTOR       4
#define HUNG_RETURNS_MAX      2
#define STALL_IDLE_US         3000000
#define STALL_US              10000000
#define STALL_STEPS           256
#define STALL_LOOK_US         250000
#define SLOW_FACTOR           5
#define SLOW_MIN_US           250000
#define SLOW_STEPS            128
#define SLOW_STEPS_MIN        32
#define WORKER_QUARANTINE_US  10000000
#define NAME_BUSY_US          300000
#define TEXT_POLL_US          2000
#define AUDIT_MS              2000
#define WATCH_MS_MIN          100
#define WATCH_MS_MAX          60000
#define RETRY_MS_MIN          100
#define RESUME_RETRY_MS       50
#define RETRY_MS_ABSENT       1000
#define RETRY_MS_MAX          3600000
#define PREFIX_TREE_MAX       65536
#define EXPLAIN_PLACES_MAX    16
#define LENGTH_ROUTES_MAX     64
#define RETRY_CREDIT_MAX      10
#define RETRY_PROBES          16

/* Name, unit and meaning of each limit, as sluice-router --limits prints
 * them. */
#define ROUTER_LIMIT_MAP(X)                                                    \
    X(ASSEMBLE_US, "us", "timeout of Assemble and Assign calls")               \
    X(ASSEMBLE_RETRY_US, "us",                                                 \
      "first delay after a failed replica, then doubled")                      \
    X(ASSEMBLE_RETRY_US_MAX, "us", "longest delay after a failed replica")     \
    X(BROKEN_US, "us", "delay before a broken replica ends")                   \
    X(ASSIGN_US, "us", "time to load assigned layers")                         \
    X(ASSIGN_RETRY_US, "us",                                                   \
      "delay before a refusing offer gets layers again")                       \
    X(RETURN_US, "us", "time for a worker to come back with its layers")       \
    X(OFFERS_MAX, "", "workers that wait for layers")                          \
    X(PLACE_SETTLE_US, "us",                                                   \
      "time after which an idle session need not have read its answers")       \
    X(PLACE_LOOK_MAX, "", "idle sessions considered for an eviction")          \
    X(HELLO_CONNECTIONS, "", "connections whose Hellos are counted")           \
    X(HELLO_BURST, "calls", "Hellos of one connection in a second")            \
    X(HELLO_ROLE_RATE, "calls/s", "Hellos of all peers of one role")           \
    X(HELLO_ROLE_BURST, "calls", "Hellos of one role beyond that rate")        \
    X(EXPECTED_MAX, "", "shards that are loading or may come back")            \
    X(OFFER_ORDER_LAYERS, "layers",                                            \
      "layers up to which all worker orders are tried")                        \
    X(RECEIPT_SLACK_US, "us",                                                  \
      "time of a receipt beyond the time since its call")                      \
    X(RECEIPT_SNAPSHOTS_MAX, "",                                               \
      "snapshots that a receipt may be ahead of the newest ledger")            \
    X(VIOLATIONS_MAX, "", "violations in a worker's ledger")                   \
    X(PLANS_MAX, "", "plans in flight that a worker reports")                  \
    X(PLAN_AGE_US_MAX, "us", "age of a plan that a worker reports")            \
    X(AUDIT_DIFFERENCES_MAX, "", "differences that a worker reports")          \
    X(WORKER_LIVE_MAX, "", "sequences granted to one worker")                  \
    X(LIVE_MS_MAX, "ms", "longest wait for orphaned sequences")                \
    X(GRANTS_UNSETTLED_MAX, "",                                                \
      "grants of a worker that no ledger includes yet")                        \
    X(GAP_ROWS_MAX, "", "consecutive rows that start past the next index")     \
    X(CLIENT_UNREAD_BYTES, "bytes",                                            \
      "unread output at which a client's chunks wait")                         \
    X(RECEIPT_WAITERS_MAX, "", "callers that wait for one receipt")            \
    X(REFUSALS_MAX, "", "times that workers may refuse one sequence")          \
    X(IDLE_MOVES_MAX, "", "consecutive moves without a new token")             \
    X(TRIAL_TOKENS, "tokens", "tokens at one worker that clear a suspect")     \
    X(TRIAL_DEATHS, "", "worker deaths on trial that fail a sequence")         \
    X(TRIAL_MERCY_MAX, "", "more such deaths if workers also die without it")  \
    X(TRIAL_WINDOW_US, "us", "time for which those other deaths count")        \
    X(TRIALS_ASIDE_MAX, "", "suspects overtaken in the queue at a time")       \
    X(LIFE_TOKENS, "tokens",                                                   \
      "tokens after which a worker's life is not barren")                      \
    X(LINEAGES_MAX, "", "lineages of workers that died recently")              \
    X(LINEAGE_QUIET_US, "us", "time without a death that clears a lineage")    \
    X(READMIT_US_MAX, "us", "longest readmission delay, plus up to an eighth") \
    X(QUARANTINE_MAX, "", "quarantined worker names")                          \
    X(DRAIN_CALLS_MAX, "", "callers that wait for one worker to drain")        \
    X(EARLY_BYTES_MAX, "bytes", "calls held for a first worker")               \
    X(GATHER_MS_MAX, "ms", "value of --gather")                                \
    X(WORKER_SILENT_US, "us", "default of --worker-silent")                    \
    X(WORKER_LOST_US, "us", "default of --worker-lost")                        \
    X(WORKER_HUNG_US, "us", "default of --worker-hung")                        \
    X(HUNG_GAP_US, "us", "most time between reports that counts as hung")      \
    X(LISTEN_US, "us", "timer delay that excuses one silence")                 \
    X(REPORT_DUE_US, "us", "longest interval between punctual reports")        \
    X(PATIENCE_DELAYS, "",                                                     \
      "mean delays by which limits of silence and progress are extended")      \
    X(PATIENCE_FACTOR, "", "multiple of such a limit that it never exceeds")   \
    X(HUNG_RETURNS_MAX, "",                                                    \
      "returns of a hung worker that each double its limit")                   \
    X(STALL_IDLE_US, "us",                                                     \
      "time idle with a sequence that ends a worker's session")                \
    X(STALL_US, "us", "shortest time for which a sequence is passed over")     \
    X(STALL_STEPS, "steps", "steps beyond those that a place needs")           \
    X(STALL_LOOK_US, "us", "shortest interval between looks at sequences")     \
    X(SLOW_FACTOR, "", "multiple of the step p99 that makes a plan slow")      \
    X(SLOW_MIN_US, "us", "age below which a plan is not slow")                 \
    X(SLOW_STEPS, "steps", "steps of a worker in the p99")                     \
    X(SLOW_STEPS_MIN, "steps", "steps before a worker can be slow")            \
    X(WORKER_QUARANTINE_US, "us", "quarantine after a protocol violation")     \
    X(NAME_BUSY_US, "us", "silence after which a name may be taken over")      \
    X(TEXT_POLL_US, "us", "interval between checks for finished text jobs")    \
    X(AUDIT_MS, "ms", "timeout of an audit of the workers")                    \
    X(WATCH_MS_MIN, "ms", "shortest interval between Watch messages")          \
    X(WATCH_MS_MAX, "ms", "longest interval between Watch messages")           \
    X(RETRY_MS_ABSENT, "ms", "retry_after_ms while no worker is up")           \
    X(RETRY_MS_MIN, "ms", "shortest retry_after_ms")                           \
    X(RESUME_RETRY_MS, "ms", "retry_after_ms while an old call ends")          \
    X(RETRY_MS_MAX, "ms", "longest retry_after_ms")                            \
    X(PREFIX_TREE_MAX, "",                                                     \
      "restorable prefixes of a model that the router remembers")              \
    X(EXPLAIN_PLACES_MAX, "", "places remembered of each grant for Explain")   \
    X(LENGTH_ROUTES_MAX, "",                                                   \
      "routes of tenants of a model whose output lengths are learned")         \
    X(RETRY_CREDIT_MAX, "", "early retries that a tenant can save up")         \
    X(RETRY_PROBES, "",                                                        \
      "early retries without credit that are judged before their time")        \
    X(SUSPENSIONS_MOST, "ppm", "value of --suspensions")                       \
    X(TENANT_WEIGHT_MAX, "", "value of --tenant-weight")                       \
    X(TENANT_QUOTA_MAX, "tokens", "value of --tenant-quota")                   \
    X(RETRY_BUDGET_MAX, "", "value of --retry-budget")

#endif
