#include <inttypes.h>

#include "proto/registry.pb-c.h"
#include "router/recv.h"
#include "router/router.h"

void recv_leave(struct router_core *r, const struct incoming *in)
{
    const Sluice__V1__LeaveRequest *m = (const void *)in->message;

    if (m->grace_ms > GRACE_MS_MAX) {
        refuse(in, ST_INVALID_ARGUMENT,
               "grace_ms is %" PRIu32 ", at most %d is possible", m->grace_ms,
               GRACE_MS_MAX);
        return;
    }
    drain_begin(r, in->peer->worker, in->peer, in->call, m->grace_ms, true);
}
