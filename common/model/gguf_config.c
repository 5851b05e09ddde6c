#include "common/model/gguf_config.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/quote.h"
#include "common/model/config.h"
#include "common/model/document.h"
#include "common/model/gguf_arch.h"
#include "common/model/gguf_keys.h"
#include "common/model/gguf_repack.h"

#define GEMMA_27B_LAYERS 62 /* its queries are scaled by hidden / heads */
#define GATING_SOFTMAX   1  /* expert_gating_func; 0: the family's */
#define GATING_SIGMOID   2
#define LLAMA3_LOW       1.0
#define LLAMA3_HIGH      4.0
#define LLAMA3_ORIGINAL  8192

/* State of the functions below, which are no-ops after a fault. */
struct reader {
    const struct gguf_model *model;
    struct gguf_arch arch;
    json_t *doc; /* the config.json */
    struct error *error;
    enum status status;
};

static void put(struct reader *r, const char *key, json_t *v)
{
    if (json_object_set_new(r->doc, key, v) != 0 && r->status == ST_OK) {
        r->status = error_set(r->error, ST_RESOURCE_EXHAUSTED,
                              "no memory for a configuration");
    }
}

/* Returns the whole number ARCH.from, or the fallback. */
static uint32_t number_of(struct reader *r, const char *from, uint32_t max,
                          uint32_t fallback)
{
    uint32_t n = fallback;

    if (r->status == ST_OK) {
        r->status = gguf_arch_number(&r->arch, from, 0, max, &n, r->error);
    }
    return n;
}

/* Copies the whole number ARCH.from to a key, if it exists. */
static void number(struct reader *r, const char *from, const char *key)
{
    if (gguf_arch_find(&r->arch, from) != NULL) {
        put(r, key, json_integer(number_of(r, from, UINT32_MAX, 0)));
    }
}

/* Returns the number ARCH.from, or the fallback. */
static double real_of(struct reader *r, const char *from, double fallback)
{
    double v = fallback;

    if (r->status == ST_OK) {
        r->status = gguf_arch_real(&r->arch, from, &v, r->error);
    }
    return v;
}

/* Copies the number ARCH.from to a key of o, if it exists. */
static void copy_real(struct reader *r, const char *from, json_t *o,
                      const char *key)
{
    if (gguf_arch_find(&r->arch, from) != NULL) {
        json_object_set_new(o, key, json_real(real_of(r, from, 0)));
    }
}

static void real(struct reader *r, const char *from, const char *key)
{
    copy_real(r, from, r->doc, key);
}

static bool has_tensor(const struct reader *r, const char *name)
{
    return gguf_model_tensor(r->model, name, NULL) != NULL;
}

/* Returns whether any layer has the tensor. */
static bool any_layer_has(const struct reader *r, const char *name)
{
    char full[GGUF_NAME_MAX];

    for (uint32_t i = 0; i < r->arch.n_layers; i++) {
        snprintf(full, sizeof full, "blk.%u.%s", i, name);
        if (has_tensor(r, full)) {
            return true;
        }
    }
    return false;
}

/* ---- sizes ---- */

static void embedding(struct reader *r)
{
    const struct gguf_tensor *t =
        gguf_model_tensor(r->model, "token_embd.weight", NULL);

    if (t == NULL || t->rank != 2 || t->dims[1] > MODEL_VOCAB_MAX) {
        if (r->status == ST_OK) {
            r->status = error_set(r->error, ST_INVALID_ARGUMENT,
                                  "tensor \"token_embd.weight\" is missing, or "
                                  "no matrix of at most %d rows",
                                  MODEL_VOCAB_MAX);
        }
        return;
    }
    put(r, "vocab_size", json_integer((json_int_t)t->dims[1]));
    put(r, "dtype",
        json_string(t->type == GGUF_F32   ? "float32"
                    : t->type == GGUF_F16 ? "float16"
                                          : "bfloat16"));
}

static void sizes(struct reader *r)
{
    put(r, "model_type", json_string(r->arch.type));
    put(r, "num_hidden_layers", json_integer(r->arch.n_layers));
    put(r, "hidden_size", json_integer(r->arch.hidden));
    put(r, "num_attention_heads", json_integer(r->arch.n_heads));
    put(r, "num_key_value_heads", json_integer(r->arch.n_kv_heads));
    put(r, "head_dim", json_integer(r->arch.head_dim));
    put(r, "mtp_num_hidden_layers", json_integer(r->arch.n_mtp));
    number(r, "feed_forward_length", "intermediate_size");
    number(r, "context_length", "max_position_embeddings");
    real(r, "attention.layer_norm_rms_epsilon", "rms_norm_eps");
    put(r, "tie_word_embeddings",
        json_boolean(!has_tensor(r, "output.weight")));
    put(r, "attention_bias", json_boolean(any_layer_has(r, "attn_q.bias")));
}

