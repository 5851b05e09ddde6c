#include "text/assets.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/utf8.h"
#include "common/model/gguf_model.h"
#include "text/file.h"
#include "text/gguf_tokenizer.h"
#include "text/json_read.h"
#include "text/model_tokenizer.h"
#include "text/text_limits.h"

struct text_assets {
    struct tokenizer *tokenizer;
    uint32_t eos[MODEL_EOS_MAX];
    size_t n_eos;
    char *chat;
    size_t chat_len;
    json_t *config; /* tokenizer_config.json, checked; may be NULL */
    struct text_defaults defaults;
};

#define PATH_BYTES 4096

static enum status path_of(char *path, const char *dir, const char *name,
                           struct error *e)
{
    int n = snprintf(path, PATH_BYTES, "%s/%s", dir, name);

    return n < 0 || n >= PATH_BYTES
               ? error_set(e, ST_INVALID_ARGUMENT, "the path is too long")
               : ST_OK;
}

/* Reads an optional file.  A missing file is ST_OK with *data NULL. */
static enum status read_opt(const char *dir, const char *name, size_t max,
                            char **data, size_t *n, struct error *e)
{
    char path[PATH_BYTES];
    enum status st = path_of(path, dir, name, e);

    *data = NULL;
    if (st == ST_OK) {
        st = file_read(path, max, data, n, e);
    }
    return st == ST_NOT_FOUND ? ST_OK : st;
}

typedef enum status parse_fn(json_t **out, const char *text, size_t n,
                             struct error *e);

static enum status read_json_opt(const char *dir, const char *name,
                                 parse_fn *parse, json_t **out, struct error *e)
{
    char *data;
    size_t n;
    enum status st = read_opt(dir, name, TEXT_FILE_BYTES, &data, &n, e);

    *out = NULL;
    if (st == ST_OK && data != NULL) {
        st = parse(out, data, n, e);
        free(data);
    }
    return st;
}

/* --- end of sequence ----------------------------------------------------- */

/* The same id in both files is normal and counts once. */
static enum status add_eos(struct text_assets *a, const json_t *v,
                           struct error *e)
{
    json_int_t id = json_integer_value(v);

    if (!json_is_integer(v)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "eos_token_id: expected an integer, found %s",
                         json_read_kind(v));
    }
    if (id < 0 || id >= MODEL_VOCAB_MAX) {
        return error_set(e, ST_OUT_OF_RANGE,
                         "eos_token_id: %lld is not in 0..%d", (long long)id,
                         MODEL_VOCAB_MAX - 1);
    }
    for (size_t i = 0; i < a->n_eos; i++) {
        if (a->eos[i] == id) {
            return ST_OK;
        }
    }
    if (a->n_eos == MODEL_EOS_MAX) {
        return error_set(e, ST_OUT_OF_RANGE, "eos_token_id: more than %d ids",
                         MODEL_EOS_MAX);
    }
    a->eos[a->n_eos++] = (uint32_t)id;
    return ST_OK;
}

/* Reads a number, a list of numbers, or null. */
static enum status eos_of(struct text_assets *a, const json_t *config,
                          struct error *e)
{
    const json_t *v = json_object_get(config, "eos_token_id");
    enum status st = ST_OK;

    if (v == NULL || json_is_null(v)) {
        return ST_OK;
    }
    if (!json_is_array(v)) {
        return add_eos(a, v, e);
    }
    for (size_t i = 0; st == ST_OK && i < json_array_size(v); i++) {
        st = add_eos(a, json_array_get(v, i), e);
    }
    return st;
}

/* Some models name their end tokens only in text_config. */
static enum status eos_file(struct text_assets *a, const char *dir,
                            const char *name, bool has_nested, struct error *e)
{
    const json_t *nested = NULL;
    json_t *config;
    enum status st = read_json_opt(dir, name, json_read_config, &config, e);

    if (st == ST_OK && config != NULL) {
        st = json_read_opt(config, "text_config", JSON_OBJECT, &nested, e);
        if (st == ST_OK) {
            st = eos_of(a, config, e);
        }
        /* A worker reads the nested object of config.json alone. */
        if (st == ST_OK && has_nested) {
            st = eos_of(a, nested, e);
        }
        if (st == ST_OK && !has_nested) {
            st = text_defaults_read(&a->defaults, config, e);
        }
    }
    json_decref(config);
    return st == ST_OK ? ST_OK : error_wrap(e, "%s", name);
}

/* --- chat template ------------------------------------------------------- */

/* Older files have a list of {"name", "template"}. */
static const json_t *named_template(const json_t *v, const char *name)
{
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *row = json_array_get(v, i);
        const char *found = json_string_value(json_object_get(row, "name"));
        if (found != NULL && strcmp(found, name) == 0) {
            return json_object_get(row, "template");
        }
    }
    return NULL;
}

