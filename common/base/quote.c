#include "common/base/quote.h"

#include <stdio.h>
#include <string.h>

/* Room for the longest tail: one escape, three dots, a quote and a NUL. */
#define QUOTE_ROOM (QUOTE_TEXT - 9)

static size_t put(char *to, unsigned char c)
{
    if (c == '"' || c == '\\') {
        to[0] = '\\';
        to[1] = (char)c;
        return 2;
    }
    if (c >= 0x20 && c < 0x7f) {
        to[0] = (char)c;
        return 1;
    }
    return (size_t)snprintf(to, 5, "\\x%02x", c);
}

struct quoted quote_bytes(const char *s, size_t n)
{
    struct quoted q;
    size_t used = 1, i = 0;

    q.text[0] = '"';
    while (i < n && used < QUOTE_ROOM) {
        used += put(q.text + used, (unsigned char)s[i++]);
    }
    snprintf(q.text + used, sizeof q.text - used, i == n ? "\"" : "...\"");
    return q;
}

struct quoted quote(const char *s)
{
    struct quoted none = {"(none)"};

    return s != NULL ? quote_bytes(s, strlen(s)) : none;
}
