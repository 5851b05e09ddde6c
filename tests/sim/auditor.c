/* auditor.c - Rules that hold at every moment, and when the cluster is idle. */
#include <stdio.h>
#include <string.h>

#include "tests/sim/sim.h"
#include "worker/plan/prompt_share.h"

#define TIMER_US   10000 /* by which a timer that is due may be late */
#define WALK_EVERY 16    /* ticks of a worker; a walk visits its whole pool */

/* Returns whether each column of the pages is the sum of its classes', and free
 * of each class what the free pages give. */
static bool is_whole(const struct sim *s, uint32_t w,
                     const struct worker_account *a)
{
    const struct pool_of_worker *p = &s->options.pools.workers[w];
    uint32_t per = p->pages_per_slot, cap = p->slot_cap;
    const struct class_account *g = &a->pages;
    uint32_t fit = per ? g->free / per : 0;
    uint32_t left = a->slots.held + a->slots.granted < cap
                        ? cap - a->slots.held - a->slots.granted
                        : 0;

    return g->total == p->n_pages &&
           g->total == g->free + g->held + g->cached + g->granted &&
           g->held == a->blocks.held + a->windows.held +
                          (a->slots.held + a->checkpoints.held) * per &&
           g->cached == a->blocks.cached + a->windows.cached +
                            (a->slots.cached + a->checkpoints.cached) * per &&
           g->granted ==
               a->blocks.granted + a->windows.granted +
                   (a->slots.granted + a->checkpoints.granted) * per &&
           a->windows.free ==
               (options_shard(&s->options, w).windows ? g->free : 0) &&
           a->blocks.free ==
               (options_shard(&s->options, w).attention ? g->free : 0) &&
           a->checkpoints.free == fit &&
           a->slots.free == (fit < left ? fit : left) &&
           a->slots.held + a->slots.granted <= cap;
}

static void walk(struct sim *s, uint32_t w)
{
    const struct sim_node *n = &s->nodes[SIM_FIRST_WORKER + w];
    char text[200];

    if (worker_audit(n->core, text, sizeof(text))) {
        sim_fail(s, -1, "%s: a walk of the pool differs from the ledger: %s",
                 n->name, text);
    }
    pools_quotas(s, w);
}

static void tick_worker(struct sim *s, uint32_t w)
{
    const struct sim_node *n = &s->nodes[SIM_FIRST_WORKER + w];
    struct worker_account a;

    worker_account(n->core, &a);
    if (!is_whole(s, w, &a)) {
        sim_fail(s, -1, "%s: the columns of its ledger do not add up", n->name);
    } else if (a.violations) {
        sim_fail(s, -1, "%s: the ledger counts protocol violations", n->name);
    } else if (a.n_passed >= PROMPT_SHARES) {
        sim_fail(s, -1, "%s: %u plans passed the oldest prompt", n->name,
                 a.n_passed);
    } else if (a.n_exceeded > 0) {
        sim_fail(s, -1, "%s: prompts made a step exceed the target", n->name);
    } else if (options_shard(&s->options, w).begin == 0 &&
               a.pages.free + fake_engine_named(s->engines[w]) >
                   a.pages.total) {
        sim_fail(s, -1, "%s: a free page is named by a plan in flight",
                 n->name);
    } else if (a.late_us > TIMER_US) {
        sim_fail(s, -1, "%s: a sequence runs past the deadline of its call",
                 n->name);
    } else if (n->tick_number % WALK_EVERY == 0) {
        walk(s, w);
    }
}

static bool view_of(const struct sim *s, uint32_t node,
                    struct router_worker_view *out)
{
    for (uint32_t i = 0; router_worker_view(s->nodes[SIM_ROUTER].core, i, out);
         i++) {
        if (s->network.conns[out->id.v - 1].node == node) {
            return true;
        }
    }
    return false;
}

