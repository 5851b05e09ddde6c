#include "text/unicode.h"

#include <utf8proc.h>

int32_t unicode_at(const char *s, size_t n, size_t at, size_t *len)
{
    utf8proc_int32_t c = -1;
    utf8proc_ssize_t got = utf8proc_iterate((const utf8proc_uint8_t *)s + at,
                                            (utf8proc_ssize_t)(n - at), &c);

    *len = got > 0 ? (size_t)got : 1;
    return c;
}

int32_t unicode_before(const char *s, size_t at, size_t *len)
{
    size_t start = at - 1;

    while (start > 0 && at - start < 4 && ((uint8_t)s[start] & 0xC0) == 0x80) {
        start--;
    }
    return unicode_at(s, at, start, len);
}

bool unicode_is_space(int32_t c)
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

bool unicode_is_word(int32_t c)
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
