/* routing.h - which place an entry of the queue goes to.
 *
 * Threading: the core's.  Cost: O(workers). */
#ifndef ROUTER_SCHEDULE_ROUTING_H
#define ROUTER_SCHEDULE_ROUTING_H

#include "router/schedule/schedule.h"

struct schedule;

/* Returns the place with the most free pages, of those that run e's model,
 * take a Submit now, have room for e, may try it (trial.h) and are admitted by
 * the policy; NULL if there is none. */
struct worker *routing_pick(struct schedule *s, const struct queue_entry *e);

#endif
