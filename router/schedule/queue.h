/* queue.h - what waits for room: one queue a model.
 *
 * queue_run() goes through a model's queue in the policy's
 * order (router/schedule/policy.h) and asks for a grant where the policy finds
 * a place; the room above sends it and takes the entry out of the queue.
 *
 *     queue_add(), queue_return() --> waiting --queue_run(): grant--> granted
 *                                        |
 *                                        +--queue_remove()--> out
 *
 * Threading: the core's.  Memory: inside choices; no call allocates. */
#ifndef ROUTER_SCHEDULE_QUEUE_H
#define ROUTER_SCHEDULE_QUEUE_H

#include "router/schedule/schedule.h"

/* Adds a new entry; and one that was in the queue before. */
void queue_add(struct schedule *s, struct queue_entry *e);
void queue_return(struct schedule *s, struct queue_entry *e);

/* Takes e out of its queue.  Idempotent. */
void queue_remove(struct schedule *s, struct queue_entry *e);

/* Grants what can be granted now of what waits for m, in the policy's
 * order. */
void queue_run(struct schedule *s, struct model *m);

#endif
