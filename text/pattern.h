/* pattern.h - A split expression of Oniguruma, rewritten for PCRE2.
 *
 * Tokenizer files are written for Oniguruma.  Syntax that both read alike is
 * passed through.  Syntax that PCRE2 reads differently is rewritten:
 *
 *     \s \S          White_Space; PCRE2's own includes U+180E
 *     \w \W          letters, marks, decimal digits, connector punctuation
 *     \uHHHH         \x{HHHH}
 *     \p{Script}     \p{sc:Script}; PCRE2's own is Script_Extensions
 *
 * All other syntax is refused by name and place, never guessed at:
 *
 * - class intersections and nested classes, POSIX classes, \b, \h, \v;
 * - back-references, named groups, recursion, verbs;
 * - (?m), (?s), {,n}, {n}+, {n}?;
 * - (?i) or (?-i) in the middle of a branch that is not its group's last.
 *
 * Threading: no state. */
#ifndef TEXT_PATTERN_H
#define TEXT_PATTERN_H

#include <stddef.h>

#include "common/base/status.h"
#include "text/text_limits.h"

/* Bytes of the longest rewriting of TEXT_PATTERN_BYTES: \w becomes 28 bytes. */
#define PATTERN_OUT_BYTES (16 * TEXT_PATTERN_BYTES)

/* Converts in[0..n), valid UTF-8, to out[PATTERN_OUT_BYTES].  Returns
 * ST_OUT_OF_RANGE for n > TEXT_PATTERN_BYTES, ST_UNIMPLEMENTED for syntax on
 * which the dialects differ, ST_INVALID_ARGUMENT for a pattern cut short. */
MUST_CHECK enum status pattern_rewrite(const char *in, size_t n, char *out,
                                       size_t *out_n, struct error *e);

#endif
