/* drafts_test.c - The MTP layer of a model, found and loaded. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/model/costs.h"
#include "common/model/mtp.h"
#include "common/model/sizes.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/model/fixture.h"
#include "tests/unit/worker/model/rewrite.h"

#define SECOND "model-00002-of-00002.safetensors"

/* Loads layers [begin, end) with the MTP layer. */
static struct shard *drafting(const char *dir, uint32_t begin, uint32_t end)
{
    struct model_config c = fixture_load_config(dir);
    struct shard *s;
    struct error e;

    c.drafts = true;
    if (shard_load(&s, &c, dir, begin, end, NULL, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    return s;
}

static void assert_matrix(const struct tensor *t, uint32_t rows, uint32_t cols,
                          const char *name)
{
    char *raw = fixture_stored(TINY_HYBRID, SECOND, name);

    assert_int_equal(t->rows, rows);
    assert_int_equal(t->cols, cols);
    assert_int_equal((uintptr_t)t->data % 64, 0);
    assert_memory_equal(t->data, raw, (size_t)rows * cols * 2);
    free(raw);
}

/* Compares a norm with the stored bfloat16 plus 1. */
static void assert_norm(const float *v, uint32_t n, const char *name)
{
    char *raw = fixture_stored(TINY_HYBRID, SECOND, name);

    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)(unsigned char)raw[2 * i] << 16 |
                        (uint32_t)(unsigned char)raw[2 * i + 1] << 24;
        float f;

        memcpy(&f, &bits, sizeof f);
        assert_true(v[i] == f + 1);
    }
    free(raw);
}

static void loads_the_mtp_layer_behind_the_last(void **state)
{
    struct shard *s = drafting(TINY_HYBRID, 0, 8);
    const struct shard_weights *w = shard_weights(s);
    const struct layer_weights *l = &w->layers[8];
    const struct attention_weights *a = &l->mixer.attention;

    (void)state;
    assert_int_equal(shard_layers(w), 9);
    assert_non_null(w->mtp);
    assert_matrix(&w->mtp->fc, 256, 512, "mtp.fc.weight");
    assert_norm(w->mtp->embed_norm, 256, "mtp.pre_fc_norm_embedding.weight");
    assert_norm(w->mtp->hidden_norm, 256, "mtp.pre_fc_norm_hidden.weight");
    assert_norm(w->mtp->norm, 256, "mtp.norm.weight");
    assert_int_equal(l->kind, MIXER_ATTENTION);
    assert_int_equal(l->ffn, FFN_DENSE);
    assert_norm(l->input_norm, 256, "mtp.layers.0.input_layernorm.weight");
    assert_norm(l->post_norm, 256,
                "mtp.layers.0.post_attention_layernorm.weight");
    assert_norm(a->q_norm, 256, "mtp.layers.0.self_attn.q_norm.weight");
    assert_norm(a->k_norm, 256, "mtp.layers.0.self_attn.k_norm.weight");
    assert_matrix(&a->q, 1024, 256, "mtp.layers.0.self_attn.q_proj.weight");
    assert_matrix(&a->k, 256, 256, "mtp.layers.0.self_attn.k_proj.weight");
    assert_matrix(&a->v, 256, 256, "mtp.layers.0.self_attn.v_proj.weight");
    assert_matrix(&a->o, 256, 512, "mtp.layers.0.self_attn.o_proj.weight");
    assert_matrix(&l->mlp.gate, 512, 256, "mtp.layers.0.mlp.gate_proj.weight");
    assert_matrix(&l->mlp.up, 512, 256, "mtp.layers.0.mlp.up_proj.weight");
    assert_matrix(&l->mlp.down, 256, 512, "mtp.layers.0.mlp.down_proj.weight");
    assert_int_equal(shard_report(s)->n_aside, 0);
    assert_int_equal(shard_report(s)->n_unknown, 0);
    shard_free(&s);
}

