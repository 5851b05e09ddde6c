#include "common/model/layout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/safetensors.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/model/fixture.h"
#include "worker/model/shard.h"

/* An MLX conversion stores gamma, the original gamma - 1. */
static void shifts_norms_once(void **state)
{
    json_t *j = fixture_config("qwen3_5");
    struct writer_options o = {.seed = 3};
    const char *hf = fixture_model("hf", j, &o), *mlx;
    struct shard *x, *y;

    (void)state;
    o.prefix = WRITER_MLX;
    mlx = fixture_model("mlx", j, &o);
    /* [3, 4) has no convolution of its own to tell by. */
    for (uint32_t begin = 0; begin < 4; begin += 3) {
        const struct layer_weights *a, *b;

        x = fixture_shard(hf, begin, 4);
        y = fixture_shard(mlx, begin, 4);
        a = &shard_weights(x)->layers[3 - begin];
        b = &shard_weights(y)->layers[3 - begin];
        assert_memory_equal(a->input_norm, b->input_norm, 32 * 4);
        assert_memory_equal(a->mixer.attention.q_norm,
                            b->mixer.attention.q_norm, 16 * 4);
        assert_memory_equal(shard_weights(x)->final_norm,
                            shard_weights(y)->final_norm, 32 * 4);
        assert_true(fabsf(a->input_norm[0] - 1) <= 0.25f);
        shard_free(&x);
        shard_free(&y);
    }
    json_decref(j);
}

static void loads_plain_families(void **state)
{
    static const char *const families[] = {"llama", "qwen2", "qwen3",
                                           "mistral"};
    struct writer_options o = {.dtype = DTYPE_F32};

    (void)state;
    for (int i = 0; i < 4; i++) {
        json_t *j = fixture_config(families[i]);
        const char *dir = fixture_model(families[i], j, &o);
        struct shard *s = fixture_shard_all(dir);
        const struct attention_weights *a =
            &shard_weights(s)->layers[1].mixer.attention;
        float *raw = (float *)(void *)fixture_stored(
            dir, "model.safetensors", "model.layers.1.input_layernorm.weight");

        assert_memory_equal(shard_weights(s)->layers[1].input_norm, raw,
                            32 * sizeof *raw);
        assert_int_equal(a->q_bias != NULL, i == 1);
        assert_int_equal(a->q_norm != NULL, i == 2);
        assert_null(a->o_bias);
        assert_ptr_not_equal(shard_weights(s)->head.data,
                             shard_weights(s)->embed.data);
        assert_int_equal(shard_weights(s)->head.dtype, DTYPE_F32);
        free(raw);
        shard_free(&s);
        json_decref(j);
    }
}

/* Row r of a float32 matrix of 32 columns. */
static const float *row(const struct tensor *t, uint32_t r)
{
    return (const float *)t->data + r * 32;
}

/* Hk 2, Hv 4, Dk 8, Dv 6: for a key head g its rows are q, k, then v and z of
 * value heads 2g and 2g + 1. */
