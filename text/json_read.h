/* json_read.h - Fields of a JSON object, checked for presence and type.
 *
 * Errors are ST_INVALID_ARGUMENT with the field's name in front; callers add
 * their place with error_wrap().  Below the public entries of this folder
 * (tokenizer, assets) e is never NULL, so that a code is never lost.
 *
 * Threading: no state.  Memory: results are borrowed from obj. */
#ifndef TEXT_JSON_READ_H
#define TEXT_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "common/base/status.h"

/* Parses text[0..n) as one JSON value without repeated keys.  *out is the
 * caller's, to json_decref().  Returns ST_OUT_OF_RANGE past TEXT_JSON_*: a
 * tree within them takes about 700 MB at most. */
MUST_CHECK enum status json_read(json_t **out, const char *text, size_t n,
                                 struct error *e);

/* Parses a configuration as Python writes it: also with Infinity, -Infinity and
 * NaN, which become strings (common/base/json_words.h). */
MUST_CHECK enum status json_read_config(json_t **out, const char *text,
                                        size_t n, struct error *e);

/* Parses a configuration whose numbers do not matter: all become fractions, so
 * no integer is too big for 64 bits. */
MUST_CHECK enum status json_read_no_integers(json_t **out, const char *text,
                                             size_t n, struct error *e);

/* Returns the kind of v in words: "an object", "a string", ... */
const char *json_read_kind(const json_t *v);

/* Gets obj[key] as an array or object; NULL if it is null or absent. */
MUST_CHECK enum status json_read_opt(const json_t *obj, const char *key,
                                     json_type type, const json_t **out,
                                     struct error *e);

/* Gets obj[key] as an array or object, which must be present. */
MUST_CHECK enum status json_read_field(const json_t *obj, const char *key,
                                       json_type type, const json_t **out,
                                       struct error *e);

/* Gets obj[key] as a bool; *out keeps its value if it is null or absent. */
MUST_CHECK enum status json_read_bool(const json_t *obj, const char *key,
                                      bool *out, struct error *e);

/* Takes one component of a pipeline: v, an object, and the name of its type. */
typedef enum status json_part_fn(void *arg, const json_t *v, const char *type,
                                 struct error *e);

/* Calls part for v or, if its type is "Sequence", for all of v[list], in
 * order and at any depth.  Returns ST_OUT_OF_RANGE if more than TEXT_NESTING
 * sequences are nested. */
MUST_CHECK enum status json_read_parts(const json_t *v, const char *list,
                                       json_part_fn *part, void *arg,
                                       struct error *e);

#endif
