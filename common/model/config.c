#include "common/model/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/quote.h"
#include "common/base/utf8.h"
#include "common/model/directory.h"
#include "common/model/document.h"
#include "common/model/family.h"
#include "common/model/gguf_config.h"
#include "common/model/gguf_model.h"
#include "common/model/layer_kinds.h"
#include "common/model/quantisation.h"
#include "common/model/rope.h"
#include "common/model/weight_format.h"

#define GENERATION "generation_config.json"
#define MODELOPT   "hf_quant_config.json"

static bool is_silu(const char *name)
{
    return strcmp(name, "silu") == 0 || strcmp(name, "swish") == 0;
}

static void refuse_activation(struct fields *f, const char *key)
{
    const char *v = field_text(f, key);

    if (v != NULL && !is_silu(v)) {
        field_fault(f, ST_UNIMPLEMENTED,
                    "%s %s is not supported; silu (swish) is", key,
                    quote(v).text);
    }
}

/* The other parameters of gpt_oss's activation are not in any file. */
static void parse_activation(struct model_shape *s, struct fields *f,
                             const struct family *family)
{
    const char *key = field_named(f, "hidden_activation", "hidden_act");
    const char *v = family->gemma ? field_text(f, key) : NULL;

    refuse_activation(f, "output_gate_type");
    if (!family->gemma) {
        refuse_activation(f, "hidden_act");
    } else if (v != NULL && strcmp(v, "gelu_pytorch_tanh") != 0) {
        field_fault(f, ST_UNIMPLEMENTED,
                    "%s %s is not supported in a %s model; gelu_pytorch_tanh "
                    "is",
                    key, quote(v).text, family->type);
    }
    s->activation.kind = family->gemma ? ACTIVATION_GELU : ACTIVATION_SILU;
    if (family->gpt_oss) {
        s->activation.kind = ACTIVATION_CLAMPED;
        s->activation.alpha = 1.702f;
        s->activation.limit = (float)field_real(f, "swiglu_limit", 7,
                                                MODEL_CAP_MIN, MODEL_CAP_MAX);
    }
}

static void refuse_unsupported(struct fields *f)
{
    family_refuse_foreign(f);
    if (field_bool(f, "mlp_bias", false)) {
        field_fault(f, ST_UNIMPLEMENTED,
                    "mlp_bias is not supported; an MLP without bias is");
    }
}

/* torch_dtype is the older name; some files write "torch.bfloat16". */
static enum dtype parse_dtype(struct fields *f)
{
    static const char *const names[] = {
        [DTYPE_F32] = "float32",
        [DTYPE_BF16] = "bfloat16",
        [DTYPE_F16] = "float16",
    };
    const char *v = field_text(f, field_named(f, "dtype", "torch_dtype"));

    if (v == NULL) {
        return DTYPE_BF16;
    }
    if (strncmp(v, "torch.", 6) == 0) {
        v += 6;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(v, names[i]) == 0) {
            return (enum dtype)i;
        }
    }
    field_fault(f, ST_UNIMPLEMENTED,
                "dtype %s is not supported; float32, bfloat16 and float16 are",
                quote(v).text);
    return DTYPE_BF16;
}

/* A null is no cap, and an absent key is the family's. */
static float parse_cap(struct fields *f, const char *key, double fallback)
{
    return (float)field_real(f, key, field_has(f, key) ? 0 : fallback,
                             MODEL_CAP_MIN, MODEL_CAP_MAX);
}

/* The reference scales q by query_pre_attn_scalar^-0.5, and its embeddings by
 * a root that is rounded to their dtype; here they are float32. */
static void parse_gemma(struct model_config *c, struct fields *f,
                        const struct family_layers *l)
{
    struct model_shape *s = &c->shape;
    double scalar = field_real(f, "query_pre_attn_scalar", 256, MODEL_CAP_MIN,
                               MODEL_CAP_MAX);

    s->attn_scale = (float)(1 / sqrt(scalar));
    s->attn_cap = parse_cap(f, "attn_logit_softcapping", l->score_cap);
    s->stream.cap = parse_cap(f, "final_logit_softcapping", l->logit_cap);
    s->stream.embed = (float)sqrt(s->hidden);
    c->output_norms = true;
}

