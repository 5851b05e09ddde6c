/* metrics.h - The worker's counters, gauges and histograms.
 *
 * --list-metrics, the page /metrics and the log lines `counted` on exit are
 * generated from these rows.  tests/system/tables compares the table in
 * docs/operating.md with them.
 *
 * Threading: the core's. */
#ifndef WORKER_BASE_METRICS_H
#define WORKER_BASE_METRICS_H

#include "common/base/metric.h"

/* name, kind, what a counter has counted since the start */
#define WORKER_METRICS(X)                                                   \
    X(sessions, COUNTER, "sessions with a router")                          \
    X(submits, COUNTER, "Submit calls")                                     \
    X(refused, COUNTER, "refused Submit calls")                             \
    X(adopted, COUNTER, "Submit calls that adopted an orphaned sequence")   \
    X(steps, COUNTER, "plans that the engine finished or refused")          \
    X(steps_failed, COUNTER, "plans that failed or were refused")           \
    X(rows_damaged, COUNTER, "rows whose logits were not finite")           \
    X(recomputed, COUNTER, "sequences computed again after a failed step")  \
    X(suspended, COUNTER, "sequences suspended to make room for others")    \
    X(resumed_swap, COUNTER, "sequences resumed with pages of the host")    \
    X(resumed_recompute, COUNTER, "sequences resumed to be computed again") \
    X(wasted_suspended, COUNTER, "tokens computed again: suspended")        \
    X(wasted_failed, COUNTER, "tokens computed again: their step failed")   \
    X(wasted_moved, COUNTER, "tokens computed again: by another worker")    \
    X(pages_out, COUNTER, "pages of sequences copied to the host tier")     \
    X(pages_in, COUNTER, "pages of sequences copied back")                  \
    X(cached_out, COUNTER, "pages of the index copied to the host tier")    \
    X(cached_in, COUNTER, "pages of the index copied back")                 \
    X(cached_dropped, COUNTER,                                              \
      "pages of the index dropped from the host tier")                      \
    X(host_bytes_out, COUNTER, "bytes copied to the host tier")             \
    X(host_bytes_in, COUNTER, "bytes copied back from the host tier")       \
    X(prompt_tokens, COUNTER, "computed prompt tokens")                     \
    X(tokens, COUNTER, "generated tokens")                                  \
    X(steps_bounded, COUNTER, "plans with fewer prompt tokens than fit")    \
    X(steps_apart, COUNTER, "plans that left long prompts out for a short") \
    X(draft_rows, COUNTER, "rows with drafts")                              \
    X(drafts_mtp, COUNTER, "verified drafts of the MTP layer")              \
    X(drafts_ngram, COUNTER, "verified drafts of the text itself")          \
    X(accepted_mtp, COUNTER, "accepted drafts of the MTP layer")            \
    X(accepted_ngram, COUNTER, "accepted drafts of the text itself")        \
    X(reused_tokens, COUNTER, "prompt tokens restored from the index")      \
    X(reused_host_tokens, COUNTER,                                          \
      "prompt tokens that only the host tier had")                          \
    X(lookups, COUNTER, "searches of the index for a prefix")               \
    X(hits, COUNTER, "searches that found one")                             \
    X(checkpoints_saved, COUNTER, "states saved for the index")             \
    X(evicted, COUNTER, "units of tokens evicted from the index")           \
    X(checkpoints_evicted, COUNTER, "states evicted from the index")        \
    X(blocks_moved, COUNTER, "copies of blocks to make room for a slot")    \
    X(twins, COUNTER, "choices that began beside another one's prompt")     \
    X(continued, COUNTER, "kept sequences that another one took over")      \
    X(kept_out, COUNTER, "kept sequences moved to the host tier")           \
    X(ranges_removed, COUNTER, "ranges removed from kept sequences")        \
    X(leaks, COUNTER, "numbers of the pool that nothing owned")             \
    X(stopped, COUNTER, "sequences that ended by a stop or end token")      \
    X(full, COUNTER, "sequences that ended by their length")                \
    X(cancelled, COUNTER, "sequences that were cancelled or removed")       \
    X(expired, COUNTER, "sequences that were ended at their deadline")      \
    X(failed, COUNTER, "sequences that failed")                             \
    X(dropped, COUNTER, "sequences that ended with their session")          \
    X(orphans, COUNTER, "sequences orphaned by the end of their session")   \
    X(orphans_expired, COUNTER, "orphans that expired")                     \
    X(orphans_disowned, COUNTER, "orphans that the router disowned")        \
    X(assemblies, COUNTER, "replicas that this worker joined as a stage")   \
    X(assemblies_broken, COUNTER, "replicas that this worker gave up")      \
    X(streams_broken, COUNTER,                                              \
      "replicas given up because of an invalid message of another stage")   \
    X(ledger_violations, COUNTER, "broken ledger identities")               \
    X(connections_refused, COUNTER,                                         \
      "connections closed at once: too many, or too fast")                  \
    X(connections_cut, COUNTER,                                             \
      "connections ended because the peer broke ZMTP's rules or sent nothing")

