/* rows.h - embedding, MLP and head; and whether the next norm is made.
 *
 * Threading, memory: as opencl.h. */
#ifndef KERNELS_OPENCL_ROWS_H
#define KERNELS_OPENCL_ROWS_H

#include "kernels/opencl/matmul.h"

struct opencl_kernel;

struct opencl_rows {
    struct opencl_kernel *embed, *norm;
    struct opencl_tensor gated;  /* [T, I] operand dtype: silu(gate) up */
    struct opencl_operand heads; /* of the rows that sample */
    /* The norm that matmul's operand is for; NULL: x has changed since. */
    const struct opencl_tensor *ready;
};

MUST_CHECK enum status opencl_rows_setup(struct opencl *c, struct error *e);
void opencl_rows_free(struct opencl *c);

/* x was written by someone else: what a norm left behind is of no use. */
void opencl_rows_stale(struct opencl *c);

/* Before a product behind the norm gamma: a launch unless who wrote x last has
 * made its operand. */
void opencl_rows_ready(struct opencl *c, const struct opencl_tensor *gamma);

/* The norm behind a layer: the next one's, the head's; any if there is none. */
const struct opencl_tensor *opencl_rows_behind(const struct opencl *c,
                                               uint32_t layer);

/* x += in w^T + bias, and the norm behind it, which is gamma. */
void opencl_rows_add(struct opencl *c, const struct opencl_tensor *in,
                     const struct opencl_tensor *w,
                     const struct opencl_tensor *bias,
                     const struct opencl_tensor *gamma);

/* As struct kernels_ops. */
void opencl_embed(struct kernels *k, const uint32_t *tokens);
void opencl_mlp(struct kernels *k, uint32_t layer);
void opencl_head(struct kernels *k, const uint32_t *tokens, uint32_t n);

#endif
