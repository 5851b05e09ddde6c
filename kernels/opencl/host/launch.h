/* launch.h - kernels: chosen from tables, given arguments, launched.
 *
 * An operator's _setup chooses each of its kernels from a table of ways to
 * compute it, the best first; the last is portable and fits everything:
 *
 *     static const struct opencl_variant decode[] = {
 *         {"nv_matmul_decode", "nv_matmul_decode", fits_mma, 128, 16, 64, 0,
 * true, 4},
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
 * Defines that every program is built with: H I V NH NKV HD R HK HV DK DV C
 * CONV (K of docs/model.md) as in common/model/weights.h, 0 where the model
 * has none; GATED 0 or 1; EPS (a float literal); BLOCK_TOKENS; KV_DTYPE 0 f32,
 * 1 bf16, 2 f16; META_ROWS META_TOKENS META_IDS META_HEADS META_BLOCKS;
 * NVIDIA 0 or 10 * major + minor; and of the variant WG, TILE_ROWS,
 * TILE_COLS; then those of the caller.  common.cl comes before each file, and
 * nv.cl too before a file named nv_*.
 *
 * Threading: as opencl.h.  Memory: the backend owns kernels; a call is the
 * caller's.  Limits: OPENCL_KERNELS_MAX. */
#ifndef KERNELS_OPENCL_HOST_LAUNCH_H
#define KERNELS_OPENCL_HOST_LAUNCH_H

#include "kernels/opencl/host/opencl.h"

#define OPENCL_KERNELS_MAX 1024 /* any forms of matrices, see matmul.h */

/* What a kernel is wanted for. */
struct opencl_shape {
    uint32_t rows, cols; /* of the matrix: N, K */
    enum dtype dtype;    /* of it */
};

struct opencl_variant {
    const char *file;   /* kernels/opencl/FILE.cl */
    const char *kernel; /* its __kernel */
    /* NULL: everywhere.  Only asked where the maker's kernels are allowed. */
    bool (*fits)(const struct opencl *c, const struct opencl_shape *s);
    uint32_t wg;                   /* work-items of a work-group */
    uint32_t tile_rows, tile_cols; /* of the output, by one work-group */
    size_t local_bytes;            /* for opencl_arg_local(), or 0 */
    bool shaped;     /* built for each shape, with -DN=rows -DK=cols */
    uint32_t groups; /* work-groups a compute unit; 0: one a tile */
    uint32_t shares; /* work-groups that share a tile; 0: one has it alone */
};

struct opencl_kernel {
    cl_kernel id;
    cl_program program; /* borrowed */
    const struct opencl_variant *variant;
    struct opencl_shape shape;
    uint64_t calls, bytes, ns; /* of the profile */
};

/* *out is the backend's, the same for the same variant, defines and, where
 * it is shaped, shape.  defines may be NULL, and so may shape.  A variant
 * that fits but that the compiler refuses is logged and passed over;
 * ST_INTERNAL: it was the last, with the beginning of what was said. */
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

struct opencl_call opencl_call(struct opencl *c, struct opencl_kernel *k);

/* Two arguments: the cl_mem, and the offset of element 0 in elements, ulong.
 * An absent tensor: some cl_mem and the offset ULONG_MAX. */
void opencl_arg_tensor(struct opencl_call *a, const struct opencl_tensor *t);
/* One: the meta buffer. */
void opencl_arg_meta(struct opencl_call *a);
void opencl_arg_u32(struct opencl_call *a, uint32_t v);
void opencl_arg_u64(struct opencl_call *a, uint64_t v);
void opencl_arg_f32(struct opencl_call *a, float v);
void opencl_arg_local(struct opencl_call *a, size_t bytes);

/* global and local [dims]; bytes: what must move at least, for the profile.
 * Nothing if a global size is 0. */
void opencl_launch(struct opencl_call *a, uint32_t dims, const size_t *global,
                   const size_t *local, uint64_t bytes);

/* At the end of an operator: a tick once the device is through with it. */
void opencl_operator_end(struct opencl *c);

#endif
