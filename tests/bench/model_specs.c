#include "tests/bench/model_specs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 96
#define E4M3_RMS       104.0f /* of random codes */
#define E2M1_RMS       2.93f

struct lister {
    struct model_specs *out;
    const struct model_config *config;
    const struct writer_options *options;
    enum weight_format format;
    bool in_companion;
    const char *root; /* of names: the prefix, or the MTP layer's */
};

static const char *const prefixes[] = {
    [WRITER_TEXT] = "model.",
    [WRITER_MULTIMODAL] = "model.language_model.",
    [WRITER_MLX] = "language_model.model.",
};

const char *model_specs_prefix(enum writer_prefix p)
{
    return prefixes[p];
}

enum weight_format model_specs_format(const struct model_config *c,
                                      const struct writer_options *o)
{
    static const enum weight_format formats[] = {
        [WRITER_PLAIN] = WEIGHT_PLAIN,
        [WRITER_FP8] = WEIGHT_FP8,
        [WRITER_MXFP4] = WEIGHT_MXFP4,
    };

    if (o->bits > 0) {
        return WEIGHT_AFFINE;
    }
    if (o->format != WRITER_AS_CONFIG) {
        return formats[o->format];
    }
    return c->quant.format == WEIGHT_AFFINE ? WEIGHT_PLAIN : c->quant.format;
}

/* ---- single tensors ---- */

/* Adds a tensor unless it is to be left out: then returns a spec that is not
 * used. */
static struct spec *add(struct lister *l, const char *name, struct spec s)
{
    static struct spec unused;
    struct model_specs *out = l->out;
    const char *without = l->options->without;
    size_t n = strlen(name), m = without == NULL ? 0 : strlen(without);
    struct spec *grown;

    if (without != NULL && n >= m && strcmp(name + n - m, without) == 0) {
        return &unused;
    }
    if (out->n == out->room) {
        out->room = out->room * 2 + 64;
        grown = realloc(out->specs, out->room * sizeof *grown);
        if (grown == NULL) {
            out->failed = true;
            out->room = out->n;
            return &unused;
        }
        out->specs = grown;
    }
    snprintf(s.name, sizeof s.name, "%s", name);
    s.bytes = s.kind == SPEC_WORDS    ? 4
              : s.kind != SPEC_FLOATS ? 1
                                      : dtype_bytes(s.dtype);
    for (uint32_t i = 0; i < s.rank; i++) {
        s.bytes *= s.dims[i];
    }
    out->specs[out->n] = s;
    return &out->specs[out->n++];
}

static void add_floats(struct lister *l, const char *name, uint64_t rows,
                       uint64_t cols, struct fill fill)
{
    add(l, name,
        (struct spec){.rank = cols == 0 ? 1 : 2,
                      .dims = {rows, cols},
                      .dtype = l->options->dtype,
                      .fill = fill});
}

static void add_in_layer(struct lister *l, uint32_t layer, const char *name,
                         uint64_t rows, uint64_t cols, struct fill fill)
{
    char full[NAME_MAX_BYTES];

    snprintf(full, sizeof full, "%slayers.%u.%s", l->root, layer, name);
    add_floats(l, full, rows, cols, fill);
}

static struct fill matrix_fill(uint64_t cols)
{
    return (struct fill){0, sqrtf(3.0f / (float)cols)};
}

/* Stored minus one if the family does so, and the file is not one that MLX
 * converts, which it does if there are convolutions. */
static struct fill norm_fill(const struct lister *l)
{
    bool converted =
        l->options->prefix == WRITER_MLX && l->config->shape.n_k_heads > 0;
    bool less =
        l->config->norms == NORM_GAMMA_MINUS_1 &&
        (l->in_companion ? l->options->mtp == WRITER_COMPANION : !converted);

    return (struct fill){less ? 0.0f : 1.0f, 0.25f};
}

/* ---- matrices in each form ---- */

/* n matrices [rows, cols] in one tensor; n = 0: one of rank 2. */
struct form {
    uint64_t n, rows, cols;
};

