#include "router/calls/counts.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "router/calls/router_state.h"
#include "router/fleet/places.h"
#include "router/schedule/lengths.h"
#include "router/schedule/overcommit.h"

const struct metric_set *const counts_sets[COUNTS_SETS] = {
    &router_metrics_set,    &router_times_set,   &router_refusals_set,
    &router_denials_set,    &router_tenants_set, &router_pools_set,
    &router_overcommit_set, &router_lengths_set, &router_drafts_set,
    &router_host_set};

static const char *const classes[FLEET_CLASSES] = {
    [BLOCKS] = "blocks",   [SLOTS] = "slots", [CHECKPOINTS] = "checkpoints",
    [WINDOWS] = "windows", [PAGES] = "pages",
};

void counts_init(struct counts *c)
{
    metric_family_init(&c->refusals, &router_refusals_set);
    metric_family_init(&c->tenants, &router_tenants_set);
    metric_family_init(&c->pools, &router_pools_set);
    metric_family_init(&c->overcommit, &router_overcommit_set);
    metric_family_init(&c->lengths, &router_lengths_set);
    metric_family_init(&c->drafts, &router_drafts_set);
    metric_family_init(&c->host, &router_host_set);
}

void counts_fini(struct counts *c)
{
    metric_family_fini(&c->refusals);
    metric_family_fini(&c->tenants);
    metric_family_fini(&c->pools);
    metric_family_fini(&c->overcommit);
    metric_family_fini(&c->lengths);
    metric_family_fini(&c->drafts);
    metric_family_fini(&c->host);
}

void counts_take(const struct router_core *r, struct router_metrics *out)
{
    struct node_io *io = r->base.io;
    struct node_counts c = {0};

    *out = r->base.metrics;
    if (io->counts != NULL) {
        io->counts(io, &c);
        out->connections_refused = c.refused;
        out->connections_cut = c.cut;
    }
    out->choices_open = r->requests.n_choices;
    out->choices_waiting = r->schedule.n_waiting;
    out->choices_early = r->early.n_choices;
    out->early_bytes = r->early.bytes;
    out->clients = places_count(&r->fleet, BY_CLIENT);
    out->admins = places_count(&r->fleet, BY_ADMIN);
}

/* Cached pages count as left: a worker evicts them when they are needed. */
static void add_pages(const struct router_core *r, uint64_t *total,
                      uint64_t *left)
{
    for (uint32_t i = 0; i < r->fleet.n_workers; i++) {
        const struct class_ledger *c =
            &r->fleet.workers[i]->ledger.classes[PAGES];

        *total += c->total;
        *left += (uint64_t)c->free + c->cached;
    }
}

void counts_line(const struct router_core *r, char *text, size_t cap)
{
    uint32_t open = r->requests.n_choices, waiting = r->schedule.n_waiting;
    uint32_t running = open > waiting ? open - waiting : 0;
    uint64_t total = 0, left = 0;

    if (r->fleet.n_workers == 0) {
        snprintf(text, cap, "no workers, %u sequences waiting",
                 waiting + r->early.n_choices);
        return;
    }
    add_pages(r, &total, &left);
    snprintf(text, cap,
             "%u worker%s, %u sequence%s, %u waiting, %u %% of pages free",
             r->fleet.n_workers, r->fleet.n_workers == 1 ? "" : "s", running,
             running == 1 ? "" : "s", waiting + r->early.n_choices,
             total > 0 ? (unsigned)(left * 100 / total) : 0);
}

/* Every status but OK, those that never occurred too: a rate needs the 0
 * before the first refusal. */
static void gather_refusals(const struct router_core *r,
                            struct metric_family *f)
{
    char name[32];
    const char *const labels[] = {name};

    metric_family_clear(f);
    for (int st = ST_OK + 1; st < ST_NR; st++) {
        size_t i = 0;

        for (const char *c = status_name((enum status)st); *c != '\0'; c++) {
            name[i++] = (char)tolower((unsigned char)*c);
        }
        name[i] = '\0';
        memcpy(metric_family_add(f, labels), &r->base.refusals[st],
               sizeof r->base.refusals[st]);
    }
}

static void gather_denials(const struct router_core *r,
                           struct router_denials out[DENIED_NR])
{
    struct node_io *io = r->base.io;
    struct node_counts c = {0};

    if (io->counts != NULL) {
        io->counts(io, &c);
    }
    for (int i = 0; i < DENIED_NR; i++) {
        out[i].peers_denied = c.denied[i];
    }
}

/* Tenants have a bounded number of slots, so that names from clients cannot
 * make series without end. */
