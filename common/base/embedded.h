/* embedded.h - files that are part of a program; cmake/embed.cmake makes them.
 *
 * Threading: constants.  Memory: static. */
#ifndef COMMON_BASE_EMBEDDED_H
#define COMMON_BASE_EMBEDDED_H

#include <stddef.h>

struct embedded {
    const char *name;  /* "rms_norm.cl"; NULL ends a table */
    const char *bytes; /* [size], and a zero behind them */
    size_t size;
};

#endif
