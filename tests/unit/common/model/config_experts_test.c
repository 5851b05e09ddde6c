/* Keys of experts, windows, YaRN and weight formats: values, refusals, and
 * every limit at its edge. */
#include "common/model/config.h"

#include <math.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/model/fixture.h"

/* Adds experts, of which a token has 2 of 8. */
static void add_experts(json_t *j)
{
    json_object_set_new(j, "num_experts", json_integer(8));
    json_object_set_new(j, "num_experts_per_tok", json_integer(2));
    json_object_set_new(j, "moe_intermediate_size", json_integer(24));
    json_object_set_new(j, "shared_expert_intermediate_size", json_integer(16));
}

/* A tiny config of a family, with what all of its models have. */
static json_t *mixture(const char *family)
{
    static const char *const experts[] = {"qwen3_5_moe", "qwen3_next",
                                          "qwen3_moe", "gpt_oss"};
    json_t *j = fixture_config(family);
    bool gpt_oss = strcmp(family, "gpt_oss") == 0;

    for (size_t i = 0; i < sizeof experts / sizeof experts[0]; i++) {
        if (strcmp(family, experts[i]) == 0) {
            add_experts(j);
        }
    }
    if (gpt_oss || strncmp(family, "gemma3", 6) == 0) {
        json_object_set_new(j, "sliding_window", json_integer(32));
    }
    if (gpt_oss) {
        json_object_set_new(j, "rope_scaling",
                            json_pack("{s:s, s:i, s:i}", "rope_type", "yarn",
                                      "factor", 4,
                                      "original_max_position_embeddings", 64));
    }
    return j;
}

/* Setting key to value (stolen) must be refused with code and `text`. */
static void refused(const char *family, const char *key, json_t *value,
                    enum status code, const char *text)
{
    json_t *j = mixture(family);
    struct model_config c;
    struct error e;

    assert_non_null(value);
    json_object_set_new(j, key, value);
    if (fixture_parse(&c, j, &e) != code || strstr(e.text, text) == NULL) {
        fail_msg("%s %s: %s: \"%s\" has no \"%s\"", family, key,
                 status_name(e.code), e.text, text);
    }
    json_decref(j);
}

/* Returns the configuration with key set to value (stolen); NULL: none. */
static struct model_config with(const char *family, const char *key,
                                json_t *value)
{
    json_t *j = mixture(family);
    struct model_config c;

    if (key != NULL) {
        assert_non_null(value);
        json_object_set_new(j, key, value);
    }
    c = fixture_parsed(j);
    json_decref(j);
    return c;
}

/* Every number at its limits and one past them. */
static void bounded(const char *family, const char *key, long min, long max)
{
    with(family, key, json_integer(min));
    with(family, key, json_integer(max));
    refused(family, key, json_integer(min - 1), ST_INVALID_ARGUMENT, key);
    refused(family, key, json_integer(max + 1), ST_INVALID_ARGUMENT, key);
    refused(family, key, json_real(1.5), ST_INVALID_ARGUMENT, key);
    refused(family, key, json_string("8"), ST_INVALID_ARGUMENT, key);
}

static void assert_layers(const struct model_config *c, const char *mixers,
                          const char *ffns)
{
    for (uint32_t i = 0; i < c->shape.n_layers; i++) {
        assert_int_equal("adw"[c->mixers[i]], mixers[i]);
        assert_int_equal("de"[c->ffns[i]], ffns[i]);
    }
    assert_int_equal(c->shape.n_layers, strlen(mixers));
}

/* ---- experts ---- */

