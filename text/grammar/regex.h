/* regex.h - Regular expressions of ECMA-262, as text, to expr.h.
 *
 * The syntax is that of the flag u, with the leniences of Annex B for braces
 * and identity escapes.  Groups, classes, \d \w \s, \p{general category},
 * quantifiers, ^ and $ anywhere outside a repetition, and lookahead outside a
 * repetition are read.  Back references, lookbehind and word boundaries are
 * refused by name.
 *
 * Threading: one thread.  Memory: in the pool.  Limits: GRAMMAR_PATTERN_MAX,
 * GRAMMAR_REPEAT_MAX, GRAMMAR_NESTING_MAX. */
#ifndef TEXT_GRAMMAR_REGEX_H
#define TEXT_GRAMMAR_REGEX_H

#include "text/grammar/char_set.h"

enum regex_mode {
    REGEX_WHOLE,  /* the whole text matches; characters in UTF-8 */
    REGEX_SEARCH, /* some part of the text matches; inside a JSON string */
};

/* Sets *out to the expression of s[0..n).  Returns ST_INVALID_ARGUMENT: no
 * regular expression, with the offset; ST_UNIMPLEMENTED: a construct that is
 * not supported, by name; ST_RESOURCE_EXHAUSTED: a limit. */
MUST_CHECK enum status regex_compile(struct expr_pool *p,
                                     const struct char_constants *constants,
                                     const char *s, size_t n,
                                     enum regex_mode mode, uint32_t *out,
                                     struct error *e);

#endif
