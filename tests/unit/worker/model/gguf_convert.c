#include "tests/unit/worker/model/gguf_convert.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/weight_format.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/model/fixture.h"

#define NAME 128

struct convert {
    const struct model_config *config;
    const struct shard_weights *weights;
    const struct gguf_types *types;
    struct gguf_file *file;
    const char *arch;
    uint32_t layer;
};

/* ---- names ---- */

static const struct {
    const char *family, *arch;
} archs[] = {
    {"llama", "llama"},          {"qwen2", "qwen2"},
    {"qwen3", "qwen3"},          {"qwen3_moe", "qwen3moe"},
    {"qwen3_next", "qwen3next"}, {"qwen3_5", "qwen35"},
    {"qwen3_5_text", "qwen35"},  {"qwen3_5_moe_text", "qwen35moe"},
    {"gpt_oss", "gpt-oss"},      {"gemma3_text", "gemma3"},
};

static const char *arch_of(const struct model_config *c)
{
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        if (strcmp(archs[i].family, c->family) == 0) {
            return archs[i].arch;
        }
    }
    fail_msg("no architecture for %s", c->family);
    return NULL;
}

static bool is(const struct convert *k, const char *arch)
{
    return strcmp(k->arch, arch) == 0;
}

/* ---- metadata ---- */

static void number(struct convert *k, const char *key, uint32_t v)
{
    char name[NAME];

    snprintf(name, sizeof name, "%s.%s", k->arch, key);
    gguf_put_u32(k->file, name, v);
}

static void real(struct convert *k, const char *key, double v)
{
    char name[NAME];

    snprintf(name, sizeof name, "%s.%s", k->arch, key);
    gguf_put_f32(k->file, name, (float)v);
}

static void put_rope(struct convert *k)
{
    const struct model_shape *s = &k->config->shape;
    char name[NAME];

    number(k, "rope.dimension_count", s->rope.dim);
    real(k, "rope.freq_base", s->rope.theta);
    if (s->rope.kind == ROPE_YARN || s->rope.kind == ROPE_LINEAR) {
        snprintf(name, sizeof name, "%s.rope.scaling.type", k->arch);
        gguf_put_text(k->file, name,
                      s->rope.kind == ROPE_YARN ? "yarn" : "linear");
        real(k, "rope.scaling.factor", s->rope.factor);
    }
    if (s->rope.kind == ROPE_YARN) {
        number(k, "rope.scaling.original_context_length", s->rope.original);
    }
}

static void put_mixers(struct convert *k)
{
    const struct model_config *c = k->config;
    const struct model_shape *s = &c->shape;
    uint32_t every = 0;

    while (c->mixers[every] != MIXER_ATTENTION) {
        every++;
    }
    if (s->n_k_heads > 0) {
        number(k, "ssm.conv_kernel", s->conv);
        number(k, "ssm.state_size", s->k_dim);
        number(k, "ssm.group_count", s->n_k_heads);
        number(k, "ssm.time_step_rank", s->n_v_heads);
        number(k, "ssm.inner_size", s->n_v_heads * s->v_dim);
        number(k, "full_attention_interval", every + 1);
    }
    if (s->window > 0) {
        number(k, "attention.sliding_window", s->window);
    }
}

static void put_experts(struct convert *k)
{
    const struct model_shape *s = &k->config->shape;

    if (s->n_experts > 0) {
        number(k, "expert_count", s->n_experts);
        number(k, "expert_used_count", s->top_k);
        number(k, "expert_feed_forward_length", s->expert_dim);
    }
    if (s->shared_dim > 0) {
        number(k, "expert_shared_feed_forward_length", s->shared_dim);
    }
}

