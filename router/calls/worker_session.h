/* worker_session.h - a worker's session, from its Hello to its end, through
 * all rooms: the fleet, the replicas, the requests.
 *
 * Threading: the core's.  Memory: the worker's, see router/fleet/workers.h. */
#ifndef ROUTER_CALLS_WORKER_SESSION_H
#define ROUTER_CALLS_WORKER_SESSION_H

#include "router/calls/recv.h"

/* Adds the worker of p, and makes it a place or lets it wait for the other
 * stages of a replica.  s is checked; m is taken over with its reference. */
struct worker *worker_session_open(struct router_core *r, struct router_peer *p,
                                   struct model *m,
                                   const Sluice__V1__WorkerShard *s);

/* Decides which sequence is to blame if w has died.  Only the first call of a
 * worker has an effect. */
void worker_session_blame(struct router_core *r, struct worker *w);

/* The session is over: takes every grant back, moves or ends what ran there,
 * frees the worker and sets *w to NULL.  No-op if *w is NULL. */
void worker_session_close(struct router_core *r, struct worker **w,
                          const char *why);

#endif
