/* upload.h - places the weights of a shard on the device.
 *
 * Matrices keep their dtype and are fused as host/opencl.h describes, or are
 * made on the device (noise.h); everything else becomes float32.  The rope
 * table is made here too: cosine and sine of every position, computed in double
 * and rounded once.
 *
 * Threading: as opencl.h.
 * Memory: one arena, and c->model.layers. */
#ifndef KERNELS_OPENCL_UPLOAD_H
#define KERNELS_OPENCL_UPLOAD_H

#include "kernels/opencl/host/memory.h"

/* Uploads the weights of c->w, which may be freed afterwards.  The caller frees
 * *out with opencl_arena_free(). */
MUST_CHECK enum status opencl_weights_new(struct opencl *c,
                                          struct opencl_arena **out,
                                          struct error *e);

#endif
