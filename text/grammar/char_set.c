/* char_set.c - Ranges of characters to sequences of byte ranges. */
#include "text/grammar/char_set.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/minmax.h"

void char_set_fini(struct char_set *s, struct expr_pool *p)
{
    p->budget.bytes -= s->cap * sizeof *s->ranges;
    free(s->ranges);
    memset(s, 0, sizeof *s);
}

void char_set_add(struct char_set *s, struct expr_pool *p, uint32_t lo,
                  uint32_t hi)
{
    if (lo <= hi && arena_grow(&p->budget, &s->ranges, &s->cap,
                               (uint64_t)s->n + 1, sizeof *s->ranges)) {
        s->ranges[s->n++] = (struct char_range){lo, hi};
    }
}

void char_set_add_all(struct char_set *s, struct expr_pool *p,
                      const struct char_set *from)
{
    for (uint32_t i = 0; i < from->n; i++) {
        char_set_add(s, p, from->ranges[i].lo, from->ranges[i].hi);
    }
}

static int by_lo(const void *a, const void *b)
{
    const struct char_range *x = a, *y = b;

    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* The gaps between sorted ranges, and the rest up to the last character. */
static void complement(struct char_set *s, struct expr_pool *p)
{
    struct char_set to = {0};
    uint32_t next = 0;

    for (uint32_t i = 0; i < s->n; i++) {
        if (s->ranges[i].lo > next) {
            char_set_add(&to, p, next, s->ranges[i].lo - 1);
        }
        next = s->ranges[i].hi + 1;
    }
    char_set_add(&to, p, next, CHAR_LAST);
    char_set_fini(s, p);
    *s = to;
}

void char_set_finish(struct char_set *s, struct expr_pool *p, bool invert)
{
    uint32_t n = 0;

    if (s->n > 1) {
        qsort(s->ranges, s->n, sizeof *s->ranges, by_lo);
    }
    for (uint32_t i = 0; i < s->n; i++) {
        struct char_range r = s->ranges[i];

        if (n > 0 && r.lo <= s->ranges[n - 1].hi + 1) {
            s->ranges[n - 1].hi = max_u32(s->ranges[n - 1].hi, r.hi);
        } else {
            s->ranges[n++] = r;
        }
    }
    s->n = n;
    if (invert) {
        complement(s, p);
    }
}

/* ---- UTF-8 ---- */

static int encode(uint32_t c, uint8_t out[4])
{
    if (c < 0x80) {
        out[0] = (uint8_t)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (uint8_t)(0xC0 | c >> 6);
        out[1] = (uint8_t)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (uint8_t)(0xE0 | c >> 12);
        out[1] = (uint8_t)(0x80 | (c >> 6 & 63));
        out[2] = (uint8_t)(0x80 | (c & 63));
        return 3;
    }
    out[0] = (uint8_t)(0xF0 | c >> 18);
    out[1] = (uint8_t)(0x80 | (c >> 12 & 63));
    out[2] = (uint8_t)(0x80 | (c >> 6 & 63));
    out[3] = (uint8_t)(0x80 | (c & 63));
    return 4;
}

static uint32_t byte_ranges(struct expr_pool *p, uint32_t lo, uint32_t hi)
{
    uint8_t from[4], to[4];
    int n = encode(lo, from);
    uint32_t e = EXPR_EPS;

    encode(hi, to);
    while (n-- > 0) {
        e = expr_cat(p, expr_range(p, from[n], to[n]), e);
    }
    return e;
}

/* Splits a range until each part is a product of byte ranges, as in RE2. */
static uint32_t utf8_range(struct expr_pool *p, uint32_t lo, uint32_t hi)
{
    static const uint32_t last[] = {0x7F, 0x7FF, 0xFFFF};

    for (int i = 0; i < 3; i++) {
        if (lo <= last[i] && hi > last[i]) {
            return expr_or(p, utf8_range(p, lo, last[i]),
                           utf8_range(p, last[i] + 1, hi));
        }
    }
    for (int i = 1; hi >= 0x80 && i < 4; i++) {
        uint32_t m = ((uint32_t)1 << 6 * i) - 1;

        if ((lo & ~m) == (hi & ~m)) {
            continue;
        }
        if ((lo & m) != 0) {
            return expr_or(p, utf8_range(p, lo, lo | m),
                           utf8_range(p, (lo | m) + 1, hi));
        }
        if ((hi & m) != m) {
            return expr_or(p, utf8_range(p, lo, (hi & ~m) - 1),
                           utf8_range(p, hi & ~m, hi));
        }
    }
    return byte_ranges(p, lo, hi);
}

static uint32_t utf8_without_surrogates(struct expr_pool *p, uint32_t lo,
                                        uint32_t hi)
{
    uint32_t e = EXPR_NONE;

    if (lo < 0xD800) {
        e = utf8_range(p, lo, min_u32(hi, 0xD7FF));
    }
    if (hi > 0xDFFF) {
        e = expr_or(p, e, utf8_range(p, max_u32(lo, 0xE000), hi));
    }
    return e;
}

/* ---- JSON ---- */

/* Returns the escape of a character that cannot stand for itself, or NULL. */
static const char *escape_of(uint32_t c, char room[8])
{
    static const char hex[] = "0123456789abcdef";
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *at = c != 0 && c < 0x80 ? strchr(from, (int)c) : NULL;

    if (at != NULL) {
        room[0] = '\\';
        room[1] = to[at - from];
        room[2] = '\0';
        return room;
    }
    if (c >= 0x20) {
        return NULL;
    }
    memcpy(room, "\\u00", 4);
    room[4] = hex[c >> 4];
    room[5] = hex[c & 15];
    room[6] = '\0';
    return room;
}

/* Only characters up to the backslash have escapes. */
static uint32_t json_range(struct expr_pool *p, uint32_t lo, uint32_t hi)
{
    uint32_t e = EXPR_NONE, from = lo;
    char room[8];

    for (uint32_t c = lo; c <= min_u32(hi, 0x5C); c++) {
        const char *s = escape_of(c, room);

        if (s != NULL) {
            e = expr_or(p, e, expr_text(p, s, strlen(s)));
            if (c > from) {
                e = expr_or(p, e, utf8_without_surrogates(p, from, c - 1));
            }
            from = c + 1;
        }
    }
    return from > hi ? e : expr_or(p, e, utf8_without_surrogates(p, from, hi));
}

uint32_t char_set_expr(struct expr_pool *p, const struct char_set *s, bool json)
{
    uint32_t e = EXPR_NONE;

    for (uint32_t i = 0; i < s->n; i++) {
        struct char_range r = s->ranges[i];

        e = expr_or(p, e,
                    json ? json_range(p, r.lo, r.hi)
                         : utf8_without_surrogates(p, r.lo, r.hi));
    }
    return e == EXPR_NONE ? e : expr_mark_char(p, e);
}

uint32_t char_json_text(struct expr_pool *p, const char *s, size_t n)
{
    uint32_t e = EXPR_EPS;

    while (n-- > 0) {
        char room[8];
        const char *escaped = escape_of((uint8_t)s[n], room);

        e = expr_cat(p,
                     escaped != NULL ? expr_text(p, escaped, strlen(escaped))
                                     : expr_byte(p, (uint8_t)s[n]),
                     e);
    }
    return e;
}

/* ---- constants ---- */

static uint32_t hex_digits(struct expr_pool *p)
{
    return expr_or(
        p, expr_range(p, '0', '9'),
        expr_or(p, expr_range(p, 'a', 'f'), expr_range(p, 'A', 'F')));
}

static uint32_t either(struct expr_pool *p, const char *bytes)
{
    struct byte_set s = {{0}};

    for (; *bytes != '\0'; bytes++) {
        byte_set_add(&s, (uint8_t)*bytes);
    }
    return expr_set(p, &s);
}

/* Every escape that JSON allows for a whole character: a high surrogate only
 * with its low one. */
static uint32_t all_escapes(struct expr_pool *p)
{
    uint32_t hex = hex_digits(p), d = either(p, "dD");
    uint32_t hex2 = expr_rep(p, hex, 2, 2), u = expr_text(p, "\\u", 2);
    uint32_t low = expr_cat(p, expr_cat(p, d, either(p, "01234567")), hex2);
    uint32_t high = expr_cat(p, expr_cat(p, d, either(p, "89abAB")), hex2);
    uint32_t tail = expr_cat(p, expr_cat(p, d, either(p, "cdefCDEF")), hex2);
    uint32_t bmp;

    bmp =
        expr_cat(p, either(p, "0123456789abcefABCEF"), expr_cat(p, hex, hex2));
    bmp = expr_or(p, bmp, low);
    return expr_or(
        p, expr_cat(p, expr_byte(p, '\\'), either(p, "\"\\/bfnrt")),
        expr_cat(p, u,
                 expr_or(p, bmp, expr_cat(p, high, expr_cat(p, u, tail)))));
}

void char_constants_init(struct char_constants *c, struct expr_pool *p)
{
    struct char_set all = {0}, plain = {0};
    uint32_t any_chars;

    char_set_add(&all, p, 0, CHAR_LAST);
    c->raw = char_set_expr(p, &all, false);
    c->any = char_set_expr(p, &all, true);
    char_set_add(&plain, p, 0x20, 0x21);
    char_set_add(&plain, p, 0x23, 0x5B);
    char_set_add(&plain, p, 0x5D, CHAR_LAST);
    c->any_full = expr_mark_char(
        p, expr_or(p, char_set_expr(p, &plain, false), all_escapes(p)));
    c->quote = expr_byte(p, '"');
    any_chars = expr_rep(p, c->any, 0, EXPR_INF);
    p->any_chars = any_chars;
    p->exprs[any_chars].flags |= EXPR_ANY_END;
    c->rest_full = expr_cat(p, expr_rep(p, c->any_full, 0, EXPR_INF), c->quote);
    c->rest = expr_cat(p, any_chars, c->quote);
    char_set_fini(&all, p);
    char_set_fini(&plain, p);
}
