#include "common/base/option.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/near.h"

#define FLAG_TEXT 64

struct unit {
    const char *name;
    double factor;
};

static const struct unit byte_units[] = {
    {"", 1},
    {"B", 1},
    {"K", 1024.0},
    {"KiB", 1024.0},
    {"kB", 1e3},
    {"KB", 1e3},
    {"M", 1048576.0},
    {"MiB", 1048576.0},
    {"MB", 1e6},
    {"G", 1073741824.0},
    {"GiB", 1073741824.0},
    {"GB", 1e9},
    {"T", 1099511627776.0},
    {"TiB", 1099511627776.0},
    {"TB", 1e12},
    {NULL, 0},
};

static const struct unit time_units[] = {
    {"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {NULL, 0},
};

/* Accepts plain decimal numbers only: strtod() would also take hex, inf and
 * nan. */
static bool decimal(const char *text, double *value, const char **end)
{
    const char *digits = text + (text[0] == '-');
    char *stop;

    if (!isdigit((unsigned char)digits[0]) && digits[0] != '.') {
        return false;
    }
    errno = 0;
    *value = strtod(text, &stop);
    *end = stop;
    return stop != text && errno == 0 && isfinite(*value) &&
           strcspn(text, "xX") >= (size_t)(stop - text);
}

static bool with_unit(const char *text, const struct unit *units, uint64_t *out)
{
    const char *end;
    double value;

    if (!decimal(text, &value, &end) || text[0] == '-') {
        return false;
    }
    for (; units->name != NULL; units++) {
        if (strcmp(end, units->name) == 0 && value * units->factor < 0x1p63) {
            *out = (uint64_t)llround(value * units->factor);
            return true;
        }
    }
    return false;
}

bool option_bytes(const char *text, uint64_t *bytes)
{
    return with_unit(text, byte_units, bytes);
}

bool option_ms(const char *text, uint64_t *ms)
{
    return with_unit(text, time_units, ms);
}

/* strtoull() would accept a sign and leading spaces. */
static bool whole(const char *text, uint64_t *out)
{
    char *end;

    if (!isdigit((unsigned char)text[0])) {
        return false;
    }
    errno = 0;
    *out = strtoull(text, &end, 10);
    return *end == '\0' && errno == 0;
}

/* Writes the option's spelling: "--max-rows" for the field max_rows. */
static const char *flag_name(const char *field, char *out, size_t cap)
{
    int n = snprintf(out, cap, "--%s", field);

    for (int i = 0; i < n && (size_t)i < cap; i++) {
        out[i] = out[i] == '_' ? '-' : out[i];
    }
    return out;
}

static const char *wanted(enum option_type type)
{
    switch (type) {
    case OPTION_U32:
    case OPTION_U64:
        return "a whole number";
    case OPTION_F64:
        return "a number";
    case OPTION_BYTES:
        return "a size such as 4096, 64KiB or 4GiB";
    case OPTION_MS:
        return "a time such as 250ms, 30s or 5m";
    case OPTION_FLAG:
    case OPTION_STRING:
    case OPTION_LIST:
        break;
    }
    return "text";
}

/* Writes a bound of a range in the largest unit that divides it. */
static const char *bound(enum option_type type, double value, char *out,
                         size_t cap)
{
    static const struct unit sizes[] = {
        {"GiB", 1073741824.0}, {"MiB", 1048576.0}, {"KiB", 1024.0}, {"B", 1}};
    static const struct unit times[] = {
        {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
    const struct unit *u = type == OPTION_MS ? times : sizes;

    if (type != OPTION_MS && type != OPTION_BYTES) {
        snprintf(out, cap, "%.15g", value);
        return out;
    }
    while (u->factor > 1 && (value < u->factor || fmod(value, u->factor) > 0)) {
        u++;
    }
    snprintf(out, cap, "%.15g%s", value / u->factor, u->name);
    return out;
}

static bool has_unit(const char *text)
{
    return !isdigit((unsigned char)text[strlen(text) - 1]);
}

static enum status in_range(const struct option_row *row, double value,
                            const char *text, struct error *e)
{
    char flag[FLAG_TEXT], least[32], most[32];

    /* A row without a range has max = min = 0. */
    if (row->max > row->min && (value < row->min || value > row->max)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s %s: must be from %s to %s%s",
                         flag_name(row->name, flag, sizeof flag), text,
                         bound(row->type, row->min, least, sizeof least),
                         bound(row->type, row->max, most, sizeof most),
                         row->type == OPTION_MS && !has_unit(text)
                             ? "; without a unit, a time is in seconds"
                             : "");
    }
    return ST_OK;
}

static bool store_number(const struct option_row *row, void *field,
                         const char *text, double *value)
{
    const char *end;
    uint64_t u = 0;
    bool ok;

    switch (row->type) {
    case OPTION_F64:
        ok = decimal(text, value, &end) && *end == '\0';
        if (ok) {
            memcpy(field, value, sizeof *value);
        }
        return ok;
    case OPTION_BYTES:
        ok = option_bytes(text, &u);
        break;
    case OPTION_MS:
        ok = option_ms(text, &u);
        break;
    default:
        ok = whole(text, &u) && (row->type == OPTION_U64 || u <= UINT32_MAX);
        break;
    }
    *value = (double)u;
    if (row->type == OPTION_U32) {
        /* memcpy(): the field is addressed by its offset, without its type. */
        uint32_t narrow = (uint32_t)u;

        memcpy(field, &narrow, sizeof narrow);
    } else {
        memcpy(field, &u, sizeof u);
    }
    return ok;
}

static enum status append(const struct option_row *row,
                          struct option_list *list, const char *text,
                          struct error *e)
{
    unsigned most = row->max > 0 ? (unsigned)row->max : OPTION_LIST_MAX;
    char flag[FLAG_TEXT];

    /* The list is an array in the options, so it cannot grow. */
    if (list->n == most) {
        return error_set(e, ST_INVALID_ARGUMENT, "%s: given more than %u times",
                         flag_name(row->name, flag, sizeof flag), most);
    }
    list->item[list->n++] = text;
    return ST_OK;
}

static enum status store(const struct option_row *row, void *out,
                         const char *text, struct error *e)
{
    void *field = (char *)out + row->offset;
    char flag[FLAG_TEXT];
    double value = 0;

    switch (row->type) {
    case OPTION_FLAG:
        *(bool *)field = true;
        return ST_OK;
    case OPTION_STRING:
        *(const char **)field = text;
        return ST_OK;
    case OPTION_LIST:
        return append(row, field, text, e);
    default:
        break;
    }
    if (!store_number(row, field, text, &value)) {
        return error_set(e, ST_INVALID_ARGUMENT, "%s %s: %s is needed",
                         flag_name(row->name, flag, sizeof flag), text,
                         wanted(row->type));
    }
    return in_range(row, value, text, e);
}

/* Returns whether word[0..n) is --name; '_' and '-' are equal. */
static bool names(const char *word, size_t n, const char *name)
{
    if (n != strlen(name)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        /* == '-' ? '_' : word[i];] Fields are C names, which have no '-'. */
        char c = word[i] == '-' ? '_' : word[i];

        if (c != name[i]) {
            return false;
        }
    }
    return true;
}

/* Returns the name of the row that is nearest to word[0..n), or NULL. */
static const char *nearest(const struct option_row *rows, size_t n_rows,
                           const char *word, size_t n)
{
    struct near near = near_to(word, n);

    for (size_t i = 0; i < n_rows; i++) {
        near_offer(&near, rows[i].name);
    }
    return near.best;
}

static enum status unknown(const struct option_row *rows, size_t n,
                           const char *word, size_t length, struct error *e)
{
    const char *near = nearest(rows, n, word, length);
    char flag[FLAG_TEXT];

    if (near != NULL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--%.*s: unknown option; did you mean %s?",
                         (int)length, word, flag_name(near, flag, sizeof flag));
    }
    return error_set(e, ST_INVALID_ARGUMENT,
                     "--%.*s: unknown option; --help lists all", (int)length,
                     word);
}

/* Parses the option at argv[*at] and moves *at past its value. */
static enum status take(const struct option_row *rows, size_t n, void *out,
                        int argc, char **argv, int *at, struct error *e)
{
    const char *word = argv[*at] + 2;
    const char *equals = strchr(word, '=');
    size_t length = equals != NULL ? (size_t)(equals - word) : strlen(word);

    for (size_t i = 0; i < n; i++) {
        if (!names(word, length, rows[i].name)) {
            continue;
        }
        if (rows[i].type == OPTION_FLAG) {
            return equals == NULL
                       ? store(&rows[i], out, NULL, e)
                       : error_set(e, ST_INVALID_ARGUMENT,
                                   "--%.*s takes no value", (int)length, word);
        }
        if (equals != NULL) {
            return store(&rows[i], out, equals + 1, e);
        }
        if (*at + 1 >= argc) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "--%.*s: a value is required: %s", (int)length,
                             word, rows[i].value);
        }
        *at += 1;
        return store(&rows[i], out, argv[*at], e);
    }
    return unknown(rows, n, word, length, e);
}

