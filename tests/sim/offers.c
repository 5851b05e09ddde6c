#include "tests/sim/offers.h"

#include <stdio.h>
#include <string.h>

#include "common/split/page_unit.h"
#include "tests/sim/sim.h"
#include "worker/stages/offer.h"

#define LATE_US     600000000 /* the router's limit for a load */
#define LATE_MAX_US 20000000  /* maximum beyond this limit */
#define MAX_ROWS    4
/* Body of an Assign: two fields of one byte each, with their tags. */
#define ASSIGN_BYTES 4

static uint32_t worker_of(uint32_t node)
{
    return node - SIM_FIRST_WORKER;
}

static uint64_t *deeds(struct sim *s)
{
    return s->counts.cells.deeds;
}

/* Returns the model of all workers that offer themselves. */
static uint32_t model_of(const struct sim *s)
{
    return s->options.workers[0].model;
}

/* ---- a life ---- */

static struct split_model costs_of(const struct sim *s)
{
    const struct offer_draw *d = &s->options.offers;
    struct split_model m = {.n_layers = s->options.stages.n_layers[model_of(s)],
                            .embed_bytes = d->embed_bytes,
                            .head_bytes = d->head_bytes};

    for (uint32_t i = 0; i < m.n_layers; i++) {
        m.layers[i] =
            (struct split_layer){.weight_bytes = d->layers[i].weight_bytes,
                                 .token_bytes = d->layers[i].token_bytes,
                                 .slot_bytes = d->layers[i].slot_bytes};
    }
    return m;
}

static void set_layers(struct sim *s, uint32_t w, uint32_t begin, uint32_t end)
{
    struct sim_options *o = &s->options;
    struct fake_shard shard;

    o->stages.layers[w].begin = begin;
    o->stages.layers[w].end = end;
    shard = options_shard(o, w);
    o->workers[w].n_blocks =
        shard.attention ? o->offers.workers[w].n_blocks : 0;
    o->workers[w].n_slots = shard.linear ? o->offers.workers[w].n_slots : 0;
    options_set_pool(o, w);
}

void offers_begin(struct sim *s, struct sim_node *n)
{
    uint32_t w = worker_of(n->number);
    const struct offer_draw *d = &s->options.offers;
    const struct worker_draw *worker = &s->options.workers[w];
    const struct split_model costs = costs_of(s);
    struct offer_seen *seen = &s->offers[w];
    struct offer_options o = {
        .name = n->name,
        .lineage = s->nodes[SIM_FIRST_WORKER + d->workers[w].lineage].name,
        .model = seen->model,
        .stage_endpoint = seen->endpoint,
        .n_stages = d->workers[w].n_stages,
        .budget_bytes = d->workers[w].budget_bytes,
        .scratch_bytes = d->scratch_bytes,
        .speed = d->workers[w].speed,
        .block_tokens = worker->block_tokens,
        .context = s->options.models[worker->model].context,
        .max_rows = MAX_ROWS,
        .costs = &costs};

    *seen = (struct offer_seen){.waits = true};
    (void)snprintf(seen->model, sizeof(seen->model), "m%u", worker->model);
    (void)snprintf(seen->endpoint, sizeof(seen->endpoint), "ipc:///sim/%u",
                   n->number);
    set_layers(s, w, costs.n_layers, costs.n_layers);
    s->n_sessions[w] = 0;
    n->core = offer_new(&o, &n->io);
    n->ops = &offer_node_ops;
}

bool offers_end(struct sim *s, struct sim_node *n)
{
    uint32_t begin, end;
    struct error e;

    switch (offer_ended(n->core, &begin, &end, &e)) {
    case OFFER_REFUSED:
        sim_fail(s, -1, "%s: the router refused its offer permanently: %s",
                 n->name, e.text);
        return false;
    case OFFER_ASSIGNED:
        if (n->ending) {
            sim_fail(s, -1, "%s accepted layers although it is stopping",
                     n->name);
        }
        set_layers(s, worker_of(n->number), begin, end);
        return true;
    default:
        return false;
    }
}

static void loaded(struct sim *s, uint32_t node, uint64_t life)
{
    struct sim_node *n = &s->nodes[node];
    struct offer_seen *o = &s->offers[worker_of(node)];

    if (!o->loads || n->life != life) {
        return;
    }
    if (n->paused_us > sim_now(s)) {
        clock_add(&s->clock, n->paused_us, loaded, node, life);
        return;
    }
    o->loads = false;
    if (!s->calm && rng_chance(&n->rng, s->options.offers.fail_of)) {
        deeds(s)[DEED_LOAD_FAILED]++;
        sim_log(s, "%s failed to load its layers", n->name);
        faults_restart(s, node);
    } else {
        node_serve(s, node);
    }
}

