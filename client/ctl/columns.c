/* columns.c - Aligned tables, bars, sizes and times for a terminal. */
#include "client/ctl/columns.h"

#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <utf8proc.h>

#include "client/ctl/escape.h"
#include "common/base/memory.h"

#define GAP              2  /* blanks between columns */
#define TERMINAL_COLUMNS 80 /* of a terminal that does not report its size */

/* Escapes when a cell is added, so that its width is that of the printed
 * text. */
static void add_cell(struct columns *t, const char *text)
{
    size_t n = strlen(text);
    char *cell = memory_must(malloc(n * ESCAPE_GROWTH + 1));

    if (t->n_cells == t->capacity) {
        t->capacity = t->capacity == 0 ? 64 : t->capacity * 2;
        t->cells =
            memory_must(realloc(t->cells, t->capacity * sizeof *t->cells));
    }
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
    t->n_keys = 1;
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

struct shape {
    size_t widths[COLUMNS_MAX];
    bool right[COLUMNS_MAX];
};

static struct shape shape_of(const struct columns *t)
{
    struct shape s = {{0}, {false}};

    for (size_t i = 0; i < t->n_cells; i++) {
        size_t width = width_of(t->cells[i]);

        if (width > s.widths[i % t->n_columns]) {
            s.widths[i % t->n_columns] = width;
        }
    }
    for (size_t c = 0; c < t->n_columns; c++) {
        s.right[c] = is_number_column(t, c);
    }
    return s;
}

/* Returns the end of the columns that fit behind the keys from `from` on, one
 * at least. */
static size_t fitting(const struct columns *t, const struct shape *s,
                      size_t from, size_t width)
{
    size_t used = 0, end = from;

    for (size_t c = 0; from >= t->n_keys && c < t->n_keys; c++) {
        used += s->widths[c] + GAP;
    }
    while (end < t->n_columns &&
           (end == from || width == 0 || used + s->widths[end] <= width)) {
        used += s->widths[end++] + GAP;
    }
    return end;
}

/* Prints the key columns and those of [from, to). */
static void print_part(const struct columns *t, const struct shape *s,
                       FILE *file, size_t from, size_t end)
{
    for (size_t row = 0; row < t->n_cells; row += t->n_columns) {
        for (size_t c = 0; c < end; c++) {
            if ((c < t->n_keys && from >= t->n_keys) || c >= from) {
                print_cell(file, t->cells[row + c], s->widths[c], s->right[c],
                           c + 1 == end);
            }
        }
    }
}

void columns_print_within(const struct columns *t, FILE *to, size_t width)
{
    const struct shape s = shape_of(t);
    size_t from = 0, end;

    assert(t->n_cells % t->n_columns == 0);
    do {
        end = fitting(t, &s, from, width);
        if (from > 0) {
            fputc('\n', to);
        }
        print_part(t, &s, to, from, end);
        from = end;
    } while (from < t->n_columns);
}

/* Other programs read a table whole, whatever its width. */
void columns_print(const struct columns *t, FILE *to)
{
    struct winsize w = {0};
    int fd = fileno(to);
    bool terminal = fd >= 0 && isatty(fd) && ioctl(fd, TIOCGWINSZ, &w) == 0;

    columns_print_within(t, to,
                         !terminal       ? 0
                         : w.ws_col == 0 ? TERMINAL_COLUMNS
                                         : w.ws_col);
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