/* Returns a spec of n matrices with other columns. */
static struct spec shaped(struct form f, uint64_t rows, uint64_t cols)
{
    struct spec s = {.rank = f.n > 0 ? 3 : 2};
    uint32_t i = 0;

    if (f.n > 0) {
        s.dims[i++] = f.n;
    }
    s.dims[i++] = rows;
    s.dims[i] = cols;
    return s;
}

/* Words that dequantise to about [-spread, spread). */
static void add_affine(struct lister *l, const char *name, struct form f,
                       struct fill fill)
{
    uint32_t bits = l->options->bits;
    int stem = (int)(strlen(name) - strlen(".weight"));
    float step = 2 * fill.spread / (float)((1u << bits) - 1);
    struct spec s = shaped(f, f.rows, f.cols * bits / 32);
    char other[NAME_MAX_BYTES];

    s.kind = SPEC_WORDS;
    add(l, name, s);
    s = shaped(f, f.rows, f.cols / l->options->group);
    s.dtype = l->options->dtype;
    s.fill = (struct fill){0.75f * step, 0.25f * step};
    snprintf(other, sizeof other, "%.*s.scales", stem, name);
    add(l, other, s);
    s.fill = (struct fill){-fill.spread, 0};
    snprintf(other, sizeof other, "%.*s.biases", stem, name);
    add(l, other, s);
}

static void add_fp8(struct lister *l, const char *name, struct form f)
{
    float scale = 1 / (sqrtf((float)f.cols) * E4M3_RMS);
    struct spec s = shaped(f, f.rows, f.cols);
    char other[NAME_MAX_BYTES];

    s.kind = SPEC_E4M3;
    add(l, name, s);
    s = shaped(f, (f.rows + 127) / 128, (f.cols + 127) / 128);
    s.dtype = DTYPE_F32;
    s.fill = (struct fill){scale, 0.25f * scale};
    snprintf(other, sizeof other, "%s_scale_inv", name);
    add(l, other, s);
}

static void add_mxfp4(struct lister *l, const char *name, struct form f)
{
    float scale = 1 / (sqrtf((float)f.cols) * E2M1_RMS);
    struct spec s = shaped(f, f.rows, f.cols / 32);
    char other[NAME_MAX_BYTES + 8];

    s.kind = SPEC_BYTES;
    s.dims[s.rank++] = 16;
    snprintf(other, sizeof other, "%s_blocks", name);
    add(l, other, s);
    s = shaped(f, f.rows, f.cols / 32);
    s.kind = SPEC_E8M0;
    s.base = (uint8_t)(126 + (int)log2f(scale));
    snprintf(other, sizeof other, "%s_scales", name);
    add(l, other, s);
}

static void add_plain(struct lister *l, const char *name, struct form f,
                      struct fill fill)
{
    struct spec s = shaped(f, f.rows, f.cols);

    s.dtype = l->options->dtype;
    s.fill = fill;
    add(l, name, s);
}

/* Adds matrices that are stored as most of the model's are. */
static void add_matrices(struct lister *l, const char *name, struct form f,
                         struct fill fill)
{
    if (l->format == WEIGHT_FP8) {
        add_fp8(l, name, f);
    } else if (l->format == WEIGHT_AFFINE && f.cols % l->options->group == 0) {
        add_affine(l, name, f, fill);
    } else {
        add_plain(l, name, f, fill);
    }
}

static void add_matrix(struct lister *l, uint32_t layer, const char *name,
                       uint64_t rows, uint64_t cols)
{
    char full[NAME_MAX_BYTES];

    snprintf(full, sizeof full, "%slayers.%u.%s", l->root, layer, name);
    add_matrices(l, full, (struct form){0, rows, cols}, matrix_fill(cols));
}

/* Adds a matrix that published FP8 checkpoints have in bf16: narrow ones, the
 * embedding and the head. */
static void add_narrow(struct lister *l, uint32_t layer, const char *name,
                       uint64_t rows, uint64_t cols)
{
    enum weight_format format = l->format;

    l->format = format == WEIGHT_FP8 ? WEIGHT_PLAIN : format;
    add_matrix(l, layer, name, rows, cols);
    l->format = format;
}

