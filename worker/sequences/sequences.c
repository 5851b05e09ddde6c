#include "worker/sequences/sequences.h"

#include <string.h>

/* Returns how many sequences can hold memory at once: each has at least a
 * block and a slot. */
static uint32_t live_max(const struct worker_options *o)
{
    uint32_t n = UINT32_MAX;

    n = o->n_blocks > 0 && o->n_blocks < n ? o->n_blocks : n;
    n = o->n_slots > 0 && o->n_slots < n ? o->n_slots : n;
    return n;
}

/* The table also holds finished sequences that are not acknowledged yet: three
 * times as many as can be live.  Its arrays hold the ids of all live sequences
 * twice, and the number of every block.  The rings hold logprobs as if every
 * sequence had requested the most. */
static struct sequence_limits table_limits(const struct worker_options *o,
                                           uint64_t seed)
{
    uint64_t live = live_max(o);
    uint64_t capacity = 4 * live + 16;
    uint64_t ids = live * o->context;
    uint64_t in_blocks = (uint64_t)o->n_blocks * o->block_tokens;

    if (capacity > WORKER_SEQUENCES_MAX) {
        capacity = WORKER_SEQUENCES_MAX;
    }
    if (o->n_blocks > 0 && in_blocks < ids) {
        ids = in_blocks;
    }
    return (struct sequence_limits){.capacity = (uint32_t)capacity,
                                    .longest = o->context + 1,
                                    .values = 2 * ids + o->n_blocks,
                                    .n_rings = (uint32_t)capacity,
                                    .hash_seed = seed};
}

bool sequences_init(struct sequences *q, struct worker_base *b,
                    uint32_t n_batches)
{
    const struct worker_options *o = &b->o;
    struct pool_need total = {{o->n_blocks, o->n_slots, o->n_checkpoints}};
    struct pool_need pages = {
        {o->pages_per_block, o->pages_per_slot, o->pages_per_checkpoint}};
    struct sequence_limits sl = table_limits(o, b->io->random(b->io));
    struct batcher_limits bl = {.max_rows = o->max_rows,
                                .step_tokens = o->step_tokens,
                                .chunk_tokens = o->chunk_tokens,
                                .depth = o->engine_depth,
                                .batches = n_batches,
                                .block_tokens = o->block_tokens,
                                .n_blocks = o->n_blocks,
                                .n_slots = o->n_slots};

    memset(q, 0, offsetof(struct sequences, output));
    q->output.n_rows =
        0; /* report_send() compares it before the first output */
    q->base = b;
    q->out.link = LIST_OUT;
    timers_init(&q->timers);
    return pool_init(&q->pool, &total, &pages) &&
           sequence_table_init(&q->table, &sl, &q->pool) &&
           ledger_init(&q->ledger, &q->pool) &&
           batcher_init(&q->batcher, &bl, &q->table);
}

void sequences_fini(struct sequences *q)
{
    timers_fini(&q->timers);
    batcher_fini(&q->batcher);
    ledger_fini(&q->ledger);
    sequence_table_fini(&q->table);
    pool_fini(&q->pool);
}
