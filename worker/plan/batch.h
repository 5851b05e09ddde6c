/* batch.h - A plan, the sequences that own its rows, and the memory of both.
 *
 * The batcher fills a batch from its queues; a stage fills one from the
 * leader's message.
 *
 *     batch_begin()   no rows; pages that were freed are poisoned, moves that
 *                     were recorded are carried out
 *     rows            batch_take_memory() each: blocks, slot, moves
 *     batch_finish()  tables, because a move of one row may move a block of
 *                     another
 *
 * `before` has moves and restores in the order in which the core decided them:
 * a restore may read a checkpoint whose pages a later move overwrites.
 *
 * Threading: the core's.  Memory: batch_init() allocates; no other call does.
 * The engine borrows a plan from engine_submit() until its result is polled.
 * Limits: PLAN_BLOCKS_MAX entries in the tables of a plan, unless one row needs
 * more; BATCH_COPIES_MAX copies, and POOL_SWAPS_MAX to and from the host
 * tier. */
#ifndef WORKER_PLAN_BATCH_H
#define WORKER_PLAN_BATCH_H

#include "worker/base/engine.h"
#include "worker/base/options.h"
#include "worker/cache/prefix.h"
#include "worker/plan/proposer.h"
#include "worker/sequence/sequence_table.h"

#define LOADS_MAX 64 /* states that a plan loads for kept sequences */
/* Copies before the rows of a plan that is made here, but for those to and from
 * the host tier that the pool records.  A later stage executes the leader's
 * plans, whatever they move there: up to PLAN_COPIES_MAX. */
#define BATCH_COPIES_MAX 4096

/* Copies that stay for restores: one a row, and those of other calls. */
#define COPIES_SPARE (PLAN_ROWS_MAX + LOADS_MAX)

/* Pages that come back from the host tier in one plan, and those of a slot. */
#define SWAP_PAGES_MAX (BATCH_COPIES_MAX - COPIES_SPARE)

struct batcher_limits {
    uint32_t max_rows;       /* 1..PLAN_ROWS_MAX */
    uint32_t step_tokens;    /* 1..PLAN_TOKENS_MAX */
    uint32_t chunk_tokens;   /* >= 1 */
    uint32_t depth;          /* the engine's, 1..ENGINE_DEPTH_MAX */
    uint32_t batches;        /* batches to allocate: depth..BATCHES_MAX */
    uint32_t block_tokens;   /* >= 1 */
    uint32_t context;        /* longest sequence */
    uint32_t pages_per_slot; /* 0: no recurrent layers */
    uint32_t copies; /* before the rows, BATCH_COPIES_MAX..PLAN_COPIES_MAX */
    bool has_blocks; /* false: no attention layers */
    struct window_rules windows;
    uint32_t window_table; /* most window pages in the tables of a row */
    uint32_t drafts;       /* most of a row; 0: none */
    uint32_t keep_tokens;  /* most tokens of the rows with drafts of a plan */
    bool drafts_auto;
    struct proposer_rules proposers;
    const uint32_t *eos; /* [n_eos] borrowed from the options */
    uint32_t n_eos;
    bool bounded;    /* steps are bounded by their cost (step_room.h) */
    uint32_t itl_us; /* --itl-target; 0: none */
};

struct batch {
    struct plan plan;
    struct sequence **owners; /* [max_rows] of the rows */
    struct plan_copy *moves;  /* [PLAN_COPIES_MAX] those of plan.before that
                               * move blocks */
    uint32_t n_moves;
    uint32_t n_loads; /* copies of plan.before that batcher_load() requested */
    uint32_t n_swaps; /* copies of plan.before that the pool recorded to or
                       * from the host tier */
    uint32_t n_swapped; /* pages that go to the host tier, or come back */
    uint32_t n_table;   /* entries of the tables before batch_finish() */
    uint32_t n_prompt_tokens;
    uint32_t n_decode;        /* rows of decode, */
    uint32_t n_decode_tokens; /* and their tokens, drafts included */
    uint32_t n_kept;          /* tokens of rows with drafts */
    int64_t sent_us;          /* when the engine took it */
};

/* Returns the limits that follow from the options, for n_batches batches. */
struct batcher_limits batch_limits(const struct worker_options *o,
                                   uint32_t n_batches);

/* Allocates the arrays.  Returns false if memory runs out.  batch_fini()
 * accepts a batch of all zeros and one whose init failed. */
MUST_CHECK bool batch_init(struct batch *t, const struct batcher_limits *l);
void batch_fini(struct batch *t);

/* Starts a plan without rows. */
void batch_begin(struct batch *t, struct pool *pool, uint64_t step);

/* Returns whether the plan has room for a row of s that ends at `end`: for its
 * tables, for the moves that its slot may cost, and for the copies of what it
 * has in the host tier; and whether s, if it grows, was granted the blocks. */
bool batch_has_room(const struct batcher_limits *l, const struct pool *pool,
                    const struct batch *t, const struct sequence *s,
                    uint32_t end);
/* Returns whether the plan has room for the moves of one more checkpoint. */
bool batch_has_copies(const struct batcher_limits *l, const struct batch *t);

/* Takes the blocks and the slot for positions [0, end) of s, and the window
 * blocks that a row of [begin, end) needs: granted to held.  Gives back those
 * behind its window.  The plan zeroes the slot if s is at its first
 * position.  Returns false if they were not granted; the account is broken
 * then. */
MUST_CHECK bool batch_take_memory(const struct batcher_limits *l,
                                  struct sequence_table *table, struct batch *t,
                                  struct sequence *s, uint32_t begin,
                                  uint32_t end);

/* Takes the blocks for positions [0, end) of s.  Returns false as above. */
MUST_CHECK bool batch_take_blocks(const struct batcher_limits *l,
                                  struct sequence_table *table,
                                  struct sequence *s, uint32_t end);

/* Adds the moves that were recorded since to `before`: after any call that may
 * record some. */
void batch_carry(struct batch *t, struct pool *pool);
/* Adds a copy to `before`, after the moves that were recorded so far. */
void batch_copy(struct batch *t, struct pool *pool, struct plan_copy c);

/* Removes the pages that a copy reads from those that the plan poisons. */
void batch_unpoison(struct batch *t, const struct plan_copy *c);

/* Writes the block tables and slots of all rows, as they are after the last
 * move. */
void batch_finish(const struct batcher_limits *l,
                  const struct sequence_table *table, struct batch *t);

/* Takes back the moves of a plan that the engine refused. */
void batch_undo(struct batch *t, struct pool *pool);

/* Returns the location of the known ids of s if its sampling has penalties,
 * else n = 0.  The ids stay while the plan is in flight, because ending.c drops
 * them only when no plan names the sequence. */
struct plan_history batch_history(const struct sequence_table *table,
                                  const struct sequence *s);

#endif
