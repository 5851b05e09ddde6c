/* peers.h - everybody who said Hello: one entry a connection.
 *
 *     (Hello) --> UP --goodbye, lost, strikes, a lie--> ended --> freed
 *
 * An entry is never flushed or freed inside a callback of its peer:
 * peers_end() marks it, peers_reap() says Goodbye and lets it go.  From the
 * mark on nothing of it is heard.
 *
 * Threading: the core's.  Memory: an entry and its peer on the heap, owned by
 * the table.  Limits: options.max_peers. */
#ifndef ROUTER_FLEET_PEERS_H
#define ROUTER_FLEET_PEERS_H

#include "common/base/table.h"
#include "common/wire/peer.h"
#include "router/base/base.h"

struct fleet;
struct offer;
struct worker;

struct router_peer {
    struct table_node by_id;
    struct list all;   /* in order of arrival */
    struct list dirty; /* to be served before this tick returns */
    struct list gone;  /* marked, to be reaped */
    struct peer_id id;
    uint64_t session, nonce;
    uint8_t role; /* BY_* */
    char name[PEER_NAME_MAX + 1];
    struct peer *peer;
    int64_t heard_us;
    struct event flush; /* at peer_due() */

    bool goodbye; /* to be said when it is let go */
    bool ended;   /* marked: nothing more of it is heard */
    char why[160];

    struct list calls;     /* struct pending: what it asked and waits for */
    struct list ready;     /* struct choice: something to send it */
    int64_t streamed_us;   /* when chunks last left */
    int64_t stream_due_us; /* when those that gather leave, or NODE_IDLE */
    struct event slow;     /* something has waited long */
    struct worker *worker; /* of a worker */
    struct offer *offer;   /* of a worker without layers */
};

/* The entry of a connection, NULL if it has none or it is marked. */
struct router_peer *peers_find(struct fleet *fleet, struct peer_id id);

/* A new session.  The caller has checked the limits. */
struct router_peer *peers_add(struct fleet *fleet, struct peer_id id,
                              uint8_t role, uint64_t nonce);

/* Sessions whose role is in the set of BY_*. */
uint32_t peers_count(const struct fleet *fleet, uint8_t roles);

/* Mark it; it is told Goodbye and why.  Idempotent. */
void peers_end(struct fleet *fleet, struct router_peer *p, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, where there is nobody to say Goodbye to. */
void peers_lose(struct fleet *fleet, struct router_peer *p, const char *why);

/* Free what is marked: calls are cancelled, grants taken back. */
void peers_reap(struct fleet *fleet);

/* Serve p before the tick returns. */
void peers_touch(struct fleet *fleet, struct router_peer *p);

#endif
