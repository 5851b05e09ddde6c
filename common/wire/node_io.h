/* node_io.h - The two sides of a pure core.
 *
 * A node is a router, worker or client core.  struct node_ops gives it events
 * and the time; struct node_io carries everything that it asks of the outside
 * world.  common/wire/loop.c drives a node over ZeroMQ.  tests/sim/ drives
 * the same object in memory, with its own clock and links that it can cut.
 *
 * Time is int64_t microseconds of a monotonic clock, *_us, everywhere. */
#ifndef COMMON_WIRE_NODE_IO_H
#define COMMON_WIRE_NODE_IO_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/wire/frame.h"
#include "proto/limits.h"

/* One connection.  The transport counts connections and never reuses a
 * number.  It is a struct, so that no other kind of id can be passed for it. */
struct peer_id {
    uint32_t v;
};

#define NODE_STOP INT64_MIN /* returned by tick: the node has finished */
#define NODE_IDLE INT64_MAX /* returned by tick: nothing is due */

#define KEY_BYTES 32 /* a CURVE public key */

/* Proof of a connection's key. */
struct identity {
    char name[KEY_NAME_MAX + 1];
    uint8_t roles; /* a set of BY_* (common/wire/method.h) */
    uint8_t key[KEY_BYTES];
};

/* Why a port with keys denied a peer: X(name, value of a label) */
#define NODE_DENIALS(X)                                                  \
    X(NO_KEY, "no_key")           /* the peer does not begin CURVE */    \
    X(UNKNOWN_KEY, "unknown_key") /* its key is not trusted */           \
    X(WRONG_ROLE, "wrong_role")   /* its key has no role for the port */ \
    X(HANDSHAKE, "handshake")     /* not finished: a wrong key of the    \
                                   * router, forged, replayed, late */   \
    X(TOO_MANY, "too_many")       /* unfinished handshakes */

enum node_denial {
#define X(name, label) DENIED_##name,
    NODE_DENIALS(X)
#undef X
        DENIED_NR
};

/* The values of the label, each ended by a NUL. */
#define NODE_DENIAL_LABEL(name, label) label "\0"
#define NODE_DENIAL_LABELS             NODE_DENIALS(NODE_DENIAL_LABEL)

/* Connections of the listening ports, since the start. */
struct node_counts {
    uint64_t accepted, refused; /* refused: too many, or too fast */
    uint64_t cut;               /* ended because the peer broke a rule */
    uint64_t denied[DENIED_NR];
};

struct node_io {
    void *impl;
    int64_t (*now_us)(struct node_io *io);
    uint64_t (*random)(struct node_io *io);

    /* Queues *f for `to`.  Takes *f and sets it to NULL, even on an error.
     * Never blocks.  Returns ST_RESOURCE_EXHAUSTED at the send limit (the
     * frame is lost, as in a network) and ST_UNAVAILABLE if there is no such
     * connection. ST_OK does not promise delivery.  The frame may have other
     * owners (frame_share) and is read-only. */
    enum status (*send)(struct node_io *io, struct peer_id to,
                        struct frame **f);

    /* Begins a new connection to the router and returns its id; for nodes
     * that connect (worker, client), NULL in others.  Frames sent before
     * `opened` are lost. */
    struct peer_id (*open)(struct node_io *io);

    /* Begins a connection to an endpoint: a worker's to the stage after it.
     * key: the public key of the peer there, [KEY_BYTES], or NULL without keys.
     * NULL for a node that connects only to the router.  Ids share one count
     * with those of open().  Id 0: too many such connections are open, and no
     * event follows. */
    struct peer_id (*open_to)(struct node_io *io, const char *endpoint,
                              const uint8_t *key);

    /* Drops a connection, from either side.  No `lost` follows. */
    void (*close)(struct node_io *io, struct peer_id who);

    /* Returns who may connect at the port of this peer, a set of BY_*
     * (common/wire/method.h).  A port for clients does not accept workers.
     * May be NULL. */
    uint8_t (*port)(struct node_io *io, struct peer_id who);

    /* Returns whom the key of a connection proves, accepted or dialled, from
     * `opened` or its first frame on; valid until this node's next event.
     * Returns NULL for a connection without a key: of this machine, to a node
     * without keys.  May be NULL: there are no keys. */
    const struct identity *(*identity)(struct node_io *io, struct peer_id who);

    /* Allows an accepted connection frames with tensors.  Before, a frame of
     * that length ends its connection.  May be NULL. */
    void (*trust)(struct node_io *io, struct peer_id who);

    /* Writes the address of this machine on the way to the router, as
     * endpoint_join() takes it.  Returns false if there is no way.  NULL for a
     * node that is not dialled by others. */
    bool (*local)(struct node_io *io, char out[ENDPOINT_MAX]);

    /* Returns counts for metrics.  May be NULL: there are none. */
    void (*counts)(struct node_io *io, struct node_counts *out);
};

/* Entry points of a node, called by a loop or a simulator from one thread. */
struct node_ops {
    void (*opened)(void *node, struct peer_id who);
    /* Receives a frame; takes *f. */
    void (*recv)(void *node, struct peer_id from, struct frame **f);
    /* The connection is gone; no more frames come from it. */
    void (*lost)(void *node, struct peer_id who);
    /* Does all that is due at now_us and sends all that is ready.  Returns
     * the latest time of the next call.  Also called after every batch of the
     * other entry points. */
    int64_t (*tick)(void *node, int64_t now_us);
};

#endif
