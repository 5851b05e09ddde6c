/* route_generate.c - The routes that generate text. */
#include "gateway/calls/generation.h"
#include "gateway/calls/parse_body.h"
#include "gateway/calls/route_handlers.h"
#include "gateway/calls/tokenize.h"

void route_generate(struct service *c, struct http_exchange *x,
                    struct tenant *tenant)
{
    const struct dialect *d = route_find(&c->routes, http_path(x))->dialect;

    parse_body(c, x, tenant, d->parse,
               d->counted != NULL ? tokenize_begin : generation_begin);
}
