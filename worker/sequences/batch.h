/* batch.h - A plan, the sequences that own its rows, and the memory of both.
 *
 * The batcher fills a batch from its queues; a stage fills one from the
 * leader's message.
 *
 * Threading: the core's.  Memory: batch_init() allocates; no other call does.
 * The engine borrows a plan from engine_submit() until its result is polled. */
#ifndef WORKER_SEQUENCES_BATCH_H
#define WORKER_SEQUENCES_BATCH_H

#include "worker/base/engine.h"
#include "worker/cache/sequence.h"

struct batcher_limits {
    uint32_t max_rows;     /* 1..PLAN_ROWS_MAX */
    uint32_t step_tokens;  /* 1..PLAN_TOKENS_MAX */
    uint32_t chunk_tokens; /* >= 1 */
    uint32_t depth;        /* the engine's, 1..ENGINE_DEPTH_MAX */
    uint32_t batches;      /* batches to allocate: depth..BATCHES_MAX */
    uint32_t block_tokens; /* >= 1 */
    uint32_t n_blocks;     /* the pool's; 0: no attention layers */
    uint32_t n_slots;      /* the pool's; 0: no recurrent layers */
};

struct batch {
    struct plan plan;
    struct sequence **owners; /* [max_rows] of the rows */
    uint32_t n_prompt_tokens;
    int64_t sent_us; /* when the engine took it */
};

/* Allocates the arrays.  Returns false if memory runs out.  batch_fini()
 * accepts a batch of all zeros and one whose init failed. */
MUST_CHECK bool batch_init(struct batch *t, const struct batcher_limits *l);
void batch_fini(struct batch *t);

/* Starts a plan without rows. */
void batch_begin(struct batch *t, uint64_t step);

/* Takes the blocks and the slot for positions [0, end) of s: granted to held.
 * p zeroes the slot if s is at its first position.  Returns false if they were
 * not granted; the account is broken then. */
MUST_CHECK bool batch_take_memory(const struct batcher_limits *l,
                                  struct sequence_table *table, struct plan *p,
                                  struct sequence *s, uint32_t end);

/* Copies the block table and the slot of s into the row. */
void batch_fill_table(const struct sequence_table *table, struct plan *p,
                      struct plan_row *row, const struct sequence *s);

/* Returns the location of the known ids of s if its sampling has penalties,
 * else n = 0.  The ids stay while the plan is in flight, because ending.c drops
 * them only when no plan names the sequence. */
struct plan_history batch_history(const struct sequence_table *table,
                                  const struct sequence *s);

#endif
