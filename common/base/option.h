/* option.h - Command lines as tables that parse, check and explain.
 *
 *     #define MY_OPTIONS(X)                                                \
 *         X(model, STRING, "DIR", NULL, "the model to serve", 0, 0)        \
 *         X(max_rows, U32, "N", "64", "sequences in a step", 1, 512)       \
 *         X(help, FLAG, NULL, NULL, "print this and exit", 0, 0)
 *
 *     OPTION_TABLE(my_options, MY_OPTIONS);
 *
 * The macro defines struct my_options and its rows, my_options_rows. Field
 * max_rows is --max-rows on the command line, written `--max-rows 8` or
 * `--max-rows=8`.  `--` ends the options.  `-h` is `--help`, if there is a row
 * help.  Any other word that begins with a dash is refused, except `-` alone
 * and words after `--`.
 *
 * Types:
 * - FLAG: bool, written --pin, or --pin=yes and --pin=no.
 * - STRING: const char *.
 * - U32, U64, F64: numbers.
 * - BYTES: uint64_t, written 4096, 64KiB, 4GiB or 1GB.
 * - MS: uint64_t milliseconds, written 250ms, 30s, 5m or 1h; a bare number is
 *   seconds.  Ranges are in milliseconds.
 * - LIST: strings; the option may be repeated, at most max times if max > 0.
 *
 * Threading: none.  Memory: strings point into argv.  Limits:
 * OPTION_LIST_MAX. */
#ifndef COMMON_BASE_OPTION_H
#define COMMON_BASE_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/status.h"

#define OPTION_LIST_MAX 64
#define OPTION_COLUMNS  80 /* width of --help */

struct option_list {
    const char *item[OPTION_LIST_MAX];
    unsigned n;
};

enum option_type {
    OPTION_FLAG,
    OPTION_STRING,
    OPTION_U32,
    OPTION_U64,
    OPTION_F64,
    OPTION_BYTES,
    OPTION_MS,
    OPTION_LIST
};

#define OPTION_C_FLAG   bool
#define OPTION_C_STRING const char *
#define OPTION_C_U32    uint32_t
#define OPTION_C_U64    uint64_t
#define OPTION_C_F64    double
#define OPTION_C_BYTES  uint64_t
#define OPTION_C_MS     uint64_t
#define OPTION_C_LIST   struct option_list

struct option_row {
    const char *name; /* the field's name, with underscores */
    enum option_type type;
    const char *value;    /* the name of the value in --help; NULL for a flag */
    const char *fallback; /* parsed if the option is absent; NULL: 0 */
    const char *help;     /* one line, however long */
    double min, max; /* range of a number, if max > min; of a LIST: times */
    size_t offset;   /* offset of the field */
};

#define OPTION_FIELD(name, type, value, fallback, help, min, max) \
    OPTION_C_##type name;

#define OPTION_TABLE(tag, MAP)      \
    struct tag {                    \
        MAP(OPTION_FIELD)           \
    };                              \
    typedef struct tag option_this; \
    static const struct option_row tag##_rows[] = {MAP(OPTION_ROW)}

#define OPTION_ROW(name, type, value, fallback, help, min, max) \
    {#name, OPTION_##type, value, fallback,                     \
     help,  min,           max,   offsetof(option_this, name)},

#define OPTION_COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

/* Fills *out from the fallbacks and argv[1..argc).  Moves words that are no
 * options to the front of argv, from argv[1] on, and sets *n_words.  Returns
 * ST_INVALID_ARGUMENT and a sentence that names the option, the fault and a
 * valid value. */
MUST_CHECK enum status option_parse(const struct option_row *rows, size_t n,
                                    void *out, int argc, char **argv,
                                    int *n_words, struct error *e);

/* The same for a program whose only operand, if there is one, sets the row
 * named `operand`: a text.  NULL: as option_parse_alone(). */
MUST_CHECK enum status option_parse_operand(const struct option_row *rows,
                                            size_t n, const char *operand,
                                            void *out, int argc, char **argv,
                                            struct error *e);

/* Parses the command line of a program without operands.  The word "help"
 * alone sets the row help.  Returns ST_INVALID_ARGUMENT for other words, and
 * errors as option_parse() does. */
MUST_CHECK enum status option_parse_alone(const struct option_row *rows,
                                          size_t n, void *out, int argc,
                                          char **argv, struct error *e);

/* Prints the table for --help, with defaults and options that may be repeated,
 * wrapped at OPTION_COLUMNS. */
void option_print(FILE *to, const struct option_row *rows, size_t n);

/* Converts "4GiB" to bytes.  Returns false if text is no size. */
bool option_bytes(const char *text, uint64_t *bytes);

/* Converts "30s" to milliseconds.  Returns false if text is no duration. */
bool option_ms(const char *text, uint64_t *ms);

#endif
