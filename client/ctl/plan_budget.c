#include "client/ctl/plan_budget.h"

#include <inttypes.h>
#include <stdio.h>

#define GB 1e9
#define MB 1e6

/* Writes the part about states, which models without linear layers lack. */
static void states_text(char out[160], const struct plan_budget_paged *b,
                        uint32_t slots)
{
    if (b->slot_bytes == 0) {
        out[0] = '\0';
        return;
    }
    snprintf(out, 160,
             "hybrid_gdn_state=lazy, growth_peak_reserve=%.2fGB, %.1fMB/seq * "
             "peak_slots=%u/max_num_seqs=%u, ",
             (double)(b->slot_bytes * slots) / GB, (double)b->slot_bytes / MB,
             slots, b->max_rows);
}

static enum status too_small(const struct plan_budget_paged *b,
                             const struct plan_budget_result *r,
                             struct error *e)
{
    char states[160];

    states_text(states, b, r->reserved_slots);
    return error_set(
        e, ST_RESOURCE_EXHAUSTED,
        "%" PRIu64 " blocks, at least %d are needed: limit=%.2fGB, "
        "fraction=%.2f, model=%.2fGB, overhead=%.2fGB, "
        "kv_budget_before_hybrid=%.2fGB, %skv_budget=%.2fGB, "
        "per_block=%" PRIu64 "; raise the memory fraction%s",
        r->n_blocks, BUDGET_BLOCKS_MIN, (double)b->limit / GB, b->fraction,
        (double)b->model_bytes / GB, (double)b->overhead_bytes / GB,
        (double)r->base_bytes / GB, states, (double)r->cache_bytes / GB,
        b->block_bytes, b->slot_bytes > 0 ? " or lower --max-num-seqs" : "");
}

enum status plan_budget_divide(struct plan_budget_result *out,
                               const struct plan_budget_paged *b,
                               struct error *e)
{
    uint32_t rows = b->max_rows < 2 ? b->max_rows : 2;

    *out = (struct plan_budget_result){
        .base_bytes = (int64_t)((double)b->limit * b->fraction) -
                      (int64_t)b->model_bytes - (int64_t)b->overhead_bytes,
        .reserved_slots = b->slot_bytes > 0 ? 2 * rows - 1 : 0};
    out->cache_bytes =
        out->base_bytes - (int64_t)(b->slot_bytes * out->reserved_slots);
    out->n_blocks =
        out->cache_bytes > 0 ? (uint64_t)out->cache_bytes / b->block_bytes : 0;
    return out->n_blocks >= BUDGET_BLOCKS_MIN ? ST_OK : too_small(b, out, e);
}
