#include "tests/kernels/random_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/opencl/noise.h"
#include "tests/kernels/random_weights.h"

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

static void random_ropes(struct model_shape *s, struct dice *d)
{
    s->window_rope = s->rope;
    s->window_rope.kind = ROPE_DEFAULT;
    s->window_rope.theta = 500.0;
    if (dice_below(d, 2)) {
        s->rope.kind = ROPE_YARN;
        s->rope.factor = 8.0;
        s->rope.beta_fast = 32.0;
        s->rope.beta_slow = 1.0;
        s->rope.attention = 1.2;
        s->rope.truncate = dice_below(d, 2);
    }
    if (dice_below(d, 3) == 0) {
        s->window_rope = s->rope;
    }
}

static void random_experts(struct random_shape *r, struct dice *d)
{
    struct model_shape *s = &r->shape;

    s->n_experts = PICK(d, 1, 3, 8, 10, 32);
    s->top_k = 1 + dice_below(d, s->n_experts < 6 ? s->n_experts : 6);
    s->expert_dim = PICK(d, 1, 24, 31, 64, 96);
    s->shared_dim = dice_below(d, 2) ? PICK(d, 7, 32, 96) : 0;
    s->top_k_normed = dice_below(d, 2);
    s->gate_up_alternate = dice_below(d, 2);
    r->expert_bias = dice_below(d, 2);
    r->shared_gate = dice_below(d, 2);
    r->equal_experts = s->n_experts > 1 && dice_below(d, 3) == 0;
}

void random_features(struct random_shape *r, struct dice *d)
{
    struct model_shape *s = &r->shape;

    s->window = PICK(d, 1, 2, 17, 32, 48, 64, 100);
    s->attn_scale = dice_below(d, 2) ? 0.15f : 0.0f;
    s->attn_cap = dice_below(d, 2) ? 3.0f : 0.0f;
    s->stream.embed = dice_below(d, 2) ? 7.5625f : 0.0f;
    s->stream.cap = dice_below(d, 2) ? 2.5f : 0.0f;
    s->activation.kind = (enum activation)dice_below(d, 3);
    s->activation.alpha = 1.702f;
    s->activation.limit = 1.5f; /* some values are past it */
    r->sinks = dice_below(d, 2);
    r->output_norms = dice_below(d, 2);
    if (r->output_norms && s->hidden == 1) {
        s->hidden = 17; /* the norm of one value near 0 magnifies any error */
    }
    random_ropes(s, d);
    random_experts(r, d);
    for (uint32_t i = 0; i < s->n_layers; i++) {
        if (mixer_attends(r->mixers[i]) && dice_below(d, 2)) {
            r->mixers[i] = MIXER_WINDOW;
        }
        r->ffns[i] = dice_below(d, 4) ? FFN_EXPERTS : FFN_DENSE;
    }
}

void random_format(struct random_shape *r, enum weight_format format)
{
    struct model_shape *s = &r->shape;
    uint32_t unit = format == WEIGHT_K4 || format == WEIGHT_K6 ? 256 : 32;

    r->quantised = format != WEIGHT_PLAIN;
    r->formats = 1u << format;
    if (format != WEIGHT_PLAIN && format != WEIGHT_FP8) {
        s->hidden = (s->hidden + unit - 1) / unit * unit;
        s->intermediate = (s->intermediate + unit - 1) / unit * unit;
        s->expert_dim = (s->expert_dim + unit - 1) / unit * unit;
        s->shared_dim = (s->shared_dim + unit - 1) / unit * unit;
    }
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
        s->window_rope.dim = s->rope.dim;
        s->head_dim = d;
    }
    return f;
}

/* Returns one of the formats of the set that the columns allow; plain if there
 * is none. */
static enum weight_format pick_format(const struct random_model *m,
                                      struct dice *d, uint32_t cols)
{
    uint32_t set = m->formats ? m->formats : 1u << WEIGHT_AFFINE;
    uint32_t fit[WEIGHT_FORMATS], n = 0;

    for (uint32_t f = 0; f < WEIGHT_FORMATS; f++) {
        if ((set >> f & 1) && random_fits((enum weight_format)f, cols)) {
            fit[n++] = f;
        }
    }
    return n == 0   ? WEIGHT_PLAIN
           : n == 1 ? (enum weight_format)fit[0]
                    : (enum weight_format)dice_pick(d, fit, n);
}

static bool is_quantised(const struct random_model *m, struct dice *d,
                         uint32_t cols)
{
    if (!m->quantised || m->experts_only) {
        return false;
    }
    if (m->formats == 0 && cols % (m->bits > 0 ? m->group : 32) != 0) {
        return false;
    }
    return m->bits > 0 || dice_below(d, 4) > 0;
}

static struct tensor matrix(struct random_model *m, struct dice *d,
                            uint32_t rows, uint32_t cols)
{
    struct tensor out = {.dtype = m->w.shape.dtype, .rows = rows, .cols = cols};
    float width = sqrtf(3.0f / (float)cols);
    bool quantised = is_quantised(m, d, cols);
    enum weight_format format =
        quantised ? pick_format(m, d, cols) : WEIGHT_PLAIN;

    if (quantised && format == WEIGHT_AFFINE) {
        out.bits = m->bits;
        out.group = m->group;
    }
    if (m->hollow) {
        out.data = opencl_noise_data;
        random_sizes(&out, format);
    } else if (format != WEIGHT_PLAIN) {
        random_codes(m, d, &out, format, width);
    } else {
        out.data =
            random_values(m, d, (size_t)rows * cols, out.dtype, -width, width);
    }
    return out;
}

/* Makes a router, or the gate of a shared expert.  A hollow model's is plain,
 * as those of real quantised models are. */
