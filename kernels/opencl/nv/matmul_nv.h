/* matmul_nv.h - how the products are cut for NVIDIA's kernels.
 *
 * nv_matmul_decode.cl and nv_matmul_prefill.cl are built for one matrix and
 * one number of tokens at most; this says with which defines, and what a
 * work-group then computes.  The bits of a decode product depend on its split
 * alone, which is a function of the matrix: not of the number of tokens, nor
 * of the device.  Where a device has little local memory a work-group holds
 * less at a time, and gives the same bits.
 *
 * Threading: none.  Memory: none is kept.  Limits: below. */
#ifndef KERNELS_OPENCL_NV_MATMUL_NV_H
#define KERNELS_OPENCL_NV_MATMUL_NV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum matmul_nv_op { MATMUL_NV_STORE, MATMUL_NV_SILU, MATMUL_NV_ADD };

struct matmul_nv {
    const char *file;   /* of kernels/opencl, without .cl */
    const char *kernel; /* in it */
    uint32_t items;     /* of a work-group */
    uint32_t tokens;    /* of its tile */
    uint32_t rows;      /* of w of its tile */
    uint32_t shares; /* work-groups of its tile, each with a sum of its own, of
                      * some columns; 0: one work-group has the tile alone */
    char defines[256]; /* besides those of launch.h */
};

/* Whether a matrix [rows, cols] bf16 can be multiplied by these kernels at
 * all; rows of silu: gate and up together. */
bool matmul_nv_fits(enum matmul_nv_op op, uint32_t rows, uint32_t cols);

/* The same for generated tokens and a matrix of 4 or 8 bits; 0: of bf16. */
bool matmul_nv_fits_bits(enum matmul_nv_op op, uint32_t rows, uint32_t cols,
                         uint32_t bits);

/* Bytes of local memory that a work-group may have on a device of a compute
 * capability, 80 and up: CUDA's documentation says so, and OpenCL does not
 * (CL_DEVICE_LOCAL_MEM_SIZE is 48 KiB).  The least of all of them for one that
 * is not known. */
uint32_t matmul_nv_local(uint32_t capability);

/* One that fits. */
struct matmul_nv_product {
    enum matmul_nv_op op;
    uint32_t rows, cols; /* of w */
    uint32_t bits;       /* of w, 4 or 8; 0: it is bf16 */
};

/* For up to `tokens` generated tokens in a launch.  Worth asking for: 1, 8,
 * 32, 64 and 128; more than out->tokens go in several tiles.  False: it takes
 * more than `local` bytes however it is cut. */
bool matmul_nv_decode(struct matmul_nv *out, const struct matmul_nv_product *of,
                      uint32_t tokens, uint32_t local);

/* For nv_chain_decode.cl: its three or four products, in order, of a generated
 * token, on a device of `units` compute units; a work-group has rows of each,
 * the same of out and down, so out->rows is none.  False: one of them cannot be
 * cut so, or their bits differ. */
bool matmul_nv_chain(struct matmul_nv *out, const struct matmul_nv_product *of,
                     uint32_t n, uint32_t units);

/* Elements of its `posts`, of 8 bytes, 0 before the first launch. */
size_t matmul_nv_posts(uint32_t hidden, uint32_t intermediate);

/* For about `tokens` prompt tokens in a launch; w is bf16 by then, whatever its
 * bits.  What comes out depends on wgmma, of sm_90a, and not on them.
 * nv_norm_fold.cl has to go before store and silu.  False: as above. */
bool matmul_nv_prefill(struct matmul_nv *out,
                       const struct matmul_nv_product *of, uint32_t tokens,
                       bool wgmma, uint32_t local);

#endif
