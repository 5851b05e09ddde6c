/* columns.h - Aligned tables for a terminal.
 *
 * A column is as wide as its widest cell.  It is right-aligned if each of its
 * cells begins with a digit or a minus sign.  Cells are escaped
 * (client/ctl/escape.h), because names come from peers.
 *
 *     struct columns t;
 *     columns_init(&t, "worker", "sequences", NULL);
 *     columns_cell(&t, "%s", name);
 *     columns_cell(&t, "%u", n);
 *     columns_print(&t, stdout);
 *     columns_fini(&t);
 *
 * Threading: none.  Memory: the cells, on the heap; aborts without memory.
 * Limits: COLUMNS_MAX columns, COLUMNS_CELL_MAX bytes a cell. */
#ifndef CLIENT_CTL_COLUMNS_H
#define CLIENT_CTL_COLUMNS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define COLUMNS_MAX      20
#define COLUMNS_CELL_MAX 4096

struct columns {
    char **cells; /* [n_cells] row by row; the first row is the heads */
    size_t n_cells, capacity, n_columns;
    size_t n_keys; /* columns that begin each part of a wide table; 1 */
};

/* Starts a table with these column heads; the last argument is NULL. */
void columns_init(struct columns *t, ...) __attribute__((sentinel));
void columns_fini(struct columns *t);

/* Adds the next cell, left to right; the last column ends the row.  A longer
 * text is cut at COLUMNS_CELL_MAX - 1 bytes. */
void columns_cell(struct columns *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints heads and rows.  Every row must be complete.  On a terminal, columns
 * that do not fit follow in further parts below, each with the key columns. */
void columns_print(const struct columns *t, FILE *to);

/* The same within `width` columns; 0: no limit. */
void columns_print_within(const struct columns *t, FILE *to, size_t width);

/* Writes a bar of the share used / total: "[######....]", with width
 * characters between the brackets.  A part of a mark is rounded up to a whole
 * one.  out has width + 3 bytes. */
void bar_write(char *out, unsigned width, uint64_t used, uint64_t total);

/* Writes a bar of two shares, the second drawn with '+': "[####++....]". */
void bar_parts(char *out, unsigned width, uint64_t first, uint64_t second,
               uint64_t total);

/* Writes a size with its unit: "1.5 GiB", "812 B". */
#define BYTES_TEXT 16
void bytes_write(char out[BYTES_TEXT], uint64_t bytes);

/* Writes a time with its unit: "3.21 s", "12.3 ms", "85 us". */
#define MICROS_TEXT 24
void micros_write(char out[MICROS_TEXT], uint64_t us);

#endif
