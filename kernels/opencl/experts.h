/* experts.h - the feed-forward with experts.
 *
 * The router's choice stays on the device: the kernels read it there, and no
 * launch depends on it.  A pair is a token and one of its experts, t * K + i.
 *
 *     logits  choose  [group]  gate_up  down  sum
 *
 * Few pairs are products of their own; many are grouped by expert first.  Both
 * give the same bits.  A shared expert is an MLP (matmul.h), whose output the
 * last kernel adds.
 *
 * Threading, memory: as opencl.h.  K: top_k of docs/model.md. */
#ifndef KERNELS_OPENCL_EXPERTS_H
#define KERNELS_OPENCL_EXPERTS_H

#include "kernels/opencl/host/opencl.h"

#define EXPERTS_TILE      16 /* pairs of a tile of the portable kernels */
#define EXPERTS_TILE_INTS 3  /* expert, place in order, pairs */
#define EXPERTS_GROUP_FROM                            \
    2 /* pairs per expert from which they are grouped \
       */

struct opencl_kernel;

/* The kernels of a layer; few and many pairs. */
struct experts_kernels {
    struct opencl_kernel *logits, *choose, *group, *sum;
    struct opencl_kernel *gate_up[2], *down[2];
};

struct opencl_experts {
    struct experts_kernels *layers; /* [end - begin] */
    struct opencl_tensor logits; /* [T, E or E + 1] f32: as the router's rows */
    struct opencl_tensor ids;    /* [T, K] u32, in order of rank */
    struct opencl_tensor weights; /* [T, K + 1] f32: of ids; the shared
                                   * expert's */
    struct opencl_tensor gated;   /* [T * K, Im] operand dtype */
    struct opencl_tensor y;       /* [T * K, H] f32: outputs, not weighted */
    struct opencl_tensor order;   /* [T * K] u32: pairs, by expert */
    struct opencl_tensor tiles; /* [.., EXPERTS_TILE_INTS] u32, see route.cl */
};

/* Chooses the kernels and requests scratch, if a layer has experts. */
MUST_CHECK enum status opencl_experts_setup(struct opencl *c, struct error *e);
void opencl_experts_free(struct opencl *c);

/* Computes x += ffn(norm(x)) of a layer with experts, see kernels.h, and the
 * operand of the norm behind it. */
void opencl_experts_run(struct opencl *c, uint32_t layer);

#endif
