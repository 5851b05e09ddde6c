#include "kernels/kv_codec.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "common/base/splitmix.h"
#include "common/model/half.h"

/* ---- values and bits ---- */

static void put_value(void *p, size_t i, float x, enum dtype t)
{
    uint16_t h;

    if (t == DTYPE_F32) {
        memcpy((char *)p + i * sizeof x, &x, sizeof x);
        return;
    }
    h = t == DTYPE_BF16 ? half_to_bf16(x) : half_to_f16(x);
    memcpy((char *)p + i * sizeof h, &h, sizeof h);
}

static float get_value(const void *p, size_t i, enum dtype t)
{
    uint16_t h;
    float x;

    if (t == DTYPE_F32) {
        memcpy(&x, (const char *)p + i * sizeof x, sizeof x);
        return x;
    }
    memcpy(&h, (const char *)p + i * sizeof h, sizeof h);
    return t == DTYPE_BF16 ? half_from_bf16(h) : half_from_f16(h);
}

/* A stream of codes, a 32-bit word at a time. */
struct bits {
    char *out;
    uint64_t word; /* its lowest `n` bits are not stored yet */
    uint32_t n;
};

static void put_word(struct bits *b)
{
    uint32_t word = (uint32_t)b->word;

    memcpy(b->out, &word, sizeof word);
    b->out += sizeof word;
    b->word >>= 32;
}

static void put_code(struct bits *b, uint32_t code, uint32_t bits)
{
    b->word |= (uint64_t)code << b->n;
    b->n += bits;
    if (b->n >= 32) {
        put_word(b);
        b->n -= 32;
    }
}

static void end_codes(struct bits *b)
{
    if (b->n > 0) {
        put_word(b);
    }
}

static uint32_t get_code(const void *codes, uint32_t i, uint32_t bits)
{
    const char *p = (const char *)codes + (size_t)i * bits / 32 * 4;
    uint32_t at = i * bits % 32, words[2] = {0, 0};

    /* The stream may end with the word that holds the code. */
    memcpy(words, p, at + bits > 32 ? sizeof words : sizeof *words);
    return (uint32_t)(((uint64_t)words[1] << 32 | words[0]) >> at) &
           ((1u << bits) - 1);
}

/* ---- affine ---- */

struct affine {
    float scale, bias;
};

/* Returns whether all values are finite, and their least and greatest. */
static bool get_range(const float *x, uint32_t n, float *least, float *most)
{
    bool finite = true;

    *least = *most = x[0];
    for (uint32_t i = 0; i < n; i++) {
        finite &= isfinite(x[i]) != 0;
        *least = x[i] < *least ? x[i] : *least;
        *most = x[i] > *most ? x[i] : *most;
    }
    return finite;
}

/* Makes the greater end of the range, and zero inside it, exact but for the
 * rounding to dtype. */
static struct affine fit_group(const float *x, uint32_t n, float steps)
{
    float least, most, edge, scale, at;

    if (!get_range(x, n, &least, &most)) {
        return (struct affine){NAN, NAN};
    }
    scale = (most - least) / steps;
    scale = scale > 1e-7f ? scale : 1e-7f;
    edge = least;
    if (!(fabsf(least) > fabsf(most))) {
        scale = -scale;
        edge = most;
    }
    at = rintf(edge / scale);
    return at == 0.0f ? (struct affine){scale, 0.0f}
                      : (struct affine){edge / at, edge};
}

/* Rounds half to even, as the default rounding mode does; a NaN becomes 0. */
static uint32_t affine_code(struct affine a, float x, float steps)
{
    float q = rintf((x - a.bias) / a.scale);

    return q > 0.0f ? (uint32_t)(q < steps ? q : steps) : 0;
}

static void encode_affine(const struct kv_format *f, uint32_t bits,
                          const float *x, uint32_t hd, void *codes,
                          void *params)
{
    float steps = (float)((1u << bits) - 1);
    struct bits out = {.out = codes};

    for (uint32_t g = 0; g < hd / f->group; g++, x += f->group) {
        struct affine a = fit_group(x, f->group, steps);

        put_value(params, 2 * g, a.scale, f->dtype);
        put_value(params, 2 * g + 1, a.bias, f->dtype);
        /* Codes must fit the scale that is read. */
        a.scale = get_value(params, 2 * g, f->dtype);
        a.bias = get_value(params, 2 * g + 1, f->dtype);
        for (uint32_t i = 0; i < f->group; i++) {
            put_code(&out, affine_code(a, x[i], steps), bits);
        }
    }
    end_codes(&out);
}

static void decode_affine(const struct kv_format *f, uint32_t bits,
                          const void *codes, const void *params, uint32_t hd,
                          float *out)
{
    for (uint32_t i = 0; i < hd; i++) {
        uint32_t g = i / f->group;

        out[i] = fmaf((float)get_code(codes, i, bits),
                      get_value(params, 2 * g, f->dtype),
                      get_value(params, 2 * g + 1, f->dtype));
    }
}

