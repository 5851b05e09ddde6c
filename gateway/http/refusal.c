#include "gateway/http/refusal.h"

#include <stdarg.h>
#include <stdio.h>

bool http_refuse(struct http_refusal *r, int status, const char *fmt, ...)
{
    va_list args;

    r->status = status;
    va_start(args, fmt);
    vsnprintf(r->text, sizeof r->text, fmt, args);
    va_end(args);
    return false;
}
