#include "router/replicas/offers.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/plant.h"
#include "proto/worker.pb-c.h"
#include "router/replicas/deal.h"
#include "router/replicas/replica.h"

/* Pieces of one kind can be stages of one replica. */
struct kind {
    char model[MODEL_NAME_MAX + 1];
    uint8_t fingerprint[16];
    uint32_t n_layers, block_tokens;
};

/* A shard that is not here, and will be. */
struct expected {
    struct list all;
    struct kind kind;
    char lineage[PEER_NAME_MAX + 1];
    struct cover_piece piece;
    bool loads; /* they are new to it; else it was here a moment ago */
    int64_t until_us;
};

struct offer {
    struct list all;
    struct router_peer *peer;
    struct kind kind;
    char lineage[PEER_NAME_MAX + 1];
    uint32_t n_stages, context, max_rows;
    uint64_t budget_bytes, scratch_bytes, speed, embed_bytes, head_bytes;
    bool assigned, settled; /* settled: nothing takes the layers from it */
    struct cover_piece given;
    int64_t closed_until_us;     /* it refused some lately */
    struct split_layer layers[]; /* [kind.n_layers] */
};

static bool same_kind(const struct kind *a, const struct kind *b)
{
    return a->n_layers == b->n_layers && a->block_tokens == b->block_tokens &&
           memcmp(a->fingerprint, b->fingerprint, 16) == 0 &&
           strcmp(a->model, b->model) == 0;
}

/* May they be stages of one new replica?  What layers cost must be the same,
 * or there would be no one sum to divide. */
static bool alike(const struct offer *a, const struct offer *b)
{
    return same_kind(&a->kind, &b->kind) && a->n_stages == b->n_stages &&
           a->context == b->context && a->max_rows == b->max_rows &&
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
    return k;
}

/* Without either there is nothing to look at, nor to wait for. */
static bool is_idle(const struct offers *all)
{
    return all->n == 0 && all->n_expected == 0;
}

void offers_touch(struct replicas *r)
{
    if (!is_idle(&r->offers)) {
        event_set(r->base, &r->offers.look, r->base->now_us);
    }
}

/* ---- what is expected ---- */

static void forget(struct replicas *r, struct expected *x)
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
            forget(r, x);
        }
    }
}

/* False: there was none such. */
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
            forget(r, x);
            found = true;
        }
    }
    return found;
}

/* Others of its lineage may be expected with other layers: those who have no
 * name of their own, on one machine. */
static void expect(struct replicas *r, const struct kind *k,
                   const char *lineage, struct cover_piece piece, int64_t us)
{
    struct offers *all = &r->offers;
    struct expected *x;

    (void)forget_piece(r, lineage, piece);
    if (all->n_expected == EXPECTED_MAX) {
        forget(r, LIST_OF(all->expected.next, struct expected, all));
    }
    x = calloc(1, sizeof *x);
    assert(x != NULL);
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

    if (!forget_piece(r, w->life.lineage, p)) {
        forget_lineage(r, w->life.lineage);
    }
    offers_touch(r);
}

/* In another session than w's, which is over; with layers or without. */
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

    if (!r->base->stopping && !w->drain.leaving && !is_back(r, w)) {
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
            forget(r, x);
        }
    }
}

/* ---- who gets what ---- */

/* Those of a kind that may be given layers, the first that came. */
static void gather_hands(struct replicas *r, const struct offer *like,
                         struct offer *who[STAGES_MAX],
                         struct deal_task *t)
{
    struct list *at = r->offers.all.next;

    for (; at != &r->offers.all && t->n_workers < STAGES_MAX; at = at->next) {
        struct offer *o = LIST_OF(at, struct offer, all);

        if (is_free(r, o) && alike(o, like)) {
            who[t->n_workers] = o;
            t->workers[t->n_workers++] =
                (struct split_worker){.name = o->peer->name,
                                      .budget_bytes = o->budget_bytes,
                                      .scratch_bytes = o->scratch_bytes,
                                      .speed = (double)o->speed};
        }
    }
}

static void gather_pieces(const struct replicas *r, const struct kind *kind,
                          struct deal_task *t)
{
    struct list *at = r->offers.expected.next;

