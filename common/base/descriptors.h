/* descriptors.h - Limit on the files that this process may have open.
 *
 * Threading: call descriptors_raise() before any thread starts;
 * descriptors_left() from any thread.  Memory: none. */
#ifndef COMMON_BASE_DESCRIPTORS_H
#define COMMON_BASE_DESCRIPTORS_H

#include <stdbool.h>
#include <stdint.h>

/* Raises the soft limit to the hard limit.  The soft limit is 1024 on many
 * hosts, for the sake of select(), which sluice does not use.  Returns the
 * limit that now holds, UINT64_MAX if there is none. */
uint64_t descriptors_raise(void);

/* Returns whether n more descriptors can be opened now.  Another thread may
 * take them at once. */
bool descriptors_left(unsigned n);

#endif
