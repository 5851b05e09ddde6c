#include "router/fleet/workers.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/plant.h"
#include "common/base/state_machine.h"
#include "router/calls/recv.h"
#include "router/replicas/replica.h"
#include "router/requests/adoption.h"
#include "router/router_state.h"

#define RING_START     16
#define GRANTS_BUCKETS 256

/* A worker in the router's eyes: the picture is in workers.h. */
static const struct sm_row worker_rows[WORKER_STATES] = {
    [WORKER_UP] = {"up", SM_TO(WORKER_SLOW) | SM_TO(WORKER_SILENT) |
                             SM_TO(WORKER_LOST)},
    [WORKER_SLOW] = {"slow", SM_TO(WORKER_UP) | SM_TO(WORKER_SILENT) |
                                 SM_TO(WORKER_LOST)},
    [WORKER_SILENT] = {"silent", SM_TO(WORKER_UP) | SM_TO(WORKER_LOST)},
    [WORKER_LOST] = {"lost", 0},
};

void worker_move(struct worker *w, enum worker_state to)
{
    sm_check(worker_rows, w->state, to, "worker", w->peer->name);
    w->state = to;
}

const char *worker_state_name(const struct worker *w)
{
    const char *drained = drain_name(w);

    return drained != NULL ? drained
           : w->state == WORKER_UP && w->life.probation
               ? "probation"
               : worker_rows[w->state].name;
}

static void copy_text(char *out, ProtobufCBinaryData d)
{
    if (d.len > 0) {
        memcpy(out, d.data, d.len);
    }
    out[d.len] = '\0';
}

static void shard_take(struct shard *to, const Sluice__V1__WorkerShard *s)
{
    *to = (struct shard){
        .layer_begin = s->layer_begin,
        .layer_end = s->layer_end,
        .n_layers = s->n_layers,
        .block_tokens = s->block_tokens,
        .context = s->context,
        .vocab = s->vocab,
        .max_rows = s->max_rows,
        .pages_per_block = s->pages_per_block,
        .pages_per_slot = s->pages_per_slot,
        .pages_per_checkpoint = s->pages_per_checkpoint,
        .block_bytes = s->block_bytes,
        .slot_bytes = s->slot_bytes,
        .checkpoint_bytes = s->checkpoint_bytes,
        .weight_bytes = s->weight_bytes,
        .scratch_bytes = s->scratch_bytes,
        .pool_bytes = s->pool_bytes,
        .hidden = s->hidden,
        .step_tokens = s->step_tokens,
    };
    copy_text(to->device, s->device);
    if (s->layer_end - s->layer_begin < s->n_layers) { /* check_stage() */
        copy_text(to->stage_endpoint, s->stage_endpoint);
    }
}

static void class_take(struct class_ledger *to,
                       const Sluice__V1__ClassLedger *c)
{
    *to = (struct class_ledger){c->total, c->free, c->held, c->cached,
                                c->granted};
}

static void ledger_copy(struct ledger *to, const Sluice__V1__Ledger *l)
{
    to->session = l->session;
    to->snapshot = l->snapshot;
    to->grant = l->grant;
    to->violations = l->violations;
    class_take(&to->classes[BLOCKS], l->blocks);
    class_take(&to->classes[SLOTS], l->slots);
    class_take(&to->classes[CHECKPOINTS], l->checkpoints);
    class_take(&to->classes[PAGES], l->pages);
    to->n_queued = l->n_queued;
    to->n_prefill = l->n_prefill;
    to->n_decode = l->n_decode;
    to->n_kept = l->n_kept;
}

void worker_serve(struct router_core *r, struct worker *w)
{
    struct model *m = w->model;
    uint32_t context = worker_context(w);

    w->serves = true;
    if (m->n_places++ == 0 || m->context < context) {
        m->context = context;
    }
    model_look(r, m);
    choices_recheck(r, m); /* it may have been absent */
    drains_look(r, m);
    model_touch(r, m);
}

