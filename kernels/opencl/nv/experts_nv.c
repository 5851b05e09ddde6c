#include "kernels/opencl/nv/experts_nv.h"

#include <stdio.h>

#define STEP 64 /* columns of a stage */

/* As large as local memory allows: each unit's reads of w and of the pairs from
 * the level 2 cache are the limit.  192 rows divide the matrices of 2,880 rows,
 * where experts have many pairs. */
static const struct experts_nv_tile tiles[] = {
    {256, 160, 4},
    {192, 192, 4},
};

uint32_t experts_nv_bytes(const struct experts_nv_tile *tile)
{
    return tile->stages * (tile->rows + tile->pairs) * STEP *
               (uint32_t)sizeof(uint16_t) +
           tile->pairs * (uint32_t)(sizeof(uint32_t) + sizeof(float));
}

/* Returns the multiply-adds of a product and a pair, those of rows of a tile
 * behind the matrix included. */
static uint64_t work_of(const struct matmul_nv_product *of,
                        const struct experts_nv_tile *tile)
{
    const uint32_t n = (of->rows + tile->rows - 1) / tile->rows;

    return (uint64_t)n * tile->rows * of->cols;
}

struct experts_nv_tile experts_nv_tile(const struct matmul_nv_product of[2])
{
    const struct experts_nv_tile *best = NULL;
    uint64_t least = UINT64_MAX;

    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        const uint64_t work =
            work_of(&of[0], &tiles[i]) + work_of(&of[1], &tiles[i]);

        if (work < least) {
            least = work;
            best = &tiles[i];
        }
    }
    return *best;
}

void experts_nv_cut(struct matmul_nv *out, const struct matmul_nv_product *of,
                    const struct experts_nv_tile *tile)
{
    const bool gate_up = of->op == MATMUL_NV_SILU;

    *out = (struct matmul_nv){.file = "nv_experts_prefill",
                              .kernel =
                                  gate_up ? "experts_gate_up" : "experts_down",
                              .items = tile->rows * 2,
                              .tokens = tile->pairs,
                              .rows = tile->rows};
    (void)snprintf(out->defines, sizeof out->defines,
                   "-DN=%u -DK=%u -DEPILOGUE=%d -DTILE_W=%u -DTILE_P=%u "
                   "-DSTAGES=%u",
                   gate_up ? of->rows / 2 : of->rows, of->cols, (int)gate_up,
                   tile->rows, tile->pairs, tile->stages);
}