/* Returns a factor, or 0 for 1, which needs no operation. */
static float parse_factor(struct fields *f, const char *key)
{
    float x = (float)field_real(f, key, 1, MODEL_CAP_MIN, MODEL_CAP_MAX);

    return x == 1.0f ? 0.0f : x;
}

/* logits_scaling is a divisor.  The factor of scores replaces 1 / sqrt(hd). */
static void parse_multipliers(struct model_shape *s, struct fields *f)
{
    float divisor = parse_factor(f, "logits_scaling");

    s->stream.embed = parse_factor(f, "embedding_multiplier");
    s->stream.residual = parse_factor(f, "residual_multiplier");
    s->stream.logits = divisor > 0 ? 1 / divisor : 0;
    s->attn_scale = (float)field_real(f, "attention_multiplier", 1,
                                      MODEL_CAP_MIN, MODEL_CAP_MAX);
}

static void add_eos(struct model_config *c, struct fields *f, const json_t *v)
{
    json_int_t id = json_integer_value(v);

    if (!json_is_integer(v) || id < 0 || id >= (json_int_t)c->shape.vocab) {
        field_fault(f, ST_INVALID_ARGUMENT,
                    "eos_token_id is no token of a vocabulary of %u",
                    c->shape.vocab);
        return;
    }
    for (uint32_t i = 0; i < c->n_eos; i++) {
        if (c->eos[i] == (uint32_t)id) {
            return;
        }
    }
    if (c->n_eos == MODEL_EOS_MAX) {
        field_fault(f, ST_INVALID_ARGUMENT,
                    "more than %d end-of-sequence tokens", MODEL_EOS_MAX);
        return;
    }
    c->eos[c->n_eos++] = (uint32_t)id;
}

/* Reads one id, a list of ids, or nothing. */
static void parse_eos(struct model_config *c, struct fields *f,
                      const json_t *object)
{
    const json_t *v = json_object_get(object, "eos_token_id");

    if (v == NULL || json_is_null(v)) {
        return;
    }
    if (!json_is_array(v)) {
        add_eos(c, f, v);
        return;
    }
    for (size_t i = 0; i < json_array_size(v); i++) {
        add_eos(c, f, json_array_get(v, i));
    }
}

/* The inner object first, as its ids describe the text model. */
static void parse_tokens(struct model_config *c, struct fields *f)
{
    parse_eos(c, f, f->inner);
    if (f->outer != f->inner) {
        parse_eos(c, f, f->outer);
    }
    if (field_get(f, "bos_token_id") != NULL) {
        c->has_bos = true;
        c->bos = field_u32(f, "bos_token_id", 0, 0, c->shape.vocab - 1);
    }
}

static void parse_sizes(struct model_shape *s, struct fields *f,
                        const struct family *family)
{
    s->n_layers =
        field_u32(f, "num_hidden_layers", FIELD_REQUIRED, 1, MODEL_LAYERS_MAX);
    s->hidden =
        field_u32(f, "hidden_size", FIELD_REQUIRED, 1, MODEL_HIDDEN_MAX);
    s->vocab = field_u32(f, "vocab_size",
                         family->vocab > 0 ? family->vocab : FIELD_REQUIRED, 1,
                         MODEL_VOCAB_MAX);
    s->context = field_u32(f, "max_position_embeddings", family->context, 1,
                           MODEL_CONTEXT_MAX);
    s->norm_eps =
        (float)field_real(f, "rms_norm_eps", family->eps, 1e-30, MODEL_EPS_MAX);
    s->dtype = parse_dtype(f);
}

