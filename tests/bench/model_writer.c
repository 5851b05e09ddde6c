#include "tests/bench/model_writer.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/model/config.h"
#include "common/model/document.h"

#define SPECS_PER_LAYER 32
#define BUFFER          65536

/* The values of a tensor: middle + spread * [-1, 1). */
struct fill {
    float middle, spread;
};

struct spec {
    char name[96];
    uint32_t rank;
    uint64_t dims[3];
    enum dtype dtype;
    bool words; /* U32 words of any bits; ignores dtype and fill */
    struct fill fill;
    uint64_t bytes;
};

struct writer {
    const struct writer_options *options;
    struct model_config config;
    uint32_t n;
    struct spec *specs;
    const char *dir;
};

static const char *const prefixes[] = {
    [WRITER_TEXT] = "model.",
    [WRITER_MULTIMODAL] = "model.language_model.",
    [WRITER_MLX] = "language_model.model.",
};

static void add(struct writer *w, const char *name, uint64_t rows,
                uint64_t cols, struct fill fill)
{
    struct spec *s = &w->specs[w->n];
    const char *without = w->options->without;
    size_t n = strlen(name), m = without == NULL ? 0 : strlen(without);

    if (without != NULL && n >= m && strcmp(name + n - m, without) == 0) {
        return;
    }
    *s = (struct spec){.rank = cols == 0 ? 1 : 2,
                       .dims = {rows, cols, 0},
                       .dtype = w->options->dtype,
                       .fill = fill};
    snprintf(s->name, sizeof s->name, "%s", name);
    s->bytes = rows * (cols == 0 ? 1 : cols) * dtype_bytes(s->dtype);
    w->n++;
}

static bool quantises(const struct writer *w, uint64_t cols)
{
    return w->options->bits > 0 && cols % w->options->group == 0;
}

/* Adds a matrix as stored: values in [-spread, spread), or words that
 * dequantise to about that. */
static void add_stored(struct writer *w, const char *name, uint64_t rows,
                       uint64_t cols, struct fill fill)
{
    uint32_t bits = w->options->bits, before = w->n;
    int stem = (int)(strlen(name) - strlen(".weight"));
    float step = 2 * fill.spread / (float)((1u << bits) - 1);
    char other[96];

    if (!quantises(w, cols)) {
        add(w, name, rows, cols, fill);
        return;
    }
    add(w, name, rows, cols * bits / 32, fill);
    if (w->n > before) {
        w->specs[before].words = true;
        w->specs[before].bytes = rows * cols * bits / 8;
    }
    cols /= w->options->group;
    snprintf(other, sizeof other, "%.*s.scales", stem, name);
    add(w, other, rows, cols, (struct fill){0.75f * step, 0.25f * step});
    snprintf(other, sizeof other, "%.*s.biases", stem, name);
    add(w, other, rows, cols, (struct fill){-fill.spread, 0});
}

static void add_in_layer(struct writer *w, uint32_t layer, const char *name,
                         uint64_t rows, uint64_t cols, struct fill fill)
{
    char full[96];

    snprintf(full, sizeof full, "%slayers.%u.%s", prefixes[w->options->prefix],
             layer, name);
    add(w, full, rows, cols, fill);
}

static struct fill matrix_fill(uint64_t cols)
{
    return (struct fill){0, sqrtf(3.0f / (float)cols)};
}

/* Stored minus one if the family does so and the file is not MLX's. */
static struct fill norm_fill(const struct writer *w)
{
    bool less = w->config.norms == NORM_GAMMA_MINUS_1 &&
                w->options->prefix != WRITER_MLX;

    return (struct fill){less ? 0.0f : 1.0f, 0.25f};
}

static void add_matrix(struct writer *w, uint32_t layer, const char *name,
                       uint64_t rows, uint64_t cols)
{
    char full[96];

    snprintf(full, sizeof full, "%slayers.%u.%s", prefixes[w->options->prefix],
             layer, name);
    add_stored(w, full, rows, cols, matrix_fill(cols));
}