static enum status keep_chat(struct text_assets *a, const char *s, size_t n,
                             struct error *e)
{
    size_t bad;

    if (n > TEXT_CHAT_BYTES) {
        return error_set(e, ST_OUT_OF_RANGE,
                         "%zu bytes long, at most %d are allowed", n,
                         TEXT_CHAT_BYTES);
    }
    if (!utf8_valid(s, n, &bad)) {
        return error_set(e, ST_INVALID_ARGUMENT, "not UTF-8 at byte %zu", bad);
    }
    a->chat = malloc(n + 1);
    if (a->chat == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    memcpy(a->chat, s, n);
    a->chat_len = n;
    return ST_OK;
}

static enum status check_template(const json_t *v, struct error *e)
{
    if (v == NULL || json_is_null(v)) {
        return ST_OK;
    }
    if (!json_is_string(v)) {
        return error_set(e, ST_INVALID_ARGUMENT, "expected a string, found %s",
                         json_read_kind(v));
    }
    if (json_string_length(v) > TEXT_CHAT_BYTES) {
        return error_set(e, ST_OUT_OF_RANGE,
                         "%zu bytes long, at most %d are allowed",
                         json_string_length(v), TEXT_CHAT_BYTES);
    }
    return ST_OK;
}

static enum status chat_of_config(struct text_assets *a, struct error *e)
{
    const json_t *v = json_object_get(a->config, "chat_template");
    enum status st = ST_OK;

    for (size_t i = 0; st == ST_OK && i < json_array_size(v); i++) {
        st = check_template(json_object_get(json_array_get(v, i), "template"),
                            e);
    }
    v = json_is_array(v) ? named_template(v, "default") : v;
    if (st == ST_OK) {
        st = check_template(v, e);
    }
    if (st == ST_OK && json_is_string(v)) {
        st = keep_chat(a, json_string_value(v), json_string_length(v), e);
    }
    return st == ST_OK ? ST_OK
                       : error_wrap(e, "tokenizer_config.json: chat_template");
}

static enum status chat(struct text_assets *a, const char *dir, struct error *e)
{
    static const char name[] = "chat_template.jinja";
    char *data;
    size_t n;
    enum status st = read_opt(dir, name, TEXT_CHAT_BYTES, &data, &n, e);

    if (st == ST_OK && data == NULL) {
        return chat_of_config(a, e);
    }
    if (st == ST_OK) {
        st = keep_chat(a, data, n, e);
    }
    free(data);
    return st == ST_OK ? ST_OK : error_wrap(e, "%s", name);
}

/* --- tokenizer_config.json ----------------------------------------------- */

/* A token is a string or, in older files, an object with its content. */
static const char *token_of(const json_t *config, const char *key)
{
    const json_t *v = json_object_get(config, key);

    return json_string_value(json_is_object(v) ? json_object_get(v, "content")
                                               : v);
}

static enum status check_token(const json_t *config, const char *key,
                               struct error *e)
{
    const json_t *v = json_object_get(config, key);

    if (v == NULL || json_is_null(v) || token_of(config, key) != NULL) {
        return ST_OK;
    }
    return error_set(e, ST_INVALID_ARGUMENT,
                     "%s: expected a string or an object with its content, "
                     "found %s",
                     key, json_read_kind(v));
}

/* Integers are not parsed: transformers writes "no limit" as a
 * model_max_length of int(1e30), which no 64-bit integer holds. */
static enum status tokenizer_config(struct text_assets *a, const char *dir,
                                    struct error *e)
{
    static const char name[] = "tokenizer_config.json";
    static const char *const tokens[] = {"bos_token", "eos_token", "pad_token",
                                         "unk_token"};
    enum status st =
        read_json_opt(dir, name, json_read_no_integers, &a->config, e);

    for (size_t i = 0; st == ST_OK && i < sizeof tokens / sizeof *tokens; i++) {
        st = check_token(a->config, tokens[i], e);
    }
    /* The largest part of the file, which tokenizer.json has as well. */
    json_object_del(a->config, "added_tokens_decoder");
    return st == ST_OK ? ST_OK : error_wrap(e, "%s", name);
}

/* --- all ----------------------------------------------------------------- */

static enum status tokenizer(struct text_assets *a, const char *dir,
                             struct error *e)
{
    static const char name[] = "tokenizer.json";
    char *data;
    size_t n;
    enum status st = read_opt(dir, name, TEXT_FILE_BYTES, &data, &n, e);

