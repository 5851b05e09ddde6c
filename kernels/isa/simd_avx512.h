/* simd_avx512.h - sixteen float32 lanes as one register of AVX-512F and BW.
 * simd_generic.h describes the calls. */
#ifndef KERNELS_ISA_SIMD_AVX512_H
#define KERNELS_ISA_SIMD_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

/* Rows of x and of W in a register tile; the FEW tile serves up to TILE_FEW
 * rows of x. */
#define TILE_X     6
#define TILE_W     4
#define TILE_FEW_X 8
#define TILE_FEW_W 3
#define TILE_FEW   32

/* Most rows of x of the LEAST tile, and its rows of W, for bf16. */
#define TILE_LEAST_X     5
#define TILE_LEAST_W(mx) ((mx) < 4 ? 8 : 4)

/* Positions of a quantised cache whose scores share a read of the queries. */
#define TILE_KEYS 4

struct v16 {
    __m512 v;
};

static inline struct v16 v16_set(float x)
{
    return (struct v16){_mm512_set1_ps(x)};
}

static inline struct v16 v16_load(const float *p)
{
    return (struct v16){_mm512_loadu_ps(p)};
}

static inline void v16_store(float *p, struct v16 a)
{
    _mm512_storeu_ps(p, a.v);
}

static inline struct v16 v16_load_bf16(const uint16_t *p)
{
    __m256i h = _mm256_loadu_si256((const __m256i *)(const void *)p);
    __m512i wide = _mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16);

    return (struct v16){_mm512_castsi512_ps(wide)};
}

/* A shuffle inside the quarters of a register widens bf16 at once; a shuffle
 * across quarters needs a shift behind it.  So a load repeats its two quarters
 * of eight values, and quarters of four come in the order 0, 2, 1, 3: that of
 * lanes swapped. */
#define SIMD_SWAPS

static inline struct v16 v16_swap(struct v16 a)
{
    return (struct v16){_mm512_shuffle_f32x4(a.v, a.v, 0xd8)};
}

static inline struct v16 v16_load_bf16_swapped(const uint16_t *p)
{
    __m512i first =
        _mm512_set4_epi32(0x07068080, 0x05048080, 0x03028080, 0x01008080);
    __m512i second =
        _mm512_set4_epi32(0x0f0e8080, 0x0d0c8080, 0x0b0a8080, 0x09088080);
    __m512i at = _mm512_mask_blend_epi64(0xf0, first, second);
    __m512i h = _mm512_broadcast_i64x4(
        _mm256_loadu_si256((const __m256i *)(const void *)p));

    return (struct v16){_mm512_castsi512_ps(_mm512_shuffle_epi8(h, at))};
}

static inline struct v16 v16_load_f16(const uint16_t *p)
{
    __m256i h = _mm256_loadu_si256((const __m256i *)(const void *)p);

    return (struct v16){_mm512_cvtph_ps(h)};
}

/* all: with four bits, a table of all sixteen values. */
struct v16_group {
    __m512 scale, bias, all;
};

static inline struct v16_group v16_group4(float scale, float bias)
{
    __m512 q =
        _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);

    return (struct v16_group){
        .all = _mm512_fmadd_ps(q, _mm512_set1_ps(scale), _mm512_set1_ps(bias))};
}

static inline struct v16_group v16_group8(float scale, float bias)
{
    return (struct v16_group){.scale = _mm512_set1_ps(scale),
                              .bias = _mm512_set1_ps(bias)};
}

/* Looks the values up: a look-up uses the lowest four bits of each lane. */
static inline struct v16 v16_load4(struct v16_group g, const uint8_t *p)
{
    __m128i q = _mm_loadl_epi64((const __m128i *)(const void *)p);
    __m512i word =
        _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    __m512i at = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16,
                                   20, 24, 28);
    __m512i all = _mm512_permutexvar_epi32(word, _mm512_castsi128_si512(q));

    return (struct v16){
        _mm512_permutexvar_ps(_mm512_srlv_epi32(all, at), g.all)};
}

/* Sixteen codes are half a word for each lane without a shuffle, if the order
 * of lanes is 0, 8, 1, 9, ...: that of lanes turned. */
#define SIMD_TURNS

static inline struct v16 v16_turn(struct v16 a)
{
    __m512i at =
        _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);

    return (struct v16){_mm512_permutexvar_ps(at, a.v)};
}

static inline struct v16 v16_turn_back(struct v16 a)
{
    __m512i at =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);

    return (struct v16){_mm512_permutexvar_ps(at, a.v)};
}

/* As v16_load4, turned. */
static inline struct v16 v16_load4_turned(struct v16_group g, const uint8_t *p)
{
    __m128i q = _mm_loadl_epi64((const __m128i *)(const void *)p);
    __m512i at = _mm512_setr_epi64(0, 4, 8, 12, 16, 20, 24, 28);
    __m512i all = _mm512_srlv_epi64(_mm512_broadcastq_epi64(q), at);

    return (struct v16){_mm512_permutexvar_ps(all, g.all)};
}

