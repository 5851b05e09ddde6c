/* metrics.h - The router's counters, gauges and histograms.
 *
 * --list-metrics, Status, Watch, sluicectl metrics, the page /metrics and the
 * log lines `counted` on exit are generated from these rows.
 * tests/system/tables compares the table in docs/operating.md with them.
 *
 * Threading: the core's. */
#ifndef ROUTER_BASE_METRICS_H
#define ROUTER_BASE_METRICS_H

#include "common/base/metric.h"

/* name, kind, what a counter has counted since the start or a gauge measures */
#define ROUTER_METRICS(X)                                                     \
    X(requests, COUNTER, "Generate calls")                                    \
    X(finished, COUNTER, "choices that ended by a stop or their length")      \
    X(stop_strings, COUNTER, "choices that ended by a stop string")           \
    X(cancelled, COUNTER, "choices that were cancelled or removed")           \
    X(failed, COUNTER, "choices that failed after admission")                 \
    X(refused, COUNTER, "refused Generate calls")                             \
    X(held_early, COUNTER,                                                    \
      "Generate calls held for the first worker of their model")              \
    X(resumed, COUNTER, "resumed Generate calls")                             \
    X(had_ended, COUNTER,                                                     \
      "choices of resumed calls that had ended before the resumption")        \
    X(moved, COUNTER, "moves of choices to another worker")                   \
    X(adopted, COUNTER, "choices adopted at their old worker")                \
    X(adoptions_lost, COUNTER,                                                \
      "adoptions of sequences that the worker no longer had")                 \
    X(disowned, COUNTER, "orphaned sequences that the router disowned")       \
    X(prompt_tokens, COUNTER, "prompt tokens of queued Generate calls")       \
    X(reused_tokens, COUNTER,                                                 \
      "prompt tokens that workers restored instead of computing")             \
    X(index_gaps, COUNTER,                                                    \
      "snapshots of a worker's prefix index after lost events")               \
    X(continued, COUNTER, "kept sequences that another request continued")    \
    X(tokens, COUNTER, "generated tokens")                                    \
    X(grants, COUNTER, "grants to workers")                                   \
    X(steps, COUNTER, "accepted StepOutput messages")                         \
    X(rows_forgotten, COUNTER, "rows of choices that had ended")              \
    X(rows_dropped, COUNTER,                                                  \
      "rows dropped because they started past the next token index")          \
    X(ledgers_dropped, COUNTER,                                               \
      "ledgers dropped because they were stale or of another session")        \
    X(suspensions, COUNTER, "suspensions of sequences that workers reported") \
    X(ledger_violations, COUNTER,                                             \
      "ledger identities broken in the router or at a worker")                \
    X(slow_readers, COUNTER,                                                  \
      "Generate calls cancelled because the client stopped reading")          \
    X(suspects, COUNTER, "choices suspected of the death of a worker")        \
    X(indicted, COUNTER, "choices ended after repeated worker deaths")        \
    X(barren_lives, COUNTER, "worker runs that died without progress")        \
    X(workers_lost, COUNTER, "ended worker sessions")                         \
    X(replicas, COUNTER, "replicas of several stages that came up")           \
    X(replicas_over, COUNTER,                                                 \
      "replicas of several stages that ended while up or forming")            \
    X(replicas_up, GAUGE, "replicas of several stages that are up")           \
    X(replicas_forming, GAUGE, "replicas of several stages that are forming") \
    X(hung, COUNTER, "worker sessions ended by the watchdog")                 \
    X(protocol_violations, COUNTER,                                           \
      "worker sessions ended for a protocol violation")                       \
    X(strikes, COUNTER, "frames that violated the wire protocol")             \
    X(foreign, COUNTER, "frames of unknown sessions")                         \
    X(hellos_refused, COUNTER, "refused Hello calls")                         \
    X(connections_refused, COUNTER,                                           \
      "connections closed at once: too many, or too fast")                    \
    X(connections_cut, COUNTER,                                               \
      "connections ended because the peer broke ZMTP's rules or sent "        \
      "nothing")                                                              \
    X(hellos_throttled, COUNTER,                                              \
      "Hello calls dropped because too many came at once")                    \
    X(evicted, COUNTER,                                                       \
      "idle sessions ended because others needed their places")               \
    X(clients, GAUGE, "sessions of clients")                                  \
    X(admins, GAUGE, "sessions of administrators")                            \
    X(choices_open, GAUGE, "choices of open requests")                        \
    X(choices_waiting, GAUGE, "choices in the queue for room")                \
    X(choices_early, GAUGE,                                                   \
      "choices of Generate calls held for a first worker")                    \
    X(early_bytes, GAUGE, "bytes of Generate calls held for a first worker")

/* Figures of choices.  All but the first two count choices that ended by a stop
 * or their length. */
#define ROUTER_TIMES(X)                                                \
    X(queue, TIMES, "time from the arrival of a choice to its grant")  \
    X(first_token, TIMES,                                              \
      "time from the arrival of a choice to its first token")          \
    X(token, TIMES, "mean time per token after the first of a choice") \
    X(choice, TIMES, "time from the arrival of a choice to its end")   \
    X(choice_prompt_tokens, SIZES, "prompt tokens of a choice")        \
    X(choice_tokens, SIZES, "generated tokens of a choice")

