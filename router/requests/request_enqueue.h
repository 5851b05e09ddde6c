/* request_enqueue.h - Enqueues a request once its prompt is encoded.
 *
 * Threading: the core's thread only.  Memory: none of its own. */
#ifndef ROUTER_REQUESTS_REQUEST_ENQUEUE_H
#define ROUTER_REQUESTS_REQUEST_ENQUEUE_H

#include "router/requests/request.h"

/* Checks the ids against the vocabulary, the lengths against the context, the
 * need against the pools, and the queue for room.  Sets max_tokens if the
 * client sent none.  Then adds all choices that were not cancelled meanwhile to
 * the queue.  If a check fails, the call is refused and the request may be
 * gone. */
void request_enqueue(struct requests *r, struct request *request);

#endif
