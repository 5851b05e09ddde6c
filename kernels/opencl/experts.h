/* experts.h - the feed-forward with experts.
 *
 * The router's choice stays on the device: the kernels read it there, and no
 * launch depends on it.  A pair is a token and one of its experts, t * P + i.
 *
 *     logits  choose  [group]  gate_up  down  sum
 *
 * Few pairs are products of their own; many are grouped by expert first.  Both
 * give the same bits.  P is top_k, or one more for a shared expert that is
 * stored as the others are.  Otherwise the shared expert is an MLP (matmul.h),
 * whose output the last kernel adds.
 *
 * NVIDIA's kernels are those of nv_matmul_decode.cl; nv_route.cl computes
 * logits and choice of generated tokens in one launch.  In a step of one token
 * the layer may be part of a chain (chain.h).  Prompt tokens have kernels of
 * their own where wgmma is available (experts_prompt.h).
 *
 * Threading, memory: as opencl.h. */
#ifndef KERNELS_OPENCL_EXPERTS_H
#define KERNELS_OPENCL_EXPERTS_H

#include "kernels/opencl/experts_launch.h"

/* Chooses the kernels and requests scratch, if a layer has experts. */
MUST_CHECK enum status opencl_experts_setup(struct opencl *c, struct error *e);
void opencl_experts_free(struct opencl *c);

/* Returns whether NVIDIA's kernels compute a layer's experts for generated
 * tokens. */
bool opencl_experts_decode_nv(const struct opencl *c, uint32_t layer);

/* Computes x += ffn(norm(x)) of a layer with experts, see kernels.h, and the
 * operand of the norm behind it. */
void opencl_experts_run(struct opencl *c, uint32_t layer);

#endif
