#include "tests/sim/pools.h"

#include <stdio.h>

#include "tests/sim/sim.h"
#include "worker/base/metrics.h"

void pools_quotas(struct sim *s, uint32_t w)
{
    const struct sim_node *n = &s->nodes[SIM_FIRST_WORKER + w];
    uint32_t most;
    uint64_t n_full;
    uint32_t pages = worker_tenant_pages(n->core, &most, &n_full);

    if (pages > most) {
        sim_fail(s, -1, "%s: a tenant has %u cached pages, but its quota is %u",
                 n->name, pages, most);
    }
}

/* Compares the router's entries for one session with the index. */
static bool is_known(const struct sim *s, uint32_t i,
                     const struct router_worker_view *v, char *why, size_t cap)
{
    const struct sim_node *n = &s->nodes[s->network.conns[v->id.v - 1].node];
    const struct worker_core *w = node_worker(s, n->number);
    uint32_t known, there = 0;
    uint64_t digest = router_prefixes(s->nodes[SIM_ROUTER].core, i, &known);
    uint64_t own = w ? worker_prefixes(w, &there) : 0;

    if (v->stage > 0 || !v->serves) {
        there = 0; /* its leader's index is that of the replica */
        own = 0;
    }
    /* Without memory the router keeps fewer entries, as at its limit: they are
     * hints. */
    if (sim_short && known < there) {
        return true;
    }
    if (digest != own || known != there) {
        (void)snprintf(
            why, cap, "the router has %u prefixes of %s, whose index has %u%s",
            known, n->name, there, known == there ? ", of other hashes" : "");
        return false;
    }
    return true;
}

static bool all_known(const struct sim *s, char *why, size_t cap)
{
    const void *router = s->nodes[SIM_ROUTER].core;
    struct router_worker_view v;

    for (uint32_t i = 0; router_worker_view(router, i, &v); i++) {
        if (!is_known(s, i, &v, why, cap)) {
            return false;
        }
    }
    return true;
}

/* Counts what was evicted until the index is cleared for the first time. */
static void count(struct sim *s, const struct worker_core *core)
{
    uint64_t *deeds = s->counts.cells.deeds;
    uint64_t nodes, checkpoints, n_full;
    struct worker_metrics m;
    uint32_t most;

    worker_counts(core, &m);
    worker_evicted(core, &nodes, &checkpoints);
    (void)worker_tenant_pages(core, &most, &n_full);
    deeds[DEED_AT_QUOTA] += n_full;
    deeds[DEED_CACHED_OUT] += m.cached_out;
    deeds[DEED_CACHED_BACK] += m.reused_host_tokens;
    deeds[DEED_CACHED_DROPPED] += m.cached_dropped;
    deeds[DEED_EVICTED_BLOCK] += nodes;
    deeds[DEED_EVICTED_CHECKPOINT] += checkpoints;
}

/* Returns whether nothing is left in the index of a worker.  A leader without
 * attention has nodes that take none of its own pages, but those of later
 * stages. */
static bool is_clear(const struct worker_core *core)
{
    struct worker_account a;

    worker_account(core, &a);
    return worker_nodes(core) == 0 && a.pages.free == a.pages.total;
}

/* Clears the index of worker w; then all of its pages must be free.  Stages of
 * a replica free theirs when their leader does.  Returns false if nothing was
 * in the index before. */
static bool clear(struct sim *s, uint32_t w)
{
    struct worker_core *core = node_worker(s, SIM_FIRST_WORKER + w);
    struct worker_account a;

    if (!core) {
        return false;
    }
    if (!s->cleared) {
        count(s, core);
    }
    if (is_clear(core)) {
        return false;
    }
    worker_clear_index(core);
    node_soon(s, SIM_FIRST_WORKER + w);
    worker_account(core, &a);
    if (a.pages.cached && a.assembly == 0) {
        sim_fail(s, -1, "%s has %u cached pages after its index was cleared",
                 s->nodes[SIM_FIRST_WORKER + w].name, a.pages.cached);
    }
    return true;
}

/* Requests may still come after the indexes were cleared, which are then
 * cleared again. */
bool pools_quiet(struct sim *s, char *why, size_t cap)
{
    bool any = false;

    if (!all_known(s, why, cap)) {
        return false;
    }
    for (uint32_t w = 0; w < s->options.n_workers; w++) {
        any = clear(s, w) || any;
    }
    s->cleared = true;
    if (any) {
        (void)snprintf(why, cap, "the indexes have just been cleared");
    }
    return !any;
}
