/* experts_prompt.h - the products of prompt tokens with their experts, on
 * NVIDIA's wgmma.
 *
 *     fold  logits  choose  group  gate_up  down
 *
 * Pairs are always sorted by expert, so the bits of a token are those of any
 * number of tokens.  The kernels are nv_route_prefill.cl and
 * nv_experts_prefill.cl.
 *
 * Threading, memory: as opencl.h. */
#ifndef KERNELS_OPENCL_EXPERTS_PROMPT_H
#define KERNELS_OPENCL_EXPERTS_PROMPT_H

#include "kernels/opencl/experts_launch.h"

/* Chooses the kernels of a layer whose experts NVIDIA's decode kernels take;
 * sets *k to none if the device has no wgmma, or if its compiler rejects one,
 * which is logged. */
void opencl_experts_prompt_choose(struct opencl *c, struct experts_prompt *k,
                                  const struct opencl_layer *l);

/* Computes y of the pairs of prompt tokens, from their choice on. */
void opencl_experts_prompt_run(struct opencl *c, uint32_t layer,
                               struct experts_range tokens);

#endif
