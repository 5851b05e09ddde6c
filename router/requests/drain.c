#include "router/requests/drain.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/plant.h"
#include "proto/registry.pb-c.h"
#include "router/replicas/offers.h"
#include "router/replicas/place.h"
#include "router/requests/choice_moves.h"
#include "router/requests/continuation.h"
#include "router/requests/removal.h"
#include "router/schedule/admission.h"

struct drain_call {
    struct pending call;
    struct list of_worker;
    int64_t since_us;
    uint32_t n_running;      /* at the start of the call */
    uint64_t n_moved_before; /* n_moved of the worker at the start */
};

static void call_free(struct requests *r, struct drain_call *x)
{
    pending_close(r->fleet, &x->call);
    list_remove(&x->of_worker);
    free(x);
}

static void drain_dropped(void *room, struct pending *c, bool gone)
{
    (void)gone;
    call_free(room, LIST_OF(c, struct drain_call, call));
}

static void answer(struct requests *r, const struct worker *w,
                   struct drain_call *x)
{
    Sluice__V1__DrainReply m = SLUICE__V1__DRAIN_REPLY__INIT;
    uint64_t moved = w->n_moved - x->n_moved_before;

    m.n_running = x->n_running;
    m.n_moved = moved < x->n_running ? (uint32_t)moved : x->n_running;
    m.n_finished = m.n_running - m.n_moved;
    m.micros = (uint64_t)(r->base->now_us - x->since_us);
    log_info("worker-drained",
             "worker=%s ran=%" PRIu32 " finished=%" PRIu32 " moved=%" PRIu32
             " micros=%" PRIu64,
             w->peer->name, m.n_running, m.n_finished, m.n_moved, m.micros);
    pending_end(r->fleet, &x->call, &m.base);
    call_free(r, x);
}

static void answer_all(struct requests *r, struct worker *w)
{
    struct list *at = w->drain.waiting.next;

    while (at != &w->drain.waiting) {
        struct drain_call *x = LIST_OF(at, struct drain_call, of_worker);
        at = at->next;
        answer(r, w, x);
    }
}

static void fail_all(struct requests *r, struct worker *w,
                     const struct error *e)
{
    while (!list_empty(&w->drain.waiting)) {
        struct drain_call *x =
            LIST_OF(w->drain.waiting.next, struct drain_call, of_worker);
        pending_fail(r->fleet, &x->call, e, 0);
        call_free(r, x);
    }
}

/* An ended sequence is only kept here: its lease ends with the drain, and there
 * is no other place for it. */
static bool may_move(const struct requests *r, const struct worker *place,
                     const struct choice *choice)
{
    return place_leaves(place) || choice->state == CHOICE_ENDED ||
           admission_elsewhere(r->fleet, choice->entry.model,
                               choice->entry.n_tokens, place);
}

/* Moves all sequences of the place of w; w has some left, so it has a place. */
static void move_all(struct requests *r, struct worker *w)
{
    struct worker *place = worker_place(w);
    struct list *at = place->running.next;
    uint32_t n_stuck = 0;

    while (at != &place->running) {
        struct choice *choice = LIST_OF(at, struct choice, running);

        at = at->next;
        if (choice->removal != REMOVAL_NONE) {
            continue; /* its receipt is awaited */
        }
        if (may_move(r, place, choice)) {
            removal_moving(r, choice);
        } else {
            n_stuck++;
        }
    }
    /* Logged only when more sequences are stuck than before: this runs again at
     * every change of the fleet. */
    if (n_stuck > w->drain.n_stuck) {
        log_warn("drain-waits",
                 "worker=%s sequences=%" PRIu32
                 " why=\"no other worker could hold them\"",
                 w->peer->name, n_stuck);
    }
    w->drain.n_stuck = n_stuck;
    peers_touch(r->fleet, place->peer);
}

static void drain_fire(void *room, struct event *e)
{
    struct requests *r = room;
    struct worker *w = EVENT_OF(e, struct worker, drain.due);

    if (w->n_running == 0) {
        answer_all(r, w);
        place_update_presence(r->replicas, w->model);
    } else if (r->base->now_us >= w->drain.move_us) {
        move_all(r, w);
    } else {
        /* Still within the grace period. */
        event_set(r->base, e, w->drain.move_us);
    }
}

