/* leases.h - Kept sequences: their leases, and how they give way.
 *
 * A lease (keep_ms) is a promise to try.  The ids of a kept sequence stay at
 * the router until the lease ends; its memory at the worker may go earlier:
 *
 *     NONE --its end--> HELD --memory is asked for--> LAPSING
 *                        | |                             | receipt
 *                        | +--its worker is lost--> LAPSED
 *                        v                             v
 *                       OVER  <--continued, removed, the lease ends
 *
 * A sequence that lapsed is continued like any other.  The continuation is
 * computed from its ids, with the same tokens, at any place, and what it
 * restores of the prefix index shows in its figures (n_cached).  Ranges are
 * removed of HELD ones only.
 *
 * Leases give way, one at a time:
 *
 *   - to the first request of a queue that waits for room, if the place of the
 *     lease could ever hold it: first leases of its tenant, then the oldest;
 *   - to newer ones of the same tenant, past options.kept (--kept) or the quota
 *     of the tenant (router/schedule/quota.h), and to its new requests past the
 *     quota;
 *   - to new requests, past max_requests or the memory for requests: those that
 *     lapsed, the oldest first.
 *
 * The next one is asked for when the ledger shows the room of the last one.
 *
 * Threading: the core's thread only.  Memory: part of the choice.  Cost: a walk
 * over the leases, per run of a queue whose first request waits. */
#ifndef ROUTER_REQUESTS_LEASES_H
#define ROUTER_REQUESTS_LEASES_H

#include "router/requests/request.h"
#include "router/schedule/overload.h"

/* Begins the lease of choice, which has just ended and is kept. */
void lease_begin(struct requests *r, struct choice *choice);

/* Takes in that the worker of choice has its memory no longer.  The lease ends,
 * unless choice lapses. */
void lease_ungranted(struct requests *r, struct choice *choice);

/* Ends the lease of choice: with its memory, if that is being asked for.  A
 * no-op without a lease.  Call choice_settle() afterwards. */
void lease_end(struct requests *r, struct choice *choice);

/* Lets choice lapse when its worker, which is lost or drained, has its memory
 * no longer.  A no-op if it has no lease or its memory is being asked for. */
void lease_loses(struct choice *choice);

/* Another request has the ids of choice, which lapsed or is about to. */
void lease_consumed(struct requests *r, struct choice *choice);

/* Takes in the snapshot of the receipt for choice, by which its memory is
 * room. */
void lease_receipt(struct choice *choice, uint64_t snapshot);

/* Lets a lease give way to e, the first of its queue, which waits for room. */
void leases_pressed(struct requests *r, const struct queue_entry *e);

/* Checks that n choices like a fit the quota of their tenant; leases of it give
 * way if the choices fit then.  Returns the status of quota_check(). */
MUST_CHECK enum status leases_check_quota(struct requests *r,
                                          const struct arrival *a, uint32_t n,
                                          uint32_t *retry_ms, struct error *e);

/* Returns true if a lease could give way to the first of the queue of m, which
 * waits for room, for auditors. */
bool leases_owed(const struct requests *r, const struct model *m);

/* Ends the oldest lease that lapsed.  Returns false if there is none. */
bool leases_shed(struct requests *r);

#endif
