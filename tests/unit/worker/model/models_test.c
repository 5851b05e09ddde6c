/* The six small models: every value in memory is the one that the file stands
 * for, in every form that their experts can be stored in. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/half.h"
#include "common/model/sizes.h"
#include "common/model/weight_format.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/model/fixture.h"
#include "tests/unit/worker/model/rewrite.h"
#include "worker/model/shard.h"

#define MODELS "tests/vectors/models/"

static const char *const models[] = {
    MODELS "tiny-qwen3.5-moe",   MODELS "tiny-qwen3-next",
    MODELS "tiny-qwen3-moe",     MODELS "tiny-gpt-oss",
    MODELS "tiny-qwen3-moe-fp8", MODELS "tiny-gemma3"};

#define N_MODELS (sizeof models / sizeof models[0])

/* ---- expected values ---- */

static float element(const struct rewrite_tensor *t, uint64_t i)
{
    uint16_t half;
    float f;

    if (strcmp(t->dtype, "F32") == 0) {
        memcpy(&f, t->bytes + 4 * i, sizeof f);
        return f;
    }
    assert_string_equal(t->dtype, "BF16");
    memcpy(&half, t->bytes + 2 * i, sizeof half);
    return half_from_bf16(half);
}

/* A stored matrix: plain, or FP8 in blocks. */
struct matrix {
    const struct rewrite_tensor *codes, *scales; /* plain: no scales */
};

static struct matrix matrix_of(const struct rewrite *f, const char *name)
{
    struct matrix m = {.codes = rewrite_find(f, name)};
    char full[160];

    if (strcmp(m.codes->dtype, "F8_E4M3") == 0) {
        snprintf(full, sizeof full, "%s_scale_inv", name);
        m.scales = rewrite_find(f, full);
    }
    return m;
}

static float stored(const struct matrix *m, uint64_t r, uint64_t c)
{
    uint64_t at = r * m->codes->dims[1] + c;

    return m->scales == NULL
               ? element(m->codes, at)
               : weight_format_e4m3(m->codes->bytes[at]) *
                     element(m->scales, r / 128 * m->scales->dims[1] + c / 128);
}

/* Rows [row, row + n) of a matrix in memory are those of a stored one. */
static void expect_rows(const struct tensor *t, uint32_t row, uint32_t n,
                        const struct rewrite *f, const char *name)
{
    const struct matrix m = matrix_of(f, name);
    float *have = calloc(t->cols, sizeof *have);

    assert_non_null(have);
    assert_int_equal(m.codes->dims[0], n);
    assert_int_equal(m.codes->dims[1], t->cols);
    for (uint32_t r = 0; r < n; r++) {
        weight_format_decode(have, t, row + r, 0, t->cols);
        for (uint32_t c = 0; c < t->cols; c++) {
            if (have[c] != stored(&m, r, c)) {
                fail_msg("%s [%u, %u]", name, r, c);
            }
        }
    }
    free(have);
}

static void expect_matrix(const struct tensor *t, const struct rewrite *f,
                          uint32_t layer, const char *name)
{
    char full[128];

    snprintf(full, sizeof full, "model.layers.%u.%s.weight", layer, name);
    assert_int_equal((uintptr_t)t->data % 64, 0);
    expect_rows(t, 0, t->rows, f, full);
}

static void expect_vector(const float *v, const struct rewrite *f,
                          uint32_t layer, const char *name, float add)
{
    const struct rewrite_tensor *t;
    char full[128];

    snprintf(full, sizeof full, "model.layers.%u.%s", layer, name);
    t = rewrite_find(f, full);
    assert_non_null(v);
    for (uint64_t i = 0; i < t->n / 2; i++) {
        assert_true(v[i] == element(t, i) + add);
    }
}

/* ---- layers ---- */