void drain_init(struct requests *r, struct drain *d)
{
    *d = (struct drain){.move_us = NODE_IDLE};
    event_init(&d->due, drain_fire, r);
    list_init(&d->waiting);
}

static bool has_max_calls(const struct worker *w)
{
    uint32_t n = 0;

    for (const struct list *at = w->drain.waiting.next; at != &w->drain.waiting;
         at = at->next) {
        n++;
    }
    return n >= DRAIN_CALLS_MAX;
}

static void add_call(struct requests *r, struct worker *w,
                     struct router_peer *p, uint64_t call)
{
    struct drain_call *x = calloc(1, sizeof *x);

    assert(x != NULL);
    pending_init(&x->call);
    pending_open(r->fleet, &x->call, p, call, drain_dropped, r);
    x->since_us = r->base->now_us;
    x->n_running = w->n_running;
    x->n_moved_before = w->n_moved;
    list_init(&x->of_worker);
    list_append(&w->drain.waiting, &x->of_worker);
}

void drain_begin(struct requests *r, struct worker *w, struct router_peer *p,
                 uint64_t call, uint32_t grace_ms, bool leaving)
{
    int64_t move_us = r->base->now_us + (int64_t)grace_ms * 1000;
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
    add_call(r, w, p, call);
    w->drain.on = true;
    w->drain.leaving = w->drain.leaving || leaving;
    if (move_us < w->drain.move_us) {
        w->drain.move_us = move_us;
    }
    /* Through the event, so that an idle worker gets its answer after this call
     * has returned. */
    event_set(r->base, &w->drain.due, r->base->now_us);
    continuation_drained(r, w);
    choices_recheck(r, w->model); /* ends what only w could have held */
    place_update_presence(r->replicas, w->model);
    if (!PLANT(DRAIN_UNLOOKED)) {
        offers_touch(r->replicas);
    }
}

static void undrain(struct requests *r, struct worker *w)
{
    struct error e;

    /* A worker that is stopping cannot be kept up by an Undrain. */
    if (!w->drain.on || w->drain.leaving) {
        return;
    }
    log_info("worker-undrained", "worker=%s sequences=%" PRIu32, w->peer->name,
             w->n_running);
    error_set(&e, ST_ABORTED,
              "worker %s accepts sequences again after an Undrain",
              w->peer->name);
    fail_all(r, w, &e);
    event_clear(r->base, &w->drain.due);
    drain_init(r, &w->drain);
}

void drain_end(struct requests *r, struct worker *w)
{
    struct worker *place = worker_place(w);

    if (place == NULL) {
        undrain(r, w);
    }
    for (uint32_t i = 0; place != NULL && i < worker_n_stages(place); i++) {
        if (worker_stage(place, i) != NULL) {
            undrain(r, worker_stage(place, i));
        }
    }
    place_update_presence(r->replicas, w->model);
    choices_recheck(r, w->model); /* the whole model may have been drained */
    drains_recheck(r, w->model);
    model_touch(r->fleet, w->model);
    offers_touch(r->replicas);
}

void drain_close(struct requests *r, struct worker *w)
{
    struct error e;

    event_clear(r->base, &w->drain.due);
    if (r->base->stopping) {
        error_set(&e, ST_UNAVAILABLE, "the router is stopping");
        fail_all(r, w, &e);
    } else {
        answer_all(r, w);
    }
}

void drains_recheck(struct requests *r, const struct model *m)
{
    for (uint32_t i = 0; i < r->fleet->n_workers; i++) {
        struct worker *w = r->fleet->workers[i];

        if (w->model == m && w->drain.on && w->n_running > 0) {
            event_set(r->base, &w->drain.due, r->base->now_us);
        }
    }
}

const char *drain_name(const struct worker *w)
{
    const struct worker *place = worker_place((struct worker *)w);

    if (!w->drain.on && (place == NULL || !place_drained(place))) {
        return NULL;
    }
    return w->drain.leaving    ? "leaving"
           : w->n_running == 0 ? "drained"
                               : "draining";
}
