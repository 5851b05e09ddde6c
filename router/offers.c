#include "router/offers.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/split.h"
#include "proto/worker.pb-c.h"
#include "router/cover.h"
#include "router/replica.h"
#include "router/router.h"

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

static bool is_free(const struct router_core *r, const struct offer *o)
{
    return !o->assigned && !o->peer->ended && o->closed_until_us <= r->now_us;
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

/* Something has changed: look before the tick returns. */
static void touch(struct router_core *r)
{
    if (r->offers.n > 0) {
        event_set(r, &r->offers.look, r->now_us);
    }
}

/* ---- what is expected ---- */

static void forget(struct router_core *r, struct expected *x)
{
    list_remove(&x->all);
    r->offers.n_expected--;
    free(x);
}

static void forget_lineage(struct router_core *r, const char *lineage)
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

static void expect(struct router_core *r, const struct kind *k,
                   const char *lineage, struct cover_piece piece, int64_t us)
{
    struct offers *all = &r->offers;
    struct expected *x;

    forget_lineage(r, lineage);
    if (all->n_expected == EXPECTED_MAX) {
        forget(r, LIST_OF(all->expected.next, struct expected, all));
    }
    x = calloc(1, sizeof *x);
    assert(x != NULL);
    x->kind = *k;
    memcpy(x->lineage, lineage, strlen(lineage) + 1);
    x->piece = piece;
    x->until_us = r->now_us + us;
    list_append(&all->expected, &x->all);
    all->n_expected++;
}

void offers_arrived(struct router_core *r, const struct worker *w)
{
    forget_lineage(r, w->life.lineage);
    touch(r);
}

void offers_departed(struct router_core *r, const struct worker *w)
{
    struct kind k = kind_of_worker(w);

    if (!r->stopping && !w->drain.leaving) {
        expect(r, &k, w->life.lineage,
               (struct cover_piece){w->shard.layer_begin, w->shard.layer_end},
               RETURN_US);
    }
    touch(r);
}

static void drop_expired(struct router_core *r)
{
    struct list *at = r->offers.expected.next;

    while (at != &r->offers.expected) {
        struct expected *x = LIST_OF(at, struct expected, all);

        at = at->next;
        if (x->until_us <= r->now_us) {
            forget(r, x);
        }
    }
}

/* ---- who gets what ---- */

/* A kind of offers, and what of the model there is for them. */
struct survey {
    struct router_core *r;
    const struct offer *of;
    struct offer *free[SPLIT_STAGES_MAX]; /* [n_free] the first that came */
    uint32_t n_free;
    struct cover_piece pieces[COVER_PIECES_MAX]; /* [n_pieces] in no set */
    uint32_t n_pieces;
};

/* Assignments in the making: all of them, or none. */
struct deal {
    uint32_t n;
    struct offer *offers[STAGES_MAX];
    struct cover_piece given[STAGES_MAX];
};

static void survey_free(struct survey *s)
{
    struct list *at = s->r->offers.all.next;

    for (; at != &s->r->offers.all && s->n_free < SPLIT_STAGES_MAX;
         at = at->next) {
        struct offer *o = LIST_OF(at, struct offer, all);

        if (is_free(s->r, o) && alike(o, s->of)) {
            s->free[s->n_free++] = o;
        }
    }
}

static void survey_pieces(struct survey *s)
{
    const struct router_core *r = s->r;
    struct list *at = r->offers.expected.next;

    for (uint32_t i = 0; i < r->n_workers; i++) {
        const struct worker *w = r->workers[i];
        struct kind k = kind_of_worker(w);

        if (worker_is_staged(w) && w->replica == NULL && !w->peer->ended &&
            !w->drain.on && !w->life.closed && same_kind(&k, &s->of->kind)) {
            s->pieces[s->n_pieces++] =
                (struct cover_piece){w->shard.layer_begin, w->shard.layer_end};
        }
    }
    for (; at != &r->offers.expected; at = at->next) {
        const struct expected *x = LIST_OF(at, struct expected, all);

        if (same_kind(&x->kind, &s->of->kind)) {
            s->pieces[s->n_pieces++] = x->piece;
        }
    }
}

_Static_assert(ROUTER_WORKERS_MAX + EXPECTED_MAX <= COVER_PIECES_MAX,
               "of all that is here or expected");

/* Without those that make whole sets. */
static void leave_sets(struct survey *s)
{
    bool used[COVER_PIECES_MAX] = {false};
    struct cover c;
    uint32_t n = 0;

    cover_find(&c, s->pieces, s->n_pieces, s->of->kind.n_layers);
    for (uint32_t i = 0; i < c.n; i++) {
        for (uint32_t k = 0; k < c.sets[i].n; k++) {
            used[c.sets[i].pieces[k]] = true;
        }
    }
    for (uint32_t i = 0; i < s->n_pieces; i++) {
        if (!used[i]) {
            s->pieces[n++] = s->pieces[i];
        }
    }
    s->n_pieces = n;
}

/* Layers [begin, end) as a model of their own. */
static void part_of(struct split_model *m, const struct offer *o,
                    struct cover_piece p)
{
    *m = (struct split_model){.n_layers = p.end - p.begin};
    memcpy(m->layers, o->layers + p.begin, m->n_layers * sizeof m->layers[0]);
    m->embed_bytes = p.begin == 0 ? o->embed_bytes : 0;
    m->head_bytes = p.end == o->kind.n_layers ? o->head_bytes : 0;
}

static bool is_dealt(const struct deal *d, const struct offer *o)
{
    for (uint32_t i = 0; i < d->n; i++) {
        if (d->offers[i] == o) {
            return true;
        }
    }
    return false;
}

/* The offers that are free yet, as the split knows them. */
static uint32_t hands(const struct survey *s, const struct deal *d,
                      struct offer *who[SPLIT_STAGES_MAX],
                      struct split_worker as[SPLIT_STAGES_MAX])
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n_free; i++) {
        struct offer *o = s->free[i];

        if (!is_dealt(d, o)) {
            who[n] = o;
            as[n++] = (struct split_worker){.name = o->peer->name,
                                            .budget_bytes = o->budget_bytes,
                                            .scratch_bytes = o->scratch_bytes,
                                            .speed = (double)o->speed};
        }
    }
    return n;
}

