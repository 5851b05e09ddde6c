#include "tests/sim/spare.h"

#include "tests/sim/sim.h"

/* A place where sequences of a model run: a worker with all layers, or a
 * replica. */
struct place {
    uint32_t leader; /* number of the leading worker */
    uint32_t conn;   /* connection of the leader */
    uint64_t session;
    uint64_t assembly; /* 0: a single worker */
    uint32_t n_sequences;
    uint32_t workers; /* set of workers */
    /* One is gone or its assembly is over, which the router has not detected
     * yet. */
    bool closes;
};

static uint32_t worker_at(const struct sim *s,
                          const struct router_worker_view *v)
{
    return s->network.conns[v->id.v - 1].node - SIM_FIRST_WORKER;
}

/* Returns whether worker w is still in the assembly that the router has it
 * in. */
static bool is_in(const struct sim *s, uint32_t w, uint64_t assembly)
{
    const struct worker_core *core = node_worker(s, SIM_FIRST_WORKER + w);
    struct worker_account a;

    if (!core) {
        return false;
    }
    worker_account(core, &a);
    return a.assembly == assembly;
}

static void add_worker(struct place *p, const struct sim *s,
                       const struct router_worker_view *v)
{
    uint32_t w = worker_at(s, v);

    p->workers |= 1u << w;
    p->closes = p->closes || !s->network.conns[v->id.v - 1].open[END_PEER] ||
                !is_in(s, w, v->assembly);
}

/* Adds the workers of the place other than its leader. */
static void add_stages(struct place *p, const struct sim *s)
{
    const void *router = s->nodes[SIM_ROUTER].core;
    struct router_worker_view v;

    for (uint32_t i = 0; router_worker_view(router, i, &v); i++) {
        if (p->assembly != 0 && v.assembly == p->assembly) {
            add_worker(p, s, &v);
        }
    }
}

/* Finds the open places of a model if there are two, ordered by their leaders'
 * numbers. */
static bool find_two(const struct sim *s, uint32_t model, struct place two[2])
{
    const void *router = s->nodes[SIM_ROUTER].core;
    struct router_worker_view v;
    uint32_t n = 0;

    for (uint32_t i = 0; router_worker_view(router, i, &v); i++) {
        uint32_t w = worker_at(s, &v);
        struct place p = {.leader = w,
                          .conn = v.id.v,
                          .session = v.session,
                          .assembly = v.assembly,
                          .n_sequences = v.n_sequences};

        if (s->options.workers[w].model != model || !v.serves) {
            continue;
        }
        if (n == 2) {
            return false;
        }
        add_worker(&p, s, &v);
        add_stages(&p, s);
        two[n++] = p;
    }
    if (n == 2 && two[0].leader > two[1].leader) {
        struct place first = two[1];

        two[1] = two[0];
        two[0] = first;
    }
    return n == 2;
}

struct amount {
    uint64_t blocks, slots, windows;
};

/* Returns whether a choice is open at the router, with a Submit on this
 * connection. */
static bool is_open(const struct sim *s, const struct sim_request *request,
                    uint32_t k, uint32_t conn)
{
    enum choice_state at = cells_at_router(s, request, k);

    return request->choices[k].submitted_conn == conn &&
           at >= CHOICE_SUBMITTED && at < CHOICE_ENDING;
}

/* Returns whether every worker of an empty place could hold it. */
static bool holds(const struct sim *s, const struct sim_request *request,
                  const struct place *p)
{
    for (uint32_t w = 0; w < s->options.n_workers; w++) {
        if ((p->workers >> w & 1) != 0 &&
            !sim_request_fits_alone(s, request, w)) {
            return false;
        }
    }
    return true;
}

/* Returns the memory that the open choices of a request take on worker w of the
 * place `own` in addition to its account: those on their way to it, and those
 * of the other place.  A sequence of the other place that this one could never
 * hold is not counted, because nothing is reserved for it. */
static struct amount to_come(const struct sim *s, uint32_t w,
                             const struct sim_request *request,
                             const struct place *own, const struct place *other)
{
    uint32_t blocks =
        sim_request_blocks(request, s->options.workers[w].block_tokens);
    bool held = holds(s, request, own);
    struct amount sum = {0, 0, 0};

    for (uint32_t k = 0; k < request->n_choices; k++) {
        bool coming = is_open(s, request, k, own->conn) &&
                      cells_at_worker(s, SIM_FIRST_WORKER + own->leader,
                                      &request->choices[k]) == CELL_NONE;

        if (coming || (held && is_open(s, request, k, other->conn))) {
            sum.blocks += blocks;
            sum.slots++;
            sum.windows += options_windows(
                &s->options, w, options_chunk(&s->options, own->leader),
                request->n_prompt + request->max_tokens);
        }
    }
    return sum;
}

/* Checks that worker w could hold the other place's sequences in addition to
 * its own, which may share blocks. */
