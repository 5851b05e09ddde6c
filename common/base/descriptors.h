/* descriptors.h - how many files this process may have open.
 *
 * Threading: descriptors_raise before any thread, the other any.  Memory:
 * none. */
#ifndef COMMON_BASE_DESCRIPTORS_H
#define COMMON_BASE_DESCRIPTORS_H

#include <stdbool.h>
#include <stdint.h>

/* The soft limit becomes the hard one: it is 1024 on many hosts, for select(),
 * which nothing here uses.  Returns the limit that now holds, UINT64_MAX if
 * there is none. */
uint64_t descriptors_raise(void);

/* True if n more can be opened now; another thread may take them at once. */
bool descriptors_left(unsigned n);

#endif
