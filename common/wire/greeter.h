/* greeter.h - the side of a worker that listens: the edge from the stage
 * before it.
 *
 *     Hello {stage} --welcome?--> refused with a status
 *                        |
 *                        +------> UP --goodbye, lost, strikes, silence--> down
 *
 * One edge at a time.  A Hello that is welcome while an edge stands, on
 * another connection, says that the other end has lost that one: it ends, and
 * the newcomer is told to come again (UNAVAILABLE).  Frames of any other
 * session are answered Goodbye.  The peer of an edge is as any other: ordered,
 * acknowledged, kept alive (common/wire/keepalive.h); its Health/Check is the
 * node's to answer.
 *
 * What is not a frame is counted, as everywhere (frame_check); PEER_STRIKES
 * frames that break a rule end the edge.
 *
 * Threading: the node's.  Memory: the caller's storage, and one peer. */
#ifndef COMMON_WIRE_GREETER_H
#define COMMON_WIRE_GREETER_H

#include "common/wire/keepalive.h"
#include "common/wire/peer.h"

struct greeter_ops {
    /* May the stage at this place of this assembly come in?  Else its
     * connection is refused with the status and sentence of *e. */
    enum status (*welcome)(void *node, uint64_t assembly, uint32_t index,
                           struct error *e);
    void (*up)(void *node, struct peer *p);
    /* Before the peer is freed; why is a sentence. */
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
    const char *name; /* the worker's: borrowed */
    struct link_limits limits;

    struct peer_id id; /* of the edge */
    struct peer *peer; /* NULL: there is no edge */
    uint64_t nonce;
    struct keepalive keepalive;
    struct greeter_counts counts;
    bool busy; /* within the peer: end the edge afterwards */
    bool ending;
    char why[160];
};

/* No edge.  limits are those of the edges to come. */
void greeter_init(struct greeter *g, struct node_io *io,
                  const struct greeter_ops *ops,
                  const struct peer_ops *peer_ops, void *node,
                  struct arena *arena, const char *name,
                  const struct link_limits *limits);
/* As greeter_end(), for good. */
void greeter_fini(struct greeter *g, const char *reason);

/* Of node_ops, whatever is not of the node's own sessions. */
void greeter_recv(struct greeter *g, struct peer_id from, struct frame **f);
void greeter_lost(struct greeter *g, struct peer_id who);

/* Flush, ask a silent one; returns when next. */
int64_t greeter_tick(struct greeter *g, int64_t now_us);

/* End the edge, if there is one, with Goodbye.  Legal within the ops too: then
 * at the end of the entry that called them. */
void greeter_end(struct greeter *g, const char *reason);

#endif
