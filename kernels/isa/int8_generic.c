/* int8_generic.c - integer products in plain C: the definition. */
#include "kernels/isa/int8.h"

#include <math.h>
#include <string.h>

#include "common/model/half.h"

#include "kernels/isa/int8_quantise.inc"

#define STRIP     8   /* rows of x that share the codes of a block */
#define BLOCK_MAX 256 /* columns */

/* A block of columns of a group of rows. */
struct block {
    int8_t code[PACK_ROWS][BLOCK_MAX];         /* less their offset */
    int16_t s[PACK_ROWS][16], b[PACK_ROWS][8]; /* of records */
    float scale[PACK_ROWS];                    /* d, or an affine scale */
    float bias[PACK_ROWS];                     /* affine: the bias; k4: -m */
};

static float value(const void *p, size_t i, enum dtype t)
{
    float f;
    uint16_t h;

    if (t == DTYPE_F32) {
        memcpy(&f, (const char *)p + i * sizeof f, sizeof f);
        return f;
    }
    memcpy(&h, (const char *)p + i * sizeof h, sizeof h);
    return t == DTYPE_BF16 ? half_from_bf16(h) : half_from_f16(h);
}

/* ---- codes ---- */

static uint32_t code4(const uint8_t *p, uint32_t r, uint32_t i)
{
    return p[i / 8 * 32 + r * 4 + i % 4] >> i / 4 % 2 * 4 & 15;
}

static uint32_t code6(const uint8_t *p, uint32_t r, uint32_t i)
{
    const uint8_t *at = p + i / 16 * 96 + r * 4 + i % 4;
    uint32_t high = at[64] >> i % 16 / 4 * 2 & 3;

    return (at[i % 16 / 8 * 32] >> i / 4 % 2 * 4 & 15) | high << 4;
}

static int32_t code_of(const struct quantised *w, const uint8_t *p, uint32_t r,
                       uint32_t i)
{
    static const int8_t e2m1[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                    0, -1, -2, -3, -4, -6, -8, -12};

    switch (w->bits) {
    case 8:
        return (int8_t)p[i / 4 * 32 + r * 4 + i % 4];
    case 6:
        return (int32_t)code6(p, r, i) - 32;
    default:
        break;
    }
    uint32_t q = code4(p, r, i);

    return w->format == WEIGHT_MXFP4 ? e2m1[q]
           : w->format == WEIGHT_Q4  ? (int32_t)q - 8
                                     : (int32_t)q;
}

/* ---- scales ---- */

static float e8m0_half(uint8_t code)
{
    return ldexpf(1.0f, (int)code - 128);
}

/* Reads the scales of row r and of block g. */
static void scales_of(struct block *b, const struct quantised *w, uint32_t g,
                      uint32_t r)
{
    const uint8_t *s = w->scales;
    size_t i = (size_t)g * PACK_ROWS + r;

    switch (w->format) {
    case WEIGHT_AFFINE:
        b->scale[r] = value(s, i, w->dtype);
        b->bias[r] = value(w->biases, i, w->dtype);
        break;
    case WEIGHT_MXFP4:
        b->scale[r] = e8m0_half(s[i]);
        break;
    case WEIGHT_K4:
        s += (size_t)g * 160;
        b->scale[r] = value(s, r, DTYPE_F16);
        b->bias[r] = -value(s + 16, r, DTYPE_F16);
        for (uint32_t j = 0; j < 8; j++) {
            b->s[r][j] = s[32 + j / 2 * 16 + r * 2 + j % 2];
            b->b[r][j] = s[96 + j / 2 * 16 + r * 2 + j % 2];
        }
        break;
    case WEIGHT_K6:
        s += (size_t)g * 144;
        b->scale[r] = value(s, r, DTYPE_F16);
        for (uint32_t j = 0; j < 16; j++) {
            b->s[r][j] = (int8_t)s[16 + j / 2 * 16 + r * 2 + j % 2];
        }
        break;
    default:
        b->scale[r] = value(s, i, DTYPE_F16);
        break;
    }
}