/* A tied head is the embedding, which is then loaded once. */
static void only_the_last_stage_has_it(void **state)
{
    struct shard *first = drafting(TINY_HYBRID, 0, 3);
    struct shard *last = drafting(TINY_HYBRID, 3, 8);
    struct shard *plain = fixture_shard(TINY_HYBRID, 3, 8);
    const struct shard_weights *w = shard_weights(last);

    (void)state;
    assert_null(shard_weights(first)->mtp);
    assert_int_equal(shard_layers(shard_weights(first)), 3);
    assert_int_equal(shard_report(first)->n_unknown, 0);
    assert_non_null(w->mtp);
    assert_int_equal(shard_layers(w), 6);
    assert_int_equal(w->embed.rows, 4096);
    assert_memory_equal(w->embed.data, shard_weights(plain)->head.data,
                        2097152);
    assert_ptr_equal(w->head.data, w->embed.data);
    assert_int_equal(shard_report(last)->n_tensors,
                     shard_report(plain)->n_tensors + 15);
    shard_free(&first);
    shard_free(&last);
    shard_free(&plain);
}

static void drafts_do_not_change_the_fingerprint(void **state)
{
    struct shard *a = fixture_shard_all(TINY_HYBRID);
    struct shard *b = drafting(TINY_HYBRID, 0, 8);
    struct shard *c = drafting(TINY_HYBRID, 6, 8);

    (void)state;
    assert_memory_equal(shard_fingerprint(a), shard_fingerprint(b), 16);
    assert_memory_equal(shard_fingerprint(a), shard_fingerprint(c), 16);
    shard_free(&a);
    shard_free(&b);
    shard_free(&c);
}

/* ---- all forms ---- */

/* A config with an MTP layer: of a family, dense or with experts. */
static json_t *config_of(const char *family, bool experts)
{
    json_t *j = fixture_config(family);

    json_object_set_new(j, "mtp_num_hidden_layers", json_integer(1));
    if (experts) {
        json_object_set_new(j, "num_experts", json_integer(4));
        json_object_set_new(j, "num_experts_per_tok", json_integer(2));
        json_object_set_new(j, "moe_intermediate_size", json_integer(64));
        json_object_set_new(j, "shared_expert_intermediate_size",
                            json_integer(32));
    }
    return j;
}

static const struct {
    const char *family;
    bool experts;
} families[] = {
    {"qwen3_5", false}, {"qwen3_5_moe", true}, {"qwen3_next", true}};

#define N_FAMILIES (sizeof families / sizeof families[0])

static bool same_vector(const float *a, const float *b, uint32_t n)
{
    return memcmp(a, b, n * sizeof *a) == 0;
}

static bool same_matrix(const struct tensor *a, const struct tensor *b)
{
    return a->rows == b->rows && a->cols == b->cols &&
           memcmp(a->data, b->data, a->rows * tensor_row_bytes(a)) == 0;
}

/* Compares the MTP layers of two plain models. */
static void assert_same_mtp(const struct shard *x, const struct shard *y)
{
    const struct shard_weights *a = shard_weights(x), *b = shard_weights(y);
    const struct layer_weights *l = &a->layers[a->end - a->begin];
    const struct layer_weights *m = &b->layers[b->end - b->begin];
    uint32_t hidden = a->shape.hidden, dim = a->shape.head_dim;

    assert_true(same_matrix(&a->mtp->fc, &b->mtp->fc));
    assert_true(same_vector(a->mtp->norm, b->mtp->norm, hidden));
    assert_true(same_vector(a->mtp->embed_norm, b->mtp->embed_norm, hidden));
    assert_true(same_vector(a->mtp->hidden_norm, b->mtp->hidden_norm, hidden));
    assert_true(same_vector(l->input_norm, m->input_norm, hidden));
    assert_true(same_vector(l->post_norm, m->post_norm, hidden));
    assert_true(
        same_vector(l->mixer.attention.q_norm, m->mixer.attention.q_norm, dim));
    assert_true(
        same_vector(l->mixer.attention.k_norm, m->mixer.attention.k_norm, dim));
    assert_true(same_matrix(&l->mixer.attention.q, &m->mixer.attention.q));
    assert_true(same_matrix(&l->mixer.attention.o, &m->mixer.attention.o));
    assert_int_equal(l->ffn, m->ffn);
    if (l->ffn == FFN_DENSE) {
        assert_true(same_matrix(&l->mlp.gate, &m->mlp.gate));
        assert_true(same_matrix(&l->mlp.down, &m->mlp.down));
        return;
    }
    assert_true(same_matrix(&l->experts.router, &m->experts.router));
    assert_true(same_matrix(&l->experts.gate_up, &m->experts.gate_up));
    assert_true(same_matrix(&l->experts.down, &m->experts.down));
    assert_true(same_matrix(&l->experts.shared.up, &m->experts.shared.up));
    assert_true(same_matrix(&l->experts.shared_gate, &m->experts.shared_gate));
}

