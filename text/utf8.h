/* utf8.h - what text/ asks of UTF-8 beyond utf8proc: where a byte string
 * stops being valid, and how much of it one replacement character stands for.
 *
 * Threading: no state.  Memory: all is borrowed. */
#ifndef TEXT_UTF8_H
#define TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum utf8_kind {
    UTF8_CHAR, /* a character of the returned length */
    UTF8_BAD,  /* the longest prefix that can be no character: one U+FFFD */
    UTF8_CUT   /* all n bytes are the beginning of a character */
};

/* Look at the front of s[0..n), n > 0.  Returns a length in 1..4 and its
 * kind.  Bad bytes are cut up as Unicode 3.9 "maximal subparts" has it, which
 * is what Python's errors='replace' and Rust's from_utf8_lossy do. */
size_t utf8_step(const uint8_t *s, size_t n, enum utf8_kind *kind);

/* Is s[0..n) valid UTF-8?  If not, *bad is the offset of the first byte that
 * is part of no character. */
bool utf8_valid(const char *s, size_t n, size_t *bad);

/* The character that starts at s[at] (at < n), and its length.  s is valid. */
int32_t utf8_at(const char *s, size_t n, size_t at, size_t *len);

/* The character that ends at s[at) (at > 0), and its length.  s is valid. */
int32_t utf8_before(const char *s, size_t at, size_t *len);

/* White_Space, and \w of UTS 18: Alphabetic (by category), Mark,
 * Decimal_Number, Connector_Punctuation, Join_Control. */
bool utf8_is_space(int32_t c);
bool utf8_is_word(int32_t c);

#endif
