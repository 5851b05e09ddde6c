/* simd_math.h - functions that the three simd_*.h share: partial loads and
 * stores, a dtype chosen at run time, exp and functions built on it.
 *
 * Included after one of the three. */
#ifndef KERNELS_ISA_SIMD_MATH_H
#define KERNELS_ISA_SIMD_MATH_H

#include <math.h>

#include "common/model/weights.h"

/* Accumulators must stay in registers, so everything is inlined and every loop
 * over registers is unrolled.  Sixteen lanes in plain C are no registers;
 * unrolling there would only cost a minute of compile time. */
#ifdef SIMD_PLAIN
#define INLINE static inline
#define UNROLL
#else
#define INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#endif

/* Sixteen values in memory, of 32 or 16 bits. */
union v16_part {
    float f[16];
    uint16_t h[16];
};

/* Loads p[0 .. n), n < 16, and zeros behind. */
INLINE struct v16 v16_load_n(const float *p, uint32_t n)
{
    float part[16] = {0};

    memcpy(part, p, n * sizeof *p);
    return v16_load(part);
}

INLINE void v16_store_n(float *p, struct v16 a, uint32_t n)
{
    float part[16];

    v16_store(part, a);
    memcpy(p, part, n * sizeof *p);
}

/* Loads sixteen values of dtype t from element i of p. */
INLINE struct v16 v16_get(const void *p, size_t i, const enum dtype t)
{
    switch (t) {
    case DTYPE_F32:
        return v16_load((const float *)p + i);
    case DTYPE_BF16:
        return v16_load_bf16((const uint16_t *)p + i);
    default:
        return v16_load_f16((const uint16_t *)p + i);
    }
}

INLINE struct v16 v16_get_n(const void *p, size_t i, const enum dtype t,
                            uint32_t n)
{
    union v16_part part = {{0}};

    memcpy(&part, (const char *)p + i * dtype_bytes(t), n * dtype_bytes(t));
    return v16_get(&part, 0, t);
}

INLINE void v16_put(void *p, size_t i, struct v16 a, const enum dtype t)
{
    switch (t) {
    case DTYPE_F32:
        v16_store((float *)p + i, a);
        break;
    case DTYPE_BF16:
        v16_store_bf16((uint16_t *)p + i, a);
        break;
    default:
        v16_store_f16((uint16_t *)p + i, a);
        break;
    }
}

INLINE void v16_put_n(void *p, size_t i, struct v16 a, const enum dtype t,
                      uint32_t n)
{
    union v16_part part;

    v16_put(&part, 0, a, t);
    memcpy((char *)p + i * dtype_bytes(t), &part, n * dtype_bytes(t));
}

#ifndef SIMD_TURNS
/* Lanes are in the order of the codes. */
INLINE struct v16 v16_turn(struct v16 a)
{
    return a;
}

INLINE struct v16 v16_turn_back(struct v16 a)
{
    return a;
}

INLINE struct v16 v16_load4_turned(struct v16_group g, const uint8_t *p)
{
    return v16_load4(g, p);
}

INLINE struct v16 v16_load_table_turned(struct v16_table t, const uint8_t *p)
{
    return v16_load_table(t, p);
}
#endif

#ifndef SIMD_SUM4
/* out[i] = v16_sum(a[i]). */
INLINE void v16_sum4(float *out, const struct v16 a[4])
{
    for (int i = 0; i < 4; i++) {
        out[i] = v16_sum(a[i]);
    }
}
#endif

#ifndef SIMD_SWAPS
/* Lanes are in the order of the values. */
INLINE struct v16 v16_swap(struct v16 a)
{
    return a;
}

INLINE struct v16 v16_load_bf16_swapped(const uint16_t *p)
{
    return v16_load_bf16(p);
}

INLINE void v16_sum4_swapped(float *out, const struct v16 a[4])
{
    v16_sum4(out, a);
}
#endif

