#include "tests/sim/replicas.h"

#include <stdio.h>
#include <string.h>

#include "proto/registry.pb-c.h"
#include "proto/stage.pb-c.h"
#include "tests/sim/sim.h"

static bool is_staged(const struct sim *s, uint32_t node)
{
    return node_is_worker(node) &&
           options_staged(&s->options, node - SIM_FIRST_WORKER);
}

/* ---- places ---- */

static uint32_t node_of(const struct sim *s, const struct router_worker_view *v)
{
    return s->network.conns[v->id.v - 1].node;
}

bool replicas_find(const struct sim *s, uint32_t node,
                   struct router_worker_view *out)
{
    const void *router = s->nodes[SIM_ROUTER].core;

    for (uint32_t i = 0; router && router_worker_view(router, i, out); i++) {
        if (node_of(s, out) == node) {
            return true;
        }
    }
    return false;
}

/* Finds the leader of this assembly. */
static bool find_leader(const struct sim *s, uint64_t assembly,
                        struct router_worker_view *out)
{
    const void *router = s->nodes[SIM_ROUTER].core;

    for (uint32_t i = 0; router && router_worker_view(router, i, out); i++) {
        if (out->assembly == assembly && out->stage == 0) {
            return true;
        }
    }
    return false;
}

bool replicas_place(const struct sim *s, uint32_t node,
                    struct router_worker_view *out)
{
    if (!replicas_find(s, node, out)) {
        return false;
    }
    return !is_staged(s, node) ||
           (out->assembly != 0 && find_leader(s, out->assembly, out));
}

/* ---- frames ---- */

static const void *body(struct sim *s, const struct envelope *e,
                        const ProtobufCMessageDescriptor *type)
{
    ProtobufCMessage *m;

    return wire_unpack(&s->arena, type, e->body, e->body_bytes, &m, NULL) ==
                   ST_OK
               ? m
               : NULL;
}

/* Adds `more` to the microbatches in flight in the replica that this node
 * leads.  Ignores an edge of a previous assembly. */
static void count(struct sim *s, const struct conn *c, uint32_t leader,
                  int more)
{
    struct replicas_seen *r = &s->replicas[leader - SIM_FIRST_WORKER];
    struct worker_account a = {.assembly = 0};

    if (node_worker(s, leader)) { /* the leader may have died since */
        worker_account(s->nodes[leader].core, &a);
    }
    if (r->led != a.assembly) {
        r->led = a.assembly;
        r->under_way = 0;
    }
    if (a.assembly == 0 || a.assembly != c->assembly) {
        return;
    }
    r->under_way += (uint32_t)more;
    if (r->under_way > a.n_stages) {
        sim_fail(s, -1, "%s leads %u stages, but %d microbatches are in flight",
                 s->nodes[leader].name, a.n_stages, (int)r->under_way);
    }
    s->counts.cells.deeds[DEED_RING_FULL] += r->under_way == a.n_stages;
}

static void opens(struct sim *s, const struct envelope *e)
{
    const Sluice__V1__StageOpen *m =
        body(s, e, &sluice__v1__stage_open__descriptor);

    if (m) {
        s->counts.cells.deeds[DEED_OPEN_VOID] += m->void_ != 0;
        s->counts.cells.deeds[DEED_OPEN_IDS] += m->n_tokens > 0;
    }
}

static bool fails(struct sim *s, const struct envelope *e)
{
    const Sluice__V1__StageForward *m =
        body(s, e, &sluice__v1__stage_forward__descriptor);

    return m && m->has_failure;
}

static void passes(struct sim *s, const struct conn *c,
                   const struct envelope *e)
{
    switch (e->method) {
    case METHOD_STAGE_OPEN:
        opens(s, e);
        break;
    case METHOD_STAGE_FORWARD:
        if (options_shard(&s->options, c->node - SIM_FIRST_WORKER).begin == 0) {
            count(s, c, c->node, 1);
        }
        s->counts.cells.deeds[DEED_STAGE_FAILED] += fails(s, e);
        break;
    case METHOD_STAGE_RESULT:
        count(s, c, c->listener, -1);
        break;
    default:
        break;
    }
}

static uint64_t named_by(struct sim *s, const struct envelope *e)
{
    const Sluice__V1__HelloRequest *m =
        body(s, e, &sluice__v1__hello_request__descriptor);

    return m && m->stage ? m->stage->assembly : 0;
}

/* Inspects the Hello of an edge, which is repeated until it is answered. */
static void greets(struct sim *s, struct conn *c, enum conn_end to,
                   const struct envelope *e)
{
    if (e->method != METHOD_REGISTRY_HELLO) {
        return;
    }
    if (to == END_ROUTER && e->kind == ENVELOPE_CALL) {
        c->assembly = named_by(s, e);
        c->ordered = s->replicas[c->listener - SIM_FIRST_WORKER].ordered;
    } else if (to == END_PEER && e->kind == ENVELOPE_END &&
               c->assembly != c->ordered) {
        s->counts.cells.deeds[DEED_EDGE_REFUSED]++;
    }
    if (to == END_PEER && e->kind == ENVELOPE_END && e->status == ST_OK &&
        c->assembly != c->ordered) {
        sim_fail(s, -1, "%s accepted an edge of another assembly",
                 s->nodes[c->listener].name);
    }
}

