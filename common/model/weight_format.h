/* weight_format.h - The values that a stored matrix stands for.
 *
 * weights.h lists the formats; this module has their names and sizes, and
 * decodes them in plain C.  It is the definition that kernels and tests are
 * compared with: every value is rounded to float32 once, whatever the columns
 * that are decoded with it.
 *
 *     E4M3   sign, 4 bits of exponent (bias 7), 3 of fraction; no infinity;
 *            0x7f and 0xff are NaN
 *     E2M1   sign, then 0, 0.5, 1, 1.5, 2, 3, 4, 6
 *     E8M0   2^(code - 127); 255 is NaN
 *
 * NaN codes are refused when a file is read (worker/model/load.h).
 *
 * Threading: pure functions.  Memory: the caller's. */
#ifndef COMMON_MODEL_WEIGHT_FORMAT_H
#define COMMON_MODEL_WEIGHT_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/model/weights.h"

#define WEIGHT_FP8_BLOCK 128 /* rows and columns that share a scale */
#define WEIGHT_RECORD    256 /* columns of a record of k4 and k6 */

/* Returns the name as weights.h has it, such as "mxfp4". */
const char *weight_format_name(enum weight_format f);

/* Returns the bits of a code, 0 for plain and affine, whose tensors differ. */
uint32_t weight_format_bits(enum weight_format f);

/* Returns the codes that share a scale, 0 for plain and affine. */
uint32_t weight_format_group(enum weight_format f);

/* Writes columns [first, first + n) of a row as float32 to out [n]. */
void weight_format_decode(float *out, const struct tensor *t, uint32_t row,
                          uint32_t first, uint32_t n);

/* Return the value of a code; of the second, the lower half counts. */
float weight_format_e4m3(uint8_t code);
float weight_format_e2m1(uint8_t code);
float weight_format_e8m0(uint8_t code);

#endif
