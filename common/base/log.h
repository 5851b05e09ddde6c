/* log.h - Log of events, one line each: a stable event name and key=value.
 *
 *     2026-11-21T02:07:01.123Z warn worker-lost worker=w3 silent_ms=1510
 *
 * Bytes from a peer, a user or a model never reach the log unescaped:
 * log_escape() escapes the whole line before it is written.  Callers pass
 * such values with %s and %.*s, and quote values that may contain spaces.
 *
 * Threading: any thread; a line is written whole.  Limits: LOG_LINE bytes,
 * longer lines are cut.  A disabled level costs one comparison.  A line
 * allocates nothing and waits for nothing. */
#ifndef COMMON_BASE_LOG_H
#define COMMON_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/limits.h"

#define LOG_LINE 1024

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_OFF };

/* The requests that leave a line at LOG_INFO when they end. */
enum log_requests { LOG_REQUESTS_ALL, LOG_REQUESTS_FAILED, LOG_REQUESTS_NONE };

/* Receives one line, escaped, without time and newline. */
typedef void log_sink_fn(void *arg, enum log_level level, const char *line);

/* Sets the level and the sink.  The defaults are LOG_WARN and the output of
 * log_output.h; sink NULL also means that output.  Call before threads start.
 */
void log_setup(enum log_level level, log_sink_fn *sink, void *arg);

/* Parses "debug", "info", "warn", "error" or "off".  Returns false for any
 * other word. */
bool log_level_parse(const char *word, enum log_level *level);

extern enum log_level log_threshold;
extern enum log_requests log_requests; /* default: LOG_REQUESTS_ALL */

/* Returns whether the end of a request is logged. */
static inline bool log_wants_request(bool failed)
{
    return LOG_INFO >= log_threshold &&
           (failed ? log_requests != LOG_REQUESTS_NONE
                   : log_requests == LOG_REQUESTS_ALL);
}

void log_write(enum log_level level, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#define log_at(level, ...)                 \
    do {                                   \
        if ((level) >= log_threshold) {    \
            log_write(level, __VA_ARGS__); \
        }                                  \
    } while (0)

#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)
#define log_info(...)  log_at(LOG_INFO, __VA_ARGS__)
#define log_warn(...)  log_at(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)

/* A line with its time, level and newline. */
#define LOG_TEXT (LOG_LINE + 48)

/* Adds time, level and newline to a line.  Returns the length. */
size_t log_format(char out[LOG_TEXT], enum log_level level, const char *line);

/* Bytes of the longest name in a log, a model's, with its NUL. */
#define LOG_NAME_TEXT (MODEL_NAME_MAX + 1)

/* Name of requests without a tenant, in logs, metrics and listings. */
#define TENANT_DEFAULT "default"

/* Writes the name of a tenant or a model as logs show it: whole, but bytes that
 * could forge a field become '_'.  "-" if name is NULL or empty. */
void log_name(char out[LOG_NAME_TEXT], const char *name);

/* Writes name[0..n) as log_name() does. */
void log_name_bytes(char out[LOG_NAME_TEXT], const void *name, size_t n);

/* Escapes in[0..n) into out.  Keeps printable ASCII except backslash, and
 * UTF-8 beyond C1; writes all other bytes as \xHH.  Cuts at a whole character
 * what does not fit.  Always ends out with a NUL and returns the bytes before
 * the NUL.  cap >= 1. */
size_t log_escape(char *out, size_t cap, const char *in, size_t n);

#endif