/* Returns a as it would be read back from storage of dtype t. */
INLINE struct v16 v16_rounded(struct v16 a, const enum dtype t)
{
    union v16_part part;

    if (t == DTYPE_F32) {
        return a;
    }
    v16_put(&part, 0, a, t);
    return v16_get(&part, 0, t);
}

/* exp(x) within 2 ulp: x = n ln 2 + r, |r| <= ln 2 / 2, a polynomial in r
 * (Cephes expf), times 2^n.  0 below -87.3, saturates above 88.3, exp(0) = 1,
 * NaN stays NaN. */
INLINE struct v16 v16_exp(struct v16 in)
{
    const struct v16 low = v16_set(-87.3f), magic = v16_set(12582912.0f);
    struct v16 x = v16_max(low, v16_min(v16_set(88.3f), in));
    struct v16 t = v16_fma(x, v16_set(1.44269504f), magic);
    struct v16 n = v16_sub(t, magic);
    struct v16 r = v16_fma(n, v16_set(-0.693359375f), x);
    struct v16 y = v16_set(1.9875691500e-4f);

    r = v16_fma(n, v16_set(2.12194440e-4f), r);
    y = v16_fma(y, r, v16_set(1.3981999507e-3f));
    y = v16_fma(y, r, v16_set(8.3334519073e-3f));
    y = v16_fma(y, r, v16_set(4.1665795894e-2f));
    y = v16_fma(y, r, v16_set(1.6666665459e-1f));
    y = v16_fma(y, r, v16_set(5.0000001201e-1f));
    y = v16_fma(y, v16_mul(r, r), r);
    y = v16_mul(v16_add(y, v16_set(1.0f)), v16_pow2(t));
    return v16_below(in, low, v16_set(0.0f), y);
}

INLINE struct v16 v16_sigmoid(struct v16 x)
{
    const struct v16 one = v16_set(1.0f);
    struct v16 minus = v16_sub(v16_set(0.0f), x);

    return v16_div(one, v16_add(one, v16_exp(minus)));
}

INLINE struct v16 v16_silu(struct v16 x)
{
    return v16_mul(x, v16_sigmoid(x));
}

/* tanh(x) within 4 ulp: below 0.625 a polynomial (Cephes tanhf), which keeps
 * small values exact, else 1 - 2 / (exp(2 |x|) + 1).  NaN stays NaN. */
INLINE struct v16 v16_tanh(struct v16 x)
{
    const struct v16 zero = v16_set(0.0f), one = v16_set(1.0f);
    struct v16 a = v16_max(v16_sub(zero, x), x), z = v16_mul(x, x);
    struct v16 y = v16_set(-5.70498872745e-3f), e;

    y = v16_fma(y, z, v16_set(2.06390887954e-2f));
    y = v16_fma(y, z, v16_set(-5.37397155531e-2f));
    y = v16_fma(y, z, v16_set(1.33314422036e-1f));
    y = v16_fma(y, z, v16_set(-3.33332819422e-1f));
    y = v16_fma(v16_mul(y, z), x, x);
    e = v16_add(v16_exp(v16_add(a, a)), one);
    e = v16_sub(one, v16_div(v16_set(2.0f), e));
    e = v16_below(x, zero, v16_sub(zero, e), e);
    return v16_below(a, v16_set(0.625f), y, e);
}

/* cap tanh(x / cap) */
INLINE struct v16 v16_cap(struct v16 x, float cap)
{
    return v16_mul(v16_set(cap), v16_tanh(v16_mul(x, v16_set(1.0f / cap))));
}

/* gelu(x) by tanh: x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)). */
INLINE struct v16 v16_gelu(struct v16 x)
{
    struct v16 z = v16_mul(x, x);
    struct v16 a = v16_fma(z, v16_set(0.0713548162726f), /* 1.5957.. 0.0447.. */
                           v16_set(1.59576912161f));

    return v16_mul(x, v16_sigmoid(v16_mul(x, a)));
}

#endif
