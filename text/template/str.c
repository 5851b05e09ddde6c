#include <string.h>

#include "common/base/utf8.h"
#include "text/template/value.h"

#define NOT_UTF8 0xFFFD

/* Doubles the room, so that appending is linear.  Memory of the heap is not
 * freed, which costs as much again. */
static void reserve(struct builder *b, size_t n)
{
    char *text;
    uint8_t *marks;
    size_t cap;

    if (n > TEMPLATE_TEXT_BYTES - b->n) {
        heap_fail(b->h, ST_OUT_OF_RANGE,
                  "a text of the template is longer than %d bytes",
                  TEMPLATE_TEXT_BYTES);
    }
    if (n <= b->cap - b->n) {
        return;
    }
    cap = b->n + n < 32 ? 32 : 2 * (b->n + n);
    text = heap_alloc(b->h, cap);
    marks = heap_alloc(b->h, cap);
    if (b->n > 0) {
        memcpy(text, b->text, b->n);
        memcpy(marks, b->marks, b->n);
    }
    b->text = text;
    b->marks = marks;
    b->cap = cap;
}

void builder_put(struct builder *b, struct str s)
{
    heap_bytes(b->h, s.n);
    if (s.n > 0) {
        reserve(b, s.n);
        memcpy(b->text + b->n, s.text, s.n);
        memcpy(b->marks + b->n, s.marks, s.n);
        b->n += s.n;
    }
}

void builder_put_text(struct builder *b, const char *text, size_t n,
                      bool untrusted)
{
    heap_bytes(b->h, n);
    if (n > 0) {
        reserve(b, n);
        memcpy(b->text + b->n, text, n);
        memset(b->marks + b->n, untrusted, n);
        b->n += n;
    }
}

void builder_put_c(struct builder *b, const char *text, bool untrusted)
{
    builder_put_text(b, text, strlen(text), untrusted);
}

void builder_put_code(struct builder *b, uint32_t code, bool untrusted)
{
    char s[4];
    size_t n;

    if (code < 0x80) {
        s[0] = (char)code;
        n = 1;
    } else if (code < 0x800) {
        s[0] = (char)(0xC0 | code >> 6);
        s[1] = (char)(0x80 | (code & 0x3F));
        n = 2;
    } else if (code < 0x10000) {
        s[0] = (char)(0xE0 | code >> 12);
        s[1] = (char)(0x80 | (code >> 6 & 0x3F));
        s[2] = (char)(0x80 | (code & 0x3F));
        n = 3;
    } else {
        s[0] = (char)(0xF0 | code >> 18);
        s[1] = (char)(0x80 | (code >> 12 & 0x3F));
        s[2] = (char)(0x80 | (code >> 6 & 0x3F));
        s[3] = (char)(0x80 | (code & 0x3F));
        n = 4;
    }
    builder_put_text(b, s, n, untrusted);
}

struct str builder_str(const struct builder *b)
{
    return (struct str){b->n == 0 ? "" : b->text, b->marks, b->n};
}

/* Copies also if the text outlives the heap: a slice of a string must have
 * marks beside its bytes. */
struct str str_copy(struct heap *h, const char *text, size_t n, bool untrusted)
{
    char *copy;
    uint8_t *marks;

    if (n == 0) {
        return (struct str){"", NULL, 0};
    }
    if (n > TEMPLATE_TEXT_BYTES) {
        heap_fail(h, ST_OUT_OF_RANGE,
                  "a text of the template is longer than %d bytes",
                  TEMPLATE_TEXT_BYTES);
    }
    heap_bytes(h, n);
    copy = heap_alloc(h, n);
    marks = heap_alloc(h, n);
    memcpy(copy, text, n);
    memset(marks, untrusted, n);
    return (struct str){copy, marks, n};
}

/* Chains of a + b + c are common and would copy the text once for each +.
 * The result of the last concatenation therefore keeps room behind it; bytes
 * that other strings use are never written again. */
struct str str_concat(struct heap *h, struct str a, struct str b)
{
    struct builder *last = &h->last;

    if (b.n == 0) {
        return a;
    }
    if (a.n == 0) {
        return b;
    }
    if (last->text != a.text || last->n != a.n) {
        *last = (struct builder){.h = h};
        builder_put(last, a);
    }
    builder_put(last, b);
    return builder_str(last);
}

