#include "router/fleet/pending.h"

#include <assert.h>

#include "router/fleet/fleet.h"
#include "router/fleet/places.h"

void pending_init(struct pending *c)
{
    *c = (struct pending){.peer = NULL};
    list_init(&c->of_peer);
}

/* Only a hash: call numbers may reach into the upper bits, so lookups compare
 * peer and id as well. */
static uint64_t pending_key(const struct router_peer *p, uint64_t id)
{
    return ((uint64_t)p->id.v << 40) ^ id;
}

void pending_open(struct fleet *fleet, struct pending *c, struct router_peer *p,
                  uint64_t id, pending_dropped_fn *dropped, void *room)
{
    assert(!pending_is_open(c));
    c->peer = p;
    c->id = id;
    c->dropped = dropped;
    c->room = room;
    list_append(&p->calls, &c->of_peer);
    places_busy(p);
    table_add(&fleet->calls, &c->by_id, pending_key(p, id));
}

void pending_close(struct fleet *fleet, struct pending *c)
{
    if (pending_is_open(c)) {
        table_remove(&fleet->calls, &c->by_id);
        list_remove(&c->of_peer);
        places_idle(fleet, c->peer);
        c->peer = NULL;
    }
}

void pending_end(struct fleet *fleet, struct pending *c,
                 const ProtobufCMessage *reply)
{
    if (pending_is_open(c)) {
        peer_end(c->peer->peer, c->id, reply);
        pending_close(fleet, c);
    }
}

void pending_fail(struct fleet *fleet, struct pending *c, const struct error *e,
                  uint32_t retry_after_ms)
{
    if (pending_is_open(c)) {
        peer_fail(c->peer->peer, c->id, e, retry_after_ms);
        pending_close(fleet, c);
    }
}

/* The call is closed first, because the owner may free the memory of c. */
static void drop_call(struct fleet *fleet, struct pending *c, bool gone)
{
    pending_close(fleet, c);
    c->dropped(c->room, c, gone);
}

void pending_dropped(struct fleet *fleet, struct router_peer *p, uint64_t id)
{
    struct table_node *n = table_find(&fleet->calls, pending_key(p, id));

    for (; n != NULL; n = table_next(n)) {
        struct pending *c = LIST_OF(n, struct pending, by_id);
        if (c->peer == p && c->id == id) {
            drop_call(fleet, c, false);
            return;
        }
    }
}

void pending_drop_all(struct fleet *fleet, struct router_peer *p)
{
    /* An owner may close other calls of p: always take the first. */
    while (!list_empty(&p->calls)) {
        drop_call(fleet, LIST_OF(p->calls.next, struct pending, of_peer), true);
    }
}
