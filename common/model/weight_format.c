#include "common/model/weight_format.h"

#include <math.h>
#include <string.h>

#include "common/model/half.h"

#define K4_BYTES 20 /* of a record */
#define K6_BYTES 18

static const struct {
    const char *name;
    uint32_t bits, group;
} formats[WEIGHT_FORMATS] = {
    [WEIGHT_PLAIN] = {"plain", 0, 0},
    [WEIGHT_AFFINE] = {"affine", 0, 0},
    [WEIGHT_FP8] = {"fp8", 8, WEIGHT_FP8_BLOCK},
    [WEIGHT_MXFP4] = {"mxfp4", 4, 32},
    [WEIGHT_Q8] = {"q8", 8, 32},
    [WEIGHT_Q4] = {"q4", 4, 32},
    [WEIGHT_K4] = {"k4", 4, 32},
    [WEIGHT_K6] = {"k6", 6, 16},
};

const char *weight_format_name(enum weight_format f)
{
    return (unsigned)f < WEIGHT_FORMATS ? formats[f].name : "?";
}

uint32_t weight_format_bits(enum weight_format f)
{
    return formats[f].bits;
}

uint32_t weight_format_group(enum weight_format f)
{
    return formats[f].group;
}

float weight_format_e4m3(uint8_t code)
{
    uint32_t exponent = code >> 3 & 15, fraction = code & 7;
    float v = exponent == 0 ? ldexpf((float)fraction, -9)
                            : ldexpf((float)(8 + fraction), (int)exponent - 10);

    v = (code & 0x7f) == 0x7f ? NAN : v;
    return code & 0x80 ? -v : v;
}

float weight_format_e2m1(uint8_t code)
{
    static const float values[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

    return code & 8 ? -values[code & 7] : values[code & 7];
}

float weight_format_e8m0(uint8_t code)
{
    return code == 255 ? NAN : ldexpf(1, (int)code - 127);
}

/* Reads 16-bit and 32-bit parts at any address. */
static float load(const void *p, uint64_t i, enum dtype t)
{
    uint16_t half;
    float f;

    if (t == DTYPE_F32) {
        memcpy(&f, (const char *)p + i * sizeof f, sizeof f);
        return f;
    }
    memcpy(&half, (const char *)p + i * sizeof half, sizeof half);
    return t == DTYPE_BF16 ? half_from_bf16(half) : half_from_f16(half);
}

/* Returns code i of a row; a code of 6 bits may lie in two bytes. */
static uint32_t code_of(const uint8_t *codes, uint32_t i, uint32_t bits)
{
    uint64_t at = (uint64_t)i * bits;
    uint32_t v = codes[at / 8];

    if (at % 8 + bits > 8) {
        v |= (uint32_t)codes[at / 8 + 1] << 8;
    }
    return v >> at % 8 & ((1u << bits) - 1);
}

static float affine(const struct tensor *t, uint32_t row, uint32_t i,
                    uint32_t q)
{
    uint64_t g = (uint64_t)row * (t->cols / t->group) + i / t->group;

    return fmaf(load(t->scales, g, t->dtype), (float)q,
                load(t->biases, g, t->dtype));
}

/* The products are exact in float32: 11 bits of d times 6 of s times 4. */
static float k4(const uint8_t *scales, uint32_t i, uint32_t q)
{
    const uint8_t *r = scales + (uint64_t)(i / WEIGHT_RECORD) * K4_BYTES;
    const uint8_t *pair = r + i % WEIGHT_RECORD / 32 * 2;
    float d = load(r + 16, 0, DTYPE_F16), m = load(r + 18, 0, DTYPE_F16);

    return d * (float)pair[0] * (float)q - m * (float)pair[1];
}

static float k6(const uint8_t *scales, uint32_t i, uint32_t q)
{
    const uint8_t *r = scales + (uint64_t)(i / WEIGHT_RECORD) * K6_BYTES;
    int8_t s = (int8_t)r[i % WEIGHT_RECORD / 16];

    return load(r + 16, 0, DTYPE_F16) * (float)s * (float)((int)q - 32);
}

static float value_of(const struct tensor *t, uint32_t row, uint32_t i)
{
    const uint8_t *codes = (const uint8_t *)t->data + row * tensor_row_bytes(t);
    const uint8_t *scales =
        t->format == WEIGHT_AFFINE
            ? NULL
            : (const uint8_t *)t->scales + row * tensor_scale_bytes(t);
    uint32_t q = code_of(codes, i, t->bits);

    switch (t->format) {
    case WEIGHT_AFFINE:
        return affine(t, row, i, q);
    case WEIGHT_FP8:
        return load(scales, i / WEIGHT_FP8_BLOCK, DTYPE_F32) *
               weight_format_e4m3((uint8_t)q);
    case WEIGHT_MXFP4:
        return weight_format_e8m0(scales[i / 32]) *
               weight_format_e2m1((uint8_t)q);
    case WEIGHT_Q8:
        return load(scales, i / 32, DTYPE_F16) * (float)((int)q - 128);
    case WEIGHT_Q4:
        return load(scales, i / 32, DTYPE_F16) * (float)((int)q - 8);
    case WEIGHT_K4:
        return k4(scales, i, q);
    case WEIGHT_K6:
        return k6(scales, i, q);
    default:
        return NAN;
    }
}

void weight_format_decode(float *out, const struct tensor *t, uint32_t row,
                          uint32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        out[i] =
            t->bits == 0
                ? load(t->data, (uint64_t)row * t->cols + first + i, t->dtype)
                : value_of(t, row, first + i);
    }
}
