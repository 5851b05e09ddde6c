#include "tests/kernels/reference_math.h"

#include <math.h>
#include <string.h>

/* ---- values ---- */

static double half_value(uint16_t h)
{
    double sign = h & 0x8000 ? -1.0 : 1.0;
    int exponent = h >> 10 & 31, fraction = h & 1023;

    if (exponent == 31) {
        return fraction ? (double)NAN : sign * (double)INFINITY;
    }
    if (exponent == 0) {
        return sign * ldexp(fraction, -24);
    }
    return sign * ldexp(1024 + fraction, exponent - 25);
}

static double half_at(uint16_t h)
{
    static double values[UINT16_MAX + 1];
    static bool made;

    for (uint32_t i = 0; !made && i <= UINT16_MAX; i++) {
        values[i] = half_value((uint16_t)i);
    }
    made = true;
    return values[h];
}

static inline double value_at(const void *data, enum dtype t, size_t i)
{
    uint32_t bits = 0;
    uint16_t half;
    float f;

    if (t == DTYPE_F32) {
        memcpy(&f, (const char *)data + 4 * i, 4);
        return (double)f;
    }
    memcpy(&half, (const char *)data + 2 * i, 2);
    if (t == DTYPE_F16) {
        return half_at(half);
    }
    bits = (uint32_t)half << 16;
    memcpy(&f, &bits, 4);
    return (double)f;
}

double reference_at(const void *data, enum dtype t, size_t i)
{
    return value_at(data, t, i);
}

/* Rounds to `digits` binary digits, with exponents from `least` up. */
static double to_digits(double x, int digits, int least)
{
    int exponent;

    if (x == 0.0 || !isfinite(x)) {
        return x;
    }
    frexp(x, &exponent);
    exponent = exponent - 1 < least ? least : exponent - 1;
    return ldexp(nearbyint(ldexp(x, digits - 1 - exponent)),
                 exponent - digits + 1);
}

/* A value is float32 before it is stored. */
double reference_round(double x, enum dtype t)
{
    double f = (double)(float)x;

    if (t == DTYPE_F32) {
        return f;
    }
    if (t == DTYPE_BF16) {
        return to_digits(f, 8, -126);
    }
    f = to_digits(f, 11, -14);
    return fabs(f) > 65504.0 ? copysign((double)INFINITY, f) : f;
}

/* ---- weights ---- */

/* Returns the value of an FP8 code: S EEEE MMM, the bias of the exponent 7. */
static double e4m3(uint32_t q)
{
    double sign = q & 128 ? -1.0 : 1.0;
    int exponent = q >> 3 & 15, fraction = q & 7;

    if ((q & 127) == 127) {
        return (double)NAN;
    }
    return sign * (exponent == 0 ? ldexp(fraction, -9)
                                 : ldexp(8 + fraction, exponent - 10));
}

/* Returns the value of an FP4 code: S EE M, the bias of the exponent 1. */
static double e2m1(uint32_t q)
{
    double sign = q & 8 ? -1.0 : 1.0;
    int exponent = q >> 1 & 3, fraction = q & 1;

    return sign * (exponent == 0 ? ldexp(fraction, -1)
                                 : ldexp(2 + fraction, exponent - 2));
}

/* Returns the code of a column: bits of a stream, the lowest first. */
static uint32_t code_at(const uint8_t *row, uint32_t bits, uint32_t col)
{
    size_t at = (size_t)col * bits;
    uint32_t q = row[at / 8];

    if (at % 8 + bits > 8) {
        q |= (uint32_t)row[at / 8 + 1] << 8;
    }
    return q >> at % 8 & ((1u << bits) - 1);
}

/* Returns the value of code q of a column.  `s` is its row of scales. */
static double decoded(const struct tensor *w, const uint8_t *s,
                      const uint8_t *biases, uint32_t col, uint32_t q)
{
    uint32_t group = col / w->group;

    switch (w->format) {
    case WEIGHT_AFFINE:
        return value_at(s, w->dtype, group) * q +
               value_at(biases, w->dtype, group);
    case WEIGHT_FP8:
        return value_at(s, DTYPE_F32, col / 128) * e4m3(q);
    case WEIGHT_MXFP4:
        return s[group] == 255 ? (double)NAN : ldexp(e2m1(q), s[group] - 127);
    case WEIGHT_Q8:
        return value_at(s, DTYPE_F16, group) * ((double)q - 128.0);
    case WEIGHT_Q4:
        return value_at(s, DTYPE_F16, group) * ((double)q - 8.0);
    case WEIGHT_K4:
        s += (size_t)(col / 256) * 20;
        group %= 8;
        return value_at(s + 16, DTYPE_F16, 0) * s[2 * group] * q -
               value_at(s + 18, DTYPE_F16, 0) * s[2 * group + 1];
    default:
        s += (size_t)(col / 256) * 18;
        group %= 16;
        return value_at(s + 16, DTYPE_F16, 0) * (int8_t)s[group] *
               ((double)q - 32.0);
    }
}

