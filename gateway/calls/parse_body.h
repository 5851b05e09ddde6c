/* parse_body.h - From the body of an exchange to a request of the API.
 *
 * A long body is parsed on a thread, so that streams do not pause meanwhile.
 *
 * Threading: one thread calls.  Memory: a body that is parsed on a thread is
 * taken from its exchange.  Limits: SERVICE_PARSE_BYTES, and the budget of the
 * HTTP server. */
#ifndef GATEWAY_CALLS_PARSE_BODY_H
#define GATEWAY_CALLS_PARSE_BODY_H

#include "gateway/calls/service.h"
#include "gateway/openai/request_parse.h"

/* Serves a request, which it takes, for the exchange x. */
typedef void parse_then_fn(struct service *c, struct http_exchange *x,
                           struct tenant *tenant, struct openai_request **r);

/* Parses the body of x by `parse` and calls `then`, now or later.  Answers x
 * itself if the body is wrong.  Does neither if the client goes first. */
void parse_body(struct service *c, struct http_exchange *x,
                struct tenant *tenant, openai_parse_fn *parse,
                parse_then_fn *then);

#endif
