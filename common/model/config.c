#include "common/model/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/quote.h"
#include "common/base/utf8.h"
#include "common/model/directory.h"
#include "common/model/document.h"
#include "common/model/field.h"
#include "common/model/rope.h"

#define FAMILIES "qwen3_5, qwen3_next, llama, mistral, qwen2 and qwen3"

/* Defaults are those of the family's reference implementation. */
struct family {
    const char *type;         /* model_type */
    const char *architecture; /* used if model_type is absent */
    bool hybrid;   /* Gated DeltaNet layers between attention layers */
    bool qkv_bias; /* always present, whatever attention_bias is */
    bool qk_norm;
    enum norm_storage norms;
    enum linear_storage linear;
    uint32_t head_dim; /* 0: hidden / heads */
    double partial;    /* rotated part of a head */
    uint32_t context;
    bool windowed; /* sliding_window applies even without use_sliding_window */
};

static const struct family families[] = {
    {"qwen3_5_text", "Qwen3_5ForCausalLM", true, false, true,
     NORM_GAMMA_MINUS_1, LINEAR_SPLIT, 256, 0.25, 32768, false},
    {"qwen3_5", "Qwen3_5ForConditionalGeneration", true, false, true,
     NORM_GAMMA_MINUS_1, LINEAR_SPLIT, 256, 0.25, 32768, false},
    {"qwen3_next", "Qwen3NextForCausalLM", true, false, true,
     NORM_GAMMA_MINUS_1, LINEAR_GROUPED, 256, 0.25, 32768, false},
    {"llama", "LlamaForCausalLM", false, false, false, NORM_GAMMA, LINEAR_SPLIT,
     0, 1, 2048, true},
    {"mistral", "MistralForCausalLM", false, false, false, NORM_GAMMA,
     LINEAR_SPLIT, 0, 1, 131072, true},
    {"qwen2", "Qwen2ForCausalLM", false, true, false, NORM_GAMMA, LINEAR_SPLIT,
     0, 1, 32768, false},
    {"qwen3", "Qwen3ForCausalLM", false, false, true, NORM_GAMMA, LINEAR_SPLIT,
     128, 1, 32768, false},
};

/* model_type decides; the architecture counts only without one.  A derived
 * model often keeps its parent's architecture name. */
static const struct family *family_of(struct fields *f)
{
    const char *type = field_text(f, "model_type");
    const char *architecture =
        json_string_value(json_array_get(field_get(f, "architectures"), 0));

    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        const char *want = type, *have = families[i].type;

        if (want == NULL) {
            want = architecture;
            have = families[i].architecture;
        }
        if (want != NULL && strcmp(want, have) == 0) {
            return &families[i];
        }
    }
    field_fault(f, ST_UNIMPLEMENTED,
                "models of type %s are not supported; " FAMILIES " (dense) are",
                quote(type != NULL ? type : architecture).text);
    return NULL;
}

/* A dense model may have these keys with the value 0. */
static void refuse_experts(struct fields *f)
{
    static const char *const keys[] = {"num_experts", "num_local_experts",
                                       "n_routed_experts"};

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const json_t *v = field_get(f, keys[i]);

        if (v != NULL && json_integer_value(v) != 0) {
            field_fault(f, ST_UNIMPLEMENTED,
                        "a mixture of experts (%s is %lld) is not supported; "
                        "dense models are",
                        keys[i], (long long)json_integer_value(v));
        }
    }
}

/* A window is refused even where the context is shorter: the model would
 * otherwise compute a different function than its reference. */
static void refuse_window(struct fields *f, const struct family *family)
{
    const json_t *v = field_get(f, "sliding_window");

    if (v != NULL && field_bool(f, "use_sliding_window", family->windowed)) {
        field_fault(f, ST_UNIMPLEMENTED,
                    "a sliding window (of %lld) is not supported; full "
                    "attention is",
                    (long long)json_integer_value(v));
    }
}

#define SUPPORTED "groups of 32, 64 or 128 at 4 or 8 bits, as MLX writes them"

/* Reads a number of a quantisation: a power of two in [min, max]; fallback if
 * absent. */
