/* keepalive.h - does anything still come from the other end?
 *
 * A connection that is open at one end only is noticed: who listens and has
 * had no frame for SESSION_QUIET_US asks whether the peer is there (peer_ping);
 * with no frame for SESSION_SILENT_US it is silent for good.  Only a silence in
 * which the question was open for the rest of the time counts, so a node that
 * was itself stopped hears first what has come meanwhile.
 *
 * Threading: the node's.  Memory: the caller's storage; all zero: begin. */
#ifndef COMMON_WIRE_KEEPALIVE_H
#define COMMON_WIRE_KEEPALIVE_H

#include "common/wire/peer.h"

#define SESSION_QUIET_US  500000
#define SESSION_SILENT_US 1500000

struct keepalive {
    bool listening;   /* as the last keepalive_silent() was told */
    int64_t heard_us; /* the last frame, or when it began to listen */
    int64_t asked_us; /* since then; 0: not yet */
};

/* A frame of the session came. */
void keepalive_heard(struct keepalive *k, int64_t now_us);

/* Is p silent for good?  Asks, if it is time to.  While the node does not
 * listen nobody is silent. */
bool keepalive_silent(struct keepalive *k, struct peer *p, bool listens,
                      int64_t now_us);

/* When keepalive_silent() is next needed. */
int64_t keepalive_due(const struct keepalive *k);

#endif
