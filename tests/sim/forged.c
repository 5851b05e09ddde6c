#include "tests/sim/forged.h"

#include <stdlib.h>
#include <string.h>

#include "common/wire/prefix_hash.h"
#include "proto/registry.pb-c.h"
#include "proto/worker.pb-c.h"
#include "tests/sim/sim.h"

#define FORGED_STREAM 90

typedef Sluice__V1__StepOutputMessage step_message;

void forged_draw(struct sim *s)
{
    struct forged *x = &s->forged;

    rng_init(&x->chance, s->seed, FORGED_STREAM);
    if (s->options.faulty && rng_below(&x->chance, 8) == 0) {
        x->lose_of = (uint32_t)rng_octave(&x->chance, 100, 5000);
    }
    if (s->options.faulty && rng_below(&x->chance, 8) == 0) {
        x->of = (uint32_t)rng_octave(&x->chance, 10, 300);
    }
}

/* ---- false values ---- */

struct claim {
    struct sim *s;
    const struct router_worker_view *view; /* the router's view of the worker */
    Sluice__V1__Ledger *ledger;
    Sluice__V1__EngineState *engine; /* NULL: none */
    step_message *step;              /* NULL: a Report */
};

/* Damages the message.  Returns false, and changes nothing, if it has no such
 * field, or if its value might be true. */
typedef bool forge_fn(struct claim *c);

static uint32_t any_row(const struct claim *c)
{
    return (uint32_t)rng_below(&c->s->forged.chance, c->step->n_grant);
}

static bool has_rows(const struct claim *c)
{
    return c->step != NULL && c->step->n_grant > 0;
}

static bool false_state(struct claim *c)
{
    if (has_rows(c)) {
        c->step->state[any_row(c)] = 99;
    }
    return has_rows(c);
}

static bool false_finish(struct claim *c)
{
    if (has_rows(c)) {
        c->step->finish[any_row(c)] = 9;
    }
    return has_rows(c);
}

static bool false_grant(struct claim *c)
{
    if (has_rows(c)) {
        c->step->grant[any_row(c)] += (uint64_t)1 << 40;
    }
    return has_rows(c);
}

static bool false_count(struct claim *c)
{
    if (has_rows(c)) {
        c->step->count[any_row(c)] += 3;
    }
    return has_rows(c);
}

static bool false_token(struct claim *c)
{
    if (!has_rows(c) || c->step->n_tokens == 0) {
        return false;
    }
    c->step->tokens[rng_below(&c->s->forged.chance, c->step->n_tokens)] =
        MODEL_VOCAB_MAX;
    return true;
}

static bool false_sum(struct claim *c)
{
    c->ledger->blocks->free++;
    return true;
}

static bool false_total(struct claim *c)
{
    c->ledger->slots->free++;
    c->ledger->slots->total++;
    return true;
}

static bool false_settled(struct claim *c)
{
    c->ledger->grant += (uint64_t)1 << 40;
    return true;
}

static bool false_counts(struct claim *c)
{
    c->ledger->n_queued = UINT32_MAX;
    return true;
}

static bool false_violations(struct claim *c)
{
    c->ledger->violations = UINT64_MAX;
    return true;
}

static bool false_age(struct claim *c)
{
    if (c->engine == NULL || c->ledger->snapshot <= c->view->snapshot) {
        return false;
    }
    c->engine->plan_age_us = UINT64_MAX;
    return true;
}

static void set_free(Sluice__V1__ClassLedger *c)
{
    c->free += c->held + c->granted;
    c->held = c->granted = 0;
}

/* Frees what sequences have, in all columns: a ledger whose pages do not add up
 * is rejected for that alone. */
static void set_all_free(Sluice__V1__Ledger *l)
{
    set_free(l->blocks);
    set_free(l->slots);
    set_free(l->checkpoints);
    if (l->windows != NULL) {
        set_free(l->windows);
    }
    set_free(l->pages);
}

/* The grant of a row must run in the eyes of the router too: it may have asked
 * the worker to release it. */