static uint32_t quant_number(struct fields *f, const json_t *o,
                             const char *where, const char *key,
                             uint32_t fallback, json_int_t min, json_int_t max)
{
    const json_t *v = json_object_get(o, key);
    json_int_t n = json_integer_value(v);

    if (v == NULL && fallback > 0) {
        return fallback;
    }
    if (!json_is_integer(v) || n < min || n > max || (n & (n - 1)) != 0) {
        field_fault(f, ST_UNIMPLEMENTED,
                    "%s of %s is %lld, which is not supported; " SUPPORTED
                    " are",
                    key, quote(where).text, (long long)n);
        return fallback;
    }
    return (uint32_t)n;
}

/* Reads one quantisation object, of all modules or of one. */
static struct quantisation affine(struct fields *f, const json_t *o,
                                  const char *where,
                                  const struct quantisation *all)
{
    const char *method = json_string_value(json_object_get(o, "quant_method"));
    const json_t *mode = json_object_get(o, "mode");
    struct quantisation q;

    if (method != NULL) {
        field_fault(f, ST_UNIMPLEMENTED,
                    "weights quantised by %s (%s) are not supported; " SUPPORTED
                    " are",
                    quote(method).text, quote(where).text);
    } else if (mode != NULL && !json_is_null(mode) &&
               (!json_is_string(mode) ||
                strcmp(json_string_value(mode), "affine") != 0)) {
        field_fault(f, ST_UNIMPLEMENTED,
                    "mode %s of %s is not supported; affine is",
                    quote(json_string_value(mode)).text, quote(where).text);
    }
    q.format = WEIGHT_AFFINE;
    q.bits = quant_number(f, o, where, "bits", all->bits, 4, 8);
    q.group = quant_number(f, o, where, "group_size", all->group,
                           MODEL_GROUP_MIN, MODEL_GROUP_MAX);
    return q;
}

static struct quantisation parse_quant(struct fields *f, const char *key)
{
    const struct quantisation none = {0};
    const json_t *o = field_get(f, key);
    struct quantisation q;
    const char *module;
    json_t *v;

    if (o == NULL) {
        return none;
    }
    q = affine(f, o, key, &none);
    /* Per-module objects are checked here, so that an unsupported one is
     * refused before any weight is read. */
    json_object_foreach((json_t *)(uintptr_t)o, module, v)
    {
        if (json_is_object(v)) {
            (void)affine(f, v, module, &q);
        }
    }
    return q;
}

/* MLX writes the same object under both names. */
static void parse_quantised(struct model_config *c, struct fields *f)
{
    struct quantisation old = parse_quant(f, "quantization_config");

    c->quant = parse_quant(f, "quantization");
    if (c->quant.bits == 0) {
        c->quant = old;
    }
    if (old.bits > 0 &&
        (old.bits != c->quant.bits || old.group != c->quant.group)) {
        field_fault(f, ST_INVALID_ARGUMENT,
                    "quantization has %u bits in groups of %u, "
                    "quantization_config has %u in groups of %u",
                    c->quant.bits, c->quant.group, old.bits, old.group);
    }
    if (field_get(f, "compression_config") != NULL) {
        field_fault(f, ST_UNIMPLEMENTED,
                    "quantised weights (compression_config) are not "
                    "supported; " SUPPORTED " are");
    }
}

static void refuse_activation(struct fields *f, const char *key)
{
    const char *v = field_text(f, key);

    if (v != NULL && strcmp(v, "silu") != 0 && strcmp(v, "swish") != 0) {
        field_fault(f, ST_UNIMPLEMENTED,
                    "%s %s is not supported; silu (swish) is", key,
                    quote(v).text);
    }
}

