/* gguf_bytes.h - Numbers of a GGUF file; for gguf.c, gguf_value.c and
 * gguf_repack.c.
 *
 * Threading: pure functions. */
#ifndef COMMON_MODEL_GGUF_BYTES_H
#define COMMON_MODEL_GGUF_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/model/gguf.h"

/* Reads n bytes, little-endian, at any address. */
static inline uint64_t gguf_little(const unsigned char *p, size_t n)
{
    uint64_t v = 0;

    while (n > 0) {
        v = v << 8 | p[--n];
    }
    return v;
}

/* Returns the bytes of a value of fixed size; 0: string or array. */
static inline size_t gguf_value_bytes(enum gguf_value_type t)
{
    static const uint8_t sizes[GGUF_VALUES] = {1, 1, 2, 2, 4, 4, 4,
                                               1, 0, 0, 8, 8, 8};

    return sizes[t];
}

/* Compares two struct gguf_value, for qsort(): by key. */
static inline int gguf_by_key(const void *a, const void *b)
{
    const struct gguf_value *x = a, *y = b;

    return strcmp(x->key, y->key);
}

#endif
