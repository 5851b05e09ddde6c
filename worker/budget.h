/* budget.h - how much memory a worker takes, and what it makes of it.
 *
 *     budget = weights + scratch + pool
 *     pool   = n_slots * slot_bytes + n_blocks * block_bytes
 *
 * Weights and scratch are measured before this is asked.  The border between
 * slots and blocks is fixed: slots for as many sequences of a quarter of the
 * context as the pool holds (at most max_rows, which is all that can run),
 * the rest blocks (at most what so many sequences of the whole context
 * need).  At least one sequence of the whole context must fit.
 *
 * Threading: none.  Memory: none. */
#ifndef WORKER_BUDGET_H
#define WORKER_BUDGET_H

#include <stdint.h>

#include "common/status.h"

#define BUDGET_SEQUENCES 64   /* of the whole context, by default */
#define BUDGET_SHARE     0.25 /* of what is available, at most, by default */

struct budget_need {
    uint64_t weight_bytes, scratch_bytes;
    uint64_t block_bytes, slot_bytes; /* 0: no such kind */
    uint32_t block_tokens, context, max_rows;
};

struct budget {
    uint64_t bytes; /* weights, scratch and pool, as used */
    uint64_t pool_bytes;
    uint32_t n_blocks, n_slots;
};

/* text: NULL for the default; "0.9" is a share of available, "4GiB" is bytes.
 * available: what budget_available() answered.  ST_INVALID_ARGUMENT: text is
 * neither; ST_RESOURCE_EXHAUSTED: too small, with what is needed and what
 * there is. */
MUST_CHECK enum status budget_divide(struct budget *out, const char *text,
                                     uint64_t available,
                                     const struct budget_need *need,
                                     struct error *e);

/* Bytes that this process may still take: MemAvailable, or less where a
 * cgroup bounds it.  Ask before loading weights. */
uint64_t budget_available(void);

#endif
