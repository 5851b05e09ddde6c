/* Models written as GGUF files load to the weights that they were written
 * from. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/model/directory.h"
#include "common/model/gguf.h"
#include "common/model/mtp.h"
#include "common/model/weight_format.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/model/fixture.h"
#include "tests/unit/worker/model/gguf_convert.h"
#include "worker/model/shard.h"

#define MODELS "tests/vectors/models/"

struct model {
    struct model_config config;
    struct shard *shard;
    const struct shard_weights *w;
};

static void open_model(struct model *m, const char *path)
{
    struct error e = {.text = ""};

    if (config_load(&m->config, path, &e) != ST_OK ||
        shard_load(&m->shard, &m->config, path, 0, m->config.shape.n_layers,
                   NULL, &e) != ST_OK) {
        fail_msg("%s: %s", path, e.text);
    }
    m->w = shard_weights(m->shard);
}

static void close_model(struct model *m)
{
    shard_free(&m->shard);
}

/* ---- comparison ---- */

/* The values of a matrix: the source's values after a quantisation. */
struct compare {
    const char *what;
    uint32_t layer;
    uint32_t type; /* enum writer_type */
};

static void same_row(const struct compare *k, const float *have,
                     const float *want, uint32_t row, uint32_t n)
{
    if (memcmp(have, want, n * sizeof *have) == 0) {
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (have[i] != want[i]) {
            fail_msg("%s of layer %u, row %u, column %u: %.9g, not %.9g",
                     k->what, k->layer, row, i, (double)have[i],
                     (double)want[i]);
        }
    }
}

static void same_matrix(struct compare *k, const char *what,
                        const struct tensor *have, const struct tensor *want,
                        uint32_t type)
{
    uint32_t n = want->cols;
    float *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
    void *blocks;

    k->what = what;
    assert_int_equal(have->rows, want->rows);
    assert_int_equal(have->cols, want->cols);
    type = gguf_convert_type(type, n);
    blocks = malloc(gguf_type_bytes(type, n));
    for (uint32_t i = 0; i < want->rows; i++) {
        weight_format_decode(a, have, i, 0, n);
        weight_format_decode(b, want, i, 0, n);
        gguf_quantise(type, b, n, blocks);
        gguf_dequantise(type, blocks, n, b);
        same_row(k, a, b, i, n);
    }
    free(blocks);
    free(a);
    free(b);
}

static void same_vector(struct compare *k, const char *what, const float *have,
                        const float *want, uint32_t n)
{
    k->what = what;
    assert_int_equal(have == NULL, want == NULL);
    if (want != NULL) {
        same_row(k, have, want, 0, n);
    }
}

static void same_attention(struct compare *k, const struct attention_weights *a,
                           const struct attention_weights *b,
                           const struct model_shape *s)
{
    same_matrix(k, "q", &a->q, &b->q, k->type);
    same_matrix(k, "k", &a->k, &b->k, k->type);
    same_matrix(k, "v", &a->v, &b->v, k->type);
    same_matrix(k, "o", &a->o, &b->o, k->type);
    same_vector(k, "q bias", a->q_bias, b->q_bias, b->q.rows);
    same_vector(k, "k bias", a->k_bias, b->k_bias, b->k.rows);
    same_vector(k, "v bias", a->v_bias, b->v_bias, b->v.rows);
    same_vector(k, "o bias", a->o_bias, b->o_bias, b->o.rows);
    same_vector(k, "q norm", a->q_norm, b->q_norm, s->head_dim);
    same_vector(k, "k norm", a->k_norm, b->k_norm, s->head_dim);
    same_vector(k, "sinks", a->sinks, b->sinks, s->n_heads);
}

/* A_log comes back from -exp(A_log), which is float32: the same exponential is
 * all that counts. */
