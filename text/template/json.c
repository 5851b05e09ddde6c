#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/template/print.h"

/* Returns the short escape of a control character, or NULL. */
static const char *short_escape(uint32_t code)
{
    switch (code) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\t':
        return "\\t";
    case '\b':
        return "\\b";
    case '\f':
        return "\\f";
    default:
        return NULL;
    }
}

/* Characters past U+FFFF need two escapes: JSON counts in UTF-16. */
static void put_hex(struct builder *b, uint32_t code, bool untrusted)
{
    char text[16];

    if (code >= 0x10000) {
        code -= 0x10000;
        snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xD800 + (code >> 10),
                 0xDC00 + (code & 0x3FF));
    } else {
        snprintf(text, sizeof text, "\\u%04x", code);
    }
    builder_put_c(b, text, untrusted);
}

/* The quotes and escapes of an untrusted string are untrusted, too.  Plain
 * runs are copied at once, since most strings have nothing to escape. */
static void put_str(struct builder *b, struct str s, bool ascii)
{
    bool mark = str_untrusted(s);
    size_t len, plain = 0;

    builder_put_c(b, "\"", mark);
    for (size_t i = 0; i < s.n; i += len) {
        uint32_t code = str_code(s, i, &len);
        const char *known = short_escape(code);

        if (known == NULL && code >= 0x20 && (!ascii || code < 0x7F)) {
            continue;
        }
        builder_put(b, str_part(s, plain, i));
        heap_steps(b->h, 1);
        if (known != NULL) {
            builder_put_c(b, known, s.marks[i]);
        } else {
            put_hex(b, code, s.marks[i]);
        }
        plain = i + len;
    }
    builder_put(b, str_part(s, plain, s.n));
    builder_put_c(b, "\"", mark);
}

static void put_scalar(struct builder *b, struct value v)
{
    if (v.kind == VALUE_NONE) {
        builder_put_c(b, "null", v.untrusted);
    } else if (v.kind == VALUE_BOOL) {
        builder_put_c(b, v.b ? "true" : "false", v.untrusted);
    } else if (v.kind == VALUE_FLOAT && !isfinite(v.f)) {
        builder_put_c(b,
                      isnan(v.f) ? "NaN"
                      : v.f > 0  ? "Infinity"
                                 : "-Infinity",
                      v.untrusted);
    } else if (v.kind == VALUE_FLOAT || v.kind == VALUE_INT) {
        print_value(b, v);
    } else {
        heap_fail(b->h, ST_INVALID_ARGUMENT, "tojson cannot write %s",
                  value_kind_name(v));
    }
}

static void new_line(struct builder *b, const struct json_style *style,
                     size_t level, bool untrusted)
{
    if (style->indent < 0) {
        return;
    }
    builder_put_c(b, "\n", untrusted);
    for (size_t i = 0; i < level * (size_t)style->indent; i++) {
        builder_put_c(b, " ", untrusted);
    }
}

static void put(struct builder *b, struct value v,
                const struct json_style *style, size_t level);

/* Brackets of a client's list are the client's, so that no token can be made
 * of them. */
static void put_list(struct builder *b, struct value v,
                     const struct json_style *style, size_t level)
{
    builder_put_c(b, "[", v.untrusted);
    for (size_t i = 0; i < v.list->n; i++) {
        if (i > 0) {
            builder_put(b, style->item);
        }
        new_line(b, style, level + 1, v.untrusted);
        put(b, v.list->items[i], style, level + 1);
    }
    if (v.list->n > 0) {
        new_line(b, style, level, v.untrusted);
    }
    builder_put_c(b, "]", v.untrusted);
}

/* Python writes keys that are no strings as strings. */
static void put_key(struct builder *b, struct value key, bool ascii)
{
    struct builder text = {.h = b->h};

    if (key.kind == VALUE_STRING) {
        put_str(b, key.s, ascii);
    } else {
        put_scalar(&text, key);
        put_str(b, builder_str(&text), ascii);
    }
}

static bool key_before(struct heap *h, void *arg, const struct value *b,
                       const struct value *a)
{
    (void)arg;
    return value_compare(h, *b, *a) < 0;
}

static const struct value *sorted_keys(struct heap *h, const struct dict *d)
{
    struct value *keys = heap_alloc(h, (d->n + 1) * sizeof *keys);

    for (size_t i = 0; i < d->n; i++) {
        keys[i] = d->items[i].key;
    }
    value_sort(h, keys, d->n, key_before, NULL);
    return keys;
}

static void put_dict(struct builder *b, struct value v,
                     const struct json_style *style, size_t level)
{
    const struct value *keys = style->sort ? sorted_keys(b->h, v.dict) : NULL;

    builder_put_c(b, "{", v.untrusted);
    for (size_t i = 0; i < v.dict->n; i++) {
        struct value key = keys == NULL ? v.dict->items[i].key : keys[i];

        if (i > 0) {
            builder_put(b, style->item);
        }
        new_line(b, style, level + 1, v.untrusted);
        put_key(b, key, style->ascii);
        builder_put(b, style->key);
        put(b,
            keys == NULL ? v.dict->items[i].value
                         : *dict_get(b->h, v.dict, key),
            style, level + 1);
    }
    if (v.dict->n > 0) {
        new_line(b, style, level, v.untrusted);
    }
    builder_put_c(b, "}", v.untrusted);
}

static void put(struct builder *b, struct value v,
                const struct json_style *style, size_t level)
{
    heap_enter(b->h);
    heap_steps(b->h, 1);
    if (v.kind == VALUE_STRING) {
        put_str(b, v.s, style->ascii);
    } else if (v.kind == VALUE_LIST && v.list->shape <= SHAPE_TUPLE) {
        put_list(b, v, style, level);
    } else if (v.kind == VALUE_DICT) {
        put_dict(b, v, style, level);
    } else {
        put_scalar(b, v);
    }
    heap_leave(b->h);
}

void print_json(struct builder *b, struct value v,
                const struct json_style *style)
{
    put(b, v, style, 0);
}