static void add_attention(struct writer *w, uint32_t i)
{
    const struct model_config *c = &w->config;
    const struct model_shape *s = &c->shape;
    uint64_t q = (uint64_t)s->n_heads * s->head_dim;
    uint64_t rows = s->attn_gated ? 2 * q : q;
    uint64_t kv = (uint64_t)s->n_kv_heads * s->head_dim;
    const struct fill bias = {0, 0.1f};

    add_matrix(w, i, "self_attn.q_proj.weight", rows, s->hidden);
    add_matrix(w, i, "self_attn.k_proj.weight", kv, s->hidden);
    add_matrix(w, i, "self_attn.v_proj.weight", kv, s->hidden);
    add_matrix(w, i, "self_attn.o_proj.weight", s->hidden, q);
    if (c->qkv_bias) {
        add_in_layer(w, i, "self_attn.q_proj.bias", rows, 0, bias);
        add_in_layer(w, i, "self_attn.k_proj.bias", kv, 0, bias);
        add_in_layer(w, i, "self_attn.v_proj.bias", kv, 0, bias);
    }
    if (c->o_bias) {
        add_in_layer(w, i, "self_attn.o_proj.bias", s->hidden, 0, bias);
    }
    if (c->qk_norm) {
        add_in_layer(w, i, "self_attn.q_norm.weight", s->head_dim, 0,
                     norm_fill(w));
        add_in_layer(w, i, "self_attn.k_norm.weight", s->head_dim, 0,
                     norm_fill(w));
    }
}

static void add_convolution(struct writer *w, uint32_t i, uint64_t channels)
{
    uint32_t taps = w->config.shape.conv, before = w->n;
    struct spec *s = &w->specs[w->n];

    add_in_layer(w, i, "linear_attn.conv1d.weight", channels, taps,
                 (struct fill){0, 0.5f});
    if (w->n > before) {
        bool mlx = w->options->prefix == WRITER_MLX;

        s->rank = 3;
        s->dims[1] = mlx ? taps : 1;
        s->dims[2] = mlx ? 1 : taps;
    }
}

static void add_deltanet(struct writer *w, uint32_t i)
{
    const struct model_shape *s = &w->config.shape;
    uint64_t keys = (uint64_t)s->n_k_heads * s->k_dim;
    uint64_t values = (uint64_t)s->n_v_heads * s->v_dim;

    if (w->config.linear == LINEAR_GROUPED) {
        add_matrix(w, i, "linear_attn.in_proj_qkvz.weight", 2 * (keys + values),
                   s->hidden);
        add_matrix(w, i, "linear_attn.in_proj_ba.weight",
                   2 * (uint64_t)s->n_v_heads, s->hidden);
    } else {
        add_matrix(w, i, "linear_attn.in_proj_qkv.weight", 2 * keys + values,
                   s->hidden);
        add_matrix(w, i, "linear_attn.in_proj_z.weight", values, s->hidden);
        add_matrix(w, i, "linear_attn.in_proj_b.weight", s->n_v_heads,
                   s->hidden);
        add_matrix(w, i, "linear_attn.in_proj_a.weight", s->n_v_heads,
                   s->hidden);
    }
    add_matrix(w, i, "linear_attn.out_proj.weight", s->hidden, values);
    add_convolution(w, i, 2 * keys + values);
    add_in_layer(w, i, "linear_attn.A_log", s->n_v_heads, 0,
                 (struct fill){0, 2});
    add_in_layer(w, i, "linear_attn.dt_bias", s->n_v_heads, 0,
                 (struct fill){-2, 2});
    add_in_layer(w, i, "linear_attn.norm.weight", s->v_dim, 0,
                 (struct fill){1, 0.25f});
}

static void add_layer(struct writer *w, uint32_t i)
{
    const struct model_shape *s = &w->config.shape;

    add_in_layer(w, i, "input_layernorm.weight", s->hidden, 0, norm_fill(w));
    if (w->config.mixers[i] == MIXER_ATTENTION) {
        add_attention(w, i);
    } else {
        add_deltanet(w, i);
    }
    add_in_layer(w, i, "post_attention_layernorm.weight", s->hidden, 0,
                 norm_fill(w));
    add_matrix(w, i, "mlp.gate_proj.weight", s->intermediate, s->hidden);
    add_matrix(w, i, "mlp.up_proj.weight", s->intermediate, s->hidden);
    add_matrix(w, i, "mlp.down_proj.weight", s->hidden, s->intermediate);
}

