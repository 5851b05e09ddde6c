/* matmul_choice.h - which kernel multiplies with a matrix: what matmul.c
 * chooses and project.c launches.
 *
 * Threading, memory: as opencl.h. */
#ifndef KERNELS_OPENCL_MATMUL_CHOICE_H
#define KERNELS_OPENCL_MATMUL_CHOICE_H

#include "kernels/opencl/host/launch.h"
#include "kernels/opencl/matmul.h"

enum matmul_op { MATMUL_STORE, MATMUL_SILU, MATMUL_ADD, MATMUL_OPS };

enum matmul_kind { MATMUL_DECODE, MATMUL_PREFILL, MATMUL_KINDS };

#define MATMUL_WAYS 11  /* cases that have a kernel each */
#define WIDEN_ITEMS 256 /* per work-group that widens a matrix to bf16 */
#define WIDEN_COLS  16  /* per work-item, of formats that are not affine */

/* Most tokens of a launch whose work-groups share tiles. */
#define SHARED_TOKENS 128

/* The kernels of one matrix shape. */
struct matmul_choice {
    enum matmul_op op;
    struct opencl_tensor w; /* the matrix's form, without its place */
    struct opencl_kernel *widen;
    struct opencl_kernel *kernel[MATMUL_WAYS];
    struct opencl_variant nv[MATMUL_WAYS]; /* variants of NVIDIA's kernels */
};

/* Returns the choice for op with a matrix of w's shape and form, or NULL. */
struct matmul_choice *opencl_matmul_choice(const struct opencl_matmul *m,
                                           enum matmul_op op,
                                           const struct opencl_tensor *w);

/* Returns the kernel for n tokens of a kind. */
struct opencl_kernel *opencl_matmul_kernel(const struct opencl *c,
                                           enum matmul_op op,
                                           const struct opencl_tensor *w,
                                           int kind, uint32_t n);

/* Returns the tiles of a kernel side by side: their columns are rows of w. */
size_t opencl_matmul_tiles(const struct opencl_variant *v,
                           const struct opencl_tensor *w);

#endif