static void takes_groups_apart(void **state)
{
    json_t *j = fixture_config("qwen3_next");
    struct writer_options o = {.seed = 9};
    const char *dir = fixture_model("next", j, &o);
    struct shard *s = fixture_shard_all(dir);
    const struct deltanet_weights *d =
        &shard_weights(s)->layers[2].mixer.deltanet;
    const char *file = "model.safetensors";
    float *qkvz = (float *)(void *)fixture_stored(
        dir, file, "model.layers.2.linear_attn.in_proj_qkvz.weight");
    float *ba = (float *)(void *)fixture_stored(
        dir, file, "model.layers.2.linear_attn.in_proj_ba.weight");
    struct tensor raw = {.data = qkvz}, raw_ba = {.data = ba};

    (void)state;
    for (uint32_t head = 0; head < 4; head++) {
        uint32_t group = head / 2 * 40, in = head % 2;

        for (uint32_t i = 0; i < 6; i++) {
            assert_memory_equal(row(&d->qkv, 32 + head * 6 + i),
                                row(&raw, group + 16 + in * 6 + i), 128);
            assert_memory_equal(row(&d->z, head * 6 + i),
                                row(&raw, group + 28 + in * 6 + i), 128);
        }
        assert_memory_equal(row(&d->b, head), row(&raw_ba, head / 2 * 4 + in),
                            128);
        assert_memory_equal(row(&d->a, head),
                            row(&raw_ba, head / 2 * 4 + 2 + in), 128);
    }
    for (uint32_t i = 0; i < 8; i++) {
        assert_memory_equal(row(&d->qkv, 8 + i), row(&raw, 40 + i), 128);
        assert_memory_equal(row(&d->qkv, 24 + i), row(&raw, 48 + i), 128);
    }
    assert_int_equal(d->qkv.rows, 56);
    assert_int_equal(d->z.rows, 24);
    assert_int_equal(d->a.rows, 4);
    free(qkvz);
    free(ba);
    shard_free(&s);
    json_decref(j);
}

/* Write over the first bytes of a tensor. */
static void patch(const char *dir, const char *tensor, const void *bytes,
                  size_t n)
{
    struct safetensors s;
    struct error e;
    char path[512], *file;
    size_t len;

    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    file = fixture_read(path, &len);
    assert_int_equal(safetensors_parse_file(&s, file, len, &e), ST_OK);
    for (uint32_t i = 0; i < s.n; i++) {
        if (strcmp(s.tensors[i].name, tensor) == 0) {
            memcpy(file + s.data + s.tensors[i].begin, bytes, n);
        }
    }
    safetensors_fini(&s);
    fixture_write(path, file, len);
    free(file);
}

static void widens_float16(void **state)
{
    static const uint16_t halves[] = {0x0000, 0x8000, 0x0001, 0x83ff,
                                      0x0400, 0x3c00, 0xc000, 0x3555,
                                      0x7bff, 0x7c00, 0xfc00, 0x7e00};
    static const float values[] = {0.0f,     -0.0f,    0x1p-24f,  -0x3ffp-24f,
                                   0x1p-14f, 1.0f,     -2.0f,     0x1.554p-2f,
                                   65504.0f, INFINITY, -INFINITY, NAN};
    json_t *j = fixture_config("llama");
    struct writer_options o = {.dtype = DTYPE_F16};
    const char *dir = fixture_model("f16", j, &o);
    struct shard *s;
    const float *v;

    (void)state;
    patch(dir, "model.norm.weight", halves, sizeof halves);
    s = fixture_shard_all(dir);
    v = shard_weights(s)->final_norm;
    for (size_t i = 0; i < sizeof halves / sizeof halves[0]; i++) {
        if (isnan(values[i])) {
            assert_true(isnan(v[i]));
        } else {
            assert_true(v[i] == values[i]);
            assert_int_equal(signbit(v[i]) != 0, signbit(values[i]) != 0);
        }
    }
    assert_int_equal(shard_weights(s)->embed.dtype, DTYPE_F16);
    shard_free(&s);
    json_decref(j);
}

static void names_a_missing_tensor(void **state)
{
    static const char *const names[] = {
        "embed_tokens.weight",
        "layers.2.linear_attn.conv1d.weight",
        "layers.3.self_attn.k_norm.weight",
        "layers.0.linear_attn.A_log",
        "model.norm.weight",
        "lm_head.weight",
    };
    json_t *j = fixture_config("qwen3_5");

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct writer_options o = {.without = names[i]};
        const char *key = strcmp(names[i], "model.norm.weight") == 0
                              ? "norm.weight"
                              : names[i];

        fixture_refused(fixture_model("missing", j, &o), ST_NOT_FOUND, key);
    }
    json_decref(j);
}

