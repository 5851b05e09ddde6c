/* pool_split.h - how a pool is divided between slots and blocks.
 *
 *     pool = n_slots * slot_bytes + n_blocks * block_bytes
 *
 * The border is fixed: slots for as many sequences of a quarter of the
 * context as the pool holds (at most max_rows, which is all that can run),
 * the rest blocks (at most what so many sequences of the whole context
 * need).  One sequence of the whole context always fits.  Workers divide
 * their pools so, and who plans a split of a model reckons with the same.
 *
 * Threading, memory: pure functions. */
#ifndef COMMON_SPLIT_POOL_SPLIT_H
#define COMMON_SPLIT_POOL_SPLIT_H

#include <stdint.h>

/* Of the two kinds a shard has one at least. */
struct pool_split_need {
    uint64_t block_bytes, slot_bytes;         /* 0: no such kind */
    uint32_t block_tokens, context, max_rows; /* each at least 1 */
};

struct pool_split {
    uint64_t bytes; /* as used */
    uint32_t n_blocks, n_slots;
};

/* Blocks of one sequence of so many tokens; 0 where there are no blocks. */
uint64_t pool_split_blocks(const struct pool_split_need *n, uint32_t tokens);

/* Memory of one sequence of so many tokens: its blocks and its slot. */
uint64_t pool_split_sequence(const struct pool_split_need *n, uint32_t tokens);

/* bytes: pool_split_sequence(n, n->context) or more. */
struct pool_split pool_split_make(const struct pool_split_need *n,
                                  uint64_t bytes);

#endif
