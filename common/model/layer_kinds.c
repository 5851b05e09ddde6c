#include "common/model/layer_kinds.h"

#include "common/base/quote.h"
#include "common/model/mixer.h"

/* ---- windows ---- */

/* Returns the positions that a window layer sees; 0: the model has none.  A
 * null is no window, and an absent key is the family's. */
static uint32_t window_of(struct fields *f, const struct family *family)
{
    bool used = field_bool(f, "use_sliding_window", !family->window_flag);
    uint32_t fallback = field_has(f, "sliding_window") ? 0 : family->window;

    if (!used) {
        return 0;
    }
    return field_u32(f, "sliding_window", fallback, 1, MODEL_CONTEXT_MAX);
}

/* A window is refused even where the context is shorter: the model would
 * otherwise compute a different function than its reference. */
static void refuse_window(struct model_config *c, struct fields *f,
                          const struct family *family)
{
    if (family->windows == FAMILY_WINDOWS_NONE && c->shape.window > 0) {
        field_fault(f, ST_UNIMPLEMENTED,
                    "a sliding window (of %u) in a %s model is not supported; "
                    "full attention is",
                    c->shape.window, family->type);
    }
}

/* ---- mixers ---- */

/* An explicit list takes precedence over intervals and patterns. */
static void listed_mixers(struct model_config *c, struct fields *f,
                          const json_t *types)
{
    char names[MIXER_TEXT_MAX];
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
        enum mixer_kind kind = mixer_find(t);

        if (kind == MIXER_KINDS) {
            field_fault(f, ST_UNIMPLEMENTED,
                        "layer %u is %s, which is not supported; %s are", i,
                        quote(t).text, mixer_types(names));
            return;
        }
        c->mixers[i] = kind;
    }
}

/* Every full_attention_interval-th layer is attention, as in the reference. */
static void hybrid_mixers(struct model_config *c, struct fields *f)
{
    uint32_t every =
        field_u32(f, "full_attention_interval", 4, 1, MODEL_LAYERS_MAX);

    for (uint32_t i = 0; i < c->shape.n_layers; i++) {
        c->mixers[i] = (i + 1) % every == 0 ? MIXER_ATTENTION : MIXER_DELTANET;
    }
}

/* Window layers are those of [first, n_layers) but every `every`-th. */
static void window_mixers(struct model_config *c, struct fields *f,
                          const struct family *family)
{
    const char *pattern =
        field_named(f, "sliding_window_pattern", "_sliding_window_pattern");
    uint32_t first = 0, every = MODEL_LAYERS_MAX + 1;

    if (family->windows == FAMILY_WINDOWS_LATE) {
        first = field_u32(f, "max_window_layers", 28, 0, MODEL_LAYERS_MAX);
    } else if (family->windows == FAMILY_WINDOWS_PATTERN) {
        every = field_u32(f, pattern, family->pattern, 1, MODEL_LAYERS_MAX);
    }
    for (uint32_t i = 0; i < c->shape.n_layers; i++) {
        bool windowed =
            c->shape.window > 0 && i >= first && (i + 1) % every != 0;

        c->mixers[i] = windowed ? MIXER_WINDOW : MIXER_ATTENTION;
    }
}

/* Drops the rotary positions of layer i if it is attention. */
static void drop_rope(struct model_config *c, uint32_t i)
{
    if (c->mixers[i] == MIXER_ATTENTION) {
        c->mixers[i] = MIXER_NOPE;
    }
}