static void check_worker(struct sim *s, uint32_t model, uint32_t w,
                         const struct place *own, const struct place *other)
{
    const struct pool_of_worker *p = &s->options.pools.workers[w];
    const struct worker_core *core = node_worker(s, SIM_FIRST_WORKER + w);
    struct worker_account a;
    uint64_t pages, slots;

    if (!core) {
        return;
    }
    worker_account(core, &a);
    pages = a.pages.held + a.pages.granted;
    slots = a.slots.held + a.slots.granted;
    for (uint32_t i = 0; i < s->n_requests; i++) {
        const struct sim_request *request = &s->requests[i];
        struct amount more;

        if (request->model != model || request->n_ends || request->shared ||
            request->stream.lost_us != NODE_IDLE) {
            continue; /* the router's entry may be the next request of its id */
        }
        more = to_come(s, w, request, own, other);
        pages += more.slots * p->pages_per_slot;
        pages += options_shard(&s->options, w).attention ? more.blocks : 0;
        pages += more.windows;
        slots += more.slots;
    }
    if (pages > p->n_pages || (p->pages_per_slot && slots > p->slot_cap)) {
        sim_fail(s, -1,
                 "no headroom: model %u needs %llu pages and %llu slots, but "
                 "%s has %u and %u",
                 model, (unsigned long long)pages, (unsigned long long)slots,
                 s->nodes[SIM_FIRST_WORKER + w].name, p->n_pages, p->slot_cap);
    }
}

static void check_fits(struct sim *s, uint32_t model, const struct place *own,
                       const struct place *other)
{
    for (uint32_t w = 0; w < s->options.n_workers && !own->closes; w++) {
        if ((own->workers >> w & 1) != 0) {
            check_worker(s, model, w, own, other);
        }
    }
}

static bool drains(const struct sim *s, uint32_t model)
{
    const void *router = s->nodes[SIM_ROUTER].core;
    struct router_worker_view v;

    for (uint32_t i = 0; router_worker_view(router, i, &v); i++) {
        if (v.draining && s->options.workers[worker_at(s, &v)].model == model) {
            return true;
        }
    }
    return false;
}

/* Returns whether the workers of a place hold nothing.  After a restart of the
 * router they may run sequences that it adopts later, for which no room was
 * reserved. */
static bool is_empty(const struct sim *s, const struct place *p)
{
    for (uint32_t w = 0; w < s->options.n_workers; w++) {
        const struct worker_core *core = node_worker(s, SIM_FIRST_WORKER + w);
        struct worker_account a;

        if ((p->workers >> w & 1) == 0 || core == NULL) {
            continue;
        }
        worker_account(core, &a);
        if (a.pages.held + a.pages.granted > 0) {
            return false;
        }
    }
    return p->n_sequences == 0;
}

static void watch(struct sim *s, uint32_t model)
{
    struct spare *p = &s->spare[model];
    struct place two[2];
    struct router_metrics counts;
    bool up = find_two(s, model, two) && !drains(s, model);

    for (int i = 0; i < 2; i++) {
        uint64_t session = up ? two[i].session : 0;
        uint64_t assembly = up ? two[i].assembly : 0;

        if (!up || session != p->session[i] || assembly != p->assembly[i]) {
            p->promised = false;
        }
        p->session[i] = session;
        p->assembly[i] = assembly;
    }
    router_counts(s->nodes[SIM_ROUTER].core, &counts);
    if (up && is_empty(s, &two[0]) && is_empty(s, &two[1]) &&
        counts.choices_waiting == 0) { /* these may have been admitted before */
        p->promised = true;
    }
    /* The first sequence of a model needs no headroom, but each that is granted
     * beside it does, for both.  One alone may be the first of its model again,
     * granted in the turn in which the others ended. */
    if (up && p->promised && two[0].n_sequences + two[1].n_sequences > 1) {
        check_fits(s, model, &two[0], &two[1]);
        check_fits(s, model, &two[1], &two[0]);
    }
}

void spare_watch(struct sim *s)
{
    bool checked = s->options.headroom && s->options.suspensions == 0;

    for (uint32_t m = 0; checked && m < s->options.n_models; m++) {
        watch(s, m);
    }
}

/* Returns whether it fits on every worker of its model. */
static bool fits_all(const struct sim *s, const struct sim_request *request)
{
    for (uint32_t w = 0; w < s->options.n_workers; w++) {
        if (s->options.workers[w].model == request->model &&
            !sim_request_fits_at(s, request, w)) {
            return false;
        }
    }
    return true;
}

void spare_submitted(const struct sim_choice *c, uint32_t n_generated)
{
    const struct sim_request *request = c->request;
    struct sim *s = request->sim;

    if (s->spare[request->model].promised &&
        (n_generated || c->submitted_conn || request->again ||
         request->shared || !fits_all(s, request))) {
        s->spare[request->model].promised = false;
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
    for (uint32_t i = 0; i < s->n_requests && p->promised; i++) {
        for (uint32_t k = 0; k < s->requests[i].n_choices; k++) {
            const struct sim_choice *c = &s->requests[i].choices[k];

            s->counts.cells.deeds[DEED_SPARE_LOSS] +=
                c->submitted_conn == conn && !c->finish;
        }
    }
    p->promised = false;
}