static void expect_attention(const struct attention_weights *a,
                             const struct rewrite *f, uint32_t i, float shift)
{
    expect_matrix(&a->q, f, i, "self_attn.q_proj");
    expect_matrix(&a->k, f, i, "self_attn.k_proj");
    expect_matrix(&a->v, f, i, "self_attn.v_proj");
    expect_matrix(&a->o, f, i, "self_attn.o_proj");
    if (a->q_norm != NULL) {
        expect_vector(a->q_norm, f, i, "self_attn.q_norm.weight", shift);
        expect_vector(a->k_norm, f, i, "self_attn.k_norm.weight", shift);
    }
    if (a->q_bias != NULL) {
        expect_vector(a->q_bias, f, i, "self_attn.q_proj.bias", 0);
        expect_vector(a->k_bias, f, i, "self_attn.k_proj.bias", 0);
        expect_vector(a->v_bias, f, i, "self_attn.v_proj.bias", 0);
        expect_vector(a->o_bias, f, i, "self_attn.o_proj.bias", 0);
        expect_vector(a->sinks, f, i, "self_attn.sinks", 0);
    }
}

static void expect_experts(const struct expert_weights *w,
                           const struct model_shape *s, const struct rewrite *f,
                           uint32_t i)
{
    static const char *const names[] = {"gate", "up", "down"};
    char name[128];

    expect_matrix(&w->router, f, i, "mlp.gate");
    for (uint32_t e = 0; e < s->n_experts; e++) {
        for (uint32_t k = 0; k < 3; k++) {
            snprintf(name, sizeof name,
                     "model.layers.%u.mlp.experts.%u.%s_proj.weight", i, e,
                     names[k]);
            if (k < 2) {
                expect_rows(&w->gate_up, (2 * e + k) * s->expert_dim,
                            s->expert_dim, f, name);
            } else {
                expect_rows(&w->down, e * s->hidden, s->hidden, f, name);
            }
        }
    }
    if (s->shared_dim > 0) {
        expect_matrix(&w->shared.gate, f, i, "mlp.shared_expert.gate_proj");
        expect_matrix(&w->shared.up, f, i, "mlp.shared_expert.up_proj");
        expect_matrix(&w->shared.down, f, i, "mlp.shared_expert.down_proj");
        expect_matrix(&w->shared_gate, f, i, "mlp.shared_expert_gate");
    }
}

/* The reference decodes a byte of the blocks to two values, the lower half
 * first, and scales 32 of them by 2^(scale - 127). */