void replicas_ordered(struct sim *s, uint32_t node, uint64_t assembly)
{
    s->replicas[node - SIM_FIRST_WORKER].ordered = assembly;
    if (!s->calm && rng_chance(&s->chance, s->options.stages.strike_of)) {
        faults_strike(s, node);
    }
}

void replicas_broken(struct sim *s, uint32_t node, const char *why, size_t n)
{
    if (!s->options.faulty && !sim_short && !drains_drawn(&s->options)) {
        sim_fail(s, -1, "%s broke its assembly in a seed without faults: %.*s",
                 s->nodes[node].name, (int)n, why);
    }
}

void replicas_sniff(struct sim *s, uint32_t conn, enum conn_end to,
                    const struct frame *f)
{
    struct conn *c = network_conn(&s->network, conn);
    struct frame_header h;
    struct envelope e;
    uint32_t at = 0;

    if (!node_is_worker(c->listener) || /* the listener is a test */
        frame_check(f->data, f->bytes, &h, NULL) != ST_OK) {
        return;
    }
    if (s->verbose) {
        sniff_log(s, conn, to, f, &h);
    }
    while (envelope_next(f, &h, &at, &e)) {
        greets(s, c, to, &e);
    }
    at = 0;
    if (!sniff_fresh(c, to, &h) || to != END_ROUTER) {
        return;
    }
    for (uint32_t i = 0; i < h.n_ordered && envelope_next(f, &h, &at, &e);
         i++) {
        passes(s, c, &e);
    }
}

static uint32_t sum(const uint32_t *of, size_t n)
{
    uint32_t total = 0;

    for (size_t i = 0; i < n; i++) {
        total += of[i];
    }
    return total;
}

/* Returns whether a stage frees more than was granted for one sequence. */
static bool frees_too_much(const struct sim *s, uint32_t node,
                           const struct sim_request *request,
                           const Sluice__V1__Receipt *r)
{
    uint32_t w = node - SIM_FIRST_WORKER;
    uint32_t blocks =
        sim_request_blocks(request, s->options.workers[w].block_tokens);

    for (size_t i = 0; i < r->n_stage_blocks; i++) {
        if (r->stage_blocks[i] > blocks || r->stage_slots[i] > 1 ||
            (r->n_stage_windows &&
             r->stage_windows[i] > blocks * WINDOW_TABLES)) {
            return true;
        }
    }
    return false;
}

void replicas_receipt(struct sim *s, uint32_t node,
                      const struct sim_request *request,
                      const Sluice__V1__Receipt *r)
{
    struct worker_account a = {.assembly = 0};
    size_t n = r->n_stage_blocks;

    if (node_worker(s, node)) {
        worker_account(s->nodes[node].core, &a);
    }
    if (!is_staged(s, node)) {
        if (n != 0) {
            sim_fail(s, -1, "receipt lists stages of a worker without stages");
        }
    } else if (r->has_position) {
        return; /* of a range: the leader's own figures */
    } else if (n != r->n_stage_slots ||
               (n == 0 ? r->blocks || r->slots
                       : r->blocks != sum(r->stage_blocks, n) ||
                             r->slots != sum(r->stage_slots, n) ||
                             r->windows !=
                                 sum(r->stage_windows, r->n_stage_windows))) {
        sim_fail(s, -1, "receipt differs from the sum of its %zu stages", n);
    } else if (n && a.assembly && n != a.n_stages) {
        sim_fail(s, -1, "receipt lists %zu stages, expected %u", n, a.n_stages);
    } else if (request && !request->again && !request->shared &&
               frees_too_much(s, node, request, r)) {
        sim_fail(s, (int32_t)request->number,
                 "stage frees more than the request may use");
    } else {
        s->counts.cells.deeds[DEED_STAGE_RECEIPT] += n != 0;
    }
}

/* ---- memory ---- */

static void look_held(struct sim *s, uint32_t w, const struct worker_account *a)
{
    uint32_t rows = fake_engine_rows(s->engines[w]);

    if (a->n_sequences > rows ||
        (rows == 0 &&
         (a->blocks.granted || a->slots.granted || a->windows.granted ||
          a->blocks.held || a->slots.held || a->windows.held))) {
        sim_fail(s, -1,
                 "%s is in no assembly, but has %u sequences, %u held + %u "
                 "granted blocks, %u held + %u granted slots",
                 s->nodes[SIM_FIRST_WORKER + w].name, a->n_sequences,
                 a->blocks.held, a->blocks.granted, a->slots.held,
                 a->slots.granted);
    }
}

