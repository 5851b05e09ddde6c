/* faults.c - Faults of the cluster, at the intervals of the seed. */
#include "tests/sim/sim.h"

static uint32_t any_peer(struct sim *s)
{
    const struct sim_options *o = &s->options;
    uint32_t n = (uint32_t)rng_below(&s->chance, o->n_workers + o->n_clients +
                                                     o->gateways.n);

    if (n < o->n_workers) {
        return SIM_FIRST_WORKER + n;
    }
    n -= o->n_workers;
    return n < o->n_clients ? SIM_FIRST_CLIENT + n
                            : SIM_FIRST_GATEWAY + n - o->n_clients;
}

/* Draws whether to skip this connection of a stage, so that both connections to
 * the router and to other stages are hit. */
static bool wants_other(struct sim *s, const struct conn *c)
{
    return node_is_worker(c->node) &&
           options_staged(&s->options, c->node - SIM_FIRST_WORKER) &&
           rng_below(&s->chance, 2);
}

/* Returns the connection that a node uses now; 0: none. */
static uint32_t newest_conn(struct sim *s, uint32_t node)
{
    uint32_t found = 0;

    for (uint32_t i = s->network.n_conns; i; i--) {
        const struct conn *c = network_conn(&s->network, i);

        if (c->node == node && c->open[END_PEER]) {
            found = found ? found : i;
            if (!wants_other(s, c)) {
                return i;
            }
        }
    }
    return found;
}

static void cut(struct sim *s)
{
    uint32_t conn = newest_conn(s, any_peer(s));

    if (conn) {
        s->counts.cuts++;
        replicas_cut(s, conn);
        network_cut(s, conn, rng_octave(&s->chance, 10, 1000000));
    }
}

static uint32_t router_conn(struct sim *s, uint32_t node)
{
    for (uint32_t i = s->network.n_conns; i; i--) {
        const struct conn *c = network_conn(&s->network, i);

        if (c->node == node && c->listener == SIM_ROUTER) {
            return c->open[END_PEER] ? i : 0;
        }
    }
    return 0;
}

/* Returns whether both workers have the same layers of the same model. */
static bool are_twins(const struct sim *s, uint32_t a, uint32_t b)
{
    const struct sim_options *o = &s->options;

    return o->workers[a].model == o->workers[b].model &&
           o->stages.layers[a].begin == o->stages.layers[b].begin &&
           o->stages.layers[a].end == o->stages.layers[b].end;
}

static bool has_twin(const struct sim *s, uint32_t w)
{
    for (uint32_t i = 0; i < s->options.n_workers; i++) {
        if (i != w && are_twins(s, w, i)) {
            return true;
        }
    }
    return false;
}

void faults_strike(struct sim *s, uint32_t node)
{
    uint32_t w = node - SIM_FIRST_WORKER;
    uint32_t other = (uint32_t)rng_below(&s->chance, s->options.n_workers);
    uint32_t deaf = router_conn(s, node);
    uint32_t conn = router_conn(s, SIM_FIRST_WORKER + other);

    if (deaf && conn && has_twin(s, w) && !are_twins(s, w, other)) {
        s->counts.one_ways++;
        s->counts.cuts++;
        network_conn(&s->network, deaf)->cut_us[END_PEER] =
            sim_now(s) + rng_octave(&s->chance, 1000000, 8000000);
        network_cut(s, conn, rng_octave(&s->chance, 10, 20000));
    }
}

/* Breaks a cable: neither end detects the loss before a heartbeat of the
 * transport fails. */
static void break_cable(struct sim *s, uint32_t first, uint64_t unused)
{
    uint32_t conn = first ? 0 : newest_conn(s, any_peer(s));
    int64_t every = s->options.cable_us;

    if (s->calm) {
        return;
    }
    if (conn) {
        s->counts.cuts++;
        replicas_cut(s, conn);
        network_cut(s, conn, rng_range(&s->chance, 3000000, 5000000));
    }
    clock_add(&s->clock,
              sim_now(s) + rng_range(&s->chance, every / 2, every * 3 / 2),
              break_cable, 0, unused);
}

