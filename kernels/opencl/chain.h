/* chain.h - fuses a layer's products behind its mixer, with experts the choice
 * of these too, and the next layer's first product, into one launch.
 *
 * In a step of one generated token a mixer defers its output product to the MLP
 * behind it, and the MLP also computes the first product of the next layer:
 *
 *     in ..mixer..  (out gate_up down in) ..mixer..  (out gate_up down in) ..
 *
 * So out may be pending, and in may have been computed already.
 * opencl_chain_settle() completes x before any other reader.  Only NVIDIA's
 * kernels are chained; the bits equal those of the single products.
 *
 * The products of a chained layer and the next layer's first are stored in one
 * form.  Experts need a bf16 router, and no biases; a shared expert is one of
 * them.  Other layers are launched product by product.
 *
 * Threading, memory: as opencl.h. */
#ifndef KERNELS_OPENCL_CHAIN_H
#define KERNELS_OPENCL_CHAIN_H

#include "kernels/opencl/host/opencl.h"

MUST_CHECK enum status opencl_chain_setup(struct opencl *c, struct error *e);
void opencl_chain_free(struct opencl *c);

/* Returns whether the MLP before this layer has computed its first product;
 * asking clears the state. */
bool opencl_chain_began(struct opencl *c, uint32_t layer);

/* Queues the output product of the layer's mixer, which left y [T, ..], for the
 * MLP behind it.  Returns false if that product must be computed now. */
bool opencl_chain_takes(struct opencl *c, uint32_t layer,
                        const struct opencl_tensor *y);

/* Runs the layer's MLP with the deferred product before it and the product
 * behind it.  Returns false if no product was deferred. */
bool opencl_chain_run(struct opencl *c, uint32_t layer);

/* Computes a deferred product, because x is about to be read. */
void opencl_chain_settle(struct opencl *c);

/* Resets the state: a step begins, or another operator wrote x. */
void opencl_chain_stale(struct opencl *c);

#endif
