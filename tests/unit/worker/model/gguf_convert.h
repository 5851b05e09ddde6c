/* gguf_convert.h - Writes a loaded model as a GGUF file, as llama.cpp's
 * conversion would.
 *
 * It starts from the weights in memory, in the order of weights.h, and shares
 * nothing with the reader of GGUF files.
 *
 * Threading: none. */
#ifndef TESTS_UNIT_WORKER_MODEL_GGUF_CONVERT_H
#define TESTS_UNIT_WORKER_MODEL_GGUF_CONVERT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/model/config.h"
#include "common/model/weights.h"
#include "tests/unit/common/model/gguf_writer.h"

struct gguf_types {
    uint32_t matrices; /* enum writer_type */
    uint32_t experts;  /* matrices of experts; 0: as matrices */
    uint32_t embed;    /* the embedding; 0: as matrices */
    bool joined;       /* gate and up of experts in one tensor */
};

/* Returns the type that a matrix of so many columns gets: float32 if its rows
 * are no whole blocks. */
uint32_t gguf_convert_type(uint32_t type, uint32_t cols);

/* Returns the whole model in a new file, which may get more values. */
struct gguf_file *gguf_convert(const struct model_config *c,
                               const struct shard_weights *w,
                               const struct gguf_types *types);

/* Writes a file. */
void gguf_convert_save(const struct gguf_file *f, const char *path);

/* Writes parts [0, n) of the model to DIR/NAME-0000i-of-0000n.gguf, with a
 * share of the layers each. */
void gguf_convert_parts(const struct model_config *c,
                        const struct shard_weights *w,
                        const struct gguf_types *types, uint32_t n,
                        const char *dir, const char *name);

#endif
