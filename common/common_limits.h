/* common_limits.h - the limits of common/wire, common/sampling and
 * common/split/layer_split.h, for --limits.
 *
 * Threading: constant data. */
#ifndef COMMON_COMMON_LIMITS_H
#define COMMON_COMMON_LIMITS_H

#include "common/base/limit.h"

extern const struct limit_row common_limits[];
extern const size_t common_limits_n;

#endif
