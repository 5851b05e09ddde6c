#include "router/replicas/offers.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/minmax.h"
#include "common/base/plant.h"
#include "proto/worker.pb-c.h"
#include "router/replicas/deal.h"
#include "router/replicas/replica.h"

/* Shards and offers of one kind can be stages of one replica. */
struct kind {
    char model[MODEL_NAME_MAX + 1];
    uint8_t fingerprint[16];
    char kv_format[KV_FORMAT_MAX + 1];   /* "": not given */
    char arithmetic[ARITHMETIC_MAX + 1]; /* "": not given, or not compared */
    uint32_t n_layers, block_tokens;
};

/* A shard that is not connected but expected. */
struct expected {
    struct list all;
    struct kind kind;
    char lineage[PEER_NAME_MAX + 1];
    struct cover_piece piece;
    bool loads; /* assigned; false: its session ended recently */
    int64_t until_us;
};

struct offer {
    struct list all;
    struct router_peer *peer;
    struct kind kind;
    char lineage[PEER_NAME_MAX + 1];
    uint32_t n_stages, context, max_rows;
    uint32_t window_tokens, chunk_tokens; /* 0 without window layers */
    uint64_t budget_bytes, scratch_bytes, speed, embed_bytes, head_bytes;
    bool assigned, settled;      /* settled: the worker will load the layers */
    struct cover_piece given;    /* the layers, if assigned */
    int64_t closed_until_us;     /* no Assign before, after a refusal */
    struct split_layer layers[]; /* [kind.n_layers] */
};

static bool same_kind(const struct kind *a, const struct kind *b)
{
    return a->n_layers == b->n_layers && a->block_tokens == b->block_tokens &&
           memcmp(a->fingerprint, b->fingerprint, 16) == 0 &&
           shard_words_agree(a->kv_format, b->kv_format) &&
           shard_words_agree(a->arithmetic, b->arithmetic) &&
           strcmp(a->model, b->model) == 0;
}

/* Returns true if a deal may divide layers between two offers.  The layers must
 * cost the same at both, because a deal has one table of costs. */
static bool can_share(const struct offer *a, const struct offer *b)
{
    return same_kind(&a->kind, &b->kind) && a->n_stages == b->n_stages &&
           a->context == b->context && a->max_rows == b->max_rows &&
           a->window_tokens == b->window_tokens &&
           a->embed_bytes == b->embed_bytes && a->head_bytes == b->head_bytes &&
           memcmp(a->layers, b->layers,
                  a->kind.n_layers * sizeof a->layers[0]) == 0;
}

static bool is_free(const struct replicas *r, const struct offer *o)
{
    return !o->assigned && !o->peer->ended &&
           o->closed_until_us <= r->base->now_us;
}

static void copy_text(char *out, ProtobufCBinaryData d)
{
    memcpy(out, d.data, d.len);
    out[d.len] = '\0';
}

static struct kind kind_of_worker(const struct worker *w)
{
    struct kind k = {.n_layers = w->shard.n_layers,
                     .block_tokens = w->shard.block_tokens};

    memcpy(k.model, w->model->name, sizeof k.model);
    memcpy(k.fingerprint, w->model->fingerprint, 16);
    memcpy(k.kv_format, w->shard.kv_format, sizeof k.kv_format);
    memcpy(k.arithmetic, w->shard.arithmetic, sizeof k.arithmetic);
    return k;
}

/* Returns true if there is nothing to deal or to wait for, so no timer runs. */
static bool is_idle(const struct offers *all)
{
    return all->n == 0 && all->n_expected == 0;
}

void offers_touch(struct replicas *r)
{
    if (!is_idle(&r->offers)) {
        event_set(r->base, &r->offers.deal, r->base->now_us);
    }
}

/* ---- expected shards ---- */

static void forget_expected(struct replicas *r, struct expected *x)
{
    list_remove(&x->all);
    r->offers.n_expected--;
    free(x);
}

static void forget_lineage(struct replicas *r, const char *lineage)
{
    struct list *at = r->offers.expected.next;

    while (at != &r->offers.expected) {
        struct expected *x = LIST_OF(at, struct expected, all);

        at = at->next;
        if (strcmp(x->lineage, lineage) == 0) {
            forget_expected(r, x);
        }
    }
}

