#include "worker/model/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/model/fixture.h"

static struct model_config parsed(const json_t *j)
{
    struct model_config c;
    struct error e;

    if (fixture_parse(&c, j, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    return c;
}

/* Setting key to value (stolen) is refused with code, and says `text`. */
static void refused(const char *family, const char *key, json_t *value,
                    enum status code, const char *text)
{
    json_t *j = fixture_config(family);
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

static void accepted(const char *family, const char *key, json_t *value)
{
    json_t *j = fixture_config(family);

    assert_non_null(value);
    json_object_set_new(j, key, value);
    parsed(j);
    json_decref(j);
}

/* Every number at its limits and one past them. */
static void bounded(const char *family, const char *key, long min, long max)
{
    accepted(family, key, json_integer(min));
    accepted(family, key, json_integer(max));
    refused(family, key, json_integer(min - 1), ST_INVALID_ARGUMENT, key);
    refused(family, key, json_integer(max + 1), ST_INVALID_ARGUMENT, key);
    refused(family, key, json_real(1.5), ST_INVALID_ARGUMENT, key);
    refused(family, key, json_string("8"), ST_INVALID_ARGUMENT, key);
}

static void reads_tiny_hybrid(void **state)
{
    struct model_config c;
    struct error e;

    (void)state;
    assert_int_equal(config_load(&c, TINY_HYBRID, &e), ST_OK);
    assert_string_equal(c.name, "tiny-hybrid");
    assert_string_equal(c.family, "qwen3_5_text");
    assert_int_equal(c.shape.n_layers, 8);
    assert_int_equal(c.shape.hidden, 256);
    assert_int_equal(c.shape.vocab, 4096);
    assert_int_equal(c.shape.n_heads, 2);
    assert_int_equal(c.shape.n_kv_heads, 1);
    assert_int_equal(c.shape.head_dim, 256);
    assert_true(c.shape.attn_gated);
    assert_int_equal(c.shape.rope.dim, 64);
    assert_true(c.shape.rope.theta == 10000.0);
    assert_int_equal(c.shape.n_k_heads, 2);
    assert_int_equal(c.shape.n_v_heads, 4);
    assert_int_equal(c.shape.k_dim, 128);
    assert_int_equal(c.shape.conv, 4);
    assert_int_equal(c.shape.dtype, DTYPE_BF16);
    assert_true(c.tied);
    assert_true(c.norms == NORM_GAMMA_MINUS_1);
    assert_int_equal(c.n_mtp, 1);
    assert_int_equal(config_count(&c, MIXER_ATTENTION, 0, 8), 2);
    assert_int_equal(c.mixers[3], MIXER_ATTENTION);
    assert_int_equal(c.mixers[4], MIXER_DELTANET);
    assert_int_equal(c.n_eos, 2);
    assert_int_equal(c.eos[0], 4091);
    assert_int_equal(c.eos[1], 4089);
    assert_false(c.has_bos);
}

static void names_dot(void **state)
{
    struct model_config c;
    struct error e;

    (void)state;
    assert_int_equal(config_load(&c, TINY_HYBRID "/.", &e), ST_OK);
    assert_string_equal(c.name, "tiny-hybrid");
    assert_int_equal(config_load(&c, "models", &e), ST_NOT_FOUND);
    assert_non_null(strstr(e.text, "config.json"));
}

static void reads_nested(void **state)
{
    json_t *inner = fixture_config("qwen3_5_text");
    json_t *j;
    struct model_config flat = parsed(inner), c;

    (void)state;
    json_object_set_new(inner, "eos_token_id", json_integer(7));
    json_object_del(inner, "vocab_size");
    json_object_set_new(inner, "mtp_num_hidden_layers", json_integer(1));
    j = json_pack("{s:s, s:O, s:i, s:[i, i], s:b, s:i}", "model_type",
                  "qwen3_5", "text_config", inner, "vocab_size", 64,
                  "eos_token_id", 9, 7, "tie_word_embeddings", 1,
                  "num_hidden_layers", 99);
    c = parsed(j);
    /* Absent inside: taken from outside.  Inside wins. */
    assert_int_equal(c.shape.vocab, 64);
    assert_int_equal(c.shape.n_layers, 4);
    assert_false(c.tied);
    assert_string_equal(c.family, "qwen3_5_text");
    assert_memory_equal(&c.shape, &flat.shape, sizeof c.shape);
    assert_int_equal(c.n_eos, 2);
    assert_int_equal(c.eos[0], 7);
    assert_int_equal(c.eos[1], 9);
    assert_int_equal(c.n_mtp, 1);
    json_object_del(inner, "tie_word_embeddings");
    assert_true(parsed(j).tied);
    json_decref(inner);
    json_decref(j);
}

static void finds_family_by_architecture(void **state)
{
    json_t *j = fixture_config("llama");

    (void)state;
    json_object_del(j, "model_type");
    json_object_set_new(j, "architectures",
                        json_pack("[s]", "Qwen2ForCausalLM"));
    assert_string_equal(parsed(j).family, "qwen2");
    json_decref(j);
}

static void knows_families(void **state)
{
    struct model_config c;
    json_t *j = fixture_config("qwen2");

    (void)state;
    c = parsed(j);
    assert_true(c.qkv_bias && !c.o_bias && !c.qk_norm);
    assert_true(c.norms == NORM_GAMMA);
    assert_false(c.shape.attn_gated);
    assert_int_equal(c.shape.n_k_heads, 0);
    assert_int_equal(c.shape.rope.dim, 16);
    json_object_set_new(j, "model_type", json_string("qwen3"));
    c = parsed(j);
    assert_true(!c.qkv_bias && !c.o_bias && c.qk_norm);
    json_object_set_new(j, "model_type", json_string("llama"));
    json_object_set_new(j, "attention_bias", json_true());
    c = parsed(j);
    assert_true(c.qkv_bias && c.o_bias && !c.qk_norm);
    json_object_set_new(j, "model_type", json_string("qwen3_next"));
    c = parsed(j);
    assert_true(c.linear == LINEAR_GROUPED && c.shape.attn_gated);
    assert_true(c.norms == NORM_GAMMA_MINUS_1);
    assert_int_equal(config_count(&c, MIXER_DELTANET, 0, 4), 3);
    json_decref(j);
}

static void derives_defaults(void **state)
{
    json_t *j = fixture_config("llama");
    struct model_config c;

    (void)state;
    json_object_del(j, "head_dim");
    json_object_del(j, "num_key_value_heads");
    json_object_del(j, "max_position_embeddings");
    json_object_del(j, "dtype");
    c = parsed(j);
    assert_int_equal(c.shape.head_dim, 8);
    assert_int_equal(c.shape.n_kv_heads, 4);
    assert_int_equal(c.shape.context, 2048);
    assert_int_equal(c.shape.dtype, DTYPE_BF16);
    json_object_set_new(j, "torch_dtype", json_string("torch.float16"));
    assert_int_equal(parsed(j).shape.dtype, DTYPE_F16);
    json_object_set_new(j, "model_type", json_string("qwen3_5"));
    c = parsed(j);
    assert_int_equal(c.shape.head_dim, 256);
    assert_int_equal(c.shape.rope.dim, 64);
    assert_int_equal(c.shape.context, 32768);
    json_decref(j);
}

static void takes_interval_or_list(void **state)
{
    json_t *j = fixture_config("qwen3_5");
    struct model_config c;

    (void)state;
    json_object_set_new(j, "full_attention_interval", json_integer(2));
    c = parsed(j);
    assert_int_equal(c.mixers[0], MIXER_DELTANET);
    assert_int_equal(c.mixers[1], MIXER_ATTENTION);
    assert_int_equal(c.mixers[3], MIXER_ATTENTION);
    json_object_set_new(j, "layer_types",
                        json_pack("[s, s, s, s]", "full_attention",
                                  "linear_attention", "linear_attention",
                                  "linear_attention"));
    c = parsed(j);
    assert_int_equal(c.mixers[0], MIXER_ATTENTION);
    assert_int_equal(config_count(&c, MIXER_DELTANET, 0, 4), 3);
    /* No attention at all: its numbers are 0 and not asked for. */
    json_array_set_new(json_object_get(j, "layer_types"), 0,
                       json_string("linear_attention"));
    json_object_del(j, "num_attention_heads");
    c = parsed(j);
    assert_int_equal(c.shape.n_heads, 0);
    json_decref(j);
}

static void refuses_mixers(void **state)
{
    (void)state;
    refused("qwen3", "layer_types",
            json_pack("[s, s, s, s]", "full_attention", "sliding_attention",
                      "full_attention", "full_attention"),
            ST_UNIMPLEMENTED, "\"sliding_attention\"");
    refused("qwen3_5", "layer_types", json_pack("[s]", "full_attention"),
            ST_INVALID_ARGUMENT, "layer_types");
    refused("qwen3_5", "layer_types", json_pack("[i, i, i, i]", 1, 2, 3, 4),
            ST_UNIMPLEMENTED, "layer 0");
    refused("llama", "layer_types",
            json_pack("[s, s, s, s]", "full_attention", "linear_attention",
                      "full_attention", "full_attention"),
            ST_UNIMPLEMENTED, "linear_attention");
    bounded("qwen3_5", "full_attention_interval", 1, MODEL_LAYERS_MAX);
}

static void refuses_unsupported(void **state)
{
    (void)state;
    refused("qwen3_5_moe", "x", json_true(), ST_UNIMPLEMENTED,
            "\"qwen3_5_moe\"");
    refused("gemma3\n", "x", json_true(), ST_UNIMPLEMENTED, "gemma3\\x0a");
    refused("qwen3_next", "num_experts", json_integer(512), ST_UNIMPLEMENTED,
            "num_experts is 512");
    refused("llama", "num_local_experts", json_integer(8), ST_UNIMPLEMENTED,
            "experts");
    refused("mistral", "sliding_window", json_integer(4096), ST_UNIMPLEMENTED,
            "sliding window (of 4096)");
    refused("llama", "hidden_act", json_string("gelu"), ST_UNIMPLEMENTED,
            "\"gelu\"");
    refused("qwen3_5", "output_gate_type", json_string("sigmoid"),
            ST_UNIMPLEMENTED, "output_gate_type \"sigmoid\"");
    refused("llama", "quantization_config",
            json_pack("{s:s}", "quant_method", "fp8"), ST_UNIMPLEMENTED,
            "\"fp8\"");
    refused("llama", "quantization", json_pack("{s:i}", "bits", 4),
            ST_UNIMPLEMENTED, "quantised");
    refused("llama", "mlp_bias", json_true(), ST_UNIMPLEMENTED, "mlp_bias");
    refused("llama", "dtype", json_string("int8"), ST_UNIMPLEMENTED, "int8");
    accepted("qwen3_5", "output_gate_type", json_string("swish"));
    accepted("qwen3_next", "num_experts", json_integer(0));
    accepted("mistral", "sliding_window", json_null());
}

static void window_counts_if_used(void **state)
{
    json_t *j = fixture_config("qwen2");
    struct model_config c;
    struct error e;

    (void)state;
    /* Qwen has both, and without the flag there is no window. */
    json_object_set_new(j, "sliding_window", json_integer(64));
    parsed(j);
    json_object_set_new(j, "use_sliding_window", json_false());
    parsed(j);
    json_object_set_new(j, "use_sliding_window", json_true());
    assert_int_equal(fixture_parse(&c, j, &e), ST_UNIMPLEMENTED);
    json_decref(j);
}

/* An older name inside beats a newer one outside; in one place it does not. */
static void knows_older_names(void **state)
{
    json_t *inner = fixture_config("qwen3_5_text");
    json_t *j = json_pack("{s:O, s:s, s:i}", "text_config", inner, "dtype",
                          "float32", "mtp_num_hidden_layers", 2);

    (void)state;
    json_object_del(inner, "dtype");
    assert_int_equal(parsed(j).shape.dtype, DTYPE_F32);
    assert_int_equal(parsed(j).n_mtp, 2);
    json_object_set_new(inner, "torch_dtype", json_string("float16"));
    json_object_set_new(inner, "num_nextn_predict_layers", json_integer(3));
    assert_int_equal(parsed(j).shape.dtype, DTYPE_F16);
    assert_int_equal(parsed(j).n_mtp, 3);
    json_object_set_new(inner, "dtype", json_string("bfloat16"));
    json_object_set_new(inner, "mtp_num_hidden_layers", json_integer(1));
    assert_int_equal(parsed(j).shape.dtype, DTYPE_BF16);
    assert_int_equal(parsed(j).n_mtp, 1);
    json_object_set_new(inner, "dtype", json_null());
    assert_int_equal(parsed(j).shape.dtype, DTYPE_F16);
    json_decref(inner);
    json_decref(j);
}

/* Everything that may be absent from a Qwen3.5, and what it then is. */
static void fills_in_for_qwen35(void **state)
{
    json_t *j =
        json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "model_type",
                  "qwen3_5_text", "num_hidden_layers", 8, "hidden_size", 64,
                  "intermediate_size", 48, "vocab_size", 64,
                  "num_attention_heads", 4, "num_key_value_heads", 2,
                  "linear_num_key_heads", 2, "linear_num_value_heads", 4);
    struct model_config c = parsed(j);
    const struct model_shape *s = &c.shape;

    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(c.mixers[i],
                         i % 4 == 3 ? MIXER_ATTENTION : MIXER_DELTANET);
    }
    assert_int_equal(s->context, 32768);
    assert_int_equal(s->head_dim, 256);
    assert_int_equal(s->k_dim, 128);
    assert_int_equal(s->v_dim, 128);
    assert_int_equal(s->conv, 4);
    assert_true(s->norm_eps == 1e-6f);
    assert_true(s->attn_gated && c.qk_norm);
    assert_false(c.qkv_bias || c.o_bias || c.tied || c.has_bos);
    assert_int_equal(s->dtype, DTYPE_BF16);
    assert_int_equal(s->rope.kind, ROPE_DEFAULT);
    assert_int_equal(s->rope.dim, 64);
    assert_true(s->rope.theta == 10000);
    assert_int_equal(c.n_mtp, 0);
    assert_int_equal(c.n_eos, 0);
    json_decref(j);
}

static void bounds_every_number(void **state)
{
    (void)state;
    bounded("llama", "num_hidden_layers", 1, MODEL_LAYERS_MAX);
    bounded("llama", "hidden_size", 1, MODEL_HIDDEN_MAX);
    bounded("llama", "intermediate_size", 1, MODEL_INTERMEDIATE_MAX);
    bounded("llama", "vocab_size", 1, MODEL_VOCAB_MAX);
    bounded("llama", "max_position_embeddings", 1, MODEL_CONTEXT_MAX);
    bounded("llama", "head_dim", 2, MODEL_HEAD_DIM_MAX);
    bounded("qwen3_5", "linear_key_head_dim", 1, MODEL_KEY_DIM_MAX);
    bounded("qwen3_5", "linear_value_head_dim", 1, MODEL_VALUE_DIM_MAX);
    bounded("qwen3_5", "linear_conv_kernel_dim", MODEL_CONV_MIN,
            MODEL_CONV_MAX);
    bounded("qwen3_5", "mtp_num_hidden_layers", 0, MODEL_MTP_MAX);
    bounded("qwen3_5", "num_nextn_predict_layers", 0, MODEL_MTP_MAX);
    refused("llama", "num_hidden_layers", json_integer(1L << 31),
            ST_INVALID_ARGUMENT, "num_hidden_layers is 2147483648");
    refused("llama", "num_attention_heads", json_integer(0),
            ST_INVALID_ARGUMENT, "num_attention_heads");
    refused("llama", "num_attention_heads", json_integer(MODEL_HEADS_MAX + 1),
            ST_INVALID_ARGUMENT, "1024");
    accepted("llama", "num_attention_heads", json_integer(MODEL_HEADS_MAX));
    refused("llama", "num_key_value_heads", json_integer(0),
            ST_INVALID_ARGUMENT, "num_key_value_heads");
    refused("qwen3_5", "linear_num_key_heads", json_integer(0),
            ST_INVALID_ARGUMENT, "linear_num_key_heads");
    accepted("qwen3_5", "linear_num_value_heads",
             json_integer(MODEL_HEADS_MAX));
    refused("qwen3_5", "linear_num_value_heads",
            json_integer(MODEL_HEADS_MAX + 2), ST_INVALID_ARGUMENT, "1024");
}

static void refuses_contradictions(void **state)
{
    json_t *j = fixture_config("llama");
    struct model_config c;
    struct error e;

    (void)state;
    refused("llama", "num_key_value_heads", json_integer(3),
            ST_INVALID_ARGUMENT, "no multiple");
    refused("qwen3_5", "linear_num_value_heads", json_integer(3),
            ST_INVALID_ARGUMENT, "no multiple");
    refused("qwen3_5", "partial_rotary_factor", json_real(0.2),
            ST_INVALID_ARGUMENT, "3 of 16 dimensions");
    refused("qwen3_5", "partial_rotary_factor", json_real(0.01),
            ST_INVALID_ARGUMENT, "0 of 16 dimensions");
    refused("llama", "rms_norm_eps", json_real(0), ST_INVALID_ARGUMENT,
            "rms_norm_eps");
    refused("llama", "rms_norm_eps", json_real(0.2), ST_INVALID_ARGUMENT,
            "rms_norm_eps");
    accepted("llama", "rms_norm_eps", json_real(MODEL_EPS_MAX));
    refused("llama", "tie_word_embeddings", json_integer(1),
            ST_INVALID_ARGUMENT, "tie_word_embeddings");
    refused("llama", "text_config", json_integer(1), ST_INVALID_ARGUMENT,
            "text_config");
    json_object_del(j, "head_dim");
    json_object_set_new(j, "num_attention_heads", json_integer(6));
    assert_int_equal(fixture_parse(&c, j, &e), ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "head_dim is missing"));
    json_decref(j);
}