/* What the search takes: too much for a stack. */
struct bench {
    struct split_model model;
    struct split_table table;
    struct split split;
};

static enum status deal_out(struct deal *d, const struct survey *s,
                            struct cover_piece p, uint32_t n_stages,
                            struct bench *b, struct error *e)
{
    const struct offer *of = s->of;
    struct offer *who[SPLIT_STAGES_MAX];
    struct split_worker as[SPLIT_STAGES_MAX];
    uint32_t n = hands(s, d, who, as);
    struct split_terms t = {.n_stages = n_stages,
                            .block_tokens = of->kind.block_tokens,
                            .context = of->context,
                            .max_rows = of->max_rows,
                            .length = of->context,
                            .in_order = of->kind.n_layers > OFFER_ORDER_LAYERS};
    enum status st;

    part_of(&b->model, of, p);
    st = split_find(&b->split, &b->table, &b->model, as, n, &t, e);
    if (st != ST_OK) {
        return st;
    }
    for (uint32_t i = 0; i < b->split.n_stages; i++) {
        const struct split_stage *g = &b->split.stages[i];

        d->offers[d->n] = who[g->worker];
        d->given[d->n++] =
            (struct cover_piece){p.begin + g->begin, p.begin + g->end};
    }
    return ST_OK;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* By as few as can hold it.  NOT_FOUND: nobody is left to try with. */
static enum status fill_gap(struct deal *d, const struct survey *s,
                            struct cover_piece gap, uint32_t n_most,
                            struct bench *b, struct error *e)
{
    enum status st = error_set(e, ST_NOT_FOUND, "no worker is left");

    n_most = least(n_most, least(s->n_free - d->n, gap.end - gap.begin));
    for (uint32_t n = 1; st != ST_OK && n <= n_most; n++) {
        st = deal_out(d, s, gap, n, b, e);
    }
    return st;
}

/* Every gap of a chain through what is left over, or none. */
static enum status fill_chain(struct deal *d, const struct survey *s,
                              enum cover_wish wish, struct bench *b,
                              struct error *e)
{
    struct cover_chain c;
    enum status st = ST_OK;

    d->n = 0;
    cover_chain_find(&c, s->pieces, s->n_pieces, s->of->kind.n_layers, wish);
    if (c.n_pieces + c.n_gaps > STAGES_MAX) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "a replica has %d stages at most", STAGES_MAX);
    }
    for (uint32_t i = 0; st == ST_OK && i < c.n_gaps; i++) {
        uint32_t later = c.n_gaps - i - 1;

        st = fill_gap(d, s, c.gaps[i], STAGES_MAX - c.n_pieces - later - d->n,
                      b, e);
    }
    return st;
}

/* By as few offers as can be. */
static enum status fill_gaps(struct deal *d, const struct survey *s,
                             struct bench *b, struct error *e)
{
    enum status st = fill_chain(d, s, FEWEST_LAYERS, b, e);
    struct deal other;
    struct error why;

    if (fill_chain(&other, s, FEWEST_GAPS, b, st == ST_OK ? &why : e) ==
            ST_OK &&
        (st != ST_OK || other.n < d->n)) {
        *d = other;
        st = ST_OK;
    }
    if (st != ST_OK) {
        d->n = 0;
    }
    return st;
}

static void assign(struct router_core *r, struct offer *o,
                   struct cover_piece given)
{
    Sluice__V1__AssignRequest m = SLUICE__V1__ASSIGN_REQUEST__INIT;

