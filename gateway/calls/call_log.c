#include "gateway/calls/call_log.h"

#include <stdio.h>

#include "common/base/log.h"
#include "gateway/calls/route_table.h"

static const char *route_name(enum gateway_route route)
{
    static const char *const names[] = {
#define X(name, label) label,
        GATEWAY_ROUTES(X)
#undef X
    };

    return names[route];
}

static const char *method_name(enum http_method method)
{
    static const char *const names[] = {
        [HTTP_GET] = "GET",     [HTTP_HEAD] = "HEAD",
        [HTTP_POST] = "POST",   [HTTP_OPTIONS] = "OPTIONS",
        [HTTP_OTHER] = "OTHER",
    };

    return names[method];
}

#define LINE_BYTES (3 * LOG_NAME_TEXT)

/* Names come from requests; as words they cannot forge a field. */
static void write_line(const struct call_line *l, char out[LINE_BYTES])
{
    char tenant[LOG_NAME_TEXT], model[LOG_NAME_TEXT];

    log_name(tenant, l->tenant);
    log_name(model, l->model);
    snprintf(out, LINE_BYTES,
             "method=%s route=%s status=%d client=%s tenant=%s model=%s "
             "request=%s",
             method_name(l->method), route_name(l->route), l->status, l->client,
             tenant, model, l->id);
}

bool call_log_wants(enum gateway_route route, int status)
{
    return route_is_public(route) || log_wants_request(status >= 400);
}

void call_log_answer(const struct call_line *l)
{
    char line[LINE_BYTES];

    write_line(l, line);
    if (route_is_public(l->route)) {
        log_debug("http-request", "%s", line);
    } else {
        log_info("http-request", "%s", line);
    }
}

void call_log_generation(const struct call_line *l, const char *figures)
{
    char line[LINE_BYTES];

    write_line(l, line);
    log_info("http-request", "%s %s", line, figures);
}
