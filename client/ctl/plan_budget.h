/* plan_budget.h - The memory that a vLLM-like engine plans for its cache.
 *
 *     base   = limit * fraction - model - overhead
 *     cache  = base - slot * reserved     reserved = 2 * min(rows, 2) - 1
 *     blocks = cache / block              fewer than 16: it does not start
 *
 * The slots of later sequences are taken when they come.  Each time the pool of
 * slots doubles, the old and the new one exist for a moment, which is what the
 * reservation is for.  sluice's own budget is common/split/pool_split.h.
 *
 * Threading, memory: pure functions. */
#ifndef CLIENT_CTL_PLAN_BUDGET_H
#define CLIENT_CTL_PLAN_BUDGET_H

#include <stdint.h>

#include "common/base/status.h"

#define BUDGET_FRACTION   0.9
#define BUDGET_OVERHEAD   (UINT64_C(800) << 20)
#define BUDGET_BLOCKS_MIN 16

struct plan_budget_paged {
    uint64_t limit, model_bytes, overhead_bytes;
    double fraction;
    uint64_t slot_bytes; /* states of one sequence; 0: none */
    uint32_t max_rows;
    uint64_t block_bytes; /* all layers, at least 1 */
};

struct plan_budget_result {
    int64_t base_bytes, cache_bytes;
    uint32_t reserved_slots;
    uint64_t n_blocks;
};

/* Divides the memory.  Returns ST_RESOURCE_EXHAUSTED for fewer than
 * BUDGET_BLOCKS_MIN blocks, with every figure in the sentence. */
MUST_CHECK enum status plan_budget_divide(struct plan_budget_result *out,
                                          const struct plan_budget_paged *b,
                                          struct error *e);

#endif