/* ---- turboquant: codebook ---- */

/* The density is sampled at so many points.  Sums are kept for every STEP-th
 * point, so that they fit on a stack. */
#define POINTS     32768
#define STEP       16
#define ITERATIONS 100
#define CONVERGED  1e-6

/* Sums over some points: of the density, and of density times position. */
struct sums {
    double mass, moment;
};

struct density {
    uint32_t d;
    struct sums until[POINTS / STEP + 1]; /* over the first i * STEP points */
};

static double point_at(uint32_t i)
{
    return (1.0 - 1e-6) * (2.0 * i / (POINTS - 1) - 1.0);
}

/* Returns (1 - x^2)^((d - 3) / 2).  Products and a square root have the same
 * bits on every machine; pow() may not. */
static double density_at(double x, uint32_t d)
{
    double base = 1.0 - x * x, root = sqrt(base), power = 1.0;

    for (uint32_t n = (d - 4) / 2; n > 0; n /= 2, base *= base) {
        power *= n % 2 ? base : 1.0;
    }
    return power * root;
}

static void add_points(struct sums *s, uint32_t d, uint32_t from, uint32_t end)
{
    for (uint32_t i = from; i < end; i++) {
        double x = point_at(i), weight = density_at(x, d);

        s->mass += weight;
        s->moment += weight * x;
    }
}

static void sum_density(struct density *s, uint32_t d)
{
    s->d = d;
    s->until[0] = (struct sums){0.0, 0.0};
    for (uint32_t i = 0; i < POINTS / STEP; i++) {
        s->until[i + 1] = s->until[i];
        add_points(&s->until[i + 1], d, i * STEP, (i + 1) * STEP);
    }
}

/* Returns the sums over the first n points. */
static struct sums sums_until(const struct density *s, uint32_t n)
{
    struct sums sum = s->until[n / STEP];

    add_points(&sum, s->d, n / STEP * STEP, n);
    return sum;
}

/* Returns the number of points that are at most x. */
static uint32_t points_until(double x)
{
    uint32_t low = 0, high = POINTS;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (point_at(middle) <= x) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Returns the first point at which the mass reaches a share of the whole. */
static double quantile(const struct density *s, double share)
{
    double least = share * s->until[POINTS / STEP].mass;
    uint32_t i = 0;

    while (i + STEP < POINTS && s->until[i / STEP + 1].mass < least) {
        i += STEP;
    }
    while (i + 1 < POINTS && sums_until(s, i + 1).mass < least) {
        i++;
    }
    return point_at(i);
}

/* Moves each centroid to the mean of its cell; returns the largest move. */
static double improve(const struct density *s, double *c, uint32_t n)
{
    struct sums from = {0.0, 0.0};
    double most = 0.0;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t points =
            i + 1 < n ? points_until(0.5 * (c[i] + c[i + 1])) : POINTS;
        struct sums to = sums_until(s, points);
        double mean = (to.moment - from.moment) / (to.mass - from.mass);

        if (to.mass > from.mass) {
            most = fmax(most, fabs(mean - c[i]));
            c[i] = mean;
        }
        from = to;
    }
    return most;
}

static void make_centroids(struct kv_turbo *t)
{
    struct density s;
    double c[KV_CENTROIDS_MAX];
    uint32_t n = 1u << t->bits;

    sum_density(&s, t->d);
    for (uint32_t i = 0; i < n; i++) {
        c[i] = quantile(&s, (i + 0.5) / n);
    }
    for (int i = 0; i < ITERATIONS && improve(&s, c, n) >= CONVERGED; i++) {
    }
    for (uint32_t i = 0; i < n; i++) {
        t->centroids[i] = (float)c[i];
    }
    for (uint32_t i = 0; i + 1 < n; i++) {
        t->edges[i] = 0.5f * (t->centroids[i] + t->centroids[i + 1]);
    }
}

void kv_turbo_make(struct kv_turbo *t, uint32_t d, uint32_t bits,
                   enum kv_half half)
{
    uint64_t state = 2 * (uint64_t)d + (half == KV_VALUES);

    assert(d >= KV_TURBO_DIM_MIN && (d & (d - 1)) == 0);
    assert(d <= sizeof t->signs / sizeof *t->signs);
    assert(bits >= 1 && bits <= KV_TURBO_BITS_MAX);
    memset(t, 0, sizeof *t);
    t->d = d;
    t->bits = bits;
    t->unit = (float)(1.0 / sqrt(d));
    make_centroids(t);
    for (uint32_t i = 0; i < d; i++) {
        t->signs[i] = splitmix_next(&state) >> 63 ? -1.0f : 1.0f;
    }
}

/* ---- turboquant: vectors ---- */

/* Eight values, so that the compiler uses registers of several lanes. */
#define EIGHT 8

