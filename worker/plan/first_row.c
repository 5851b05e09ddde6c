#include "worker/plan/first_row.h"

#include "common/base/plant.h"
#include "worker/sequence/windows.h"

/* Copies the partly filled window block of a kept sequence. */
static void copy_windows(const struct batcher_limits *l,
                         const struct sequence_table *table, struct batch *t,
                         const struct sequence *s, const struct sequence *kept)
{
    struct pool *pool = table->pool;
    uint32_t last = s->plan.n_planned / l->block_tokens;

    for (uint32_t i = 0; i < table->windows.pages; i++) {
        struct plan_copy c = {
            .from = pool_page(pool, windows_page(table, kept, last, i)),
            .to = pool_page(pool, windows_page(table, s, last, i)),
            .n = 1};

        batch_copy(t, pool, c);
    }
}

/* Adds a page that comes back to the copies, or to the last one. */
static void copy_in(struct batch *t, struct pool *pool, struct plan_copy *run,
                    uint32_t host, uint32_t page)
{
    if (run->n > 0 && run->from + run->n == host && run->to + run->n == page) {
        run->n++;
        return;
    }
    if (run->n > 0) {
        batch_copy(t, pool, *run);
    }
    *run =
        (struct plan_copy){.from = host, .to = page, .n = 1, .kind = COPY_IN};
}

/* Brings a checkpoint of the index from the host tier to the slot of s. */
static uint32_t copy_state(const struct batcher_limits *l,
                           const struct sequence_table *table, struct batch *t,
                           const struct sequence *s, uint32_t host)
{
    uint32_t n = l->pages_per_slot - (PLANT(CACHED_STATE_ASTRAY) ? 1 : 0);
    struct plan_copy run = {.n = 0};

    for (uint32_t i = 0; i < n; i++) {
        copy_in(t, table->pool, &run, host, s->memory.slot + i);
        host = host_next(table->host, host);
    }
    if (run.n > 0) {
        batch_copy(t, table->pool, run);
    }
    t->n_swapped += n;
    return n;
}

uint32_t first_row_copy(const struct batcher_limits *l,
                        const struct sequence_table *table, struct batch *t,
                        const struct sequence *s, const struct first_row *from)
{
    struct pool *pool = table->pool;
    struct plan_copy c;
    uint32_t n_host = 0;

    if (from->state.checkpoint != SLOT_NONE && !PLANT(RESTORED_WITHOUT_COPY)) {
        c = (struct plan_copy){.from = from->state.checkpoint,
                               .to = s->memory.slot,
                               .n = l->pages_per_slot};
        batch_copy(t, pool, c);
    }
    if (from->state.host != HOST_NONE && l->pages_per_slot > 0) {
        n_host = copy_state(l, table, t, s, from->state.host);
    }
    if (from->kept.windows != NULL) {
        copy_windows(l, table, t, s, from->kept.windows);
    }
    if (from->kept.block != PLACE_NONE) {
        uint32_t last = s->plan.n_planned / l->block_tokens;
        uint32_t own = paged_get(&table->slab, &s->memory.blocks, last);

        c = (struct plan_copy){.from = pool_page(pool, from->kept.block),
                               .to = pool_page(pool, own),
                               .n = 1};
        batch_copy(t, pool, c);
    }
    return n_host;
}

/* Takes the slot and the blocks that s has in the host tier. */
static bool take_back(const struct batcher_limits *l,
                      struct sequence_table *table, struct sequence *s)
{
    struct pool *pool = table->pool;
    uint32_t n =
        s->memory.n_host - l->pages_per_slot - s->memory.n_host_windows;
    uint32_t block;

    /* The slot first: it may move blocks, and then those of s stay. */
    if (l->pages_per_slot > 0 &&
        !pool_take(pool, POOL_SLOTS, 1, &s->memory.slot)) {
        return false;
    }
    for (; n > 0; n--) {
        if (!pool_take(pool, POOL_BLOCKS, 1, &block)) {
            return false;
        }
        paged_write(&table->slab, &s->memory.blocks, s->memory.n_blocks++,
                    &block, 1);
    }
    return windows_restore(table, s);
}

bool first_row_bring_in(const struct batcher_limits *l,
                        struct sequence_table *table, struct batch *t,
                        struct sequence *s)
{
    struct pool *pool = table->pool;
    uint32_t n_slot = l->pages_per_slot, host = s->memory.host;
    uint32_t first = s->memory.n_blocks;
    struct plan_copy run = {.n = 0};

    if (!take_back(l, table, s)) {
        return false;
    }
    for (uint32_t i = 0; i < s->memory.n_host - s->memory.n_host_windows; i++) {
        uint32_t at = first + i - n_slot;

        if (PLANT(SWAP_ASTRAY) && i >= n_slot) {
            at = s->memory.n_blocks - 1 - (i - n_slot);
        } else if (PLANT(SWAP_SHARED) && i >= n_slot) {
            at = i - n_slot;
        }
        uint32_t page = i < n_slot
                            ? s->memory.slot + i
                            : pool_page(pool, paged_get(&table->slab,
                                                        &s->memory.blocks, at));

        copy_in(t, pool, &run, host, page);
        host = host_next(table->host, host);
    }
    for (uint32_t i = 0; i < s->memory.n_host_windows; i++) {
        copy_in(t, pool, &run, host, pool_page(pool, windows_nth(table, s, i)));
        host = host_next(table->host, host);
    }
    batch_copy(t, pool, run);
    t->n_swapped += s->memory.n_host;
    suspension_copies(&s->suspension, t->plan.step);
    sequence_give_host(table, s);
    return true;
}
