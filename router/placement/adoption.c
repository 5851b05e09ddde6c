#include "router/placement/adoption.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/plant.h"
#include "common/wire/request_id.h"
#include "proto/worker.pb-c.h"
#include "router/placement/placement.h"

/* One row of Live.  UNWANTED orphans are only in the list, so that a later
 * request of the same id does not find them. */
struct orphan {
    struct table_node by_name; /* unless UNWANTED */
    struct list place;         /* in idle, wanted or unwanted */
    uint8_t id[16];
    uint32_t choice;
    bool grows; /* SubmitRequest.grows of its grant */
    int64_t expires_us;
};

static uint64_t name_key(const struct placement *x, const uint8_t *id,
                         uint32_t choice)
{
    return request_id_hash(id, x->base->seed + choice);
}

static struct orphan *find(const struct placement *x, const struct worker *w,
                           const uint8_t *id, uint32_t choice)
{
    struct table_node *at = NULL;

    if (placement_of(w)->adoptions.by_name.n > 0) {
        at = table_find(&placement_of(w)->adoptions.by_name,
                        name_key(x, id, choice));
    }
    for (; at != NULL; at = table_next(at)) {
        struct orphan *o = LIST_OF(at, struct orphan, by_name);
        if (o->choice == choice && memcmp(o->id, id, 16) == 0) {
            return o;
        }
    }
    return NULL;
}

struct worker *adoption_find(const struct placement *x, const uint8_t id[16],
                             uint32_t choice)
{
    for (uint32_t i = 0; i < x->fleet->n_workers; i++) {
        if (find(x, x->fleet->workers[i], id, choice) != NULL) {
            return x->fleet->workers[i];
        }
    }
    return NULL;
}

/* ---- a worker's table ---- */

static void forget(struct worker *w, struct orphan *o)
{
    table_remove(&placement_of(w)->adoptions.by_name, &o->by_name);
    list_remove(&o->place);
    free(o);
}

static void forget_all(struct worker *w, struct list *orphans)
{
    while (!list_empty(orphans)) {
        forget(w, LIST_OF(orphans->next, struct orphan, place));
    }
}

/* Removes expired orphans from the list.  Returns when the next one expires. */
static int64_t forget_due(struct placement *x, struct worker *w,
                          struct list *orphans)
{
    struct list *at = orphans->next;
    int64_t next = NODE_IDLE;

    while (at != orphans) {
        struct orphan *o = LIST_OF(at, struct orphan, place);

        at = at->next;
        if (o->expires_us <= x->base->now_us) {
            forget(w, o);
        } else if (o->expires_us < next) {
            next = o->expires_us;
        }
    }
    return next;
}

static void expire(struct placement *x, struct worker *w)
{
    int64_t idle = forget_due(x, w, &placement_of(w)->adoptions.idle);
    int64_t wanted = forget_due(x, w, &placement_of(w)->adoptions.wanted);

    event_set(x->base, &placement_of(w)->adoptions.expiry,
              idle < wanted ? idle : wanted);
}

static void expiry_fire(void *room, struct event *e)
{
    struct placement *x = room;
    expire(x, EVENT_OF(e, struct worker_placement, adoptions.expiry)->worker);
}

void adoptions_open(struct placement *x, struct worker *w, uint32_t n_announced)
{
    struct adoptions *a = &placement_of(w)->adoptions;

    a->n_announced = w->n_unlisted = n_announced;
    event_init(&a->expiry, expiry_fire, x);
    table_init(&a->by_name, n_announced);
    list_init(&a->idle);
    list_init(&a->wanted);
    list_init(&a->unwanted);
}

void adoptions_close(struct placement *x, struct worker *w)
{
    struct adoptions *a = &placement_of(w)->adoptions;

    forget_all(w, &a->idle);
    forget_all(w, &a->wanted);
    forget_all(w, &a->unwanted);
    table_fini(&a->by_name);
    event_clear(x->base, &a->expiry);
}

/* ---- Live ---- */

