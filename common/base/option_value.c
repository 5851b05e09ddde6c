#include "common/base/option_value.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/near.h"

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

/* A number that is too large is no other text: the user learns the limit. */
enum reading { READ_BAD, READ_LARGE, READ_OK };

/* Accepts plain decimal numbers only: strtod() would also take hex, inf and
 * nan. */
static enum reading decimal(const char *text, double *value, const char **end)
{
    const char *digits = text + (text[0] == '-');
    char *stop;

    if (!isdigit((unsigned char)digits[0]) && digits[0] != '.') {
        return READ_BAD;
    }
    errno = 0;
    *value = strtod(text, &stop);
    *end = stop;
    if (stop == text || strcspn(text, "xX") < (size_t)(stop - text)) {
        return READ_BAD;
    }
    /* Below the least number there is 0, which is near enough. */
    return isfinite(*value) ? READ_OK : READ_LARGE;
}

static enum reading with_unit(const char *text, const struct unit *units,
                              uint64_t *out)
{
    const char *end;
    double value;
    enum reading r = decimal(text, &value, &end);

    if (r == READ_BAD || text[0] == '-') {
        return READ_BAD;
    }
    for (; units->name != NULL; units++) {
        if (strcmp(end, units->name) != 0) {
            continue;
        }
        if (r == READ_LARGE || value * units->factor >= 0x1p63) {
            return READ_LARGE;
        }
        *out = (uint64_t)llround(value * units->factor);
        return READ_OK;
    }
    return READ_BAD;
}

bool option_bytes(const char *text, uint64_t *bytes)
{
    return with_unit(text, byte_units, bytes) == READ_OK;
}

bool option_ms(const char *text, uint64_t *ms)
{
    return with_unit(text, time_units, ms) == READ_OK;
}

/* strtoull() would accept a sign and leading spaces. */
static enum reading whole(const char *text, uint64_t most, uint64_t *out)
{
    char *end;

    if (!isdigit((unsigned char)text[0])) {
        return READ_BAD;
    }
    errno = 0;
    *out = strtoull(text, &end, 10);
    return *end != '\0'                ? READ_BAD
           : errno != 0 || *out > most ? READ_LARGE
                                       : READ_OK;
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
        return "yes or no";
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
    char least[32], most[32];

    /* A row without a range has max = min = 0. */
    if (row->max > row->min && (value < row->min || value > row->max)) {
        return error_set(e, ST_INVALID_ARGUMENT, "must be from %s to %s%s",
                         bound(row->type, row->min, least, sizeof least),
                         bound(row->type, row->max, most, sizeof most),
                         row->type == OPTION_MS && !has_unit(text)
                             ? "; without a unit, a time is in seconds"
                             : "");
    }
    return ST_OK;
}

static enum reading store_number(const struct option_row *row, void *field,
                                 const char *text, double *value)
{
    const char *end;
    uint64_t u = 0;
    enum reading r;

    switch (row->type) {
    case OPTION_F64:
        r = decimal(text, value, &end);
        r = r != READ_BAD && *end != '\0' ? READ_BAD : r;
        if (r == READ_OK) {
            memcpy(field, value, sizeof *value);
        }
        return r;
    case OPTION_BYTES:
        r = with_unit(text, byte_units, &u);
        break;
    case OPTION_MS:
        r = with_unit(text, time_units, &u);
        break;
    default:
        r = whole(text, row->type == OPTION_U64 ? UINT64_MAX : UINT32_MAX, &u);
        break;
    }
    if (r != READ_OK) {
        return r;
    }
    *value = (double)u;
    if (row->type == OPTION_U32) {
        /* memcpy(): the field is addressed by its offset, without its type. */
        uint32_t narrow = (uint32_t)u;

        memcpy(field, &narrow, sizeof narrow);
    } else {
        memcpy(field, &u, sizeof u);
    }
    return READ_OK;
}

static enum status append(const struct option_row *row,
                          struct option_list *list, const char *text,
                          struct error *e)
{
    unsigned most = row->max > 0 ? (unsigned)row->max : OPTION_LIST_MAX;

