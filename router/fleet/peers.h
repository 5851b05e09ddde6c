/* peers.h - Sessions of workers, clients and administrators: one entry per
 * connection that has sent Hello.
 *
 *     (Hello) --> UP --Goodbye, lost,-------> ended --> freed
 *                      strikes, violation
 *
 * An entry is never flushed or freed inside a callback of its peer.
 * peers_end() only marks the entry as ended; peers_reap() sends Goodbye and
 * frees it.  The router ignores all frames of an ended entry.
 *
 * Threading: the core's.  Memory: an entry and its peer on the heap, owned by
 * the table.  Limits: the places of each role (places.h). */
#ifndef ROUTER_FLEET_PEERS_H
#define ROUTER_FLEET_PEERS_H

#include "common/base/table.h"
#include "common/wire/peer.h"
#include "router/base/base.h"
#include "router/base/parts.h"

struct fleet;
struct worker;

struct router_peer {
    struct table_node by_id;
    struct list all;   /* in order of arrival */
    struct list dirty; /* linked: to be served before this tick returns */
    struct list gone;  /* linked: ended, to be freed by peers_reap() */
    struct list idle;  /* linked: no open call (places.h) */
    int64_t idle_us;   /* without an open call since then */
    struct peer_id id;
    uint64_t session, nonce;
    uint8_t role;                 /* BY_* */
    uint32_t minor;               /* minor version of the session */
    bool keyed;                   /* identity is set */
    struct identity identity;     /* the key of its connection, at its Hello */
    char name[PEER_NAME_MAX + 1]; /* from its key and its Hello */
    char lineage[PEER_NAME_MAX + 1]; /* likewise, if it is a worker */
    struct peer *peer;
    int64_t heard_us;   /* arrival of the newest frame */
    struct event flush; /* at peer_due() */

    bool goodbye;  /* peers_reap() sends Goodbye */
    bool ended;    /* frames of the entry are ignored */
    char why[160]; /* the reason of the end */

    struct list calls;     /* struct pending: open calls of the peer */
    struct worker *worker; /* the peer's worker; NULL: none */
    void *parts[PARTS];    /* parts.h */
};

/* Finds the entry of a connection.  Returns NULL if it has none or if the entry
 * has ended. */
struct router_peer *peers_find(struct fleet *fleet, struct peer_id id);

/* Adds a session with a new session number.  The caller has made a place
 * (places.h).  Returns NULL without memory. */
struct router_peer *peers_add(struct fleet *fleet, struct peer_id id,
                              uint8_t role, uint64_t nonce);

/* Marks p as ended.  peers_reap() sends it Goodbye with the formatted reason,
 * cut to 159 bytes.  A no-op if p has ended already. */
void peers_end(struct fleet *fleet, struct router_peer *p, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Marks p as ended without a Goodbye, because the connection is lost or the
 * peer has closed the session.  A no-op if p has ended already. */
void peers_lose(struct fleet *fleet, struct router_peer *p, const char *why);

/* Frees all entries that have ended: sends Goodbye where due, drops their calls
 * and reports peer_over(), which closes workers and offers. */
void peers_reap(struct fleet *fleet);

/* Marks p to be served before this tick returns. */
void peers_touch(struct fleet *fleet, struct router_peer *p);

#endif