    m.layer_begin = given.begin;
    m.layer_end = given.end;
    if (peer_call(o->peer->peer, METHOD_WORKER_ASSIGN, &m.base,
                  ASSEMBLE_US / 1000, 0, NULL) != ST_OK) {
        peers_end(r, o->peer, "it hears nothing more");
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

/* All that can be done for one kind of offers, one deal at a time.  False:
 * nothing. */
static bool look_kind(struct router_core *r, const struct offer *of,
                      struct bench *b)
{
    struct survey s = {.r = r, .of = of};
    struct deal d = {.n = 0};
    struct error e;
    enum status st;

    survey_free(&s);
    survey_pieces(&s);
    leave_sets(&s);
    if (s.n_pieces > 0 && r->now_us < r->start_us + RETURN_US) {
        return false;
    }
    st = s.n_pieces > 0 ? fill_gaps(&d, &s, b, &e) : ST_NOT_FOUND;
    if (st != ST_OK && s.n_free >= of->n_stages) {
        st = deal_out(&d, &s, (struct cover_piece){0, of->kind.n_layers},
                      of->n_stages, b, &e);
    }
    if (st != ST_OK && st != ST_NOT_FOUND) {
        log_warn("no-split", "model=%s offers=%" PRIu32 " why=\"%s\"",
                 of->kind.model, s.n_free, e.text);
    }
    for (uint32_t i = 0; i < d.n; i++) {
        assign(r, d.offers[i], d.given[i]);
    }
    return d.n > 0;
}

/* The first offer of each kind stands for it. */
static bool is_first(const struct router_core *r, const struct offer *o)
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

static void look(struct router_core *r)
{
    struct bench *b = malloc(sizeof *b);
    struct list *at = r->offers.all.next;

    assert(b != NULL);
    while (at != &r->offers.all) {
        struct offer *o = LIST_OF(at, struct offer, all);

        if (!is_first(r, o) || !look_kind(r, o, b)) {
            at = at->next; /* else those that are left once more */
        }
    }
    free(b);
}

static int64_t later(const struct router_core *r, int64_t us)
{
    return us > r->now_us ? us : NODE_IDLE;
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* When something may be different without a word from anybody. */
static void wait_on(struct router_core *r)
{
    int64_t due = later(r, r->start_us + RETURN_US);
    struct list *at = r->offers.expected.next;

    for (; at != &r->offers.expected; at = at->next) {
        due = sooner(due, LIST_OF(at, struct expected, all)->until_us);
    }
    for (at = r->offers.all.next; at != &r->offers.all; at = at->next) {
        const struct offer *o = LIST_OF(at, struct offer, all);

        due = sooner(due, later(r, o->closed_until_us));
    }
    event_set(r, &r->offers.look, due);
}

static void look_fire(struct router_core *r, struct event *e)
{
    (void)e;
    drop_expired(r);
    if (r->offers.n > 0) {
        look(r);
        wait_on(r);
    }
}

/* ---- come and go ---- */

void offers_init(struct router_core *r)
{
    list_init(&r->offers.all);
    list_init(&r->offers.expected);
    r->offers.look.fire = look_fire;
}

void offers_fini(struct router_core *r)
{
    assert(list_empty(&r->offers.all));
    event_clear(r, &r->offers.look);
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

void offer_open(struct router_core *r, struct router_peer *p,
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
    touch(r);
}

void offer_leaves(struct offer *o)
{
    o->settled = o->settled || o->assigned;
}

void offer_close(struct router_core *r, struct offer **po)
{
    struct offer *o = *po;

    *po = NULL;
    if (o == NULL) {
        return;
    }
    if (o->assigned && !o->settled) {
        forget_lineage(r, o->lineage);
    }
    list_remove(&o->all);
    r->offers.n--;
    free(o);
    touch(r);
}

void offer_answered(struct router_core *r, struct offer *o, enum status status,
                    const struct error *e)
{
    if (status == ST_OK) {
        o->settled = true;
        return;
    }
    log_warn("assign-refused", "worker=%s why=\"%s\"", o->peer->name, e->text);
    if (status == ST_DEADLINE_EXCEEDED) {
        peers_end(r, o->peer, "it did not answer Assign");
        return;
    }
    forget_lineage(r, o->lineage);
    o->assigned = false;
    o->closed_until_us = r->now_us + ASSIGN_RETRY_US;
    touch(r);
}

/* ---- what an operator asks ---- */

uint32_t offers_list(const struct router_core *r,
                     Sluice__V1__OfferRow rows[OFFERS_MAX])
{
    uint32_t n = 0;

    for (const struct list *at = r->offers.all.next; at != &r->offers.all;
         at = at->next) {
        const struct offer *o = LIST_OF(at, struct offer, all);
        Sluice__V1__OfferRow *row = &rows[n++];

        sluice__v1__offer_row__init(row);
        row->name = wire_text(o->peer->name);
        row->model = wire_text(o->kind.model);
        row->n_stages = o->n_stages;
        row->budget_bytes = o->budget_bytes;
        row->speed = o->speed;
        row->state = wire_text(o->assigned ? "assigned" : "offered");
        row->has_layer_begin = row->has_layer_end = o->assigned;
        row->layer_begin = o->given.begin;
        row->layer_end = o->given.end;
    }
    return n;
}
