#include "common/base/option.h"

#include <string.h>

#include "common/base/option_value.h"

static enum status unknown(const struct option_row *rows, size_t n,
                           const char *word, size_t length, struct error *e)
{
    const char *near = option_nearest(rows, n, word, length);
    char flag[OPTION_FLAG_TEXT];

    if (near != NULL) {
        return error_set(
            e, ST_INVALID_ARGUMENT, "--%.*s: unknown option; did you mean %s?",
            (int)length, word, option_flag(near, flag, sizeof flag));
    }
    return error_set(e, ST_INVALID_ARGUMENT,
                     "--%.*s: unknown option; --help lists all", (int)length,
                     word);
}

/* Passes a value to the sink.  Errors get the option as it is typed. */
static enum status set(const struct option_sink *sink,
                       const struct option_row *row, const char *text,
                       struct error *e)
{
    char flag[OPTION_FLAG_TEXT];
    enum status st = sink->set(sink->arg, row, text, e);

    if (st == ST_OK) {
        return ST_OK;
    }
    option_flag(row->name, flag, sizeof flag);
    /* A list as a whole is too long, whichever item comes last. */
    return row->type == OPTION_LIST ? error_wrap(e, "%s", flag)
                                    : error_wrap(e, "%s %s", flag, text);
}

/* Parses the option at argv[*at] and moves *at past its value. */
static enum status take(const struct option_row *rows, size_t n,
                        const struct option_sink *sink,
                        struct option_words *words, int *at, struct error *e)
{
    const char *word = words->argv[*at] + 2;
    const char *equals = strchr(word, '=');
    size_t length = equals != NULL ? (size_t)(equals - word) : strlen(word);
    const struct option_row *row = option_find(rows, n, word, length);

    if (row == NULL) {
        return unknown(rows, n, word, length, e);
    }
    if (equals != NULL) {
        return set(sink, row, equals + 1, e);
    }
    if (row->type == OPTION_FLAG) {
        return set(sink, row, "yes", e);
    }
    if (*at + 1 >= words->argc) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--%.*s: a value is required: %s", (int)length, word,
                         row->value);
    }
    *at += 1;
    return set(sink, row, words->argv[*at], e);
}

static const struct option_row *help_row(const struct option_row *rows,
                                         size_t n)
{
    const struct option_row *row = option_find(rows, n, "help", strlen("help"));

    return row != NULL && row->type == OPTION_FLAG ? row : NULL;
}

/* Takes -m DIR: --model, as in other programs of the field. */
static enum status take_model(const struct option_row *row,
                              const struct option_sink *sink,
                              struct option_words *words, int *at,
                              struct error *e)
{
    if (*at + 1 >= words->argc) {
        return error_set(e, ST_INVALID_ARGUMENT, "-m: a value is required: %s",
                         row->value);
    }
    *at += 1;
    return set(sink, row, words->argv[*at], e);
}

/* Takes a word with one dash: -h, -m, or a mistake that would otherwise become
 * an operand. */
static enum status take_short(const struct option_row *rows, size_t n,
                              const struct option_sink *sink,
                              struct option_words *words, int *at,
                              struct error *e)
{
    const char *word = words->argv[*at];
    const struct option_row *model = option_find(rows, n, "model", 5);
    static const char advice[] = "Text that begins with a dash goes after --";
    const struct option_row *help = help_row(rows, n), *exact;
    size_t length = strcspn(word + 1, "=");
    const char *near;
    char flag[OPTION_FLAG_TEXT];

    if (help != NULL && strcmp(word, "-h") == 0) {
        return set(sink, help, "yes", e);
    }
    if (model != NULL && strcmp(word, "-m") == 0) {
        return take_model(model, sink, words, at, e);
    }
    near = option_nearest(rows, n, word + 1, length);
    /* A name of one letter is never near, but may be the very word. */
    exact = option_find(rows, n, word + 1, length);
    near = near == NULL && exact != NULL ? exact->name : near;
    if (near == NULL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s: unknown option; --help lists all.  %s", word,
                         advice);
    }
    return error_set(
        e, ST_INVALID_ARGUMENT, "%.*s: unknown option; did you mean %s?  %s",
        (int)length + 1, word, option_flag(near, flag, sizeof flag), advice);
}

enum status option_scan(const struct option_row *rows, size_t n,
                        const struct option_sink *sink,
                        struct option_words *words, struct error *e)
{
    char **argv = words->argv;
    enum status st = ST_OK;
    bool options = true;

    words->n = 0;
    for (int at = 1; st == ST_OK && at < words->argc; at++) {
        if (options && strcmp(argv[at], "--") == 0) {
            options = false;
        } else if (options && strncmp(argv[at], "--", 2) == 0) {
            st = take(rows, n, sink, words, &at, e);
        } else if (options && argv[at][0] == '-' && argv[at][1] != '\0') {
            st = take_short(rows, n, sink, words, &at, e);
        } else {
            argv[1 + words->n++] = argv[at];
        }
    }
    return st;
}

static enum status store(void *out, const struct option_row *row,
                         const char *text, struct error *e)
{
    return option_store(row, out, text, e);
}

enum status option_parse(const struct option_row *rows, size_t n, void *out,
                         int argc, char **argv, int *n_words, struct error *e)
{
    struct option_sink sink = {store, out};
    struct option_words words = {.argc = argc, .argv = argv};
    enum status st = ST_OK;

    for (size_t i = 0; st == ST_OK && i < n; i++) {
        st = option_reset(&rows[i], out, e);
    }
    st = st == ST_OK ? option_scan(rows, n, &sink, &words, e) : st;
    *n_words = words.n;
    return st;
}

enum status option_take_operand(const struct option_row *row, void *out,
                                const char *word, struct error *e)
{
    if (*(const char **)((char *)out + row->offset) != NULL) {
        char flag[OPTION_FLAG_TEXT];

        return error_set(e, ST_INVALID_ARGUMENT,
                         "\"%s\": unexpected operand, as there is %s", word,
                         option_flag(row->name, flag, sizeof flag));
    }
    return option_store(row, out, word, e);
}

enum status option_parse_alone(const struct option_row *rows, size_t n,
                               void *out, int argc, char **argv,
                               struct error *e)
{
    return option_parse_operand(rows, n, NULL, out, argc, argv, e);
}

enum status option_parse_operand(const struct option_row *rows, size_t n,
                                 const char *operand, void *out, int argc,
                                 char **argv, struct error *e)
{
    const struct option_row *help = help_row(rows, n);
    int n_words;
    enum status st = option_parse(rows, n, out, argc, argv, &n_words, e);

    if (st != ST_OK || n_words == 0) {
        return st;
    }
    if (help != NULL && n_words == 1 && strcmp(argv[1], "help") == 0) {
        return option_store(help, out, "yes", e);
    }
    if (operand != NULL && n_words == 1) {
        return option_take_operand(
            option_find(rows, n, operand, strlen(operand)), out, argv[1], e);
    }
    return error_set(e, ST_INVALID_ARGUMENT,
                     "\"%s\": unexpected operand; --help lists the options",
                     argv[1]);
}
