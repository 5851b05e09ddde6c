/* attention_nv.h - attention by NVIDIA's kernels, from the queries on:
 * nv_attention_decode.cl for generated tokens, nv_attention_prefill.cl for
 * prompt tokens.
 *
 * Threading, memory: as opencl.h. */
#ifndef KERNELS_OPENCL_NV_ATTENTION_NV_H
#define KERNELS_OPENCL_NV_ATTENTION_NV_H

#include "kernels/opencl/host/opencl.h"

struct opencl_attention_nv;

/* *out is NULL where the device or the model is not for them, or the compiler
 * refuses them: then the portable kernels are to be used.  In a _setup.
 * ST_RESOURCE_EXHAUSTED: no memory. */
MUST_CHECK enum status
opencl_attention_nv_setup(struct opencl *c, struct opencl_attention_nv **out,
                          const char *defines, struct error *e);
void opencl_attention_nv_free(struct opencl_attention_nv **nv);

/* y [T, nh*hd] operand dtype, of all tokens of the step; query [T, nh*hd] and
 * in [T, ..] f32 as attention.cl has them, the cache written. */
void opencl_attention_nv(struct opencl *c, struct opencl_attention_nv *nv,
                         const struct opencl_layer *l,
                         const struct opencl_tensor *y,
                         const struct opencl_tensor *query,
                         const struct opencl_tensor *in);

#endif
