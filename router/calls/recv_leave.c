#include <inttypes.h>

#include "proto/registry.pb-c.h"
#include "router/calls/recv.h"
#include "router/calls/router_state.h"
#include "router/placement/drain.h"

void recv_leave(struct router_core *r, const struct incoming *in,
                const request_of_REGISTRY_LEAVE *m)
{
    Sluice__V1__DrainReply none = SLUICE__V1__DRAIN_REPLY__INIT;

    if (m->grace_ms > GRACE_MS_MAX) {
        refuse(in, ST_INVALID_ARGUMENT,
               "grace_ms is %" PRIu32 ", at most %d is allowed", m->grace_ms,
               GRACE_MS_MAX);
        return;
    }
    if (in->peer->worker == NULL) { /* no layers, nothing to drain */
        peer_end(in->peer->peer, in->call, &none.base);
        return;
    }
    drain_begin(&r->placement, in->peer->worker, in->peer, in->call,
                m->grace_ms, true);
}
