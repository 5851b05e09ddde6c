/* Tests the quantisation of single vectors. */
#include "kernels/kv_codec.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "common/model/half.h"
#include "tests/kernels/random_model.h"
#include "tests/unit/cmocka.h"

#define WIDEST  512
#define VECTORS 10000

#define COUNT(of) (sizeof(of) / sizeof *(of))

struct stored {
    uint32_t codes[WIDEST];
    float params[WIDEST];
};

static struct kv_vector vector_of(const struct kv_format *f, uint32_t bits,
                                  uint32_t hd)
{
    uint32_t affine =
        f->group > 0 ? hd / f->group * 2 * (uint32_t)dtype_bytes(f->dtype) : 0;

    return (struct kv_vector){.bits = bits,
                              .code_bytes = (hd * bits + 31) / 32 * 4,
                              .param_bytes =
                                  f->scheme == KV_AFFINE ? affine : 2};
}

static struct kv_format affine_format(enum dtype dtype, uint32_t group)
{
    return (struct kv_format){
        .dtype = dtype, .scheme = KV_AFFINE, .group = group};
}

static const struct kv_format turbo_format = {.dtype = DTYPE_BF16,
                                              .scheme = KV_TURBOQUANT};

/* Encodes x and decodes it into out; storage past the vector must stay as it
 * is. */
static struct stored round_trip(const struct kv_format *f, uint32_t bits,
                                const struct kv_turbo *t, const float *x,
                                uint32_t hd, float *out)
{
    struct kv_vector v = vector_of(f, bits, hd);
    struct stored s;

    memset(&s, 0x5a, sizeof s);
    kv_encode(f, &v, t, x, hd, s.codes, s.params);
    for (size_t i = v.code_bytes; i < sizeof s.codes; i++) {
        assert_int_equal(((const uint8_t *)s.codes)[i], 0x5a);
    }
    for (size_t i = v.param_bytes; i < sizeof s.params; i++) {
        assert_int_equal(((const uint8_t *)s.params)[i], 0x5a);
    }
    kv_decode(f, &v, t, s.codes, s.params, hd, out);
    return s;
}

/* ---- affine ---- */

/* Values of a case, computed in double and rounded once. */
static float ramp(int i)
{
    return (float)((i - 10) / 8.0);
}

static float constant(int i)
{
    (void)i;
    return 1.5f;
}

static float above_zero(int i)
{
    return (float)(5.0 + i / 64.0);
}

static float outlier(int i)
{
    return i == 13 ? -40.0f : (float)((i % 2 ? -1 : 1) * (i % 7) / 16.0);
}

static float shuffled(int i)
{
    return (float)((i * 37 % 32 - 16) * 0.043);
}

static float squares(int i)
{
    return (float)((i * i * 11 % 61 - 22) * 0.0137);
}

/* Results of an independent program, which follows the formulas of kv_codec.h
 * and rounds every operation to float32. */
static const struct golden {
    float (*value)(int i);
    uint32_t bits;
    enum dtype dtype;
    double scale, bias;
    uint32_t words[8];
} golden[] = {
    {ramp,
     4,
     DTYPE_F32,
     -0.26249998807907104,
     2.625,
     {0xbccddeef, 0x8899aaab, 0x44556677, 0x00112233}},
    {ramp,
     4,
     DTYPE_BF16,
     -0.26171875,
     2.625,
     {0xbccddeef, 0x8899aabb, 0x44556677, 0x00112233}},
    {constant, 4, DTYPE_F32, -1.0000000116860974e-07, 1.5, {0, 0, 0, 0}},
    {above_zero,
     4,
     DTYPE_F16,
     -0.032257080078125,
     5.484375,
     {0xccddeeff, 0x8899aabb, 0x44556677, 0x00112233}},
    {outlier,
     8,
     DTYPE_BF16,
     0.158203125,
     -40.0,
     {0xfcfefcfd, 0xfdfffbfe, 0xfbfefcfd, 0xfcfd00ff, 0xfbfefcfe, 0xfcfdfdff,
      0xfafffbfe, 0xfcfefcfd}},
    {shuffled,
     8,
     DTYPE_F32,
     0.005212121177464724,
     -0.6880000233650208,
     {0x7c532900, 0x19f8cea5, 0xbe956b42, 0x5b3208e7, 0xffd6ad84, 0x9d744a21,
      0x3a11efc6, 0xdfb68c63}},
    {squares,
     4,
     DTYPE_BF16,
     -0.056396484375,
     0.5078125,
     {0x277154ce, 0x69702e56, 0x9a7cd8dc, 0xaa598141}},
};

