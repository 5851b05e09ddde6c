/* routing.h - which worker a sequence goes to.  Threading: the core's. */
#ifndef ROUTER_SCHEDULE_ROUTING_H
#define ROUTER_SCHEDULE_ROUTING_H

#include "router/fleet/workers.h"

/* Among the workers of its model that are up, have room for choice now, with
 * what must stay free (headroom.h), and may try it: the one with the most free
 * pages.  NULL: none. */
struct worker *routing_pick(struct router_core *r, const struct choice *choice);

#endif
