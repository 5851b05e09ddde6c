/* tick.c - Everything that time triggers, and everything that is sent. */
#include <inttypes.h>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "router/calls/recv.h"
#include "router/calls/router_state.h"
#include "router/calls/tick.h"
#include "router/fleet/models.h"
#include "router/fleet/peers.h"
#include "router/placement/adoption.h"
#include "router/replicas/replica.h"
#include "router/requests/removal.h"
#include "router/requests/request_end.h"
#include "router/requests/stream.h"
#include "router/requests/submit.h"

/* Ending a peer may end others; what remains follows in the next turn. */
#define REAP_ROUNDS 8

static void fire_timers(struct router_core *r)
{
    struct timer *t;
    bool measured = false;

    while ((t = timers_pop(&r->base.timers, r->base.now_us)) != NULL) {
        struct event *e = LIST_OF(t, struct event, timer);

        if (!measured) { /* the one that has been due for the longest */
            delay_add(&r->base.late, r->base.now_us,
                      r->base.now_us - t->due_us);
            measured = true;
        }
        e->fire(e->room, e);
    }
}

/* Only models whose room or queue has changed: a turn costs nothing for the
 * others, however many there are. */
static void run_admission(struct router_core *r)
{
    struct list *node;

    while ((node = list_take(&r->fleet.dirty_models)) != NULL) {
        struct model *m = LIST_OF(node, struct model, dirty);

        replicas_form(&r->replicas, m);
        submit_adoptions(&r->requests, m);
        queue_run(&r->schedule, m);
    }
}

static void serve_peer(struct router_core *r, struct router_peer *p)
{
    int64_t due;

    /* Removals first: memory comes back the sooner. */
    if (p->worker != NULL) {
        removals_pump(&r->requests, p->worker);
        adoption_pump(&r->placement, p->worker);
        submit_pump(&r->requests, p->worker);
    }
    stream_pump(&r->requests, p);
    peer_flush(p->peer, r->base.now_us);
    FP(ROUTER_FLUSHED);
    if (peer_gave_up(p->peer)) {
        log_warn("peer-unacknowledged", "peer=%s", p->name);
        peers_end(&r->fleet, p, "no frame was acknowledged for %d s",
                  LINK_UNACKED_US / 1000000);
        return;
    }
    due = peer_due(p->peer);
    event_set(&r->base, &p->flush,
              output_of(p)->due_us < due ? output_of(p)->due_us : due);
}

static void serve_peers(struct router_core *r)
{
    struct list *node;
    struct list now;

    /* A peer that is touched while it is served waits for the next turn, so
     * that a peer that is always dirty does not hold up the others. */
    list_init(&now);
    while ((node = list_take(&r->fleet.dirty_peers)) != NULL) {
        list_append(&now, node);
    }
    while ((node = list_take(&now)) != NULL) {
        struct router_peer *p = LIST_OF(node, struct router_peer, dirty);
        if (!p->ended) {
            serve_peer(r, p);
        }
    }
}

static int64_t next_due(const struct router_core *r, int64_t log_us)
{
    int64_t due = timers_due(&r->base.timers);

    if (!list_empty(&r->fleet.dirty_peers) ||
        !list_empty(&r->fleet.dirty_models) ||
        !list_empty(&r->fleet.gone_peers)) {
        return r->base.now_us;
    }
    if (r->requests.n_jobs > 0 && r->base.now_us + TEXT_POLL_US < due) {
        return r->base.now_us + TEXT_POLL_US;
    }
    return log_us < due ? log_us : due;
}

/* Ends all calls, sends Goodbye to all peers and frees them. */
static void end_all(struct router_core *r)
{
    struct error e;

    error_set(&e, ST_UNAVAILABLE, "the router is stopping");
    requests_abandon(&r->requests, &e);
    for (struct list *at = r->fleet.all_peers.next; at != &r->fleet.all_peers;
         at = at->next) {
        peers_end(&r->fleet, LIST_OF(at, struct router_peer, all), "%s",
                  e.text);
    }
    peers_reap(&r->fleet);
}

int64_t router_tick(struct router_core *r, int64_t now_us)
{
    r->base.now_us = now_us;
    if (r->base.stopping) {
        end_all(r);
        return NODE_STOP;
    }
    fire_timers(r);
    text_poll(r);
    for (int i = 0; i < REAP_ROUNDS && !list_empty(&r->fleet.gone_peers); i++) {
        peers_reap(&r->fleet);
    }
    /* Timers and text jobs come first: they may add to the queues. */
    record_places(r); /* before a grant names one */
    run_admission(r);
    serve_peers(r);
    peers_reap(&r->fleet);
    return next_due(r, router_log_tick(&r->base.log, now_us));
}