static void chooses_layers_with_experts(void **state)
{
    struct model_config c = with("qwen3_moe", NULL, NULL);

    (void)state;
    assert_layers(&c, "aaaa", "eeee");
    assert_int_equal(c.shape.intermediate, 0);
    c = with("qwen3_moe", "decoder_sparse_step", json_integer(2));
    assert_layers(&c, "aaaa", "dede");
    assert_int_equal(c.shape.intermediate, 48);
    c = with("qwen3_next", "mlp_only_layers", json_pack("[i, i, i]", 0, 3, 0));
    assert_layers(&c, "ddda", "deed");
    /* The reference of Qwen3.5 ignores both keys. */
    c = with("qwen3_5_moe", "mlp_only_layers", json_pack("[i]", 0));
    assert_layers(&c, "ddda", "eeee");
    c = with("qwen3_5_moe", "decoder_sparse_step", json_integer(2));
    assert_layers(&c, "ddda", "eeee");
    /* Without experts in any layer, their numbers are 0. */
    c = with("qwen3_moe", "mlp_only_layers",
             json_pack("[i, i, i, i]", 0, 1, 2, 3));
    assert_layers(&c, "aaaa", "dddd");
    assert_int_equal(c.shape.n_experts + c.shape.top_k + c.shape.expert_dim, 0);
    c = with("qwen3_next", "num_experts", json_integer(0));
    assert_layers(&c, "ddda", "dddd");
}

static void reads_experts(void **state)
{
    struct model_config c = with("qwen3_moe", NULL, NULL);

    (void)state;
    assert_int_equal(c.shape.n_experts, 8);
    assert_int_equal(c.shape.top_k, 2);
    assert_int_equal(c.shape.expert_dim, 24);
    assert_int_equal(c.shape.shared_dim, 0); /* the family has none */
    assert_false(c.shape.top_k_normed || c.shared_gate || c.expert_bias);
    c = with("qwen3_moe", "norm_topk_prob", json_true());
    assert_true(c.shape.top_k_normed);
    c = with("qwen3_next", "norm_topk_prob", json_false());
    assert_false(c.shape.top_k_normed);
    assert_int_equal(c.shape.shared_dim, 16);
    assert_true(c.shared_gate);
    c = with("qwen3_next", "shared_expert_intermediate_size", json_integer(0));
    assert_false(c.shared_gate);
    /* Always normed, and there is no key. */
    c = with("qwen3_5_moe", "norm_topk_prob", json_false());
    assert_true(c.shape.top_k_normed);
    c = with("gpt_oss", "norm_topk_prob", json_false());
    assert_true(c.shape.top_k_normed);
    assert_int_equal(c.shape.expert_dim, 48); /* intermediate_size */
    assert_int_equal(c.shape.intermediate, 0);
}

/* The other names of transformers 5 and of published files. */
static void knows_the_names_of_experts(void **state)
{
    static const char *const names[][2] = {
        {"num_experts", "num_local_experts"},
        {"num_experts_per_tok", "experts_per_token"},
    };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        json_t *j = mixture("qwen3_moe");

        json_object_del(j, names[i][0]);
        json_object_set_new(j, names[i][1], json_integer(5));
        assert_int_equal(i == 0 ? fixture_parsed(j).shape.n_experts
                                : fixture_parsed(j).shape.top_k,
                         5);
        json_decref(j);
    }
}

