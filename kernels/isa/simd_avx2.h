/* simd_avx2.h - sixteen float32 lanes as two AVX2 registers, with FMA and F16C.
 * simd_generic.h describes the calls. */
#ifndef KERNELS_ISA_SIMD_AVX2_H
#define KERNELS_ISA_SIMD_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

/* Rows of x and of W in a register tile; the FEW tile serves up to TILE_FEW
 * rows of x. */
#define TILE_X     3
#define TILE_W     2
#define TILE_FEW_X 6
#define TILE_FEW_W 1
#define TILE_FEW   UINT32_MAX

/* Most rows of x of the LEAST tile, and its rows of W, for bf16. */
#define TILE_LEAST_X     3
#define TILE_LEAST_W(mx) ((mx) < 2 ? 4 : 2)

/* Positions of a quantised cache whose scores share a read of the queries. */
#define TILE_KEYS 1

struct v16 {
    __m256 lo, hi;
};

#define BOTH(f, a, b) ((struct v16){f((a).lo, (b).lo), f((a).hi, (b).hi)})

static inline struct v16 v16_set(float x)
{
    return (struct v16){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}

static inline struct v16 v16_load(const float *p)
{
    return (struct v16){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}

static inline void v16_store(float *p, struct v16 a)
{
    _mm256_storeu_ps(p, a.lo);
    _mm256_storeu_ps(p + 8, a.hi);
}

/* Each half of a register gets all eight values, so that a shuffle inside the
 * halves widens them at once. */
static inline __m256 v16_widen_bf16(const uint16_t *p)
{
    __m256i at =
        _mm256_setr_epi32(0x01008080, 0x03028080, 0x05048080, 0x07068080,
                          0x09088080, 0x0b0a8080, 0x0d0c8080, 0x0f0e8080);
    __m256i h = _mm256_broadcastsi128_si256(
        _mm_loadu_si128((const __m128i *)(const void *)p));

    return _mm256_castsi256_ps(_mm256_shuffle_epi8(h, at));
}

static inline struct v16 v16_load_bf16(const uint16_t *p)
{
    return (struct v16){v16_widen_bf16(p), v16_widen_bf16(p + 8)};
}

static inline struct v16 v16_load_f16(const uint16_t *p)
{
    __m128i lo = _mm_loadu_si128((const __m128i *)(const void *)p);
    __m128i hi = _mm_loadu_si128((const __m128i *)(const void *)(p + 8));

    return (struct v16){_mm256_cvtph_ps(lo), _mm256_cvtph_ps(hi)};
}

struct v16_group {
    __m256 scale, bias;
};

static inline struct v16_group v16_group4(float scale, float bias)
{
    return (struct v16_group){_mm256_set1_ps(scale), _mm256_set1_ps(bias)};
}

static inline struct v16_group v16_group8(float scale, float bias)
{
    return v16_group4(scale, bias);
}

/* Widens eight quantised values, one in each lane. */
static inline __m256 v16_ungroup(struct v16_group g, __m256i q)
{
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(q), g.scale, g.bias);
}

static inline __m256i v16_halves(uint32_t word)
{
    __m256i all = _mm256_set1_epi32((int)word);
    __m256i at = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);

    return _mm256_and_si256(_mm256_srlv_epi32(all, at), _mm256_set1_epi32(15));
}

static inline struct v16 v16_load4(struct v16_group g, const uint8_t *p)
{
    uint32_t words[2];

    memcpy(words, p, sizeof words);
    return (struct v16){v16_ungroup(g, v16_halves(words[0])),
                        v16_ungroup(g, v16_halves(words[1]))};
}

static inline struct v16 v16_load8(struct v16_group g, const uint8_t *p)
{
    __m128i q = _mm_loadu_si128((const __m128i *)(const void *)p);
    __m128i high = _mm_unpackhi_epi64(q, q);

    return (struct v16){v16_ungroup(g, _mm256_cvtepu8_epi32(q)),
                        v16_ungroup(g, _mm256_cvtepu8_epi32(high))};
}

static inline struct v16 v16_load_q8(float scale, const uint8_t *p)
{
    __m128i q = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(const void *)p),
                              _mm_set1_epi8((char)0x80));
    __m128i high = _mm_unpackhi_epi64(q, q);
    __m256 s = _mm256_set1_ps(scale);

    return (struct v16){
        _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q)), s),
        _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(high)), s)};
}

/* Four codes are three bytes; the last word starts a byte before them, so that
 * no more than 12 bytes are read. */
