/* json_bound.h - how much memory may a JSON text take?
 *
 * A parser makes a tree of some 30 to 250 bytes a value, so a file of 64 MiB
 * from a stranger may cost 5 GB and, if it nests, the stack.  One pass without
 * allocation bounds both before a parser sees a byte.  It need not know
 * whether the text is JSON: every value but the first of its array or object
 * follows a comma, and every first one a bracket.
 *
 * Threading, memory: none. */
#ifndef COMMON_BASE_JSON_BOUND_H
#define COMMON_BASE_JSON_BOUND_H

#include <stddef.h>

#include "common/base/status.h"

struct json_bounds {
    size_t depth;  /* arrays and objects inside each other */
    size_t values; /* of every kind, those two included */
    size_t lists;  /* arrays and objects: what costs most */
};

/* code, with the bound that was passed and at which byte. */
MUST_CHECK enum status json_bound(const char *text, size_t len,
                                  const struct json_bounds *most,
                                  enum status code, struct error *e);

#endif