/* Returns false if no such shard was expected. */
static bool forget_piece(struct replicas *r, const char *lineage,
                         struct cover_piece p)
{
    struct list *at = r->offers.expected.next;
    bool found = false;

    while (at != &r->offers.expected) {
        struct expected *x = LIST_OF(at, struct expected, all);

        at = at->next;
        if (x->piece.begin == p.begin && x->piece.end == p.end &&
            strcmp(x->lineage, lineage) == 0) {
            forget_expected(r, x);
            found = true;
        }
    }
    return found;
}

/* Replaces only the expectation of the same layers: workers on one machine may
 * share a lineage and be expected with different layers. */
static void expect(struct replicas *r, const struct kind *k,
                   const char *lineage, struct cover_piece piece, int64_t us)
{
    struct offers *all = &r->offers;
    struct expected *x;

    (void)forget_piece(r, lineage, piece);
    if (all->n_expected == EXPECTED_MAX) {
        forget_expected(r, LIST_OF(all->expected.next, struct expected, all));
    }
    x = calloc(1, sizeof *x);
    if (x == NULL) {
        return; /* its layers may be dealt twice */
    }
    x->kind = *k;
    memcpy(x->lineage, lineage, strlen(lineage) + 1);
    x->piece = piece;
    x->loads = us == ASSIGN_US;
    x->until_us = r->base->now_us + us;
    list_append(&all->expected, &x->all);
    all->n_expected++;
}

void offers_arrived(struct replicas *r, const struct worker *w)
{
    const struct cover_piece p = {w->shard.layer_begin, w->shard.layer_end};

    /* Other layers than expected: it may be any of the expected workers. */
    if (!forget_piece(r, w->life.lineage, p)) {
        forget_lineage(r, w->life.lineage);
    }
    offers_touch(r);
}

/* Returns true if a worker of the same lineage as w, whose session is over, has
 * a session already, with layers or without. */
static bool is_back(const struct replicas *r, const struct worker *w)
{
    const struct list *at = r->offers.all.next;

    for (uint32_t i = 0; i < r->fleet->n_workers; i++) {
        if (strcmp(r->fleet->workers[i]->life.lineage, w->life.lineage) == 0) {
            return true;
        }
    }
    for (; at != &r->offers.all; at = at->next) {
        const struct offer *o = LIST_OF(at, struct offer, all);

        if (strcmp(o->lineage, w->life.lineage) == 0) {
            return true;
        }
    }
    return false;
}

void offers_departed(struct replicas *r, const struct worker *w)
{
    struct kind k = kind_of_worker(w);

    if (!r->base->stopping && w->drain != DRAIN_LEAVES && !is_back(r, w)) {
        expect(r, &k, w->life.lineage,
               (struct cover_piece){w->shard.layer_begin, w->shard.layer_end},
               RETURN_US);
    }
    offers_touch(r);
}

static void drop_expired(struct replicas *r)
{
    struct list *at = r->offers.expected.next;

    while (at != &r->offers.expected) {
        struct expected *x = LIST_OF(at, struct expected, all);

        at = at->next;
        if (x->until_us <= r->base->now_us) {
            forget_expected(r, x);
        }
    }
}

/* ---- deals ---- */

/* Adds the free offers that can share a deal with `like`, oldest first. */
static void gather_offers(const struct replicas *r, const struct offer *like,
                          struct offer *takers[STAGES_MAX], struct deal_task *t)
{
    struct list *at = r->offers.all.next;

    for (; at != &r->offers.all && t->n_workers < STAGES_MAX; at = at->next) {
        struct offer *o = LIST_OF(at, struct offer, all);

        if (is_free(r, o) && can_share(o, like)) {
            takers[t->n_workers] = o;
            t->workers[t->n_workers++] =
                (struct split_worker){.name = o->peer->name,
                                      .budget_bytes = o->budget_bytes,
                                      .scratch_bytes = o->scratch_bytes,
                                      .speed = (double)o->speed};
            if (o->chunk_tokens > t->chunk_tokens) {
                t->chunk_tokens = o->chunk_tokens; /* any of them may lead */
            }
        }
    }
}

