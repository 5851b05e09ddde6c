#include "tests/bench/model_writer.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/splitmix.h"
#include "common/model/config.h"
#include "common/model/document.h"
#include "tests/bench/model_specs.h"

#define BUFFER 65536

struct writer {
    const struct writer_options *options;
    struct model_config config;
    struct model_specs specs;
    const char *dir;
};

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
    const char *prefix = model_specs_prefix(w->options->prefix);
    size_t n = strlen(prefix);

    if (strncmp(name, prefix, n) == 0) {
        name += n;
    } else if (strncmp(name, "language_model.", 15) == 0) {
        name += 15;
    }
    for (; *name != '\0'; name++) {
        state ^= (unsigned char)*name;
        state = splitmix_next(&state);
    }
    return state;
}

/* Replaces the two codes of NaN by those of 448. */
static uint8_t e4m3_of(uint8_t bits)
{
    return (bits & 0x7f) == 0x7f ? bits ^ 1 : bits;
}

/* Writes 16 drawn bits, or the element that they stand for, to `to`.  Returns
 * the bytes written. */
static size_t put_element(const struct spec *s, char *to, uint64_t bits)
{
    float unit = (float)(int16_t)(bits & 0xffff) / 32768.0f;
    uint8_t low = (uint8_t)bits, high = (uint8_t)(bits >> 8);

    switch (s->kind) {
    case SPEC_FLOATS:
        put_value(to, s->fill.middle + s->fill.spread * unit, s->dtype);
        return dtype_bytes(s->dtype);
    case SPEC_E4M3:
        to[0] = (char)e4m3_of(low);
        to[1] = (char)e4m3_of(high);
        return 2;
    case SPEC_E8M0:
        to[0] = (char)(s->base + low % 2);
        to[1] = (char)(s->base + high % 2);
        return 2;
    default:
        to[0] = (char)low;
        to[1] = (char)high;
        return 2;
    }
}

static bool write_values(const struct writer *w, const struct spec *s, FILE *to)
{
    char buffer[BUFFER];
    uint64_t state = seed_of(w, s->name), bits = 0, left = s->bytes;

    for (uint64_t i = 0; left > 0;) {
        size_t at = 0, n;

        while (at < sizeof buffer && at < left) {
            bits = i++ % 4 == 0 ? splitmix_next(&state) : bits >> 16;
            at += put_element(s, buffer + at, bits);
        }
        n = at < left ? at : (size_t)left; /* an odd number of bytes */
        if (fwrite(buffer, 1, n, to) != n) {
            return false;
        }
        left -= n;
    }
    return true;
}

static const char *dtype_of(const struct spec *s)
{
    static const char *const names[] = {
        [DTYPE_F32] = "F32", [DTYPE_BF16] = "BF16", [DTYPE_F16] = "F16"};

    switch (s->kind) {
    case SPEC_FLOATS:
        return names[s->dtype];
    case SPEC_WORDS:
        return "U32";
    case SPEC_E4M3:
        return "F8_E4M3";
    default:
        return "U8";
    }
}

static void write_entry(const struct spec *s, uint64_t at, FILE *to)
{
    fprintf(to, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", s->name, dtype_of(s));
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
        write_entry(&w->specs.specs[i], at, f);
        at += w->specs.specs[i].bytes;
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
            ok = write_values(w, &w->specs.specs[i], f);
        }
    }
    free(header);
    ok = f != NULL && fclose(f) == 0 && ok;
    return ok ? ST_OK : file_error(path, e);
}

static enum status write_main(const struct writer *w, struct error *e)
{
    uint32_t n = w->options->n_files;
    char path[PATH_MAX], name[64];
    enum status st = ST_OK;
    FILE *index;

    if (n <= 1) {
        return write_file(w, "model.safetensors", 0, w->specs.n_main, e);
    }
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", w->dir);
    index = fopen(path, "w");
    if (index == NULL) {
        return file_error(path, e);
    }
    fprintf(index, "{\"weight_map\":{");
    for (uint32_t i = 0; st == ST_OK && i < n; i++) {
        uint32_t from = (uint32_t)((uint64_t)w->specs.n_main * i / n);
        uint32_t to = (uint32_t)((uint64_t)w->specs.n_main * (i + 1) / n);

        snprintf(name, sizeof name, "model-%05u-of-%05u.safetensors", i + 1, n);
        st = write_file(w, name, from, to, e);
        for (uint32_t j = from; j < to; j++) {
            fprintf(index, "%s\n\"%s\":\"%s\"", j > 0 ? "," : "",
                    w->specs.specs[j].name, name);
        }
    }
    fprintf(index, "\n}}\n");
    return fclose(index) == 0 || st != ST_OK ? st : file_error(path, e);
}

static enum status write_files(const struct writer *w, struct error *e)
{
    enum status st = write_main(w, e);

    if (st == ST_OK && w->specs.n > w->specs.n_main) {
        st = write_file(w, model_specs_companion(w->options), w->specs.n_main,
                        w->specs.n, e);
    }
    return st;
}

static void describe(const struct writer *w, json_t *doc)
{
    const struct writer_options *o = w->options;

    if (o->bits > 0 || o->format != WRITER_AS_CONFIG) {
        json_object_del(doc, "quantization");
        json_object_del(doc, "quantization_config");
    }
    if (o->bits > 0) {
        json_object_set_new(doc, "quantization",
                            json_pack("{s:i, s:i}", "group_size", (int)o->group,
                                      "bits", (int)o->bits));
    } else if (o->format == WRITER_FP8) {
        json_object_set_new(doc, "quantization_config",
                            json_pack("{s:s, s:s, s:[i, i]}", "quant_method",
                                      "fp8", "fmt", "e4m3", "weight_block_size",
                                      128, 128));
    } else if (o->format == WRITER_MXFP4) {
        json_object_set_new(doc, "quantization_config",
                            json_pack("{s:s}", "quant_method", "mxfp4"));
    }
}

/* Copies config.json with the quantisation of the options. */
static enum status write_config(const struct writer *w, json_t *doc,
                                struct error *e)
{
    char path[PATH_MAX];

    describe(w, doc);
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
    st = model_specs_make(&w.specs, &w.config, o)
             ? write_files(&w, e)
             : error_set(e, ST_RESOURCE_EXHAUSTED, "no memory for a model");
    model_specs_fini(&w.specs);
    return st;
}