/* Whether their weights are there is not known yet: mtp.h. */
static uint32_t parse_mtp(struct fields *f)
{
    return field_u32(
        f, field_named(f, "mtp_num_hidden_layers", "num_nextn_predict_layers"),
        0, 0, MODEL_MTP_MAX);
}

static void parse_mixers(struct model_config *c, struct fields *f,
                         const struct family *family)
{
    layer_kinds_mixers(c, f, family);
    layer_kinds_sizes(c, f, family);
}

static void parse_model(struct model_config *c, struct fields *f)
{
    const struct family *family;

    /* The family first: another one may have any of the features below, and
     * those are not why its models are refused. */
    family = family_find(f);
    if (family == NULL) {
        return;
    }
    family_check_architecture(f);
    refuse_unsupported(f);
    snprintf(c->family, sizeof c->family, "%s", family->type);
    c->norms = family->norms;
    c->linear = family->linear;
    c->bare_inputs = c->output_norms = family->layers.bare_inputs;
    c->tied = field_bool(f, "tie_word_embeddings", family->layers.tied);
    c->n_mtp = parse_mtp(f);
    quantisation_parse(&c->quant, f);
    parse_sizes(&c->shape, f, family);
    parse_activation(&c->shape, f, family);
    if (f->status == ST_OK) {
        parse_mixers(c, f, family);
    }
    if (f->status == ST_OK) {
        layer_kinds_ffns(c, f, family);
    }
    if (c->quant.experts_only && c->shape.n_experts == 0) {
        field_fault(f, ST_UNIMPLEMENTED,
                    "%s weights in a model without experts are not supported",
                    weight_format_name(c->quant.format));
    }
    if (f->status == ST_OK && family->gemma) {
        parse_gemma(c, f, &family->layers);
    }
    if (f->status == ST_OK && family->layers.multipliers) {
        parse_multipliers(&c->shape, f);
    }
    parse_tokens(c, f);
}

enum status config_parse(struct model_config *c, const char *json, size_t len,
                         struct error *e)
{
    struct fields f = {.error = e, .status = ST_OK};
    const json_t *inner;
    json_t *doc;
    enum status st;

    memset(c, 0, sizeof *c);
    if (len > CONFIG_BYTES_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%zu bytes long, at most %d are allowed", len,
                         CONFIG_BYTES_MAX);
    }
    st = document_parse_python(&doc, json, len, e);
    if (st != ST_OK) {
        return st;
    }
    /* Multimodal models keep the text model's keys in text_config. */
    inner = json_object_get(doc, "text_config");
    f.outer = doc;
    f.inner = inner == NULL || json_is_null(inner) ? doc : inner;
    if (!json_is_object(f.inner)) {
        field_fault(&f, ST_INVALID_ARGUMENT, "text_config is not an object");
    } else {
        parse_model(c, &f);
    }
    json_decref(doc);
    return f.status;
}

enum status config_add_generation(struct model_config *c, const char *json,
                                  size_t len, struct error *e)
{
    struct fields f = {.error = e, .status = ST_OK};
    json_t *doc;
    enum status st = document_parse_python(&doc, json, len, e);

    if (st != ST_OK) {
        return st;
    }
    parse_eos(c, &f, doc);
    json_decref(doc);
    return f.status;
}

enum status config_check_modelopt(const char *json, size_t len, struct error *e)
{
    struct fields f = {.error = e, .status = ST_OK};
    json_t *doc;
    enum status st = document_parse_python(&doc, json, len, e);

    if (st != ST_OK) {
        return st;
    }
    f.inner = f.outer = doc;
    quantisation_refuse_modelopt(&f);
    json_decref(doc);
    return f.status;
}

enum status config_set_name(struct model_config *c, const char *name,
                            struct error *e)
{
    size_t n = strlen(name);