static void same_decay(struct compare *k, const float *have, const float *want,
                       uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (fabsf(have[i] - want[i]) > 1e-6F * fmaxf(1, fabsf(want[i]))) {
            fail_msg("A_log of layer %u, head %u: %.9g, not %.9g", k->layer, i,
                     (double)have[i], (double)want[i]);
        }
    }
}

static void same_deltanet(struct compare *k, const struct deltanet_weights *a,
                          const struct deltanet_weights *b,
                          const struct model_shape *s)
{
    same_matrix(k, "qkv", &a->qkv, &b->qkv, k->type);
    same_matrix(k, "z", &a->z, &b->z, k->type);
    same_matrix(k, "a", &a->a, &b->a, k->type);
    same_matrix(k, "b", &a->b, &b->b, k->type);
    same_vector(k, "convolution", a->conv, b->conv, b->qkv.rows * s->conv);
    same_decay(k, a->a_log, b->a_log, s->n_v_heads);
    same_vector(k, "dt", a->dt_bias, b->dt_bias, s->n_v_heads);
    same_vector(k, "norm", a->norm, b->norm, s->v_dim);
}

static void same_experts(struct compare *k, const struct expert_weights *a,
                         const struct expert_weights *b,
                         const struct model_shape *s, uint32_t type)
{
    uint32_t n = s->n_experts;

    same_matrix(k, "router", &a->router, &b->router, WRITE_F32);
    same_matrix(k, "gate and up", &a->gate_up, &b->gate_up, type);
    same_matrix(k, "down of experts", &a->down, &b->down, type);
    same_vector(k, "router bias", a->router_bias, b->router_bias, n);
    same_vector(k, "gate and up bias", a->gate_up_bias, b->gate_up_bias,
                n * 2 * s->expert_dim);
    same_vector(k, "down bias", a->down_bias, b->down_bias, n * s->hidden);
    if (s->shared_dim > 0) {
        same_matrix(k, "shared gate", &a->shared.gate, &b->shared.gate,
                    k->type);
        same_matrix(k, "shared up", &a->shared.up, &b->shared.up, k->type);
        same_matrix(k, "shared down", &a->shared.down, &b->shared.down,
                    k->type);
        same_matrix(k, "gate of shared", &a->shared_gate, &b->shared_gate,
                    WRITE_F32);
    }
}

/* The columns of out are quantised in the order of the file, where value heads
 * are tiled. */
static void same_out(struct compare *k, const struct tensor *have,
                     const struct tensor *want, const struct model_config *c)
{
    const struct model_shape *s = &c->shape;
    uint32_t n = want->cols, per = s->n_v_heads / s->n_k_heads;
    uint32_t type = gguf_convert_type(k->type, n);
    float *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
    float *file = malloc(n * sizeof *file);
    void *blocks = malloc(gguf_type_bytes(type, n));
    bool tiled = strcmp(c->family, "qwen3_next") != 0;

    k->what = "out";
    for (uint32_t row = 0; row < want->rows; row++) {
        weight_format_decode(a, have, row, 0, n);
        weight_format_decode(b, want, row, 0, n);
        for (int back = 0; back < 2; back++) {
            for (uint32_t i = 0; i < n; i++) {
                uint32_t t = i / s->v_dim;
                uint32_t v = t % s->n_k_heads * per + t / s->n_k_heads;
                uint32_t j = tiled ? v * s->v_dim + i % s->v_dim : i;

                *(back ? &b[j] : &file[i]) = back ? file[i] : b[j];
            }
            if (!back) {
                gguf_quantise(type, file, n, blocks);
                gguf_dequantise(type, blocks, n, file);
            }
        }
        same_row(k, a, b, row, n);
    }
    free(blocks);
    free(file);
    free(a);
    free(b);
}

