/* template_limits.h - Limits of text/template.
 *
 * Programs print the rows with --limits.  Each row has a test at the limit
 * and one past it (tests/unit/text/template/limits_test.c).  A template past
 * a limit is refused with ST_OUT_OF_RANGE.
 *
 * Threading: no state. */
#ifndef TEXT_TEMPLATE_TEMPLATE_LIMITS_H
#define TEXT_TEMPLATE_TEMPLATE_LIMITS_H

#include <stddef.h>

#include "common/base/limit.h"

/* X(name, value, unit, what it bounds) */
#define TEMPLATE_LIMIT_MAP(X)                                                \
    X(TEMPLATE_SOURCE_BYTES, 1 << 20, "bytes", "the source of a template")   \
    X(TEMPLATE_NODES, 1 << 17, "nodes", "the syntax tree of a template")     \
    X(TEMPLATE_NESTING, 100, "levels", "blocks and brackets in the source")  \
    X(TEMPLATE_DEPTH, 400, "levels", "nested evaluation and nested values")  \
    X(TEMPLATE_STEPS, 10 << 20, "steps", "one rendering")                    \
    X(TEMPLATE_MEMORY, 256 << 20, "bytes", "the memory of one rendering")    \
    X(TEMPLATE_TEXT_BYTES, 16 << 20, "bytes", "one string, and the prompt")  \
    X(TEMPLATE_RANGE, 100000, "numbers", "the result of one range()")        \
    X(TEMPLATE_INDENT, 64, "characters", "indentation of tojson and indent") \
    X(TEMPLATE_TIME_BYTES, 128, "bytes", "a format of strftime_now()")

enum template_limit {
#define X(name, value, unit, what) name = (value),
    TEMPLATE_LIMIT_MAP(X)
#undef X
};

/* Rows of the table, for limits_print(). */
extern const struct limit_row template_limits[];
extern const size_t template_limits_n;

#endif