static void requires_sizes(void **state)
{
    static const char *const keys[] = {
        "num_hidden_layers",    "hidden_size",           "intermediate_size",
        "vocab_size",           "num_attention_heads",   "model_type",
        "linear_num_key_heads", "linear_num_value_heads"};

    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        json_t *j = fixture_config("qwen3_5");
        struct model_config c;
        struct error e;

        json_object_del(j, keys[i]);
        assert_int_not_equal(fixture_parse(&c, j, &e), ST_OK);
        json_decref(j);
    }
}

static json_t *llama3(double factor)
{
    return json_pack("{s:s, s:f, s:f, s:f, s:i}", "rope_type", "llama3",
                     "factor", factor, "low_freq_factor", 1.0,
                     "high_freq_factor", 4.0,
                     "original_max_position_embeddings", 128);
}

static void reads_rope_scaling(void **state)
{
    json_t *j = fixture_config("llama");
    struct rope_shape r;

    (void)state;
    json_object_set_new(j, "rope_theta", json_integer(500000));
    json_object_set_new(j, "rope_scaling", llama3(32));
    r = parsed(j).shape.rope;
    assert_true(r.kind == ROPE_LLAMA3 && r.theta == 500000 && r.factor == 32);
    assert_true(r.low_freq == 1 && r.high_freq == 4 && r.original == 128);
    /* rope_parameters wins over both, and lacks a theta. */
    json_object_set_new(j, "rope_parameters",
                        json_pack("{s:s, s:i, s:i}", "rope_type", "linear",
                                  "factor", 2, "unknown_key", 1));
    r = parsed(j).shape.rope;
    assert_true(r.kind == ROPE_LINEAR && r.theta == 500000 && r.factor == 2);
    json_object_set_new(json_object_get(j, "rope_parameters"), "rope_theta",
                        json_real(1e6));
    assert_true(parsed(j).shape.rope.theta == 1e6);
    json_decref(j);
}