static enum status check_live(const struct worker *w,
                              const Sluice__V1__LiveMessage *m, struct error *e)
{
    const struct adoptions *a = &placement_of(w)->adoptions;
    size_t n = m->n_choice;

    if (n > LIVE_ROWS_MAX || n > a->n_announced - a->n_listed) {
        return error_set(e, ST_DATA_LOSS,
                         "Live lists %zu sequences after %" PRIu32
                         " in earlier messages; Hello announced %" PRIu32
                         ", and one message holds at most %d",
                         n, a->n_listed, a->n_announced, LIVE_ROWS_MAX);
    }
    if (m->request_ids.len != n * REQUEST_ID_BYTES || m->n_n_generated != n ||
        (m->n_grows > 0 && m->n_grows != n)) {
        return error_set(e, ST_DATA_LOSS,
                         "the columns of Live differ in length");
    }
    for (size_t i = 0; i < n; i++) {
        if (request_id_is_zero(m->request_ids.data + i * REQUEST_ID_BYTES) ||
            m->choice[i] >= CHOICES_MAX ||
            m->n_generated[i] > w->shard.context) {
            return error_set(e, ST_DATA_LOSS,
                             "a row of Live has an id of zeros, choice %" PRIu32
                             " of at most %d, or %" PRIu32
                             " tokens of at most %" PRIu32,
                             m->choice[i], CHOICES_MAX - 1, m->n_generated[i],
                             w->shard.context);
        }
    }
    return ST_OK;
}

static struct list *list_for(const struct placement *x, struct worker *w,
                             const struct orphan *o)
{
    struct adoptions *a = &placement_of(w)->adoptions;

    switch (x->events->fate(x->above, o->id, o->choice, w->model)) {
    case ORPHAN_IDLE:
        return &a->idle;
    case ORPHAN_WANTED:
        return &a->wanted;
    default:
        return &a->unwanted;
    }
}

static void unwant(struct placement *x, struct worker *w, struct orphan *o)
{
    table_remove(&placement_of(w)->adoptions.by_name, &o->by_name);
    list_remove(&o->place);
    list_append(PLANT(LIVE_UNDISOWNED) ? &placement_of(w)->adoptions.idle
                                       : &placement_of(w)->adoptions.unwanted,
                &o->place);
    /* adoption_pump() sends the Disown in the turn of the peer. */
    peers_touch(x->fleet, w->peer);
}

/* Adds row i of m, which is checked. */
static void add(struct placement *x, struct worker *w,
                const Sluice__V1__LiveMessage *m, size_t i, int64_t expires_us)
{
    const uint8_t *id = m->request_ids.data + i * REQUEST_ID_BYTES;
    bool grows = m->n_grows > 0 && m->grows[i] != 0;
    struct orphan *o = calloc(1, sizeof *o);
    struct list *place;

    w->grew = w->grew || grows; /* listed or not, it takes pages */
    if (o == NULL) {
        return; /* its worker ends it when its time is over */
    }
    memcpy(o->id, id, sizeof o->id);
    o->choice = m->choice[i];
    o->grows = grows;
    o->expires_us = expires_us;
    list_init(&o->place);
    place = list_for(x, w, o);
    if (place == &placement_of(w)->adoptions.unwanted) {
        unwant(x, w, o);
        return;
    }
    table_add(&placement_of(w)->adoptions.by_name, &o->by_name,
              name_key(x, id, o->choice));
    list_append(place, &o->place);
}

enum status adoptions_receive(struct placement *x, struct worker *w,
                              const Sluice__V1__LiveMessage *m, struct error *e)
{
    struct adoptions *a = &placement_of(w)->adoptions;
    uint32_t ms = m->expires_ms < LIVE_MS_MAX ? m->expires_ms : LIVE_MS_MAX;
    int64_t expires_us = x->base->now_us + (int64_t)ms * 1000;

    if (check_live(w, m, e) != ST_OK) {
        return e->code;
    }
    for (size_t i = 0; i < m->n_choice; i++) {
        const uint8_t *id = m->request_ids.data + i * REQUEST_ID_BYTES;

        if (find(x, w, id, m->choice[i]) != NULL) {
            return error_set(e, ST_DATA_LOSS, "Live lists one sequence twice");
        }
        add(x, w, m, i, expires_us);
    }
    a->n_listed += (uint32_t)m->n_choice;
    w->n_unlisted = a->n_announced - a->n_listed;
    log_gate_write(&x->base->log.live, x->base->now_us,
                   "worker=%s sequences=%zu expires_ms=%" PRIu32, w->peer->name,
                   m->n_choice, ms);
    expire(x, w);
    /* The last Live may open the worker for grants. */
    model_touch(x->fleet, w->model);
    return ST_OK;
}

