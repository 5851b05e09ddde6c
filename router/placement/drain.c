#include "router/placement/drain.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/plant.h"
#include "proto/registry.pb-c.h"
#include "router/placement/placement.h"
#include "router/replicas/offers.h"
#include "router/replicas/place.h"

struct drain_call {
    struct pending call;
    struct list of_worker;
    int64_t since_us;
    uint32_t n_running;      /* at the start of the call */
    uint64_t n_moved_before; /* n_moved of the worker at the start */
};

static void call_free(struct placement *x, struct drain_call *call)
{
    pending_close(x->fleet, &call->call);
    list_remove(&call->of_worker);
    free(call);
}

static void drain_dropped(void *room, struct pending *c, bool gone)
{
    (void)gone;
    call_free(room, LIST_OF(c, struct drain_call, call));
}

static void answer(struct placement *x, const struct worker *w,
                   struct drain_call *call)
{
    Sluice__V1__DrainReply m = SLUICE__V1__DRAIN_REPLY__INIT;
    uint64_t moved = w->counts.n_moved - call->n_moved_before;

    m.n_running = call->n_running;
    m.n_moved = moved < call->n_running ? (uint32_t)moved : call->n_running;
    m.n_finished = m.n_running - m.n_moved;
    m.micros = (uint64_t)(x->base->now_us - call->since_us);
    log_info("worker-drained",
             "worker=%s ran=%" PRIu32 " finished=%" PRIu32 " moved=%" PRIu32
             " micros=%" PRIu64,
             w->peer->name, m.n_running, m.n_finished, m.n_moved, m.micros);
    pending_end(x->fleet, &call->call, &m.base);
    call_free(x, call);
}

static void answer_all(struct placement *x, struct worker *w)
{
    struct list *at = placement_of(w)->drain.waiting.next;

    while (at != &placement_of(w)->drain.waiting) {
        struct drain_call *call = LIST_OF(at, struct drain_call, of_worker);
        at = at->next;
        answer(x, w, call);
    }
}

static void fail_all(struct placement *x, struct worker *w,
                     const struct error *e)
{
    while (!list_empty(&placement_of(w)->drain.waiting)) {
        struct drain_call *call = LIST_OF(placement_of(w)->drain.waiting.next,
                                          struct drain_call, of_worker);
        pending_fail(x->fleet, &call->call, e, 0);
        call_free(x, call);
    }
}

/* Moves all sequences of the place of w; w has some left, so it has a place. */
static void move_all(struct placement *x, struct worker *w)
{
    struct worker *place = worker_place(w);
    uint32_t n_stuck = x->events->move_all(x->above, place);

    /* Logged only when more sequences are stuck than before: this runs again at
     * every change of the fleet. */
    if (n_stuck > placement_of(w)->drain.n_stuck) {
        log_warn("drain-waits",
                 "worker=%s sequences=%" PRIu32
                 " why=\"no other worker could hold them\"",
                 w->peer->name, n_stuck);
    }
    placement_of(w)->drain.n_stuck = n_stuck;
    peers_touch(x->fleet, place->peer);
}

static void drain_fire(void *room, struct event *e)
{
    struct placement *x = room;
    struct worker *w = EVENT_OF(e, struct worker_placement, drain.due)->worker;

    if (w->n_running == 0) {
        answer_all(x, w);
        place_update_presence(x->replicas, w->model);
    } else if (x->base->now_us >= placement_of(w)->drain.move_us) {
        move_all(x, w);
    } else {
        /* Still within the grace period. */
        event_set(x->base, e, placement_of(w)->drain.move_us);
    }
}

void drain_init(struct placement *x, struct drain *d)
{
    *d = (struct drain){.move_us = NODE_IDLE};
    event_init(&d->due, drain_fire, x);
    list_init(&d->waiting);
}

static bool has_max_calls(const struct worker *w)
{
    uint32_t n = 0;

    for (const struct list *at = placement_of(w)->drain.waiting.next;
         at != &placement_of(w)->drain.waiting; at = at->next) {
        n++;
    }
    return n >= DRAIN_CALLS_MAX;
}

/* Returns false without memory. */
static bool add_call(struct placement *x, struct worker *w,
                     struct router_peer *p, uint64_t call)
{
    struct drain_call *one = calloc(1, sizeof *one);

