/* pool_split.h - Division of a worker's memory, and of a pool between slots
 * and blocks.
 *
 *     budget = weights + scratch + pool
 *     pool   = n_slots * slot_bytes + n_blocks * block_bytes
 *
 * The border between the classes is fixed.  By default the pool gets slots for
 * as many sequences of a typical length as it holds, at most max_rows, which
 * is all that can run.  `slots` sets their number instead.  The rest are
 * blocks, at most what that many sequences of the whole context need.  The
 * blocks of one sequence of the whole context always fit.
 *
 * A typical sequence has POOL_TYPICAL_TOKENS, or a quarter of the context if
 * that is less.  A chat without max_tokens reserves 2048 tokens for its answer
 * (docs/http.md), and its prompt may have as many.  The rule does not follow
 * the longest context: a pool for sequences of a quarter of 262,144 tokens
 * would have a tenth of the slots that chats can use.
 *
 * Worker, `sluice-worker --check` and `sluicectl plan` use these functions, so
 * their figures agree.
 *
 * Threading, memory: pure functions. */
#ifndef COMMON_SPLIT_POOL_SPLIT_H
#define COMMON_SPLIT_POOL_SPLIT_H

#include <stdint.h>

#include "common/base/status.h"

#define POOL_TYPICAL_TOKENS 4096

/* Sizes of a pool's classes; a shard has at least one class. */
struct pool_split_need {
    uint64_t block_bytes, slot_bytes;         /* 0: the class does not exist */
    uint32_t block_tokens, context, max_rows; /* each at least 1 */
    uint32_t slots; /* how many; 0: by default.  Unused without the class. */
};

struct pool_split {
    uint64_t bytes; /* bytes in use */
    uint32_t n_blocks, n_slots;
};

/* Everything that a budget has to hold. */
struct pool_budget {
    uint64_t weight_bytes, scratch_bytes;
    struct pool_split_need pool;
};

/* Returns the blocks of one sequence of that many tokens; 0 without blocks. */
uint64_t pool_split_blocks(const struct pool_split_need *n, uint32_t tokens);

/* Returns the memory of one sequence of that many tokens: its blocks and its
 * slot. */
uint64_t pool_split_sequence(const struct pool_split_need *n, uint32_t tokens);

/* Returns the bytes of the smallest pool: one sequence of the whole context,
 * and the other slots if their number is set. */
uint64_t pool_split_least(const struct pool_split_need *n);

/* Divides bytes, which is at least pool_split_least(n). */
struct pool_split pool_split_make(const struct pool_split_need *n,
                                  uint64_t bytes);

/* Returns how many sequences of that many tokens a divided pool holds. */
uint64_t pool_split_sequences(const struct pool_split_need *n,
                              const struct pool_split *s, uint32_t tokens);

/* Divides a budget of that many bytes.  Returns ST_RESOURCE_EXHAUSTED if it is
 * too small for weights, scratch and the smallest pool; the sentence has all
 * figures, and the number of slots that would fit if that number is the
 * reason. */
MUST_CHECK enum status pool_split_budget(struct pool_split *out,
                                         const struct pool_budget *b,
                                         uint64_t bytes, struct error *e);

#endif
