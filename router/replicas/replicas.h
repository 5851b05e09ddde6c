/* replicas.h - State of the room of replicas: replicas of several stages, and
 * workers that wait for layers.
 *
 * Threading: the core's.  Memory: inside struct router_core; entries on the
 * heap.  Limits: OFFERS_MAX offers, EXPECTED_MAX expected shards. */
#ifndef ROUTER_REPLICAS_REPLICAS_H
#define ROUTER_REPLICAS_REPLICAS_H

#include "router/fleet/fleet.h"
#include "router/fleet/models.h"
#include "router/fleet/peers.h"

/* Workers without layers and shards expected; offers.h has the rules. */
struct offers {
    struct list all;      /* struct offer, in order of arrival */
    struct list expected; /* struct expected, oldest first */
    uint32_t n, n_expected;
    struct event deal; /* when layers are dealt again */
};

struct replicas {
    struct router_base *base;
    struct fleet *fleet;
    struct list all; /* struct replica, in order of forming */
    struct offers offers;
};

#endif
