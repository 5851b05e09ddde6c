#include "gateway/openai/json_out.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/utf8.h"

#define FIRST_BYTES   512
#define NUMBER_BYTES  32
#define FLOAT_DIGITS  9 /* enough for every float */
#define NOT_A_LOGPROB (-9999)

void json_out_fini(struct json_out *o)
{
    if (o->account != NULL && o->account->budget != NULL) {
        memory_give(o->account->budget, o->capacity);
    }
    free(o->data);
    *o = (struct json_out){.account = o->account};
}

static void shatter(struct json_out *o)
{
    o->broken = true;
    if (o->account != NULL) {
        o->account->broken = true;
    }
}

/* Returns whether the buffer has `capacity` bytes now. */
static bool grow(struct json_out *o, size_t capacity)
{
    struct memory_budget *b = o->account != NULL ? o->account->budget : NULL;
    size_t more = capacity - o->capacity;
    char *data;

    if (b != NULL && !memory_take(b, more)) {
        return false;
    }
    data = realloc(o->data, capacity);
    if (data == NULL) {
        if (b != NULL) {
            memory_give(b, more);
        }
        return false;
    }
    o->data = data;
    o->capacity = capacity;
    return true;
}

char *json_out_reserve(struct json_out *o, size_t n)
{
    if (o->broken) {
        return NULL;
    }
    if (o->data == NULL || n > o->capacity - o->n) {
        size_t capacity = o->capacity > 0 ? o->capacity : FIRST_BYTES;

        while (capacity - o->n < n) {
            capacity *= 2;
        }
        if (!grow(o, capacity)) {
            shatter(o);
            return NULL;
        }
    }
    return o->data + o->n;
}

void json_out_raw(struct json_out *o, const char *bytes, size_t n)
{
    char *at = n > 0 ? json_out_reserve(o, n) : NULL;

    if (at != NULL) {
        memcpy(at, bytes, n);
        o->n += n;
    }
}

/* ---- strings ---- */

static bool plain(unsigned char c)
{
    return c >= 0x20 && c != '"' && c != '\\';
}

/* Returns the length of the front of s[0..n) that needs no escape.  Eight
 * bytes at a time: each test sets the top bit of a byte that it finds, and may
 * also set that of a byte after it, so a hit is examined byte by byte. */
static size_t plain_run(const char *s, size_t n)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t tops = ones * 0x80;
    size_t i = 0;

    while (n - i >= sizeof(uint64_t)) {
        uint64_t v, quote, slash;

        memcpy(&v, s + i, sizeof v);
        quote = v ^ (ones * '"');
        slash = v ^ (ones * '\\');
        if ((((v - ones * 0x20) & ~v) | ((quote - ones) & ~quote) |
             ((slash - ones) & ~slash)) &
            tops) {
            break;
        }
        i += sizeof v;
    }
    while (i < n && plain((unsigned char)s[i])) {
        i++;
    }
    return i;
}

/* Writes the escape of c to to[6] and returns its length. */
static size_t escape(char *to, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    static const char from[] = "\"\\\n\r\t\b\f";
    static const char into[] = "\"\\nrtbf";
    /* strchr() would find a NUL at the end of from. */
    const char *at = c == 0 ? NULL : strchr(from, c);

    to[0] = '\\';
    if (at != NULL) {
        to[1] = into[at - from];
        return 2;
    }
    memcpy(to + 1, "u00", 3);
    to[4] = hex[c >> 4];
    to[5] = hex[c & 15];
    return 6;
}

void json_out_escaped(struct json_out *o, const char *text, size_t n)
{
    size_t i = 0;

    while (i < n) {
        size_t run = plain_run(text + i, n - i);

        json_out_raw(o, text + i, run);
        i += run;
        if (i < n) {
            char *at = json_out_reserve(o, 6);

            if (at == NULL) {
                return;
            }
            o->n += escape(at, (unsigned char)text[i++]);
        }
    }
}

void json_out_string(struct json_out *o, const char *bytes, size_t n)
{
    json_out_put(o, "\"");
    while (n > 0) {
        size_t bad;
        enum utf8_kind kind;

        /* Nearly all texts are valid, so one check covers the whole rest. */
        if (utf8_valid(bytes, n, &bad)) {
            json_out_escaped(o, bytes, n);
            break;
        }
        json_out_escaped(o, bytes, bad);
        json_out_put(o, "\xef\xbf\xbd");
        bad += utf8_step((const uint8_t *)bytes + bad, n - bad, &kind);
        bytes += bad;
        n -= bad;
    }
    json_out_put(o, "\"");
}

void json_out_text(struct json_out *o, const char *text)
{
    if (text == NULL) {
        json_out_put(o, "null");
    } else {
        json_out_string(o, text, strlen(text));
    }
}

/* ---- numbers and values ---- */

void json_out_u64(struct json_out *o, uint64_t value)
{
    char digits[NUMBER_BYTES];
    size_t at = sizeof digits;

    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    json_out_raw(o, digits + at, sizeof digits - at);
}

void json_out_i64(struct json_out *o, int64_t value)
{
    if (value < 0) {
        json_out_put(o, "-");
    }
    /* The negation of INT64_MIN does not fit in an int64_t. */
    json_out_u64(o, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void json_out_float(struct json_out *o, float value)
{
    char text[NUMBER_BYTES];
    int digits = 6;

    if (!isfinite(value)) {
        value = NOT_A_LOGPROB;
    }
    /* Most floats need eight digits; trying from six keeps 0.5 short. */
    do {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
    } while (digits++ < FLOAT_DIGITS && strtof(text, NULL) != value);
    json_out_put(o, text);
}

/* No chunk of a stream holds such a value, so speed does not matter. */
static int append(const char *bytes, size_t n, void *out)
{
    json_out_raw(out, bytes, n);
    return 0;
}

void json_out_value(struct json_out *o, const json_t *value)
{
    if (value == NULL) {
        json_out_put(o, "null");
    } else if (json_dump_callback(value, append, o,
                                  JSON_COMPACT | JSON_ENCODE_ANY) != 0) {
        shatter(o);
    }
}
