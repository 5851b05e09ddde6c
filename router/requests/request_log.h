/* request_log.h - The line that each request leaves in the log.
 *
 *     request-end request=3f9a... model=tiny tenant=we.. choices=1 prompt=12
 *         tokens=64 queue_ms=0.2 first_ms=5.1 total_ms=71.9 rate=943.1 moves=0
 *         worker=w1 end=length
 *     request-refused request=3f9a... status=RESOURCE_EXHAUSTED why="..."
 *
 * It is written at level info when the call has ended and all choices have, or
 * when the request fails.  Counts are sums over the choices, queue_ms and
 * total_ms the longest, first_ms the first.  rate is in tokens per second after
 * the first token.  tenant is cut as log_name() does.
 *
 * Threading: the core's thread only.  Memory: none. */
#ifndef ROUTER_REQUESTS_REQUEST_LOG_H
#define ROUTER_REQUESTS_REQUEST_LOG_H

#include "router/requests/request.h"

/* Logs the end of request, once.  e: why it failed; NULL: its choices show how
 * it ended. */
void request_log_end(const struct requests *r, struct request *request,
                     const struct error *e);

/* Logs a refusal.  id: 16 bytes of a request that may not exist, or fewer of a
 * malformed one. */
void request_log_refused(const uint8_t *id, size_t n, const struct error *e);

#endif