static void add_all(struct writer *w)
{
    const struct model_shape *s = &w->config.shape;
    const char *prefix = prefixes[w->options->prefix];
    bool mlx = w->options->prefix == WRITER_MLX;
    char name[96];

    snprintf(name, sizeof name, "%sembed_tokens.weight", prefix);
    add_stored(w, name, s->vocab, s->hidden, (struct fill){0, 0.05f});
    for (uint32_t i = 0; i < s->n_layers; i++) {
        add_layer(w, i);
    }
    snprintf(name, sizeof name, "%snorm.weight", prefix);
    add(w, name, s->hidden, 0, norm_fill(w));
    if (!w->config.tied) {
        add_stored(w, mlx ? "language_model.lm_head.weight" : "lm_head.weight",
                   s->vocab, s->hidden, matrix_fill(s->hidden));
    }
    if (w->options->extra != NULL) {
        add(w, w->options->extra, 1, 0, (struct fill){0, 1});
    }
}

/* splitmix64 */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Rounds normal numbers to nearest even, which is all that fill makes; values
 * too small for float16 become 0. */
static uint16_t half_of(float f, enum dtype dtype)
{
    uint32_t bits, drop = dtype == DTYPE_BF16 ? 16 : 13;
    int32_t rest;

    memcpy(&bits, &f, sizeof bits);
    bits += (1u << (drop - 1)) - 1 + (bits >> drop & 1);
    if (dtype == DTYPE_BF16) {
        return (uint16_t)(bits >> 16);
    }
    rest = (int32_t)(bits >> 13 & 0x3ffffu) - (112 << 10);
    if (rest < 1 << 10) {
        rest = 0;
    }
    return (uint16_t)((bits >> 16 & 0x8000u) | ((uint32_t)rest & 0x7fffu));
}

static void put_value(char *to, float f, enum dtype dtype)
{
    uint16_t half;

    if (dtype == DTYPE_F32) {
        memcpy(to, &f, sizeof f);
    } else {
        half = half_of(f, dtype);
        memcpy(to, &half, sizeof half);
    }
}

/* Returns a tensor's seed, from the model's seed and the name without
 * prefix. */
static uint64_t seed_of(const struct writer *w, const char *name)
{
    uint64_t state = w->options->seed;
    const char *prefix = prefixes[w->options->prefix];
    size_t n = strlen(prefix);

    if (strncmp(name, prefix, n) == 0) {
        name += n;
    } else if (strncmp(name, "language_model.", 15) == 0) {
        name += 15;
    }
    for (; *name != '\0'; name++) {
        state ^= (unsigned char)*name;
        state = draw(&state);
    }
    return state;
}

/* Writes element i of a tensor to `to`, from the drawn bits. */
static void put_element(const struct spec *s, char *to, uint64_t bits)
{
    float unit = (float)(int16_t)(bits & 0xffff) / 32768.0f;

    if (s->words) {
        memcpy(to, &bits, sizeof(uint16_t));
    } else {
        put_value(to, s->fill.middle + s->fill.spread * unit, s->dtype);
    }
}

static bool write_values(const struct writer *w, const struct spec *s, FILE *to)
{
    char buffer[BUFFER];
    size_t element = s->words ? sizeof(uint16_t) : dtype_bytes(s->dtype);
    size_t at = 0;
    uint64_t state = seed_of(w, s->name), bits = 0;

    for (uint64_t i = 0; i < s->bytes / element; i++) {
        if (i % 4 == 0) {
            bits = draw(&state);
        }
        put_element(s, buffer + at, bits);
        bits >>= 16;
        at += element;
        if (at == sizeof buffer) {
            if (fwrite(buffer, 1, at, to) != at) {
                return false;
            }
            at = 0;
        }
    }
    return fwrite(buffer, 1, at, to) == at;
}

static void write_entry(const struct spec *s, uint64_t at, FILE *to)
{
    static const char *const names[] = {
        [DTYPE_F32] = "F32", [DTYPE_BF16] = "BF16", [DTYPE_F16] = "F16"};

    fprintf(to, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", s->name,
            s->words ? "U32" : names[s->dtype]);
    for (uint32_t i = 0; i < s->rank; i++) {
        fprintf(to, "%s%llu", i > 0 ? "," : "", (unsigned long long)s->dims[i]);
    }
    fprintf(to, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at,
            (unsigned long long)(at + s->bytes));
}

static char *header_of(const struct writer *w, uint32_t from, uint32_t to,
                       size_t *len)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, len);
    uint64_t at = 0;

    if (f == NULL) {
        return NULL;
    }
    fprintf(f, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (uint32_t i = from; i < to; i++) {
        write_entry(&w->specs[i], at, f);
        at += w->specs[i].bytes;
    }
    fprintf(f, "}");
    fflush(f);
    fprintf(f, "%*s", (int)(-*len % 8 & 7), "");
    return fclose(f) == 0 ? text : NULL;
}

