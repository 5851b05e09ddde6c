/* option_value.h - Rows of options: search by name, and conversion of values.
 *
 * The command line, configuration files and the environment share it.
 * Errors name no option: the caller adds the name as its source spells it.
 *
 * Threading: none.  Memory: stored strings are borrowed. */
#ifndef COMMON_BASE_OPTION_VALUE_H
#define COMMON_BASE_OPTION_VALUE_H

#include "common/base/option.h"

#define OPTION_FLAG_TEXT 64 /* room for "--" and a name */

/* Writes the spelling on a command line: "--max-rows" for the field max_rows.
 * Returns out. */
const char *option_flag(const char *field, char *out, size_t cap);

/* Writes the name without dashes in front: "max-rows".  Returns out. */
const char *option_name(const char *field, char *out, size_t cap);

/* Returns the row named word[0..n), or NULL.  '_' and '-' are equal. */
const struct option_row *option_find(const struct option_row *rows,
                                     size_t n_rows, const char *word, size_t n);

/* Returns the name of the row that is nearest to word[0..n), or NULL. */
const char *option_nearest(const struct option_row *rows, size_t n_rows,
                           const char *word, size_t n);

/* Sets the row's field in *out to its fallback, or to 0. */
MUST_CHECK enum status option_reset(const struct option_row *row, void *out,
                                    struct error *e);

/* Converts text and sets the row's field in *out; appends to a LIST.  Returns
 * ST_INVALID_ARGUMENT and what a valid value is. */
MUST_CHECK enum status option_store(const struct option_row *row, void *out,
                                    const char *text, struct error *e);

/* Converts text of an option whose row is a STRING, because 0 differs from
 * absence: a number of at most most.  Sets *given to text != NULL.  Returns
 * ST_INVALID_ARGUMENT with the option, the value and the range. */
MUST_CHECK enum status option_u32(const char *field, const char *text,
                                  uint32_t most, bool *given, uint32_t *out,
                                  struct error *e);

/* Sets a row of a text to an operand.  Returns ST_INVALID_ARGUMENT if its
 * option is given too. */
MUST_CHECK enum status option_take_operand(const struct option_row *row,
                                           void *out, const char *word,
                                           struct error *e);

/* A receiver of options: sets the row's field to text.  Errors name no
 * option. */
struct option_sink {
    enum status (*set)(void *arg, const struct option_row *row,
                       const char *text, struct error *e);
    void *arg;
};

/* A command line. */
struct option_words {
    int argc;
    char **argv; /* argv[0] is the program */
    int n;       /* words that are no options, from argv[1] on */
};

/* Passes each option of the command line to the sink, a flag as "yes".  Moves
 * the other words to the front and sets words->n.  Errors are those of
 * option_parse(). */
MUST_CHECK enum status option_scan(const struct option_row *rows, size_t n,
                                   const struct option_sink *sink,
                                   struct option_words *words, struct error *e);

/* Parses yes, no, true, false, on, off, 1 and 0.  Returns false for others. */
bool option_bool(const char *text, bool *value);

#endif
