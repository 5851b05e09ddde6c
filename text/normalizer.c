#include "text/normalizer.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "common/base/quote.h"
#include "text/byte_fallback.h"
#include "text/json_read.h"
#include "text/unicode.h"

/* --- parsing ------------------------------------------------------------- */

static int form_named(const char *name)
{
    if (strcmp(name, "NFC") == 0) {
        return UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    }
    if (strcmp(name, "NFD") == 0) {
        return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    }
    if (strcmp(name, "NFKC") == 0) {
        return UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
    }
    if (strcmp(name, "NFKD") == 0) {
        return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
    }
    return 0;
}

static bool is_space_letter(const json_t *v)
{
    return json_is_string(v) &&
           strcmp(json_string_value(v), BYTE_FALLBACK_SPACE) == 0;
}

/* {"pattern": {"String": " "}, "content": U+2581} alone. */
static enum status check_replace(const json_t *v, struct error *e)
{
    const json_t *from =
        json_object_get(json_object_get(v, "pattern"), "String");

    if (!json_is_string(from) || strcmp(json_string_value(from), " ") != 0 ||
        !is_space_letter(json_object_get(v, "content"))) {
        return error_set(e, ST_UNIMPLEMENTED,
                         "type: \"Replace\" is supported for a space and "
                         "U+2581 alone");
    }
    return ST_OK;
}

static enum status parse_prepend(struct normalizer *z, const json_t *v,
                                 struct error *e)
{
    if (!is_space_letter(json_object_get(v, "prepend")) || z->prepend) {
        return error_set(e, ST_UNIMPLEMENTED,
                         "type: \"Prepend\" is supported for U+2581 alone");
    }
    z->prepend = true;
    return ST_OK;
}

static enum status parse(void *arg, const json_t *v, const char *type,
                         struct error *e)
{
    struct normalizer *z = arg;
    int form;

    if (strcmp(type, "Prepend") == 0) {
        return parse_prepend(z, v, e);
    }
    form = form_named(type);
    if (strcmp(type, "Replace") == 0) {
        if (check_replace(v, e) != ST_OK) {
            return ST_UNIMPLEMENTED;
        }
        form = NORMALIZER_SPACES;
    }
    if (form == 0) {
        return error_set(e, ST_UNIMPLEMENTED, "type: %s is not supported",
                         quote(type).text);
    }
    if (z->n == TEXT_STAGES) {
        return error_set(e, ST_OUT_OF_RANGE, "more than %d steps", TEXT_STAGES);
    }
    z->forms[z->n++] = form;
    return ST_OK;
}

enum status normalizer_parse(struct normalizer *z, const json_t *v,
                             struct error *e)
{
    *z = (struct normalizer){0};
    return v == NULL ? ST_OK : json_read_parts(v, "normalizers", parse, z, e);
}

/* --- running ------------------------------------------------------------- */

/* Returns whether no form with these options changes the text.  NFC leaves
 * everything below U+0300 alone; the other forms leave ASCII alone. */
static bool plain_form(int form, const char *text, size_t n)
{
    bool nfc = (form & UTF8PROC_COMPOSE) && !(form & UTF8PROC_COMPAT);
    uint8_t limit = nfc ? 0xCC : 0x80; /* 0xCC is the first byte of U+0300 */

    for (size_t i = 0; i < n; i++) {
        if ((uint8_t)text[i] >= limit) {
            return false;
        }
    }
    return true;
}

static bool plain(int form, const char *text, size_t n)
{
    if (form == NORMALIZER_SPACES) {
        return n == 0 || memchr(text, ' ', n) == NULL;
    }
    return plain_form(form, text, n);
}

/* Replaces each space. */
static char *spell_spaces(const char *text, size_t n, size_t *out_n)
{
    size_t w = n;
    char *out;

    for (size_t i = 0; i < n; i++) {
        w += text[i] == ' ' ? BYTE_FALLBACK_SPACE_LEN - 1 : 0;
    }
    *out_n = w;
    out = malloc(w + 1);
    w = 0;
    for (size_t i = 0; out != NULL && i < n; i++) {
        if (text[i] == ' ') {
            memcpy(out + w, BYTE_FALLBACK_SPACE, BYTE_FALLBACK_SPACE_LEN);
            w += BYTE_FALLBACK_SPACE_LEN;
        } else {
            out[w++] = text[i];
        }
    }
    return out;
}

struct code_points {
    utf8proc_int32_t *v; /* [cap] */
    size_t n, cap;
};

