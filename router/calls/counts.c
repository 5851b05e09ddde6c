#include "router/calls/counts.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "router/calls/router_state.h"
#include "router/fleet/lineage.h"
#include "router/fleet/places.h"
#include "router/placement/drain.h"
#include "router/replicas/replica.h"
#include "router/schedule/claims.h"
#include "router/schedule/forecast.h"
#include "router/schedule/lengths.h"

const struct metric_set *const counts_sets[COUNTS_SETS] = {
    &router_metrics_set, &router_times_set,    &router_models_set,
    &router_workers_set, &router_refusals_set, &router_denials_set,
    &router_tenants_set, &router_pools_set,    &router_growth_set,
    &router_lengths_set, &router_drafts_set,   &router_host_set};

static const char *const classes[FLEET_CLASSES] = {
    [BLOCKS] = "blocks",   [SLOTS] = "slots", [CHECKPOINTS] = "checkpoints",
    [WINDOWS] = "windows", [PAGES] = "pages",
};

void counts_init(struct counts *c)
{
    metric_family_init(&c->models, &router_models_set);
    metric_family_init(&c->workers, &router_workers_set);
    metric_family_init(&c->refusals, &router_refusals_set);
    metric_family_init(&c->tenants, &router_tenants_set);
    metric_family_init(&c->pools, &router_pools_set);
    metric_family_init(&c->growth, &router_growth_set);
    metric_family_init(&c->lengths, &router_lengths_set);
    metric_family_init(&c->drafts, &router_drafts_set);
    metric_family_init(&c->host, &router_host_set);
}

void counts_fini(struct counts *c)
{
    metric_family_fini(&c->models);
    metric_family_fini(&c->workers);
    metric_family_fini(&c->refusals);
    metric_family_fini(&c->tenants);
    metric_family_fini(&c->pools);
    metric_family_fini(&c->growth);
    metric_family_fini(&c->lengths);
    metric_family_fini(&c->drafts);
    metric_family_fini(&c->host);
}

static uint32_t n_served(const struct router_core *r)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->fleet.n_models; i++) {
        n += r->fleet.models[i]->n_places > 0;
    }
    return n;
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
    out->request_bytes = r->base.memory.used;
    out->request_bytes_max = r->base.memory.max;
    out->models_served = n_served(r);
    out->clients = places_count(&r->fleet, BY_CLIENT);
    out->admins = places_count(&r->fleet, BY_ADMIN);
}

static bool is_in_place(const struct worker *w)
{
    const struct worker *leader = worker_stage(w, 0);

    return leader != NULL && worker_can_serve(leader);
}

/* Stages that wait for others have no room.  Cached pages count as left: a
 * worker evicts them when they are needed. */
