/* budget.h - The memory of a worker, and its division.
 *
 *     budget = weights + scratch + pool
 *
 * common/split/pool_split.h divides the budget.  At least one sequence of the
 * whole context must fit.  No budget exceeds what the machine, the cgroup or
 * the device has.
 *
 * Threading: none.  Memory: none. */
#ifndef WORKER_ENGINE_BUDGET_H
#define WORKER_ENGINE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/split/pool_split.h"

#define BUDGET_SEQUENCES 64   /* whole contexts, by default */
#define BUDGET_SHARE     0.25 /* largest share of memory, by default */

struct budget {
    uint64_t bytes; /* weights, scratch and pool, as used */
    struct pool_split pool;
};

/* --memory, and what it refers to. */
struct budget_memory {
    const char *text;   /* NULL: the default; "0.9": a share of `available`;
                           "4GiB": bytes */
    uint64_t available; /* memory_left(), or all memory of a device */
    bool device;        /* available is that of a device */
};

/* Divides the budget.  Returns ST_INVALID_ARGUMENT if the text is neither a
 * share nor a size, ST_RESOURCE_EXHAUSTED if the budget is too small or more
 * than is available; e has both figures. */
MUST_CHECK enum status budget_divide(struct budget *out,
                                     const struct budget_memory *m,
                                     const struct pool_budget *need,
                                     struct error *e);

/* Computes the budget alone, for a worker without layers; by default
 * BUDGET_SHARE of what is available.  Errors as above. */
MUST_CHECK enum status
budget_bytes(uint64_t *out, const struct budget_memory *m, struct error *e);

#endif
