/* json_bound.h - Bounds on the memory that a JSON text can cost.
 *
 * A parser needs 30 to 250 bytes for each value of its tree.  An untrusted
 * file of 64 MiB may therefore cost 5 GB, and deep nesting may exhaust the
 * stack.  One pass without allocation bounds both before a parser runs.  The
 * pass does not check that the text is JSON: every value follows a comma, or
 * a bracket if it is the first of its array or object.
 *
 * Threading, memory: none. */
#ifndef COMMON_BASE_JSON_BOUND_H
#define COMMON_BASE_JSON_BOUND_H

#include <stddef.h>

#include "common/base/status.h"

struct json_bounds {
    size_t depth;  /* arrays and objects inside each other */
    size_t values; /* values of every kind, with arrays and objects */
    size_t lists;  /* arrays and objects: the most expensive values */
};

/* Checks text[0..len) against the bounds.  Returns code if a bound is passed;
 * the sentence names the bound and the byte. */
MUST_CHECK enum status json_bound(const char *text, size_t len,
                                  const struct json_bounds *most,
                                  enum status code, struct error *e);

/* Returns the members of all objects of text[0..len), if it is JSON.  A parser
 * needs about 2 us for each of a million keys. */
size_t json_members(const char *text, size_t len);

/* Returns a bound on the memory that jansson takes while it parses
 * text[0..len), and for the tree. */
size_t json_cost(const char *text, size_t len);

#endif
