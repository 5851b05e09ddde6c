/* half.h - bfloat16 and float16 as bits, to and from float32.
 *
 * Widening is exact.  Narrowing rounds to nearest, ties to even; a NaN
 * becomes a quiet NaN, as on processors with conversion instructions.
 *
 * Threading: pure functions. */
#ifndef COMMON_MODEL_HALF_H
#define COMMON_MODEL_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float half_from_bits(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t half_bits(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline float half_from_bf16(uint16_t v)
{
    return half_from_bits((uint32_t)v << 16);
}

static inline float half_from_f16(uint16_t v)
{
    uint32_t sign = (uint32_t)(v & 0x8000u) << 16;
    uint32_t exponent = v >> 10 & 0x1fu, fraction = v & 0x3ffu;

    if (exponent == 0) { /* zero and subnormals: fraction * 2^-24 */
        float f = (float)fraction * 0x1p-24f;

        return sign != 0 ? -f : f;
    }
    if (exponent == 31) {
        fraction = fraction != 0 ? fraction << 13 | 0x400000 : 0;
        return half_from_bits(sign | 0x7f800000 | fraction);
    }
    return half_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

static inline uint16_t half_to_bf16(float f)
{
    uint32_t bits = half_bits(f);

    return (uint16_t)(f != f ? bits >> 16 | 0x40
                             : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline uint16_t half_to_f16(float f)
{
    uint32_t bits = half_bits(f), rest = bits & 0x7fffffff;
    uint32_t sign = bits >> 16 & 0x8000;

    if (rest > 0x7f800000) {
        return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x3ff));
    }
    if (rest >= 0x477ff000) { /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7c00);
    }
    if (rest < 0x38800000) { /* below 2^-14: multiples of 2^-24 */
        return (uint16_t)(sign |
                          (uint32_t)rintf(half_from_bits(rest) * 0x1p24f));
    }
    rest += 0xfff + (rest >> 13 & 1);
    return (uint16_t)(sign | (rest - 0x38000000) >> 13);
}

#endif
