#include "tests/kernels/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WIDE 16384 /* widest intermediate vector */

static double *zeros(size_t n)
{
    double *p = calloc(n + 1, sizeof *p);

    if (p == NULL) {
        abort();
    }
    return p;
}

static uint32_t channels(const struct model_shape *s)
{
    return 2 * s->n_k_heads * s->k_dim + s->n_v_heads * s->v_dim;
}

void reference_new(struct reference *r, const struct shard_weights *w,
                   enum dtype kv_dtype)
{
    const struct model_shape *s = &w->shape;
    size_t kv = (size_t)s->context * s->n_kv_heads * s->head_dim;

    memset(r, 0, sizeof *r);
    r->w = w;
    r->kv_dtype = kv_dtype;
    r->kv = kv_format_plain(kv_dtype);
    for (uint32_t i = 0; i < w->end - w->begin; i++) {
        struct reference_layer *l = &r->layers[i];

        if (w->layers[i].kind == MIXER_ATTENTION) {
            l->k = zeros(kv);
            l->v = zeros(kv);
        } else {
            l->state = zeros((size_t)s->n_v_heads * s->k_dim * s->v_dim);
            l->tail = zeros((size_t)(s->conv - 1) * channels(s));
        }
    }
}

void reference_free(struct reference *r)
{
    for (size_t i = 0; i < sizeof r->layers / sizeof *r->layers; i++) {
        free(r->layers[i].k);
        free(r->layers[i].v);
        free(r->layers[i].state);
        free(r->layers[i].tail);
    }
    memset(r, 0, sizeof *r);
}

void reference_format(struct reference *r, const struct kv_format *f)
{
    uint32_t hd = r->w->shape.head_dim;

    r->kv = *f;
    r->kv_dtype = f->dtype;
    if (f->scheme == KV_TURBOQUANT) {
        kv_turbo_make(&r->turbo[KV_KEYS], hd, f->k_bits, KV_KEYS);
        kv_turbo_make(&r->turbo[KV_VALUES], hd, f->v_bits, KV_VALUES);
    }
}

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

double reference_weight(const struct tensor *w, uint32_t row, uint32_t col)
{
    const size_t i = (size_t)row * w->cols + col;
    size_t group;
    uint32_t word, q;

    if (w->bits == 0) {
        return reference_at(w->data, w->dtype, i);
    }
    group = i / w->group;
    memcpy(&word, (const char *)w->data + i * w->bits / 32 * 4, sizeof word);
    q = word >> i * w->bits % 32 & ((1u << w->bits) - 1);
    return reference_round(reference_at(w->scales, w->dtype, group) * q +
                               reference_at(w->biases, w->dtype, group),
                           DTYPE_F32);
}

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

/* out = W x (+ bias) */
static void product(const struct tensor *w, const float *bias, const double *x,
                    double *out)
{
    for (uint32_t i = 0; i < w->rows; i++) {
        out[i] = (bias ? (double)bias[i] : 0.0) + row_product(w, i, x);
    }
}

/* out = x / sqrt(mean x^2 + eps) * gamma */
static void norm(const double *x, const float *gamma, uint32_t n, float eps,
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

/* Rounds to the dtype of a product's operands, in place. */
static void round_operands(const struct reference *r, double *x, uint32_t n)
{
    for (uint32_t i = 0; r->operand != DTYPE_F32 && i < n; i++) {
        x[i] = reference_round(x[i], r->operand);
    }
}

/* Computes the norm before a product. */
static void norm_operands(const struct reference *r, const double *x,
                          const float *gamma, double *out)
{
    uint32_t n = r->w->shape.hidden;
    double sum = 0.0;

    for (uint32_t i = 0; i < n; i++) {
        sum += x[i] * x[i];
        out[i] = x[i] * (double)gamma[i];
    }
    round_operands(r, out, n);
    for (uint32_t i = 0; i < n; i++) {
        out[i] /= sqrt(sum / n + (double)r->w->shape.norm_eps);
    }
}

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static void add(double *x, const double *y, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        x[i] += y[i];
    }
}

void reference_embed(const struct reference *r, uint32_t token, double *x)
{
    uint32_t h = r->w->shape.hidden;

    for (uint32_t i = 0; i < h; i++) {
        x[i] = reference_weight(&r->w->embed, token, i);
    }
}