static void add_end(struct lister *l, const char *name, struct fill fill)
{
    const struct model_shape *s = &l->config->shape;
    const struct form f = {0, s->vocab, s->hidden};

    if (l->format == WEIGHT_AFFINE) {
        add_matrices(l, name, f, fill);
    } else {
        add_plain(l, name, f, fill);
    }
}

/* ---- layers ---- */

static void add_attention(struct lister *l, uint32_t i)
{
    const struct model_config *c = l->config;
    const struct model_shape *s = &c->shape;
    uint64_t q = (uint64_t)s->n_heads * s->head_dim;
    uint64_t rows = s->attn_gated ? 2 * q : q;
    uint64_t kv = (uint64_t)s->n_kv_heads * s->head_dim;
    const struct fill bias = {0, 0.1f};

    add_matrix(l, i, "self_attn.q_proj.weight", rows, s->hidden);
    add_matrix(l, i, "self_attn.k_proj.weight", kv, s->hidden);
    add_matrix(l, i, "self_attn.v_proj.weight", kv, s->hidden);
    add_matrix(l, i, "self_attn.o_proj.weight", s->hidden, q);
    if (c->qkv_bias) {
        add_in_layer(l, i, "self_attn.q_proj.bias", rows, 0, bias);
        add_in_layer(l, i, "self_attn.k_proj.bias", kv, 0, bias);
        add_in_layer(l, i, "self_attn.v_proj.bias", kv, 0, bias);
    }
    if (c->o_bias) {
        add_in_layer(l, i, "self_attn.o_proj.bias", s->hidden, 0, bias);
    }
    if (c->qk_norm) {
        add_in_layer(l, i, "self_attn.q_norm.weight", s->head_dim, 0,
                     norm_fill(l));
        add_in_layer(l, i, "self_attn.k_norm.weight", s->head_dim, 0,
                     norm_fill(l));
    }
    if (c->sinks) {
        add_in_layer(l, i, "self_attn.sinks", s->n_heads, 0,
                     (struct fill){0, 1});
    }
}

static void add_convolution(struct lister *l, uint32_t i, uint64_t channels)
{
    uint32_t taps = l->config->shape.conv;
    bool mlx = l->options->prefix == WRITER_MLX;
    char full[NAME_MAX_BYTES];

    snprintf(full, sizeof full, "%slayers.%u.linear_attn.conv1d.weight",
             l->root, i);
    add(l, full,
        (struct spec){.rank = 3,
                      .dims = {channels, mlx ? taps : 1, mlx ? 1 : taps},
                      .dtype = l->options->dtype,
                      .fill = {0, 0.5f}});
}

static void add_deltanet(struct lister *l, uint32_t i)
{
    const struct model_shape *s = &l->config->shape;
    uint64_t keys = (uint64_t)s->n_k_heads * s->k_dim;
    uint64_t values = (uint64_t)s->n_v_heads * s->v_dim;

    if (l->config->linear == LINEAR_GROUPED) {
        add_matrix(l, i, "linear_attn.in_proj_qkvz.weight", 2 * (keys + values),
                   s->hidden);
        add_narrow(l, i, "linear_attn.in_proj_ba.weight",
                   2 * (uint64_t)s->n_v_heads, s->hidden);
    } else {
        add_matrix(l, i, "linear_attn.in_proj_qkv.weight", 2 * keys + values,
                   s->hidden);
        add_matrix(l, i, "linear_attn.in_proj_z.weight", values, s->hidden);
        add_narrow(l, i, "linear_attn.in_proj_b.weight", s->n_v_heads,
                   s->hidden);
        add_narrow(l, i, "linear_attn.in_proj_a.weight", s->n_v_heads,
                   s->hidden);
    }
    add_matrix(l, i, "linear_attn.out_proj.weight", s->hidden, values);
    add_convolution(l, i, 2 * keys + values);
    add_in_layer(l, i, "linear_attn.A_log", s->n_v_heads, 0,
                 (struct fill){0, 2});
    add_in_layer(l, i, "linear_attn.dt_bias", s->n_v_heads, 0,
                 (struct fill){-2, 2});
    add_in_layer(l, i, "linear_attn.norm.weight", s->v_dim, 0,
                 (struct fill){1, 0.25f});
}

