#include "common/split/page_unit.h"

#include <assert.h>

#include "common/base/minmax.h"

uint64_t page_align(uint64_t bytes)
{
    return (bytes + PAGE_ALIGN - 1) / PAGE_ALIGN * PAGE_ALIGN;
}

struct page_unit page_unit_make(const struct page_parts *p)
{
    uint64_t windows = p->window_bytes * p->n_window, page;
    struct page_unit u = {.pages_per_block = p->block_bytes > 0 ? 1 : 0};

    page = p->block_bytes > 0
               ? max_u64(p->block_bytes, p->n_window > 0 ? p->window_bytes : 0)
           : windows > 0 ? windows
                         : p->slot_bytes;
    assert(page > 0);
    u.page_bytes = page;
    u.pages_per_slot = (p->slot_bytes + page - 1) / page;
    if (windows > 0) {
        uint64_t layers = page / p->window_bytes; /* of one page */

        u.window_pages = (p->n_window + layers - 1) / layers;
    }
    return u;
}