/* Returns the angle of frequency i of R/2 at a position, with the scalings of
 * kernels/rope.h.  Frequency and angle are float32, as in training. */
static double angle(const struct rope_shape *p, uint32_t i, uint32_t position)
{
    double f = pow(p->theta, -2.0 * i / p->dim);
    double turns = p->original * f / (2.0 * acos(-1.0));

    if (p->kind == ROPE_LINEAR) {
        f /= p->factor;
    } else if (p->kind == ROPE_LLAMA3 && turns < p->low_freq) {
        f /= p->factor;
    } else if (p->kind == ROPE_LLAMA3 && turns <= p->high_freq) {
        double keep = (turns - p->low_freq) / (p->high_freq - p->low_freq);

        f = f * keep + f / p->factor * (1.0 - keep);
    }
    return (double)((float)position * (float)f);
}

static void rotate(const struct rope_shape *p, uint32_t position, double *x)
{
    for (uint32_t i = 0; i < p->dim / 2; i++) {
        double a = x[i], b = x[i + p->dim / 2];
        double turn = angle(p, i, position);

        x[i] = a * cos(turn) - b * sin(turn);
        x[i + p->dim / 2] = b * cos(turn) + a * sin(turn);
    }
}

/* Attends with one query head over all positions so far: y = sum softmax(q k)
 * v. */
static void attend(const struct reference *r, const struct reference_layer *l,
                   uint32_t kv_head, const double *q, double *y)
{
    const struct model_shape *s = &r->w->shape;
    uint32_t hd = s->head_dim;
    double *score = zeros(r->position + 1), top = -(double)INFINITY;
    double total = 0.0;

    for (uint32_t p = 0; p <= r->position; p++) {
        const double *k = l->k + ((size_t)p * s->n_kv_heads + kv_head) * hd;

        for (uint32_t d = 0; d < hd; d++) {
            score[p] += q[d] * k[d];
        }
        score[p] /= sqrt(hd);
        top = score[p] > top ? score[p] : top;
    }
    memset(y, 0, hd * sizeof *y);
    for (uint32_t p = 0; p <= r->position; p++) {
        const double *v = l->v + ((size_t)p * s->n_kv_heads + kv_head) * hd;
        double weight = exp(score[p] - top);

        total += weight;
        for (uint32_t d = 0; d < hd; d++) {
            y[d] += weight * v[d];
        }
    }
    for (uint32_t d = 0; d < hd; d++) {
        y[d] /= total;
    }
    free(score);
}

/* x = D H x / sqrt(d), where H_ij is -1 to the number of common bits of i and
 * j. */
static void rotate_back(const struct kv_turbo *t, double *x)
{
    double out[KERNELS_HEAD_DIM_MAX];

    for (uint32_t i = 0; i < t->d; i++) {
        out[i] = 0.0;
        for (uint32_t j = 0; j < t->d; j++) {
            out[i] += __builtin_parity(i & j) ? -x[j] : x[j];
        }
        out[i] *= (double)t->signs[i] / sqrt(t->d);
    }
    memcpy(x, out, t->d * sizeof *x);
}

/* Replaces the key or value of a head by what is read back. */
static void quantise(const struct reference *r, uint32_t layer,
                     enum kv_half half, uint32_t head, double *x)
{
    const struct kv_vector v = {.bits = half == KV_KEYS ? r->kv.k_bits
                                                        : r->kv.v_bits};
    float wide[KERNELS_HEAD_DIM_MAX] = {0}, codes[KERNELS_HEAD_DIM_MAX];
    float params[KERNELS_HEAD_DIM_MAX];
    uint32_t hd = r->w->shape.head_dim;

    x += (size_t)head * hd;
    for (uint32_t i = 0; i < hd; i++) {
        wide[i] = (float)x[i];
    }
    kv_encode(&r->kv, &v, &r->turbo[half], wide, hd, codes, params);
    if (r->stored) {
        r->stored(r->stored_arg, r, layer, half, head, codes, params);
    }
    kv_decode(&r->kv, &v, &r->turbo[half], codes, params, hd, wide);
    for (uint32_t i = 0; i < hd; i++) {
        x[i] = (double)wide[i];
    }
    if (r->kv.scheme == KV_TURBOQUANT) {
        rotate_back(&r->turbo[half], x);
    }
}

