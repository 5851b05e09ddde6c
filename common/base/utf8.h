/* utf8.h - is this text?
 *
 * Threading: none.  Follows RFC 3629: no overlong form, no surrogate, nothing
 * past U+10FFFF. */
#ifndef COMMON_BASE_UTF8_H
#define COMMON_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the character at p, of n left; 0 if it is not one. */
static inline size_t utf8_length(const uint8_t *p, size_t n)
{
    uint8_t low = 0x80, high = 0xbf;
    size_t length;

    if (p[0] < 0x80) {
        return 1;
    }
    if (p[0] < 0xc2 || p[0] > 0xf4) {
        return 0;
    }
    length = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (length > n) {
        return 0;
    }
    if (p[0] == 0xe0) {
        low = 0xa0;
    } else if (p[0] == 0xed) {
        high = 0x9f;
    } else if (p[0] == 0xf0) {
        low = 0x90;
    } else if (p[0] == 0xf4) {
        high = 0x8f;
    }
    if (p[1] < low || p[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return length;
}

static inline bool utf8_ok(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t length = utf8_length(p + i, n - i);

        if (length == 0) {
            return false;
        }
        i += length;
    }
    return true;
}

#endif
