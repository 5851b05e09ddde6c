/* keys_strangers.c - Strangers with valid keys that try what their keys do not
 * permit. */
#include <stdio.h>
#include <string.h>

#include "common/wire/hello.h"
#include "proto/registry.pb-c.h"
#include "tests/sim/sim.h"
#include "tests/sim/stranger_parts.h"

#define OWN_KEY "x"

/* The attempts of a stranger at the router. */
struct attempt {
    enum deed deed;
    uint8_t role;
    enum status wanted; /* the answer of a router that checks keys */
    char name[SIM_KNOWN_AS];
};

void keys_answered(struct sim *s, struct frame **f)
{
    struct frame_header h;
    struct envelope e;

    if (frame_check((*f)->data, (*f)->bytes, &h, NULL) == ST_OK &&
        hello_is_answer(*f, &h, &e)) {
        s->keys.answered = true;
        s->keys.answer = (enum status)e.status;
    }
    frame_free(f);
}

static void be_stranger(struct sim *s, uint8_t roles)
{
    struct keys *k = &s->keys;

    k->stranger_keyed = true;
    k->stranger = (struct identity){.name = OWN_KEY, .roles = roles};
    memset(k->stranger.key, 0xee, KEY_BYTES);
    k->conn++;
    k->answered = false;
}

static uint32_t any_node(struct sim *s, uint8_t role)
{
    struct rng *r = &s->keys.chance;

    return role == BY_WORKER
               ? SIM_FIRST_WORKER + (uint32_t)rng_below(r, s->options.n_workers)
               : SIM_FIRST_CLIENT +
                     (uint32_t)rng_below(r, s->options.n_clients);
}

/* Draws the name of a node: in its Hello, or at the router. */
static void draw_name(struct sim *s, struct attempt *a)
{
    uint32_t node = any_node(s, a->role);

    if (rng_below(&s->keys.chance, 2)) {
        keys_known_as(s, node, a->name);
    } else {
        (void)snprintf(a->name, sizeof(a->name), "%s", s->nodes[node].name);
    }
}

/* Draws a role, and a key with others. */
static void draw_roles(struct sim *s, struct attempt *a)
{
    static const uint8_t pairs[][2] = {{BY_ADMIN, BY_CLIENT},
                                       {BY_ADMIN, BY_WORKER},
                                       {BY_CLIENT, BY_WORKER},
                                       {BY_WORKER, BY_CLIENT},
                                       {BY_WORKER, BY_ADMIN | BY_CLIENT},
                                       {BY_CLIENT, BY_ROUTER}};
    size_t i = rng_below(&s->keys.chance, sizeof pairs / sizeof *pairs);

    a->role = pairs[i][0];
    a->wanted = ST_PERMISSION_DENIED;
    be_stranger(s, pairs[i][1]);
}

static void draw_attempt(struct sim *s, struct attempt *a)
{
    static const enum deed deeds[] = {DEED_KEY_NAME, DEED_KEY_LINEAGE,
                                      DEED_KEY_ROLE, DEED_KEY_NONE};
    static const uint8_t roles[] = {BY_WORKER, BY_CLIENT, BY_ADMIN};

    *a = (struct attempt){.deed = deeds[rng_below(&s->keys.chance, 4)]};
    switch ((int)a->deed) {
    case DEED_KEY_ROLE:
        draw_roles(s, a);
        break;
    case DEED_KEY_NONE:
        a->role = roles[rng_below(&s->keys.chance, 3)];
        a->wanted = ST_UNAUTHENTICATED;
        be_stranger(s, a->role);
        s->keys.stranger_keyed = false;
        break;
    default:
        a->role = a->deed == DEED_KEY_NAME ? BY_CLIENT : BY_WORKER;
        be_stranger(s, a->role);
        break;
    }
    draw_name(s, a);
}

/* A worker comes with a model that no node of the cluster has. */
static void send_hello(struct sim *s, const struct attempt *a)
{
    struct sim_node *router = &s->nodes[SIM_ROUTER];
    Sluice__V1__HelloRequest hello = SLUICE__V1__HELLO_REQUEST__INIT;
    struct stranger_shard shard;
    struct frame *f;

    stranger_shard_init(&shard, "x");
    shard.m.has_lineage = true;
    shard.m.lineage = wire_text(a->name);
    hello.version_major = WIRE_VERSION_MAJOR;
    hello.version_minor = WIRE_VERSION_MINOR;
    hello.role = a->role == BY_WORKER   ? SLUICE__V1__ROLE__ROLE_WORKER
                 : a->role == BY_CLIENT ? SLUICE__V1__ROLE__ROLE_CLIENT
                                        : SLUICE__V1__ROLE__ROLE_ADMIN;
    hello.nonce = rng_u64(&s->keys.chance);
    hello.name = wire_text(a->name);
    hello.worker = a->role == BY_WORKER ? &shard.m : NULL;
    f = hello_make(&hello.base);
    router->ops->recv(router->core, (struct peer_id){s->keys.conn}, &f);
}

static uint32_t n_clients(const struct sim *s)
{
    const void *router = s->nodes[SIM_ROUTER].core;
    struct router_session_view v;
    uint32_t n = 0;

    for (uint32_t i = 0; router_session_view(router, i, &v); i++) {
        n += v.role == BY_CLIENT;
    }
    return n;
}