static bool reserve(struct code_points *c, size_t n)
{
    size_t cap = c->cap < 64 ? 64 : c->cap;
    utf8proc_int32_t *grown;

    while (cap < n) {
        cap *= 2;
    }
    /* Doubling keeps the total copy linear. */
    if (cap == c->cap) {
        return true;
    }
    grown = realloc(c->v, cap * sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    c->v = grown;
    c->cap = cap;
    return true;
}

/* Code points of the longest decomposition (U+FDFA has 18). */
#define EXPANSION_MAX 32

static bool decompose(struct code_points *c, int form, const char *text,
                      size_t n)
{
    utf8proc_option_t options =
        (utf8proc_option_t)(form & ~UTF8PROC_COMPOSE) | UTF8PROC_DECOMPOSE;
    int boundary = 0;
    size_t len;

    for (size_t at = 0; at < n; at += len) {
        utf8proc_int32_t ch = unicode_at(text, n, at, &len);
        utf8proc_ssize_t got;

        /* Reserved before each character, so the call never needs a second
         * attempt. */
        if (!reserve(c, c->n + EXPANSION_MAX)) {
            return false;
        }
        got = utf8proc_decompose_char(ch, c->v + c->n, EXPANSION_MAX, options,
                                      &boundary);
        if (got < 0 || got > EXPANSION_MAX) {
            return false;
        }
        c->n += (size_t)got;
    }
    return true;
}

/* No character below U+0300 has a class, and most text is below. */
static unsigned class_of(utf8proc_int32_t c)
{
    return c < 0x300 ? 0u : (uint8_t)utf8proc_get_property(c)->combining_class;
}

/* For short runs, which is all that real text has. */
static void insertion_sort(utf8proc_int32_t *v, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        utf8proc_int32_t c = v[i];
        size_t j = i;

        for (; j > 0 && class_of(v[j - 1]) > class_of(c); j--) {
            v[j] = v[j - 1];
        }
        v[j] = c;
    }
}

static bool counting_sort(utf8proc_int32_t *v, size_t n)
{
    utf8proc_int32_t *sorted = malloc(n * sizeof *sorted);
    size_t start[257] = {0};

    if (sorted == NULL) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        start[class_of(v[i]) + 1]++;
    }
    for (size_t k = 0; k < 256; k++) {
        start[k + 1] += start[k];
    }
    for (size_t i = 0; i < n; i++) {
        sorted[start[class_of(v[i])]++] = v[i];
    }
    memcpy(v, sorted, n * sizeof *sorted);
    free(sorted);
    return true;
}

/* Canonical ordering: sorts each run of marks, stably, by combining class.  A
 * counting sort bounds the time of a long run. */
static bool order(struct code_points *c)
{
    for (size_t i = 0; i < c->n; i++) {
        size_t start = i;

        while (i < c->n && class_of(c->v[i]) != 0) {
            i++;
        }
        /* A short run is the usual case; a counting sort would clear 257
         * counters for it. */
        if (i - start <= 32) {
            insertion_sort(c->v + start, i - start);
        } else if (!counting_sort(c->v + start, i - start)) {
            return false;
        }
    }
    return true;
}

static char *to_utf8(const struct code_points *c, size_t *out_n)
{
    /* At most 4 bytes per code point. */
    char *out = malloc(c->n * 4 + 1);
    size_t w = 0;

    for (size_t i = 0; out != NULL && i < c->n; i++) {
        w += (size_t)utf8proc_encode_char(c->v[i], (utf8proc_uint8_t *)out + w);
    }
    *out_n = w;
    return out;
}

static char *apply(int form, const char *text, size_t n, size_t *out_n)
{
    struct code_points c = {0};
    char *out = NULL;

    if (reserve(&c, n / 2 + EXPANSION_MAX) && decompose(&c, form, text, n) &&
        order(&c)) {
        utf8proc_ssize_t left = (utf8proc_ssize_t)c.n;
        if (form & UTF8PROC_COMPOSE) {
            left = utf8proc_normalize_utf32(c.v, left, (utf8proc_option_t)form);
        }
        if (left >= 0) {
            c.n = (size_t)left;
            out = to_utf8(&c, out_n);
        }
    }
    free(c.v);
    return out;
}

