/* slow_reader.h - calls whose client does not read.
 *
 * Threading: the core's. */
#ifndef ROUTER_REQUESTS_SLOW_READER_H
#define ROUTER_REQUESTS_SLOW_READER_H

#include "router/requests/requests.h"

struct requests;

/* Cancels the calls of p of which something was ready, and nothing was taken,
 * for SLOW_READER_MS; arms p->slow for the next. */
void slow_reader_look(struct requests *r, struct router_peer *p);

#endif
