/* safetensors.h - The header of a .safetensors file, and the index of many.
 *
 *     u64 n, little-endian | n bytes of JSON | data
 *     {"name": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}, ..}
 *
 * The checks are as strict as the format:
 * - The header is at most SAFETENSORS_HEADER_MAX bytes of one JSON object in
 *   UTF-8, without duplicate names; white space around it is allowed.
 * - A tensor's bytes are its shape times its dtype, checked for overflow.
 * - The tensors follow each other without overlap or hole, from the first
 *   byte of the data to the last byte of the file.
 *
 * Each fault has its own message with the tensor's name.
 *
 * Threading: none.  Memory: a safetensors owns its tensors and their names.
 * Parsing costs about 15 times the header's bytes, most of it temporarily.
 * Limits: SAFETENSORS_*, DOCUMENT_*.  Errors: ST_DATA_LOSS for a broken file,
 * ST_RESOURCE_EXHAUSTED if memory is exhausted. */
#ifndef COMMON_MODEL_SAFETENSORS_H
#define COMMON_MODEL_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/model/model_limits.h"

/* X(name, bits of an element) */
#define SAFETENSORS_DTYPES(X) \
    X(F32, 32)                \
    X(BF16, 16)               \
    X(F16, 16)                \
    X(F64, 64)                \
    X(C64, 64)                \
    X(I64, 64)                \
    X(U64, 64)                \
    X(I32, 32)                \
    X(U32, 32)                \
    X(I16, 16)                \
    X(U16, 16)                \
    X(I8, 8)                  \
    X(U8, 8)                  \
    X(BOOL, 8)                \
    X(F8_E4M3, 8)             \
    X(F8_E5M2, 8)             \
    X(F8_E8M0, 8)             \
    X(F6_E2M3, 6)             \
    X(F6_E3M2, 6)             \
    X(F4, 4)

enum safetensors_dtype {
#define X(name, bits) SAFETENSORS_##name,
    SAFETENSORS_DTYPES(X)
#undef X
        SAFETENSORS_NR,
    SAFETENSORS_BLOCKS = SAFETENSORS_NR /* GGUF files have it (checkpoint.h) */
};

struct safetensors_tensor {
    const char *name;
    enum safetensors_dtype dtype;
    uint32_t rank;
    uint64_t dims[SAFETENSORS_RANK_MAX]; /* [rank]; their product does not
                                            overflow */
    uint64_t begin, end; /* byte offsets from the start of the data */
};

struct safetensors {
    uint64_t data;                      /* offset of the data in the file */
    uint32_t n;                         /* number of tensors */
    struct safetensors_tensor *tensors; /* [n], in the order of the data */
    char *names;
};

#define SAFETENSORS_PREFIX 8

/* Reads the length of the header from a file's first min(8, file_bytes)
 * bytes. */
MUST_CHECK enum status safetensors_header_bytes(uint64_t *header_bytes,
                                                const void *first,
                                                uint64_t file_bytes,
                                                struct error *e);

/* Parses a header of header_bytes (without the 8 bytes of its length),
 * followed by data_bytes of data.  Release s with safetensors_fini() on
 * success; after an error there is nothing to release. */
MUST_CHECK enum status safetensors_parse(struct safetensors *s,
                                         const char *header,
                                         uint64_t header_bytes,
                                         uint64_t data_bytes, struct error *e);

/* Parses the bytes of a whole file. */
MUST_CHECK enum status safetensors_parse_file(struct safetensors *s,
                                              const void *bytes, size_t len,
                                              struct error *e);

void safetensors_fini(struct safetensors *s);

/* Returns the name of a dtype, such as "BF16". */
const char *safetensors_dtype_name(enum safetensors_dtype t);

/* File names in model.safetensors.index.json. */
struct safetensors_index {
    uint32_t n_files;
    char *
        *files; /* [n_files], each once: base names that end in .safetensors */
    uint64_t n_compared; /* names compared, at most about one a tensor */
};

/* Parses an index.  Refuses a file name that is no string, does not end in
 * .safetensors, or could leave the directory (a slash, "..", an empty name, a
 * NUL).  Refuses more than INDEX_MEMBERS_MAX entries before it parses the
 * JSON.  Ignores "metadata".  Release with safetensors_index_fini() on
 * success. */
MUST_CHECK enum status safetensors_index_parse(struct safetensors_index *x,
                                               const char *json, size_t len,
                                               struct error *e);

void safetensors_index_fini(struct safetensors_index *x);

#endif
