/* unicode.h - Characters of valid UTF-8 and their categories, from utf8proc.
 *
 * common/base/utf8.h validates.
 *
 * Threading: no state.  Memory: all bytes are borrowed. */
#ifndef TEXT_UNICODE_H
#define TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the character that starts at s[at], at < n, and sets *len to its
 * bytes.  s[0..n) is valid UTF-8. */
int32_t unicode_at(const char *s, size_t n, size_t at, size_t *len);

/* Returns the character that ends before s[at], at > 0, and sets *len to its
 * bytes.  s[0..at) is valid UTF-8. */
int32_t unicode_before(const char *s, size_t at, size_t *len);

/* Returns whether c is White_Space. */
bool unicode_is_space(int32_t c);

/* Returns whether c matches \w of UTS 18: Alphabetic (by category), Mark,
 * Decimal_Number, Connector_Punctuation or Join_Control. */
bool unicode_is_word(int32_t c);

#endif
