#include "tests/sim/crowd.h"

#include <string.h>

#include "common/base/memory.h"
#include "common/wire/hello.h"
#include "proto/registry.pb-c.h"
#include "tests/sim/sim.h"

#define CROWD_STREAM   80
#define CROWD_OPEN_MAX 4000 /* connections of strangers open at a time */
#define SESSIONS       512  /* limit on compared sessions, more than exist */
#define PEERS_GATEWAY  8    /* sessions of a gateway, at most */

void crowd_draw(struct sim *s)
{
    struct crowd *x = &s->crowd;

    rng_init(&x->chance, s->seed, CROWD_STREAM);
    /* Room for sessions of the cluster whose end the router has not noticed. */
    x->n_clients = 44 + PEERS_GATEWAY * s->options.gateways.n;
    x->n_admins = 44;
    if (rng_below(&x->chance, 8) == 0) {
        x->every_us = rng_octave(&x->chance, 5000, 500000);
        x->n_clients = s->options.n_clients +
                       PEERS_GATEWAY * s->options.gateways.n + 8 +
                       (uint32_t)rng_below(&x->chance, 16);
        x->n_admins = 8;
    }
    x->first = x->last = CROWD_CONN;
}

/* ---- what the router has ---- */

struct sessions {
    uint32_t n;
    struct router_session_view of[SESSIONS];
    struct router_metrics counts;
};

static void look(const struct sim *s, struct sessions *x)
{
    const void *router = s->nodes[SIM_ROUTER].core;

    x->n = 0;
    while (x->n < SESSIONS && router_session_view(router, x->n, &x->of[x->n])) {
        x->n++;
    }
    router_counts(router, &x->counts);
}

static bool has(const struct sessions *x, uint32_t id)
{
    for (uint32_t i = 0; i < x->n; i++) {
        if (x->of[i].id.v == id) {
            return true;
        }
    }
    return false;
}

static uint32_t n_of(const struct sessions *x, uint8_t role, bool idle_only)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < x->n; i++) {
        n += x->of[i].role == role && !(idle_only && x->of[i].busy);
    }
    return n;
}

static void check_ended(struct sim *s, const struct router_session_view *v,
                        uint8_t role, bool full)
{
    s->counts.cells
        .deeds[v->id.v < CROWD_CONN ? DEED_EVICTED : DEED_EVICTED_STRANGER]++;
    if (v->busy) {
        sim_fail(s, -1, "the Hello of a stranger ended a session with a call");
    } else if (v->role != role) {
        sim_fail(s, -1, "the Hello of a stranger ended a session of role %u",
                 v->role);
    } else if (!full) {
        sim_fail(s, -1,
                 "the Hello of a stranger ended a session although the "
                 "role had places left");
    }
}

static void compare(struct sim *s, const struct sessions *before, uint32_t conn,
                    uint8_t role)
{
    uint32_t most = role == BY_CLIENT ? s->crowd.n_clients : s->crowd.n_admins;
    bool full = n_of(before, role, false) >= most;
    struct sessions now;
    uint32_t n_ended = 0;
    bool throttled;

    look(s, &now);
    for (uint32_t i = 0; i < before->n && !s->failed; i++) {
        if (!has(&now, before->of[i].id.v)) {
            n_ended++;
            check_ended(s, &before->of[i], role, full);
        }
    }
    throttled = now.counts.hellos_throttled > before->counts.hellos_throttled;
    s->counts.cells.deeds[DEED_THROTTLED] += throttled;
    if (n_ended > 1) {
        sim_fail(s, -1, "the Hello of a stranger ended %u sessions", n_ended);
    } else if (n_of(&now, role, false) > most) {
        sim_fail(s, -1, "%u sessions have %u places", n_of(&now, role, false),
                 most);
    } else if (!throttled && !sim_short && !has(before, conn) &&
               !has(&now, conn) && (!full || n_of(before, role, true) > 0)) {
        sim_fail(s, -1,
                 "a stranger was refused although a place was free or "
                 "a session idle");
    }
}

/* ---- the crowd ---- */

