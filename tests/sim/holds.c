#include "tests/sim/holds.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/minmax.h"
#include "proto/registry.pb-c.h"
#include "tests/sim/sim.h"

#define HOLDS_STREAM 91

void holds_draw(struct sim *s)
{
    struct holds *x = &s->holds;

    arena_init(&x->arena);
    rng_init(&x->chance, s->seed, HOLDS_STREAM);
    if (s->options.faulty && rng_below(&x->chance, 8) == 0) {
        x->of = (uint32_t)rng_octave(&x->chance, 2, 50);
    }
}

void holds_fini(struct sim *s)
{
    arena_fini(&s->holds.arena);
    for (uint32_t w = 0; w < SIM_WORKERS; w++) {
        free(s->holds.held[w].ledger);
        s->holds.held[w].ledger = NULL;
    }
}

static struct held *held_of(struct sim *s, uint32_t conn)
{
    return &s->holds.held[s->network.conns[conn - 1].node - SIM_FIRST_WORKER];
}

bool holds_is(const struct sim *s, uint32_t conn)
{
    uint32_t node = s->network.conns[conn - 1].node;
    const struct held *h = &s->holds.held[node - SIM_FIRST_WORKER];

    return h->on && h->session == s->sessions[node - SIM_FIRST_WORKER];
}

/* ---- messages ---- */

/* The fields that every message of a worker has. */
struct fields {
    Sluice__V1__Ledger **ledger;
    Sluice__V1__EngineState *engine;     /* NULL: the answer to an Audit */
    Sluice__V1__StepOutputMessage *step; /* NULL: no StepOutput */
};

static const ProtobufCMessageDescriptor *type_of(const struct envelope *e)
{
    if (e->kind == ENVELOPE_END && e->status == ST_OK &&
        e->method == METHOD_WORKER_AUDIT) {
        return &sluice__v1__audit_reply__descriptor;
    }
    if (e->kind != ENVELOPE_ONEWAY) {
        return NULL;
    }
    return e->method == METHOD_REGISTRY_REPORT
               ? &sluice__v1__report_message__descriptor
           : e->method == METHOD_REGISTRY_STEP_OUTPUT
               ? &sluice__v1__step_output_message__descriptor
               : NULL;
}

static struct fields fields_of(ProtobufCMessage *m)
{
    if (m->descriptor == &sluice__v1__report_message__descriptor) {
        Sluice__V1__ReportMessage *r = (void *)m;

        return (struct fields){&r->ledger, r->engine, NULL};
    }
    if (m->descriptor == &sluice__v1__audit_reply__descriptor) {
        Sluice__V1__AuditReply *a = (void *)m;

        return (struct fields){&a->ledger, NULL, NULL};
    }
    Sluice__V1__StepOutputMessage *o = (void *)m;

    return (struct fields){&o->ledger, o->engine, o};
}

/* Keeps what a message delivered as it is contains. */
static void remember(struct held *h, const struct fields *t)
{
    uint32_t bytes = (uint32_t)wire_size(&(*t->ledger)->base);

    /* A frame may come before one that was sent earlier. */
    if ((*t->ledger)->snapshot <= h->snapshot) {
        return;
    }
    h->ledger = realloc(h->ledger, bytes);
    if (!h->ledger) {
        abort();
    }
    wire_pack(&(*t->ledger)->base, h->ledger);
    h->bytes = bytes;
    h->snapshot = (*t->ledger)->snapshot;
    h->session = (*t->ledger)->session;
    h->ticks = t->engine ? t->engine->ticks : h->ticks;
    h->step = t->step ? t->step->step : h->step;
}

static void clear_rows(Sluice__V1__StepOutputMessage *m)
{
    m->n_grant = m->n_first_index = m->n_count = m->n_finish = 0;
    m->n_state = m->n_tokens = m->n_width = m->n_logprobs = 0;
    m->n_top_tokens = m->n_stage_us = m->n_reused = 0;
    m->has_failure = m->has_device_us = false;
}

/* Replaces the contents of the message by those of the one before. */
static bool freeze(struct sim *s, const struct held *h, struct fields *t)
{
    uint64_t snapshot = (*t->ledger)->snapshot;
    ProtobufCMessage *ledger;

    if (wire_unpack(&s->holds.arena, &sluice__v1__ledger__descriptor, h->ledger,
                    h->bytes, &ledger, NULL) != ST_OK) {
        return false;
    }
    *t->ledger = (Sluice__V1__Ledger *)ledger;
    (*t->ledger)->snapshot = snapshot;
    if (t->engine) {
        t->engine->ticks = h->ticks;
        t->engine->n_planned = 0;
        t->engine->plan_age_us = 0;
    }
    if (t->step) {
        t->step->step = h->step;
        clear_rows(t->step);
    }
    return true;
}

