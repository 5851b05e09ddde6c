/* plan_limits.h - Limits of client/load/plan, for --limits.
 *
 * Threading: constant data. */
#ifndef CLIENT_LOAD_PLAN_PLAN_LIMITS_H
#define CLIENT_LOAD_PLAN_PLAN_LIMITS_H

#include "common/base/limit.h"

extern const struct limit_row plan_limits[];
extern const size_t plan_limits_n;

#endif
