/* wire_limits.h - Limits of proto/limits.h and of common/wire, for --limits.
 *
 * Threading: constant data. */
#ifndef COMMON_WIRE_WIRE_LIMITS_H
#define COMMON_WIRE_WIRE_LIMITS_H

#include "common/base/limit.h"

extern const struct limit_row wire_limits[];
extern const size_t wire_limits_n;

/* Prints these rows, then the largest request and reply of each method. */
void wire_limits_print(FILE *to);

#endif
