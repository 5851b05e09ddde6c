/* worker_core.h - The control side of a worker: sequences, pool, ledger,
 * batcher.
 *
 * The core is a pure state machine.  Its inputs are events and the time
 * (worker_node_ops).  Its outputs go through node_io, and as plans to an engine
 * (worker/base/engine.h).  It handles numbers of blocks and slots, never the
 * memory behind them.
 *
 *     RECEIVING --parts--> QUEUED --in a plan--> PREFILL --token--> DECODE
 *         |                  |                     |                  |
 *         +------------------+---------------------+------------------+
 *                            |  cancel, remove, failure, stop, length
 *                            v
 *     (KEPT: keep_ms, memory held) --> RELEASING --its plans return--> FINISHED
 *
 * A sequence may outlive its session for a while: worker/sequences/orphans.h.
 *
 *     core          worker_core.c, tick.c
 *     calls/        one handler for each of the router's messages
 *     stages/       a replica of several stages: the leader, and the others
 *     sequences/    submit, plan, step, end, report
 *     cache/        pool, ledger, prefix index, and the table of sequences
 *     base/         options, session, and the seam to the engine
 *
 * Threading: one thread.  Memory: worker_new() allocates everything from the
 * options; the steady state does not allocate.  Limits: worker/base/options.h.
 */
#ifndef WORKER_WORKER_CORE_H
#define WORKER_WORKER_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/node_io.h"
#include "worker/base/engine.h"
#include "worker/base/options.h"

struct worker_core;

/* Makes a worker.  engine and io are borrowed and outlive it.  Returns NULL if
 * an option is out of its range, the pool has neither blocks nor slots, or
 * memory runs out. */
struct worker_core *worker_new(const struct worker_options *o,
                               struct node_io *io, struct engine *engine);
/* Frees a worker.  The engine must be at rest, because it reads plans from the
 * core's memory. */
void worker_free(struct worker_core **w);

/* The node is the struct worker_core. */
extern const struct node_ops worker_node_ops;

/* Stops the worker: sends Goodbye, waits for the plans in flight, then tick
 * returns NODE_STOP. */
void worker_stop(struct worker_core *w);

/* Leaves without loss.  The router is notified, grants nothing more, and moves
 * what still runs after grace_ms (at most GRACE_MS_MAX; 0: at once).  The
 * worker serves until the router replies that nothing is left, and then stops
 * as by worker_stop().  Without a session, or without an answer LEAVE_US after
 * the grace, it stops too.  A second call stops it at once. */
void worker_leave(struct worker_core *w, uint32_t grace_ms);

/* Returns whether the router has accepted the worker and the session is up. */
bool worker_is_up(const struct worker_core *w);

/* Returns the name of the worker at the router: that of its key, or KEY/NAME.
 * Before the router has answered Hello, its own. */
const char *worker_known_as(const struct worker_core *w);

/* Returns, after NODE_STOP, whether the reason was a dead engine
 * (worker/base/watch.h).  Such an engine never returns its plans, and
 * worker_free() may be called only when nothing of it runs any more. */
bool worker_failed(const struct worker_core *w);

/* Returns whether the engine is dead because its device failed (`lost` in
 * struct plan_result). */
bool worker_lost(const struct worker_core *w);

/* The accounts, for an auditor; numbers as in ClassLedger of
 * proto/common.proto: in pages the columns add up. */
struct class_account {
    uint32_t total, free, held, cached, granted;
};

struct worker_account {
    struct class_account blocks, slots, checkpoints, windows, pages;
    uint64_t grant, snapshot, violations;
    uint32_t n_sequences;                       /* not yet forgotten */
    uint32_t n_orphans;                         /* orphans among them */
    uint32_t n_suspended;                       /* suspended ones */
    uint32_t host_total, host_used;             /* pages of the host tier */
    uint32_t host_cached;                       /* ... that the index has */
    uint64_t orphans_expired, orphans_disowned; /* since the start */
    uint32_t n_passed;   /* plans since the oldest prompt had its share */
    uint64_t n_exceeded; /* plans longer than --itl-target for prompts */
    int64_t late_us;     /* for which a sequence has outrun its deadline */
    /* The assembly that is up, 0: none; and this worker's place in it. */
    uint64_t assembly;
    uint32_t stage, n_stages;
    uint64_t streams_broken; /* assembly_break() of worker/stages/assembly.h */
};

void worker_account(const struct worker_core *w, struct worker_account *out);

/* Returns what the prefix index can restore, for auditors: the sum of
 * prefix_hash_digest() over its restorable positions, and *n, their number. */
uint64_t worker_prefixes(const struct worker_core *w, uint32_t *n);

/* Returns the number of nodes in the prefix index, restorable or not. */
uint32_t worker_nodes(const struct worker_core *w);
/* Returns how many nodes and checkpoints of the prefix index were evicted. */
void worker_evicted(const struct worker_core *w, uint64_t *nodes,
                    uint64_t *checkpoints);
/* Returns the pages that the tenant with most of them has in the prefix index,
 * for auditors.  *most: its quota; *n_full: additions at a quota. */
uint32_t worker_tenant_pages(const struct worker_core *w, uint32_t *most,
                             uint64_t *n_full);
/* Forgets the prefix index, for auditors. */
void worker_clear_index(struct worker_core *w);

struct worker_metrics;
struct metric_page;

/* Copies the counters without labels (worker/base/metrics.h). */
void worker_counts(const struct worker_core *w, struct worker_metrics *out);

/* Adds all metrics to a page for Prometheus; logs those that are not 0 under
 * the event `counted`. */
void worker_page(const struct worker_core *w, struct metric_page *page);
void worker_log_metrics(const struct worker_core *w);

/* Walks pool and sequences (ledger_audit()).  Returns the number of
 * differences, and writes the first ones to text, one a line. */
uint32_t worker_audit(const struct worker_core *w, char *text, size_t cap);

/* Returns the state of a sequence as proto's SequenceState; SEQUENCE_UNKNOWN if
 * there is none of that name. */
int worker_sequence_state(const struct worker_core *w,
                          const uint8_t request_id[16], uint32_t choice);

#endif