static double stored_value(const void *p, size_t i, enum dtype t)
{
    uint16_t h;
    float f;

    if (t == DTYPE_F32) {
        memcpy(&f, (const char *)p + 4 * i, 4);
        return (double)f;
    }
    memcpy(&h, (const char *)p + 2 * i, 2);
    return (double)(t == DTYPE_F16 ? half_from_f16(h) : half_from_bf16(h));
}

static void affine_codes_match_golden_cases(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNT(golden); c++) {
        const struct golden *g = &golden[c];
        struct kv_format f = affine_format(g->dtype, 32);
        float x[64], out[64];
        struct stored s;

        for (int i = 0; i < 64; i++) {
            x[i] = g->value(i % 32); /* two equal groups */
        }
        s = round_trip(&f, g->bits, NULL, x, 64, out);
        for (size_t j = 0; j < 2; j++) {
            assert_true(stored_value(s.params, 2 * j, g->dtype) == g->scale);
            assert_true(stored_value(s.params, 2 * j + 1, g->dtype) == g->bias);
            assert_memory_equal(s.codes + j * g->bits, g->words, 4 * g->bits);
        }
        for (int i = 0; i < 64; i++) {
            uint32_t at = (uint32_t)i % 32 * g->bits;
            uint32_t q = g->words[at / 32] >> at % 32 & ((1u << g->bits) - 1);

            assert_true(out[i] == (float)(g->scale * q + g->bias));
        }
    }
}

/* The end with the greater magnitude is exact with float32 parameters; nothing
 * is farther from its value than one step. */
static void affine_errors_stay_below_one_step(void **state)
{
    static const uint32_t groups[] = {32, 64, 128};
    struct dice d = {11};

    (void)state;
    for (uint32_t round = 0; round < 600; round++) {
        uint32_t bits = round % 2 ? 4 : 8, group = groups[round % 3];
        struct kv_format f = affine_format(DTYPE_F32, group);
        float x[128], out[128], centre = dice_float(&d, -2.0f, 2.0f);
        float far = 0.0f;
        struct stored s;

        for (uint32_t i = 0; i < 128; i++) {
            x[i] = centre + dice_float(&d, -1.0f, 1.0f);
        }
        s = round_trip(&f, bits, NULL, x, 128, out);
        for (uint32_t i = 0; i < group; i++) {
            assert_true(fabsf(out[i] - x[i]) <= 1.001f * fabsf(s.params[0]));
            far = fabsf(x[i]) > fabsf(far) ? x[i] : far;
        }
        for (uint32_t i = 0; i < group; i++) {
            if (x[i] == far) {
                assert_true(out[i] == far || s.params[1] == 0.0f);
            }
        }
    }
}

static void affine_vectors_that_are_not_finite_read_as_nan(void **state)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};

    (void)state;
    for (uint32_t c = 0; c < 3 * 64 * 2; c++) {
        struct kv_format f = affine_format((enum dtype)(c % 3), 64);
        float x[128], out[128];

        for (int i = 0; i < 128; i++) {
            x[i] = (float)i / 7.0f;
        }
        x[c / 6] = bad[c / 2 % 3];
        round_trip(&f, c % 2 ? 4 : 8, NULL, x, 128, out);
        for (int i = 0; i < 128; i++) {
            assert_true(i < 64 ? isnan(out[i]) : fabsf(out[i] - x[i]) < 1.0f);
        }
    }
}

/* Zeros read as zeros; the smallest and greatest values stay near themselves
 * where the dtype has them. */
static void affine_groups_without_a_finite_range_read_as_nan(void **state)
{
    struct kv_format f = affine_format(DTYPE_F32, 32);
    float x[32] = {FLT_MAX, -FLT_MAX}, out[32];

    (void)state;
    round_trip(&f, 8, NULL, x, 32, out);
    for (int i = 0; i < 32; i++) {
        assert_true(isnan(out[i]));
    }
}

