/* front.h - The verbs of the program `sluice`.
 *
 * Each verb has one file with a table of its options, its help and a function
 * that runs it.
 *
 * Threading: one thread. */
#ifndef CLIENT_FRONT_FRONT_H
#define CLIENT_FRONT_FRONT_H

#include <stddef.h>

#include "common/base/option.h"

#define FRONT_NAME "sluice"

enum front_exit {
    FRONT_OK = 0,
    FRONT_FAILED = 1,
    FRONT_USAGE = 2, /* also: a program of the group could not start */
    FRONT_INTERRUPTED = 130
};

struct front_verb {
    const char *name;
    const char *operands; /* for --help */
    const char *summary;  /* one line, for sluice --help */
    const char *more;     /* paragraphs and examples, for the verb's help */
    const struct option_row *rows;
    size_t n_rows;
    /* Runs with argv[0] = the verb's name.  Returns an exit code. */
    int (*run)(int argc, char **argv);
};

extern const struct front_verb serve_verb;
extern const struct front_verb chat_verb;
extern const struct front_verb bench_verb;

/* Prints the help of a verb on standard output. */
void front_print_help(const struct front_verb *v);

/* Prints "sluice VERB: sentence" on standard error.  Returns code. */
int front_error(const struct front_verb *v, int code, const char *sentence);

#endif