static void same_layer(struct compare *k, const struct layer_weights *a,
                       const struct layer_weights *b,
                       const struct model_config *c,
                       const struct gguf_types *types)
{
    const struct model_shape *s = &c->shape;

    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->ffn, b->ffn);
    same_vector(k, "input norm", a->input_norm, b->input_norm, s->hidden);
    same_vector(k, "mixer norm", a->mixer_norm, b->mixer_norm, s->hidden);
    same_vector(k, "post norm", a->post_norm, b->post_norm, s->hidden);
    same_vector(k, "ffn norm", a->ffn_norm, b->ffn_norm, s->hidden);
    if (mixer_attends(a->kind)) {
        same_attention(k, &a->mixer.attention, &b->mixer.attention, s);
    } else {
        same_deltanet(k, &a->mixer.deltanet, &b->mixer.deltanet, s);
        same_out(k, &a->mixer.deltanet.out, &b->mixer.deltanet.out, c);
    }
    if (a->ffn == FFN_EXPERTS) {
        same_experts(k, &a->experts, &b->experts, s,
                     types->experts != 0 ? types->experts : k->type);
    } else {
        same_matrix(k, "gate", &a->mlp.gate, &b->mlp.gate, k->type);
        same_matrix(k, "up", &a->mlp.up, &b->mlp.up, k->type);
        same_matrix(k, "down", &a->mlp.down, &b->mlp.down, k->type);
    }
}

static void same_weights(const struct model *a, const struct model *b,
                         const struct gguf_types *types)
{
    const struct model_shape *s = &b->config.shape;
    struct compare k = {.type = types->matrices};
    uint32_t embed = types->embed != 0 ? types->embed : types->matrices;

    same_matrix(&k, "embedding", &a->w->embed, &b->w->embed, embed);
    same_vector(&k, "final norm", a->w->final_norm, b->w->final_norm,
                s->hidden);
    same_matrix(&k, "head", &a->w->head, &b->w->head,
                b->config.tied ? embed : types->matrices);
    for (k.layer = 0; k.layer < s->n_layers; k.layer++) {
        same_layer(&k, &a->w->layers[k.layer], &b->w->layers[k.layer],
                   &b->config, types);
    }
}

/* Compares all that two files of one model share. */
static void same_config(const struct model_config *a,
                        const struct model_config *b)
{
    struct model_shape s = a->shape;

    s.dtype = b->shape.dtype;
    assert_memory_equal(&s, &b->shape, sizeof s);
    assert_memory_equal(a->mixers, b->mixers, sizeof a->mixers);
    assert_memory_equal(a->ffns, b->ffns, sizeof a->ffns);
    assert_int_equal(a->tied, b->tied);
    assert_int_equal(a->qkv_bias, b->qkv_bias);
    assert_int_equal(a->o_bias, b->o_bias);
    assert_int_equal(a->qk_norm, b->qk_norm);
    assert_int_equal(a->sinks, b->sinks);
    assert_int_equal(a->output_norms, b->output_norms);
    assert_int_equal(a->expert_bias, b->expert_bias);
    assert_int_equal(a->shared_gate, b->shared_gate);
    assert_int_equal(a->n_eos, b->n_eos);
    assert_memory_equal(a->eos, b->eos, sizeof a->eos);
    assert_int_equal(a->has_bos, b->has_bos);
    assert_int_equal(a->bos, b->bos);
}

/* Writes src as a GGUF file of these types, and compares. */
static void round_trip(const char *src, const struct gguf_types *types)
{
    const char *path = fixture_path("copy.gguf");
    struct model a, b;
    struct gguf_file *f;

    open_model(&b, src);
    f = gguf_convert(&b.config, b.w, types);
    gguf_convert_save(f, path);
    gguf_file_free(&f);
    open_model(&a, path);
    assert_string_equal(a.config.name, "copy");
    same_config(&a.config, &b.config);
    same_weights(&a, &b, types);
    assert_int_equal(shard_report(a.shard)->n_unknown, 0);
    close_model(&a);
    close_model(&b);
}

