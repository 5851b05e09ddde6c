#include "text/pattern.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "common/base/quote.h"

#define WORD "\\p{L}\\p{M}\\p{Nd}\\p{Pc}"

struct rewriter {
    const char *in;
    size_t n, at;
    char *out;
    size_t w;
    bool in_class;
    bool branch_starts; /* at this position, option groups apart */
};

static void put(struct rewriter *r, const char *s, size_t n)
{
    memcpy(r->out + r->w, s, n);
    r->w += n;
}

static void put_text(struct rewriter *r, const char *s)
{
    put(r, s, strlen(s));
}

/* Passes n bytes through unchanged. */
static void pass(struct rewriter *r, size_t n)
{
    put(r, r->in + r->at, n);
    r->at += n;
}

static bool ahead(const struct rewriter *r, const char *s)
{
    size_t n = strlen(s);

    return r->n - r->at >= n && memcmp(r->in + r->at, s, n) == 0;
}

static enum status refuse(const struct rewriter *r, const char *what,
                          struct error *e)
{
    size_t left = r->n - r->at;

    return error_set(e, ST_UNIMPLEMENTED,
                     "%s is not supported, at byte %zu: %s", what, r->at,
                     quote_bytes(r->in + r->at, left < 8 ? left : 8).text);
}

static enum status cut_off(const struct rewriter *r, struct error *e)
{
    return error_set(e, ST_INVALID_ARGUMENT,
                     "the expression is cut off at byte %zu", r->at);
}

/* PCRE2 itself decides which names are scripts, so no list can become
 * outdated. */
static bool compiles(const char *pattern)
{
    int code;
    PCRE2_SIZE at;
    pcre2_code *re = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                   PCRE2_UTF | PCRE2_UCP, &code, &at, NULL);

    pcre2_code_free(re);
    return re != NULL;
}

/* \p{Name}, \P{Name}, \p{^Name} */
static enum status property(struct rewriter *r, struct error *e)
{
    char name[40], probe[64];
    const char *open = r->in + r->at + 2;
    const char *close;
    size_t n, neg;

    if (r->n - r->at < 4 || *open != '{') {
        return refuse(r, "a property without braces", e);
    }
    close = memchr(open, '}', r->n - r->at - 2);
    if (close == NULL) {
        return cut_off(r, e);
    }
    n = (size_t)(close - open) - 1;
    neg = n > 0 && open[1] == '^';
    /* No property has a name this long. */
    if (n - neg >= sizeof name) {
        return refuse(r, "a property of this name", e);
    }
    memcpy(name, open + 1 + neg, n - neg);
    name[n - neg] = '\0';
    snprintf(probe, sizeof probe, "\\p{sc:%s}", name);
    put(r, r->in + r->at, 3);
    put_text(r, neg ? "^" : "");
    /* Only scripts differ between the dialects; categories are passed on. */
    put_text(r, compiles(probe) ? "sc:" : "");
    put_text(r, name);
    put_text(r, "}");
    r->at += n + 4;
    return ST_OK;
}

/* \uHHHH */
static enum status code_point(struct rewriter *r, struct error *e)
{
    for (size_t i = 2; i < 6; i++) {
        if (r->at + i >= r->n) {
            return cut_off(r, e);
        }
        if (!isxdigit((unsigned char)r->in[r->at + i])) {
            return refuse(r, "\\u without four hex digits", e);
        }
    }
    put_text(r, "\\x{");
    put(r, r->in + r->at + 2, 4);
    put_text(r, "}");
    r->at += 6;
    return ST_OK;
}

static enum status escape(struct rewriter *r, struct error *e)
{
    char c;

    if (r->at + 1 >= r->n) {
        return cut_off(r, e);
    }
    c = r->in[r->at + 1];
    switch (c) {
    case 'p':
    case 'P':
        return property(r, e);
    case 'u':
        return code_point(r, e);
    case 's':
    case 'S':
        put_text(r, c == 's' ? "\\p{White_Space}" : "\\P{White_Space}");
        break;
    case 'w':
        put_text(r, r->in_class ? WORD : "[" WORD "]");
        break;
    case 'W':
        if (r->in_class) {
            return refuse(r, "\\W in a class", e);
        }
        put_text(r, "[^" WORD "]");
        break;
    default:
        /* Both dialects read these alike, and punctuation as itself. */
        if (isalnum((unsigned char)c) && strchr("dDnrtfaexAzZ0", c) == NULL) {
            return refuse(r, "this escape", e);
        }
        pass(r, 2);
        return ST_OK;
    }
    r->at += 2;
    return ST_OK;
}

