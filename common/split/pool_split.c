#include "common/split/pool_split.h"

#include <assert.h>

#include "common/base/minmax.h"
#include "common/split/page_unit.h"
#include "proto/limits.h"

#define MIB (1024.0 * 1024.0)

uint64_t pool_split_blocks(const struct pool_split_need *n, uint32_t tokens)
{
    return n->pages_per_block == 0
               ? 0
               : ((uint64_t)tokens + n->block_tokens - 1) / n->block_tokens;
}

uint64_t pool_split_windows(const struct pool_split_need *n, uint32_t tokens)
{
    return n->window_pages == 0
               ? 0
               : n->window_pages * page_window_blocks(n->window_tokens,
                                                      n->chunk_tokens,
                                                      n->block_tokens, tokens);
}

uint64_t pool_split_pages(const struct pool_split_need *n, uint32_t tokens)
{
    return n->pages_per_slot + pool_split_blocks(n, tokens) +
           pool_split_windows(n, tokens);
}

uint64_t pool_split_sequence(const struct pool_split_need *n, uint32_t tokens)
{
    return pool_split_pages(n, tokens) * n->page_bytes;
}

uint64_t pool_split_least(const struct pool_split_need *n)
{
    return pool_split_sequence(n, n->context);
}

struct pool_split pool_split_make(const struct pool_split_need *n,
                                  uint64_t bytes)
{
    struct pool_split s = {0};
    uint32_t cap = n->slots > 0 ? n->slots : n->max_rows;

    assert(n->page_bytes > 0 && pool_split_pages(n, n->context) > 0);
    assert(bytes >= pool_split_least(n));
    s.n_pages =
        (uint32_t)min_u64(bytes / n->page_bytes,
                          n->pages_max > 0 ? n->pages_max : SHARD_CLASS_MAX);
    if (n->pages_per_slot > 0) {
        s.slot_cap = (uint32_t)min_u64(cap, s.n_pages / n->pages_per_slot);
    }
    s.bytes = s.n_pages * n->page_bytes;
    return s;
}

uint64_t pool_split_sequences(const struct pool_split_need *n,
                              const struct pool_split *s, uint32_t tokens)
{
    uint64_t fit = s->n_pages / pool_split_pages(n, tokens);

    return n->pages_per_slot > 0 ? min_u64(s->slot_cap, fit) : fit;
}

double pool_split_waste(const struct pool_split_need *n,
                        const struct pool_split *s, uint32_t tokens,
                        uint64_t useful)
{
    uint64_t fit = s->n_pages / pool_split_pages(n, tokens);

    return fit > 0 ? 1 - (double)fit * (double)useful / (double)s->bytes : 0;
}

enum status pool_split_budget(struct pool_split *out,
                              const struct pool_budget *b, uint64_t bytes,
                              struct error *e)
{
    uint64_t fixed = b->weight_bytes + b->scratch_bytes;
    uint64_t one = pool_split_least(&b->pool);
    uint64_t pages = pool_split_pages(&b->pool, b->pool.context);

    if (b->pool.pages_max > 0 && b->pool.pages_max < pages) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "the device's largest allocation holds %u pages, but "
                         "one sequence of %u tokens takes %llu; give a shorter "
                         "--context",
                         b->pool.pages_max, b->pool.context,
                         (unsigned long long)pages);
    }
    if (bytes >= fixed + one) {
        *out = pool_split_make(&b->pool, bytes - fixed);
        return ST_OK;
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
