#include "common/wire/port.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/descriptors.h"
#include "common/wire/transport_limits.h"
#include "common/wire/zap.h"
#include "common/wire/zmtp_scan.h"

/* Only events that are used.  ACCEPT_FAILED is left out: it repeats without
 * end while descriptors are exhausted. */
#define EVENTS_LISTENING (ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED)
#define EVENTS_CONNECTING                                      \
    (ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED |  \
     ZMQ_EVENT_CLOSED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | \
     ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)

/* Events that may wait to be read.  At this mark ZeroMQ's thread waits, and
 * the port with it.  The value is twice what a full backlog produces at
 * once. */
#define EVENTS_WAITING (4 * TRANSPORT_BACKLOG)

/* Descriptors that libzmq opens: for a context with its two threads; for a
 * port with its monitor and its listener or connection. */
#define CONTEXT_DESCRIPTORS 7 /* and one that door.c keeps */
#define KEEPALIVES          3 /* without an answer */
#define THREAD_DESCRIPTORS  2 /* each further thread */
#define PORT_DESCRIPTORS    4

void *port_context(unsigned n_ports, unsigned n_threads)
{
    unsigned wanted = CONTEXT_DESCRIPTORS +
                      (n_threads - 1) * THREAD_DESCRIPTORS +
                      n_ports * PORT_DESCRIPTORS;
    void *context = descriptors_left(wanted) ? zmq_ctx_new() : NULL;
    void *first = NULL;

    /* The first socket starts the context's threads; it is closed again at
     * once. */
    if (context != NULL) {
        zmq_ctx_set(context, ZMQ_IO_THREADS, (int)n_threads);
        first = zmq_socket(context, ZMQ_PAIR);
    }
    if (first != NULL) {
        zmq_close(first);
    } else if (context != NULL) {
        port_context_end(context);
        context = NULL;
    }
    return context;
}

void port_context_end(void *context)
{
    int rc;

    do {
        rc = zmq_ctx_term(context);
    } while (rc < 0 && errno == EINTR);
}

int port_connect(void *socket, const char *endpoint)
{
    int rc;

    do {
        rc = zmq_connect(socket, endpoint);
    } while (rc < 0 && errno == EINTR);
    return rc;
}

int port_bind(void *socket, const char *endpoint)
{
    int rc;

    do {
        rc = zmq_bind(socket, endpoint);
    } while (rc < 0 && errno == EINTR);
    return rc;
}

/* Binds a socket of its own, so a signal may interrupt it. */
static int monitor_events(void *socket, const char *name, int events)
{
    int rc;

    do {
        rc = zmq_socket_monitor(socket, name, events);
    } while (rc < 0 && errno == EINTR);
    return rc;
}

void port_set(void *socket, int option, int value)
{
    int rc = zmq_setsockopt(socket, option, &value, sizeof value);

    assert(rc == 0);
    (void)rc;
}

/* Enables IPv6 only where the endpoint needs it: it would change the name of a
 * port.  libzmq then also accepts IPv4 at [::] and *. */
static void set_common(const struct port *p, const char *endpoint)
{
    void *socket = p->socket;
    int64_t max =
        (int64_t)port_bytes_max(p) + (p->keys != NULL ? ZMTP_CURVE : 0);
    uint64_t threads = UINT64_C(1) << p->thread;
    int rc = zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &max, sizeof max);

    assert(rc == 0);
    rc = zmq_setsockopt(socket, ZMQ_AFFINITY, &threads, sizeof threads);
    assert(rc == 0);
    (void)rc;
    port_set(socket, ZMQ_SNDHWM, TRANSPORT_HWM);
    port_set(socket, ZMQ_RCVHWM, TRANSPORT_HWM);
    port_set(socket, ZMQ_LINGER, TRANSPORT_LINGER_MS);
    port_set(socket, ZMQ_HANDSHAKE_IVL, TRANSPORT_HANDSHAKE_MS);
    port_set(socket, ZMQ_IPV6,
             strchr(endpoint, '[') != NULL || strstr(endpoint, "//*:") != NULL);
}

/* TCP finds a dead peer: by probes while nothing is on its way, and after
 * dead_ms if it acknowledges nothing, or has no room, for so long (0: TCP's own
 * time). */
static void set_keepalive(void *socket, int dead_ms)
{
    port_set(socket, ZMQ_TCP_KEEPALIVE, 1);
    port_set(socket, ZMQ_TCP_KEEPALIVE_IDLE, TRANSPORT_BEAT_MS / 1000);
    port_set(socket, ZMQ_TCP_KEEPALIVE_INTVL, TRANSPORT_BEAT_MS / 1000);
    port_set(socket, ZMQ_TCP_KEEPALIVE_CNT, KEEPALIVES);
    port_set(socket, ZMQ_TCP_MAXRT, dead_ms);
}

