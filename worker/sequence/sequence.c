#include "worker/sequence/sequence.h"

#include "common/base/plant.h"
#include "worker/sequence/sequence_table.h"
#include "worker/sequence/windows.h"

enum row_kind sequence_kind(const struct sequence *s, uint32_t at,
                            uint32_t *end)
{
    uint32_t to = 0;

    if (at >= s->portable.n_prompt) {
        *end = UINT32_MAX;
        return ROW_GENERATED;
    }
    /* Spans alternate and begin with prompt rows; positions after the last one
     * came with the prompt of the continuation. */
    for (uint32_t i = 0; i < s->portable.n_spans; i++) {
        to += s->portable.spans[i];
        if (at < to) {
            *end = to;
            return i % 2 == 0 ? ROW_PROMPT : ROW_GENERATED;
        }
    }
    *end = s->portable.n_prompt;
    return ROW_PROMPT;
}

/* ---- memory ---- */

void sequence_give_back(struct sequence_table *t, struct sequence *s)
{
    struct pool_need promised = s->memory.need;
    bool leak = PLANT(CANCEL_LEAKS) && s->finish == FINISH_CANCELLED;

    for (uint32_t i = leak; i < s->memory.n_blocks; i++) {
        uint32_t block = paged_get(&t->slab, &s->memory.blocks, i);

        if (PLANT(REFERENCE_TWICE) && t->pool->blocks[block].refs > 1) {
            pool_release(t->pool, POOL_BLOCKS, block);
        }
        pool_release(t->pool, POOL_BLOCKS, block);
    }
    promised.n[POOL_BLOCKS] -= s->memory.n_blocks;
    promised.n[POOL_WINDOWS] -= s->memory.n_windows * t->windows.pages;
    windows_release(t, s);
    if (s->memory.slot != SLOT_NONE) {
        pool_release(t->pool, POOL_SLOTS, s->memory.slot);
        promised.n[POOL_SLOTS]--;
    }
    /* Memory that was granted and never taken is freed with the rest. */
    pool_ungrant(t->pool, &promised);
    s->memory.need = (struct pool_need){0};
    s->memory.n_blocks = 0;
    s->memory.slot = SLOT_NONE;
}

void sequence_give_host(struct sequence_table *t, struct sequence *s)
{
    if (s->memory.n_host > 0 && !PLANT(HOST_LEAKS)) {
        host_give(t->host, s->memory.host);
    }
    s->memory.host = HOST_NONE;
    s->memory.n_host = s->memory.n_host_windows = 0;
    if (kept_is_away(&s->kept)) {
        kept_move(t, s, KEPT_HERE);
    }
}

void sequence_release(struct sequence_table *t, struct sequence *s)
{
    sequence_give_back(t, s);
    sequence_give_host(t, s);
    paged_free(&t->slab, &s->memory.blocks);
    paged_free(&t->slab, &s->memory.windows);
}