static void expect_blocks(const struct tensor *t, const struct rewrite *f,
                          uint32_t layer, const char *name)
{
    static const float values[16] = {0,  0.5f,  1,  1.5f,  2,  3,  4,  6,
                                     -0, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    const struct rewrite_tensor *blocks, *scales;
    char full[128];

    snprintf(full, sizeof full, "model.layers.%u.%s_blocks", layer, name);
    blocks = rewrite_find(f, full);
    snprintf(full, sizeof full, "model.layers.%u.%s_scales", layer, name);
    scales = rewrite_find(f, full);
    assert_int_equal(t->format, WEIGHT_MXFP4);
    assert_int_equal((uint64_t)t->rows * t->cols, blocks->n * 2);
    for (uint32_t i = 0; i < t->rows * t->cols; i++) {
        uint8_t code = blocks->bytes[i / 2] >> i % 2 * 4 & 15;
        float have;

        weight_format_decode(&have, t, i / t->cols, i % t->cols, 1);
        assert_true(have == ldexpf(values[code], scales->bytes[i / 32] - 127));
    }
}

static void expect_gpt_oss(const struct expert_weights *w,
                           const struct rewrite *f, uint32_t i)
{
    expect_matrix(&w->router, f, i, "mlp.router");
    expect_vector(w->router_bias, f, i, "mlp.router.bias", 0);
    expect_blocks(&w->gate_up, f, i, "mlp.experts.gate_up_proj");
    expect_blocks(&w->down, f, i, "mlp.experts.down_proj");
    expect_vector(w->gate_up_bias, f, i, "mlp.experts.gate_up_proj_bias", 0);
    expect_vector(w->down_bias, f, i, "mlp.experts.down_proj_bias", 0);
}

static void expect_norms(const struct layer_weights *w, const struct rewrite *f,
                         uint32_t i, float shift)
{
    expect_vector(w->input_norm, f, i, "input_layernorm.weight", shift);
    if (w->ffn_norm == NULL) {
        assert_null(w->mixer_norm);
        expect_vector(w->post_norm, f, i, "post_attention_layernorm.weight",
                      shift);
        return;
    }
    expect_vector(w->mixer_norm, f, i, "post_attention_layernorm.weight",
                  shift);
    expect_vector(w->post_norm, f, i, "pre_feedforward_layernorm.weight",
                  shift);
    expect_vector(w->ffn_norm, f, i, "post_feedforward_layernorm.weight",
                  shift);
}

/* Gated DeltaNets are those of tiny-hybrid, which shard_test.c checks; here
 * their vectors. */
static void expect_deltanet(const struct deltanet_weights *d,
                            const struct rewrite *f, uint32_t i)
{
    expect_vector(d->conv, f, i, "linear_attn.conv1d.weight", 0);
    expect_vector(d->a_log, f, i, "linear_attn.A_log", 0);
    expect_vector(d->norm, f, i, "linear_attn.norm.weight", 0);
    expect_matrix(&d->out, f, i, "linear_attn.out_proj");
}

static void expect_layer(const struct layer_weights *w,
                         const struct model_config *c, const struct rewrite *f,
                         uint32_t i)
{
    float shift = c->norms == NORM_GAMMA_MINUS_1 ? 1 : 0;

    assert_int_equal(w->kind, c->mixers[i]);
    assert_int_equal(w->ffn, c->ffns[i]);
    expect_norms(w, f, i, shift);
    if (mixer_attends(w->kind)) {
        expect_attention(&w->mixer.attention, f, i, shift);
    } else {
        expect_deltanet(&w->mixer.deltanet, f, i);
    }
    if (w->ffn == FFN_DENSE) {
        expect_matrix(&w->mlp.gate, f, i, "mlp.gate_proj");
        expect_matrix(&w->mlp.up, f, i, "mlp.up_proj");
        expect_matrix(&w->mlp.down, f, i, "mlp.down_proj");
    } else if (c->expert_bias) {
        expect_gpt_oss(&w->experts, f, i);
    } else {
        expect_experts(&w->experts, &c->shape, f, i);
    }
}

static void hold_the_stored_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_MODELS; i++) {
        struct model_config c = fixture_load_config(models[i]);
        struct shard *s = fixture_shard_all(models[i]);
        const struct shard_weights *w = shard_weights(s);
        struct rewrite f;

        rewrite_open(&f, models[i]);
        for (uint32_t n = 0; n < c.shape.n_layers; n++) {
            expect_layer(&w->layers[n], &c, &f, n);
        }
        expect_rows(&w->embed, 0, c.shape.vocab, &f,
                    "model.embed_tokens.weight");
        expect_rows(&w->head, 0, c.shape.vocab, &f,
                    c.tied ? "model.embed_tokens.weight" : "lm_head.weight");
        assert_int_equal(shard_report(s)->n_tensors, f.n);
        assert_int_equal(shard_report(s)->n_unknown, 0);
        assert_int_equal(shard_report(s)->n_aside, 0);
        rewrite_close(&f);
        shard_free(&s);
    }
}

/* ---- the same weights in another form or range ---- */

static void same_bytes(const void *a, const void *b, uint64_t n)
{
    assert_int_equal(a != NULL, b != NULL);
    if (a != NULL) {
        assert_memory_equal(a, b, n);
    }
}

static void same_matrix(const struct tensor *a, const struct tensor *b)
{
    assert_int_equal(a->format, b->format);
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->cols, b->cols);
    assert_int_equal(a->bits, b->bits);
    assert_int_equal(a->group, b->group);
    same_bytes(a->data, b->data, a->rows * tensor_row_bytes(a));
    same_bytes(a->scales, b->scales, a->rows * tensor_scale_bytes(a));
    same_bytes(a->biases, b->biases, a->rows * tensor_scale_bytes(a));
}

static void same_experts(const struct expert_weights *a,
                         const struct expert_weights *b,
                         const struct model_shape *s)
{
    same_matrix(&a->router, &b->router);
    same_matrix(&a->gate_up, &b->gate_up);
    same_matrix(&a->down, &b->down);
    same_matrix(&a->shared.gate, &b->shared.gate);
    same_matrix(&a->shared.down, &b->shared.down);
    same_matrix(&a->shared_gate, &b->shared_gate);
    same_bytes(a->router_bias, b->router_bias, s->n_experts * 4);
    same_bytes(a->gate_up_bias, b->gate_up_bias,
               (uint64_t)s->n_experts * s->expert_dim * 8);
    same_bytes(a->down_bias, b->down_bias,
               (uint64_t)s->n_experts * s->hidden * 4);
}