void replicas_worker(struct sim *s, uint32_t w)
{
    struct replicas_seen *r = &s->replicas[w];
    struct worker_account a;

    if (!options_staged(&s->options, w)) {
        return;
    }
    worker_account(s->nodes[SIM_FIRST_WORKER + w].core, &a);
    if (a.streams_broken > 0 && !sim_short &&
        s->options.stages.garbage_of == 0) {
        sim_fail(s, -1, "w%u rejected a message of another stage", w);
    }
    if (a.assembly == 0 && r->assembly == 0) { /* freed with some delay */
        look_held(s, w, &a);
    } else if (a.assembly != 0 && a.assembly != r->assembly) {
        s->counts.cells.deeds[DEED_ASSEMBLED]++;
        s->counts.cells.deeds[DEED_ASSEMBLED_AGAIN] += r->n_assemblies > 0;
        r->n_assemblies++;
    }
    r->assembly = a.assembly;
}

/* ---- events ---- */

/* Returns the state of a choice submitted to this node: at the node, or on its
 * way there. */
static enum cell_state state_at(const struct sim *s, uint32_t number,
                                uint32_t choice, uint32_t node)
{
    const struct sim_request *request = &s->requests[number];
    enum cell_state there = cells_at_worker(s, node, &request->choices[choice]);

    if (there != CELL_NONE || request->n_ends ||
        cells_state(s, number, choice) != CELL_SUBMITTED) {
        return there;
    }
    return CELL_SUBMITTED;
}

/* Counts an event for all choices at this place. */
static void hit(struct sim *s, uint32_t conn, enum stage_event what)
{
    uint32_t node = s->network.conns[conn - 1].node;

    for (uint32_t i = 0; i < s->n_requests; i++) {
        const struct sim_request *request = &s->requests[i];

        for (uint32_t k = 0; k < request->n_choices; k++) {
            if (request->choices[k].submitted_conn == conn) {
                enum cell_state state = state_at(s, i, k, node);

                if (state != CELL_NONE) {
                    s->counts.cells.stage_hits[state][what]++;
                }
            }
        }
    }
}

static void count_event(struct sim *s, uint32_t node, enum stage_event leader,
                        enum stage_event other)
{
    struct router_worker_view v;

    if (!is_staged(s, node) || !replicas_place(s, node, &v)) {
        return;
    }
    if (!v.serves) {
        s->counts.cells.deeds[DEED_FORMING_STRUCK]++;
    } else {
        hit(s, v.id.v, node_of(s, &v) == node ? leader : other);
    }
}

void replicas_killed(struct sim *s, uint32_t node)
{
    count_event(s, node, STAGE_LEADER_LOST, STAGE_LOST);
}

void replicas_cut(struct sim *s, uint32_t conn)
{
    const struct conn *c = network_conn(&s->network, conn);

    if (c->listener != SIM_ROUTER) {
        count_event(s, c->node, STAGE_EDGE_CUT, STAGE_EDGE_CUT);
    }
}

void replicas_stands(struct sim *s, uint32_t node)
{
    count_event(s, node, STAGE_STANDS, STAGE_STANDS);
}

/* ---- the end ---- */

/* Returns whether a stage is where the router expects it. */
static bool in_place(const struct sim *s, const struct router_worker_view *v,
                     char *why, size_t cap)
{
    const struct sim_node *n = &s->nodes[node_of(s, v)];
    struct worker_account a;

    if (!node_worker(s, n->number)) {
        (void)snprintf(why, cap, "the router still lists %s as a stage",
                       n->name);
        return false;
    }
    worker_account(n->core, &a);
    if (a.assembly != v->assembly || a.stage != v->stage ||
        a.n_stages != v->n_stages) {
        (void)snprintf(why, cap,
                       "%s is stage %u of %u of assembly %016llx, but for the "
                       "router %u of %u of %016llx",
                       n->name, a.stage, a.n_stages,
                       (unsigned long long)a.assembly, v->stage, v->n_stages,
                       (unsigned long long)v->assembly);
        return false;
    }
    return true;
}

bool replicas_quiet(const struct sim *s, char *why, size_t cap)
{
    const void *router = s->nodes[SIM_ROUTER].core;
    uint32_t up[SIM_MODELS] = {0};
    bool drained[SIM_MODELS] = {false};
    struct router_worker_view v;

    for (uint32_t i = 0; router_worker_view(router, i, &v); i++) {
        uint32_t node = node_of(s, &v);
        uint32_t model = s->options.workers[node - SIM_FIRST_WORKER].model;

        if (!is_staged(s, node)) {
            continue;
        }
        drained[model] = drained[model] || v.draining;
        up[model] += v.serves;
        if (v.assembly && !in_place(s, &v, why, cap)) {
            return false;
        }
    }
    for (uint32_t m = 0; m < s->options.n_models; m++) {
        if (up[m] < s->options.stages.n_places[m] && !drained[m]) {
            (void)snprintf(why, cap, "model %u has %u replicas up, expected %u",
                           m, up[m], s->options.stages.n_places[m]);
            return false;
        }
    }
    return true;
}
