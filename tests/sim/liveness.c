#include "tests/sim/liveness.h"

#include "tests/sim/sim.h"

#define GAP_US    250000 /* at most this much counts between two looks */
#define SILENT_US 2500000
#define DEAD_US   10000000
#define TICK_US   200 /* tick of the fake engine: error of a stall's length */
/* Shortest actual stall for which reports, late and early, can show a stall of
 * HUNG_US; and the maximum age of such reports. */
#define STOOD_US 500000
#define NEWS_US  10000000

static int64_t gap(int64_t since_us, int64_t now_us)
{
    return now_us - since_us < GAP_US ? now_us - since_us : GAP_US;
}

/* ---- hung ---- */

/* Returns the router's limit for the worker of conn: it depends on delays that
 * the router has measured. */
static int64_t limit(const struct sim *s, uint32_t conn)
{
    struct router_worker_view v;

    for (uint32_t i = 0; router_worker_view(s->nodes[SIM_ROUTER].core, i, &v);
         i++) {
        if (v.id.v == conn) {
            return v.hung_us;
        }
    }
    return INT64_MAX;
}

void liveness_report(struct sim *s, uint32_t conn, const Sluice__V1__Ledger *l,
                     const Sluice__V1__EngineState *e)
{
    uint32_t w = network_conn(&s->network, conn)->node - SIM_FIRST_WORKER;
    struct reported *r = &s->alive.reported[w];
    int64_t limit_us;

    if (r->session != l->session) {
        *r = (struct reported){.session = l->session};
    }
    if (s->sessions[w] != l->session || l->snapshot <= r->snapshot ||
        holds_is(s, conn)) {
        return;
    }
    limit_us = limit(s, conn);
    r->limit_us =
        r->still_us > 0 && r->limit_us > limit_us ? r->limit_us : limit_us;
    if (r->still_us >= r->limit_us) {
        sim_fail(s, -1,
                 "worker %u reports no ticks beyond the limit, but its session "
                 "continues",
                 w);
    }
    r->still_us = e->ticks == r->ticks && e->n_planned && r->n_planned
                      ? r->still_us + gap(r->received_us, sim_now(s))
                      : 0;
    r->snapshot = l->snapshot;
    r->ticks = e->ticks;
    r->n_planned = e->n_planned;
    r->received_us = sim_now(s);
}

/* Returns whether the engine stalled recently.  Also true if this cannot be
 * determined: the engine is gone, or the worker has no session in its current
 * life. */
static bool stood(const struct sim *s, uint32_t w)
{
    return !s->engines[w] || s->n_sessions[w] == 0 ||
           fake_engine_stood_lately(s->engines[w], STOOD_US, NEWS_US);
}

/* Counts workers that stalled and whose session has just ended. */
static uint32_t fenced(const struct sim *s)
{
    const void *router = s->nodes[SIM_ROUTER].core;
    bool here[SIM_WORKERS] = {false};
    struct router_worker_view v;
    uint32_t n = 0;

    for (uint32_t i = 0; router_worker_view(router, i, &v); i++) {
        here[s->network.conns[v.id.v - 1].node - SIM_FIRST_WORKER] = true;
    }
    for (uint32_t w = 0; w < s->options.n_workers; w++) {
        n += s->sessions[w] && !here[w] && stood(s, w);
    }
    return n;
}

void liveness_router(struct sim *s)
{
    const void *router = s->nodes[SIM_ROUTER].core;
    struct liveness_seen *a = &s->alive;
    struct router_worker_view v;
    struct router_metrics c;

    router_counts(router, &c);
    if (c.hung > a->hung) {
        s->counts.cells.deeds[DEED_FENCED] += c.hung - a->hung;
        if (fenced(s) < c.hung - a->hung) {
            sim_fail(s, -1, "worker fenced although its engine ticks");
        }
    }
    a->hung = c.hung;
    for (uint32_t i = 0; router_worker_view(router, i, &v); i++) {
        s->counts.cells.deeds[DEED_SLOW] += v.slow;
    }
}

/* ---- silent ---- */

void liveness_received(struct sim *s, uint32_t node)
{
    if (node_is_worker(node)) {
        s->alive.silences[node - SIM_FIRST_WORKER].silent_us = 0;
    }
}

static void look_engine(struct sim *s, uint32_t w, struct silence *e)
{
    int64_t ago_us, us = fake_engine_stood_us(s->engines[w], &ago_us);

    if (us == 0 || ago_us > 0) {
        e->stood_us = 0;
    } else {
        e->stood_us += gap(e->looked_us, sim_now(s));
        e->stood_us = e->stood_us < us ? e->stood_us : us; /* one stall only */
    }
    if (e->stood_us > DEAD_US + 2 * GAP_US) {
        sim_fail(
            s, -1,
            "worker %u continues although its engine stalled beyond the limit",
            w);
    }
}

void liveness_worker(struct sim *s, uint32_t w)
{
    struct silence *e = &s->alive.silences[w];
    uint32_t conn = network_session(&s->network, SIM_FIRST_WORKER + w);

    look_engine(s, w, e);
    if (conn == 0 || conn != e->conn) {
        e->silent_us = 0;
    } else {
        e->silent_us += gap(e->looked_us, sim_now(s));
    }
    if (e->silent_us > SILENT_US) {
        sim_fail(s, -1,
                 "worker %u receives nothing beyond the limit, but keeps its "
                 "session",
                 w);
    }
    e->conn = conn;
    e->looked_us = sim_now(s);
}

/* ---- dead ---- */

void liveness_died(struct sim *s, uint32_t w)
{
    int64_t ago_us;

    s->counts.cells.deeds[DEED_ENGINE_DEAD]++;
    if (fake_engine_stood_us(s->engines[w], &ago_us) < DEAD_US - TICK_US ||
        ago_us > TICK_US) {
        sim_fail(s, -1, "worker %u stops itself although its engine ticks", w);
    }
}
