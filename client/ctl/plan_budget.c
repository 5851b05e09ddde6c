#include "client/ctl/plan_budget.h"

#include <inttypes.h>
#include <stdio.h>

#define GB 1e9
#define MB 1e6

uint64_t plan_budget_unpaged(uint64_t limit, uint64_t model_bytes)
{
    uint64_t left = limit > model_bytes ? limit - model_bytes : 0;

    return left / 5 * 4 + left % 5 * 4 / 5;
}

uint64_t plan_budget_sequence_bytes(const struct plan_budget_sequence *s)
{
    uint64_t blocks =
        ((uint64_t)s->n_tokens + s->block_tokens - 1) / s->block_tokens;
    uint64_t linear =
        s->padded_bytes > 0 ? s->n_linear * s->padded_bytes : s->linear_bytes;

    return s->n_attention * blocks * s->block_tokens * s->token_bytes + linear;
}

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

uint64_t plan_budget_saving_block(uint64_t kv_bytes, uint64_t layer_state_bytes,
                                  uint32_t n_pools)
{
    return kv_bytes + (n_pools + UINT64_C(1)) * layer_state_bytes;
}