static void same_layer(const struct layer_weights *a,
                       const struct layer_weights *b,
                       const struct model_shape *s)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->ffn, b->ffn);
    same_bytes(a->input_norm, b->input_norm, s->hidden * 4);
    same_bytes(a->mixer_norm, b->mixer_norm, s->hidden * 4);
    same_bytes(a->post_norm, b->post_norm, s->hidden * 4);
    same_bytes(a->ffn_norm, b->ffn_norm, s->hidden * 4);
    if (mixer_attends(a->kind)) {
        same_matrix(&a->mixer.attention.q, &b->mixer.attention.q);
        same_matrix(&a->mixer.attention.o, &b->mixer.attention.o);
        same_bytes(a->mixer.attention.sinks, b->mixer.attention.sinks,
                   s->n_heads * 4);
    } else {
        same_matrix(&a->mixer.deltanet.qkv, &b->mixer.deltanet.qkv);
        same_matrix(&a->mixer.deltanet.z, &b->mixer.deltanet.z);
        same_matrix(&a->mixer.deltanet.a, &b->mixer.deltanet.a);
    }
    if (a->ffn == FFN_EXPERTS) {
        same_experts(&a->experts, &b->experts, s);
    } else {
        same_matrix(&a->mlp.gate, &b->mlp.gate);
        same_matrix(&a->mlp.down, &b->mlp.down);
    }
}

/* Both models have the same layers from b's first on. */
static void same_weights(const struct shard *a, const struct shard *b)
{
    const struct shard_weights *x = shard_weights(a), *y = shard_weights(b);

    for (uint32_t i = y->begin; i < y->end; i++) {
        same_layer(&x->layers[i - x->begin], &y->layers[i - y->begin],
                   &x->shape);
    }
}

static void load_in_ranges(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_MODELS; i++) {
        struct shard *all = fixture_shard_all(models[i]);
        uint32_t n = shard_weights(all)->shape.n_layers;

        for (uint32_t b = 0; b < n; b++) {
            for (uint32_t e = b + 1; e <= n; e += n - 1) {
                struct shard *s = fixture_shard(models[i], b, e);

                same_weights(all, s);
                assert_memory_equal(shard_fingerprint(s),
                                    shard_fingerprint(all), 16);
                assert_int_equal(shard_report(s)->n_unknown, 0);
                shard_free(&s);
            }
        }
        shard_free(&all);
    }
}

/* Loads a changed model and compares it with the one that it was made of. */
static void same_as(const char *dir, const char *changed)
{
    struct shard *a = fixture_shard_all(dir), *b = fixture_shard_all(changed);
    uint32_t n = shard_weights(a)->shape.n_layers;
    struct shard *last = fixture_shard(changed, n - 1, n);

    same_weights(a, b);
    same_weights(b, last);
    assert_memory_equal(shard_fingerprint(b), shard_fingerprint(last), 16);
    assert_int_equal(shard_report(a)->n_unknown, 0);
    assert_int_equal(shard_report(b)->n_unknown, 0);
    assert_int_equal(shard_report(a)->file_bytes, shard_report(b)->file_bytes);
    assert_int_equal(shard_report(a)->bytes, shard_report(b)->bytes);
    shard_free(&a);
    shard_free(&b);
    shard_free(&last);
}

static void fused_experts_are_the_same(void **state)
{
    struct rewrite f;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        rewrite_open(&f, models[i]);
        rewrite_fuse(&f);
        same_as(models[i], rewrite_write(&f, "fused"));
        rewrite_close(&f);
    }
}

/* As Qwen3.5 MoE is published. */
static void fused_experts_load_under_nested_names(void **state)
{
    struct rewrite f;
    const char *dir;
    struct shard *a, *b;

    (void)state;
    rewrite_open(&f, models[0]);
    rewrite_fuse(&f);
    dir = rewrite_write(&f, "to-nest");
    same_as(models[0], fixture_nest(dir, "nested"));
    a = fixture_shard_all(dir);
    b = fixture_shard_all(fixture_path("nested"));
    assert_memory_equal(shard_fingerprint(a), shard_fingerprint(b), 16);
    shard_free(&a);
    shard_free(&b);
    rewrite_close(&f);
}

