/* drive_limits.h - Limits of client/load/drive, for --limits.
 *
 * Threading: constant data. */
#ifndef CLIENT_LOAD_DRIVE_DRIVE_LIMITS_H
#define CLIENT_LOAD_DRIVE_DRIVE_LIMITS_H

#include "common/base/limit.h"

extern const struct limit_row drive_limits[];
extern const size_t drive_limits_n;

#endif
