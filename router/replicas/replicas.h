/* replicas.h - the state of the room of replicas: replicas of several stages,
 * and workers that wait for layers.
 *
 * Threading: the core's. */
#ifndef ROUTER_REPLICAS_REPLICAS_H
#define ROUTER_REPLICAS_REPLICAS_H

#include "router/fleet/fleet.h"
#include "router/fleet/models.h"
#include "router/fleet/peers.h"

/* Of offers.h. */
struct offers {
    struct list all;      /* struct offer, in order of arrival */
    struct list expected; /* struct expected, in order of the same */
    uint32_t n, n_expected;
    struct event look; /* now, or when the next is expected no more */
};

struct replicas {
    struct router_base *base;
    struct fleet *fleet;
    struct list all; /* struct replica in order of forming */
    struct offers offers;
};

#endif