struct str str_part(struct str s, size_t from, size_t to)
{
    if (from >= to) {
        return (struct str){"", NULL, 0};
    }
    return (struct str){s.text + from, s.marks + from, to - from};
}

bool str_equal(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.text, b.text, a.n) == 0);
}

bool str_is(struct str s, const char *text)
{
    return s.n == strlen(text) && memcmp(s.text, text, s.n) == 0;
}

bool str_untrusted(struct str s)
{
    return s.n > 0 && memchr(s.marks, 1, s.n) != NULL;
}

size_t str_find(struct heap *h, struct str s, struct str needle, size_t from)
{
    const char *at;

    if (needle.n == 0) {
        return from;
    }
    at = memmem(s.text + from, s.n - from, needle.text, needle.n);
    /* Counts what was read only, so that a search for all is linear. */
    heap_bytes(h, at == NULL ? s.n - from : (size_t)(at - s.text) - from);
    heap_steps(h, 1);
    return at == NULL ? SIZE_MAX : (size_t)(at - s.text);
}

uint32_t str_code(struct str s, size_t at, size_t *len)
{
    const unsigned char *p = (const unsigned char *)s.text + at;
    enum utf8_kind kind;

    *len = utf8_step(p, s.n - at, &kind);
    if (kind != UTF8_CHAR) {
        return NOT_UTF8;
    }
    switch (*len) {
    case 1:
        return p[0];
    case 2:
        return (uint32_t)(p[0] & 0x1F) << 6 | (p[1] & 0x3F);
    case 3:
        return (uint32_t)(p[0] & 0x0F) << 12 | (uint32_t)(p[1] & 0x3F) << 6 |
               (p[2] & 0x3F);
    default:
        return (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3F) << 12 |
               (uint32_t)(p[2] & 0x3F) << 6 | (p[3] & 0x3F);
    }
}

uint32_t str_code_before(struct str s, size_t end, size_t *len)
{
    size_t at = end - 1;

    while (at > 0 && end - at < 4 &&
           ((unsigned char)s.text[at] & 0xC0) == 0x80) {
        at--;
    }
    s.n = end;
    uint32_t code = str_code(s, at, len);
    if (*len != end - at) { /* not UTF-8: one byte at a time */
        *len = 1;
        return NOT_UTF8;
    }
    return code;
}

/* Counts the bytes that start a character. */
size_t str_length(struct heap *h, struct str s)
{
    size_t n = 0;

    heap_bytes(h, s.n);
    for (size_t i = 0; i < s.n; i++) {
        n += ((unsigned char)s.text[i] & 0xC0) != 0x80;
    }
    return n;
}

bool code_is_space(uint32_t code)
{
    return (code >= 9 && code <= 13) || (code >= 0x1C && code <= 0x20) ||
           code == 0x85 || code == 0xA0 || code == 0x1680 ||
           (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
           code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

/* Compares characters, not bytes: a set may hold any of Unicode. */
static bool in_set(const struct str *set, uint32_t code)
{
    size_t len;

    if (set == NULL) {
        return code_is_space(code);
    }
    for (size_t i = 0; i < set->n; i += len) {
        if (str_code(*set, i, &len) == code) {
            return true;
        }
    }
    return false;
}

struct str str_strip(struct heap *h, struct str s, const struct str *set,
                     bool left, bool right)
{
    size_t from = 0, to = s.n, len;
    size_t cost = set == NULL ? 1 : 1 + set->n / HEAP_STEP_BYTES;

    while (left && from < to && in_set(set, str_code(s, from, &len))) {
        from += len;
        heap_steps(h, cost);
    }
    while (right && from < to && in_set(set, str_code_before(s, to, &len))) {
        to -= len;
        heap_steps(h, cost);
    }
    return str_part(s, from, to);
}

struct str str_replace(struct heap *h, struct str s, struct str old,
                       struct str to, int64_t count)
{
    struct builder b = {.h = h};
    size_t plain = 0, at = 0, len;

    for (; count != 0 && at <= s.n; count--) {
        at = str_find(h, s, old, at);
        if (at == SIZE_MAX) {
            break;
        }
        builder_put(&b, str_part(s, plain, at));
        builder_put(&b, to);
        plain = at += old.n;
        if (old.n == 0) { /* between all characters */
            len = 1;
            if (at < s.n) {
                (void)str_code(s, at, &len);
            }
            at += len;
        }
    }
    builder_put(&b, str_part(s, plain, s.n));
    return builder_str(&b);
}
