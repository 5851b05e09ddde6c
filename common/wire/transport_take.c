#include <string.h>

#include "common/base/failpoint.h"
#include "common/wire/transport_impl.h"

/* Removes the connection before the op runs: the op may open a new one. */
static void told_lost(struct transport *t, unsigned port, int fd,
                      const struct node_ops *ops, void *node)
{
    struct connection *c = connections_by_fd(&t->connections, port, fd);
    struct peer_id who;
    bool closed;

    if (c == NULL) {
        return;
    }
    who = (struct peer_id){c->id};
    closed = c->closed;
    connections_remove(&t->connections, c);
    if (!closed && ops != NULL) {
        ops->lost(node, who);
    }
}

void transport_listen_events(struct transport *t, unsigned port,
                             const struct node_ops *ops, void *node)
{
    uint16_t event;
    int value;

    t->ports[port].monitor_unread = false;
    while (port_event(&t->ports[port], &event, &value)) {
        if (event == ZMQ_EVENT_ACCEPTED) {
            connections_accepted(&t->connections, port, value);
        } else if (event == ZMQ_EVENT_DISCONNECTED) {
            connections_disconnected(&t->connections, port, value);
            told_lost(t, port, value, ops, node);
        }
    }
}

/* Copies the frame out of msg; NULL if msg cannot hold a frame. */
static struct frame *take_frame(struct transport *t, const struct port *p,
                                zmq_msg_t *msg)
{
    size_t n = zmq_msg_size(msg);
    struct frame *f;

    /* A message in several parts cannot come from our own transport. */
    if (n < FRAME_HEADER || n > port_bytes_max(p) || zmq_msg_more(msg)) {
        t->counts.malformed++;
        return NULL;
    }
    f = frame_new((uint32_t)n);
    if (f != NULL) { /* else it is lost on the way: the peer sends it again */
        memcpy(f->data, zmq_msg_data(msg), n);
    }
    return f;
}

/* Reads the remaining parts, so that the next read starts at a message. */
static void skip_rest(struct port *p, zmq_msg_t *msg)
{
    while (zmq_msg_more(msg) && port_recv(p, msg)) {
    }
}

/* Adds a new connection on fd, which is open.  If the table has another one
 * on fd, one of the two has ended, although its end and the other's start
 * were reported before this message.  The earlier one is dropped.  Returns
 * NULL if that is this one, or if its key is no longer trusted. */
static struct connection *join(struct transport *t, unsigned port,
                               const uint8_t *routing, zmq_msg_t *body,
                               const struct node_ops *ops, void *node)
{
    int fd = zmq_msg_get(body, ZMQ_SRCFD);
    const struct connection *c = connections_by_fd(&t->connections, port, fd);
    struct identity who = {0};
    struct connection *added;

    if (c != NULL && connections_later(c->routing, routing)) {
        return NULL;
    }
    if (t->keys != NULL && !transport_identify(t, port, body, &who)) {
        door_dismiss(fd, door_generation(fd), 0);
        return NULL;
    }
    told_lost(t, port, fd, ops, node);
    added = connections_add(&t->connections, port, routing, fd);
    if (added == NULL) {
        return NULL; /* its next message may find memory */
    }
    added->generation = door_generation(fd);
    added->keyed = t->keys != NULL;
    added->who = who;
    return added;
}

/* Returns the sender of body with this routing id.  An unknown id is a new
 * connection.  The monitor is read first, so that an older connection on the
 * same descriptor has ended.  Returns NULL if this connection has ended too
 * and body was still on its way.  (The descriptor is read from body: libzmq
 * makes the routing frame, which has none.) */
static struct connection *sender(struct transport *t, unsigned port,
                                 const uint8_t *routing, zmq_msg_t *body,
                                 const struct node_ops *ops, void *node)
{
    struct connection *c =
        connections_by_routing(&t->connections, port, routing);

    if (c == NULL) {
        int fd = zmq_msg_get(body, ZMQ_SRCFD);

        transport_listen_events(t, port, ops, node);
        if (connections_open(&t->connections, port, fd)) {
            c = join(t, port, routing, body, ops, node);
        }
    }
    return c;
}