/* A companion of an MLX conversion may have norms of the reference. */
static void every_source_gives_the_same_layer(void **state)
{
    static const struct writer_options others[] = {
        {.n_files = 3, .mtp = WRITER_MTP},
        {.prefix = WRITER_MULTIMODAL, .mtp = WRITER_MTP},
        {.prefix = WRITER_MLX, .experts = WRITER_EACH, .mtp = WRITER_MTP},
        {.mtp = WRITER_COMPANION},
        {.n_files = 2, .prefix = WRITER_MULTIMODAL, .mtp = WRITER_COMPANION},
        {.prefix = WRITER_MLX, .experts = WRITER_EACH, .mtp = WRITER_COMPANION},
    };

    (void)state;
    for (size_t i = 0; i < N_FAMILIES; i++) {
        json_t *j = config_of(families[i].family, families[i].experts);
        const char *dir = fixture_model(
            "source", j, &(struct writer_options){.mtp = WRITER_MTP});
        struct shard *first = drafting(dir, 0, 4);

        for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
            char name[32];
            struct shard *s;

            snprintf(name, sizeof name, "source-%zu-%zu", i, k);
            s = drafting(fixture_model(name, j, &others[k]), k % 4, 4);
            assert_same_mtp(first, s);
            assert_int_equal(shard_report(s)->n_unknown, 0);
            shard_free(&s);
        }
        shard_free(&first);
        json_decref(j);
    }
}

static double mean(const float *v, uint32_t n)
{
    double sum = 0;

    for (uint32_t i = 0; i < n; i++) {
        sum += (double)v[i] / n;
    }
    return sum;
}

/* Names without "mtp.", and norms that are gamma already. */
static void reads_a_companion_of_bare_names(void **state)
{
    static const char *const names[] = {
        "mtp.safetensors", "model-mtp.safetensors", "mtp/weights.safetensors"};
    static const enum writer_prefix prefixes[] = {WRITER_TEXT, WRITER_MLX};

    (void)state;
    for (int i = 0; i < 6; i++) {
        json_t *j = config_of("qwen3_5", false);
        struct writer_options o = {.prefix = prefixes[i % 2],
                                   .mtp = WRITER_BARE};
        const struct shard_weights *w;
        char name[64], from[300];
        struct mtp_found m;
        struct model_config c;
        struct shard *s;
        const char *dir;

        snprintf(name, sizeof name, "bare-%d", i);
        dir = fixture_model(name, j, &o);
        c = fixture_load_config(dir);
        snprintf(from, sizeof from, "%s/mtp.safetensors", dir);
        snprintf(name, sizeof name, "bare-%d/mtp", i);
        assert_int_equal(mkdir(fixture_path(name), 0777), 0);
        snprintf(name, sizeof name, "bare-%d/%s", i, names[i / 2]);
        assert_int_equal(rename(from, fixture_path(name)), 0);
        assert_int_equal(mtp_find_in(&m, &c, dir, NULL), ST_OK);
        assert_string_equal(m.text, "drafts: 1 layer, 15 tensors");
        s = drafting(dir, 0, 4);
        w = shard_weights(s);
        assert_float_equal(mean(w->mtp->norm, 32), 1, 0.2);
        assert_float_equal(mean(w->mtp->embed_norm, 32), 1, 0.2);
        assert_float_equal(mean(w->layers[4].post_norm, 32), 1, 0.2);
        shard_free(&s);
        json_decref(j);
    }
}