static void refuse_unsupported(struct fields *f, const struct family *family)
{
    refuse_experts(f);
    refuse_window(f, family);
    refuse_activation(f, "hidden_act");
    refuse_activation(f, "output_gate_type");
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

/* An explicit list takes precedence over full_attention_interval. */
static void listed_mixers(struct model_config *c, struct fields *f,
                          const json_t *types)
{
    uint32_t n = c->shape.n_layers;

    if (json_array_size(types) != n) {
        field_fault(f, ST_INVALID_ARGUMENT,
                    "layer_types is not a list of num_hidden_layers (%u) "
                    "names",
                    n);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        const char *t = json_string_value(json_array_get(types, i));

        if (t != NULL && strcmp(t, "full_attention") == 0) {
            c->mixers[i] = MIXER_ATTENTION;
        } else if (t != NULL && strcmp(t, "linear_attention") == 0) {
            c->mixers[i] = MIXER_DELTANET;
        } else {
            field_fault(f, ST_UNIMPLEMENTED,
                        "layer %u is %s, which is not supported; "
                        "full_attention and linear_attention are",
                        i, quote(t).text);
            return;
        }
    }
}

/* Without a list, every full_attention_interval-th layer is attention, as in
 * the reference. */
static void parse_mixers(struct model_config *c, struct fields *f,
                         const struct family *family)
{
    const json_t *types = field_get(f, "layer_types");
    uint32_t every = 1;

    if (family->hybrid) {
        every = field_u32(f, "full_attention_interval", 4, 1, MODEL_LAYERS_MAX);
    }
    if (types != NULL) {
        listed_mixers(c, f, types);
    } else {
        for (uint32_t i = 0; i < c->shape.n_layers; i++) {
            c->mixers[i] =
                (i + 1) % every == 0 ? MIXER_ATTENTION : MIXER_DELTANET;
        }
    }
    /* Only the hybrid families have the parameters of a Gated DeltaNet. */
    if (!family->hybrid &&
        config_count(c, MIXER_DELTANET, 0, c->shape.n_layers) > 0) {
        field_fault(f, ST_UNIMPLEMENTED,
                    "linear_attention layers in a %s model are not supported; "
                    "in qwen3_5 and qwen3_next they are",
                    family->type);
    }
}

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

static void parse_attention(struct model_config *c, struct fields *f,
                            const struct family *family)
{
    struct model_shape *s = &c->shape;
    bool bias = field_bool(f, "attention_bias", false);

    s->n_heads =
        field_u32(f, "num_attention_heads", FIELD_REQUIRED, 1, MODEL_HEADS_MAX);
    s->n_kv_heads =
        field_u32(f, "num_key_value_heads", s->n_heads, 1, MODEL_HEADS_MAX);
    if (s->n_heads % s->n_kv_heads != 0) {
        field_fault(f, ST_INVALID_ARGUMENT,
                    "num_attention_heads %u is no multiple of "
                    "num_key_value_heads %u",
                    s->n_heads, s->n_kv_heads);
    }
    s->head_dim = derived_head_dim(f, family, s->hidden, s->n_heads);
    s->attn_gated = family->hybrid && field_bool(f, "attn_output_gate", true);
    c->qkv_bias = bias || family->qkv_bias;
    /* qwen2 has biases on q, k and v alone, whatever attention_bias is. */
    c->o_bias = bias && !family->qkv_bias;
    c->qk_norm = family->qk_norm;
    rope_parse(&s->rope, f, s->head_dim, family->partial, s->context);
}

static void parse_linear(struct model_config *c, struct fields *f)
{
    struct model_shape *s = &c->shape;

    s->n_k_heads = field_u32(f, "linear_num_key_heads", FIELD_REQUIRED, 1,
                             MODEL_HEADS_MAX);
    s->n_v_heads = field_u32(f, "linear_num_value_heads", FIELD_REQUIRED, 1,
                             MODEL_HEADS_MAX);
    s->k_dim = field_u32(f, "linear_key_head_dim", 128, 1, MODEL_KEY_DIM_MAX);
    s->v_dim =
        field_u32(f, "linear_value_head_dim", 128, 1, MODEL_VALUE_DIM_MAX);
    s->conv = field_u32(f, "linear_conv_kernel_dim", 4, MODEL_CONV_MIN,
                        MODEL_CONV_MAX);
    if (s->n_v_heads % s->n_k_heads != 0) {
        field_fault(f, ST_INVALID_ARGUMENT,
                    "linear_num_value_heads %u is no multiple of "
                    "linear_num_key_heads %u",
                    s->n_v_heads, s->n_k_heads);
    }
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
    s->intermediate = field_u32(f, "intermediate_size", FIELD_REQUIRED, 1,
                                MODEL_INTERMEDIATE_MAX);
    s->vocab = field_u32(f, "vocab_size", FIELD_REQUIRED, 1, MODEL_VOCAB_MAX);
    s->context = field_u32(f, "max_position_embeddings", family->context, 1,
                           MODEL_CONTEXT_MAX);
    s->norm_eps =
        (float)field_real(f, "rms_norm_eps", 1e-6, 1e-30, MODEL_EPS_MAX);
    s->dtype = parse_dtype(f);
}

/* Counted for the report only; sluice does not run these layers. */
static uint32_t parse_mtp(struct fields *f)
{
    return field_u32(
        f, field_named(f, "mtp_num_hidden_layers", "num_nextn_predict_layers"),
        0, 0, MODEL_MTP_MAX);
}

static void parse_model(struct model_config *c, struct fields *f)
{
    const struct family *family = family_of(f);

    if (family == NULL) {
        return;
    }
    snprintf(c->family, sizeof c->family, "%s", family->type);
    c->norms = family->norms;
    c->linear = family->linear;
    c->tied = field_bool(f, "tie_word_embeddings", false);
    c->n_mtp = parse_mtp(f);
    refuse_unsupported(f, family);
    parse_quantised(c, f);
    parse_sizes(&c->shape, f, family);
    if (f->status == ST_OK) {
        parse_mixers(c, f, family);
    }
    if (f->status == ST_OK &&
        config_count(c, MIXER_ATTENTION, 0, c->shape.n_layers) > 0) {
        parse_attention(c, f, family);
    }
    if (f->status == ST_OK &&
        config_count(c, MIXER_DELTANET, 0, c->shape.n_layers) > 0) {
        parse_linear(c, f);
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
    st = document_parse(&doc, json, len, e);
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
    enum status st = document_parse(&doc, json, len, e);

    if (st != ST_OK) {
        return st;
    }
    parse_eos(c, &f, doc);
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

/* Sets the name to the last part of dir's real path, so that "." has a name. */
static enum status name_after(struct model_config *c, const char *dir,
                              struct error *e)
{
    char *path = realpath(dir, NULL);
    const char *base = path == NULL ? NULL : strrchr(path, '/');
    enum status st;

    if (base == NULL || base[1] == '\0') {
        st = error_set(e, ST_INVALID_ARGUMENT, "the directory has no name");
    } else {
        st = config_set_name(c, base + 1, e);
    }
    free(path);
    return st;
}

/* The file is optional: a base model has no generation defaults. */
static enum status load_generation(struct model_config *c, const char *dir,
                                   struct error *e)
{
    const char *name = "generation_config.json";
    char *text;
    size_t len;
    enum status st = document_read(&text, &len, dir, name, CONFIG_BYTES_MAX, e);

    if (st == ST_NOT_FOUND) {
        return ST_OK;
    }
    if (st == ST_OK) {
        st = config_add_generation(c, text, len, e);
        free(text);
    }
    return st == ST_OK ? st : error_wrap(e, "%s", name);
}

enum status config_load(struct model_config *c, const char *dir,
                        struct error *e)
{
    struct error ignored;
    const char *name = "config.json";
    char *text;
    size_t len;
    enum status st;

    e = e != NULL ? e : &ignored;
    memset(c, 0, sizeof *c);
    st = directory_check(dir, DIRECTORY_CONFIG, e);
    if (st != ST_OK) {
        return st;
    }
    st = document_read(&text, &len, dir, name, CONFIG_BYTES_MAX, e);
    if (st == ST_OK) {
        st = config_parse(c, text, len, e);
        free(text);
    }
    if (st != ST_OK) {
        return error_wrap(e, "%s", name);
    }
    st = load_generation(c, dir, e);
    return st != ST_OK ? st : name_after(c, dir, e);
}

uint32_t config_count(const struct model_config *c, enum mixer_kind kind,
                      uint32_t begin, uint32_t end)
{
    uint32_t n = 0;

    for (uint32_t i = begin; i < end; i++) {
        n += c->mixers[i] == kind;
    }
    return n;
}