static inline struct v16 v16_load8(struct v16_group g, const uint8_t *p)
{
    __m128i q = _mm_loadu_si128((const __m128i *)(const void *)p);
    __m512 wide = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(q));

    return (struct v16){_mm512_fmadd_ps(wide, g.scale, g.bias)};
}

static inline struct v16 v16_load_q8(float scale, const uint8_t *p)
{
    __m128i q = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(const void *)p),
                              _mm_set1_epi8((char)0x80));

    return (struct v16){_mm512_mul_ps(
        _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(q)), _mm512_set1_ps(scale))};
}

/* Four codes are three bytes; the last word starts a byte before them, so that
 * no more than 12 bytes are read. */
static inline struct v16 v16_load_q6(float scale, const uint8_t *p)
{
    __m512i word =
        _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    __m512i at = _mm512_setr_epi32(0, 6, 12, 18, 0, 6, 12, 18, 0, 6, 12, 18, 8,
                                   14, 20, 26);
    int words[4];
    __m512i q;

    for (int i = 0; i < 4; i++) {
        memcpy(&words[i], p + (i < 3 ? 3 * i : 8), sizeof *words);
    }
    q = _mm512_castsi128_si512(
        _mm_setr_epi32(words[0], words[1], words[2], words[3]));
    q = _mm512_srlv_epi32(_mm512_permutexvar_epi32(word, q), at);
    q = _mm512_and_si512(q, _mm512_set1_epi32(63));
    q = _mm512_sub_epi32(q, _mm512_set1_epi32(32));
    return (struct v16){
        _mm512_mul_ps(_mm512_cvtepi32_ps(q), _mm512_set1_ps(scale))};
}

/* The sign is moved by eight bits, then with the rest by one less. */
static inline struct v16 v16_load_e4m3(float scale, const uint8_t *p)
{
    __m128i q = _mm_loadu_si128((const __m128i *)(const void *)p);
    __m256i h = _mm256_slli_epi16(_mm256_cvtepu8_epi16(q), 8);

    h = _mm256_and_si256(_mm256_srai_epi16(h, 1),
                         _mm256_set1_epi16((short)0xbf80));
    return (struct v16){
        _mm512_mul_ps(_mm512_cvtph_ps(h), _mm512_set1_ps(scale))};
}

static inline struct v16 v16_load_e8m0(const uint8_t *p)
{
    __m128i q = _mm_loadu_si128((const __m128i *)(const void *)p);
    __m512i bits = _mm512_slli_epi32(_mm512_cvtepu8_epi32(q), 23);

    return (struct v16){_mm512_castsi512_ps(
        _mm512_max_epi32(bits, _mm512_set1_epi32(0x400000)))};
}

static inline struct v16 v16_load_i8(const uint8_t *p)
{
    __m128i q = _mm_loadu_si128((const __m128i *)(const void *)p);

    return (struct v16){_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(q))};
}

struct v16_table {
    __m512 all;
};

static inline struct v16_table v16_table(const float *values, float scale)
{
    return (struct v16_table){
        _mm512_mul_ps(_mm512_loadu_ps(values), _mm512_set1_ps(scale))};
}

static inline struct v16 v16_load_table(struct v16_table t, const uint8_t *p)
{
    return v16_load4((struct v16_group){.all = t.all}, p);
}

static inline struct v16 v16_load_table_turned(struct v16_table t,
                                               const uint8_t *p)
{
    return v16_load4_turned((struct v16_group){.all = t.all}, p);
}

/* A look-up uses the lowest four bits of a lane: a table of fewer values is
 * repeated, so that the bits above a code do not matter. */
struct v16_book {
    __m512 all;
};

static inline struct v16_book v16_book(const float *values, uint32_t bits)
{
    float all[16];

    for (uint32_t i = 0; i < 16; i++) {
        all[i] = values[i & ((1u << bits) - 1)];
    }
    return (struct v16_book){_mm512_loadu_ps(all)};
}

static inline struct v16 v16_look_up2(struct v16_book b, const uint8_t *p)
{
    __m512i at = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22,
                                   24, 26, 28, 30);
    int word;

    memcpy(&word, p, sizeof word);
    return (struct v16){_mm512_permutexvar_ps(
        _mm512_srlv_epi32(_mm512_set1_epi32(word), at), b.all)};
}

/* The second word starts 8 bits before the ninth value, so that no more than 6
 * bytes are read. */
static inline struct v16 v16_look_up3(struct v16_book b, const uint8_t *p)
{
    __m512i at = _mm512_setr_epi32(0, 3, 6, 9, 12, 15, 18, 21, 8, 11, 14, 17,
                                   20, 23, 26, 29);
    int words[2];

    memcpy(&words[0], p, sizeof *words);
    memcpy(&words[1], p + 2, sizeof *words);
    __m512i all =
        _mm512_mask_set1_epi32(_mm512_set1_epi32(words[0]), 0xff00, words[1]);

    return (struct v16){
        _mm512_permutexvar_ps(_mm512_srlv_epi32(all, at), b.all)};
}

