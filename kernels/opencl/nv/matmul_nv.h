/* matmul_nv.h - how the products are cut for NVIDIA's kernels.
 *
 * nv_matmul_decode.cl and nv_matmul_prefill.cl are built for one matrix and one
 * maximum number of tokens.  This module computes their defines, and what a
 * work-group then computes.  The bits of a decode product depend only on its
 * split.  The split is a function of the matrix, not of the number of tokens or
 * the device.  On a device with little local memory a work-group holds less at
 * a time, and gives the same bits.
 *
 * The products of experts (experts.h) are those of nv_matmul_decode.cl with
 * PAIRS, for which the caller adds the defines.
 *
 * Threading: no state.  Memory: none is kept.  Limits: below. */
#ifndef KERNELS_OPENCL_NV_MATMUL_NV_H
#define KERNELS_OPENCL_NV_MATMUL_NV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum matmul_nv_op { MATMUL_NV_STORE, MATMUL_NV_SILU, MATMUL_NV_ADD };

struct matmul_nv {
    const char *file;   /* file name without .cl */
    const char *kernel; /* kernel in that file */
    uint32_t items;     /* work-items per work-group */
    uint32_t tokens;    /* tokens of its tile */
    uint32_t rows;      /* rows of w in its tile */
    uint32_t shares; /* work-groups per tile, each summing some of the columns;
                      * 0: no sharing */
    char defines[256]; /* in addition to those of launch.h */
};

/* Returns whether these kernels can multiply a matrix [rows, cols] bf16.  For
 * silu, rows counts gate and up together. */
bool matmul_nv_fits(enum matmul_nv_op op, uint32_t rows, uint32_t cols);

/* Returns the same for generated tokens and a matrix in groups of codes of 4 or
 * 8 bits; group 0 means bf16. */
bool matmul_nv_fits_group(enum matmul_nv_op op, uint32_t rows, uint32_t cols,
                          uint32_t group);

/* Returns the bytes of local memory that a work-group may use on a device of
 * this compute capability, 80 and up.  The figures are from CUDA's
 * documentation, since OpenCL does not report them (CL_DEVICE_LOCAL_MEM_SIZE is
 * 48 KiB).  An unlisted capability gets the smallest of all figures. */
uint32_t matmul_nv_local(uint32_t capability);

/* A product that fits. */
struct matmul_nv_product {
    enum matmul_nv_op op;
    uint32_t rows, cols; /* those of w */
    uint32_t bits;       /* bits of w, 4 or 8; 0: w is bf16 */
    bool expert;         /* one of several that are computed at a time */
};

/* Cuts a product for up to `tokens` generated tokens in a launch.  Useful
 * values: 1, 8, 32, 64 and 128; more than out->tokens tokens take several
 * tiles.  Returns false if every cut needs more than `local` bytes. */
bool matmul_nv_decode(struct matmul_nv *out, const struct matmul_nv_product *of,
                      uint32_t tokens, uint32_t local);

/* The router between out and gate_up, in a layer with experts. */
struct matmul_nv_route {
    uint32_t logits; /* rows of the router */
    uint32_t pairs;  /* experts of a token */
};

/* Cuts the three or four products of nv_chain_decode.cl, in order, for one
 * generated token on a device of `units` compute units.  A work-group has rows
 * of each product, the same rows for out and down, so out->rows is not set.
 * Returns false if a product cannot be cut that way, or if their bits
 * differ.
 *
 * With a route, nv_chain_experts.cl is cut.  gate_up and down are then products
 * of one expert, as matmul_nv_decode() takes them (down: store). */
bool matmul_nv_chain(struct matmul_nv *out, const struct matmul_nv_product *of,
                     uint32_t n, const struct matmul_nv_route *route,
                     uint32_t units);

/* Returns the elements of its `posts`, of 8 bytes each, which must be 0 before
 * the first launch. */
size_t matmul_nv_posts(uint32_t hidden, uint32_t intermediate);
size_t matmul_nv_expert_posts(uint32_t hidden, uint32_t expert_dim,
                              const struct matmul_nv_route *route);

/* Cuts a product for about `tokens` prompt tokens in a launch; w is bf16 by
 * then, whatever its stored bits.  The result depends on wgmma (sm_90a), not on
 * `tokens`.  nv_norm_fold.cl must run before store and silu.  Returns false if
 * every cut needs more than `local` bytes. */
bool matmul_nv_prefill(struct matmul_nv *out,
                       const struct matmul_nv_product *of, uint32_t tokens,
                       bool wgmma, uint32_t local);

#endif
