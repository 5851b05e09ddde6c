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

#define INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#define STRIP 4     /* rows of x of a tile */
#define PANEL 65536 /* bytes of W that stay in a cache for all rows of x */
#define AHEAD 1024  /* bytes of a prefetch: memory is slower than a tile */

enum weights { W_AFFINE8, W_AFFINE4, W_MXFP4, W_Q8, W_Q4, W_K4, W_K6 };

struct tile {
    const struct int8_product *p;
    struct quantised w; /* the group */
    const char *x;      /* its first row of x */
    uint32_t m, n;
};

INLINE __m256i load(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

INLINE __m128i load_half(const void *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}

/* Repeats four bytes. */
INLINE __m256i four(const void *p)
{
    int v;

    memcpy(&v, p, sizeof v);
    return _mm256_set1_epi32(v);
}

INLINE const int8_t *x_codes(const struct tile *t, uint32_t i)
{
    return (const int8_t *)(t->x + i * t->p->x.row_bytes);
}

INLINE __m256 x_scale(const struct tile *t, uint32_t i, uint32_t g)
{
    return _mm256_castsi256_ps(four(x_codes(t, i) + t->p->x.k + (size_t)g * 4));
}

/* Returns the sums of block g. */
INLINE const char *x_sums(const struct tile *t, uint32_t i, uint32_t g)
{
    const uint32_t k = t->p->x.k, block = t->p->x.block;

    return (const char *)x_codes(t, i) + k + (size_t)(k / block) * 4 +
           g * int8_sums_bytes(block);
}

/* ---- scales of a group of rows ---- */

INLINE __m256 halves(const void *p)
{
    return _mm256_cvtph_ps(load_half(p));
}

/* Loads eight values of dtype t, from element i on. */
INLINE __m256 values(const void *p, size_t i, enum dtype t)
{
    const char *at = (const char *)p + i * dtype_bytes(t);

    if (t == DTYPE_F32) {
        return _mm256_castsi256_ps(load(at));
    }
    return t == DTYPE_F16 ? halves(at)
                          : _mm256_castsi256_ps(_mm256_slli_epi32(
                                _mm256_cvtepu16_epi32(load_half(at)), 16));
}

/* Returns 2^(code - 128); the two least are subnormal. */
INLINE __m256 e8m0_half(const uint8_t *p)
{
    __m256i code =
        _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
    __m256i bits =
        _mm256_slli_epi32(_mm256_sub_epi32(code, _mm256_set1_epi32(1)), 23);
    __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x200000), code);

    return _mm256_castsi256_ps(_mm256_blendv_epi8(
        bits, small, _mm256_cmpgt_epi32(_mm256_set1_epi32(2), code)));
}

INLINE __m256 scale_of(const struct tile *t, uint32_t g, const enum weights f)
{
    const uint8_t *s = t->w.scales;

    switch (f) {
    case W_AFFINE8:
    case W_AFFINE4:
        return values(s, (size_t)g * PACK_ROWS, t->w.dtype);
    case W_MXFP4:
        return e8m0_half(s + (size_t)g * PACK_ROWS);
    case W_K4:
        return halves(s + (size_t)g * 160);
    case W_K6:
        return halves(s + (size_t)g * 144);
    default:
        return halves(s + (size_t)g * 16);
    }
}

/* ---- sums of 32 columns ---- */

INLINE __m256i codes4(__m256i q, const enum weights f)
{
    const __m256i e2m1 = _mm256_setr_epi8(
        16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4, 16, 17,
        18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4);

    q = _mm256_and_si256(q, _mm256_set1_epi8(15));
    return f == W_MXFP4 ? _mm256_shuffle_epi8(e2m1, q) : q;
}

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

/* Joins the lower halves of the bytes of q with two bits of each of `high`,
 * moved to bits 4 and 5. */
INLINE __m256i codes6(__m256i q, __m256i high)
{
    return _mm256_or_si256(_mm256_and_si256(q, _mm256_set1_epi8(15)),
                           _mm256_and_si256(high, _mm256_set1_epi8(48)));
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

/* ---- blocks ---- */

/* Repeats the first or second int16 of each lane. */
INLINE __m256i twice(__m256i pairs, const bool second)
{
    const __m256i at =
        _mm256_setr_epi8(0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13, 0,
                         1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13);
    const __m256i two = _mm256_set1_epi8(2);

    return _mm256_shuffle_epi8(pairs, second ? _mm256_add_epi8(at, two) : at);
}

INLINE void add_float(const struct tile *t, uint32_t g, __m256 scale,
                      const uint32_t mx, const __m256i *sums, __m256 *acc)
{
    UNROLL
    for (uint32_t i = 0; i < mx; i++) {
        acc[i] =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[i]),
                            _mm256_mul_ps(scale, x_scale(t, i, g)), acc[i]);
    }
}