static inline struct v16 v16_look_up4(struct v16_book b, const uint8_t *p)
{
    return v16_load4((struct v16_group){.all = b.all}, p);
}

static inline void v16_store_bf16(uint16_t *p, struct v16 a)
{
    __m512i bits = _mm512_castps_si512(a.v);
    __m512i odd =
        _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i even = _mm512_add_epi32(
        bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
    __m512i pick =
        _mm512_mask_or_epi32(even, nan, bits, _mm512_set1_epi32(0x400000));

    _mm256_storeu_si256((__m256i *)(void *)p,
                        _mm512_cvtepi32_epi16(_mm512_srli_epi32(pick, 16)));
}

static inline void v16_store_f16(uint16_t *p, struct v16 a)
{
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(a.v, 0));
}

static inline struct v16 v16_add(struct v16 a, struct v16 b)
{
    return (struct v16){_mm512_add_ps(a.v, b.v)};
}

static inline struct v16 v16_sub(struct v16 a, struct v16 b)
{
    return (struct v16){_mm512_sub_ps(a.v, b.v)};
}

static inline struct v16 v16_mul(struct v16 a, struct v16 b)
{
    return (struct v16){_mm512_mul_ps(a.v, b.v)};
}

static inline struct v16 v16_div(struct v16 a, struct v16 b)
{
    return (struct v16){_mm512_div_ps(a.v, b.v)};
}

static inline struct v16 v16_fma(struct v16 a, struct v16 b, struct v16 c)
{
    return (struct v16){_mm512_fmadd_ps(a.v, b.v, c.v)};
}

static inline struct v16 v16_max(struct v16 a, struct v16 b)
{
    return (struct v16){_mm512_max_ps(a.v, b.v)};
}

static inline struct v16 v16_min(struct v16 a, struct v16 b)
{
    return (struct v16){_mm512_min_ps(a.v, b.v)};
}

static inline struct v16 v16_below(struct v16 x, struct v16 limit, struct v16 a,
                                   struct v16 b)
{
    __mmask16 m = _mm512_cmp_ps_mask(x.v, limit.v, _CMP_LT_OQ);

    return (struct v16){_mm512_mask_blend_ps(m, b.v, a.v)};
}

static inline struct v16 v16_first(uint32_t n, struct v16 a, struct v16 b)
{
    __mmask16 m = (__mmask16)(n >= 16 ? 0xffffu : (1u << n) - 1u);

    return (struct v16){_mm512_mask_blend_ps(m, b.v, a.v)};
}

static inline struct v16 v16_pow2(struct v16 t)
{
    __m512i n = _mm512_sub_epi32(_mm512_castps_si512(t.v),
                                 _mm512_set1_epi32(0x4b400000 - 127));

    return (struct v16){_mm512_castsi512_ps(_mm512_slli_epi32(n, 23))};
}

static inline __m256 v16_upper(struct v16 a)
{
    __m512d wide = _mm512_castps_pd(a.v);

    return _mm256_castpd_ps(_mm512_extractf64x4_pd(wide, 1));
}

static inline float v16_sum(struct v16 a)
{
    __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a.v), v16_upper(a));
    __m128 q =
        _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));

    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}

/* Defined here, not in simd_math.h. */
#define SIMD_SUM4

/* Folds four registers.  ab and cd: lanes i + lanes i+8 of two of them each. */
static inline void v16_sum_halves(float *out, __m512 ab, __m512 cd)
{
    __m512 all = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88),
                               _mm512_shuffle_f32x4(ab, cd, 0xdd));
    __m512i first =
        _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);

    all = _mm512_add_ps(all, _mm512_permute_ps(all, 0x4e));
    all = _mm512_add_ps(all, _mm512_permute_ps(all, 0xb1));
    _mm_storeu_ps(out,
                  _mm512_castps512_ps128(_mm512_permutexvar_ps(first, all)));
}

/* Folds lanes of four registers at once, in the order of v16_sum. */
static inline void v16_sum4(float *out, const struct v16 a[4])
{
    __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a[0].v, a[1].v, 0x44),
                              _mm512_shuffle_f32x4(a[0].v, a[1].v, 0xee));
    __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(a[2].v, a[3].v, 0x44),
                              _mm512_shuffle_f32x4(a[2].v, a[3].v, 0xee));

    v16_sum_halves(out, ab, cd);
}

/* As v16_sum4, of lanes swapped. */
static inline void v16_sum4_swapped(float *out, const struct v16 a[4])
{
    __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a[0].v, a[1].v, 0x88),
                              _mm512_shuffle_f32x4(a[0].v, a[1].v, 0xdd));
    __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(a[2].v, a[3].v, 0x88),
                              _mm512_shuffle_f32x4(a[2].v, a[3].v, 0xdd));

    v16_sum_halves(out, ab, cd);
}

static inline float v16_top(struct v16 a)
{
    __m256 h = _mm256_max_ps(_mm512_castps512_ps256(a.v), v16_upper(a));
    __m128 q =
        _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));

    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}

#endif
