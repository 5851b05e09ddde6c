#include "proto/health.pb-c.h"
#include "router/calls/recv.h"
#include "router/calls/router_state.h"
#include "router/replicas/place.h"

/* Healthy means able to serve: a place is up that does not drain. */
void recv_health(struct router_core *r, const struct incoming *in,
                 const request_of_HEALTH_CHECK *none)
{
    Sluice__V1__HealthReply m = SLUICE__V1__HEALTH_REPLY__INIT;
    bool up = false;

    (void)none;
    for (uint32_t i = 0; i < r->fleet.n_workers; i++) {
        const struct worker *w = r->fleet.workers[i];
        up = up || (worker_can_serve(w) && place_state(w) <= WORKER_SLOW &&
                    !place_drained(w));
    }
    m.serving = up && !r->base.stopping;
    m.has_text = true;
    m.text = wire_text(m.serving ? "serving" : "no worker is up");
    peer_end(in->peer->peer, in->call, &m.base);
}
