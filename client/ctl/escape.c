/* escape.c - Escaping of text from a model or a peer for a terminal. */
#include "client/ctl/escape.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "common/base/memory.h"

/* Marks that change the reading direction are escaped, because they can make
 * one text look like another ("Trojan Source", CVE-2021-42574). */
static bool turns_direction(int32_t c)
{
    return (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) ||
           c == 0x200e || c == 0x200f || c == 0x061c;
}

static bool is_plain(int32_t c, bool keep_lines)
{
    if (c == '\n' || c == '\t') {
        return keep_lines;
    }
    return c >= 0x20 && !(c >= 0x7f && c <= 0x9f) && !turns_direction(c) &&
           c != 0x2028 && c != 0x2029; /* line and paragraph separators */
}

/* Writes the escape of c: \n, \x1b or \u202e.  Characters past U+FFFF are
 * plain, so ESCAPE_GROWTH bytes suffice. */
static size_t escape_char(char *out, int32_t c)
{
    static const char named[] = {['\n'] = 'n', ['\t'] = 't', ['\r'] = 'r'};
    char text[ESCAPE_GROWTH * 2];
    int n;

    if (c < (int32_t)sizeof named && named[c] != 0) {
        n = snprintf(text, sizeof text, "\\%c", named[c]);
    } else if (c < 0x100) {
        n = snprintf(text, sizeof text, "\\x%02x", (unsigned)c);
    } else {
        n = snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
    }
    memcpy(out, text, (size_t)n);
    return (size_t)n;
}

/* Writes the first character of text[0..n) to out, plain or escaped.  Returns
 * the bytes read; *put receives the bytes written.  A byte that is not UTF-8
 * is a step of its own, so the next character is found again. */
static size_t copy_char(const char *text, size_t n, bool keep_lines, char *out,
                        size_t *put)
{
    int32_t c;
    utf8proc_ssize_t used = utf8proc_iterate((const utf8proc_uint8_t *)text,
                                             (utf8proc_ssize_t)n, &c);

    if (used <= 0) {
        *put = escape_char(out, (uint8_t)text[0]);
        return 1;
    }
    if (is_plain(c, keep_lines)) {
        memcpy(out, text, (size_t)used);
        *put = (size_t)used;
    } else {
        *put = escape_char(out, c);
    }
    return (size_t)used;
}

static size_t escape(const char *text, size_t n, bool keep_lines, char *out)
{
    size_t at = 0;

    for (size_t put; n > 0; at += put) {
        size_t used = copy_char(text, n, keep_lines, out + at, &put);

        text += used;
        n -= used;
    }
    return at;
}

size_t escape_text(const char *text, size_t n, char *out)
{
    return escape(text, n, true, out);
}

size_t escape_line(const char *text, size_t n, char *out)
{
    return escape(text, n, false, out);
}

char *escape_copy(const void *text, size_t n)
{
    char *copy = memory_must(malloc(n * ESCAPE_GROWTH + 1));

    copy[escape_line(text, n, copy)] = '\0';
    return copy;
}

void escape_print(FILE *to, const char *text, size_t n, bool keep_lines)
{
    while (n > 0) {
        char out[ESCAPE_GROWTH * 2];
        size_t put;
        size_t used = copy_char(text, n, keep_lines, out, &put);

        fwrite(out, 1, put, to);
        text += used;
        n -= used;
    }
}
