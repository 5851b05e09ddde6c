#include "text/json_read.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/json_bound.h"
#include "common/base/json_words.h"
#include "common/base/quote.h"
#include "text/text_limits.h"

static enum status read_with(json_t **out, const char *text, size_t n,
                             size_t flags, struct error *e)
{
    static const struct json_bounds most = {TEXT_JSON_DEPTH, TEXT_JSON_VALUES,
                                            TEXT_JSON_LISTS};
    json_error_t at;
    /* Before the parser, so that a small file cannot cost much memory. */
    enum status st = json_bound(text, n, &most, ST_OUT_OF_RANGE, e);

    *out = NULL;
    if (st != ST_OK) {
        return st;
    }
    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES | flags, &at);
    if (*out == NULL) {
        return error_set(e, ST_INVALID_ARGUMENT, "line %d column %d: %s",
                         at.line, at.column,
                         quote_bytes(at.text, strlen(at.text)).text);
    }
    return ST_OK;
}

enum status json_read(json_t **out, const char *text, size_t n, struct error *e)
{
    return read_with(out, text, n, 0, e);
}

/* Reads a file that Python wrote. */
static enum status read_python(json_t **out, const char *text, size_t n,
                               size_t flags, struct error *e)
{
    char *copy;
    size_t length;
    enum status st = json_words(&copy, &length, text, n, e);

    *out = NULL;
    if (st == ST_OK) {
        st = read_with(out, copy != NULL ? copy : text, length, flags, e);
    }
    free(copy);
    return st;
}

enum status json_read_config(json_t **out, const char *text, size_t n,
                             struct error *e)
{
    return read_python(out, text, n, 0, e);
}

enum status json_read_no_integers(json_t **out, const char *text, size_t n,
                                  struct error *e)
{
    return read_python(out, text, n, JSON_DECODE_INT_AS_REAL, e);
}

static const char *kind_name(json_type type)
{
    switch (type) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a fraction";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    case JSON_NULL:
        return "null";
    }
    return "nothing";
}

const char *json_read_kind(const json_t *v)
{
    return v == NULL ? "nothing" : kind_name(json_typeof(v));
}

enum status json_read_opt(const json_t *obj, const char *key, json_type type,
                          const json_t **out, struct error *e)
{
    const json_t *v;

    *out = NULL;
    if (!json_is_object(obj)) {
        return error_set(e, ST_INVALID_ARGUMENT, "expected an object, found %s",
                         json_read_kind(obj));
    }
    v = json_object_get(obj, key);
    if (v == NULL || json_is_null(v)) {
        return ST_OK;
    }
    if (json_typeof(v) != type) {
        return error_set(e, ST_INVALID_ARGUMENT, "%s: expected %s, found %s",
                         key, kind_name(type), json_read_kind(v));
    }
    *out = v;
    return ST_OK;
}

enum status json_read_field(const json_t *obj, const char *key, json_type type,
                            const json_t **out, struct error *e)
{
    enum status st = json_read_opt(obj, key, type, out, e);

    if (st == ST_OK && *out == NULL) {
        return error_set(e, ST_INVALID_ARGUMENT, "%s: missing", key);
    }
    return st;
}

enum status json_read_bool(const json_t *obj, const char *key, bool *out,
                           struct error *e)
{
    const json_t *v = json_object_get(obj, key);

    if (v == NULL || json_is_null(v)) {
        return ST_OK;
    }
    if (!json_is_boolean(v)) {
        return error_set(e, ST_INVALID_ARGUMENT, "%s: expected %s, found %s",
                         key, kind_name(JSON_TRUE), json_read_kind(v));
    }
    *out = json_is_true(v);
    return ST_OK;
}

struct parts {
    const char *list;
    json_part_fn *part;
    void *arg;
};

static enum status read_part(const struct parts *p, const json_t *v, int depth,
                             struct error *e);

static enum status read_list(const struct parts *p, const json_t *v, int depth,
                             struct error *e)
{
    const json_t *list;
    enum status st;

    /* Bounds the recursion. */
    if (depth == TEXT_NESTING) {
        return error_set(e, ST_OUT_OF_RANGE,
                         "more than %d sequences inside each other",
                         TEXT_NESTING);
    }
    st = json_read_field(v, p->list, JSON_ARRAY, &list, e);
    for (size_t i = 0; st == ST_OK && i < json_array_size(list); i++) {
        st = read_part(p, json_array_get(list, i), depth + 1, e);
        if (st != ST_OK) {
            st = error_wrap(e, "%s[%zu]", p->list, i);
        }
    }
    return st;
}

static enum status read_part(const struct parts *p, const json_t *v, int depth,
                             struct error *e)
{
    const json_t *type;
    enum status st = json_read_field(v, "type", JSON_STRING, &type, e);

    if (st != ST_OK) {
        return st;
    }
    if (strcmp(json_string_value(type), "Sequence") == 0) {
        return read_list(p, v, depth, e);
    }
    return p->part(p->arg, v, json_string_value(type), e);
}

enum status json_read_parts(const json_t *v, const char *list,
                            json_part_fn *part, void *arg, struct error *e)
{
    struct parts p = {list, part, arg};

    return read_part(&p, v, 0, e);
}