    /* The list is an array in the options, so it cannot grow. */
    if (list->n == most) {
        return error_set(e, ST_INVALID_ARGUMENT, "given more than %u times",
                         most);
    }
    list->item[list->n++] = text;
    return ST_OK;
}

bool option_bool(const char *text, bool *value)
{
    static const char *const words[] = {"no",  "yes", "false", "true",
                                        "off", "on",  "0",     "1"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(text, words[i]) == 0) {
            *value = i % 2 == 1;
            return true;
        }
    }
    return false;
}

/* Converts to the field's type.  *value is for the range, which a flag lacks.
 */
static enum reading convert(const struct option_row *row, void *field,
                            const char *text, double *value)
{
    if (row->type == OPTION_FLAG) {
        return option_bool(text, field) ? READ_OK : READ_BAD;
    }
    return store_number(row, field, text, value);
}

/* The range of the row, or that of its type. */
static enum status too_large(const struct option_row *row, const char *text,
                             struct error *e)
{
    if (row->max > row->min) {
        return in_range(row, INFINITY, text, e);
    }
    if (row->type == OPTION_U32 || row->type == OPTION_U64) {
        return error_set(e, ST_INVALID_ARGUMENT, "must be at most %llu",
                         row->type == OPTION_U32
                             ? (unsigned long long)UINT32_MAX
                             : (unsigned long long)UINT64_MAX);
    }
    return error_set(e, ST_INVALID_ARGUMENT, "is too large");
}

enum status option_store(const struct option_row *row, void *out,
                         const char *text, struct error *e)
{
    void *field = (char *)out + row->offset;
    double value = 0;

    if (row->type == OPTION_STRING) {
        *(const char **)field = text;
        return ST_OK;
    }
    if (row->type == OPTION_LIST) {
        return append(row, field, text, e);
    }
    switch (convert(row, field, text, &value)) {
    case READ_BAD:
        return error_set(e, ST_INVALID_ARGUMENT, "%s is needed",
                         wanted(row->type));
    case READ_LARGE:
        return too_large(row, text, e);
    default:
        return in_range(row, value, text, e);
    }
}

enum status option_u32(const char *field, const char *text, uint32_t most,
                       bool *given, uint32_t *out, struct error *e)
{
    const struct option_row row = {
        .name = field, .type = OPTION_U32, .max = most};
    char flag[OPTION_FLAG_TEXT];
    enum status st;

    *out = 0;
    *given = text != NULL;
    if (text == NULL) {
        return ST_OK;
    }
    st = option_store(&row, out, text, e);
    return st == ST_OK
               ? ST_OK
               : error_wrap(e, "%s %s", option_flag(field, flag, sizeof flag),
                            text);
}

enum status option_reset(const struct option_row *row, void *out,
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

    memset((char *)out + row->offset, 0, sizes[row->type]);
    return row->fallback != NULL ? option_store(row, out, row->fallback, e)
                                 : ST_OK;
}

/* ---- names ---- */

const char *option_name(const char *field, char *out, size_t cap)
{
    snprintf(out, cap, "%s", field);
    for (char *c = out; *c != '\0'; c++) {
        *c = *c == '_' ? '-' : *c;
    }
    return out;
}

const char *option_flag(const char *field, char *out, size_t cap)
{
    snprintf(out, cap, "--");
    option_name(field, out + 2, cap - 2);
    return out;
}

/* Returns whether word[0..n) is name; '_' and '-' are equal. */
static bool names(const char *word, size_t n, const char *name)
{
    if (n != strlen(name)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        /* Fields are C names, which have no '-'. */
        char c = word[i] == '-' ? '_' : word[i];

        if (c != name[i]) {
            return false;
        }
    }
    return true;
}

const struct option_row *option_find(const struct option_row *rows,
                                     size_t n_rows, const char *word, size_t n)
{
    for (size_t i = 0; i < n_rows; i++) {
        if (names(word, n, rows[i].name)) {
            return &rows[i];
        }
    }
    return NULL;
}

const char *option_nearest(const struct option_row *rows, size_t n_rows,
                           const char *word, size_t n)
{
    struct near near = near_to(word, n);

    for (size_t i = 0; i < n_rows; i++) {
        near_offer(&near, rows[i].name);
    }
    return near.best;
}
