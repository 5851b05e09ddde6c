#include "gateway/chat/json_scan.h"

#include <string.h>

enum state {
    VALUE,       /* before a value */
    FIRST_VALUE, /* before a value, or the end of an empty array */
    FIRST_KEY,   /* before a key, or the end of an empty object */
    KEY,
    COLON,
    AFTER, /* after a value inside an array or object */
    STRING,
    ESCAPE,
    HEX,
    LITERAL,
    MINUS,
    ZERO,
    INTEGER,
    POINT,
    FRACTION,
    EXPONENT,
    SIGN,
    POWER
};

/* A stack of 64 levels is one integer, so a scan is copied and cleared like
 * any other value. */
_Static_assert(OUTPUT_JSON_DEPTH <= 64, "one bit per level");

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static enum json_scan_verdict go(struct json_scan *s, enum state state)
{
    s->state = (uint8_t)state;
    return JSON_SCAN_MORE;
}

static enum json_scan_verdict end_value(struct json_scan *s)
{
    if (s->depth == 0) {
        return JSON_SCAN_DONE;
    }
    return go(s, AFTER);
}

static bool in_object(const struct json_scan *s)
{
    return s->depth > 0 && (s->objects >> (s->depth - 1) & 1) != 0;
}

static enum json_scan_verdict open_list(struct json_scan *s, bool object)
{
    uint64_t bit;

    if (s->depth == OUTPUT_JSON_DEPTH) {
        return JSON_SCAN_BAD;
    }
    bit = (uint64_t)1 << s->depth++;
    s->objects = object ? s->objects | bit : s->objects & ~bit;
    return go(s, object ? FIRST_KEY : FIRST_VALUE);
}

static enum json_scan_verdict close_list(struct json_scan *s)
{
    s->depth--;
    return end_value(s);
}

/* The first byte is in text already: it has chosen the literal. */
static enum json_scan_verdict literal(struct json_scan *s, const char *text)
{
    s->literal = text;
    s->n = 1;
    return go(s, LITERAL);
}

static enum json_scan_verdict string(struct json_scan *s, bool key)
{
    s->key = key;
    return go(s, STRING);
}

static enum json_scan_verdict value(struct json_scan *s, char c)
{
    switch (c) {
    case ' ':
    case '\t':
    case '\n':
    case '\r':
        return JSON_SCAN_MORE;
    case '{':
        return open_list(s, true);
    case '[':
        return open_list(s, false);
    case '"':
        return string(s, false);
    case 't':
        return literal(s, "true");
    case 'f':
        return literal(s, "false");
    case 'n':
        return literal(s, "null");
    case '-':
        return go(s, MINUS);
    case '0':
        return go(s, ZERO);
    default:
        return is_digit(c) ? go(s, INTEGER) : JSON_SCAN_BAD;
    }
}

static enum json_scan_verdict after(struct json_scan *s, char c)
{
    if (is_space(c)) {
        return JSON_SCAN_MORE;
    }
    if (c == ',') {
        return go(s, in_object(s) ? KEY : VALUE);
    }
    return c == (in_object(s) ? '}' : ']') ? close_list(s) : JSON_SCAN_BAD;
}

static enum json_scan_verdict key(struct json_scan *s, char c)
{
    if (is_space(c)) {
        return JSON_SCAN_MORE;
    }
    if (c == '}' && s->state == FIRST_KEY) {
        return close_list(s);
    }
    return c == '"' ? string(s, true) : JSON_SCAN_BAD;
}

/* Control characters are accepted here, against the RFC: see the header. */
static enum json_scan_verdict in_string(struct json_scan *s, char c)
{
    if (c == '\\') {
        return go(s, ESCAPE);
    }
    if (c != '"') {
        return JSON_SCAN_MORE;
    }
    return s->key ? go(s, COLON) : end_value(s);
}

