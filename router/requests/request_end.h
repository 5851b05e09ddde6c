/* request_end.h - all choices of a request end together.
 *
 * Threading: the core's. */
#ifndef ROUTER_REQUESTS_REQUEST_END_H
#define ROUTER_REQUESTS_REQUEST_END_H

#include "router/requests/request.h"

struct requests;

/* Refuses the call before any choice was in the queue.  The request may be
 * gone afterwards. */
void request_refuse(struct requests *r, struct request *request,
                    const struct error *e, uint32_t retry_after_ms);

/* The call is closed: cancels its open choices and forgets what they owe.  The
 * request may be gone afterwards. */
void request_cancel(struct requests *r, struct request *request,
                    Sluice__V1__CancelReason reason);

/* The call is closed and another of its id wants to begin: removes what is
 * kept.  The request may be gone afterwards. */
void request_release(struct requests *r, struct request *request);

/* The router itself stops: frees every request.  Receipts that somebody waits
 * for end by the status in e, the calls with their sessions: a client that can
 * resume sees that it is not the request that failed. */
void requests_abandon(struct requests *r, const struct error *e);

#endif
