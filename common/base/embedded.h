/* embedded.h - Files that are part of a program; cmake/embed.cmake makes
 * them.
 *
 * Threading: constants.  Memory: static. */
#ifndef COMMON_BASE_EMBEDDED_H
#define COMMON_BASE_EMBEDDED_H

#include <stddef.h>

struct embedded {
    const char *name;  /* "rms_norm.cl"; NULL ends a table */
    const char *bytes; /* [size], followed by a zero byte */
    size_t size;
};

#endif
