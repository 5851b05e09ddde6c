#include "router/replicas/replica.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/minmax.h"
#include "common/base/quote.h"
#include "common/base/state_machine.h"
#include "proto/worker.pb-c.h"
#include "router/replicas/cover.h"
#include "router/replicas/place.h"

/* The picture in replica.h as a table. */
static const struct sm_row replica_rows[REPLICA_STATES] = {
    [REPLICA_FORMING] = {"forming", SM_TO(REPLICA_UP) | SM_TO(REPLICA_BROKEN) |
                                        SM_TO(REPLICA_ENDING)},
    [REPLICA_UP] = {"up", SM_TO(REPLICA_BROKEN) | SM_TO(REPLICA_ENDING)},
    [REPLICA_BROKEN] = {"broken", SM_TO(REPLICA_ENDING)},
    [REPLICA_ENDING] = {"ending", 0},
};

const char *replica_state_name(const struct replica *x)
{
    return replica_rows[x->state].name;
}

static void move_state(struct replicas *r, struct replica *x,
                       enum replica_state to)
{
    sm_check(replica_rows, x->state, to, "replica", x->model->name);
    r->base->metrics.replicas_forming -= x->state == REPLICA_FORMING;
    r->base->metrics.replicas_up -= x->state == REPLICA_UP;
    r->base->metrics.replicas_up += to == REPLICA_UP;
    r->base->metrics.replicas_over += to == REPLICA_ENDING;
    x->state = to;
}

/* ---- end ---- */

static void pause_fire(void *room, struct event *e)
{
    struct replicas *r = room;
    model_touch(r->fleet, EVENT_OF(e, struct model, pause));
}

static bool is_paused(const struct replicas *r, const struct model *m)
{
    return m->pause_us > 0 && m->pause.timer.due_us > r->base->now_us;
}

/* No worker died, so the same workers would form the same replica again at once
 * and fail the same way.  The delay keeps that from becoming a loop. */
static void pause_model(struct replicas *r, struct replica *x)
{
    struct model *m = x->model;
    bool restart =
        m->pause_us == 0 ||
        (x->up_us != 0 && r->base->now_us - x->up_us > ASSEMBLE_RETRY_US_MAX);

    m->pause_us = restart ? ASSEMBLE_RETRY_US : m->pause_us * 2;
    if (m->pause_us > ASSEMBLE_RETRY_US_MAX) {
        m->pause_us = ASSEMBLE_RETRY_US_MAX;
    }
    event_init(&m->pause, pause_fire, r);
    event_set(r->base, &m->pause, r->base->now_us + m->pause_us);
}

static void end_replica(struct replicas *r, struct replica *x)
{
    move_state(r, x, REPLICA_ENDING);
    event_clear(r->base, &x->due);
    /* Before the sessions end, so that no grant goes to a dying replica. */
    if (x->workers[0] != NULL) {
        place_end(r, x->workers[0]);
    }
    if (!r->base->stopping) {
        log_warn("replica-over",
                 "model=%s assembly=%016" PRIx64 " stages=%" PRIu32
                 " leader=%s why=\"%s\"",
                 x->model->name, x->assembly, x->n_stages, x->leader, x->why);
    }
    for (uint32_t i = 0; i < x->n_stages; i++) {
        if (x->workers[i] != NULL) {
            peers_end(r->fleet, x->workers[i]->peer,
                      "its replica has ended: %s", x->why);
        }
    }
}

void replica_end(struct replicas *r, struct worker *w, const char *why)
{
    struct replica *x = member_of(w)->replica;

    if (x != NULL && x->state != REPLICA_ENDING) {
        snprintf(x->why, sizeof x->why, "worker %s: %s", w->peer->name, why);
        end_replica(r, x);
    }
}

void replica_leave(struct worker *w)
{
    struct replica *x = member_of(w)->replica;

    if (x == NULL) {
        w->model->n_loose -= worker_is_staged(w);
        return;
    }
    /* replica_end() has run for this worker or for another one. */
    assert(x->state == REPLICA_ENDING && x->workers[member_of(w)->stage] == w);
    x->workers[member_of(w)->stage] = NULL;
    member_of(w)->replica = NULL;
    if (--x->n_left == 0) {
        list_remove(&x->all);
        free(x);
    }
}

/* The sessions do not end yet.  If a worker has died, the loss of its session
 * shows within BROKEN_US, and its death is charged to it and not to the
 * neighbour that reported first. */
static void break_replica(struct replicas *r, struct replica *x)
{
    move_state(r, x, REPLICA_BROKEN);
    x->broke_us = r->base->now_us;
    place_end(r, x->workers[0]);
    event_set(r->base, &x->due, r->base->now_us + BROKEN_US);
}

