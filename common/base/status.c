#include "common/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *status_text(enum status code)
{
    switch (code) {
#define X(name, number, text) \
    case ST_##name:           \
        return text;
        STATUS_MAP(X)
#undef X
    case ST_NR:
        break;
    }
    return "unknown status";
}

const char *status_name(enum status code)
{
    switch (code) {
#define X(name, number, text) \
    case ST_##name:           \
        return #name;
        STATUS_MAP(X)
#undef X
    case ST_NR:
        break;
    }
    return "UNKNOWN";
}

enum status error_set(struct error *e, enum status code, const char *fmt, ...)
{
    va_list ap;

    if (e == NULL) {
        return code;
    }
    e->code = code;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    return code;
}

/* A text that is too long is cut at its end, so the outermost context stays. */
enum status error_wrap(struct error *e, const char *fmt, ...)
{
    char inner[ERROR_TEXT];
    va_list ap;
    size_t n;

    if (e == NULL) {
        return ST_UNKNOWN;
    }
    memcpy(inner, e->text, sizeof inner);
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    n = strlen(e->text);
    snprintf(e->text + n, sizeof e->text - n, ": %s", inner);
    return e->code;
}
