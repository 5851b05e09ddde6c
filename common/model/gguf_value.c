/* gguf_value.c - Reads the values of a parsed header. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/gguf.h"
#include "common/model/gguf_bytes.h"

const struct gguf_value *gguf_find(const struct gguf *g, const char *key)
{
    struct gguf_value k = {.key = key};

    return g->n_values == 0
               ? NULL
               : bsearch(&k, g->values, g->n_values, sizeof k, gguf_by_key);
}

const struct gguf_tensor *gguf_find_tensor(const struct gguf *g,
                                           const char *name)
{
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        if (strcmp(g->tensors[i].name, name) == 0) {
            return &g->tensors[i];
        }
    }
    return NULL;
}

bool gguf_whole(const struct gguf_value *v, uint64_t i, int64_t *out)
{
    size_t size;
    uint64_t raw;

    if (v == NULL || i >= v->n || (size = gguf_value_bytes(v->type)) == 0 ||
        v->type == GGUF_VALUE_F32 || v->type == GGUF_VALUE_F64) {
        return false;
    }
    raw = gguf_little(v->at + i * size, size);
    switch (v->type) {
    case GGUF_VALUE_I8:
        *out = (int8_t)raw;
        return true;
    case GGUF_VALUE_I16:
        *out = (int16_t)raw;
        return true;
    case GGUF_VALUE_I32:
        *out = (int32_t)raw;
        return true;
    default:
        *out = (int64_t)raw;
        return v->type != GGUF_VALUE_U64 || raw <= INT64_MAX;
    }
}

bool gguf_real(const struct gguf_value *v, uint64_t i, double *out)
{
    int64_t whole;

    if (v != NULL && i < v->n && v->type == GGUF_VALUE_F32) {
        uint32_t bits = (uint32_t)gguf_little(v->at + i * 4, 4);
        float f;

        memcpy(&f, &bits, sizeof f);
        *out = (double)f;
        return true;
    }
    if (v != NULL && i < v->n && v->type == GGUF_VALUE_F64) {
        uint64_t bits = gguf_little(v->at + i * 8, 8);

        memcpy(out, &bits, sizeof *out);
        return true;
    }
    if (!gguf_whole(v, i, &whole)) {
        return false;
    }
    *out = (double)whole;
    return true;
}

static enum status wrong_type(const struct gguf_value *v, const char *want,
                              struct error *e)
{
    static const char *const names[GGUF_VALUES] = {
        [GGUF_VALUE_U8] = "a u8",         [GGUF_VALUE_I8] = "an i8",
        [GGUF_VALUE_U16] = "a u16",       [GGUF_VALUE_I16] = "an i16",
        [GGUF_VALUE_U32] = "a u32",       [GGUF_VALUE_I32] = "an i32",
        [GGUF_VALUE_F32] = "an f32",      [GGUF_VALUE_BOOL] = "a bool",
        [GGUF_VALUE_STRING] = "a string", [GGUF_VALUE_U64] = "a u64",
        [GGUF_VALUE_I64] = "an i64",      [GGUF_VALUE_F64] = "an f64",
    };

    return error_set(e, ST_INVALID_ARGUMENT, "%s is %s, not %s", v->key,
                     v->array ? "a list" : names[v->type], want);
}

enum status gguf_get_whole(const struct gguf *g, const char *key, int64_t *out,
                           struct error *e)
{
    const struct gguf_value *v = gguf_find(g, key);
    int64_t n;

    if (v == NULL) {
        return ST_OK;
    }
    if (v->array || !gguf_whole(v, 0, &n)) {
        return wrong_type(v, "a whole number within 63 bits", e);
    }
    *out = n;
    return ST_OK;
}

enum status gguf_get_real(const struct gguf *g, const char *key, double *out,
                          struct error *e)
{
    const struct gguf_value *v = gguf_find(g, key);
    double x;

    if (v == NULL) {
        return ST_OK;
    }
    if (v->array || !gguf_real(v, 0, &x)) {
        return wrong_type(v, "a number", e);
    }
    if (!isfinite(x)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s is %g, not a finite number", key, x);
    }
    *out = x;
    return ST_OK;
}

enum status gguf_get_text(const struct gguf *g, const char *key,
                          const char **text, size_t *n, struct error *e)
{
    const struct gguf_value *v = gguf_find(g, key);
    size_t at = 0;

    if (v == NULL) {
        return ST_OK;
    }
    if (v->array || !gguf_next_text(v, &at, text, n)) {
        return wrong_type(v, "a string", e);
    }
    return ST_OK;
}

bool gguf_next_text(const struct gguf_value *v, size_t *at, const char **text,
                    size_t *n)
{
    if (v == NULL || v->type != GGUF_VALUE_STRING || *at >= v->bytes) {
        return false;
    }
    *n = (size_t)gguf_little(v->at + *at, 8); /* checked by the parser */
    *text = (const char *)v->at + *at + 8;
    *at += 8 + *n;
    return true;
}
