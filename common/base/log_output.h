/* log_output.h - Where log lines go: standard error, or a file.
 *
 * A log never stalls a program.  A line that the reader of a pipe or terminal
 * has no room for is dropped, and `log-dropped lines=N` follows when there is
 * room again.  A file is opened again on SIGHUP, so that logrotate may move it.
 *
 * Threading: log_emit() any thread; the others before threads start, except
 * log_reopen(), which any thread may call.  Memory: the options' file name is
 * borrowed for the life of the program. */
#ifndef COMMON_BASE_LOG_OUTPUT_H
#define COMMON_BASE_LOG_OUTPUT_H

#include <stddef.h>

#include "common/base/log.h"
#include "common/base/status.h"

/* Rows for the table of a daemon's options. */
#define LOG_OPTIONS(X)                                              \
    X(log_level, STRING, "LEVEL", "info",                           \
      "log level: debug, info, warn, error or off", 0, 0)           \
    X(log_file, STRING, "FILE", NULL,                               \
      "file to append the log to; SIGHUP opens it again (default: " \
      "standard error)",                                            \
      0, 0)

/* One more row, for a daemon that logs requests. */
#define LOG_REQUEST_OPTIONS(X)              \
    X(log_requests, STRING, "WHICH", "all", \
      "requests to log at level info: all, failed or none", 0, 0)

struct log_options {
    const char *level;    /* --log-level */
    const char *file;     /* --log-file; NULL: standard error */
    const char *requests; /* --log-requests; NULL: all */
};

/* Sets the level, the requests to log and the output.  Creates the file with
 * mode 0640.  Returns ST_INVALID_ARGUMENT if a word is unknown, and
 * ST_UNAVAILABLE if the file cannot be opened. */
MUST_CHECK enum status log_start(const struct log_options *o, struct error *e);

/* Opens the file again, and logs `log-reopened`.  If that fails, the log stays
 * in the old file and gets a line `log-kept`.  Standard error stays as it
 * is. */
void log_reopen(void);

/* Writes text[0..n), whole lines, or drops it. */
void log_emit(const char *text, size_t n);

#endif
