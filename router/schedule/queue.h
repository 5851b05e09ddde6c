/* queue.h - The queues of sequences that wait for room, one for each model.
 *
 * queue_run() walks the queue of a model in the policy's order
 * (router/schedule/policy.h).  Where the policy finds a place, it asks the room
 * above for a grant by an event; that room sends the Submit and removes the
 * entry from the queue.
 *
 *     queue_add(), queue_return() --> waiting --queue_run(): grant--> granted
 *                                        |
 *                                        +--queue_remove()--> out
 *
 * Threading: the core's thread only.  Memory: entries are part of choices; no
 * call allocates. */
#ifndef ROUTER_SCHEDULE_QUEUE_H
#define ROUTER_SCHEDULE_QUEUE_H

#include "router/schedule/schedule.h"

/* Adds a new entry, or returns one that was in the queue before to its old
 * position. */
void queue_add(struct schedule *s, struct queue_entry *e);
void queue_return(struct schedule *s, struct queue_entry *e);

/* Removes e from its queue.  Idempotent. */
void queue_remove(struct schedule *s, struct queue_entry *e);

/* Grants every waiting entry of m that has a place now, in the policy's
 * order. */
void queue_run(struct schedule *s, struct model *m);

#endif
