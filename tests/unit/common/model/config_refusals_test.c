/* Refused config.json files with their messages, and every limit at its
 * edge. */
#include "common/model/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/model/fixture.h"

/* Setting key to value (stolen) must be refused with code and `text`. */
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
    fixture_parsed(j);
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

static void refuses_mixers(void **state)
{
    (void)state;
    refused("qwen3", "layer_types",
            json_pack("[s, s, s, s]", "full_attention", "chunked_attention",
                      "full_attention", "full_attention"),
            ST_UNIMPLEMENTED, "\"chunked_attention\"");
    refused("llama", "layer_types",
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
    refused("mamba", "x", json_true(), ST_UNIMPLEMENTED, "\"mamba\"");
    refused("gemma3\n", "x", json_true(), ST_UNIMPLEMENTED, "gemma3\\x0a");
    refused("qwen3_5", "num_experts", json_integer(512), ST_UNIMPLEMENTED,
            "num_experts is 512");
    refused("llama", "num_local_experts", json_integer(8), ST_UNIMPLEMENTED,
            "experts");
    refused("llama", "num_local_experts", json_string("8"), ST_INVALID_ARGUMENT,
            "num_local_experts is not a whole number");
    refused("llama", "sliding_window", json_integer(4096), ST_UNIMPLEMENTED,
            "sliding window (of 4096) in a llama model");
    refused("llama", "hidden_act", json_string("gelu"), ST_UNIMPLEMENTED,
            "\"gelu\"");
    refused("qwen3_5", "output_gate_type", json_string("sigmoid"),
            ST_UNIMPLEMENTED, "output_gate_type \"sigmoid\"");
    refused("llama", "quantization_config",
            json_pack("{s:s}", "quant_method", "awq"), ST_UNIMPLEMENTED,
            "\"awq\"");
    refused("llama", "mlp_bias", json_true(), ST_UNIMPLEMENTED, "mlp_bias");
    refused("llama", "dtype", json_string("int8"), ST_UNIMPLEMENTED, "int8");
    accepted("qwen3_5", "output_gate_type", json_string("swish"));
    accepted("qwen3_next", "num_experts", json_integer(0));
    accepted("mistral", "sliding_window", json_null());
}

static json_t *affine(int bits, int group)
{
    return json_pack("{s:i, s:i}", "bits", bits, "group_size", group);
}

/* Every accepted number, and its neighbours. */
static void bounds_quantisation(void **state)
{
    (void)state;
    for (int group = 0; group <= 2 * MODEL_GROUP_MAX; group++) {
        if (group == MODEL_GROUP_MIN || group == 64 ||
            group == MODEL_GROUP_MAX) {
            accepted("qwen3_5", "quantization", affine(4, group));
        } else {
            refused("qwen3_5", "quantization", affine(4, group),
                    ST_UNIMPLEMENTED, "group_size of \"quantization\" is");
        }
    }
    for (int bits = -1; bits <= 33; bits++) {
        if (bits == 4 || bits == 8) {
            accepted("llama", "quantization_config", affine(bits, 64));
        } else {
            refused("llama", "quantization_config", affine(bits, 64),
                    ST_UNIMPLEMENTED, "bits of \"quantization_config\" is");
        }
    }
}

static void refuses_other_quantisations(void **state)
{
    static const char *const modes[] = {"mxfp4", "nvfp4", "mxfp8", ""};

    (void)state;
    for (int i = 0; i < 4; i++) {
        json_t *j = affine(4, 32);

        json_object_set_new(j, "mode", json_string(modes[i]));
        refused("llama", "quantization", j, ST_UNIMPLEMENTED, "affine is");
        j = affine(4, 64);
        json_object_set_new(j, "model.layers.0.mlp.up_proj",
                            json_pack("{s:s}", "mode", modes[i]));
        refused("llama", "quantization", j, ST_UNIMPLEMENTED,
                "\"model.layers.0.mlp.up_proj\" is not supported; affine is");
    }
    refused("llama", "quantization", json_string("4bit"), ST_INVALID_ARGUMENT,
            "quantization is not an object");
    refused("llama", "quantization", json_pack("{s:i}", "quant_method", 8),
            ST_INVALID_ARGUMENT, "quant_method of \"quantization\"");
    refused("llama", "quantization", json_object(), ST_UNIMPLEMENTED, "bits");
    refused("llama", "quantization",
            json_pack("{s:i, s:i, s:{s:i}}", "bits", 4, "group_size", 64,
                      "lm_head", "bits", 6),
            ST_UNIMPLEMENTED, "bits of \"lm_head\" is 6");
    refused("llama", "compression_config", json_object(), ST_UNIMPLEMENTED,
            "compression_config");
    accepted("llama", "quantization", json_null());
}

/* The tool is named as the file has it, not as a fault of MLX's form. */
static void names_the_tool_of_a_quantisation(void **state)
{
    (void)state;
    refused("llama", "quantization_config",
            json_pack("{s:s, s:s, s:{}}", "quant_method", "modelopt",
                      "quant_algo", "NVFP4", "config_groups"),
            ST_UNIMPLEMENTED, "by \"modelopt\" as \"NVFP4\"");
    refused("llama", "quantization_config",
            json_pack("{s:{}, s:s, s:{s:s}}", "config_groups", "quant_algo",
                      "FP8", "producer", "name", "modelopt"),
            ST_UNIMPLEMENTED, "by \"modelopt\" as \"FP8\"");
    refused(
        "llama", "quantization_config",
        json_pack("{s:{}, s:s}", "config_groups", "format", "pack-quantized"),
        ST_UNIMPLEMENTED, "by \"compressed-tensors\"");
    refused("qwen3", "quantization_config",
            json_pack("{s:s, s:s, s:[i, i]}", "quant_method", "fp8",
                      "quant_algo", "MIXED_PRECISION", "weight_block_size", 128,
                      128),
            ST_UNIMPLEMENTED, "as \"MIXED_PRECISION\"");
}

/* modelopt describes weights beside a config.json that does not mention it. */
static void judges_the_file_of_modelopt(void **state)
{
    static const struct {
        const char *json, *text;
        enum status code;
    } rows[] = {
        {"{\"quantization\": {\"quant_algo\": \"FP8\", "
         "\"kv_cache_quant_algo\": \"FP8\"}}",
         "by \"modelopt\" as \"FP8\"", ST_UNIMPLEMENTED},
        {"{\"quantization\": {\"quant_algo\": null, "
         "\"kv_cache_quant_algo\": \"FP8\"}}",
         "", ST_OK},
        {"{\"quantization\": {}}", "", ST_OK},
        {"{}", "quantization is missing", ST_INVALID_ARGUMENT},
        {"{\"quantization\": 8}", "not an object", ST_INVALID_ARGUMENT},
        {"{\"quantization\": {\"quant_algo\": 8}}", "is not a string",
         ST_INVALID_ARGUMENT},
        {"[", "", ST_INVALID_ARGUMENT},
    };
    struct error e;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        e.text[0] = '\0';
        assert_int_equal(
            config_check_modelopt(rows[i].json, strlen(rows[i].json), &e),
            rows[i].code);
        assert_non_null(strstr(e.text, rows[i].text));
    }
}

