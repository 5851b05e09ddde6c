#include "router/fleet/fleet.h"

#include "router/fleet/places.h"

void fleet_init(struct fleet *fleet, struct router_base *b,
                const struct fleet_events *events,
                const struct peer_ops *peer_ops, void *above)
{
    fleet->base = b;
    fleet->events = events;
    fleet->peer_ops = peer_ops;
    fleet->above = above;
    table_init(&fleet->peers, b->options.max_peers);
    places_init(fleet);
    table_init(&fleet->calls, b->options.max_requests);
    list_init(&fleet->all_peers);
    list_init(&fleet->dirty_peers);
    list_init(&fleet->gone_peers);
    list_init(&fleet->dirty_models);
}

void fleet_fini(struct fleet *fleet)
{
    table_fini(&fleet->peers);
    table_fini(&fleet->calls);
}