static void store_vectors(const struct reference *r, uint32_t layer, double *k,
                          double *v)
{
    const struct model_shape *s = &r->w->shape;
    const struct kv_format f = kv_format_of_layer(&r->kv, r->w->begin + layer);

    for (uint32_t h = 0; f.scheme != KV_PLAIN && h < s->n_kv_heads; h++) {
        quantise(r, layer, KV_KEYS, h, k);
        quantise(r, layer, KV_VALUES, h, v);
    }
    for (uint32_t i = 0;
         f.scheme == KV_PLAIN && i < s->n_kv_heads * s->head_dim; i++) {
        k[i] = reference_round(k[i], f.dtype);
        v[i] = reference_round(v[i], f.dtype);
    }
}

static void store_kv(struct reference *r, uint32_t layer,
                     const struct attention_weights *a, const double *n)
{
    struct reference_layer *l = &r->layers[layer];
    const struct model_shape *s = &r->w->shape;
    uint32_t hd = s->head_dim, wide = s->n_kv_heads * hd;
    double *k = l->k + (size_t)r->position * wide;
    double *v = l->v + (size_t)r->position * wide;

    product(&a->k, a->k_bias, n, k);
    product(&a->v, a->v_bias, n, v);
    for (uint32_t h = 0; h < s->n_kv_heads; h++) {
        if (a->k_norm) {
            norm(k + h * hd, a->k_norm, hd, s->norm_eps, k + h * hd);
        }
        rotate(&s->rope, r->position, k + h * hd);
    }
    store_vectors(r, layer, k, v);
}

void reference_attention(struct reference *r, uint32_t layer, double *x)
{
    const struct model_shape *s = &r->w->shape;
    const struct layer_weights *w = &r->w->layers[layer];
    const struct attention_weights *a = &w->mixer.attention;
    struct reference_layer *l = &r->layers[layer];
    uint32_t hd = s->head_dim, group = s->n_heads / s->n_kv_heads;
    double n[WIDE], q[WIDE], y[WIDE], out[WIDE], head[KERNELS_HEAD_DIM_MAX];

    norm_operands(r, x, w->input_norm, n);
    product(&a->q, a->q_bias, n, q);
    store_kv(r, layer, a, n);
    for (uint32_t h = 0; h < s->n_heads; h++) {
        const double *from = q + h * hd * (s->attn_gated ? 2 : 1);

        memcpy(head, from, hd * sizeof *head);
        if (a->q_norm) {
            norm(head, a->q_norm, hd, s->norm_eps, head);
        }
        rotate(&s->rope, r->position, head);
        attend(r, l, h / group, head, y + h * hd);
        for (uint32_t d = 0; s->attn_gated && d < hd; d++) {
            y[h * hd + d] *= sigmoid(from[hd + d]);
        }
    }
    round_operands(r, y, s->n_heads * hd);
    product(&a->o, a->o_bias, y, out);
    add(x, out, s->hidden);
}

/* u = silu(causal depthwise convolution); history is stored rounded. */
static void convolve(const struct reference *r, const float *w,
                     struct reference_layer *l, const double *in, double *u)
{
    const struct model_shape *s = &r->w->shape;
    uint32_t n = channels(s), taps = s->conv;

    for (uint32_t c = 0; c < n; c++) {
        double sum = (double)w[c * taps + taps - 1] * in[c];

        for (uint32_t j = 0; j + 1 < taps; j++) {
            sum += (double)w[c * taps + j] * l->tail[j * n + c];
        }
        u[c] = sum * sigmoid(sum);
    }
    for (uint32_t j = 0; j + 1 < taps; j++) {
        for (uint32_t c = 0; c < n; c++) {
            l->tail[j * n + c] = j + 2 < taps
                                     ? l->tail[(j + 1) * n + c]
                                     : reference_round(in[c], r->kv_dtype);
        }
    }
}

static void unit(double *x, uint32_t n, double scale)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < n; i++) {
        sum += x[i] * x[i];
    }
    for (uint32_t i = 0; i < n; i++) {
        x[i] *= scale / sqrt(sum + 1e-6);
    }
}

