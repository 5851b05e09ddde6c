#include "worker/sequences/sequences.h"

#include <string.h>

#include "common/base/minmax.h"
#include "worker/sequence/windows.h"

/* Returns how many sequences can hold memory at once: each has at least a
 * block and a slot of its own. */
static uint32_t live_max(const struct worker_options *o)
{
    uint32_t slots;

    if (o->pool.pages_per_slot == 0) {
        return o->pool.n_pages;
    }
    slots = o->pool.n_pages / o->pool.pages_per_slot;
    return o->pool.slot_cap > 0 ? min_u32(o->pool.slot_cap, slots) : slots;
}

/* How many sequences of the full pool one block may be shared by, for the
 * memory of ids and tables: beyond it, Submits are refused. */
#define SHARED_MAX 8

/* Returns the entries of all window tables. */
static uint64_t window_values(const struct worker_options *o,
                              const struct window_rules *r)
{
    uint64_t one = (uint64_t)windows_blocks(r, o->context) * r->pages;
    uint64_t all = live_max(o) * one,
             pool = (uint64_t)SHARED_MAX * o->pool.n_pages;

    return all < pool ? all : pool;
}

/* Returns the most ids of live sequences where only windows bound them: short
 * sequences, or those of the whole context, which hold a part of it. */
static uint64_t windows_ids(const struct worker_options *o,
                            const struct window_rules *r)
{
    uint64_t one = (uint64_t)windows_blocks(r, o->context) * r->pages;
    uint64_t in_blocks = (uint64_t)o->pool.n_pages * o->block_tokens;
    uint64_t in_contexts = (o->pool.n_pages / one + 1) * o->context;

    return in_blocks > in_contexts ? in_blocks : in_contexts;
}

/* Returns the values of the longest array: ids, or the tables of windows. */
static uint32_t longest(const struct worker_options *o,
                        const struct window_rules *r)
{
    uint32_t ids = o->context + 1, one = windows_blocks(r, o->context);

    return one * r->pages > ids ? one * r->pages : ids;
}

/* Returns how many kept sequences the host tier holds, each with a slot, while
 * the table has `capacity` entries for others. */
static uint32_t away_max(const struct worker_options *o, uint64_t capacity)
{
    uint64_t most = WORKER_SEQUENCES_MAX - capacity;
    uint64_t n = o->pool.pages_per_slot > 0
                     ? o->pool.host_pages / o->pool.pages_per_slot
                     : 0;

    return (uint32_t)min_u64(n, most);
}

/* Returns the values of so many sequences of the whole context: ids, and tables
 * of blocks and windows. */
static uint64_t away_values(const struct worker_options *o,
                            const struct window_rules *r, uint64_t n)
{
    uint64_t blocks =
        o->pool.pages_per_block > 0 ? o->context / o->block_tokens : 0;

    return n * (o->context + blocks +
                (uint64_t)windows_blocks(r, o->context) * r->pages);
}

/* The table also holds finished sequences that are not acknowledged yet: three
 * times as many as can be live.  Its arrays hold the ids of all live sequences
 * twice, and their tables.  Kept sequences in the host tier come on top of
 * that, because they hold nothing of the pool and nothing else bounds them.
 * The rings hold logprobs as if every sequence had requested the most. */
static struct sequence_limits table_limits(const struct worker_options *o,
                                           uint64_t seed)
{
    uint64_t live = live_max(o);
    uint64_t capacity = 4 * live + 16;
    uint64_t ids = live * o->context;
    uint64_t in_blocks = (uint64_t)o->pool.n_pages * o->block_tokens;
    bool has_blocks = o->pool.pages_per_block > 0;
    struct window_rules w = windows_rules(o);
    uint64_t away;

    capacity = min_u64(capacity, WORKER_SEQUENCES_MAX);
    away = away_max(o, capacity);
    if (has_blocks && SHARED_MAX * in_blocks < ids) {
        ids = SHARED_MAX * in_blocks;
    }
    if (!has_blocks && w.pages > 0) {
        ids = min_u64(ids, windows_ids(o, &w));
    }
    return (struct sequence_limits){
        .capacity = (uint32_t)(capacity + away),
        .away = (uint32_t)away,
        .longest = longest(o, &w),
        .values = 2 * ids + (has_blocks ? ids / o->block_tokens : 0) +
                  window_values(o, &w) + away_values(o, &w, away),
        .n_rings = (uint32_t)(capacity + away),
        .hash_seed = seed,
        .windows = w};
}

static struct pool_options pool_of(const struct worker_options *o)
{
    return (struct pool_options){
        .n_pages = o->pool.n_pages,
        .pages_per = {o->pool.pages_per_block, o->pool.pages_per_slot,
                      o->pool.pages_per_slot, o->pool.window_pages > 0 ? 1 : 0},
        .slot_cap = o->pool.slot_cap};
}

bool sequences_init(struct sequences *q, struct worker_base *b,
                    uint32_t n_batches)
{
    const struct worker_options *o = &b->o;
    struct pool_options po = pool_of(o);
    struct sequence_limits sl = table_limits(o, b->io->random(b->io));
    struct batcher_limits bl = batch_limits(o, n_batches);

    memset(q, 0, offsetof(struct sequences, output));
    q->output.n_rows =
        0; /* report_send() compares it before the first output */
    q->base = b;
    q->out.link = LIST_OUT;
    timers_init(&q->timers);
    suspend_init(q);
    if (!pool_init(&q->pool, &po, o->pool.poison) ||
        !host_init(&q->host, o->pool.host_pages) ||
        !sequence_table_init(&q->table, &sl, &q->pool)) {
        return false;
    }
    q->table.host = &q->host;
    return reuse_init(&q->reuse, o, &q->table, &q->role) &&
           ledger_init(&q->ledger, &q->pool, q->reuse.index) &&
           batcher_init(&q->batcher, &bl, &q->table, &q->reuse);
}

void sequences_fini(struct sequences *q)
{
    timers_fini(&q->timers);
    batcher_fini(&q->batcher);
    ledger_fini(&q->ledger);
    reuse_fini(&q->reuse);
    sequence_table_fini(&q->table);
    host_fini(&q->host);
    pool_fini(&q->pool);
}