/* A draining or closed worker does not count: it could not serve now, and a
 * replica should form without it. */
static void gather_pieces(const struct replicas *r, const struct kind *kind,
                          struct deal_task *t)
{
    struct list *at = r->offers.expected.next;

    for (uint32_t i = 0; i < r->fleet->n_workers; i++) {
        const struct worker *w = r->fleet->workers[i];
        struct kind k = kind_of_worker(w);

        if (worker_is_staged(w) && member_of(w)->replica == NULL &&
            !w->peer->ended && w->drain == DRAIN_NONE && !lineage_delayed(w) &&
            same_kind(&k, kind)) {
            t->pieces[t->n_pieces++] =
                (struct cover_piece){w->shard.layer_begin, w->shard.layer_end};
        }
    }
    for (; at != &r->offers.expected; at = at->next) {
        const struct expected *x = LIST_OF(at, struct expected, all);

        if (same_kind(&x->kind, kind)) {
            t->pieces[t->n_pieces++] = x->piece;
        }
    }
}

_Static_assert(ROUTER_WORKERS_MAX + EXPECTED_MAX <= COVER_PIECES_MAX,
               "pieces hold all workers and expected shards");

static void assign(struct replicas *r, struct offer *o,
                   struct cover_piece given)
{
    Sluice__V1__AssignRequest m = SLUICE__V1__ASSIGN_REQUEST__INIT;

    m.layer_begin = given.begin;
    m.layer_end = given.end;
    if (peer_call(o->peer->peer, METHOD_WORKER_ASSIGN, &m.base,
                  ASSEMBLE_US / 1000, 0, NULL) != ST_OK) {
        peers_end(r->fleet, o->peer, "Assign could not be queued");
        return;
    }
    o->assigned = true;
    o->given = given;
    /* From now on, so that the next deal does not assign the layers twice. */
    expect(r, &o->kind, o->lineage, given, ASSIGN_US);
    log_info("worker-assigned",
             "worker=%s model=%s layers=%" PRIu32 "-%" PRIu32 " of=%" PRIu32,
             o->peer->name, o->kind.model, given.begin, given.end,
             o->kind.n_layers);
}

/* Sets *t to the deal for the offers of one kind, with the free ones in takers.
 */
static void set_task(struct deal_task *t, const struct replicas *r,
                     const struct offer *first,
                     struct offer *takers[STAGES_MAX])
{
    *t = (struct deal_task){.layers = first->layers,
                            .embed_bytes = first->embed_bytes,
                            .head_bytes = first->head_bytes,
                            .n_layers = first->kind.n_layers,
                            .n_stages = first->n_stages,
                            .block_tokens = first->kind.block_tokens,
                            .context = first->context,
                            .max_rows = first->max_rows,
                            .window_tokens = first->window_tokens,
                            .no_gaps = r->base->now_us <
                                       r->base->start_us + RETURN_US};
    gather_offers(r, first, takers, t);
    gather_pieces(r, &first->kind, t);
}

/* Makes one deal for the offers of one kind.  Returns false if none is
 * possible. */
static bool deal_kind(struct replicas *r, const struct offer *first)
{
    struct offer *takers[STAGES_MAX];
    struct deal_task t;
    struct deal d;
    struct error e;

    set_task(&t, r, first, takers);
    if (deal_find(&d, &t, &e) == ST_RESOURCE_EXHAUSTED) {
        log_warn("no-split", "model=%s offers=%" PRIu32 " why=\"%s\"",
                 first->kind.model, t.n_workers, e.text);
    }
    for (uint32_t i = 0; i < d.n; i++) {
        assign(r, takers[d.workers[i]], d.given[i]);
    }
    return d.n > 0;
}

/* The first free offer of each kind represents the kind in deal_all(). */
static bool is_first_of_kind(const struct replicas *r, const struct offer *o)
{
    struct list *at = r->offers.all.next;

    for (; at != &o->all; at = at->next) {
        const struct offer *before = LIST_OF(at, struct offer, all);

        if (is_free(r, before) && can_share(before, o)) {
            return false;
        }
    }
    return is_free(r, o);
}