static void say_hello(struct sim *s, uint32_t conn, uint8_t role)
{
    struct sim_node *router = &s->nodes[SIM_ROUTER];
    Sluice__V1__HelloRequest hello = SLUICE__V1__HELLO_REQUEST__INIT;
    struct sessions before;
    struct frame *f;

    hello.version_major = WIRE_VERSION_MAJOR;
    hello.version_minor = WIRE_VERSION_MINOR;
    hello.role = role == BY_CLIENT ? SLUICE__V1__ROLE__ROLE_CLIENT
                                   : SLUICE__V1__ROLE__ROLE_ADMIN;
    hello.nonce = rng_u64(&s->crowd.chance);
    hello.name = wire_text("crowd");
    f = hello_make(&hello.base);
    look(s, &before);
    router->ops->recv(router->core, (struct peer_id){conn}, &f);
    compare(s, &before, conn, role);
}

static void leave(struct sim *s)
{
    struct sim_node *router = &s->nodes[SIM_ROUTER];

    router->ops->lost(router->core, (struct peer_id){s->crowd.first++});
}

static bool router_receives(const struct sim *s)
{
    const struct sim_node *n = &s->nodes[SIM_ROUTER];

    return n->core && !n->ending && n->paused_us <= sim_now(s);
}

/* A flood on one connection, or the arrival of many. */
static void meet(struct sim *s)
{
    struct crowd *x = &s->crowd;
    uint32_t n = (uint32_t)rng_octave(&x->chance, 1, 64);
    uint8_t role = rng_below(&x->chance, 4) == 0 ? BY_ADMIN : BY_CLIENT;
    bool same = rng_below(&x->chance, 4) == 0;

    if (!router_receives(s)) {
        return;
    }
    sim_log(s, "%u strangers of role %u say Hello on %s", n, role,
            same ? "one connection" : "connections of their own");
    for (uint32_t i = 0; i < n && !s->failed; i++) {
        x->last += !same || i == 0;
        say_hello(s, x->last, role);
    }
    while (x->last - x->first > CROWD_OPEN_MAX ||
           (x->first < x->last && rng_below(&x->chance, 4) == 0)) {
        leave(s);
    }
    node_soon(s, SIM_ROUTER);
}

static void come(struct sim *s, uint32_t first, uint64_t unused)
{
    int64_t every = s->crowd.every_us;

    if (s->calm) {
        return;
    }
    if (!first) {
        meet(s);
    }
    clock_add(&s->clock,
              sim_now(s) +
                  rng_range(&s->crowd.chance, every / 2, every * 3 / 2),
              come, 0, unused);
}

void crowd_start(struct sim *s)
{
    if (s->crowd.every_us) {
        come(s, 1, 0);
    }
}

/* ---- the cluster's own nodes ---- */

static bool holds(const struct envelope *e, const char *text)
{
    return memmem(e->body, e->body_bytes, text, strlen(text)) != NULL;
}

void crowd_look(struct sim *s, uint32_t conn, const struct frame *f,
                const struct frame_header *h)
{
    struct sim_node *n = &s->nodes[network_conn(&s->network, conn)->node];
    struct envelope e;

    if (hello_is_answer(f, h, &e) && e.status == ST_RESOURCE_EXHAUSTED &&
        !(sim_short && holds(&e, MEMORY_SENTENCE))) {
        sim_fail(s, -1, "%s is refused for lack of a place", n->name);
    }
    /* The Goodbye of the eviction, or one that answers a later frame. */
    if (network_conn(&s->network, conn)->evicted &&
        hello_is_goodbye(f, h, &e)) {
        n->evicted_us = sim_now(s);
    }
}

void crowd_sent(struct sim *s, uint32_t conn, const struct frame *f)
{
    struct conn *c = network_conn(&s->network, conn);
    struct frame_header h;
    struct envelope e;

    if (!s->crowd.every_us || frame_check(f->data, f->bytes, &h, NULL)) {
        return;
    }
    if (hello_is_answer(f, &h, &e) && e.status == ST_OK) {
        c->evicted = false; /* a new session on the same connection */
    } else if (hello_is_goodbye(f, &h, &e) && holds(&e, "places for ")) {
        sim_log(s, "session of %s is evicted", s->nodes[c->node].name);
        c->evicted = true;
    }
}

bool crowd_crossed(const struct sim_request *request)
{
    const struct sim *s = request->sim;

    return s->nodes[request->client].evicted_us >= request->asked_us;
}