static const char *const models[] = {
    "tests/vectors/tiny-llama", MODELS "tiny-qwen3-moe",
    MODELS "tiny-qwen3-next",   MODELS "tiny-qwen3.5-moe",
    MODELS "tiny-gpt-oss",      MODELS "tiny-gemma3",
};

static void plain_copies_are_bit_equal(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        round_trip(models[i], &(struct gguf_types){.matrices = WRITE_F32});
        round_trip(models[i], &(struct gguf_types){.matrices = WRITE_BF16,
                                                   .embed = WRITE_F32});
    }
    round_trip(models[0], &(struct gguf_types){.matrices = WRITE_F16});
    round_trip("models/tiny-hybrid",
               &(struct gguf_types){.matrices = WRITE_BF16});
}

static void quantised_copies_stand_for_what_was_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        round_trip(models[i], &(struct gguf_types){.matrices = WRITE_Q4_0,
                                                   .experts = WRITE_Q8_0,
                                                   .embed = WRITE_Q8_0});
    }
    round_trip(MODELS "tiny-qwen3.5-moe",
               &(struct gguf_types){.matrices = WRITE_Q4_1,
                                    .experts = WRITE_Q5_1,
                                    .embed = WRITE_Q5_0});
    round_trip(
        MODELS "tiny-gemma3",
        &(struct gguf_types){.matrices = WRITE_IQ4_NL, .embed = WRITE_Q5_1});
}

/* Its experts are what the checkpoint has, code by code or not. */
static void mxfp4_experts_are_those_of_the_checkpoint(void **state)
{
    (void)state;
    round_trip(
        MODELS "tiny-gpt-oss",
        &(struct gguf_types){.matrices = WRITE_BF16, .experts = WRITE_MXFP4});
    round_trip(MODELS "tiny-gpt-oss",
               &(struct gguf_types){.matrices = WRITE_MXFP4});
}

static void gate_and_up_may_be_joined(void **state)
{
    (void)state;
    round_trip(MODELS "tiny-qwen3-moe",
               &(struct gguf_types){.matrices = WRITE_F32, .joined = true});
    round_trip(MODELS "tiny-qwen3.5-moe",
               &(struct gguf_types){.matrices = WRITE_Q8_0, .joined = true});
}

/* Makes a model whose rows are whole blocks of 256, and writes it. */
static const char *wide_model(const char *family, int v_dim, int tied)
{
    json_t *j = fixture_config(family);
    const char *dir;

    json_object_set_new(j, "num_hidden_layers", json_integer(2));
    json_object_set_new(j, "full_attention_interval", json_integer(2));
    json_object_set_new(j, "hidden_size", json_integer(256));
    json_object_set_new(j, "intermediate_size", json_integer(256));
    json_object_set_new(j, "head_dim", json_integer(64));
    json_object_set_new(j, "linear_value_head_dim", json_integer(v_dim));
    json_object_set_new(j, "linear_num_value_heads",
                        json_integer(v_dim == 48   ? 16
                                     : v_dim == 32 ? 8
                                                   : 4));
    json_object_set_new(j, "tie_word_embeddings", json_boolean(tied));
    dir = fixture_model("wide", j, &(struct writer_options){.seed = 3});
    json_decref(j);
    return dir;
}

static void k_quants_stand_for_what_was_written(void **state)
{
    static const char *const families[] = {"llama", "qwen2", "qwen3",
                                           "qwen3_5_text"};
    static const struct gguf_types types[] = {
        {.matrices = WRITE_Q4_K},
        {.matrices = WRITE_Q6_K},
        {.matrices = WRITE_Q4_K, .embed = WRITE_Q6_K},
        {.matrices = WRITE_Q5_K, .embed = WRITE_IQ4_XS},
    };

    (void)state;
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
            round_trip(wide_model(families[i], 32, t >= 2), &types[t]);
        }
    }
}

