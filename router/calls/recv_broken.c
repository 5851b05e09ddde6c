#include "proto/registry.pb-c.h"
#include "router/calls/recv.h"
#include "router/replicas/replica.h"

void recv_broken(struct router_core *r, const struct incoming *in)
{
    const Sluice__V1__BrokenMessage *m = (const void *)in->message;

    replica_broken(r, in->peer->worker, m->assembly, m->why);
}
