/* transport.h - node_io over ZeroMQ.
 *
 * Listening (router; worker, for the stage before it): one ROUTER socket an
 * endpoint.  Connecting (worker, client): one DEALER for the connection to the
 * router and for each to a stage, and a new one for every node_io open() and
 * open_to(): a connection that broke takes its queue with it, so nothing old
 * reaches a new session.  One transport does both, with one count of peer ids.
 *
 * A peer is one connection.  A ROUTER knows it by a routing id that libzmq
 * made; the monitor knows its file descriptor; ZMQ_SRCFD of what it sends
 * joins the two, so a DISCONNECTED event ends the right peer at once
 * (transport_listen() proves on a pair of its own that they agree).
 *
 * What a message may be: the routing id and one frame of at most
 * FRAME_BYTES_MAX, and where tensors may come (a port that says so, what
 * open_to() opened) FRAME_TENSOR_MAX more.  A longer one ends its connection
 * (ZMQ_MAXMSGSIZE), all else is counted and dropped.  Sends never block:
 * mandatory routing, TRANSPORT_HWM frames a peer, EAGAIN is
 * ST_RESOURCE_EXHAUSTED.
 *
 * Threading: everything by one thread, which runs the loop.  Memory: a frame
 * is copied out of ZeroMQ's, and into it up to PORT_COPIED_BYTES; a longer one
 * is given to it as it is.  Limits: below. */
#ifndef COMMON_WIRE_TRANSPORT_H
#define COMMON_WIRE_TRANSPORT_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/wire/node_io.h"

#define TRANSPORT_LISTEN_MAX   4
#define TRANSPORT_DIAL_MAX     4 /* connections from here, the router's with */
#define TRANSPORT_PORTS        (TRANSPORT_LISTEN_MAX + TRANSPORT_DIAL_MAX)
#define TRANSPORT_ITEMS        (2 * TRANSPORT_PORTS)
#define TRANSPORT_HWM          64
#define TRANSPORT_LINGER_MS    1000
#define TRANSPORT_HANDSHAKE_MS 2000
#define TRANSPORT_BACKLOG      1024
#define TRANSPORT_BUDGET       64 /* messages a socket, a turn */
/* ZMTP heartbeats find dead hosts where no core listens, such as an idle
 * client's; a live host with a stuck program is the cores' matter, and whoever
 * waits for something knows sooner (common/wire/session.h).  ZMQ_TCP_MAXRT
 * would add nothing: what waits for a dead host is bounded, and gone with the
 * socket TRANSPORT_LINGER_MS after the core has given it up. */
#define TRANSPORT_BEAT_MS         1000
#define TRANSPORT_BEAT_TIMEOUT_MS 3000

struct transport;

struct transport_port {
    const char *endpoint; /* tcp://127.0.0.1:7070, tcp://[::1]:0, ipc://path */
    uint8_t allowed;      /* set of BY_* */
    bool tensors;         /* frames with one may come */
};

/* Bind n <= TRANSPORT_LISTEN_MAX ports (as transport_listen), and connect to
 * `router` (as transport_connect) unless that is NULL; one of the two at
 * least.  What connects has open(), and open_to() for TRANSPORT_DIAL_MAX - 1
 * others at once. */
MUST_CHECK enum status transport_new(struct transport **out, const char *router,
                                     const struct transport_port *ports,
                                     unsigned n, struct error *e);

/* Bind n <= TRANSPORT_LISTEN_MAX ports.  Only loopback and ipc (its file gets
 * mode 0600): ST_FAILED_PRECONDITION otherwise, as there are no keys yet.
 * ST_ALREADY_EXISTS: the port is in use.  Of all three: ST_RESOURCE_EXHAUSTED
 * if there are too few file descriptors. */
MUST_CHECK enum status transport_listen(struct transport **out,
                                        const struct transport_port *ports,
                                        unsigned n, struct error *e);

/* A connecting transport; open() makes the connections. */
MUST_CHECK enum status transport_connect(struct transport **out,
                                         const char *endpoint, struct error *e);

/* Waits at most TRANSPORT_LINGER_MS for what is queued. */
void transport_free(struct transport **t);

struct node_io *transport_io(struct transport *t);

/* Where port i really listens: the number in place of a wildcard. */
const char *transport_endpoint(const struct transport *t, unsigned i);

struct transport_counts {
    uint64_t received, sent, no_room, unreachable;
    uint64_t malformed; /* messages that are no frame of ours */
    uint32_t peers;     /* now */
};

const struct transport_counts *transport_counts(const struct transport *t);

/* For common/wire/loop.c.  A ZeroMQ socket's descriptor tells of news once:
 * what the socket has been asked since may have taken the signal.  So a turn
 * reads a socket until it has nothing, and before the next wait
 * transport_look() looks into those that were used after that.
 *
 * What to poll() now, at most TRANSPORT_ITEMS. */
int transport_items(const struct transport *t, struct pollfd *items);
/* One turn of handing over what came; items as poll() left them. */
void transport_turn(struct transport *t, const struct pollfd *items,
                    const struct node_ops *ops, void *node);
/* True if the next turn has something to do whatever poll() says: it must
 * not wait. */
bool transport_look(struct transport *t);

#endif
