/* pool.h - blocks, slots and checkpoints on the device; opencl.h has their
 * layout.
 *
 * Threading: as opencl.h.  Memory: opencl_alloc() only. */
#ifndef KERNELS_OPENCL_POOL_H
#define KERNELS_OPENCL_POOL_H

#include "kernels/opencl/host/memory.h"

size_t opencl_kv_bytes(const struct opencl *c); /* of a block of a layer */
size_t opencl_state_bytes(const struct opencl *c);
size_t opencl_tail_bytes(const struct opencl *c);

/* As kernels.h says of the calls of the same names. */
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