/* Heads of 32 columns are whole sub-blocks of Q4_K, those of 48 are none, and
 * those of 256 are whole blocks. */
static void value_heads_may_cut_blocks(void **state)
{
    static const struct {
        int v_dim;
        uint32_t type;
    } rows[] = {
        {48, WRITE_Q4_K},   {48, WRITE_Q6_K},  {48, WRITE_Q8_0},
        {48, WRITE_Q4_0},   {48, WRITE_MXFP4}, {48, WRITE_BF16},
        {48, WRITE_Q5_1},   {48, WRITE_Q5_K},  {48, WRITE_IQ4_XS},
        {48, WRITE_IQ4_NL}, {64, WRITE_Q5_K},  {64, WRITE_IQ4_XS},
        {64, WRITE_Q4_1},   {64, WRITE_Q5_0},  {256, WRITE_Q4_K},
        {256, WRITE_Q6_K},  {256, WRITE_Q5_K}, {256, WRITE_IQ4_XS},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        round_trip(wide_model("qwen3_5_text", rows[i].v_dim, 0),
                   &(struct gguf_types){.matrices = rows[i].type});
    }
}

/* A tensor of more than LOAD_PIECE bytes, which is no multiple of a block. */
static void pieces_hold_whole_blocks(void **state)
{
    json_t *j = fixture_config("llama");
    const char *dir;

    (void)state;
    json_object_set_new(j, "num_hidden_layers", json_integer(1));
    json_object_set_new(j, "hidden_size", json_integer(64));
    json_object_set_new(j, "vocab_size", json_integer(125000));
    json_object_set_new(j, "tie_word_embeddings", json_true());
    dir = fixture_model("large", j, &(struct writer_options){.seed = 3});
    json_decref(j);
    round_trip(dir, &(struct gguf_types){.matrices = WRITE_Q8_0});
}

/* ---- where files lie ---- */

static void convert_to(const char *src, const char *path,
                       const struct gguf_types *types)
{
    struct gguf_file *f;
    struct model m;

    open_model(&m, src);
    f = gguf_convert(&m.config, m.w, types);
    gguf_convert_save(f, path);
    gguf_file_free(&f);
    close_model(&m);
}

static void same_model(const char *path, const char *src, const char *name)
{
    const struct gguf_types types = {.matrices = WRITE_BF16};
    struct model a, b;

    open_model(&a, path);
    open_model(&b, src);
    assert_string_equal(a.config.name, name);
    same_weights(&a, &b, &types);
    close_model(&a);
    close_model(&b);
}

static const char *const llama = "tests/vectors/tiny-llama";
static const struct gguf_types bf16 = {.matrices = WRITE_BF16};

static void a_directory_may_hold_one_model(void **state)
{
    struct error e;
    char dir[256], path[300];
    bool found;

    (void)state;
    snprintf(dir, sizeof dir, "%s", fixture_path("one"));
    assert_int_equal(mkdir(dir, 0700), 0);
    snprintf(path, sizeof path, "%s/any-name.gguf", dir);
    convert_to(llama, path, &bf16);
    snprintf(path, sizeof path, "%s/mmproj-F16.gguf", dir);
    fixture_write(path, "x", 1);
    same_model(dir, llama, "one");
    assert_int_equal(directory_weights(dir, &found, &e), ST_OK);
    assert_true(found);
    assert_int_equal(directory_check(dir,
                                     DIRECTORY_CONFIG | DIRECTORY_WEIGHTS |
                                         DIRECTORY_TOKENIZER,
                                     &e),
                     ST_OK);
    snprintf(path, sizeof path, "%s/other.gguf", dir);
    fixture_write(path, "x", 1);
    assert_int_equal(directory_check(dir, DIRECTORY_CONFIG, &e),
                     ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "holds 2 models, such as"));
    assert_non_null(strstr(e.text, "give the path of one"));
    snprintf(path, sizeof path, "%s/any-name.gguf", dir);
    same_model(path, llama, "any-name");
    /* A link has its own name, as those of a hub's cache. */
    assert_int_equal(symlink(path, fixture_path("linked.gguf")), 0);
    same_model(fixture_path("linked.gguf"), llama, "linked");
}