void replica_broken(struct replicas *r, struct worker *w, uint64_t assembly,
                    ProtobufCBinaryData why)
{
    struct replica *x = member_of(w)->replica;
    struct quoted reason = quote_bytes((const char *)why.data, why.len);

    /* Neighbours of a dead stage all report; only the first report counts. */
    if (x == NULL || x->assembly != assembly || x->state > REPLICA_UP) {
        log_debug("broken-stale", "worker=%s assembly=%016" PRIx64 " why=%s",
                  w->peer->name, assembly, reason.text);
        return;
    }
    snprintf(x->why, sizeof x->why, "worker %s reports %s", w->peer->name,
             reason.text);
    break_replica(r, x);
}

/* Returns true if all workers have sent a frame since x broke, so none of them
 * has died.  Otherwise one may be dead while its connection is still open; then
 * liveness.h, or a Hello of its next life, ends its session. */
static bool all_sent_since(const struct replica *x)
{
    for (uint32_t i = 0; i < x->n_stages; i++) {
        if (x->workers[i]->peer->heard_us < x->broke_us) {
            return false;
        }
    }
    return true;
}

/* ---- start ---- */

static void come_up(struct replicas *r, struct replica *x)
{
    move_state(r, x, REPLICA_UP);
    x->up_us = r->base->now_us;
    r->base->metrics.replicas++;
    log_info("replica-up",
             "model=%s assembly=%016" PRIx64 " stages=%" PRIu32 " leader=%s",
             x->model->name, x->assembly, x->n_stages, x->leader);
    place_begin(r, x->workers[0]);
    r->fleet->events->replica_up(r->fleet->above);
}

static void due_fire(void *room, struct event *e)
{
    struct replicas *r = room;
    struct replica *x = EVENT_OF(e, struct replica, due);

    if (x->state == REPLICA_FORMING) {
        come_up(r, x);
    } else if (!all_sent_since(x)) {
        event_set(r->base, e, r->base->now_us + BROKEN_US);
    } else {
        pause_model(r, x);
        end_replica(r, x);
    }
}

void replica_answered(struct replicas *r, struct worker *w, enum status status,
                      const struct error *e)
{
    struct replica *x = member_of(w)->replica;

    if (x == NULL || x->state != REPLICA_FORMING) {
        return;
    }
    if (status != ST_OK) {
        snprintf(x->why, sizeof x->why, "worker %s: Assemble: %.150s",
                 w->peer->name, e->text);
        break_replica(r, x);
    } else if (++x->n_ready == x->n_stages) {
        /* From a timer: this is a callback of a peer, and a place that opens
         * reaches into all rooms. */
        event_set(r->base, &x->due, r->base->now_us);
    }
}

/* Sets the largest step that every stage accepts: the leader must not plan a
 * step that a later stage has no room for. */
static void fill_step(const struct replica *x, Sluice__V1__AssembleRequest *m)
{
    bool all_given = true;

    m->has_max_rows = true;
    m->max_rows = m->step_tokens = UINT32_MAX;
    for (uint32_t i = 0; i < x->n_stages; i++) {
        const struct shard *s = &x->workers[i]->shard;

        m->max_rows = min_u32(m->max_rows, s->max_rows);
        m->step_tokens = min_u32(m->step_tokens, s->step_tokens);
        all_given = all_given && s->step_tokens > 0;
    }
    m->has_step_tokens = all_given;
}

/* Names the keys of both neighbours, as this router authenticated them: a stage
 * accepts no other worker beside it. */
static void fill_keys(const struct replica *x, uint32_t stage,
                      Sluice__V1__AssembleRequest *m)
{
    uint32_t n = x->n_stages;
    struct router_peer *next = x->workers[(stage + 1) % n]->peer;
    struct router_peer *previous = x->workers[(stage + n - 1) % n]->peer;

    m->has_next_key = next->keyed;
    m->next_key = (ProtobufCBinaryData){KEY_BYTES, next->identity.key};
    m->has_previous_key = previous->keyed;
    m->previous_key = (ProtobufCBinaryData){KEY_BYTES, previous->identity.key};
}

/* The last stage sends its results to the leader, so the stages form a ring. */
static enum status send_assemble(const struct replica *x, uint32_t stage)
{
    Sluice__V1__AssembleRequest m = SLUICE__V1__ASSEMBLE_REQUEST__INIT;
    const struct worker *next = x->workers[(stage + 1) % x->n_stages];

    m.assembly = x->assembly;
    m.stage = stage;
    m.n_stages = x->n_stages;
    m.next = wire_text(next->shard.stage_endpoint);
    fill_keys(x, stage, &m);
    fill_step(x, &m);
    return peer_call(x->workers[stage]->peer->peer, METHOD_WORKER_ASSEMBLE,
                     &m.base, ASSEMBLE_US / 1000, stage, NULL);
}

