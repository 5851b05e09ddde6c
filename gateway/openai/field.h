/* field.h - One value of a request's body, and its place.
 *
 * A reader walks down from the body.  Each step is a field on its stack, which
 * points to the one above, so a place costs nothing until an error names it:
 *
 *     body --> "messages" --> [1] --> "content"      "messages[1].content"
 *
 * Readers return false and set the error of the walk, a 400 that names the
 * field, the value, the limit.
 *
 * Threading: none.  Memory: values are borrowed from the body. */
#ifndef GATEWAY_OPENAI_FIELD_H
#define GATEWAY_OPENAI_FIELD_H

#include <stdbool.h>

#include <jansson.h>

#include "gateway/openai/error.h"

struct field {
    const struct field *up; /* NULL: the body itself */
    const char *key;        /* NULL: an element of an array */
    size_t index;           /* place of an element */
    const json_t *value;    /* NULL: absent */
    struct openai_error *e;
};

/* Writes the place of f to name[OPENAI_PARAM_BYTES]; a longer one is cut. */
void field_name(const struct field *f, char *name);

/* Sets the error: the place of f in quotes, and a message.  Returns false. */
bool field_fail(const struct field *f, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Sets the error "expected X, but found Y".  Returns false. */
bool field_unexpected(const struct field *f, const char *expected);

/* Sets the error that a value is not supported.  Returns false. */
bool field_refuse(const struct field *f);

/* Sets *out to a member of up, an object.  Returns false, with the place of
 * the member in *out, if it is absent or null; sets no error. */
bool field_find(const struct field *up, const char *key, struct field *out);

/* Returns element i of up, an array. */
struct field field_element(const struct field *up, size_t i);

/* Checks the type: an array, an object. */
MUST_CHECK bool field_array(const struct field *f, size_t least, size_t most);
MUST_CHECK bool field_object(const struct field *f);

/* Read a value.  A string is valid UTF-8, and field_short_string() also refuses
 * one that is empty, longer than most bytes, or holds a NUL.  A fraction
 * without a remainder is an integer. */
MUST_CHECK bool field_string(const struct field *f, const char **text,
                             size_t *n);
MUST_CHECK bool field_short_string(const struct field *f, size_t most,
                                   const char **text);
MUST_CHECK bool field_flag(const struct field *f, bool *out);
MUST_CHECK bool field_integer(const struct field *f, int64_t least,
                              int64_t most, int64_t *out);
MUST_CHECK bool field_count(const struct field *f, uint32_t least,
                            uint32_t most, uint32_t *out);
MUST_CHECK bool field_number(const struct field *f, double least, double most,
                             double *out);

/* Returns whether the value is the string text. */
bool field_is(const struct field *f, const char *text);

/* Returns whether the value sets nothing: null, false, 0, or empty. */
bool field_neutral(const struct field *f);

#endif