static inline __m256 v16_load_q6_half(float scale, int low, int high,
                                      __m256i at)
{
    __m256i q = _mm256_set_m128i(_mm_set1_epi32(high), _mm_set1_epi32(low));

    q = _mm256_and_si256(_mm256_srlv_epi32(q, at), _mm256_set1_epi32(63));
    return _mm256_mul_ps(
        _mm256_cvtepi32_ps(_mm256_sub_epi32(q, _mm256_set1_epi32(32))),
        _mm256_set1_ps(scale));
}

static inline struct v16 v16_load_q6(float scale, const uint8_t *p)
{
    __m256i first = _mm256_setr_epi32(0, 6, 12, 18, 0, 6, 12, 18);
    __m256i last = _mm256_setr_epi32(0, 6, 12, 18, 8, 14, 20, 26);
    int words[4];

    for (int i = 0; i < 4; i++) {
        memcpy(&words[i], p + (i < 3 ? 3 * i : 8), sizeof *words);
    }
    return (struct v16){v16_load_q6_half(scale, words[0], words[1], first),
                        v16_load_q6_half(scale, words[2], words[3], last)};
}

/* The sign is moved by eight bits, then with the rest by one less. */
static inline __m256 v16_e4m3_half(__m256 scale, __m128i codes)
{
    __m128i h = _mm_slli_epi16(_mm_cvtepu8_epi16(codes), 8);

    h = _mm_and_si128(_mm_srai_epi16(h, 1), _mm_set1_epi16((short)0xbf80));
    return _mm256_mul_ps(_mm256_cvtph_ps(h), scale);
}

static inline struct v16 v16_load_e4m3(float scale, const uint8_t *p)
{
    __m128i q = _mm_loadu_si128((const __m128i *)(const void *)p);
    __m256 s = _mm256_set1_ps(scale);

    return (struct v16){v16_e4m3_half(s, q),
                        v16_e4m3_half(s, _mm_unpackhi_epi64(q, q))};
}

static inline __m256 v16_e8m0_half(__m128i codes)
{
    __m256i bits = _mm256_slli_epi32(_mm256_cvtepu8_epi32(codes), 23);

    return _mm256_castsi256_ps(
        _mm256_max_epi32(bits, _mm256_set1_epi32(0x400000)));
}

static inline struct v16 v16_load_e8m0(const uint8_t *p)
{
    __m128i q = _mm_loadu_si128((const __m128i *)(const void *)p);

    return (struct v16){v16_e8m0_half(q),
                        v16_e8m0_half(_mm_unpackhi_epi64(q, q))};
}

static inline struct v16 v16_load_i8(const uint8_t *p)
{
    __m128i q = _mm_loadu_si128((const __m128i *)(const void *)p);
    __m128i high = _mm_unpackhi_epi64(q, q);

    return (struct v16){_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q)),
                        _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(high))};
}

/* A look-up uses the lowest three bits of a lane: a table of four values is
 * repeated, so that the bits above a code do not matter; one of sixteen is two
 * tables. */
struct v16_book {
    __m256 low, high;
};

static inline struct v16_book v16_book(const float *values, uint32_t bits)
{
    float all[16];

    for (uint32_t i = 0; i < 16; i++) {
        all[i] = values[i & ((1u << bits) - 1)];
    }
    return (struct v16_book){_mm256_loadu_ps(all), _mm256_loadu_ps(all + 8)};
}

/* Looks up eight codes, the first at the bits `at` of a word. */
static inline __m256 v16_look_up(struct v16_book b, const uint8_t *p,
                                 __m256i at)
{
    int word;

    memcpy(&word, p, sizeof word);
    return _mm256_permutevar8x32_ps(
        b.low, _mm256_srlv_epi32(_mm256_set1_epi32(word), at));
}

static inline struct v16 v16_look_up2(struct v16_book b, const uint8_t *p)
{
    __m256i low = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
    __m256i high = _mm256_setr_epi32(16, 18, 20, 22, 24, 26, 28, 30);

    return (struct v16){v16_look_up(b, p, low), v16_look_up(b, p, high)};
}

/* The second word starts 8 bits before the ninth value, so that no more than 6
 * bytes are read. */
static inline struct v16 v16_look_up3(struct v16_book b, const uint8_t *p)
{
    __m256i low = _mm256_setr_epi32(0, 3, 6, 9, 12, 15, 18, 21);
    __m256i high = _mm256_setr_epi32(8, 11, 14, 17, 20, 23, 26, 29);

    return (struct v16){v16_look_up(b, p, low), v16_look_up(b, p + 2, high)};
}

/* Bit 3 of a code, moved to the sign, chooses the table. */
static inline __m256 v16_choose(struct v16_book b, __m256i code)
{
    __m256 sign = _mm256_castsi256_ps(_mm256_slli_epi32(code, 28));

    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(b.low, code),
                            _mm256_permutevar8x32_ps(b.high, code), sign);
}