/* Adds what the offset of the codes, a power of two, has to be. */
INLINE void add_offset(const struct tile *t, uint32_t g, const uint32_t mx,
                       const enum weights f, __m256i *sums)
{
    UNROLL
    for (uint32_t i = 0; i < mx; i++) {
        __m256i x = four(x_sums(t, i, g));

        sums[i] = f == W_Q4 ? _mm256_sub_epi32(sums[i], _mm256_slli_epi32(x, 3))
                  : f == W_MXFP4
                      ? _mm256_sub_epi32(sums[i], _mm256_slli_epi32(x, 4))
                      : _mm256_add_epi32(sums[i], _mm256_slli_epi32(x, 7));
    }
}

/* Adds block g of q8, q4, mxfp4 and affine. */
INLINE void add_block(const struct tile *t, uint32_t g, const uint32_t mx,
                      const enum weights f, __m256 *acc)
{
    const bool eight = f == W_AFFINE8 || f == W_Q8;
    const bool affine = f == W_AFFINE8 || f == W_AFFINE4;
    const uint32_t n = affine ? t->p->x.block : 32;
    const uint8_t *codes = t->w.data + (size_t)g * n * (eight ? 8 : 4);
    __m256i sums[STRIP];

    UNROLL
    for (uint32_t i = 0; i < mx; i++) {
        sums[i] = _mm256_setzero_si256();
    }
    for (uint32_t k = 0; k < n; k += 32) {
        if (eight) {
            add32_8(t, codes + (size_t)k * 8, g * n + k, mx, sums);
        } else {
            add32_4(t, codes + (size_t)k * 4, g * n + k, _mm256_set1_epi16(1),
                    mx, f, sums);
        }
    }
    if (f != W_Q8 && f != W_AFFINE4) {
        add_offset(t, g, mx, f, sums);
    }
    add_float(t, g, scale_of(t, g, f), mx, sums, acc);
    if (affine) {
        UNROLL
        for (uint32_t i = 0; i < mx; i++) {
            sums[i] = four(x_sums(t, i, g));
        }
        add_float(t, g, values(t->w.biases, (size_t)g * PACK_ROWS, t->w.dtype),
                  mx, sums, acc);
    }
}

/* Adds the biases of record g: four pairs of groups. */
INLINE void add_biases4(const struct tile *t, const uint8_t *record, uint32_t g,
                        const uint32_t mx, __m256 *acc)
{
    __m256 m = _mm256_xor_ps(halves(record + 16), _mm256_set1_ps(-0.0f));
    __m256i sums[STRIP];

    UNROLL
    for (uint32_t i = 0; i < mx; i++) {
        const char *of_32 = x_sums(t, i, g) + 32;

        sums[i] = _mm256_setzero_si256();
        UNROLL
        for (uint32_t j = 0; j < 4; j++) {
            __m256i b = _mm256_cvtepu8_epi16(load_half(record + 96 + 16 * j));

            sums[i] = _mm256_add_epi32(
                sums[i], _mm256_madd_epi16(b, four(of_32 + 4 * j)));
        }
    }
    add_float(t, g, m, mx, sums, acc);
}

INLINE void add_record4(const struct tile *t, uint32_t g, const uint32_t mx,
                        __m256 *acc)
{
    const uint8_t *record = (const uint8_t *)t->w.scales + (size_t)g * 160;
    const uint8_t *codes = t->w.data + (size_t)g * INT8_RECORD * 4;
    const uint32_t k = g * INT8_RECORD;
    __m256i sums[STRIP];

    UNROLL
    for (uint32_t i = 0; i < mx; i++) {
        sums[i] = _mm256_setzero_si256();
    }
    for (uint32_t j = 0; j < 4; j++) {
        __m256i s = _mm256_cvtepu8_epi16(load_half(record + 32 + 16 * j));

        add32_4(t, codes + j * 256, k + 64 * j, twice(s, false), mx, W_K4,
                sums);
        add32_4(t, codes + j * 256 + 128, k + 64 * j + 32, twice(s, true), mx,
                W_K4, sums);
    }
    add_float(t, g, halves(record), mx, sums, acc);
    add_biases4(t, record, g, mx, acc);
}

INLINE void add_record6(const struct tile *t, uint32_t g, const uint32_t mx,
                        __m256 *acc)
{
    const uint8_t *record = (const uint8_t *)t->w.scales + (size_t)g * 144;
    const uint8_t *codes = t->w.data + (size_t)g * INT8_RECORD * 6;
    const uint32_t k = g * INT8_RECORD;
    __m256i sums[STRIP], offsets[STRIP];

    UNROLL
    for (uint32_t i = 0; i < mx; i++) {
        sums[i] = offsets[i] = _mm256_setzero_si256();
    }
    for (uint32_t j = 0; j < 8; j++) {
        __m256i s = _mm256_cvtepi8_epi16(load_half(record + 16 + 16 * j));

        add16_6(t, codes + j * 192, k + 32 * j, twice(s, false), mx, sums);
        add16_6(t, codes + j * 192 + 96, k + 32 * j + 16, twice(s, true), mx,
                sums);
        UNROLL
        for (uint32_t i = 0; i < mx; i++) {
            offsets[i] = _mm256_add_epi32(
                offsets[i],
                _mm256_madd_epi16(s, four(x_sums(t, i, g) + 4 * j)));
        }
    }
    UNROLL
    for (uint32_t i = 0; i < mx; i++) {
        sums[i] = _mm256_sub_epi32(sums[i], _mm256_slli_epi32(offsets[i], 5));
    }
    add_float(t, g, halves(record), mx, sums, acc);
}

