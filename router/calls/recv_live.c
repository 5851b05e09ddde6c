#include "router/calls/recv.h"
#include "router/calls/router_state.h"
#include "router/placement/adoption.h"

void recv_live(struct router_core *r, const struct incoming *in,
               const request_of_REGISTRY_LIVE *m)
{
    struct worker *w = in->peer->worker;
    struct error e;

    (void)m;
    if (adoptions_receive(&r->placement, w, m, &e) != ST_OK) {
        worker_expel(&r->fleet, w, &e);
    }
}
