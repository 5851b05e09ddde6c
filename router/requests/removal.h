/* removal.h - Cancel and RemoveSequence, legal in every state, of one choice
 * or of all.
 *
 * What it means for a choice:
 *
 *     ENCODING, WAITING   ended here, QUEUED, nothing was held
 *     SUBMITTED..DECODE   ENDING: the worker is told, its receipt is awaited
 *     ENDING              the same receipt is awaited
 *     ENDED, not known    FINISHED or UNKNOWN, nothing was held
 *     ENDED, kept         RemoveSequence goes to the worker that keeps it
 *     ENDED, leaving      the receipt that its stop string asked for is awaited
 *
 * The caller is answered once, when all choices it named are through: tokens,
 * blocks, slots and checkpoints summed, the longest time, the most advanced
 * state (decode, prefill, queued, kept, finished, unknown), and the worker
 * with its newest snapshot, and what each of its stages has freed, if all that
 * was held was held by one.
 *
 * Any session of a client may name any request: request_id is 128 random
 * bits that its client made and nobody else is told, so whoever knows it may
 * end it (a user's second connection, a supervisor).
 *
 * Threading: the core's.  Memory: a waiter on the heap, at most
 * RECEIPT_WAITERS_MAX a choice and as many for the whole. */
#ifndef ROUTER_REQUESTS_REMOVAL_H
#define ROUTER_REQUESTS_REMOVAL_H

#include "router/requests/request.h"

struct requests;

/* A call of Cancel or RemoveSequence (remove) by p. */
void removal_called(struct requests *r, struct router_peer *p, uint64_t call,
                    const Sluice__V1__SequenceRef *sequence, bool remove,
                    Sluice__V1__CancelReason reason);

/* The router's own wish, nobody waits for a receipt. */
void removal_wanted(struct requests *r, struct choice *choice,
                    Sluice__V1__CancelReason reason);

/* The same of one that is kept, if it is. */
void removal_release(struct requests *r, struct choice *choice);

/* A stop string is found in choice, which a worker runs: its client has its end
 * at once, the worker is told. */
void removal_stopped(struct requests *r, struct choice *choice);

/* The worker of choice, which nobody removes yet, is to let go of it, for it to
 * go on elsewhere; where it is kept, for good. */
void removal_moving(struct requests *r, struct choice *choice);

/* Send what could not be sent before. */
void removals_pump(struct requests *r, struct worker *w);

/* Can that be the receipt of w?  What the stages of a replica have freed must
 * add up.  A lie is a sentence in e. */
MUST_CHECK enum status removal_check(const struct worker *w,
                                     const Sluice__V1__Receipt *receipt,
                                     struct error *e);

/* The worker's receipt came, and is checked. */
void removal_answered(struct requests *r, struct choice *choice,
                      const Sluice__V1__Receipt *receipt);

/* The worker that was to answer is lost, or answered with an error: its
 * memory went with its session, so the router writes the receipt, of zeros. */
void removal_answer_self(struct requests *r, struct choice *choice);

/* Whoever waits for receipts of request gets a status. */
void waiters_fail(struct requests *r, struct request *request,
                  const struct error *e);

#endif
