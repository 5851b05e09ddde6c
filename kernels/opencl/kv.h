/* kv.h - the defines that describe the cache of quantised layers to kernels.
 *
 * Threading, memory: pure functions. */
#ifndef KERNELS_OPENCL_KV_H
#define KERNELS_OPENCL_KV_H

#include "kernels/opencl/host/opencl.h"

#define OPENCL_KV_DEFINES_MAX 1536

/* Writes the defines of kv.cl for the shard's quantised layers.  Returns
 * ST_INTERNAL if they exceed OPENCL_KV_DEFINES_MAX. */
MUST_CHECK enum status opencl_kv_defines(const struct opencl *c,
                                         char out[OPENCL_KV_DEFINES_MAX],
                                         struct error *e);

#endif
