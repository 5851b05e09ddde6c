#include "worker/sequences/batch.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/plant.h"

bool batch_init(struct batch *t, const struct batcher_limits *l)
{
    struct plan *p = &t->plan;
    /* No two sequences share a block, so one plan names each block at most
     * once. */
    size_t n_blocks = l->n_blocks > 0 ? l->n_blocks : 1;

    p->rows = malloc(l->max_rows * sizeof *p->rows);
    p->tokens = malloc(l->step_tokens * sizeof *p->tokens);
    p->blocks = malloc(n_blocks * sizeof *p->blocks);
    p->zero_slots = malloc(l->max_rows * sizeof *p->zero_slots);
    t->owners = malloc(l->max_rows * sizeof *t->owners);
    return p->rows != NULL && p->tokens != NULL && p->blocks != NULL &&
           p->zero_slots != NULL && t->owners != NULL;
}

void batch_fini(struct batch *t)
{
    free(t->plan.rows);
    free(t->plan.tokens);
    free(t->plan.blocks);
    free(t->plan.zero_slots);
    free(t->owners);
    memset(t, 0, sizeof *t);
}

void batch_begin(struct batch *t, uint64_t step)
{
    t->n_prompt_tokens = 0;
    t->plan.step = step;
    t->plan.n_rows = t->plan.n_tokens = 0;
    t->plan.n_blocks = t->plan.n_zero = 0;
}

bool batch_take_memory(const struct batcher_limits *l,
                       struct sequence_table *table, struct plan *p,
                       struct sequence *s, uint32_t end)
{
    struct pool *pool = table->pool;
    uint32_t bt = l->block_tokens;
    uint32_t want = l->n_blocks > 0 ? (end + bt - 1) / bt : 0;

    /* Blocks are taken only as positions are reached; the rest of the grant
     * stays a promise without numbers. */
    while (s->n_blocks < want) {
        uint32_t block;

        if (s->n_blocks >= s->need.n[POOL_BLOCKS] ||
            !pool_take(pool, POOL_BLOCKS, 1, &block)) {
            return false;
        }
        paged_write(&table->slab, &s->blocks, s->n_blocks++, &block, 1);
    }
    if (l->n_slots > 0 && s->slot == SLOT_NONE &&
        !pool_take(pool, POOL_SLOTS, 1, &s->slot)) {
        return false;
    }
    /* The recurrent state of the previous owner is still in the slot, or its
     * own one of before it is computed again. */
    if (l->n_slots > 0 && s->n_planned == 0 && !PLANT(SLOT_NOT_ZEROED) &&
        !(PLANT(RECOMPUTE_STALE) && s->recompute == RECOMPUTE_ALONE)) {
        p->zero_slots[p->n_zero++] = s->slot;
    }
    return true;
}

void batch_fill_table(const struct sequence_table *table, struct plan *p,
                      struct plan_row *row, const struct sequence *s)
{
    row->block = p->n_blocks;
    row->n_blocks = s->n_blocks;
    row->slot = s->slot;
    if (s->n_blocks > 0) {
        paged_read(&table->slab, &s->blocks, 0, &p->blocks[p->n_blocks],
                   s->n_blocks);
        p->n_blocks += s->n_blocks;
    }
}

struct plan_history batch_history(const struct sequence_table *table,
                                  const struct sequence *s)
{
    /* Only penalties read the history, so other rows do not carry it. */
    if (!sampling_penalises(&s->sampling)) {
        return (struct plan_history){.n = 0};
    }
    return (struct plan_history){
        .pages = paged_pages(&table->slab, &s->tokens),
        .n = sequence_known(s) - PLANT(HISTORY_STALE),
        .n_prompt = PLANT(HISTORY_SPLIT) ? s->n_announced : s->n_prompt};
}
