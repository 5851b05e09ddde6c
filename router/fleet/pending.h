/* pending.h - calls of a peer that are answered later.
 *
 * A call lives inside what it belongs to: a generation, a wait for a
 * receipt, a text job, a watch, an audit, a place among the early.  It is open
 * from pending_open() until it is answered, the caller gives up, or the caller
 * is gone.
 *
 * Threading: the core's.  Memory: the owner's. */
#ifndef ROUTER_FLEET_PENDING_H
#define ROUTER_FLEET_PENDING_H

#include "router/fleet/peers.h"

struct fleet;
struct pending;

/* The caller gave up (gone: its session is over).  The call is closed already;
 * room is what pending_open() was given. */
typedef void pending_dropped_fn(void *room, struct pending *c, bool gone);

struct pending {
    struct table_node by_id;
    struct list of_peer;
    struct router_peer *peer; /* NULL: not open */
    uint64_t id;
    pending_dropped_fn *dropped;
    void *room;
};

/* A call that is not open. */
void pending_init(struct pending *c);

/* Opens c for call id of p.  dropped(room, c, ...) is called if the caller
 * gives up before it is answered. */
void pending_open(struct fleet *fleet, struct pending *c, struct router_peer *p,
                  uint64_t id, pending_dropped_fn *dropped, void *room);

static inline bool pending_is_open(const struct pending *c)
{
    return c->peer != NULL;
}

/* It is answered or given up: forget it.  A no-op if it is not open. */
void pending_close(struct fleet *fleet, struct pending *c);

/* Answer and forget.  No-ops if it is not open. */
void pending_end(struct fleet *fleet, struct pending *c,
                 const ProtobufCMessage *reply);
void pending_fail(struct fleet *fleet, struct pending *c, const struct error *e,
                  uint32_t retry_after_ms);

/* The caller gave up, or is gone: hands on to the owner, who no longer
 * answers. */
void pending_dropped(struct fleet *fleet, struct router_peer *p, uint64_t id);
void pending_drop_all(struct fleet *fleet, struct router_peer *p);

#endif
