/* recording_line.c - The fields of a line, each with its range. */
#include "router/replay/recording_line.h"

#include <inttypes.h>
#include <string.h>

void line_begin(struct record_line *l, char *text)
{
    *l = (struct record_line){.at = text};
}

void line_wrong(struct record_line *l, const char *what, const char *how)
{
    if (l->error.code == ST_OK) {
        error_set(&l->error, ST_INVALID_ARGUMENT, "%s %s", what, how);
    }
}

/* A field ends at the next blank, and two blanks have an empty field between
 * them: the recorder never writes one. */
const char *line_word(struct record_line *l, const char *what)
{
    char *word = l->at, *end;

    if (l->error.code != ST_OK) {
        return NULL;
    }
    if (word == NULL || *word == '\0' || *word == ' ') {
        line_wrong(l, what, "is missing");
        return NULL;
    }
    end = strchr(word, ' ');
    l->at = end == NULL ? NULL : end + 1;
    if (end != NULL) {
        *end = '\0';
    }
    return word;
}

/* Parses decimal digits alone. */
/* strtoull() would take blanks, signs and other bases. */
static bool digits(const char *word, uint64_t *out)
{
    *out = 0;
    for (const char *p = word; *p != '\0'; p++) {
        uint64_t digit = (uint64_t)(*p - '0');

        if (*p < '0' || *p > '9' || *out > (UINT64_MAX - digit) / 10) {
            return false;
        }
        *out = *out * 10 + digit;
    }
    return true;
}

/* The sentence has the value and the range, as for options. */
uint64_t line_u64(struct record_line *l, const char *what, uint64_t least,
                  uint64_t most)
{
    const char *word = line_word(l, what);
    uint64_t v = 0;

    if (word == NULL) {
        return 0;
    }
    if (!digits(word, &v) || v < least || v > most) {
        error_set(&l->error, ST_INVALID_ARGUMENT,
                  "%s is \"%.40s\", must be %" PRIu64 "..%" PRIu64, what, word,
                  least, most);
        return 0;
    }
    return v;
}

int64_t line_i64(struct record_line *l, const char *what, int64_t least,
                 int64_t most)
{
    return (int64_t)line_u64(l, what, (uint64_t)least, (uint64_t)most);
}

uint32_t line_u32(struct record_line *l, const char *what, uint32_t least,
                  uint32_t most)
{
    return (uint32_t)line_u64(l, what, least, most);
}

bool line_goes_on(const struct record_line *l)
{
    return l->error.code == ST_OK && l->at != NULL;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Returns the next byte of a name and moves *p past it; -1: it is wrong. */
static int name_byte(const char **p)
{
    const char *at = *p;
    int high, low;

    if (*at != '%') {
        *p = at + 1;
        return *at > ' ' && *at <= '~' ? *at : -1;
    }
    high = hex(at[1]);
    low = high < 0 ? -1 : hex(at[2]);
    *p = at + 3;
    return low <= 0 && high <= 0 ? -1 : low < 0 ? -1 : high * 16 + low;
}

void line_name(struct record_line *l, const char *what, char *out, size_t least,
               size_t most)
{
    const char *word = line_word(l, what);
    size_t n = 0;

    out[0] = '\0';
    if (word == NULL || (strcmp(word, "-") == 0 && least == 0)) {
        return;
    }
    if (strcmp(word, "-") == 0) {
        line_wrong(l, what, "is empty");
        return;
    }
    while (*word != '\0') {
        int c = name_byte(&word);

        if (c < 0 || n == most) {
            line_wrong(l, what,
                       c < 0 ? "has a byte that is not written as %XX"
                             : "is too long");
            out[0] = '\0';
            return;
        }
        out[n++] = (char)c;
    }
    out[n] = '\0';
}

uint32_t line_ref(struct record_line *l, const char *what, uint32_t n)
{
    uint64_t v = line_u64(l, what, 1, l->lax ? UINT32_MAX : n);

    l->lost = l->lost || v > n;
    return v == 0 ? 0 : (uint32_t)v - 1;
}

uint32_t line_next(struct record_line *l, const char *what, uint32_t n,
                   uint32_t most)
{
    uint64_t v =
        line_u64(l, what, (uint64_t)n + 1, l->lax ? most : (uint64_t)n + 1);

    if (l->error.code == ST_OK && v > most) {
        error_set(&l->error, ST_INVALID_ARGUMENT,
                  "%s %" PRIu64 " is one too many, at most %" PRIu32
                  " are allowed",
                  what, v, most);
    }
    return v == 0 ? 0 : (uint32_t)v - 1;
}

/* The first error is the one to report: later ones may follow from it. */
enum status line_end(struct record_line *l, struct error *e)
{
    if (l->at != NULL) {
        line_wrong(l, "the line", "has a field too many");
    }
    if (l->error.code != ST_OK) {
        *e = l->error;
    }
    return l->error.code;
}
