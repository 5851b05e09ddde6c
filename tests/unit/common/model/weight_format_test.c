#include "common/model/weight_format.h"

#include <math.h>
#include <string.h>

#include "common/model/half.h"
#include "tests/unit/cmocka.h"

static void names_every_format_once(void **state)
{
    (void)state;
    for (int i = 0; i < WEIGHT_FORMATS; i++) {
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(weight_format_name((enum weight_format)i),
                                    weight_format_name((enum weight_format)j));
        }
    }
    assert_string_equal(weight_format_name(WEIGHT_FORMATS), "?");
}

/* Code by code, from the definition. */
static void e4m3_has_its_254_values(void **state)
{
    (void)state;
    for (int i = 0; i < 256; i++) {
        int exponent = i >> 3 & 15;
        double v = exponent == 0 ? (i & 7) * pow(2, -9)
                                 : (1 + (i & 7) / 8.0) * pow(2, exponent - 7);
        float have = weight_format_e4m3((uint8_t)i);

        if ((i & 127) == 127) {
            assert_true(isnan(have));
        } else {
            assert_true((double)have == (i & 128 ? -v : v));
            assert_int_equal(signbit(have) != 0, i >> 7);
        }
    }
    assert_true(weight_format_e4m3(0x7e) == 448);
    assert_true(weight_format_e4m3(1) == 0x1p-9f);
}

