/* routing.h - Chooses the place for an entry of the queue.
 *
 * Threading: the core's thread only.  Memory: none.  Cost: O(workers). */
#ifndef ROUTER_SCHEDULE_ROUTING_H
#define ROUTER_SCHEDULE_ROUTING_H

#include "router/schedule/schedule.h"

/* Returns the place with the most free pages among those that run e's model,
 * accept a Submit now, have room for e, may try e (trial.h) and are admitted by
 * the policy.  Returns NULL if there is none. */
struct worker *routing_pick(struct schedule *s, const struct queue_entry *e);

#endif