static void parts_are_one_model(void **state)
{
    char dir[256], path[300], other[300];
    struct model_config c;
    struct error e;
    struct model m;

    (void)state;
    snprintf(dir, sizeof dir, "%s", fixture_path("parts"));
    assert_int_equal(mkdir(dir, 0700), 0);
    open_model(&m, llama);
    gguf_convert_parts(&m.config, m.w, &bf16, 3, dir, "m-8B");
    close_model(&m);
    same_model(dir, llama, "parts");
    for (int i = 1; i <= 3; i++) {
        snprintf(path, sizeof path, "%s/m-8B-%05d-of-00003.gguf", dir, i);
        same_model(path, llama, "m-8B");
    }
    snprintf(other, sizeof other, "%s/away", dir);
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(config_load(&c, dir, &e), ST_NOT_FOUND);
    assert_non_null(strstr(e.text, "m-8B-00003-of-00003.gguf"));
    snprintf(path, sizeof path, "%s/m-8B-00001-of-00003.gguf", dir);
    snprintf(other, sizeof other, "%s/m-8B-00003-of-00003.gguf", dir);
    assert_int_equal(link(path, other), 0);
    assert_int_equal(config_load(&c, dir, &e), ST_DATA_LOSS);
    assert_non_null(strstr(e.text, "this is part 1 of 3 by its header, part 3 "
                                   "of 3 by its name"));
}

/* Stages load the rows that the whole model has, and agree on who it is. */
static void stages_are_parts_of_the_whole(void **state)
{
    const char *path = fixture_path("stages.gguf");
    const struct gguf_types types = {.matrices = WRITE_Q8_0};
    struct model whole;
    struct error e;

    (void)state;
    convert_to(MODELS "tiny-qwen3.5-moe", path, &types);
    open_model(&whole, path);
    for (uint32_t begin = 0; begin < whole.config.shape.n_layers; begin++) {
        struct compare k = {.type = WRITE_F32};
        const struct gguf_types same = {.matrices = WRITE_F32};
        const struct shard_weights *w;
        struct shard *part;

        assert_int_equal(
            shard_load(&part, &whole.config, path, begin, begin + 1, NULL, &e),
            ST_OK);
        assert_memory_equal(shard_fingerprint(part),
                            shard_fingerprint(whole.shard), 16);
        w = shard_weights(part);
        k.layer = begin;
        same_layer(&k, &w->layers[0], &whole.w->layers[begin], &whole.config,
                   &same);
        shard_free(&part);
    }
    close_model(&whole);
}

static void a_changed_byte_changes_the_fingerprint(void **state)
{
    const char *path = fixture_path("changed.gguf");
    struct model a, b;
    size_t len;
    char *bytes;

    (void)state;
    convert_to(MODELS "tiny-gemma3", path, &bf16);
    open_model(&a, path);
    bytes = fixture_read(path, &len);
    bytes[len - 100] ^= 1;
    fixture_write(path, bytes, len);
    open_model(&b, path);
    assert_memory_not_equal(shard_fingerprint(a.shard),
                            shard_fingerprint(b.shard), 16);
    free(bytes);
    close_model(&a);
    close_model(&b);
}

/* ---- refusals ---- */

typedef void change_fn(struct gguf_file *f);