static void put_values(struct convert *k)
{
    const struct model_config *c = k->config;
    const struct model_shape *s = &c->shape;

    gguf_put_text(k->file, "general.architecture", k->arch);
    number(k, "block_count", s->n_layers);
    number(k, "context_length", s->context);
    number(k, "embedding_length", s->hidden);
    if (s->intermediate > 0) {
        number(k, "feed_forward_length", s->intermediate);
    }
    number(k, "attention.head_count", s->n_heads);
    number(k, "attention.head_count_kv", s->n_kv_heads);
    number(k, "attention.key_length", s->head_dim);
    number(k, "attention.value_length", s->head_dim);
    real(k, "attention.layer_norm_rms_epsilon", (double)s->norm_eps);
    put_rope(k);
    put_mixers(k);
    put_experts(k);
    if (c->n_eos > 0) {
        gguf_put_u32(k->file, "tokenizer.ggml.eos_token_id", c->eos[0]);
    }
    if (c->n_eos > 1) {
        gguf_put_u32(k->file, "tokenizer.ggml.eot_token_id", c->eos[1]);
    }
    if (c->has_bos) {
        gguf_put_u32(k->file, "tokenizer.ggml.bos_token_id", c->bos);
    }
}

/* ---- tensors ---- */

uint32_t gguf_convert_type(uint32_t type, uint32_t cols)
{
    return cols % gguf_type_block(type) == 0 ? type : WRITE_F32;
}

/* Row of a matrix in memory for row i of the file. */
typedef uint32_t row_fn(const struct convert *k, uint32_t i);

static uint32_t same_row(const struct convert *k, uint32_t i)
{
    (void)k;
    return i;
}

/* The conversion of llama: rows 2 i and 2 i + 1 of a head are i and i + hd/2.
 */
static uint32_t rotary_row(const struct convert *k, uint32_t i)
{
    uint32_t hd = k->config->shape.head_dim, r = i % hd;

    return is(k, "llama") ? i - r + r / 2 + r % 2 * (hd / 2) : i;
}

/* Head t of the file is value head t / Hk of key head t % Hk. */
static uint32_t tiled(const struct convert *k, uint32_t i, uint32_t dim)
{
    const struct model_shape *s = &k->config->shape;
    uint32_t t = i / dim, per = s->n_v_heads / s->n_k_heads;

    if (is(k, "qwen3next")) {
        return i;
    }
    return (t % s->n_k_heads * per + t / s->n_k_heads) * dim + i % dim;
}

static uint32_t value_row(const struct convert *k, uint32_t i)
{
    return tiled(k, i, k->config->shape.v_dim);
}

static uint32_t head_row(const struct convert *k, uint32_t i)
{
    return tiled(k, i, 1);
}

static uint32_t qkv_row(const struct convert *k, uint32_t i)
{
    const struct model_shape *s = &k->config->shape;
    uint32_t keys = 2 * s->n_k_heads * s->k_dim;

    return i < keys ? i : keys + value_row(k, i - keys);
}

/* Rows of gate or up of all experts. */
static uint32_t part_row(const struct convert *k, uint32_t i, uint32_t second)
{
    const struct model_shape *s = &k->config->shape;
    uint32_t e = i / s->expert_dim, r = i % s->expert_dim;

    return e * 2 * s->expert_dim +
           (s->gate_up_alternate ? 2 * r + second : second * s->expert_dim + r);
}

static uint32_t gate_row(const struct convert *k, uint32_t i)
{
    return part_row(k, i, 0);
}

static uint32_t up_row(const struct convert *k, uint32_t i)
{
    return part_row(k, i, 1);
}

static void full_name(const struct convert *k, const char *name, char *out)
{
    if (strncmp(name, "blk.", 4) == 0) {
        snprintf(out, NAME, "blk.%u.%s", k->layer, name + 4);
    } else {
        snprintf(out, NAME, "%s", name);
    }
}

/* A matrix of `rows` rows; dims 0: [rows, cols]. */
static void add_rows(struct convert *k, const char *name, uint32_t type,
                     const struct tensor *t, uint32_t rows, row_fn *row,
                     uint32_t experts)
{
    float *values = malloc((size_t)rows * t->cols * sizeof *values);
    const uint64_t dims[] = {t->cols, rows / (experts > 0 ? experts : 1),
                             experts};
    char full[NAME];

    assert_non_null(values);
    for (uint32_t i = 0; i < rows; i++) {
        weight_format_decode(values + (size_t)i * t->cols, t, row(k, i), 0,
                             t->cols);
    }
    full_name(k, name, full);
    gguf_add_values(k->file, full, gguf_convert_type(type, t->cols),
                    experts > 0 ? 3 : 2, dims, values);
    free(values);
}

