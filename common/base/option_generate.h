/* option_generate.h - Files made from the tables of options when sluice is
 * built: manual pages, completion for shells, sample configurations.
 *
 *     PROGRAM --generate man        the manual page of the program
 *     PROGRAM --generate man5       its part of sluice.conf(5)
 *     PROGRAM --generate man5-head  the first part of that page
 *     PROGRAM --generate man5-tail  the last part of that page
 *     PROGRAM --generate bash       completion for bash
 *     PROGRAM --generate zsh        completion for zsh
 *     PROGRAM --generate conf       a configuration file, all commented out
 *
 * --generate is the first word, and no option: --help does not list it.
 *
 * Threading: none.  Memory: borrowed. */
#ifndef COMMON_BASE_OPTION_GENERATE_H
#define COMMON_BASE_OPTION_GENERATE_H

#include <stdio.h>

#include "common/base/option_program.h"
#include "common/base/status.h"

/* Returns the word after --generate, "" if there is none; NULL if argv[1] is
 * another word. */
const char *option_generate_kind(int argc, char **argv);

/* Prints one file.  Returns ST_INVALID_ARGUMENT for an unknown kind. */
MUST_CHECK enum status option_generate(FILE *to,
                                       const struct option_program *program,
                                       const char *kind, struct error *e);

/* Print a file of one kind each. */
void option_manual(FILE *to, const struct option_program *program);
void option_manual_conf(FILE *to, const struct option_program *program);
void option_manual_conf_head(FILE *to, const struct option_program *program);
void option_manual_conf_tail(FILE *to, const struct option_program *program);
void option_bash(FILE *to, const struct option_program *program);
void option_zsh(FILE *to, const struct option_program *program);
void option_sample(FILE *to, const struct option_program *program);

#endif
