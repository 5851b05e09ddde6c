/* log.h - what happened, one line each: a stable event name and key=value.
 *
 *     2026-11-21T02:07:01.123Z warn worker-lost worker=w3 silent_ms=1510
 *
 * Nothing that a peer, a user or a model said goes in unescaped: the whole
 * line is escaped on its way out (log_escape()), so a value may be passed as
 * it is, with %s and %.*s.  Whoever needs spaces in a value quotes it.
 *
 * Threading: any thread; a line is written whole.  Limits: LOG_LINE bytes,
 * the rest is cut.  A level that is off costs one comparison. */
#ifndef COMMON_BASE_LOG_H
#define COMMON_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

#define LOG_LINE 1024

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_OFF };

/* The line without time and newline, escaped. */
typedef void log_sink_fn(void *arg, enum log_level level, const char *line);

/* LOG_WARN and standard error until said otherwise; sink NULL: standard
 * error.  Call before threads start. */
void log_setup(enum log_level level, log_sink_fn *sink, void *arg);

/* "debug", "info", "warn", "error", "off"; false for any other word. */
bool log_level_parse(const char *word, enum log_level *level);

extern enum log_level log_threshold;

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

/* Printable ASCII except backslash as it is, UTF-8 beyond C1 as it is, all
 * other bytes as \xHH.  Always ends out with a NUL; returns the bytes before
 * it.  cap >= 1; what does not fit is cut at a whole character. */
size_t log_escape(char *out, size_t cap, const char *in, size_t n);

#endif