    if (one == NULL) {
        return false;
    }
    pending_init(&one->call);
    pending_open(x->fleet, &one->call, p, call, drain_dropped, x);
    one->since_us = x->base->now_us;
    one->n_running = w->n_running;
    one->n_moved_before = w->counts.n_moved;
    list_init(&one->of_worker);
    list_append(&placement_of(w)->drain.waiting, &one->of_worker);
    return true;
}

void drain_begin(struct placement *x, struct worker *w, struct router_peer *p,
                 uint64_t call, uint32_t grace_ms, bool leaving)
{
    int64_t move_us = x->base->now_us + (int64_t)grace_ms * 1000;
    enum worker_drain to = leaving ? DRAIN_LEAVES : DRAIN_ON;
    struct error e;

    if (!leaving && has_max_calls(w)) {
        error_set(&e, ST_RESOURCE_EXHAUSTED,
                  "%d callers, the limit, already wait for worker %s to drain",
                  DRAIN_CALLS_MAX, w->peer->name);
        peer_fail(p->peer, call, &e, RETRY_MS_MIN);
        return;
    }
    log_info("worker-draining",
             "worker=%s sequences=%" PRIu32 " grace_ms=%" PRIu32 " by=%s",
             w->peer->name, w->n_running, grace_ms,
             leaving ? "itself" : p->name);
    if (!add_call(x, w, p, call)) {
        error_set(&e, ST_RESOURCE_EXHAUSTED,
                  MEMORY_SENTENCE "the router has none left");
        peer_fail(p->peer, call, &e, RETRY_MS_MIN);
        return;
    }
    if (w->drain < to) {
        worker_drain_move(w, to);
    }
    if (move_us < placement_of(w)->drain.move_us) {
        placement_of(w)->drain.move_us = move_us;
    }
    /* Through the event, so that an idle worker gets its answer after this call
     * has returned. */
    event_set(x->base, &placement_of(w)->drain.due, x->base->now_us);
    x->events->draining(x->above, w); /* ends what only w could have held */
    place_update_presence(x->replicas, w->model);
    if (!PLANT(DRAIN_UNLOOKED)) {
        offers_touch(x->replicas);
    }
}

static void undrain(struct placement *x, struct worker *w)
{
    struct error e;

    /* A worker that is stopping cannot be kept up by an Undrain. */
    if (w->drain != DRAIN_ON) {
        return;
    }
    log_info("worker-undrained", "worker=%s sequences=%" PRIu32, w->peer->name,
             w->n_running);
    error_set(&e, ST_ABORTED,
              "worker %s accepts sequences again after an Undrain",
              w->peer->name);
    fail_all(x, w, &e);
    event_clear(x->base, &placement_of(w)->drain.due);
    drain_init(x, &placement_of(w)->drain);
    worker_drain_move(w, DRAIN_NONE);
}

void drain_end(struct placement *x, struct worker *w)
{
    struct worker *place = worker_place(w);

    if (place == NULL) {
        undrain(x, w);
    }
    for (uint32_t i = 0; place != NULL && i < worker_n_stages(place); i++) {
        if (worker_stage(place, i) != NULL) {
            undrain(x, worker_stage(place, i));
        }
    }
    place_update_presence(x->replicas, w->model);
    x->events->drains_changed(
        x->above, w->model); /* the whole model may have been drained */
    drains_recheck(x, w->model);
    model_touch(x->fleet, w->model);
    offers_touch(x->replicas);
}

void drain_close(struct placement *x, struct worker *w)
{
    struct error e;

    event_clear(x->base, &placement_of(w)->drain.due);
    if (x->base->stopping) {
        error_set(&e, ST_UNAVAILABLE, "the router is stopping");
        fail_all(x, w, &e);
    } else {
        answer_all(x, w);
    }
}

void drain_look(struct placement *x, struct worker *w)
{
    event_set(x->base, &placement_of(w)->drain.due, x->base->now_us);
}

void drains_recheck(struct placement *x, const struct model *m)
{
    for (uint32_t i = 0; i < x->fleet->n_workers; i++) {
        struct worker *w = x->fleet->workers[i];

        if (w->model == m && w->drain != DRAIN_NONE && w->n_running > 0) {
            drain_look(x, w);
        }
    }
}

const char *drain_name(const struct worker *w)
{
    const struct worker *place = worker_place((struct worker *)w);

    if (w->drain == DRAIN_NONE && (place == NULL || !place_drained(place))) {
        return NULL;
    }
    return w->drain == DRAIN_LEAVES ? "leaving"
           : w->n_running == 0      ? "drained"
                                    : "draining";
}
