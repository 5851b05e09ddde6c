#include "common/split/page_unit.h"

#include <assert.h>

uint64_t page_align(uint64_t bytes)
{
    return (bytes + PAGE_ALIGN - 1) / PAGE_ALIGN * PAGE_ALIGN;
}

struct page_unit page_unit_of(uint64_t block_bytes, uint64_t slot_bytes)
{
    uint64_t page = block_bytes > 0 ? block_bytes : slot_bytes;

    assert(page > 0);
    return (struct page_unit){.page_bytes = page,
                              .pages_per_slot = (slot_bytes + page - 1) / page,
                              .pages_per_block = block_bytes > 0 ? 1 : 0};
}
