#include "router/placement/placement.h"

void placement_init(struct placement *x, struct fleet *fleet,
                    struct replicas *replicas,
                    const struct placement_events *events, void *above)
{
    x->base = fleet->base;
    x->fleet = fleet;
    x->replicas = replicas;
    x->events = events;
    x->above = above;
    fleet->worker_parts.of[PART_PLACEMENT] = sizeof(struct worker_placement);
    fleet->model_parts.of[PART_PLACEMENT] = sizeof(struct deaths);
    prefix_feeds_init(&x->feeds, fleet->base->io);
}

void placement_fini(struct placement *x)
{
    prefix_feeds_fini(&x->feeds);
}

void placement_open(struct placement *x, struct worker *w, uint32_t n_orphans)
{
    struct worker_placement *p = placement_of(w);

    p->worker = w;
    drain_init(x, &p->drain);
    adoptions_open(x, w, n_orphans);
    prefix_feed_init(&p->feed);
}
