#include "common/base/option.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
        if (out[i] == '_') {
            out[i] = '-';
        }
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

static enum status in_range(const struct option_row *row, double value,
                            const char *text, struct error *e)
{
    char flag[64];

    /* A row without a range has max = min = 0. */
    if (row->max > row->min && (value < row->min || value > row->max)) {
        return error_set(
            e, ST_INVALID_ARGUMENT, "%s %s: must be from %.15g to %.15g",
            flag_name(row->name, flag, sizeof flag), text, row->min, row->max);
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
    char flag[64];

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
    char flag[64];
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

/* Counts the letters that have no partner in order, found greedily: enough to
 * suggest an option for a typo. */
static size_t distance(const char *a, size_t n, const char *b)
{
    size_t m = strlen(b), same = 0;

    for (size_t i = 0, j = 0; i < n; i++) {
        const char *hit =
            j < m ? strchr(b + j, a[i] == '-' ? '_' : a[i]) : NULL;

        if (hit != NULL && *hit != '\0') {
            same++;
            j = (size_t)(hit - b) + 1;
        }
    }
    return (n > m ? n : m) - same;
}

static enum status unknown(const struct option_row *rows, size_t n,
                           const char *word, size_t length, struct error *e)
{
    size_t best = length / 2 + 1;
    const char *near = NULL;
    char flag[64];

    for (size_t i = 0; i < n; i++) {
        size_t d = distance(word, length, rows[i].name);

        if (d < best) {
            best = d;
            near = rows[i].name;
        }
    }
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
            return error_set(e, ST_INVALID_ARGUMENT, "--%.*s wants a value: %s",
                             (int)length, word, rows[i].value);
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
        } else {
            argv[1 + (*n_words)++] = argv[at];
        }
    }
    return st;
}

void option_print(FILE *to, const struct option_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char flag[64], head[96];

        snprintf(head, sizeof head, "%s%s%s",
                 flag_name(rows[i].name, flag, sizeof flag),
                 rows[i].value != NULL ? " " : "",
                 rows[i].value != NULL ? rows[i].value : "");
        fprintf(to, "  %-26s %s", head, rows[i].help);
        if (rows[i].fallback != NULL) {
            fprintf(to, " (default: %s)", rows[i].fallback);
        } else if (rows[i].type == OPTION_LIST) {
            fputs("; repeatable", to);
        }
        fputc('\n', to);
    }
}
