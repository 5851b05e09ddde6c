/* attention_nv.h - attention with NVIDIA's kernels, from the queries on:
 * nv_attention_decode.cl, or nv_attention_quantised.cl for quantised layers,
 * for generated tokens; nv_attention_prefill.cl for prompt tokens.
 *
 * Threading, memory: as opencl.h. */
#ifndef KERNELS_OPENCL_NV_ATTENTION_NV_H
#define KERNELS_OPENCL_NV_ATTENTION_NV_H

#include "kernels/opencl/host/opencl.h"

struct opencl_attention_nv;

/* The defines of each kind of layers; NULL if the shard has none. */
struct opencl_attention_defines {
    const char *plain, *quantised, *window;
};

/* Chooses the kernels, in a _setup.  *out is NULL if the device or the model
 * does not suit them, or the compiler rejects them.  Returns
 * ST_RESOURCE_EXHAUSTED if memory is short. */
MUST_CHECK enum status
opencl_attention_nv_setup(struct opencl *c, struct opencl_attention_nv **out,
                          const struct opencl_attention_defines *of,
                          struct error *e);
void opencl_attention_nv_free(struct opencl_attention_nv **nv);

/* Computes y [T, nh*hd] operand dtype for the generated or the prompt tokens of
 * the step.  query [T, nh*hd] and in [T, ..] are f32, as in attention.cl; the
 * cache is already written.  Returns false, and does nothing, if the portable
 * kernel must compute them; nv may be NULL. */
bool opencl_attention_nv(struct opencl *c, struct opencl_attention_nv *nv,
                         uint32_t layer, const struct opencl_tensor *y,
                         const struct opencl_tensor *query,
                         const struct opencl_tensor *in, bool generated);

#endif
