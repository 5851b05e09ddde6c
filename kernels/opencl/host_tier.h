/* host_tier.h - pages in pinned memory of the host, beside the pool.
 *
 * Each group of the pool's layout has an area [n_host, page_bytes], cut into
 * pieces of whole pages.  A piece is one pinned buffer that stays mapped, so
 * copies are DMA transfers.  They run in the copy queue, beside steps that do
 * not use their pages (host/copies.h).
 *
 * Threading: as host/opencl.h.
 * Memory: only opencl_alloc_host() allocates. */
#ifndef KERNELS_OPENCL_HOST_TIER_H
#define KERNELS_OPENCL_HOST_TIER_H

#include "kernels/opencl/host/opencl.h"

/* Most bytes of a piece, unless one page is larger. */
#define OPENCL_TIER_PIECE ((uint64_t)256 << 20)

/* Allocate and copy as the calls of the same names in kernels.h do. */
enum status opencl_alloc_host(struct kernels *k, uint32_t n_pages,
                              struct error *e);
void opencl_page_out(struct kernels *k, uint32_t page, uint32_t host,
                     uint32_t n);
void opencl_page_in(struct kernels *k, uint32_t host, uint32_t page,
                    uint32_t n);

/* Frees the tier and the copy queue, after the last command has ended. */
void opencl_tier_free(struct opencl *c);

/* Sets the most bytes of a piece, for tests of copies across pieces. */
void opencl_tier_set_piece(uint64_t bytes);

#endif
