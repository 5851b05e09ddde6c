/* greeter.h - The listening end of the edge between two stages.
 *
 *     Hello {stage} --welcome?--> refused with a status
 *                        |
 *                        +------> UP --goodbye, lost, strikes, silence--> down
 *
 * A worker listens for the stage before it and has one such edge at a time. A
 * welcome Hello on another connection means that the other end has lost the
 * present edge.  That edge ends, and the newcomer is refused with UNAVAILABLE
 * and retries.  Frames of any other session are answered with Goodbye.
 *
 * The peer of an edge is an ordinary peer: ordered, acknowledged and kept
 * alive (common/wire/keepalive.h).  The node answers its Health/Check.
 * Messages that are no frames are counted (frame_check); PEER_STRIKES frames
 * that break a rule end the edge.
 *
 * Threading: the node's.  Memory: the caller's storage, and one peer. */
#ifndef COMMON_WIRE_GREETER_H
#define COMMON_WIRE_GREETER_H

#include "common/wire/keepalive.h"
#include "common/wire/peer.h"

struct greeter_ops {
    /* Decides whether the stage at this index of this assembly may connect.
     * who: what its key proves, a worker; NULL without keys.  Any status but
     * ST_OK refuses the connection, with the sentence of *e. */
    enum status (*welcome)(void *node, uint64_t assembly, uint32_t index,
                           const struct identity *who, struct error *e);
    void (*up)(void *node, struct peer *p);
    /* Called before the peer is freed; why is a sentence. */
    void (*down)(void *node, struct peer *p, const char *why);
};

struct greeter_counts {
    uint64_t malformed, foreign, refused, strikes;
};

struct greeter {
    struct node_io *io;
    const struct greeter_ops *ops;
    const struct peer_ops *peer_ops;
    void *node;
    struct arena *arena;
    const char *name; /* the worker's name, borrowed */
    struct link_limits limits;

    struct peer_id id; /* connection of the edge */
    struct peer *peer; /* NULL: there is no edge */
    uint64_t nonce;
    struct keepalive keepalive;
    struct greeter_counts counts;
    bool busy; /* inside a call of the peer: end the edge afterwards */
    bool ending;
    char why[160];
};

/* Initialises a greeter without an edge.  limits apply to later edges. */
void greeter_init(struct greeter *g, struct node_io *io,
                  const struct greeter_ops *ops,
                  const struct peer_ops *peer_ops, void *node,
                  struct arena *arena, const char *name,
                  const struct link_limits *limits);
/* Ends the edge as greeter_end(), for good. */
void greeter_fini(struct greeter *g, const char *reason);

/* Takes events of node_ops that belong to none of the node's own sessions. */
void greeter_recv(struct greeter *g, struct peer_id from, struct frame **f);
void greeter_lost(struct greeter *g, struct peer_id who);

/* Flushes, and pings a silent peer.  Returns when it must run next. */
int64_t greeter_tick(struct greeter *g, int64_t now_us);

/* Ends the edge, if there is one, with Goodbye.  May be called within the
 * ops: the edge then ends when the entry that called them returns. */
void greeter_end(struct greeter *g, const char *reason);

#endif
