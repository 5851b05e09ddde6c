/* option_sources.h - Options of a daemon from four sources.
 *
 *     static const struct option_program program = {
 *         .name = "sluice-router", .role = "router",
 *         .rows = rows, .n_rows = OPTION_COUNT(rows)};
 *     struct option_sources s;
 *
 *     st = option_sources_load(&s, &program, &args, argc, argv, &e);
 *
 * Later sources win: the fallback of the row, the configuration file, the
 * environment (SLUICE_ROUTER_MAX_ROWS), the command line.  A LIST of a later
 * source replaces that of an earlier source.
 *
 * The file is the value of --config, else of SLUICE_ROUTER_CONFIG, else
 * SLUICE_CONFIG_DIR/router.conf, which may be missing.  "none" reads no file.
 * Options that make the program print and exit are for the command line alone:
 * in the file they are an error, in the environment they are unknown.
 *
 * Threading: none.  Memory: values point into argv, the environment and the
 * sources, until option_sources_fini().  Limits: OPTION_ROWS_MAX. */
#ifndef COMMON_BASE_OPTION_SOURCES_H
#define COMMON_BASE_OPTION_SOURCES_H

#include "common/base/option.h"
#include "common/base/option_file.h"
#include "common/base/option_program.h"

#ifndef SLUICE_CONFIG_DIR
#define SLUICE_CONFIG_DIR "/etc/sluice"
#endif

#define OPTION_ROWS_MAX 96 /* options of a program */

/* Rows for the table of a daemon with that role. */
#define CONFIG_OPTIONS(X, role)                                           \
    X(config, STRING, "FILE", NULL,                                       \
      "configuration file, or none (default: " SLUICE_CONFIG_DIR "/" role \
      ".conf)",                                                           \
      0, 0)                                                               \
    X(print_config, FLAG, NULL, NULL,                                     \
      "print each option with its value and its source, and exit", 0, 0)

enum option_source {
    OPTION_DEFAULT,
    OPTION_FROM_FILE,
    OPTION_FROM_ENVIRONMENT,
    OPTION_FROM_COMMAND_LINE
};

/* Where a value comes from. */
struct option_origin {
    enum option_source source;
    unsigned line;    /* line of the file */
    const char *text; /* the value as written; NULL: not set */
};

struct option_sources {
    const struct option_program *program;
    void *out;
    struct option_origin origins[OPTION_ROWS_MAX]; /* one a row */
    char *lists[OPTION_ROWS_MAX]; /* owned; lists of the environment, cut */
    struct option_file file;
    char path[4096]; /* the file's */
    bool has_file;
    const char *unknown[OPTION_LIST_MAX]; /* [n_unknown] variables */
    unsigned n_unknown;
};

/* Fills *out.  Moves no word of argv.  The word "help" alone sets the row
 * help.  If the command line has an option that prints and exits, other than
 * --print-config and --check, no other source is read.
 *
 * Returns ST_INVALID_ARGUMENT with the source (file and line, or variable), the
 * fault and a valid value; ST_NOT_FOUND or ST_UNAVAILABLE if the file cannot be
 * read. */
MUST_CHECK enum status option_sources_load(struct option_sources *s,
                                           const struct option_program *program,
                                           void *out, int argc, char **argv,
                                           struct error *e);

/* Prints all options as a configuration file, for --print-config: value and
 * source. */
void option_sources_print(FILE *to, const struct option_sources *s);

/* Logs the file that was read, and variables that set no option. */
void option_sources_log(const struct option_sources *s);

/* Returns whether an option is for the command line alone. */
bool option_is_command(const struct option_row *row);

/* Frees what values may point into. */
void option_sources_fini(struct option_sources *s);

#endif
