/* gguf_value.c - Reads the values of a parsed header. */
#include <stdlib.h>
#include <string.h>

#include "common/model/gguf.h"
#include "common/model/gguf_bytes.h"

static int by_key(const void *a, const void *b)
{
    const struct gguf_value *x = a, *y = b;

    return strcmp(x->key, y->key);
}

const struct gguf_value *gguf_find(const struct gguf *g, const char *key)
{
    struct gguf_value k = {.key = key};

    return g->n_values == 0
               ? NULL
               : bsearch(&k, g->values, g->n_values, sizeof k, by_key);
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
