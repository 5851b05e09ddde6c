/* batch.h - a plan and whose rows they are, with the memory of both: what
 * the batcher fills from its lines, and a stage from what the leader says.
 *
 * Threading: the core's.  Memory: batch_init(); no other call allocates.  From
 * engine_submit() until its result is polled a plan belongs to the engine. */
#ifndef WORKER_SEQUENCES_BATCH_H
#define WORKER_SEQUENCES_BATCH_H

#include "worker/cache/sequence.h"
#include "worker/engine/engine.h"

struct batcher_limits {
    uint32_t max_rows;     /* 1..PLAN_ROWS_MAX */
    uint32_t step_tokens;  /* 1..PLAN_TOKENS_MAX */
    uint32_t chunk_tokens; /* >= 1 */
    uint32_t depth;        /* 1..ENGINE_DEPTH_MAX, of the engine */
    uint32_t batches;      /* room for as many: depth..BATCHES_MAX */
    uint32_t block_tokens; /* >= 1 */
    uint32_t n_blocks;     /* of the pool; 0: the shard has no attention */
    uint32_t n_slots;      /* 0: no recurrent layers */
};

struct batch {
    struct plan plan;
    struct sequence **who; /* [max_rows] */
    uint32_t n_prompt_tokens;
    int64_t sent_us; /* when the engine took it */
};

/* All zeros is a batch without memory, which batch_fini() takes too.  False if
 * memory is out. */
MUST_CHECK bool batch_init(struct batch *t, const struct batcher_limits *l);
void batch_fini(struct batch *t);

/* No rows yet. */
void batch_begin(struct batch *t, uint64_t step);

/* Numbers for positions [0, end) of s: blocks and the slot, granted to held; a
 * slot is zeroed by p.  False, and the account is broken, if they were not
 * granted. */
MUST_CHECK bool batch_take_memory(const struct batcher_limits *l,
                                  struct sequence_table *table, struct plan *p,
                                  struct sequence *s, uint32_t end);

/* What s holds: the row's table and slot. */
void batch_fill_table(const struct sequence_table *table, struct plan *p,
                      struct plan_row *row, const struct sequence *s);

/* Its known ids where they are, if it has penalties, else n = 0.  They stay
 * while the plan is in flight: a sequence's ids go only when no plan names it
 * (ending.c). */
struct plan_history batch_history(const struct sequence_table *table,
                                  const struct sequence *s);

#endif
