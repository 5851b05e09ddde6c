/* mixer_attention.c - The rows of attention: full, in windows, and without
 * rotary positions. */
#include "common/model/mixer.h"
#include "common/model/rope.h"

/* ---- config.json ---- */

/* head_dim may be absent: some families fix it, others derive it from the
 * hidden size. */
static uint32_t derived_head_dim(struct fields *f, const struct family *family,
                                 uint32_t hidden, uint32_t heads)
{
    uint32_t dim = family->head_dim != 0 ? family->head_dim : hidden / heads;

    if (field_get(f, "head_dim") != NULL) {
        return field_u32(f, "head_dim", 0, 2, MODEL_HEAD_DIM_MAX);
    }
    if (family->head_dim == 0 &&
        (hidden % heads != 0 || dim < 2 || dim > MODEL_HEAD_DIM_MAX)) {
        field_fault(f, ST_INVALID_ARGUMENT,
                    "head_dim is missing, and hidden_size %u over %u heads is "
                    "none of 2 to %d",
                    hidden, heads, MODEL_HEAD_DIM_MAX);
    }
    return dim;
}

static void parse_heads(struct model_shape *s, struct fields *f,
                        const struct family *family)
{
    uint32_t kv;

    s->n_heads = field_u32(f, "num_attention_heads",
                           family->heads > 0 ? family->heads : FIELD_REQUIRED,
                           1, MODEL_HEADS_MAX);
    kv = family->kv_heads > 0 ? family->kv_heads : s->n_heads;
    s->n_kv_heads = field_u32(f, "num_key_value_heads", kv, 1, MODEL_HEADS_MAX);
    if (s->n_heads % s->n_kv_heads != 0) {
        field_fault(f, ST_INVALID_ARGUMENT,
                    "num_attention_heads %u is no multiple of "
                    "num_key_value_heads %u",
                    s->n_heads, s->n_kv_heads);
    }
    s->head_dim = derived_head_dim(f, family, s->hidden, s->n_heads);
}

/* A model of gpt_oss is trained with yarn, so a file without it is cut. */
static void parse_ropes(struct model_shape *s, struct fields *f,
                        const struct family *family)
{
    struct rope_place p = {.layers = "full_attention",
                           .theta_key = "rope_theta",
                           .scaled = true,
                           .head_dim = s->head_dim,
                           .partial = family->partial,
                           .theta = family->theta,
                           .alpha = family->layers.rope_alpha,
                           .context = s->context};

    if (family->gpt_oss && !rope_given(f)) {
        field_fault(f, ST_INVALID_ARGUMENT, "rope_scaling is missing");
    }
    rope_parse(&s->rope, f, &p);
    if (s->window > 0) {
        p.layers = "sliding_attention";
        p.scaled = !family->layers.plain_windows;
        if (family->window_theta > 0) {
            p.theta_key = "rope_local_base_freq";
            p.theta = family->window_theta;
            p.scaled = false;
        }
        rope_parse(&s->window_rope, f, &p);
    }
    s->context = rope_context(&s->rope, s->context);
}

/* A window of the whole context is full attention, whose blocks other
 * sequences can use. */
static void drop_idle_windows(struct model_config *c,
                              const struct family *family)
{
    if (family->window_theta > 0 || family->layers.plain_windows ||
        c->shape.window < c->shape.context) {
        return;
    }
    for (uint32_t i = 0; i < c->shape.n_layers; i++) {
        if (c->mixers[i] == MIXER_WINDOW) {
            c->mixers[i] = MIXER_ATTENTION;
        }
    }
    c->shape.window = 0;
    c->shape.window_rope = (struct rope_shape){.kind = ROPE_DEFAULT};
}

/* Reads how q grows with the position; the keys are beside those of YaRN. */
static void parse_query_scaling(struct attention_shape *a, struct fields *f)
{
    const struct fields flat = *f;
    const json_t *v = field_get(f, "rope_parameters");

    if (json_is_object(v)) {
        f->inner = v;
        f->outer = NULL;
    }
    a->query_beta = field_real(f, "llama_4_scaling_beta", 0, 0, MODEL_YARN_MAX);
    if (a->query_beta > 0) {
        a->query_original = field_u32(f, "original_max_position_embeddings",
                                      FIELD_REQUIRED, 1, MODEL_CONTEXT_MAX);
    }
    f->inner = flat.inner;
    f->outer = flat.outer;
}