static enum status fallbacks(const struct option_row *rows, size_t n, void *out,
                             struct error *e)
{
    static const size_t sizes[] = {
        [OPTION_FLAG] = sizeof(bool),
        [OPTION_STRING] = sizeof(char *),
        [OPTION_U32] = sizeof(uint32_t),
        [OPTION_U64] = sizeof(uint64_t),
        [OPTION_F64] = sizeof(double),
        [OPTION_BYTES] = sizeof(uint64_t),
        [OPTION_MS] = sizeof(uint64_t),
        [OPTION_LIST] = sizeof(struct option_list),
    };

    for (size_t i = 0; i < n; i++) {
        enum status st = ST_OK;

        memset((char *)out + rows[i].offset, 0, sizes[rows[i].type]);
        if (rows[i].fallback != NULL) {
            st = store(&rows[i], out, rows[i].fallback, e);
        }
        if (st != ST_OK) {
            return st;
        }
    }
    return ST_OK;
}

static const struct option_row *help_row(const struct option_row *rows,
                                         size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (rows[i].type == OPTION_FLAG && strcmp(rows[i].name, "help") == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

/* Takes a word with one dash: -h, or a mistake that would otherwise become an
 * operand. */
static enum status take_short(const struct option_row *rows, size_t n,
                              void *out, const char *word, struct error *e)
{
    static const char advice[] = "Text that begins with a dash goes after --";
    const struct option_row *help = help_row(rows, n);
    size_t length = strcspn(word + 1, "=");
    const char *near;
    char flag[FLAG_TEXT];

    if (help != NULL && strcmp(word, "-h") == 0) {
        return store(help, out, NULL, e);
    }
    near = nearest(rows, n, word + 1, length);
    /* A name of one letter is never near, but may be the very word. */
    for (size_t i = 0; near == NULL && i < n; i++) {
        near = names(word + 1, length, rows[i].name) ? rows[i].name : NULL;
    }
    if (near == NULL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s: unknown option; --help lists all.  %s", word,
                         advice);
    }
    return error_set(
        e, ST_INVALID_ARGUMENT, "%.*s: unknown option; did you mean %s?  %s",
        (int)length + 1, word, flag_name(near, flag, sizeof flag), advice);
}

enum status option_parse(const struct option_row *rows, size_t n, void *out,
                         int argc, char **argv, int *n_words, struct error *e)
{
    enum status st = fallbacks(rows, n, out, e);
    bool options = true;

    *n_words = 0;
    for (int at = 1; st == ST_OK && at < argc; at++) {
        if (options && strcmp(argv[at], "--") == 0) {
            options = false;
        } else if (options && strncmp(argv[at], "--", 2) == 0) {
            st = take(rows, n, out, argc, argv, &at, e);
        } else if (options && argv[at][0] == '-' && argv[at][1] != '\0') {
            st = take_short(rows, n, out, argv[at], e);
        } else {
            argv[1 + (*n_words)++] = argv[at];
        }
    }
    return st;
}

enum status option_parse_alone(const struct option_row *rows, size_t n,
                               void *out, int argc, char **argv,
                               struct error *e)
{
    const struct option_row *help = help_row(rows, n);
    int n_words;
    enum status st = option_parse(rows, n, out, argc, argv, &n_words, e);

    if (st != ST_OK || n_words == 0) {
        return st;
    }
    if (help != NULL && n_words == 1 && strcmp(argv[1], "help") == 0) {
        return store(help, out, NULL, e);
    }
    return error_set(e, ST_INVALID_ARGUMENT,
                     "\"%s\": unexpected operand; --help lists the options",
                     argv[1]);
}
