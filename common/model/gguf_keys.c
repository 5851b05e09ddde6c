#include "common/model/gguf_keys.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* ARCH.key, and two values without an effect, as in llama-arch.cpp.  Lists need
 * one of them in every item. */
static const struct row {
    const char *key;
    double a, b;
} rows[] = {
    {"rope.scaling.attn_factor", 1, 1},
    {"rope.scaling.yarn_attn_factor", 1, 1},
    {"rope.scaling.yarn_log_multiplier", 0, 0},
    {"rope.scaling.alpha", 0, 1},
    {"attention.causal", 1, 1},
    {"attention.clamp_kqv", 0, 0},
    {"attention.max_alibi_bias", 0, 0},
    {"attention.output_scale", 0, 1},
    {"attention.value_scale", 0, 1},
    {"attention.temperature_length", 0, 0},
    {"attention.temperature_scale", 0, 0},
    {"attention.q_lora_rank", 0, 0},
    {"attention.kv_lora_rank", 0, 0},
    {"attention.shared_kv_layers", 0, 0},
    {"attention.indexer.top_k", 0, 0},
    {"logit_scale", 0, 1},
    {"residual_scale", 0, 1},
    {"embedding_scale", 0, 1},
    {"router_logit_softcapping", 0, 0},
    {"use_parallel_residual", 0, 0},
    {"expert_group_count", 0, 1},
    {"expert_group_used_count", 0, 1},
    {"experts_per_group", 0, 1},
    {"expert_group_scale", 0, 1},
    {"moe_latent_size", 0, 0},
    {"swiglu_clamp_exp", 0, 0},
    {"swiglu_clamp_shexp", 0, 0},
    {"embedding_length_per_layer_input", 0, 0},
    {"n_deepstack_layers", 0, 0},
    {"hyper_connection.count", 0, 1},
    {"hash_layer_count", 0, 0},
    {"ssm.dt_b_c_rms", 0, 0},
};

static enum status not_number(const struct gguf_value *v, struct error *e)
{
    return error_set(e, ST_INVALID_ARGUMENT,
                     "%s is neither a finite number nor a list of such",
                     v->key);
}

static enum status refuse(const struct gguf_value *v, double x, double neutral,
                          struct error *e)
{
    return error_set(e, ST_UNIMPLEMENTED,
                     "%s is %g, which is not supported; %g is", v->key, x,
                     neutral);
}

/* Numbers of a file are float32. */
static bool same(double x, double y)
{
    return fabs(x - y) <= 1e-6 * fabs(y);
}

/* Checks that every item of ARCH.key is a or b. */
static enum status check(const struct gguf_arch *arch, const char *key,
                         double a, double b, struct error *e)
{
    const struct gguf_value *v = gguf_arch_find(arch, key);
    double x;

    for (uint64_t i = 0; v != NULL && i < v->n; i++) {
        if (!gguf_real(v, i, &x) || !isfinite(x)) {
            return not_number(v, e);
        }
        if (!same(x, a) && !same(x, b)) {
            return refuse(v, x, b, e);
        }
    }
    return ST_OK;
}

/* ---- values that depend on the architecture ---- */

/* Sizes of window layers may differ from those of the others. */
static enum status check_sizes(const struct gguf_arch *a, struct error *e)
{
    uint32_t rotated = a->head_dim;
    enum status st =
        gguf_arch_number(a, "rope.dimension_count", 0, UINT32_MAX, &rotated, e);
    const struct {
        const char *key;
        uint32_t want;
    } sizes[] = {
        {"attention.key_length_swa", a->head_dim},
        {"attention.value_length_swa", a->head_dim},
        {"rope.dimension_count_swa", rotated},
        {"embedding_length_out", a->hidden},
    };

    for (size_t i = 0; st == ST_OK && i < sizeof sizes / sizeof *sizes; i++) {
        st = check(a, sizes[i].key, sizes[i].want, sizes[i].want, e);
    }
    return st;
}

/* Gemma's own are read (gguf_config.c). */
static enum status check_attention(const struct gguf_arch *a, struct error *e)
{
    enum status st;

    if (a->family == GGUF_GEMMA3) {
        return ST_OK;
    }
    st = check(a, "attention.scale", 0, 1 / sqrt(a->head_dim), e);
    st = st == ST_OK ? check(a, "attn_logit_softcapping", 0, 0, e) : st;
    return st == ST_OK ? check(a, "final_logit_softcapping", 0, 0, e) : st;
}

/* -1 stands for 1 with yarn, and else for 0. */
static enum status check_yarn(const struct gguf_arch *a, struct error *e)
{
    const char *type = "";
    size_t n = 0;
    enum status st = gguf_arch_text(a, "rope.scaling.type", &type, &n, e);
    bool yarn = n == 4 && memcmp(type, "yarn", 4) == 0;

    return st == ST_OK
               ? check(a, "rope.scaling.yarn_ext_factor", -1, yarn ? 1 : 0, e)
               : st;
}

/* An embedding model or a reranker has the architecture of its base. */
static enum status check_purpose(const struct gguf_arch *a, struct error *e)
{
    const struct gguf_value *v = gguf_arch_find(a, "pooling_type");
    int64_t pooling = 0;

    if (v != NULL && (v->array || !gguf_whole(v, 0, &pooling))) {
        return not_number(v, e);
    }
    if (pooling > 0) {
        return error_set(e, ST_UNIMPLEMENTED,
                         "%s is %lld: this is an embedding model or a "
                         "reranker; models that generate text are supported",
                         v->key, (long long)pooling);
    }
    v = gguf_arch_find(a, "classifier.output_labels");
    return v == NULL ? ST_OK
                     : error_set(e, ST_UNIMPLEMENTED,
                                 "%s: this is a classifier; models that "
                                 "generate text are supported",
                                 v->key);
}

enum status gguf_keys_check(const struct gguf_arch *a, struct error *e)
{
    enum status st = check_purpose(a, e);

    for (size_t i = 0; st == ST_OK && i < sizeof rows / sizeof rows[0]; i++) {
        st = check(a, rows[i].key, rows[i].a, rows[i].b, e);
    }
    st = st == ST_OK ? check_sizes(a, e) : st;
    st = st == ST_OK ? check_attention(a, e) : st;
    return st == ST_OK ? check_yarn(a, e) : st;
}
