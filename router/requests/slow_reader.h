/* slow_reader.h - Cancels calls whose client does not read.
 *
 * Threading: the core's thread only.  Memory: none of its own.  Limits:
 * SLOW_READER_MS. */
#ifndef ROUTER_REQUESTS_SLOW_READER_H
#define ROUTER_REQUESTS_SLOW_READER_H

#include "router/requests/requests.h"

/* Cancels the calls of p for which output was ready, and none was taken, for
 * SLOW_READER_MS.  Arms the timer of p for the next call that may reach that
 * time. */
void slow_reader_check(struct requests *r, struct router_peer *p);

#endif
