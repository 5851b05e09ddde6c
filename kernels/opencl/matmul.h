/* matmul.h - the products, and what each has behind it.
 *
 * A norm has no kernel of its own: who writes x also leaves the operand of the
 * norm that comes next (common.cl), in `next` and `ss`; the product behind the
 * norm scales its sums.  So a layer is
 *
 *     project (in)  ..mixer..  project_add (o, out)
 *     project_silu (gate_up)   project_add (down)
 *
 * Tokens of the generated kind go through the decode kernels, prompt tokens
 * through the prefill kernels.
 *
 * Threading, memory: as opencl.h.  Limits: MATMUL_CHOICES. */
#ifndef KERNELS_OPENCL_MATMUL_H
#define KERNELS_OPENCL_MATMUL_H

#include "kernels/opencl/host/opencl.h"

/* A model may store each matrix of each layer in another form: of three
 * dtypes, or of 4 or 8 bits in groups of 32, 64 or 128 with scales of one of
 * three dtypes. */
#define MATMUL_FORMS    21
#define MATMUL_MATRICES 7 /* six of the two kinds of layers, and the head */
#define MATMUL_CHOICES  (MATMUL_MATRICES * MATMUL_FORMS) /* of a shard */
#define NORM_PART       8 /* columns that share a sum of squares */

struct matmul_choice;
struct opencl_kernel;

/* What a norm leaves for the product behind it. */
struct opencl_operand {
    struct opencl_tensor next; /* [T, H] operand dtype: x gamma, not scaled */
    struct opencl_tensor ss;   /* [T, H / NORM_PART] f32: sums of x^2 */
};

struct opencl_matmul {
    enum dtype operand;            /* bf16 if all matrices are, else float32 */
    struct opencl_operand norm;    /* of the step's tokens */
    struct matmul_choice *choices; /* [MATMUL_CHOICES] */
    struct opencl_kernel *fold;    /* goes before NVIDIA's for prompts; NULL */
    uint32_t n_choices;
    struct opencl_tensor part; /* [shares, n_rows, n] f32: what work-groups that
                                * share a tile leave for the last of them */
    struct opencl_tensor tickets; /* [tiles] u32, 0 between launches */
    bool zeroed;                  /* tickets are */
    struct opencl_tensor wide;    /* [largest] bf16: a quantised matrix that
                                   * NVIDIA's kernels for prompts read */
    bool wgmma; /* for prompts: in all products of this device or in none */
};

/* ST_INVALID_ARGUMENT: there are more than MATMUL_CHOICES. */
MUST_CHECK enum status opencl_matmul_setup(struct opencl *c, struct error *e);
void opencl_matmul_free(struct opencl *c);

/* out [T, ld] f32 = norm(x) w^T + bias, for the step's tokens; bias may be
 * absent. */
void opencl_project(struct opencl *c, const struct opencl_tensor *w,
                    const struct opencl_tensor *bias,
                    const struct opencl_tensor *out);

/* out [T, I] operand dtype = silu(g) u, (g, u) = norm(x) w^T, w [2*I, H]. */
void opencl_project_silu(struct opencl *c, const struct opencl_tensor *w,
                         const struct opencl_tensor *out);

/* x += in w^T + bias; in [T, w.cols] operand dtype.  gamma [H] is the norm
 * that comes next. */
void opencl_project_add(struct opencl *c, const struct opencl_tensor *in,
                        const struct opencl_tensor *w,
                        const struct opencl_tensor *bias,
                        const struct opencl_tensor *gamma);

/* out [n, w.rows] f32 = norm w^T of n rows, by the decode kernels. */
void opencl_project_rows(struct opencl *c, const struct opencl_operand *norm,
                         uint32_t n, const struct opencl_tensor *w,
                         const struct opencl_tensor *out);

/* Whether NVIDIA's kernels multiply w with generated tokens, however many. */
bool opencl_matmul_decodes_nv(const struct opencl *c,
                              const struct opencl_tensor *w);

/* Of a program that reads w, and reads or writes operands: see common.cl. */
void opencl_matrix_defines(const struct opencl *c,
                           const struct opencl_tensor *w, char *out,
                           size_t room);

/* Scratch for an operand of `rows` tokens. */
void opencl_operand_scratch(struct opencl *c, struct opencl_operand *out,
                            size_t rows);

#endif