static void parse_details(struct model_config *c, struct fields *f,
                          const struct family *family)
{
    struct attention_shape *a = &c->shape.attention;

    c->qk_norm = family->qk_norm;
    c->sinks = family->gpt_oss;
    c->fused = family->layers.fused;
    a->late_norm = family->layers.late_norm;
    a->whole_norm = family->layers.whole_norm;
    if (family->layers.query_scaling) {
        parse_query_scaling(a, f);
    }
}

static void parse(struct model_config *c, struct fields *f,
                  const struct family *family)
{
    struct model_shape *s = &c->shape;
    bool bias = field_bool(f, "attention_bias", family->biased);

    parse_heads(s, f, family);
    s->attn_gated = family->hybrid && field_bool(f, "attn_output_gate", true);
    c->qkv_bias = bias || family->qkv_bias;
    /* qwen2 has biases on q, k and v alone, whatever attention_bias is. */
    c->o_bias = bias && !family->qkv_bias;
    if (family->layers.o_bias_key != NULL) {
        c->o_bias = field_bool(f, family->layers.o_bias_key, false);
    }
    parse_details(c, f, family);
    parse_ropes(s, f, family);
    drop_idle_windows(c, family);
}

static void check_window(const struct model_config *c, struct fields *f,
                         const struct family *family, uint32_t i)
{
    if (family->windows == FAMILY_WINDOWS_NONE) {
        field_fault(f, ST_UNIMPLEMENTED,
                    "layer %u is \"sliding_attention\", which is not "
                    "supported in a %s model",
                    i, family->type);
    }
    if (c->shape.window == 0) {
        field_fault(f, ST_INVALID_ARGUMENT,
                    "layer %u is \"sliding_attention\", and there is no "
                    "sliding_window",
                    i);
    }
}

/* ---- tensors ---- */

/* Lays q, k and v out: a tensor each, or the rows of one. */
static void inputs(struct maker *m, struct attention_weights *a, uint32_t q,
                   uint32_t kv)
{
    const struct maker_part parts[] = {{&a->q, q}, {&a->k, kv}, {&a->v, kv}};
    uint32_t hidden = m->config->shape.hidden;

    if (m->config->fused) {
        maker_parts(m, parts, 3, "self_attn.qkv_proj", hidden);
        return;
    }
    maker_matrix(m, &a->q, "self_attn.q_proj", q, hidden);
    maker_matrix(m, &a->k, "self_attn.k_proj", kv, hidden);
    maker_matrix(m, &a->v, "self_attn.v_proj", kv, hidden);
}

/* Returns how many heads of n share the norm of q or k. */
static uint32_t normed_heads(const struct model_shape *s, uint32_t n)
{
    return s->attention.whole_norm ? n : 1;
}

/* Hunyuan, which norms behind the rotation, has names of its own. */
static void qk_norms(struct maker *m, struct attention_weights *a)
{
    const struct model_shape *s = &m->config->shape;
    bool late = s->attention.late_norm;

    maker_norm(m, &a->q_norm,
               late ? "self_attn.query_layernorm.weight"
                    : "self_attn.q_norm.weight",
               normed_heads(s, s->n_heads) * s->head_dim);
    maker_norm(m, &a->k_norm,
               late ? "self_attn.key_layernorm.weight"
                    : "self_attn.k_norm.weight",
               normed_heads(s, s->n_kv_heads) * s->head_dim);
}

static void tensors(struct maker *m, struct layer_weights *w)
{
    struct attention_weights *a = &w->mixer.attention;
    const struct model_config *c = m->config;
    const struct model_shape *s = &c->shape;
    uint32_t q = s->n_heads * s->head_dim * (s->attn_gated ? 2 : 1);
    uint32_t kv = s->n_kv_heads * s->head_dim;

    inputs(m, a, q, kv);
    maker_matrix(m, &a->o, "self_attn.o_proj", s->hidden,
                 s->n_heads * s->head_dim);
    if (c->qkv_bias) {
        maker_vector(m, &a->q_bias, "self_attn.q_proj.bias", q);
        maker_vector(m, &a->k_bias, "self_attn.k_proj.bias", kv);
        maker_vector(m, &a->v_bias, "self_attn.v_proj.bias", kv);
    }
    if (c->o_bias) {
        maker_vector(m, &a->o_bias, "self_attn.o_proj.bias", s->hidden);
    }
    if (c->qk_norm) {
        qk_norms(m, a);
    }
    if (c->sinks) {
        maker_vector(m, &a->sinks, "self_attn.sinks", s->n_heads);
    }
}