/* The listening end sends no pings: libzmq searches all timers of a thread for
 * each pong, and with thousands of connections does little else (4.3.4).  The
 * pings of the connecting end have a time to live, after which the listening
 * end drops the connection.  Of a peer that sends none, TCP finds the end.
 *
 * With keys neither end sends pings: encrypted, a ping looks like a part of a
 * message (common/wire/door.h). */
static void set_beats(void *socket, int type, bool keys)
{
    if (type == ZMQ_ROUTER) {
        set_keepalive(socket, keys ? TRANSPORT_DEAD_MS : 0);
        return;
    }
    if (keys) {
        set_keepalive(socket, TRANSPORT_BEAT_TIMEOUT_MS);
        return;
    }
    port_set(socket, ZMQ_HEARTBEAT_IVL, TRANSPORT_BEAT_MS);
    port_set(socket, ZMQ_HEARTBEAT_TIMEOUT, TRANSPORT_BEAT_TIMEOUT_MS);
    port_set(socket, ZMQ_HEARTBEAT_TTL, TRANSPORT_BEAT_TIMEOUT_MS);
}

static void set_bytes(void *socket, int option, const void *data, size_t n)
{
    int rc = zmq_setsockopt(socket, option, data, n);

    assert(rc == 0);
    (void)rc;
}

static void set_pair(void *socket, const struct curve_keys *keys)
{
    set_bytes(socket, ZMQ_CURVE_PUBLICKEY, curve_keys_public(keys), KEY_BYTES);
    set_bytes(socket, ZMQ_CURVE_SECRETKEY, curve_keys_secret(keys), KEY_BYTES);
}

void port_set_client(void *socket, const struct curve_keys *keys,
                     const uint8_t *server)
{
    set_pair(socket, keys);
    set_bytes(socket, ZMQ_CURVE_SERVERKEY, server, KEY_BYTES);
}

/* libzmq lets everybody in while nobody answers its requests for
 * authentication (common/wire/zap.h), so the transport binds their socket first
 * and closes it last.  A message without a user id reaches no core either. */
static void set_server(void *socket, const struct port *p)
{
    char domain[ZAP_DOMAIN_BYTES];

    zap_domain(domain, p->number);
    set_pair(socket, p->keys);
    port_set(socket, ZMQ_CURVE_SERVER, 1);
    set_bytes(socket, ZMQ_ZAP_DOMAIN, domain, strlen(domain));
}

static void set_keys(const struct port *p, int type)
{
    if (p->keys == NULL) {
        return;
    }
    if (type == ZMQ_ROUTER) {
        set_server(p->socket, p);
    } else {
        port_set_client(p->socket, p->keys, p->server.key);
    }
}

/* Opens the reading end before the socket binds or connects: zmq_bind() waits
 * for ever for a monitor without a reader.  Returns NULL if there are too few
 * descriptors. */
static void *monitor_make(void *context, void *socket, int events,
                          uint32_t number)
{
    char name[64];
    void *reader = zmq_socket(context, ZMQ_PAIR);

    if (reader == NULL) {
        return NULL;
    }
    port_set(reader, ZMQ_LINGER, 0);
    port_set(reader, ZMQ_RCVHWM, EVENTS_WAITING);
    snprintf(name, sizeof name, "inproc://monitor-%u", number);
    if (monitor_events(socket, name, events) != 0 ||
        port_connect(reader, name) != 0) {
        zmq_close(reader);
        return NULL;
    }
    return reader;
}

static int descriptor(void *socket)
{
    int fd = -1;
    size_t size = sizeof fd;
    int rc = zmq_getsockopt(socket, ZMQ_FD, &fd, &size);

    assert(rc == 0 && fd >= 0);
    (void)rc;
    return fd;
}

bool port_open(struct port *p, void *context, int type, const char *endpoint,
               uint32_t number)
{
    int events = type == ZMQ_ROUTER ? EVENTS_LISTENING : EVENTS_CONNECTING;

    p->unread = p->monitor_unread = false;
    p->socket = zmq_socket(context, type);
    if (p->socket == NULL) {
        return false;
    }
    set_common(p, endpoint);
    set_beats(p->socket, type, p->keys != NULL);
    set_keys(p, type);
    p->monitor = monitor_make(context, p->socket, events, number);
    if (p->monitor == NULL) {
        zmq_close(p->socket);
        p->socket = NULL;
        return false;
    }
    p->fd = descriptor(p->socket);
    p->monitor_fd = descriptor(p->monitor);
    p->unread = p->monitor_unread = true;
    return true;
}

/* Makes the socket's file with mode 0600: only the owner may connect. */
static int bind_private(void *socket, const char *endpoint)
{
    mode_t before;
    int rc;

    if (endpoint_taken(endpoint)) {
        errno = EADDRINUSE;
        return -1;
    }
    before = umask(endpoint_is_ipc(endpoint) ? 0177 : 022);
    rc = port_bind(socket, endpoint);
    umask(before);
    return rc;
}

