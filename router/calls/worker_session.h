/* worker_session.h - The session of a worker, from Hello to its end, in all
 * rooms: the fleet, the replicas, the requests.
 *
 * Threading: the core's thread only.  Memory: struct worker, see
 * router/fleet/workers.h. */
#ifndef ROUTER_CALLS_WORKER_SESSION_H
#define ROUTER_CALLS_WORKER_SESSION_H

#include "router/calls/recv.h"

/* Adds the worker of p.  It becomes a place, or waits for the other stages of a
 * replica. s has been checked.  Takes over the reference to m, unless it
 * returns NULL: there is no memory. */
struct worker *worker_session_open(struct router_core *r, struct router_peer *p,
                                   struct model *m,
                                   const Sluice__V1__WorkerShard *s);

/* Decides which sequence is to blame if w has died.  Only the first call for a
 * worker has an effect. */
void worker_session_blame(struct router_core *r, struct worker *w);

/* Closes the session of *w: takes every grant back, moves or ends its
 * sequences, frees the worker and sets *w to NULL.  No-op if *w is NULL. */
void worker_session_close(struct router_core *r, struct worker **w,
                          const char *why);

#endif