void worker_unserve(struct router_core *r, struct worker *w)
{
    struct model *m = w->model;

    if (!w->serves) {
        return;
    }
    w->serves = false;
    if (--m->n_places > 0) { /* else the last one known counts */
        m->context = 0;
    }
    for (uint32_t i = 0; i < r->n_workers; i++) {
        const struct worker *u = r->workers[i];

        if (u->model == m && worker_can_serve(u) &&
            worker_context(u) > m->context) {
            m->context = worker_context(u);
        }
    }
}

/* Until there is a replica, its model is known and absent. */
static void wait_for_others(struct router_core *r, struct worker *w)
{
    struct model *m = w->model;

    m->n_loose++;
    if (m->context == 0) {
        m->context = w->shard.context;
    }
    model_look(r, m);
    model_touch(r, m);
}

struct worker *worker_open(struct router_core *r, struct router_peer *p,
                           struct model *m, const Sluice__V1__WorkerShard *s)
{
    struct worker *w = calloc(1, sizeof *w);

    assert(w != NULL && r->n_workers < ROUTER_WORKERS_MAX);
    w->peer = p;
    w->model = m;
    w->state = WORKER_UP;
    shard_take(&w->shard, s);
    ledger_copy(&w->ledger, s->ledger);
    w->ledger.session = p->session;
    w->ring_size = RING_START;
    w->ring = calloc(w->ring_size, sizeof *w->ring);
    assert(w->ring != NULL);
    table_init(&w->grants, GRANTS_BUCKETS);
    list_init(&w->running);
    list_init(&w->parts);
    list_init(&w->removals);
    drain_init(&w->drain);
    adoptions_open(w, s->n_live);
    liveness_open(r, w);
    lineage_begin(r, w, s);
    r->workers[r->n_workers++] = w;
    offers_arrived(r, w);
    if (worker_is_staged(w)) {
        wait_for_others(r, w);
    } else {
        worker_serve(r, w);
    }
    return w;
}

static void workers_forget(struct router_core *r, struct worker *w)
{
    uint32_t i = 0;

    while (r->workers[i] != w) {
        i++;
    }
    r->n_workers--;
    memmove(&r->workers[i], &r->workers[i + 1],
            (r->n_workers - i) * sizeof *r->workers);
}

void worker_died(struct worker *w, enum worker_death how)
{
    if (!w->peer->ended) {
        w->death = how;
    }
}

void worker_mourn(struct router_core *r, struct worker *w)
{
    if (!w->mourned) {
        w->mourned = true;
        lineage_end(r, w, w->death != DEATH_NONE && trial_death(r, w));
    }
}

/* What runs at its place, from the newest to the oldest: each goes before all
 * that came after it, so the head of the queue is found at once. */
static void displace(struct router_core *r, struct worker *w, const char *why)
{
    struct worker *place = worker_place(w);

    if (w->replica != NULL) {
        why = w->replica->why;
    }
    while (place != NULL && !list_empty(&place->running)) {
        struct list *last = place->running.prev;
        choice_displaced(r, LIST_OF(last, struct choice, running), why);
    }
}

void worker_close(struct router_core *r, struct worker **pw, const char *why)
{
    struct worker *w = *pw;

    *pw = NULL;
    if (w == NULL) {
        return;
    }
    worker_move(w, WORKER_LOST);
    if (!r->stopping && w->drain.leaving && w->n_running == 0) {
        log_info("worker-left", "worker=%s", w->peer->name);
    } else if (!r->stopping) {
        log_warn("worker-lost",
                 "worker=%s sequences=%" PRIu32 " silent_ms=%" PRId64
                 " why=\"%s\"",
                 w->peer->name, w->n_running,
                 (r->now_us - w->peer->heard_us) / 1000, why);
    }
    r->metrics.workers_lost++;
    workers_forget(r, w);
    replica_end(r, w, why);
    worker_unserve(r, w);
    model_look(r, w->model);
    worker_mourn(r, w);
    displace(r, w, why);
    replica_leave(w);
    if (worker_is_staged(w)) {
        offers_departed(r, w);
    }
    choices_recheck(r, w->model);
    drain_close(r, w);
    audit_worker_lost(r, w);
    adoptions_close(r, w);
    liveness_close(r, w);
    table_fini(&w->grants);
    free(w->ring);
    model_release(r, &w->model);
    free(w);
}

