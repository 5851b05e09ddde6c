#include "client/load/drive/http_text.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/utf8.h"

#define FIRST_SIZE 512

void http_text_reserve(struct http_text *t, size_t n)
{
    size_t size = t->size == 0 ? FIRST_SIZE : t->size;

    if (n <= t->size - t->n) {
        return;
    }
    while (size - t->n < n) {
        size *= 2;
    }
    t->bytes = memory_must(realloc(t->bytes, size));
    t->size = size;
}

void http_text_put(struct http_text *t, const void *bytes, size_t n)
{
    if (n > 0) {
        http_text_reserve(t, n);
        memcpy(t->bytes + t->n, bytes, n);
        t->n += n;
    }
}

void http_text_puts(struct http_text *t, const char *text)
{
    http_text_put(t, text, strlen(text));
}

void http_text_number(struct http_text *t, uint64_t v)
{
    char digits[20];
    size_t at = sizeof digits;

    do {
        digits[--at] = (char)('0' + v % 10);
        v /= 10;
    } while (v > 0);
    http_text_put(t, digits + at, sizeof digits - at);
}

static void put_escape(struct http_text *t, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    char escape[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
    char plain[2] = {'\\', (char)c};

    switch (c) {
    case '\n':
        http_text_put(t, "\\n", 2);
        break;
    case '"':
    case '\\':
        http_text_put(t, plain, 2);
        break;
    default:
        http_text_put(t, escape, 6);
        break;
    }
}

/* Returns the length of printable ASCII at the front, without quotes and
 * backslashes. */
static size_t plain_length(const char *text, size_t n)
{
    size_t i = 0;

    while (i < n && text[i] >= ' ' && text[i] != '"' && text[i] != '\\' &&
           text[i] != 127) {
        i++;
    }
    return i;
}

void http_text_string(struct http_text *t, const char *text, size_t n)
{
    enum utf8_kind kind;

    http_text_put(t, "\"", 1);
    while (n > 0) {
        size_t part = plain_length(text, n);

        http_text_put(t, text, part);
        text += part;
        n -= part;
        if (n == 0) {
            break;
        }
        if ((unsigned char)*text < 128) {
            put_escape(t, (unsigned char)*text);
            part = 1;
        } else {
            part = utf8_step((const uint8_t *)text, n, &kind);
            http_text_put(t, kind == UTF8_CHAR ? text : "\xef\xbf\xbd",
                          kind == UTF8_CHAR ? part : 3);
        }
        text += part;
        n -= part;
    }
    http_text_put(t, "\"", 1);
}

void http_text_fini(struct http_text *t)
{
    free(t->bytes);
    *t = (struct http_text){0};
}