/* S = g S; S += k (beta (v - k S)); o = q S */
static void delta_rule(const struct model_shape *s, double *state,
                       const double *q, const double *k, const double *v,
                       double g, double beta, double *o)
{
    for (uint32_t j = 0; j < s->v_dim; j++) {
        double seen = 0.0;

        for (uint32_t i = 0; i < s->k_dim; i++) {
            state[i * s->v_dim + j] *= g;
            seen += k[i] * state[i * s->v_dim + j];
        }
        o[j] = 0.0;
        for (uint32_t i = 0; i < s->k_dim; i++) {
            state[i * s->v_dim + j] += k[i] * beta * (v[j] - seen);
            o[j] += q[i] * state[i * s->v_dim + j];
        }
    }
}

void reference_deltanet(struct reference *r, uint32_t layer, double *x)
{
    const struct model_shape *s = &r->w->shape;
    const struct layer_weights *w = &r->w->layers[layer];
    const struct deltanet_weights *d = &w->mixer.deltanet;
    struct reference_layer *l = &r->layers[layer];
    uint32_t keys = s->n_k_heads * s->k_dim, dv = s->v_dim;
    double n[WIDE], in[WIDE], u[WIDE], z[WIDE], b[512], a[512], y[WIDE];
    double out[WIDE], *q = u, *k = u + keys, *v = u + 2 * keys;

    norm_operands(r, x, w->input_norm, n);
    product(&d->qkv, NULL, n, in);
    product(&d->z, NULL, n, z);
    product(&d->b, NULL, n, b);
    product(&d->a, NULL, n, a);
    convolve(r, d->conv, l, in, u);
    for (uint32_t h = 0; h < s->n_k_heads; h++) {
        unit(q + h * s->k_dim, s->k_dim, 1.0 / sqrt(s->k_dim));
        unit(k + h * s->k_dim, s->k_dim, 1.0);
    }
    for (uint32_t h = 0; h < s->n_v_heads; h++) {
        uint32_t from = h / (s->n_v_heads / s->n_k_heads) * s->k_dim;
        double soft = log1p(exp(a[h] + (double)d->dt_bias[h]));
        double g = exp(-exp((double)d->a_log[h]) * soft);

        delta_rule(s, l->state + (size_t)h * s->k_dim * dv, q + from, k + from,
                   v + h * dv, g, sigmoid(b[h]), y + h * dv);
        norm(y + h * dv, d->norm, dv, s->norm_eps, y + h * dv);
        for (uint32_t j = h * dv; j < (h + 1) * dv; j++) {
            y[j] *= z[j] * sigmoid(z[j]);
        }
    }
    round_operands(r, y, s->n_v_heads * dv);
    product(&d->out, NULL, y, out);
    add(x, out, s->hidden);
}

void reference_mlp(const struct reference *r, uint32_t layer, double *x)
{
    const struct model_shape *s = &r->w->shape;
    const struct layer_weights *w = &r->w->layers[layer];
    double n[WIDE], gate[WIDE], up[WIDE], out[WIDE];

    norm_operands(r, x, w->post_norm, n);
    product(&w->mlp.gate, NULL, n, gate);
    product(&w->mlp.up, NULL, n, up);
    for (uint32_t i = 0; i < s->intermediate; i++) {
        gate[i] *= sigmoid(gate[i]) * up[i];
    }
    round_operands(r, gate, s->intermediate);
    product(&w->mlp.down, NULL, gate, out);
    add(x, out, s->hidden);
}

void reference_head(const struct reference *r, const double *x, double *logits)
{
    double n[WIDE];

    norm_operands(r, x, r->w->final_norm, n);
    product(&r->w->head, NULL, n, logits);
}

void reference_token(struct reference *r, uint32_t token, double *logits)
{
    double x[WIDE];

    reference_embed(r, token, x);
    for (uint32_t i = 0; i < r->w->end - r->w->begin; i++) {
        if (r->w->layers[i].kind == MIXER_ATTENTION) {
            reference_attention(r, i, x);
        } else {
            reference_deltanet(r, i, x);
        }
        reference_mlp(r, i, x);
    }
    if (logits) {
        reference_head(r, x, logits);
    }
    r->position++;
}