/* Keys and values of two sizes have no place in config.json. */
static void heads(struct reader *r)
{
    uint32_t v =
        number_of(r, "attention.value_length", UINT32_MAX, r->arch.head_dim);

    if (r->status == ST_OK && v != r->arch.head_dim) {
        r->status = error_set(r->error, ST_UNIMPLEMENTED,
                              "values of %u dimensions beside keys of %u are "
                              "not supported",
                              v, r->arch.head_dim);
    }
}

/* ---- rotary positions ---- */

static void scaling(struct reader *r, const char *type, double factor)
{
    json_t *o = json_pack("{s:s, s:f}", "rope_type", type, "factor", factor);
    uint32_t original =
        number_of(r, "rope.scaling.original_context_length", UINT32_MAX, 0);

    put(r, "rope_scaling", o);
    if (original > 0) {
        json_object_set_new(o, "original_max_position_embeddings",
                            json_integer(original));
    }
    copy_real(r, "rope.scaling.yarn_beta_fast", o, "beta_fast");
    copy_real(r, "rope.scaling.yarn_beta_slow", o, "beta_slow");
    /* The file does not have this field of gpt-oss. */
    if (r->arch.family == GGUF_GPT_OSS) {
        json_object_set_new(o, "truncate", json_false());
    }
}

static void named_scaling(struct reader *r)
{
    /* llama.cpp's defaults: a factor alone is linear, and 0 is none. */
    const char *text = "linear";
    size_t n = strlen(text);
    double factor =
        real_of(r, "rope.scaling.factor", real_of(r, "rope.scale_linear", 0));

    if (r->status == ST_OK) {
        r->status =
            gguf_arch_text(&r->arch, "rope.scaling.type", &text, &n, r->error);
    }
    if (n == 4 && memcmp(text, "none", 4) == 0) {
        return;
    }
    if (n == 6 && memcmp(text, "linear", 6) == 0) {
        if (factor != 0 && factor != 1) {
            scaling(r, "linear", factor);
        }
    } else if (n == 4 && memcmp(text, "yarn", 4) == 0) {
        scaling(r, "yarn", factor);
    } else if (r->status == ST_OK) {
        r->status = error_set(r->error, ST_UNIMPLEMENTED,
                              "rope.scaling.type %s is not supported; none, "
                              "linear and yarn are",
                              quote_bytes(text, n).text);
    }
}

/* Divisor of frequency i of n, as llama.cpp's conversion writes it. */
static double llama3_divisor(uint32_t i, uint32_t n, double theta,
                             double factor)
{
    double wavelength = 2 * 3.14159265358979323846 * pow(theta, (double)i / n);
    double smooth = LLAMA3_ORIGINAL / wavelength;

    smooth = (smooth - LLAMA3_LOW) / (LLAMA3_HIGH - LLAMA3_LOW);
    smooth = smooth < 0 ? 0 : smooth > 1 ? 1 : smooth;
    return 1 / ((1 - smooth) / factor + smooth);
}

static enum status read_floats(const struct reader *r,
                               const struct gguf_tensor *t, uint32_t part,
                               float *out)
{
    const struct gguf_files *f = &r->model->files;
    uint64_t bytes;
    int fd;
    enum status st =
        document_open(&fd, &bytes, f->dir, f->names[part], r->error);

    if (st == ST_OK) {
        st = document_pread(fd, out, (size_t)t->bytes,
                            r->model->parts[part].data + t->offset, r->error);
        close(fd);
    }
    return st;
}

/* Only the divisors are stored, so they are compared with those of the known
 * parameters; the largest one is the factor. */
static void llama3_scaling(struct reader *r)
{
    uint32_t part = 0, n = r->arch.head_dim / 2;
    const struct gguf_tensor *t =
        gguf_model_tensor(r->model, "rope_freqs.weight", &part);
    float divisors[MODEL_HEAD_DIM_MAX / 2];
    double theta = real_of(r, "rope.freq_base", 10000), factor = 1;
    bool same = true;

    if (t == NULL || r->status != ST_OK) {
        return;
    }
    if (t->type != GGUF_F32 || t->rank != 1 || t->dims[0] != n) {
        r->status = error_set(r->error, ST_INVALID_ARGUMENT,
                              "tensor \"rope_freqs.weight\" is no list of %u "
                              "float32 numbers",
                              n);
        return;
    }
    r->status = read_floats(r, t, part, divisors);
    for (uint32_t i = 0; r->status == ST_OK && i < n; i++) {
        factor = fmax(factor, (double)divisors[i]);
    }
    for (uint32_t i = 0; r->status == ST_OK && i < n; i++) {
        double want = llama3_divisor(i, n, theta, factor);

        same = same && fabs((double)divisors[i] - want) <= 1e-4 * want;
    }
    if (r->status == ST_OK && !same) {
        r->status =
            error_set(r->error, ST_UNIMPLEMENTED,
                      "the divisors of \"rope_freqs.weight\" are not those of "
                      "llama3 scaling with low_freq_factor 1, "
                      "high_freq_factor 4 and 8192 original positions, which "
                      "are supported");
    }
    if (factor > 1) {
        scaling(r, "llama3", factor);
        json_object_set_new(json_object_get(r->doc, "rope_scaling"),
                            "original_max_position_embeddings",
                            json_integer(LLAMA3_ORIGINAL));
    }
}

