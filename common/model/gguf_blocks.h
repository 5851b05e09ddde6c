/* gguf_blocks.h - Blocks of a GGUF tensor, taken apart; for gguf_repack.c.
 *
 * The layouts of blocks are those of ggml-common.h and ggml-quants.c.
 *
 * Threading: pure functions.  Memory: the caller's. */
#ifndef COMMON_MODEL_GGUF_BLOCKS_H
#define COMMON_MODEL_GGUF_BLOCKS_H

#include <stdint.h>

#include "common/model/gguf.h"

#define GGUF_BLOCK_MAX 256 /* columns */
#define GGUF_SUB_BLOCK 32  /* columns: Q4_K, Q5_K, IQ4_XS */

/* A block taken apart: w = scales q + biases if it becomes affine. */
struct gguf_block {
    uint32_t n;                    /* columns */
    uint8_t codes[GGUF_BLOCK_MAX]; /* as weights.h counts them */
    const uint8_t *scale;          /* f16 or E8M0; NULL: none */
    uint8_t record[20];            /* k4 and k6 */
    float scales[GGUF_BLOCK_MAX / GGUF_SUB_BLOCK],
        biases[GGUF_BLOCK_MAX / GGUF_SUB_BLOCK];
};

/* Takes the block at p apart; b->n is set. */
void gguf_block_take(struct gguf_block *b, enum gguf_tensor_type type,
                     const uint8_t *p);

/* Returns what column i stands for, rounded once. */
float gguf_block_value(const struct gguf_block *b, enum gguf_tensor_type type,
                       uint32_t i);

/* Packs n codes of 4, 6 or 8 bits as a bit stream; n is a multiple of 32. */
void gguf_block_pack(uint8_t *to, const uint8_t *codes, uint32_t n,
                     uint32_t bits);

#endif
