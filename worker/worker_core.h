/* worker_core.h - the worker's control side: sequences, pool, ledger, batcher.
 *
 * A pure state machine: told what came and what time it is (worker_node_ops),
 * it speaks through node_io and hands plans to an engine
 * (worker/engine/engine.h). It handles numbers of blocks and slots, never
 * memory.
 *
 *     RECEIVING --parts--> QUEUED --in a plan--> PREFILL --first token-->
 * DECODE |                  |                     |                        |
 *         +------------------+----- cancel, remove, failure, stop, length --+
 *                            v
 *     (KEPT: keep_ms, memory held) --> RELEASING: plans that name it -->
 * FINISHED
 *
 * What runs when its session ends goes on for a while:
 * worker/sequences/orphans.h.
 *
 * Threading: one thread.  Memory: everything is sized from the options in
 * worker_new(); the steady state does not allocate.  Limits: below. */
#ifndef WORKER_WORKER_CORE_H
#define WORKER_WORKER_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/node_io.h"
#include "worker/engine/engine.h"

#define WORKER_EOS_MAX MODEL_EOS_MAX
/* Live and unacknowledged, of a session; all of them may be orphaned. */
#define WORKER_SEQUENCES_MAX WORKER_ORPHANS_MAX
#define TOMBSTONES_MAX       1024
#define STEP_ROW_TOKENS_MAX  256     /* the rest goes in the next output */
#define ORPHAN_US            3000000 /* orphans.h */
#define REPORT_US            250000  /* at least this often */
#define REPORT_CHANGE_US     10000   /* at most this often on change */
#define LEAVE_US             3000000 /* past the grace, for the answer */

struct worker_options {
    const char *name, *model, *device;
    const char *lineage; /* what stays when it is started again; NULL: name */
    uint8_t fingerprint[16];
    uint8_t tokenizer[16];
    bool has_tokenizer;
    uint32_t layer_begin, layer_end, n_layers;
    uint32_t block_tokens;
    uint64_t block_bytes, slot_bytes, checkpoint_bytes;
    uint32_t n_blocks, n_slots, n_checkpoints; /* the pool; 0: no such kind */
    uint32_t pages_per_block, pages_per_slot, pages_per_checkpoint;
    uint64_t weight_bytes, scratch_bytes, pool_bytes;
    uint32_t context; /* longest sequence, prompt and generated */
    uint32_t vocab;
    uint32_t eos[WORKER_EOS_MAX];
    uint32_t n_eos;
    uint32_t max_rows;     /* sequences in a step, 1..PLAN_ROWS_MAX */
    uint32_t step_tokens;  /* token budget of a step, 1..PLAN_TOKENS_MAX */
    uint32_t chunk_tokens; /* longest prefill chunk of a row, >= 1 */
    uint32_t engine_depth; /* plans in flight, 1..ENGINE_DEPTH_MAX */
    /* Of a shard that may be a stage: where the one before it connects to, and
     * H; io has open_to() then.  NULL: it takes part in no replica of several
     * stages. */
    const char *stage_endpoint;
    uint32_t hidden; /* with stage_endpoint >= 1 */
};

struct worker_core;

/* engine and io are borrowed and outlive the core.  NULL if an option is out
 * of its range, the pool has neither blocks nor slots, or memory is out. */
struct worker_core *worker_new(const struct worker_options *o,
                               struct node_io *io, struct engine *engine);
/* The engine must be at rest: a plan in flight is the core's memory. */
void worker_free(struct worker_core **w);

/* The node is the struct worker_core. */
extern const struct node_ops worker_node_ops;

/* Say Goodbye, let the plans in flight return, then tick answers NODE_STOP. */
void worker_stop(struct worker_core *w);

/* Go without loss: the router is told, grants nothing more, and moves what
 * still runs after grace_ms (GRACE_MS_MAX at most; 0: at once).  The
 * worker serves on until the router says that nothing is left here; then, or
 * without a session, or without an answer LEAVE_US after the grace, it stops
 * as by worker_stop().  A second call stops it at once. */
void worker_leave(struct worker_core *w, uint32_t grace_ms);

/* After NODE_STOP: was it because the engine is dead (worker/engine/watch.h)?
 * Then it still has plans that it will not give back, and worker_free() may be
 * called only when nothing of it runs any more. */
bool worker_failed(const struct worker_core *w);

/* And is it dead because its device failed (struct plan_result, lost)? */
bool worker_lost(const struct worker_core *w);

/* What an auditor asks; numbers as in proto/common.proto's ClassLedger. */
struct class_account {
    uint32_t total, free, held, cached, granted;
};

struct worker_account {
    struct class_account blocks, slots, checkpoints;
    uint64_t grant, snapshot, violations;
    uint32_t n_sequences; /* not yet forgotten */
    uint32_t n_orphans;   /* of them, worker/sequences/orphans.h */
    uint64_t orphans_expired, orphans_disowned; /* in this life */
    /* Of the assembly that is up, 0: none; then where in it. */
    uint64_t assembly;
    uint32_t stage, n_stages;
    uint64_t streams_broken; /* assembly_break() of worker/stages/assembly.h */
};

void worker_account(const struct worker_core *w, struct worker_account *out);

struct worker_metrics; /* worker/metrics.h */
void worker_counts(const struct worker_core *w, struct worker_metrics *out);

/* Walk pool and sequences; the number of differences, 0 is whole.  The first
 * ones are written to text, one a line. */
uint32_t worker_audit(const struct worker_core *w, char *text, size_t cap);

/* enum sequence_state of worker/cache/sequence.h as proto's SequenceState,
 * for a request; SEQUENCE_UNKNOWN if there is none. */
int worker_sequence_state(const struct worker_core *w,
                          const uint8_t request_id[16], uint32_t choice);

#endif
