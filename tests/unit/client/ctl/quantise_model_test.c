/* Models quantised in every form of their experts: the result loads, and each
 * value in it is that of quantise() for the source's. */
#include "client/ctl/quantise_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/model/quantise.h"
#include "common/model/weight_format.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/model/fixture.h"
#include "tests/unit/worker/model/gguf_convert.h"
#include "tests/unit/worker/model/rewrite.h"
#include "worker/model/shard.h"

#define MODELS "tests/vectors/models/"

static const char *quantised(const char *from, const char *name, uint32_t bits,
                             struct quantise_report *r)
{
    const struct quantise_options o = {.bits = bits, .group = 32};
    const char *dir = fixture_path(name);
    struct error e;

    if (quantise_model(r, from, dir, &o, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    return dir;
}

/* ---- expected values ---- */

/* Row r of `a`, quantised like `b`, is row r of b. */
static void expect_affine_row(const struct tensor *a, const struct tensor *b,
                              uint32_t r)
{
    float wide[512];
    uint8_t data[512];
    float scales[16], biases[16];
    const struct quantised_groups out = {data,     scales,  biases,
                                         b->dtype, b->bits, b->group};
    uint64_t n = tensor_scale_bytes(b);

    assert_in_range(a->cols, 1, 512);
    weight_format_decode(wide, a, r, 0, a->cols);
    assert_true(quantise(&out, wide, a->cols));
    assert_memory_equal((const char *)b->data + r * tensor_row_bytes(b), data,
                        tensor_row_bytes(b));
    assert_memory_equal((const char *)b->scales + r * n, scales, n);
    assert_memory_equal((const char *)b->biases + r * n, biases, n);
}

/* b is a, quantised if its columns allow it. */
static void expect_quantised(const struct tensor *a, const struct tensor *b,
                             uint32_t bits)
{
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->cols, b->cols);
    assert_int_equal(b->bits, a->cols % 32 == 0 ? bits : 0);
    assert_int_equal(b->dtype, DTYPE_BF16);
    for (uint32_t r = 0; r < a->rows; r++) {
        float x[512], y[512];

        if (b->bits > 0) {
            expect_affine_row(a, b, r);
            continue;
        }
        weight_format_decode(x, a, r, 0, a->cols);
        weight_format_decode(y, b, r, 0, b->cols);
        for (uint32_t i = 0; i < a->cols; i++) {
            assert_true(fabsf(x[i] - y[i]) <= fabsf(x[i]) * 0x1p-8f);
        }
    }
}

static void expect_same(const struct tensor *a, const struct tensor *b)
{
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(b->bits, 0);
    assert_memory_equal(a->data, b->data, a->rows * tensor_row_bytes(a));
}

static void expect_experts(const struct expert_weights *a,
                           const struct expert_weights *b, uint32_t bits)
{
    expect_same(&a->router, &b->router);
    expect_quantised(&a->gate_up, &b->gate_up, bits);
    expect_quantised(&a->down, &b->down, bits);
    if (a->shared.gate.data != NULL) {
        expect_quantised(&a->shared.gate, &b->shared.gate, bits);
        expect_quantised(&a->shared.up, &b->shared.up, bits);
        expect_quantised(&a->shared.down, &b->shared.down, bits);
        expect_same(&a->shared_gate, &b->shared_gate);
    }
}

static void expect_layer(const struct layer_weights *a,
                         const struct layer_weights *b, uint32_t bits)
{
    if (mixer_attends(a->kind)) {
        expect_quantised(&a->mixer.attention.q, &b->mixer.attention.q, bits);
        expect_quantised(&a->mixer.attention.o, &b->mixer.attention.o, bits);
    } else {
        expect_quantised(&a->mixer.deltanet.qkv, &b->mixer.deltanet.qkv, bits);
        expect_quantised(&a->mixer.deltanet.out, &b->mixer.deltanet.out, bits);
    }
    if (a->ffn == FFN_EXPERTS) {
        expect_experts(&a->experts, &b->experts, bits);
    } else {
        expect_quantised(&a->mlp.gate, &b->mlp.gate, bits);
        expect_quantised(&a->mlp.down, &b->mlp.down, bits);
    }
}

static void expect_model(const char *from, const char *to, uint32_t bits)
{
    struct shard *a = fixture_shard_all(from), *b = fixture_shard_all(to);
    const struct shard_weights *x = shard_weights(a), *y = shard_weights(b);

    assert_int_equal(shard_report(b)->n_unknown, 0);
    expect_quantised(&x->embed, &y->embed, bits);
    expect_quantised(&x->head, &y->head, bits);
    for (uint32_t i = 0; i < x->end; i++) {
        expect_layer(&x->layers[i], &y->layers[i], bits);
        assert_memory_equal(x->layers[i].input_norm, y->layers[i].input_norm,
                            x->shape.hidden * sizeof(float));
    }
    shard_free(&a);
    shard_free(&b);
}

/* ---- tests ---- */

static void quantises_every_family(void **state)
{
    static const char *const names[] = {"tiny-qwen3.5-moe", "tiny-qwen3-next",
                                        "tiny-qwen3-moe", "tiny-gemma3"};

    (void)state;
    for (int i = 0; i < 8; i++) {
        uint32_t bits = i % 2 ? 4 : 8;
        char from[128], name[64];
        struct quantise_report r;

        snprintf(from, sizeof from, MODELS "%s", names[i / 2]);
        snprintf(name, sizeof name, "%s-%u", names[i / 2], bits);
        expect_model(from, quantised(from, name, bits, &r), bits);
        assert_true(r.bytes_out < r.bytes_in);
    }
}

/* FP8 is decoded first: the result is that of the decoded values. */
static void quantises_fp8(void **state)
{
    struct quantise_report r;

    (void)state;
    for (uint32_t bits = 4; bits <= 8; bits += 4) {
        const char *to = quantised(MODELS "tiny-qwen3-moe-fp8",
                                   bits == 4 ? "fp8-4" : "fp8-8", bits, &r);

        expect_model(MODELS "tiny-qwen3-moe-fp8", to, bits);
    }
}

/* Blocks begin anew with each expert of a fused tensor. */
static void quantises_fused_fp8(void **state)
{
    const struct writer_options o = {
        .format = WRITER_FP8, .experts = WRITER_FUSED, .dtype = DTYPE_BF16};
    json_t *j =
        json_load_file(MODELS "tiny-qwen3-moe-fp8/config.json", 0, NULL);
    const char *dir = fixture_model("fused-fp8", j, &o);
    struct quantise_report r;

    (void)state;
    expect_model(dir, quantised(dir, "fused-fp8-8", 8, &r), 8);
    json_decref(j);
}

/* Experts apart, fused and in a switch become the same tensors. */
static void any_form_of_experts_gives_the_same(void **state)
{
    static const char from[] = MODELS "tiny-qwen3.5-moe";
    struct quantise_report a, b;
    struct rewrite f;

    (void)state;
    (void)quantised(from, "apart", 4, &a);
    for (int i = 0; i < 2; i++) {
        const char *dir, *other;

        rewrite_open(&f, from);
        if (i == 0) {
            rewrite_fuse(&f);
        } else {
            rewrite_switch(&f);
        }
        dir = rewrite_write(&f, i == 0 ? "fused" : "switch");
        other = quantised(dir, i == 0 ? "fused-4" : "switch-4", 4, &b);
        expect_model(from, other, 4);
        assert_int_equal(a.n_quantised, b.n_quantised);
        assert_int_equal(a.n_copied, b.n_copied);
        assert_int_equal(a.bytes_out, b.bytes_out);
        rewrite_close(&f);
    }
}

/* Experts in several files are gathered where the first is. */
static void gathers_experts_of_several_files(void **state)
{
    const struct writer_options o = {
        .n_files = 5, .dtype = DTYPE_BF16, .prefix = WRITER_MULTIMODAL};
    json_t *j = json_load_file(MODELS "tiny-qwen3-moe/config.json", 0, NULL);
    struct quantise_report r;
    const char *dir = fixture_model("files", j, &o);

    (void)state;
    expect_model(dir, quantised(dir, "files-8", 8, &r), 8);
    json_decref(j);
}

/* Python's readers of the new file need them as they were. */
static void keeps_infinity_and_nan(void **state)
{
    const struct writer_options o = {.dtype = DTYPE_BF16};
    json_t *j = json_load_file(MODELS "tiny-qwen3-moe/config.json", 0, NULL);
    const char *dir = fixture_model("words", j, &o), *to;
    struct quantise_report r;
    char path[512], text[16384];
    char *at;
    size_t n;
    FILE *f;

    (void)state;
    json_object_set_new(j, "words", json_pack("{s:s}", "NaN", "Infinity"));
    snprintf(path, sizeof path, "%s/config.json", dir);
    assert_int_equal(json_dump_file(j, path, 0), 0);
    /* A number that no reader uses becomes a word. */
    f = fopen(path, "r+b");
    n = fread(text, 1, sizeof text - 32, f);
    at = memchr(text, '{', n);
    rewind(f);
    fprintf(f, "{\"a\": -Infinity, \"b\": [0.5, NaN],%.*s",
            (int)(n - 1 - (size_t)(at - text)), at + 1);
    assert_int_equal(fclose(f), 0);
    to = quantised(dir, "words-4", 4, &r);
    snprintf(path, sizeof path, "%s/config.json", to);
    f = fopen(path, "rb");
    n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    fclose(f);
    assert_non_null(strstr(text, "\"a\": -Infinity,"));
    assert_non_null(strstr(text, "0.5,\n    NaN\n"));
    assert_non_null(strstr(text, "\"NaN\": \"Infinity\""));
    expect_model(dir, to, 4);
    json_decref(j);
}

static void refused(const char *from, enum status code, const char *text)
{
    const struct quantise_options o = {.bits = 4, .group = 32};
    struct quantise_report r;
    struct error e;
    struct stat s;

    if (quantise_model(&r, from, fixture_path("refused"), &o, &e) != code ||
        strstr(e.text, text) == NULL) {
        fail_msg("%s: \"%s\" has no \"%s\"", status_name(e.code), e.text, text);
    }
    assert_int_not_equal(stat(fixture_path("refused"), &s), 0);
}

static void refuses_what_it_cannot_improve(void **state)
{
    const struct writer_options plain = {.format = WRITER_PLAIN};
    json_t *j = json_load_file(MODELS "tiny-gpt-oss/config.json", 0, NULL);
    struct quantise_report r;

    (void)state;
    refused(MODELS "tiny-gpt-oss", ST_FAILED_PRECONDITION,
            "its experts are MXFP4");
    refused(fixture_model("plain", j, &plain), ST_UNIMPLEMENTED,
            "experts of gpt_oss, whose gate and up rows alternate");
    refused(quantised(MODELS "tiny-qwen3-moe", "twice", 4, &r),
            ST_FAILED_PRECONDITION, "already quantised, at 4 bits");
    json_decref(j);
}

static void refuses_gguf(void **state)
{
    static const struct gguf_types types = {.matrices = WRITE_Q8_0};
    struct model_config c = fixture_load_config(MODELS "tiny-qwen3-moe");
    struct shard *s = fixture_shard_all(MODELS "tiny-qwen3-moe");
    const char *dir = fixture_path("gguf");
    char path[512];
    struct gguf_file *f = gguf_convert(&c, shard_weights(s), &types);

    (void)state;
    assert_int_equal(mkdir(dir, 0777), 0);
    snprintf(path, sizeof path, "%s/model.gguf", dir);
    gguf_convert_save(f, path);
    gguf_file_free(&f);
    refused(dir, ST_UNIMPLEMENTED, "GGUF files cannot be quantised here");
    shard_free(&s);
}

/* A NaN in the middle of an expert. */
static void refuses_what_is_not_finite(void **state)
{
    static const char name[] = "model.layers.0.mlp.experts.3.up_proj.weight";
    const struct quantise_options o = {.bits = 4, .group = 32};
    struct quantise_report r;
    struct rewrite f;
    struct error e;

    (void)state;
    rewrite_open(&f, MODELS "tiny-qwen3-moe");
    memset(rewrite_find(&f, name)->bytes + 96 * 2 * 7 + 10, 0xff, 2);
    assert_int_equal(quantise_model(&r, rewrite_write(&f, "nan"),
                                    fixture_path("nan-4"), &o, &e),
                     ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "row 7 of \"model.layers.0.mlp.experts.3."
                                   "up_proj.weight\" has a value"));
    rewrite_close(&f);
}