static bool false_free(struct claim *c)
{
    const void *router = c->s->nodes[SIM_ROUTER].core;
    uint32_t i = has_rows(c) ? any_row(c) : 0;
    enum choice_state state;

    if (!has_rows(c) || c->step->finish[i] != 0 || c->step->state[i] > 3 ||
        c->step->grant[i] > c->ledger->grant || c->view->draining ||
        c->ledger->snapshot <= c->view->snapshot) {
        return false;
    }
    state = router_grant_state(router, c->view->id, c->step->grant[i]);
    if (state != CHOICE_PREFILL && state != CHOICE_DECODE) {
        return false;
    }
    set_all_free(c->ledger);
    return true;
}

static const struct {
    const char *name;
    forge_fn *forge;
} values[] = {
    {"state 99", false_state},
    {"finish 9", false_finish},
    {"a grant that was never made", false_grant},
    {"more tokens than it has", false_count},
    {"a token beyond the vocabulary", false_token},
    {"blocks that do not add up", false_sum},
    {"a pool that has grown", false_total},
    {"a settled grant that was never made", false_settled},
    {"4294967295 sequences", false_counts},
    {"18446744073709551615 violations", false_violations},
    {"a plan of 584942 years", false_age},
    {"memory of a running sequence as free", false_free},
};

static void false_receipt(struct sim *s, Sluice__V1__Receipt *r)
{
    switch (rng_below(&s->forged.chance, 6)) {
    case 0:
        r->state = (Sluice__V1__SequenceState)99;
        break;
    case 1:
        r->blocks += 100000;
        break;
    case 2:
        r->slots += 1000;
        break;
    case 3:
        r->n_generated = UINT32_MAX;
        break;
    case 4:
        r->micros = UINT64_MAX;
        break;
    default:
        r->checkpoints = 1;
        break;
    }
}

/* Removes the first events of an index, and leaves a gap in the numbers. */
static bool lose_events(struct sim *s, Sluice__V1__IndexMessage *m)
{
    size_t n;

    if (m->snapshot || m->n_tokens == 0) {
        return false;
    }
    n = 1 + (size_t)rng_below(&s->forged.chance, m->n_tokens);
    sim_log(s, "%zu of %zu events of an index are lost", n, m->n_tokens);
    m->first += n;
    m->n_tokens -= n;
    memmove(m->tokens, m->tokens + n, m->n_tokens * sizeof *m->tokens);
    m->hashes.len -= n * PREFIX_HASH_BYTES;
    memmove(m->hashes.data, m->hashes.data + n * PREFIX_HASH_BYTES,
            m->hashes.len);
    return true;
}

/* ---- frames ---- */

struct frame *forged_body(const struct frame *f, struct frame_header h,
                          const struct envelope *e,
                          const ProtobufCMessage *body)
{
    size_t bytes = wire_size(body), at = (size_t)(e->body - f->data);
    struct envelope changed = *e;
    struct frame *g;

    h.envelopes_bytes += (uint32_t)bytes - e->body_bytes;
    g = frame_new(f->bytes + (uint32_t)bytes - e->body_bytes);
    memcpy(g->data, f->data, at);
    changed.body_bytes = (uint32_t)bytes;
    envelope_head(g->data + at - ENVELOPE_HEADER, &changed);
    wire_pack(body, g->data + at);
    memcpy(g->data + at + bytes, e->body + e->body_bytes,
           f->bytes - at - e->body_bytes);
    frame_seal(g, &h);
    return g;
}

static bool is_index(const struct envelope *e)
{
    return e->kind == ENVELOPE_ONEWAY && e->method == METHOD_REGISTRY_INDEX;
}

static const ProtobufCMessageDescriptor *type_of(const struct envelope *e)
{
    if (e->kind == ENVELOPE_ONEWAY && e->method == METHOD_REGISTRY_REPORT) {
        return &sluice__v1__report_message__descriptor;
    }
    if (e->kind == ENVELOPE_ONEWAY &&
        e->method == METHOD_REGISTRY_STEP_OUTPUT) {
        return &sluice__v1__step_output_message__descriptor;
    }
    if (is_index(e)) {
        return &sluice__v1__index_message__descriptor;
    }
    if (e->kind == ENVELOPE_END && e->status == ST_OK &&
        (e->method == METHOD_WORKER_CANCEL ||
         e->method == METHOD_WORKER_REMOVE)) {
        return &sluice__v1__receipt__descriptor;
    }
    return NULL;
}

