/* option_program.h - The description of a program, with its options: for
 * configuration, manual pages and completion.
 *
 * Threading: constant data. */
#ifndef COMMON_BASE_OPTION_PROGRAM_H
#define COMMON_BASE_OPTION_PROGRAM_H

#include <stddef.h>

#include "common/base/option.h"

struct option_verb {
    const char *name, *operands, *summary;
    const char *more; /* paragraphs and indented examples; may be NULL */
    const struct option_row *rows;
    size_t n_rows;
};

struct option_program {
    const char *name;    /* "sluice-router" */
    const char *summary; /* one line, for the manual */
    const char *role;    /* "router"; NULL: no file, no environment */
    unsigned section;    /* section of the manual: 1, or 8 for a daemon */
    const char *operand; /* row that the only operand sets; NULL: none */
    const char *usage;   /* text of --help before the options */
    const char *more;    /* text of --help after the options */
    const struct option_row *rows;
    size_t n_rows; /* options of every verb, if there are verbs */
    const struct option_verb *verbs;
    size_t n_verbs;
};

#endif