/* Figures of the plans that the engine finished. */
#define WORKER_STEPS(X)                                              \
    X(step, TIMES, "time of a step on its device")                   \
    X(step_decode_rows, SIZES, "rows of a step with one token")      \
    X(step_prefill_rows, SIZES, "rows of a step with prompt tokens") \
    X(step_tokens, SIZES, "tokens of a step, prompt and generated")  \
    X(draft_row_tokens, SIZES, "generated tokens of a row with drafts")

/* One series per depth: 1 is the first draft of a row. */
#define WORKER_DRAFTS(X)                                                \
    X(drafts_verified, COUNTER, "drafts that a step verified by depth") \
    X(drafts_accepted, COUNTER, "drafts that were accepted by depth")

/* Sequences by state. */
#define WORKER_SEQUENCES(X)                                                  \
    X(sequences_live, GAUGE,                                                 \
      "sequences, ended ones included until they are forgotten")             \
    X(sequences_orphaned, GAUGE, "orphaned sequences")                       \
    X(sequences_suspended, GAUGE, "suspended sequences")                     \
    X(host_pages, GAUGE, "pages of the host tier")                           \
    X(host_pages_free, GAUGE, "free pages of the host tier")                 \
    X(host_pages_used, GAUGE, "pages of the host tier in use")               \
    X(host_pages_waiting, GAUGE,                                             \
      "pages of the host tier that suspended sequences have")                \
    X(host_pages_kept, GAUGE,                                                \
      "pages of the host tier that kept sequences have")                     \
    X(host_pages_cached, GAUGE, "pages of the host tier that the index has") \
    X(index_units, GAUGE, "units of tokens in the index")                    \
    X(index_checkpoints, GAUGE, "states in the index")                       \
    X(index_tenants, GAUGE, "tenants with something in the index")

/* The measured cost of a step, from which its prompt tokens follow
 * (worker/plan/step_room.h). */
#define WORKER_COSTS(X)                                           \
    X(step_cost_base, TIME, "time of a step without its tokens")  \
    X(step_cost_row, TIME, "time of a generated token of a step") \
    X(step_cost_prompt, TIME, "time of a prompt token of a step") \
    X(step_prompt_room, GAUGE,                                    \
      "prompt tokens that the newest step had room for")

/* One series per reason (common/wire/node_io.h). */
#define WORKER_DENIALS(X)    \
    X(peers_denied, COUNTER, \
      "connections that a port with keys denied by reason")

/* One series per class of the pool, and `pages` for all of them. */
#define WORKER_POOLS(X)                                       \
    X(pool_size, GAUGE, "units in the pool")                  \
    X(pool_free, GAUGE, "free units")                         \
    X(pool_held, GAUGE, "units held by sequences")            \
    X(pool_cached, GAUGE, "units that hold reusable content") \
    X(pool_granted, GAUGE, "units granted to sequences and not held yet")

METRIC_TABLE(worker_metrics, WORKER_METRICS);
METRIC_TABLE(worker_steps, WORKER_STEPS);
METRIC_TABLE(worker_drafts, WORKER_DRAFTS);
METRIC_TABLE(worker_sequences, WORKER_SEQUENCES);
METRIC_TABLE(worker_costs, WORKER_COSTS);
METRIC_TABLE(worker_denials, WORKER_DENIALS);
METRIC_TABLE(worker_pools, WORKER_POOLS);

METRIC_SET(worker_metrics, "sluice_worker", NULL);
METRIC_SET(worker_steps, "sluice_worker", NULL);
METRIC_SET(worker_drafts, "sluice_worker", "depth");
METRIC_SET(worker_sequences, "sluice_worker", NULL);
METRIC_SET(worker_costs, "sluice_worker", NULL);
METRIC_SET(worker_denials, "sluice_worker", "reason");
METRIC_SET(worker_pools, "sluice_worker", "class");

#endif