static void reads_partial_rotary(void **state)
{
    json_t *j = fixture_config("qwen3_5");

    (void)state;
    json_object_set_new(j, "partial_rotary_factor", json_real(0.5));
    assert_int_equal(parsed(j).shape.rope.dim, 8);
    json_object_set_new(j, "rope_parameters",
                        json_pack("{s:f}", "partial_rotary_factor", 1.0));
    assert_int_equal(parsed(j).shape.rope.dim, 16);
    json_object_set_new(j, "rope_parameters",
                        json_pack("{s:f, s:[i, i, i]}", "partial_rotary_factor",
                                  1.0, "mrope_section", 4, 2, 2));
    assert_int_equal(parsed(j).shape.rope.dim, 16);
    json_decref(j);
}

static void refuses_rope(void **state)
{
    (void)state;
    refused("llama", "rope_scaling",
            json_pack("{s:s, s:i}", "type", "yarn", "factor", 4),
            ST_UNIMPLEMENTED, "\"yarn\"");
    refused("llama", "rope_scaling", json_pack("{s:s}", "type", "linear"),
            ST_INVALID_ARGUMENT, "factor");
    refused("llama", "rope_scaling", json_integer(4), ST_INVALID_ARGUMENT,
            "rope_scaling");
    refused("llama", "rope_scaling", llama3(0.5), ST_INVALID_ARGUMENT,
            "factor");
    refused("llama", "rope_scaling", llama3(MODEL_FACTOR_MAX + 1.0),
            ST_INVALID_ARGUMENT, "factor");
    accepted("llama", "rope_scaling", llama3(MODEL_FACTOR_MAX));
    refused("llama", "rope_scaling",
            json_pack("{s:s, s:i, s:i, s:i}", "rope_type", "llama3", "factor",
                      8, "low_freq_factor", 4, "high_freq_factor", 4),
            ST_INVALID_ARGUMENT, "is not above");
    refused("llama", "rope_theta", json_real(0.5), ST_INVALID_ARGUMENT,
            "rope_theta");
    refused("llama", "rope_theta", json_real(1.1e12), ST_INVALID_ARGUMENT,
            "rope_theta");
    accepted("llama", "rope_theta", json_real(MODEL_THETA_MAX));
    refused("llama", "rope_theta", json_string("NaN"), ST_INVALID_ARGUMENT,
            "rope_theta");
    refused("qwen3_5", "rope_parameters",
            json_pack("{s:[i, i, i]}", "mrope_section", 11, 11, 10),
            ST_INVALID_ARGUMENT, "mrope_section");
}

