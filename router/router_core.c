#include "router/router_core.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/minmax.h"
#include "router/calls/counts.h"
#include "router/calls/dispatch.h"
#include "router/calls/router_state.h"
#include "router/calls/tick.h"
#include "router/calls/worker_session.h"
#include "router/fleet/liveness.h"
#include "router/replicas/offers.h"
#include "router/replicas/replica.h"
#include "router/requests/choice_moves.h"
#include "router/requests/continuation.h"
#include "router/requests/leases.h"
#include "router/requests/overdue.h"
#include "router/requests/placed.h"
#include "router/requests/request_end.h"
#include "router/requests/slow_reader.h"
#include "router/requests/stream.h"
#include "router/requests/submit.h"
#include "router/requests/trial_deaths.h"
#include "router/schedule/bypass.h"
#include "router/schedule/claims.h"
#include "router/schedule/fair.h"
#include "router/schedule/lengths.h"
#include "router/schedule/policy.h"
#include "router/schedule/predict.h"

/* ---- events from the rooms below ---- */

static void on_peer_over(void *above, struct router_peer *p)
{
    struct router_core *r = above;

    worker_session_close(r, &p->worker, p->why);
    offer_close(&r->replicas, &offer_of(p)->offer);
    stream_close(&r->requests, p);
}

static void slow_fire(void *room, struct event *e)
{
    slow_reader_check(room, EVENT_OF(e, struct session_output, slow)->peer);
}

static void on_peer_begun(void *above, struct router_peer *p)
{
    struct router_core *r = above;

    stream_open(&r->requests, p, slow_fire);
}

static void recheck_choices(void *above, struct model *m)
{
    struct router_core *r = above;

    choices_recheck(&r->requests, m);
}

static void on_drain_empty(void *above, struct worker *w)
{
    struct router_core *r = above;

    drain_look(&r->placement, w);
}

/* The model may have been absent, or its sequences stuck at a draining
 * worker. */
static void on_place_opened(void *above, struct model *m)
{
    struct router_core *r = above;

    choices_recheck(&r->requests, m);
    drains_recheck(&r->placement, m);
}

static void on_replica_up(void *above)
{
    early_run(above);
}

static void on_readmitted(void *above)
{
    struct router_core *r = above;

    offers_touch(&r->replicas);
}

static void on_life_went_on(void *above, uint64_t life)
{
    struct router_core *r = above;

    trial_alive(&r->requests, life);
}

static const struct fleet_events fleet_table = {
    .peer_begun = on_peer_begun,
    .peer_over = on_peer_over,
    .drain_empty = on_drain_empty,
    .model_gone = recheck_choices,
    .place_opened = on_place_opened,
    .replica_up = on_replica_up,
    .readmitted = on_readmitted,
    .life_went_on = on_life_went_on,
};

static void on_draining(void *above, struct worker *w)
{
    struct router_core *r = above;

    placed_draining(&r->requests, w);
}

static uint32_t on_move_all(void *above, struct worker *place)
{
    struct router_core *r = above;

    return placed_move_all(&r->requests, place);
}

static enum orphan_fate on_fate(void *above, const uint8_t id[REQUEST_ID_BYTES],
                                uint32_t choice, const struct model *m)
{
    struct router_core *r = above;

    return placed_fate(&r->requests, id, choice, m);
}

static const struct placement_events placement_table = {
    .draining = on_draining,
    .move_all = on_move_all,
    .drains_changed = recheck_choices,
    .fate = on_fate,
};

static enum status on_grant(void *above, struct queue_entry *e,
                            struct worker *w)
{
    struct router_core *r = above;

    return submit_send(&r->requests, w, LIST_OF(e, struct choice, entry));
}

static void on_crowded(void *above, struct queue_entry *e)
{
    struct router_core *r = above;

    continuation_crowded(&r->requests, LIST_OF(e, struct choice, entry));
}

static void on_short_of_room(void *above, const struct queue_entry *e)
{
    struct router_core *r = above;

    leases_pressed(&r->requests, e);
}

static const struct schedule_events schedule_table = {
    .grant = on_grant,
    .crowded = on_crowded,
    .short_of_room = on_short_of_room,
};

/* ---- creating and freeing ---- */

/* Gives models of --places their figures, before a worker has come. */
static void expect_places(struct router_base *b)
{
    for (uint32_t i = 0; i < b->options.n_places; i++) {
        const struct named_number *p = &b->options.places[i];
        size_t slot = metric_slot(&b->model_names, p->name, strlen(p->name));

        b->models[slot].model_places_expected = p->number;
    }
}

