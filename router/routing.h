/* routing.h - which worker a sequence goes to.  Threading: the core's. */
#ifndef ROUTER_ROUTING_H
#define ROUTER_ROUTING_H

#include "router/workers.h"

/* Among the workers of m that are up and have room for n_tokens now: the one
 * with the most free pages.  NULL: none. */
struct worker *routing_pick(struct router_core *r, struct model *m,
                            uint64_t n_tokens);

#endif
