/* worker_counts.c - The worker's metrics as they are now. */
#include "common/base/metric_page.h"
#include "worker/core_state.h"
#include "worker/sequences/orphans.h"
#include "worker/sequences/tier.h"

/* The rooms below count these themselves. */
static void take_reuse(const struct sequences *q, struct worker_metrics *out)
{
    struct prefix_figures f = prefix_figures(q->reuse.index);

    out->reused_tokens = q->reuse.n_restored;
    out->reused_host_tokens = q->reuse.n_from_host;
    out->lookups = f.lookups;
    out->hits = f.hits;
    out->checkpoints_saved = q->reuse.n_saved;
    out->evicted = f.evicted;
    out->checkpoints_evicted = f.evicted_checkpoints;
    out->blocks_moved = q->batcher.n_moves;
    out->twins = q->batcher.n_twins;
    out->steps_bounded = q->batcher.room.n_bounded;
    out->steps_apart = q->batcher.room.n_apart;
    out->continued = q->batcher.n_continued;
    out->pages_in = q->batcher.n_back;
    out->cached_out = f.host_out;
    out->cached_in = f.host_in + q->reuse.n_state_pages;
    out->cached_dropped = f.host_dropped;
    out->host_bytes_out = tier_bytes_out(q);
    out->host_bytes_in = tier_bytes_in(q);
    out->wasted_suspended = q->batcher.n_wasted[WASTE_SUSPENDED];
    out->wasted_failed = q->batcher.n_wasted[WASTE_FAILED];
    out->wasted_moved = q->batcher.n_wasted[WASTE_MOVED];
}

void worker_counts(const struct worker_core *w, struct worker_metrics *out)
{
    struct node_io *io = w->base.io;
    struct node_counts c = {0};

    *out = w->base.metrics;
    if (io->counts != NULL) {
        io->counts(io, &c);
        out->connections_refused = c.refused;
        out->connections_cut = c.cut;
    }
    out->ledger_violations =
        w->sequences.pool.violations + w->sequences.host.violations;
    out->leaks = w->sequences.ledger.leaks;
    take_reuse(&w->sequences, out);
}

/* The values of all series; the labels are constant. */
struct counts {
    struct worker_metrics metrics;
    struct worker_sequences sequences;
    struct worker_costs costs;
    struct worker_pools pools[POOL_CLASSES + 1];
    struct worker_denials denials[DENIED_NR];
};

/* In the order of enum pool_class, and all together. */
static const char classes[] = "blocks\0slots\0checkpoints\0windows\0pages";

_Static_assert(POOL_BLOCKS == 0 && POOL_SLOTS == 1 && POOL_CHECKPOINTS == 2 &&
                   POOL_WINDOWS == 3 && POOL_CLASSES == 4,
               "the order of classes[]");

static const char depths[] = "1\0002\0003\0004\0005\0006\0007\0008";

_Static_assert(DRAFTS_MAX == 8, "the values of depths[]");

#define SETS 7

static void take_denials(const struct worker_core *w,
                         struct worker_denials out[DENIED_NR])
{
    struct node_io *io = w->base.io;
    struct node_counts c = {0};

    if (io->counts != NULL) {
        io->counts(io, &c);
    }
    for (int i = 0; i < DENIED_NR; i++) {
        out[i].peers_denied = c.denied[i];
    }
}

static struct worker_pools pools_of(struct pool_account a)
{
    return (struct worker_pools){.pool_size = a.total,
                                 .pool_free = a.free,
                                 .pool_held = a.held,
                                 .pool_cached = a.cached,
                                 .pool_granted = a.granted};
}

static struct worker_sequences sequences_of(const struct sequences *q)
{
    struct prefix_figures f = prefix_figures(q->reuse.index);
    struct tier_pages tier = tier_pages(q);

    return (struct worker_sequences){.sequences_live = q->table.n_live,
                                     .sequences_orphaned = orphans_count(q),
                                     .sequences_suspended =
                                         q->table.in_state[SEQUENCE_SUSPENDED],
                                     .host_pages = q->host.n_pages,
                                     .host_pages_free = host_free(&q->host),
                                     .host_pages_used = q->host.n_used,
                                     .host_pages_waiting = tier.waiting,
                                     .host_pages_kept = tier.kept,
                                     .host_pages_cached = tier.cached,
                                     .index_units = f.n_nodes,
                                     .index_checkpoints = f.n_checkpoints,
                                     .index_tenants = f.n_tenants};
}

static struct worker_costs costs_of(const struct step_room *r)
{
    struct step_cost_terms x = step_cost_terms(&r->cost);

    return (struct worker_costs){.step_cost_base = (uint64_t)(x.base * 1000),
                                 .step_cost_row = (uint64_t)(x.row * 1000),
                                 .step_cost_prompt =
                                     (uint64_t)(x.prompt * 1000),
                                 .step_prompt_room = r->n_tokens};
}

static void counts_take(const struct worker_core *w, struct counts *c,
                        struct metric_series out[SETS])
{
    const struct pool *pool = &w->sequences.pool;

    worker_counts(w, &c->metrics);
    c->sequences = sequences_of(&w->sequences);
    for (int i = 0; i < POOL_CLASSES; i++) {
        c->pools[i] = pools_of(pool_account(pool, (enum pool_class)i));
    }
    c->pools[POOL_CLASSES] = pools_of(pool_pages(pool));
    out[0] = (struct metric_series){&worker_metrics_set, NULL, &c->metrics, 1};
    out[1] = (struct metric_series){&worker_steps_set, NULL, &w->base.steps, 1};
    out[2] =
        (struct metric_series){&worker_sequences_set, NULL, &c->sequences, 1};
    out[3] = (struct metric_series){&worker_pools_set, classes, c->pools,
                                    POOL_CLASSES + 1};
    take_denials(w, c->denials);
    out[4] = (struct metric_series){&worker_denials_set, NODE_DENIAL_LABELS,
                                    c->denials, DENIED_NR};
    out[5] = (struct metric_series){&worker_drafts_set, depths, w->base.drafts,
                                    DRAFTS_MAX};
    c->costs = costs_of(&w->sequences.batcher.room);
    out[6] = (struct metric_series){&worker_costs_set, NULL, &c->costs, 1};
}

void worker_page(const struct worker_core *w, struct metric_page *page)
{
    struct metric_series s[SETS];
    struct counts c;

    counts_take(w, &c, s);
    for (size_t i = 0; i < SETS; i++) {
        metric_page_add(page, &s[i]);
    }
}

void worker_log_metrics(const struct worker_core *w)
{
    struct metric_series s[SETS];
    struct counts c;

    counts_take(w, &c, s);
    for (size_t i = 0; i < SETS; i++) {
        metric_log("counted", &s[i]);
    }
}