/* Rewrites one item between [ and ]. */
static enum status class_item(struct rewriter *r, struct error *e)
{
    char c = r->in[r->at];

    if (c == '\\') {
        return escape(r, e);
    }
    if (c == '[') {
        return refuse(r, "a class in a class", e);
    }
    if (ahead(r, "&&")) {
        return refuse(r, "an intersection of classes", e);
    }
    if (c == ']') {
        r->in_class = false;
    }
    pass(r, 1);
    return ST_OK;
}

static enum status class_open(struct rewriter *r, struct error *e)
{
    r->in_class = true;
    pass(r, ahead(r, "[^") ? 2 : 1);
    /* A leading ] is a literal in one dialect and may end the class in the
     * other. */
    return ahead(r, "]") ? refuse(r, "] first in a class", e) : ST_OK;
}

/* Returns whether another branch of the same group follows. */
static bool branch_follows(const struct rewriter *r, size_t from)
{
    bool in_class = false;
    size_t depth = 0;

    for (size_t i = from; i < r->n; i++) {
        char c = r->in[i];

        if (c == '\\') {
            i++;
        } else if (in_class || c == '[') {
            in_class = c != ']';
        } else if (c == '(') {
            depth++;
        } else if (c == ')' && depth-- == 0) {
            return false;
        } else if (c == '|' && depth == 0) {
            return true;
        }
    }
    return false;
}

/* Rewrites (?i) and (?-i), which apply to the rest of the group.  In the
 * middle of a branch the dialects differ on the next branch: a(?i)b|c is
 * a(?i:b|c) to Oniguruma, and a(?i:b)|(?i:c) to PCRE2. */
static enum status option(struct rewriter *r, size_t n, struct error *e)
{
    if (!r->branch_starts && branch_follows(r, r->at + n)) {
        return refuse(r, "an option with a branch behind it", e);
    }
    pass(r, n);
    return ST_OK;
}

static enum status group_open(struct rewriter *r, struct error *e)
{
    static const char *const alike[] = {
        "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"};

    /* Verbs such as (*COMMIT) change how PCRE2 backtracks. */
    if (ahead(r, "(*")) {
        return refuse(r, "a verb", e);
    }
    if (ahead(r, "(?i)") || ahead(r, "(?-i)")) {
        return option(r, ahead(r, "(?i)") ? 4 : 5, e);
    }
    r->branch_starts = true;
    if (!ahead(r, "(?")) {
        pass(r, 1);
        return ST_OK;
    }
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++) {
        if (ahead(r, alike[i])) {
            pass(r, strlen(alike[i]));
            return ST_OK;
        }
    }
    return refuse(r, "this kind of group", e);
}

static enum status item(struct rewriter *r, struct error *e)
{
    char c = r->in[r->at];

    /* Tracks whether an option would stand at the start of its branch. */
    r->branch_starts = c == '|' || (c == '(' && r->branch_starts);
    switch (c) {
    case '\\':
        return escape(r, e);
    case '[':
        return class_open(r, e);
    case '(':
        return group_open(r, e);
    case '{':
        /* {,n} is an interval in Oniguruma, and text in PCRE2. */
        if (ahead(r, "{,")) {
            return refuse(r, "an interval without a minimum", e);
        }
        break;
    case '}':
        /* {n}+ is possessive in PCRE2, and repeated in Oniguruma; {n}? is
         * reluctant in one, and optional in the other. */
        if (ahead(r, "}+") || ahead(r, "}?")) {
            return refuse(r, "an interval with a suffix", e);
        }
        break;
    default:
        break;
    }
    pass(r, 1);
    return ST_OK;
}

enum status pattern_rewrite(const char *in, size_t n, char *out, size_t *out_n,
                            struct error *e)
{
    struct rewriter r = {.in = in, .n = n, .out = out, .branch_starts = true};
    enum status st = ST_OK;

    if (n > TEXT_PATTERN_BYTES) {
        return error_set(e, ST_OUT_OF_RANGE,
                         "%zu bytes long, at most %d are allowed", n,
                         TEXT_PATTERN_BYTES);
    }
    while (r.at < n && st == ST_OK) {
        st = r.in_class ? class_item(&r, e) : item(&r, e);
    }
    *out_n = r.w;
    return st;
}
