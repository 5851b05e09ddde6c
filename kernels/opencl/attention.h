/* attention.h - the attention mixer.
 *
 * Threading, memory: as opencl.h. */
#ifndef KERNELS_OPENCL_ATTENTION_H
#define KERNELS_OPENCL_ATTENTION_H

#include "kernels/opencl/host/opencl.h"

/* Chooses the kernels and requests scratch. */
MUST_CHECK enum status opencl_attention_setup(struct opencl *c,
                                              struct error *e);
void opencl_attention_free(struct opencl *c);

/* Returns the output of its first product: [T, in.rows] f32. */
const struct opencl_tensor *opencl_attention_in(const struct opencl *c);

/* Computes x += mixer(norm(x)) of an attention layer, see kernels.h. */
void opencl_attention(struct kernels *k, uint32_t layer);

#endif