static bool class_lies(const char *name, const struct class_ledger *known,
                       const Sluice__V1__ClassLedger *c, struct error *e)
{
    uint64_t sum = (uint64_t)c->free + c->held + c->cached + c->granted;

    if (c->total != known->total) {
        error_set(e, ST_DATA_LOSS,
                  "its ledger has %" PRIu32 " %s in all, Hello said %" PRIu32,
                  c->total, name, known->total);
        return true;
    }
    if (sum != c->total) {
        error_set(e, ST_DATA_LOSS,
                  "its ledger's %s do not add up: total %" PRIu32
                  ", sum %" PRIu64,
                  name, c->total, sum);
        return true;
    }
    return false;
}

static bool grant_lies(const struct worker *w, const Sluice__V1__Ledger *l,
                       struct error *e)
{
    bool newer = l->snapshot > w->ledger.snapshot;

    if (l->grant > w->last_grant) {
        error_set(e, ST_DATA_LOSS,
                  "its ledger settles grant %" PRIu64 ", the last is %" PRIu64,
                  l->grant, w->last_grant);
        return true;
    }
    if (newer ? l->grant < w->ledger.grant : l->grant > w->ledger.grant) {
        error_set(e, ST_DATA_LOSS,
                  "its ledger %" PRIu64 " settles grant %" PRIu64
                  ", ledger %" PRIu64 " settled %" PRIu64,
                  l->snapshot, l->grant, w->ledger.snapshot, w->ledger.grant);
        return true;
    }
    return false;
}

enum ledger_verdict worker_ledger_check(const struct worker *w,
                                        const Sluice__V1__Ledger *l,
                                        struct error *e)
{
    const struct class_ledger *known = w->ledger.classes;

    if (l->session != w->peer->session) {
        return LEDGER_OLD;
    }
    if (class_lies("blocks", &known[BLOCKS], l->blocks, e) ||
        class_lies("slots", &known[SLOTS], l->slots, e) ||
        class_lies("checkpoints", &known[CHECKPOINTS], l->checkpoints, e) ||
        class_lies("pages", &known[PAGES], l->pages, e) ||
        grant_lies(w, l, e)) {
        return LEDGER_LIE;
    }
    return l->snapshot > w->ledger.snapshot || PLANT(OLD_SNAPSHOT) ? LEDGER_NEW
                                                                   : LEDGER_OLD;
}

enum ledger_verdict worker_report_check(const struct worker *w,
                                        const Sluice__V1__Ledger *l,
                                        const Sluice__V1__EngineState *engine,
                                        struct error *e)
{
    enum ledger_verdict verdict = worker_ledger_check(w, l, e);

    /* What an older report says of the engine is older, too. */
    if (verdict == LEDGER_NEW && l->snapshot > w->ledger.snapshot &&
        liveness_check(w, engine, e) != ST_OK) {
        return LEDGER_LIE;
    }
    return verdict;
}

static void settle(struct worker *w, uint64_t grant)
{
    for (uint64_t request = w->ledger.grant + 1; request <= grant; request++) {
        const struct need *n = &w->ring[request & (w->ring_size - 1)];
        for (int c = 0; c < POOL_CLASSES; c++) {
            w->owed[c] -= n->of[c] * (PLANT(GRANT_TWICE) ? 2 : 1);
        }
    }
}

void worker_ledger_take(struct router_core *r, struct worker *w,
                        const Sluice__V1__Ledger *l)
{
    uint64_t violations = w->ledger.violations;

    settle(w, l->grant);
    ledger_copy(&w->ledger, l);
    if (l->violations > violations) {
        r->metrics.ledger_violations += l->violations - violations;
    }
    for (int c = 0; c < POOL_CLASSES; c++) {
        const struct class_ledger *k = &w->ledger.classes[c];
        if (k->total > 0 && (uint64_t)k->free + k->cached < w->owed[c]) {
            r->metrics.ledger_violations++;
        }
    }
    model_touch(r, w->model);
}