static void add_mlp(struct lister *l, uint32_t i, const char *prefix,
                    uint64_t rows)
{
    uint64_t hidden = l->config->shape.hidden;
    char name[NAME_MAX_BYTES / 2];

    snprintf(name, sizeof name, "%s.gate_proj.weight", prefix);
    add_matrix(l, i, name, rows, hidden);
    snprintf(name, sizeof name, "%s.up_proj.weight", prefix);
    add_matrix(l, i, name, rows, hidden);
    snprintf(name, sizeof name, "%s.down_proj.weight", prefix);
    add_matrix(l, i, name, hidden, rows);
}

/* ---- experts ---- */

/* Adds a tensor of all experts: "mlp.NAME". */
static void add_all_experts(struct lister *l, uint32_t i, const char *name,
                            struct form f)
{
    bool switches = strncmp(name, "switch", 6) == 0;
    char full[NAME_MAX_BYTES];

    snprintf(full, sizeof full, "%slayers.%u.mlp.%s", l->root, i, name);
    if (l->format == WEIGHT_MXFP4) {
        add_mxfp4(l, full, f);
    } else if (l->format == WEIGHT_AFFINE && !switches) {
        add_plain(l, full, f, matrix_fill(f.cols)); /* nothing writes these */
    } else {
        add_matrices(l, full, f, matrix_fill(f.cols));
    }
}

static enum writer_experts form_of_experts(const struct lister *l)
{
    if (l->format == WEIGHT_MXFP4 || l->config->shape.gate_up_alternate) {
        return WRITER_FUSED;
    }
    if (l->options->experts == WRITER_USUAL) {
        return l->options->prefix == WRITER_MLX ? WRITER_SWITCH : WRITER_EACH;
    }
    return l->options->experts;
}

static void add_expert_matrices(struct lister *l, uint32_t i)
{
    const struct model_shape *s = &l->config->shape;
    const struct form rows = {s->n_experts, s->expert_dim, s->hidden};
    const struct form cols = {s->n_experts, s->hidden, s->expert_dim};
    const struct form both = {s->n_experts, 2 * (uint64_t)s->expert_dim,
                              s->hidden};
    char name[NAME_MAX_BYTES / 2];

    switch (form_of_experts(l)) {
    case WRITER_FUSED:
        add_all_experts(l, i, "experts.gate_up_proj", both);
        add_all_experts(l, i, "experts.down_proj", cols);
        return;
    case WRITER_SWITCH:
        add_all_experts(l, i, "switch_mlp.gate_proj.weight", rows);
        add_all_experts(l, i, "switch_mlp.up_proj.weight", rows);
        add_all_experts(l, i, "switch_mlp.down_proj.weight", cols);
        return;
    default:
        for (uint32_t e = 0; e < s->n_experts; e++) {
            snprintf(name, sizeof name, "mlp.experts.%u", e);
            add_mlp(l, i, name, s->expert_dim);
        }
    }
}

/* Routers stay plain in every form. */
static void add_experts(struct lister *l, uint32_t i)
{
    const struct model_config *c = l->config;
    const struct model_shape *s = &c->shape;
    const struct fill bias = {0, 0.1f};

    add_in_layer(l, i, c->expert_bias ? "mlp.router.weight" : "mlp.gate.weight",
                 s->n_experts, s->hidden, matrix_fill(s->hidden));
    add_expert_matrices(l, i);
    if (c->expert_bias) {
        add_in_layer(l, i, "mlp.router.bias", s->n_experts, 0, bias);
        add_in_layer(l, i, "mlp.experts.gate_up_proj_bias", s->n_experts,
                     2 * (uint64_t)s->expert_dim, bias);
        add_in_layer(l, i, "mlp.experts.down_proj_bias", s->n_experts,
                     s->hidden, bias);
    }
    if (s->shared_dim > 0) {
        add_mlp(l, i, "mlp.shared_expert", s->shared_dim);
        if (c->shared_gate) {
            add_in_layer(l, i, "mlp.shared_expert_gate.weight", 1, s->hidden,
                         matrix_fill(s->hidden));
        }
    }
}

