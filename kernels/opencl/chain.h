/* chain.h - a layer's products behind its mixer, and the next layer's first,
 * in one launch.
 *
 * In a step of one generated token a mixer leaves its output product
 * to the MLP behind it, and the MLP computes the first product of the layer
 * behind that:
 *
 *     in ..mixer..  (out gate_up down in) ..mixer..  (out gate_up down in) ..
 *
 * So out may wait, and in may have been computed already; x is what it should
 * be as soon as somebody asks (opencl_chain_settle).  Only with NVIDIA's
 * kernels; the bits are those of the products one by one.
 *
 * Threading, memory: as opencl.h. */
#ifndef KERNELS_OPENCL_CHAIN_H
#define KERNELS_OPENCL_CHAIN_H

#include "kernels/opencl/host/opencl.h"

MUST_CHECK enum status opencl_chain_setup(struct opencl *c, struct error *e);
void opencl_chain_free(struct opencl *c);

/* The layer's first product is there, behind the MLP before it. */
bool opencl_chain_began(struct opencl *c, uint32_t layer);

/* The mixer of a layer has left y [T, ..]: false if its output product has to
 * be computed now. */
bool opencl_chain_takes(struct opencl *c, uint32_t layer,
                        const struct opencl_tensor *y);

/* The MLP of a layer, with what waits before it and the product behind it;
 * false: nothing waits. */
bool opencl_chain_run(struct opencl *c, uint32_t layer);

/* Computes what waits: somebody wants x. */
void opencl_chain_settle(struct opencl *c);

/* x was written by someone else, or a step begins. */
void opencl_chain_stale(struct opencl *c);

#endif
