#include "router/fleet/peers.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "router/calls/recv.h"
#include "router/replicas/offers.h"
#include "router/requests/stream.h"
#include "router/router_state.h"

void event_set(struct router_core *r, struct event *e, int64_t due_us)
{
    timer_set(&r->timers, &e->timer, due_us);
}

void event_clear(struct router_core *r, struct event *e)
{
    timer_clear(&r->timers, &e->timer);
}

struct router_peer *peers_find(struct router_core *r, struct peer_id id)
{
    struct table_node *n = table_find(&r->peers, id.v);

    /* A marked entry may stand beside the one that follows it. */
    while (n != NULL && LIST_OF(n, struct router_peer, by_id)->ended) {
        n = table_next(n);
    }
    return n == NULL ? NULL : LIST_OF(n, struct router_peer, by_id);
}

static void flush_fire(struct router_core *r, struct event *e)
{
    peers_touch(r, EVENT_OF(e, struct router_peer, flush));
}

static void slow_fire(struct router_core *r, struct event *e)
{
    stream_slow(r, EVENT_OF(e, struct router_peer, slow));
}

struct router_peer *peers_add(struct router_core *r, struct peer_id id,
                              uint8_t role, uint64_t nonce)
{
    struct router_peer *p = calloc(1, sizeof *p);
    struct peer_config c = {.io = r->io,
                            .id = id,
                            .self = BY_ROUTER,
                            .other = role,
                            .ops = &router_peer_ops,
                            .node = r,
                            .arena = &r->arena};

    assert(p != NULL && r->n_peers < r->options.max_peers);
    c.session = hello_session(r->io);
    p->id = id;
    p->session = c.session;
    p->nonce = nonce;
    p->role = role;
    p->heard_us = r->now_us;
    p->flush.fire = flush_fire;
    p->slow.fire = slow_fire;
    p->streamed_us = r->now_us - r->options.gather_us;
    p->stream_due_us = NODE_IDLE;
    list_init(&p->dirty);
    list_init(&p->gone);
    list_init(&p->calls);
    list_init(&p->ready);
    list_append(&r->all_peers, &p->all);
    table_add(&r->peers, &p->by_id, id.v);
    r->n_peers++;
    p->peer = peer_new(&c);
    peer_set_data(p->peer, p);
    return p;
}

uint32_t peers_count(const struct router_core *r, uint8_t roles)
{
    uint32_t n = 0;

    for (struct list *at = r->all_peers.next; at != &r->all_peers;
         at = at->next) {
        const struct router_peer *p = LIST_OF(at, struct router_peer, all);
        n += (p->role & roles) != 0 && !p->ended;
    }
    return n;
}

static void mark(struct router_core *r, struct router_peer *p)
{
    p->ended = true;
    list_append(&r->gone_peers, &p->gone);
}

void peers_end(struct router_core *r, struct router_peer *p, const char *fmt,
               ...)
{
    va_list ap;

    if (!p->ended) {
        va_start(ap, fmt);
        vsnprintf(p->why, sizeof p->why, fmt, ap);
        va_end(ap);
        p->goodbye = true;
        mark(r, p);
    }
}

void peers_lose(struct router_core *r, struct router_peer *p, const char *why)
{
    if (!p->ended) {
        snprintf(p->why, sizeof p->why, "%s", why);
        mark(r, p);
    }
}

/* What the peer is still owed, such as the End of a call, goes first. */
static void say_goodbye(struct router_core *r, struct router_peer *p)
{
    struct frame *f = goodbye_make(p->session, p->why);

    peer_flush(p->peer, r->now_us);
    (void)r->io->send(r->io, p->id, &f);
}

static void reap(struct router_core *r, struct router_peer *p)
{
    if (p->goodbye) {
        say_goodbye(r, p);
    }
    pending_drop_all(r, p);
    worker_close(r, &p->worker, p->why);
    offer_close(r, &p->offer);
    event_clear(r, &p->flush);
    event_clear(r, &p->slow);
    list_remove(&p->dirty);
    list_remove(&p->all);
    table_remove(&r->peers, &p->by_id);
    r->n_peers--;
    peer_free(&p->peer);
    free(p);
}

void peers_reap(struct router_core *r)
{
    struct list *node;

    while ((node = list_take(&r->gone_peers)) != NULL) {
        reap(r, LIST_OF(node, struct router_peer, gone));
    }
}

void peers_touch(struct router_core *r, struct router_peer *p)
{
    if (!p->ended && !list_linked(&p->dirty)) {
        list_append(&r->dirty_peers, &p->dirty);
    }
}
