/* limit.h - every limit by name, for --limits.
 *
 * A module that has limits exports a table of rows; a program prints the
 * tables of the modules it is made of.  Threading: constant data. */
#ifndef COMMON_BASE_LIMIT_H
#define COMMON_BASE_LIMIT_H

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

/* Rows of common/base. */
extern const struct limit_row base_limits[];
extern const size_t base_limits_n;

void limits_print(FILE *to, const struct limit_row *rows, size_t n);

#endif