/* Maps errno to a status and a sentence. */
static enum status listen_failed(const char *endpoint, struct error *e)
{
    enum status st = errno == EADDRINUSE ? ST_ALREADY_EXISTS
                     : errno == EMFILE || errno == ENFILE
                         ? ST_RESOURCE_EXHAUSTED
                         : ST_INVALID_ARGUMENT;

    return error_set(e, st, "listen on %s: %s", endpoint,
                     st == ST_ALREADY_EXISTS ? "the port is in use"
                     : st == ST_RESOURCE_EXHAUSTED
                         ? "no file descriptors are left (see ulimit -n)"
                         : zmq_strerror(errno));
}

enum status port_listen(struct port *p, void *context, const char *endpoint,
                        uint32_t number, struct error *e)
{
    size_t size = sizeof p->endpoint;

    if (!port_open(p, context, ZMQ_ROUTER, endpoint, number)) {
        return listen_failed(endpoint, e);
    }
    port_set(p->socket, ZMQ_ROUTER_MANDATORY, 1);
    port_set(p->socket, ZMQ_BACKLOG, TRANSPORT_BACKLOG);
    if (bind_private(p->socket, endpoint) != 0) {
        return listen_failed(endpoint, e);
    }
    zmq_getsockopt(p->socket, ZMQ_LAST_ENDPOINT, p->endpoint, &size);
    return ST_OK;
}

/* Drains the monitor first: ZeroMQ's thread may wait for room to write an
 * event while it holds a lock that closing the monitor needs. */
void port_close(struct port *p)
{
    uint16_t event;
    int value;

    if (p->socket != NULL) {
        while (port_event(p, &event, &value)) {
        }
        zmq_socket_monitor(p->socket, NULL, 0);
        zmq_close(p->socket);
        zmq_close(p->monitor);
        p->socket = p->monitor = NULL;
    }
}

int port_send(struct port *p, const void *data, size_t bytes, int flags)
{
    int rc;

    p->unread = true;
    do {
        rc = zmq_send(p->socket, data, bytes, ZMQ_DONTWAIT | flags);
    } while (rc < 0 && errno == EINTR);
    return rc;
}

/* Called when ZeroMQ no longer needs the content of a message. */
static void release(void *data, void *frame)
{
    struct frame *f = frame;

    (void)data;
    frame_free(&f);
}

static int send_given(struct port *p, struct frame *f)
{
    zmq_msg_t msg;
    int rc;

    p->unread = true;
    rc = zmq_msg_init_data(&msg, f->data, f->bytes, release, f);
    assert(rc == 0);
    do {
        rc = zmq_msg_send(&msg, p->socket, ZMQ_DONTWAIT);
    } while (rc < 0 && errno == EINTR);
    if (rc < 0) {
        /* zmq_msg_close() may change errno, which the caller reads. */
        int why = errno;

        zmq_msg_close(&msg); /* releases it */
        errno = why;
    }
    return rc;
}

int port_send_frame(struct port *p, struct frame **fp)
{
    struct frame *f = *fp;
    int rc;

    *fp = NULL;
    /* Below this size a copy is cheaper than ZeroMQ's bookkeeping for a
     * foreign buffer. */
    if (f->bytes > PORT_COPIED_BYTES) {
        return send_given(p, f);
    }
    rc = port_send(p, f->data, f->bytes, 0);
    frame_free(&f);
    return rc;
}

size_t port_bytes_max(const struct port *p)
{
    return FRAME_BYTES_MAX + (p->tensors ? FRAME_TENSOR_MAX : 0);
}

static int receive(void *socket, zmq_msg_t *msg)
{
    int n;

    do {
        n = zmq_msg_recv(msg, socket, ZMQ_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    return n;
}

bool port_recv(struct port *p, zmq_msg_t *msg)
{
    return p->socket != NULL && receive(p->socket, msg) >= 0;
}

bool port_look(struct port *p)
{
    int events = 0, rc;
    size_t size = sizeof events;

    if (p->unread) {
        do {
            rc = zmq_getsockopt(p->socket, ZMQ_EVENTS, &events, &size);
        } while (rc < 0 && errno == EINTR);
        p->unread = (events & ZMQ_POLLIN) != 0;
    }
    return p->unread;
}

bool port_event(struct port *p, uint16_t *event, int *value)
{
    zmq_msg_t msg;
    uint32_t v = 0;
    bool found;

    zmq_msg_init(&msg);
    found = p->monitor != NULL && receive(p->monitor, &msg) >= 6;
    if (found) {
        memcpy(event, zmq_msg_data(&msg), sizeof *event);
        memcpy(&v, (const char *)zmq_msg_data(&msg) + 2, sizeof v);
        *value = (int)v;
    }
    while (zmq_msg_more(&msg) && receive(p->monitor, &msg) >= 0) {
        /* the address */
    }
    zmq_msg_close(&msg);
    return found;
}
