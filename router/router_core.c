#include "router/router_core.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "router/calls/recv.h"
#include "router/replicas/replica.h"
#include "router/router_state.h"

struct router_core *router_new(const struct router_options *o,
                               struct node_io *io)
{
    struct router_core *r = calloc(1, sizeof *r);

    assert(r != NULL && o->max_peers > 0 && o->max_requests > 0);
    r->options = *o;
    snprintf(r->name, sizeof r->name, "%s", o->name);
    r->io = io;
    r->seed = io->random(io);
    r->start_us = r->now_us = io->now_us(io);
    arena_init(&r->arena);
    timers_init(&r->timers);
    table_init(&r->peers, o->max_peers);
    table_init(&r->requests, o->max_requests);
    table_init(&r->calls, o->max_requests);
    table_init(&r->jobs, o->max_waiting);
    list_init(&r->all_peers);
    list_init(&r->dirty_peers);
    list_init(&r->gone_peers);
    list_init(&r->dirty_models);
    list_init(&r->replicas);
    list_init(&r->all_choices);
    list_init(&r->audits);
    early_init(r);
    offers_init(r);
    return r;
}

/* Without a word: free what is left. */
void router_free(struct router_core **pr)
{
    struct router_core *r = *pr;
    struct error e;

    *pr = NULL;
    if (r == NULL) {
        return;
    }
    r->stopping = true;
    error_set(&e, ST_UNAVAILABLE, "the router is gone");
    requests_abandon(r, &e);
    for (struct list *at = r->all_peers.next; at != &r->all_peers;
         at = at->next) {
        peers_lose(r, LIST_OF(at, struct router_peer, all), e.text);
    }
    peers_reap(r);
    models_fini(r);
    early_fini(r);
    offers_fini(r);
    table_fini(&r->peers);
    table_fini(&r->requests);
    table_fini(&r->calls);
    table_fini(&r->jobs);
    timers_fini(&r->timers);
    arena_fini(&r->arena);
    free(r->text);
    free(r);
}

void router_stop(struct router_core *r)
{
    r->stopping = true;
}

static void opened(void *node, struct peer_id who)
{
    (void)node, (void)who; /* nobody is anybody before Hello */
}

static void out(struct router_core *r, struct router_peer *p)
{
    log_warn("peer-out", "peer=%s strikes=%d", p->name, PEER_STRIKES);
    peers_end(r, p, "%d frames broke a rule", PEER_STRIKES);
}

static void of_session(struct router_core *r, struct router_peer *p,
                       const struct frame *f, const struct frame_header *h)
{
    p->heard_us = r->now_us;
    if (p->worker != NULL) {
        liveness_heard(r, p->worker);
    }
    switch (peer_recv(p->peer, f, h, r->now_us)) {
    case PEER_FINE:
        break;
    case PEER_STRIKE:
        r->metrics.strikes++;
        break;
    case PEER_GOODBYE:
        if (p->offer != NULL) {
            offer_leaves(p->offer);
        }
        peers_lose(r, p, "it said Goodbye");
        break;
    case PEER_OUT:
        r->metrics.strikes++;
        out(r, p);
        break;
    }
    peers_touch(r, p);
}

static void take_frame(struct router_core *r, struct peer_id from,
                       const struct frame *f)
{
    struct router_peer *p = peers_find(r, from);
    struct frame_header h;
    struct error e;

    if (frame_check(f->data, f->bytes, &h, &e) != ST_OK) {
        r->metrics.strikes++;
        log_debug("bad-frame", "peer=%" PRIu32 " why=\"%s\"", from.v, e.text);
    } else if (h.session == 0) {
        recv_hello(r, from, f, &h);
    } else if (p != NULL && p->session == h.session) {
        of_session(r, p, f, &h);
    } else {
        r->metrics.foreign++;
        hello_foreign(r->io, from, f, &h);
    }
}

static void recv(void *node, struct peer_id from, struct frame **f)
{
    struct router_core *r = node;

    r->now_us = r->io->now_us(r->io);
    take_frame(r, from, *f);
    frame_free(f);
    peers_reap(r);
}

static void lost(void *node, struct peer_id who)
{
    struct router_core *r = node;
    struct router_peer *p = peers_find(r, who);

    r->now_us = r->io->now_us(r->io);
    if (p != NULL) {
        if (p->worker != NULL) {
            worker_died(p->worker, DEATH_LOST);
        }
        peers_lose(r, p, "the connection broke");
        peers_reap(r);
    }
}

static int64_t tick(void *node, int64_t now_us)
{
    return router_tick(node, now_us);
}

const struct node_ops router_node_ops = {opened, recv, lost, tick};

enum choice_state router_choice_state(const struct router_core *r,
                                      const uint8_t request_id[16],
                                      uint32_t choice)
{
    const struct request *request = request_find(r, request_id, 16);

    return request == NULL || choice >= request->n_choices
               ? CHOICE_ENDED
               : request->choices[choice].state;
}

static uint32_t low(uint64_t v)
{
    return v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}

static uint32_t have(const struct worker *w, enum pool_class c)
{
    const struct class_ledger *k = &w->ledger.classes[c];

    return k->free + k->cached;
}

static uint32_t suspects(const struct worker *w)
{
    uint32_t n = 0;

    for (const struct list *at = w->running.next; at != &w->running;
         at = at->next) {
        const struct trial *t = &LIST_OF(at, struct choice, running)->trial;
        n += t->suspect && !t->aside;
    }
    return n;
}

bool router_worker_view(const struct router_core *r, uint32_t i,
                        struct router_worker_view *out)
{
    const struct worker *w;

    if (i >= r->n_workers) {
        return false;
    }
    w = r->workers[i];
    *out = (struct router_worker_view){
        .id = w->peer->id,
        .session = w->peer->session,
        .snapshot = w->ledger.snapshot,
        .grant = w->ledger.grant,
        .last_grant = w->last_grant,
        .free_blocks = have(w, BLOCKS),
        .free_slots = have(w, SLOTS),
        .granted_blocks = low(w->owed[BLOCKS]),
        .granted_slots = low(w->owed[SLOTS]),
        .n_sequences = w->n_running,
        .slow = w->state == WORKER_SLOW,
        .n_suspects = suspects(w),
        .n_barren = w->life.n_barren,
        .readmit_ms = lineage_readmit_ms(r, w),
        .probation = w->life.probation,
        .draining = drain_name(w) != NULL,
        .serves = worker_can_serve(w),
        .assembly = w->replica != NULL ? w->replica->assembly : 0,
        .stage = w->stage,
        .n_stages = worker_n_stages(w),
    };
    return true;
}

void router_counts(const struct router_core *r, struct router_metrics *out)
{
    *out = r->metrics;
    out->choices_open = r->n_choices;
    out->choices_waiting = r->n_waiting;
    out->choices_early = r->early.n_choices;
    out->early_bytes = r->early.bytes;
}
