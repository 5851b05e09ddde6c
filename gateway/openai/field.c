#include "gateway/openai/field.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/quote.h"

/* ---- places and errors ---- */

/* Recursion is as deep as the walk, which the readers' code bounds. */
static size_t place(const struct field *f, char *name)
{
    size_t used, room;

    if (f->up == NULL) {
        name[0] = '\0';
        return 0;
    }
    used = place(f->up, name);
    room = OPENAI_PARAM_BYTES - used;
    if (f->key != NULL) {
        snprintf(name + used, room, "%s%s", used > 0 ? "." : "", f->key);
    } else {
        snprintf(name + used, room, "[%zu]", f->index);
    }
    return strlen(name);
}

void field_name(const struct field *f, char *name)
{
    place(f, name);
}

bool field_fail(const struct field *f, const char *fmt, ...)
{
    char name[OPENAI_PARAM_BYTES], text[ERROR_TEXT];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    field_name(f, name);
    /* The body itself has no name. */
    if (name[0] == '\0') {
        openai_error_set(f->e, 400, NULL, NULL, "the body %s", text);
    } else {
        openai_error_set(f->e, 400, name, NULL, "'%s' %s", name, text);
    }
    return false;
}

/* A value in an error text.  Strings come from outside and are quoted; lists
 * may be huge, and only their kind is shown. */
struct shown {
    char text[QUOTE_TEXT];
};

static struct shown show(const json_t *v)
{
    struct shown s = {"absent"};

    switch (v == NULL ? JSON_NULL : json_typeof(v)) {
    case JSON_OBJECT:
        snprintf(s.text, sizeof s.text, "an object");
        break;
    case JSON_ARRAY:
        snprintf(s.text, sizeof s.text, "an array of %zu elements",
                 json_array_size(v));
        break;
    case JSON_STRING: {
        struct quoted q =
            quote_bytes(json_string_value(v), json_string_length(v));

        snprintf(s.text, sizeof s.text, "%s", q.text);
        break;
    }
    case JSON_INTEGER:
        snprintf(s.text, sizeof s.text, "%" PRId64,
                 (int64_t)json_integer_value(v));
        break;
    case JSON_REAL:
        snprintf(s.text, sizeof s.text, "%.17g", json_real_value(v));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        snprintf(s.text, sizeof s.text, "%s",
                 json_is_true(v) ? "true" : "false");
        break;
    case JSON_NULL:
        if (v != NULL) {
            snprintf(s.text, sizeof s.text, "null");
        }
        break;
    }
    return s;
}

bool field_unexpected(const struct field *f, const char *expected)
{
    return field_fail(f, "must be %s, but is %s", expected,
                      show(f->value).text);
}

bool field_refuse(const struct field *f)
{
    return field_fail(f, "is not supported; leave it out");
}

/* ---- steps ---- */

bool field_find(const struct field *up, const char *key, struct field *out)
{
    *out = (struct field){.up = up,
                          .key = key,
                          .value = json_object_get(up->value, key),
                          .e = up->e};
    return out->value != NULL && !json_is_null(out->value);
}

struct field field_element(const struct field *up, size_t i)
{
    return (struct field){.up = up,
                          .index = i,
                          .value = json_array_get(up->value, i),
                          .e = up->e};
}

/* ---- values ---- */

bool field_array(const struct field *f, size_t least, size_t most)
{
    size_t n = json_array_size(f->value);

    if (!json_is_array(f->value)) {
        return field_unexpected(f, "an array");
    }
    if (n < least || n > most) {
        return field_fail(f, "has %zu elements, but %zu to %zu are allowed", n,
                          least, most);
    }
    return true;
}

bool field_object(const struct field *f)
{
    return json_is_object(f->value) || field_unexpected(f, "an object");
}

bool field_string(const struct field *f, const char **text, size_t *n)
{
    if (!json_is_string(f->value)) {
        return field_unexpected(f, "a string");
    }
    *text = json_string_value(f->value);
    *n = json_string_length(f->value);
    return true;
}

bool field_short_string(const struct field *f, size_t most, const char **text)
{
    size_t n;

    if (!field_string(f, text, &n)) {
        return false;
    }
    /* A NUL would end the text early in every later C string. */
    if (n == 0 || n > most || memchr(*text, 0, n) != NULL) {
        return field_fail(f,
                          "must be a string of 1 to %zu bytes without NUL, "
                          "but is %s of %zu",
                          most, show(f->value).text, n);
    }
    return true;
}

bool field_flag(const struct field *f, bool *out)
{
    if (!json_is_boolean(f->value)) {
        return field_unexpected(f, "true or false");
    }
    *out = json_is_true(f->value);
    return true;
}

/* Bodies with an integer beyond 64 bits are parsed with all numbers as
 * fractions (body.h), and JSON schemas take 1.0 for an integer. */
static bool whole(const json_t *v, int64_t *out)
{
    double real = json_real_value(v);

    if (json_is_integer(v)) {
        *out = json_integer_value(v);
        return true;
    }
    if (!json_is_real(v) || real != floor(real) || fabs(real) >= 0x1p63) {
        return false;
    }
    *out = (int64_t)real;
    return true;
}

bool field_integer(const struct field *f, int64_t least, int64_t most,
                   int64_t *out)
{
    if (!whole(f->value, out) || *out < least || *out > most) {
        return field_fail(
            f, "must be an integer from %" PRId64 " to %" PRId64 ", but is %s",
            least, most, show(f->value).text);
    }
    return true;
}

bool field_count(const struct field *f, uint32_t least, uint32_t most,
                 uint32_t *out)
{
    int64_t v;

    if (!field_integer(f, least, most, &v)) {
        return false;
    }
    *out = (uint32_t)v;
    return true;
}

bool field_number(const struct field *f, double least, double most, double *out)
{
    double v = json_number_value(f->value);

    /* The negated form also refuses NaN. */
    if (!json_is_number(f->value) || !(v >= least && v <= most)) {
        return field_fail(f, "must be a number from %g to %g, but is %s", least,
                          most, show(f->value).text);
    }
    *out = v;
    return true;
}

bool field_is(const struct field *f, const char *text)
{
    size_t n = strlen(text);

    /* The length counts: a value may hold a NUL. */
    return json_is_string(f->value) && json_string_length(f->value) == n &&
           memcmp(json_string_value(f->value), text, n) == 0;
}

bool field_neutral(const struct field *f)
{
    const json_t *v = f->value;

    return v == NULL || json_is_null(v) || json_is_false(v) ||
           (json_is_number(v) && json_number_value(v) == 0) ||
           (json_is_string(v) && json_string_length(v) == 0) ||
           (json_is_array(v) && json_array_size(v) == 0) ||
           (json_is_object(v) && json_object_size(v) == 0);
}
