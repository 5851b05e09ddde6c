/* int8.h - Products of quantised weights with activations of 8 bits.
 *
 * A row of x is quantised in blocks of columns (int8_block_of):
 *
 *     d = max |x| / 127;  q = x (127 / max |x|), rounded to nearest even
 *
 * A block whose greatest value is below 2^-120 is 0.  One with a value that is
 * not finite has d = NaN, and so have its products.  With d_x of a block of x,
 * d of the weights (weights.h) and S(..) a sum over the block, the product
 * adds, block by block in order:
 *
 *     q8, q4     fma(S(code q), d d_x, sum), codes less 128 or 8
 *     mxfp4      fma(S(2 E2M1 q), d / 2 d_x, sum)
 *     affine     fma(S(code q), scale d_x, sum), then fma(S(q), bias d_x, sum)
 *     k4         fma(S(s code q), d d_x, sum), then fma(S(b q), -m d_x, sum)
 *     k6         fma(S(s code q), d d_x, sum), codes less 32
 *
 * S is exact, in int32, and rounded to float32 once.  fma and the product of
 * scales round once each.  A sum starts at 0, so an element has the same bits
 * on every instruction set, and whatever is computed beside it.
 *
 * int8_generic.c is the definition in plain C.
 *
 * Threading: pure functions of their arguments. */
#ifndef KERNELS_ISA_INT8_H
#define KERNELS_ISA_INT8_H

#include "kernels/isa/pack.h"

#define INT8_RECORD 256 /* columns of a block of k4 and k6 */

/* Rows of x, each: q [k] int8; d [k / block] float32; sums.  Sums are S(q) of
 * each block, int32; with blocks of 256, for each, those of 16 and of 32
 * columns, [16] and [8] int16. */
struct int8_x {
    const char *rows; /* 64-byte aligned, row_bytes apart */
    uint32_t k, block;
    size_t row_bytes;
};

/* Returns the columns that share a scale of x. */
static inline uint32_t int8_block_of(enum weight_format f, uint32_t group)
{
    return f == WEIGHT_K4 || f == WEIGHT_K6 ? INT8_RECORD : group;
}

static inline size_t int8_sums_bytes(uint32_t block)
{
    return block == INT8_RECORD ? 24 * sizeof(int16_t) : sizeof(int32_t);
}

/* Returns the bytes of a row, a multiple of 64; most with blocks of 32. */
static inline size_t int8_row_bytes(uint32_t k, uint32_t block)
{
    size_t bytes =
        k + (size_t)(k / block) * (sizeof(float) + int8_sums_bytes(block));

    return (bytes + 63) / 64 * 64;
}

static inline const int8_t *int8_codes(const struct int8_x *x, uint32_t row)
{
    return (const int8_t *)(x->rows + row * x->row_bytes);
}

static inline const float *int8_scales(const struct int8_x *x, uint32_t row)
{
    return (const float *)(const void *)(x->rows + row * x->row_bytes + x->k);
}

static inline const void *int8_sums(const struct int8_x *x, uint32_t row)
{
    return int8_scales(x, row) + x->k / x->block;
}

/* out[m, n] (+)= x w (+ bias), as above. */
struct int8_product {
    struct quantised w; /* packed: whole groups, in which n_w rows count */
    struct int8_x x;
    const float *bias; /* [n_w] or NULL */
    float *out;        /* [n_x, n_w], rows ld_out apart */
    size_t ld_out;
    uint32_t n_x, n_w;
    bool add; /* adds to the contents of out */
};

struct int8_isa {
    /* Quantises a row of k columns to `to` [int8_row_bytes()]. */
    void (*quantise)(void *to, const float *x, uint32_t k, uint32_t block);
    void (*product)(const struct int8_product *p);
};

extern const struct int8_isa int8_generic;
#ifdef SLUICE_X86
extern const struct int8_isa int8_avx2, int8_vnni;
#endif

#endif
