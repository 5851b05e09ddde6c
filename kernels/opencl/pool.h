/* pool.h - blocks, slots and checkpoints on the device; host/opencl.h describes
 * their layout.
 *
 * Threading: as opencl.h.
 * Memory: only opencl_alloc() allocates. */
#ifndef KERNELS_OPENCL_POOL_H
#define KERNELS_OPENCL_POOL_H

#include "kernels/opencl/host/memory.h"

/* Return the bytes of one layer: of a block, a slot's state, a slot's tail. */
size_t opencl_kv_bytes(const struct opencl *c);
size_t opencl_state_bytes(const struct opencl *c);
size_t opencl_tail_bytes(const struct opencl *c);

/* Allocate, reset and copy as the calls of the same names in kernels.h do. */
enum status opencl_alloc(struct kernels *k, uint32_t n_blocks, uint32_t n_slots,
                         uint32_t n_checkpoints, struct error *e);
void opencl_zero_slot(struct kernels *k, uint32_t slot);
void opencl_save_slot(struct kernels *k, uint32_t slot, uint32_t checkpoint);
void opencl_load_slot(struct kernels *k, uint32_t checkpoint, uint32_t slot);
void opencl_block_copy(struct kernels *k, uint32_t layer, uint32_t block,
                       void *kv, bool write);
void opencl_slot_copy(struct kernels *k, uint32_t layer, uint32_t slot,
                      float *state, void *tail, bool write);

#endif
