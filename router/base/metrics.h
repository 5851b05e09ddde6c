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
    X(overdue, COUNTER,                                                       \
      "refused Generate calls that had waited for --queue-timeout")           \
    X(retries_refused, COUNTER,                                               \
      "refused Generate calls that were retries past --retry-budget")         \
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
      "of prompt_tokens, restored instead of computed")                       \
    X(index_gaps, COUNTER,                                                    \
      "snapshots of a worker's prefix index after lost events")               \
    X(continued, COUNTER, "kept sequences that another request continued")    \
    X(continued_from_ids, COUNTER,                                            \
      "continued sequences whose memory had given way")                       \
    X(lapsed, COUNTER, "kept sequences whose memory gave way")                \
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
    X(stalled, COUNTER, "worker sessions ended for a stalled sequence")       \
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
    X(models_served, GAUGE, "models with a place")                            \
    X(choices_early, GAUGE,                                                   \
      "choices of Generate calls held for a first worker")                    \
    X(early_bytes, GAUGE, "bytes of Generate calls held for a first worker")  \
    X(request_bytes, GAUGE, "bytes that open requests hold")                  \
    X(request_bytes_max, GAUGE, "bytes that open requests may hold")

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

/* One series per model that a worker has had since the start, and "other" for
 * calls that name none of them.  A place is a worker with all layers, or a
 * replica of several stages that is up.  places_expected is the number of
 * --places; of a model without, the largest number of places at one time, less
 * those that a drain ended since. */
#define ROUTER_MODELS(X)                                                     \
    X(model_requests, COUNTER, "Generate calls by model")                    \
    X(model_finished, COUNTER,                                               \
      "choices by model that ended by a stop or their length")               \
    X(model_failed, COUNTER, "choices by model that failed after admission") \
    X(model_prompt_tokens, COUNTER, "queued prompt tokens by model")         \
    X(model_tokens, COUNTER, "generated tokens by model")                    \
    X(model_waiting, GAUGE, "choices in the queue for room by model")        \
    X(model_running, GAUGE, "choices at workers by model")                   \
    X(model_places, GAUGE, "places of a model")                              \
    X(model_places_expected, GAUGE,                                          \
      "places that a model is to have, or had and that no drain ended")      \
    X(model_queue, TIMES, "time to the grant of a choice by model")          \
    X(model_first_token, TIMES,                                              \
      "time to the first token of a choice by model")                        \
    X(model_token, TIMES, "mean time per token after the first by model")    \
    X(model_choice, TIMES, "time to the end of a choice by model")

/* One series per worker.  Of the first three rows one is 1. */
#define ROUTER_WORKERS(X)                                                     \
    X(worker_up, GAUGE, "1: a worker's frames arrive and its plans are done") \
    X(worker_slow, GAUGE, "1: a plan of a worker is overdue")                 \
    X(worker_silent, GAUGE, "1: no frame of a worker arrives")                \
    X(worker_draining, GAUGE, "1: a worker gets no new sequences")            \
    X(worker_on_probation, GAUGE,                                             \
      "1: a worker that crashed gets one sequence at a time")                 \
    X(worker_serves, GAUGE, "1: a worker is a place or a stage of one")       \
    X(worker_sequences, GAUGE, "sequences granted to a worker")

/* One series per model, as above, and status of a refusal. */
#define ROUTER_REFUSALS(X) \
    X(refusals, COUNTER, "refused Generate calls by model and status")

/* One series per reason (common/wire/node_io.h). */
#define ROUTER_DENIALS(X)    \
    X(peers_denied, COUNTER, \
      "connections that a port with keys denied by reason")

/* One series per tenant (common/base/metric_names.h). */
#define ROUTER_TENANTS(X)                                                \
    X(tenant_requests, COUNTER, "accepted Generate calls by tenant")     \
    X(tenant_prompt_tokens, COUNTER, "queued prompt tokens by tenant")   \
    X(tenant_reused_tokens, COUNTER, "restored prompt tokens by tenant") \
    X(tenant_tokens, COUNTER, "generated tokens by tenant")              \
    X(tenant_occupied_tokens, GAUGE,                                     \
      "tokens of a tenant's sequences that wait, run or are kept")

/* One series per class and worker that is a place or a stage of one, from the
 * worker's newest ledger. */
#define ROUTER_POOLS(X)                                                   \
    X(pool_size, GAUGE, "units in a worker's pool")                       \
    X(pool_free, GAUGE, "free units in a worker's pool")                  \
    X(pool_held, GAUGE, "units held by sequences of a worker")            \
    X(pool_cached, GAUGE, "units of a worker that hold reusable content") \
    X(pool_granted, GAUGE, "granted units of a worker that are not held yet")

/* One series per worker, from its newest ledger and the router's account. */
#define ROUTER_GROWTH(X)                                                 \
    X(worker_suspended, GAUGE, "suspended sequences of a worker")        \
    X(worker_greatest_pages, GAUGE,                                      \
      "pages that a worker's sequences could need at most")              \
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
    X(expected_tokens, GAUGE,                                                 \
      "length that four of five outputs of a model do not exceed")            \
    X(forecast_margin, GAUGE,                                                 \
      "margin of a model's forecasts, in thousandths of a standard deviation")

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
METRIC_TABLE(router_models, ROUTER_MODELS);
METRIC_TABLE(router_workers, ROUTER_WORKERS);
METRIC_TABLE(router_refusals, ROUTER_REFUSALS);
METRIC_TABLE(router_denials, ROUTER_DENIALS);
METRIC_TABLE(router_tenants, ROUTER_TENANTS);
METRIC_TABLE(router_pools, ROUTER_POOLS);
METRIC_TABLE(router_growth, ROUTER_GROWTH);
METRIC_TABLE(router_lengths, ROUTER_LENGTHS);
METRIC_TABLE(router_drafts, ROUTER_DRAFTS);
METRIC_TABLE(router_host, ROUTER_HOST);

METRIC_SET(router_metrics, "sluice_router", NULL);
METRIC_SET(router_times, "sluice_router", NULL);
METRIC_SET(router_models, "sluice_router", "model");
METRIC_SET(router_workers, "sluice_router", "worker,model");
METRIC_SET(router_refusals, "sluice_router", "model,reason");
METRIC_SET(router_denials, "sluice_router", "reason");
METRIC_SET(router_tenants, "sluice_router", "tenant");
METRIC_SET(router_pools, "sluice_router", "worker,class");
METRIC_SET(router_growth, "sluice_router", "worker");
METRIC_SET(router_lengths, "sluice_router", "model");
METRIC_SET(router_drafts, "sluice_router", "model");
METRIC_SET(router_host, "sluice_router", "model");

#endif
