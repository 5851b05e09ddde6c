/* Arbitrary bytes as a config.json.  An accepted file must keep every
 * guarantee on which sizes and layouts are computed. */
#include "common/model/costs.h"
#include "common/model/sizes.h"
#include "fuzz.h"

static void check_rope(const struct model_shape *s, const struct rope_shape *r)
{
    FUZZ_CHECK(r->dim >= 2 && r->dim % 2 == 0 && r->dim <= s->head_dim);
    FUZZ_CHECK(r->theta >= MODEL_THETA_MIN && r->theta <= MODEL_THETA_MAX);
    FUZZ_CHECK(r->kind == ROPE_DEFAULT || r->factor >= 1);
    if (r->kind == ROPE_YARN) {
        FUZZ_CHECK(r->original > 0 && r->attention > 0);
        FUZZ_CHECK(r->beta_slow > 0 && r->beta_fast >= r->beta_slow);
        FUZZ_CHECK(r->attention <= MODEL_YARN_MAX);
    }
}

static void check_attention(const struct model_config *c)
{
    const struct model_shape *s = &c->shape;

    FUZZ_CHECK(s->n_heads <= MODEL_HEADS_MAX && s->n_kv_heads > 0);
    FUZZ_CHECK(s->n_heads % s->n_kv_heads == 0);
    FUZZ_CHECK(s->head_dim >= 2 && s->head_dim <= MODEL_HEAD_DIM_MAX);
    check_rope(s, &s->rope);
    FUZZ_CHECK(s->attn_scale >= 0 && s->attn_scale <= 1e3f);
    FUZZ_CHECK(s->attn_cap >= 0 && s->attn_cap <= (float)MODEL_CAP_MAX);
    FUZZ_CHECK(s->window <= MODEL_CONTEXT_MAX);
    FUZZ_CHECK((s->window > 0) ==
               (config_count(c, MIXER_IN_WINDOWS, 0, s->n_layers) > 0));
    if (s->window > 0) {
        check_rope(s, &s->window_rope);
    }
}

static void check_experts(const struct model_shape *s)
{
    FUZZ_CHECK(s->n_experts <= MODEL_EXPERTS_MAX);
    FUZZ_CHECK(s->top_k >= 1 && s->top_k <= MODEL_TOP_K_MAX);
    FUZZ_CHECK(s->top_k <= s->n_experts);
    FUZZ_CHECK(s->expert_dim > 0);
    FUZZ_CHECK(s->activation.kind != ACTIVATION_CLAMPED ||
               s->activation.limit > 0);
}

static void check_ffns(const struct model_config *c)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->shape.n_layers; i++) {
        n += c->ffns[i] == FFN_EXPERTS;
    }
    FUZZ_CHECK((n > 0) == (c->shape.n_experts > 0));
    FUZZ_CHECK((n < c->shape.n_layers) == (c->shape.intermediate > 0));
    if (n > 0) {
        check_experts(&c->shape);
    }
}

static void check_linear(const struct model_shape *s)
{
    FUZZ_CHECK(s->n_k_heads > 0 && s->n_v_heads % s->n_k_heads == 0);
    FUZZ_CHECK(s->k_dim > 0 && s->k_dim <= MODEL_KEY_DIM_MAX);
    FUZZ_CHECK(s->v_dim > 0 && s->v_dim <= MODEL_VALUE_DIM_MAX);
    FUZZ_CHECK(s->conv >= MODEL_CONV_MIN && s->conv <= MODEL_CONV_MAX);
}

/* A step reads a part of a layer, and a token a part of the model. */
static void check_costs(const struct model_config *c)
{
    static struct split_model m;
    struct kv_format kv = kv_format_plain(DTYPE_F32);
    struct sizes z = sizes_of(c, 0, c->shape.n_layers, 1, &kv);

    costs_of_shapes(&m, c, &kv);
    for (uint32_t i = 0; i < m.n_layers; i++) {
        FUZZ_CHECK(m.layers[i].step_bytes > 0);
        FUZZ_CHECK(m.layers[i].step_bytes <= m.layers[i].weight_bytes);
    }
    FUZZ_CHECK(sizes_active(c) <= z.parameters);
}

/* An MTP layer makes a model larger, and only the range with the last layer. */
static void check_drafts(const struct model_config *c)
{
    struct kv_format kv = kv_format_plain(DTYPE_F32);
    struct model_config d = *c;
    uint32_t n = c->shape.n_layers;
    struct sizes a = sizes_of(c, 0, n, 1, &kv), b;

    if (c->shape.n_heads == 0) {
        return;
    }
    d.drafts = true;
    b = sizes_of(&d, 0, n, 1, &kv);
    FUZZ_CHECK(b.weight_bytes > a.weight_bytes + sizes_experts(c, n));
    FUZZ_CHECK(b.token_bytes > a.token_bytes);
    FUZZ_CHECK(b.kept_bytes == a.kept_bytes);
    check_costs(&d);
}

static void check(const struct model_config *c)
{
    const struct model_shape *s = &c->shape;

    FUZZ_CHECK(s->n_layers > 0 && s->n_layers <= MODEL_LAYERS_MAX);
    FUZZ_CHECK(s->hidden > 0 && s->vocab > 0);
    FUZZ_CHECK(s->norm_eps > 0 && s->norm_eps <= (float)MODEL_EPS_MAX);
    check_ffns(c);
    if (config_count(c, MIXER_IN_SLOT, 0, s->n_layers) < s->n_layers) {
        check_attention(c);
    }
    if (config_count(c, MIXER_IN_SLOT, 0, s->n_layers) > 0) {
        check_linear(s);
    }
    FUZZ_CHECK(c->n_eos <= MODEL_EOS_MAX);
    for (uint32_t i = 0; i < c->n_eos; i++) {
        FUZZ_CHECK(c->eos[i] < s->vocab);
    }
    for (uint32_t b = 0; b < s->n_layers; b += 7) {
        struct kv_format kv = kv_format_plain(DTYPE_F32);
        struct sizes z =
            sizes_of(c, b, s->n_layers, SIZES_BLOCK_TOKENS_MAX, &kv);

        FUZZ_CHECK(z.weight_bytes >= z.parameters / 2);
        FUZZ_CHECK(z.page_bytes > 0);
        FUZZ_CHECK(z.pages_per_block + z.pages_per_slot + z.window_pages > 0);
        FUZZ_CHECK((z.window_pages > 0) == (z.n_window > 0));
    }
    check_costs(c);
    check_drafts(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct model_config c;
    struct error e = {.code = ST_OK};
    enum status st = config_parse(&c, (const char *)data, n, &e);

    FUZZ_CHECK(st == e.code);
    if (st == ST_OK) {
        check(&c);
        (void)!config_add_generation(&c, (const char *)data, n, &e);
        check(&c);
    } else {
        FUZZ_CHECK(e.text[0] != '\0');
    }
    return 0;
}
