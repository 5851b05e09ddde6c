#include "tests/kernels/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/reference_math.h"

#define WIDE REFERENCE_WIDE

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
    for (uint32_t i = 0; i < shard_layers(w); i++) {
        struct reference_layer *l = &r->layers[i];

        if (mixer_attends(w->layers[i].kind)) {
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

void reference_embed(const struct reference *r, uint32_t token, double *x)
{
    uint32_t h = r->w->shape.hidden;

    for (uint32_t i = 0; i < h; i++) {
        x[i] = reference_weight(&r->w->embed, token, i);
        if (r->w->shape.stream.embed != 0.0f) {
            x[i] *= (double)r->w->shape.stream.embed;
            x[i] = reference_round(x[i], DTYPE_F32);
        }
    }
}

/* Returns the index, not whole, of the frequency that turns `turns` times over
 * the original context. */
static double yarn_index(const struct rope_shape *p, double turns)
{
    return p->dim * log(p->original / (turns * 2.0 * acos(-1.0))) /
           (2.0 * log(p->theta));
}

/* Returns how far frequency i of a YaRN is divided by the factor, in [0, 1]. */
static double yarn_ramp(const struct rope_shape *p, uint32_t i)
{
    double low = yarn_index(p, p->beta_fast);
    double high = yarn_index(p, p->beta_slow);

    low = fmax(p->truncate ? floor(low) : low, 0.0);
    high = fmin(p->truncate ? ceil(high) : high, p->dim - 1.0);
    high += low == high ? 0.001 : 0.0;
    return fmin(fmax((i - low) / (high - low), 0.0), 1.0);
}

/* Returns the angle of frequency i of R/2 at a position, with the scalings of
 * kernels/rope.h.  Frequency and angle are float32, as in training. */
static double angle(const struct rope_shape *p, uint32_t i, uint32_t position)
{
    double f = pow(p->theta, -2.0 * i / p->dim);
    double turns = p->original * f / (2.0 * acos(-1.0));

    if (p->kind == ROPE_LINEAR) {
        f /= p->factor;
    } else if (p->kind == ROPE_YARN) {
        double ramp = yarn_ramp(p, i);

        f = f / p->factor * ramp + f * (1.0 - ramp);
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
    double scale = p->kind == ROPE_YARN ? p->attention : 1.0;

    for (uint32_t i = 0; i < p->dim / 2; i++) {
        double a = x[i], b = x[i + p->dim / 2];
        double turn = angle(p, i, position);

        x[i] = scale * (a * cos(turn) - b * sin(turn));
        x[i + p->dim / 2] = scale * (b * cos(turn) + a * sin(turn));
    }
}

/* Scales the product of a query and a key. */
static double scaled(const struct model_shape *s, double product)
{
    double scale = (double)s->attn_scale, cap = (double)s->attn_cap;

    product *= scale > 0.0 ? scale : 1.0 / sqrt(s->head_dim);
    return cap > 0.0 ? cap * tanh(product / cap) : product;
}

/* Returns the first position that the token sees in a layer of that kind. */
static uint32_t first_seen(const struct reference *r, enum mixer_kind kind)
{
    uint32_t window = r->w->shape.window;

    return kind == MIXER_WINDOW && r->position + 1 > window
               ? r->position + 1 - window
               : 0;
}

/* Attends with one query head over the positions from `first` on: y = sum
 * softmax(q k) v.  The softmax is also over the sink unless NULL. */
static void attend(const struct reference *r, const struct reference_layer *l,
                   uint32_t first, uint32_t kv_head, const float *sink,
                   const double *q, double *y)
{
    const struct model_shape *s = &r->w->shape;
    uint32_t hd = s->head_dim;
    double *score = zeros(r->position + 1);
    double top = sink ? (double)*sink : -(double)INFINITY, total;

    for (uint32_t p = first; p <= r->position; p++) {
        const double *k = l->k + ((size_t)p * s->n_kv_heads + kv_head) * hd;

        for (uint32_t d = 0; d < hd; d++) {
            score[p] += q[d] * k[d];
        }
        score[p] = scaled(s, score[p]);
        top = score[p] > top ? score[p] : top;
    }
    memset(y, 0, hd * sizeof *y);
    total = sink ? exp((double)*sink - top) : 0.0;
    for (uint32_t p = first; p <= r->position; p++) {
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
    /* Window layers are never quantised. */
    const struct kv_format f =
        r->w->layers[layer].kind == MIXER_WINDOW
            ? kv_format_plain(r->kv.dtype)
            : kv_format_of_layer(&r->kv, r->w->begin + layer);

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

/* Norms all heads of q or k together where the model does so. */
static void norm_whole(const struct model_shape *s, const float *gamma,
                       uint32_t n, double *x)
{
    if (gamma && s->attention.whole_norm) {
        reference_norm(x, gamma, n, s->norm_eps, x);
    }
}

/* Norms and rotates a head, in the order of the model. */
static void prepare(const struct model_shape *s, const struct rope_shape *rope,
                    const float *gamma, uint32_t position, double *x)
{
    bool late = s->attention.late_norm;

    gamma = s->attention.whole_norm ? NULL : gamma;
    if (gamma && !late) {
        reference_norm(x, gamma, s->head_dim, s->norm_eps, x);
    }
    rotate(rope, position, x);
    if (gamma && late) {
        reference_norm(x, gamma, s->head_dim, s->norm_eps, x);
    }
}

/* Returns the factor of a query, as float32. */
static double query_scale(const struct model_shape *s, uint32_t position)
{
    const struct attention_shape *a = &s->attention;
    double turns =
        a->query_original > 0 ? floor((double)position / a->query_original) : 0;

    return (double)(float)(1 + a->query_beta * log(1 + turns));
}

static void store_kv(struct reference *r, uint32_t layer, const double *n)
{
    const struct layer_weights *w = &r->w->layers[layer];
    const struct attention_weights *a = &w->mixer.attention;
    struct reference_layer *l = &r->layers[layer];
    const struct model_shape *s = &r->w->shape;
    uint32_t hd = s->head_dim, wide = s->n_kv_heads * hd;
    double *k = l->k + (size_t)r->position * wide;
    double *v = l->v + (size_t)r->position * wide;

    reference_project(r, &a->k, a->k_bias, n, k);
    reference_project(r, &a->v, a->v_bias, n, v);
    norm_whole(s, a->k_norm, wide, k);
    for (uint32_t h = 0; h < s->n_kv_heads; h++) {
        prepare(s, shape_rope(s, w->kind), a->k_norm, r->position, k + h * hd);
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

    reference_norm_operands(r, x, w->input_norm, n);
    reference_project(r, &a->q, a->q_bias, n, q);
    norm_whole(s, a->q_norm, s->n_heads * hd, q);
    store_kv(r, layer, n);
    for (uint32_t h = 0; h < s->n_heads; h++) {
        const double *from = q + h * hd * (s->attn_gated ? 2 : 1);

        memcpy(head, from, hd * sizeof *head);
        prepare(s, shape_rope(s, w->kind), a->q_norm, r->position, head);
        for (uint32_t d = 0; d < hd; d++) {
            head[d] *= query_scale(s, r->position);
        }
        attend(r, l, first_seen(r, w->kind), h / group,
               a->sinks ? a->sinks + h : NULL, head, y + h * hd);
        for (uint32_t d = 0; s->attn_gated && d < hd; d++) {
            y[h * hd + d] *= reference_sigmoid(from[hd + d]);
        }
    }
    reference_round_operands(r, y, s->n_heads * hd);
    reference_project(r, &a->o, a->o_bias, y, out);
    reference_add(r, x, out, w->mixer_norm);
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
        u[c] = sum * reference_sigmoid(sum);
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

    reference_norm_operands(r, x, w->input_norm, n);
    reference_project(r, &d->qkv, NULL, n, in);
    reference_project(r, &d->z, NULL, n, z);
    reference_project(r, &d->b, NULL, n, b);
    reference_project(r, &d->a, NULL, n, a);
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
                   v + h * dv, g, reference_sigmoid(b[h]), y + h * dv);
        reference_norm(y + h * dv, d->norm, dv, s->norm_eps, y + h * dv);
        for (uint32_t j = h * dv; j < (h + 1) * dv; j++) {
            y[j] *= z[j] * reference_sigmoid(z[j]);
        }
    }
    reference_round_operands(r, y, s->n_v_heads * dv);
    reference_project(r, &d->out, NULL, y, out);
    reference_add(r, x, out, w->mixer_norm);
}

static const float *last_norm(const struct reference *r)
{
    return r->drafting ? r->w->mtp->norm : r->w->final_norm;
}

void reference_hidden(const struct reference *r, const double *x, double *h)
{
    reference_norm(x, last_norm(r), r->w->shape.hidden, r->w->shape.norm_eps,
                   h);
}

void reference_draft_input(const struct reference *r, uint32_t token,
                           const double *h, double *x)
{
    const struct mtp_weights *w = r->w->mtp;
    double pair[WIDE], embedding[WIDE];

    reference_embed(r, token, embedding);
    reference_norm_operands(r, embedding, w->embed_norm, pair);
    reference_norm_operands(r, h, w->hidden_norm, pair + r->w->shape.hidden);
    reference_project(r, &w->fc, NULL, pair, x);
}

void reference_head(const struct reference *r, const double *x, double *logits)
{
    double n[WIDE], cap = (double)r->w->shape.stream.cap;
    double factor = (double)r->w->shape.stream.logits;

    reference_norm_operands(r, x, last_norm(r), n);
    reference_project(r, &r->w->head, NULL, n, logits);
    for (uint32_t i = 0; factor > 0.0 && i < r->w->shape.vocab; i++) {
        logits[i] *= factor;
    }
    for (uint32_t i = 0; cap > 0.0 && i < r->w->shape.vocab; i++) {
        logits[i] = cap * tanh(logits[i] / cap);
    }
}

void reference_token(struct reference *r, uint32_t token, double *logits)
{
    double x[WIDE];

    reference_embed(r, token, x);
    for (uint32_t i = 0; i < r->w->end - r->w->begin; i++) {
        if (mixer_attends(r->w->layers[i].kind)) {
            reference_attention(r, i, x);
        } else {
            reference_deltanet(r, i, x);
        }
        reference_ffn(r, i, x);
    }
    if (logits) {
        reference_head(r, x, logits);
    }
    r->position++;
}