static void rope(struct reader *r)
{
    uint32_t dim = r->arch.head_dim;

    real(r, "rope.freq_base", "rope_theta");
    if (r->status == ST_OK) {
        r->status = gguf_arch_number(&r->arch, "rope.dimension_count", 2,
                                     r->arch.head_dim, &dim, r->error);
    }
    if (dim < r->arch.head_dim) {
        /* The quarter survives a division that rounds down. */
        put(r, "partial_rotary_factor",
            json_real((dim + 0.25) / r->arch.head_dim));
    }
    named_scaling(r);
    llama3_scaling(r);
}

/* ---- windows ---- */

/* Puts layer_types from a flag for each layer: `yes` names the layers whose
 * flag is set. */
static void layer_types(struct reader *r, const struct gguf_value *v,
                        const char *yes)
{
    json_t *types = json_array();
    int64_t set;

    for (uint32_t i = 0; i < r->arch.n_layers; i++) {
        if (r->status == ST_OK && !gguf_whole(v, i, &set)) {
            r->status = error_set(r->error, ST_INVALID_ARGUMENT,
                                  "%s is no list of %u flags, one for each "
                                  "layer",
                                  v->key, r->arch.n_layers);
        }
        json_array_append_new(types, json_string(r->status == ST_OK && set != 0
                                                     ? yes
                                                     : "full_attention"));
    }
    put(r, "layer_types", types);
}

/* The pattern is a number, or a bool for each layer. */
static void windows(struct reader *r)
{
    static const char pattern[] = "attention.sliding_window_pattern";
    const struct gguf_value *v = gguf_arch_find(&r->arch, pattern);

    if (r->arch.family != GGUF_GPT_OSS && r->arch.family != GGUF_GEMMA3) {
        return;
    }
    number(r, "attention.sliding_window", "sliding_window");
    real(r, "rope.freq_base_swa", "rope_local_base_freq");
    if (v == NULL || !v->array) {
        number(r, pattern, "sliding_window_pattern");
        return;
    }
    layer_types(r, v, "sliding_attention");
}

/* ---- experts ---- */

static void refuse_routing(struct reader *r)
{
    uint32_t n = number_of(r, "expert_gating_func", UINT32_MAX, 0);
    double scale = real_of(r, "expert_weights_scale", 1);

    if (r->status != ST_OK) {
        return;
    }
    if (n > GATING_SOFTMAX) {
        r->status =
            error_set(r->error, ST_UNIMPLEMENTED,
                      "routing by %s (%s.expert_gating_func is %u) is "
                      "not supported; softmax is",
                      n == GATING_SIGMOID ? "sigmoids" : "another function",
                      r->arch.name, n);
    } else if (scale != 1 && scale != 0) {
        r->status = error_set(r->error, ST_UNIMPLEMENTED,
                              "a factor of the experts' sum "
                              "(%s.expert_weights_scale is %g) is not "
                              "supported",
                              r->arch.name, scale);
    }
}

/* Dense layers between layers of experts. */
static void dense_layers(struct reader *r)
{
    json_t *list = json_array();
    char name[GGUF_NAME_MAX];

    for (uint32_t i = 0; i < r->arch.n_layers; i++) {
        snprintf(name, sizeof name, "blk.%u.ffn_gate.weight", i);
        if (has_tensor(r, name)) {
            json_array_append_new(list, json_integer(i));
        }
    }
    put(r, "mlp_only_layers", list);
}

static void experts(struct reader *r)
{
    uint32_t normed = number_of(r, "expert_weights_norm", 1, 1);

    number(r, "expert_count", "num_experts");
    if (json_integer_value(json_object_get(r->doc, "num_experts")) == 0) {
        return;
    }
    refuse_routing(r);
    number(r, "expert_used_count", "num_experts_per_tok");
    number(r, "expert_feed_forward_length",
           r->arch.family == GGUF_GPT_OSS ? "intermediate_size"
                                          : "moe_intermediate_size");
    number(r, "expert_shared_feed_forward_length",
           "shared_expert_intermediate_size");
    put(r, "norm_topk_prob", json_boolean(normed != 0));
    dense_layers(r);
}

/* ---- hybrids, Gemma ---- */