/* Sets every element of a float32 tensor in dir/file. */
static void fill(const char *dir, const char *file, const char *tensor,
                 float value)
{
    struct safetensors h;
    char path[300], *bytes;
    size_t len;
    struct error e;

    snprintf(path, sizeof path, "%s/%s", dir, file);
    bytes = fixture_read(path, &len);
    assert_int_equal(safetensors_parse_file(&h, bytes, len, &e), ST_OK);
    for (uint32_t i = 0; i < h.n; i++) {
        const struct safetensors_tensor *t = &h.tensors[i];

        for (uint64_t k = t->begin; strcmp(t->name, tensor) == 0 && k < t->end;
             k += sizeof value) {
            memcpy(bytes + h.data + k, &value, sizeof value);
        }
    }
    fixture_write(path, bytes, len);
    safetensors_fini(&h);
    free(bytes);
}

/* Where norms may have both forms, the mean of each decides; a checkpoint in
 * the reference's form has one form, whatever the values. */
static void repairs_norms_by_their_mean(void **state)
{
    static const struct {
        enum writer_prefix prefix;
        enum writer_mtp mtp;
        const char *file;
        float stored, gamma;
    } rows[] = {
        {WRITER_TEXT, WRITER_MTP, "model.safetensors", 0.75f, 1.75f},
        {WRITER_TEXT, WRITER_MTP, "model.safetensors", 0.25f, 1.25f},
        {WRITER_MLX, WRITER_MTP, "model.safetensors", 0.75f, 0.75f},
        {WRITER_MLX, WRITER_MTP, "model.safetensors", 0.5f, 0.5f},
        {WRITER_MLX, WRITER_MTP, "model.safetensors", 0.49f, 1.49f},
        {WRITER_TEXT, WRITER_COMPANION, "model-mtp.safetensors", 0.75f, 0.75f},
        {WRITER_TEXT, WRITER_COMPANION, "model-mtp.safetensors", 0.25f, 1.25f},
        {WRITER_TEXT, WRITER_COMPANION, "model-mtp.safetensors", -0.5f, 0.5f},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_t *j = config_of("qwen3_5", false);
        struct writer_options o = {.prefix = rows[i].prefix,
                                   .mtp = rows[i].mtp};
        bool mlx = o.prefix == WRITER_MLX;
        const float *norm;
        struct shard *s;
        const char *dir;
        char name[32];

        snprintf(name, sizeof name, "norms-%zu", i);
        dir = fixture_model(name, j, &o);
        fill(dir, rows[i].file,
             mlx ? "language_model.mtp.layers.0.self_attn.k_norm.weight"
                 : "mtp.layers.0.self_attn.k_norm.weight",
             rows[i].stored);
        s = drafting(dir, 0, 4);
        norm = shard_weights(s)->layers[4].mixer.attention.k_norm;
        assert_true(norm[0] == rows[i].gamma && norm[15] == rows[i].gamma);
        /* The model's own norms are not guessed. */
        assert_float_equal(mean(shard_weights(s)->final_norm, 32), 1, 0.2);
        shard_free(&s);
        json_decref(j);
    }
}

/* ---- sizes ---- */

static uint64_t weights_of(const struct split_model *m, uint32_t begin,
                           uint32_t end)
{
    bool first = begin == 0, last = end == m->n_layers;
    uint64_t bytes = first ? m->embed_bytes : 0;

    for (uint32_t i = begin; i < end; i++) {
        bytes += m->layers[i].weight_bytes;
    }
    bytes += last ? m->head_bytes + m->mtp.weight_bytes : 0;
    return first && last ? bytes - m->shared_bytes : bytes;
}

