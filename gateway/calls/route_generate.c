/* route_generate.c - The routes that generate text. */
#include "gateway/calls/generation.h"
#include "gateway/calls/parse_body.h"
#include "gateway/calls/route_handlers.h"

void route_generate(struct service *c, struct http_exchange *x,
                    struct tenant *tenant)
{
    const struct route *r = route_find(&c->routes, http_path(x));

    parse_body(c, x, tenant, r->dialect->parse, generation_begin);
}