static void reports_unknown_tensors(void **state)
{
    static const struct {
        const char *name;
        uint32_t unknown, aside;
    } rows[] = {
        {"model.layers.1.mlp.gate_proj.scale", 1, 0},
        {"model.layers.3.self_attn.q_proj.bias", 0, 0}, /* not in [0, 2) */
        {"model.layers.4.mlp.gate_proj.weight", 1, 0},  /* in no range */
        {"model.layers.0.self_attn.rotary_emb.inv_freq", 0, 1},
        {"model.visual.patch", 0, 1},
        {"mtp.fc.weight", 0, 1},
        {"surprise", 1, 0},
    };
    json_t *j = fixture_config("qwen3_5");

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct writer_options o = {.extra = rows[i].name};
        struct shard *s = fixture_shard(fixture_model("unknown", j, &o), 0, 2);

        if (rows[i].unknown > 0) {
            assert_true(shard_report(s)->unknown.text[0] == '"');
        }
        assert_int_equal(shard_report(s)->n_unknown, rows[i].unknown);
        assert_int_equal(shard_report(s)->n_aside, rows[i].aside);
        shard_free(&s);
    }
    json_decref(j);
}

static void refuses_other_shapes(void **state)
{
    json_t *j = fixture_config("qwen3_5");
    const char *dir = fixture_model("shapes", j, &(struct writer_options){0});
    struct model_config c = fixture_load_config(dir);
    struct shard *s;
    struct error e;

    (void)state;
    c.shape.intermediate = 47;
    assert_int_equal(shard_load(&s, &c, dir, 0, 4, NULL, &e),
                     ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "mlp.gate_proj.weight\" is [48, 32], the "
                                   "configuration needs [47, 32]"));
    c = fixture_load_config(dir);
    c.shape.v_dim = 5;
    assert_int_equal(shard_load(&s, &c, dir, 0, 4, NULL, &e),
                     ST_INVALID_ARGUMENT);
    c = fixture_load_config(dir);
    c.shape.conv = 3;
    assert_int_equal(shard_load(&s, &c, dir, 0, 4, NULL, &e),
                     ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "conv1d.weight\" is not [56, 1, 3]"));
    c = fixture_load_config(dir);
    c.shape.attn_gated = false;
    assert_int_equal(shard_load(&s, &c, dir, 0, 4, NULL, &e),
                     ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "q_proj.weight\" is [128, 32]"));
    json_decref(j);
}

static void refuses_two_names_of_one_tensor(void **state)
{
    json_t *j = fixture_config("llama");
    struct writer_options o = {.prefix = WRITER_MULTIMODAL,
                               .extra = "model.norm.weight"};

    (void)state;
    fixture_refused(fixture_model("twice", j, &o), ST_DATA_LOSS,
                    "are the same one");
    json_decref(j);
}

/* Replace text in a file by another of the same length. */
static void edit(const char *path, const char *from, const char *to)
{
    size_t len;
    char *bytes = fixture_read(path, &len);
    char *at = memmem(bytes, len, from, strlen(from));

    assert_non_null(at);
    memcpy(at, to, strlen(to));
    fixture_write(path, bytes, len);
    free(bytes);
}

static void refuses_other_dtypes(void **state)
{
    json_t *j = fixture_config("llama");
    const char *dir = fixture_model("dtypes", j, &(struct writer_options){0});

    (void)state;
    edit(fixture_path("dtypes/model.safetensors"),
         "norm.weight\":{\"dtype\":\"F32\"",
         "norm.weight\":{\"dtype\":\"I32\"");
    fixture_refused(dir, ST_INVALID_ARGUMENT, "is I32; F32, BF16 and F16");
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shifts_norms_once),
        cmocka_unit_test(loads_plain_families),
        cmocka_unit_test(takes_groups_apart),
        cmocka_unit_test(widens_float16),
        cmocka_unit_test(names_a_missing_tensor),
        cmocka_unit_test(reports_unknown_tensors),
        cmocka_unit_test(refuses_other_shapes),
        cmocka_unit_test(refuses_two_names_of_one_tensor),
        cmocka_unit_test(refuses_other_dtypes),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