/* Of two faults in the two places of rotary keys, the first is told. */
static void keeps_the_first_fault(void **state)
{
    json_t *j = fixture_config("qwen3_5");
    struct model_config c;
    struct error e;

    (void)state;
    json_object_set_new(j, "partial_rotary_factor", json_integer(7));
    json_object_set_new(j, "rope_parameters",
                        json_pack("{s:s}", "rope_type", "spiral"));
    assert_int_equal(fixture_parse(&c, j, &e), ST_UNIMPLEMENTED);
    assert_non_null(strstr(e.text, "\"spiral\""));
    json_decref(j);
}

/* What Python writes for a NaN or an infinity is not JSON. */
static void refuses_what_is_not_json(void **state)
{
    static const char *const texts[] = {
        "",
        "{",
        "[]",
        "{} {}",
        "{\"model_type\": \"llama\", \"model_type\": \"llama\"}",
        "{\"rope_theta\": NaN}",
        "{\"rope_theta\": 1e999}",
        "{\"vocab_size\": 99999999999999999999}",
        "{\"model_type\": \"\xff\"}",
    };
    struct model_config c;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct error e = {.code = ST_OK};

        assert_int_equal(config_parse(&c, texts[i], strlen(texts[i]), &e),
                         ST_INVALID_ARGUMENT);
        assert_int_not_equal(strlen(e.text), 0);
    }
    assert_int_equal(config_parse(&c, "", 0, NULL), ST_INVALID_ARGUMENT);
}

