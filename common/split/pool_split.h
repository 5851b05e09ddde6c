/* pool_split.h - Division of a pool between slots and blocks.
 *
 *     pool = n_slots * slot_bytes + n_blocks * block_bytes
 *
 * The border is fixed.  The pool gets slots for as many sequences of a
 * quarter of the context as it holds, at most max_rows, which is all that can
 * run.  The rest are blocks, at most what that many sequences of the whole
 * context need. One sequence of the whole context always fits.  Workers and
 * the planner of a split use this function, so their figures agree.
 *
 * Threading, memory: pure functions. */
#ifndef COMMON_SPLIT_POOL_SPLIT_H
#define COMMON_SPLIT_POOL_SPLIT_H

#include <stdint.h>

/* Sizes of a pool's classes; a shard has at least one class. */
struct pool_split_need {
    uint64_t block_bytes, slot_bytes;         /* 0: the class does not exist */
    uint32_t block_tokens, context, max_rows; /* each at least 1 */
};

struct pool_split {
    uint64_t bytes; /* bytes in use */
    uint32_t n_blocks, n_slots;
};

/* Returns the blocks of one sequence of that many tokens; 0 without blocks. */
uint64_t pool_split_blocks(const struct pool_split_need *n, uint32_t tokens);

/* Returns the memory of one sequence of that many tokens: its blocks and its
 * slot. */
uint64_t pool_split_sequence(const struct pool_split_need *n, uint32_t tokens);

/* Divides bytes, which is at least pool_split_sequence(n, n->context). */
struct pool_split pool_split_make(const struct pool_split_need *n,
                                  uint64_t bytes);

#endif
