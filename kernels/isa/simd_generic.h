/* simd_generic.h - sixteen float32 lanes in plain C.
 *
 * The three simd_*.h files define struct v16 and the same calls.  Each call is
 * bit for bit the same function in all three, so the instruction set never
 * affects a result.  v16_sum and v16_top fold lanes i and i+8, then +4, +2, +1.
 * v16_max(a, b) is a > b ? a : b: it keeps a NaN in b, the second argument. */
#ifndef KERNELS_ISA_SIMD_GENERIC_H
#define KERNELS_ISA_SIMD_GENERIC_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "common/model/half.h"

/* Selects plain loops in simd_math.h. */
#define SIMD_PLAIN

/* Rows of x and of W in a register tile; the FEW tile serves up to TILE_FEW
 * rows of x. */
#define TILE_X     4
#define TILE_W     1
#define TILE_FEW_X 4
#define TILE_FEW_W 1
#define TILE_FEW   32

/* Most rows of x of the LEAST tile, and its rows of W, for bf16. */
#define TILE_LEAST_X     0
#define TILE_LEAST_W(mx) 1

/* Positions of a quantised cache whose scores share a read of the queries. */
#define TILE_KEYS 1

struct v16 {
    float f[16];
};

#define LANES(expr)                    \
    do {                               \
        struct v16 r;                  \
        for (int i = 0; i < 16; i++) { \
            r.f[i] = (expr);           \
        }                              \
        return r;                      \
    } while (0)

static inline struct v16 v16_set(float x)
{
    LANES(x);
}

static inline struct v16 v16_load(const float *p)
{
    LANES(p[i]);
}

static inline void v16_store(float *p, struct v16 a)
{
    memcpy(p, a.f, sizeof a.f);
}

static inline struct v16 v16_load_bf16(const uint16_t *p)
{
    LANES(half_from_bf16(p[i]));
}

static inline struct v16 v16_load_f16(const uint16_t *p)
{
    LANES(half_from_f16(p[i]));
}

/* Widens sixteen quantised values: v16_fma(q, scale, bias). */
struct v16_group {
    float scale, bias;
};

static inline struct v16_group v16_group4(float scale, float bias)
{
    return (struct v16_group){scale, bias};
}

static inline struct v16_group v16_group8(float scale, float bias)
{
    return v16_group4(scale, bias);
}

/* Converts the 4-bit halves of 8 bytes, the lower half first. */
static inline struct v16 v16_load4(struct v16_group g, const uint8_t *p)
{
    LANES(fmaf((float)(p[i / 2] >> i % 2 * 4 & 15), g.scale, g.bias));
}

/* Converts 16 bytes. */
static inline struct v16 v16_load8(struct v16_group g, const uint8_t *p)
{
    LANES(fmaf((float)p[i], g.scale, g.bias));
}

/* Converts 16 bytes: (q - 128) times scale. */
static inline struct v16 v16_load_q8(float scale, const uint8_t *p)
{
    LANES((float)(p[i] - 128) * scale);
}

/* Converts 16 codes of 6 bits, in 12 bytes: (q - 32) times scale. */
static inline struct v16 v16_load_q6(float scale, const uint8_t *p)
{
    uint32_t q[16];

    for (int i = 0; i < 4; i++, p += 3) {
        uint32_t three = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;

        for (int j = 0; j < 4; j++) {
            q[4 * i + j] = three >> 6 * j & 63;
        }
    }
    LANES((float)((int)q[i] - 32) * scale);
}

/* Converts 16 codes of E4M3 but NaN, times 2^-8 times scale.  Moved by seven
 * bits, the code is a float16 of 2^-8 of its value. */
static inline struct v16 v16_load_e4m3(float scale, const uint8_t *p)
{
    LANES(half_from_f16((uint16_t)((p[i] & 0x80) << 8 | (p[i] & 0x7f) << 7)) *
          scale);
}

/* Converts 16 codes of E8M0 but NaN; 2^-127 is subnormal. */
static inline struct v16 v16_load_e8m0(const uint8_t *p)
{
    LANES(half_from_bits(p[i] > 0 ? (uint32_t)p[i] << 23 : 0x400000));
}

/* Converts 16 signed bytes. */
static inline struct v16 v16_load_i8(const uint8_t *p)
{
    LANES((float)(int8_t)p[i]);
}

