/* deltanet.h - the Gated DeltaNet mixer.  Threading, memory: as opencl.h. */
#ifndef KERNELS_OPENCL_DELTANET_H
#define KERNELS_OPENCL_DELTANET_H

#include "kernels/opencl/host/opencl.h"

MUST_CHECK enum status opencl_deltanet_setup(struct opencl *c, struct error *e);
void opencl_deltanet_free(struct opencl *c);

/* Where its first product goes: [T, in.rows] f32. */
const struct opencl_tensor *opencl_deltanet_in(const struct opencl *c);

/* As struct kernels_ops. */
void opencl_deltanet(struct kernels *k, uint32_t layer);

#endif