/* ---- the MTP layer ---- */

static struct shard *drafting(const char *dir)
{
    struct model_config c = fixture_load_config(dir);
    struct shard *s;
    struct error e;

    c.drafts = true;
    if (shard_load(&s, &c, dir, 0, c.shape.n_layers, NULL, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    return s;
}

static void expect_mtp(const char *from, const char *to, uint32_t bits)
{
    struct shard *a = drafting(from), *b = drafting(to);
    const struct shard_weights *x = shard_weights(a), *y = shard_weights(b);
    size_t hidden = x->shape.hidden * sizeof(float);
    const struct layer_weights *l = &x->layers[x->end];
    const struct layer_weights *m = &y->layers[y->end];

    assert_int_equal(shard_report(b)->n_unknown, 0);
    expect_same(&x->mtp->fc, &y->mtp->fc);
    expect_layer(l, m, bits);
    assert_memory_equal(x->mtp->norm, y->mtp->norm, hidden);
    assert_memory_equal(x->mtp->embed_norm, y->mtp->embed_norm, hidden);
    assert_memory_equal(x->mtp->hidden_norm, y->mtp->hidden_norm, hidden);
    assert_memory_equal(l->input_norm, m->input_norm, hidden);
    assert_memory_equal(l->post_norm, m->post_norm, hidden);
    shard_free(&a);
    shard_free(&b);
}

/* The last names the folder of a companion, which the new model has too. */
static void quantises_the_mtp_layer(void **state)
{
    static const struct writer_options sources[] = {
        {.dtype = DTYPE_BF16, .n_files = 2, .mtp = WRITER_MTP},
        {.dtype = DTYPE_BF16, .prefix = WRITER_MLX, .mtp = WRITER_MTP},
        {.dtype = DTYPE_BF16, .n_files = 3, .mtp = WRITER_COMPANION},
        {.dtype = DTYPE_BF16, .experts = WRITER_FUSED, .mtp = WRITER_COMPANION},
        {.dtype = DTYPE_BF16, .prefix = WRITER_MLX, .mtp = WRITER_BARE},
        {.dtype = DTYPE_BF16, .n_files = 2, .mtp = WRITER_BARE},
    };

    (void)state;
    for (uint32_t i = 0; i < 12; i++) {
        json_t *j = fixture_config(i % 2 ? "qwen3_next" : "qwen3_5");
        struct quantise_report r;
        char name[32], path[300];
        const char *from, *to;

        json_object_set_new(j, "mtp_num_hidden_layers", json_integer(1));
        if (i % 2) {
            json_object_set_new(j, "num_experts", json_integer(4));
            json_object_set_new(j, "num_experts_per_tok", json_integer(2));
            json_object_set_new(j, "moe_intermediate_size", json_integer(64));
            json_object_set_new(j, "shared_expert_intermediate_size",
                                json_integer(32));
        }
        snprintf(name, sizeof name, "mtp-%u", i);
        from = fixture_model(name, j, &sources[i / 2]);
        if (i / 2 == 5) {
            snprintf(path, sizeof path, "%s/mtp", from);
            assert_int_equal(mkdir(path, 0777), 0);
            snprintf(name, sizeof name, "mtp-%u/mtp.safetensors", i);
            snprintf(path, sizeof path, "%s/mtp/weights.safetensors", from);
            assert_int_equal(rename(fixture_path(name), path), 0);
        }
        snprintf(name, sizeof name, "mtp-q-%u", i);
        to = quantised(from, name, i % 4 < 2 ? 8 : 4, &r);
        expect_model(from, to, i % 4 < 2 ? 8 : 4);
        expect_mtp(from, to, i % 4 < 2 ? 8 : 4);
        json_decref(j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantises_the_mtp_layer),
        cmocka_unit_test(quantises_every_family),
        cmocka_unit_test(quantises_fp8),
        cmocka_unit_test(quantises_fused_fp8),
        cmocka_unit_test(any_form_of_experts_gives_the_same),
        cmocka_unit_test(gathers_experts_of_several_files),
        cmocka_unit_test(refuses_what_it_cannot_improve),
        cmocka_unit_test(keeps_infinity_and_nan),
        cmocka_unit_test(refuses_gguf),
        cmocka_unit_test(refuses_what_is_not_finite),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