/* Checks that a worker tries at most one suspect.  On probation, it receives
 * nothing before its time, and then one sequence at a time. */
static void check_deaths(struct sim *s, const struct router_worker_view *v)
{
    uint64_t *deeds = s->counts.cells.deeds;
    uint32_t w = s->network.conns[v->id.v - 1].node - SIM_FIRST_WORKER;

    deeds[DEED_ON_TRIAL] += v->n_suspects != 0;
    deeds[DEED_PROBATION] += v->probation;
    if (v->n_suspects > 1) {
        sim_fail(s, -1, "%u suspects on trial on one worker, at most 1 allowed",
                 v->n_suspects);
    } else if (s->n_sessions[w] > 1) {
        return; /* it may have sequences, which are adopted at once */
    } else if (v->readmit_ms && v->last_grant) {
        sim_fail(s, -1, "grant to a worker that is not readmitted yet");
    } else if (v->probation && v->n_sequences > 1) {
        sim_fail(s, -1,
                 "%u sequences on a worker on probation, at most 1 allowed",
                 v->n_sequences);
    }
}

/* Returns how many more workers may die of c because others died of other
 * causes. */
static uint32_t mercy(const struct sim *s, const struct sim_choice *c)
{
    uint32_t n = s->n_ended[c->request->model];

    n = n > c->n_killed ? n - c->n_killed : 0;
    return n < SIM_TRIAL_MERCY ? n : SIM_TRIAL_MERCY;
}

void auditor_poisoned(struct sim *s, uint32_t number, struct sim_choice *c)
{
    const struct sim_request *request = c->request;
    struct router_worker_view v, own;
    uint32_t most;

    s->counts.cells.deeds[DEED_POISONED]++;
    sim_log(s, "%s is killed by request %u", s->nodes[number].name,
            request->number);
    if (!s->nodes[SIM_ROUTER].core || request->again || request->shared ||
        request->router_lost || !replicas_place(s, number, &v) ||
        v.id.v != c->submitted_conn || !view_of(s, number, &own)) {
        return; /* the router cannot attribute this death */
    }
    if (c->adopting && v.n_suspects > 0 && v.n_sequences > 1) {
        return; /* adopted beside a suspect, which is charged instead */
    }
    if (c->n_killed == 0 ||
        c->n_given - c->n_given_killed >= SIM_TRIAL_TOKENS) {
        c->n_killed = 0; /* the previous death looked like chance */
    }
    c->n_given_killed = c->n_given;
    c->killed_conn = own.id.v;
    most = SIM_TRIAL_DEATHS + 1 + mercy(s, c);
    if (++c->n_killed > most) {
        sim_fail(s, (int32_t)request->number,
                 "%u workers killed by choice %u, which is more than allowed",
                 c->n_killed, c->number);
    }
}

void auditor_forgiven(struct sim_choice *c)
{
    if (c->n_killed) {
        c->n_killed--;
    }
    c->killed_conn = 0;
}

/* Removes the death of the worker with this connection, because the router
 * cannot find its cause. */
static void forgive(struct sim *s, uint32_t conn)
{
    for (uint32_t i = 0; i < s->n_requests; i++) {
        for (uint32_t k = 0; k < s->requests[i].n_choices; k++) {
            struct sim_choice *c = &s->requests[i].choices[k];

            if (c->killed_conn == conn) {
                auditor_forgiven(c);
            }
        }
    }
}

void auditor_goodbye(struct sim *s, uint32_t conn)
{
    struct router_worker_view v;

    if (s->nodes[SIM_ROUTER].core &&
        view_of(s, network_conn(&s->network, conn)->node, &v) &&
        v.id.v == conn) { /* otherwise the session has ended already */
        forgive(s, conn);
    }
}

void auditor_violated(struct sim *s, uint32_t conn)
{
    forgive(s, conn);
}