static bool find_view(const struct sim *s, uint32_t conn,
                      struct router_worker_view *v)
{
    for (uint32_t i = 0; router_worker_view(s->nodes[SIM_ROUTER].core, i, v);
         i++) {
        if (v->id.v == conn) {
            return true;
        }
    }
    return false;
}

/* Returns whether the worker of the view holds its rows from now on.  It has
 * all layers, since its ledger alone is frozen. */
static bool begins(struct sim *s, const struct router_worker_view *v,
                   const struct held *h)
{
    return !s->calm && h->session == v->session && v->serves &&
           v->assembly == 0 && v->n_sequences > 0 &&
           rng_chance(&s->holds.chance, s->holds.of);
}

/* Returns whether the message is to be replaced; t is changed then. */
static bool held(struct sim *s, const struct router_worker_view *v,
                 struct held *h, struct fields *t)
{
    if ((*t->ledger)->session != v->session) {
        return false;
    }
    if (h->session != v->session) {
        h->on = false;
        h->step = h->snapshot = h->ticks = h->frozen = 0;
    }
    if (s->calm && v->n_sequences == 0) {
        h->on = false; /* nothing more is to happen */
    }
    if (!h->on && t->engine && begins(s, v, h)) {
        h->on = true;
        h->latest = v->session;
        s->counts.cells.deeds[DEED_HELD]++;
        sim_log(s, "%s holds its rows from now on",
                s->nodes[s->network.conns[v->id.v - 1].node].name);
    }
    /* Late ones among those that were replaced are replaced too. */
    if (!h->on && (*t->ledger)->snapshot > h->frozen) {
        remember(h, t);
        return false;
    }
    /* One that was sent before is still true. */
    if (h->on && (*t->ledger)->snapshot <= h->snapshot) {
        return false;
    }
    h->frozen = max_u64(h->frozen, (*t->ledger)->snapshot);
    return freeze(s, h, t);
}

void holds_replace(struct sim *s, uint32_t conn, struct frame **f)
{
    struct router_worker_view view;
    struct frame_header h;
    struct envelope e;
    uint32_t at = 0;

    if (s->holds.of == 0 ||
        frame_check((*f)->data, (*f)->bytes, &h, NULL) != ST_OK ||
        !find_view(s, conn, &view) || h.session != view.session) {
        return;
    }
    while (envelope_next(*f, &h, &at, &e)) {
        const ProtobufCMessageDescriptor *type = type_of(&e);
        ProtobufCMessage *m;
        struct fields t;

        if (!type || wire_unpack(&s->arena, type, e.body, e.body_bytes, &m,
                                 NULL) != ST_OK) {
            continue;
        }
        t = fields_of(m);
        if (held(s, &view, held_of(s, conn), &t)) {
            struct frame *g = forged_body(*f, h, &e, m);

            at += (uint32_t)wire_size(m) - e.body_bytes;
            frame_free(f);
            *f = g;
            if (frame_check(g->data, g->bytes, &h, NULL) != ST_OK) {
                abort();
            }
        }
    }
}

/* ---- rules ---- */

void holds_router(struct sim *s)
{
    struct router_worker_view v;
    struct router_metrics c;
    bool here[SIM_WORKERS] = {false};
    uint64_t n = 0;

    router_counts(s->nodes[SIM_ROUTER].core, &c);
    for (uint32_t i = 0; router_worker_view(s->nodes[SIM_ROUTER].core, i, &v);
         i++) {
        here[s->network.conns[v.id.v - 1].node - SIM_FIRST_WORKER] = true;
    }
    for (uint32_t w = 0; w < s->options.n_workers; w++) {
        const struct held *h = &s->holds.held[w];

        n += s->sessions[w] && !here[w] && h->latest == s->sessions[w];
    }
    if (c.stalled > s->holds.n_stalled) {
        s->counts.cells.deeds[DEED_STALLED] += c.stalled - s->holds.n_stalled;
        if (n < c.stalled - s->holds.n_stalled) {
            sim_fail(s, -1, "worker ended for a sequence, but it sends rows");
        }
    }
    s->holds.n_stalled = c.stalled;
}
