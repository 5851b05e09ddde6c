/* route_health.c - /health and /ready. */
#include "gateway/calls/respond.h"
#include "gateway/calls/route_handlers.h"

void route_health(struct service *c, struct http_exchange *x,
                  struct tenant *tenant)
{
    struct json_out body = {0};

    (void)tenant;
    json_out_put(&body, "{\"status\":\"ok\"}");
    respond_json(c, x, 200, &body);
}

/* The answer names no model: this route needs no key. */
void route_ready(struct service *c, struct http_exchange *x,
                 struct tenant *tenant)
{
    bool ready = service_is_ready(c);
    struct json_out body = {0};

    (void)tenant;
    json_out_put(&body, ready         ? "{\"status\":\"ready\"}"
                        : c->draining ? "{\"status\":\"stopping\"}"
                        : upstream_up(c->upstream)
                            ? "{\"status\":\"no model has a worker\"}"
                            : "{\"status\":\"no router\"}");
    respond_json(c, x, ready ? 200 : 503, &body);
}