/* Reads no_rope_layers, whose zeros name the layers, or the interval. */
static void listed_nope(struct model_config *c, struct fields *f)
{
    const json_t *list = field_get(f, "no_rope_layers");
    uint32_t n = c->shape.n_layers;
    uint32_t every =
        field_u32(f, "no_rope_layer_interval", 4, 1, MODEL_LAYERS_MAX);

    if (list != NULL && json_array_size(list) != n) {
        field_fault(f, ST_INVALID_ARGUMENT,
                    "no_rope_layers is not a list of num_hidden_layers (%u) "
                    "numbers",
                    n);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        json_int_t rotates = json_integer_value(v);

        if (list != NULL &&
            (!json_is_integer(v) || rotates < 0 || rotates > 1)) {
            field_fault(f, ST_INVALID_ARGUMENT,
                        "entry %u of no_rope_layers is neither 0 nor 1", i);
            return;
        }
        if (list != NULL ? rotates == 0 : (i + 1) % every == 0) {
            drop_rope(c, i);
        }
    }
}

static void drop_ropes(struct model_config *c, struct fields *f,
                       const struct family *family)
{
    if (family->layers.nope == FAMILY_NOPE_LISTED) {
        listed_nope(c, f);
    }
    for (uint32_t i = 0; i < c->shape.n_layers; i++) {
        if (family->layers.nope == FAMILY_NOPE_FULL && c->shape.window > 0) {
            drop_rope(c, i);
        }
    }
}

/* Checks that the family has the parameters of each kind. */
static void check_mixers(struct model_config *c, struct fields *f,
                         const struct family *family)
{
    for (uint32_t i = 0; i < c->shape.n_layers; i++) {
        const struct mixer *m = mixer_rows[c->mixers[i]];

        if (m->check != NULL) {
            m->check(c, f, family, i);
        }
    }
}

void layer_kinds_mixers(struct model_config *c, struct fields *f,
                        const struct family *family)
{
    const json_t *types = field_get(f, "layer_types");

    c->shape.window = window_of(f, family);
    refuse_window(c, f, family);
    if (types != NULL) {
        listed_mixers(c, f, types);
    } else if (family->hybrid) {
        hybrid_mixers(c, f);
    } else {
        window_mixers(c, f, family);
    }
    if (f->status == ST_OK) {
        check_mixers(c, f, family);
        drop_ropes(c, f, family);
    }
    if (config_count(c, MIXER_IN_WINDOWS, 0, c->shape.n_layers) == 0) {
        c->shape.window = 0;
    }
}

static bool has_mixer(const struct model_config *c, int kind)
{
    for (uint32_t i = 0; i < c->shape.n_layers; i++) {
        if (c->mixers[i] == (enum mixer_kind)kind) {
            return true;
        }
    }
    return false;
}

/* Returns whether a kind before `kind` that the model has is read by the same
 * function. */
static bool is_parsed(const bool has[MIXER_KINDS], int kind)
{
    for (int i = 0; i < kind; i++) {
        if (has[i] && mixer_rows[i]->parse == mixer_rows[kind]->parse) {
            return true;
        }
    }
    return false;
}

void layer_kinds_sizes(struct model_config *c, struct fields *f,
                       const struct family *family)
{
    bool has[MIXER_KINDS];

    for (int kind = 0; kind < MIXER_KINDS; kind++) {
        has[kind] = has_mixer(c, kind);
    }
    for (int kind = 0; kind < MIXER_KINDS; kind++) {
        const struct mixer *m = mixer_rows[kind];

        if (f->status == ST_OK && has[kind] && m->parse != NULL &&
            !is_parsed(has, kind)) {
            m->parse(c, f, family);
        }
    }
}

/* ---- feed-forwards ---- */

/* A dense model may have these keys with the value 0. */
static void refuse_experts(struct fields *f, const struct family *family)
{
    static const char *const keys[] = {"num_experts", "num_local_experts",
                                       "n_routed_experts"};

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const json_t *v = field_get(f, keys[i]);

        if (v != NULL && !json_is_integer(v)) {
            field_fault(f, ST_INVALID_ARGUMENT, "%s is not a whole number",
                        keys[i]);
        } else if (v != NULL && json_integer_value(v) != 0) {
            field_fault(f, ST_UNIMPLEMENTED,
                        "a mixture of experts (%s is %lld) in a %s model is "
                        "not supported",
                        keys[i], (long long)json_integer_value(v),
                        family->type);
        }
    }
}