static void tick_router(struct sim *s)
{
    const void *router = s->nodes[SIM_ROUTER].core;
    struct router_worker_view v;
    struct router_metrics c;

    for (uint32_t i = 0; router_worker_view(router, i, &v); i++) {
        /* Growth takes pages that a Submit under way counts on. */
        if (!v.grew &&
            (v.granted_pages > v.free_pages || v.granted_slots > v.free_slots ||
             v.granted_windows > v.free_windows)) {
            sim_fail(s, -1,
                     "granted pages or slots exceed the free ones (%u of %u "
                     "pages, %u of %u slots)",
                     v.granted_pages, v.free_pages, v.granted_slots,
                     v.free_slots);
        }
        check_deaths(s, &v);
    }
    claims_router(s);
    if (router_late_us(router) > TIMER_US) {
        sim_fail(s, -1, "a request waits for longer than --queue-timeout");
    }
    router_counts(router, &c);
    if (c.ledger_violations) {
        sim_fail(s, -1, "the router counts ledger violations");
    }
    if (c.protocol_violations > s->forged.n_sent) {
        sim_fail(s, -1, "the router counts protocol violations by a worker");
    }
    if (!s->options.faulty && c.strikes) {
        sim_fail(s, -1, "strikes in a seed without faults");
    }
}

static uint32_t less(uint32_t n, uint64_t taken)
{
    return taken < n ? n - (uint32_t)taken : 0;
}

/* Computes how many choices the router can accept; it may refuse any larger
 * number. */
static void look_full(struct sim *s)
{
    const void *router = s->nodes[SIM_ROUTER].core;
    struct router_metrics c;
    uint32_t queue, places, room;

    router_counts(router, &c);
    /* The frame that brought these may also cancel them. */
    queue = less(s->options.max_waiting,
                 (uint64_t)c.choices_waiting + s->n_brought);
    places =
        less(s->options.max_requests, (uint64_t)c.choices_open + s->n_brought);
    room = queue < places ? queue : places;
    /* Room that exists after a frame may not have existed while the router read
     * it. */
    auditor_full(s, room < s->room_before ? room : s->room_before);
    s->room_before = room;
    s->n_brought = 0;
}

void auditor_full(struct sim *s, uint32_t room)
{
    for (uint32_t n = room + 1; n <= REQUEST_CHOICES; n++) {
        s->full_us[n] = sim_now(s);
    }
}

/* Handles the end of a stage's session together with its replica, before the
 * router detects that the stage is dead. */
static void let_go(struct sim *s, uint32_t w)
{
    const struct conn *c = network_conn(&s->network, s->session_conns[w]);

    if (options_staged(&s->options, w) && c && !c->lost_received) {
        forgive(s, s->session_conns[w]);
    }
}

/* Detects workers whose session the router has ended or replaced. */
static void look_sessions(struct sim *s)
{
    const void *router = s->nodes[SIM_ROUTER].core;
    uint64_t now[SIM_WORKERS] = {0};
    uint32_t conns[SIM_WORKERS] = {0};
    struct router_worker_view v;

    for (uint32_t i = 0; router_worker_view(router, i, &v); i++) {
        uint32_t w = s->network.conns[v.id.v - 1].node - SIM_FIRST_WORKER;

        now[w] = v.session;
        conns[w] = v.id.v;
    }
    for (uint32_t w = 0; w < s->options.n_workers; w++) {
        if (s->sessions[w] != now[w]) {
            let_go(s, w);
            s->session_conns[w] = conns[w];
        }
        s->n_ended[s->options.workers[w].model] +=
            s->sessions[w] != 0 && s->sessions[w] != now[w];
        s->n_sessions[w] += now[w] != 0 && s->sessions[w] != now[w];
        s->sessions[w] = now[w];
    }
}

void auditor_received(struct sim *s, uint32_t number)
{
    if (number == SIM_ROUTER) {
        look_full(s);
        liveness_router(s);
        holds_router(s);
        look_sessions(s);
        drains_watch(s);
    }
}

