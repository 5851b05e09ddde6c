/* gguf_repack.h - Blocks of a GGUF file to the planes of a matrix.
 *
 * A block holds codes and scales of 32 or 256 columns of a row; weights.h
 * keeps the codes of a row together, in order, and its scales apart.  Blocks
 * also move to the row and column that they belong to (gguf_tensors.h).
 *
 *     F32, F16, BF16   plain; float32 for a vector
 *     Q8_0, Q4_0       q8, q4
 *     Q5_0, IQ4_NL     q8, whose codes have room for theirs
 *     MXFP4            mxfp4
 *     Q4_K, Q6_K       k4, k6
 *     Q4_1, Q5_1       affine, groups of 32, scales and biases float16
 *     Q5_K, IQ4_XS     affine, groups of 32, scales and biases float32
 *
 * Affine matrices have 4 bits for Q4_1, else 8.  If heads of columns move and a
 * block has columns of several heads, Q4_K becomes affine, with 4 bits and
 * float32 scales, and Q6_K plain float32; so does every type if a head is no
 * multiple of 32 columns.  Every value stays.
 *
 * Threading: pure functions; calls for other blocks may run at the same time,
 * as no two blocks share a byte of a plane.  Memory: the caller's. */
#ifndef COMMON_MODEL_GGUF_REPACK_H
#define COMMON_MODEL_GGUF_REPACK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/model/gguf_tensors.h"
#include "common/model/weights.h"

/* Row r of a tensor goes to row to + r / run * stride + r % run * step; with
 * run 0 to row to + r. */
struct gguf_rows {
    uint32_t to, run, stride, step;
};

struct gguf_repack {
    const struct gguf_form *form; /* NULL: nothing to repack */
    struct tensor shape; /* planes, from gguf_repack_shape(); its rows are those
                            that the form yields */
    uint32_t from;       /* row of the first block */
    struct gguf_rows rows;
    uint64_t places[3]; /* codes, scales, biases: of row 0 in the memory */
};

/* Sets format, dtype, bits and group of *t, whose rows and cols are set.
 * Returns false if the type is not supported. */
bool gguf_repack_shape(struct tensor *t, const struct gguf_form *form);

/* Returns the names of the types that are supported. */
const char *gguf_repack_supported(void);

/* Puts n blocks into memory, the first of which is block `first` after row
 * r->from, into memory.  Returns false if a scale is NaN (MXFP4). */
bool gguf_repack_run(const struct gguf_repack *r, const void *blocks,
                     uint64_t first, uint64_t n, void *memory);

#endif