static void base_init(struct router_base *b, const struct router_options *o,
                      struct node_io *io)
{
    b->options = *o;
    b->options.silent_us = o->silent_us > 0 ? o->silent_us : WORKER_SILENT_US;
    b->options.lost_us = o->lost_us > 0 ? o->lost_us : WORKER_LOST_US;
    b->options.hung_us = o->hung_us > 0 ? o->hung_us : WORKER_HUNG_US;
    snprintf(b->name, sizeof b->name, "%s", o->name);
    b->io = io;
    b->memory.max = o->memory_bytes > 0 ? o->memory_bytes : SIZE_MAX;
    b->seed = io->random(io);
    b->start_us = b->now_us = io->now_us(io);
    b->late.at_us = b->now_us;
    arena_init(&b->arena);
    timers_init(&b->timers);
    router_log_init(&b->log);
    expect_places(b);
}

static void begin_recording(const struct router_base *b)
{
    const struct router_options *o = &b->options;
    const struct record_options said = {.strict =
                                            o->admission == ADMISSION_STRICT,
                                        .headroom = o->headroom,
                                        .suspensions = o->suspensions,
                                        .max_requests = o->max_requests,
                                        .max_waiting = o->max_waiting,
                                        .kept = o->kept,
                                        .tenant_quota = o->tenant_quota,
                                        .retry_budget = o->retry_budget,
                                        .queue_timeout_us = o->queue_timeout_us,
                                        .worker_wait_us = o->worker_wait_us};

    record_options(o->recorder, b->now_us, &said);
    for (uint32_t i = 0; i < o->n_weights; i++) {
        record_weight(o->recorder, b->now_us, o->weights[i].name,
                      o->weights[i].number);
    }
}

struct router_core *router_new(const struct router_options *o,
                               struct node_io *io)
{
    struct router_core *r = memory_must(calloc(1, sizeof *r));

    assert(o->max_peers > 0 && o->max_admins > 0 && o->max_requests > 0);
    base_init(&r->base, o, io);
    fleet_init(&r->fleet, &r->base, &fleet_table, &router_peer_ops, r);
    r->replicas.base = &r->base;
    r->replicas.fleet = &r->fleet;
    list_init(&r->replicas.all);
    offers_init(&r->replicas);
    r->fleet.peer_parts.of[PART_REPLICAS] = sizeof(struct session_offer);
    r->fleet.worker_parts.of[PART_REPLICAS] = sizeof(struct membership);
    placement_init(&r->placement, &r->fleet, &r->replicas, &placement_table, r);
    r->schedule = (struct schedule){.base = &r->base,
                                    .fleet = &r->fleet,
                                    .placement = &r->placement,
                                    .policy = &policy_fair,
                                    .events = &schedule_table,
                                    .above = r};
    r->fleet.worker_parts.of[PART_SCHEDULE] = sizeof(struct place_charges);
    r->fleet.model_parts.of[PART_SCHEDULE] = sizeof(struct model_scheduling);
    requests_init(&r->requests, &r->base, &r->fleet, &r->replicas,
                  &r->schedule);
    overdue_init(&r->requests);
    list_init(&r->audits);
    early_init(r);
    counts_init(&r->counts);
    r->throttle = hello_throttle_new();
    begin_recording(&r->base);
    return r;
}

void router_free(struct router_core **pr)
{
    struct router_core *r = *pr;
    struct error e;

    *pr = NULL;
    if (r == NULL) {
        return;
    }
    r->base.stopping = true;
    router_log_end(&r->base.log);
    /* Requests go first: they hold references to workers and models. */
    error_set(&e, ST_UNAVAILABLE, "the router has stopped");
    requests_abandon(&r->requests, &e);
    for (struct list *at = r->fleet.all_peers.next; at != &r->fleet.all_peers;
         at = at->next) {
        peers_lose(&r->fleet, LIST_OF(at, struct router_peer, all), e.text);
    }
    peers_reap(&r->fleet);
    models_fini(&r->fleet);
    fleet_fini(&r->fleet);
    early_fini(r);
    offers_fini(&r->replicas);
    requests_fini(&r->requests);
    placement_fini(&r->placement);
    counts_fini(&r->counts);
    hello_throttle_free(&r->throttle);
    timers_fini(&r->base.timers);
    arena_fini(&r->base.arena);
    free(r);
}

void router_stop(struct router_core *r)
{
    r->base.stopping = true;
}

static void opened(void *node, struct peer_id who)
{
    (void)node, (void)who; /* a connection becomes a peer with its Hello */
}

