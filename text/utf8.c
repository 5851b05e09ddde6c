#include "text/utf8.h"

#include <stdio.h>
#include <string.h>

#include <utf8proc.h>

struct lead {
    uint8_t len;         /* 0: no character starts so */
    uint8_t first, last; /* range of the second byte */
};

/* Table 3-7 of the Unicode Standard: well-formed byte sequences. */
static struct lead lead_of(uint8_t b)
{
    if (b < 0x80) {
        return (struct lead){1, 0, 0};
    }
    if (b < 0xC2 || b > 0xF4) {
        return (struct lead){0, 0, 0};
    }
    if (b < 0xE0) {
        return (struct lead){2, 0x80, 0xBF};
    }
    if (b < 0xF0) {
        return (struct lead){3, b == 0xE0 ? 0xA0 : 0x80,
                             b == 0xED ? 0x9F : 0xBF};
    }
    return (struct lead){4, b == 0xF0 ? 0x90 : 0x80, b == 0xF4 ? 0x8F : 0xBF};
}

size_t utf8_step(const uint8_t *s, size_t n, enum utf8_kind *kind)
{
    struct lead l = lead_of(s[0]);
    size_t i;

    *kind = UTF8_BAD;
    if (l.len == 0) {
        return 1;
    }
    for (i = 1; i < l.len && i < n; i++) {
        if (s[i] < l.first || s[i] > l.last) {
            return i;
        }
        l.first = 0x80;
        l.last = 0xBF;
    }
    *kind = i == l.len ? UTF8_CHAR : UTF8_CUT;
    return i;
}

bool utf8_valid(const char *s, size_t n, size_t *bad)
{
    const uint8_t *p = (const uint8_t *)s;
    enum utf8_kind kind;

    for (size_t at = 0; at < n;) {
        if (p[at] < 0x80) {
            at++;
            continue;
        }
        size_t len = utf8_step(p + at, n - at, &kind);
        if (kind != UTF8_CHAR) {
            *bad = at;
            return false;
        }
        at += len;
    }
    return true;
}

int32_t utf8_at(const char *s, size_t n, size_t at, size_t *len)
{
    utf8proc_int32_t c = -1;
    utf8proc_ssize_t got = utf8proc_iterate((const utf8proc_uint8_t *)s + at,
                                            (utf8proc_ssize_t)(n - at), &c);

    *len = got > 0 ? (size_t)got : 1;
    return c;
}

int32_t utf8_before(const char *s, size_t at, size_t *len)
{
    size_t start = at - 1;

    while (start > 0 && at - start < 4 && ((uint8_t)s[start] & 0xC0) == 0x80) {
        start--;
    }
    return utf8_at(s, at, start, len);
}

bool utf8_is_space(int32_t c)
{
    if (c < 0x80) {
        return (c >= 9 && c <= 13) || c == ' ';
    }
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return true;
    default:
        return c == 0x85;
    }
}

bool utf8_is_word(int32_t c)
{
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        return c == 0x200C || c == 0x200D;
    }
}
