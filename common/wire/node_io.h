/* node_io.h - the two sides of a pure core.
 *
 * A node (router, worker or client core) is told what happened and what time
 * it is by struct node_ops; all that it asks of the outside world goes through
 * struct node_io.  common/wire/loop.c drives it over ZeroMQ; tests/sim/ drives
 * the same object in memory, with a clock the test moves and links it cuts.
 *
 * Time is int64_t microseconds of a monotonic clock, *_us, everywhere. */
#ifndef COMMON_WIRE_NODE_IO_H
#define COMMON_WIRE_NODE_IO_H

#include <stdint.h>

#include "common/base/status.h"
#include "common/wire/frame.h"

/* One connection, in one life: the transport counts them and never uses one
 * twice.  A struct, so that no other kind of id can be passed for it. */
struct peer_id {
    uint32_t v;
};

#define NODE_STOP INT64_MIN /* from tick: the node has finished */
#define NODE_IDLE INT64_MAX /* from tick: nothing is due */

struct node_io {
    void *impl;
    int64_t (*now_us)(struct node_io *io);
    uint64_t (*random)(struct node_io *io);

    /* Queue *f for `to`.  Takes *f and sets it to NULL, even on an error.
     * Never blocks: ST_RESOURCE_EXHAUSTED if its send limit is reached (the
     * frame is lost, as a network loses it), ST_UNAVAILABLE if there is no
     * such connection.  ST_OK promises nothing.  Others may own the frame too
     * (frame_share): it is read only. */
    enum status (*send)(struct node_io *io, struct peer_id to,
                        struct frame **f);

    /* Of a node that connects (worker, client; NULL in others): begin a new
     * connection to the router and return its id.  Frames sent before it stands
     * are lost; `opened` says when it does. */
    struct peer_id (*open)(struct node_io *io);

    /* The same, to whom an endpoint names: of a worker, to the stage after
     * it.  May be NULL: a node that connects to the router alone.  Peer ids of
     * both are of one kind and never meet.  Id 0: too many such connections
     * are open; nothing more is heard of it. */
    struct peer_id (*open_to)(struct node_io *io, const char *endpoint);

    /* Drop a connection, either side.  No `lost` follows. */
    void (*close)(struct node_io *io, struct peer_id who);

    /* May be NULL: who may come in where this peer did, a set of BY_*
     * (common/wire/method.h).  A port for clients does not let workers in. */
    uint8_t (*port)(struct node_io *io, struct peer_id who);
};

/* What a loop or a simulator calls, from one thread. */
struct node_ops {
    void (*opened)(void *node, struct peer_id who);
    /* Takes *f. */
    void (*recv)(void *node, struct peer_id from, struct frame **f);
    /* The connection is gone; nothing more comes from it. */
    void (*lost)(void *node, struct peer_id who);
    /* Do all that is due at now_us and send all that is ready; returns when
     * to be called next at the latest.  Also called after every batch of the
     * others. */
    int64_t (*tick)(void *node, int64_t now_us);
};

#endif
