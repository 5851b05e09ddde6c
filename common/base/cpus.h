/* cpus.h - The number of CPUs.
 *
 * Threading, memory: no state. */
#ifndef COMMON_BASE_CPUS_H
#define COMMON_BASE_CPUS_H

#include <stdint.h>

/* Returns the number of CPUs that this process may run on, at least 1. */
uint32_t cpus_allowed(void);

#endif
