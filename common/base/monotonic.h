/* monotonic.h - The monotonic clock, in microseconds.
 *
 * Threading: any thread.  Memory: none. */
#ifndef COMMON_BASE_MONOTONIC_H
#define COMMON_BASE_MONOTONIC_H

#include <stdint.h>

/* Returns the microseconds since a moment that is fixed while the machine
 * runs. */
int64_t monotonic_us(void);

#endif
