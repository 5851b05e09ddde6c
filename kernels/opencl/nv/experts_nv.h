/* experts_nv.h - how products of prompt tokens with their experts are cut for
 * NVIDIA's kernels.
 *
 * nv_experts_prefill.cl is built for the matrices of one layer.  This module
 * computes its defines.  A pair's bits do not depend on them.
 *
 * Threading: no state.  Memory: none is kept. */
#ifndef KERNELS_OPENCL_NV_EXPERTS_NV_H
#define KERNELS_OPENCL_NV_EXPERTS_NV_H

#include "kernels/opencl/nv/matmul_nv.h"

/* Pairs that a tile multiplies at once; a tile has a multiple of them. */
#define EXPERTS_NV_GRAIN 32

/* A work-group's tile, and the stages of columns in local memory. */
struct experts_nv_tile {
    uint32_t rows, pairs, stages; /* rows of w */
};

/* Cuts the product `of`, of one expert, into tiles: gate_up if op is silu, down
 * if it is store.  out->tokens is the most pairs of a tile. */
void experts_nv_cut(struct matmul_nv *out, const struct matmul_nv_product *of,
                    const struct experts_nv_tile *tile);

/* Returns the tile for the products gate_up and down of a layer, on a device
 * with 227 KiB of local memory per work-group.  Both have tiles of the same
 * pairs. */
struct experts_nv_tile experts_nv_tile(const struct matmul_nv_product of[2]);

/* Returns the bytes of local memory of a work-group. */
uint32_t experts_nv_bytes(const struct experts_nv_tile *tile);

#endif
