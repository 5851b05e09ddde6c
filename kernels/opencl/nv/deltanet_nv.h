/* deltanet_nv.h - the Gated DeltaNet by NVIDIA's kernels, all between its two
 * products: nv_deltanet_decode.cl for generated rows; for prompt rows
 * nv_deltanet_chunks.cl, nv_deltanet_scan.cl and nv_deltanet_norm.cl.
 *
 * Threading, memory: as opencl.h. */
#ifndef KERNELS_OPENCL_NV_DELTANET_NV_H
#define KERNELS_OPENCL_NV_DELTANET_NV_H

#include "kernels/opencl/host/opencl.h"

struct opencl_deltanet_nv;

/* *out is NULL where the device or the model is not for them, or the compiler
 * refuses them: then the portable kernels are to be used.  In a _setup.
 * ST_RESOURCE_EXHAUSTED: no memory. */
MUST_CHECK enum status opencl_deltanet_nv_setup(struct opencl *c,
                                                struct opencl_deltanet_nv **out,
                                                const char *defines,
                                                struct error *e);
void opencl_deltanet_nv_free(struct opencl_deltanet_nv **nv);

/* y [T, Hv*Dv] operand dtype, of all tokens of the step, and the rows' slots;
 * in [T, C + Hv*Dv + 2*Hv] f32. */
void opencl_deltanet_nv(struct opencl *c, struct opencl_deltanet_nv *nv,
                        const struct opencl_layer *l,
                        const struct opencl_tensor *y,
                        const struct opencl_tensor *in);

#endif