/* Receives the routing id to routing and the rest to body.  Returns false if
 * there is no message.  A routing id that libzmq did not make leaves
 * routing[0] = 1. */
static bool receive_routed(struct port *p, uint8_t *routing, zmq_msg_t *body)
{
    zmq_msg_t id;
    bool more;

    zmq_msg_init(&id);
    if (!port_recv(p, &id)) {
        zmq_msg_close(&id);
        return false;
    }
    /* = 1;] libzmq's own routing ids start with a zero byte; any other first
     * byte was chosen by the peer. */
    routing[0] = 1;
    if (zmq_msg_size(&id) == ROUTING_ID_BYTES) {
        memcpy(routing, zmq_msg_data(&id), ROUTING_ID_BYTES);
    }
    more = zmq_msg_more(&id);
    zmq_msg_close(&id);
    return !more || port_recv(p, body);
}

/* Counts at the door what has arrived.  With keys a message of several parts
 * cannot be cut off before. */
static void account(struct transport *t, unsigned port, const uint8_t *routing,
                    zmq_msg_t *body)
{
    const struct connection *c =
        connections_by_routing(&t->connections, port, routing);

    if (c != NULL && zmq_msg_more(body)) {
        door_cut(c->fd, c->generation, ZMTP_PARTS);
    } else if (c != NULL) {
        door_taken(c->fd, c->generation, zmq_msg_size(body));
    }
}

static void deliver(struct transport *t, struct connection *c, struct frame **f,
                    const struct node_ops *ops, void *node)
{
    if (c != NULL && !c->closed && !c->revoked && !FP_FAILS(TRANSPORT_RECV)) {
        t->counts.received++;
        ops->recv(node, (struct peer_id){c->id}, f);
    }
}

/* Handles one message of a listening port; false if there is none. */
static bool take_routed(struct transport *t, unsigned port,
                        const struct node_ops *ops, void *node)
{
    struct port *p = &t->ports[port];
    uint8_t routing[ROUTING_ID_BYTES];
    struct connection *c = NULL;
    struct frame *f;
    zmq_msg_t body;

    zmq_msg_init(&body);
    if (!receive_routed(p, routing, &body)) {
        zmq_msg_close(&body);
        if (t->keys != NULL) {
            door_drained(t->doors.ports[port].door);
        }
        return false;
    }
    f = take_frame(t, p, &body);
    if (f != NULL && routing[0] == 0) {
        c = sender(t, port, routing, &body, ops, node);
    }
    account(t, port, routing, &body);
    skip_rest(p, &body);
    deliver(t, c, &f, ops, node);
    zmq_msg_close(&body);
    frame_free(&f);
    return true;
}

/* Handles one message of a connecting port; false if there is none. */
static bool take_plain(struct transport *t, struct port *p,
                       const struct node_ops *ops, void *node)
{
    struct peer_id from = {p->id};
    struct frame *f;
    zmq_msg_t body;

    zmq_msg_init(&body);
    if (!port_recv(p, &body)) {
        zmq_msg_close(&body);
        return false;
    }
    f = take_frame(t, p, &body);
    skip_rest(p, &body);
    zmq_msg_close(&body);
    if (f != NULL && !FP_FAILS(TRANSPORT_RECV)) {
        t->counts.received++;
        ops->recv(node, from, &f);
    }
    frame_free(&f);
    return true;
}

/* Reads at most TRANSPORT_BUDGET messages of a socket, so that one busy peer
 * does not delay the tick. */
void transport_read(struct transport *t, unsigned i, const struct node_ops *ops,
                    void *node)
{
    bool more = true;

    for (int n = 0; more && n < TRANSPORT_BUDGET; n++) {
        more = i < t->n_listen ? take_routed(t, i, ops, node)
                               : take_plain(t, &t->ports[i], ops, node);
    }
    /* .unread = more;] A port that used up its budget is read again in the
     * next turn, without a wait. */
    t->ports[i].unread = more;
}
