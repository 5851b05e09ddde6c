/* budget.h - The memory of a worker, and its division.
 *
 *     budget = weights + scratch + pool
 *
 * Weights and scratch are measured first.  common/split/pool_split.h divides
 * the pool.  At least one sequence of the whole context must fit.
 *
 * Threading: none.  Memory: none. */
#ifndef WORKER_ENGINE_BUDGET_H
#define WORKER_ENGINE_BUDGET_H

#include <stdint.h>

#include "common/base/status.h"
#include "common/split/pool_split.h"

#define BUDGET_SEQUENCES 64   /* whole contexts, by default */
#define BUDGET_SHARE     0.25 /* largest share of memory, by default */

struct budget_need {
    uint64_t weight_bytes, scratch_bytes;
    struct pool_split_need pool;
};

struct budget {
    uint64_t bytes; /* weights, scratch and pool, as used */
    struct pool_split pool;
};

/* Divides the budget.  text: NULL for the default; "0.9" is a share of
 * `available`, "4GiB" is bytes.  available: the result of budget_available().
 * Returns ST_INVALID_ARGUMENT if text is neither, ST_RESOURCE_EXHAUSTED if the
 * budget is too small; e has the bytes needed and available. */
MUST_CHECK enum status budget_divide(struct budget *out, const char *text,
                                     uint64_t available,
                                     const struct budget_need *need,
                                     struct error *e);

/* Computes the budget alone, for a worker without layers.  text as above; NULL
 * for BUDGET_SHARE of `available`.  Returns ST_INVALID_ARGUMENT as above. */
MUST_CHECK enum status budget_bytes(uint64_t *out, const char *text,
                                    uint64_t available, struct error *e);

/* Returns the bytes that this process may still allocate: MemAvailable, or less
 * if its cgroup (version 1 or 2) or a parent of it has a limit.  The page cache
 * does not count as used.  root: "", or a directory with the /proc and /sys of
 * another machine.  To be called before weights are loaded. */
uint64_t budget_available(const char *root);

#endif