/* A feature of an unknown family is not why its model is refused. */
static void judges_the_family_before_features(void **state)
{
    (void)state;
    refused("gemma4_text", "use_bidirectional_attention", json_string("vision"),
            ST_UNIMPLEMENTED, "models of type \"gemma4_text\"");
    refused("deepseek_v3", "kv_lora_rank", json_integer(512), ST_UNIMPLEMENTED,
            "models of type \"deepseek_v3\"");
    refused("nemotron_h", "quantization_config",
            json_pack("{s:s}", "quant_method", "modelopt"), ST_UNIMPLEMENTED,
            "models of type \"nemotron_h\"");
    refused("llama", "use_bidirectional_attention", json_true(),
            ST_UNIMPLEMENTED, "attention to later positions");
}

static void judges_architectures(void **state)
{
    static const char *const others[] = {
        "Qwen3ForSequenceClassification",
        "LlamaForTokenClassification",
        "MistralModel",
        "Qwen2ForRewardModel",
        "LlamaForCausalLMEagle3",
        "Gemma3TextModel",
        "LlamaBidirectionalModel",
    };

    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        refused("llama", "architectures", json_pack("[s]", others[i]),
                ST_UNIMPLEMENTED, others[i]);
    }
    accepted("llama", "architectures", json_pack("[s]", "LlamaForCausalLM"));
    accepted("llama", "architectures",
             json_pack("[s]", "LlavaForConditionalGeneration"));
    accepted("llama", "architectures", json_null());
    accepted("llama", "architectures", json_array());
    refused("llama", "architectures", json_string("LlamaForCausalLM"),
            ST_INVALID_ARGUMENT, "architectures is no list");
    refused("llama", "architectures", json_pack("[i]", 1), ST_INVALID_ARGUMENT,
            "architectures is no list");
}