static void recv(void *node, struct peer_id from, struct frame **f)
{
    struct router_core *r = node;

    r->base.now_us = r->base.io->now_us(r->base.io);
    dispatch_frame(r, from, *f);
    frame_free(f);
    peers_reap(&r->fleet);
}

static void lost(void *node, struct peer_id who)
{
    struct router_core *r = node;
    struct router_peer *p = peers_find(&r->fleet, who);

    r->base.now_us = r->base.io->now_us(r->base.io);
    if (p != NULL) {
        if (p->worker != NULL) {
            /* A worker that stops on purpose sends Goodbye first. */
            worker_died(p->worker, DEATH_LOST);
        }
        peers_lose(&r->fleet, p, "the connection broke");
        peers_reap(&r->fleet);
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
    const struct request *request = request_find(&r->requests, request_id, 16);

    return request == NULL || choice >= request->n_choices
               ? CHOICE_ENDED
               : request->choices[choice].state;
}

static uint32_t clamp_u32(uint64_t v)
{
    return v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}

/* Returns the units of a class that the newest ledger leaves to grants. */
static uint32_t n_available(const struct worker *w, enum fleet_class c)
{
    const struct class_ledger *k = &w->ledger.classes[c];

    return c == PAGES ? k->free + k->cached : k->total - k->held - k->granted;
}

static uint32_t n_suspects_at(const struct worker *w)
{
    uint32_t n = 0;

    for (const struct list *at = choices_of(w)->running.next;
         at != &choices_of(w)->running; at = at->next) {
        const struct trial *t =
            &LIST_OF(at, struct choice, grant.running)->entry.trial;
        n += trial_suspected(t) && t->state != TRIAL_ASIDE;
    }
    return n;
}

/* Returns the sequences of w that have tokens and have not ended.  Those that
 * are suspended do not generate. */
static uint32_t n_generating_at(const struct worker *w)
{
    uint32_t n = 0;

    for (const struct list *at = choices_of(w)->running.next;
         at != &choices_of(w)->running; at = at->next) {
        const struct queue_entry *e =
            &LIST_OF(at, struct choice, grant.running)->entry;
        n += e->committed == w && e->computing.at == NULL;
    }
    return n - min_u32(n, w->ledger.n_suspended);
}

static struct router_place_view place_view(const struct router_core *r,
                                           const struct worker *w)
{
    return (struct router_place_view){.n_late = charges_of(w)->n_late,
                                      .grows = claims_grow(&r->schedule, w),
                                      .n_rows = predict_rows(w),
                                      .n_generating = n_generating_at(w)};
}

bool router_worker_view(const struct router_core *r, uint32_t i,
                        struct router_worker_view *out)
{
    const struct worker *w;

    if (i >= r->fleet.n_workers) {
        return false;
    }
    w = r->fleet.workers[i];
    *out = (struct router_worker_view){
        .id = w->peer->id,
        .session = w->peer->session,
        .snapshot = w->ledger.snapshot,
        .grant = w->ledger.grant,
        .last_grant = w->grants.last,
        .free_blocks = n_available(w, BLOCKS),
        .free_slots = n_available(w, SLOTS),
        .free_windows = n_available(w, WINDOWS),
        .free_pages = n_available(w, PAGES),
        .granted_blocks = clamp_u32(w->grants.owed[BLOCKS]),
        .granted_slots = clamp_u32(w->grants.owed[SLOTS]),
        .granted_windows = clamp_u32(w->grants.owed[WINDOWS]),
        .granted_pages = clamp_u32(w->grants.owed[PAGES]),
        .greatest_pages = charges_of(w)->greatest,
        .place = place_view(r, w),
        .n_suspended = w->ledger.n_suspended,
        .grew = w->grew,
        .n_backlog = charges_of(w)->n_backlog,
        .n_sequences = w->n_running,
        .slow = w->state == WORKER_SLOW,
        .n_suspects = n_suspects_at(w),
        .n_barren = w->life.n_barren,
        .readmit_ms = lineage_readmit_ms(&r->fleet, w),
        .hung_us = liveness_hung_us(&r->fleet, w),
        .probation = lineage_probation(w),
        .draining = drain_name(w) != NULL,
        .serves = worker_can_serve(w),
        .assembly =
            member_of(w)->replica != NULL ? member_of(w)->replica->assembly : 0,
        .stage = member_of(w)->stage,
        .n_stages = worker_n_stages(w),
    };
    return true;
}

bool router_model_view(const struct router_core *r, uint32_t i,
                       struct router_model_view *out)
{
    const struct model *m;

    if (i >= r->fleet.n_models) {
        return false;
    }
    m = r->fleet.models[i];
    *out = (struct router_model_view){
        m->name,
        lengths_count(lengths_of(m)),
        lengths_expect(lengths_of(m), 0, LENGTHS_MOST),
        fair_is_ordered(m),
        predict_is_exact(m),
        leases_owed(&r->requests, m)};
    return true;
}

/* Returns whether choice is charged as it should be: it waits, or has memory.
 * One whose memory is asked for may have given its charge back. */
static bool is_charged_right(const struct choice *choice)
{
    if (choice->state == CHOICE_ENCODING ||
        (choice->state == CHOICE_ENDED && choice->grant.worker == NULL)) {
        return choice->entry.quota == 0;
    }
    return choice->entry.quota > 0 || choice->removal.state != REMOVAL_NONE;
}

bool router_quota_view(const struct router_core *r, uint32_t i,
                       struct router_quota_view *out)
{
    const char *name =
        i < METRIC_SLOTS ? metric_slot_name(&r->base.tenant_names, i) : NULL;
    const struct list *all = &r->requests.all_choices;

    *out = (struct router_quota_view){.tenant = name};
    if (name == NULL) {
        return false;
    }
    out->n_charged = r->base.tenants[i].tenant_occupied_tokens;
    for (const struct list *at = all->next; at != all; at = at->next) {
        const struct choice *choice = LIST_OF(at, struct choice, all);

        if (choice->request->scope.tenant == i) {
            out->n_sum += choice->entry.quota;
            out->n_judged += choice->request->resumed ? 0 : choice->entry.quota;
            out->n_wrong += !is_charged_right(choice);
        }
    }
    return true;
}

uint64_t router_tenant_learned(const struct router_core *r, uint32_t i,
                               const char *tenant)
{
    size_t n = tenant != NULL ? strlen(tenant) : 0;
    struct length_groups *g = &scheduling_of(r->fleet.models[i])->lengths;

    return lengths_count(
        &g->tenants[metric_slot_of(&r->base.tenant_names, tenant, n)]);
}

uint64_t router_prefixes(const struct router_core *r, uint32_t i, uint32_t *n)
{
    *n = 0;
    return i < r->fleet.n_workers
               ? prefix_feed_digest(&r->placement, r->fleet.workers[i], n)
               : 0;
}

enum choice_state router_grant_state(const struct router_core *r,
                                     struct peer_id worker, uint64_t grant)
{
    for (uint32_t i = 0; i < r->fleet.n_workers; i++) {
        const struct worker *w = r->fleet.workers[i];

        if (w->peer->id.v == worker.v) {
            const struct choice *choice = choice_of_grant(w, grant);

            return choice == NULL ? CHOICE_ENDED : choice->state;
        }
    }
    return CHOICE_ENDED;
}

bool router_lapses(const struct router_core *r, const uint8_t id[16],
                   uint32_t choice)
{
    const struct request *request = request_find(&r->requests, id, 16);

    return request != NULL && choice < request->n_choices &&
           lease_lapses(&request->choices[choice]);
}

int64_t router_late_us(const struct router_core *r)
{
    return overdue_late_us(&r->requests);
}

bool router_undealt(const struct router_core *r)
{
    return !r->base.stopping && offers_undealt(&r->replicas);
}

bool router_session_view(const struct router_core *r, uint32_t i,
                         struct router_session_view *out)
{
    const struct list *all = &r->fleet.all_peers;

    for (const struct list *at = all->next; at != all; at = at->next) {
        const struct router_peer *p = LIST_OF(at, struct router_peer, all);

        if (!p->ended && i-- == 0) {
            *out = (struct router_session_view){
                p->id, p->role, p->role == BY_WORKER || !list_empty(&p->calls),
                p->name, p->lineage};
            return true;
        }
    }
    return false;
}

void router_counts(const struct router_core *r, struct router_metrics *out)
{
    counts_take(r, out);
}

void router_line(const struct router_core *r, char *text, size_t cap)
{
    counts_line(r, text, cap);
}

void router_page(struct router_core *r, struct metric_page *page)
{
    struct metric_series s[COUNTS_SETS];

    counts_series(r, s);
    for (size_t i = 0; i < COUNTS_SETS; i++) {
        metric_page_add(page, &s[i]);
    }
}

void router_log_metrics(struct router_core *r)
{
    struct metric_series s[COUNTS_SETS];

    counts_series(r, s);
    for (size_t i = 0; i < COUNTS_SETS; i++) {
        metric_log("counted", &s[i]);
    }
}

void router_list_metrics(FILE *to)
{
    for (size_t i = 0; i < COUNTS_SETS; i++) {
        metric_list(to, counts_sets[i]);
    }
}