static void read_dense_list(struct model_config *c, struct fields *f)
{
    const json_t *list = field_get(f, "mlp_only_layers");

    if (list != NULL && !json_is_array(list)) {
        field_fault(f, ST_INVALID_ARGUMENT, "mlp_only_layers is not a list");
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        json_int_t n = json_integer_value(v);

        if (!json_is_integer(v) || n < 0 || n >= c->shape.n_layers) {
            field_fault(f, ST_INVALID_ARGUMENT,
                        "entry %zu of mlp_only_layers is none of the layers 0 "
                        "to %u",
                        i, c->shape.n_layers - 1);
            return;
        }
        c->ffns[n] = FFN_DENSE;
    }
}

/* Sets which layers have experts. */
static void choose_ffns(struct model_config *c, struct fields *f,
                        const struct family *family)
{
    uint32_t step = 1;

    if (!family->experts_fixed) {
        step = field_u32(f, "decoder_sparse_step", 1, 1, MODEL_LAYERS_MAX);
    }
    /* Models with some dense layers have experts in the MTP layer, too. */
    c->ffns[c->shape.n_layers] = FFN_EXPERTS;
    for (uint32_t i = 0; i < c->shape.n_layers; i++) {
        c->ffns[i] = (i + 1) % step == 0 ? FFN_EXPERTS : FFN_DENSE;
    }
    if (!family->experts_fixed) {
        read_dense_list(c, f);
    }
}

static void parse_experts(struct model_config *c, struct fields *f,
                          const struct family *family)
{
    const struct family_experts *d = &family->experts;
    struct model_shape *s = &c->shape;

    s->top_k =
        field_u32(f, field_named(f, "num_experts_per_tok", "experts_per_token"),
                  d->top_k, 1, MODEL_TOP_K_MAX);
    if (s->top_k > s->n_experts) {
        field_fault(f, ST_INVALID_ARGUMENT,
                    "num_experts_per_tok %u is above the %u experts", s->top_k,
                    s->n_experts);
    }
    s->expert_dim = field_u32(
        f, d->dim > 0 ? "moe_intermediate_size" : "intermediate_size",
        d->dim > 0 ? d->dim : FIELD_REQUIRED, 1, MODEL_INTERMEDIATE_MAX);
    if (d->shared > 0) {
        s->shared_dim = field_u32(f, "shared_expert_intermediate_size",
                                  d->shared, 0, MODEL_INTERMEDIATE_MAX);
    }
    c->shared_gate = s->shared_dim > 0;
    s->top_k_normed = d->normed;
    if (!family->experts_fixed) {
        s->top_k_normed = field_bool(f, "norm_topk_prob", d->normed);
    }
    s->gate_up_alternate = c->expert_bias = family->gpt_oss;
}

static uint32_t count_ffns(const struct model_config *c, enum ffn_kind kind)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->shape.n_layers; i++) {
        n += c->ffns[i] == kind;
    }
    return n;
}

void layer_kinds_ffns(struct model_config *c, struct fields *f,
                      const struct family *family)
{
    struct model_shape *s = &c->shape;

    if (family->experts.n == 0) {
        refuse_experts(f, family);
    } else {
        s->n_experts =
            field_u32(f, field_named(f, "num_experts", "num_local_experts"),
                      family->experts.n, family->experts_fixed ? 1 : 0,
                      MODEL_EXPERTS_MAX);
    }
    if (s->n_experts > 0) {
        choose_ffns(c, f, family);
    }
    if (count_ffns(c, FFN_EXPERTS) > 0) {
        parse_experts(c, f, family);
    } else {
        s->n_experts = 0;
    }
    if (count_ffns(c, FFN_DENSE) > 0) {
        s->intermediate = field_u32(f, "intermediate_size", FIELD_REQUIRED, 1,
                                    MODEL_INTERMEDIATE_MAX);
    }
}