/* Every range takes the bytes that the sizes and the costs have. */
static void expect_sizes(const char *dir, bool of_config)
{
    static const struct kv_format f32 = {.dtype = DTYPE_F32};
    static struct split_model costs, shapes;
    struct model_config c = fixture_load_config(dir);
    struct checkpoint *files;
    struct error e;

    c.drafts = true;
    costs_of_shapes(&costs, &c, &f32);
    shapes = costs;
    assert_int_equal(checkpoint_open(&files, dir, &e), ST_OK);
    assert_int_equal(checkpoint_add_mtp(files, &e), ST_OK);
    assert_int_equal(costs_of_files(&costs, &c, files, &e), ST_OK);
    checkpoint_close(&files);
    if (of_config) {
        assert_memory_equal(&costs, &shapes, sizeof costs);
    }
    for (uint32_t b = 0; b < 4; b++) {
        for (uint32_t n = b + 1; n <= 4; n++) {
            struct shard *s = drafting(dir, b, n);

            assert_int_equal(shard_report(s)->bytes, weights_of(&costs, b, n));
            if (of_config) {
                assert_int_equal(shard_report(s)->bytes,
                                 sizes_of(&c, b, n, 32, &f32).weight_bytes);
            }
            assert_int_equal(shard_weights(s)->mtp != NULL, n == 4);
            shard_free(&s);
        }
    }
}

/* Of 8-bit models, the config does not have the group of each matrix. */
static void weighs_what_sizes_says(void **state)
{
    static const struct writer_options forms[] = {
        {.mtp = WRITER_MTP},
        {.mtp = WRITER_COMPANION, .dtype = DTYPE_BF16},
        {.mtp = WRITER_MTP, .experts = WRITER_FUSED},
        {.mtp = WRITER_MTP, .experts = WRITER_SWITCH, .bits = 8, .group = 32},
        {.mtp = WRITER_BARE, .bits = 4, .group = 32},
        {.mtp = WRITER_MTP, .dtype = DTYPE_BF16, .format = WRITER_FP8},
        {.mtp = WRITER_COMPANION,
         .experts = WRITER_FUSED,
         .format = WRITER_FP8},
    };

    (void)state;
    for (size_t i = 0; i < 2 * N_FAMILIES; i++) {
        for (size_t k = 0; k < sizeof forms / sizeof forms[0]; k++) {
            json_t *j =
                config_of(families[i / 2].family, families[i / 2].experts);
            char name[32];

            json_object_set_new(j, "tie_word_embeddings", json_boolean(i % 2));
            json_object_set_new(j, "dtype",
                                json_string(forms[k].dtype == DTYPE_BF16
                                                ? "bfloat16"
                                                : "float32"));
            snprintf(name, sizeof name, "weigh-%zu-%zu", i, k);
            expect_sizes(fixture_model(name, j, &forms[k]), true);
            json_decref(j);
        }
    }
}

/* ---- companions and faults ---- */

/* The companion of a model that has the layer in its own files is not read, nor
 * is any without drafts. */
static void reads_a_companion_only_if_needed(void **state)
{
    json_t *j = config_of("qwen3_5", false);
    struct writer_options o = {.mtp = WRITER_MTP};
    const char *dir = fixture_model("both", j, &o);
    struct model_config c = fixture_load_config(dir);
    struct shard *s;
    struct error e;

    (void)state;
    fixture_write(fixture_path("both/mtp.safetensors"), "broken", 6);
    s = drafting(dir, 0, 4);
    shard_free(&s);
    o.mtp = WRITER_NO_MTP;
    dir = fixture_model("both", j, &o);
    s = fixture_shard_all(dir);
    assert_int_equal(shard_report(s)->n_aside, 0);
    shard_free(&s);
    c.drafts = true;
    assert_int_equal(shard_load(&s, &c, dir, 0, 4, NULL, &e), ST_DATA_LOSS);
    assert_non_null(strstr(e.text, "\"mtp.safetensors\""));
    /* A stage without the MTP layer does not need it. */
    assert_int_equal(shard_load(&s, &c, dir, 0, 3, NULL, &e), ST_OK);
    shard_free(&s);
    json_decref(j);
}

