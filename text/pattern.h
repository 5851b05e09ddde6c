/* pattern.h - a split expression as Oniguruma reads it, written for PCRE2.
 *
 * Tokenizer files are written for Oniguruma.  What both read alike passes as
 * it is; what PCRE2 reads otherwise is rewritten:
 *     \s \S          White_Space; PCRE2's own has U+180E in it
 *     \w \W          letters, marks, decimal digits, connector punctuation
 *     \uHHHH         \x{HHHH}
 *     \p{Script}     \p{sc:Script}; PCRE2's own is Script_Extensions
 * and what neither is true of is refused by name with its place, never
 * guessed at: class intersections and nested classes, POSIX classes, \b, \h,
 * \v, back-references, named groups, recursion, verbs, (?m), (?s), {,n}, {n}+,
 * {n}?, and (?i) or (?-i) in the middle of a branch that is not its group's
 * last.
 *
 * Threading: no state. */
#ifndef TEXT_PATTERN_H
#define TEXT_PATTERN_H

#include <stddef.h>

#include "common/base/status.h"
#include "text/text_limits.h"

/* Longest rewriting of TEXT_PATTERN_BYTES: \w becomes 28 bytes. */
#define PATTERN_OUT_BYTES (16 * TEXT_PATTERN_BYTES)

/* Rewrite in[0..n), valid UTF-8, into out[PATTERN_OUT_BYTES].
 * ST_OUT_OF_RANGE: n > TEXT_PATTERN_BYTES; ST_UNIMPLEMENTED: not in both
 * dialects alike; ST_INVALID_ARGUMENT: cut off in the middle. */
MUST_CHECK enum status pattern_rewrite(const char *in, size_t n, char *out,
                                       size_t *out_n, struct error *e);

#endif
