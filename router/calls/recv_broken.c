#include "proto/registry.pb-c.h"
#include "router/calls/recv.h"
#include "router/calls/router_state.h"
#include "router/replicas/replica.h"

void recv_broken(struct router_core *r, const struct incoming *in,
                 const request_of_REGISTRY_BROKEN *m)
{

    replica_broken(&r->replicas, in->peer->worker, m->assembly, m->why);
}