static void bounds_eos(void **state)
{
    json_t *ids = json_array();

    (void)state;
    for (int i = 0; i < MODEL_EOS_MAX; i++) {
        json_array_append_new(ids, json_integer(i));
    }
    json_array_append_new(ids, json_integer(3)); /* named before */
    accepted("llama", "eos_token_id", json_incref(ids));
    json_array_append_new(ids, json_integer(MODEL_EOS_MAX));
    refused("llama", "eos_token_id", ids, ST_INVALID_ARGUMENT, "more than");
    refused("llama", "eos_token_id", json_integer(64), ST_INVALID_ARGUMENT,
            "eos_token_id");
    refused("llama", "eos_token_id", json_integer(-1), ST_INVALID_ARGUMENT,
            "eos_token_id");
    refused("llama", "eos_token_id", json_string("</s>"), ST_INVALID_ARGUMENT,
            "eos_token_id");
    refused("llama", "bos_token_id", json_integer(64), ST_INVALID_ARGUMENT,
            "bos_token_id");
    accepted("llama", "bos_token_id", json_integer(63));
}

static void adds_generation(void **state)
{
    static const char more[] = "{\"eos_token_id\": [1, 2]}";
    static const char bad[] = "{\"eos_token_id\": [1, 64]}";
    json_t *j = fixture_config("llama");
    struct model_config c;
    struct error e;

    (void)state;
    json_object_set_new(j, "eos_token_id", json_integer(2));
    c = parsed(j);
    assert_int_equal(config_add_generation(&c, more, sizeof more - 1, &e),
                     ST_OK);
    assert_int_equal(c.n_eos, 2);
    assert_int_equal(c.eos[0], 2);
    assert_int_equal(c.eos[1], 1);
    assert_int_equal(config_add_generation(&c, bad, sizeof bad - 1, &e),
                     ST_INVALID_ARGUMENT);
    json_decref(j);
}

