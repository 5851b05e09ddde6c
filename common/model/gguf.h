/* gguf.h - The header of a GGUF file: metadata and tensor infos.
 *
 *     "GGUF" | u32 version | u64 n_tensors | u64 n_values |
 *     values:  string key, u32 type, the value
 *     tensors: string name, u32 rank, u64 dims[rank], u32 type, u64 offset
 *     zeros up to a multiple of general.alignment (32) | data
 *
 * A string is u64 n and n bytes; an array is u32 type of its items, u64 n and
 * the items.  Versions 2 and 3, little-endian.  dims[0] is the length of a
 * row; the data of a tensor is its rows, each a whole number of blocks.
 *
 * The checks are as strict as the format:
 * - Keys and names are UTF-8 without NUL, and unique.
 * - Arrays of arrays and unknown types are refused.
 * - The tensors follow each other, each at the next multiple of the
 *   alignment, from the first byte of the data to the end of the file.
 *
 * Threading: none.  Memory: a gguf owns its values, tensors and names, some
 * 50 bytes each; values point into the header's bytes.  Limits: GGUF_*.
 * Errors: ST_DATA_LOSS for a broken file, ST_UNIMPLEMENTED for a version or
 * type that is not supported, ST_RESOURCE_EXHAUSTED if memory runs out. */
#ifndef COMMON_MODEL_GGUF_H
#define COMMON_MODEL_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/model/model_limits.h"

/* X(name, number in a file, values of a block, bytes of a block) */
#define GGUF_TENSOR_TYPES(X) \
    X(F32, 0, 1, 4)          \
    X(F16, 1, 1, 2)          \
    X(Q4_0, 2, 32, 18)       \
    X(Q4_1, 3, 32, 20)       \
    X(Q5_0, 6, 32, 22)       \
    X(Q5_1, 7, 32, 24)       \
    X(Q8_0, 8, 32, 34)       \
    X(Q8_1, 9, 32, 36)       \
    X(Q2_K, 10, 256, 84)     \
    X(Q3_K, 11, 256, 110)    \
    X(Q4_K, 12, 256, 144)    \
    X(Q5_K, 13, 256, 176)    \
    X(Q6_K, 14, 256, 210)    \
    X(Q8_K, 15, 256, 292)    \
    X(IQ2_XXS, 16, 256, 66)  \
    X(IQ2_XS, 17, 256, 74)   \
    X(IQ3_XXS, 18, 256, 98)  \
    X(IQ1_S, 19, 256, 50)    \
    X(IQ4_NL, 20, 32, 18)    \
    X(IQ3_S, 21, 256, 110)   \
    X(IQ2_S, 22, 256, 82)    \
    X(IQ4_XS, 23, 256, 136)  \
    X(I8, 24, 1, 1)          \
    X(I16, 25, 1, 2)         \
    X(I32, 26, 1, 4)         \
    X(I64, 27, 1, 8)         \
    X(F64, 28, 1, 8)         \
    X(IQ1_M, 29, 256, 56)    \
    X(BF16, 30, 1, 2)        \
    X(TQ1_0, 34, 256, 54)    \
    X(TQ2_0, 35, 256, 66)    \
    X(MXFP4, 39, 32, 17)

enum gguf_tensor_type {
#define X(name, number, values, bytes) GGUF_##name = number,
    GGUF_TENSOR_TYPES(X)
#undef X
};

struct gguf_type_shape {
    const char *name;      /* "Q4_K" */
    uint32_t block, bytes; /* values and bytes of a block */
};

/* Returns NULL for an unknown number. */
const struct gguf_type_shape *gguf_type(uint32_t type);

enum gguf_value_type {
    GGUF_VALUE_U8,
    GGUF_VALUE_I8,
    GGUF_VALUE_U16,
    GGUF_VALUE_I16,
    GGUF_VALUE_U32,
    GGUF_VALUE_I32,
    GGUF_VALUE_F32,
    GGUF_VALUE_BOOL,
    GGUF_VALUE_STRING,
    GGUF_VALUE_ARRAY,
    GGUF_VALUE_U64,
    GGUF_VALUE_I64,
    GGUF_VALUE_F64,
    GGUF_VALUES
};

struct gguf_value {
    const char *key;
    enum gguf_value_type type; /* an array has that of its items */
    bool array;
    uint64_t n;              /* items of an array, else 1 */
    const unsigned char *at; /* the items as stored, [bytes] */
    size_t bytes;
};

struct gguf_tensor {
    const char *name;
    enum gguf_tensor_type type;
    uint32_t rank;                /* 1 to GGUF_RANK_MAX */
    uint64_t dims[GGUF_RANK_MAX]; /* the length of a row first; 1 beyond rank */
    uint64_t offset, bytes;       /* position in the data */
};

struct gguf {
    uint32_t version;
    uint64_t data;         /* offset of the data in the file */
    uint64_t header_bytes; /* without the zeros before the data */
    uint32_t n_values;
    struct gguf_value *values; /* [n_values], sorted by key */
    uint32_t n_tensors;
    struct gguf_tensor *tensors; /* [n_tensors], in the order of the data */
    char *names;
    void *owned; /* bytes of gguf_read() */
};

/* Reads the header of an open file of file_bytes.  Release g with gguf_fini()
 * on success; after an error there is nothing to release. */
MUST_CHECK enum status gguf_read(struct gguf *g, int fd, uint64_t file_bytes,
                                 struct error *e);

/* Parses the first len bytes of a file of file_bytes; g borrows them.  If the
 * header is longer than len, sets *need (unless NULL) to a length that it has
 * at least, and returns ST_OUT_OF_RANGE. */
MUST_CHECK enum status gguf_parse(struct gguf *g, const void *bytes, size_t len,
                                  uint64_t file_bytes, size_t *need,
                                  struct error *e);

void gguf_fini(struct gguf *g);

/* Finds a value by key, NULL if there is none. */
const struct gguf_value *gguf_find(const struct gguf *g, const char *key);

/* Finds a tensor by name, NULL if there is none; a linear search. */
const struct gguf_tensor *gguf_find_tensor(const struct gguf *g,
                                           const char *name);

/* Read item i of a value, or the value itself (i = 0).  Return false if the
 * value is NULL or of another kind, i is past its end, or the number does not
 * fit.  Every integer type and bool is whole; every number is real. */
bool gguf_whole(const struct gguf_value *v, uint64_t i, int64_t *out);
bool gguf_real(const struct gguf_value *v, uint64_t i, double *out);

/* Read the value of a key; *out stays as it is if there is none, so that it
 * holds a default.  Return ST_INVALID_ARGUMENT, with the key and its type, for
 * a list, a value of another kind, a number that does not fit, or one that is
 * not finite. */
MUST_CHECK enum status gguf_get_whole(const struct gguf *g, const char *key,
                                      int64_t *out, struct error *e);
MUST_CHECK enum status gguf_get_real(const struct gguf *g, const char *key,
                                     double *out, struct error *e);

/* The same for a string, which is borrowed, without NUL. */
MUST_CHECK enum status gguf_get_text(const struct gguf *g, const char *key,
                                     const char **text, size_t *n,
                                     struct error *e);

/* Reads the string at *at of a value and moves *at to the next; *at begins
 * with 0.  Returns false at the end, or if the value is NULL or holds no
 * strings.  text is borrowed, without NUL. */
bool gguf_next_text(const struct gguf_value *v, size_t *at, const char **text,
                    size_t *n);

#endif
