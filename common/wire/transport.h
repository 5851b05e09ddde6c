/* transport.h - node_io over ZeroMQ.
 *
 * Listening (router; worker, for the stage before it): one ROUTER socket per
 * endpoint.  Connecting (worker, client): one DEALER for the connection to
 * the router and one for each connection to a stage.  Every open() and
 * open_to() makes a new DEALER: a broken connection takes its queue with it,
 * so no old message reaches a new session.  One transport does both and
 * counts peer ids for both.
 *
 * A peer is one connection.  A ROUTER identifies it by a routing id made by
 * libzmq, the monitor by its file descriptor.  ZMQ_SRCFD of a received
 * message joins the two, so a DISCONNECTED event ends the right peer at once.
 * transport_listen() proves with a test connection that they agree.
 *
 * A message is the routing id and one frame of at most FRAME_BYTES_MAX.
 * Ports that accept tensors, and connections of open_to(), allow
 * FRAME_TENSOR_MAX more, a port only from peers that it trusts (node_io).  A
 * longer message, or one of several frames, ends its connection
 * (common/wire/door.h); other invalid messages are counted and dropped.  Sends
 * never block: mandatory routing, TRANSPORT_HWM frames per peer, EAGAIN is
 * ST_RESOURCE_EXHAUSTED.
 *
 * Without keys it binds and dials loopback and ipc only (endpoint_bind(),
 * endpoint_dial()).  An open_to() elsewhere is a lost connection.
 *
 * A host's name is resolved in the background, anew for each open()
 * (common/wire/resolver.h): an answer dials, a failure is a lost connection.
 * If a name has several addresses, each dial that comes to no connection makes
 * the next one try the next address.
 *
 * With keys (common/wire/curve_keys.h) every connection is CURVE, on loopback
 * too.  A port accepts a peer whose key is trusted and has a role that the port
 * allows; the transport itself answers libzmq's requests for authentication
 * (common/wire/zap.h).  Others never reach the core; they are counted by reason
 * and logged once a second.  open() dials the router with the certificates of
 * that role in turn, the next after each handshake that failed.
 *
 * Threading: one thread, which runs the loop.  Memory: a received frame is
 * copied out of ZeroMQ's memory.  A sent frame is copied up to
 * PORT_COPIED_BYTES; a longer one is handed over.  Limits:
 * common/wire/transport_limits.h. */
#ifndef COMMON_WIRE_TRANSPORT_H
#define COMMON_WIRE_TRANSPORT_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/wire/node_io.h"
#include "common/wire/transport_limits.h"

struct curve_keys;
struct transport;

struct transport_port {
    const char *endpoint; /* tcp://127.0.0.1:7070, tcp://[::1]:0, ipc://path */
    uint8_t allowed;      /* a set of BY_* */
    bool tensors;         /* frames may carry a tensor */
};

/* Binds n <= TRANSPORT_LISTEN_MAX ports (as transport_listen) and connects to
 * `router` (as transport_connect) unless that is NULL; at least one of the
 * two. A connecting transport has open(), and open_to() for
 * TRANSPORT_DIAL_MAX - 1 others at once. */
MUST_CHECK enum status transport_new(struct transport **out, const char *router,
                                     const struct transport_port *ports,
                                     unsigned n, struct curve_keys *keys,
                                     struct error *e);

/* Binds n <= TRANSPORT_LISTEN_MAX ports; the file of an ipc endpoint gets mode
 * 0600.  Returns ST_ALREADY_EXISTS if the port is in use.  All three functions
 * return the errors of endpoint_bind() and endpoint_dial(), and
 * ST_RESOURCE_EXHAUSTED if there are too few file descriptors. */
MUST_CHECK enum status transport_listen(struct transport **out,
                                        const struct transport_port *ports,
                                        unsigned n, struct curve_keys *keys,
                                        struct error *e);

/* Limits the connections of port i, all of them and those of one address
 * (common/wire/door_rules.h).  Before: DOOR_CONNECTIONS, three quarters of
 * them of one address. */
void transport_limit(struct transport *t, unsigned i, uint32_t connections,
                     uint32_t per_address);

/* Makes a connecting transport; open() makes the connections. */
MUST_CHECK enum status transport_connect(struct transport **out,
                                         const char *endpoint,
                                         struct curve_keys *keys,
                                         struct error *e);

/* Makes a connecting transport for a node that has up to n sessions with the
 * router at once, 1..TRANSPORT_SESSIONS_MAX.  open() returns id 0 if all n are
 * open; there is no open_to(). */
MUST_CHECK enum status transport_connect_many(struct transport **out,
                                              const char *endpoint, unsigned n,
                                              struct curve_keys *keys,
                                              struct error *e);

/* Frees the transport.  Waits at most TRANSPORT_LINGER_MS for queued data. */
void transport_free(struct transport **t);

struct node_io *transport_io(struct transport *t);

/* Returns where port i listens, with the actual number in place of a
 * wildcard. */
const char *transport_endpoint(const struct transport *t, unsigned i);

/* Reads the keys again, logs the result and calls transport_reload(); for
 * SIGHUP.  After an error the keys stay as they were.  A no-op without keys. */
void transport_reread_keys(struct transport *t);

/* Returns why the last dial failed, as a part of a sentence; "" if that is not
 * known. */
const char *transport_trouble(const struct transport *t);

const struct transport_counts *transport_counts(const struct transport *t);

/* Returns the descriptors to poll() now, at most TRANSPORT_ITEMS; for
 * common/wire/loop.c.  A ZeroMQ descriptor signals only once, and a call on
 * the socket may consume the signal.  A turn therefore reads a socket until
 * it is empty, and before the next wait transport_look() checks the sockets
 * that were used since. */
int transport_items(const struct transport *t, struct pollfd *items);
/* Delivers the messages of one turn to the node; items are as poll() left
 * them. */
void transport_turn(struct transport *t, const struct pollfd *items,
                    const struct node_ops *ops, void *node);
/* Checks whether the next turn has work whatever poll() reports.  If true, it
 * must not wait. */
bool transport_look(struct transport *t);

#endif