/* The tensors in the order of struct attention_weights: q, k, v, o, biases,
 * norms, sinks. */
static void tally(struct tally *t, const struct model_config *c)
{
    const struct model_shape *s = &c->shape;
    uint64_t q = (uint64_t)s->n_heads * s->head_dim;
    /* A gated layer projects query and gate with one matrix. */
    uint64_t rows = s->attn_gated ? 2 * q : q;
    uint64_t kv = (uint64_t)s->n_kv_heads * s->head_dim;

    tally_matrix(t, rows, s->hidden, TALLY_LAYER);
    tally_matrix(t, kv, s->hidden, TALLY_LAYER);
    tally_matrix(t, kv, s->hidden, TALLY_LAYER);
    tally_matrix(t, s->hidden, (uint32_t)q, TALLY_LAYER);
    if (c->qkv_bias) {
        tally_vector(t, rows);
        tally_vector(t, kv);
        tally_vector(t, kv);
    }
    if (c->o_bias) {
        tally_vector(t, s->hidden);
    }
    if (c->qk_norm) {
        tally_vector(t, normed_heads(s, s->n_heads) * (uint64_t)s->head_dim);
        tally_vector(t, normed_heads(s, s->n_kv_heads) * (uint64_t)s->head_dim);
    }
    if (c->sinks) {
        tally_vector(t, s->n_heads);
    }
}

/* ---- memory ---- */

static uint64_t kv(const struct model_shape *s, const struct kv_format *f)
{
    struct kv_block b;

    kv_block_make(&b, f, s->n_kv_heads, s->head_dim, 1);
    return b.bytes;
}

static uint64_t window_kv(const struct model_shape *s,
                          const struct kv_format *f)
{
    return s->window > 0 ? kv(s, f) : 0;
}

/* ---- costs ---- */

#define SPLIT_TOKENS 128 /* rows whose context is split on a device */
#define SPLITS       32

static uint64_t queries(const struct model_shape *s)
{
    return (uint64_t)s->n_heads * s->head_dim;
}

static uint64_t keys(const struct model_shape *s)
{
    return (uint64_t)s->n_kv_heads * s->head_dim;
}

static uint64_t cpu(const struct model_shape *s, uint64_t tokens)
{
    return (queries(s) * (s->attn_gated ? 5 : 3) + 2 * keys(s)) * tokens *
           sizeof(float);
}

static uint64_t opencl(const struct model_shape *s, uint64_t tokens)
{
    uint64_t parts = (uint64_t)SPLIT_TOKENS * SPLITS * s->n_heads *
                     ((uint64_t)s->head_dim + 2);

    return (queries(s) * (s->attn_gated ? 4 : 3) + 2 * keys(s)) * tokens +
           parts;
}

static uint64_t rows(const struct model_shape *s)
{
    return 2 * queries(s) + 2 * keys(s);
}

#define COSTS                                                           \
    {                                                                   \
        .cpu = cpu, .opencl = opencl, .columns = queries, .rows = rows, \
    }

static const struct rope_shape *rope(const struct model_shape *s)
{
    return &s->rope;
}

static const struct rope_shape *window_rope(const struct model_shape *s)
{
    return &s->window_rope;
}

const struct mixer mixer_attention = {
    .type = "full_attention",
    .name = "attention",
    .a_layer = "an attention layer",
    .always = true,
    .parse = parse,
    .rope = rope,
    .tensors = tensors,
    .tally = tally,
    .kv = kv,
    .costs = COSTS,
};

const struct mixer mixer_window = {
    .type = "sliding_attention",
    .name = "window",
    .a_layer = "a window layer",
    .check = check_window,
    .parse = parse,
    .rope = window_rope,
    .tensors = tensors,
    .tally = tally,
    .kv = window_kv,
    .costs = COSTS,
};

/* Families choose it by layer: layer_kinds.c. */
const struct mixer mixer_nope = {
    .name = "unrotated",
    .a_layer = "an attention layer without rotary positions",
    .parse = parse,
    .tensors = tensors,
    .tally = tally,
    .kv = kv,
    .costs = COSTS,
};