static void load_changed(const char *src, const struct gguf_types *types,
                         change_fn *change, const char *text)
{
    const char *path = fixture_path("refused.gguf");
    struct model_config config;
    struct shard *shard;
    struct error e = {.text = ""};
    struct gguf_file *f;
    struct model m;
    enum status st;

    open_model(&m, src);
    f = gguf_convert(&m.config, m.w, types);
    close_model(&m);
    change(f);
    gguf_convert_save(f, path);
    gguf_file_free(&f);
    st = config_load(&config, path, &e);
    if (st == ST_OK) {
        st = shard_load(&shard, &config, path, 0, config.shape.n_layers, NULL,
                        &e);
    }
    if (st == ST_OK || strstr(e.text, text) == NULL) {
        fail_msg("\"%s\" without \"%s\"", e.text, text);
    }
}

static void sigmoid(struct gguf_file *f)
{
    gguf_put_u32(f, "qwen3moe.expert_gating_func", 2);
}

static void scaled(struct gguf_file *f)
{
    gguf_put_f32(f, "qwen3moe.expert_weights_scale", 2.5F);
}

static void longrope(struct gguf_file *f)
{
    gguf_put_text(f, "qwen3moe.rope.scaling.type", "longrope");
}

static void strange_divisors(struct gguf_file *f)
{
    static const uint64_t dims[] = {16};
    static const float v[16] = {1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8, 8, 8, 8, 8, 8};

    gguf_add_values(f, "rope_freqs.weight", WRITE_F32, 1, dims, v);
}

static void second_name(struct gguf_file *f)
{
    static const uint64_t dims[] = {96};
    static const float v[96];

    /* the key of attn_norm */
    gguf_add_values(f, "layers.0.input_layernorm.weight", WRITE_F32, 1, dims,
                    v);
}

static void refuses_by_name(void **state)
{
    static const struct {
        change_fn *change;
        const char *text;
    } rows[] = {
        {sigmoid, "routing by sigmoids (qwen3moe.expert_gating_func is 2)"},
        {scaled, "(qwen3moe.expert_weights_scale is 2.5) is not supported"},
        {longrope, "rope.scaling.type \"longrope\" is not supported"},
        {strange_divisors, "are not those of llama3 scaling"},
        {second_name, "are the same one"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        load_changed(MODELS "tiny-qwen3-moe", &bf16, rows[i].change,
                     rows[i].text);
    }
}

/* A model of one tensor, which has another type than is supported. */
static void refuses_other_types_by_name(void **state)
{
    static const uint64_t dims[] = {256, 64};
    const char *path = fixture_path("q5.gguf");
    struct gguf_file *f = gguf_file_new(3, 0);
    void *zeros = calloc(64, 176);
    struct model_config c;
    struct shard *shard;
    struct error e = {.text = ""};

    (void)state;
    gguf_put_text(f, "general.architecture", "qwen3");
    gguf_put_u32(f, "qwen3.block_count", 1);
    gguf_put_u32(f, "qwen3.embedding_length", 256);
    gguf_put_u32(f, "qwen3.feed_forward_length", 256);
    gguf_put_u32(f, "qwen3.attention.head_count", 2);
    gguf_add(f, "token_embd.weight", 10, 2, dims, zeros, 64 * 84);
    gguf_convert_save(f, path);
    gguf_file_free(&f);
    assert_int_equal(config_load(&c, path, &e), ST_OK);
    assert_int_equal(c.shape.vocab, 64);
    assert_int_equal(shard_load(&shard, &c, path, 0, 1, NULL, &e),
                     ST_UNIMPLEMENTED);
    assert_non_null(strstr(e.text, "tensor \"token_embd.weight\" is Q2_K, "
                                   "which is not supported; F32, F16, BF16, "
                                   "Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, "
                                   "Q6_K, IQ4_NL, IQ4_XS and MXFP4 are"));
    free(zeros);
}

/* ---- config values ---- */

static void refuses_architectures_by_name(void **state)
{
    static const struct {
        const char *arch, *text;
    } rows[] = {
        {"mamba2", "architecture \"mamba2\" are not supported; llama, qwen2"},
        {"qwen3", "qwen3.block_count is missing"},
    };
    const char *path = fixture_path("arch.gguf");

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct gguf_file *f = gguf_file_new(3, 0);
        struct model_config c;
        struct error e;

        gguf_put_text(f, "general.architecture", rows[i].arch);
        gguf_convert_save(f, path);
        gguf_file_free(&f);
        assert_int_not_equal(config_load(&c, path, &e), ST_OK);
        if (strstr(e.text, rows[i].text) == NULL) {
            fail_msg("\"%s\" without \"%s\"", e.text, rows[i].text);
        }
    }
}

