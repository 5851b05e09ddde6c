/* operators.h - The OpenCL backend: the part that its operators share, and
 * their states.
 *
 * kernels/opencl/host names the shared part alone, and so no operator.
 *
 * Threading: as opencl.h.  Memory: the backend's. */
#ifndef KERNELS_OPENCL_OPERATORS_H
#define KERNELS_OPENCL_OPERATORS_H

#include "kernels/opencl/host/opencl.h"

struct opencl_rows;
struct opencl_matmul;
struct opencl_experts;
struct opencl_attention;
struct opencl_deltanet;
struct opencl_sample;
struct opencl_chain;
struct opencl_draft;
struct opencl_tier;

struct opencl_operators {
    struct opencl shared; /* first: a pointer to it is one to the whole */
    struct opencl_rows *rows;
    struct opencl_matmul *matmul;
    struct opencl_experts *experts;
    struct opencl_attention *attention;
    struct opencl_deltanet *deltanet;
    struct opencl_sample *sample;
    struct opencl_chain *chain;
    struct opencl_draft *draft;
    struct opencl_tier *tier; /* host_tier.h; NULL: none */
};

/* Returns the whole of a backend, whose states change whatever holds c. */
static inline struct opencl_operators *opencl_operators(const struct opencl *c)
{
    return (struct opencl_operators *)(void *)c;
}

/* Returns whether an output is added to x in a step of its own: after its norm
 * `by`, unless that is absent, or after the model's factor. */
static inline bool opencl_adds_apart(const struct opencl *c,
                                     const struct opencl_tensor *by)
{
    return by->mem != NULL || c->w->shape.stream.residual > 0.0f;
}

#endif
