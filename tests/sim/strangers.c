#include "tests/sim/strangers.h"

#include <stdio.h>
#include <string.h>

#include "common/wire/hello.h"
#include "proto/registry.pb-c.h"
#include "tests/sim/sim.h"
#include "tests/sim/stranger_parts.h"

#define STRANGERS_STREAM 70

static const uint8_t tokenizer[16] = {1}, other_tokenizer[16] = {2};
static uint8_t other_weights[16] = {3}; /* the cluster's are all 0 */

void strangers_draw(struct sim *s)
{
    struct strangers *x = &s->strangers;

    rng_init(&x->chance, s->seed, STRANGERS_STREAM);
    if (rng_below(&x->chance, 8) == 0) {
        x->every_us = rng_octave(&x->chance, 20000, 1000000);
    }
}

const uint8_t *strangers_tokenizer(const struct sim *s)
{
    return s->strangers.every_us ? tokenizer : NULL;
}

/* ---- the stranger ---- */

struct stranger {
    uint32_t model;
    char model_name[8], name[16];
    bool weights, vocab, tokenizer; /* these differ from the cluster's */
    bool named, met; /* name of a registered worker; its model has a worker */
};

/* Looks for workers of its model, and for one with its name, at the router. */
static void look_around(const struct sim *s, struct stranger *x)
{
    struct router_worker_view v;

    for (uint32_t i = 0; router_worker_view(s->nodes[SIM_ROUTER].core, i, &v);
         i++) {
        uint32_t node = s->network.conns[v.id.v - 1].node;
        /* With keys, the stranger has the name of its own key. */
        bool same =
            !s->options.keys.on && strcmp(s->nodes[node].name, x->name) == 0;

        x->named = x->named || same;
        x->met = x->met ||
                 (!same && s->options.workers[node - SIM_FIRST_WORKER].model ==
                               x->model);
    }
}

/* Draws a stranger; false if the router may accept it. */
static bool draw(struct sim *s, struct stranger *x)
{
    struct rng *r = &s->strangers.chance;
    uint32_t w = (uint32_t)rng_below(r, s->options.n_workers);

    *x = (struct stranger){.model = s->options.workers[w].model};
    (void)snprintf(x->model_name, sizeof(x->model_name), "m%u", x->model);
    (void)snprintf(x->name, sizeof(x->name), "%s",
                   rng_below(r, 2) ? s->nodes[SIM_FIRST_WORKER + w].name : "x");
    x->weights = rng_below(r, 4) != 0;
    x->vocab = rng_below(r, 2) != 0;
    x->tokenizer = rng_below(r, 2) != 0;
    look_around(s, x);
    return (x->tokenizer && s->options.text[x->model]) ||
           (x->met && (x->weights || x->vocab));
}

static void send_hello(struct sim *s, const struct stranger *x)
{
    struct sim_node *router = &s->nodes[SIM_ROUTER];
    const struct fake_model *m = &s->options.models[x->model];
    Sluice__V1__HelloRequest hello = SLUICE__V1__HELLO_REQUEST__INIT;
    struct stranger_shard shard;
    struct frame *f;

    stranger_shard_init(&shard, x->model_name);
    if (x->weights) {
        shard.m.fingerprint.data = other_weights;
    }
    shard.m.tokenizer = (ProtobufCBinaryData){
        16, (uint8_t *)(x->tokenizer ? other_tokenizer : tokenizer)};
    shard.m.context = m->context;
    shard.m.vocab = x->vocab ? 1 : m->vocab;
    hello.version_major = WIRE_VERSION_MAJOR;
    hello.version_minor = WIRE_VERSION_MINOR;
    hello.role = SLUICE__V1__ROLE__ROLE_WORKER;
    hello.nonce = rng_u64(&s->strangers.chance);
    hello.name = wire_text((char *)x->name);
    hello.worker = &shard.m;
    f = hello_make(&hello.base);
    router->ops->recv(router->core, (struct peer_id){STRANGER_CONN}, &f);
}

static void check_refused(struct sim *s, const struct stranger *x)
{
    const void *router = s->nodes[SIM_ROUTER].core;
    struct router_worker_view v;

    for (uint32_t i = 0; router_worker_view(router, i, &v); i++) {
        if (v.id.v == STRANGER_CONN) {
            sim_fail(s, -1, "router accepted a stranger as %s", x->name);
        }
    }
}

/* ---- the encounter ---- */

static void meet(struct sim *s)
{
    struct router_seen before;
    struct stranger x;

    if (!stranger_may_come(s) || !stranger_settle(s) || !draw(s, &x)) {
        return;
    }
    sim_log(s, "stranger of %s sends Hello as %s, with other:%s%s%s",
            x.model_name, x.name, x.weights ? " weights" : "",
            x.vocab ? " vocabulary" : "", x.tokenizer ? " tokenizer" : "");
    s->counts.cells.deeds[DEED_NAMESAKE] += x.named;
    s->counts.cells.deeds[DEED_STRANGER] += !x.met;
    stranger_look(s, &before);
    send_hello(s, &x);
    check_refused(s, &x);
    stranger_compare(s, x.name, &before);
    if (!s->failed && stranger_settle(s)) {
        stranger_compare(s, x.name, &before);
    }
    node_soon(s, SIM_ROUTER);
}

static void come(struct sim *s, uint32_t first, uint64_t unused)
{
    int64_t every = s->strangers.every_us;

    if (s->calm) {
        return;
    }
    if (!first) {
        meet(s);
    }
    clock_add(&s->clock,
              sim_now(s) +
                  rng_range(&s->strangers.chance, every / 2, every * 3 / 2),
              come, 0, unused);
}

void strangers_start(struct sim *s)
{
    if (s->strangers.every_us) {
        come(s, 1, 0);
    }
}
