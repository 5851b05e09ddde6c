#include "router/fleet/pending.h"

#include <assert.h>

#include "router/calls/recv.h"
#include "router/router_state.h"

void pending_init(struct pending *c)
{
    *c = (struct pending){.peer = NULL};
    list_init(&c->of_peer);
}

static uint64_t pending_key(const struct router_peer *p, uint64_t id)
{
    return ((uint64_t)p->id.v << 40) ^ id;
}

void pending_open(struct router_core *r, struct pending *c,
                  enum pending_kind kind, struct router_peer *p, uint64_t id)
{
    assert(!pending_is_open(c));
    c->peer = p;
    c->id = id;
    c->kind = kind;
    list_append(&p->calls, &c->of_peer);
    table_add(&r->calls, &c->by_id, pending_key(p, id));
}

void pending_close(struct router_core *r, struct pending *c)
{
    if (pending_is_open(c)) {
        table_remove(&r->calls, &c->by_id);
        list_remove(&c->of_peer);
        c->peer = NULL;
    }
}

void pending_end(struct router_core *r, struct pending *c,
                 const ProtobufCMessage *reply)
{
    if (pending_is_open(c)) {
        peer_end(c->peer->peer, c->id, reply);
        pending_close(r, c);
    }
}

void pending_fail(struct router_core *r, struct pending *c,
                  const struct error *e, uint32_t retry_after_ms)
{
    if (pending_is_open(c)) {
        peer_fail(c->peer->peer, c->id, e, retry_after_ms);
        pending_close(r, c);
    }
}

/* The owner's part: the call is closed already. */
static void drop(struct router_core *r, struct pending *c, bool gone)
{
    pending_close(r, c);
    switch (c->kind) {
    case PENDING_GENERATE:
        generate_dropped(r, c, gone);
        break;
    case PENDING_RECEIPT:
        waiter_dropped(r, c);
        break;
    case PENDING_TEXT:
        text_dropped(r, c);
        break;
    case PENDING_WATCH:
        watch_dropped(r, c);
        break;
    case PENDING_AUDIT:
        audit_dropped(r, c);
        break;
    case PENDING_DRAIN:
        drain_dropped(r, c);
        break;
    case PENDING_EARLY:
        early_dropped(r, c);
        break;
    }
}

void pending_dropped(struct router_core *r, struct router_peer *p, uint64_t id)
{
    struct table_node *n = table_find(&r->calls, pending_key(p, id));

    for (; n != NULL; n = table_next(n)) {
        struct pending *c = LIST_OF(n, struct pending, by_id);
        if (c->peer == p && c->id == id) {
            drop(r, c, false);
            return;
        }
    }
}

void pending_drop_all(struct router_core *r, struct router_peer *p)
{
    while (!list_empty(&p->calls)) {
        drop(r, LIST_OF(p->calls.next, struct pending, of_peer), true);
    }
}
