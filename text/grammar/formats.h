/* formats.h - The formats of JSON Schema as regular expressions.
 *
 * Threading: constant data. */
#ifndef TEXT_GRAMMAR_FORMATS_H
#define TEXT_GRAMMAR_FORMATS_H

#include <stddef.h>

struct format_row {
    const char *name;
    const char *pattern; /* NULL: refused by name */
};

extern const struct format_row format_rows[];
extern const size_t format_rows_n;

/* Returns the row of a name, or NULL: other names are annotations. */
const struct format_row *format_find(const char *name);

#endif