void offers_load(struct sim *s, uint32_t node)
{
    const struct offer_draw *d = &s->options.offers;
    struct sim_node *n = &s->nodes[node];
    int64_t us = rng_octave(&n->rng, 500, d->load_us);

    if (!s->calm && rng_chance(&n->rng, d->late_of)) {
        us = LATE_US + rng_range(&n->rng, 0, LATE_MAX_US);
        deeds(s)[DEED_LOAD_LATE]++;
    }
    sim_log(s, "%s loads for %lld us", n->name, (long long)us);
    s->offers[worker_of(node)].loads = true;
    clock_add(&s->clock, sim_now(s) + us, loaded, node, n->life);
}

void offers_kill(struct sim *s, uint32_t node)
{
    sim_log(s, "%s is killed while it loads", s->nodes[node].name);
    deeds(s)[DEED_LOAD_KILLED]++;
    s->offers[worker_of(node)].loads = false;
}

bool offers_loading(const struct sim *s)
{
    for (uint32_t w = 0; w < s->options.offers.n; w++) {
        if (s->offers[w].loads) {
            return true;
        }
    }
    return false;
}

/* ---- Assign ---- */

static bool is_assign(const struct envelope *e)
{
    return e->kind == ENVELOPE_CALL && e->method == METHOD_WORKER_ASSIGN &&
           e->body_bytes == ASSIGN_BYTES;
}

void offers_spoil(struct sim *s, uint32_t node, struct frame **f)
{
    struct frame_header h;
    struct envelope e;
    struct frame *spoiled;
    uint32_t at = 0;

    if (s->calm || !node_is_worker(node) || !s->offers[worker_of(node)].waits ||
        frame_check((*f)->data, (*f)->bytes, &h, NULL) != ST_OK) {
        return;
    }
    while (envelope_next(*f, &h, &at, &e)) {
        if (is_assign(&e) &&
            rng_chance(&s->chance, s->options.offers.refuse_of)) {
            uint8_t *body;

            spoiled = frame_copy(*f); /* the sender may share this frame */
            body = spoiled->data + (e.body - (*f)->data);
            body[3] = body[1]; /* layers [n, n) */
            frame_seal(spoiled, &h);
            frame_free(f);
            *f = spoiled;
            return;
        }
    }
}

/* Returns whether the budget of w holds these layers, as in
 * common/split/layer_split.h: weights, scratch, one sequence of the whole
 * context. */
static bool holds(const struct sim *s, uint32_t w, uint32_t begin, uint32_t end)
{
    const struct sim_options *o = &s->options;
    const struct offer_draw *d = &o->offers;
    uint32_t model = model_of(s), n_layers = o->stages.n_layers[model];
    const struct split_terms terms = {.block_tokens =
                                          o->stages.block_tokens[model],
                                      .context = o->models[model].context,
                                      .max_rows = MAX_ROWS};
    struct pool_split_need need;
    uint64_t bytes = d->scratch_bytes + (begin == 0 ? d->embed_bytes : 0) +
                     (end == n_layers ? d->head_bytes : 0);
    struct page_parts parts = {0};

    for (uint32_t i = begin; i < end; i++) {
        bytes += d->layers[i].weight_bytes;
        parts.block_bytes +=
            page_align(d->layers[i].token_bytes * terms.block_tokens);
        parts.slot_bytes += page_align(d->layers[i].slot_bytes);
    }
    if (begin == end) {
        return bytes <= d->workers[w].budget_bytes;
    }
    need = split_need(&terms, &parts);
    return bytes + pool_split_least(&need) <= d->workers[w].budget_bytes;
}

/* Returns whether any shard is in no replica. */
static bool has_left_over(const struct sim *s)
{
    const void *router = s->nodes[SIM_ROUTER].core;
    struct router_worker_view v;

    for (uint32_t i = 0; router && router_worker_view(router, i, &v); i++) {
        if (!v.serves && v.assembly == 0) {
            return true;
        }
    }
    return false;
}

void offers_refused(struct sim *s, uint32_t conn, uint64_t call)
{
    uint32_t node = network_conn(&s->network, conn)->node;
    struct offer_seen *o = &s->offers[worker_of(node)];

    deeds(s)[DEED_ASSIGN_REFUSED]++;
    if (o->given_conn == conn && o->given_call == call) {
        o->given_conn = 0;
    }
}

/* Checks an Assign.  It may arrive twice, if the worker ignored the first
 * because its session had not begun. */
