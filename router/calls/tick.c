/* tick.c - all that happens because of the time, and all that is sent. */
#include <inttypes.h>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "router/calls/recv.h"
#include "router/replicas/replica.h"
#include "router/requests/adoption.h"
#include "router/requests/stream.h"
#include "router/requests/submit.h"
#include "router/router_state.h"
#include "router/schedule/admission.h"

#define REAP_ROUNDS 8

static void fire_timers(struct router_core *r)
{
    struct timer *t;

    while ((t = timers_pop(&r->timers, r->now_us)) != NULL) {
        struct event *e = LIST_OF(t, struct event, timer);
        e->fire(r, e);
    }
}

static void run_admission(struct router_core *r)
{
    struct list *node;

    while ((node = list_take(&r->dirty_models)) != NULL) {
        struct model *m = LIST_OF(node, struct model, dirty);

        replicas_form(r, m);
        admission_run(r, m);
    }
}

static void serve_peer(struct router_core *r, struct router_peer *p)
{
    int64_t due;

    if (p->worker != NULL) {
        removals_pump(r, p->worker);
        adoption_pump(r, p->worker);
        submit_pump(r, p->worker);
    }
    stream_pump(r, p);
    peer_flush(p->peer, r->now_us);
    FP(ROUTER_FLUSHED);
    due = peer_due(p->peer);
    event_set(r, &p->flush, p->stream_due_us < due ? p->stream_due_us : due);
}

static void serve_peers(struct router_core *r)
{
    struct list *node;
    struct list now;

    /* What is touched while it is served waits for the next turn: a peer that
     * is always dirty must not hold the others up. */
    list_init(&now);
    while ((node = list_take(&r->dirty_peers)) != NULL) {
        list_append(&now, node);
    }
    while ((node = list_take(&now)) != NULL) {
        struct router_peer *p = LIST_OF(node, struct router_peer, dirty);
        if (!p->ended) {
            serve_peer(r, p);
        }
    }
}

static int64_t next_due(const struct router_core *r)
{
    int64_t due = timers_due(&r->timers);

    if (!list_empty(&r->dirty_peers) || !list_empty(&r->dirty_models) ||
        !list_empty(&r->gone_peers)) {
        return r->now_us;
    }
    if (r->n_jobs > 0 && r->now_us + TEXT_POLL_US < due) {
        return r->now_us + TEXT_POLL_US;
    }
    return due;
}

/* Calls end, everybody is told, nobody is left. */
static void say_goodbye(struct router_core *r)
{
    struct error e;

    error_set(&e, ST_UNAVAILABLE, "the router is stopping");
    requests_abandon(r, &e);
    for (struct list *at = r->all_peers.next; at != &r->all_peers;
         at = at->next) {
        peers_end(r, LIST_OF(at, struct router_peer, all), "%s", e.text);
    }
    peers_reap(r);
}

int64_t router_tick(struct router_core *r, int64_t now_us)
{
    r->now_us = now_us;
    if (r->stopping) {
        say_goodbye(r);
        return NODE_STOP;
    }
    fire_timers(r);
    text_poll(r);
    for (int i = 0; i < REAP_ROUNDS && !list_empty(&r->gone_peers); i++) {
        peers_reap(r);
    }
    run_admission(r);
    serve_peers(r);
    peers_reap(r);
    return next_due(r);
}
