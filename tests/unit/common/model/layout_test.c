#include "common/model/layout.h"

#include <math.h>
#include <stdio.h>
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
    /* [3, 4) has no convolution of its own that could decide. */
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

/* Hk 2, Hv 4, Dk 8, Dv 6: the rows of key head g are q, k, then v and z of
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

/* Overwrites the first bytes of a tensor. */
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

/* Replaces text in a file by text of the same length. */
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

/* ---- quantised ---- */

/* The rows of one plane for each group, as in takes_groups_apart(). */
static void expect_rows(const void *have, const char *stored, size_t row_bytes,
                        uint32_t to, uint32_t from, uint32_t n)
{
    assert_memory_equal((const char *)have + to * row_bytes,
                        stored + from * row_bytes, n * row_bytes);
}

static void expect_planes(const char *dir, const struct tensor *t,
                          const char *name, uint32_t to, uint32_t from,
                          uint32_t n)
{
    static const char *const ends[] = {"weight", "scales", "biases"};
    const void *const planes[] = {t->data, t->scales, t->biases};
    const size_t row[] = {tensor_row_bytes(t), tensor_scale_bytes(t),
                          tensor_scale_bytes(t)};

    for (int i = 0; i < 3; i++) {
        char full[96];
        char *stored;

        snprintf(full, sizeof full, "model.%s.%s", name, ends[i]);
        stored = fixture_stored(dir, "model.safetensors", full);
        assert_non_null(planes[i]);
        assert_int_equal((uintptr_t)planes[i] % LAYOUT_ALIGN, 0);
        expect_rows(planes[i], stored, row[i], to, from, n);
        free(stored);
    }
}

static void places_quantised(void **state)
{
    json_t *j = fixture_config("qwen3_next");

    (void)state;
    json_object_set_new(j, "tie_word_embeddings", json_false());
    for (uint32_t bits = 4; bits <= 8; bits += 4) {
        struct writer_options o = {
            .bits = bits, .group = 32, .dtype = DTYPE_F16, .seed = bits};
        char name[32];

        snprintf(name, sizeof name, "places-%u", bits);
        const char *dir = fixture_model(name, j, &o);
        struct shard *s = fixture_shard_all(dir);
        const struct shard_weights *w = shard_weights(s);
        const struct deltanet_weights *d = &w->layers[2].mixer.deltanet;
        const char *qkvz = "layers.2.linear_attn.in_proj_qkvz";

        expect_planes(dir, &w->embed, "embed_tokens", 0, 0, w->embed.rows);
        expect_planes(dir, &w->layers[1].mlp.up, "layers.1.mlp.up_proj", 0, 0,
                      w->layers[1].mlp.up.rows);
        /* As in takes_groups_apart(): key head 1's q, its first value head. */
        expect_planes(dir, &d->qkv, qkvz, 8, 40, 8);
        expect_planes(dir, &d->qkv, qkvz, 32 + 12, 40 + 16, 6);
        expect_planes(dir, &d->z, qkvz, 12, 40 + 28, 6);
        expect_planes(dir, &d->a, "layers.2.linear_attn.in_proj_ba", 2, 6, 2);
        assert_int_equal(w->head.bits, bits);
        assert_int_equal(w->head.group, 32);
        assert_int_equal(w->head.dtype, DTYPE_F16);
        assert_int_equal(d->out.bits, 0); /* 24 columns */
        assert_int_equal(shard_report(s)->n_unknown, 0);
        shard_free(&s);
    }
    json_decref(j);
}

/* A model whose tensor `name` has other dims or another dtype in the header. */
static void refuses_header(const char *from, const char *to, const char *text)
{
    json_t *j = fixture_config("llama");
    struct writer_options o = {.bits = 4, .group = 32, .dtype = DTYPE_BF16};
    const char *dir = fixture_model("header", j, &o);
    char path[256], *bytes, *at;
    size_t len;

    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    bytes = fixture_read(path, &len);
    at = strstr(bytes + 8, from);
    assert_non_null(at);
    assert_int_equal(strlen(from), strlen(to));
    memcpy(at, to, strlen(to));
    fixture_write(path, bytes, len);
    free(bytes);
    fixture_refused(dir, ST_INVALID_ARGUMENT, text);
    json_decref(j);
}