static void block_read(struct block *b, const struct quantised *w, uint32_t g,
                       uint32_t n)
{
    const uint8_t *p = w->data + (size_t)g * n * w->bits / 8 * PACK_ROWS;

    for (uint32_t r = 0; r < PACK_ROWS; r++) {
        for (uint32_t i = 0; i < n; i++) {
            b->code[r][i] = (int8_t)code_of(w, p, r, i);
        }
        scales_of(b, w, g, r);
    }
}

/* ---- products ---- */

static int32_t dot(const int8_t *a, const int8_t *b, uint32_t n)
{
    int32_t sum = 0;

    for (uint32_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

static int32_t sum_scaled(const int8_t *code, const int16_t *s, const int8_t *q,
                          uint32_t group)
{
    int32_t sum = 0;

    for (uint32_t i = 0; i < INT8_RECORD / group; i++) {
        sum += s[i] * dot(code + i * group, q + i * group, group);
    }
    return sum;
}

/* Adds block g of row r to the sum of row m of x. */
static float add_block(float sum, const struct int8_product *p,
                       const struct block *b, uint32_t g, uint32_t r,
                       uint32_t m)
{
    const uint32_t n = p->x.block;
    const int8_t *q = int8_codes(&p->x, m) + (size_t)g * n;
    const float d = int8_scales(&p->x, m)[g];
    const char *sums =
        (const char *)int8_sums(&p->x, m) + g * int8_sums_bytes(n);
    const int16_t *of_32 = (const int16_t *)(const void *)sums + 16;
    int32_t biases = 0;

    if (p->w.format == WEIGHT_K6 || p->w.format == WEIGHT_K4) {
        int32_t all = sum_scaled(b->code[r], b->s[r], q, p->w.group);

        sum = fmaf((float)all, b->scale[r] * d, sum);
    } else {
        int32_t all = dot(b->code[r], q, n);

        if (p->w.format == WEIGHT_AFFINE && p->w.bits == 8) {
            all += 128 * *(const int32_t *)(const void *)sums;
        }
        sum = fmaf((float)all, b->scale[r] * d, sum);
    }
    if (p->w.format == WEIGHT_AFFINE) {
        biases = *(const int32_t *)(const void *)sums;
        return fmaf((float)biases, b->bias[r] * d, sum);
    }
    for (uint32_t j = 0; p->w.format == WEIGHT_K4 && j < 8; j++) {
        biases += b->b[r][j] * of_32[j];
    }
    return p->w.format == WEIGHT_K4 ? fmaf((float)biases, b->bias[r] * d, sum)
                                    : sum;
}

static void store(const struct int8_product *p, uint32_t m, uint32_t n,
                  float sum)
{
    float *out = p->out + m * p->ld_out + n;

    sum = p->bias != NULL ? sum + p->bias[n] : sum;
    *out = p->add ? *out + sum : sum;
}

/* Multiplies n_x rows of x from row m on with the group of rows n to n + 7. */
static void strip(const struct int8_product *p, uint32_t m, uint32_t n_x,
                  uint32_t n)
{
    struct quantised w = quantised_from(&p->w, n);
    float sums[STRIP][PACK_ROWS] = {{0}};
    struct block b;

    for (uint32_t g = 0; g < p->x.k / p->x.block; g++) {
        block_read(&b, &w, g, p->x.block);
        for (uint32_t i = 0; i < n_x * PACK_ROWS; i++) {
            uint32_t row = i / PACK_ROWS, r = i % PACK_ROWS;

            sums[row][r] = add_block(sums[row][r], p, &b, g, r, m + row);
        }
    }
    for (uint32_t i = 0; i < n_x; i++) {
        for (uint32_t r = 0; r < PACK_ROWS && n + r < p->n_w; r++) {
            store(p, m + i, n + r, sums[i][r]);
        }
    }
}

static void product(const struct int8_product *p)
{
    for (uint32_t n = 0; n < p->n_w; n += PACK_ROWS) {
        for (uint32_t m = 0; m < p->n_x; m += STRIP) {
            uint32_t left = p->n_x - m;

            strip(p, m, left < STRIP ? left : STRIP, n);
        }
    }
}

const struct int8_isa int8_generic = {.quantise = quantise, .product = product};