static enum status file_error(const char *path, struct error *e)
{
    return error_set(e, ST_UNAVAILABLE, "%s: %s", path, strerror(errno));
}

static enum status write_file(const struct writer *w, const char *name,
                              uint32_t from, uint32_t to, struct error *e)
{
    char path[PATH_MAX];
    unsigned char length[8];
    size_t len = 0;
    char *header = header_of(w, from, to, &len);
    bool ok = false;
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", w->dir, name);
    f = fopen(path, "wb");
    if (f != NULL && header != NULL) {
        for (int i = 0; i < 8; i++) {
            length[i] = (unsigned char)((uint64_t)len >> (8 * i));
        }
        ok = fwrite(length, 1, 8, f) == 8 && fwrite(header, 1, len, f) == len;
        for (uint32_t i = from; ok && i < to; i++) {
            ok = write_values(w, &w->specs[i], f);
        }
    }
    free(header);
    ok = f != NULL && fclose(f) == 0 && ok;
    return ok ? ST_OK : file_error(path, e);
}

static enum status write_files(const struct writer *w, struct error *e)
{
    uint32_t n = w->options->n_files;
    char path[PATH_MAX], name[64];
    enum status st = ST_OK;
    FILE *index;

    if (n <= 1) {
        return write_file(w, "model.safetensors", 0, w->n, e);
    }
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", w->dir);
    index = fopen(path, "w");
    if (index == NULL) {
        return file_error(path, e);
    }
    fprintf(index, "{\"weight_map\":{");
    for (uint32_t i = 0; st == ST_OK && i < n; i++) {
        uint32_t from = (uint32_t)((uint64_t)w->n * i / n);
        uint32_t to = (uint32_t)((uint64_t)w->n * (i + 1) / n);

        snprintf(name, sizeof name, "model-%05u-of-%05u.safetensors", i + 1, n);
        st = write_file(w, name, from, to, e);
        for (uint32_t j = from; j < to; j++) {
            fprintf(index, "%s\n\"%s\":\"%s\"", j > 0 ? "," : "",
                    w->specs[j].name, name);
        }
    }
    fprintf(index, "\n}}\n");
    return fclose(index) == 0 || st != ST_OK ? st : file_error(path, e);
}

/* Copies config.json, and adds the quantisation, if there is any. */
static enum status write_config(const struct writer *w, json_t *doc,
                                struct error *e)
{
    const struct writer_options *o = w->options;
    char path[PATH_MAX];

    if (o->bits > 0) {
        json_object_set_new(doc, "quantization",
                            json_pack("{s:i, s:i}", "group_size", (int)o->group,
                                      "bits", (int)o->bits));
    }
    snprintf(path, sizeof path, "%s/config.json", w->dir);
    return json_dump_file(doc, path, JSON_INDENT(2)) == 0 ? ST_OK
                                                          : file_error(path, e);
}

static enum status copy_config(struct writer *w, const char *from,
                               struct error *e)
{
    char *text;
    size_t len;
    json_t *doc;
    enum status st = document_read(&text, &len, from[0] == '/' ? "/" : ".",
                                   from, CONFIG_BYTES_MAX, e);

    if (st != ST_OK) {
        return error_wrap(e, "%s", from);
    }
    st = config_parse(&w->config, text, len, e);
    if (st == ST_OK) {
        st = document_parse(&doc, text, len, e);
    }
    free(text);
    if (st == ST_OK) {
        st = write_config(w, doc, e);
        json_decref(doc);
    }
    return st;
}

enum status model_write(const char *config_path, const char *dir,
                        const struct writer_options *o, struct error *e)
{
    struct writer w = {.options = o, .dir = dir};
    enum status st;

    if (mkdir(dir, 0777) != 0 && errno != EEXIST) {
        return file_error(dir, e);
    }
    st = copy_config(&w, config_path, e);
    if (st != ST_OK) {
        return st;
    }
    w.specs =
        calloc(w.config.shape.n_layers * SPECS_PER_LAYER + 8, sizeof *w.specs);
    if (w.specs == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "no memory for a model");
    }
    add_all(&w);
    st = write_files(&w, e);
    free(w.specs);
    return st;
}
