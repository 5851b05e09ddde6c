/* pool.h - the pool's pages on the device; host/opencl.h describes their
 * layout.
 *
 * Threading: as opencl.h.
 * Memory: only opencl_alloc() allocates. */
#ifndef KERNELS_OPENCL_POOL_H
#define KERNELS_OPENCL_POOL_H

#include "kernels/opencl/host/memory.h"

/* Return the bytes of one layer: of a plain block, a slot's state, a slot's
 * tail. */
size_t opencl_kv_bytes(const struct opencl *c);
size_t opencl_state_bytes(const struct opencl *c);
size_t opencl_tail_bytes(const struct opencl *c);

/* Computes c->cache.pages, the layout of the shard's layers. */
void opencl_pool_layout(struct opencl *c);

/* Returns the most pages that opencl_alloc() takes: each group is one
 * allocation. */
uint32_t opencl_pool_most(const struct opencl *c);

/* Allocate, reset and copy as the calls of the same names in kernels.h do. */
enum status opencl_alloc(struct kernels *k, uint32_t n_pages, struct error *e);
void opencl_zero_slot(struct kernels *k, uint32_t slot);
void opencl_copy_pages(struct kernels *k, uint32_t from, uint32_t to,
                       uint32_t n);
void opencl_poison_pages(struct kernels *k, uint32_t first, uint32_t n);
void opencl_block_copy(struct kernels *k, uint32_t layer, uint32_t block,
                       void *kv, bool write);
void opencl_slot_copy(struct kernels *k, uint32_t layer, uint32_t slot,
                      uint32_t part, void *data, bool write);

#endif
