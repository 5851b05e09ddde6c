/* limits.h - every limit by name, for --limits.
 *
 * A module that has limits exports a table of rows; a program prints the
 * tables of the modules it is made of.  Threading: constant data. */
#ifndef COMMON_LIMITS_H
#define COMMON_LIMITS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct limit_row {
    const char *name;
    uint64_t value;
    const char *unit; /* "bytes", "tokens", "ms", "" */
    const char *what;
};

#define LIMIT_ROW(name, unit, what)         \
    {                                       \
#name, (uint64_t)(name), unit, what \
    }

/* Of frame, link, peer, session, sampling. */
extern const struct limit_row common_limits[];
extern const size_t common_limits_n;

void limits_print(FILE *to, const struct limit_row *rows, size_t n);

#endif
