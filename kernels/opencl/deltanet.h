/* deltanet.h - the Gated DeltaNet mixer.
 *
 * Threading, memory: as opencl.h. */
#ifndef KERNELS_OPENCL_DELTANET_H
#define KERNELS_OPENCL_DELTANET_H

#include "kernels/opencl/host/opencl.h"

/* Chooses the kernels and requests scratch. */
MUST_CHECK enum status opencl_deltanet_setup(struct opencl *c, struct error *e);
void opencl_deltanet_free(struct opencl *c);

/* Computes replay() of kernels.h. */
void opencl_replay(struct kernels *k, const struct kernel_replay *r,
                   uint32_t n);

#endif