static struct tensor router(struct random_model *m, struct dice *d,
                            uint32_t rows, uint32_t cols)
{
    if (m->hollow) {
        return (struct tensor){.data = opencl_noise_data,
                               .dtype = m->w.shape.dtype,
                               .rows = rows,
                               .cols = cols};
    }
    return matrix(m, d, rows, cols);
}

static const float *vector(struct random_model *m, struct dice *d, uint32_t n,
                           float low, float high)
{
    float *p = random_own(m, n * sizeof *p);

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
        bool whole = s->attention.whole_norm;

        a->q_norm =
            vector(m, d, s->head_dim * (whole ? s->n_heads : 1), 0.5f, 1.5f);
        a->k_norm =
            vector(m, d, s->head_dim * (whole ? s->n_kv_heads : 1), 0.5f, 1.5f);
    }
    if (r->sinks) {
        a->sinks = vector(m, d, s->n_heads, -2.0f, 3.0f);
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

static void fill_mlp(struct random_model *m, struct dice *d, uint32_t hidden,
                     uint32_t wide, struct mlp_weights *w)
{
    w->gate = matrix(m, d, wide, hidden);
    w->up = matrix(m, d, wide, hidden);
    w->down = matrix(m, d, hidden, wide);
}

/* Equal logits, so that the lower index counts. */
static void repeat_row(const struct tensor *t, const float *bias)
{
    size_t bytes = tensor_row_bytes(t);
    /* The model's own memory. */
    char *data = (char *)(uintptr_t)t->data;
    float *values = (float *)(uintptr_t)bias;

    memcpy(data + (t->rows - 1) * bytes, data, bytes);
    if (bias) {
        values[t->rows - 1] = values[0];
    }
}

/* Returns a matrix that is quantised even in a model where no other is. */
static struct tensor expert_matrix(struct random_model *m, struct dice *d,
                                   uint32_t rows, uint32_t cols)
{
    bool only = m->experts_only;
    struct tensor t;

    m->experts_only = false;
    t = matrix(m, d, rows, cols);
    m->experts_only = only;
    return t;
}

static void fill_experts(struct random_model *m, const struct random_shape *r,
                         struct dice *d, struct expert_weights *w)
{
    const struct model_shape *s = &r->shape;
    const uint32_t wide = 2 * s->expert_dim;

    w->router = router(m, d, s->n_experts, s->hidden);
    w->gate_up = expert_matrix(m, d, s->n_experts * wide, s->hidden);
    w->down = expert_matrix(m, d, s->n_experts * s->hidden, s->expert_dim);
    if (r->expert_bias) {
        w->router_bias = vector(m, d, s->n_experts, -1.0f, 1.0f);
        w->gate_up_bias = vector(m, d, s->n_experts * wide, -1.0f, 1.0f);
        w->down_bias = vector(m, d, s->n_experts * s->hidden, -1.0f, 1.0f);
    }
    if (s->shared_dim > 0) {
        fill_mlp(m, d, s->hidden, s->shared_dim, &w->shared);
    }
    if (s->shared_dim > 0 && r->shared_gate) {
        w->shared_gate = router(m, d, 1, s->hidden);
    }
    if (r->equal_experts && w->router.bits == 0 && !m->hollow) {
        repeat_row(&w->router, w->router_bias);
    }
}

static void fill_layer(struct random_model *m, const struct random_shape *r,
                       struct dice *d, uint32_t i)
{
    const struct model_shape *s = &r->shape;
    struct layer_weights *l = &m->layers[i];

    l->kind = i < s->n_layers ? r->mixers[i] : MIXER_ATTENTION;
    l->ffn = r->ffns[i];
    if (!r->bare_inputs) {
        l->input_norm = vector(m, d, s->hidden, 0.5f, 1.5f);
        l->post_norm = vector(m, d, s->hidden, 0.5f, 1.5f);
    }
    if (r->output_norms) {
        l->mixer_norm = vector(m, d, s->hidden, 0.5f, 1.5f);
        l->ffn_norm = vector(m, d, s->hidden, 0.5f, 1.5f);
    }
    if (mixer_attends(l->kind)) {
        fill_attention(m, r, d, &l->mixer.attention);
    } else if (l->kind == MIXER_DELTANET) {
        fill_linear(m, r, d, &l->mixer.deltanet);
    }
    if (l->ffn == FFN_EXPERTS) {
        fill_experts(m, r, d, &l->experts);
    } else {
        fill_mlp(m, d, s->hidden, s->intermediate, &l->mlp);
    }
}

static void fill_mtp(struct random_model *m, const struct random_shape *r,
                     struct dice *d)
{
    const struct model_shape *s = &r->shape;

    m->mtp.embed_norm = vector(m, d, s->hidden, 0.5f, 1.5f);
    m->mtp.hidden_norm = vector(m, d, s->hidden, 0.5f, 1.5f);
    m->mtp.fc = matrix(m, d, s->hidden, 2 * s->hidden);
    m->mtp.norm = vector(m, d, s->hidden, 0.5f, 1.5f);
    fill_layer(m, r, d, s->n_layers);
    m->w.mtp = &m->mtp;
}

void random_model_new(struct random_model *m, const struct random_shape *r,
                      struct dice *d)
{
    const struct model_shape *s = &r->shape;

    memset(m, 0, sizeof *m);
    m->hollow = r->hollow;
    m->quantised = r->quantised;
    m->experts_only = r->experts_only;
    m->bits = r->bits;
    m->group = r->group;
    m->formats = r->formats;
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
    if (r->mtp) {
        fill_mtp(m, r, d);
    }
}

void random_model_free(struct random_model *m)
{
    for (uint32_t i = 0; i < m->n_owned; i++) {
        free(m->owned[i]);
    }
    memset(m, 0, sizeof *m);
}
