/* keepalive.h - Detection of a connection that is open at one end only.
 *
 * A node that expects frames and has received none for SESSION_QUIET_US pings
 * the peer (peer_ping).  After SESSION_SILENT_US without a frame the peer
 * counts as lost.  Only silence during which the ping was open for the rest
 * of the time counts.  A node that was itself stopped therefore first reads
 * the frames that arrived meanwhile.
 *
 * Threading: the node's.  Memory: the caller's storage; zero it to begin. */
#ifndef COMMON_WIRE_KEEPALIVE_H
#define COMMON_WIRE_KEEPALIVE_H

#include "common/wire/peer.h"

#define SESSION_QUIET_US  500000
#define SESSION_SILENT_US 1500000

struct keepalive {
    bool listening;   /* as in the last keepalive_silent() */
    int64_t heard_us; /* time of the last frame, or when listening began */
    int64_t asked_us; /* time of the ping since then; 0: none yet */
};

/* Records a frame of the session. */
void keepalive_heard(struct keepalive *k, int64_t now_us);

/* Returns whether p is lost.  Sends a ping when one is due.  While the node
 * does not listen, no peer is silent. */
bool keepalive_silent(struct keepalive *k, struct peer *p, bool listens,
                      int64_t now_us);

/* Returns when keepalive_silent() must be called next. */
int64_t keepalive_due(const struct keepalive *k);

#endif
