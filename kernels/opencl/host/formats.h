/* formats.h - Formats of the KV cache, layer by layer of the shard.
 *
 * Threading: as opencl.h.  Memory: pure functions. */
#ifndef KERNELS_OPENCL_HOST_FORMATS_H
#define KERNELS_OPENCL_HOST_FORMATS_H

#include "kernels/opencl/host/opencl.h"

/* Returns the format of the cache of a layer of the shard. */
struct kv_format opencl_kv_format(const struct opencl *c, uint32_t layer);
bool opencl_is_quantised(const struct opencl *c, uint32_t layer);

/* Lays out a block of a layer with format f. */
struct kv_block opencl_kv_block(const struct opencl *c,
                                const struct kv_format *f);

/* Returns the least bytes of keys and values of a layer that rows [first, end)
 * of the step read. */
uint64_t opencl_context_bytes(const struct opencl *c, uint32_t layer,
                              uint32_t first, uint32_t end);

#endif