static void send_all_assembles(struct replicas *r, struct replica *x)
{
    log_info("replica-forms",
             "model=%s assembly=%016" PRIx64 " stages=%" PRIu32 " leader=%s",
             x->model->name, x->assembly, x->n_stages, x->leader);
    for (uint32_t i = 0; i < x->n_stages; i++) {
        if (send_assemble(x, i) != ST_OK) {
            snprintf(x->why, sizeof x->why,
                     "worker %s: Assemble could not be queued",
                     x->workers[i]->peer->name);
            break_replica(r, x);
            return;
        }
    }
}

static void form_replica(struct replicas *r, struct worker *const *workers,
                         const struct cover_set *s)
{
    struct replica *x = calloc(1, sizeof *x);

    assert(s->n >= 2 && s->n <= STAGES_MAX);
    if (x == NULL) {
        return; /* they wait for the next change */
    }
    x->assembly = r->base->io->random(r->base->io) | 1;
    x->n_stages = x->n_left = s->n;
    x->context = UINT32_MAX;
    event_init(&x->due, due_fire, r);
    r->base->metrics.replicas_forming++;
    list_append(&r->all, &x->all);
    for (uint32_t i = 0; i < s->n; i++) {
        struct worker *w = workers[s->pieces[i]];

        x->workers[i] = w;
        member_of(w)->replica = x;
        member_of(w)->stage = i;
        w->chunk_tokens = x->workers[0]->shard.chunk_tokens;
        w->model->n_loose--;
        if (w->shard.context < x->context) {
            x->context = w->shard.context;
        }
    }
    x->model = x->workers[0]->model;
    snprintf(x->leader, sizeof x->leader, "%s", x->workers[0]->peer->name);
    send_all_assembles(r, x);
}

/* ---- choice of workers ---- */

static bool can_join(const struct worker *w, const struct model *m)
{
    return w->model == m && worker_is_staged(w) &&
           member_of(w)->replica == NULL && w->state == WORKER_UP &&
           !w->peer->ended && w->drain == DRAIN_NONE && !lineage_delayed(w);
}

/* Stages pass x to each other and share grants of blocks, so both must have the
 * same size everywhere.  The leader's steps bound the window blocks of all. */
static bool shards_agree(const struct shard *a, const struct shard *b)
{
    return a->n_layers == b->n_layers && a->hidden == b->hidden &&
           a->block_tokens == b->block_tokens && a->vocab == b->vocab &&
           (a->chunk_tokens > 0) == (b->chunk_tokens > 0) &&
           (a->window_pages == 0 || b->window_pages == 0 ||
            a->window_tokens == b->window_tokens);
}

/* Moves the workers that agree with from[0] to group, both in order of arrival.
 * Returns how many are left in from. */
static uint32_t pick_group(struct worker **from, uint32_t n,
                           struct worker **group, uint32_t *n_group)
{
    const struct shard *first = &from[0]->shard;
    uint32_t left = 0;

    *n_group = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (shards_agree(first, &from[i]->shard)) {
            group[(*n_group)++] = from[i];
        } else {
            from[left++] = from[i];
        }
    }
    return left;
}

static void form_group(struct replicas *r, struct worker *const *group,
                       uint32_t n)
{
    struct cover_piece pieces[ROUTER_WORKERS_MAX];
    struct cover cover;

    for (uint32_t i = 0; i < n; i++) {
        pieces[i] = (struct cover_piece){group[i]->shard.layer_begin,
                                         group[i]->shard.layer_end};
    }
    cover_find(&cover, pieces, n, group[0]->shard.n_layers);
    for (uint32_t i = 0; i < cover.n; i++) {
        form_replica(r, group, &cover.sets[i]);
    }
}

_Static_assert(ROUTER_WORKERS_MAX <= COVER_PIECES_MAX,
               "pieces hold all workers");

void replicas_form(struct replicas *r, struct model *m)
{
    struct worker *waiting[ROUTER_WORKERS_MAX], *group[ROUTER_WORKERS_MAX];
    uint32_t n = 0, n_group;

    if (m->n_loose < 2 || is_paused(r, m)) {
        return;
    }
    for (uint32_t i = 0; i < r->fleet->n_workers; i++) {
        if (can_join(r->fleet->workers[i], m)) {
            waiting[n++] = r->fleet->workers[i];
        }
    }
    /* Each round takes from[0] at least. */
    while (n > 0) {
        n = pick_group(waiting, n, group, &n_group);
        form_group(r, group, n_group);
    }
}
