/* page_unit.h - The unit of a pool: a page, and the pages of a slot.
 *
 * A block is one page.  A slot takes whole pages.  A shard without attention
 * layers has no blocks, and a page is a slot; without linear layers it has no
 * slots.  common/model/page_layout.h places the layers in pages.
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
};

/* Returns bytes rounded up to a multiple of PAGE_ALIGN. */
uint64_t page_align(uint64_t bytes);

/* Returns the unit of a shard.  block_bytes is the sum of the aligned bytes of
 * a block over the attention layers, slot_bytes that of a slot over the linear
 * ones; not both are 0. */
struct page_unit page_unit_of(uint64_t block_bytes, uint64_t slot_bytes);

#endif
