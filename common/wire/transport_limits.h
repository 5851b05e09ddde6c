/* transport_limits.h - Limits and counts of a transport.
 *
 * Threading: constant data.  Memory: none. */
#ifndef COMMON_WIRE_TRANSPORT_LIMITS_H
#define COMMON_WIRE_TRANSPORT_LIMITS_H

#include <stdint.h>

#define TRANSPORT_LISTEN_MAX   4
#define TRANSPORT_DIAL_MAX     4  /* outgoing, the router's too */
#define TRANSPORT_SESSIONS_MAX 32 /* connections to one router */
#define TRANSPORT_PORTS \
    (TRANSPORT_LISTEN_MAX + TRANSPORT_DIAL_MAX + TRANSPORT_SESSIONS_MAX)
#define TRANSPORT_OWN_ITEMS        2 /* beside those of the ports */
#define TRANSPORT_ITEMS            (2 * TRANSPORT_PORTS + TRANSPORT_OWN_ITEMS)
#define TRANSPORT_HWM              64
#define TRANSPORT_LINGER_MS        1000
#define TRANSPORT_HANDSHAKE_MS     2000
#define TRANSPORT_BACKLOG          1024
#define TRANSPORT_BUDGET           64 /* messages per socket and turn */
#define TRANSPORT_UNRESOLVED_LINES 4  /* in the log, a second */
/* ZMTP heartbeats of the connecting end find dead hosts where no core listens,
 * such as the host of an idle client.  A live host with a stuck program is left
 * to the cores, and a node that waits finds out sooner (common/wire/session.h).
 * ZMQ_TCP_MAXRT would add nothing: data for a dead host is bounded, and is
 * dropped with the socket TRANSPORT_LINGER_MS after the core has given the
 * connection up. */
#define TRANSPORT_BEAT_MS         1000
#define TRANSPORT_BEAT_TIMEOUT_MS 3000
/* With keys there are no heartbeats of ZMTP, but TCP's own in both directions.
 * A listening end drops a peer that acknowledges nothing for this time. */
#define TRANSPORT_DEAD_MS         10000
#define TRANSPORT_UNDIALLED_LINES 1 /* a second */

struct transport_counts {
    uint64_t received, sent, no_room, unreachable;
    uint64_t malformed; /* messages that are no valid frame */
    uint32_t peers;     /* peers connected now */
};

#endif
