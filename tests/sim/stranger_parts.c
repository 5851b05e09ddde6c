#include "tests/sim/stranger_parts.h"

#include <string.h>

#include "common/wire/wire.h"
#include "tests/sim/sim.h"

#define SETTLE_TICKS 100

/* ---- the shard ---- */

static void fill_ledger(Sluice__V1__Ledger *l, Sluice__V1__ClassLedger c[4])
{
    sluice__v1__ledger__init(l);
    for (uint32_t i = 0; i < 4; i++) {
        sluice__v1__class_ledger__init(&c[i]);
        c[i].total = c[i].free = 1000;
    }
    l->blocks = &c[0];
    l->slots = &c[1];
    l->checkpoints = &c[2];
    l->pages = &c[3];
}

void stranger_shard_init(struct stranger_shard *x, const char *model)
{
    static uint8_t weights[16];

    sluice__v1__worker_shard__init(&x->m);
    fill_ledger(&x->ledger, x->classes);
    x->m.model = wire_text(model);
    x->m.device = wire_text("fake");
    x->m.fingerprint = (ProtobufCBinaryData){sizeof weights, weights};
    x->m.layer_end = x->m.n_layers = 1;
    x->m.block_tokens = 32;
    x->m.pages_per_block = x->m.pages_per_slot = x->m.pages_per_checkpoint = 1;
    x->m.context = 64;
    x->m.vocab = 256;
    x->m.max_rows = 8;
    x->m.ledger = &x->ledger;
}

/* ---- the router's state ---- */

void stranger_look(const struct sim *s, struct router_seen *x)
{
    const void *router = s->nodes[SIM_ROUTER].core;

    x->n = 0;
    while (x->n < SEEN_WORKERS &&
           router_worker_view(router, x->n, &x->of[x->n])) {
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

void stranger_compare(struct sim *s, const char *who,
                      const struct router_seen *before)
{
    struct router_seen now;

    stranger_look(s, &now);
    if (now.n != before->n) {
        sim_fail(s, -1, "a stranger named %s changed the number of workers",
                 who);
    }
    for (uint32_t i = 0; i < now.n && i < before->n; i++) {
        if (!same_worker(&now.of[i], &before->of[i])) {
            sim_fail(s, -1, "a stranger named %s changed the state of %s", who,
                     s->nodes[s->network.conns[now.of[i].id.v - 1].node].name);
        }
    }
    if (!same_counts(&now.counts, &before->counts)) {
        sim_fail(s, -1,
                 "a stranger named %s changed the router's counters: "
                 "%llu choices, %llu waiting, %llu before",
                 who, (unsigned long long)now.counts.choices_open,
                 (unsigned long long)now.counts.choices_waiting,
                 (unsigned long long)before->counts.choices_waiting);
    }
}

/* ---- the encounter ---- */

/* Runs everything that is due now, so that only the stranger can cause the next
 * change. */
bool stranger_settle(struct sim *s)
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

bool stranger_may_come(const struct sim *s)
{
    const struct sim_node *n = &s->nodes[SIM_ROUTER];

    return n->core && !n->ending && n->paused_us <= sim_now(s);
}