static void fills_in_for_experts(void **state)
{
    static const struct {
        const char *family;
        uint32_t n, top_k, dim, shared;
    } rows[] = {
        {"qwen3_5_moe", 256, 8, 512, 512},
        {"qwen3_next", 512, 10, 512, 512},
        {"qwen3_moe", 128, 8, 768, 0},
        {"gpt_oss", 128, 4, 48, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_t *j = mixture(rows[i].family);
        struct model_config c;

        json_object_del(j, "num_experts");
        json_object_del(j, "num_experts_per_tok");
        json_object_del(j, "moe_intermediate_size");
        json_object_del(j, "shared_expert_intermediate_size");
        c = fixture_parsed(j);
        assert_int_equal(c.shape.n_experts, rows[i].n);
        assert_int_equal(c.shape.top_k, rows[i].top_k);
        assert_int_equal(c.shape.expert_dim, rows[i].dim);
        assert_int_equal(c.shape.shared_dim, rows[i].shared);
        json_decref(j);
    }
}

static void bounds_experts(void **state)
{
    (void)state;
    bounded("qwen3_moe", "num_experts_per_tok", 1, 8);
    refused("qwen3_moe", "num_experts_per_tok", json_integer(9),
            ST_INVALID_ARGUMENT, "9 is above the 8 experts");
    with("qwen3_5_moe", "num_experts", json_integer(2));
    with("qwen3_5_moe", "num_experts", json_integer(MODEL_EXPERTS_MAX));
    refused("qwen3_5_moe", "num_experts", json_integer(0), ST_INVALID_ARGUMENT,
            "num_experts is 0, 1 to 1024");
    refused("qwen3_moe", "num_experts", json_integer(MODEL_EXPERTS_MAX + 1),
            ST_INVALID_ARGUMENT, "num_experts is 1025");
    bounded("qwen3_moe", "moe_intermediate_size", 1, MODEL_INTERMEDIATE_MAX);
    bounded("gpt_oss", "intermediate_size", 1, MODEL_INTERMEDIATE_MAX);
    bounded("qwen3_next", "shared_expert_intermediate_size", 0,
            MODEL_INTERMEDIATE_MAX);
    bounded("qwen3_moe", "decoder_sparse_step", 1, MODEL_LAYERS_MAX);
    refused("qwen3_moe", "mlp_only_layers", json_pack("[i]", 4),
            ST_INVALID_ARGUMENT, "entry 0 of mlp_only_layers");
    refused("qwen3_moe", "mlp_only_layers", json_pack("[i, i]", 0, -1),
            ST_INVALID_ARGUMENT, "entry 1 of mlp_only_layers");
    refused("qwen3_moe", "mlp_only_layers", json_integer(1),
            ST_INVALID_ARGUMENT, "not a list");
}

static void bounds_top_k(void **state)
{
    json_t *j = mixture("qwen3_moe");
    struct model_config c;
    struct error e;

    (void)state;
    json_object_set_new(j, "num_experts", json_integer(64));
    json_object_set_new(j, "num_experts_per_tok",
                        json_integer(MODEL_TOP_K_MAX));
    fixture_parsed(j);
    json_object_set_new(j, "num_experts_per_tok",
                        json_integer(MODEL_TOP_K_MAX + 1));
    assert_int_equal(fixture_parse(&c, j, &e), ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "num_experts_per_tok is 33"));
    json_decref(j);
}

/* Each feature by its name, and the values that leave it out. */
static void refuses_foreign_features(void **state)
{
    (void)state;
    refused("qwen3_moe", "kv_lora_rank", json_integer(512), ST_UNIMPLEMENTED,
            "multi-head latent attention (kv_lora_rank is 512)");
    refused("qwen3_moe", "ssm_state_size", json_integer(128), ST_UNIMPLEMENTED,
            "a Mamba-2 layer (ssm_state_size is 128)");
    refused("qwen3_moe", "mamba_d_state", json_integer(16), ST_UNIMPLEMENTED,
            "Mamba-2");
    refused("qwen3_moe", "hybrid_override_pattern", json_string("M-M*"),
            ST_UNIMPLEMENTED, "\"M-M*\"");
    refused("qwen3_moe", "n_group", json_integer(8), ST_UNIMPLEMENTED,
            "groups of experts (n_group is 8)");
    refused("qwen3_moe", "topk_group", json_integer(4), ST_UNIMPLEMENTED,
            "topk_group is 4");
    refused("qwen3_moe", "scoring_func", json_string("sigmoid"),
            ST_UNIMPLEMENTED, "softmax (scoring_func is \"sigmoid\")");
    refused("qwen3_moe", "topk_method", json_string("noaux_tc"),
            ST_UNIMPLEMENTED, "e_score_correction_bias");
    refused("qwen3_moe", "use_expert_bias", json_true(), ST_UNIMPLEMENTED,
            "e_score_correction_bias (use_expert_bias is true)");
    refused("qwen3_moe", "routed_scaling_factor", json_real(2.5),
            ST_UNIMPLEMENTED, "routed_scaling_factor is 2.5");
    refused("gemma3_text", "use_bidirectional_attention", json_true(),
            ST_UNIMPLEMENTED, "later positions");
    refused("qwen3_moe", "n_group", json_array(), ST_UNIMPLEMENTED, "a list");
    with("qwen3_moe", "kv_lora_rank", json_null());
    with("qwen3_moe", "kv_lora_rank", json_integer(0));
    with("qwen3_moe", "n_group", json_integer(1));
    with("qwen3_moe", "scoring_func", json_string("softmax"));
    with("qwen3_moe", "topk_method", json_string("greedy"));
    with("qwen3_moe", "routed_scaling_factor", json_real(1));
    with("qwen3_moe", "use_expert_bias", json_false());
}

