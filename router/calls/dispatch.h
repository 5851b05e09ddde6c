/* dispatch.h - From a frame of a peer to the handler of each call in it.
 *
 *     frame --session--> struct peer --calls, replies--> recv_*.c
 *
 * Threading: the core's. */
#ifndef ROUTER_CALLS_DISPATCH_H
#define ROUTER_CALLS_DISPATCH_H

#include "common/wire/peer.h"

struct router_core;

/* The handlers of everything that a peer sends within its session. */
extern const struct peer_ops router_peer_ops;

/* Handles a frame that came from this connection: a Hello, a frame of the
 * connection's session, or a frame of a session that is over, which is
 * answered with Goodbye.  A damaged frame is counted and dropped. */
void dispatch_frame(struct router_core *r, struct peer_id from,
                    const struct frame *f);

#endif
