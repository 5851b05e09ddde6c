#include "tests/sim/spare.h"

#include "tests/sim/sim.h"

/* The two workers of a model; false: it has not two, or they are stages. */
static bool two_of(const struct sim *s, uint32_t model, uint32_t two[2])
{
    uint32_t n = 0;

    for (uint32_t w = 0; w < s->options.n_workers; w++) {
        if (s->options.workers[w].model == model) {
            two[n < 2 ? n : 1] = w;
            n += options_staged(&s->options, w) ? 3 : 1;
        }
    }
    return n == 2;
}

struct amount {
    uint64_t blocks, slots;
};

/* Open at the router, by a Submit that this connection took. */
static bool is_open(const struct sim *s, const struct generation *g, uint32_t k,
                    uint32_t conn)
{
    enum request_state at = cells_at_router(s, g, k);

    return g->choices[k].submitted_conn == conn && at >= REQUEST_SUBMITTED &&
           at < REQUEST_ENDING;
}

/* What the open sequences of a worker, or of the other one, take at it.  Its
 * own that has ended there takes nothing: the row that says so is late or
 * lost, a ledger may have come before.  Nor does one of the other that it could
 * not hold if it were empty: nothing is promised to that. */
static struct amount taken(const struct sim *s, uint32_t w,
                           const struct generation *g, uint32_t own,
                           uint32_t other)
{
    const struct worker_draw *d = &s->options.workers[w];
    const struct fake_model *m = &s->options.models[g->model];
    uint32_t blocks = generation_blocks(g, d->block_tokens);
    bool holds = (!m->attention || blocks <= d->n_blocks) &&
                 (!m->linear || d->n_slots > 0);
    struct amount sum = {0, 0};

    for (uint32_t k = 0; k < g->n_choices; k++) {
        bool here = is_open(s, g, k, own) &&
                    cells_at_worker(s, SIM_FIRST_WORKER + w, &g->choices[k]) !=
                        CELL_FINISHED;

        if (here || (holds && is_open(s, g, k, other))) {
            sum.blocks += blocks;
            sum.slots++;
        }
    }
    return sum;
}

/* Would worker w hold what the other has, beside its own? */
static void check_fits(struct sim *s, uint32_t model, uint32_t w, uint32_t own,
                       uint32_t other)
{
    const struct worker_draw *d = &s->options.workers[w];
    const struct fake_model *m = &s->options.models[model];
    struct amount sum = {0, 0};

    if (!network_conn(&s->network, own)->open[END_PEER]) {
        return; /* the router has yet to hear that it is gone */
    }
    for (uint32_t i = 0; i < s->n_generations; i++) {
        const struct generation *g = &s->generations[i];
        struct amount a;

        if (g->model != model || g->n_ends || g->shared ||
            g->stream.lost_us != NODE_IDLE) {
            continue; /* the router's word may be of the next of its id */
        }
        a = taken(s, w, g, own, other);
        sum.blocks += a.blocks;
        sum.slots += a.slots;
    }
    if ((m->attention && sum.blocks > d->n_blocks) ||
        (m->linear && sum.slots > d->n_slots)) {
        sim_fail(s, -1,
                 "no head-room: model %u has %llu blocks and %llu slots, %s "
                 "%u and %u",
                 model, (unsigned long long)sum.blocks,
                 (unsigned long long)sum.slots,
                 s->nodes[SIM_FIRST_WORKER + w].name, d->n_blocks, d->n_slots);
    }
}

static bool find(const struct sim *s, uint32_t w,
                 struct router_worker_view *out)
{
    const void *router = s->nodes[SIM_ROUTER].core;

    for (uint32_t i = 0; router_worker_view(router, i, out); i++) {
        if (s->network.conns[out->id.v - 1].node == SIM_FIRST_WORKER + w) {
            return !out->draining;
        }
    }
    return false;
}

static void watch(struct sim *s, uint32_t model, const uint32_t two[2])
{
    struct spare *p = &s->spare[model];
    struct router_worker_view v[2];
    struct router_counts counts;
    bool up = find(s, two[0], &v[0]) && find(s, two[1], &v[1]);

    if (!up || v[0].session != p->session[0] || v[1].session != p->session[1]) {
        p->promised = false;
    }
    p->session[0] = up ? v[0].session : 0;
    p->session[1] = up ? v[1].session : 0;
    router_counts(s->nodes[SIM_ROUTER].core, &counts);
    if (up && v[0].n_sequences + v[1].n_sequences == 0 &&
        counts.n_waiting == 0) { /* which may have been let in before */
        p->promised = true;
    }
    if (p->promised) {
        uint32_t a = (uint32_t)v[0].id.v, b = (uint32_t)v[1].id.v;

        check_fits(s, model, two[0], a, b);
        check_fits(s, model, two[1], b, a);
    }
}

void spare_watch(struct sim *s)
{
    uint32_t two[2];

    for (uint32_t m = 0; s->options.headroom && m < s->options.n_models; m++) {
        if (two_of(s, m, two)) {
            watch(s, m, two);
        }
    }
}

void spare_submitted(const struct choice *c, uint32_t n_generated)
{
    const struct generation *g = c->g;
    struct sim *s = g->sim;
    uint32_t two[2];

    if (two_of(s, g->model, two) &&
        (n_generated || c->submitted_conn || g->again || g->shared ||
         !generation_fits_at(s, g, two[0]) ||
         !generation_fits_at(s, g, two[1]))) {
        s->spare[g->model].promised = false;
    }
}

void spare_lost(struct sim *s, uint32_t conn)
{
    uint32_t node = s->network.conns[conn - 1].node;
    struct spare *p;

    if (!node_is_worker(node)) {
        return;
    }
    p = &s->spare[s->options.workers[node - SIM_FIRST_WORKER].model];
    for (uint32_t i = 0; i < s->n_generations && p->promised; i++) {
        for (uint32_t k = 0; k < s->generations[i].n_choices; k++) {
            const struct choice *c = &s->generations[i].choices[k];

            s->counts.cells.deeds[DEED_SPARE_LOSS] +=
                c->submitted_conn == conn && !c->finish;
        }
    }
    p->promised = false;
}
