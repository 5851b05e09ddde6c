#include "tests/sim/drains.h"

#include <string.h>

#include "tests/sim/sim.h"
#include "worker/stages/offer.h"

#define UNDRAIN_MAX_US 2000000
#define GRACE_MAX_MS   3000
#define AWAY_MAX_US    3000000
#define SECOND_OF      8 /* one leave in this many is cut short */

static uint32_t any_worker(struct sim *s)
{
    return (uint32_t)rng_below(&s->chance, s->options.n_workers);
}

static uint32_t draw_grace(struct sim *s)
{
    return rng_below(&s->chance, 3)
               ? (uint32_t)rng_octave(&s->chance, 1, GRACE_MAX_MS)
               : 0;
}

static void again(struct sim *s, int64_t every, event_fn *fn)
{
    clock_add(&s->clock,
              sim_now(s) + rng_range(&s->chance, every / 2, every * 3 / 2), fn,
              0, 0);
}

/* ---- Drain and Undrain ---- */

static void undrain(struct sim *s, uint32_t w, uint64_t unused)
{
    (void)unused;
    control_ask_worker(s, SIM_FIRST_CLIENT, METHOD_ADMIN_UNDRAIN, w, 0);
}

static void drain(struct sim *s, uint32_t unused, uint64_t unused_too)
{
    uint32_t w = any_worker(s);

    (void)unused, (void)unused_too;
    if (s->calm) {
        return;
    }
    control_ask_worker(s, SIM_FIRST_CLIENT, METHOD_ADMIN_DRAIN, w,
                       draw_grace(s));
    if (rng_below(&s->chance, 8)) { /* otherwise until it is gone */
        clock_add(&s->clock,
                  sim_now(s) + rng_octave(&s->chance, 1000, UNDRAIN_MAX_US),
                  undrain, w, 0);
    }
    again(s, s->options.drain_every_us, drain);
}

/* ---- leaving and returning ---- */

static void at_once(struct sim *s, uint32_t number, uint64_t life)
{
    struct sim_node *n = &s->nodes[number];

    if (n->life == life && node_worker(s, number)) {
        n->leave_end_us = 0;
        worker_leave(n->core, 0);
        node_soon(s, number);
    }
}

static void leave(struct sim *s, uint32_t unused, uint64_t unused_too)
{
    uint32_t number = SIM_FIRST_WORKER + any_worker(s);
    struct sim_node *n = &s->nodes[number];
    uint32_t grace_ms = draw_grace(s);

    (void)unused, (void)unused_too;
    if (s->calm) {
        return;
    }
    if (n->core && !n->ending) {
        sim_log(s, "%s leaves within %u ms", n->name, grace_ms);
        n->ending = true;
        n->leave_end_us = sim_now(s) + (int64_t)grace_ms * 1000 + LEAVE_US;
        if (node_worker(s, number)) {
            worker_leave(n->core, grace_ms);
        } else {
            offer_stop(n->core);
        }
        node_soon(s, number);
        node_comes_back(s, number, rng_octave(&s->chance, 1000, AWAY_MAX_US));
        if (rng_below(&s->chance, SECOND_OF) == 0) {
            clock_add(&s->clock,
                      sim_now(s) + rng_octave(&s->chance, 100, AWAY_MAX_US),
                      at_once, number, n->life);
        }
    }
    again(s, s->options.leave_every_us, leave);
}

void drains_start(struct sim *s)
{
    if (s->options.drain_every_us) {
        again(s, s->options.drain_every_us, drain);
    }
    if (s->options.leave_every_us) {
        again(s, s->options.leave_every_us, leave);
    }
}

/* ---- rules ---- */

static void look_at(struct sim *s, const struct router_worker_view *v)
{
    uint32_t node = s->network.conns[v->id.v - 1].node;
    struct drain_seen *seen = &s->drains.seen[node - SIM_FIRST_WORKER];

    if (seen->session == v->session && seen->draining && v->draining &&
        v->last_grant != seen->last_grant) {
        sim_fail(s, -1, "%s is draining, but received a grant",
                 s->nodes[node].name);
    }
    *seen = (struct drain_seen){v->session, v->last_grant,
                                v->serves && !v->draining, v->draining};
}

/* Returns whether an open worker could hold it. */
static bool has_worker(const struct sim *s, const struct sim_request *request)
{
    for (uint32_t w = 0; w < s->options.n_workers; w++) {
        if ((s->drains.open >> w & 1) != 0 &&
            sim_request_fits_at(s, request, w)) {
            return true;
        }
    }
    return false;
}

static void set_open(struct sim *s, uint32_t open)
{
    if (open == s->drains.open) {
        return;
    }
    s->drains.open = open;
    for (uint32_t i = 0; i < s->n_requests; i++) {
        struct sim_request *request = &s->requests[i];

        request->bereft =
            request->bereft || (!request->n_ends && !has_worker(s, request));
    }
}

void drains_watch(struct sim *s)
{
    const void *router = s->nodes[SIM_ROUTER].core;
    struct router_worker_view v;
    uint32_t open = 0;

    for (uint32_t w = 0; w < SIM_WORKERS; w++) {
        s->drains.seen[w].open = false;
    }
    for (uint32_t i = 0; router_worker_view(router, i, &v); i++) {
        look_at(s, &v);
    }
    for (uint32_t w = 0; w < SIM_WORKERS; w++) {
        open |= (uint32_t)s->drains.seen[w].open << w;
    }
    set_open(s, open);
}

/* Returns the workers that may close when this one drains: for a stage, all
 * stages, whatever their replica. */
static uint32_t closes(const struct sim *s, uint32_t w)
{
    const struct sim_options *o = &s->options;
    uint32_t set = 1u << w;

    for (uint32_t i = 0; i < o->n_workers && options_staged(o, w); i++) {
        set |= (uint32_t)options_staged(o, i) << i;
    }
    return set;
}

void drains_asked(struct sim *s, const uint8_t *name, size_t n)
{
    for (uint32_t w = 0; w < SIM_WORKERS; w++) {
        char of[SIM_KNOWN_AS];

        keys_known_as(s, SIM_FIRST_WORKER + w, of);
        if (strlen(of) == n && memcmp(of, name, n) == 0) {
            set_open(s, s->drains.open & ~closes(s, w));
        }
    }
}

bool drains_bereft(const struct sim *s, const struct sim_request *request)
{
    bool comes_and_goes =
        drains_drawn(&s->options) || options_has_stages(&s->options);
    bool doubt = comes_and_goes && (request->again || request->shared);

    return request->bereft || doubt || !has_worker(s, request);
}

void drains_goodbye(struct sim *s, uint32_t node, uint32_t conn)
{
    const struct sim_node *n = &s->nodes[node];
    struct router_worker_view v;

    if (!s->nodes[SIM_ROUTER].core || conn < n->first_conn ||
        sim_now(s) >= n->leave_end_us) {
        return;
    }
    for (uint32_t i = 0; router_worker_view(s->nodes[SIM_ROUTER].core, i, &v);
         i++) {
        if (v.id.v == conn) {
            s->counts.cells.deeds[DEED_LEFT]++;
            if (v.n_sequences) {
                sim_fail(s, -1, "%s left with %u sequences remaining", n->name,
                         v.n_sequences);
            }
        }
    }
}
