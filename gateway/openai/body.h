/* body.h - A request's body as a JSON tree of bounded size.
 *
 * Threading: none.  Memory: the tree is the caller's, to json_decref().
 * Limits: OPENAI_DEPTH_MAX, OPENAI_VALUES_MAX, OPENAI_LISTS_MAX,
 * OPENAI_MEMBERS_MAX. */
#ifndef GATEWAY_OPENAI_BODY_H
#define GATEWAY_OPENAI_BODY_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "common/base/status.h"
#include "gateway/openai/error.h"

/* Parses text[0..n) as one JSON value.  Repeated keys and keys that hold a NUL
 * are refused; NUL in other strings is legal.  If an integer exceeds 64 bits,
 * all numbers become fractions, so that a check of its field can name it.
 * Returns false and *e: 413 past a bound, otherwise 400 with line and column.
 */
MUST_CHECK bool body_parse(const char *text, size_t n, json_t **out,
                           struct openai_error *e);

#endif
