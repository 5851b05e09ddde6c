/* continuation.h - Requests that continue a kept sequence.
 *
 * GenerateRequest.continue_from names a sequence that its worker keeps
 * (keep_ms).  The prompt of the new request is
 *
 *     prompt of the kept sequence ++ its tokens ++ prompt of the call
 *
 * and `spans` in its Submit has which of these positions were generated.  The
 * first choice of the request takes over the memory of the kept sequence.  The
 * others that are submitted before the worker has accepted the first one name
 * the kept sequence too, and share that memory as twins of the first.
 *
 *     Generate --claim--> waits for the keeper alone --Submit{continue_from}-->
 *                   |                                   | OK: the kept one ends
 *                   |                                   | NOT_FOUND: from ids
 *                   +--the keeper is lost or drains, the lease ends,
 *                   |  or no room can come there: waits for any place, from ids
 *                   +--the sequence lapsed (leases.h): the same
 *
 * A claim belongs to one request; for others the sequence is NOT_FOUND, as it
 * is for other tenants.  A claim is returned if the request ends before its
 * Submit is accepted.  The lease of the kept sequence runs on meanwhile.
 *
 * The need of the new sequence is its whole length, without what the kept one
 * holds.  Subtracting that would not be safe: blocks of the kept sequence may
 * be shared, so that their number gives no number of free pages, and a lease
 * that ends while the Submit is under way would leave a need that is too small.
 * The worker returns the part of the grant that the taken-over memory covers
 * with its next ledger.  If the keeper has no room beside the kept sequence and
 * runs nothing that could make room, the kept sequence is removed and the new
 * one starts from its ids, of which the prefix index still has a part.
 *
 * The draws of the new sequence go on from those of the kept one (draw_index
 * and draw_choice of Sampling), unless the call has these fields.  With the
 * same seed, two halves are thus equal to one long run.  Where a range was
 * removed, the tokens behind it are not counted.  A worker of minor version
 * below WIRE_DRAWS_MINOR cannot do so.  If the first grant goes to one, the
 * draws begin at index 0; if not, the sequence never moves to one.
 *
 * The claim is not part of what a resumed request brings (resume.h): a call
 * that is resumed after its Submit was accepted, or at another router, is
 * NOT_FOUND. Its client then sends the whole prompt.
 *
 * Threading: the core's thread only.  Memory: a copy of the kept ids per
 * request.  Limits: SPANS_MAX runs. */
#ifndef ROUTER_REQUESTS_CONTINUATION_H
#define ROUTER_REQUESTS_CONTINUATION_H

#include "router/requests/request.h"

/* Finds the kept sequence that m continues; *kept is NULL if m continues none.
 * Returns ST_NOT_FOUND if it is not kept, or is of another tenant or claimed,
 * ST_FAILED_PRECONDITION if it is still running, ST_UNAVAILABLE while a range
 * of it is being removed, and ST_INVALID_ARGUMENT if its model is not m's. */
MUST_CHECK enum status continuation_find(const struct requests *r,
                                         const struct model *model,
                                         const Sluice__V1__GenerateRequest *m,
                                         struct choice **kept, struct error *e);

/* Copies the ids and spans of kept to request, and claims kept for it; one that
 * lapsed (leases.h) ends, and may be gone.  Returns false without memory; kept
 * is then not claimed. */
MUST_CHECK bool continuation_claim(struct requests *r, struct request *request,
                                   struct choice *kept);

/* Puts the kept ids before the prompt, which is complete now.  Returns
 * ST_RESOURCE_EXHAUSTED without memory, and
 * ST_INVALID_ARGUMENT if that makes more than SPANS_MAX runs. */
MUST_CHECK enum status continuation_join(struct request *request,
                                         struct error *e);

/* Sets the keeper of choice, which is about to wait, and the version that its
 * draws need. */
void continuation_enqueue(struct choice *choice);

/* Decides at the first grant of request, to w, whether its draws go on from
 * those of the kept sequence. */
void continuation_granted(struct request *request, const struct worker *w);

/* Returns the claim of request, whose first choice has ended or goes on from
 * its ids. */
void continuation_drop(struct request *request);

/* Returns the claim on kept, which is no longer kept.  A no-op if nothing has
 * claimed it. */
void continuation_lost(struct requests *r, struct choice *kept);

/* Ends the kept sequence: the Submit of choice was accepted, or refused with
 * `why`. */
void continuation_accepted(struct requests *r, struct choice *choice);
void continuation_refused(struct requests *r, struct choice *choice,
                          enum status why);

/* Removes the kept sequence if its keeper has no place for choice now and
 * nothing that runs there can make room. */
void continuation_crowded(struct requests *r, struct choice *choice);

/* Returns all claims on sequences of w, which begins to drain. */
void continuation_drained(struct requests *r, struct worker *w);

#endif
