/* deltanet_nv.h - the Gated DeltaNet with NVIDIA's kernels, everything between
 * its two products: nv_deltanet_decode.cl for generated rows; for prompt rows
 * nv_deltanet_chunks.cl, nv_deltanet_scan.cl and nv_deltanet_norm.cl.
 *
 * Threading, memory: as opencl.h. */
#ifndef KERNELS_OPENCL_NV_DELTANET_NV_H
#define KERNELS_OPENCL_NV_DELTANET_NV_H

#include "kernels/opencl/host/opencl.h"

struct opencl_deltanet_nv;

/* Chooses the kernels, in a _setup.  *out is NULL if the device or the model
 * does not suit them, or the compiler rejects them; use the portable kernels
 * then.  Returns ST_RESOURCE_EXHAUSTED if memory is short. */
MUST_CHECK enum status opencl_deltanet_nv_setup(struct opencl *c,
                                                struct opencl_deltanet_nv **out,
                                                const char *defines,
                                                struct error *e);
void opencl_deltanet_nv_free(struct opencl_deltanet_nv **nv);

/* The tensors of a layer. */
struct opencl_deltanet_io {
    const struct opencl_tensor *y;  /* [T, Hv*Dv] operand dtype */
    const struct opencl_tensor *in; /* [T, C + Hv*Dv + 2*Hv] f32 */
    /* [keep_tokens, ..], as in deltanet.cl; may be absent if no row keeps */
    struct opencl_tensor kept, kept_q;
};

/* Computes y for all tokens of the step, and updates the slots of the rows that
 * do not keep. */
void opencl_deltanet_nv(struct opencl *c, struct opencl_deltanet_nv *nv,
                        const struct opencl_layer *l,
                        const struct opencl_deltanet_io *io);

/* Returns nv_deltanet_replay.cl's kernel. */
struct opencl_kernel *opencl_deltanet_nv_replay(struct opencl_deltanet_nv *nv);

#endif
