/* Edges between stages over the faulty network.  Whatever the network does, a
 * session delivers every tensor once, in order and bit for bit.  After the
 * faults, both directions come to their end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"
#include "tests/unit/cmocka.h"
#include "tests/wire/edge_node.h"

#define LEFT      SIM_FIRST_CLIENT
#define RIGHT     (SIM_FIRST_CLIENT + 1)
#define FORWARDS  60
#define LARGEST   (32u << 10)
#define FAULTY_US 5000000
#define LONG_US   120000000
#ifdef __SANITIZE_ADDRESS__
#define RUNS 10
#else
#define RUNS 60
#endif

/* Cuts a random open connection, for both directions or for one. */
static void cut_one(struct sim *s, uint32_t unused_a, uint64_t unused_b)
{
    uint32_t n = s->network.n_conns;
    uint32_t conn =
        n == 0 ? 0 : n - (uint32_t)rng_below(&s->chance, n < 2 ? 1 : 2);

    (void)unused_a, (void)unused_b;
    if (s->calm) {
        return;
    }
    if (conn > 0 && rng_below(&s->chance, 2)) {
        s->counts.cuts++;
        network_cut(s, conn, rng_octave(&s->chance, 10, 3000000));
    } else if (conn > 0) {
        s->counts.one_ways++;
        network_conn(&s->network, conn)->cut_us[rng_below(&s->chance, ENDS)] =
            sim_now(s) + rng_octave(&s->chance, 1000, 3000000);
    }
    clock_add(&s->clock, sim_now(s) + rng_octave(&s->chance, 1000, 2000000),
              cut_one, 0, 0);
}

static struct sim *begin(uint64_t seed, struct edge_node *left,
                         struct edge_node *right)
{
    struct edge_node *nodes[] = {left, right};
    char next[16];
    struct sim *s = calloc(1, sizeof *s);

    assert_non_null(s);
    s->seed = seed;
    clock_init(&s->clock, SIM_START_US);
    network_init(&s->network);
    rng_init(&s->chance, seed, 1);
    s->options.faulty = true;
    s->options.delay_us = 100;
    s->options.jitter_us = 1000;
    s->options.send_limit = 12;
    s->options.drop_of = s->options.double_of = 300;
    s->options.reorder_of = s->options.flip_of = 300;
    for (uint32_t i = 0; i < 2; i++) {
        struct sim_node *n = &s->nodes[LEFT + i];

        *n = (struct sim_node){.sim = s,
                               .number = LEFT + i,
                               .ops = &edge_node_ops,
                               .core = nodes[i],
                               .tick_us = NODE_IDLE};
        rng_init(&n->rng, seed, 2 + i);
        node_plug(n);
        (void)snprintf(next, sizeof next, "ipc:///sim/%d", RIGHT - (int)i);
        edge_node_init(nodes[i], &n->io, next, FORWARDS, LARGEST);
        node_soon(s, n->number);
    }
    clock_add(&s->clock, SIM_START_US + 100000, cut_one, 0, 0);
    return s;
}

static bool all_there(const struct edge_node *n)
{
    return n->in != NULL && n->n_got == FORWARDS;
}

static uint64_t run_seed(uint64_t seed, struct sim_counts *sum)
{
    static struct edge_node left, right;
    struct sim *s = begin(seed, &left, &right);
    uint64_t ends;
    struct event e;

    while (clock_next(&s->clock, &e) && sim_now(s) < LONG_US &&
           !(s->calm && all_there(&left) && all_there(&right))) {
        s->calm = s->calm || sim_now(s) > SIM_START_US + FAULTY_US;
        e.fn(s, e.a, e.b);
        if (left.bad || right.bad || s->failed) {
            fail_msg("seed %llu: tensor changed in transit",
                     (unsigned long long)seed);
        }
    }
    if (!all_there(&left) || !all_there(&right)) {
        fail_msg("seed %llu: %u and %u of %d arrived; %s; %s",
                 (unsigned long long)seed, left.n_got, right.n_got, FORWARDS,
                 left.why, right.why);
    }
    sum->lost += s->counts.lost;
    sum->flipped += s->counts.flipped;
    sum->reordered += s->counts.reordered;
    sum->doubled += s->counts.doubled;
    ends = left.n_down + right.n_down + left.n_gone + right.n_gone;
    edge_node_fini(&left);
    edge_node_fini(&right);
    network_fini(&s->network);
    clock_fini(&s->clock);
    free(s);
    return ends;
}

static void tensors_survive_the_network(void **state)
{
    struct sim_counts sum = {.lost = 0};
    uint64_t ends = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= RUNS; seed++) {
        ends += run_seed(seed, &sum);
    }
    /* The faults under test did occur. */
    assert_true(sum.lost > 0 && sum.flipped > 0 && sum.doubled > 0 &&
                sum.reordered > 0);
    assert_true(ends > RUNS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_survive_the_network),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