static void experts_of_a_switch_are_the_same(void **state)
{
    struct rewrite f;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        rewrite_open(&f, models[i]);
        rewrite_switch(&f);
        same_as(models[i], rewrite_write(&f, "switch"));
        rewrite_close(&f);
    }
}

/* ---- random models in every form ---- */

/* Returns a config of the six, to json_decref(). */
static json_t *config_of(size_t model)
{
    char path[128];
    json_t *j;

    snprintf(path, sizeof path, "%s/config.json", models[model]);
    j = json_load_file(path, 0, NULL);
    assert_non_null(j);
    return j;
}

/* Values of a matrix are finite and of the size that keeps activations so. */
static void expect_random(const struct tensor *t, enum weight_format format)
{
    float *row = calloc(t->cols, sizeof *row);
    double sum = 0;
    uint32_t rows = t->rows < 100 ? t->rows : 100;

    assert_non_null(row);
    if (t->format != format) {
        fail_msg("%s, not %s", weight_format_name(t->format),
                 weight_format_name(format));
    }
    for (uint32_t r = 0; r < rows; r++) {
        weight_format_decode(row, t, r, 0, t->cols);
        for (uint32_t i = 0; i < t->cols; i++) {
            sum += (double)row[i] * row[i];
        }
    }
    sum /= rows; /* about 1 */
    if (!(sum > 0.1 && sum < 3)) {
        fail_msg("%s: %f", weight_format_name(format), sum);
    }
    free(row);
}

/* Without the files, the configuration gives the same sizes. */
static void expect_sizes(const struct shard *s, const char *dir)
{
    struct model_config c = fixture_load_config(dir);
    uint64_t bytes =
        sizes_last_norm(&c) + sizes_embedding(&c) * (c.tied ? 1 : 2);

    for (uint32_t i = 0; i < c.shape.n_layers; i++) {
        bytes += sizes_layer(&c, i);
    }
    if (shard_report(s)->bytes != bytes) {
        fail_msg("%s: %llu bytes, computed %llu", c.family,
                 (unsigned long long)shard_report(s)->bytes,
                 (unsigned long long)bytes);
    }
}

static void expect_random_layers(const char *dir, enum weight_format format,
                                 enum weight_format experts)
{
    struct shard *s = fixture_shard_all(dir);
    const struct shard_weights *w = shard_weights(s);

    assert_int_equal(shard_report(s)->n_unknown, 0);
    /* No checkpoint has plain experts among affine matrices. */
    if (w->embed.dtype == w->shape.dtype &&
        (format != WEIGHT_AFFINE || experts == WEIGHT_AFFINE)) {
        expect_sizes(s, dir);
    }
    for (uint32_t i = 0; i < w->end; i++) {
        const struct layer_weights *l = &w->layers[i];

        if (mixer_attends(l->kind)) {
            expect_random(&l->mixer.attention.q, format);
        }
        if (l->ffn == FFN_EXPERTS) {
            expect_random(&l->experts.gate_up, experts);
            expect_random(&l->experts.down, experts);
            expect_random(&l->experts.router, WEIGHT_PLAIN);
        } else {
            expect_random(&l->mlp.up, format);
        }
    }
    shard_free(&s);
}

static void random_models_load(void **state)
{
    static const struct {
        struct writer_options o;
        enum weight_format format, experts;
    } rows[] = {
        {{.format = WRITER_PLAIN}, WEIGHT_PLAIN, WEIGHT_PLAIN},
        {{.format = WRITER_PLAIN, .experts = WRITER_FUSED, .dtype = DTYPE_BF16},
         WEIGHT_PLAIN,
         WEIGHT_PLAIN},
        {{.format = WRITER_FP8, .dtype = DTYPE_BF16}, WEIGHT_FP8, WEIGHT_FP8},
        {{.format = WRITER_FP8, .experts = WRITER_FUSED},
         WEIGHT_FP8,
         WEIGHT_FP8},
        {{.bits = 4, .group = 32, .dtype = DTYPE_BF16},
         WEIGHT_AFFINE,
         WEIGHT_AFFINE},
        {{.bits = 8,
          .group = 32,
          .prefix = WRITER_MLX,
          .n_files = 3,
          .dtype = DTYPE_BF16},
         WEIGHT_AFFINE,
         WEIGHT_AFFINE},
    };

    (void)state;
    for (size_t i = 0; i < N_MODELS; i++) {
        json_t *j = config_of(i);

        /* Columns in groups of 32, in experts too. */
        if (json_object_get(j, "num_experts") != NULL) {
            json_object_set_new(j, "moe_intermediate_size", json_integer(64));
        }
        for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
            bool plain = rows[k].o.bits > 0 && i == 3; /* gpt-oss */
            const char *dir = fixture_model("random", j, &rows[k].o);

            expect_random_layers(dir, rows[k].format,
                                 plain ? WEIGHT_PLAIN : rows[k].experts);
            (void)remove(fixture_path("random/model.safetensors"));
        }
        json_decref(j);
    }
}