double reference_weight(const struct tensor *w, uint32_t row, uint32_t col)
{
    size_t scales = row * tensor_scale_bytes(w);
    const uint8_t *data = (const uint8_t *)w->data + row * tensor_row_bytes(w);

    if (w->bits == 0) {
        return reference_at(data, w->dtype, col);
    }
    return reference_round(
        decoded(w, (const uint8_t *)w->scales + scales,
                w->biases ? (const uint8_t *)w->biases + scales : NULL, col,
                code_at(data, w->bits, col)),
        DTYPE_F32);
}

/* ---- products ---- */

/* Takes most of the time, so plain weights are read without a check for
 * each. */
static double row_product(const struct tensor *w, uint32_t row, const double *x)
{
    size_t first = (size_t)row * w->cols;
    double sum = 0.0;

    if (w->bits == 0) {
        for (uint32_t j = 0; j < w->cols; j++) {
            sum += x[j] * value_at(w->data, w->dtype, first + j);
        }
    } else {
        for (uint32_t j = 0; j < w->cols; j++) {
            sum += x[j] * reference_weight(w, row, j);
        }
    }
    return sum;
}

static void product_rows(const struct tensor *w, uint32_t first, uint32_t n,
                         const float *bias, const double *x, double *out)
{
    for (uint32_t i = 0; i < n; i++) {
        out[i] = (bias ? (double)bias[i] : 0.0) + row_product(w, first + i, x);
    }
}

void reference_product(const struct tensor *w, const float *bias,
                       const double *x, double *out)
{
    product_rows(w, 0, w->rows, bias, x, out);
}

/* Rounds a block of x [n] as kernels/isa/int8.h defines it.  The codes of
 * float32 values are borders' only by chance, so the quotient is in double. */
static void round_block(double *out, const double *x, uint32_t n)
{
    double most = 0.0;

    for (uint32_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)(float)x[i]));
    }
    for (uint32_t i = 0; i < n; i++) {
        out[i] = most < 0x1p-120
                     ? 0.0
                     : nearbyint((double)(float)x[i] * 127.0 / most) *
                           (most / 127.0);
    }
}

/* Returns the columns that share a scale of x, 0: x is not rounded. */
static uint32_t operand_block(const struct reference *r, const struct tensor *w)
{
    if (!r->int8 || w->bits == 0 || w->format == WEIGHT_FP8) {
        return 0;
    }
    return w->format == WEIGHT_K4 || w->format == WEIGHT_K6 ? 256 : w->group;
}

void reference_project_rows(const struct reference *r, const struct tensor *w,
                            uint32_t first, uint32_t n, const float *bias,
                            const double *x, double *out)
{
    const uint32_t block = operand_block(r, w);
    double rounded[REFERENCE_WIDE];

    for (uint32_t i = 0; block > 0 && i < w->cols; i += block) {
        round_block(rounded + i, x + i, block);
    }
    product_rows(w, first, n, bias, block > 0 ? rounded : x, out);
}

void reference_project(const struct reference *r, const struct tensor *w,
                       const float *bias, const double *x, double *out)
{
    reference_project_rows(r, w, 0, w->rows, bias, x, out);
}

/* ---- norms ---- */

void reference_norm(const double *x, const float *gamma, uint32_t n, float eps,
                    double *out)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < n; i++) {
        sum += x[i] * x[i];
    }
    for (uint32_t i = 0; i < n; i++) {
        out[i] = x[i] / sqrt(sum / n + (double)eps) * (double)gamma[i];
    }
}

void reference_round_operands(const struct reference *r, double *x, uint32_t n)
{
    for (uint32_t i = 0; r->operand != DTYPE_F32 && i < n; i++) {
        x[i] = reference_round(x[i], r->operand);
    }
}

void reference_norm_operands(const struct reference *r, const double *x,
                             const float *gamma, double *out)
{
    uint32_t n = r->w->shape.hidden;
    double sum = 0.0;

    for (uint32_t i = 0; i < n; i++) {
        sum += x[i] * x[i];
        out[i] = gamma ? x[i] * (double)gamma[i] : x[i];
    }
    reference_round_operands(r, out, n);
    for (uint32_t i = 0; gamma && i < n; i++) {
        out[i] /= sqrt(sum / n + (double)r->w->shape.norm_eps);
    }
}

double reference_sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

void reference_add(const struct reference *r, double *x, const double *y,
                   const float *gamma)
{
    const struct model_shape *s = &r->w->shape;
    double out[REFERENCE_WIDE];

    if (gamma) {
        reference_norm(y, gamma, s->hidden, s->norm_eps, out);
        y = out;
    }
    for (uint32_t i = 0; i < s->hidden; i++) {
        x[i] +=
            s->stream.residual > 0 ? (double)s->stream.residual * y[i] : y[i];
    }
}
