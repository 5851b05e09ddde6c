#include "gateway/keys/keys_line.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/chars.h"
#include "common/base/quote.h"

/* A word of the line; n is 0 at the end. */
struct word {
    const char *text;
    size_t n;
};

/* Takes the next word off line[*at..n). */
static struct word word_take(const char *line, size_t n, size_t *at)
{
    struct word w;

    while (*at < n && is_blank(line[*at])) {
        (*at)++;
    }
    w.text = line + *at;
    while (*at < n && !is_blank(line[*at]) && line[*at] != '#') {
        (*at)++;
    }
    w.n = (size_t)(line + *at - w.text);
    return w;
}

static enum status hash_parse(struct word w, uint8_t *hash, struct error *e)
{
    bool valid = w.n == 2 * KEYS_HASH_BYTES;

    for (size_t i = 0; valid && i < KEYS_HASH_BYTES; i++) {
        int high = hex_digit(w.text[2 * i]);
        int low = hex_digit(w.text[2 * i + 1]);

        valid = high >= 0 && low >= 0;
        hash[i] = (uint8_t)((unsigned)high << 4 | (unsigned)low);
    }
    if (!valid) {
        /* The word is not quoted: it may be a key in place of its hash. */
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the first word has %zu characters; the SHA-256 of a "
                         "key in %d hex digits is required",
                         w.n, 2 * KEYS_HASH_BYTES);
    }
    return ST_OK;
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

enum status keys_name_parse(const char *name, size_t n, char *out,
                            struct error *e)
{
    bool valid = n >= 1 && n <= TENANT_NAME_MAX;

    for (size_t i = 0; valid && i < n; i++) {
        valid = is_name_char(name[i]);
    }
    if (!valid) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "tenant %s: 1 to %d characters of a-z 0-9 _ - are "
                         "required",
                         quote_bytes(name, n).text, TENANT_NAME_MAX);
    }
    memcpy(out, name, n);
    out[n] = '\0';
    return ST_OK;
}

/* Parses "123/min" (unit "/min") or "123" (unit ""). */
static bool number_parse(struct word w, const char *unit, uint64_t max,
                         uint64_t *out)
{
    uint64_t v = 0;
    size_t n_unit = strlen(unit), n = w.n - n_unit;

    if (w.n <= n_unit || memcmp(w.text + n, unit, n_unit) != 0) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (w.text[i] < '0' || w.text[i] > '9' || v > max) {
            return false;
        }
        v = v * 10 + (uint64_t)(w.text[i] - '0');
    }
    *out = v;
    return v >= 1 && v <= max;
}

static const struct limit_word {
    const char *name; /* with its '=' */
    const char *unit;
    uint64_t max;
} limit_words[TENANT_LIMITS_NR] = {
    [TENANT_REQUESTS] = {"requests=", "/min", TENANT_RATE_MAX},
    [TENANT_TOKENS] = {"tokens=", "/min", TENANT_RATE_MAX},
    [TENANT_STREAMS] = {"streams=", "", TENANT_STREAMS_MAX},
};

static const struct limit_word guaranteed_word = {"guaranteed=", "",
                                                  TENANT_STREAMS_MAX};

static bool word_is(struct word w, const char *text)
{
    return w.n == strlen(text) && memcmp(w.text, text, w.n) == 0;
}

/* Reads w, which begins with the name of l. */
static enum status limit_parse(struct word w, const struct limit_word *l,
                               uint64_t *out, struct error *e)
{
    size_t n = strlen(l->name);

    if (*out != 0) {
        return error_set(e, ST_INVALID_ARGUMENT, "%s occurs twice", l->name);
    }
    if (!number_parse((struct word){w.text + n, w.n - n}, l->unit, l->max,
                      out)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s: %sN%s with N from 1 to %" PRIu64 " is required",
                         quote_bytes(w.text, w.n).text, l->name, l->unit,
                         l->max);
    }
    return ST_OK;
}

static enum status option_parse(struct word w, struct keys_line *out,
                                struct error *e)
{
    struct tenant_limits *limits = &out->limits;

    if (word_is(w, "role=operator")) {
        out->is_operator = true;
        return ST_OK;
    }
    for (int i = 0; i <= TENANT_LIMITS_NR; i++) {
        bool is_limit = i < TENANT_LIMITS_NR;
        const struct limit_word *l =
            is_limit ? &limit_words[i] : &guaranteed_word;

        if (w.n >= strlen(l->name) &&
            memcmp(w.text, l->name, strlen(l->name)) == 0) {
            return limit_parse(
                w, l, is_limit ? &limits->max[i] : &limits->guaranteed, e);
        }
    }
    return error_set(e, ST_INVALID_ARGUMENT,
                     "%s: requests=N/min, tokens=N/min, streams=N, "
                     "guaranteed=N or role=operator is required",
                     quote_bytes(w.text, w.n).text);
}

enum status keys_line_parse(const char *line, size_t n, struct keys_line *out,
                            struct error *e)
{
    size_t at = 0;
    struct word w = word_take(line, n, &at);
    enum status st;

    *out = (struct keys_line){.empty = w.n == 0};
    if (out->empty) {
        return ST_OK;
    }
    st = hash_parse(w, out->hash, e);
    if (st == ST_OK) {
        w = word_take(line, n, &at);
        st = keys_name_parse(w.text, w.n, out->tenant, e);
    }
    while (st == ST_OK && (w = word_take(line, n, &at)).n > 0) {
        st = option_parse(w, out, e);
    }
    return st;
}