/* One series per status of a refusal. */
#define ROUTER_REFUSALS(X) \
    X(refusals, COUNTER, "refused Generate calls by status")

/* One series per reason (common/wire/node_io.h). */
#define ROUTER_DENIALS(X)    \
    X(peers_denied, COUNTER, \
      "connections that a port with keys denied by reason")

/* One series per tenant (common/base/metric_names.h). */
#define ROUTER_TENANTS(X)                                                \
    X(tenant_requests, COUNTER, "accepted Generate calls by tenant")     \
    X(tenant_prompt_tokens, COUNTER, "queued prompt tokens by tenant")   \
    X(tenant_reused_tokens, COUNTER, "restored prompt tokens by tenant") \
    X(tenant_tokens, COUNTER, "generated tokens by tenant")

/* One series per worker and class, from the worker's newest ledger. */
#define ROUTER_POOLS(X)                                                   \
    X(pool_size, GAUGE, "units in a worker's pool")                       \
    X(pool_free, GAUGE, "free units in a worker's pool")                  \
    X(pool_held, GAUGE, "units held by sequences of a worker")            \
    X(pool_cached, GAUGE, "units of a worker that hold reusable content") \
    X(pool_granted, GAUGE, "granted units of a worker that are not held yet")

/* One series per worker, from its newest ledger and the router's account. */
#define ROUTER_OVERCOMMIT(X)                                             \
    X(worker_suspended, GAUGE, "suspended sequences of a worker")        \
    X(worker_greatest_pages, GAUGE,                                      \
      "pages that a worker's sequences could need at most")              \
    X(worker_greatest_max, GAUGE,                                        \
      "bound on these pages by --overcommit; 0: grants cover them")      \
    X(worker_host_pages, GAUGE, "pages of a worker's host memory")       \
    X(worker_host_used, GAUGE, "pages in use of a worker's host memory") \
    X(worker_host_waiting, GAUGE,                                        \
      "pages of a worker's host memory that suspended sequences have")   \
    X(worker_host_kept, GAUGE,                                           \
      "pages of a worker's host memory that kept sequences have")        \
    X(worker_host_cached, GAUGE,                                         \
      "pages of a worker's host memory that its prefix index has")

/* One series per model, from its ended choices. */
#define ROUTER_LENGTHS(X)                                                     \
    X(lengths_learned, GAUGE,                                                 \
      "ended choices by which the lengths of a model's outputs were learned") \
    X(expected_permille, GAUGE,                                               \
      "expected length of a model's outputs, in thousandths of max_tokens")

/* One series per model, by its workers.  A worker counts from its first report
 * of a session on. */
#define ROUTER_DRAFTS(X)                                          \
    X(draft_rows, COUNTER, "rows of a step with drafts by model") \
    X(drafts_verified, COUNTER, "drafts in these rows by model")  \
    X(drafts_accepted, COUNTER, "drafts that became tokens by model")

/* One series per model, by its workers, as above. */
#define ROUTER_HOST(X)                                                       \
    X(host_bytes_out, COUNTER, "bytes copied to host memory by model")       \
    X(host_bytes_in, COUNTER, "bytes copied back from host memory by model") \
    X(host_restored_tokens, COUNTER,                                         \
      "prompt tokens that only host memory had by model")                    \
    X(sequences_suspended, COUNTER,                                          \
      "sequences that workers suspended by model")                           \
    X(sequences_swapped, COUNTER,                                            \
      "sequences resumed with pages of host memory by model")                \
    X(sequences_recomputed, COUNTER,                                         \
      "sequences resumed to be computed again by model")                     \
    X(wasted_suspended_tokens, COUNTER,                                      \
      "tokens computed again by model: suspended")                           \
    X(wasted_failed_tokens, COUNTER,                                         \
      "tokens computed again by model: their step failed")                   \
    X(wasted_moved_tokens, COUNTER,                                          \
      "tokens computed again by model: by another worker")

METRIC_TABLE(router_metrics, ROUTER_METRICS);
METRIC_TABLE(router_times, ROUTER_TIMES);
METRIC_TABLE(router_refusals, ROUTER_REFUSALS);
METRIC_TABLE(router_denials, ROUTER_DENIALS);
METRIC_TABLE(router_tenants, ROUTER_TENANTS);
METRIC_TABLE(router_pools, ROUTER_POOLS);
METRIC_TABLE(router_overcommit, ROUTER_OVERCOMMIT);
METRIC_TABLE(router_lengths, ROUTER_LENGTHS);
METRIC_TABLE(router_drafts, ROUTER_DRAFTS);
METRIC_TABLE(router_host, ROUTER_HOST);

METRIC_SET(router_metrics, "sluice_router", NULL);
METRIC_SET(router_times, "sluice_router", NULL);
METRIC_SET(router_refusals, "sluice_router", "reason");
METRIC_SET(router_denials, "sluice_router", "reason");
METRIC_SET(router_tenants, "sluice_router", "tenant");
METRIC_SET(router_pools, "sluice_router", "worker,class");
METRIC_SET(router_overcommit, "sluice_router", "worker");
METRIC_SET(router_lengths, "sluice_router", "model");
METRIC_SET(router_drafts, "sluice_router", "model");
METRIC_SET(router_host, "sluice_router", "model");

#endif
