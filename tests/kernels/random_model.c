#include "tests/kernels/random_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/opencl/noise.h"

uint32_t dice_u32(struct dice *d)
{
    uint64_t z = d->state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ z >> 31) >> 32);
}

uint32_t dice_below(struct dice *d, uint32_t n)
{
    return (uint32_t)((uint64_t)dice_u32(d) * n >> 32);
}

float dice_float(struct dice *d, float low, float high)
{
    return low + (high - low) * (float)dice_u32(d) * 0x1p-32f;
}

uint32_t dice_pick(struct dice *d, const uint32_t *of, uint32_t n)
{
    return of[dice_below(d, n)];
}

#define PICK(d, ...)                              \
    dice_pick(d, (const uint32_t[]){__VA_ARGS__}, \
              sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void random_attention(struct random_shape *r, struct dice *d)
{
    struct model_shape *s = &r->shape;

    s->n_kv_heads = PICK(d, 1, 2, 3, 4);
    s->n_heads = s->n_kv_heads * PICK(d, 1, 2, 3, 4, 8);
    s->head_dim = PICK(d, 8, 24, 64, 72, 80, 96, 128, 256);
    s->attn_gated = dice_below(d, 2);
    s->rope = (struct rope_shape){
        .kind = (enum rope_kind)dice_below(d, 3),
        .theta = dice_below(d, 2) ? 10000.0 : 1e6,
        .dim = dice_below(d, 2) ? s->head_dim : s->head_dim / 4 * 2,
        .factor = 4.0,
        .low_freq = 1.0,
        .high_freq = 4.0,
        .original = 256,
    };
}

static void random_linear(struct random_shape *r, struct dice *d)
{
    struct model_shape *s = &r->shape;

    s->n_k_heads = PICK(d, 1, 2, 3);
    s->n_v_heads = s->n_k_heads * PICK(d, 1, 2, 3, 4);
    s->k_dim = PICK(d, 5, 16, 33, 64, 128);
    s->v_dim = PICK(d, 7, 16, 48, 64, 128);
    s->conv = PICK(d, 1, 2, 4, 4, 5);
}

void random_shape(struct random_shape *r, struct dice *d)
{
    struct model_shape *s = &r->shape;
    uint32_t interval = 1 + dice_below(d, 4);

    memset(r, 0, sizeof *r);
    s->n_layers = 1 + dice_below(d, 4);
    r->quantised = dice_below(d, 3) == 0;
    s->hidden = PICK(d, 1, 17, 48, 64, 96, 130);
    s->intermediate = PICK(d, 1, 31, 64, 100, 160);
    if (r->quantised) {
        s->hidden = PICK(d, 32, 64, 96, 128, 160);
        s->intermediate = PICK(d, 32, 64, 100, 160, 256);
    }
    s->vocab = PICK(d, 2, 63, 64, 65, 257, 500);
    s->context = 256;
    s->norm_eps = dice_below(d, 2) ? 1e-6f : 1e-5f;
    s->dtype = (enum dtype)dice_below(d, 3);
    random_attention(r, d);
    random_linear(r, d);
    for (uint32_t i = 0; i < s->n_layers; i++) {
        r->mixers[i] =
            (i + 1) % interval == 0 ? MIXER_ATTENTION : MIXER_DELTANET;
    }
    r->tied = dice_below(d, 2);
    r->qkv_bias = dice_below(d, 2);
    r->o_bias = dice_below(d, 4) == 0;
    r->qk_norm = dice_below(d, 2);
}

struct kv_format random_kv_format(uint32_t n, struct model_shape *s)
{
    static const struct kv_format all[RANDOM_KV_FORMATS] = {
        {.dtype = DTYPE_F32},
        {.dtype = DTYPE_BF16},
        {.dtype = DTYPE_F16},
        {DTYPE_F32, KV_AFFINE, 8, 8, 32, KV_NO_LAYER},
        {DTYPE_BF16, KV_AFFINE, 8, 8, 64, KV_NO_LAYER},
        {DTYPE_F16, KV_AFFINE, 8, 8, 128, KV_NO_LAYER},
        {DTYPE_BF16, KV_AFFINE, 4, 4, 32, KV_NO_LAYER},
        {DTYPE_F16, KV_AFFINE, 4, 4, 64, KV_NO_LAYER},
        {DTYPE_F32, KV_AFFINE, 4, 4, 128, KV_NO_LAYER},
        {DTYPE_BF16, KV_TURBOQUANT, 2, 2, 0, KV_NO_LAYER},
        {DTYPE_F32, KV_TURBOQUANT, 2, 3, 0, KV_NO_LAYER},
        {DTYPE_F16, KV_TURBOQUANT, 3, 3, 0, KV_NO_LAYER},
        {DTYPE_BF16, KV_TURBOQUANT, 3, 4, 0, KV_NO_LAYER},
        {DTYPE_F32, KV_TURBOQUANT, 4, 4, 0, KV_NO_LAYER},
        {DTYPE_BF16, KV_AFFINE, 8, 8, 32, KV_NO_LAYER},
        {DTYPE_BF16, KV_AFFINE, 4, 4, 64, KV_NO_LAYER},
    };
    struct kv_format f = all[n % RANDOM_KV_FORMATS];
    uint32_t d = s->head_dim;

    if (f.scheme == KV_AFFINE && d % f.group != 0) {
        d = f.group == 32 ? 96 : f.group;
    } else if (f.scheme == KV_TURBOQUANT && (d < 16 || (d & (d - 1)) != 0)) {
        d = d < 32 ? 16 : d < 80 ? 32 : 128;
    }
    if (d != s->head_dim) {
        s->rope.dim = s->rope.dim == s->head_dim ? d : d / 4 * 2;
        s->head_dim = d;
    }
    return f;
}

static void *own(struct random_model *m, size_t bytes)
{
    void *p = malloc(bytes > 0 ? bytes : 1);

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

/* Makes n values of dtype t between low and high. */
static void *values(struct random_model *m, struct dice *d, size_t n,
                    enum dtype t, float low, float high)
{
    char *out = own(m, n * dtype_bytes(t));

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

/* Makes values as wide as a plain matrix's, in any group that divides cols. */
static void quantise(struct random_model *m, struct dice *d, struct tensor *t,
                     float width)
{
    uint32_t bits = dice_below(d, 2) ? 4 : 8;
    uint32_t group = 32u << dice_below(d, 3);

    bits = m->bits > 0 ? m->bits : bits;
    group = m->bits > 0 ? m->group : group;
    float step = 2.0f * width / (float)((1u << bits) - 1);
    uint8_t *data = own(m, (size_t)t->rows * t->cols * bits / 8);

    while (t->cols % group != 0) {
        group /= 2;
    }
    for (size_t i = 0; i < (size_t)t->rows * t->cols * bits / 8; i += 4) {
        uint32_t word = dice_u32(d); /* 32 columns are whole words */

        memcpy(data + i, &word, sizeof word);
    }
    t->data = data;
    t->format = WEIGHT_AFFINE;
    t->bits = bits;
    t->group = group;
    t->scales = values(m, d, (size_t)t->rows * (t->cols / group), t->dtype,
                       0.5f * step, step);
    t->biases = values(m, d, (size_t)t->rows * (t->cols / group), t->dtype,
                       -1.1f * width, -0.9f * width);
}

static struct tensor matrix(struct random_model *m, struct dice *d,
                            uint32_t rows, uint32_t cols)
{
    struct tensor out = {.dtype = m->w.shape.dtype, .rows = rows, .cols = cols};
    float width = sqrtf(3.0f / (float)cols);

    bool quantised = m->quantised &&
                     cols % (m->bits > 0 ? m->group : 32) == 0 &&
                     (m->bits > 0 || dice_below(d, 4) > 0);

    if (m->hollow) {
        out.data = opencl_noise_data;
        out.format = quantised ? WEIGHT_AFFINE : WEIGHT_PLAIN;
        out.bits = quantised ? m->bits : 0;
        out.group = quantised ? m->group : 0;
    } else if (quantised) {
        quantise(m, d, &out, width);
    } else {
        out.data = values(m, d, (size_t)rows * cols, out.dtype, -width, width);
    }
    return out;
}

static const float *vector(struct random_model *m, struct dice *d, uint32_t n,
                           float low, float high)
{
    float *p = own(m, n * sizeof *p);

    for (uint32_t i = 0; i < n; i++) {
        p[i] = dice_float(d, low, high);
    }
    return p;
}

static void fill_attention(struct random_model *m, const struct random_shape *r,
                           struct dice *d, struct attention_weights *a)
{
    const struct model_shape *s = &r->shape;
    uint32_t wide = s->n_heads * s->head_dim;
    uint32_t narrow = s->n_kv_heads * s->head_dim;
    uint32_t q = s->attn_gated ? 2 * wide : wide;

    a->q = matrix(m, d, q, s->hidden);
    a->k = matrix(m, d, narrow, s->hidden);
    a->v = matrix(m, d, narrow, s->hidden);
    a->o = matrix(m, d, s->hidden, wide);
    if (r->qkv_bias) {
        a->q_bias = vector(m, d, q, -1.0f, 1.0f);
        a->k_bias = vector(m, d, narrow, -1.0f, 1.0f);
        a->v_bias = vector(m, d, narrow, -1.0f, 1.0f);
    }
    if (r->o_bias) {
        a->o_bias = vector(m, d, s->hidden, -1.0f, 1.0f);
    }
    if (r->qk_norm) {
        a->q_norm = vector(m, d, s->head_dim, 0.5f, 1.5f);
        a->k_norm = vector(m, d, s->head_dim, 0.5f, 1.5f);
    }
}

static void fill_linear(struct random_model *m, const struct random_shape *r,
                        struct dice *d, struct deltanet_weights *n)
{
    const struct model_shape *s = &r->shape;
    uint32_t values = s->n_v_heads * s->v_dim;
    uint32_t channels = 2 * s->n_k_heads * s->k_dim + values;

    n->qkv = matrix(m, d, channels, s->hidden);
    n->z = matrix(m, d, values, s->hidden);
    n->b = matrix(m, d, s->n_v_heads, s->hidden);
    n->a = matrix(m, d, s->n_v_heads, s->hidden);
    n->out = matrix(m, d, s->hidden, values);
    n->conv = vector(m, d, channels * s->conv, -0.7f, 0.7f);
    n->a_log = vector(m, d, s->n_v_heads, -2.0f, 2.0f);
    n->dt_bias = vector(m, d, s->n_v_heads, -4.0f, 1.0f);
    n->norm = vector(m, d, s->v_dim, 0.5f, 1.5f);
}

static void fill_layer(struct random_model *m, const struct random_shape *r,
                       struct dice *d, uint32_t i)
{
    const struct model_shape *s = &r->shape;
    struct layer_weights *l = &m->layers[i];

    l->kind = r->mixers[i];
    l->input_norm = vector(m, d, s->hidden, 0.5f, 1.5f);
    l->post_norm = vector(m, d, s->hidden, 0.5f, 1.5f);
    if (l->kind == MIXER_ATTENTION) {
        fill_attention(m, r, d, &l->mixer.attention);
    } else {
        fill_linear(m, r, d, &l->mixer.deltanet);
    }
    l->mlp.gate = matrix(m, d, s->intermediate, s->hidden);
    l->mlp.up = matrix(m, d, s->intermediate, s->hidden);
    l->mlp.down = matrix(m, d, s->hidden, s->intermediate);
}

void random_model_new(struct random_model *m, const struct random_shape *r,
                      struct dice *d)
{
    const struct model_shape *s = &r->shape;

    memset(m, 0, sizeof *m);
    m->hollow = r->hollow;
    m->quantised = r->quantised;
    m->bits = r->bits;
    m->group = r->group;
    m->w.shape = *s;
    m->w.end = s->n_layers;
    m->w.layers = m->layers;
    m->w.embed = matrix(m, d, s->vocab, s->hidden);
    m->w.final_norm = vector(m, d, s->hidden, 0.5f, 1.5f);
    m->w.head = r->tied ? m->w.embed : matrix(m, d, s->vocab, s->hidden);
    if (m->hollow && !r->tied) {
        m->w.head.data = opencl_noise_other;
    }
    for (uint32_t i = 0; i < s->n_layers; i++) {
        fill_layer(m, r, d, i);
    }
}

void random_model_free(struct random_model *m)
{
    for (uint32_t i = 0; i < m->n_owned; i++) {
        free(m->owned[i]);
    }
    memset(m, 0, sizeof *m);
}