static void bounds_name(void **state)
{
    char name[MODEL_NAME_MAX + 2];
    struct model_config c;
    struct error e;

    (void)state;
    memset(name, 'a', sizeof name);
    name[MODEL_NAME_MAX + 1] = '\0';
    assert_int_equal(config_set_name(&c, name, &e), ST_INVALID_ARGUMENT);
    name[MODEL_NAME_MAX] = '\0';
    assert_int_equal(config_set_name(&c, name, &e), ST_OK);
    assert_string_equal(c.name, name);
    assert_int_equal(config_set_name(&c, "", &e), ST_INVALID_ARGUMENT);
    assert_int_equal(config_set_name(&c, "a\xc3", &e), ST_INVALID_ARGUMENT);
}

/* A document at a limit and one past it; padded with white space or nested. */
static void bounds_documents(void **state)
{
    size_t n = CONFIG_BYTES_MAX + 1;
    char *text = malloc(n), nested[2 * DOCUMENT_DEPTH_MAX + 16];
    json_t *j = fixture_config("llama");
    struct model_config c;
    struct error e;

    (void)state;
    assert_non_null(text);
    memset(text, ' ', n);
    json_dumpb(j, text, n, 0);
    assert_int_equal(config_parse(&c, text, n - 1, &e), ST_OK);
    assert_int_equal(config_parse(&c, text, n, &e), ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "4194304"));
    free(text);
    json_decref(j);
    for (int extra = 0; extra < 2; extra++) {
        int depth = DOCUMENT_DEPTH_MAX - 1 + extra;

        snprintf(nested, sizeof nested, "{\"a\":%.*s%.*s}", depth,
                 "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", depth,
                 "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]");
        assert_int_not_equal(config_parse(&c, nested, strlen(nested), &e),
                             ST_OK);
        assert_true((strstr(e.text, "nested more than 32") != NULL) ==
                    (extra == 1));
    }
}