struct seen {
    uint64_t total;
};

static bool watch(void *ctx, uint64_t done, uint64_t total)
{
    struct seen *s = ctx;

    (void)done;
    s->total = total;
    return true;
}

/* A worker with stages loads a layer first; its last layers then need not hash
 * the model again, although they bring a companion. */
static void knows_the_fingerprint_beside_a_companion(void **state)
{
    json_t *j = config_of("qwen3_5", false);
    struct writer_options o = {.mtp = WRITER_COMPANION};
    const char *dir = fixture_model("known", j, &o);
    struct model_config c = fixture_load_config(dir);
    struct shard *first = fixture_shard(dir, 1, 2), *last;
    struct shard_known known = shard_known(first);
    struct seen seen = {0};
    struct shard_options options = {
        .known = &known, .progress = watch, .ctx = &seen};
    struct error e;

    (void)state;
    c.drafts = true;
    assert_int_equal(shard_load(&last, &c, dir, 3, 4, &options, &e), ST_OK);
    assert_int_equal(seen.total, shard_report(last)->file_bytes);
    assert_memory_equal(shard_fingerprint(first), shard_fingerprint(last), 16);
    shard_free(&first);
    shard_free(&last);
    json_decref(j);
}

static const struct {
    const char *without, *text;
} missing[] = {
    {"mtp.fc.weight", "tensor \"mtp.fc.weight\" is missing"},
    {"mtp.norm.weight", "tensor \"mtp.norm.weight\" is missing"},
    {"pre_fc_norm_hidden.weight",
     "tensor \"mtp.pre_fc_norm_hidden.weight\" is missing"},
    {"pre_fc_norm_embedding.weight",
     "tensor \"mtp.pre_fc_norm_embedding.weight\" is missing"},
    {"mtp.layers.0.self_attn.k_proj.weight",
     "tensor \"mtp.layers.0.self_attn.k_proj.weight\" is missing"},
    {"mtp.layers.0.mlp.gate.weight",
     "tensor \"mtp.layers.0.mlp.gate.weight\" is missing"},
    {"mtp.layers.0.mlp.experts.down_proj",
     "tensor \"mtp.layers.0.mlp.experts.down_proj\" is missing"},
    {"mtp.layers.0.mlp.shared_expert_gate.weight",
     "tensor \"mtp.layers.0.mlp.shared_expert_gate.weight\" is missing"},
};

static void expect_refused(const char *dir, enum status code, const char *text)
{
    struct model_config c = fixture_load_config(dir);
    struct shard *s;
    struct error e;

    c.drafts = true;
    if (shard_load(&s, &c, dir, 2, 4, NULL, &e) != code ||
        strstr(e.text, text) == NULL) {
        fail_msg("%s: \"%s\" has no \"%s\"", status_name(e.code), e.text, text);
    }
    /* Without drafts the model is whole. */
    s = fixture_shard_all(dir);
    shard_free(&s);
}

static void names_a_missing_tensor(void **state)
{
    json_t *j = config_of("qwen3_next", true);

    (void)state;
    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++) {
        struct writer_options o = {.mtp = WRITER_MTP,
                                   .experts = WRITER_FUSED,
                                   .without = missing[i].without};

        expect_refused(fixture_model("missing", j, &o), ST_NOT_FOUND,
                       missing[i].text);
    }
    json_decref(j);
}

#define L0 "mtp.layers.0."

