/* request_end.h - Ends all choices of a request together.
 *
 * Threading: the core's thread only.  Memory: frees requests that are over. */
#ifndef ROUTER_REQUESTS_REQUEST_END_H
#define ROUTER_REQUESTS_REQUEST_END_H

#include "router/requests/request.h"

/* Refuses the call of request before any of its choices was in the queue.  The
 * request may be gone afterwards. */
void request_refuse(struct requests *r, struct request *request,
                    const struct error *e, uint32_t retry_after_ms);

/* Cancels the open choices of request, whose call is closed, and drops their
 * unsent output.  The request may be gone afterwards. */
void request_cancel(struct requests *r, struct request *request,
                    Sluice__V1__CancelReason reason);

/* Removes the kept choices of request, whose call is closed, because a new call
 * with its id wants to begin.  The request may be gone afterwards. */
void request_release(struct requests *r, struct request *request);

/* Frees every request because the router stops.  Callers that wait for receipts
 * get the status in e.  Calls end with their sessions and get no status: a
 * client that can resume sees that the request itself did not fail. */
void requests_abandon(struct requests *r, const struct error *e);

#endif
