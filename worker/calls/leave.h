/* leave.h - How a worker leaves without a loss: it notifies the router, which
 * grants it nothing more and replies when no sequence is left here.
 *
 *     worker_leave() --Leave--> the router moves what outlives the grace
 *                    <--End---  nothing is left here: the worker stops
 *
 * The worker stops in any case: without a session (the router has then queued
 * its sequences again), when the session ends, on a refusal, without an answer
 * LEAVE_US after the grace, and on a second request.
 *
 * Threading: the core's.  Memory: the caller's. */
#ifndef WORKER_CALLS_LEAVE_H
#define WORKER_CALLS_LEAVE_H

#include "proto/registry.pb-c.h"
#include "worker/base/base.h"
#include "worker/sequence/sequence_table.h"

struct leave {
    struct worker_base *base;
    const struct sequence_table *table; /* for the log */
    bool wanted, asked, answered;
    uint32_t grace_ms;
    int64_t end_us; /* the worker stops then, answered or not */
};

/* Makes a worker that stays.  Both pointers are borrowed. */
void leave_init(struct leave *l, struct worker_base *b,
                const struct sequence_table *table);

/* Begins to leave; a second time, the worker stops at once. */
void leave_begin(struct leave *l, uint32_t grace_ms);

/* Stops the worker if its time is over.  Returns true if so. */
bool leave_tick(struct leave *l, int64_t now_us);

/* Sends Leave once, if the worker leaves. */
void leave_send(struct leave *l);

/* Takes the answer.  reply: NULL if the router refused, for the reason in e. */
void leave_answered(struct leave *l, enum status status,
                    const Sluice__V1__DrainReply *reply, const struct error *e);

/* Returns when leave_tick() is due. */
int64_t leave_due(const struct leave *l);

#endif
