#include "router/fleet/peers.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "router/fleet/fleet.h"
#include "router/fleet/pending.h"
#include "router/fleet/places.h"

struct router_peer *peers_find(struct fleet *fleet, struct peer_id id)
{
    struct table_node *n = table_find(&fleet->peers, id.v);

    /* A peer may send Hello again on the same connection before its ended entry
     * is reaped. */
    while (n != NULL && LIST_OF(n, struct router_peer, by_id)->ended) {
        n = table_next(n);
    }
    return n == NULL ? NULL : LIST_OF(n, struct router_peer, by_id);
}

static void flush_fire(void *room, struct event *e)
{
    struct fleet *fleet = room;
    peers_touch(fleet, EVENT_OF(e, struct router_peer, flush));
}

struct router_peer *peers_add(struct fleet *fleet, struct peer_id id,
                              uint8_t role, uint64_t nonce)
{
    struct router_peer *p = parts_alloc(&fleet->peer_parts, sizeof *p,
                                        offsetof(struct router_peer, parts));
    struct peer_config c = {.io = fleet->base->io,
                            .id = id,
                            .self = BY_ROUTER,
                            .other = role,
                            .ops = fleet->peer_ops,
                            .node = fleet->above,
                            .arena = &fleet->base->arena};

    if (p == NULL) {
        return NULL;
    }
    c.session = hello_session(fleet->base->io);
    p->peer = peer_new(&c);
    if (p->peer == NULL) {
        free(p);
        return NULL;
    }
    p->id = id;
    p->session = c.session;
    p->nonce = nonce;
    p->role = role;
    p->heard_us = fleet->base->now_us;
    event_init(&p->flush, flush_fire, fleet);
    list_init(&p->dirty);
    list_init(&p->gone);
    list_init(&p->calls);
    list_append(&fleet->all_peers, &p->all);
    table_add(&fleet->peers, &p->by_id, id.v);
    peer_set_data(p->peer, p);
    places_enter(fleet, p);
    fleet->events->peer_begun(fleet->above, p);
    return p;
}

static void mark_ended(struct fleet *fleet, struct router_peer *p)
{
    p->ended = true;
    places_leave(fleet, p);
    list_append(&fleet->gone_peers, &p->gone);
}

void peers_end(struct fleet *fleet, struct router_peer *p, const char *fmt, ...)
{
    va_list ap;

    if (!p->ended) {
        va_start(ap, fmt);
        vsnprintf(p->why, sizeof p->why, fmt, ap);
        va_end(ap);
        p->goodbye = true;
        mark_ended(fleet, p);
    }
}

void peers_lose(struct fleet *fleet, struct router_peer *p, const char *why)
{
    if (!p->ended) {
        snprintf(p->why, sizeof p->why, "%s", why);
        mark_ended(fleet, p);
    }
}

/* Queued frames, such as the End of a call, are sent before the Goodbye, which
 * makes the peer drop its session.  A send that fails is no error: the entry is
 * freed anyway, and the peer's own liveness check ends its session. */
static void send_goodbye(struct fleet *fleet, struct router_peer *p)
{
    struct frame *f = goodbye_make(p->session, p->why);

    peer_flush(p->peer, fleet->base->now_us);
    hello_send(fleet->base->io, p->id, &f);
}

static void reap(struct fleet *fleet, struct router_peer *p)
{
    if (p->goodbye) {
        send_goodbye(fleet, p);
    }
    /* Calls first: a worker's Leave is linked in its own struct drain. */
    pending_drop_all(fleet, p);
    fleet->events->peer_over(fleet->above, p);
    event_clear(fleet->base, &p->flush);
    list_remove(&p->dirty);
    list_remove(&p->all);
    table_remove(&fleet->peers, &p->by_id);
    peer_free(&p->peer);
    free(p);
}

void peers_reap(struct fleet *fleet)
{
    struct list *node;

    while ((node = list_take(&fleet->gone_peers)) != NULL) {
        reap(fleet, LIST_OF(node, struct router_peer, gone));
    }
}

void peers_touch(struct fleet *fleet, struct router_peer *p)
{
    if (!p->ended && !list_linked(&p->dirty)) {
        list_append(&fleet->dirty_peers, &p->dirty);
    }
}
