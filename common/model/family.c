#include "common/model/family.h"

#include <stdio.h>
#include <string.h>

#include "common/base/affix.h"
#include "common/base/quote.h"

#define SUPPORTED                                                      \
    "qwen3_5, qwen3_5_moe, qwen3_next, llama, mistral, qwen2, qwen3, " \
    "qwen3_moe, gpt_oss, gemma3, seed_oss, granite, smollm3, "         \
    "hunyuan_v1_dense, phi3, ministral3, olmo3, exaone4, gemma2, "     \
    "qwen2_moe and mixtral"

#define HYBRID                                                          \
    .hybrid = true, .qk_norm = true, .norms = NORM_GAMMA_MINUS_1,       \
    .head_dim = 256, .context = 32768, .partial = 0.25, .theta = 10000, \
    .eps = 1e-6, .windows = FAMILY_WINDOWS_NONE, .window_flag = true

#define HYBRID_EXPERTS     \
    .experts_fixed = true, \
    .experts = {           \
        .n = 256, .top_k = 8, .dim = 512, .shared = 512, .normed = true}

#define GEMMA3                                                            \
    .qk_norm = true, .gemma = true, .norms = NORM_GAMMA_MINUS_1,          \
    .head_dim = 256, .heads = 8, .kv_heads = 4, .vocab = 262208,          \
    .context = 131072, .partial = 1, .theta = 1e6, .window_theta = 10000, \
    .eps = 1e-6, .windows = FAMILY_WINDOWS_PATTERN, .window = 4096,       \
    .pattern = 6, .layers = {.tied = true}

