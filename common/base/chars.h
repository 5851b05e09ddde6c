/* chars.h - Kinds of ASCII characters, whatever the locale.
 *
 * Not strtoul() and isspace(): the first accepts signs, spaces and "0x", and
 * both may ask the locale.  What other servers refuse must not pass here: this
 * difference is what request smuggling needs.
 *
 * Threading: none.  Memory: none. */
#ifndef COMMON_BASE_CHARS_H
#define COMMON_BASE_CHARS_H

#include <stdbool.h>

/* Returns the value of a hexadecimal digit, -1 if c is none. */
static inline int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Returns whether c is a space inside a line; a line may end with CR. */
static inline bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

#endif