/* An expert's gate and up of 128 rows each have blocks of their own in both
 * forms. */
static void fused_fp8_experts_are_the_same(void **state)
{
    const struct writer_options o = {.format = WRITER_FP8};
    json_t *j = config_of(2);
    const char *dir;
    struct rewrite f;

    (void)state;
    json_object_set_new(j, "moe_intermediate_size", json_integer(128));
    json_object_set_new(j, "hidden_size", json_integer(160));
    dir = fixture_model("fp8", j, &o);
    rewrite_open(&f, dir);
    rewrite_fuse(&f);
    same_as(dir, rewrite_write(&f, "fp8-fused"));
    rewrite_close(&f);
    json_decref(j);
}

/* Key heads of 192 rows begin inside blocks of 128: rows get the scales of
 * the rows that they were. */
static void fp8_projections_are_taken_apart(void **state)
{
    const struct writer_options o = {.format = WRITER_FP8};
    static const char name[] = "model.layers.0.linear_attn.in_proj_qkvz.weight";
    json_t *j = config_of(1);
    const char *dir = fixture_model("fp8-groups", j, &o);
    struct shard *s = fixture_shard_all(dir);
    const struct deltanet_weights *d =
        &shard_weights(s)->layers[0].mixer.deltanet;
    struct rewrite f;
    struct matrix m;
    float row[96];

    (void)state;
    rewrite_open(&f, dir);
    m = matrix_of(&f, name);
    assert_int_equal(d->qkv.format, WEIGHT_FP8);
    assert_int_equal(d->b.format, WEIGHT_PLAIN);
    for (uint32_t r = 0; r < 2 * 192; r++) {
        uint32_t g = r / 192, in = r % 192;
        const struct tensor *t = in < 128 ? &d->qkv : &d->z;
        uint32_t to = in < 32    ? g * 32 + in
                      : in < 64  ? 64 + g * 32 + in - 32
                      : in < 128 ? 128 + g * 64 + in - 64
                                 : g * 64 + in - 128;

        weight_format_decode(row, t, to, 0, 96);
        for (uint32_t c = 0; c < 96; c++) {
            assert_true(row[c] == stored(&m, r, c));
        }
    }
    rewrite_close(&f);
    shard_free(&s);
    json_decref(j);
}

/* Without options, a random model has the form that its config names. */
static void random_models_follow_the_config(void **state)
{
    static const enum weight_format formats[][2] = {
        {WEIGHT_PLAIN, WEIGHT_PLAIN}, {WEIGHT_PLAIN, WEIGHT_PLAIN},
        {WEIGHT_PLAIN, WEIGHT_PLAIN}, {WEIGHT_PLAIN, WEIGHT_MXFP4},
        {WEIGHT_FP8, WEIGHT_FP8},     {WEIGHT_PLAIN, WEIGHT_PLAIN}};
    const struct writer_options o = {.dtype = DTYPE_BF16};

    (void)state;
    for (size_t i = 0; i < N_MODELS; i++) {
        json_t *j = config_of(i);

        expect_random_layers(fixture_model("as-config", j, &o), formats[i][0],
                             formats[i][1]);
        json_decref(j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hold_the_stored_values),
        cmocka_unit_test(load_in_ranges),
        cmocka_unit_test(fused_experts_are_the_same),
        cmocka_unit_test(fused_experts_load_under_nested_names),
        cmocka_unit_test(experts_of_a_switch_are_the_same),
        cmocka_unit_test(random_models_load),
        cmocka_unit_test(fused_fp8_experts_are_the_same),
        cmocka_unit_test(fp8_projections_are_taken_apart),
        cmocka_unit_test(random_models_follow_the_config),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