    if (st == ST_OK && data != NULL) {
        st = tokenizer_parse(&a->tokenizer, data, n, e);
        free(data);
    }
    return st == ST_OK ? ST_OK : error_wrap(e, "%s", name);
}

/* Checked first: without it, a missing directory would look like a model
 * without files. */
static enum status check_dir(const char *dir, struct error *e)
{
    struct stat s;

    if (stat(dir, &s) != 0) {
        return error_set(e, errno == ENOENT ? ST_NOT_FOUND : ST_UNAVAILABLE,
                         "%s", strerror(errno));
    }
    return S_ISDIR(s.st_mode)
               ? ST_OK
               : error_set(e, ST_INVALID_ARGUMENT, "not a directory");
}

static enum status from_metadata(struct text_assets *a, const struct gguf *g,
                                 struct error *e)
{
    json_t *sampling = NULL;
    uint32_t n = 0;
    enum status st = gguf_tokenizer_config(&a->config, g, e);

    if (st == ST_OK) {
        st = gguf_tokenizer_sampling(&sampling, g, e);
    }
    if (st == ST_OK) {
        st = gguf_end_tokens(g, a->eos, &n, e);
        a->n_eos = n;
    }
    if (st == ST_OK) {
        st = text_defaults_read(&a->defaults, sampling, e);
    }
    json_decref(sampling);
    return st == ST_OK ? chat_of_config(a, e) : st;
}

/* A file without a tokenizer is like a directory without one. */
static enum status load_gguf(struct text_assets *a, const char *path,
                             struct error *e)
{
    struct gguf_model m;
    bool found = false;
    enum status st = model_tokenizer_load(&a->tokenizer, path, e);

    if (st != ST_OK && st != ST_NOT_FOUND) {
        return st;
    }
    st = gguf_model_open(&m, path, &found, e);
    if (st == ST_OK && found) {
        st = from_metadata(a, &m.parts[0], e);
        if (st != ST_OK) {
            st = error_wrap(e, "%s", m.files.names[0]);
        }
    }
    gguf_model_fini(&m);
    return st;
}

static enum status load(struct text_assets *a, const char *dir, struct error *e)
{
    enum status st;

    if (gguf_files_exist(dir)) {
        return load_gguf(a, dir, e);
    }
    st = check_dir(dir, e);

    if (st == ST_OK) {
        st = tokenizer(a, dir, e);
    }
    if (st == ST_OK) {
        st = eos_file(a, dir, "generation_config.json", false, e);
    }
    if (st == ST_OK) {
        st = eos_file(a, dir, "config.json", true, e);
    }
    if (st == ST_OK) {
        st = tokenizer_config(a, dir, e);
    }
    return st == ST_OK ? chat(a, dir, e) : st;
}

enum status text_assets_load(struct text_assets **out, const char *model_dir,
                             struct error *e)
{
    struct error scratch;
    enum status st;

    e = e == NULL ? &scratch : e;
    *out = calloc(1, sizeof **out);
    if (*out == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    st = load(*out, model_dir, e);
    if (st != ST_OK) {
        text_assets_free(out);
        return error_wrap(e, "%s", model_dir);
    }
    return ST_OK;
}

void text_assets_free(struct text_assets **a)
{
    if (*a == NULL) {
        return;
    }
    tokenizer_free(&(*a)->tokenizer);
    free((*a)->chat);
    json_decref((*a)->config);
    free(*a);
    *a = NULL;
}

const struct tokenizer *text_assets_tokenizer(const struct text_assets *a)
{
    return a->tokenizer;
}

void text_assets_protect(struct text_assets *a, const char *text, size_t n)
{
    if (a->tokenizer != NULL) {
        tokenizer_protect(a->tokenizer, text, n);
    }
}

const uint32_t *text_assets_eos(const struct text_assets *a, size_t *n)
{
    *n = a->n_eos;
    return a->eos;
}

const char *text_assets_chat_template(const struct text_assets *a, size_t *n)
{
    *n = a->chat_len;
    return a->chat;
}

const char *text_assets_named_template(const struct text_assets *a,
                                       const char *name, size_t *n)
{
    const json_t *v =
        named_template(json_object_get(a->config, "chat_template"), name);

    *n = json_string_length(v);
    return json_string_value(v);
}

const char *text_assets_bos_token(const struct text_assets *a)
{
    return token_of(a->config, "bos_token");
}

const char *text_assets_eos_token(const struct text_assets *a)
{
    return token_of(a->config, "eos_token");
}

const char *text_assets_pad_token(const struct text_assets *a)
{
    return token_of(a->config, "pad_token");
}

const char *text_assets_unk_token(const struct text_assets *a)
{
    return token_of(a->config, "unk_token");
}

const struct text_defaults *text_assets_defaults(const struct text_assets *a)
{
    return &a->defaults;
}
