#include "client/load/drive/http_scan.h"

#include <string.h>

#define REPLACEMENT 0xfffdu

void scan_begin(struct scan *s, const char *bytes, size_t n)
{
    *s = (struct scan){.at = bytes, .end = bytes + n};
}

static bool fail(struct scan *s)
{
    s->bad = true;
    s->at = s->end;
    return false;
}

char scan_peek(struct scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' ||
                              *s->at == '\r' || *s->at == '\t')) {
        s->at++;
    }
    return s->at < s->end ? *s->at : '\0';
}

static bool enter(struct scan *s, char bracket)
{
    if (scan_peek(s) != bracket) {
        scan_skip(s);
        return false;
    }
    s->at++;
    s->first = true;
    return true;
}

bool scan_object(struct scan *s)
{
    return enter(s, '{');
}

bool scan_array(struct scan *s)
{
    return enter(s, '[');
}

/* Passes a comma between values, or the closing bracket. */
static bool next(struct scan *s, char close)
{
    char c = scan_peek(s);

    if (c == close) {
        s->at++;
        s->first = false;
        return false;
    }
    if (!s->first) {
        if (c != ',') {
            return fail(s);
        }
        s->at++;
    }
    s->first = false;
    return scan_peek(s) != '\0' || fail(s);
}

/* Reads a string whose quote is at s->at. */
static bool take_string(struct scan *s, struct scan_slice *out)
{
    const char *p = s->at + 1;

    *out = (struct scan_slice){.bytes = p};
    while (p < s->end && *p != '"') {
        if (*p == '\\') {
            out->escaped = true;
            p++;
        }
        p++;
    }
    if (p >= s->end) {
        return fail(s);
    }
    out->n = (size_t)(p - out->bytes);
    s->at = p + 1;
    return true;
}

bool scan_member(struct scan *s, struct scan_slice *key)
{
    if (!next(s, '}')) {
        return false;
    }
    if (*s->at != '"' || !take_string(s, key) || scan_peek(s) != ':') {
        return fail(s);
    }
    s->at++;
    return true;
}

bool scan_element(struct scan *s)
{
    return next(s, ']');
}

bool scan_string(struct scan *s, struct scan_slice *out)
{
    if (scan_peek(s) != '"') {
        scan_skip(s);
        return false;
    }
    return take_string(s, out);
}

bool scan_u64(struct scan *s, uint64_t *out)
{
    uint64_t v = 0;
    char c = scan_peek(s);

    if (c < '0' || c > '9') {
        scan_skip(s);
        return false;
    }
    while (s->at < s->end && *s->at >= '0' && *s->at <= '9') {
        v = v * 10 + (uint64_t)(*s->at++ - '0');
    }
    if (s->at < s->end && strchr(".eE", *s->at) != NULL) {
        scan_skip(s); /* the rest of a number */
    }
    *out = v;
    return true;
}

static void skip_word(struct scan *s)
{
    const char *from = s->at;

    while (s->at < s->end && strchr(",]}: \r\n\t\"[{", *s->at) == NULL) {
        s->at++;
    }
    if (s->at == from) {
        fail(s);
    }
}

/* Skips a bracket with all that it holds. */
static void skip_bracket(struct scan *s)
{
    struct scan_slice ignored;
    unsigned depth = 0;

    do {
        char c = scan_peek(s);

        if (c == '"') {
            take_string(s, &ignored);
        } else if (c == '\0') {
            fail(s);
        } else {
            s->at++;
            depth += c == '{' || c == '[';
            depth -= c == '}' || c == ']';
        }
        if (depth > SCAN_DEPTH_MAX) {
            fail(s);
        }
    } while (depth > 0 && !s->bad);
}

void scan_skip(struct scan *s)
{
    struct scan_slice ignored;

    switch (scan_peek(s)) {
    case '\0':
        fail(s);
        break;
    case '"':
        take_string(s, &ignored);
        break;
    case '{':
    case '[':
        skip_bracket(s);
        break;
    default:
        skip_word(s);
        break;
    }
}

bool scan_is(const struct scan_slice *key, const char *text)
{
    return key->n == strlen(text) && memcmp(key->bytes, text, key->n) == 0;
}

/* ---- escapes ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)(c | 32);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads "uXXXX" at p.  Returns false if it is none. */
static bool unit(const char *p, const char *end, uint32_t *out)
{
    *out = 0;
    if (end - p < 5 || *p != 'u') {
        return false;
    }
    for (int i = 1; i <= 4; i++) {
        int digit = hex_digit(p[i]);

        if (digit < 0) {
            return false;
        }
        *out = *out << 4 | (uint32_t)digit;
    }
    return true;
}

static void put_code(struct http_text *out, uint32_t c)
{
    char b[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

    for (size_t i = n; i-- > 1;) {
        b[i] = (char)(0x80 | (c & 63));
        c >>= 6;
    }
    b[0] = (char)(n == 1 ? c : (0xf00u >> n & 0xf0u) | c);
    http_text_put(out, b, n);
}

/* Appends the \u escape at p, behind the backslash.  Returns its length. */
static size_t put_unit(const char *p, const char *end, struct http_text *out)
{
    uint32_t high, low;

    if (!unit(p, end, &high)) {
        put_code(out, REPLACEMENT);
        return 1;
    }
    if (high < 0xd800 || high > 0xdfff) {
        put_code(out, high);
        return 5;
    }
    if (high < 0xdc00 && end - p > 6 && p[5] == '\\' &&
        unit(p + 6, end, &low) && low >= 0xdc00 && low <= 0xdfff) {
        put_code(out, 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
        return 11;
    }
    put_code(out, REPLACEMENT);
    return 5;
}

static size_t put_escaped(const char *p, const char *end, struct http_text *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *found;

    if (*p == 'u') {
        return put_unit(p, end, out);
    }
    found = *p == '\0' ? NULL : strchr(from, *p);
    if (found == NULL) {
        put_code(out, REPLACEMENT);
    } else {
        http_text_put(out, to + (found - from), 1);
    }
    return 1;
}

void scan_text(const struct scan_slice *string, struct http_text *out)
{
    const char *p = string->bytes, *end = p + string->n;

    while (p < end) {
        const char *slash = memchr(p, '\\', (size_t)(end - p));
        const char *stop = slash == NULL ? end : slash;

        http_text_put(out, p, (size_t)(stop - p));
        p = stop;
        if (slash != NULL) {
            p++; /* a string never ends in a backslash */
            p += put_escaped(p, end, out);
        }
    }
}
