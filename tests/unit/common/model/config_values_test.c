/* Values read from a config.json: layouts, families, defaults, older names,
 * rotary keys. */
#include "common/model/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/model/fixture.h"

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
    assert_int_equal(config_count(&c, MIXER_IN_BLOCKS, 0, 8), 2);
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
    struct model_config flat = fixture_parsed(inner), c;

    (void)state;
    json_object_set_new(inner, "eos_token_id", json_integer(7));
    json_object_del(inner, "vocab_size");
    json_object_set_new(inner, "mtp_num_hidden_layers", json_integer(1));
    j = json_pack("{s:s, s:O, s:i, s:[i, i], s:b, s:i}", "model_type",
                  "qwen3_5", "text_config", inner, "vocab_size", 64,
                  "eos_token_id", 9, 7, "tie_word_embeddings", 1,
                  "num_hidden_layers", 99);
    c = fixture_parsed(j);
    /* Keys absent inside are inherited; inside takes precedence. */
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
    assert_true(fixture_parsed(j).tied);
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
    assert_string_equal(fixture_parsed(j).family, "qwen2");
    json_decref(j);
}

static void knows_families(void **state)
{
    struct model_config c;
    json_t *j = fixture_config("qwen2");

    (void)state;
    c = fixture_parsed(j);
    assert_true(c.qkv_bias && !c.o_bias && !c.qk_norm);
    assert_true(c.norms == NORM_GAMMA);
    assert_false(c.shape.attn_gated);
    assert_int_equal(c.shape.n_k_heads, 0);
    assert_int_equal(c.shape.rope.dim, 16);
    json_object_set_new(j, "model_type", json_string("qwen3"));
    c = fixture_parsed(j);
    assert_true(!c.qkv_bias && !c.o_bias && c.qk_norm);
    json_object_set_new(j, "model_type", json_string("llama"));
    json_object_set_new(j, "attention_bias", json_true());
    c = fixture_parsed(j);
    assert_true(c.qkv_bias && c.o_bias && !c.qk_norm);
    json_object_set_new(j, "model_type", json_string("qwen3_next"));
    c = fixture_parsed(j);
    assert_true(c.linear == LINEAR_GROUPED && c.shape.attn_gated);
    assert_true(c.norms == NORM_GAMMA_MINUS_1);
    assert_int_equal(config_count(&c, MIXER_IN_SLOT, 0, 4), 3);
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
    c = fixture_parsed(j);
    assert_int_equal(c.shape.head_dim, 8);
    assert_int_equal(c.shape.n_kv_heads, 4);
    assert_int_equal(c.shape.context, 2048);
    assert_int_equal(c.shape.dtype, DTYPE_BF16);
    json_object_set_new(j, "torch_dtype", json_string("torch.float16"));
    assert_int_equal(fixture_parsed(j).shape.dtype, DTYPE_F16);
    json_object_set_new(j, "model_type", json_string("qwen3_5"));
    c = fixture_parsed(j);
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
    c = fixture_parsed(j);
    assert_int_equal(c.mixers[0], MIXER_DELTANET);
    assert_int_equal(c.mixers[1], MIXER_ATTENTION);
    assert_int_equal(c.mixers[3], MIXER_ATTENTION);
    json_object_set_new(j, "layer_types",
                        json_pack("[s, s, s, s]", "full_attention",
                                  "linear_attention", "linear_attention",
                                  "linear_attention"));
    c = fixture_parsed(j);
    assert_int_equal(c.mixers[0], MIXER_ATTENTION);
    assert_int_equal(config_count(&c, MIXER_IN_SLOT, 0, 4), 3);
    /* Without any attention layer, its numbers are 0 and not required. */
    json_array_set_new(json_object_get(j, "layer_types"), 0,
                       json_string("linear_attention"));
    json_object_del(j, "num_attention_heads");
    c = fixture_parsed(j);
    assert_int_equal(c.shape.n_heads, 0);
    json_decref(j);
}

/* An older name inside takes precedence over a newer one outside; in one
 * object the newer name does. */