static void a_nan_scale_is_refused(void **state)
{
    const char *path = fixture_path("nan.gguf");
    const struct gguf_types types = {.matrices = WRITE_BF16,
                                     .experts = WRITE_MXFP4};
    struct model_config c;
    struct shard *shard;
    struct error e;
    struct gguf g;
    size_t len;
    char *bytes;

    (void)state;
    convert_to(MODELS "tiny-gpt-oss", path, &types);
    bytes = fixture_read(path, &len);
    assert_int_equal(gguf_parse(&g, bytes, len, len, NULL, &e), ST_OK);
    bytes[g.data + gguf_find_tensor(&g, "blk.2.ffn_up_exps.weight")->offset +
          17] = (char)255;
    gguf_fini(&g);
    fixture_write(path, bytes, len);
    assert_int_equal(config_load(&c, path, &e), ST_OK);
    assert_int_equal(shard_load(&shard, &c, path, 0, 4, NULL, &e),
                     ST_DATA_LOSS);
    assert_non_null(strstr(e.text, "\"blk.2.ffn_up_exps.weight\": a scale "
                                   "(E8M0) is NaN"));
    free(bytes);
}

/* The last layer of a model stands for the MTP layer behind the others. */
static void an_mtp_layer_stays_aside(void **state)
{
    const char *path = fixture_path("nextn.gguf");
    struct mtp_found mtp;
    struct gguf_file *f;
    struct error e;
    struct model m;

    (void)state;
    open_model(&m, MODELS "tiny-qwen3.5-moe");
    f = gguf_convert(&m.config, m.w, &bf16);
    gguf_put_u32(f, "qwen35moe.nextn_predict_layers", 1);
    gguf_convert_save(f, path);
    gguf_file_free(&f);
    close_model(&m);
    open_model(&m, path);
    assert_int_equal(m.config.n_mtp, 1);
    assert_int_equal(m.config.shape.n_layers, 3);
    assert_in_range(shard_report(m.shard)->n_aside, 10, 30);
    assert_int_equal(shard_report(m.shard)->n_unknown, 0);
    assert_int_equal(mtp_find_in(&mtp, &m.config, path, &e), ST_OK);
    assert_false(mtp.usable);
    assert_string_equal(mtp.text,
                        "the GGUF file declares an MTP layer, which is not "
                        "read: no drafts");
    close_model(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_mtp_layer_stays_aside),
        cmocka_unit_test(plain_copies_are_bit_equal),
        cmocka_unit_test(quantised_copies_stand_for_what_was_written),
        cmocka_unit_test(mxfp4_experts_are_those_of_the_checkpoint),
        cmocka_unit_test(gate_and_up_may_be_joined),
        cmocka_unit_test(k_quants_stand_for_what_was_written),
        cmocka_unit_test(value_heads_may_cut_blocks),
        cmocka_unit_test(pieces_hold_whole_blocks),
        cmocka_unit_test(a_directory_may_hold_one_model),
        cmocka_unit_test(parts_are_one_model),
        cmocka_unit_test(stages_are_parts_of_the_whole),
        cmocka_unit_test(a_changed_byte_changes_the_fingerprint),
        cmocka_unit_test(refuses_by_name),
        cmocka_unit_test(refuses_other_types_by_name),
        cmocka_unit_test(refuses_architectures_by_name),
        cmocka_unit_test(a_nan_scale_is_refused),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