static void bounds_values(void **state)
{
    size_t n = 2 * (size_t)DOCUMENT_VALUES_MAX + 16, len;
    char *text = malloc(n);
    struct model_config c;
    struct error e;

    (void)state;
    assert_non_null(text);
    /* An object, an array and, behind their commas, the rest. */
    for (size_t extra = 0; extra < 2; extra++) {
        len = (size_t)sprintf(text, "{\"a\":[1");
        for (size_t i = 0; i < DOCUMENT_VALUES_MAX - 2 + extra; i++) {
            text[len++] = ',';
            text[len++] = '1';
        }
        text[len++] = ']';
        text[len++] = '}';
        assert_int_not_equal(config_parse(&c, text, len, &e), ST_OK);
        assert_true((strstr(e.text, "more than 1048576 values") != NULL) ==
                    (extra == 1));
    }
    free(text);
}

static void reads_published_configs(void **state)
{
    static const struct {
        const char *file, *family;
        uint32_t layers, context;
    } rows[] = {
        {"qwen3.5-0.8b.json", "qwen3_5_text", 24, 262144},
        {"qwen3.5-27b.json", "qwen3_5_text", 64, 262144},
        {"llama-3.2-1b.json", "llama", 16, 131072},
        {"qwen2.5-0.5b.json", "qwen2", 24, 32768},
        {"qwen3-0.6b.json", "qwen3", 28, 40960},
    };
    char path[128];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct model_config c;
        struct error e;
        size_t len;
        char *text;

        snprintf(path, sizeof path, CONFIGS "/%s", rows[i].file);
        text = fixture_read(path, &len);
        assert_int_equal(config_parse(&c, text, len, &e), ST_OK);
        assert_string_equal(c.family, rows[i].family);
        assert_int_equal(c.shape.n_layers, rows[i].layers);
        assert_int_equal(c.shape.context, rows[i].context);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_tiny_hybrid),
        cmocka_unit_test(names_dot),
        cmocka_unit_test(reads_nested),
        cmocka_unit_test(finds_family_by_architecture),
        cmocka_unit_test(knows_families),
        cmocka_unit_test(derives_defaults),
        cmocka_unit_test(takes_interval_or_list),
        cmocka_unit_test(refuses_mixers),
        cmocka_unit_test(refuses_unsupported),
        cmocka_unit_test(window_counts_if_used),
        cmocka_unit_test(knows_older_names),
        cmocka_unit_test(fills_in_for_qwen35),
        cmocka_unit_test(bounds_every_number),
        cmocka_unit_test(refuses_contradictions),
        cmocka_unit_test(requires_sizes),
        cmocka_unit_test(reads_rope_scaling),
        cmocka_unit_test(reads_partial_rotary),
        cmocka_unit_test(refuses_rope),
        cmocka_unit_test(keeps_the_first_fault),
        cmocka_unit_test(refuses_what_is_not_json),
        cmocka_unit_test(bounds_eos),
        cmocka_unit_test(adds_generation),
        cmocka_unit_test(bounds_name),
        cmocka_unit_test(bounds_documents),
        cmocka_unit_test(bounds_values),
        cmocka_unit_test(reads_published_configs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
