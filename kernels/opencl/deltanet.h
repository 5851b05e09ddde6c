/* deltanet.h - the Gated DeltaNet mixer.
 *
 * Threading, memory: as opencl.h. */
#ifndef KERNELS_OPENCL_DELTANET_H
#define KERNELS_OPENCL_DELTANET_H

#include "kernels/opencl/host/opencl.h"

/* Chooses the kernels and requests scratch. */
MUST_CHECK enum status opencl_deltanet_setup(struct opencl *c, struct error *e);
void opencl_deltanet_free(struct opencl *c);

/* Returns the output of its first product: [T, in.rows] f32. */
const struct opencl_tensor *opencl_deltanet_in(const struct opencl *c);

/* Computes replay() of kernels.h. */
void opencl_replay(struct kernels *k, const struct kernel_replay *r,
                   uint32_t n);

/* Computes x += mixer(norm(x)) of a linear layer, see kernels.h. */
void opencl_deltanet(struct kernels *k, uint32_t layer);

#endif
