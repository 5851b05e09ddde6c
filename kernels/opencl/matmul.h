/* matmul.h - the matrix products, each fused with the operation behind it.
 *
 * A norm has no kernel of its own.  The kernel that writes x also writes the
 * operand of the next norm, in `next` and `ss` (common.cl); the product behind
 * the norm scales its sums.  So a layer is
 *
 *     project (in)  ..mixer..  project_add (o, out)
 *     project_silu (gate_up)   project_add (down)
 *
 * Generated tokens use the decode kernels, prompt tokens the prefill kernels.
 *
 * Threading, memory: as opencl.h.
 * Limits: MATMUL_CHOICES. */
#ifndef KERNELS_OPENCL_MATMUL_H
#define KERNELS_OPENCL_MATMUL_H

#include "kernels/opencl/host/opencl.h"

/* Forms in which a model may store a matrix, each layer its own: three dtypes,
 * or 4 or 8 bits in groups of 32, 64 or 128, with scales of one of three
 * dtypes, or six other formats. */
#define MATMUL_FORMS 27
#define MATMUL_MATRICES                                   \
    16 /* two of each mixer, MLP and shared expert, head; \
        * fc; what goes with the first of a mixer */
#define MATMUL_CHOICES (MATMUL_MATRICES * MATMUL_FORMS) /* per shard */
#define NORM_PART      8 /* columns that share a sum of squares */

/* Most bytes of opencl_matrix_defines(). */
#define OPENCL_MATRIX_DEFINES 128

struct matmul_choice;
struct opencl_kernel;

/* The operand that a norm leaves for the product behind it. */
struct opencl_operand {
    struct opencl_tensor next; /* [T, H] operand dtype: x gamma, not scaled */
    struct opencl_tensor ss;   /* [T, H / NORM_PART] f32: sums of x^2 */
};

struct opencl_matmul {
    enum dtype operand; /* bf16 if all matrices are, or if one has a format
                         * other than plain and affine; else float32 */
    struct opencl_operand norm; /* for the step's tokens */
    /* [T, H] f32: an output that is not added to x as it is, 0 between
     * operators; its sums of squares, as ss */
    struct opencl_tensor y, y_ss;
    struct matmul_choice *choices; /* [MATMUL_CHOICES] */
    struct opencl_kernel *fold;    /* runs before NVIDIA's prefill kernels; or
                                    * NULL */
    uint32_t n_choices;
    /* [shares, n_rows, n] f32: partial sums of work-groups that share a tile,
     * for the last of them */
    struct opencl_tensor part;
    struct opencl_tensor tickets; /* [tiles] u32, 0 between launches */
    bool zeroed;                  /* tickets are set to 0 */
    struct opencl_tensor wide;    /* [largest] bf16: a quantised matrix, widened
                                   * for NVIDIA's prefill kernels */
    bool wgmma;                   /* prefill uses wgmma: all products or none */
};

/* Chooses the kernels of all matrices and requests scratch.  Returns
 * ST_INVALID_ARGUMENT for more than MATMUL_CHOICES forms. */
MUST_CHECK enum status opencl_matmul_setup(struct opencl *c, struct error *e);
void opencl_matmul_free(struct opencl *c);

/* Computes out [T, ld] f32 = norm(x) w^T + bias for the step's tokens; bias may
 * be absent. */
void opencl_project(struct opencl *c, const struct opencl_tensor *w,
                    const struct opencl_tensor *bias,
                    const struct opencl_tensor *out);

/* Computes the same with what goes with w: the columns of out behind w's. */
void opencl_project_in(struct opencl *c, const struct opencl_tensor *w,
                       const struct opencl_tensor rest[OPENCL_REST_MAX],
                       const struct opencl_tensor *bias,
                       const struct opencl_tensor *out);

/* Computes out [T, I] operand dtype = silu(g) u, or the model's other
 * activation, (g, u) = norm(x) w^T, w [2*I, H]. */
void opencl_project_silu(struct opencl *c, const struct opencl_tensor *w,
                         const struct opencl_tensor *out);

/* Computes x += in w^T + bias; in [T, w.cols] operand dtype.  gamma [H] is the
 * norm that comes next. */
void opencl_project_add(struct opencl *c, const struct opencl_tensor *in,
                        const struct opencl_tensor *w,
                        const struct opencl_tensor *bias,
                        const struct opencl_tensor *gamma);

/* Computes y = in w^T + bias, in matmul's y, which must be 0 and is set to 0 by
 * its reader.  Overwrites norm.next. */
void opencl_project_y(struct opencl *c, const struct opencl_tensor *in,
                      const struct opencl_tensor *w,
                      const struct opencl_tensor *bias);

/* Computes out [n, w.rows] f32 = norm w^T for n rows, with the decode
 * kernels. */
void opencl_project_rows(struct opencl *c, const struct opencl_operand *norm,
                         uint32_t n, const struct opencl_tensor *w,
                         const struct opencl_tensor *out);

/* Folds the sums of squares of the step's prompt tokens, as NVIDIA's kernels
 * for prompts need them; folding again changes nothing. */
void opencl_fold_prompt(struct opencl *c);

/* Returns whether NVIDIA's kernels for few tokens read w's form. */
bool opencl_matmul_fits_nv(const struct opencl *c,
                           const struct opencl_tensor *w);

/* Returns whether NVIDIA's kernels multiply w with any number of generated
 * tokens. */
bool opencl_matmul_decodes_nv(const struct opencl *c,
                              const struct opencl_tensor *w);

/* Writes the defines of a program that reads w, or reads or writes operands, to
 * out [room]; see common.cl. */
void opencl_matrix_defines(const struct opencl *c,
                           const struct opencl_tensor *w, char *out,
                           size_t room);

/* Requests scratch for an operand of `rows` tokens. */
void opencl_operand_scratch(struct opencl *c, struct opencl_operand *out,
                            size_t rows);

#endif