static const struct {
    const char *tensor, *dtype;
    uint32_t rank;
    uint64_t dims[3];
    const char *text;
} shapes[] = {
    {"mtp.fc.weight",
     "F32",
     2,
     {64, 32},
     "tensor \"mtp.fc.weight\" is [64, 32], the configuration needs [32, 64]"},
    {"mtp.fc.weight", "F64", 2, {32, 32}, "tensor \"mtp.fc.weight\" is F64"},
    {"mtp.norm.weight",
     "F32",
     1,
     {31},
     "is [31], the configuration needs [32]"},
    {L0 "self_attn.q_proj.weight",
     "F32",
     2,
     {64, 64},
     "is [64, 64], the configuration needs [128, 32]"},
    {L0 "mlp.experts.gate_up_proj",
     "F32",
     3,
     {4, 64, 64},
     "experts.gate_up_proj\" is [4, 64, 64], the configuration needs [4, 128, "
     "32]"},
    {L0 "mlp.experts.gate_up_proj",
     "F32",
     3,
     {4, 32, 128},
     "has the experts' matrices transposed"},
    {L0 "mlp.experts.down_proj",
     "F32",
     3,
     {2, 64, 64},
     "experts.down_proj\" is [2, 64, 64], the configuration needs [4, 32, 64]"},
    {L0 "mlp.experts.down_proj",
     "F32",
     2,
     {128, 64},
     "experts.down_proj\" is [128, 64], the configuration needs [4, 32, 64]"},
};

static void names_a_tensor_of_another_shape(void **state)
{
    json_t *j = config_of("qwen3_next", true);
    struct writer_options o = {.mtp = WRITER_MTP, .experts = WRITER_FUSED};
    const char *dir = fixture_model("shapes", j, &o);

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        enum status code = strstr(shapes[i].text, "transposed") != NULL
                               ? ST_UNIMPLEMENTED
                               : ST_INVALID_ARGUMENT;
        struct rewrite_tensor *t;
        struct rewrite r;

        rewrite_open(&r, dir);
        t = rewrite_find(&r, shapes[i].tensor);
        snprintf(t->dtype, sizeof t->dtype, "%s", shapes[i].dtype);
        t->rank = shapes[i].rank;
        memcpy(t->dims, shapes[i].dims, sizeof shapes[i].dims);
        t->n = shapes[i].rank == 1 ? 31 * 4 : t->n;
        expect_refused(rewrite_write(&r, "reshaped"), code, shapes[i].text);
        rewrite_close(&r);
    }
    json_decref(j);
}

static void reports_strangers_of_the_mtp_layer(void **state)
{
    json_t *j = config_of("qwen3_5", false);
    struct writer_options o = {.mtp = WRITER_MTP,
                               .extra = "mtp.layers.1.norm.weight"};
    const char *dir = fixture_model("strange", j, &o);
    struct shard *s = drafting(dir, 3, 4);

    (void)state;
    assert_int_equal(shard_report(s)->n_unknown, 1);
    assert_string_equal(shard_report(s)->unknown.text,
                        "\"mtp.layers.1.norm.weight\"");
    shard_free(&s);
    s = fixture_shard(dir, 3, 4);
    assert_int_equal(shard_report(s)->n_unknown, 0);
    assert_int_equal(shard_report(s)->n_aside, 16);
    shard_free(&s);
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_the_mtp_layer_behind_the_last),
        cmocka_unit_test(only_the_last_stage_has_it),
        cmocka_unit_test(drafts_do_not_change_the_fingerprint),
        cmocka_unit_test(every_source_gives_the_same_layer),
        cmocka_unit_test(reads_a_companion_of_bare_names),
        cmocka_unit_test(repairs_norms_by_their_mean),
        cmocka_unit_test(weighs_what_sizes_says),
        cmocka_unit_test(reads_a_companion_only_if_needed),
        cmocka_unit_test(knows_the_fingerprint_beside_a_companion),
        cmocka_unit_test(names_a_missing_tensor),
        cmocka_unit_test(names_a_tensor_of_another_shape),
        cmocka_unit_test(reports_strangers_of_the_mtp_layer),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
