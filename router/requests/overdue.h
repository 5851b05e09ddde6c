/* overdue.h - Requests that wait in the queue for longer than they may.
 *
 * A request without a deadline waits for its first grant for at most
 * options.queue_timeout_us, then it is refused: RESOURCE_EXHAUSTED, with the
 * time after which to retry.  While its model has no place, the time of
 * models.h counts, and this one begins anew.  A deadline takes the place of the
 * option: the call itself ends at it.
 *
 *     queued --first grant of a choice--> runs, and is never refused
 *        |
 *        +--------queue_timeout_us------> refused
 *
 * A request that its client resumes was admitted before, and has no limit here.
 *
 * Threading: the core's thread only.  Memory: part of the request.  Cost: O(1)
 * for each request: all have the same time, so they end in order of arrival. */
#ifndef ROUTER_REQUESTS_OVERDUE_H
#define ROUTER_REQUESTS_OVERDUE_H

#include "router/requests/request.h"

/* Prepares r->waits and its event. */
void overdue_init(struct requests *r);

/* Starts the time of request, whose choices have been queued.
 * request_granted() ends it. */
void overdue_enqueued(struct requests *r, struct request *request);

/* Returns for how long the one that is most overdue has waited too long; 0:
 * none has.  For auditors. */
int64_t overdue_late_us(const struct requests *r);

#endif
