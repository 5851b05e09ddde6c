/* budget.h - how much memory a worker takes, and what it makes of it.
 *
 *     budget = weights + scratch + pool
 *
 * Weights and scratch are measured before this is asked; what the pool is
 * divided into is common/split/pool_split.h's to say.  At least one sequence of
 * the whole context must fit.
 *
 * Threading: none.  Memory: none. */
#ifndef WORKER_ENGINE_BUDGET_H
#define WORKER_ENGINE_BUDGET_H

#include <stdint.h>

#include "common/base/status.h"
#include "common/split/pool_split.h"

#define BUDGET_SEQUENCES 64   /* of the whole context, by default */
#define BUDGET_SHARE     0.25 /* of what is available, at most, by default */

struct budget_need {
    uint64_t weight_bytes, scratch_bytes;
    struct pool_split_need pool;
};

struct budget {
    uint64_t bytes; /* weights, scratch and pool, as used */
    struct pool_split pool;
};

/* text: NULL for the default; "0.9" is a share of available, "4GiB" is bytes.
 * available: what budget_available() answered.  ST_INVALID_ARGUMENT: text is
 * neither; ST_RESOURCE_EXHAUSTED: too small, with what is needed and what
 * there is. */
MUST_CHECK enum status budget_divide(struct budget *out, const char *text,
                                     uint64_t available,
                                     const struct budget_need *need,
                                     struct error *e);

/* The budget alone, of a worker that does not know its layers yet: text as
 * above, NULL for BUDGET_SHARE of what is available. */
MUST_CHECK enum status budget_bytes(uint64_t *out, const char *text,
                                    uint64_t available, struct error *e);

/* Bytes that this process may still take: MemAvailable, or less where its
 * cgroup (of version 1 or 2) or one above it bounds it.  The page cache is
 * not counted as taken.  root: "", or a directory with another machine's
 * /proc and /sys.  Ask before loading weights. */
uint64_t budget_available(const char *root);

#endif
