#include "common/model/field.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/base/quote.h"

void field_fault(struct fields *f, enum status code, const char *fmt, ...)
{
    char text[ERROR_TEXT];
    va_list ap;

    if (f->status != ST_OK) {
        return;
    }
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    f->status = error_set(f->error, code, "%s", text);
}

const json_t *field_get(const struct fields *f, const char *key)
{
    const json_t *v = json_object_get(f->inner, key);

    if (v == NULL) {
        v = json_object_get(f->outer, key);
    }
    return json_is_null(v) ? NULL : v;
}

bool field_has(const struct fields *f, const char *key)
{
    return json_object_get(f->inner, key) != NULL ||
           json_object_get(f->outer, key) != NULL;
}

/* A null is written by tools that list every key. */
static bool present(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);

    return v != NULL && !json_is_null(v);
}

/* A newer name outside must not hide an older one inside: text_config
 * describes the model that is served. */
const char *field_named(const struct fields *f, const char *key,
                        const char *older)
{
    const json_t *const places[] = {f->inner, f->outer};

    for (int i = 0; i < 2; i++) {
        if (present(places[i], key)) {
            return key;
        }
        if (present(places[i], older)) {
            return older;
        }
    }
    return key;
}

uint32_t field_u32(struct fields *f, const char *key, uint32_t fallback,
                   uint32_t min, uint32_t max)
{
    const json_t *v = field_get(f, key);
    json_int_t n = json_integer_value(v);

    /* A default is not checked: it may be out of range on purpose, such as 0
     * for "none". */
    if (v == NULL && fallback != FIELD_REQUIRED) {
        return fallback;
    }
    if (v == NULL) {
        field_fault(f, ST_INVALID_ARGUMENT, "%s is missing", key);
    } else if (!json_is_integer(v)) {
        field_fault(f, ST_INVALID_ARGUMENT, "%s is not a whole number", key);
    } else if (n < (json_int_t)min || n > (json_int_t)max) {
        field_fault(f, ST_INVALID_ARGUMENT, "%s is %lld, %u to %u are allowed",
                    key, (long long)n, min, max);
    } else {
        return (uint32_t)n;
    }
    return min;
}

bool field_bool(struct fields *f, const char *key, bool fallback)
{
    const json_t *v = field_get(f, key);

    if (v == NULL) {
        return fallback;
    }
    if (!json_is_boolean(v)) {
        field_fault(f, ST_INVALID_ARGUMENT, "%s is not true or false", key);
    }
    return json_is_true(v);
}

double field_real(struct fields *f, const char *key, double fallback,
                  double min, double max)
{
    const json_t *v = field_get(f, key);
    double x = json_number_value(v);

    if (v == NULL) {
        return fallback;
    }
    if (!json_is_number(v)) {
        field_fault(f, ST_INVALID_ARGUMENT, "%s is not a finite number", key);
        return min;
    }
    /* Written so that NaN fails. */
    if (!(x >= min && x <= max)) {
        field_fault(f, ST_INVALID_ARGUMENT, "%s is %g, %g to %g are allowed",
                    key, x, min, max);
        return min;
    }
    return x;
}

const char *field_text(struct fields *f, const char *key)
{
    const json_t *v = field_get(f, key);

    if (v != NULL && !json_is_string(v)) {
        field_fault(f, ST_INVALID_ARGUMENT, "%s is not a string", key);
    }
    return json_string_value(v);
}
