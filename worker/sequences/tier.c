#include "worker/sequences/tier.h"

#include "worker/sequences/sequences.h"

static uint32_t kept_pages(const struct sequences *q)
{
    uint32_t n = 0;

    if (q->table.n_away == 0) {
        return 0;
    }
    for (const struct sequence *s = q->table.all.head; s != NULL;
         s = sequence_next(s, LIST_ALL)) {
        n += kept_is_away(&s->kept) ? s->memory.n_host : 0;
    }
    return n;
}

struct tier_pages tier_pages(const struct sequences *q)
{
    struct tier_pages p = {.kept = kept_pages(q),
                           .cached = prefix_host_pages(q->reuse.index)};

    p.waiting = q->host.n_used - p.kept - p.cached;
    return p;
}

static uint64_t page_bytes(const struct sequences *q)
{
    const struct worker_options *o = &q->base->o;

    return o->pool.n_pages > 0 ? o->pool.bytes / o->pool.n_pages : 0;
}

uint64_t tier_bytes_out(const struct sequences *q)
{
    uint64_t n =
        q->base->metrics.pages_out + prefix_figures(q->reuse.index).host_out;

    return n * page_bytes(q);
}

uint64_t tier_bytes_in(const struct sequences *q)
{
    uint64_t n = q->batcher.n_back + q->reuse.n_state_pages +
                 prefix_figures(q->reuse.index).host_in;

    return n * page_bytes(q);
}

bool tier_message(const struct sequences *q, Sluice__V1__HostTier *out)
{
    const struct worker_metrics *m = &q->base->metrics;
    const uint64_t *wasted = q->batcher.n_wasted;
    struct tier_pages p;

    if (q->host.n_pages == 0 && m->suspended == 0 &&
        wasted[WASTE_SUSPENDED] + wasted[WASTE_FAILED] + wasted[WASTE_MOVED] ==
            0) {
        return false;
    }
    p = tier_pages(q);
    sluice__v1__host_tier__init(out);
    out->waiting = p.waiting;
    out->kept = p.kept;
    out->cached = p.cached;
    out->bytes_out = tier_bytes_out(q);
    out->bytes_in = tier_bytes_in(q);
    out->n_suspended = m->suspended;
    out->n_swapped = m->resumed_swap;
    out->n_recomputed = m->resumed_recompute;
    out->restored_tokens = q->reuse.n_from_host;
    out->wasted_suspended = wasted[WASTE_SUSPENDED];
    out->wasted_failed = wasted[WASTE_FAILED];
    out->wasted_moved = wasted[WASTE_MOVED];
    return true;
}