static void gather_tenants(const struct router_core *r, struct metric_family *f)
{
    metric_family_clear(f);
    for (size_t i = 0; i < METRIC_SLOTS; i++) {
        const char *name = metric_slot_name(&r->base.tenant_names, i);

        if (name != NULL) {
            memcpy(metric_family_add(f, &name), &r->base.tenants[i],
                   sizeof r->base.tenants[i]);
        }
    }
}

static void gather_worker(const struct worker *w, struct metric_family *f)
{
    for (size_t i = 0; i < FLEET_CLASSES; i++) {
        const struct class_ledger *c = &w->ledger.classes[i];
        const char *const labels[] = {w->peer->name, classes[i]};
        struct router_pools *m;

        if (i == WINDOWS && w->shard.window_pages == 0) {
            continue;
        }
        m = metric_family_add(f, labels);
        *m = (struct router_pools){.pool_size = c->total,
                                   .pool_free = c->free,
                                   .pool_held = c->held,
                                   .pool_cached = c->cached,
                                   .pool_granted = c->granted};
    }
}

static void gather_overcommit(const struct router_core *r,
                              struct metric_family *f)
{
    metric_family_clear(f);
    for (uint32_t i = 0; i < r->fleet.n_workers; i++) {
        const struct worker *w = r->fleet.workers[i];
        const char *const labels[] = {w->peer->name};
        struct router_overcommit *m = metric_family_add(f, labels);

        *m = (struct router_overcommit){
            .worker_suspended = w->ledger.n_suspended,
            .worker_greatest_pages = w->greatest,
            .worker_greatest_max = overcommit_bound(&r->schedule, w),
            .worker_host_pages = w->ledger.host_total,
            .worker_host_used = w->ledger.host_used,
            .worker_host_waiting = w->ledger.tier.waiting,
            .worker_host_kept = w->ledger.tier.kept,
            .worker_host_cached = w->ledger.tier.cached};
    }
}

static void gather_lengths(const struct router_core *r, struct metric_family *f)
{
    metric_family_clear(f);
    for (uint32_t i = 0; i < r->fleet.n_models; i++) {
        const struct model *model = r->fleet.models[i];
        const char *const labels[] = {model->name};
        struct router_lengths *m = metric_family_add(f, labels);

        *m = (struct router_lengths){
            .lengths_learned = lengths_count(model->lengths),
            .expected_permille = lengths_permille(model->lengths)};
    }
}

static void gather_drafts(const struct router_core *r, struct metric_family *f)
{
    metric_family_clear(f);
    for (uint32_t i = 0; i < r->fleet.n_models; i++) {
        const struct model *model = r->fleet.models[i];
        const char *const labels[] = {model->name};

        memcpy(metric_family_add(f, labels), &model->drafts,
               sizeof model->drafts);
    }
}

static void gather_host(const struct router_core *r, struct metric_family *f)
{
    metric_family_clear(f);
    for (uint32_t i = 0; i < r->fleet.n_models; i++) {
        const struct model *model = r->fleet.models[i];
        const char *const labels[] = {model->name};

        memcpy(metric_family_add(f, labels), &model->host, sizeof model->host);
    }
}

void counts_series(struct router_core *r, struct metric_series out[COUNTS_SETS])
{
    struct counts *c = &r->counts;

    counts_take(r, &c->metrics);
    gather_refusals(r, &c->refusals);
    gather_denials(r, c->denials);
    gather_tenants(r, &c->tenants);
    metric_family_clear(&c->pools);
    for (uint32_t i = 0; i < r->fleet.n_workers; i++) {
        gather_worker(r->fleet.workers[i], &c->pools);
    }
    gather_overcommit(r, &c->overcommit);
    gather_lengths(r, &c->lengths);
    gather_drafts(r, &c->drafts);
    gather_host(r, &c->host);
    out[0] = (struct metric_series){counts_sets[0], NULL, &c->metrics, 1};
    out[1] = (struct metric_series){counts_sets[1], NULL, &r->base.times, 1};
    (void)metric_family_series(&c->refusals, &out[2]);
    out[3] = (struct metric_series){counts_sets[3], NODE_DENIAL_LABELS,
                                    c->denials, DENIED_NR};
    (void)metric_family_series(&c->tenants, &out[4]);
    (void)metric_family_series(&c->pools, &out[5]);
    (void)metric_family_series(&c->overcommit, &out[6]);
    (void)metric_family_series(&c->lengths, &out[7]);
    (void)metric_family_series(&c->drafts, &out[8]);
    (void)metric_family_series(&c->host, &out[9]);
}
