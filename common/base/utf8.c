#include "common/base/utf8.h"

struct lead {
    uint8_t length;      /* 0: no character starts with this byte */
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
    if (l.length == 0) {
        return 1;
    }
    for (i = 1; i < l.length && i < n; i++) {
        if (s[i] < l.first || s[i] > l.last) {
            return i;
        }
        l.first = 0x80;
        l.last = 0xBF;
    }
    *kind = i == l.length ? UTF8_CHAR : UTF8_CUT;
    return i;
}

size_t utf8_length(const uint8_t *s, size_t n)
{
    enum utf8_kind kind;
    size_t length = utf8_step(s, n, &kind);

    return kind == UTF8_CHAR ? length : 0;
}

bool utf8_valid(const void *s, size_t n, size_t *bad)
{
    const uint8_t *p = s;

    for (size_t at = 0; at < n;) {
        /* Most text is ASCII: such bytes need no table. */
        size_t length = p[at] < 0x80 ? 1 : utf8_length(p + at, n - at);

        if (length == 0) {
            if (bad != NULL) {
                *bad = at;
            }
            return false;
        }
        at += length;
    }
    return true;
}
