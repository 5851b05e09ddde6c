/* removal.h - Cancel and RemoveSequence, legal in every state.
 *
 *     ENCODING, WAITING   ended here, a receipt of zeros, QUEUED
 *     SUBMITTED..DECODE   ENDING: the worker is told, its receipt is passed on
 *     ENDING              one more waits for the same receipt
 *     ENDED, not known    a receipt of zeros, FINISHED or UNKNOWN
 *     ENDED, kept         RemoveSequence goes to the worker that keeps it
 *
 * Any session of a client may name any request: request_id is 128 random
 * bits that its client made and nobody else is told, so whoever knows it may
 * end it (a user's second connection, a supervisor).
 *
 * Threading: the core's.  Memory: a waiter on the heap, at most
 * RECEIPT_WAITERS_MAX a request. */
#ifndef ROUTER_REMOVAL_H
#define ROUTER_REMOVAL_H

#include "router/requests.h"

struct waiter {
    struct pending call;
    struct list of_request;
};

/* A call of Cancel or RemoveSequence (remove) by p. */
void removal_called(struct router_core *r, struct router_peer *p, uint64_t call,
                    const Sluice__V1__SequenceRef *sequence, bool remove,
                    Sluice__V1__CancelReason reason);

/* The router's own wish, nobody waits for a receipt. */
void removal_wanted(struct router_core *r, struct request *q,
                    Sluice__V1__CancelReason reason);

/* Send what could not be sent before. */
void removals_pump(struct router_core *r, struct worker *w);

/* The worker's receipt came. */
void removal_answered(struct router_core *r, struct request *q,
                      const Sluice__V1__Receipt *receipt);

/* The worker that was to answer is lost, or answered with an error: its
 * memory went with its session, so the router writes the receipt, of zeros. */
void removal_answer_self(struct router_core *r, struct request *q);

void waiter_free(struct router_core *r, struct waiter *x);

#endif