static void affine_handles_zero_tiny_and_huge_values(void **state)
{
    static const float sizes[] = {0.0f,  FLT_TRUE_MIN, 1e-30f,
                                  1e-7f, 1e30f,        1e38f};

    (void)state;
    for (uint32_t c = 0; c < 2 * COUNT(sizes); c++) {
        float size = sizes[c / 2], x[32], out[32];
        struct kv_format f = affine_format(c % 2 ? DTYPE_F32 : DTYPE_BF16, 32);

        for (int i = 0; i < 32; i++) {
            x[i] = (i % 2 ? -size : size) * ((float)(i + 1) / 32.0f);
        }
        round_trip(&f, 8, NULL, x, 32, out);
        for (int i = 0; i < 32; i++) {
            double most = 2.0 / 255 * (double)size * (c % 2 ? 1.01 : 1.5);

            /* The least scale is 1e-7. */
            assert_true(fabs((double)out[i] - (double)x[i]) <= most + 1e-7);
        }
    }
}

/* ---- turboquant ---- */

/* Positive halves; codebooks are symmetric. */
static const struct codebook {
    uint32_t d, bits;
    double positive[8];
} codebooks[] = {
    {64, 2, {.056494, .187454}},
    {64, 3, {.030405, .093683, .165995, .263751}},
    {64,
     4,
     {.015638, .047267, .080009, .114786, .152958, .196810, .250964, .329139}},
    {128, 2, {.039981, .133020}},
    {128, 3, {.021563, .066480, .118012, .188288}},
    {128,
     4,
     {.011082, .033510, .056786, .081576, .108818, .140236, .179340, .236392}},
    {256, 2, {.028272, .094203}},
    {256, 3, {.015249, .047044, .083612, .133712}},
    {256,
     4,
     {.007833, .023704, .040219, .057812, .077194, .099612, .127541, .168523}},
};

static void codebooks_match_the_table(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNT(codebooks); c++) {
        const struct codebook *b = &codebooks[c];
        uint32_t half = 1u << (b->bits - 1);
        struct kv_turbo t;

        kv_turbo_make(&t, b->d, b->bits, KV_KEYS);
        for (uint32_t i = 0; i < half; i++) {
            double up = (double)t.centroids[half + i];
            double down = (double)t.centroids[half - 1 - i];

            assert_true(fabs(up - b->positive[i]) < 1e-5);
            assert_true(fabs(down + b->positive[i]) < 1e-5);
        }
        for (uint32_t i = 0; i + 1 < 2 * half; i++) {
            assert_true(t.centroids[i] < t.edges[i]);
            assert_true(t.edges[i] < t.centroids[i + 1]);
        }
    }
}

/* Every size that a backend accepts, with both signs and a basis of its own for
 * each half. */
static void signs_differ_between_keys_and_values(void **state)
{
    (void)state;
    for (uint32_t d = KV_TURBO_DIM_MIN; d <= WIDEST; d *= 2) {
        struct kv_turbo k, v;
        uint32_t minus = 0, differ = 0;

        kv_turbo_make(&k, d, 3, KV_KEYS);
        kv_turbo_make(&v, d, 3, KV_VALUES);
        assert_memory_equal(k.centroids, v.centroids, sizeof k.centroids);
        for (uint32_t i = 0; i < d; i++) {
            assert_true(fabsf(k.signs[i]) == 1.0f);
            minus += k.signs[i] < 0.0f;
            differ += k.signs[i] != v.signs[i];
        }
        assert_in_range(minus, d / 5, d - d / 5);
        assert_in_range(differ, d / 5, d - d / 5);
    }
}

static double dot(const float *a, const float *b, uint32_t n)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < n; i++) {
        sum += (double)a[i] * (double)b[i];
    }
    return sum;
}

/* Returns element i of H D x / sqrt(d), where H_ij is -1 to the number of
 * common bits of i and j. */
static double rotated(const struct kv_turbo *t, const float *x, uint32_t i)
{
    double sum = 0.0;

    for (uint32_t j = 0; j < t->d; j++) {
        sum += (double)(t->signs[j] * x[j]) *
               (__builtin_parity(i & j) ? -1.0 : 1.0);
    }
    return sum / sqrt(t->d);
}

