/* upload.h - the weights of a shard on the device.
 *
 * Matrices keep their dtype, and are fused as opencl.h says, or are made there
 * (noise.h); everything else is float32.  The rope table is made here too:
 * cosine and sine of every position, in double, rounded once.
 *
 * Threading: as opencl.h.  Memory: one arena, c->layers. */
#ifndef KERNELS_OPENCL_UPLOAD_H
#define KERNELS_OPENCL_UPLOAD_H

#include "kernels/opencl/host/memory.h"

/* *out is released with opencl_arena_free(); c->w may go then. */
MUST_CHECK enum status opencl_weights_new(struct opencl *c,
                                          struct opencl_arena **out,
                                          struct error *e);

#endif
