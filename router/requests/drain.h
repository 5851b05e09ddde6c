/* drain.h - a worker is to be left alone: nothing new is granted to it, and
 * what it has ends there within a grace, or goes on elsewhere.
 *
 *     OPEN --Drain, Leave--> draining --grace is over--> moving
 *      ^                        |                          |
 *      +------- Undrain --------+------ nothing left ------+--> drained
 *
 * This is beside the state of the worker (workers.h): one that drains may be
 * silent, or lost.  It lasts until Undrain or until the session ends; whoever
 * asked for it may go before.  Of several Drains the earliest end of grace
 * counts.
 *
 * What moves is let go by its worker first (Cancel{CANCEL_MOVED}) and goes to
 * its place in the queue with that receipt, so that a sequence never runs
 * twice, its worker is done with it when it is counted, and what the step
 * under way makes is not lost.  A worker that is lost meanwhile gives it up as
 * any lost worker does.  Moving costs a sequence none of its IDLE_MOVES_MAX.
 *
 * What no other worker could hold stays to its end, whatever the grace: there
 * is nowhere to move it.  From a worker that leaves it is moved all the same:
 * with no other worker of the model it waits for one (models.h), and where
 * there are others and none can ever hold it, it fails and says so.
 * What is kept is kept until the end of the grace.  What is ending has a
 * receipt under way, which is waited for.
 *
 * One that is a stage drains its replica (replica.h): the others keep what they
 * are in this, and may be drained too.  The replica is open when none of them
 * drains; Undrain of any one opens it.
 *
 * Threading: the core's.  Memory: a call on the heap each, DRAIN_CALLS_MAX a
 * worker. */
#ifndef ROUTER_REQUESTS_DRAIN_H
#define ROUTER_REQUESTS_DRAIN_H

#include "router/fleet/pending.h"
#include "router/fleet/workers.h"

struct requests;
struct worker;
struct model;

/* The drain state of a new worker. */
void drain_init(struct requests *r, struct drain *d);

/* Drain w, or go on with it; the call of p waits for the end.  leaving: p is
 * the worker itself. */
void drain_begin(struct requests *r, struct worker *w, struct router_peer *p,
                 uint64_t call, uint32_t grace_ms, bool leaving);

/* Undrain, of w and of all that is one place with it: its calls end ABORTED.
 * What leaves goes on leaving. */
void drain_end(struct requests *r, struct worker *w);

/* w's session is over and its sequences are gone from it: calls are answered,
 * or ended, if the router stops. */
void drain_close(struct requests *r, struct worker *w);

/* m has a worker more: what had nowhere to go may have now. */
void drains_look(struct requests *r, const struct model *m);

/* What ListWorkers calls it; NULL: its place is not drained. */
const char *drain_name(const struct worker *w);

#endif
