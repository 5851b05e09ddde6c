/* removal.h - Cancel and RemoveSequence, legal in every state, of one choice or
 * of all choices of a request.
 *
 * The effect on a choice by its state:
 *
 *     ENCODING, WAITING   ended here, QUEUED, nothing was held
 *     SUBMITTED..DECODE   ENDING: sent to the worker, receipt awaited
 *     ENDING              the same receipt is awaited
 *     ENDED, unknown      FINISHED or UNKNOWN, nothing was held
 *     ENDED, kept         RemoveSequence goes to the worker that keeps it
 *     ENDED, leaving      the receipt for its stop string is awaited
 *
 * The caller gets one answer, when all choices that it named are released:
 *
 *   - tokens, blocks, slots and checkpoints: the sum over these choices;
 *   - time: the longest;
 *   - state: the most advanced (decode, prefill, queued, kept, finished,
 *     unknown);
 *   - the worker, its newest snapshot and what each of its stages has freed:
 *     if one worker held all that was held.
 *
 * Any session of a client may name any request.  A request_id is 128 random
 * bits from the client, and the router gives it to no other client.  Any
 * holder of the id may end the request: a second connection of the user, or a
 * supervisor.
 *
 * Threading: the core's thread only.  Memory: one heap block per waiter.
 * Limits: RECEIPT_WAITERS_MAX waiters per choice, and as many for the whole
 * request. */
#ifndef ROUTER_REQUESTS_REMOVAL_H
#define ROUTER_REQUESTS_REMOVAL_H

#include "router/requests/request.h"

/* Handles a call of Cancel, or RemoveSequence (remove), by p. sequence has been
 * checked for a request_id of the right length. */
void removal_called(struct requests *r, struct router_peer *p, uint64_t call,
                    const Sluice__V1__SequenceRef *sequence, bool remove,
                    Sluice__V1__CancelReason reason);

/* Cancels choice on behalf of the router; no caller waits for the receipt.
 * No-op from ENDING on. */
void removal_wanted(struct requests *r, struct choice *choice,
                    Sluice__V1__CancelReason reason);

/* Removes choice at its worker if it is kept and not being removed. */
void removal_release(struct requests *r, struct choice *choice);

/* Ends choice, which a worker runs, because a stop string was found.  Its
 * client gets the end at once, and the worker a Cancel. */
void removal_stopped(struct requests *r, struct choice *choice);

/* Asks the worker to release choice, so that it can continue elsewhere; a kept
 * choice is removed for good.  No removal of choice may be under way. */
void removal_moving(struct requests *r, struct choice *choice);

/* Sends the removals of w that its link had no room for. */
void removals_pump(struct requests *r, struct worker *w);

/* Handles the receipt of choice's worker; it has been checked. */
void removal_answered(struct requests *r, struct choice *choice,
                      const Sluice__V1__Receipt *receipt);

/* Answers for a worker that is lost, or that answered with an error.  Its
 * memory went with its session, so the router writes a receipt of zeros. */
void removal_answer_self(struct requests *r, struct choice *choice);

/* Fails all callers that wait for receipts of request with e. */
void waiters_fail(struct requests *r, struct request *request,
                  const struct error *e);

#endif
