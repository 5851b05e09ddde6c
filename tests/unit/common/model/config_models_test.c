/* The configurations of the models in tests/vectors/models: both forms of a
 * file, and what it means. */
#include "common/model/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/model/fixture.h"

#define MODELS "tests/vectors/models"

static struct model_config config(const char *model, const char *file)
{
    struct model_config c;
    struct error e;
    char path[128], *text;
    size_t len;

    snprintf(path, sizeof path, MODELS "/%s/%s", model, file);
    text = fixture_read(path, &len);
    if (config_parse(&c, text, len, &e) != ST_OK) {
        fail_msg("%s: %s", path, e.text);
    }
    free(text);
    return c;
}

static struct model_config newer(const char *model)
{
    return config(model, "config.json");
}

/* The parser zeroes a config, padding too, and sets it field by field; but
 * for the quantisation, which it assigns. */
static void both_forms_are_one_model(void **state)
{
    static const char *const models[] = {
        "tiny-qwen3.5-moe",   "tiny-qwen3-next", "tiny-qwen3-moe",
        "tiny-qwen3-moe-fp8", "tiny-gpt-oss",    "tiny-gemma3"};

    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        struct model_config a = newer(models[i]);
        struct model_config b = config(models[i], "config.hub.json");

        assert_memory_equal(&a.shape, &b.shape, sizeof a.shape);
        assert_int_equal(a.quant.format, b.quant.format);
        assert_int_equal(a.quant.bits, b.quant.bits);
        assert_int_equal(a.quant.group, b.quant.group);
        assert_int_equal(a.quant.experts_only, b.quant.experts_only);
        memcpy(&b.quant, &a.quant, sizeof b.quant);
        assert_memory_equal(&a, &b, sizeof a);
    }
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

static void assert_experts(const struct model_config *c, uint32_t n,
                           uint32_t top_k, uint32_t dim, uint32_t shared)
{
    assert_int_equal(c->shape.n_experts, n);
    assert_int_equal(c->shape.top_k, top_k);
    assert_int_equal(c->shape.expert_dim, dim);
    assert_int_equal(c->shape.shared_dim, shared);
    assert_int_equal(c->shared_gate, shared > 0);
}

static void reads_qwen35_moe(void **state)
{
    struct model_config c = newer("tiny-qwen3.5-moe");

    (void)state;
    assert_string_equal(c.family, "qwen3_5_moe_text");
    assert_layers(&c, "ddda", "eeee");
    assert_experts(&c, 12, 4, 32, 48);
    assert_true(c.shape.top_k_normed && c.shape.attn_gated && c.qk_norm);
    assert_true(c.linear == LINEAR_SPLIT && c.norms == NORM_GAMMA_MINUS_1);
    assert_int_equal(c.shape.intermediate, 0);
    assert_int_equal(c.shape.activation.kind, ACTIVATION_SILU);
    assert_int_equal(c.shape.rope.dim, 8);
    assert_true(c.shape.rope.theta == 1e6);
    assert_int_equal(c.shape.window, 0);
    assert_false(c.sinks || c.output_norms || c.expert_bias || c.tied);
    assert_true(c.shape.attn_scale == 0 && c.shape.stream.embed == 0);
}

static void reads_qwen3_next(void **state)
{
    struct model_config c = newer("tiny-qwen3-next");

    (void)state;
    assert_string_equal(c.family, "qwen3_next");
    assert_layers(&c, "ddda", "eeee");
    assert_experts(&c, 12, 4, 32, 48);
    assert_true(c.shape.top_k_normed && c.linear == LINEAR_GROUPED);
    assert_int_equal(c.shape.intermediate, 0);
}

static void reads_qwen3_moe(void **state)
{
    struct model_config c = newer("tiny-qwen3-moe");

    (void)state;
    assert_string_equal(c.family, "qwen3_moe");
    assert_layers(&c, "aaa", "ede");
    assert_experts(&c, 10, 3, 40, 0);
    assert_true(c.shape.top_k_normed && c.qk_norm && !c.shape.attn_gated);
    assert_true(c.norms == NORM_GAMMA && !c.qkv_bias && !c.o_bias);
    assert_int_equal(c.shape.intermediate, 160);
    assert_int_equal(c.quant.format, WEIGHT_PLAIN);
    c = newer("tiny-qwen3-moe-fp8");
    assert_layers(&c, "aa", "ee");
    assert_experts(&c, 4, 2, 136, 0);
    assert_int_equal(c.quant.format, WEIGHT_FP8);
    assert_int_equal(c.quant.bits, 0);
    assert_false(c.quant.experts_only);
}

static void reads_gpt_oss(void **state)
{
    struct model_config c = newer("tiny-gpt-oss");
    const struct rope_shape *r = &c.shape.rope;

    (void)state;
    assert_string_equal(c.family, "gpt_oss");
    assert_layers(&c, "wawa", "eeee");
    assert_experts(&c, 6, 2, 64, 0);
    assert_true(c.sinks && c.expert_bias && c.qkv_bias && c.o_bias);
    assert_true(c.shape.top_k_normed && c.shape.gate_up_alternate);
    assert_false(c.qk_norm || c.output_norms);
    assert_int_equal(c.shape.window, 32);
    assert_int_equal(c.shape.context, 4096);
    assert_int_equal(c.shape.activation.kind, ACTIVATION_CLAMPED);
    assert_true(c.shape.activation.alpha == 1.702f &&
                c.shape.activation.limit == 7);
    assert_true(c.shape.norm_eps == 1e-5f);
    assert_true(r->kind == ROPE_YARN && r->theta == 150000 && r->factor == 4);
    assert_true(r->beta_fast == 32 && r->beta_slow == 1 && !r->truncate);
    assert_true(fabs(r->attention - (0.1 * log(4) + 1)) < 1e-7);
    assert_int_equal(r->original, 128);
    assert_int_equal(r->dim, 32);
    assert_memory_equal(r, &c.shape.window_rope, sizeof *r);
    assert_true(c.quant.format == WEIGHT_MXFP4 && c.quant.experts_only);
}

static void reads_gemma3(void **state)
{
    struct model_config c = newer("tiny-gemma3");

    (void)state;
    assert_string_equal(c.family, "gemma3_text");
    assert_layers(&c, "wwwwwaw", "ddddddd");
    assert_experts(&c, 0, 0, 0, 0);
    assert_true(c.tied && c.output_norms && c.qk_norm);
    assert_true(c.norms == NORM_GAMMA_MINUS_1 && !c.sinks && !c.qkv_bias);
    assert_int_equal(c.shape.activation.kind, ACTIVATION_GELU);
    assert_int_equal(c.shape.window, 48);
    assert_true(c.shape.rope.theta == 1e6 && c.shape.window_rope.theta == 1e4);
    assert_true(c.shape.rope.kind == ROPE_DEFAULT);
    assert_true(c.shape.attn_scale == (float)(1 / sqrt(32)));
    assert_true(c.shape.stream.embed == sqrtf(96));
    assert_true(c.shape.attn_cap == 0 && c.shape.stream.cap == 0);
    assert_true(c.has_bos && c.bos == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_forms_are_one_model),
        cmocka_unit_test(reads_qwen35_moe),
        cmocka_unit_test(reads_qwen3_next),
        cmocka_unit_test(reads_qwen3_moe),
        cmocka_unit_test(reads_gpt_oss),
        cmocka_unit_test(reads_gemma3),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