static void deal_all(struct replicas *r)
{
    struct list *at = r->offers.all.next;

    while (at != &r->offers.all) {
        struct offer *o = LIST_OF(at, struct offer, all);

        if (!is_first_of_kind(r, o) || !deal_kind(r, o)) {
            at = at->next; /* after a deal, try the offers that are left */
        }
    }
}

bool offers_undealt(const struct replicas *r)
{
    const struct list *at = r->offers.all.next;

    for (; at != &r->offers.all; at = at->next) {
        const struct offer *o = LIST_OF(at, struct offer, all);
        struct offer *takers[STAGES_MAX];
        struct deal_task t;
        struct deal d;
        struct error e;

        if (!is_first_of_kind(r, o)) {
            continue;
        }
        set_task(&t, r, o, takers);
        if (deal_find(&d, &t, &e) == ST_OK) {
            return true;
        }
    }
    return false;
}

static int64_t if_later(const struct replicas *r, int64_t us)
{
    return us > r->base->now_us ? us : NODE_IDLE;
}

/* Time alone changes three things: the router's start recedes, expectations
 * end, and refusing offers may receive layers again. */
static void set_next_deal(struct replicas *r)
{
    int64_t due = if_later(r, r->base->start_us + RETURN_US);
    struct list *at = r->offers.expected.next;

    for (; at != &r->offers.expected; at = at->next) {
        due = min_i64(due, LIST_OF(at, struct expected, all)->until_us);
    }
    for (at = r->offers.all.next; at != &r->offers.all; at = at->next) {
        const struct offer *o = LIST_OF(at, struct offer, all);

        due = min_i64(due, if_later(r, o->closed_until_us));
    }
    event_set(r->base, &r->offers.deal, due);
}

static void deal_fire(void *room, struct event *e)
{
    struct replicas *r = room;
    (void)e;
    drop_expired(r);
    deal_all(r);
    if (!is_idle(&r->offers)) {
        set_next_deal(r);
    }
}

/* ---- arrival and end of offers ---- */

void offers_init(struct replicas *r)
{
    list_init(&r->offers.all);
    list_init(&r->offers.expected);
    event_init(&r->offers.deal, deal_fire, r);
}

void offers_fini(struct replicas *r)
{
    assert(list_empty(&r->offers.all));
    event_clear(r->base, &r->offers.deal);
    while (!list_empty(&r->offers.expected)) {
        forget_expected(r,
                        LIST_OF(r->offers.expected.next, struct expected, all));
    }
}

static void take_layers(struct offer *o, const Sluice__V1__WorkerOffer *m)
{
    for (uint32_t i = 0; i < m->n_layers; i++) {
        o->layers[i] = (struct split_layer){.weight_bytes = m->layer_bytes[i],
                                            .token_bytes = m->kv_bytes[i],
                                            .slot_bytes = m->slot_bytes[i]};
        if (m->n_window_bytes > 0) {
            o->layers[i].window_bytes = m->window_bytes[i];
        }
        if (m->n_step_bytes > 0) {
            o->layers[i].step_bytes = m->step_bytes[i];
        }
    }
}

bool offer_open(struct replicas *r, struct router_peer *p,
                const Sluice__V1__WorkerOffer *m)
{
    struct offer *o = calloc(1, sizeof *o + m->n_layers * sizeof o->layers[0]);

    assert(r->offers.n < OFFERS_MAX);
    if (o == NULL) {
        return false;
    }
    o->peer = p;
    copy_text(o->kind.model, m->model);
    memcpy(o->kind.fingerprint, m->fingerprint.data, 16);
    if (m->has_kv_format) {
        copy_text(o->kind.kv_format, m->kv_format);
    }
    if (m->has_arithmetic && !r->base->options.mixed_arithmetic) {
        copy_text(o->kind.arithmetic, m->arithmetic);
    }
    o->kind.n_layers = m->n_layers;
    o->kind.block_tokens = m->block_tokens;
    memcpy(o->lineage, p->lineage, sizeof o->lineage);
    o->n_stages = m->n_stages;
    o->context = m->context;
    o->max_rows = m->max_rows;
    o->window_tokens = m->window_tokens;
    o->chunk_tokens = m->chunk_tokens;
    o->budget_bytes = m->budget_bytes;
    o->scratch_bytes = m->scratch_bytes;
    o->speed = m->speed;
    o->embed_bytes = m->embed_bytes;
    o->head_bytes = m->head_bytes;
    take_layers(o, m);
    offer_of(p)->offer = o;
    list_append(&r->offers.all, &o->all);
    r->offers.n++;
    /* The worker came back without layers, so its shard does not come. */
    forget_lineage(r, o->lineage);
    log_gate_write(&r->base->log.worker_offers, r->base->now_us,
                   "worker=%s model=%s stages=%" PRIu32 " budget=%" PRIu64,
                   p->name, o->kind.model, o->n_stages, o->budget_bytes);
    offers_touch(r);
    return true;
}