/* Sixteen values times a scale, looked up by codes of 4 bits. */
struct v16_table {
    const float *values;
    float scale;
};

/* values [16] must outlive the table. */
static inline struct v16_table v16_table(const float *values, float scale)
{
    return (struct v16_table){values, scale};
}

static inline struct v16 v16_load_table(struct v16_table t, const uint8_t *p)
{
    LANES(t.values[p[i / 2] >> i % 2 * 4 & 15] * t.scale);
}

/* Looks up sixteen codes of 2, 3 or 4 bits in a table of all their values. */
struct v16_book {
    const float *values;
};

/* values [1 << bits] must outlive the book. */
static inline struct v16_book v16_book(const float *values, uint32_t bits)
{
    (void)bits;
    return (struct v16_book){values};
}

static inline struct v16 v16_look_up2(struct v16_book b, const uint8_t *p)
{
    LANES(b.values[p[i / 4] >> i % 4 * 2 & 3]);
}

/* Reads 6 bytes, as eight values are 24 bits. */
static inline struct v16 v16_look_up3(struct v16_book b, const uint8_t *p)
{
    uint32_t half[2] = {p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16,
                        p[3] | (uint32_t)p[4] << 8 | (uint32_t)p[5] << 16};

    LANES(b.values[half[i / 8] >> i % 8 * 3 & 7]);
}

static inline struct v16 v16_look_up4(struct v16_book b, const uint8_t *p)
{
    LANES(b.values[p[i / 2] >> i % 2 * 4 & 15]);
}

static inline void v16_store_bf16(uint16_t *p, struct v16 a)
{
    for (int i = 0; i < 16; i++) {
        p[i] = half_to_bf16(a.f[i]);
    }
}

static inline void v16_store_f16(uint16_t *p, struct v16 a)
{
    for (int i = 0; i < 16; i++) {
        p[i] = half_to_f16(a.f[i]);
    }
}

static inline struct v16 v16_add(struct v16 a, struct v16 b)
{
    LANES(a.f[i] + b.f[i]);
}

static inline struct v16 v16_sub(struct v16 a, struct v16 b)
{
    LANES(a.f[i] - b.f[i]);
}

static inline struct v16 v16_mul(struct v16 a, struct v16 b)
{
    LANES(a.f[i] * b.f[i]);
}

static inline struct v16 v16_div(struct v16 a, struct v16 b)
{
    LANES(a.f[i] / b.f[i]);
}

/* Computes a * b + c, rounded once. */
static inline struct v16 v16_fma(struct v16 a, struct v16 b, struct v16 c)
{
    LANES(fmaf(a.f[i], b.f[i], c.f[i]));
}

static inline struct v16 v16_max(struct v16 a, struct v16 b)
{
    LANES(a.f[i] > b.f[i] ? a.f[i] : b.f[i]);
}

static inline struct v16 v16_min(struct v16 a, struct v16 b)
{
    LANES(a.f[i] < b.f[i] ? a.f[i] : b.f[i]);
}

/* Chooses x < limit ? a : b, lane by lane. */
static inline struct v16 v16_below(struct v16 x, struct v16 limit, struct v16 a,
                                   struct v16 b)
{
    LANES(x.f[i] < limit.f[i] ? a.f[i] : b.f[i]);
}

/* Joins the first n lanes of a and the rest of b. */
static inline struct v16 v16_first(uint32_t n, struct v16 a, struct v16 b)
{
    LANES((uint32_t)i < n ? a.f[i] : b.f[i]);
}

/* Computes 2^n, where t = n + 1.5 * 2^23. */
static inline struct v16 v16_pow2(struct v16 t)
{
    LANES(half_from_bits((half_bits(t.f[i]) - 0x4b400000u + 127u) << 23));
}

static inline float v16_sum(struct v16 a)
{
    for (int n = 8; n > 0; n /= 2) {
        for (int i = 0; i < n; i++) {
            a.f[i] += a.f[i + n];
        }
    }
    return a.f[0];
}

static inline float v16_top(struct v16 a)
{
    for (int n = 8; n > 0; n /= 2) {
        for (int i = 0; i < n; i++) {
            a.f[i] = a.f[i] > a.f[i + n] ? a.f[i] : a.f[i + n];
        }
    }
    return a.f[0];
}

#undef LANES

#endif
