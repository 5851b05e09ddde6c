/* quote.h - Untrusted text, escaped for a message.
 *
 * Names in files are untrusted bytes and never reach a terminal or a log
 * unescaped.
 *
 * Threading: none.  Memory: the caller's. */
#ifndef COMMON_BASE_QUOTE_H
#define COMMON_BASE_QUOTE_H

#include <stddef.h>

#define QUOTE_TEXT 100

struct quoted {
    char text[QUOTE_TEXT]; /* in double quotes, with its NUL */
};

/* Returns s in double quotes.  Escapes quote and backslash with a backslash
 * and writes bytes that are not printable ASCII as \xNN.  A result longer
 * than QUOTE_TEXT - 1 characters is cut and ends in "...".  NULL gives
 * (none). */
struct quoted quote(const char *s);

/* Returns s[0..n) in double quotes, as quote() does; s may hold NULs. */
struct quoted quote_bytes(const char *s, size_t n);

#endif