void auditor_tick(struct sim *s, uint32_t number)
{
    if (s->failed) {
        return;
    }
    if (number == SIM_ROUTER) {
        look_full(s);
        liveness_router(s);
        holds_router(s);
        look_sessions(s);
        drains_watch(s);
        spare_watch(s);
        offers_watch(s);
        tick_router(s);
        keys_audit(s);
    } else if (node_is_worker(number) && node_worker(s, number)) {
        tick_worker(s, number - SIM_FIRST_WORKER);
        claims_worker(s, number - SIM_FIRST_WORKER);
        liveness_worker(s, number - SIM_FIRST_WORKER);
        replicas_worker(s, number - SIM_FIRST_WORKER);
        adoptions_count(s, number - SIM_FIRST_WORKER);
    } else if (node_is_gateway(number)) {
        gateways_watch(s, number);
    }
}

/* Checks that all requests of a lost session are ending. */
void auditor_lost(struct sim *s, uint32_t conn)
{
    spare_lost(s, conn);
    drains_watch(s);
    for (uint32_t i = 0; i < s->n_requests; i++) {
        const struct sim_request *request = &s->requests[i];

        for (uint32_t k = 0; k < request->n_choices && request->conn == conn;
             k++) {
            if (request->arrived && !request->again && !request->shared &&
                cells_at_router(s, request, k) < CHOICE_ENDING) {
                sim_fail(s, (int32_t)i,
                         "request still runs after its client disconnected");
            }
        }
    }
}

static bool worker_quiet(const struct sim *s, uint32_t w, char *why, size_t cap)
{
    const struct sim_node *n = &s->nodes[SIM_FIRST_WORKER + w];
    struct worker_account a;
    struct router_worker_view v;

    if (!n->core) {
        (void)snprintf(why, cap, "%s is dead", n->name);
        return false;
    }
    if (s->offers[w].waits) {
        return true;
    }
    worker_account(n->core, &a);
    if (a.n_sequences || a.blocks.held || a.blocks.granted || a.slots.held ||
        a.slots.granted || a.checkpoints.held || a.checkpoints.granted ||
        a.windows.held || a.windows.granted) {
        (void)snprintf(why, cap,
                       "%s has %u sequences, %u held + %u granted blocks, %u "
                       "held + %u granted slots, %u held + %u granted windows",
                       n->name, a.n_sequences, a.blocks.held, a.blocks.granted,
                       a.slots.held, a.slots.granted, a.windows.held,
                       a.windows.granted);
        return false;
    }
    if (!view_of(s, n->number, &v)) {
        (void)snprintf(why, cap, "the router has no session with %s", n->name);
        return false;
    }
    if (v.grant != a.grant || v.last_grant != a.grant ||
        v.snapshot != a.snapshot || v.n_sequences || v.granted_pages ||
        v.granted_slots || v.free_pages != a.pages.free + a.pages.cached ||
        v.free_slots != a.slots.total) {
        (void)snprintf(
            why, cap,
            "the router's account of %s differs: grant %llu/%llu of %llu, "
            "snapshot %llu of %llu, %u sequences, %u granted, %u free of %u "
            "pages",
            n->name, (unsigned long long)v.grant,
            (unsigned long long)v.last_grant, (unsigned long long)a.grant,
            (unsigned long long)v.snapshot, (unsigned long long)a.snapshot,
            v.n_sequences, v.granted_pages, v.free_pages,
            a.pages.free + a.pages.cached);
        return false;
    }
    return true;
}