static void cut_one_way(struct sim *s)
{
    uint32_t conn = newest_conn(s, any_peer(s));
    enum conn_end end = (enum conn_end)rng_below(&s->chance, ENDS);
    int64_t until = sim_now(s) + rng_octave(&s->chance, 1000, 5000000);

    if (conn) {
        s->counts.one_ways++;
        replicas_cut(s, conn);
        network_conn(&s->network, conn)->cut_us[end] = until;
    }
}

static void come_back(struct sim *s, uint32_t node, uint64_t unused)
{
    if (s->nodes[node].core) { /* still stopping */
        clock_add(&s->clock, sim_now(s) + 50000, come_back, node, unused);
    } else {
        node_start(s, node);
    }
}

void node_comes_back(struct sim *s, uint32_t number, int64_t us)
{
    clock_add(&s->clock, sim_now(s) + us, come_back, number, 0);
}

void faults_restart(struct sim *s, uint32_t node)
{
    s->nodes[node].ending = true;
    node_comes_back(s, node, rng_octave(&s->chance, 1000, 3000000));
}

void faults_end(struct sim *s, uint32_t node)
{
    bool loads =
        node_is_worker(node) && s->offers[node - SIM_FIRST_WORKER].loads;

    if ((!s->nodes[node].core && !loads) || s->nodes[node].ending) {
        return;
    }
    s->counts.kills += node != SIM_ROUTER;
    s->counts.router_kills += node == SIM_ROUTER;
    if (loads) {
        offers_kill(s, node);
    } else if (rng_below(&s->chance, 4)) {
        node_kill(s, node);
    } else {
        node_stop(s, node);
    }
    faults_restart(s, node);
}

void faults_crash(struct sim *s, uint32_t node)
{
    bool ending = s->nodes[node].ending; /* a restart is scheduled already */

    node_kill(s, node);
    if (!ending) {
        s->nodes[node].ending = true;
        clock_add(&s->clock, sim_now(s) + rng_octave(&s->chance, 1000, 3000000),
                  come_back, node, 0);
    }
    if (s->calm) {
        s->calm_us = sim_now(s); /* calm begins only now */
    }
}

static void pause_node(struct sim *s)
{
    uint32_t node = rng_below(&s->chance, 4) ? any_peer(s) : SIM_ROUTER;

    node_pause(s, node, rng_octave(&s->chance, 1000, 6000000));
}

static void strike(struct sim *s, enum fault f)
{
    switch (f) {
    case FAULT_CUT:
        cut(s);
        break;
    case FAULT_ONE_WAY:
        cut_one_way(s);
        break;
    case FAULT_WORKER:
        faults_end(s, SIM_FIRST_WORKER + (uint32_t)rng_below(
                                             &s->chance, s->options.n_workers));
        break;
    case FAULT_ROUTER:
        faults_end(s, SIM_ROUTER);
        break;
    default:
        pause_node(s);
    }
}

static void fault(struct sim *s, uint32_t kind, uint64_t first)
{
    int64_t every = s->options.every_us[kind];

    if (s->calm) {
        return;
    }
    if (!first) {
        strike(s, (enum fault)kind);
    }
    clock_add(&s->clock,
              sim_now(s) + rng_range(&s->chance, every / 2, every * 3 / 2),
              fault, kind, 0);
}

void faults_start(struct sim *s)
{
    for (uint32_t i = 0; i < FAULTS; i++) {
        if (s->options.every_us[i]) {
            fault(s, i, 1);
        }
    }
    if (s->options.cable_us) {
        break_cable(s, 1, 0);
    }
    drains_start(s);
    gateways_start(s);
    strangers_start(s);
    crowd_start(s);
    keys_start(s);
}

void faults_stop(struct sim *s)
{
    s->calm = true;
    s->calm_us = sim_now(s);
    keys_restore(s);
    for (uint32_t i = 1; i <= s->network.n_conns; i++) {
        struct conn *c = network_conn(&s->network, i);

        for (int end = 0; end < ENDS; end++) {
            if (c->cut_us[end] != INT64_MAX) {
                c->cut_us[end] = 0;
            }
        }
    }
}