#define UP     "model.layers.1.mlp.up_proj"
#define QUANTS "U32 of 4 or 8 bits a column is supported, with a scale and a "

static void refuses_quantised_shapes(void **state)
{
    json_t *j = fixture_config("llama");
    struct writer_options o = {
        .bits = 4, .group = 32, .without = "layers.2.mlp.up_proj.biases"};
    const char *dir = fixture_model("unbiased", j, &o);

    (void)state;
    fixture_refused(dir, ST_NOT_FOUND, "has scales and no biases");
    /* Words without scales. */
    o.without = "layers.2.mlp.up_proj.scales";
    dir = fixture_model("unscaled", j, &o);
    fixture_refused(dir, ST_INVALID_ARGUMENT,
                    "is U32; F32, BF16 and F16 are supported, or U32 beside "
                    "scales and biases");
    /* [48, 4] with 32 columns: neither words nor their number. */
    refuses_header("\"" UP ".weight\":{\"dtype\":\"U32\",\"shape\":[48,4]",
                   "\"" UP ".weight\":{\"dtype\":\"F32\",\"shape\":[48,4]",
                   QUANTS);
    refuses_header("\"" UP ".weight\":{\"dtype\":\"U32\",\"shape\":[48,4]",
                   "\"" UP ".weight\":{\"dtype\":\"U32\",\"shape\":[24,8]",
                   QUANTS);
    refuses_header("\"" UP ".scales\":{\"dtype\":\"BF16\",\"shape\":[48,1]",
                   "\"" UP ".scales\":{\"dtype\":\"BF16\",\"shape\":[24,2]",
                   QUANTS);
    refuses_header("\"" UP ".biases\":{\"dtype\":\"BF16\",\"shape\":[48,1]",
                   "\"" UP ".biases\":{\"dtype\":\"BF16\",\"shape\":[1,48]",
                   QUANTS);
    refuses_header("\"" UP ".biases\":{\"dtype\":\"BF16\",\"shape\":[48,1]",
                   "\"" UP ".biases\":{\"dtype\":\"I16\", \"shape\":[48,1]",
                   QUANTS);
    refuses_header("\"" UP ".scales\":{\"dtype\":\"BF16\",\"shape\":[48,1]",
                   "\"" UP ".scales\":{\"dtype\":\"U16\", \"shape\":[48,1]",
                   "is U16");
    json_decref(j);
}

/* Groups of 16 or 256 columns, which MLX writes, are refused: sluice has no
 * kernels for them.  32, 64 and 128 are read in any mix. */
static void reads_every_group(void **state)
{
    (void)state;
    for (uint32_t group = 32; group <= 128; group *= 2) {
        json_t *j = fixture_config("llama");
        struct writer_options o = {.bits = 8, .group = group};
        struct shard *s;
        char name[32];

        snprintf(name, sizeof name, "group-%u", group);
        json_object_set_new(j, "hidden_size", json_integer(256));
        json_object_set_new(j, "head_dim", json_integer(16));
        s = fixture_shard_all(fixture_model(name, j, &o));
        assert_int_equal(shard_weights(s)->embed.group, group);
        shard_free(&s);
        json_decref(j);
    }
}

/* U32 although the configuration has no quantisation. */
static void needs_quantization(void **state)
{
    json_t *j = fixture_config("llama");
    struct writer_options o = {.bits = 8, .group = 32};
    const char *dir = fixture_model("unsaid", j, &o);
    char path[256], *text = json_dumps(j, 0);

    (void)state;
    snprintf(path, sizeof path, "%s/config.json", dir);
    fixture_write(path, text, strlen(text));
    free(text);
    fixture_refused(dir, ST_INVALID_ARGUMENT,
                    "config.json has no quantization");
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shifts_norms_once),
        cmocka_unit_test(loads_plain_families),
        cmocka_unit_test(takes_groups_apart),
        cmocka_unit_test(places_quantised),
        cmocka_unit_test(refuses_quantised_shapes),
        cmocka_unit_test(reads_every_group),
        cmocka_unit_test(needs_quantization),
        cmocka_unit_test(widens_float16),
        cmocka_unit_test(names_a_missing_tensor),
        cmocka_unit_test(reports_unknown_tensors),
        cmocka_unit_test(refuses_other_shapes),
        cmocka_unit_test(refuses_two_names_of_one_tensor),
        cmocka_unit_test(refuses_other_dtypes),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