    for (uint32_t i = 0; i < r->fleet->n_workers; i++) {
        const struct worker *w = r->fleet->workers[i];
        struct kind k = kind_of_worker(w);

        if (worker_is_staged(w) && w->replica == NULL && !w->peer->ended &&
            !w->drain.on && !w->life.closed && same_kind(&k, kind)) {
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
               "of all that is here or expected");

static void assign(struct replicas *r, struct offer *o,
                   struct cover_piece given)
{
    Sluice__V1__AssignRequest m = SLUICE__V1__ASSIGN_REQUEST__INIT;

    m.layer_begin = given.begin;
    m.layer_end = given.end;
    if (peer_call(o->peer->peer, METHOD_WORKER_ASSIGN, &m.base,
                  ASSEMBLE_US / 1000, 0, NULL) != ST_OK) {
        peers_end(r->fleet, o->peer, "it hears nothing more");
        return;
    }
    o->assigned = true;
    o->given = given;
    expect(r, &o->kind, o->lineage, given, ASSIGN_US);
    log_info("worker-assigned",
             "worker=%s model=%s layers=%" PRIu32 "-%" PRIu32 " of=%" PRIu32,
             o->peer->name, o->kind.model, given.begin, given.end,
             o->kind.n_layers);
}

/* What can be done for one kind of offers, one deal at a time.  False:
 * nothing. */
static bool look_kind(struct replicas *r, const struct offer *of)
{
    struct deal_task t = {.layers = of->layers,
                          .embed_bytes = of->embed_bytes,
                          .head_bytes = of->head_bytes,
                          .n_layers = of->kind.n_layers,
                          .n_stages = of->n_stages,
                          .block_tokens = of->kind.block_tokens,
                          .context = of->context,
                          .max_rows = of->max_rows,
                          .no_gaps =
                              r->base->now_us < r->base->start_us + RETURN_US};
    struct offer *who[STAGES_MAX];
    struct deal d;
    struct error e;

    gather_hands(r, of, who, &t);
    gather_pieces(r, &of->kind, &t);
    if (deal_find(&d, &t, &e) == ST_RESOURCE_EXHAUSTED) {
        log_warn("no-split", "model=%s offers=%" PRIu32 " why=\"%s\"",
                 of->kind.model, t.n_workers, e.text);
    }
    for (uint32_t i = 0; i < d.n; i++) {
        assign(r, who[d.workers[i]], d.given[i]);
    }
    return d.n > 0;
}

/* The first offer of each kind stands for it. */
static bool is_first(const struct replicas *r, const struct offer *o)
{
    struct list *at = r->offers.all.next;

    for (; at != &o->all; at = at->next) {
        const struct offer *before = LIST_OF(at, struct offer, all);

        if (is_free(r, before) && alike(before, o)) {
            return false;
        }
    }
    return is_free(r, o);
}

static void look(struct replicas *r)
{
    struct list *at = r->offers.all.next;

    while (at != &r->offers.all) {
        struct offer *o = LIST_OF(at, struct offer, all);

        if (!is_first(r, o) || !look_kind(r, o)) {
            at = at->next; /* else those that are left once more */
        }
    }
}

static int64_t later(const struct replicas *r, int64_t us)
{
    return us > r->base->now_us ? us : NODE_IDLE;
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* When something may be different without a word from anybody. */
static void wait_on(struct replicas *r)
{
    int64_t due = later(r, r->base->start_us + RETURN_US);
    struct list *at = r->offers.expected.next;

    for (; at != &r->offers.expected; at = at->next) {
        due = sooner(due, LIST_OF(at, struct expected, all)->until_us);
    }
    for (at = r->offers.all.next; at != &r->offers.all; at = at->next) {
        const struct offer *o = LIST_OF(at, struct offer, all);

        due = sooner(due, later(r, o->closed_until_us));
    }
    event_set(r->base, &r->offers.look, due);
}

static void look_fire(void *room, struct event *e)
{
    struct replicas *r = room;
    (void)e;
    drop_expired(r);
    look(r);
    if (!is_idle(&r->offers)) {
        wait_on(r);
    }
}

/* ---- come and go ---- */

void offers_init(struct replicas *r)
{
    list_init(&r->offers.all);
    list_init(&r->offers.expected);
    event_init(&r->offers.look, look_fire, r);
}

void offers_fini(struct replicas *r)
{
    assert(list_empty(&r->offers.all));
    event_clear(r->base, &r->offers.look);
    while (!list_empty(&r->offers.expected)) {
        forget(r, LIST_OF(r->offers.expected.next, struct expected, all));
    }
}

static void take_layers(struct offer *o, const Sluice__V1__WorkerOffer *m)
{
    for (uint32_t i = 0; i < m->n_layers; i++) {
        o->layers[i] = (struct split_layer){.weight_bytes = m->layer_bytes[i],
                                            .token_bytes = m->kv_bytes[i],
                                            .slot_bytes = m->slot_bytes[i]};
    }
}

void offer_open(struct replicas *r, struct router_peer *p,
                const Sluice__V1__WorkerOffer *m)
{
    struct offer *o = calloc(1, sizeof *o + m->n_layers * sizeof o->layers[0]);

    assert(o != NULL && r->offers.n < OFFERS_MAX);
    o->peer = p;
    copy_text(o->kind.model, m->model);
    memcpy(o->kind.fingerprint, m->fingerprint.data, 16);
    o->kind.n_layers = m->n_layers;
    o->kind.block_tokens = m->block_tokens;
    copy_text(o->lineage, m->has_lineage ? m->lineage : wire_text(p->name));
    o->n_stages = m->n_stages;
    o->context = m->context;
    o->max_rows = m->max_rows;
    o->budget_bytes = m->budget_bytes;
    o->scratch_bytes = m->scratch_bytes;
    o->speed = m->speed;
    o->embed_bytes = m->embed_bytes;
    o->head_bytes = m->head_bytes;
    take_layers(o, m);
    p->offer = o;
    list_append(&r->offers.all, &o->all);
    r->offers.n++;
    forget_lineage(r, o->lineage);
    log_info("worker-offers",
             "worker=%s model=%s stages=%" PRIu32 " budget=%" PRIu64, p->name,
             o->kind.model, o->n_stages, o->budget_bytes);
    offers_touch(r);
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
    log_warn("assign-refused", "worker=%s why=\"%s\"", o->peer->name, e->text);
    if (status == ST_DEADLINE_EXCEEDED) {
        peers_end(r->fleet, o->peer, "it did not answer Assign");
        return;
    }
    (void)forget_piece(r, o->lineage, o->given);
    o->assigned = false;
    o->closed_until_us = PLANT(REFUSER_FORGOTTEN)
                             ? NODE_IDLE
                             : r->base->now_us + ASSIGN_RETRY_US;
    offers_touch(r);
}

/* ---- what an operator asks ---- */

static void offer_row(const struct offer *o, Sluice__V1__OfferRow *row)
{
    sluice__v1__offer_row__init(row);
    row->name = wire_text(o->peer->name);
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

static bool is_here(const struct replicas *r, const char *lineage)
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

        if (x->loads && !is_here(r, x->lineage)) {
            loading_row(x, &rows[n++]);
        }
    }
    return n;
}
