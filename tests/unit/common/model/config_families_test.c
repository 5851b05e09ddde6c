/* Families whose layers differ in details: what their files state, what those
 * leave out, and refusals. */
#include "common/model/config.h"

#include <math.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/model/fixture.h"

#define FAMILIES "tests/vectors/families/"

/* Sets key to value (stolen), and returns the configuration. */
static struct model_config with(const char *family, const char *key,
                                json_t *value)
{
    json_t *j = fixture_config(family);
    struct model_config c;

    assert_non_null(value);
    json_object_set_new(j, key, value);
    c = fixture_parsed(j);
    json_decref(j);
    return c;
}

/* Setting key to value (stolen) must be refused with `text`. */
static void refused(const char *family, const char *key, json_t *value,
                    const char *text)
{
    json_t *j = fixture_config(family);
    struct model_config c;
    struct error e;

    assert_non_null(value);
    json_object_set_new(j, key, value);
    if (fixture_parse(&c, j, &e) == ST_OK || strstr(e.text, text) == NULL) {
        fail_msg("%s %s: \"%s\" has no \"%s\"", family, key, e.text, text);
    }
    json_decref(j);
}

static void reads_seed_oss(void **state)
{
    struct model_config c = fixture_load_config(FAMILIES "tiny-seed-oss");

    (void)state;
    assert_string_equal(c.family, "seed_oss");
    assert_true(c.qkv_bias);
    assert_false(c.o_bias || c.qk_norm || c.tied);
    c = with("seed_oss", "attention_out_bias", json_true());
    assert_true(c.qkv_bias && c.o_bias);
    c = with("seed_oss", "attention_bias", json_false());
    assert_false(c.qkv_bias || c.o_bias);
}

static void reads_granite(void **state)
{
    struct model_config c = fixture_load_config(FAMILIES "tiny-granite");

    (void)state;
    assert_string_equal(c.family, "granite");
    assert_true(c.shape.stream.embed == 6 && c.shape.stream.logits == 0.25f);
    assert_true(c.shape.stream.residual == 0.35f);
    assert_true(c.shape.attn_scale == 0.09f);
    c = with("granite", "residual_multiplier", json_real(1));
    assert_true(c.shape.stream.embed == 0 && c.shape.stream.logits == 0);
    assert_true(c.shape.stream.residual == 0 && c.shape.attn_scale == 1);
}

/* Each multiplier at its limits, and past them. */
static void bounds_multipliers(void **state)
{
    static const char *const keys[] = {
        "embedding_multiplier", "residual_multiplier", "attention_multiplier",
        "logits_scaling"};

    (void)state;
    for (int i = 0; i < 4; i++) {
        with("granite", keys[i], json_real(MODEL_CAP_MIN));
        with("granite", keys[i], json_real(MODEL_CAP_MAX));
        refused("granite", keys[i], json_real(MODEL_CAP_MIN * 0.9), keys[i]);
        refused("granite", keys[i], json_real(MODEL_CAP_MAX * 1.01), keys[i]);
        refused("granite", keys[i], json_integer(0), keys[i]);
        refused("granite", keys[i], json_string("1"), keys[i]);
    }
}

/* Returns the layers by kind: a attention, d Gated DeltaNet, w windows, n
 * without rotary positions. */
static const char *layers(const struct model_config *c)
{
    static char text[MODEL_LAYERS_MAX + 1];

    for (uint32_t i = 0; i < c->shape.n_layers; i++) {
        text[i] = "adwn"[c->mixers[i]];
    }
    text[c->shape.n_layers] = '\0';
    return text;
}

static void reads_smollm3(void **state)
{
    struct model_config c = fixture_load_config(FAMILIES "tiny-smollm3");

    (void)state;
    assert_string_equal(layers(&c), "aaan");
    assert_int_equal(shape_rope(&c.shape, c.mixers[0])->dim, 12);
    assert_int_equal(shape_rope(&c.shape, c.mixers[3])->dim, 0);
    c = with("smollm3", "no_rope_layer_interval", json_integer(2));
    assert_string_equal(layers(&c), "anan");
    c = with("smollm3", "no_rope_layers", json_pack("[i,i,i,i]", 0, 1, 1, 0));
    assert_string_equal(layers(&c), "naan");
    c = with("smollm3", "no_rope_layer_interval",
             json_integer(MODEL_LAYERS_MAX));
    assert_string_equal(layers(&c), "aaaa");
    /* Only families with such layers read the key. */
    c = with("llama", "no_rope_layers", json_pack("[i,i,i,i]", 0, 0, 0, 0));
    assert_string_equal(layers(&c), "aaaa");
}

