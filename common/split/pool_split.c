#include "common/split/pool_split.h"

#include <assert.h>

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

/* Sequences that may hold memory at the same time. */
static uint64_t rows_for(const struct pool_split_need *n, uint64_t pool)
{
    uint64_t whole = pool / pool_split_sequence(n, n->context);
    uint64_t quarter =
        pool / pool_split_sequence(n, n->context / 4 + (n->context % 4 > 0));

    /* Slots are limited so that the blocks of one whole sequence still fit. */
    if (n->slot_bytes > 0) {
        uint64_t blocks = pool_split_blocks(n, n->context) * n->block_bytes;

        quarter = least(quarter, (pool - blocks) / n->slot_bytes);
    }
    return least(n->max_rows, quarter > whole ? quarter : whole);
}

struct pool_split pool_split_make(const struct pool_split_need *n,
                                  uint64_t bytes)
{
    struct pool_split s = {0};
    uint64_t blocks;

    assert(pool_split_sequence(n, n->context) > 0);
    assert(bytes >= pool_split_sequence(n, n->context));
    if (n->slot_bytes > 0) {
        s.n_slots = (uint32_t)rows_for(n, bytes);
    }
    if (n->block_bytes > 0) {
        blocks = least((bytes - s.n_slots * n->slot_bytes) / n->block_bytes,
                       n->max_rows * pool_split_blocks(n, n->context));
        s.n_blocks = (uint32_t)least(blocks, UINT32_MAX);
    }
    s.bytes = s.n_slots * n->slot_bytes + s.n_blocks * n->block_bytes;
    return s;
}
