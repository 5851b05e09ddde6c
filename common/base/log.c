#include "common/base/log.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/base/log_output.h"
#include "common/base/utf8.h"

enum log_level log_threshold = LOG_WARN;
enum log_requests log_requests = LOG_REQUESTS_ALL;

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

/* Returns whether the printable character at p may stand in a value without
 * quotes. */
static bool is_word(unsigned char c)
{
    return c != ' ' && c != '"' && c != '=';
}

void log_name(char out[LOG_NAME_TEXT], const char *name)
{
    log_name_bytes(out, name, name != NULL ? strlen(name) : 0);
}

void log_name_bytes(char out[LOG_NAME_TEXT], const void *name, size_t n)
{
    const unsigned char *p = name;
    size_t used = 0;

    for (size_t at = 0; at < n;) {
        size_t length = plain(p + at, n - at);
        bool keep = length > 0 && is_word(p[at]);

        length = keep ? length : 1;
        if (used + length >= LOG_NAME_TEXT) {
            break;
        }
        memcpy(out + used, keep ? (const char *)p + at : "_", length);
        used += length;
        at += length;
    }
    out[used] = '\0';
    if (used == 0) {
        memcpy(out, "-", sizeof "-");
    }
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

size_t log_format(char out[LOG_TEXT], enum log_level level, const char *line)
{
    char stamp[32];
    struct timespec now;
    struct tm day;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &day);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &day);
    return (size_t)snprintf(out, LOG_TEXT, "%s.%03ldZ %s %s\n", stamp,
                            now.tv_nsec / 1000000, level_names[level], line);
}

static void to_output(enum log_level level, const char *line)
{
    char text[LOG_TEXT];

    log_emit(text, log_format(text, level, line));
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
        to_output(level, line);
    }
}