/* Damages a Report or StepOutput of the worker's present session, with the
 * first false value from a random one on that this message can have.  The last
 * one can seldom be had, so every other message tries it first. */
static bool forge_claim(struct sim *s, const struct router_worker_view *view,
                        const struct envelope *e, ProtobufCMessage *m)
{
    struct claim c = {.s = s, .view = view};
    uint32_t n = sizeof values / sizeof *values, tried = 0;
    uint32_t i = rng_below(&s->forged.chance, 2)
                     ? (uint32_t)rng_below(&s->forged.chance, n)
                     : n - 1;

    if (e->method == METHOD_REGISTRY_REPORT) {
        Sluice__V1__ReportMessage *r = (void *)m;

        c.ledger = r->ledger;
        c.engine = r->engine;
    } else {
        c.step = (void *)m;
        c.ledger = c.step->ledger;
        c.engine = c.step->engine;
    }
    if (c.ledger->session != view->session) {
        return false;
    }
    while (tried < n && !values[(i + tried) % n].forge(&c)) {
        tried++;
    }
    s->forged.what = values[(i + tried) % n].name;
    return tried < n;
}

static bool find_view(const struct sim *s, uint32_t conn,
                      struct router_worker_view *v)
{
    const void *router = s->nodes[SIM_ROUTER].core;

    for (uint32_t i = 0; router_worker_view(router, i, v); i++) {
        if (v->id.v == conn) {
            return true;
        }
    }
    return false;
}

static bool damage(struct sim *s, const struct router_worker_view *view,
                   const struct envelope *e, ProtobufCMessage *m)
{
    if (is_index(e)) {
        return lose_events(s, (void *)m);
    }
    if (e->kind == ENVELOPE_END) {
        false_receipt(s, (void *)m);
    } else if (!forge_claim(s, view, e, m)) {
        return false;
    }
    s->forged.n_sent++;
    s->forged.session = view->session;
    s->counts.cells.deeds[DEED_FORGED]++;
    sim_log(s, "a forged message of %s: %s",
            s->nodes[s->network.conns[view->id.v - 1].node].name,
            s->forged.what != NULL ? s->forged.what : "a receipt");
    return true;
}

/* Receipts are rare, so every other one is false. */
static bool is_time(struct sim *s, const struct envelope *e)
{
    if (is_index(e) || s->forged.of == 0) {
        return is_index(e) && rng_chance(&s->forged.chance, s->forged.lose_of);
    }
    return e->kind == ENVELOPE_END
               ? rng_below(&s->forged.chance, 2) == 0
               : rng_chance(&s->forged.chance, s->forged.of);
}

void forged_replace(struct sim *s, uint32_t conn, struct frame **f)
{
    struct router_worker_view view;
    struct frame_header h;
    struct envelope e;
    struct frame *g;
    uint32_t at = 0;

    s->forged.what = NULL;
    s->forged.session = 0;
    if (s->calm || (s->forged.of == 0 && s->forged.lose_of == 0) ||
        frame_check((*f)->data, (*f)->bytes, &h, NULL) != ST_OK ||
        !find_view(s, conn, &view) || h.session != view.session) {
        return;
    }
    while (envelope_next(*f, &h, &at, &e)) {
        const ProtobufCMessageDescriptor *type = type_of(&e);
        ProtobufCMessage *m;

        if (type != NULL && is_time(s, &e) &&
            wire_unpack(&s->arena, type, e.body, e.body_bytes, &m, NULL) ==
                ST_OK &&
            damage(s, &view, &e, m)) {
            g = forged_body(*f, h, &e, m);
            frame_free(f);
            *f = g;
            return;
        }
    }
}

void forged_check(struct sim *s, uint32_t conn)
{
    struct router_worker_view v;
    bool stays;

    if (s->forged.session == 0 || s->nodes[SIM_ROUTER].core == NULL) {
        return;
    }
    stays = find_view(s, conn, &v) && v.session == s->forged.session;
    if (stays && s->forged.what != NULL) {
        sim_fail(s, -1, "the router accepted %s", s->forged.what);
    } else if (!stays) {
        auditor_violated(s, conn);
    }
    s->forged.what = NULL;
    s->forged.session = 0;
}