static void add_pages(const struct router_core *r, uint64_t *total,
                      uint64_t *left)
{
    for (uint32_t i = 0; i < r->fleet.n_workers; i++) {
        const struct class_ledger *c =
            &r->fleet.workers[i]->ledger.classes[PAGES];

        if (is_in_place(r->fleet.workers[i])) {
            *total += c->total;
            *left += (uint64_t)c->free + c->cached;
        }
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
    if (n_served(r) == 0) {
        snprintf(text, cap, "%u worker%s, no model served, %u waiting",
                 r->fleet.n_workers, r->fleet.n_workers == 1 ? "" : "s",
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

struct lower_name {
    char text[32];
};

static struct lower_name lower(const char *name)
{
    struct lower_name out = {""};

    for (size_t i = 0; name[i] != '\0' && i + 1 < sizeof out.text; i++) {
        out.text[i] = (char)tolower((unsigned char)name[i]);
    }
    return out;
}

/* Returns the name of a model's slot that has series; NULL: it has none.  A
 * model without a name does not exist, so "default" has series only if a model
 * has that name. */
static const char *slot_name(const struct router_base *b, size_t slot)
{
    return slot == METRIC_DEFAULT && b->models[slot].model_requests == 0 &&
                   b->models[slot].model_places_expected == 0
               ? NULL
               : metric_slot_name(&b->model_names, slot);
}

/* The counters outlive struct model, which goes with the last worker; the
 * gauges of a model without a worker are 0. */
static void gather_models(struct router_core *r, struct metric_family *f)
{
    struct router_base *b = &r->base;

    for (size_t i = 0; i < METRIC_SLOTS; i++) {
        b->models[i].model_waiting = b->models[i].model_running = 0;
        b->models[i].model_places = 0;
    }
    for (uint32_t i = 0; i < r->fleet.n_models; i++) {
        const struct model *m = r->fleet.models[i];

        model_figures(b, m)->model_waiting += m->n_waiting;
        model_figures(b, m)->model_places += m->n_places;
    }
    for (uint32_t i = 0; i < r->fleet.n_workers; i++) {
        const struct worker *w = r->fleet.workers[i];

        model_figures(b, w->model)->model_running +=
            member_of(w)->stage == 0 ? w->n_running : 0; /* once each */
    }
    metric_family_clear(f);
    for (size_t i = 0; i < METRIC_SLOTS; i++) {
        const char *name = slot_name(b, i);

        if (name != NULL) {
            memcpy(metric_family_add(f, &name), &b->models[i],
                   sizeof b->models[i]);
        }
    }
}

static void gather_workers(const struct router_core *r, struct metric_family *f)
{
    metric_family_clear(f);
    for (uint32_t i = 0; i < r->fleet.n_workers; i++) {
        const struct worker *w = r->fleet.workers[i];
        const char *const labels[] = {w->peer->name, w->model->name};
        struct router_workers *m = metric_family_add(f, labels);

        *m =
            (struct router_workers){.worker_up = w->state == WORKER_UP,
                                    .worker_slow = w->state == WORKER_SLOW,
                                    .worker_silent = w->state == WORKER_SILENT,
                                    .worker_draining = drain_name(w) != NULL,
                                    .worker_on_probation = lineage_probation(w),
                                    .worker_serves = is_in_place(w),
                                    .worker_sequences = w->n_running};
    }
}

/* Every status but OK, those that never occurred too: a rate needs the 0
 * before the first refusal. */
static void gather_refusals(const struct router_core *r,
                            struct metric_family *f)
{
    metric_family_clear(f);
    for (size_t slot = 0; slot < METRIC_SLOTS; slot++) {
        const char *model = slot_name(&r->base, slot);

        for (int st = ST_OK + 1; st < ST_NR && model != NULL; st++) {
            struct lower_name name = lower(status_name((enum status)st));
            const char *const labels[] = {model, name.text};

            memcpy(metric_family_add(f, labels), &r->base.refusals[slot][st],
                   sizeof r->base.refusals[slot][st]);
        }
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

static void gather_pool(const struct worker *w, struct metric_family *f)
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

static void gather_growth(const struct router_core *r, struct metric_family *f)
{
    metric_family_clear(f);
    for (uint32_t i = 0; i < r->fleet.n_workers; i++) {
        const struct worker *w = r->fleet.workers[i];
        const char *const labels[] = {w->peer->name};
        struct router_growth *m = metric_family_add(f, labels);

        *m = (struct router_growth){
            .worker_suspended = w->ledger.n_suspended,
            .worker_greatest_pages = charges_of(w)->greatest,
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
            .lengths_learned = lengths_count(lengths_of(model)),
            .expected_tokens =
                lengths_expect(lengths_of(model), 0, LENGTHS_MOST),
            .forecast_margin =
                scheduling_of(model)->margin * (uint64_t)1000 / FORECAST_ONE};
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
    gather_models(r, &c->models);
    gather_workers(r, &c->workers);
    gather_refusals(r, &c->refusals);
    gather_denials(r, c->denials);
    gather_tenants(r, &c->tenants);
    metric_family_clear(&c->pools);
    for (uint32_t i = 0; i < r->fleet.n_workers; i++) {
        if (is_in_place(r->fleet.workers[i])) {
            gather_pool(r->fleet.workers[i], &c->pools);
        }
    }
    gather_growth(r, &c->growth);
    gather_lengths(r, &c->lengths);
    gather_drafts(r, &c->drafts);
    gather_host(r, &c->host);
    out[0] = (struct metric_series){counts_sets[0], NULL, &c->metrics, 1};
    out[1] = (struct metric_series){counts_sets[1], NULL, &r->base.times, 1};
    (void)metric_family_series(&c->models, &out[2]);
    (void)metric_family_series(&c->workers, &out[3]);
    (void)metric_family_series(&c->refusals, &out[4]);
    out[5] = (struct metric_series){counts_sets[5], NODE_DENIAL_LABELS,
                                    c->denials, DENIED_NR};
    (void)metric_family_series(&c->tenants, &out[6]);
    (void)metric_family_series(&c->pools, &out[7]);
    (void)metric_family_series(&c->growth, &out[8]);
    (void)metric_family_series(&c->lengths, &out[9]);
    (void)metric_family_series(&c->drafts, &out[10]);
    (void)metric_family_series(&c->host, &out[11]);
}