static void class_message(const struct class_ledger *c,
                          Sluice__V1__ClassLedger *out)
{
    sluice__v1__class_ledger__init(out);
    out->total = c->total;
    out->free = c->free;
    out->held = c->held;
    out->cached = c->cached;
    out->granted = c->granted;
}

void ledger_message(const struct ledger *l, Sluice__V1__Ledger *out,
                    Sluice__V1__ClassLedger classes[POOL_CLASSES])
{
    sluice__v1__ledger__init(out);
    for (int c = 0; c < POOL_CLASSES; c++) {
        class_message(&l->classes[c], &classes[c]);
    }
    out->session = l->session;
    out->snapshot = l->snapshot;
    out->grant = l->grant;
    out->blocks = &classes[BLOCKS];
    out->slots = &classes[SLOTS];
    out->checkpoints = &classes[CHECKPOINTS];
    out->pages = &classes[PAGES];
    out->has_violations = true;
    out->violations = l->violations;
    out->has_n_queued = out->has_n_prefill = true;
    out->n_queued = l->n_queued;
    out->n_prefill = l->n_prefill;
    out->has_n_decode = out->has_n_kept = true;
    out->n_decode = l->n_decode;
    out->n_kept = l->n_kept;
}

static struct need share(const struct worker *w, uint64_t blocks,
                         uint64_t slots)
{
    const struct class_ledger *k = w->ledger.classes;
    const struct shard *s = &w->shard;
    struct need n = {{0}};

    n.of[BLOCKS] = k[BLOCKS].total > 0 ? blocks : 0;
    n.of[SLOTS] = k[SLOTS].total > 0 ? slots : 0;
    if (k[PAGES].total > 0) {
        n.of[PAGES] =
            n.of[BLOCKS] * s->pages_per_block + n.of[SLOTS] * s->pages_per_slot;
    }
    return n;
}

struct need worker_share(const struct worker *w, uint64_t blocks,
                         uint64_t slots)
{
    return share(w, blocks, slots);
}

struct need worker_need(const struct worker *w, uint64_t n_tokens)
{
    uint32_t block = w->shard.block_tokens;

    return share(w, (n_tokens + block - 1) / block, 1);
}

bool worker_fits_ever(const struct worker *w, uint64_t n_tokens)
{
    struct need n = worker_need(w, n_tokens);

    for (int c = 0; c < POOL_CLASSES; c++) {
        if (n.of[c] > w->ledger.classes[c].total) {
            return false;
        }
    }
    return n_tokens <= w->shard.context;
}

uint64_t worker_room(const struct worker *w, enum pool_class c)
{
    const struct class_ledger *k = &w->ledger.classes[c];
    uint64_t have = (uint64_t)k->free + k->cached;

    return have > w->owed[c] ? have - w->owed[c] : 0;
}

bool worker_has_room(const struct worker *w, const struct need *need)
{
    for (int c = 0; c < POOL_CLASSES; c++) {
        if (need->of[c] > worker_room(w, (enum pool_class)c)) {
            return false;
        }
    }
    return true;
}

static void ring_grow(struct worker *w)
{
    uint32_t size = w->ring_size * 2;
    struct need *ring = calloc(size, sizeof *ring);

    assert(ring != NULL);
    for (uint64_t request = w->ledger.grant + 1; request <= w->last_grant;
         request++) {
        ring[request & (size - 1)] = w->ring[request & (w->ring_size - 1)];
    }
    free(w->ring);
    w->ring = ring;
    w->ring_size = size;
}

uint64_t worker_grant(struct worker *w, const struct need *need)
{
    assert(w->last_grant - w->ledger.grant < GRANTS_UNSETTLED_MAX);
    if (w->last_grant - w->ledger.grant == w->ring_size) {
        ring_grow(w);
    }
    w->last_grant++;
    w->ring[w->last_grant & (w->ring_size - 1)] = *need;
    for (int c = 0; c < POOL_CLASSES; c++) {
        w->owed[c] += need->of[c];
    }
    return w->last_grant;
}

struct choice *worker_sequence(const struct worker *w, uint64_t grant)
{
    struct table_node *n = table_find(&w->grants, grant);

    return n == NULL ? NULL : LIST_OF(n, struct choice, by_grant);
}
