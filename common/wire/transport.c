#include "common/wire/transport.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/monotonic.h"
#include "common/wire/connections.h"
#include "common/wire/door_watch.h"
#include "common/wire/endpoint.h"
#include "common/wire/port.h"
#include "common/wire/probe.h"
#include "common/wire/transport_impl.h"

static int64_t transport_now_us(struct node_io *io)
{
    (void)io;
    return monotonic_us();
}

static uint64_t transport_random(struct node_io *io)
{
    uint64_t v;

    (void)io;
    while (getrandom(&v, sizeof v, 0) != sizeof v) {
    }
    return v;
}

/* ---- sending ---- */

/* Sends the routing id first; ZMQ_ROUTER_MANDATORY makes it fail at once if
 * the peer is gone or its queue is full. */
static enum status send_routed(struct transport *t, struct connection *c,
                               struct frame **f)
{
    struct port *p = &t->ports[c->port];
    int rc = port_send(p, c->routing, ROUTING_ID_BYTES, ZMQ_SNDMORE);

    if (rc < 0) {
        frame_free(f);
        if (errno == EAGAIN) {
            t->counts.no_room++;
            return ST_RESOURCE_EXHAUSTED;
        }
        t->counts.unreachable++;
        return ST_UNAVAILABLE;
    }
    return port_send_frame(p, f) >= 0 ? ST_OK : ST_RESOURCE_EXHAUSTED;
}

static enum status transport_send(struct node_io *io, struct peer_id to,
                                  struct frame **f)
{
    struct transport *t = transport_of(io);
    struct connection *c;
    struct port *p;
    enum status st = ST_UNAVAILABLE;

    if (FP_FAILS(TRANSPORT_SEND)) {
        frame_free(f);
        return ST_RESOURCE_EXHAUSTED;
    }
    /* Ids of accepted and of outgoing connections share one count, so at most
     * one of the two lookups succeeds. */
    c = connections_by_id(&t->connections, to.v);
    p = transport_dialled(t, to);
    if (c != NULL && !c->closed && !c->revoked) {
        st = send_routed(t, c, f);
    } else if (p != NULL && p->socket != NULL && !p->gone) {
        st = port_send_frame(p, f) >= 0 ? ST_OK : ST_RESOURCE_EXHAUSTED;
        t->counts.no_room += st != ST_OK;
    } else {
        frame_free(f);
    }
    t->counts.sent += st == ST_OK;
    return st;
}

/* An accepted connection cannot be closed singly in ZeroMQ.  Its door ends it
 * when queued data, such as a Goodbye, had time to leave.  Until then it stays
 * in the table, ignored. */
static void transport_close(struct node_io *io, struct peer_id who)
{
    struct transport *t = transport_of(io);
    struct port *p = transport_dialled(t, who);
    struct connection *c;

    if (p != NULL) {
        transport_hang_up(t, p);
    }
    c = connections_by_id(&t->connections, who.v);
    if (c != NULL) {
        c->closed = true;
        door_dismiss(c->fd, c->generation,
                     monotonic_us() + TRANSPORT_LINGER_MS * INT64_C(1000));
    }
}

static void transport_trust(struct node_io *io, struct peer_id who)
{
    const struct connection *c =
        connections_by_id(&transport_of(io)->connections, who.v);

    if (c != NULL) {
        door_trust(c->fd, c->generation);
    }
}

static void transport_node_counts(struct node_io *io, struct node_counts *out)
{
    door_watch_counts(&transport_of(io)->doors, out);
}

static uint8_t transport_port(struct node_io *io, struct peer_id who)
{
    struct transport *t = transport_of(io);
    struct connection *c = connections_by_id(&t->connections, who.v);

    return c != NULL ? t->ports[c->port].allowed : 0;
}

/* ---- turns ---- */

int transport_items(const struct transport *t, struct pollfd *items)
{
    int n = 0;

    for (unsigned i = 0; i < t->n_ports; i++) {
        const struct port *p = &t->ports[i];
        bool open = p->socket != NULL; /* poll() ignores -1 */

        items[n++] =
            (struct pollfd){.fd = open ? p->monitor_fd : -1, .events = POLLIN};
        items[n++] = (struct pollfd){.fd = open ? p->fd : -1, .events = POLLIN};
    }
    items[n++] = (struct pollfd){
        .fd = t->resolver != NULL ? resolver_fd(t->resolver) : -1,
        .events = POLLIN};
    items[n++] = (struct pollfd){.fd = t->zap != NULL ? t->zap_fd : -1,
                                 .events = POLLIN};
    return n;
}