/* MLX writes both names, and objects of single modules. */
static void reads_quantisation(void **state)
{
    json_t *j = fixture_config("qwen3_5"), *q = affine(8, 32);
    struct model_config c;
    struct error e;

    (void)state;
    json_object_set_new(q, "mode", json_string("affine"));
    json_object_set_new(q, "model.layers.0.mlp.up_proj", json_false());
    json_object_set_new(q, "lm_head", json_pack("{s:i}", "bits", 4));
    json_object_set(j, "quantization", q);
    json_object_set_new(j, "quantization_config", q);
    c = fixture_parsed(j);
    assert_int_equal(c.quant.bits, 8);
    assert_int_equal(c.quant.group, 32);
    json_object_set_new(j, "quantization_config", affine(4, 32));
    assert_int_equal(fixture_parse(&c, j, &e), ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "8 bits in groups of 32"));
    json_decref(j);
}

/* The published files of Qwen have both keys; without the flag there is no
 * window. */
static void window_counts_if_used(void **state)
{
    json_t *j = fixture_config("qwen3_5");
    struct model_config c;
    struct error e;

    (void)state;
    json_object_set_new(j, "sliding_window", json_integer(64));
    fixture_parsed(j);
    json_object_set_new(j, "use_sliding_window", json_false());
    fixture_parsed(j);
    json_object_set_new(j, "use_sliding_window", json_true());
    assert_int_equal(fixture_parse(&c, j, &e), ST_UNIMPLEMENTED);
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

static void refuses_rope(void **state)
{
    (void)state;
    refused("llama", "rope_scaling",
            json_pack("{s:s, s:i}", "type", "dynamic", "factor", 4),
            ST_UNIMPLEMENTED, "\"dynamic\"");
    refused("llama", "rope_scaling", json_pack("{s:s}", "type", "linear"),
            ST_INVALID_ARGUMENT, "factor");
    refused("llama", "rope_scaling", json_integer(4), ST_INVALID_ARGUMENT,
            "rope_scaling");
    refused("llama", "rope_scaling", fixture_llama3(0.5), ST_INVALID_ARGUMENT,
            "factor");
    refused("llama", "rope_scaling", fixture_llama3(MODEL_FACTOR_MAX + 1.0),
            ST_INVALID_ARGUMENT, "factor");
    accepted("llama", "rope_scaling", fixture_llama3(MODEL_FACTOR_MAX));
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

/* With two faults in the two places of rotary keys, the first is reported. */
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

static enum status parse_text(const char *text, struct error *e)
{
    struct model_config c;

    return config_parse(&c, text, strlen(text), e);
}

/* Python writes NaN and infinity; only a number that is read must be finite. */
static void reads_the_words_of_python(void **state)
{
    json_t *j = fixture_config("llama");
    char *text = json_dumps(j, 0), all[8192];
    struct error e;

    (void)state;
    text[0] = ' '; /* its brace */
    snprintf(all, sizeof all, "{\"time_step_limit\": [0.0, Infinity],%s", text);
    assert_int_equal(parse_text(all, &e), ST_OK);
    snprintf(all, sizeof all, "{\"rope_theta\": NaN,%s", text);
    assert_int_equal(parse_text(all, &e), ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "rope_theta is not a finite number"));
    free(text);
    json_decref(j);
}

/* Words that are no numbers of Python's either, and other faults. */
static void refuses_what_is_not_json(void **state)
{
    static const char *const texts[] = {
        "",
        "{",
        "[]",
        "{} {}",
        "{\"model_type\": \"llama\", \"model_type\": \"llama\"}",
        "{\"rope_theta\": nan}",
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
    json_array_append_new(ids, json_integer(3)); /* already in the list */
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

/* A document at a limit and one past it, padded with white space or nested. */
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
    /* An object, an array, and after their commas the rest. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_mixers),
        cmocka_unit_test(refuses_unsupported),
        cmocka_unit_test(bounds_quantisation),
        cmocka_unit_test(refuses_other_quantisations),
        cmocka_unit_test(names_the_tool_of_a_quantisation),
        cmocka_unit_test(judges_the_file_of_modelopt),
        cmocka_unit_test(judges_the_family_before_features),
        cmocka_unit_test(judges_architectures),
        cmocka_unit_test(reads_quantisation),
        cmocka_unit_test(window_counts_if_used),
        cmocka_unit_test(bounds_every_number),
        cmocka_unit_test(refuses_contradictions),
        cmocka_unit_test(requires_sizes),
        cmocka_unit_test(refuses_rope),
        cmocka_unit_test(keeps_the_first_fault),
        cmocka_unit_test(reads_the_words_of_python),
        cmocka_unit_test(refuses_what_is_not_json),
        cmocka_unit_test(bounds_eos),
        cmocka_unit_test(bounds_name),
        cmocka_unit_test(bounds_documents),
        cmocka_unit_test(bounds_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