static void knows_older_names(void **state)
{
    json_t *inner = fixture_config("qwen3_5_text");
    json_t *j = json_pack("{s:O, s:s, s:i}", "text_config", inner, "dtype",
                          "float32", "mtp_num_hidden_layers", 2);

    (void)state;
    json_object_del(inner, "dtype");
    assert_int_equal(fixture_parsed(j).shape.dtype, DTYPE_F32);
    assert_int_equal(fixture_parsed(j).n_mtp, 2);
    json_object_set_new(inner, "torch_dtype", json_string("float16"));
    json_object_set_new(inner, "num_nextn_predict_layers", json_integer(3));
    assert_int_equal(fixture_parsed(j).shape.dtype, DTYPE_F16);
    assert_int_equal(fixture_parsed(j).n_mtp, 3);
    json_object_set_new(inner, "dtype", json_string("bfloat16"));
    json_object_set_new(inner, "mtp_num_hidden_layers", json_integer(1));
    assert_int_equal(fixture_parsed(j).shape.dtype, DTYPE_BF16);
    assert_int_equal(fixture_parsed(j).n_mtp, 1);
    json_object_set_new(inner, "dtype", json_null());
    assert_int_equal(fixture_parsed(j).shape.dtype, DTYPE_F16);
    json_decref(inner);
    json_decref(j);
}

/* Every optional key of a Qwen3.5, and its default. */
static void fills_in_for_qwen35(void **state)
{
    json_t *j =
        json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "model_type",
                  "qwen3_5_text", "num_hidden_layers", 8, "hidden_size", 64,
                  "intermediate_size", 48, "vocab_size", 64,
                  "num_attention_heads", 4, "num_key_value_heads", 2,
                  "linear_num_key_heads", 2, "linear_num_value_heads", 4);
    struct model_config c = fixture_parsed(j);
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

static void reads_rope_scaling(void **state)
{
    json_t *j = fixture_config("llama");
    struct rope_shape r;

    (void)state;
    json_object_set_new(j, "rope_theta", json_integer(500000));
    json_object_set_new(j, "rope_scaling", fixture_llama3(32));
    r = fixture_parsed(j).shape.rope;
    assert_true(r.kind == ROPE_LLAMA3 && r.theta == 500000 && r.factor == 32);
    assert_true(r.low_freq == 1 && r.high_freq == 4 && r.original == 128);
    /* rope_parameters takes precedence over both, and lacks a theta. */
    json_object_set_new(j, "rope_parameters",
                        json_pack("{s:s, s:i, s:i}", "rope_type", "linear",
                                  "factor", 2, "unknown_key", 1));
    r = fixture_parsed(j).shape.rope;
    assert_true(r.kind == ROPE_LINEAR && r.theta == 500000 && r.factor == 2);
    json_object_set_new(json_object_get(j, "rope_parameters"), "rope_theta",
                        json_real(1e6));
    assert_true(fixture_parsed(j).shape.rope.theta == 1e6);
    json_decref(j);
}

static void reads_partial_rotary(void **state)
{
    json_t *j = fixture_config("qwen3_5");

    (void)state;
    json_object_set_new(j, "partial_rotary_factor", json_real(0.5));
    assert_int_equal(fixture_parsed(j).shape.rope.dim, 8);
    json_object_set_new(j, "rope_parameters",
                        json_pack("{s:f}", "partial_rotary_factor", 1.0));
    assert_int_equal(fixture_parsed(j).shape.rope.dim, 16);
    json_object_set_new(j, "rope_parameters",
                        json_pack("{s:f, s:[i, i, i]}", "partial_rotary_factor",
                                  1.0, "mrope_section", 4, 2, 2));
    assert_int_equal(fixture_parsed(j).shape.rope.dim, 16);
    json_decref(j);
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
    c = fixture_parsed(j);
    assert_int_equal(config_add_generation(&c, more, sizeof more - 1, &e),
                     ST_OK);
    assert_int_equal(c.n_eos, 2);
    assert_int_equal(c.eos[0], 2);
    assert_int_equal(c.eos[1], 1);
    assert_int_equal(config_add_generation(&c, bad, sizeof bad - 1, &e),
                     ST_INVALID_ARGUMENT);
    json_decref(j);
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
        cmocka_unit_test(knows_older_names),
        cmocka_unit_test(fills_in_for_qwen35),
        cmocka_unit_test(reads_rope_scaling),
        cmocka_unit_test(reads_partial_rotary),
        cmocka_unit_test(adds_generation),
        cmocka_unit_test(reads_published_configs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
