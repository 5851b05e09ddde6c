/* option_file.h - The text of a configuration file, as names and values.
 *
 *     # a comment
 *     max-rows = 64          # a comment after a blank
 *     name     = "my worker" # quotes keep blanks, # and "" for empty text
 *     model    = a=/srv/a
 *     model    = b=/srv/b    # a second item of a list
 *
 * One option a line.  Names are those of the command line without dashes in
 * front; '_' and '-' are equal.  In quotes, \" \\ \n and \t stand for a quote,
 * a backslash, a line feed and a tab.  Outside quotes, every character stands
 * for itself.  The text is UTF-8; lines end in LF or CR LF.
 *
 * The parser checks the form only.  option_sources checks the names.
 *
 * Threading: none.  Memory: a file owns a copy of the text, into which the
 * entries point.  Limits: OPTION_FILE_BYTES_MAX, OPTION_LINE_BYTES_MAX. */
#ifndef COMMON_BASE_OPTION_FILE_H
#define COMMON_BASE_OPTION_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/base/status.h"

#define OPTION_FILE_BYTES_MAX 262144
#define OPTION_LINE_BYTES_MAX 8192

struct option_entry {
    const char *name, *value;
    unsigned line; /* from 1 */
};

struct option_file {
    char *text;                   /* owned */
    struct option_entry *entries; /* [n], in the order of the file */
    size_t n;
};

/* Parses bytes[0..n).  path names the file in errors.  Returns
 * ST_INVALID_ARGUMENT with file, line, the fault and a valid form; *f is empty
 * then. */
MUST_CHECK enum status option_file_parse(struct option_file *f,
                                         const char *path, const void *bytes,
                                         size_t n, struct error *e);

/* Reads and parses a file.  Returns ST_NOT_FOUND if there is none,
 * ST_UNAVAILABLE if it cannot be read, and errors as option_file_parse()
 * does. */
MUST_CHECK enum status option_file_read(struct option_file *f, const char *path,
                                        struct error *e);

/* Prints text as the value of a line: in quotes if it needs them.  Returns
 * false and prints nothing if no value can hold it. */
bool option_file_print_value(FILE *to, const char *text);

/* Frees the text and the entries. */
void option_file_fini(struct option_file *f);

#endif