/* ---- tiles ---- */

/* Stores eight elements, or those that count. */
INLINE void store(const struct int8_product *p, uint32_t m, uint32_t n,
                  __m256 sum)
{
    const uint32_t left = p->n_w - n;
    float part[PACK_ROWS] = {0}, *out = p->out + m * p->ld_out + n;
    const float *bias = p->bias != NULL ? p->bias + n : NULL;

    if (left >= PACK_ROWS) {
        sum = bias != NULL ? _mm256_add_ps(sum, _mm256_loadu_ps(bias)) : sum;
        sum = p->add ? _mm256_add_ps(_mm256_loadu_ps(out), sum) : sum;
        _mm256_storeu_ps(out, sum);
        return;
    }
    _mm256_storeu_ps(part, sum);
    for (uint32_t r = 0; r < left; r++) {
        float one = bias != NULL ? part[r] + bias[r] : part[r];

        out[r] = p->add ? out[r] + one : one;
    }
}

INLINE void tile_run(const struct tile *t, const uint32_t mx,
                     const enum weights f)
{
    const uint32_t blocks = t->p->x.k / t->p->x.block;
    __m256 acc[STRIP];

    UNROLL
    for (uint32_t i = 0; i < mx; i++) {
        acc[i] = _mm256_setzero_ps();
    }
    for (uint32_t g = 0; g < blocks; g++) {
        if (f == W_K4) {
            add_record4(t, g, mx, acc);
        } else if (f == W_K6) {
            add_record6(t, g, mx, acc);
        } else {
            add_block(t, g, mx, f, acc);
        }
    }
    UNROLL
    for (uint32_t i = 0; i < mx; i++) {
        store(t->p, t->m + i, t->n, acc[i]);
    }
}

/* Multiplies mx rows of x with rows [n, end) of W. */
INLINE void strip(const struct int8_product *p, uint32_t m, uint32_t n,
                  uint32_t end, const uint32_t mx, const enum weights f)
{
    struct tile t = {
        .p = p, .x = p->x.rows + m * p->x.row_bytes, .m = m, .n = n};

    for (; t.n < end; t.n += PACK_ROWS) {
        t.w = quantised_from(&p->w, t.n);
        tile_run(&t, mx, f);
    }
}

/* mx is a constant in each case, so that the tile unrolls. */
INLINE void strip_of(const struct int8_product *p, uint32_t m, uint32_t n,
                     uint32_t end, uint32_t mx, const enum weights f)
{
    switch (mx) {
    case 4:
        strip(p, m, n, end, 4, f);
        break;
    case 3:
        strip(p, m, n, end, 3, f);
        break;
    case 2:
        strip(p, m, n, end, 2, f);
        break;
    default:
        strip(p, m, n, end, 1, f);
        break;
    }
}

/* Splits the rows of x into strips as evenly as possible, for each panel. */
INLINE void product_of(const struct int8_product *p, const enum weights f)
{
    const size_t row = (size_t)p->w.k * p->w.bits / 8;
    const uint32_t groups = (uint32_t)(PANEL / (row * PACK_ROWS)) + 1;

    for (uint32_t n = 0, end; n < p->n_w; n = end) {
        uint32_t strips = (p->n_x + STRIP - 1) / STRIP;

        end = n + groups * PACK_ROWS;
        end = end < p->n_w ? end : p->n_w;
        for (uint32_t m = 0; m < p->n_x; strips--) {
            uint32_t mx = (p->n_x - m + strips - 1) / strips;

            strip_of(p, m, n, end, mx, f);
            m += mx;
        }
    }
}

#define FORMATS(X) \
    X(W_AFFINE8) X(W_AFFINE4) X(W_MXFP4) X(W_Q8) X(W_Q4) X(W_K4) X(W_K6)

#define LOOPS(f)                                          \
    static void product_##f(const struct int8_product *p) \
    {                                                     \
        product_of(p, f);                                 \
    }
FORMATS(LOOPS)
#undef LOOPS

static enum weights weights_of(const struct quantised *w)
{
    static const enum weights of[WEIGHT_FORMATS] = {
        [WEIGHT_MXFP4] = W_MXFP4, [WEIGHT_Q8] = W_Q8, [WEIGHT_Q4] = W_Q4,
        [WEIGHT_K4] = W_K4,       [WEIGHT_K6] = W_K6,
    };

    return w->format != WEIGHT_AFFINE ? of[w->format]
           : w->bits == 4             ? W_AFFINE4
                                      : W_AFFINE8;
}

static void product(const struct int8_product *p)
{
    static void (*const loops[])(const struct int8_product *) = {
#define LOOPS(f) [f] = product_##f,
        FORMATS(LOOPS)
#undef LOOPS
    };

    loops[weights_of(&p->w)](p);
}

const struct int8_isa int8_avx2 = {.quantise = quantise, .product = product};
