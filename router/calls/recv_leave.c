#include <inttypes.h>

#include "proto/registry.pb-c.h"
#include "router/calls/recv.h"
#include "router/router_state.h"

void recv_leave(struct router_core *r, const struct incoming *in)
{
    const Sluice__V1__LeaveRequest *m = (const void *)in->message;
    Sluice__V1__DrainReply none = SLUICE__V1__DRAIN_REPLY__INIT;

    if (m->grace_ms > GRACE_MS_MAX) {
        refuse(in, ST_INVALID_ARGUMENT,
               "grace_ms is %" PRIu32 ", at most %d is possible", m->grace_ms,
               GRACE_MS_MAX);
        return;
    }
    if (in->peer->worker == NULL) { /* it has no layers, and nothing to end */
        peer_end(in->peer->peer, in->call, &none.base);
        return;
    }
    drain_begin(r, in->peer->worker, in->peer, in->call, m->grace_ms, true);
}
