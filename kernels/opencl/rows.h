/* rows.h - embedding, feed-forward and head, and the state of the next norm's
 * operand.
 *
 * Threading, memory: as opencl.h. */
#ifndef KERNELS_OPENCL_ROWS_H
#define KERNELS_OPENCL_ROWS_H

#include "kernels/opencl/matmul.h"

struct opencl_kernel;

struct opencl_rows {
    struct opencl_kernel *embed, *norm;
    struct opencl_kernel *norm_add, *cap; /* NULL: not needed */
    struct opencl_tensor gated;  /* [T, I or Is] operand dtype: silu(gate) up */
    struct opencl_operand heads; /* for the rows that are sampled */
    /* The norm whose operand matmul holds; NULL: x has changed since. */
    const struct opencl_tensor *ready;
    /* The norm before the head: final_norm, or the MTP layer's in its steps. */
    const struct opencl_tensor *last;
};

MUST_CHECK enum status opencl_rows_setup(struct opencl *c, struct error *e);
void opencl_rows_free(struct opencl *c);

/* Drops a prepared operand, because another operator wrote x. */
void opencl_rows_stale(struct opencl *c);

/* Prepares the operand of the norm gamma, before a product behind it.  Launches
 * a kernel only if the last writer of x has not prepared it. */
void opencl_rows_ready(struct opencl *c, const struct opencl_tensor *gamma);

/* Returns the norm behind a layer: the next layer's, the head's, that of the
 * MTP layer behind it, or any norm if there is none. */
const struct opencl_tensor *opencl_rows_behind(const struct opencl *c,
                                               uint32_t layer);

/* Computes x += in w^T + bias, or the norm `by` of that sum unless `by` is
 * absent, and the operand of the norm behind it, gamma. */
void opencl_rows_add(struct opencl *c, const struct opencl_tensor *in,
                     const struct opencl_tensor *w,
                     const struct opencl_tensor *bias,
                     const struct opencl_tensor *by,
                     const struct opencl_tensor *gamma);

/* Ends an operator whose output is in x, with the operand of gamma, or, unless
 * `by` is absent, in matmul's y: adds its norm to x then. */
void opencl_rows_added(struct opencl *c, const struct opencl_tensor *by,
                       const struct opencl_tensor *gamma);

/* Compute the operators of the same names in kernels.h. */
void opencl_embed(struct kernels *k, const uint32_t *tokens);
void opencl_ffn(struct kernels *k, uint32_t layer);
void opencl_head(struct kernels *k, const uint32_t *tokens, uint32_t n);

#endif
