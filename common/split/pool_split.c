#include "common/split/pool_split.h"

#include <assert.h>

#define MIB (1024.0 * 1024.0)

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t pool_split_blocks(const struct pool_split_need *n, uint32_t tokens)
{
    return n->block_bytes == 0
               ? 0
               : ((uint64_t)tokens + n->block_tokens - 1) / n->block_tokens;
}

uint64_t pool_split_sequence(const struct pool_split_need *n, uint32_t tokens)
{
    return n->slot_bytes + pool_split_blocks(n, tokens) * n->block_bytes;
}

uint64_t pool_split_least(const struct pool_split_need *n)
{
    uint64_t more = n->slots > 1 ? n->slots - 1 : 0;

    return pool_split_sequence(n, n->context) + more * n->slot_bytes;
}

static uint32_t typical_tokens(const struct pool_split_need *n)
{
    uint32_t quarter = n->context / 4 + (n->context % 4 > 0);

    return (uint32_t)least(quarter, POOL_TYPICAL_TOKENS);
}

/* Sequences that may hold memory at the same time.  Where fewer than max_rows
 * typical ones fit, slots are limited so that the blocks of one whole sequence
 * still do. */
static uint64_t slots_for(const struct pool_split_need *n, uint64_t pool)
{
    uint64_t blocks = pool_split_blocks(n, n->context) * n->block_bytes;
    uint64_t typical = pool / pool_split_sequence(n, typical_tokens(n));

    if (n->slots > 0) {
        return n->slots;
    }
    return least(n->max_rows, least(typical, (pool - blocks) / n->slot_bytes));
}

struct pool_split pool_split_make(const struct pool_split_need *n,
                                  uint64_t bytes)
{
    struct pool_split s = {0};
    uint64_t blocks, sequences = n->max_rows;

    assert(pool_split_sequence(n, n->context) > 0);
    assert(bytes >= pool_split_least(n));
    if (n->slot_bytes > 0) {
        s.n_slots = (uint32_t)slots_for(n, bytes);
        sequences = s.n_slots;
    }
    if (n->block_bytes > 0) {
        blocks = least((bytes - s.n_slots * n->slot_bytes) / n->block_bytes,
                       sequences * pool_split_blocks(n, n->context));
        s.n_blocks = (uint32_t)least(blocks, UINT32_MAX);
    }
    s.bytes = s.n_slots * n->slot_bytes + s.n_blocks * n->block_bytes;
    return s;
}

uint64_t pool_split_sequences(const struct pool_split_need *n,
                              const struct pool_split *s, uint32_t tokens)
{
    uint64_t slots = n->slot_bytes > 0 ? s->n_slots : UINT64_MAX;

    return n->block_bytes > 0
               ? least(slots, s->n_blocks / pool_split_blocks(n, tokens))
               : slots;
}

/* Returns the sentence for a number of slots that leaves no room, although one
 * sequence would fit. */
static enum status too_many_slots(const struct pool_budget *b, uint64_t bytes,
                                  struct error *e)
{
    const struct pool_split_need *n = &b->pool;
    uint64_t fixed = b->weight_bytes + b->scratch_bytes;
    uint64_t one = pool_split_sequence(n, n->context);

    return error_set(
        e, ST_RESOURCE_EXHAUSTED,
        "--slots %u: the slots take %.1f MiB, and a budget of %.1f MiB has no "
        "room left for the blocks of one sequence of %u tokens (%.1f MiB); "
        "give at most %llu slots, a larger --memory or a shorter --context",
        n->slots, (double)n->slots * (double)n->slot_bytes / MIB,
        (double)bytes / MIB, n->context, (double)(one - n->slot_bytes) / MIB,
        (unsigned long long)((bytes - fixed - (one - n->slot_bytes)) /
                             n->slot_bytes));
}

enum status pool_split_budget(struct pool_split *out,
                              const struct pool_budget *b, uint64_t bytes,
                              struct error *e)
{
    uint64_t fixed = b->weight_bytes + b->scratch_bytes;
    uint64_t one = pool_split_sequence(&b->pool, b->pool.context);

    if (bytes >= fixed + pool_split_least(&b->pool)) {
        *out = pool_split_make(&b->pool, bytes - fixed);
        return ST_OK;
    }
    if (bytes >= fixed + one) {
        return too_many_slots(b, bytes, e);
    }
    return error_set(
        e, ST_RESOURCE_EXHAUSTED,
        "the memory budget of %.1f MiB is too small: weights take %.1f MiB, "
        "scratch %.1f MiB, one sequence of %u tokens %.1f MiB; give at least "
        "%.1f MiB with --memory, or a shorter --context",
        (double)bytes / MIB, (double)b->weight_bytes / MIB,
        (double)b->scratch_bytes / MIB, b->pool.context, (double)one / MIB,
        (double)(fixed + one) / MIB);
}