/* ---- decisions ---- */

void adoption_wanted(struct placement *x, const uint8_t id[16], uint32_t choice,
                     const struct model *m)
{
    for (uint32_t i = 0; i < x->fleet->n_workers; i++) {
        struct worker *w = x->fleet->workers[i];
        struct orphan *o = find(x, w, id, choice);

        /* Several workers may list one sequence: the first grant decides, and
         * the others get a Disown. */
        if (o != NULL && w->model == m) {
            list_remove(&o->place);
            list_append(&placement_of(w)->adoptions.wanted, &o->place);
        }
    }
}

void adoption_decided(struct placement *x, const uint8_t id[16],
                      uint32_t choice)
{
    for (uint32_t i = 0; i < x->fleet->n_workers; i++) {
        struct worker *w = x->fleet->workers[i];
        struct orphan *o = find(x, w, id, choice);

        if (o != NULL) {
            unwant(x, w, o);
        }
    }
}

const uint8_t *adoption_next(const struct worker *w, uint32_t *choice)
{
    const struct list *wanted = &placement_of(w)->adoptions.wanted;
    const struct orphan *o;

    if (list_empty(wanted)) {
        return NULL;
    }
    o = LIST_OF(wanted->next, const struct orphan, place);
    *choice = o->choice;
    return o->id;
}

bool adoption_begin(struct worker *w)
{
    struct adoptions *a = &placement_of(w)->adoptions;
    struct orphan *o = LIST_OF(a->wanted.next, struct orphan, place);

    table_remove(&a->by_name, &o->by_name);
    return o->grows;
}

void adoption_end(struct placement *x, struct worker *w, bool sent)
{
    struct adoptions *a = &placement_of(w)->adoptions;
    struct orphan *o = LIST_OF(a->wanted.next, struct orphan, place);

    if (sent) {
        forget(w, o);
    } else {
        table_add(&a->by_name, &o->by_name, name_key(x, o->id, o->choice));
    }
}

/* ---- Disown ---- */

/* Copies the first unwanted orphans, as many as one message takes.  Returns
 * their number. */
static uint32_t fill_disown(const struct adoptions *a, uint8_t *ids,
                            uint32_t *choice)
{
    const struct list *at = a->unwanted.next;
    uint32_t n = 0;

    for (; at != &a->unwanted && n < LIVE_ROWS_MAX; at = at->next, n++) {
        const struct orphan *o = LIST_OF(at, const struct orphan, place);

        memcpy(ids + (size_t)n * REQUEST_ID_BYTES, o->id, sizeof o->id);
        choice[n] = o->choice;
    }
    return n;
}

void adoption_pump(struct placement *x, struct worker *w)
{
    struct adoptions *a = &placement_of(w)->adoptions;

    while (!list_empty(&a->unwanted)) {
        Sluice__V1__DisownMessage m = SLUICE__V1__DISOWN_MESSAGE__INIT;

        m.n_choice = fill_disown(a, x->disown_ids, x->disown_choice);
        m.choice = x->disown_choice;
        m.request_ids.data = x->disown_ids;
        m.request_ids.len = m.n_choice * REQUEST_ID_BYTES;
        if (peer_oneway(w->peer->peer, METHOD_WORKER_DISOWN, &m.base) !=
            ST_OK) {
            return;
        }
        log_info("disowned", "worker=%s sequences=%zu", w->peer->name,
                 m.n_choice);
        x->base->metrics.disowned += m.n_choice;
        for (size_t i = 0; i < m.n_choice; i++) {
            forget(w, LIST_OF(a->unwanted.next, struct orphan, place));
        }
    }
}
