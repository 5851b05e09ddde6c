#include "common/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/base/utf8.h"

enum log_level log_threshold = LOG_WARN;

static log_sink_fn *log_sink;
static void *log_arg;

static const char *const level_names[] = {
    [LOG_DEBUG] = "debug", [LOG_INFO] = "info", [LOG_WARN] = "warn",
    [LOG_ERROR] = "error", [LOG_OFF] = "off",
};

void log_setup(enum log_level level, log_sink_fn *sink, void *arg)
{
    log_threshold = level;
    log_sink = sink;
    log_arg = arg;
}

bool log_level_parse(const char *word, enum log_level *level)
{
    for (int i = LOG_DEBUG; i <= LOG_OFF; i++) {
        if (strcmp(word, level_names[i]) == 0) {
            *level = (enum log_level)i;
            return true;
        }
    }
    return false;
}

/* Returns the bytes of the character at p if it may be printed as it is, else
 * 0. */
static size_t plain(const unsigned char *p, size_t n)
{
    size_t length;

    if (p[0] < 0x80) {
        return p[0] >= 0x20 && p[0] != 0x7f && p[0] != '\\';
    }
    length = utf8_length(p, n);
    /* U+0080..U+009F are control characters of some terminals. */
    if (length == 2 && p[0] == 0xc2 && p[1] < 0xa0) {
        return 0;
    }
    return length;
}

size_t log_escape(char *out, size_t cap, const char *in, size_t n)
{
    static const char hex[] = "0123456789abcdef";
    const unsigned char *p = (const unsigned char *)in;
    size_t used = 0;

    for (size_t i = 0; i < n;) {
        size_t keep = plain(p + i, n - i);
        size_t need = keep != 0 ? keep : 4;

        /* Stops before a character that does not fit whole, so the line stays
         * valid UTF-8. */
        if (used + need >= cap) {
            break;
        }
        if (keep != 0) {
            memcpy(out + used, p + i, keep);
            i += keep;
        } else {
            out[used] = '\\';
            out[used + 1] = 'x';
            out[used + 2] = hex[p[i] >> 4];
            out[used + 3] = hex[p[i] & 15];
            i++;
        }
        used += need;
    }
    out[used] = '\0';
    return used;
}

/* One fprintf() per line, so that lines of several threads do not mix. */
static void to_stderr(enum log_level level, const char *line)
{
    char stamp[32];
    struct timespec now;
    struct tm day;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &day);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &day);
    fprintf(stderr, "%s.%03ldZ %s %s\n", stamp, now.tv_nsec / 1000000,
            level_names[level], line);
}

void log_write(enum log_level level, const char *event, const char *fmt, ...)
{
    char raw[LOG_LINE], line[LOG_LINE];
    va_list ap;
    int n = snprintf(raw, sizeof raw, "%s ", event);

    va_start(ap, fmt);
    if (n > 0 && (size_t)n < sizeof raw) {
        vsnprintf(raw + n, sizeof raw - (size_t)n, fmt, ap);
    }
    va_end(ap);
    /* The whole line is escaped, so no caller can forget it. */
    log_escape(line, sizeof line, raw, strlen(raw));
    if (log_sink != NULL) {
        log_sink(log_arg, level, line);
    } else {
        to_stderr(level, line);
    }
}
