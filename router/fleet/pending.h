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

enum pending_kind {
    PENDING_GENERATE,
    PENDING_RECEIPT,
    PENDING_TEXT,
    PENDING_WATCH,
    PENDING_AUDIT,
    PENDING_DRAIN,
    PENDING_EARLY,
};

struct pending {
    struct table_node by_id;
    struct list of_peer;
    struct router_peer *peer; /* NULL: not open */
    uint64_t id;
    enum pending_kind kind;
};

/* A call that is not open. */
void pending_init(struct pending *c);

void pending_open(struct router_core *r, struct pending *c,
                  enum pending_kind kind, struct router_peer *p, uint64_t id);

static inline bool pending_is_open(const struct pending *c)
{
    return c->peer != NULL;
}

/* It is answered or given up: forget it.  A no-op if it is not open. */
void pending_close(struct router_core *r, struct pending *c);

/* Answer and forget.  No-ops if it is not open. */
void pending_end(struct router_core *r, struct pending *c,
                 const ProtobufCMessage *reply);
void pending_fail(struct router_core *r, struct pending *c,
                  const struct error *e, uint32_t retry_after_ms);

/* The caller gave up, or is gone: hands on to the owner, who no longer
 * answers. */
void pending_dropped(struct router_core *r, struct router_peer *p, uint64_t id);
void pending_drop_all(struct router_core *r, struct router_peer *p);

#endif
