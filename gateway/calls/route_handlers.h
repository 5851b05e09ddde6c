/* route_handlers.h - One handler for each route of ROUTES (route_table.h), and
 * one for the routes of all dialects.
 *
 * A handler answers the exchange, now or later.
 *
 * Threading: one thread.  Memory: none. */
#ifndef GATEWAY_CALLS_ROUTE_HANDLERS_H
#define GATEWAY_CALLS_ROUTE_HANDLERS_H

#include "gateway/calls/route_table.h"
#include "gateway/calls/service.h"

typedef void recv_fn(struct service *c, struct http_exchange *x,
                     struct tenant *tenant);

#define X(path, method, handler, public, label, help) recv_fn handler;
ROUTES(X)
#undef X

recv_fn route_generate;

#endif
