#include "tests/sim/cells.h"

#include <string.h>

#include "proto/common.pb-c.h"
#include "tests/sim/sim.h"

const char *const cell_state_names[CELL_STATES] = {
    "encoding", "waiting", "submitted", "queued",
    "prefill",  "decode",  "kept",      "finished"};
const char *const cell_event_names[CELL_EVENTS] = {
    "cancel", "remove", "disconnect", "worker-lost", "router-lost"};

static enum cell_state at_worker(const struct sim *s, uint32_t node,
                                 const struct generation *g)
{
    static const enum cell_state of[] = {
        [SLUICE__V1__SEQUENCE_STATE__SEQUENCE_UNKNOWN] = CELL_NONE,
        [SLUICE__V1__SEQUENCE_STATE__SEQUENCE_QUEUED] = CELL_QUEUED,
        [SLUICE__V1__SEQUENCE_STATE__SEQUENCE_PREFILL] = CELL_PREFILL,
        [SLUICE__V1__SEQUENCE_STATE__SEQUENCE_DECODE] = CELL_DECODE,
        [SLUICE__V1__SEQUENCE_STATE__SEQUENCE_KEPT] = CELL_KEPT,
        [SLUICE__V1__SEQUENCE_STATE__SEQUENCE_FINISHED] = CELL_FINISHED};
    const void *core = s->nodes[node].core;

    return core ? of[worker_sequence_state(core, g->id, 0)] : CELL_NONE;
}

/* The liveliest word of any worker. */
static enum cell_state at_workers(const struct sim *s,
                                  const struct generation *g)
{
    enum cell_state best = CELL_NONE;

    for (uint32_t i = 0; i < s->options.n_workers; i++) {
        enum cell_state c = at_worker(s, SIM_FIRST_WORKER + i, g);

        best = c < best ? c : best;
    }
    return best;
}

enum cell_state cells_state(const struct sim *s, uint32_t generation)
{
    const struct generation *g = &s->generations[generation];
    const void *router = s->nodes[SIM_ROUTER].core;
    enum request_state at =
        router ? router_request_state(router, g->id, 0) : REQUEST_ENDED;
    enum cell_state there;

    if (!g->arrived) {
        return CELL_NONE;
    }
    if (at == REQUEST_ENCODING) {
        return CELL_ENCODING;
    }
    if (at == REQUEST_WAITING) {
        return CELL_WAITING;
    }
    there = at_workers(s, g);
    if (there != CELL_NONE) {
        return there;
    }
    return at == REQUEST_ENDED ? CELL_FINISHED : CELL_SUBMITTED;
}

void cells_hit(struct sim *s, uint32_t generation, enum cell_event what)
{
    enum cell_state state = cells_state(s, generation);

    if (state != CELL_NONE) {
        s->counts.cells.hits[state][what]++;
    }
}

void cells_disconnect(struct sim *s, uint32_t node)
{
    if (!node_is_client(node)) {
        return;
    }
    for (uint32_t i = 0; i < s->n_generations; i++) {
        const struct generation *g = &s->generations[i];

        if (g->client == node && g->arrived && !g->left) {
            cells_hit(s, i, CELL_DISCONNECT);
            s->generations[i].left = true;
        }
    }
}

/* What a dying worker has of a request, or of its model's queue. */
static void worker_killed(struct sim *s, uint32_t node, uint32_t i)
{
    const struct generation *g = &s->generations[i];
    uint32_t w = node - SIM_FIRST_WORKER;
    enum cell_state here = at_worker(s, node, g);
    enum cell_state all;

    if (s->options.workers[w].model != g->model) {
        return;
    }
    if (here != CELL_NONE) {
        s->counts.cells.hits[here][CELL_WORKER_LOST]++;
        return;
    }
    all = cells_state(s, i);
    if (all <= CELL_SUBMITTED) {
        s->counts.cells.hits[all][CELL_WORKER_LOST]++;
    }
}

void cells_killed(struct sim *s, uint32_t node)
{
    for (uint32_t i = 0; i < s->n_generations; i++) {
        if (node == SIM_ROUTER) {
            if (!s->generations[i].router_lost) {
                cells_hit(s, i, CELL_ROUTER_LOST);
                s->generations[i].router_lost = s->generations[i].arrived;
            }
        } else if (node_is_worker(node)) {
            worker_killed(s, node, i);
        }
    }
}

bool cell_exists(enum cell_state state, enum cell_event event)
{
    return state < CELL_STATES && event < CELL_EVENTS;
}