static inline struct v16 v16_look_up4(struct v16_book b, const uint8_t *p)
{
    uint32_t words[2];

    memcpy(words, p, sizeof words);
    return (struct v16){v16_choose(b, v16_halves(words[0])),
                        v16_choose(b, v16_halves(words[1]))};
}

/* As a book of codes of 4 bits. */
struct v16_table {
    struct v16_book all;
};

static inline struct v16_table v16_table(const float *values, float scale)
{
    __m256 s = _mm256_set1_ps(scale);

    return (struct v16_table){{_mm256_mul_ps(_mm256_loadu_ps(values), s),
                               _mm256_mul_ps(_mm256_loadu_ps(values + 8), s)}};
}

static inline struct v16 v16_load_table(struct v16_table t, const uint8_t *p)
{
    return v16_look_up4(t.all, p);
}

static inline __m256i v16_round_bf16(__m256 a)
{
    __m256i bits = _mm256_castps_si256(a);
    __m256i odd =
        _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i even = _mm256_add_epi32(
        bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    __m256 nan = _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
    __m256 pick = _mm256_blendv_ps(_mm256_castsi256_ps(even),
                                   _mm256_castsi256_ps(quiet), nan);

    return _mm256_srli_epi32(_mm256_castps_si256(pick), 16);
}

static inline void v16_store_bf16(uint16_t *p, struct v16 a)
{
    __m256i both =
        _mm256_packus_epi32(v16_round_bf16(a.lo), v16_round_bf16(a.hi));

    _mm256_storeu_si256((__m256i *)(void *)p,
                        _mm256_permute4x64_epi64(both, 0xd8));
}

static inline void v16_store_f16(uint16_t *p, struct v16 a)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(a.lo, 0));
    _mm_storeu_si128((__m128i *)(void *)(p + 8), _mm256_cvtps_ph(a.hi, 0));
}

static inline struct v16 v16_add(struct v16 a, struct v16 b)
{
    return BOTH(_mm256_add_ps, a, b);
}

static inline struct v16 v16_sub(struct v16 a, struct v16 b)
{
    return BOTH(_mm256_sub_ps, a, b);
}

static inline struct v16 v16_mul(struct v16 a, struct v16 b)
{
    return BOTH(_mm256_mul_ps, a, b);
}

static inline struct v16 v16_div(struct v16 a, struct v16 b)
{
    return BOTH(_mm256_div_ps, a, b);
}

static inline struct v16 v16_fma(struct v16 a, struct v16 b, struct v16 c)
{
    return (struct v16){_mm256_fmadd_ps(a.lo, b.lo, c.lo),
                        _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}

static inline struct v16 v16_max(struct v16 a, struct v16 b)
{
    return BOTH(_mm256_max_ps, a, b);
}

static inline struct v16 v16_min(struct v16 a, struct v16 b)
{
    return BOTH(_mm256_min_ps, a, b);
}

static inline struct v16 v16_below(struct v16 x, struct v16 limit, struct v16 a,
                                   struct v16 b)
{
    __m256 lo = _mm256_cmp_ps(x.lo, limit.lo, _CMP_LT_OQ);
    __m256 hi = _mm256_cmp_ps(x.hi, limit.hi, _CMP_LT_OQ);

    return (struct v16){_mm256_blendv_ps(b.lo, a.lo, lo),
                        _mm256_blendv_ps(b.hi, a.hi, hi)};
}

static inline struct v16 v16_first(uint32_t n, struct v16 a, struct v16 b)
{
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i count = _mm256_set1_epi32((int)n);
    __m256i lo = _mm256_cmpgt_epi32(count, lane);
    __m256i hi =
        _mm256_cmpgt_epi32(count, _mm256_add_epi32(lane, _mm256_set1_epi32(8)));

    return (struct v16){_mm256_blendv_ps(b.lo, a.lo, _mm256_castsi256_ps(lo)),
                        _mm256_blendv_ps(b.hi, a.hi, _mm256_castsi256_ps(hi))};
}

static inline __m256 v16_pow2_half(__m256 t)
{
    __m256i n = _mm256_sub_epi32(_mm256_castps_si256(t),
                                 _mm256_set1_epi32(0x4b400000 - 127));

    return _mm256_castsi256_ps(_mm256_slli_epi32(n, 23));
}

static inline struct v16 v16_pow2(struct v16 t)
{
    return (struct v16){v16_pow2_half(t.lo), v16_pow2_half(t.hi)};
}

static inline float v16_sum(struct v16 a)
{
    __m256 h = _mm256_add_ps(a.lo, a.hi);
    __m128 q =
        _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));

    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}

static inline float v16_top(struct v16 a)
{
    __m256 h = _mm256_max_ps(a.lo, a.hi);
    __m128 q =
        _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));

    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}

#undef BOTH

#endif