static void linear(struct reader *r)
{
    const struct gguf_arch *a = &r->arch;
    const struct gguf_value *recurrent =
        gguf_arch_find(a, "attention.recurrent_layers");

    if (a->hybrid) {
        put(r, "linear_num_key_heads", json_integer(a->k_heads));
        put(r, "linear_num_value_heads", json_integer(a->v_heads));
        put(r, "linear_key_head_dim", json_integer(a->k_dim));
        put(r, "linear_value_head_dim", json_integer(a->v_dim));
        put(r, "linear_conv_kernel_dim", json_integer(a->conv));
        number(r, "full_attention_interval", "full_attention_interval");
    }
    if (a->hybrid && recurrent != NULL) {
        layer_types(r, recurrent, "linear_attention");
    }
}

static void gemma(struct reader *r)
{
    const struct gguf_arch *a = &r->arch;
    double scalar = a->n_layers == GEMMA_27B_LAYERS
                        ? (double)a->hidden / a->n_heads
                        : (double)a->head_dim;
    double scale = real_of(r, "attention.scale", 0);

    if (a->family != GGUF_GEMMA3) {
        return;
    }
    if (scale > 0) {
        scalar = 1 / (scale * scale);
    }
    put(r, "query_pre_attn_scalar", json_real(scalar));
    real(r, "attn_logit_softcapping", "attn_logit_softcapping");
    real(r, "final_logit_softcapping", "final_logit_softcapping");
}

/* ---- tokens ---- */

static void tokens(struct reader *r)
{
    const struct gguf *g = &r->model->parts[0];
    uint32_t ids[MODEL_EOS_MAX], n = 0;
    json_t *list = json_array();
    int64_t bos = -1;

    if (r->status == ST_OK) {
        r->status = gguf_end_tokens(g, ids, &n, r->error);
    }
    if (r->status == ST_OK) {
        r->status =
            gguf_get_whole(g, "tokenizer.ggml.bos_token_id", &bos, r->error);
    }
    for (uint32_t i = 0; i < n; i++) {
        json_array_append_new(list, json_integer(ids[i]));
    }
    put(r, "eos_token_id", list);
    if (bos >= 0) {
        put(r, "bos_token_id", json_integer(bos));
    }
}

/* ---- the whole ---- */

static enum status parse(struct reader *r, struct model_config *c)
{
    char *text;

    if (r->status != ST_OK) {
        return r->status;
    }
    text = json_dumps(r->doc, JSON_COMPACT);
    if (text == NULL) {
        return error_set(r->error, ST_RESOURCE_EXHAUSTED,
                         "no memory for a configuration");
    }
    r->status = config_parse(c, text, strlen(text), r->error);
    free(text);
    return r->status;
}

/* Sets the form that most bytes of matrices have. */
static void set_format(struct model_config *c, const struct gguf_model *m)
{
    uint64_t bytes[WEIGHT_FORMATS] = {0};
    struct tensor shapes[WEIGHT_FORMATS] = {{.format = WEIGHT_PLAIN}};
    enum weight_format most = WEIGHT_PLAIN;

    for (uint32_t p = 0; p < m->files.n; p++) {
        for (uint32_t i = 0; i < m->parts[p].n_tensors; i++) {
            const struct gguf_tensor *t = &m->parts[p].tensors[i];
            const struct gguf_form form = {.type = t->type};
            struct tensor shape = {.format = WEIGHT_PLAIN};

            if (t->rank > 1 && gguf_repack_shape(&shape, &form)) {
                bytes[shape.format] += t->bytes;
                shapes[shape.format] = shape;
            }
        }
    }
    for (int i = 0; i < WEIGHT_FORMATS; i++) {
        most = bytes[i] > bytes[most] ? (enum weight_format)i : most;
    }
    c->quant = (struct quantisation){
        .format = most, .bits = shapes[most].bits, .group = shapes[most].group};
}

enum status gguf_config(struct model_config *c, const struct gguf_model *m,
                        struct error *e)
{
    struct error ignored;
    struct reader r = {.model = m, .error = e != NULL ? e : &ignored};

    memset(c, 0, sizeof *c);
    r.status = gguf_arch_read(&r.arch, &m->parts[0], r.error);
    if (r.status != ST_OK) {
        return r.status;
    }
    r.doc = json_object();
    r.status = gguf_keys_check(&r.arch, r.error);
    sizes(&r);
    embedding(&r);
    heads(&r);
    rope(&r);
    windows(&r);
    experts(&r);
    linear(&r);
    gemma(&r);
    tokens(&r);
    if (parse(&r, c) == ST_OK) {
        c->norms = NORM_GAMMA;
        c->linear = LINEAR_SPLIT;
        c->o_bias = any_layer_has(&r, "attn_output.bias");
        set_format(c, m);
    }
    json_decref(r.doc);
    return r.status;
}