void offer_leaves(struct offer *o)
{
    o->settled = o->settled || o->assigned;
}

void offer_close(struct replicas *r, struct offer **po)
{
    struct offer *o = *po;

    *po = NULL;
    if (o == NULL) {
        return;
    }
    /* The session broke before the worker accepted: it loads nothing. */
    if (o->assigned && !o->settled) {
        (void)forget_piece(r, o->lineage, o->given);
    }
    list_remove(&o->all);
    r->offers.n--;
    free(o);
    offers_touch(r);
}

void offer_answered(struct replicas *r, struct offer *o, enum status status,
                    const struct error *e)
{
    if (status == ST_OK) {
        o->settled = true;
        return;
    }
    log_gate_write(&r->base->log.assign_refused, r->base->now_us,
                   "worker=%s why=\"%s\"", o->peer->name, e->text);
    if (status == ST_DEADLINE_EXCEEDED) {
        peers_end(r->fleet, o->peer, "it did not answer Assign within %d ms",
                  ASSEMBLE_US / 1000);
        return;
    }
    (void)forget_piece(r, o->lineage, o->given);
    o->assigned = false;
    o->closed_until_us = PLANT(REFUSER_FORGOTTEN)
                             ? NODE_IDLE
                             : r->base->now_us + ASSIGN_RETRY_US;
    offers_touch(r);
}

/* ---- the operator's list ---- */

static void offer_row(const struct offer *o, Sluice__V1__OfferRow *row)
{
    sluice__v1__offer_row__init(row);
    row->name = wire_text(o->peer->name);
    row->has_key = o->peer->keyed;
    row->key = wire_text(o->peer->identity.name);
    row->model = wire_text(o->kind.model);
    row->state = wire_text(o->assigned ? "assigned" : "offered");
    row->has_n_stages = row->has_budget_bytes = row->has_speed = true;
    row->n_stages = o->n_stages;
    row->budget_bytes = o->budget_bytes;
    row->speed = o->speed;
    row->has_layer_begin = row->has_layer_end = o->assigned;
    row->layer_begin = o->given.begin;
    row->layer_end = o->given.end;
}

static void loading_row(const struct expected *x, Sluice__V1__OfferRow *row)
{
    sluice__v1__offer_row__init(row);
    row->name = wire_text(x->lineage);
    row->model = wire_text(x->kind.model);
    row->state = wire_text("loading");
    row->has_layer_begin = row->has_layer_end = true;
    row->layer_begin = x->piece.begin;
    row->layer_end = x->piece.end;
}

static bool has_offer(const struct replicas *r, const char *lineage)
{
    for (const struct list *at = r->offers.all.next; at != &r->offers.all;
         at = at->next) {
        if (strcmp(LIST_OF(at, struct offer, all)->lineage, lineage) == 0) {
            return true;
        }
    }
    return false;
}

uint32_t offers_list(const struct replicas *r,
                     Sluice__V1__OfferRow rows[OFFERS_MAX])
{
    const struct list *at;
    uint32_t n = 0;

    for (at = r->offers.all.next; at != &r->offers.all; at = at->next) {
        offer_row(LIST_OF(at, struct offer, all), &rows[n++]);
    }
    for (at = r->offers.expected.next;
         at != &r->offers.expected && n < OFFERS_MAX; at = at->next) {
        const struct expected *x = LIST_OF(at, struct expected, all);

        /* A worker that still has its session is listed as assigned. */
        if (x->loads && !has_offer(r, x->lineage)) {
            loading_row(x, &rows[n++]);
        }
    }
    return n;
}