static void refuses_lists_of_ropes(void **state)
{
    static const char key[] = "no_rope_layers";

    (void)state;
    refused("smollm3", key, json_pack("[i,i,i]", 1, 1, 1), "(4) numbers");
    refused("smollm3", key, json_true(), "(4) numbers");
    refused("smollm3", key, json_pack("[i,i,i,i]", 1, 2, 1, 1), "entry 1");
    refused("smollm3", key, json_pack("[i,i,i,i]", 1, 1, -1, 1), "entry 2");
    refused("smollm3", key, json_pack("[i,i,i,b]", 1, 1, 1, 1), "entry 3");
    refused("smollm3", "no_rope_layer_interval", json_integer(0), "interval");
    refused("smollm3", "no_rope_layer_interval",
            json_integer(MODEL_LAYERS_MAX + 1), "interval");
    /* The name of a row is no name of layer_types. */
    refused("llama", "layer_types",
            json_pack("[s,s,s,s]", "full_attention", "full_attention",
                      "full_attention", "unrotated"),
            "\"unrotated\"");
}

static void reads_hunyuan(void **state)
{
    struct model_config c = fixture_load_config(FAMILIES "tiny-hunyuan-dense");

    (void)state;
    assert_string_equal(c.family, "hunyuan_v1_dense");
    assert_true(c.qk_norm && c.shape.attention.late_norm);
    assert_false(c.shape.attention.whole_norm);
}

static json_t *dynamic(json_t *alpha)
{
    json_t *j = json_pack("{s:s, s:f}", "type", "dynamic", "factor", 1.0);

    if (alpha != NULL) {
        json_object_set_new(j, "alpha", alpha);
    }
    return j;
}

/* A published alpha: 1000 over heads of 128 makes a theta of 10,000 one of
 * 11,158,839.9. */
static void reads_alpha(void **state)
{
    static const char family[] = "hunyuan_v1_dense", key[] = "rope_scaling";
    json_t *j = fixture_config(family);
    struct model_config c;

    (void)state;
    json_object_set_new(j, key, dynamic(json_real(1000)));
    json_object_set_new(j, "head_dim", json_integer(128));
    c = fixture_parsed(j);
    assert_true(c.shape.rope.kind == ROPE_DEFAULT);
    assert_true(fabs(c.shape.rope.theta - 11158839.925) < 0.01);
    json_decref(j);
    with(family, key, dynamic(json_integer(MODEL_FACTOR_MAX)));
    refused(family, key, dynamic(json_integer(MODEL_FACTOR_MAX + 1)), "alpha");
    refused(family, key, dynamic(json_real(0.5)), "alpha");
    /* Without an alpha, and in other families, it is another scaling. */
    refused(family, key, dynamic(NULL), "\"dynamic\"");
    refused("llama", key, dynamic(json_real(1000)), "\"dynamic\"");
}

static void reads_phi3(void **state)
{
    struct model_config c = fixture_load_config(FAMILIES "tiny-phi3");

    (void)state;
    assert_true(c.fused);
    assert_int_equal(c.shape.rope.dim, 12);
    assert_string_equal(layers(&c), "aaa");
    c = with("phi3", "sliding_window", json_integer(100));
    assert_string_equal(layers(&c), "wwww");
    refused("phi3", "rope_scaling", json_pack("{s:s}", "type", "longrope"),
            "\"longrope\"");
}

static json_t *scaled(const char *key, json_t *value)
{
    json_t *j = json_pack("{s:s, s:f, s:i, s:f}", "rope_type", "yarn", "factor",
                          4.0, "original_max_position_embeddings", 64,
                          "llama_4_scaling_beta", 0.5);

    json_object_set_new(j, key, value);
    return j;
}

static void reads_ministral3(void **state)
{
    static const char rope[] = "rope_parameters";
    static const char beta[] = "llama_4_scaling_beta";
    struct model_config c = fixture_load_config(FAMILIES "tiny-ministral3");

    (void)state;
    assert_true(c.shape.attention.query_beta == 0.1);
    assert_int_equal(c.shape.attention.query_original, 64);
    assert_true(c.shape.rope.kind == ROPE_YARN && c.shape.rope.attention == 1);
    c = with("ministral3", rope, scaled(beta, json_integer(0)));
    assert_int_equal(c.shape.attention.query_original, 0);
    with("ministral3", rope, scaled(beta, json_integer(MODEL_YARN_MAX)));
    refused("ministral3", rope, scaled(beta, json_integer(MODEL_YARN_MAX + 1)),
            beta);
    refused("ministral3", rope, scaled(beta, json_real(-0.5)), beta);
    refused("ministral3", rope,
            scaled("original_max_position_embeddings", json_integer(0)),
            "original_max_position_embeddings");
}

