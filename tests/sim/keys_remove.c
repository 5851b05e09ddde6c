/* keys_remove.c - Keys that are removed while their sessions run, and trusted
 * again or replaced. */
#include "tests/sim/sim.h"

#define AWAY_US_MAX 3000000

static uint32_t any_node(struct sim *s)
{
    const struct sim_options *o = &s->options;
    uint32_t n = (uint32_t)rng_below(
        &s->keys.chance, o->n_workers + o->n_clients + o->gateways.n);

    if (n < o->n_workers) {
        return SIM_FIRST_WORKER + n;
    }
    n -= o->n_workers;
    return n < o->n_clients ? SIM_FIRST_CLIENT + n
                            : SIM_FIRST_GATEWAY + n - o->n_clients;
}

static bool has_key(const struct sim *s, uint32_t node, uint32_t key)
{
    return s->nodes[node].sim && keys_of(s, node) == key;
}

static void count(struct sim *s, uint32_t node)
{
    uint64_t *deeds = s->counts.cells.deeds;
    struct worker_account a;

    if (!node_is_worker(node)) {
        deeds[DEED_KEY_REMOVED_CLIENT] += s->n_open > 0;
    } else if (node_worker(s, node)) {
        worker_account(s->nodes[node].core, &a);
        deeds[DEED_KEY_REMOVED] += a.n_sequences > 0;
    }
}

/* Both ends lose every connection of the key. */
static void end_sessions(struct sim *s, uint32_t key)
{
    for (uint32_t i = 1; i <= s->network.n_conns; i++) {
        const struct conn *c = network_conn(&s->network, i);

        if ((keys_of(s, c->node) == key || keys_of(s, c->listener) == key) &&
            (c->open[END_PEER] || c->open[END_ROUTER])) {
            s->counts.cuts++;
            replicas_cut(s, i);
            network_cut(s, i, 0);
        }
    }
}

/* A stage listens with the key of its start, so it restarts with another. */
static void replace(struct sim *s, uint32_t key)
{
    s->keys.generation[key]++;
    s->counts.cells.deeds[DEED_KEY_ROTATED]++;
    for (uint32_t w = 0; w < s->options.n_workers; w++) {
        if (options_staged(&s->options, w) &&
            has_key(s, SIM_FIRST_WORKER + w, key)) {
            faults_end(s, SIM_FIRST_WORKER + w);
        }
    }
}

static void come_back(struct sim *s, uint32_t key, uint64_t rotated)
{
    if (!s->keys.removed[key]) {
        return; /* trusted again as the faults stopped */
    }
    s->keys.removed[key] = false;
    sim_log(s, "the key of %s is %s", s->nodes[key].name,
            rotated ? "replaced" : "trusted again");
    if (rotated) {
        replace(s, key);
    } else {
        s->counts.cells.deeds[DEED_KEY_RESTORED]++;
    }
}

static void remove_key(struct sim *s)
{
    uint32_t node = any_node(s), key = keys_of(s, node);
    bool rotated = rng_below(&s->keys.chance, 2) == 0;

    if (s->keys.removed[key]) {
        return;
    }
    sim_log(s, "the key of %s is removed", s->nodes[key].name);
    count(s, node);
    s->keys.removed[key] = true;
    end_sessions(s, key);
    clock_add(&s->clock,
              sim_now(s) + rng_octave(&s->keys.chance, 1000, AWAY_US_MAX),
              come_back, key, rotated);
}

static void strike(struct sim *s, uint32_t first, uint64_t unused)
{
    int64_t every = s->options.keys.remove_every_us;

    if (s->calm) {
        return;
    }
    if (!first) {
        remove_key(s);
    }
    clock_add(&s->clock,
              sim_now(s) + rng_range(&s->keys.chance, every / 2, every * 3 / 2),
              strike, 0, unused);
}

void keys_remove_start(struct sim *s)
{
    if (s->options.keys.remove_every_us) {
        strike(s, 1, 0);
    }
}

void keys_restore(struct sim *s)
{
    for (uint32_t i = 0; i < KEYS_NODES; i++) {
        s->keys.removed[i] = false;
    }
}