/* Strides 1, 2 and 4. */
static void hadamard_eight(float *x)
{
    float y[EIGHT];

    for (int i = 0; i < EIGHT; i += 2) {
        y[i] = x[i] + x[i + 1];
        y[i + 1] = x[i] - x[i + 1];
    }
    for (int i = 0; i < EIGHT; i++) {
        x[i] = i & 2 ? y[i - 2] - y[i] : y[i] + y[i + 2];
    }
    for (int i = 0; i < EIGHT / 2; i++) {
        float a = x[i], b = x[i + 4];

        x[i] = a + b;
        x[i + 4] = a - b;
    }
}

static void butterflies(float *restrict low, float *restrict high)
{
    for (int i = 0; i < EIGHT; i++) {
        float a = low[i], b = high[i];

        low[i] = a + b;
        high[i] = a - b;
    }
}

static void hadamard(float *x, uint32_t d)
{
    for (uint32_t i = 0; i < d; i += EIGHT) {
        hadamard_eight(x + i);
    }
    for (uint32_t stride = EIGHT; stride < d; stride *= 2) {
        for (uint32_t i = 0; i < d; i += 2 * stride) {
            for (uint32_t j = i; j < i + stride; j += EIGHT) {
                butterflies(x + j, x + j + stride);
            }
        }
    }
}

void kv_turbo_rotate(const struct kv_turbo *t, float *x)
{
    for (uint32_t i = 0; i < t->d; i++) {
        x[i] *= t->signs[i];
    }
    hadamard(x, t->d);
    for (uint32_t i = 0; i < t->d; i++) {
        x[i] *= t->unit;
    }
}

void kv_turbo_rotate_back(const struct kv_turbo *t, float *x)
{
    hadamard(x, t->d);
    for (uint32_t i = 0; i < t->d; i++) {
        x[i] *= t->unit * t->signs[i];
    }
}

/* Returns the length of x.  A vector with values whose squares overflow counts
 * as not finite. */
static float length_of(const float *x, uint32_t n)
{
    float sum = 0.0f;

    for (uint32_t i = 0; i < n; i++) {
        sum += x[i] * x[i];
    }
    return isfinite(sum) ? sqrtf(sum) : NAN;
}

/* Returns the number of edges below u, by bisection; 0 for NaN. */
static uint32_t nearest(const struct kv_turbo *t, float u)
{
    uint32_t index = 0;

    for (uint32_t step = 1u << (t->bits - 1); step > 0; step /= 2) {
        index += u > t->edges[index + step - 1] ? step : 0;
    }
    return index;
}

/* A finite vector longer than the greatest f16 is cut to that length, since an
 * infinite norm would make its sequence useless. */
static void put_norm(void *params, float norm)
{
    put_value(params, 0, norm > 65504.0f ? 65504.0f : norm, DTYPE_F16);
}

static void encode_turbo(const struct kv_turbo *t, const float *x, void *codes,
                         void *params)
{
    float u[sizeof t->signs / sizeof *t->signs];
    float norm = length_of(x, t->d);
    struct bits out = {.out = codes};

    put_norm(params, norm);
    for (uint32_t i = 0; i < t->d; i++) {
        u[i] = norm > 0.0f ? x[i] / norm : 0.0f;
    }
    kv_turbo_rotate(t, u);
    for (uint32_t i = 0; i < t->d; i++) {
        put_code(&out, nearest(t, u[i]), t->bits);
    }
    end_codes(&out);
}

static void decode_turbo(const struct kv_turbo *t, const void *codes,
                         const void *params, float *out)
{
    float norm = get_value(params, 0, DTYPE_F16);

    for (uint32_t i = 0; i < t->d; i++) {
        out[i] = norm * t->centroids[get_code(codes, i, t->bits)];
    }
}

/* ---- any format ---- */

void kv_encode(const struct kv_format *f, const struct kv_vector *v,
               const struct kv_turbo *t, const float *x, uint32_t hd,
               void *codes, void *params)
{
    switch (f->scheme) {
    case KV_AFFINE:
        encode_affine(f, v->bits, x, hd, codes, params);
        break;
    case KV_TURBOQUANT:
        assert(t->d == hd && t->bits == v->bits);
        encode_turbo(t, x, codes, params);
        break;
    default:
        for (uint32_t i = 0; i < hd; i++) {
            put_value(codes, i, x[i], f->dtype);
        }
    }
}

void kv_decode(const struct kv_format *f, const struct kv_vector *v,
               const struct kv_turbo *t, const void *codes, const void *params,
               uint32_t hd, float *out)
{
    switch (f->scheme) {
    case KV_AFFINE:
        decode_affine(f, v->bits, codes, params, hd, out);
        break;
    case KV_TURBOQUANT:
        assert(t->d == hd && t->bits == v->bits);
        decode_turbo(t, codes, params, out);
        break;
    default:
        for (uint32_t i = 0; i < hd; i++) {
            out[i] = get_value(codes, i, f->dtype);
        }
    }
}
