/* limit.h - Named limits, for --limits.
 *
 * Each module that has limits exports a table of rows.  A program prints the
 * tables of its modules.
 *
 * Threading: constant data. */
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

/* The table of a module, or a function that prints limits of this process.  The
 * last one of a list has neither. */
struct limit_table {
    const struct limit_row *rows; /* [*n_rows]; NULL: none */
    const size_t *n_rows;
    void (*print)(FILE *to); /* NULL: the rows */
};

/* Rows of common/base. */
extern const struct limit_row base_limits[];
extern const size_t base_limits_n;

/* Prints one line per row: name, value, unit, meaning. */
void limits_print(FILE *to, const struct limit_row *rows, size_t n);

#endif
