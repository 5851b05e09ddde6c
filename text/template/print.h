/* print.h - Values as text: str(), JSON, letters in another case, formats.
 *
 * Threading: one thread's.  Memory: the heap's. */
#ifndef TEXT_TEMPLATE_PRINT_H
#define TEXT_TEMPLATE_PRINT_H

#include "text/template/builtin.h"

/* Returns str(v), with marks. */
struct str print_str(struct heap *h, struct value v);
void print_value(struct builder *b, struct value v);

/* How tojson writes. */
struct json_style {
    int64_t indent;       /* -1: on one line */
    struct str item, key; /* separators */
    bool ascii, sort;
};

void print_json(struct builder *b, struct value v,
                const struct json_style *style);

/* Returns str(f). */
void print_float(struct builder *b, double f, bool untrusted);

/* Return the string in another case, character by character. */
struct str case_lower(struct heap *h, struct str s);
struct str case_upper(struct heap *h, struct str s);
struct str case_capitalize(struct heap *h, struct str s);

/* Returns Python's str.title(), or Jinja2's filter title. */
struct str case_title(struct heap *h, struct str s, bool filter);

/* Returns format % args and format.format(args). */
struct value format_percent(struct heap *h, struct str format,
                            const struct value *items, size_t n);
struct value format_braces(struct heap *h, struct str format,
                           const struct args *a);

#endif
