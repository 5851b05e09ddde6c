/* figures_limits.h - Limits of client/load/figures, for --limits.
 *
 * Threading: constant data. */
#ifndef CLIENT_LOAD_FIGURES_FIGURES_LIMITS_H
#define CLIENT_LOAD_FIGURES_FIGURES_LIMITS_H

#include "common/base/limit.h"

extern const struct limit_row figures_limits[];
extern const size_t figures_limits_n;

#endif