static const struct family families[] = {
    {.type = "qwen3_5_text", .architecture = "Qwen3_5ForCausalLM", HYBRID},
    {.type = "qwen3_5",
     .architecture = "Qwen3_5ForConditionalGeneration",
     HYBRID},
    {.type = "qwen3_5_moe_text",
     .architecture = "Qwen3_5MoeForCausalLM",
     HYBRID,
     HYBRID_EXPERTS},
    {.type = "qwen3_5_moe",
     .architecture = "Qwen3_5MoeForConditionalGeneration",
     HYBRID,
     HYBRID_EXPERTS},
    {.type = "qwen3_next",
     .architecture = "Qwen3NextForCausalLM",
     HYBRID,
     .linear = LINEAR_GROUPED,
     .experts =
         {.n = 512, .top_k = 10, .dim = 512, .shared = 512, .normed = true}},
    {.type = "llama",
     .architecture = "LlamaForCausalLM",
     .context = 2048,
     .partial = 1,
     .theta = 10000,
     .eps = 1e-6,
     .windows = FAMILY_WINDOWS_NONE},
    {.type = "mistral",
     .architecture = "MistralForCausalLM",
     .context = 131072,
     .partial = 1,
     .theta = 10000,
     .eps = 1e-6,
     .windows = FAMILY_WINDOWS_ALL,
     .window = 4096},
    {.type = "qwen2",
     .architecture = "Qwen2ForCausalLM",
     .qkv_bias = true,
     .context = 32768,
     .partial = 1,
     .theta = 10000,
     .eps = 1e-6,
     .windows = FAMILY_WINDOWS_LATE,
     .window_flag = true,
     .window = 4096},
    {.type = "qwen3",
     .architecture = "Qwen3ForCausalLM",
     .qk_norm = true,
     .head_dim = 128,
     .context = 32768,
     .partial = 1,
     .theta = 10000,
     .eps = 1e-6,
     .windows = FAMILY_WINDOWS_LATE,
     .window_flag = true,
     .window = 4096},
    {.type = "qwen3_moe",
     .architecture = "Qwen3MoeForCausalLM",
     .qk_norm = true,
     .context = 32768,
     .partial = 1,
     .theta = 10000,
     .eps = 1e-6,
     .windows = FAMILY_WINDOWS_ALL,
     .window_flag = true,
     .window = 4096,
     .experts = {.n = 128, .top_k = 8, .dim = 768}},
    {.type = "qwen2_moe",
     .architecture = "Qwen2MoeForCausalLM",
     .qkv_bias = true,
     .context = 32768,
     .partial = 1,
     .theta = 10000,
     .eps = 1e-6,
     .windows = FAMILY_WINDOWS_LATE,
     .window_flag = true,
     .window = 4096,
     .experts = {.n = 60, .top_k = 4, .dim = 1408, .shared = 5632}},
    {.type = "mixtral",
     .architecture = "MixtralForCausalLM",
     .experts_fixed = true,
     .kv_heads = 8,
     .context = 131072,
     .partial = 1,
     .theta = 1e6,
     .eps = 1e-5,
     .windows = FAMILY_WINDOWS_ALL,
     .experts = {.n = 8, .top_k = 2, .normed = true}},
    {.type = "gpt_oss",
     .architecture = "GptOssForCausalLM",
     .biased = true,
     .gpt_oss = true,
     .experts_fixed = true,
     .head_dim = 64,
     .context = 131072,
     .partial = 1,
     .theta = 150000,
     .eps = 1e-5,
     .windows = FAMILY_WINDOWS_PATTERN,
     .window = 128,
     .pattern = 2,
     .experts = {.n = 128, .top_k = 4, .normed = true}},
    {.type = "gemma3_text", .architecture = "Gemma3ForCausalLM", GEMMA3},
    {.type = "gemma3",
     .architecture = "Gemma3ForConditionalGeneration",
     GEMMA3},
    {.type = "gemma2",
     .architecture = "Gemma2ForCausalLM",
     .gemma = true,
     .norms = NORM_GAMMA_MINUS_1,
     .head_dim = 256,
     .heads = 8,
     .kv_heads = 4,
     .vocab = 256000,
     .context = 8192,
     .partial = 1,
     .theta = 10000,
     .eps = 1e-6,
     .windows = FAMILY_WINDOWS_PATTERN,
     .window = 4096,
     .pattern = 2,
     .layers = {.tied = true, .score_cap = 50, .logit_cap = 30}},
    {.type = "seed_oss",
     .architecture = "SeedOssForCausalLM",
     .biased = true,
     .head_dim = 128,
     .context = 524288,
     .partial = 1,
     .theta = 10000,
     .eps = 1e-6,
     .windows = FAMILY_WINDOWS_NONE,
     .layers = {.o_bias_key = "attention_out_bias"}},
    {.type = "granite",
     .architecture = "GraniteForCausalLM",
     .context = 2048,
     .partial = 1,
     .theta = 10000,
     .eps = 1e-6,
     .windows = FAMILY_WINDOWS_NONE,
     .layers = {.multipliers = true}},
    {.type = "smollm3",
     .architecture = "SmolLM3ForCausalLM",
     .heads = 16,
     .kv_heads = 4,
     .context = 32768,
     .partial = 1,
     .theta = 2e6,
     .eps = 1e-6,
     .windows = FAMILY_WINDOWS_NONE,
     .window_flag = true,
     .layers = {.tied = true, .nope = FAMILY_NOPE_LISTED}},
    {.type = "hunyuan_v1_dense",
     .architecture = "HunYuanDenseV1ForCausalLM",
     .qk_norm = true,
     .context = 2048,
     .partial = 1,
     .theta = 10000,
     .eps = 1e-5,
     .windows = FAMILY_WINDOWS_NONE,
     .layers = {.late_norm = true, .rope_alpha = true}},
    {.type = "phi3",
     .architecture = "Phi3ForCausalLM",
     .context = 4096,
     .partial = 1,
     .theta = 10000,
     .eps = 1e-5,
     .windows = FAMILY_WINDOWS_ALL,
     .layers = {.fused = true}},
    {.type = "ministral3",
     .architecture = "Ministral3ForCausalLM",
     .head_dim = 128,
     .heads = 32,
     .kv_heads = 8,
     .context = 262144,
     .partial = 1,
     .theta = 1e6,
     .eps = 1e-5,
     .windows = FAMILY_WINDOWS_ALL,
     .layers = {.tied = true, .query_scaling = true}},
    {.type = "olmo3",
     .architecture = "Olmo3ForCausalLM",
     .qk_norm = true,
     .context = 2048,
     .partial = 1,
     .theta = 10000,
     .eps = 1e-5,
     .windows = FAMILY_WINDOWS_PATTERN,
     .window = 4096,
     .pattern = 4,
     .layers = {.whole_norm = true,
                .bare_inputs = true,
                .plain_windows = true}},
    {.type = "exaone4",
     .architecture = "Exaone4ForCausalLM",
     .qk_norm = true,
     .heads = 32,
     .kv_heads = 32,
     .context = 2048,
     .partial = 1,
     .theta = 10000,
     .eps = 1e-5,
     .windows = FAMILY_WINDOWS_PATTERN,
     .window = 4096,
     .pattern = 4,
     .layers = {.bare_inputs = true, .nope = FAMILY_NOPE_FULL}},
};

/* Returns the class that the checkpoint was saved from, NULL if none is named.
 * The outer object goes first: the inner one describes a part. */
static const char *architecture_of(struct fields *f)
{
    const json_t *v = json_object_get(f->outer, "architectures");

    v = v == NULL || json_is_null(v) ? field_get(f, "architectures") : v;
    if (v == NULL || (json_is_array(v) && json_array_size(v) == 0)) {
        return NULL;
    }
    v = json_array_get(v, 0);
    if (!json_is_string(v)) {
        field_fault(f, ST_INVALID_ARGUMENT,
                    "architectures is no list of strings");
    }
    return json_string_value(v);
}

