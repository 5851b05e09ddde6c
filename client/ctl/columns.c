/* columns.c - Aligned tables, bars, sizes and times for a terminal. */
#include "client/ctl/columns.h"

#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "client/ctl/escape.h"

/* Escapes when a cell is added, so that its width is that of the printed
 * text. */
static void add_cell(struct columns *t, const char *text)
{
    size_t n = strlen(text);
    char *cell = malloc(n * ESCAPE_GROWTH + 1);

    if (t->n_cells == t->capacity) {
        t->capacity = t->capacity == 0 ? 64 : t->capacity * 2;
        t->cells = realloc(t->cells, t->capacity * sizeof *t->cells);
    }
    assert(cell != NULL && t->cells != NULL);
    n = escape_line(text, n, cell);
    cell[n] = '\0';
    t->cells[t->n_cells++] = cell;
}

void columns_init(struct columns *t, ...)
{
    va_list ap;
    const char *head;

    *t = (struct columns){0};
    va_start(ap, t);
    while ((head = va_arg(ap, const char *)) != NULL) {
        add_cell(t, head);
    }
    va_end(ap);
    t->n_columns = t->n_cells;
    assert(t->n_columns > 0 && t->n_columns <= COLUMNS_MAX);
}

void columns_fini(struct columns *t)
{
    for (size_t i = 0; i < t->n_cells; i++) {
        free(t->cells[i]);
    }
    free(t->cells);
    *t = (struct columns){0};
}

void columns_cell(struct columns *t, const char *fmt, ...)
{
    char text[COLUMNS_CELL_MAX];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    add_cell(t, text);
}

/* Returns the width on the terminal: a wide character takes two columns, a
 * combining mark none. */
static size_t width_of(const char *cell)
{
    const utf8proc_uint8_t *at = (const utf8proc_uint8_t *)cell;
    size_t width = 0;
    utf8proc_int32_t c;
    utf8proc_ssize_t used;

    while (*at != 0 && (used = utf8proc_iterate(at, -1, &c)) > 0) {
        width += (size_t)utf8proc_charwidth(c);
        at += used;
    }
    return width;
}

/* Returns whether each cell but the head begins like a number.  Such a column
 * is right-aligned, with its head. */
static bool is_number_column(const struct columns *t, size_t column)
{
    size_t i = t->n_columns + column;

    if (i >= t->n_cells) {
        return false;
    }
    for (; i < t->n_cells; i += t->n_columns) {
        if (strchr("0123456789-", t->cells[i][0]) == NULL) {
            return false;
        }
    }
    return true;
}

/* Pads by hand, because the width of %*s counts bytes.  The last column is not
 * padded: no line ends with blanks. */
static void print_cell(FILE *to, const char *cell, size_t width, bool right,
                       bool last)
{
    int pad = (int)(width - width_of(cell));

    if (right) {
        fprintf(to, "%*s%s", pad, "", cell);
    } else {
        fprintf(to, "%s%*s", cell, last ? 0 : pad, "");
    }
    fputs(last ? "\n" : "  ", to);
}

void columns_print(const struct columns *t, FILE *to)
{
    size_t widths[COLUMNS_MAX] = {0};
    bool right[COLUMNS_MAX];

    assert(t->n_cells % t->n_columns == 0);
    for (size_t i = 0; i < t->n_cells; i++) {
        size_t width = width_of(t->cells[i]);

        if (width > widths[i % t->n_columns]) {
            widths[i % t->n_columns] = width;
        }
    }
    for (size_t c = 0; c < t->n_columns; c++) {
        right[c] = is_number_column(t, c);
    }
    for (size_t i = 0; i < t->n_cells; i++) {
        size_t c = i % t->n_columns;

        print_cell(to, t->cells[i], widths[c], right[c], c + 1 == t->n_columns);
    }
}

/* Rounds up, so that a bar is empty only if nothing is used. */
void bar_write(char *out, unsigned width, uint64_t used, uint64_t total)
{
    uint64_t marks = 0;

    if (total > 0) {
        used = used > total ? total : used;
        marks = (used * width + total - 1) / total;
    }
    out[0] = '[';
    for (unsigned i = 0; i < width; i++) {
        out[i + 1] = i < marks ? '#' : '.';
    }
    out[width + 1] = ']';
    out[width + 2] = '\0';
}

/* Draws the sum, then turns the marks past the first part into '+'. */
void bar_parts(char *out, unsigned width, uint64_t first, uint64_t second,
               uint64_t total)
{
    bar_write(out, width, first + second, total);
    for (unsigned i = 1; i <= width && out[i] == '#'; i++) {
        out[i] = (i - 1) * total < first * width ? '#' : '+';
    }
}

void bytes_write(char out[BYTES_TEXT], uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)bytes;
    unsigned unit = 0;

    while (value >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        unit++;
    }
    snprintf(out, BYTES_TEXT, unit == 0 ? "%.0f %s" : "%.1f %s", value,
             units[unit]);
}

void micros_write(char out[MICROS_TEXT], uint64_t us)
{
    if (us >= 1000000) {
        snprintf(out, MICROS_TEXT, "%.2f s", (double)us / 1e6);
    } else if (us >= 1000) {
        snprintf(out, MICROS_TEXT, "%.1f ms", (double)us / 1e3);
    } else {
        snprintf(out, MICROS_TEXT, "%u us", (unsigned)us);
    }
}
