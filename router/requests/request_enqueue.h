/* request_enqueue.h - a request whose prompt is known joins the queue.
 *
 * Threading: the core's. */
#ifndef ROUTER_REQUESTS_REQUEST_ENQUEUE_H
#define ROUTER_REQUESTS_REQUEST_ENQUEUE_H

#include "router/requests/request.h"

struct requests;

/* Checks the ids against the vocabulary, the lengths against the context
 * (filling in max_tokens where the client named none), the pools and the
 * length of the queue; then puts the choices that were not cancelled meanwhile
 * into the queue.  If a check fails, or the queue has no room for all of them,
 * the call is refused and the request may be gone. */
void request_enqueue(struct requests *r, struct request *request);

#endif