/* ---- windows ---- */

static void reads_windows(void **state)
{
    json_t *j = fixture_config("mistral");
    struct model_config c;

    (void)state;
    json_object_set_new(j, "sliding_window", json_integer(32));
    c = fixture_parsed(j);
    assert_layers(&c, "wwww", "dddd");
    assert_int_equal(c.shape.window, 32);
    assert_memory_equal(&c.shape.rope, &c.shape.window_rope,
                        sizeof c.shape.rope);
    json_object_set_new(j, "sliding_window", json_null());
    c = fixture_parsed(j);
    assert_layers(&c, "aaaa", "dddd");
    /* The reference's default is 4096. */
    json_object_del(j, "sliding_window");
    json_object_set_new(j, "max_position_embeddings", json_integer(8192));
    c = fixture_parsed(j);
    assert_layers(&c, "wwww", "dddd");
    assert_int_equal(c.shape.window, 4096);
    /* A window of the whole context is none. */
    json_object_set_new(j, "sliding_window", json_integer(8191));
    assert_int_equal(fixture_parsed(j).shape.window, 8191);
    json_object_set_new(j, "sliding_window", json_integer(8192));
    c = fixture_parsed(j);
    assert_layers(&c, "aaaa", "dddd");
    assert_int_equal(c.shape.window + c.shape.window_rope.dim, 0);
    json_decref(j);
}

/* Window layers begin at max_window_layers, or are listed. */
static void reads_windows_of_qwen(void **state)
{
    json_t *j = fixture_config("qwen2");
    struct model_config c;
    struct error e;

    (void)state;
    json_object_set_new(j, "sliding_window", json_integer(64));
    c = fixture_parsed(j);
    assert_layers(&c, "aaaa", "dddd");
    json_object_set_new(j, "use_sliding_window", json_true());
    c = fixture_parsed(j);
    assert_layers(&c, "aaaa", "dddd"); /* max_window_layers is 28 */
    json_object_set_new(j, "max_window_layers", json_integer(3));
    c = fixture_parsed(j);
    assert_layers(&c, "aaaw", "dddd");
    json_object_set_new(j, "layer_types",
                        json_pack("[s, s, s, s]", "sliding_attention",
                                  "full_attention", "sliding_attention",
                                  "full_attention"));
    c = fixture_parsed(j);
    assert_layers(&c, "wawa", "dddd");
    json_object_set_new(j, "use_sliding_window", json_false());
    assert_int_equal(fixture_parse(&c, j, &e), ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "layer 0 is \"sliding_attention\""));
    json_decref(j);
    j = mixture("qwen3_moe");
    json_object_set_new(j, "sliding_window", json_integer(64));
    json_object_set_new(j, "use_sliding_window", json_true());
    c = fixture_parsed(j);
    assert_layers(&c, "wwww", "eeee");
    json_decref(j);
}

static void reads_window_patterns(void **state)
{
    struct model_config c = with("gemma3", NULL, NULL);

    (void)state;
    assert_layers(&c, "wwww", "dddd"); /* every sixth is global */
    c = with("gemma3_text", "sliding_window_pattern", json_integer(2));
    assert_layers(&c, "wawa", "dddd");
    c = with("gemma3_text", "_sliding_window_pattern", json_integer(3));
    assert_layers(&c, "wwaw", "dddd");
    c = with("gpt_oss", NULL, NULL);
    assert_layers(&c, "wawa", "eeee");
    c = with("gemma3", "sliding_window", json_null());
    assert_layers(&c, "aaaa", "dddd");
    /* A window of Gemma has its own theta, so it stays one. */
    c = with("gemma3", "sliding_window", json_integer(256));
    assert_int_equal(c.shape.window, 256);
}