static void matrix(struct convert *k, const char *name, const struct tensor *t,
                   row_fn *row)
{
    add_rows(k, name, k->types->matrices, t, t->rows, row, 0);
}

/* The columns of out belong to value heads. */
static void out_matrix(struct convert *k, const struct tensor *t)
{
    float *row = malloc(t->cols * sizeof *row);
    float *values = malloc((size_t)t->rows * t->cols * sizeof *values);
    const uint64_t dims[] = {t->cols, t->rows};
    char full[NAME];

    for (uint32_t i = 0; i < t->rows; i++) {
        weight_format_decode(row, t, i, 0, t->cols);
        for (uint32_t c = 0; c < t->cols; c++) {
            values[(size_t)i * t->cols + c] = row[value_row(k, c)];
        }
    }
    full_name(k, "blk.ssm_out.weight", full);
    gguf_add_values(k->file, full,
                    gguf_convert_type(k->types->matrices, t->cols), 2, dims,
                    values);
    free(values);
    free(row);
}

/* n rows of cols float32. */
static void add_floats(struct convert *k, const char *name, const float *v,
                       uint32_t n, uint32_t cols, row_fn *row, uint32_t experts)
{
    float *values = malloc((size_t)n * cols * sizeof *values);
    uint64_t dims[2] = {cols > 1 ? cols : n, n};
    char full[NAME];

    for (uint32_t i = 0; i < n; i++) {
        memcpy(values + (size_t)i * cols, v + (size_t)row(k, i) * cols,
               cols * sizeof *v);
    }
    if (experts > 0) {
        dims[0] = n / experts;
        dims[1] = experts;
    }
    full_name(k, name, full);
    gguf_add_values(k->file, full, WRITE_F32, experts > 0 || cols > 1 ? 2 : 1,
                    dims, values);
    free(values);
}

static void vector(struct convert *k, const char *name, const float *v,
                   uint32_t n, row_fn *row)
{
    if (v != NULL) {
        add_floats(k, name, v, n, 1, row, 0);
    }
}

static void add_attention(struct convert *k, const struct attention_weights *a)
{
    const struct model_shape *s = &k->config->shape;

    matrix(k, "blk.attn_q.weight", &a->q, rotary_row);
    matrix(k, "blk.attn_k.weight", &a->k, rotary_row);
    matrix(k, "blk.attn_v.weight", &a->v, same_row);
    matrix(k, "blk.attn_output.weight", &a->o, same_row);
    vector(k, "blk.attn_q.bias", a->q_bias, a->q.rows, rotary_row);
    vector(k, "blk.attn_k.bias", a->k_bias, a->k.rows, rotary_row);
    vector(k, "blk.attn_v.bias", a->v_bias, a->v.rows, same_row);
    vector(k, "blk.attn_output.bias", a->o_bias, a->o.rows, same_row);
    vector(k, "blk.attn_q_norm.weight", a->q_norm, s->head_dim, same_row);
    vector(k, "blk.attn_k_norm.weight", a->k_norm, s->head_dim, same_row);
    vector(k, "blk.attn_sinks.weight", a->sinks, s->n_heads, same_row);
}

/* qwen3next has b and a of each key head in one matrix. */
static void add_ba(struct convert *k, const struct deltanet_weights *d)
{
    const struct model_shape *s = &k->config->shape;
    uint32_t per = s->n_v_heads / s->n_k_heads, cols = d->b.cols;
    uint32_t rows = 2 * s->n_v_heads;
    float *values = malloc((size_t)rows * cols * sizeof *values);
    const uint64_t dims[] = {cols, rows};
    char full[NAME];

    for (uint32_t i = 0; i < rows; i++) {
        uint32_t g = i / (2 * per), r = i % (2 * per);

        weight_format_decode(values + (size_t)i * cols, r < per ? &d->b : &d->a,
                             g * per + r % per, 0, cols);
    }
    full_name(k, "blk.ssm_ba.weight", full);
    gguf_add_values(k->file, full, gguf_convert_type(k->types->matrices, cols),
                    2, dims, values);
    free(values);
}

