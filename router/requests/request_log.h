/* request_log.h - The line that each request leaves in the log.
 *
 *     request-end request=3f9a... client=gateway model=tiny tenant=web
 * choices=1 prompt=12 tokens=64 queue_ms=0.2 first_ms=5.1 total_ms=71.9
 * rate=943.1 moves=0 worker=w1 end=length request-refused request=3f9a...
 * client=gateway model=tiny tenant=web status=RESOURCE_EXHAUSTED why="..."
 *
 * It is written at level info when the call has ended and all choices have, or
 * when the request fails.  Counts are sums over the choices, queue_ms and
 * total_ms the longest, first_ms the first.  rate is in tokens per second after
 * the first token.  A request without a tenant has TENANT_DEFAULT.
 *
 * Threading: the core's thread only.  Memory: none. */
#ifndef ROUTER_REQUESTS_REQUEST_LOG_H
#define ROUTER_REQUESTS_REQUEST_LOG_H

#include "router/requests/request.h"

/* Logs the end of request, once.  e: why it failed; NULL: its choices show how
 * it ended. */
void request_log_end(const struct requests *r, struct request *request,
                     const struct error *e);

/* Logs the refusal of a call of the client, from its message m alone: there is
 * no request. */
void request_log_refused(const char *client,
                         const Sluice__V1__GenerateRequest *m,
                         const struct error *e);

/* Logs the refusal of request. */
void request_log_request_refused(const struct request *request,
                                 const struct error *e);

#endif
