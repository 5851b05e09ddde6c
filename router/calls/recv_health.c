#include "proto/health.pb-c.h"
#include "router/calls/recv.h"
#include "router/replicas/place.h"
#include "router/router_state.h"

/* It serves if a worker is there to serve with. */
void recv_health(struct router_core *r, const struct incoming *in)
{
    Sluice__V1__HealthReply m = SLUICE__V1__HEALTH_REPLY__INIT;
    bool up = false;

    for (uint32_t i = 0; i < r->n_workers; i++) {
        const struct worker *w = r->workers[i];
        up = up || (worker_can_serve(w) && place_state(w) <= WORKER_SLOW &&
                    !place_drained(w));
    }
    m.serving = up && !r->stopping;
    m.has_text = true;
    m.text = wire_text(m.serving ? "serving" : "no worker is up");
    peer_end(in->peer->peer, in->call, &m.base);
}