static void rotation_keeps_products_and_is_undone(void **state)
{
    struct dice d = {5};

    (void)state;
    for (uint32_t hd = KV_TURBO_DIM_MIN; hd <= WIDEST; hd *= 2) {
        float a[WIDEST], b[WIDEST], x[WIDEST], y[WIDEST];
        struct kv_turbo t;

        kv_turbo_make(&t, hd, 4, KV_VALUES);
        for (uint32_t i = 0; i < hd; i++) {
            x[i] = a[i] = dice_float(&d, -1.0f, 1.0f);
            y[i] = b[i] = dice_float(&d, -1.0f, 1.0f);
        }
        kv_turbo_rotate(&t, x);
        kv_turbo_rotate(&t, y);
        assert_true(fabs(dot(x, y, hd) - dot(a, b, hd)) < 1e-5);
        for (uint32_t i = 0; i < hd; i++) {
            assert_true(fabs((double)x[i] - rotated(&t, a, i)) < 1e-6);
        }
        kv_turbo_rotate_back(&t, x);
        for (uint32_t i = 0; i < hd; i++) {
            assert_true(fabsf(x[i] - a[i]) < 1e-6f);
        }
    }
}

/* By Box and Muller. */
static float gaussian(struct dice *d)
{
    double u = ((double)dice_u32(d) + 1.0) * 0x1p-32;
    double v = (double)dice_u32(d) * 0x1p-32;

    return (float)(sqrt(-2.0 * log(u)) * cos(2.0 * acos(-1.0) * v));
}

/* Returns |x - read x|^2 / |x|^2. */
static double relative_error(const struct kv_turbo *t, const float *x,
                             uint32_t hd)
{
    float out[WIDEST];
    double error = 0.0;

    round_trip(&turbo_format, t->bits, t, x, hd, out);
    kv_turbo_rotate_back(t, out);
    for (uint32_t i = 0; i < hd; i++) {
        double e = (double)out[i] - (double)x[i];

        error += e * e;
    }
    return error / dot(x, x, hd);
}

/* The optimum for the density is 0.03426 with 3 bits and 0.00941 with 4; the
 * mean of so many vectors is within 1 % of it. */
static void errors_are_those_of_the_optimum(void **state)
{
    static const double least[] = {.0339, .0093}, most[] = {.0350, .0097};

    (void)state;
    for (uint32_t bits = 3; bits <= 4; bits++) {
        struct dice d = {bits};
        struct kv_turbo t;
        double sum = 0.0;

        kv_turbo_make(&t, 256, bits, KV_KEYS);
        for (int n = 0; n < VECTORS; n++) {
            float x[256];

            for (int i = 0; i < 256; i++) {
                x[i] = gaussian(&d);
            }
            sum += relative_error(&t, x, 256);
        }
        assert_true(sum / VECTORS >= least[bits - 3]);
        assert_true(sum / VECTORS <= most[bits - 3]);
    }
}

/* Vectors of any length have the same codes. */
static void length_changes_only_the_norm(void **state)
{
    struct dice d = {3};
    struct kv_turbo t;
    float x[128], y[128], out[128];

    (void)state;
    kv_turbo_make(&t, 128, 4, KV_VALUES);
    for (int i = 0; i < 128; i++) {
        x[i] = gaussian(&d);
    }
    for (int power = -20; power <= 12; power++) {
        struct stored a = round_trip(&turbo_format, 4, &t, x, 128, out), b;

        for (int i = 0; i < 128; i++) {
            y[i] = ldexpf(x[i], power);
        }
        b = round_trip(&turbo_format, 4, &t, y, 128, out);
        assert_memory_equal(a.codes, b.codes, 64);
        assert_true(
            fabs(stored_value(b.params, 0, DTYPE_F16) * ldexp(1.0, -power) -
                 sqrt(dot(x, x, 128))) < 0.05);
    }
}

