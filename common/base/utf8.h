/* utf8.h - Validation of UTF-8.
 *
 * Follows RFC 3629: overlong forms, surrogates and code points past U+10FFFF
 * are invalid.  Categories of characters are in text/unicode.h.
 *
 * Threading: no state.  Memory: all bytes are borrowed. */
#ifndef COMMON_BASE_UTF8_H
#define COMMON_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum utf8_kind {
    UTF8_CHAR, /* a character of the returned length */
    UTF8_BAD,  /* the longest prefix that starts no character: one U+FFFD */
    UTF8_CUT   /* all n bytes are the start of a character */
};

/* Returns the length of the character or bad bytes at the front of s[0..n),
 * 1..4 bytes, and sets *kind.  n > 0.  Invalid bytes are cut into "maximal
 * subparts" (Unicode Standard, section 3.9), as Python's errors='replace' and
 * Rust's from_utf8_lossy do. */
size_t utf8_step(const uint8_t *s, size_t n, enum utf8_kind *kind);

/* Returns the length in bytes of the character at the front of s[0..n), n > 0;
 * 0 if no character is there. */
size_t utf8_length(const uint8_t *s, size_t n);

/* Returns whether s[0..n) is valid UTF-8.  If not, sets *bad to the offset of
 * the first byte that belongs to no character.  bad may be NULL. */
bool utf8_valid(const void *s, size_t n, size_t *bad);

#endif