bool auditor_quiet(struct sim *s, char *why, size_t cap)
{
    struct router_metrics c;

    for (uint32_t i = SIM_FIRST_CLIENT; s->verbose && i < SIM_FIRST_GATEWAY;
         i++) {
        if (s->nodes[i].core) {
            sim_log(s, "%s: up %d, %s", s->nodes[i].name,
                    client_core_up(s->nodes[i].core),
                    client_core_trouble(s->nodes[i].core));
        }
    }
    if (s->n_open || s->n_controls_open) {
        (void)snprintf(why, cap, "%u requests and %u control calls are open",
                       s->n_open, s->n_controls_open);
        return false;
    }
    if (!s->nodes[SIM_ROUTER].core) {
        (void)snprintf(why, cap, "the router is dead");
        return false;
    }
    router_counts(s->nodes[SIM_ROUTER].core, &c);
    if (c.choices_open || c.choices_waiting || c.choices_early) {
        (void)snprintf(why, cap,
                       "the router has %llu choices, %llu waiting, %llu early",
                       (unsigned long long)c.choices_open,
                       (unsigned long long)c.choices_waiting,
                       (unsigned long long)c.choices_early);
        return false;
    }
    if (c.request_bytes > 0) {
        (void)snprintf(why, cap, "the router counts %llu bytes of no request",
                       (unsigned long long)c.request_bytes);
        return false;
    }
    for (uint32_t w = 0; w < s->options.n_workers; w++) {
        if (!worker_quiet(s, w, why, cap)) {
            return false;
        }
    }
    return replicas_quiet(s, why, cap) && offers_quiet(s, why, cap) &&
           web_quiet(s, why, cap) && gateways_quiet(s, why, cap) &&
           pools_quiet(s, why, cap);
}

/* Checks the router's counters: each call is refused, or each of its choices
 * ends in one way. */
static void check_counts(struct sim *s)
{
    struct router_metrics c;
    uint64_t ended, served, most = s->options.choices_of ? REQUEST_CHOICES : 1;

    router_counts(s->nodes[SIM_ROUTER].core, &c);
    ended = c.finished + c.cancelled + c.failed + c.had_ended;
    served = c.requests - c.refused;
    if (ended < served || ended > served * most) {
        sim_fail(s, -1,
                 "the router counts %llu requests, %llu of them refused, but "
                 "%llu ended choices",
                 (unsigned long long)c.requests, (unsigned long long)c.refused,
                 (unsigned long long)ended);
    }
    s->counts.refused += c.refused;
}

/* Checks that enough happened.  Frames that the network lost count too.
 * Clients of a worker on probation may wait until the faults stop: a worker
 * that leaves each second never completes its probation.  Few requests are then
 * allowed. */
static void check_enough(struct sim *s)
{
    const struct sim_counts *c = &s->counts;
    bool few =
        s->n_requests < SIM_REQUESTS_MIN && c->cells.deeds[DEED_PROBATION] == 0;

    if (few || c->frames + c->lost < SIM_FRAMES_MIN) {
        sim_fail(s, -1, "too little activity: %u requests, %llu frames",
                 s->n_requests, (unsigned long long)c->frames);
    }
}

void auditor_end(struct sim *s)
{
    char text[200];

    for (uint32_t w = 0; w < s->options.n_workers; w++) {
        const struct sim_node *n = &s->nodes[SIM_FIRST_WORKER + w];
        struct worker_account a;

        if (s->offers[w].waits) {
            continue;
        }
        worker_account(n->core, &a);
        if (a.pages.free != a.pages.total) {
            sim_fail(s, -1, "%s: %u pages are missing at the end", n->name,
                     a.pages.total - a.pages.free);
        } else if (worker_audit(n->core, text, sizeof(text))) {
            sim_fail(
                s, -1,
                "%s: the final walk of the pool differs from the ledger: %s",
                n->name, text);
        }
    }
    for (uint32_t i = 0; i < s->n_requests && !s->failed; i++) {
        if (s->requests[i].n_ends != 1) {
            sim_fail(s, (int32_t)i, "request did not end exactly once");
        }
    }
    if (!s->script) {
        check_enough(s);
    }
    check_counts(s);
    adoptions_end(s);
    claims_end(s);
    gateways_end(s);
}
