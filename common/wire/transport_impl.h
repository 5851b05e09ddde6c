/* transport_impl.h - Internals of the transport, shared by its parts:
 *
 *     transport.c        sending, turns, construction
 *     transport_take.c   accepted connections, receiving
 *     transport_keys.c   keys: who may connect, and who is connected
 *     transport_dial.c   outgoing connections
 *     transport_names.c  outgoing connections to hosts by name
 *
 * The parts do not use transport.h, which stands above them.
 *
 * Threading, memory, limits: common/wire/transport.h. */
#ifndef COMMON_WIRE_TRANSPORT_IMPL_H
#define COMMON_WIRE_TRANSPORT_IMPL_H

#include "common/base/log_gate.h"
#include "common/wire/connections.h"
#include "common/wire/door_watch.h"
#include "common/wire/port.h"
#include "common/wire/resolver.h"
#include "common/wire/transport_limits.h"

struct transport {
    struct node_io io;
    void *context;
    /* Listening ports first, then connecting ports; the first of those is the
     * router's. */
    struct port ports[TRANSPORT_PORTS];
    unsigned n_ports, n_listen;
    unsigned n_routers; /* connecting ports for the router, of n_ports */
    struct connections connections; /* accepted ones; counts all ids */
    struct transport_counts counts;
    struct door_watch doors;    /* one a listening port */
    uint32_t n_opened;          /* ports opened since the start */
    struct curve_keys *keys;    /* borrowed; NULL: none */
    struct resolver *resolver;  /* NULL: no name was dialled yet */
    resolver_lookup_fn *lookup; /* set by tests; NULL: getaddrinfo() */
    void *lookup_arg;
    struct log_gate unresolved;
    void
        *zap; /* answers libzmq's requests (common/wire/zap.h); NULL: no keys */
    int zap_fd;
    bool zap_unread;
    bool revoked;         /* `lost` is due for some connections */
    uint32_t router_turn; /* which certificate of a router is dialled next */
    const char *trouble;  /* why the last dial failed; "": it is not known */
    struct log_gate undialled;
};

static inline struct transport *transport_of(struct node_io *io)
{
    return io->impl;
}

/* Makes the ports for n connections to the router, none of them open. */
MUST_CHECK enum status transport_add_routers(struct transport *t,
                                             const char *router, unsigned n,
                                             struct error *e);
/* Makes the ports for connections to other endpoints than the router's. */
void transport_add_dials(struct transport *t);

/* Returns the port of an outgoing connection, NULL if it has ended. */
struct port *transport_dialled(struct transport *t, struct peer_id who);

/* Dials p->at, whose host is an address.  Returns false if that fails at once.
 */
MUST_CHECK bool transport_dial_address(struct transport *t, struct port *p);

/* Ends a connection of p in any state, without a report. */
void transport_hang_up(struct transport *t, struct port *p);

/* Asks for the addresses of the host in p->endpoint, a name.  Returns false if
 * that fails at once. */
MUST_CHECK bool transport_ask(struct transport *t, struct port *p,
                              const char *host);

/* Dials the hosts whose names have been resolved; a name that cannot be is a
 * lost connection. */
void transport_take_answers(struct transport *t);

/* Reads the monitor of a connecting port and reports its connection: opened or
 * lost.  To the core, every failed handshake is a lost connection. */
void transport_dial_events(struct transport *t, struct port *p,
                           const struct node_ops *ops, void *node);

/* Reads the monitor of a listening port: connections that came, failed or
 * ended. */
void transport_listen_events(struct transport *t, unsigned port,
                             const struct node_ops *ops, void *node);

/* Reads at most TRANSPORT_BUDGET messages of port i, so that one busy peer does
 * not delay the tick. */
void transport_read(struct transport *t, unsigned i, const struct node_ops *ops,
                    void *node);

/* Opens the socket for libzmq's requests, before a port listens; a no-op
 * without keys. */
MUST_CHECK enum status transport_zap_open(struct transport *t, struct error *e);
void transport_zap_close(struct transport *t);
/* Answers requests, at most TRANSPORT_BUDGET. */
void transport_zap_turn(struct transport *t);

/* Finds who sent a message at a listening port with keys.  Returns false if the
 * key is no longer trusted for that port. */
MUST_CHECK bool transport_identify(struct transport *t, unsigned port,
                                   zmq_msg_t *body, struct identity *out);
const struct identity *transport_identity(struct node_io *io,
                                          struct peer_id who);

/* Sets p->keys and, with keys, whom p dials.  Returns false if --trust has no
 * such certificate. */
MUST_CHECK bool transport_pick_server(struct transport *t, struct port *p);

/* Records why a handshake failed: an event of the monitor. */
void transport_shake_failed(struct transport *t, const struct port *p,
                            uint16_t event);
/* Records and logs the reason, a constant. */
void transport_trouble_set(struct transport *t, const struct port *p,
                           const char *why);

/* Serves transport_reload(). */
void transport_revoke(struct transport *t);
/* Serves transport_reread_keys(). */
void transport_keys_reread(struct transport *t);

/* Reports `lost` of connections whose keys are no longer trusted. */
void transport_tell_revoked(struct transport *t, const struct node_ops *ops,
                            void *node);

#endif
