/* json_read.h - fields of a JSON object, each refused by name if it is
 * missing or of the wrong type.
 *
 * Errors are ST_INVALID_ARGUMENT with the field's name in front; callers add
 * their place with error_wrap().  In this folder e is never NULL below the
 * public entries (tokenizer, assets), so that a code is never lost.
 *
 * Threading: no state.  Memory: what is returned is borrowed from obj. */
#ifndef TEXT_JSON_READ_H
#define TEXT_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "common/base/status.h"

/* Parse text[0..n) as one JSON value without repeated keys.  *out is the
 * caller's, to json_decref().  ST_OUT_OF_RANGE past TEXT_JSON_*: a tree within
 * them takes some 700 MB at worst. */
MUST_CHECK enum status json_read(json_t **out, const char *text, size_t n,
                                 struct error *e);

/* The same for a file whose numbers do not matter: all are fractions, so that
 * none is an integer too big for 64 bits. */
MUST_CHECK enum status json_read_no_integers(json_t **out, const char *text,
                                             size_t n, struct error *e);

/* "an object", "a string", ... */
const char *json_read_kind(const json_t *v);

/* obj[key] as an array or object; NULL if it is null or not there. */
MUST_CHECK enum status json_read_opt(const json_t *obj, const char *key,
                                     json_type type, const json_t **out,
                                     struct error *e);

/* The same, but it must be there. */
MUST_CHECK enum status json_read_field(const json_t *obj, const char *key,
                                       json_type type, const json_t **out,
                                       struct error *e);

/* obj[key] as a bool; *out keeps its value if it is null or not there. */
MUST_CHECK enum status json_read_bool(const json_t *obj, const char *key,
                                      bool *out, struct error *e);

/* One component of a pipeline: v, an object, and the name of its type. */
typedef enum status json_part_fn(void *arg, const json_t *v, const char *type,
                                 struct error *e);

/* Hand v to part, or if its type is "Sequence" all of v[list], in order and
 * however deep.  ST_OUT_OF_RANGE: more than TEXT_NESTING inside each other. */
MUST_CHECK enum status json_read_parts(const json_t *v, const char *list,
                                       json_part_fn *part, void *arg,
                                       struct error *e);

#endif
