#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/monotonic.h"
#include "common/wire/method.h"
#include "common/wire/transport_impl.h"
#include "common/wire/zap.h"

#define ENVELOPE 2 /* parts before a request: routing id and delimiter */
#define PARTS    (ENVELOPE + ZAP_REQUEST)
#define Z85_KEY  40

/* ---- requests of libzmq for authentication ---- */

enum status transport_zap_open(struct transport *t, struct error *e)
{
    size_t size = sizeof t->zap_fd;

    if (t->keys == NULL) {
        return ST_OK;
    }
    t->zap = zmq_socket(t->context, ZMQ_ROUTER);
    if (t->zap == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "no file descriptors are left (see ulimit -n)");
    }
    port_set(t->zap, ZMQ_LINGER, 0);
    if (port_bind(t->zap, ZAP_ENDPOINT) != 0 ||
        zmq_getsockopt(t->zap, ZMQ_FD, &t->zap_fd, &size) != 0) {
        return error_set(e, ST_INTERNAL, "%s: %s", ZAP_ENDPOINT,
                         zmq_strerror(zmq_errno()));
    }
    t->zap_unread = true;
    return ST_OK;
}

void transport_zap_close(struct transport *t)
{
    if (t->zap != NULL) {
        zmq_close(t->zap);
        t->zap = NULL;
    }
}

static bool receive(void *socket, zmq_msg_t *msg)
{
    int n;

    do {
        n = zmq_msg_recv(msg, socket, ZMQ_DONTWAIT);
    } while (n < 0 && zmq_errno() == EINTR);
    return n >= 0;
}

/* Receives the parts of one message, parts[0, *n), of which those past PARTS
 * are dropped.  Returns false if there is none. */
static bool receive_parts(void *socket, zmq_msg_t parts[PARTS], size_t *n)
{
    zmq_msg_t rest;
    bool more = true;

    *n = 0;
    while (more && *n < PARTS) {
        zmq_msg_init(&parts[*n]);
        if (!receive(socket, &parts[*n])) {
            zmq_msg_close(&parts[*n]);
            return *n > 0;
        }
        more = zmq_msg_more(&parts[(*n)++]);
    }
    while (more) {
        zmq_msg_init(&rest);
        more = receive(socket, &rest) && zmq_msg_more(&rest);
        zmq_msg_close(&rest);
    }
    return true;
}

/* A self-test listens at a port that allows nobody. */
static uint8_t allowed_at(const struct port *p)
{
    return p->allowed != 0 ? p->allowed : BY_ALL;
}

static enum zap_verdict judge(struct transport *t, const struct zap_request *r)
{
    char id[Z85_KEY + 1];
    const struct identity *who;
    enum zap_verdict v =
        zap_judge(t->keys, r->key, allowed_at(&t->ports[r->port]), &who);

    if (v == ZAP_UNKNOWN_KEY) {
        zmq_z85_encode(id, r->key, KEY_BYTES); /* as in certificates */
        door_watch_deny(&t->doors, r->port, DENIED_UNKNOWN_KEY, id);
    } else if (v == ZAP_WRONG_ROLE) {
        door_watch_deny(&t->doors, r->port, DENIED_WRONG_ROLE, who->name);
    }
    return v;
}

static void send_part(struct transport *t, const void *data, size_t n,
                      int flags)
{
    while (zmq_send(t->zap, data, n, ZMQ_DONTWAIT | flags) < 0 &&
           zmq_errno() == EINTR) {
    }
}

/* The answer to a session that has ended is dropped by the socket. */
static void answer(struct transport *t, zmq_msg_t parts[PARTS],
                   const struct zap_request *r)
{
    struct zap_reply reply;

    zap_reply(&reply, r, judge(t, r));
    for (int i = 0; i < ENVELOPE; i++) {
        send_part(t, zmq_msg_data(&parts[i]), zmq_msg_size(&parts[i]),
                  ZMQ_SNDMORE);
    }
    for (int i = 0; i < ZAP_REPLY; i++) {
        send_part(t, reply.parts[i].data, reply.parts[i].n,
                  i < ZAP_REPLY - 1 ? ZMQ_SNDMORE : 0);
    }
}

static bool take_request(struct transport *t)
{
    struct zap_part given[ZAP_REQUEST];
    struct zap_request r;
    zmq_msg_t parts[PARTS];
    size_t n;

    if (!receive_parts(t->zap, parts, &n)) {
        return false;
    }
    for (size_t i = ENVELOPE; i < n; i++) {
        given[i - ENVELOPE] =
            (struct zap_part){zmq_msg_data(&parts[i]), zmq_msg_size(&parts[i])};
    }
    if (n == PARTS && zap_parse(&r, given, n - ENVELOPE, t->n_listen)) {
        answer(t, parts, &r);
    }
    for (size_t i = 0; i < n; i++) {
        zmq_msg_close(&parts[i]);
    }
    return true;
}

/* The last call of a turn reads, so no signal of the descriptor is consumed
 * without its request being read (common/wire/port.h). */
void transport_zap_turn(struct transport *t)
{
    bool more = t->zap != NULL;

    for (int n = 0; more && n < TRANSPORT_BUDGET; n++) {
        more = take_request(t);
    }
    t->zap_unread = more;
}

/* ---- who is connected ---- */

bool transport_identify(struct transport *t, unsigned port, zmq_msg_t *body,
                        struct identity *out)
{
    const struct identity *who = NULL;
    uint8_t key[KEY_BYTES];

    if (!zap_user_key(key, zmq_msg_gets(body, "User-Id")) ||
        zap_judge(t->keys, key, allowed_at(&t->ports[port]), &who) !=
            ZAP_ACCEPTED) {
        return false;
    }
    *out = *who;
    return true;
}