    if (n == 0 || n > MODEL_NAME_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "a model's name of %zu bytes, 1 to %d are allowed", n,
                         MODEL_NAME_MAX);
    }
    if (!utf8_valid(name, n, NULL)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the model's name %s is not UTF-8", quote(name).text);
    }
    memcpy(c->name, name, n + 1);
    return ST_OK;
}

/* Sets the name to the last part of dir's real path, so that "." has a name.  A
 * GGUF file may be a link to a name without meaning, and keeps its own. */
static enum status name_after(struct model_config *c, const char *dir,
                              struct error *e)
{
    bool is_file = gguf_files_name(dir, strlen(dir)) < strlen(dir) &&
                   gguf_files_exist(dir);
    char *path = is_file ? strdup(dir) : realpath(dir, NULL);
    char *base = path == NULL ? NULL : strrchr(path, '/');
    enum status st;

    base = base == NULL ? path : base + 1;
    if (base == NULL || base[0] == '\0') {
        st = error_set(e, ST_INVALID_ARGUMENT, "the directory has no name");
    } else {
        base[gguf_files_name(base, strlen(base))] = '\0';
        st = config_set_name(c, base, e);
    }
    free(path);
    return st;
}

/* A base model has no generation defaults, and few models a file of NVIDIA's
 * modelopt. */
static enum status load_optional(struct model_config *c, const char *dir,
                                 const char *name, struct error *e)
{
    bool generation = strcmp(name, GENERATION) == 0;
    char *text;
    size_t len;
    enum status st = document_read(&text, &len, dir, name, CONFIG_BYTES_MAX, e);

    if (st == ST_NOT_FOUND) {
        return ST_OK;
    }
    if (st == ST_OK) {
        st = generation ? config_add_generation(c, text, len, e)
                        : config_check_modelopt(text, len, e);
        free(text);
    }
    return st == ST_OK ? st : error_wrap(e, "%s", name);
}

/* Embedding models and rerankers may name the same architecture as the chat
 * model that they were made from; the library that runs them adds these files.
 */
static enum status refuse_embedding(const char *dir, struct error *e)
{
    static const char *const names[] = {"config_sentence_transformers.json",
                                        "modules.json"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (directory_has(dir, names[i])) {
            return error_set(e, ST_UNIMPLEMENTED,
                             "%s: this is an embedding model or a reranker; "
                             "models that generate text are supported",
                             names[i]);
        }
    }
    return ST_OK;
}

/* Reads the configuration in GGUF files, if dir names such a model. */
static enum status load_gguf(struct model_config *c, const char *dir,
                             bool *found, struct error *e)
{
    struct gguf_model m;
    enum status st = gguf_model_open(&m, dir, found, e);

    if (st == ST_OK && *found) {
        st = gguf_config(c, &m, e);
        if (st != ST_OK) {
            st = error_wrap(e, "%s", quote(m.files.names[0]).text);
        }
    }
    gguf_model_fini(&m);
    return st;
}

enum status config_load(struct model_config *c, const char *dir,
                        struct error *e)
{
    struct error ignored;
    const char *name = "config.json";
    char *text;
    size_t len;
    bool gguf = false;
    enum status st;

    e = e != NULL ? e : &ignored;
    memset(c, 0, sizeof *c);
    st = directory_check(dir, DIRECTORY_CONFIG, e);
    st = st == ST_OK ? load_gguf(c, dir, &gguf, e) : st;
    if (st != ST_OK || gguf) {
        return st != ST_OK ? st : name_after(c, dir, e);
    }
    st = document_read(&text, &len, dir, name, CONFIG_BYTES_MAX, e);
    if (st == ST_OK) {
        st = config_parse(c, text, len, e);
        free(text);
    }
    if (st != ST_OK) {
        return error_wrap(e, "%s", name);
    }
    st = refuse_embedding(dir, e);
    st = st == ST_OK ? load_optional(c, dir, MODELOPT, e) : st;
    st = st == ST_OK ? load_optional(c, dir, GENERATION, e) : st;
    return st != ST_OK ? st : name_after(c, dir, e);
}