void transport_turn(struct transport *t, const struct pollfd *items,
                    const struct node_ops *ops, void *node)
{
    if (items[2 * t->n_ports].revents != 0) {
        transport_take_answers(t);
    }
    if (items[2 * t->n_ports + 1].revents != 0 || t->zap_unread) {
        transport_zap_turn(t);
    }
    if (t->revoked) {
        transport_tell_revoked(t, ops, node);
    }
    for (unsigned i = 0; i < t->n_ports; i++, items += 2) {
        struct port *p = &t->ports[i];

        if (items[0].revents != 0 || p->monitor_unread || p->gone) {
            if (i < t->n_listen) {
                transport_listen_events(t, i, ops, node);
            } else {
                transport_dial_events(t, p, ops, node);
            }
        }
        if (items[1].revents != 0 || p->unread) {
            transport_read(t, i, ops, node);
        }
    }
    t->counts.peers = t->connections.n;
    door_watch_turn(&t->doors, monotonic_us());
    log_gate_tick(&t->unresolved, monotonic_us());
    log_gate_tick(&t->undialled, monotonic_us());
}

bool transport_look(struct transport *t)
{
    bool found = t->zap_unread || t->revoked;

    for (unsigned i = 0; i < t->n_ports; i++) {
        struct port *p = &t->ports[i];

        found |= p->gone;
        if (p->socket != NULL) {
            found |= port_look(p) || p->monitor_unread;
        }
    }
    return found;
}

/* ---- construction ---- */

/* Makes the transport and its context, with room for n_ports.  Each listening
 * port has an I/O thread, because a thread of libzmq with thousands of
 * connections is slow for all of them: it searches its timers one by one. */
static enum status transport_make(struct transport **out, unsigned n_ports,
                                  unsigned n_threads, struct curve_keys *keys,
                                  struct error *e)
{
    struct transport *t = calloc(1, sizeof *t);
    void *context = t != NULL ? port_context(n_ports, n_threads) : NULL;

    if (t == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (context == NULL) {
        free(t);
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "no file descriptors are left (see ulimit -n)");
    }
    t->context = context;
    t->keys = keys;
    t->trouble = "";
    t->io = (struct node_io){.impl = t,
                             .now_us = transport_now_us,
                             .random = transport_random,
                             .send = transport_send,
                             .close = transport_close,
                             .port = transport_port,
                             .identity = transport_identity,
                             .trust = transport_trust,
                             .counts = transport_node_counts};
    t->doors.due_us = monotonic_us();
    log_gate_init(&t->unresolved, LOG_WARN, "host-unresolved",
                  TRANSPORT_UNRESOLVED_LINES);
    log_gate_init(&t->undialled, LOG_WARN, "dial-failed",
                  TRANSPORT_UNDIALLED_LINES);
    *out = t;
    return ST_OK;
}

void transport_free(struct transport **pt)
{
    struct transport *t = *pt;

    if (t == NULL) {
        return;
    }
    for (unsigned i = 0; i < t->n_ports; i++) {
        port_close(&t->ports[i]);
    }
    transport_zap_close(t);
    port_context_end(t->context);
    resolver_free(&t->resolver);
    log_gate_end(&t->unresolved);
    log_gate_end(&t->undialled);
    door_watch_close(&t->doors);
    connections_fini(&t->connections);
    free(t);
    *pt = NULL;
}

static enum status listen_one(struct transport *t,
                              const struct transport_port *port,
                              struct error *e)
{
    struct port *p = &t->ports[t->n_ports];
    char at[ENDPOINT_MAX];
    enum status st = endpoint_bind(port->endpoint, t->keys != NULL, at, e);

