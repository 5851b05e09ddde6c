#include "gateway/calls/call_log.h"

#include <inttypes.h>

#include "common/base/log.h"
#include "gateway/calls/respond.h"
#include "gateway/calls/route_table.h"

#define CLIENT_GONE 499 /* as nginx logs it; no client receives it */

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

static bool is_public(enum gateway_route route)
{
    for (size_t i = 0; i < ROUTES_N; i++) {
        if (routes[i].label == route) {
            return routes[i].is_public;
        }
    }
    return false;
}

void call_log_answer(enum http_method method, enum gateway_route route,
                     int status)
{
    if (is_public(route)) {
        log_debug("http-request", "method=%s route=%s status=%d",
                  method_name(method), route_name(route), status);
    } else if (log_wants_request(status >= 400)) {
        log_info("http-request", "method=%s route=%s status=%d",
                 method_name(method), route_name(route), status);
    }
}

void call_log_generation(const struct generation *g)
{
    int64_t us = service_now_us(g->service) - g->began_us;
    bool gone = g->status == 0 || g->gone;
    char id[RESPOND_ID_TEXT], part[LOG_NAME_TEXT] = "none";

    if (!log_wants_request(g->failed)) {
        return;
    }
    if (!keys_are_open(g->service->options.keys)) {
        log_name(part, tenant_name(g->tenant));
    }
    respond_id_text(id, g->prompts[0].request_id);
    log_info("http-request",
             "method=POST route=%s status=%d ms=%.1f request=%s tenant=%s "
             "prompt=%" PRIu64 " tokens=%" PRIu64 " stream=%d end=%s",
             route_name(g->route), g->status != 0 ? g->status : CLIENT_GONE,
             (double)us / 1e3, id, part, (uint64_t)g->usage.prompt,
             (uint64_t)g->usage.completion, g->request->stream,
             g->failed ? "failed"
             : gone    ? "gone"
                       : "done");
}
