#include "worker/model/quote.h"

#include <stdio.h>
#include <string.h>

/* The longest tail: one escape, three dots, a quote and a NUL. */
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

struct quoted quote(const char *s)
{
    struct quoted q;
    size_t n = 1;

    if (s == NULL) {
        snprintf(q.text, sizeof q.text, "(none)");
        return q;
    }
    q.text[0] = '"';
    while (*s != '\0' && n < QUOTE_ROOM) {
        n += put(q.text + n, (unsigned char)*s++);
    }
    snprintf(q.text + n, sizeof q.text - n, *s == '\0' ? "\"" : "...\"");
    return q;
}
