#include <stdio.h>
#include <string.h>

#include "text/template/print.h"

/* ---- "..." % values ---- */

static void put_integer(struct builder *b, struct value v)
{
    if (v.kind == VALUE_FLOAT && v.f > -9e18 && v.f < 9e18) {
        v = (struct value){
            .kind = VALUE_INT, .untrusted = v.untrusted, .i = (int64_t)v.f};
    } else if (v.kind == VALUE_BOOL) {
        v = (struct value){
            .kind = VALUE_INT, .untrusted = v.untrusted, .i = v.b};
    } else if (v.kind != VALUE_INT) {
        heap_fail(b->h, ST_INVALID_ARGUMENT, "%%d needs a number, found %s",
                  value_kind_name(v));
    }
    print_value(b, v);
}

/* %s, %d, %i, %% and %.Nf; others are refused. */
static size_t conversion(struct builder *b, struct str f, size_t at,
                         struct value v)
{
    char text[400];

    if (f.text[at] == 's') {
        print_value(b, v);
        return at + 1;
    }
    if (f.text[at] == 'd' || f.text[at] == 'i') {
        put_integer(b, v);
        return at + 1;
    }
    if (at + 2 < f.n && f.text[at] == '.' && f.text[at + 1] >= '0' &&
        f.text[at + 1] <= '9' && f.text[at + 2] == 'f' && value_is_number(v)) {
        snprintf(text, sizeof text, "%.*f", f.text[at + 1] - '0',
                 value_double(v));
        builder_put_c(b, text, v.untrusted);
        return at + 3;
    }
    heap_fail(b->h, ST_UNIMPLEMENTED,
              "a conversion other than %%s, %%d and %%.Nf is not supported");
}

struct value format_percent(struct heap *h, struct str f,
                            const struct value *items, size_t n)
{
    struct builder b = {.h = h};
    size_t at = 0, used = 0;

    while (at < f.n) {
        size_t next = str_find(h, f, (struct str){"%", NULL, 1}, at);

        next = next == SIZE_MAX ? f.n : next;
        builder_put(&b, str_part(f, at, next));
        at = next + 1;
        if (at < f.n && f.text[at] == '%') {
            builder_put(&b, str_part(f, at, at + 1));
            at++;
        } else if (next < f.n) {
            if (at == f.n || used == n) {
                heap_fail(h, ST_INVALID_ARGUMENT,
                          "a format has more conversions than values");
            }
            at = conversion(&b, f, at, items[used++]);
        }
    }
    if (used < n) {
        heap_fail(h, ST_INVALID_ARGUMENT,
                  "a format has fewer conversions than values");
    }
    return value_str(builder_str(&b));
}

/* ---- "...".format(values) ---- */

/* Access to attributes is refused: format strings may be a client's. */
static struct value field(struct heap *h, struct str name, const struct args *a,
                          size_t *next)
{
    size_t index = 0;

    for (size_t i = 0; i < a->n_named && name.n > 0; i++) {
        if (str_equal(a->named[i].name, name)) {
            return a->named[i].value;
        }
    }
    if (name.n == 0) {
        index = (*next)++;
    }
    for (size_t i = 0; i < name.n; i++) {
        if (name.text[i] < '0' || name.text[i] > '9' || i > 8) {
            heap_fail(h, ST_UNIMPLEMENTED,
                      "the field \"%.*s\" of format() is no argument; "
                      "attributes and conversions are not supported",
                      (int)(name.n < 64 ? name.n : 64), name.text);
        }
        index = 10 * index + (size_t)(name.text[i] - '0');
    }
    if (index >= a->n) {
        heap_fail(h, ST_INVALID_ARGUMENT, "format() has no argument %zu",
                  index);
    }
    return a->items[index];
}

struct value format_braces(struct heap *h, struct str f, const struct args *a)
{
    struct builder b = {.h = h};
    size_t next = 0, plain = 0;

    for (size_t i = 0; i < f.n; i++) {
        char c = f.text[i];
        size_t end;

        if (c != '{' && c != '}') {
            continue;
        }
        if (i + 1 < f.n && f.text[i + 1] == c) { /* doubled: itself */
            builder_put(&b, str_part(f, plain, ++i));
            plain = i + 1;
            continue;
        }
        end = str_find(h, f, (struct str){"}", NULL, 1}, i);
        if (c == '}' || end == SIZE_MAX) {
            heap_fail(h, ST_INVALID_ARGUMENT,
                      "format() has a single \"%c\"; write it twice", c);
        }
        builder_put(&b, str_part(f, plain, i));
        print_value(&b, field(h, str_part(f, i + 1, end), a, &next));
        i = end;
        plain = end + 1;
    }
    builder_put(&b, str_part(f, plain, f.n));
    return value_str(builder_str(&b));
}
