#include <stdio.h>
#include <string.h>

#include "common/wire/transport_impl.h"

struct port *transport_dialled(struct transport *t, struct peer_id who)
{
    for (unsigned i = t->n_listen; who.v != 0 && i < t->n_ports; i++) {
        if (t->ports[i].id == who.v) {
            return &t->ports[i];
        }
    }
    return NULL;
}

/* Never reconnects: a new connection must be a new session.  ZMQ_IMMEDIATE
 * keeps frames out of the queue of a connection that may never stand. */
static bool dial_port(struct transport *t, struct port *p, const char *endpoint)
{
    char at[ENDPOINT_MAX];

    if (endpoint_private(endpoint, at, NULL) != ST_OK ||
        !port_open(p, t->context, ZMQ_DEALER, at, ++t->n_opened)) {
        return false;
    }
    port_set(p->socket, ZMQ_RECONNECT_IVL, -1);
    port_set(p->socket, ZMQ_IMMEDIATE, 1);
    return zmq_connect(p->socket, at) == 0;
}

/* Replaces p's connection without a report.  If the endpoint cannot be
 * dialled, the connection is lost at once. */
static struct peer_id dial(struct transport *t, struct port *p,
                           const char *endpoint)
{
    port_close(p);
    p->id = ++t->connections.last_id;
    p->gone = !dial_port(t, p, endpoint);
    return (struct peer_id){p->id};
}

/* A node with one session replaces its connection. */
static struct peer_id transport_open(struct node_io *io)
{
    struct transport *t = transport_of(io);
    struct port *p = &t->ports[t->n_listen];

    for (unsigned i = 1; p->id != 0 && i < t->n_routers; i++) {
        p = &t->ports[t->n_listen + i];
    }
    if (p->id != 0 && t->n_routers > 1) {
        return (struct peer_id){0};
    }
    return dial(t, p, p->endpoint);
}

static struct peer_id
transport_open_to(struct node_io *io, const char *endpoint, const uint8_t *key)
{
    struct transport *t = transport_of(io);

    (void)key;
    for (unsigned i = t->n_listen + t->n_routers; i < t->n_ports; i++) {
        if (t->ports[i].id == 0) {
            return dial(t, &t->ports[i], endpoint);
        }
    }
    return (struct peer_id){0};
}

void transport_dial_events(struct port *p, const struct node_ops *ops,
                           void *node)
{
    struct peer_id who = {p->id};
    uint16_t event;
    int value;

    p->monitor_unread = false;
    while (port_event(p, &event, &value)) {
        if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
            ops->opened(node, who);
        } else if (event == ZMQ_EVENT_DISCONNECTED ||
                   event == ZMQ_EVENT_CLOSED ||
                   event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL ||
                   event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL ||
                   event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) {
            port_close(p);
            p->gone = true;
        }
        if (who.v != p->id) {
            return; /* closed, or reopened, within the call */
        }
    }
    if (p->gone) {
        port_close(p);
        p->gone = false;
        p->id = 0;
        ops->lost(node, who);
    }
}

enum status transport_add_routers(struct transport *t, const char *router,
                                  unsigned n, struct error *e)
{
    char at[ENDPOINT_MAX];
    enum status st = endpoint_private(router, at, e);

    if (st != ST_OK) {
        return st;
    }
    for (unsigned i = 0; i < n; i++) {
        struct port *p = &t->ports[t->n_ports++];

        snprintf(p->endpoint, ENDPOINT_MAX, "%s", at);
        p->thread = (uint8_t)t->n_listen;
    }
    t->n_routers = n;
    t->io.open = transport_open;
    return ST_OK;
}

void transport_add_dials(struct transport *t)
{
    for (unsigned i = 1; i < TRANSPORT_DIAL_MAX; i++) {
        struct port *p = &t->ports[t->n_ports++];

        p->tensors = true;
        p->thread = (uint8_t)t->n_listen;
    }
    t->io.open_to = transport_open_to;
}
