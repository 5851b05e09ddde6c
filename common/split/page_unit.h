/* page_unit.h - The unit of a pool: a page, and the pages of a slot and of a
 * window block.
 *
 * A block is one page.  A slot takes whole pages.  A window block takes whole
 * pages too, with each window layer in one of them, so that a page is at least
 * as large as a window layer's part.  A shard without attention layers has no
 * blocks, and a page is a window block, or without window layers a slot.
 * common/model/page_layout.h places the layers in pages.
 *
 * The query at position p of a window layer sees positions p - window + 1..p.
 * A sequence holds the blocks of the window of its next position and of the
 * tokens of one step:
 *
 *     window blocks(n) = min(ceil(n / block_tokens),
 *                            ceil((window + chunk) / block_tokens) + 1)
 *
 * Threading, memory: pure functions. */
#ifndef COMMON_SPLIT_PAGE_UNIT_H
#define COMMON_SPLIT_PAGE_UNIT_H

#include <stdint.h>

#define PAGE_ALIGN 64 /* bytes: every offset and page_bytes is a multiple */

struct page_unit {
    uint64_t page_bytes;
    uint64_t pages_per_slot;  /* 0: no linear layer */
    uint32_t pages_per_block; /* 1; 0: no attention layer */
    uint64_t window_pages;    /* a window block's; 0: no window layer */
};

/* The parts that one sequence stores in the layers of a shard, each aligned
 * with page_align(). */
struct page_parts {
    uint64_t block_bytes;  /* a block's, summed over the attention layers */
    uint64_t slot_bytes;   /* a slot's, summed over the linear layers */
    uint64_t window_bytes; /* a window block's in one window layer */
    uint32_t n_window;     /* window layers */
};

/* Returns bytes rounded up to a multiple of PAGE_ALIGN. */
uint64_t page_align(uint64_t bytes);

/* Returns the unit of a shard.  It has a layer. */
struct page_unit page_unit_make(const struct page_parts *p);

/* Returns the window blocks of a sequence of n tokens: the formula above. */
static inline uint64_t page_window_blocks(uint32_t window, uint32_t chunk,
                                          uint32_t block_tokens, uint64_t n)
{
    uint64_t all = (n + block_tokens - 1) / block_tokens;
    uint64_t span = (uint64_t)window + chunk;
    uint64_t most = (span + block_tokens - 1) / block_tokens + 1;

    return all < most ? all : most;
}

#endif
