/* launch.h - chooses kernels from tables, sets their arguments, launches them.
 *
 * An operator's _setup chooses each of its kernels from a table of variants,
 * best first; the last one is portable and fits everything:
 *
 *     static const struct opencl_variant decode[] = {
 *         {"nv_matmul_decode", "nv_matmul_decode", fits_mma, 128, 16, 64, 0,
 *          true, 4},
 *         {"matmul_decode", "matmul_decode", NULL, 64, 8, 64, 0, false, 0},
 *     };
 *     st = opencl_choose(c, &m->decode[i], decode, 2, &shape, "-DN=..", e);
 *
 * All variants of a table take the same arguments.  Then, in a step:
 *
 *     struct opencl_call a = opencl_call(c, m->decode[i]);
 *     opencl_arg_tensor(&a, &out);
 *     opencl_arg_u32(&a, n);
 *     opencl_launch(&a, 2, global, local, bytes);
 *
 * Every program is built with these defines:
 *
 * - H I V NH NKV HD R HK HV DK DV C CONV (K of docs/model.md), as in
 *   common/model/weights.h, 0 where the model has none.
 * - GATED 0 or 1; EPS (a float literal); BLOCK_TOKENS; KV_DTYPE 0 f32, 1 bf16,
 *   2 f16.
 * - META_ROWS META_TOKENS META_IDS META_HEADS META_BLOCKS.
 * - NVIDIA 0 or 10 * major + minor.
 * - The variant's WG, TILE_ROWS, TILE_COLS, then the caller's defines.
 *
 * common.cl precedes each file, and nv.cl also precedes a file named nv_*.
 *
 * Threading: as opencl.h.
 * Memory: the backend owns kernels; a call is the caller's.
 * Limits: OPENCL_KERNELS_MAX. */
#ifndef KERNELS_OPENCL_HOST_LAUNCH_H
#define KERNELS_OPENCL_HOST_LAUNCH_H

#include "kernels/opencl/host/opencl.h"

#define OPENCL_KERNELS_MAX 1024 /* any matrix forms, see matmul.h */

/* The matrix that a kernel is chosen for. */
struct opencl_shape {
    uint32_t rows, cols; /* the matrix's N and K */
    enum dtype dtype;    /* the matrix's */
};

struct opencl_variant {
    const char *file;   /* file name without .cl */
    const char *kernel; /* name of its __kernel */
    /* Whether the variant fits; NULL: always.  Not called where vendor kernels
     * are disabled. */
    bool (*fits)(const struct opencl *c, const struct opencl_shape *s);
    uint32_t wg;                   /* work-items per work-group */
    uint32_t tile_rows, tile_cols; /* output tile per work-group */
    bool shaped;     /* built for each shape, with -DN=rows -DK=cols */
    uint32_t groups; /* work-groups per compute unit; 0: one per tile */
    uint32_t shares; /* work-groups that share a tile; 0: no sharing */
};

struct opencl_kernel {
    cl_kernel id;
    cl_program program; /* borrowed */
    const struct opencl_variant *variant;
    struct opencl_shape shape;
    uint64_t calls, bytes, ns; /* counts of the profile */
};

/* Chooses a kernel from table [n].  The backend owns *out, which is shared by
 * calls with the same variant, defines and, if it is shaped, shape.  defines
 * and shape may be NULL.  If the compiler rejects a variant that fits, the call
 * logs it and tries the next; if it was the last, the call returns ST_INTERNAL
 * with the first words of the compiler's log. */
MUST_CHECK enum status opencl_choose(struct opencl *c,
                                     struct opencl_kernel **out,
                                     const struct opencl_variant *table,
                                     uint32_t n,
                                     const struct opencl_shape *shape,
                                     const char *defines, struct error *e);

struct opencl_call {
    struct opencl *c;
    struct opencl_kernel *kernel;
    cl_uint n; /* arguments so far */
};

/* Starts a call of k, without arguments. */
struct opencl_call opencl_call(struct opencl *c, struct opencl_kernel *k);

/* Sets two arguments, the tensor's memory and its place there in elements. */
void opencl_arg_tensor(struct opencl_call *a, const struct opencl_tensor *t);
/* Sets one argument: the memory of t, which is present. */
void opencl_arg_memory(struct opencl_call *a, const struct opencl_tensor *t);
/* Sets one argument: the meta buffer. */
void opencl_arg_meta(struct opencl_call *a);
/* Set one argument. */
void opencl_arg_u32(struct opencl_call *a, uint32_t v);
void opencl_arg_u64(struct opencl_call *a, uint64_t v);
void opencl_arg_f32(struct opencl_call *a, float v);

/* Launches the kernel.  global and local have `dims` entries; bytes is the
 * least amount of memory that must move, for the profile.  Does nothing if a
 * global size is 0. */
void opencl_launch(struct opencl_call *a, uint32_t dims, const size_t *global,
                   const size_t *local, uint64_t bytes);

/* Marks the end of an operator: a tick follows once the device has finished
 * it. */
void opencl_operator_end(struct opencl *c);

#endif