static void add_deltanet(struct convert *k, const struct deltanet_weights *d)
{
    const struct model_shape *s = &k->config->shape;
    float a[MODEL_HEADS_MAX];

    for (uint32_t i = 0; i < s->n_v_heads; i++) {
        a[i] = -expf(d->a_log[i]);
    }
    matrix(k, "blk.attn_qkv.weight", &d->qkv, qkv_row);
    matrix(k, "blk.attn_gate.weight", &d->z, value_row);
    if (is(k, "qwen3next")) {
        add_ba(k, d);
    } else {
        matrix(k, "blk.ssm_alpha.weight", &d->a, head_row);
        matrix(k, "blk.ssm_beta.weight", &d->b, head_row);
    }
    add_floats(k, "blk.ssm_conv1d.weight", d->conv, d->qkv.rows, s->conv,
               qkv_row, 0);
    vector(k, "blk.ssm_a", a, s->n_v_heads, head_row);
    vector(k, "blk.ssm_dt.bias", d->dt_bias, s->n_v_heads, head_row);
    vector(k, "blk.ssm_norm.weight", d->norm, s->v_dim, same_row);
    out_matrix(k, &d->out);
}

static void add_experts(struct convert *k, const struct expert_weights *x)
{
    const struct model_shape *s = &k->config->shape;
    uint32_t n = s->n_experts, rows = n * s->expert_dim;
    uint32_t type =
        k->types->experts != 0 ? k->types->experts : k->types->matrices;

    add_rows(k, "blk.ffn_gate_inp.weight", WRITE_F32, &x->router, n, same_row,
             0);
    if (k->types->joined) {
        add_rows(k, "blk.ffn_gate_up_exps.weight", type, &x->gate_up, 2 * rows,
                 same_row, n);
    } else {
        add_rows(k, "blk.ffn_gate_exps.weight", type, &x->gate_up, rows,
                 gate_row, n);
        add_rows(k, "blk.ffn_up_exps.weight", type, &x->gate_up, rows, up_row,
                 n);
    }
    add_rows(k, "blk.ffn_down_exps.weight", type, &x->down, n * s->hidden,
             same_row, n);
    if (x->router_bias != NULL) {
        vector(k, "blk.ffn_gate_inp.bias", x->router_bias, n, same_row);
        add_floats(k, "blk.ffn_gate_exps.bias", x->gate_up_bias, rows, 1,
                   gate_row, n);
        add_floats(k, "blk.ffn_up_exps.bias", x->gate_up_bias, rows, 1, up_row,
                   n);
        add_floats(k, "blk.ffn_down_exps.bias", x->down_bias, n * s->hidden, 1,
                   same_row, n);
    }
    if (s->shared_dim > 0) {
        float *gate = malloc(s->hidden * sizeof *gate);

        matrix(k, "blk.ffn_gate_shexp.weight", &x->shared.gate, same_row);
        matrix(k, "blk.ffn_up_shexp.weight", &x->shared.up, same_row);
        matrix(k, "blk.ffn_down_shexp.weight", &x->shared.down, same_row);
        weight_format_decode(gate, &x->shared_gate, 0, 0, s->hidden);
        vector(k, "blk.ffn_gate_inp_shexp.weight", gate, s->hidden, same_row);
        free(gate);
    }
}

