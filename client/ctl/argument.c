/* argument.c - Parsing of option values that are lists or escaped text.
 *
 * The take_ functions parse one item at *at and move *at past it.  They return
 * false if there is no such item; *at is undefined then. */
#include "client/ctl/argument.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/option.h"
#include "common/base/quote.h"

/* strtoull() alone would accept blanks and a sign. */
static bool take_id(const char **at, uint32_t *id)
{
    unsigned long long v;
    char *end;

    if (!isdigit((unsigned char)**at)) {
        return false;
    }
    errno = 0;
    v = strtoull(*at, &end, 10);
    *id = (uint32_t)v;
    *at = end;
    return errno == 0 && v <= UINT32_MAX;
}

/* strtof() alone would accept hexadecimal numbers, inf and nan. */
static bool take_bias(const char **at, float *bias)
{
    size_t n = strspn(*at, "+-.0123456789eE");
    char *end;

    *bias = strtof(*at, &end);
    if (n == 0 || end != *at + n) {
        return false;
    }
    *at = end;
    return isfinite(*bias);
}

/* Moves past a comma between two items.  Returns false unless there is one, or
 * the end of the text. */
static bool next_item(const char **at)
{
    if (**at == ',' && (*at)[1] != '\0') {
        (*at)++;
        return true;
    }
    return **at == '\0';
}

static enum status too_many(size_t most, struct error *e)
{
    return error_set(e, ST_INVALID_ARGUMENT,
                     "too many values; the limit is %zu", most);
}

/* Appends 32-bit numbers; form is the accepted form, for the error. */
static enum status numbers(const char *text, const char *form, uint32_t *out,
                           size_t most, size_t *n, struct error *e)
{
    const char *at = text;
    uint32_t v;

    do {
        if (!take_id(&at, &v) || !next_item(&at)) {
            return error_set(e, ST_INVALID_ARGUMENT, "%s: %s is required",
                             quote(text).text, form);
        }
        if (*n == most) {
            return too_many(most, e);
        }
        out[(*n)++] = v;
    } while (*at != '\0');
    return ST_OK;
}

enum status argument_ids(const char *text, uint32_t *out, size_t most,
                         size_t *n, struct error *e)
{
    return numbers(text, "ID or ID,ID,...", out, most, n, e);
}

enum status argument_lengths(const char *text, uint32_t *out, size_t most,
                             size_t *n, struct error *e)
{
    return numbers(text, "N or N,N,...", out, most, n, e);
}

enum status argument_biases(const char *text, uint32_t *tokens, float *biases,
                            size_t most, size_t *n, struct error *e)
{
    const char *at = text;
    uint32_t token;
    float bias;

    do {
        if (!take_id(&at, &token) || *at++ != '=' || !take_bias(&at, &bias) ||
            !next_item(&at)) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "%s: ID=BIAS or ID=BIAS,ID=BIAS,... is required",
                             quote(text).text);
        }
        if (*n == most) {
            return too_many(most, e);
        }
        tokens[*n] = token;
        biases[(*n)++] = bias;
    } while (*at != '\0');
    return ST_OK;
}

/* Copies text[0..n) to out with a NUL; returns false if out is too small. */
static bool cut_off(char *out, size_t size, const char *text, size_t n)
{
    if (n >= size) {
        return false;
    }
    memcpy(out, text, n);
    out[n] = '\0';
    return true;
}

/* Parses "" (speed 1) or "@SPEED", a finite number above 0. */
static bool take_speed(const char *text, double *speed)
{
    char *end;

    *speed = 1;
    if (*text == '\0') {
        return true;
    }
    text++; /* past the @ */
    *speed = strtod(text, &end);
    return *text != '\0' && strspn(text, "+-.0123456789eE") == strlen(text) &&
           *end == '\0' && *speed > 0 && isfinite(*speed);
}

/* Parses NAME=SIZE or NAME=SIZE@SPEED. */
static bool take_worker(const char **at, struct argument_worker *w)
{
    const char *equals = *at + strcspn(*at, "=,");
    const char *end = *at + strcspn(*at, ",");
    const char *speed = *at + strcspn(*at, "@,");
    char size[32], rate[32];

    if (*equals != '=' || equals == *at || speed < equals ||
        !cut_off(w->name, sizeof w->name, *at, (size_t)(equals - *at)) ||
        !cut_off(size, sizeof size, equals + 1, (size_t)(speed - equals - 1)) ||
        !cut_off(rate, sizeof rate, speed, (size_t)(end - speed))) {
        return false;
    }
    *at = end;
    return option_bytes(size, &w->bytes) && take_speed(rate, &w->speed);
}

enum status argument_workers(const char *text, struct argument_worker *out,
                             size_t most, size_t *n, struct error *e)
{
    const char *at = text;
    struct argument_worker w;

    do {
        if (!take_worker(&at, &w) || !next_item(&at)) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "%s: NAME=SIZE or NAME=SIZE@SPEED,... is "
                             "required, such as w1=24GiB,w2=16GiB@0.5",
                             quote(text).text);
        }
        for (size_t i = 0; i < *n; i++) {
            if (strcmp(out[i].name, w.name) == 0) {
                return error_set(e, ST_INVALID_ARGUMENT,
                                 "two workers have the name %s",
                                 quote(w.name).text);
            }
        }
        if (*n == most) {
            return too_many(most, e);
        }
        out[(*n)++] = w;
    } while (*at != '\0');
    return ST_OK;
}

/* Returns the character that follows a backslash, or 0 if it has no meaning. */
static char unescaped(char c)
{
    switch (c) {
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case 'r':
        return '\r';
    case '\\':
        return '\\';
    default:
        return '\0';
    }
}

enum status argument_text(const char *text, char *out, size_t *n,
                          struct error *e)
{
    *n = 0;
    for (const char *at = text; *at != '\0'; at++) {
        out[*n] = *at == '\\' ? unescaped(*++at) : *at;
        if (out[(*n)++] == '\0') {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "%s: a backslash must be followed by n, t, r or "
                             "another backslash",
                             quote(text).text);
        }
    }
    out[*n] = '\0';
    return ST_OK;
}
