/* columns.h - rows and columns, aligned for people.
 *
 * A column is as wide as its widest cell; what begins with a digit stands at
 * the right.  Cells are escaped (client/ctl/escape.h): names come from peers.
 *
 *     struct columns t;
 *     columns_init(&t, "worker", "sequences", NULL);
 *     columns_cell(&t, "%s", name);
 *     columns_cell(&t, "%u", n);
 *     columns_print(&t, stdout);
 *     columns_fini(&t);
 *
 * Threading: none.  Memory: grows with its cells, on the heap. */
#ifndef CLIENT_CTL_COLUMNS_H
#define CLIENT_CTL_COLUMNS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define COLUMNS_MAX      16
#define COLUMNS_CELL_MAX 4096

struct columns {
    char **cells; /* [n_cells], the heads first, row by row */
    size_t n_cells, capacity, n_columns;
};

/* The column heads, up to NULL. */
void columns_init(struct columns *t, ...) __attribute__((sentinel));
void columns_fini(struct columns *t);

/* The next cell, from left to right; a row ends with its last column. */
void columns_cell(struct columns *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

void columns_print(const struct columns *t, FILE *to);

/* How full something is: "[######....]", width characters between brackets.
 * Part of a mark counts as a whole one; out is [width + 3]. */
void bar_write(char *out, unsigned width, uint64_t used, uint64_t total);

/* The same of two kinds, the second as '+': "[####++....]". */
void bar_parts(char *out, unsigned width, uint64_t first, uint64_t second,
               uint64_t total);

/* "1.5 GiB", "812 B"; out is [BYTES_TEXT]. */
#define BYTES_TEXT 16
void bytes_write(char out[BYTES_TEXT], uint64_t bytes);

/* "3.21 s", "12.3 ms", "85 us"; out is [MICROS_TEXT]. */
#define MICROS_TEXT 24
void micros_write(char out[MICROS_TEXT], uint64_t us);

#endif
