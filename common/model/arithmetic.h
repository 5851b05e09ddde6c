/* arithmetic.h - The arithmetic id: the name of what decides how sums are
 * ordered and rounded.
 *
 *     cpu-float-1        the CPU, with any instruction set
 *     cpu-int8-1         the same with integer products of quantised weights
 *     opencl-1a2b3c4d-1  an OpenCL device: a hash of its platform, its name,
 * its driver and the choice of kernels
 *
 * With equal ids, equal weights and an equal KV format, workers compute equal
 * logits bit for bit.  Other ids may differ in bits or not.  The last number is
 * ARITHMETIC_REVISION.
 *
 * Threading: pure functions. */
#ifndef COMMON_MODEL_ARITHMETIC_H
#define COMMON_MODEL_ARITHMETIC_H

#include <stdbool.h>

#include "common/model/weights.h"
#include "proto/limits.h"

/* Grows with each change of the kernels that changes bits. */
#define ARITHMETIC_REVISION 1

#define ARITHMETIC_SIZE (ARITHMETIC_MAX + 1) /* bytes of an id, with its 0 */

/* Writes the id of the CPU for a model whose quantised weights have the format
 * f; int8: with integer products, which FP8 has not.  Returns out. */
const char *arithmetic_cpu(char out[ARITHMETIC_SIZE], enum weight_format f,
                           bool int8);

/* Writes the id of an OpenCL device from a text that names all that may change
 * its bits.  Returns out. */
const char *arithmetic_device(char out[ARITHMETIC_SIZE], const char *text);

#endif