/* Pairs of surrogates are not checked: only a decoder would care. */
static enum json_scan_verdict escape(struct json_scan *s, char c)
{
    if (s->state == ESCAPE && c == 'u') {
        s->n = 0;
        return go(s, HEX);
    }
    if (s->state == ESCAPE) {
        return c != '\0' && strchr("\"\\/bfnrt", c) != NULL ? go(s, STRING)
                                                            : JSON_SCAN_BAD;
    }
    if (!is_hex(c)) {
        return JSON_SCAN_BAD;
    }
    return go(s, ++s->n == 4 ? STRING : HEX);
}

static enum json_scan_verdict in_literal(struct json_scan *s, char c)
{
    if (c != s->literal[s->n]) {
        return JSON_SCAN_BAD;
    }
    return s->literal[++s->n] == '\0' ? end_value(s) : JSON_SCAN_MORE;
}

/* A number ends where the next byte does not continue it; inside a list, that
 * byte is scanned at once. */
static enum json_scan_verdict end_number(struct json_scan *s, char c)
{
    if (s->depth == 0) {
        return JSON_SCAN_ENDED;
    }
    s->state = AFTER;
    return after(s, c);
}

/* The states follow the grammar of RFC 8259, section 6: a leading zero stands
 * alone, and a point and an exponent need digits. */
static enum json_scan_verdict number(struct json_scan *s, char c)
{
    bool e = c == 'e' || c == 'E';

    switch ((enum state)s->state) {
    case MINUS:
        return c == '0'      ? go(s, ZERO)
               : is_digit(c) ? go(s, INTEGER)
                             : JSON_SCAN_BAD;
    case INTEGER:
        if (is_digit(c)) {
            return JSON_SCAN_MORE;
        }
        /* fall through */
    case ZERO:
        return c == '.' ? go(s, POINT) : e ? go(s, EXPONENT) : end_number(s, c);
    case POINT:
        return is_digit(c) ? go(s, FRACTION) : JSON_SCAN_BAD;
    case FRACTION:
        return is_digit(c) ? JSON_SCAN_MORE
               : e         ? go(s, EXPONENT)
                           : end_number(s, c);
    case EXPONENT:
        if (c == '+' || c == '-') {
            return go(s, SIGN);
        }
        /* fall through */
    case SIGN:
        return is_digit(c) ? go(s, POWER) : JSON_SCAN_BAD;
    default:
        return is_digit(c) ? JSON_SCAN_MORE : end_number(s, c);
    }
}

enum json_scan_verdict json_scan_step(struct json_scan *s, char c)
{
    switch ((enum state)s->state) {
    case FIRST_VALUE:
        if (c == ']') {
            return close_list(s);
        }
        if (!is_space(c)) {
            s->state = VALUE;
        }
        return value(s, c);
    case VALUE:
        return value(s, c);
    case FIRST_KEY:
    case KEY:
        return key(s, c);
    case COLON:
        return is_space(c) ? JSON_SCAN_MORE
               : c == ':'  ? go(s, VALUE)
                           : JSON_SCAN_BAD;
    case AFTER:
        return after(s, c);
    case STRING:
        return in_string(s, c);
    case ESCAPE:
    case HEX:
        return escape(s, c);
    case LITERAL:
        return in_literal(s, c);
    default:
        return number(s, c);
    }
}

bool json_scan_in_string(const struct json_scan *s)
{
    return s->state == STRING;
}

bool json_scan_whole(const char *text, size_t n)
{
    struct json_scan s = {0};
    enum json_scan_verdict v = JSON_SCAN_MORE;
    size_t i = 0;

    while (i < n && v == JSON_SCAN_MORE) {
        v = json_scan_step(&s, text[i++]);
    }
    if (v == JSON_SCAN_MORE) {
        /* Only a space can end a number at the end of the text. */
        return json_scan_step(&s, ' ') == JSON_SCAN_ENDED;
    }
    i -= v == JSON_SCAN_ENDED;
    while (i < n && is_space(text[i])) {
        i++;
    }
    return i == n && v != JSON_SCAN_BAD;
}