static void bounds_windows(void **state)
{
    (void)state;
    bounded("gpt_oss", "sliding_window", 1, MODEL_CONTEXT_MAX);
    bounded("gemma3", "sliding_window_pattern", 1, MODEL_LAYERS_MAX);
    refused("gemma3", "layer_types", json_pack("[s]", "sliding_attention"),
            ST_INVALID_ARGUMENT, "num_hidden_layers (4)");
}

/* ---- rotary positions ---- */

static json_t *yarn(const char *key, json_t *value)
{
    json_t *j = json_pack("{s:s, s:f, s:i}", "rope_type", "yarn", "factor", 4.0,
                          "original_max_position_embeddings", 128);

    assert_non_null(j);
    if (key != NULL) {
        json_object_set_new(j, key, value);
    }
    return j;
}

static struct rope_shape yarn_with(const char *key, json_t *value)
{
    return with("qwen3", "rope_scaling", yarn(key, value)).shape.rope;
}

static void reads_yarn(void **state)
{
    double log4 = 0.1 * log(4) + 1;
    struct rope_shape r = yarn_with(NULL, NULL);
    json_t *scales = yarn("mscale", json_real(0.707));

    (void)state;
    assert_true(r.kind == ROPE_YARN && r.factor == 4 && r.truncate);
    assert_true(r.beta_fast == 32 && r.beta_slow == 1 && r.original == 128);
    assert_true(fabs(r.attention - log4) < 1e-7);
    r = yarn_with("attention_factor", json_real(1.25));
    assert_true(r.attention == 1.25);
    r = yarn_with("truncate", json_false());
    assert_false(r.truncate);
    r = yarn_with("factor", json_integer(1));
    assert_true(r.attention == 1);
    r = yarn_with("original_max_position_embeddings", json_null());
    assert_int_equal(r.original, 256); /* max_position_embeddings */
    /* One scale alone does not count. */
    r = yarn_with("mscale", json_real(2));
    assert_true(fabs(r.attention - log4) < 1e-7);
    json_object_set_new(scales, "mscale_all_dim", json_real(1));
    r = with("llama", "rope_scaling", scales).shape.rope;
    assert_true(fabs(r.attention - (0.0707 * log(4) + 1) / log4) < 1e-7);
}

/* The context is what yarn reaches, unless the file has a longer one. */
static void yarn_extends_the_context(void **state)
{
    struct model_config c = with("qwen2", "rope_scaling", yarn(NULL, NULL));

    (void)state;
    assert_int_equal(c.shape.context, 512);
    c = with("qwen2", "rope_scaling", yarn("factor", json_integer(2)));
    assert_int_equal(c.shape.context, 256);
    c = with("qwen2", "rope_scaling",
             yarn("original_max_position_embeddings",
                  json_integer(MODEL_CONTEXT_MAX)));
    assert_int_equal(c.shape.context, MODEL_CONTEXT_MAX);
}

static void bounds_yarn(void **state)
{
    static const char *const keys[] = {"beta_fast", "mscale", "mscale_all_dim",
                                       "attention_factor"};

    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        yarn_with(keys[i], json_integer(MODEL_YARN_MAX));
        refused("qwen3", "rope_scaling",
                yarn(keys[i], json_integer(MODEL_YARN_MAX + 1)),
                ST_INVALID_ARGUMENT, keys[i]);
        refused("qwen3", "rope_scaling", yarn(keys[i], json_integer(-1)),
                ST_INVALID_ARGUMENT, keys[i]);
    }
    yarn_with("beta_slow", json_integer(32)); /* beta_fast */
    refused("qwen3", "rope_scaling", yarn("beta_slow", json_integer(33)),
            ST_INVALID_ARGUMENT, "beta_fast 32 is below beta_slow 33");
    yarn_with("factor", json_integer(MODEL_FACTOR_MAX));
    refused("qwen3", "rope_scaling",
            yarn("factor", json_integer(MODEL_FACTOR_MAX + 1)),
            ST_INVALID_ARGUMENT, "factor");
    refused("qwen3", "rope_scaling", yarn("factor", json_null()),
            ST_INVALID_ARGUMENT, "without a factor");
    refused("qwen3", "rope_scaling",
            yarn("original_max_position_embeddings", json_integer(0)),
            ST_INVALID_ARGUMENT, "original_max_position_embeddings");
    refused("qwen3", "rope_scaling", yarn("truncate", json_integer(1)),
            ST_INVALID_ARGUMENT, "truncate");
    refused("gpt_oss", "rope_scaling", json_null(), ST_INVALID_ARGUMENT,
            "rope_scaling is missing");
}

