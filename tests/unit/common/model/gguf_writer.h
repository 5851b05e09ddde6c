/* gguf_writer.h - Writes GGUF files for tests.
 *
 * Values and tensors appear in the file in the order of the calls.  Numbers
 * are those of the format's description, independent of common/model/gguf.c.
 *
 * Threading: none.  Memory: a file is the caller's, to gguf_file_free(). */
#ifndef TESTS_UNIT_COMMON_MODEL_GGUF_WRITER_H
#define TESTS_UNIT_COMMON_MODEL_GGUF_WRITER_H

#include <stddef.h>
#include <stdint.h>

enum writer_type {
    WRITE_F32 = 0,
    WRITE_F16 = 1,
    WRITE_Q4_0 = 2,
    WRITE_Q4_1 = 3,
    WRITE_Q5_0 = 6,
    WRITE_Q5_1 = 7,
    WRITE_Q8_0 = 8,
    WRITE_Q4_K = 12,
    WRITE_Q5_K = 13,
    WRITE_Q6_K = 14,
    WRITE_IQ4_NL = 20,
    WRITE_IQ4_XS = 23,
    WRITE_BF16 = 30,
    WRITE_MXFP4 = 39
};

struct gguf_file;

/* alignment 0: 32, and no key for it. */
struct gguf_file *gguf_file_new(uint32_t version, uint32_t alignment);
void gguf_file_free(struct gguf_file **f);

void gguf_put_u32(struct gguf_file *f, const char *key, uint32_t v);
void gguf_put_f32(struct gguf_file *f, const char *key, float v);
void gguf_put_bool(struct gguf_file *f, const char *key, int v);
void gguf_put_text(struct gguf_file *f, const char *key, const char *v);
void gguf_put_texts(struct gguf_file *f, const char *key, size_t n,
                    const char *const *v);
void gguf_put_i32s(struct gguf_file *f, const char *key, size_t n,
                   const int32_t *v);
void gguf_put_f32s(struct gguf_file *f, const char *key, size_t n,
                   const float *v);

/* Puts any value: its type and its bytes. */
void gguf_put_raw(struct gguf_file *f, const char *key, uint32_t type,
                  const void *bytes, size_t n);

/* Adds a tensor of stored bytes; dims[0] is the length of a row. */
void gguf_add(struct gguf_file *f, const char *name, uint32_t type,
              uint32_t rank, const uint64_t *dims, const void *bytes, size_t n);

/* Adds a tensor of values, quantised to a writer_type. */
void gguf_add_values(struct gguf_file *f, const char *name, uint32_t type,
                     uint32_t rank, const uint64_t *dims, const float *values);

/* Returns the bytes of the file, to free(). */
unsigned char *gguf_bytes(const struct gguf_file *f, size_t *len);

/* Returns the bytes of n values, and the values of a block. */
size_t gguf_type_bytes(uint32_t type, uint64_t n);
uint32_t gguf_type_block(uint32_t type);

/* Quantise n values, and compute what the stored blocks stand for; n is a
 * multiple of 256. */
void gguf_quantise(uint32_t type, const float *values, uint64_t n, void *out);
void gguf_dequantise(uint32_t type, const void *blocks, uint64_t n, float *out);

#endif