void offers_assigned(struct sim *s, uint32_t conn, uint64_t call,
                     const Sluice__V1__AssignRequest *m)
{
    uint32_t node = network_conn(&s->network, conn)->node;
    struct offer_seen *o = &s->offers[worker_of(node)];
    const char *name = s->nodes[node].name;

    if (!o->waits) {
        sim_fail(s, -1, "%s received an Assign, but has layers", name);
    } else if (o->given_conn == conn && o->given_call != call) {
        sim_fail(s, -1, "%s received layers twice in one session", name);
    } else if (!holds(s, worker_of(node), m->layer_begin, m->layer_end)) {
        sim_fail(s, -1, "%s received layers %u-%u, which exceed its budget",
                 name, m->layer_begin, m->layer_end);
    }
    o->given_conn = conn;
    o->given_call = call;
    deeds(s)[DEED_GIVEN]++;
    deeds(s)[DEED_GAP_FILLED] += has_left_over(s);
}

/* ---- rules ---- */

/* Checks that the stages of a leader's replica are contiguous, as far as their
 * sessions are open. */
static void look_whole(struct sim *s, const struct router_worker_view *leader)
{
    const void *router = s->nodes[SIM_ROUTER].core;
    const struct conn *c = network_conn(&s->network, leader->id.v);
    uint32_t at[SIM_WORKERS + 1] = {0}, n = 0;
    struct router_worker_view v;

    for (uint32_t i = 0; router_worker_view(router, i, &v); i++) {
        const struct conn *other = network_conn(&s->network, v.id.v);

        if (v.assembly == leader->assembly) {
            n += other->begin < other->end;
            at[v.stage] += other->begin;
            at[v.stage + 1] -= other->end;
        }
    }
    at[n] += s->options.stages
                 .n_layers[s->options.workers[worker_of(c->node)].model];
    for (uint32_t i = 0; n == leader->n_stages && i <= n; i++) {
        if (at[i] != 0) {
            sim_fail(s, -1,
                     "stages of the replica led by %s are not contiguous at "
                     "stage %u",
                     s->nodes[c->node].name, i);
        }
    }
}

/* Checks that nothing is left to deal in the second tick after the shards have
 * changed: a deal that waits for an event of another worker is late.  A search
 * takes long, so one for each change must do. */
static void look_dealt(struct sim *s, uint64_t shards)
{
    bool is_due = s->shards_changed && shards == s->shards_seen;

    s->shards_changed = shards != s->shards_seen;
    s->shards_seen = shards;
    if (is_due && router_undealt(s->nodes[SIM_ROUTER].core)) {
        sim_fail(s, -1, "the router could deal layers, but has not");
    }
}

void offers_watch(struct sim *s)
{
    const void *router = s->nodes[SIM_ROUTER].core;
    struct router_worker_view v;
    uint64_t shards = 0;

    if (s->options.offers.n == 0) {
        return;
    }
    for (uint32_t i = 0; router_worker_view(router, i, &v); i++) {
        if (v.assembly && v.stage == 0) {
            look_whole(s, &v);
        }
        if (v.assembly == 0) {
            shards =
                shards * 0x9e3779b97f4a7c15 +
                (v.session ^ (v.draining ? 1 : 0) ^ (v.readmit_ms ? 2 : 0));
        }
    }
    look_dealt(s, shards);
}

/* ---- the end ---- */

/* Search for a replica among leftover shards and waiting workers, by number. */
struct hunt {
    const struct sim *s;
    uint32_t shards, waiting; /* sets of workers */
    uint32_t begin[SIM_WORKERS], end[SIM_WORKERS];
    uint32_t n_layers, n_stages; /* wanted by those that wait */
    /* [layer] bit set of the sets of used workers that were tried from there */
    uint64_t tried[SIM_LAYERS + 1];
};

_Static_assert(1u << SIM_WORKERS <= 64,
               "a set of sets of workers fits in 64 bits");

static uint32_t size_of(uint32_t set)
{
    return (uint32_t)__builtin_popcount(set);
}

/* Returns whether unused workers can run the layers from this one on. */
static bool completes(struct hunt *h, uint32_t at, uint32_t used)
{
    uint32_t dealt = size_of(used & h->waiting);

    if (at == h->n_layers) {
        return dealt == 0 || dealt == h->n_stages || (used & h->shards) != 0;
    }
    if (h->tried[at] >> used & 1) {
        return false;
    }
    h->tried[at] |= UINT64_C(1) << used;
    for (uint32_t w = 0; w < SIM_WORKERS; w++) {
        uint32_t one = 1u << w & ~used;

        if ((one & h->shards) && h->begin[w] == at &&
            completes(h, h->end[w], used | one)) {
            return true;
        }
        for (uint32_t to = at + 1; (one & h->waiting) && to <= h->n_layers;
             to++) {
            if (holds(h->s, w, at, to) && completes(h, to, used | one)) {
                return true;
            }
        }
    }
    return false;
}

