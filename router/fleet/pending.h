/* pending.h - Calls of peers that are answered later.
 *
 * A struct pending is part of the object that answers the call: a request, a
 * wait for a receipt, a text job, a watch, an audit, or a call held for a
 * first worker.  It is open from pending_open() until the owner answers, the
 * caller cancels the call, or the caller's session ends.
 *
 * Threading: the core's.  Memory: the owner's; no call allocates. */
#ifndef ROUTER_FLEET_PENDING_H
#define ROUTER_FLEET_PENDING_H

#include "router/fleet/peers.h"

struct fleet;
struct pending;

/* Reports that the caller has cancelled the call, or (gone) that its session is
 * over.  The call is closed already, so no answer is possible.  room is the
 * argument of pending_open(). */
typedef void pending_dropped_fn(void *room, struct pending *c, bool gone);

struct pending {
    struct table_node by_id;  /* in fleet->calls */
    struct list of_peer;      /* in peer->calls */
    struct router_peer *peer; /* the caller; NULL: not open */
    uint64_t id;              /* the call's number in the caller's session */
    pending_dropped_fn *dropped;
    void *room;
};

/* Initialises *c as a call that is not open. */
void pending_init(struct pending *c);

/* Opens c for call id of p.  Calls dropped(room, c, ...) if the caller cancels
 * the call or goes away before the answer.  c must not be open. */
void pending_open(struct fleet *fleet, struct pending *c, struct router_peer *p,
                  uint64_t id, pending_dropped_fn *dropped, void *room);

/* Returns true if the call can still be answered. */
static inline bool pending_is_open(const struct pending *c)
{
    return c->peer != NULL;
}

/* Closes c without an answer.  A no-op if c is not open. */
void pending_close(struct fleet *fleet, struct pending *c);

/* Answers the call with OK and reply, and closes c.  A no-op if c is not
 * open. */
void pending_end(struct fleet *fleet, struct pending *c,
                 const ProtobufCMessage *reply);

/* Answers the call with the error *e and closes c.  retry_after_ms = 0: none.
 * A no-op if c is not open. */
void pending_fail(struct fleet *fleet, struct pending *c, const struct error *e,
                  uint32_t retry_after_ms);

/* Closes call id of p, which p has cancelled, and reports that to its owner.
 * A no-op if the call is not open. */
void pending_dropped(struct fleet *fleet, struct router_peer *p, uint64_t id);

/* Closes all calls of p, whose session is over, and reports that to their
 * owners. */
void pending_drop_all(struct fleet *fleet, struct router_peer *p);

#endif
