#include "tests/kernels/random_weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/model/half.h"

#define HUGE_PAGE ((size_t)2 << 20)

/* A benchmark's matrices are in large pages, as a shard's are: with small ones
 * the page tables limit the rate. */
static void *allocate(size_t bytes)
{
    size_t whole = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    void *p;

    if (bytes < 2 * HUGE_PAGE) {
        return malloc(bytes > 0 ? bytes : 1);
    }
    p = aligned_alloc(HUGE_PAGE, whole);
#ifdef MADV_HUGEPAGE
    if (p != NULL) {
        /* A refusal costs only speed. */
        (void)madvise(p, whole, MADV_HUGEPAGE);
    }
#endif
    return p;
}

void *random_own(struct random_model *m, size_t bytes)
{
    void *p = allocate(bytes);

    if (p == NULL || m->n_owned == RANDOM_TENSORS) {
        abort();
    }
    m->owned[m->n_owned++] = p;
    return p;
}

/* Returns the first 16 bits of a float32, or an f16 of a value in +-[2^-14,
 * 2]. */
static uint16_t half_of(float f, enum dtype t)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    if (t == DTYPE_BF16) {
        return (uint16_t)(bits >> 16);
    }
    if (fabsf(f) < 0x1p-14f) {
        return 0;
    }
    return (uint16_t)((bits >> 16 & 0x8000) |
                      (((bits & 0x7fffffff) - 0x38000000) >> 13));
}

void *random_values(struct random_model *m, struct dice *d, size_t n,
                    enum dtype t, float low, float high)
{
    char *out = random_own(m, n * dtype_bytes(t));

    for (size_t i = 0; i < n; i++) {
        float f = dice_float(d, low, high);
        uint16_t h = half_of(f, t);

        if (t == DTYPE_F32) {
            memcpy(out + i * 4, &f, 4);
        } else {
            memcpy(out + i * 2, &h, 2);
        }
    }
    return out;
}

bool random_fits(enum weight_format format, uint32_t cols)
{
    switch (format) {
    case WEIGHT_PLAIN:
    case WEIGHT_FP8:
        return true;
    case WEIGHT_K4:
    case WEIGHT_K6:
        return cols % 256 == 0;
    default:
        return cols % 32 == 0;
    }
}

static uint8_t *random_bytes(struct random_model *m, struct dice *d, size_t n)
{
    uint8_t *p = random_own(m, n + 3);

    for (size_t i = 0; i < n; i += 4) {
        uint32_t word = dice_u32(d);

        memcpy(p + i, &word, n - i < 4 ? n - i : 4);
    }
    return p;
}

static void fill_affine(struct random_model *m, struct dice *d,
                        struct tensor *t, float width)
{
    uint32_t bits = dice_below(d, 2) ? 4 : 8;
    uint32_t group = 32u << dice_below(d, 3);

    bits = t->bits > 0 ? t->bits : bits;
    group = t->bits > 0 ? t->group : group;
    while (t->cols % group != 0) {
        group /= 2;
    }
    float step = 2.0f * width / (float)((1u << bits) - 1);

    t->bits = bits;
    t->group = group;
    t->data = random_bytes(m, d, t->rows * tensor_row_bytes(t));
    t->scales = random_values(m, d, (size_t)t->rows * (t->cols / group),
                              t->dtype, 0.5f * step, step);
    t->biases = random_values(m, d, (size_t)t->rows * (t->cols / group),
                              t->dtype, -1.1f * width, -0.9f * width);
}

/* Scales of 16 bits for each group.  spread: the root mean square of a code. */
static void fill_halves(struct random_model *m, struct dice *d,
                        struct tensor *t, float width, float spread)
{
    float s = width / 1.73f / spread;

    t->scales = random_values(m, d, (size_t)t->rows * (t->cols / 32), DTYPE_F16,
                              0.7f * s, 1.3f * s);
}

