/* report_limits.h - Limits of client/load/report, for --limits.
 *
 * Threading: constant data. */
#ifndef CLIENT_LOAD_REPORT_REPORT_LIMITS_H
#define CLIENT_LOAD_REPORT_REPORT_LIMITS_H

#include "common/base/limit.h"

extern const struct limit_row report_limits[];
extern const size_t report_limits_n;

#endif