const struct identity *transport_identity(struct node_io *io,
                                          struct peer_id who)
{
    struct transport *t = transport_of(io);
    const struct connection *c = connections_by_id(&t->connections, who.v);
    const struct port *p = transport_dialled(t, who);

    return c != NULL && c->keyed          ? &c->who
           : p != NULL && p->keys != NULL ? &p->server
                                          : NULL;
}

/* Tries the certificates of routers in turn: the next after each handshake that
 * failed.  The order shifts by one after each round, because the addresses of
 * a name are also tried in turn. */
static const struct identity *router_of(const struct transport *t)
{
    unsigned n = 0;

    while (curve_keys_nth(t->keys, BY_ROUTER, n) != NULL) {
        n++;
    }
    return n == 0 ? NULL
                  : curve_keys_nth(t->keys, BY_ROUTER,
                                   (t->router_turn + t->router_turn / n) % n);
}

static bool is_router_port(const struct transport *t, const struct port *p)
{
    return p < &t->ports[t->n_listen + t->n_routers];
}

bool transport_pick_server(struct transport *t, struct port *p)
{
    const struct identity *who;

    p->keys = t->keys;
    if (t->keys == NULL) {
        return true;
    }
    if (is_router_port(t, p)) {
        who = router_of(t);
        p->turn = t->router_turn;
    } else {
        who = p->wanted_key ? curve_keys_find(t->keys, p->wanted) : NULL;
        who = who != NULL && (who->roles & BY_WORKER) != 0 ? who : NULL;
    }
    if (who == NULL) {
        transport_trouble_set(t, p,
                              is_router_port(t, p)
                                  ? "--trust has no certificate of role router"
                                  : "--trust has no certificate of role worker "
                                    "with the key of that stage");
        return false;
    }
    p->server = *who;
    return true;
}

/* ---- why a dial failed ---- */

void transport_trouble_set(struct transport *t, const struct port *p,
                           const char *why)
{
    t->trouble = why;
    if (t->keys == NULL) {
        return;
    }
    log_gate_write(&t->undialled, monotonic_us(), "endpoint=%s why=\"%s\"",
                   p->at[0] != '\0' ? p->at : p->endpoint, why);
}

void transport_shake_failed(struct transport *t, const struct port *p,
                            uint16_t event)
{
    bool keys = t->keys != NULL;

    /* Connections that dial at once move to the next certificate together. */
    if (keys && is_router_port(t, p) && p->turn == t->router_turn) {
        t->router_turn++;
    }
    if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) {
        transport_trouble_set(t, p,
                              "the other end does not trust this program's "
                              "key, or its role may not connect there");
    } else if (keys) {
        transport_trouble_set(t, p,
                              "the other end has no keys, or another key than "
                              "its certificate in --trust");
    } else {
        transport_trouble_set(t, p,
                              "the handshake failed; if the other end has "
                              "keys, give --key and --trust");
    }
}

/* ---- reload ---- */

/* Returns whether the key of `who` still allows all that it allowed. */
static bool is_valid(const struct curve_keys *keys, struct identity *who)
{
    const struct identity *now = curve_keys_find(keys, who->key);

    if (now == NULL || (who->roles & ~now->roles) != 0 ||
        strcmp(who->name, now->name) != 0) {
        return false;
    }
    *who = *now;
    return true;
}

static void revoke(struct transport *t, struct connection *c)
{
    c->revoked = true;
    t->revoked = true;
    log_warn("key-revoked", "key=%s port=%s", c->who.name,
             t->ports[c->port].endpoint);
    door_dismiss(c->fd, c->generation, 0);
}

void transport_revoke(struct transport *t)
{
    if (t->keys == NULL) {
        return;
    }
    for (uint32_t i = 0; i < CONNECTION_BUCKETS; i++) {
        struct connection *c = connections_bucket(&t->connections, i);

        for (; c != NULL; c = c->same_id) {
            if (c->keyed && !c->closed && !is_valid(t->keys, &c->who)) {
                revoke(t, c);
            }
        }
    }
    for (unsigned i = t->n_listen; i < t->n_ports; i++) {
        struct port *p = &t->ports[i];

        if (p->socket != NULL && !is_valid(t->keys, &p->server)) {
            log_warn("key-revoked", "key=%s dialled=%s", p->server.name, p->at);
            port_close(p);
            p->gone = true;
        }
    }
    door_watch_sweep(&t->doors, monotonic_us());
}

void transport_keys_reread(struct transport *t)
{
    uint8_t before[KEY_BYTES];
    struct error e;

    if (t->keys == NULL) {
        return;
    }
    memcpy(before, curve_keys_public(t->keys), KEY_BYTES);
    if (curve_keys_reload(t->keys, &e) != ST_OK) {
        log_error("trust-kept", "why=\"%s\"", e.text);
        return;
    }
    log_info("trust-reloaded", "certificates=%u", curve_keys_n(t->keys));
    if (t->n_listen > 0 &&
        memcmp(before, curve_keys_public(t->keys), KEY_BYTES) != 0) {
        log_warn("key-changed",
                 "why=\"ports that listen keep the old key until "
                 "a restart\"");
    }
    transport_revoke(t);
}

void transport_tell_revoked(struct transport *t, const struct node_ops *ops,
                            void *node)
{
    t->revoked = false;
    for (uint32_t i = 0; i < CONNECTION_BUCKETS; i++) {
        struct connection *c = connections_bucket(&t->connections, i);

        for (; c != NULL; c = c->same_id) {
            if (c->revoked && !c->closed) {
                c->closed = true;
                ops->lost(node, (struct peer_id){c->id});
            }
        }
    }
}