/* Both forms of Gemma's two rotary bases. */
static void windows_have_their_own_theta(void **state)
{
    struct model_config c =
        with("gemma3", "rope_scaling",
             json_pack("{s:s, s:f}", "rope_type", "linear", "factor", 8.0));

    (void)state;
    assert_true(c.shape.rope.kind == ROPE_LINEAR && c.shape.rope.factor == 8);
    assert_true(c.shape.rope.theta == 1e6);
    assert_true(c.shape.window_rope.kind == ROPE_DEFAULT);
    assert_true(c.shape.window_rope.theta == 1e4);
    c = with("gemma3", "rope_local_base_freq", json_integer(500));
    assert_true(c.shape.window_rope.theta == 500 && c.shape.rope.theta == 1e6);
    c = with("gemma3", "rope_theta", json_integer(500));
    assert_true(c.shape.window_rope.theta == 1e4 && c.shape.rope.theta == 500);
    c = with("gemma3", "rope_parameters",
             json_pack("{s:{s:s, s:f, s:f}, s:{s:s, s:f}}", "full_attention",
                       "rope_type", "linear", "factor", 2.0, "rope_theta", 5e5,
                       "sliding_attention", "rope_type", "default",
                       "rope_theta", 1e3));
    assert_true(c.shape.rope.kind == ROPE_LINEAR && c.shape.rope.theta == 5e5);
    assert_true(c.shape.window_rope.kind == ROPE_DEFAULT);
    assert_true(c.shape.window_rope.theta == 1e3);
    refused("gemma3", "rope_local_base_freq", json_real(0.5),
            ST_INVALID_ARGUMENT, "rope_local_base_freq");
}

/* ---- activations and caps ---- */

static void reads_activations(void **state)
{
    struct model_config c = with("gpt_oss", "swiglu_limit", json_real(5.5));

    (void)state;
    assert_true(c.shape.activation.limit == 5.5f &&
                c.shape.activation.alpha == 1.702f);
    refused("gpt_oss", "swiglu_limit", json_integer(0), ST_INVALID_ARGUMENT,
            "swiglu_limit");
    with("gpt_oss", "swiglu_limit", json_integer(MODEL_CAP_MAX));
    refused("gpt_oss", "swiglu_limit", json_integer(MODEL_CAP_MAX + 1),
            ST_INVALID_ARGUMENT, "swiglu_limit");
    with("gemma3", "hidden_activation", json_string("gelu_pytorch_tanh"));
    refused("gemma3", "hidden_activation", json_string("silu"),
            ST_UNIMPLEMENTED, "hidden_activation \"silu\"");
    refused("gemma3", "hidden_activation", json_string("gelu"),
            ST_UNIMPLEMENTED, "gelu_pytorch_tanh is");
    refused("gpt_oss", "hidden_act", json_string("gelu"), ST_UNIMPLEMENTED,
            "\"gelu\"");
}