/* Checks the answer.  A throttled Hello has none. */
static void check_answer(struct sim *s, const struct attempt *a)
{
    if (s->keys.answered && s->keys.answer != a->wanted &&
        !(sim_short && s->keys.answer == ST_RESOURCE_EXHAUSTED)) {
        sim_fail(s, -1, "a Hello as %s with the key %s was answered %s, not %s",
                 a->name, s->keys.stranger_keyed ? OWN_KEY : "(none)",
                 status_name(s->keys.answer), status_name(a->wanted));
    }
    s->counts.cells.deeds[a->deed] += s->keys.answered;
}

/* At a full house an accepted client would evict another one. */
static void meet_router(struct sim *s)
{
    struct sim_node *router = &s->nodes[SIM_ROUTER];
    struct router_seen before;
    struct attempt a;

    if (!stranger_may_come(s) || !stranger_settle(s) ||
        n_clients(s) >= s->crowd.n_clients) {
        return;
    }
    draw_attempt(s, &a);
    sim_log(s, "a stranger with %s key says Hello as %s, role %u",
            s->keys.stranger_keyed ? "a" : "no", a.name, a.role);
    stranger_look(s, &before);
    send_hello(s, &a);
    check_answer(s, &a);
    keys_audit(s);
    router->ops->lost(router->core, (struct peer_id){s->keys.conn});
    if (!s->failed && stranger_settle(s)) {
        stranger_compare(s, a.name, &before);
    }
    node_soon(s, SIM_ROUTER);
}

/* ---- at a stage ---- */

static bool stage_receives(const struct sim *s, uint32_t w)
{
    const struct sim_node *n = &s->nodes[SIM_FIRST_WORKER + w];

    return options_staged(&s->options, w) && node_worker(s, n->number) &&
           !n->ending && n->paused_us <= sim_now(s);
}

/* Has the key of a worker that is not the previous stage: of another node, or
 * one of its own. */
static void draw_worker_key(struct sim *s, uint32_t w)
{
    const struct router_worker_view none = {.n_stages = 0};
    uint32_t node = any_node(s, BY_WORKER);
    struct router_worker_view mine = none, other = none;

    be_stranger(s, BY_WORKER);
    if (!s->options.keys.pooled && node != SIM_FIRST_WORKER + w &&
        replicas_find(s, SIM_FIRST_WORKER + w, &mine) &&
        replicas_find(s, node, &other) && mine.assembly != other.assembly) {
        keys_make(s, node, &s->keys.stranger);
    }
}

static void send_stage_hello(struct sim *s, uint32_t w, uint64_t assembly,
                             uint32_t index)
{
    struct sim_node *n = &s->nodes[SIM_FIRST_WORKER + w];
    Sluice__V1__HelloRequest hello = SLUICE__V1__HELLO_REQUEST__INIT;
    Sluice__V1__StagePeer stage = SLUICE__V1__STAGE_PEER__INIT;
    struct frame *f;

    stage.assembly = assembly;
    stage.index = index;
    hello.version_major = WIRE_VERSION_MAJOR;
    hello.version_minor = WIRE_VERSION_MINOR;
    hello.role = SLUICE__V1__ROLE__ROLE_WORKER;
    hello.nonce = rng_u64(&s->keys.chance);
    hello.name = wire_text("stage");
    hello.stage = &stage;
    f = hello_make(&hello.base);
    n->ops->recv(n->core, (struct peer_id){s->keys.conn}, &f);
}

/* Gives the right assembly and place: only the key is wrong. */
static void meet_stage(struct sim *s)
{
    uint32_t w = (uint32_t)rng_below(&s->keys.chance, s->options.n_workers);
    struct worker_account before, after;
    uint64_t assembly;

    if (!stage_receives(s, w)) {
        return;
    }
    worker_account(s->nodes[SIM_FIRST_WORKER + w].core, &before);
    assembly = s->replicas[w].ordered;
    if (assembly == 0 || before.n_stages == 0) {
        return;
    }
    draw_worker_key(s, w);
    sim_log(s, "a stranger with the key %s says Hello to w%u",
            s->keys.stranger.name, w);
    send_stage_hello(s, w, assembly,
                     (before.stage + before.n_stages - 1) % before.n_stages);
    worker_account(s->nodes[SIM_FIRST_WORKER + w].core, &after);
    if ((!s->keys.answered && !sim_short) ||
        (s->keys.answered && s->keys.answer == ST_OK)) {
        sim_fail(s, -1, "w%u accepted the key of another worker", w);
    } else if (after.assembly != before.assembly) {
        sim_fail(s, -1, "the key of another worker ended an edge of w%u", w);
    }
    s->counts.cells.deeds[DEED_KEY_STAGE] +=
        s->keys.answer == ST_PERMISSION_DENIED;
    s->counts.cells.deeds[DEED_KEY_STAGE_UP] +=
        s->keys.answer == ST_PERMISSION_DENIED && before.assembly != 0;
    node_soon(s, SIM_FIRST_WORKER + w);
}

static void come(struct sim *s, uint32_t first, uint64_t unused)
{
    int64_t every = s->options.keys.strange_every_us;

    if (s->calm) {
        return;
    }
    if (!first && options_has_stages(&s->options) &&
        rng_below(&s->keys.chance, 2)) {
        meet_stage(s);
    } else if (!first) {
        meet_router(s);
    }
    clock_add(&s->clock,
              sim_now(s) + rng_range(&s->keys.chance, every / 2, every * 3 / 2),
              come, 0, unused);
}

void keys_strangers_start(struct sim *s)
{
    come(s, 1, 0);
}