/* Adds a layer of the kinds of layer `kinds`, named as layer i. */
static void add_layer(struct lister *l, uint32_t kinds, uint32_t i)
{
    const struct model_shape *s = &l->config->shape;
    const struct fill norm = norm_fill(l);

    add_in_layer(l, i, "input_layernorm.weight", s->hidden, 0, norm);
    if (mixer_attends(l->config->mixers[kinds])) {
        add_attention(l, i);
    } else {
        add_deltanet(l, i);
    }
    add_in_layer(l, i, "post_attention_layernorm.weight", s->hidden, 0, norm);
    if (l->config->output_norms) {
        add_in_layer(l, i, "pre_feedforward_layernorm.weight", s->hidden, 0,
                     norm);
        add_in_layer(l, i, "post_feedforward_layernorm.weight", s->hidden, 0,
                     norm);
    }
    if (l->config->ffns[kinds] == FFN_EXPERTS) {
        add_experts(l, i);
    } else {
        add_mlp(l, i, "mlp", s->intermediate);
    }
}

static const char *mtp_root(const struct writer_options *o)
{
    return o->mtp == WRITER_BARE     ? ""
           : o->prefix == WRITER_MLX ? "language_model.mtp."
                                     : "mtp.";
}

static void add_mtp(struct lister *l)
{
    static const char *const norms[] = {"pre_fc_norm_hidden",
                                        "pre_fc_norm_embedding", "norm"};
    const struct model_shape *s = &l->config->shape;
    const struct form fc = {0, s->hidden, 2 * (uint64_t)s->hidden};
    char name[NAME_MAX_BYTES];

    l->in_companion = l->options->mtp >= WRITER_COMPANION;
    l->root = mtp_root(l->options);
    snprintf(name, sizeof name, "%sfc.weight", l->root);
    add_plain(l, name, fc, matrix_fill(fc.cols));
    for (size_t i = 0; i < sizeof norms / sizeof norms[0]; i++) {
        snprintf(name, sizeof name, "%s%s.weight", l->root, norms[i]);
        add_floats(l, name, s->hidden, 0, norm_fill(l));
    }
    add_layer(l, s->n_layers, 0);
}

const char *model_specs_companion(const struct writer_options *o)
{
    return o->mtp == WRITER_BARE ? "mtp.safetensors" : "model-mtp.safetensors";
}

bool model_specs_make(struct model_specs *s, const struct model_config *c,
                      const struct writer_options *o)
{
    struct lister l = {.out = s,
                       .config = c,
                       .options = o,
                       .format = model_specs_format(c, o),
                       .root = prefixes[o->prefix]};
    bool mlx = o->prefix == WRITER_MLX;
    char name[NAME_MAX_BYTES];

    *s = (struct model_specs){.n = 0};
    snprintf(name, sizeof name, "%sembed_tokens.weight", prefixes[o->prefix]);
    add_end(&l, name, (struct fill){0, 0.05f});
    for (uint32_t i = 0; i < c->shape.n_layers; i++) {
        add_layer(&l, i, i);
    }
    snprintf(name, sizeof name, "%snorm.weight", prefixes[o->prefix]);
    add_floats(&l, name, c->shape.hidden, 0, norm_fill(&l));
    if (!c->tied) {
        add_end(&l, mlx ? "language_model.lm_head.weight" : "lm_head.weight",
                matrix_fill(c->shape.hidden));
    }
    if (o->extra != NULL) {
        add_floats(&l, o->extra, 1, 0, (struct fill){0, 1});
    }
    s->n_main = s->n;
    if (o->mtp != WRITER_NO_MTP && c->n_mtp > 0) {
        add_mtp(&l);
        s->n_main = l.in_companion ? s->n_main : s->n;
    }
    return !s->failed;
}

void model_specs_fini(struct model_specs *s)
{
    free(s->specs);
    *s = (struct model_specs){.n = 0};
}
