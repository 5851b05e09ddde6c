#include "tests/sim/overcommit.h"

#include <stdlib.h>

#include "tests/sim/sim.h"

static uint32_t worker_at(const struct sim *s, uint32_t conn)
{
    return s->network.conns[conn - 1].node - SIM_FIRST_WORKER;
}

/* Returns the pages that a choice of request needs at most on worker w. */
static uint64_t most_pages(const struct sim *s,
                           const struct sim_request *request, uint32_t w)
{
    const struct sim_options *o = &s->options;
    uint32_t blocks = sim_request_blocks(request, o->workers[w].block_tokens);

    return (options_shard(o, w).attention ? blocks : 0) +
           o->pools.workers[w].pages_per_slot + sim_request_windows(request, w);
}

/* Returns whether the router runs the choice on this connection, by a grant of
 * its own. */
static bool runs_at(const struct sim *s, const struct sim_choice *c,
                    uint32_t conn)
{
    enum choice_state at = cells_at_router(s, c->request, c->number);

    return c->submitted_conn == conn && !c->adopting && !c->finish &&
           at >= CHOICE_PREFILL && at < CHOICE_ENDING;
}

static void check_bound(struct sim *s, const struct router_worker_view *v)
{
    uint32_t w = worker_at(s, v->id.v);
    uint64_t sum = 0;
    uint64_t bound =
        (uint64_t)s->options.overcommit * s->options.pools.workers[w].n_pages;

    for (uint32_t i = 0; i < s->n_requests; i++) {
        const struct sim_request *request = &s->requests[i];

        for (uint32_t k = 0; k < request->n_choices && !request->again &&
                             !request->shared && !request->n_ends;
             k++) {
            sum += runs_at(s, &request->choices[k], v->id.v)
                       ? most_pages(s, request, w)
                       : 0;
        }
    }
    if (sum > bound) {
        sim_fail(s, -1,
                 "sequences at %s may need %llu pages, overcommit allows %llu",
                 s->nodes[SIM_FIRST_WORKER + w].name, (unsigned long long)sum,
                 (unsigned long long)bound);
    }
}

/* A grant adds to what the router has granted and no ledger includes yet; an
 * adoption adds nothing. */
static void check_suspended(struct sim *s, const struct router_worker_view *v)
{
    uint32_t w = worker_at(s, v->id.v);
    struct place_seen *p = &s->overcommit.places[w];

    if (p->session == v->session && p->n_suspended > 0 && v->n_suspended > 0 &&
        v->granted_pages > p->granted_pages) {
        sim_fail(s, -1, "%s has %u suspended sequences and was granted another",
                 s->nodes[SIM_FIRST_WORKER + w].name, v->n_suspended);
    }
    *p = (struct place_seen){v->session, v->n_suspended, v->granted_pages};
}

static void check_lengths(struct sim *s)
{
    struct router_model_view m;

    for (uint32_t i = 0; router_model_view(s->nodes[SIM_ROUTER].core, i, &m);
         i++) {
        uint32_t model = m.name[0] == 'm' ? (uint32_t)atoi(m.name + 1) : 0;
        uint64_t most = model < SIM_MODELS ? s->overcommit.n_brought[model] : 0;

        if (s->options.gateways.n == 0 && m.n_learned > most) {
            sim_fail(s, -1,
                     "the lengths of %s are those of %llu choices, but %llu "
                     "have come",
                     m.name, (unsigned long long)m.n_learned,
                     (unsigned long long)most);
        }
    }
}

void overcommit_router(struct sim *s)
{
    struct router_worker_view v;

    for (uint32_t i = 0; router_worker_view(s->nodes[SIM_ROUTER].core, i, &v);
         i++) {
        if (s->options.overcommit == 1) {
            if (v.n_suspended > 0 || v.grew || v.greatest_max > 0) {
                sim_fail(s, -1, "optimistic admission in a strict seed");
            }
        } else if (v.serves && v.stage == 0 && v.n_stages < 2) {
            check_bound(s, &v);
            check_suspended(s, &v);
        }
    }
    check_lengths(s);
}

void overcommit_worker(struct sim *s, uint32_t w)
{
    const struct sim_node *n = &s->nodes[SIM_FIRST_WORKER + w];
    struct worker_account a;

    worker_account(n->core, &a);
    s->counts.cells.deeds[DEED_SUSPENDED] += a.n_suspended > 0;
    if (a.n_suspended > 0 && s->options.overcommit == 1) {
        sim_fail(s, -1, "%s has a suspended sequence in a strict seed",
                 n->name);
    }
}

/* Checks the window pages of a Submit: all that the sequence can hold at once,
 * or, if it grows, all for its prompt, its tokens and one more. */
static void check_windows(const struct sim_choice *c, uint32_t w,
                          const Sluice__V1__SubmitRequest *r)
{
    const struct sim_request *request = c->request;
    const struct sim_options *o = &request->sim->options;
    uint32_t chunk = options_chunk(o, w);
    uint32_t most =
        options_windows(o, w, chunk, request->n_prompt + request->max_tokens);
    uint32_t least =
        r->grows
            ? options_windows(o, w, chunk, r->n_prompt + r->n_generated + 1)
            : most;

    if (!r->adopt && (r->need->windows < least || r->need->windows > most)) {
        sim_fail(request->sim, (int32_t)request->number,
                 "a Submit grants %u window pages, must be %u..%u",
                 r->need->windows, least, most);
    }
}

void overcommit_submitted(struct sim_choice *c, uint32_t conn,
                          const Sluice__V1__SubmitRequest *r)
{
    const struct sim_request *request = c->request;
    struct sim *s = request->sim;
    uint32_t w = worker_at(s, conn), block = s->options.workers[w].block_tokens;
    uint32_t most = sim_request_blocks(request, block);
    uint32_t least = (r->n_prompt + r->n_generated + 1 + block - 1) / block;

    c->grows = r->grows;
    check_windows(c, w, r);
    if (r->adopt || !options_shard(&s->options, w).attention) {
        return;
    }
    s->counts.cells.deeds[DEED_GREW] += r->grows ? 1 : 0;
    if (r->grows && (s->options.overcommit == 1 || r->stages != NULL)) {
        sim_fail(s, (int32_t)request->number,
                 "a Submit to a strict place does not grant the whole need");
    } else if (r->grows ? r->need->blocks >= most || r->need->blocks < least
                        : r->need->blocks != most) {
        sim_fail(s, (int32_t)request->number,
                 "a Submit grants %u blocks, must be %u..%u", r->need->blocks,
                 r->grows ? least : most, r->grows ? most - 1 : most);
    }
}