static void add_layer(struct convert *k, const struct layer_weights *l)
{
    uint32_t h = k->config->shape.hidden;
    bool gemma = is(k, "gemma3");
    /* These two have ffn_norm before a feed-forward of no other name. */
    bool named = is(k, "gpt-oss") || k->config->shape.n_k_heads > 0;

    vector(k, "blk.attn_norm.weight", l->input_norm, h, same_row);
    if (mixer_attends(l->kind)) {
        add_attention(k, &l->mixer.attention);
    } else {
        add_deltanet(k, &l->mixer.deltanet);
    }
    vector(k, named ? "blk.post_attention_norm.weight" : "blk.ffn_norm.weight",
           l->post_norm, h, same_row);
    if (gemma) {
        vector(k, "blk.post_attention_norm.weight", l->mixer_norm, h, same_row);
        vector(k, "blk.post_ffw_norm.weight", l->ffn_norm, h, same_row);
    }
    if (l->ffn == FFN_EXPERTS) {
        add_experts(k, &l->experts);
    } else {
        matrix(k, "blk.ffn_gate.weight", &l->mlp.gate, same_row);
        matrix(k, "blk.ffn_up.weight", &l->mlp.up, same_row);
        matrix(k, "blk.ffn_down.weight", &l->mlp.down, same_row);
    }
}

/* The divisors that llama3 scaling gives, as generate_extra_tensors() does. */
static void add_divisors(struct convert *k)
{
    const struct rope_shape *r = &k->config->shape.rope;
    uint32_t n = k->config->shape.head_dim / 2;
    float *v = malloc(n * sizeof *v);

    for (uint32_t i = 0; i < n; i++) {
        double freq = 1 / pow(r->theta, (double)(2 * i) / (2 * n));
        double length = 2 * 3.141592653589793 / freq, smooth;

        smooth =
            (r->original / length - r->low_freq) / (r->high_freq - r->low_freq);
        v[i] = length < r->original / r->high_freq ? 1
               : length > r->original / r->low_freq
                   ? (float)r->factor
                   : (float)(1 / ((1 - smooth) / r->factor + smooth));
    }
    vector(k, "rope_freqs.weight", v, n, same_row);
    free(v);
}

static void add_ends(struct convert *k)
{
    const struct shard_weights *w = k->weights;
    uint32_t type = k->types->embed != 0 ? k->types->embed : k->types->matrices;

    add_rows(k, "token_embd.weight", type, &w->embed, w->embed.rows, same_row,
             0);
    if (k->config->shape.rope.kind == ROPE_LLAMA3) {
        add_divisors(k);
    }
    vector(k, "output_norm.weight", w->final_norm, k->config->shape.hidden,
           same_row);
    if (!k->config->tied) {
        matrix(k, "output.weight", &w->head, same_row);
    }
}

static struct convert begin(const struct model_config *c,
                            const struct shard_weights *w,
                            const struct gguf_types *types)
{
    return (struct convert){.config = c,
                            .weights = w,
                            .types = types,
                            .file = gguf_file_new(3, 0),
                            .arch = arch_of(c)};
}

struct gguf_file *gguf_convert(const struct model_config *c,
                               const struct shard_weights *w,
                               const struct gguf_types *types)
{
    struct convert k = begin(c, w, types);

    put_values(&k);
    add_ends(&k);
    for (; k.layer < c->shape.n_layers; k.layer++) {
        add_layer(&k, &w->layers[k.layer]);
    }
    return k.file;
}

void gguf_convert_save(const struct gguf_file *f, const char *path)
{
    size_t len;
    unsigned char *bytes = gguf_bytes(f, &len);

    fixture_write(path, bytes, len);
    free(bytes);
}

void gguf_convert_parts(const struct model_config *c,
                        const struct shard_weights *w,
                        const struct gguf_types *types, uint32_t n,
                        const char *dir, const char *name)
{
    for (uint32_t i = 0; i < n; i++) {
        struct convert k = begin(c, w, types);
        char path[512];

        if (i == 0) {
            put_values(&k);
            add_ends(&k);
        }
        gguf_put_u32(k.file, "split.no", i);
        gguf_put_u32(k.file, "split.count", n);
        for (; k.layer < c->shape.n_layers; k.layer++) {
            if (k.layer % n == i) {
                add_layer(&k, &w->layers[k.layer]);
            }
        }
        snprintf(path, sizeof path, "%s/%s-%05u-of-%05u.gguf", dir, name, i + 1,
                 n);
        gguf_convert_save(k.file, path);
        gguf_file_free(&k.file);
    }
}
