/* attention_nv.h - attention with NVIDIA's kernels, from the queries on:
 * nv_attention_decode.cl for generated tokens, nv_attention_prefill.cl for
 * prompt tokens.
 *
 * Threading, memory: as opencl.h. */
#ifndef KERNELS_OPENCL_NV_ATTENTION_NV_H
#define KERNELS_OPENCL_NV_ATTENTION_NV_H

#include "kernels/opencl/host/opencl.h"

struct opencl_attention_nv;

/* Chooses the kernels, in a _setup.  *out is NULL if the device or the model
 * does not suit them, or the compiler rejects them; use the portable kernels
 * then.  Returns ST_RESOURCE_EXHAUSTED if memory is short. */
MUST_CHECK enum status
opencl_attention_nv_setup(struct opencl *c, struct opencl_attention_nv **out,
                          const char *defines, struct error *e);
void opencl_attention_nv_free(struct opencl_attention_nv **nv);

/* Computes y [T, nh*hd] operand dtype for all tokens of the step.  query [T,
 * nh*hd] and in [T, ..] are f32, as in attention.cl; the cache is already
 * written. */
void opencl_attention_nv(struct opencl *c, struct opencl_attention_nv *nv,
                         const struct opencl_layer *l,
                         const struct opencl_tensor *y,
                         const struct opencl_tensor *query,
                         const struct opencl_tensor *in);

#endif
