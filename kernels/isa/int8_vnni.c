/* int8_vnni.c - integer products with AVX-512 VNNI and VL, in 256 bits.
 * int8_generic.c is the definition.
 *
 * vpdpbusd multiplies unsigned with signed bytes and adds four products to
 * int32, without saturation.  It broadcasts four bytes of x from memory, so a
 * row of x costs one instruction for four columns.  8-bit codes become unsigned
 * by their sign bit: codes + 128.
 *
 * Two chains of sums hide the latency of the instruction.  There are 32
 * registers, so a tile has up to eight rows of x. */
#include "kernels/isa/int8.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "common/model/half.h"

#include "kernels/isa/int8_quantise.inc"

#define STRIP         8 /* rows of x of a tile */
#define CODES8_SIGNED 0

#include "kernels/isa/int8_lanes.inc"

/* Adds both chains, times the scale of each lane, or 1. */
INLINE void add_chains(__m256i (*chains)[2], __m256i times, const bool scaled,
                       const uint32_t mx, __m256i *sums)
{
    UNROLL
    for (uint32_t i = 0; i < mx; i++) {
        __m256i sum = _mm256_add_epi32(chains[i][0], chains[i][1]);

        /* Both halves of a lane of `times` are its scale. */
        sum = scaled ? _mm256_mullo_epi32(sum, _mm256_srai_epi32(times, 16))
                     : sum;
        sums[i] = _mm256_add_epi32(sums[i], sum);
    }
}

/* Adds four columns of unsigned codes to a chain of each row of x. */
INLINE void add4(const struct tile *t, __m256i q, uint32_t k, const uint32_t c,
                 const bool first, const uint32_t mx, __m256i (*chains)[2])
{
    UNROLL
    for (uint32_t i = 0; i < mx; i++) {
        __m256i from = first ? _mm256_setzero_si256() : chains[i][c];

        chains[i][c] = _mm256_dpbusd_epi32(from, q, four(x_codes(t, i) + k));
    }
}

/* Adds 32 columns of codes of 4 bits, times `times`, to sums in int32. */
INLINE void add32_4(const struct tile *t, const uint8_t *codes, uint32_t k,
                    __m256i times, const uint32_t mx, const enum weights f,
                    __m256i *sums)
{
    __m256i chains[STRIP][2];

    UNROLL
    for (uint32_t v = 0; v < 4; v++) {
        __m256i q = load(codes + v * 32);

        if (v % 2 == 0) {
            __builtin_prefetch(codes + v * 32 + AHEAD);
        }
        add4(t, codes4(q, f), k + 8 * v, 0, v == 0, mx, chains);
        add4(t, codes4(_mm256_srli_epi16(q, 4), f), k + 8 * v + 4, 1, v == 0,
             mx, chains);
    }
    add_chains(chains, times, f == W_K4, mx, sums);
}

/* Adds 32 columns of codes of 8 bits, plus 128. */
INLINE void add32_8(const struct tile *t, const uint8_t *codes, uint32_t k,
                    const uint32_t mx, __m256i *sums)
{
    const __m256i sign = _mm256_set1_epi8(-128);
    __m256i chains[STRIP][2];

    UNROLL
    for (uint32_t v = 0; v < 8; v++) {
        if (v % 2 == 0) {
            __builtin_prefetch(codes + v * 32 + AHEAD);
        }
        add4(t, _mm256_xor_si256(load(codes + v * 32), sign), k + 4 * v, v % 2,
             v < 2, mx, chains);
    }
    add_chains(chains, sign, false, mx, sums);
}

/* Adds 16 columns of codes of 6 bits, times `times`. */
INLINE void add16_6(const struct tile *t, const uint8_t *codes, uint32_t k,
                    __m256i times, const uint32_t mx, __m256i *sums)
{
    __m256i q = load(codes), q2 = load(codes + 32), high = load(codes + 64);
    __m256i chains[STRIP][2];

    __builtin_prefetch(codes + AHEAD);
    __builtin_prefetch(codes + 64 + AHEAD);
    add4(t, codes6(q, _mm256_slli_epi16(high, 4)), k, 0, true, mx, chains);
    add4(t, codes6(_mm256_srli_epi16(q, 4), _mm256_slli_epi16(high, 2)), k + 4,
         1, true, mx, chains);
    add4(t, codes6(q2, high), k + 8, 0, false, mx, chains);
    add4(t, codes6(_mm256_srli_epi16(q2, 4), _mm256_srli_epi16(high, 2)),
         k + 12, 1, false, mx, chains);
    add_chains(chains, times, true, mx, sums);
}

#include "kernels/isa/int8_tiles.inc"

const struct int8_isa int8_vnni = {.quantise = quantise, .product = product};
