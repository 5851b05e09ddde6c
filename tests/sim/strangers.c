#include "tests/sim/strangers.h"

#include <stdio.h>
#include <string.h>

#include "common/wire/hello.h"
#include "proto/registry.pb-c.h"
#include "tests/sim/sim.h"

#define STRANGERS_STREAM 70
#define STRANGER_CONN    0x7fffffffu /* not a connection of the network */
#define SETTLE_TICKS     100
#define SESSIONS         64 /* limit on compared workers, more than exist */

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
        bool same = strcmp(s->nodes[node].name, x->name) == 0;

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

static void fill_ledger(Sluice__V1__Ledger *l, Sluice__V1__ClassLedger c[4])
{
    sluice__v1__ledger__init(l);
    for (uint32_t i = 0; i < 4; i++) {
        sluice__v1__class_ledger__init(&c[i]);
        c[i].total = c[i].free = i < 2 ? 1000 : 0;
    }
    l->blocks = &c[0];
    l->slots = &c[1];
    l->checkpoints = &c[2];
    l->pages = &c[3];
}

static void send_hello(struct sim *s, const struct stranger *x)
{
    struct sim_node *router = &s->nodes[SIM_ROUTER];
    const struct fake_model *m = &s->options.models[x->model];
    Sluice__V1__HelloRequest hello = SLUICE__V1__HELLO_REQUEST__INIT;
    Sluice__V1__WorkerShard shard = SLUICE__V1__WORKER_SHARD__INIT;
    Sluice__V1__ClassLedger classes[4];
    Sluice__V1__Ledger ledger;
    static uint8_t same[16];
    struct frame *f;

    fill_ledger(&ledger, classes);
    shard.model = wire_text(x->model_name);
    shard.device = wire_text("fake");
    shard.fingerprint =
        (ProtobufCBinaryData){16, x->weights ? other_weights : same};
    shard.tokenizer = (ProtobufCBinaryData){
        16, (uint8_t *)(x->tokenizer ? other_tokenizer : tokenizer)};
    shard.layer_end = shard.n_layers = 1;
    shard.block_tokens = 32;
    shard.context = m->context;
    shard.vocab = x->vocab ? 1 : m->vocab;
    shard.max_rows = 8;
    shard.ledger = &ledger;
    hello.version_major = WIRE_VERSION_MAJOR;
    hello.role = SLUICE__V1__ROLE__ROLE_WORKER;
    hello.nonce = rng_u64(&s->strangers.chance);
    hello.name = wire_text((char *)x->name);
    hello.worker = &shard;
    f = hello_make(&hello.base);
    router->ops->recv(router->core, (struct peer_id){STRANGER_CONN}, &f);
}

/* ---- the state to compare ---- */

struct seen {
    uint32_t n;
    struct router_worker_view of[SESSIONS];
    struct router_metrics counts;
};

static void look(const struct sim *s, struct seen *x)
{
    const void *router = s->nodes[SIM_ROUTER].core;

    x->n = 0;
    while (x->n < SESSIONS && router_worker_view(router, x->n, &x->of[x->n])) {
        x->n++;
    }
    router_counts(router, &x->counts);
}

static bool same_worker(const struct router_worker_view *a,
                        const struct router_worker_view *b)
{
    return a->session == b->session && a->last_grant == b->last_grant &&
           a->n_sequences == b->n_sequences && a->n_suspects == b->n_suspects &&
           a->n_barren == b->n_barren && a->serves == b->serves &&
           a->draining == b->draining && a->assembly == b->assembly;
}

static bool same_counts(const struct router_metrics *a,
                        const struct router_metrics *b)
{
    return a->finished == b->finished && a->cancelled == b->cancelled &&
           a->failed == b->failed && a->moved == b->moved &&
           a->protocol_violations == b->protocol_violations &&
           a->strikes == b->strikes && a->indicted == b->indicted &&
           a->choices_open == b->choices_open &&
           a->choices_waiting == b->choices_waiting &&
           a->choices_early == b->choices_early;
}

static void compare(struct sim *s, const struct stranger *x,
                    const struct seen *before)
{
    struct seen now;

    look(s, &now);
    for (uint32_t i = 0; i < now.n; i++) {
        if (now.of[i].id.v == STRANGER_CONN) {
            sim_fail(s, -1, "router accepted a stranger as %s", x->name);
            return;
        }
    }
    if (now.n != before->n) {
        sim_fail(s, -1,
                 "refusal of a stranger named %s changed the number of workers",
                 x->name);
    }
    for (uint32_t i = 0; i < now.n && i < before->n; i++) {
        if (!same_worker(&now.of[i], &before->of[i])) {
            sim_fail(s, -1, "refusal of a stranger changed the state of %s",
                     s->nodes[s->network.conns[now.of[i].id.v - 1].node].name);
        }
    }
    if (!same_counts(&now.counts, &before->counts)) {
        sim_fail(s, -1,
                 "refusal of a stranger of %s changed the router's counters: "
                 "%llu choices, %llu waiting, %llu before",
                 x->model_name, (unsigned long long)now.counts.choices_open,
                 (unsigned long long)now.counts.choices_waiting,
                 (unsigned long long)before->counts.choices_waiting);
    }
}

/* ---- the encounter ---- */

/* Runs everything that is due now, so that only the stranger can cause the next
 * change. */
static bool settle(struct sim *s)
{
    struct sim_node *n = &s->nodes[SIM_ROUTER];

    for (uint32_t i = 0; i < SETTLE_TICKS && !s->failed; i++) {
        int64_t due = n->ops->tick(n->core, sim_now(s));

        auditor_tick(s, SIM_ROUTER);
        if (due > sim_now(s)) {
            return true;
        }
    }
    return false;
}

static bool router_receives(const struct sim *s)
{
    const struct sim_node *n = &s->nodes[SIM_ROUTER];

    return n->core && !n->ending && n->paused_us <= sim_now(s);
}

static void meet(struct sim *s)
{
    struct seen before;
    struct stranger x;

    if (!router_receives(s) || !settle(s) || !draw(s, &x)) {
        return;
    }
    sim_log(s, "stranger of %s sends Hello as %s, with other:%s%s%s",
            x.model_name, x.name, x.weights ? " weights" : "",
            x.vocab ? " vocabulary" : "", x.tokenizer ? " tokenizer" : "");
    s->counts.cells.deeds[DEED_NAMESAKE] += x.named;
    s->counts.cells.deeds[DEED_STRANGER] += !x.met;
    look(s, &before);
    send_hello(s, &x);
    compare(s, &x, &before);
    if (!s->failed && settle(s)) {
        compare(s, &x, &before);
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