static void e2m1_and_e8m0_have_their_values(void **state)
{
    static const float v[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

    (void)state;
    for (uint8_t i = 0; i < 16; i++) {
        float have = weight_format_e2m1(i);

        assert_true(fabsf(have) == v[i & 7]);
        assert_int_equal(signbit(have) != 0, i >> 3);
        assert_true(weight_format_e2m1((uint8_t)(i | 0xa0)) == have);
    }
    assert_true(weight_format_e8m0(127) == 1);
    assert_true(weight_format_e8m0(0) == 0x1p-127f);
    assert_true(weight_format_e8m0(254) == 0x1p127f);
    assert_true(isnan(weight_format_e8m0(255)));
}

static void expect(const struct tensor *t, uint32_t row, uint32_t col, float v)
{
    float have;

    weight_format_decode(&have, t, row, col, 1);
    if (have != v) {
        fail_msg("%s, row %u, column %u: %.9g, not %.9g",
                 weight_format_name(t->format), row, col, (double)have,
                 (double)v);
    }
}

static void decodes_plain(void **state)
{
    static const uint16_t halves[] = {0x3f80, 0xc000, 0x3c00, 0x7bff};
    static const float floats[] = {1, 2, 3, 0x1.234568p-3f};
    struct tensor t = {.data = halves, .rows = 2, .cols = 2};
    float row[2];

    (void)state;
    t.dtype = DTYPE_BF16;
    expect(&t, 0, 0, 1);
    expect(&t, 0, 1, -2);
    t.dtype = DTYPE_F16;
    expect(&t, 1, 0, 1);
    expect(&t, 1, 1, 65504);
    t.dtype = DTYPE_F32;
    t.data = floats;
    weight_format_decode(row, &t, 1, 0, 2);
    assert_memory_equal(row, floats + 2, sizeof row);
}

/* The product has more than 24 bits: s q is not rounded before b is added. */
static void decodes_affine_with_one_rounding(void **state)
{
    static const uint8_t codes[64] = {0x5c, [32] = 255, [63] = 3};
    static const float scales[] = {0x1.000002p0f, 0x1.fffffep0f};
    static const float biases[] = {-255, 0.5f};
    struct tensor t = {.data = codes,
                       .format = WEIGHT_AFFINE,
                       .dtype = DTYPE_F32,
                       .rows = 2,
                       .cols = 32,
                       .bits = 8,
                       .group = 32,
                       .scales = scales,
                       .biases = biases};

    (void)state;
    expect(&t, 0, 0, fmaf(0x5c, 0x1.000002p0f, -255));
    expect(&t, 1, 0, fmaf(255, 0x1.fffffep0f, 0.5f));
    t.rows = 1;
    t.cols = 64;
    expect(&t, 0, 32, fmaf(255, 0x1.fffffep0f, 0.5f));
    t.bits = 4;
    t.rows = 2;
    t.cols = 32;
    expect(&t, 0, 0, fmaf(12, 0x1.000002p0f, -255));
    expect(&t, 0, 1, fmaf(5, 0x1.000002p0f, -255));
}

/* 136 columns: two blocks, the second of 8. */
static void decodes_fp8(void **state)
{
    uint8_t codes[2 * 136] = {
        [0] = 0x38, [127] = 0xfe, [128] = 0x38, [136] = 0x01, [271] = 0x3f};
    static const float scales[] = {3, 0.25f, 0x1.555556p-2f, 0.1f};
    struct tensor t = {.data = codes,
                       .format = WEIGHT_FP8,
                       .rows = 2,
                       .cols = 136,
                       .bits = 8,
                       .group = 128,
                       .scales = scales};

    (void)state;
    assert_int_equal(tensor_scale_bytes(&t), 8);
    expect(&t, 0, 0, 3);
    expect(&t, 0, 127, -1344);
    expect(&t, 0, 128, 0.25f);
    expect(&t, 1, 0, 0x1.555556p-11f);
    expect(&t, 1, 135, 0.1f * 1.875f);
}

static void decodes_mxfp4(void **state)
{
    uint8_t codes[2 * 32] = {[0] = 0xf2, [15] = 0x70, [16] = 0x01, [63] = 0x90};
    static const uint8_t scales[] = {127, 130, 0, 120};
    struct tensor t = {.data = codes,
                       .format = WEIGHT_MXFP4,
                       .rows = 2,
                       .cols = 64,
                       .bits = 4,
                       .group = 32,
                       .scales = scales};

    (void)state;
    expect(&t, 0, 0, 1);
    expect(&t, 0, 1, -6);
    expect(&t, 0, 31, 6);
    expect(&t, 0, 32, 4);
    expect(&t, 1, 1, 0);
    expect(&t, 1, 63, -0x1p-8f);
}

static void decodes_q8_and_q4(void **state)
{
    uint8_t codes[64] = {[0] = 0, [1] = 255, [31] = 129, [32] = 128};
    static const uint16_t scales[] = {0x3c00, 0x0001}; /* 1, 2^-24 */
    struct tensor t = {.data = codes,
                       .format = WEIGHT_Q8,
                       .rows = 1,
                       .cols = 64,
                       .bits = 8,
                       .group = 32,
                       .scales = scales};

    (void)state;
    expect(&t, 0, 0, -128);
    expect(&t, 0, 1, 127);
    expect(&t, 0, 31, 1);
    expect(&t, 0, 32, 0);
    expect(&t, 0, 33, -0x1p-17f);
    t.format = WEIGHT_Q4;
    t.bits = 4;
    codes[0] = 0xf0;
    expect(&t, 0, 0, -8);
    expect(&t, 0, 1, 7);
}

static void decodes_k4(void **state)
{
    uint8_t codes[256] = {[0] = 0x3a, [128 + 127] = 0xf0};
    uint8_t scales[40] = {0};
    struct tensor t = {.data = codes,
                       .format = WEIGHT_K4,
                       .rows = 1,
                       .cols = 512,
                       .bits = 4,
                       .group = 32,
                       .scales = scales};
    static const uint16_t d = 0x3c01, m = 0x4000; /* 1 + 2^-10, 2 */

    (void)state;
    scales[0] = 5;
    scales[1] = 63;
    scales[20 + 14] = 63;
    scales[20 + 15] = 1;
    memcpy(scales + 16, &d, 2);
    memcpy(scales + 18, &m, 2);
    memcpy(scales + 36, &d, 2);
    memcpy(scales + 38, &m, 2);
    expect(&t, 0, 0, 50 * (1 + 0x1p-10f) - 126);
    expect(&t, 0, 1, 15 * (1 + 0x1p-10f) - 126);
    expect(&t, 0, 2, -126);
    expect(&t, 0, 32, 0);
    expect(&t, 0, 511, 945 * (1 + 0x1p-10f) - 2);
    expect(&t, 0, 510, -2);
}

/* Six bits: codes 0 to 3 are in bytes 0 to 2. */
static void decodes_k6(void **state)
{
    uint8_t codes[192] = {0};
    uint8_t scales[18] = {0};
    struct tensor t = {.data = codes,
                       .format = WEIGHT_K6,
                       .rows = 1,
                       .cols = 256,
                       .bits = 6,
                       .group = 16,
                       .scales = scales};
    static const uint16_t d = 0x4200; /* 3 */
    uint32_t first = 1u | 33u << 6 | 63u << 12 | 32u << 18;

    (void)state;
    for (int i = 0; i < 3; i++) {
        codes[i] = (uint8_t)(first >> 8 * i);
    }
    codes[191] = 31 << 2; /* the last code */
    scales[0] = 2;
    scales[15] = (uint8_t)-128;
    memcpy(scales + 16, &d, 2);
    expect(&t, 0, 0, 3 * 2 * -31);
    expect(&t, 0, 1, 6);
    expect(&t, 0, 2, 6 * 31);
    expect(&t, 0, 3, 0);
    expect(&t, 0, 255, 3 * -128 * -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_every_format_once),
        cmocka_unit_test(e4m3_has_its_254_values),
        cmocka_unit_test(e2m1_and_e8m0_have_their_values),
        cmocka_unit_test(decodes_plain),
        cmocka_unit_test(decodes_affine_with_one_rounding),
        cmocka_unit_test(decodes_fp8),
        cmocka_unit_test(decodes_mxfp4),
        cmocka_unit_test(decodes_q8_and_q4),
        cmocka_unit_test(decodes_k4),
        cmocka_unit_test(decodes_k6),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