static void codes_cross_the_borders_of_words(void **state)
{
    (void)state;
    for (uint32_t bits = 2; bits <= 4; bits++) {
        uint8_t seen[WIDEST];
        struct kv_turbo t;
        float x[WIDEST], u[WIDEST], out[WIDEST], norm;
        struct stored s;
        struct dice d = {bits};

        kv_turbo_make(&t, 128, bits, KV_KEYS);
        for (int i = 0; i < 128; i++) {
            x[i] = gaussian(&d);
        }
        s = round_trip(&turbo_format, bits, &t, x, 128, out);
        norm = (float)stored_value(s.params, 0, DTYPE_F16);
        for (uint32_t i = 0; i < 128; i++) { /* bit by bit */
            seen[i] = 0;
            for (uint32_t b = 0; b < bits; b++) {
                uint32_t at = i * bits + b;

                seen[i] |= (uint8_t)((s.codes[at / 32] >> at % 32 & 1) << b);
            }
            assert_true(out[i] == norm * t.centroids[seen[i]]);
        }
        memcpy(u, x, sizeof u);
        kv_turbo_rotate(&t, u);
        for (uint32_t i = 0; i < 128; i++) { /* the nearest centroid */
            double at = (double)u[i] / sqrt(dot(x, x, 128));
            double gap = fabs(at - (double)t.centroids[seen[i]]);

            for (uint32_t c = 0; c < 1u << bits; c++) {
                assert_true(gap <= fabs(at - (double)t.centroids[c]) + 1e-6);
            }
        }
    }
}

static void turbo_handles_vectors_of_every_size(void **state)
{
    static const float sizes[] = {0.0f, 1e-30f, 1e-5f, 1e3f, 1e15f};
    struct kv_turbo t;

    (void)state;
    kv_turbo_make(&t, 64, 3, KV_KEYS);
    for (size_t c = 0; c < COUNT(sizes); c++) {
        float x[64], out[64];
        double length;

        for (int i = 0; i < 64; i++) {
            x[i] = sizes[c] * (float)(i % 7 - 3);
        }
        round_trip(&turbo_format, 3, &t, x, 64, out);
        length = sqrt(dot(x, x, 64));
        length = length > 65504.0 ? 65504.0 : length;
        assert_true(fabs(sqrt(dot(out, out, 64)) - length) <=
                    0.1 * length + 1e-7);
    }
}

static void turbo_vectors_that_are_not_finite_read_as_nan(void **state)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY, 1e25f};
    struct kv_turbo t;

    (void)state;
    kv_turbo_make(&t, 64, 4, KV_KEYS);
    for (size_t c = 0; c < COUNT(bad); c++) {
        float x[64] = {1.0f, 2.0f, 3.0f}, out[64];

        x[c * 20] = bad[c];
        round_trip(&turbo_format, 4, &t, x, 64, out);
        for (int i = 0; i < 64; i++) {
            assert_true(isnan(out[i]));
        }
    }
}

/* ---- plain ---- */

static void plain_vectors_are_rounded_to_their_dtype(void **state)
{
    (void)state;
    for (int c = 0; c < 3; c++) {
        struct kv_format f = {.dtype = (enum dtype)c};
        struct kv_vector v = {.bits = (uint32_t)dtype_bytes(f.dtype) * 8};
        float x[24], out[24];
        uint16_t codes[48];

        for (int i = 0; i < 24; i++) {
            x[i] = (float)i * 0.1f - 1.0f;
        }
        kv_encode(&f, &v, NULL, x, 24, codes, NULL);
        kv_decode(&f, &v, NULL, codes, NULL, 24, out);
        for (int i = 0; i < 24; i++) {
            float want = f.dtype == DTYPE_F32 ? x[i]
                         : f.dtype == DTYPE_BF16
                             ? half_from_bf16(half_to_bf16(x[i]))
                             : half_from_f16(half_to_f16(x[i]));

            assert_true(out[i] == want);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(affine_codes_match_golden_cases),
        cmocka_unit_test(affine_errors_stay_below_one_step),
        cmocka_unit_test(affine_vectors_that_are_not_finite_read_as_nan),
        cmocka_unit_test(affine_groups_without_a_finite_range_read_as_nan),
        cmocka_unit_test(affine_handles_zero_tiny_and_huge_values),
        cmocka_unit_test(codebooks_match_the_table),
        cmocka_unit_test(signs_differ_between_keys_and_values),
        cmocka_unit_test(rotation_keeps_products_and_is_undone),
        cmocka_unit_test(errors_are_those_of_the_optimum),
        cmocka_unit_test(length_changes_only_the_norm),
        cmocka_unit_test(codes_cross_the_borders_of_words),
        cmocka_unit_test(turbo_handles_vectors_of_every_size),
        cmocka_unit_test(turbo_vectors_that_are_not_finite_read_as_nan),
        cmocka_unit_test(plain_vectors_are_rounded_to_their_dtype),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
