#include <stdio.h>
#include <string.h>

#include "common/wire/source_address.h"
#include "common/wire/transport_impl.h"

#define FAILED                              \
    (ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | \
     ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)

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
bool transport_dial_address(struct transport *t, struct port *p)
{
    if (!transport_pick_server(t, p) ||
        !port_open(p, t->context, ZMQ_DEALER, p->at, ++t->n_opened)) {
        return false;
    }
    port_set(p->socket, ZMQ_RECONNECT_IVL, -1);
    port_set(p->socket, ZMQ_IMMEDIATE, 1);
    return port_connect(p->socket, p->at) == 0;
}

void transport_hang_up(struct transport *t, struct port *p)
{
    port_close(p);
    if (p->resolving) {
        resolver_cancel(t->resolver, p->id);
    }
    p->resolving = p->gone = false;
    p->id = 0;
}

/* Dials p->endpoint, or asks for its host's addresses first. */
static bool dial_endpoint(struct transport *t, struct port *p)
{
    struct endpoint to;

    if (endpoint_dial(p->endpoint, t->keys != NULL, p->at, NULL) != ST_OK ||
        endpoint_split(&to, p->at, NULL) != ST_OK) {
        return false;
    }
    return to.kind == ENDPOINT_NAME ? transport_ask(t, p, to.host)
                                    : transport_dial_address(t, p);
}

/* Replaces p's connection without a report.  If the endpoint cannot be
 * dialled, the connection is lost at once. */
static struct peer_id dial(struct transport *t, struct port *p)
{
    transport_hang_up(t, p);
    p->tries += !p->stood;
    p->stood = false;
    p->id = ++t->connections.last_id;
    p->gone = !dial_endpoint(t, p);
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
    return dial(t, p);
}

/* Returns a free port, if possible the one that dialled the endpoint last: its
 * tries go on.  Returns NULL if all are in use. */
static struct port *free_dial(struct transport *t, const char *endpoint)
{
    struct port *found = NULL;

    for (unsigned i = t->n_listen + t->n_routers; i < t->n_ports; i++) {
        struct port *p = &t->ports[i];

        if (p->id == 0 &&
            (found == NULL || strcmp(p->endpoint, endpoint) == 0)) {
            found = p;
        }
    }
    return found;
}

static struct peer_id
transport_open_to(struct node_io *io, const char *endpoint, const uint8_t *key)
{
    struct transport *t = transport_of(io);
    struct port *p = free_dial(t, endpoint);

    if (p == NULL) {
        return (struct peer_id){0};
    }
    p->wanted_key = key != NULL;
    if (key != NULL) {
        memcpy(p->wanted, key, KEY_BYTES);
    }
    if (strcmp(p->endpoint, endpoint) != 0) {
        snprintf(p->endpoint, sizeof p->endpoint, "%s", endpoint);
        p->tries = 0;
        p->stood = true; /* there was no dial yet */
    }
    return dial(t, p);
}

/* The address on the way to the router is the one by which others there reach
 * this machine.  The router's file (ipc) has none. */
static bool transport_local(struct node_io *io, char out[ENDPOINT_MAX])
{
    struct transport *t = transport_of(io);
    const struct port *p = &t->ports[t->n_listen];

    if (endpoint_is_ipc(p->at)) {
        snprintf(out, ENDPOINT_MAX, "127.0.0.1");
        return true;
    }
    return source_address(p->at, out);
}

static bool is_end(uint16_t event)
{
    return (event & (ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CLOSED | FAILED)) != 0;
}

void transport_dial_events(struct transport *t, struct port *p,
                           const struct node_ops *ops, void *node)
{
    struct peer_id who = {p->id};
    uint16_t event;
    int value;

    p->monitor_unread = false;
    while (port_event(p, &event, &value)) {
        if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
            p->stood = true;
            t->trouble = "";
            ops->opened(node, who);
        } else if (is_end(event)) {
            if ((event & FAILED) != 0) {
                transport_shake_failed(t, p, event);
            }
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
    enum status st = endpoint_dial(router, t->keys != NULL, at, e);

    if (st != ST_OK) {
        return st;
    }
    for (unsigned i = 0; i < n; i++) {
        struct port *p = &t->ports[t->n_ports++];

        snprintf(p->endpoint, ENDPOINT_MAX, "%s", at);
        p->stood = true;
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
    t->io.local = transport_local;
}