enum status normalizer_run(const struct normalizer *z, const char *text,
                           size_t n, const char **out, size_t *out_n,
                           char **owned, struct error *e)
{
    *out = text;
    *out_n = n;
    *owned = NULL;
    for (unsigned i = 0; i < z->n; i++) {
        char *made;

        /* , *out, *out_n)) {] Skips the work for most text, in particular
         * ASCII. */
        if (plain(z->forms[i], *out, *out_n)) {
            continue;
        }
        made = z->forms[i] == NORMALIZER_SPACES
                   ? spell_spaces(*out, *out_n, out_n)
                   : apply(z->forms[i], *out, *out_n, out_n);
        free(*owned);
        *owned = made;
        *out = made;
        if (made == NULL) {
            return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
        }
        if (*out_n > TEXT_ENCODE_BYTES) {
            free(made);
            *owned = NULL;
            return error_set(e, ST_OUT_OF_RANGE,
                             "the text is %zu bytes long when normalised, at "
                             "most %d are allowed",
                             *out_n, TEXT_ENCODE_BYTES);
        }
    }
    return ST_OK;
}

/* An ASCII character before another one stays as it is, and the text between
 * such characters is normalised on its own: no form changes ASCII, or joins an
 * ASCII character with one before it.  Only the last ASCII character of a run
 * may become part of another one. */
size_t normalizer_fewest(const struct normalizer *z, const char *text, size_t n)
{
    size_t kept = 0, rest;

    if (z->n == 0) {
        return n;
    }
    for (size_t i = 0; i < n; i++) {
        kept += (uint8_t)text[i] < 0x80 &&
                (i + 1 == n || (uint8_t)text[i + 1] < 0x80);
    }
    rest = n - kept;
    for (unsigned i = 0; i < z->n; i++) {
        rest /= z->forms[i] == NORMALIZER_SPACES ? 1 : NORMALIZER_SHRINK;
    }
    return kept + rest;
}

/* --- in steps ------------------------------------------------------------- */

void normalizer_cursor_fini(struct normalizer_cursor *c)
{
    free(c->owned);
    *c = (struct normalizer_cursor){.z = NULL};
}

void normalizer_start(struct normalizer_cursor *c, const struct normalizer *z,
                      const char *text, size_t n)
{
    normalizer_cursor_fini(c);
    c->z = z;
    c->text = c->out = text;
    c->n = n;
}

/* Returns the end of a part that begins at c->at. */
static size_t part_end(const struct normalizer_cursor *c, size_t bytes)
{
    size_t end = c->at + bytes;

    if (c->z->n == 0 || bytes >= c->n - c->at) {
        return c->n;
    }
    while (end < c->n && (uint8_t)c->text[end] >= 0x80) {
        end++;
    }
    return end;
}

static bool append(struct normalizer_cursor *c, const char *s, size_t n)
{
    size_t cap = c->cap == 0 ? c->n + n : c->cap;

    while (cap < c->n_out + n) {
        cap *= 2;
    }
    if (cap != c->cap) {
        char *grown = realloc(c->owned, cap);

        if (grown == NULL) {
            return false;
        }
        /* The first part that changed follows parts that did not. */
        if (c->owned == NULL) {
            memcpy(grown, c->text, c->n_out);
        }
        c->owned = grown;
        c->out = grown;
        c->cap = cap;
    }
    memcpy(c->owned + c->n_out, s, n);
    return true;
}

enum status normalizer_step(struct normalizer_cursor *c, size_t *left,
                            bool *done, struct error *e)
{
    size_t end = part_end(c, *left), n;
    const char *out;
    char *owned;
    enum status st;

    if (c->z->prepend && c->n > 0 && c->n_out == 0) {
        if (!append(c, BYTE_FALLBACK_SPACE, BYTE_FALLBACK_SPACE_LEN)) {
            return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
        }
        c->n_out = BYTE_FALLBACK_SPACE_LEN;
    }
    st =
        normalizer_run(c->z, c->text + c->at, end - c->at, &out, &n, &owned, e);

    if (st != ST_OK) {
        return st;
    }
    if ((owned != NULL || c->owned != NULL) && !append(c, out, n)) {
        st = error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    } else if (c->n_out + n > TEXT_ENCODE_BYTES) {
        st = error_set(e, ST_OUT_OF_RANGE,
                       "the text is over %zu bytes long when normalised, at "
                       "most %d are allowed",
                       c->n_out, TEXT_ENCODE_BYTES);
    }
    free(owned);
    *left -= end - c->at < *left ? end - c->at : *left;
    c->n_out += n;
    c->at = end;
    *done = end == c->n;
    return st;
}
