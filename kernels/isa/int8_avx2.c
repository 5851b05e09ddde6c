/* int8_avx2.c - integer products with AVX2.  int8_generic.c is the definition.
 *
 * vpmaddubsw multiplies unsigned with signed bytes and adds pairs, saturated
 * to int16.  No pair here saturates:
 *
 *     4 bits   |15 q + 15 q'| <= 3,810, and eight of them 30,480
 *     mxfp4    2 E2M1 + 16 <= 28: 7,112, and four of them 28,448
 *     6 bits   63: 16,002, and two of them 32,004
 *     8 bits   |code| <= 128, with its sign moved to q: 32,512
 *
 * Offsets of codes are taken off in int32, with the sums of q.
 *
 * A tile is a group of rows of W, one in each lane, and up to four rows of x:
 * the sums, codes and constants fit the sixteen registers. */
#include "kernels/isa/int8.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "common/model/half.h"

#include "kernels/isa/int8_quantise.inc"

#define STRIP         4 /* rows of x of a tile */
#define CODES8_SIGNED 1

#include "kernels/isa/int8_lanes.inc"

/* Adds 8 columns, a vector of codes of 4 bits, in int16. */
INLINE void add8(const struct tile *t, const uint8_t *codes, uint32_t k,
                 bool first, const uint32_t mx, const enum weights f,
                 __m256i *pairs)
{
    __m256i q = load(codes);
    __m256i low = codes4(q, f), high = codes4(_mm256_srli_epi16(q, 4), f);

    UNROLL
    for (uint32_t i = 0; i < mx; i++) {
        const int8_t *x = x_codes(t, i) + k;
        __m256i a = _mm256_maddubs_epi16(low, four(x));
        __m256i b = _mm256_maddubs_epi16(high, four(x + 4));

        a = first ? a : _mm256_add_epi16(pairs[i], a);
        pairs[i] = _mm256_add_epi16(a, b);
    }
}

/* Adds the pairs of each lane, times `times`, to sums in int32. */
INLINE void add_pairs(const __m256i *pairs, __m256i times, const uint32_t mx,
                      __m256i *sums)
{
    UNROLL
    for (uint32_t i = 0; i < mx; i++) {
        sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(pairs[i], times));
    }
}

/* Adds 32 columns of codes of 4 bits, times `times`, to sums in int32. */
INLINE void add32_4(const struct tile *t, const uint8_t *codes, uint32_t k,
                    __m256i times, const uint32_t mx, const enum weights f,
                    __m256i *sums)
{
    const uint32_t turn = f == W_MXFP4 ? 2 : 4; /* before int16 is full */
    __m256i pairs[STRIP];

    UNROLL
    for (uint32_t v = 0; v < 4; v++) {
        if (v % 2 == 0) {
            __builtin_prefetch(codes + v * 32 + AHEAD);
        }
        add8(t, codes + v * 32, k + 8 * v, v % turn == 0, mx, f, pairs);
        if (v % turn == turn - 1) {
            add_pairs(pairs, times, mx, sums);
        }
    }
}

/* Adds 32 columns of signed codes of 8 bits. */
INLINE void add32_8(const struct tile *t, const uint8_t *codes, uint32_t k,
                    const uint32_t mx, __m256i *sums)
{
    const __m256i ones = _mm256_set1_epi16(1);

    UNROLL
    for (uint32_t v = 0; v < 8; v++) {
        __m256i q = load(codes + v * 32), size = _mm256_abs_epi8(q);

        if (v % 2 == 0) {
            __builtin_prefetch(codes + v * 32 + AHEAD);
        }
        UNROLL
        for (uint32_t i = 0; i < mx; i++) {
            __m256i x = _mm256_sign_epi8(four(x_codes(t, i) + k + 4 * v), q);
            __m256i pairs = _mm256_maddubs_epi16(size, x);

            sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(pairs, ones));
        }
    }
}

/* Adds 8 columns of codes of 6 bits, times `times`. */
INLINE void add8_6(const struct tile *t, __m256i q, __m256i q2, uint32_t k,
                   __m256i times, const uint32_t mx, __m256i *sums)
{
    UNROLL
    for (uint32_t i = 0; i < mx; i++) {
        const int8_t *x = x_codes(t, i) + k;
        __m256i pairs = _mm256_add_epi16(_mm256_maddubs_epi16(q, four(x)),
                                         _mm256_maddubs_epi16(q2, four(x + 4)));

        sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(pairs, times));
    }
}

/* Adds 16 columns of codes of 6 bits, times `times`. */
INLINE void add16_6(const struct tile *t, const uint8_t *codes, uint32_t k,
                    __m256i times, const uint32_t mx, __m256i *sums)
{
    __m256i q = load(codes), q2 = load(codes + 32), high = load(codes + 64);

    __builtin_prefetch(codes + AHEAD);
    __builtin_prefetch(codes + 64 + AHEAD);
    add8_6(t, codes6(q, _mm256_slli_epi16(high, 4)),
           codes6(_mm256_srli_epi16(q, 4), _mm256_slli_epi16(high, 2)), k,
           times, mx, sums);
    add8_6(t, codes6(q2, high),
           codes6(_mm256_srli_epi16(q2, 4), _mm256_srli_epi16(high, 2)), k + 8,
           times, mx, sums);
}

#include "kernels/isa/int8_tiles.inc"

const struct int8_isa int8_avx2 = {.quantise = quantise, .product = product};