static void reads_olmo3(void **state)
{
    struct model_config c = fixture_load_config(FAMILIES "tiny-olmo3");

    (void)state;
    assert_string_equal(layers(&c), "wwwa");
    assert_true(c.shape.attention.whole_norm && c.qk_norm);
    assert_true(c.bare_inputs && c.output_norms);
    assert_true(c.shape.rope.kind == ROPE_YARN);
    assert_true(c.shape.window_rope.kind == ROPE_DEFAULT);
    /* The published form has one scaling, of full layers alone. */
    c = with("olmo3", "rope_scaling",
             json_pack("{s:s, s:f, s:i}", "rope_type", "yarn", "factor", 8.0,
                       "original_max_position_embeddings", 64));
    assert_true(c.shape.rope.kind == ROPE_YARN);
    assert_true(c.shape.window_rope.kind == ROPE_DEFAULT);
    assert_string_equal(layers(&c), "wwwa");
}

static void reads_exaone4(void **state)
{
    struct model_config c = fixture_load_config(FAMILIES "tiny-exaone4");

    (void)state;
    assert_string_equal(layers(&c), "wwwn");
    assert_true(c.bare_inputs && c.output_norms && c.qk_norm);
    assert_false(c.shape.attention.whole_norm);
    /* Without windows every layer rotates. */
    c = with("exaone4", "sliding_window", json_null());
    assert_string_equal(layers(&c), "aaaa");
}

static void reads_gemma2(void **state)
{
    static const char score[] = "attn_logit_softcapping";
    static const char logit[] = "final_logit_softcapping";
    struct model_config c = fixture_load_config(FAMILIES "tiny-gemma2");

    (void)state;
    assert_string_equal(layers(&c), "wawa");
    assert_true(c.shape.attn_cap == 20 && c.shape.stream.cap == 15);
    assert_true(c.output_norms && c.tied && c.norms == NORM_GAMMA_MINUS_1);
    assert_false(c.qk_norm || c.bare_inputs);
    assert_int_equal(c.shape.activation.kind, ACTIVATION_GELU);
    /* Absent caps are the family's, and a null is none. */
    c = with("gemma2", score, json_integer(7));
    assert_true(c.shape.attn_cap == 7 && c.shape.stream.cap == 30);
    c = with("gemma2", logit, json_null());
    assert_true(c.shape.attn_cap == 50 && c.shape.stream.cap == 0);
    with("gemma2", score, json_real(MODEL_CAP_MAX));
    refused("gemma2", score, json_real(MODEL_CAP_MAX * 1.01), score);
}

static void reads_qwen2_moe(void **state)
{
    struct model_config c = fixture_load_config(FAMILIES "tiny-qwen2-moe");

    (void)state;
    assert_string_equal(layers(&c), "aaa");
    assert_true(c.qkv_bias && c.shared_gate);
    assert_false(c.o_bias || c.shape.top_k_normed || c.expert_bias);
    assert_int_equal(c.shape.n_experts, 8);
    assert_int_equal(c.shape.top_k, 3);
    assert_int_equal(c.shape.expert_dim, 24);
    assert_int_equal(c.shape.shared_dim, 40);
}

static void reads_mixtral(void **state)
{
    struct model_config c = fixture_load_config(FAMILIES "tiny-mixtral");

    (void)state;
    assert_string_equal(layers(&c), "aaa");
    assert_true(c.shape.top_k_normed);
    assert_false(c.qkv_bias || c.shared_gate || c.expert_bias);
    assert_int_equal(c.shape.n_experts, 6);
    assert_int_equal(c.shape.expert_dim, 40);
    assert_int_equal(c.shape.shared_dim + c.shape.intermediate, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_seed_oss),
        cmocka_unit_test(reads_granite),
        cmocka_unit_test(bounds_multipliers),
        cmocka_unit_test(reads_smollm3),
        cmocka_unit_test(refuses_lists_of_ropes),
        cmocka_unit_test(reads_hunyuan),
        cmocka_unit_test(reads_alpha),
        cmocka_unit_test(reads_phi3),
        cmocka_unit_test(reads_ministral3),
        cmocka_unit_test(reads_olmo3),
        cmocka_unit_test(reads_exaone4),
        cmocka_unit_test(reads_gemma2),
        cmocka_unit_test(reads_qwen2_moe),
        cmocka_unit_test(reads_mixtral),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