    if (st != ST_OK) {
        return st;
    }
    p->allowed = port->allowed;
    p->tensors = port->tensors;
    p->thread = (uint8_t)t->n_listen;
    p->number = (uint8_t)t->n_listen;
    p->keys = t->keys;
    st = door_watch_open(&t->doors, p, e);
    if (st == ST_OK) {
        st = port_listen(p, t->context, at, ++t->n_opened, e);
    }
    t->n_ports++;
    t->n_listen++;
    return st == ST_OK ? door_watch_bound(&t->doors, e) : st;
}

/* Tests libzmq with these keys, NULL: none, on a transport of its own, before
 * ports of the caller open. */
static enum status self_test_with(struct curve_keys *keys, struct error *e)
{
    static const struct transport_port port = {"tcp://127.0.0.1:*", 0, false};
    struct transport *t = NULL;
    enum status st = transport_make(&t, 2, 1, keys, e); /* one is the peer's */
    unsigned door = 0;

    st = st == ST_OK ? transport_zap_open(t, e) : st;
    st = st == ST_OK ? listen_one(t, &port, e) : st;
    st = st == ST_OK ? probe_run(t, t->context, keys, e) : st;
    door = st == ST_OK ? t->doors.ports[0].door : 0;
    transport_free(&t);
    return st == ST_OK ? door_watch_passed(door, e) : st;
}

static enum status self_test(bool with_keys, struct error *e)
{
    struct curve_keys *keys = NULL;
    enum status st = with_keys ? curve_keys_alone(&keys, e) : ST_OK;

    st = st == ST_OK ? self_test_with(keys, e) : st;
    curve_keys_free(&keys);
    return st;
}

enum status transport_new(struct transport **out, const char *router,
                          const struct transport_port *ports, unsigned n,
                          struct curve_keys *keys, struct error *e)
{
    enum status st = n > 0 ? self_test(keys != NULL, e) : ST_OK;
    unsigned n_ports = n + (router != NULL);
    struct transport *t = NULL;

    assert((n > 0 || router != NULL) && n <= TRANSPORT_LISTEN_MAX);
    st = st == ST_OK ? transport_make(&t, n_ports, n_ports, keys, e) : st;
    if (st == ST_OK && n > 0) {
        st = transport_zap_open(t, e);
    }
    for (unsigned i = 0; st == ST_OK && i < n; i++) {
        st = listen_one(t, &ports[i], e);
    }
    if (st == ST_OK && router != NULL) {
        st = transport_add_routers(t, router, 1, e);
    }
    if (st != ST_OK) {
        transport_free(&t);
        return st;
    }
    if (router != NULL) {
        transport_add_dials(t);
    }
    *out = t;
    return ST_OK;
}

enum status transport_connect_many(struct transport **out, const char *endpoint,
                                   unsigned n, struct curve_keys *keys,
                                   struct error *e)
{
    struct transport *t = NULL;
    /* Descriptors for one session are checked now; each later session checks
     * for its own when it opens. */
    enum status st = transport_make(&t, 1, 1, keys, e);

    assert(n > 0 && n <= TRANSPORT_SESSIONS_MAX);
    if (st == ST_OK) {
        st = transport_add_routers(t, endpoint, n, e);
    }
    if (st != ST_OK) {
        transport_free(&t);
        return st;
    }
    *out = t;
    return ST_OK;
}

enum status transport_listen(struct transport **out,
                             const struct transport_port *ports, unsigned n,
                             struct curve_keys *keys, struct error *e)
{
    return transport_new(out, NULL, ports, n, keys, e);
}

enum status transport_connect(struct transport **out, const char *endpoint,
                              struct curve_keys *keys, struct error *e)
{
    return transport_new(out, endpoint, NULL, 0, keys, e);
}

struct node_io *transport_io(struct transport *t)
{
    return &t->io;
}

void transport_limit(struct transport *t, unsigned i, uint32_t connections,
                     uint32_t per_address)
{
    door_limit(t->doors.ports[i].door, connections, per_address);
}

const char *transport_endpoint(const struct transport *t, unsigned i)
{
    return t->ports[i].endpoint;
}

const struct transport_counts *transport_counts(const struct transport *t)
{
    return &t->counts;
}

const char *transport_trouble(const struct transport *t)
{
    return t->trouble;
}

void transport_reread_keys(struct transport *t)
{
    transport_keys_reread(t);
}