static void reads_caps(void **state)
{
    static const char *const keys[] = {"attn_logit_softcapping",
                                       "final_logit_softcapping",
                                       "query_pre_attn_scalar"};
    struct model_config c = with("gemma3", keys[0], json_real(50));

    (void)state;
    assert_true(c.shape.attn_cap == 50 && c.shape.stream.cap == 0);
    assert_true(c.shape.attn_scale == 1.0f / 16);
    c = with("gemma3", keys[1], json_real(30));
    assert_true(c.shape.attn_cap == 0 && c.shape.stream.cap == 30);
    c = with("gemma3", keys[2], json_integer(64));
    assert_true(c.shape.attn_scale == 0.125f);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        with("gemma3", keys[i], json_integer(MODEL_CAP_MAX));
        refused("gemma3", keys[i], json_integer(MODEL_CAP_MAX + 1),
                ST_INVALID_ARGUMENT, keys[i]);
        refused("gemma3", keys[i], json_integer(0), ST_INVALID_ARGUMENT,
                keys[i]);
    }
}

/* ---- weight formats ---- */

static json_t *fp8(const char *key, json_t *value)
{
    json_t *j =
        json_pack("{s:s, s:s, s:[i, i]}", "quant_method", "fp8",
                  "activation_scheme", "static", "weight_block_size", 128, 128);

    assert_non_null(j);
    if (key != NULL) {
        json_object_set_new(j, key, value);
    }
    return j;
}

static void reads_weight_formats(void **state)
{
    const char *key = "quantization_config";
    struct model_config c = with("llama", key, fp8(NULL, NULL));

    (void)state;
    assert_true(c.quant.format == WEIGHT_FP8 && c.quant.bits == 0);
    with("llama", key, fp8("fmt", json_string("e4m3")));
    refused("llama", key, fp8("fmt", json_string("e5m2")), ST_UNIMPLEMENTED,
            "\"e5m2\"");
    refused("llama", key, fp8("weight_block_size", json_null()),
            ST_UNIMPLEMENTED, "weight_block_size is not [128, 128]");
    refused("llama", key,
            fp8("weight_block_size", json_pack("[i, i]", 128, 64)),
            ST_UNIMPLEMENTED, "weight_block_size");
    refused("llama", key,
            fp8("weight_block_size", json_pack("[i, i, i]", 128, 128, 1)),
            ST_UNIMPLEMENTED, "weight_block_size");
    c = with("gpt_oss", key, json_pack("{s:s}", "quant_method", "mxfp4"));
    assert_true(c.quant.format == WEIGHT_MXFP4 && c.quant.experts_only);
    refused("llama", key, json_pack("{s:s}", "quant_method", "mxfp4"),
            ST_UNIMPLEMENTED, "mxfp4");
    refused("llama", key, json_pack("{s:s}", "quant_method", "gptq"),
            ST_UNIMPLEMENTED, "by \"gptq\"");
}

/* MLX's object beside another method. */
static void formats_must_agree(void **state)
{
    json_t *j = mixture("qwen3_moe");
    struct model_config c;
    struct error e;

    (void)state;
    json_object_set_new(j, "quantization",
                        json_pack("{s:i, s:i}", "bits", 4, "group_size", 64));
    json_object_set_new(j, "quantization_config", fp8(NULL, NULL));
    assert_int_equal(fixture_parse(&c, j, &e), ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "different kinds"));
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chooses_layers_with_experts),
        cmocka_unit_test(reads_experts),
        cmocka_unit_test(knows_the_names_of_experts),
        cmocka_unit_test(fills_in_for_experts),
        cmocka_unit_test(bounds_experts),
        cmocka_unit_test(bounds_top_k),
        cmocka_unit_test(refuses_foreign_features),
        cmocka_unit_test(reads_windows),
        cmocka_unit_test(reads_windows_of_qwen),
        cmocka_unit_test(reads_window_patterns),
        cmocka_unit_test(bounds_windows),
        cmocka_unit_test(reads_yarn),
        cmocka_unit_test(yarn_extends_the_context),
        cmocka_unit_test(bounds_yarn),
        cmocka_unit_test(windows_have_their_own_theta),
        cmocka_unit_test(reads_activations),
        cmocka_unit_test(reads_caps),
        cmocka_unit_test(reads_weight_formats),
        cmocka_unit_test(formats_must_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
