#include "client/argument.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/quote.h"

/* A token id at *at, moved past it. */
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

static bool take_bias(const char **at, float *bias)
{
    size_t n = strspn(*at, "+-.0123456789eE");
    char *end;

    *bias = strtof(*at, &end);
    if (n == 0 || end != *at + n) {
        return false; /* hex, inf and nan too */
    }
    *at = end;
    return isfinite(*bias);
}

/* Past a comma between two items; false where neither it nor the end is. */
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
    return error_set(e, ST_INVALID_ARGUMENT, "more than %zu are given", most);
}

enum status argument_ids(const char *text, uint32_t *out, size_t most,
                         size_t *n, struct error *e)
{
    const char *at = text;
    uint32_t id;

    do {
        if (!take_id(&at, &id) || !next_item(&at)) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "%s: ID or ID,ID,... is wanted", quote(text).text);
        }
        if (*n == most) {
            return too_many(most, e);
        }
        out[(*n)++] = id;
    } while (*at != '\0');
    return ST_OK;
}

enum status argument_biases(const char *text, struct client_bias *out,
                            size_t most, size_t *n, struct error *e)
{
    const char *at = text;
    struct client_bias b;

    do {
        if (!take_id(&at, &b.token) || *at++ != '=' ||
            !take_bias(&at, &b.bias) || !next_item(&at)) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "%s: ID=BIAS or ID=BIAS,ID=BIAS,... is wanted",
                             quote(text).text);
        }
        if (*n == most) {
            return too_many(most, e);
        }
        out[(*n)++] = b;
    } while (*at != '\0');
    return ST_OK;
}

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
                             "%s: after a backslash n, t, r or a backslash is "
                             "wanted",
                             quote(text).text);
        }
    }
    out[*n] = '\0';
    return ST_OK;
}
