/* quote.h - what a file or a person said, made fit for a message.
 *
 * Names in files are a stranger's bytes: they never reach a terminal or a log
 * as they are.
 *
 * Threading: none.  Memory: the caller's. */
#ifndef COMMON_BASE_QUOTE_H
#define COMMON_BASE_QUOTE_H

#include <stddef.h>

#define QUOTE_TEXT 100

struct quoted {
    char text[QUOTE_TEXT]; /* in double quotes */
};

/* s in double quotes, at most QUOTE_TEXT - 1 characters of printable ASCII:
 * quote and backslash get a backslash, other bytes become \xNN, and a long s
 * ends in "...".  NULL gives (none). */
struct quoted quote(const char *s);

/* The same of s[0..n), which may hold NULs. */
struct quoted quote_bytes(const char *s, size_t n);

#endif
