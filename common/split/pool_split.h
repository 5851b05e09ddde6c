/* pool_split.h - Division of a worker's memory, and the capacity of its pool.
 *
 *     budget = weights + scratch + pool
 *     pool   = n_pages * page_bytes
 *
 * The pool is one budget of pages (common/model/page_layout.h).  Blocks, window
 * blocks, slots and checkpoints take pages from it while the worker serves, so
 * the pool has no border between them.  A sequence holds
 *
 *     pages = blocks(tokens) + pages_per_slot
 *             + window_pages * window blocks(tokens)
 *
 * at most; common/split/page_unit.h has the formula of window blocks.
 *
 * The pool gets all pages that the budget has room for: those that no sequence
 * holds keep prefixes.  The smallest pool holds one sequence of the whole
 * context.
 *
 * `slots` is a cap on the sequences that hold a slot at once, by default
 * max_rows, which is all that can run.  It reserves nothing.
 *
 * Worker, `sluice-worker --check` and `sluicectl plan` use these functions, so
 * their figures agree.
 *
 * Threading, memory: pure functions.
 * Limits: at most SHARD_CLASS_MAX pages. */
#ifndef COMMON_SPLIT_POOL_SPLIT_H
#define COMMON_SPLIT_POOL_SPLIT_H

#include <stdint.h>

#include "common/base/status.h"

/* The pages of a shard, and what its sequences may be. */
struct pool_split_need {
    uint64_t page_bytes;                      /* at least 1 */
    uint64_t pages_per_slot;                  /* 0: no linear layer */
    uint32_t pages_per_block;                 /* 1; 0: no attention layer */
    uint32_t block_tokens, context, max_rows; /* each at least 1 */
    uint32_t
        slots; /* most slots at once; 0: max_rows.  Unused without slots. */
    uint32_t pages_max; /* most pages that the device allocates; 0: no limit */
    /* Pages of a window block, 0: no window layer; what such a layer sees, and
     * the most tokens of a sequence in a step.  Unused without window layers.
     */
    uint32_t window_pages, window_tokens, chunk_tokens;
};

struct pool_split {
    uint64_t bytes; /* bytes in use */
    uint32_t n_pages;
    uint32_t slot_cap; /* most slots at once; 0: the shard has none */
};

/* Everything that a budget has to hold. */
struct pool_budget {
    uint64_t weight_bytes, scratch_bytes;
    struct pool_split_need pool;
};

/* Returns the blocks of one sequence of that many tokens; 0 without blocks. */
uint64_t pool_split_blocks(const struct pool_split_need *n, uint32_t tokens);

/* Returns the pages of the most window blocks that one sequence of that many
 * tokens holds at once; 0 without window layers. */
uint64_t pool_split_windows(const struct pool_split_need *n, uint32_t tokens);

/* Returns the most pages of one sequence of that many tokens: its blocks, its
 * window blocks and its slot. */
uint64_t pool_split_pages(const struct pool_split_need *n, uint32_t tokens);

/* Returns the bytes of these pages. */
uint64_t pool_split_sequence(const struct pool_split_need *n, uint32_t tokens);

/* Returns the bytes of the smallest pool: one sequence of the whole context. */
uint64_t pool_split_least(const struct pool_split_need *n);

/* Divides bytes, which is at least pool_split_least(n).  The pool has at most
 * pages_max pages, which hold one sequence of the whole context. */
struct pool_split pool_split_make(const struct pool_split_need *n,
                                  uint64_t bytes);

/* Returns how many sequences of that many tokens an empty pool holds.  The
 * number is exact, because blocks move out of a slot's way. */
uint64_t pool_split_sequences(const struct pool_split_need *n,
                              const struct pool_split *s, uint32_t tokens);

/* Returns the share of the pool, 0 to 1, that nobody can use when it is full of
 * sequences of that many tokens, each of which fills `useful` bytes of its
 * pages: what rounding a slot up to pages takes, and the pages that are left
 * and too few for another sequence.  The cap on slots does not count, since
 * pages beyond it keep prefixes.  0 if no sequence fits. */
double pool_split_waste(const struct pool_split_need *n,
                        const struct pool_split *s, uint32_t tokens,
                        uint64_t useful);

/* Divides a budget of that many bytes.  Returns ST_RESOURCE_EXHAUSTED if it is
 * too small for weights, scratch and the smallest pool, or if the device
 * allocates fewer pages than that; the sentence has all figures. */
MUST_CHECK enum status pool_split_budget(struct pool_split *out,
                                         const struct pool_budget *b,
                                         uint64_t bytes, struct error *e);

#endif
