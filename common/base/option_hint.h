/* option_hint.h - Values that a shell can offer for an option.
 *
 * The table of options decides: the name of the value (FILE, DIR, NAME=DIR), or
 * words that the help lists, as in "log level: debug, info or off".
 *
 * Threading: none.  Memory: the caller's. */
#ifndef COMMON_BASE_OPTION_HINT_H
#define COMMON_BASE_OPTION_HINT_H

#include "common/base/option.h"

enum option_hint {
    OPTION_HINT_FLAG, /* there is no value */
    OPTION_HINT_NONE, /* any text */
    OPTION_HINT_FILE,
    OPTION_HINT_DIR,
    OPTION_HINT_NAMED_DIR, /* NAME=DIR */
    OPTION_HINT_WORDS
};

/* Returns what to offer.  Writes OPTION_HINT_WORDS to words, separated by
 * blanks. */
enum option_hint option_hint(const struct option_row *row, char *words,
                             size_t cap);

/* Writes the words of a first operand "check|render|apply", separated by
 * blanks.  Returns false if operands begin with anything else. */
bool option_hint_first(const char *operands, char *words, size_t cap);

/* Returns what to offer for operands such as "MODEL_DIR" or "A.json B.json". */
enum option_hint option_hint_operands(const char *operands);

#endif