/* Returns whether every replica is up, unless a stage drains. */
static bool are_up(const struct sim *s, char *why, size_t cap)
{
    const void *router = s->nodes[SIM_ROUTER].core;
    struct router_worker_view v;
    bool drains = false, up = true;

    for (uint32_t i = 0; router_worker_view(router, i, &v); i++) {
        drains = drains || v.draining;
        up = up && (v.serves || v.assembly == 0 || v.stage != 0);
    }
    (void)snprintf(why, cap, "a replica is not up");
    return up || drains;
}

/* Finds the leftover shards of the offered model.  Returns false if
 * one of their workers is not readmitted yet. */
static bool find_shards(struct hunt *h, char *why, size_t cap)
{
    const struct sim *s = h->s;
    const void *router = s->nodes[SIM_ROUTER].core;
    struct router_worker_view v;

    for (uint32_t i = 0; router_worker_view(router, i, &v); i++) {
        const struct conn *c = &s->network.conns[v.id.v - 1];
        uint32_t w = worker_of(c->node);

        if (!options_staged(&s->options, w) || v.draining || v.assembly) {
            continue;
        }
        if (v.readmit_ms) {
            (void)snprintf(why, cap, "%s is not readmitted yet",
                           s->nodes[c->node].name);
            return false;
        }
        h->shards |= 1u << w;
        h->begin[w] = c->begin;
        h->end[w] = c->end;
    }
    return true;
}

static bool is_here(const struct sim *s, uint32_t w, char *why, size_t cap)
{
    const struct sim_node *n = &s->nodes[SIM_FIRST_WORKER + w];

    if (n->core == NULL) {
        (void)snprintf(why, cap, "%s %s", n->name,
                       s->offers[w].loads ? "loads" : "is dead");
    } else if (s->offers[w].waits &&
               network_session(&s->network, n->number) == 0) {
        (void)snprintf(why, cap, "%s waits for layers, but has no session",
                       n->name);
    } else {
        return true;
    }
    return false;
}

/* Returns the waiting workers that want as many stages as worker w. */
static uint32_t like(const struct sim *s, uint32_t w)
{
    const struct offer_draw *d = &s->options.offers;
    uint32_t set = 0;

    for (uint32_t i = 0; i < d->n; i++) {
        if (s->offers[i].waits &&
            d->workers[i].n_stages == d->workers[w].n_stages) {
            set |= 1u << i;
        }
    }
    return set;
}

/* Returns whether no assigned worker may be left over: there are no faults,
 * each lineage has one worker, and no worker has fixed layers that could
 * replace an equal shard. */
static bool is_exact(const struct sim *s)
{
    const struct sim_options *o = &s->options;

    for (uint32_t w = 0; w < o->offers.n; w++) {
        if (o->offers.workers[w].lineage != w) {
            return false;
        }
    }
    return !o->faulty && !drains_drawn(o) &&
           (o->offers.n == o->n_workers || !options_staged(o, o->offers.n));
}

bool offers_quiet(const struct sim *s, char *why, size_t cap)
{
    const struct offer_draw *d = &s->options.offers;
    struct hunt h = {.s = s};

    for (uint32_t w = 0; w < d->n; w++) {
        if (!is_here(s, w, why, cap)) {
            return false;
        }
    }
    if (d->n == 0) {
        return true;
    }
    if (!are_up(s, why, cap) || !find_shards(&h, why, cap)) {
        return false;
    }
    h.n_layers = s->options.stages.n_layers[model_of(s)];
    if (is_exact(s) && h.shards) {
        (void)snprintf(why, cap,
                       "workers with assigned layers in no replica: set %x",
                       h.shards);
        return false;
    }
    for (uint32_t w = 0; w < d->n; w++) {
        h.waiting = like(s, w);
        h.n_stages = d->workers[w].n_stages;
        memset(h.tried, 0, sizeof(h.tried));
        if (completes(&h, 0, 0)) {
            (void)snprintf(
                why, cap,
                "a replica is possible from shards %x and waiting workers %x",
                h.shards, h.waiting);
            return false;
        }
    }
    return true;
}

bool offers_ready(const struct sim *s)
{
    const void *router = s->nodes[SIM_ROUTER].core;
    struct router_worker_view v;
    uint32_t n = 0;
    char why[200];

    while (router && router_worker_view(router, n, &v)) {
        n++;
    }
    for (uint32_t w = 0; w < s->options.offers.n; w++) {
        n += s->offers[w].waits;
    }
    return router && n == s->options.n_workers &&
           replicas_quiet(s, why, sizeof(why)) &&
           offers_quiet(s, why, sizeof(why));
}
