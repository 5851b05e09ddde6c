#include "router/calls/recv.h"
#include "router/calls/router_state.h"

void recv_index(struct router_core *r, const struct incoming *in,
                const request_of_REGISTRY_INDEX *m)
{
    struct worker *w = in->peer->worker;
    struct error e;

    if (prefix_feed_receive(&r->placement, w, m, &e) != ST_OK) {
        worker_expel(&r->fleet, w, &e);
    }
}
