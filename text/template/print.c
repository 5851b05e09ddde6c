#include "text/template/print.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#define NUMBER_BYTES 40

/* Python's repr(): the shortest digits that read back as the same number,
 * with an exponent below 1e-4 and from 1e16 on. */
void print_float(struct builder *b, double f, bool untrusted)
{
    char digits[NUMBER_BYTES], text[NUMBER_BYTES];
    int precision = 0, exponent;

    if (isnan(f) || isinf(f)) {
        builder_put_c(b, isnan(f) ? "nan" : f > 0 ? "inf" : "-inf", untrusted);
        return;
    }
    do {
        snprintf(digits, sizeof digits, "%.*e", precision, f);
    } while (strtod(digits, NULL) != f && ++precision < 17);
    exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent < -4 || exponent >= 16) {
        builder_put_c(b, digits, untrusted);
        return;
    }
    snprintf(text, sizeof text, "%.*f",
             precision > exponent ? precision - exponent : 0, f);
    builder_put_c(b, text, untrusted);
    if (precision <= exponent) {
        builder_put_c(b, ".0", untrusted);
    }
}

/* The categories that str.isprintable() refuses. */
static bool printable(uint32_t code)
{
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)code);

    return code == ' ' ||
           (c != UTF8PROC_CATEGORY_CN && c != UTF8PROC_CATEGORY_CC &&
            c != UTF8PROC_CATEGORY_CF && c != UTF8PROC_CATEGORY_CS &&
            c != UTF8PROC_CATEGORY_CO && c != UTF8PROC_CATEGORY_ZS &&
            c != UTF8PROC_CATEGORY_ZL && c != UTF8PROC_CATEGORY_ZP);
}

static void repr_code(struct builder *b, uint32_t code, bool untrusted)
{
    char text[16];

    snprintf(text, sizeof text,
             code < 0x100     ? "\\x%02x"
             : code < 0x10000 ? "\\u%04x"
                              : "\\U%08x",
             code);
    builder_put_c(b, text, untrusted);
}

/* Python prefers single quotes, and takes double ones if only the single one
 * is in the text. */
static void repr_str(struct builder *b, struct str s)
{
    bool single = s.n > 0 && memchr(s.text, '\'', s.n) != NULL;
    bool both = single && memchr(s.text, '"', s.n) != NULL;
    const char *quote = single && !both ? "\"" : "'";
    bool mark = str_untrusted(s);
    size_t len;

    builder_put_c(b, quote, mark);
    for (size_t i = 0; i < s.n; i += len) {
        uint32_t code = str_code(s, i, &len);
        bool untrusted = s.marks[i] != 0;

        if (code == '\n' || code == '\r' || code == '\t') {
            builder_put_c(b,
                          code == '\n'   ? "\\n"
                          : code == '\r' ? "\\r"
                                         : "\\t",
                          untrusted);
        } else if (code == '\\' || code == (uint32_t)*quote) {
            builder_put_c(b, "\\", untrusted);
            builder_put(b, str_part(s, i, i + len));
        } else if (printable(code)) {
            builder_put(b, str_part(s, i, i + len));
        } else {
            repr_code(b, code, untrusted);
        }
        heap_steps(b->h, 1);
    }
    builder_put_c(b, quote, mark);
}

static void repr(struct builder *b, struct value v);

static void repr_list(struct builder *b, const struct list *l, bool untrusted)
{
    bool tuple = l->shape == SHAPE_TUPLE;

    builder_put_c(b, tuple ? "(" : "[", untrusted);
    for (size_t i = 0; i < l->n; i++) {
        if (i > 0) {
            builder_put_c(b, ", ", untrusted);
        }
        repr(b, l->items[i]);
    }
    if (tuple && l->n == 1) {
        builder_put_c(b, ",", untrusted);
    }
    builder_put_c(b, tuple ? ")" : "]", untrusted);
}

static void repr_dict(struct builder *b, const struct dict *d, bool untrusted)
{
    builder_put_c(b, "{", untrusted);
    for (size_t i = 0; i < d->n; i++) {
        if (i > 0) {
            builder_put_c(b, ", ", untrusted);
        }
        repr(b, d->items[i].key);
        builder_put_c(b, ": ", untrusted);
        repr(b, d->items[i].value);
    }
    builder_put_c(b, "}", untrusted);
}

/* Elements of a list show their quotes, while a string on its own does not. */
static void repr(struct builder *b, struct value v)
{
    heap_enter(b->h);
    heap_steps(b->h, 1);
    if (v.kind == VALUE_STRING) {
        repr_str(b, v.s);
    } else if (v.kind == VALUE_UNDEFINED) {
        builder_put_c(b, "Undefined", false);
    } else {
        print_value(b, v);
    }
    heap_leave(b->h);
}

void print_value(struct builder *b, struct value v)
{
    char text[NUMBER_BYTES];

    switch (v.kind) {
    case VALUE_MISSING:
    case VALUE_UNDEFINED:
        return;
    case VALUE_NONE:
        builder_put_c(b, "None", v.untrusted);
        return;
    case VALUE_BOOL:
        builder_put_c(b, v.b ? "True" : "False", v.untrusted);
        return;
    case VALUE_INT:
        snprintf(text, sizeof text, "%lld", (long long)v.i);
        builder_put_c(b, text, v.untrusted);
        return;
    case VALUE_FLOAT:
        print_float(b, v.f, v.untrusted);
        return;
    case VALUE_STRING:
        builder_put(b, v.s);
        return;
    case VALUE_DICT:
        repr_dict(b, v.dict, v.untrusted);
        return;
    case VALUE_LIST:
        if (v.list->shape <= SHAPE_TUPLE) {
            repr_list(b, v.list, v.untrusted);
            return;
        }
        break;
    default:
        break;
    }
    heap_fail(b->h, ST_INVALID_ARGUMENT, "%s cannot be printed",
              value_kind_name(v));
}

struct str print_str(struct heap *h, struct value v)
{
    struct builder b = {.h = h};

    if (v.kind == VALUE_STRING) {
        return v.s;
    }
    print_value(&b, v);
    return builder_str(&b);
}