/* model_type decides; the architecture counts only without one.  A derived
 * model often keeps its parent's architecture name. */
const struct family *family_find(struct fields *f)
{
    const char *type = field_text(f, "model_type");
    const char *architecture = architecture_of(f);

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
                "models of type %s are not supported; " SUPPORTED " are",
                quote(type != NULL ? type : architecture).text);
    return NULL;
}

void family_check_architecture(struct fields *f)
{
    static const char *const ends[] = {
        "ForCausalLM", "ForConditionalGeneration", "LMHeadModel"};
    const char *architecture = architecture_of(f);
    bool known = architecture == NULL;

    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        known = known || ends_with(architecture, ends[i]);
    }
    if (!known) {
        field_fault(f, ST_UNIMPLEMENTED,
                    "architecture %s is not supported; models that generate "
                    "text are, such as %s, but no embeddings, rerankers, "
                    "classifiers or drafters",
                    quote(architecture).text, families[0].architecture);
    }
}

/* ---- features of no family ---- */

/* Values that leave a feature out. */
enum without {
    WITHOUT_VALUE,  /* null, 0, false, "" */
    WITHOUT_MORE,   /* 0 and 1, which is one group */
    WITHOUT_FACTOR, /* 1 */
    WITHOUT_SOFTMAX,
    WITHOUT_GREEDY
};

static const struct foreign {
    const char *key, *what;
    enum without without;
} foreigns[] = {
    {"kv_lora_rank", "multi-head latent attention", WITHOUT_VALUE},
    {"mamba_d_state", "a Mamba-2 layer", WITHOUT_VALUE},
    {"mamba_n_heads", "a Mamba-2 layer", WITHOUT_VALUE},
    {"mamba_num_heads", "a Mamba-2 layer", WITHOUT_VALUE},
    {"ssm_state_size", "a Mamba-2 layer", WITHOUT_VALUE},
    {"hybrid_override_pattern", "a Mamba-2 layer", WITHOUT_VALUE},
    {"n_group", "routing by groups of experts", WITHOUT_MORE},
    {"topk_group", "routing by groups of experts", WITHOUT_MORE},
    {"scoring_func", "routing by another function than softmax",
     WITHOUT_SOFTMAX},
    {"score_func", "routing by another function than softmax", WITHOUT_SOFTMAX},
    {"topk_method", "routing with e_score_correction_bias", WITHOUT_GREEDY},
    {"use_expert_bias", "routing with e_score_correction_bias", WITHOUT_VALUE},
    {"moe_router_enable_expert_bias", "routing with e_score_correction_bias",
     WITHOUT_VALUE},
    {"routed_scaling_factor", "a factor of the experts' sum", WITHOUT_FACTOR},
    {"use_bidirectional_attention", "attention to later positions",
     WITHOUT_VALUE},
};

static bool is_text(const json_t *v, const char *text)
{
    return json_is_string(v) && strcmp(json_string_value(v), text) == 0;
}

static bool is_without(const json_t *v, enum without w)
{
    double x = json_number_value(v);
    bool number = json_is_number(v);

    switch (w) {
    case WITHOUT_MORE:
        return number && (x == 0 || x == 1);
    case WITHOUT_FACTOR:
        return number && x == 1;
    case WITHOUT_SOFTMAX:
        return is_text(v, "softmax");
    case WITHOUT_GREEDY:
        return is_text(v, "greedy");
    default:
        return json_is_false(v) || (number && x == 0) || is_text(v, "");
    }
}

/* Writes a value for a message. */
static void describe(char *out, size_t n, const json_t *v)
{
    if (json_is_string(v)) {
        snprintf(out, n, "%s", quote(json_string_value(v)).text);
    } else if (json_is_number(v)) {
        snprintf(out, n, "%.15g", json_number_value(v));
    } else if (json_is_boolean(v)) {
        snprintf(out, n, "%s", json_is_true(v) ? "true" : "false");
    } else {
        snprintf(out, n, "%s", json_is_array(v) ? "a list" : "an object");
    }
}

void family_refuse_foreign(struct fields *f)
{
    for (size_t i = 0; i < sizeof foreigns / sizeof foreigns[0]; i++) {
        const struct foreign *r = &foreigns[i];
        const json_t *v = field_get(f, r->key);
        char text[ERROR_TEXT / 2];

        if (v != NULL && !is_without(v, r->without)) {
            describe(text, sizeof text, v);
            field_fault(f, ST_UNIMPLEMENTED, "%s (%s is %s) is not supported",
                        r->what, r->key, text);
        }
    }
}