/* Codes of NaN are no weights. */
static void fill_fp8(struct random_model *m, struct dice *d, struct tensor *t,
                     float width)
{
    size_t n = (size_t)t->rows * t->cols;
    uint8_t *data = random_bytes(m, d, n);
    float s = width / 1.73f / 110.0f;

    for (size_t i = 0; i < n; i++) {
        data[i] ^= (data[i] & 127) == 127;
    }
    t->data = data;
    t->scales = random_values(m, d, (size_t)t->rows * ((t->cols + 127) / 128),
                              DTYPE_F32, 0.7f * s, 1.3f * s);
}

static void fill_mxfp4(struct random_model *m, struct dice *d, struct tensor *t,
                       float width)
{
    size_t n = (size_t)t->rows * t->cols / 32;
    uint8_t *scales = random_own(m, n);
    int exponent = (int)lrintf(log2f(width / 1.73f / 2.93f)) + 127;

    for (size_t i = 0; i < n; i++) {
        scales[i] = (uint8_t)(exponent + (int)dice_below(d, 3) - 1);
    }
    t->scales = scales;
}

static void put_half(uint8_t *at, float f)
{
    uint16_t h = half_to_f16(f);

    memcpy(at, &h, sizeof h);
}

/* The bias of a group is about half its range: m b = 8 d s. */
static void fill_k4(struct random_model *m, struct dice *d, struct tensor *t,
                    float width)
{
    size_t n = (size_t)t->rows * t->cols / 256;
    uint8_t *record = random_own(m, n * 20);
    float s = width / 1.73f / 4.6f / 40.0f;

    t->scales = record;
    for (size_t i = 0; i < n; i++, record += 20) {
        float scale = dice_float(d, 0.8f * s, 1.2f * s);

        for (uint32_t j = 0; j < 8; j++) {
            record[2 * j] = (uint8_t)(16 + dice_below(d, 48));
            record[2 * j + 1] = record[2 * j];
        }
        put_half(record + 16, scale);
        put_half(record + 18, dice_float(d, 7.0f, 8.0f) * scale);
    }
}

static void fill_k6(struct random_model *m, struct dice *d, struct tensor *t,
                    float width)
{
    size_t n = (size_t)t->rows * t->cols / 256;
    uint8_t *record = random_own(m, n * 18);
    float s = width / 1.73f / 18.5f / 80.0f;

    t->scales = record;
    for (size_t i = 0; i < n; i++, record += 18) {
        for (uint32_t j = 0; j < 16; j++) {
            int scale = 40 + (int)dice_below(d, 80);

            record[j] = (uint8_t)(dice_below(d, 2) ? -scale : scale);
        }
        put_half(record + 16, dice_float(d, 0.8f * s, 1.2f * s));
    }
}

void random_sizes(struct tensor *t, enum weight_format format)
{
    static const struct {
        uint32_t bits, group;
    } sizes[WEIGHT_FORMATS] = {
        [WEIGHT_FP8] = {8, 128}, [WEIGHT_MXFP4] = {4, 32},
        [WEIGHT_Q8] = {8, 32},   [WEIGHT_Q4] = {4, 32},
        [WEIGHT_K4] = {4, 32},   [WEIGHT_K6] = {6, 16},
    };

    t->format = format;
    if (format != WEIGHT_AFFINE) {
        t->bits = sizes[format].bits;
        t->group = sizes[format].group;
    }
}

void random_codes(struct random_model *m, struct dice *d, struct tensor *t,
                  enum weight_format format, float width)
{
    random_sizes(t, format);
    if (format == WEIGHT_AFFINE) {
        fill_affine(m, d, t, width);
        return;
    }
    if (format == WEIGHT_FP8) {
        fill_fp8(m, d, t, width);
        return;
    }
    t->data = random_bytes(m, d, t->rows * tensor_row_bytes(t));
    switch (format) {
    case WEIGHT_MXFP4:
        fill_mxfp4(m, d, t, width);
        break;
    case WEIGHT_K4:
        fill_k4(m, d, t, width);
        break;
    case WEIGHT_K6:
        fill_k6(m, d, t, width);
        break;
    default:
        fill_halves(m, d, t, width, format == WEIGHT_Q8 ? 74.0f : 4.6f);
    }
}
