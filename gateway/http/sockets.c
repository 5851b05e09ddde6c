#include "gateway/http/sockets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "common/base/list.h"
#include "common/base/log_gate.h"
#include "common/base/minmax.h"
#include "common/base/monotonic.h"
#include "gateway/http/http_limits.h"
#include "gateway/http/http_metrics.h"
#include "gateway/http/listener.h"
#include "gateway/http/peer_address.h"
#include "gateway/http/slots.h"
#include "gateway/http/tls.h"

/* Ids of descriptors that are no connections. */
#define LISTENER_ID SLOT_NONE
#define TIMER_ID    (SLOT_NONE - 1)

#define PLAIN_LINES 8 /* log lines a second of requests without TLS */

/* CONNECTED --accept--> [SHAKING] --> OPEN --io.close--> LINGERING --> gone */
enum state { SHAKING, OPEN, LINGERING };

struct connection {
    struct list waiting; /* in http_sockets.shaking or .lingering */
    int64_t due_us;      /* while in one of them */
    SSL *ssl;            /* NULL: no TLS */
    size_t discarded;
    int fd;
    uint32_t id;
    uint32_t interest;
    uint8_t state;
    bool paused, blocked, ended;
};

struct http_sockets {
    struct http_io io;
    struct http_server *server; /* NULL: not started */
    struct listener listener;
    char *cert, *key;
    SSL_CTX *tls; /* NULL: no TLS */
    int epoll, timer;
    struct slots slots; /* of struct connection */
    uint32_t n, n_shaking;
    struct list shaking, lingering; /* by due_us */
    int64_t resume_us;              /* accepting is paused until; 0: it runs */
    int64_t armed_us;
    struct log_gate plain; /* lines of requests without TLS */
    char input[HTTP_READ_BYTES_MAX];
};

/* ---- connections ---- */

static struct connection *find(const struct http_sockets *h, uint32_t id)
{
    return slots_find(&h->slots, id);
}

static struct connection *connection_new(struct http_sockets *h, int fd)
{
    struct connection *c = calloc(1, sizeof *c);

    if (c == NULL) {
        return NULL;
    }
    c->fd = fd;
    c->id = slots_add(&h->slots, c);
    if (c->id == SLOT_NONE) {
        free(c);
        return NULL;
    }
    list_init(&c->waiting);
    h->n++;
    return c;
}

/* The server is not called: it closed the connection, or never had it. */
static void connection_free(struct http_sockets *h, struct connection *c)
{
    slots_remove(&h->slots, c->id);
    list_remove(&c->waiting);
    if (c->ssl != NULL) {
        tls_free(c->ssl);
    }
    close(c->fd);
    free(c);
    h->n--;
}

/* Frees first: the server's handler may write to other connections, and must
 * not find this one. */
static void lose(struct http_sockets *h, struct connection *c)
{
    struct http_conn_id id = {c->id};
    bool open = c->state == OPEN;

    connection_free(h, c);
    if (open) {
        http_server_lost(h->server, id);
    }
}

/* ---- time ---- */

static int64_t first_due(const struct list *list)
{
    return list_empty(list)
               ? INT64_MAX
               : LIST_OF(list->next, struct connection, waiting)->due_us;
}

static void arm_timer(struct http_sockets *h)
{
    int64_t due = min_i64(first_due(&h->shaking), first_due(&h->lingering));
    struct itimerspec at = {0};

    due = h->resume_us != 0 ? min_i64(due, h->resume_us) : due;
    if (due == h->armed_us) {
        return;
    }
    h->armed_us = due;
    if (due != INT64_MAX) {
        at.it_value.tv_sec = due / 1000000;
        at.it_value.tv_nsec = due % 1000000 * 1000;
    }
    timerfd_settime(h->timer, TFD_TIMER_ABSTIME, &at, NULL);
}

static void wait_until(struct http_sockets *h, struct connection *c,
                       struct list *list, int64_t ms)
{
    c->due_us = monotonic_us() + 1000 * ms;
    list_remove(&c->waiting);
    list_append(list, &c->waiting);
    arm_timer(h);
}

/* ---- interest ---- */

static void watch(struct http_sockets *h, struct connection *c)
{
    struct epoll_event e = {.data.u32 = c->id};

    /* After the end of input these events would repeat without end. */
    if (!c->ended) {
        e.events |= EPOLLRDHUP | (c->paused ? 0u : EPOLLIN);
    }
    if (c->blocked) {
        e.events |= EPOLLOUT;
    }
    if (e.events != c->interest) {
        c->interest = e.events;
        epoll_ctl(h->epoll, EPOLL_CTL_MOD, c->fd, &e);
    }
}

/* ---- what the server calls ---- */

/* The failure of a connection reaches the server as an event of its
 * descriptor, outside of this call. */
static size_t break_off(struct connection *c, size_t n)
{
    shutdown(c->fd, SHUT_RDWR);
    return n;
}

static size_t write_plain(struct connection *c, const char *data, size_t n)
{
    ssize_t sent;

    do {
        sent = send(c->fd, data, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    if (sent >= 0) {
        return (size_t)sent;
    }
    return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : break_off(c, n);
}

static size_t write_tls(struct connection *c, const char *data, size_t n)
{
    size_t sum = 0;

    while (sum < n) {
        size_t taken;
        enum tls_result r = tls_write(c->ssl, data + sum, n - sum, &taken);

        if (r == TLS_BROKEN || r == TLS_END) {
            return break_off(c, n);
        }
        if (r != TLS_DONE) {
            break;
        }
        sum += taken;
    }
    return sum;
}

static size_t io_write(struct http_io *io, struct http_conn_id id,
                       const char *data, size_t n)
{
    struct http_sockets *h = io->impl;
    struct connection *c = find(h, id.v);
    size_t taken;

    if (c == NULL) {
        return n;
    }
    taken = c->ssl != NULL ? write_tls(c, data, n) : write_plain(c, data, n);
    c->blocked = taken < n;
    watch(h, c);
    return taken;
}

static void io_close(struct http_io *io, struct http_conn_id id)
{
    struct http_sockets *h = io->impl;
    struct connection *c = find(h, id.v);

    if (c == NULL) {
        return;
    }
    if (c->ssl != NULL) {
        tls_free(c->ssl);
        c->ssl = NULL;
    }
    /* A peer that has sent everything needs no time. */
    if (c->ended || shutdown(c->fd, SHUT_WR) != 0) {
        connection_free(h, c);
        return;
    }
    c->state = LINGERING;
    c->paused = false;
    c->blocked = false;
    wait_until(h, c, &h->lingering, HTTP_LINGER_MS);
    watch(h, c);
}

static void io_pause(struct http_io *io, struct http_conn_id id, bool paused)
{
    struct http_sockets *h = io->impl;
    struct connection *c = find(h, id.v);

    if (c != NULL) {
        c->paused = paused;
        watch(h, c);
    }
}

static void io_peer(struct http_io *io, struct http_conn_id id,
                    char text[HTTP_CLIENT_TEXT])
{
    const struct connection *c = find(io->impl, id.v);

    if (c != NULL) {
        http_peer_address(c->fd, text);
    }
}

/* ---- events of a connection ---- */

static void end_input(struct http_sockets *h, struct connection *c)
{
    c->ended = true;
    watch(h, c);
    http_server_eof(h->server, (struct http_conn_id){c->id});
}

static void read_plain(struct http_sockets *h, struct connection *c)
{
    ssize_t n = recv(c->fd, h->input, sizeof h->input, MSG_DONTWAIT);

    if (n > 0) {
        http_server_bytes(h->server, (struct http_conn_id){c->id}, h->input,
                          (size_t)n);
    } else if (n == 0) {
        end_input(h, c);
    } else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
        lose(h, c);
    }
}

static void read_tls(struct http_sockets *h, struct connection *c)
{
    size_t n;
    enum tls_result r = tls_read(c->ssl, h->input, sizeof h->input, &n);

    if (r == TLS_DONE) {
        http_server_bytes(h->server, (struct http_conn_id){c->id}, h->input, n);
    } else if (r == TLS_END) {
        end_input(h, c);
    } else if (r == TLS_BROKEN) {
        lose(h, c);
    } else if (r == TLS_WANTS_WRITE) {
        /* An answer of TLS itself has to go out first. */
        c->blocked = true;
        watch(h, c);
    }
}

/* Without reading on, the kernel would answer input with a reset, which can
 * overtake the response on its way to the client. */
static void discard(struct http_sockets *h, struct connection *c)
{
    ssize_t n = recv(c->fd, h->input, sizeof h->input, MSG_DONTWAIT);

    if (n > 0) {
        c->discarded += (size_t)n;
    }
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) ||
        c->discarded > HTTP_LINGER_BYTES_MAX) {
        connection_free(h, c);
    }
}

/* Answers a client that sends HTTP to the port of TLS, in HTTP. */
static void refuse_plain(struct http_sockets *h, struct connection *c)
{
#define PLAIN_BODY                                                         \
    "{\"error\":{\"message\":\"this port takes TLS, but the request came " \
    "without it; use https://\",\"type\":\"invalid_request_error\","       \
    "\"param\":null,\"code\":\"tls_required\"}}"
    static const char head[] = "HTTP/1.1 400 Bad Request\r\n"
                               "Content-Type: application/json\r\n"
                               "Connection: close\r\nContent-Length: ";
    char text[sizeof head + sizeof PLAIN_BODY + 32], client[HTTP_CLIENT_TEXT];
    struct http_conn_id id = {c->id};
    int n = snprintf(text, sizeof text, "%s%zu\r\n\r\n%s", head,
                     sizeof PLAIN_BODY - 1, PLAIN_BODY);

    memcpy(client, "-", sizeof "-");
    http_peer_address(c->fd, client);
    log_gate_write(&h->plain, monotonic_us(),
                   "client=%s status=400 why=\"HTTP without TLS\"", client);
    http_server_metrics(h->server)->tls_failures++;
    h->n_shaking--;
    /* The buffer of a new socket has room for all of it. */
    (void)!send(c->fd, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
    list_remove(&c->waiting);
    io_close(&h->io, id);
}

static void fail_handshake(struct http_sockets *h, struct connection *c)
{
    http_server_metrics(h->server)->tls_failures++;
    h->n_shaking--;
    connection_free(h, c);
}

/* Input that came with the last bytes of a handshake is still in the kernel,
 * so epoll reports it in the next turn. */
static void open_connection(struct http_sockets *h, struct connection *c)
{
    list_remove(&c->waiting);
    c->state = OPEN;
    c->blocked = false;
    if (!http_server_accept(h->server, (struct http_conn_id){c->id})) {
        connection_free(h, c);
        return;
    }
    watch(h, c);
}

static void shake(struct http_sockets *h, struct connection *c)
{
    enum tls_result r = tls_handshake(c->ssl);

    if (r == TLS_DONE) {
        h->n_shaking--;
        open_connection(h, c);
    } else if (r == TLS_PLAIN) {
        refuse_plain(h, c);
    } else if (r == TLS_BROKEN || r == TLS_END) {
        fail_handshake(h, c);
    } else {
        c->blocked = r == TLS_WANTS_WRITE;
        watch(h, c);
    }
}

static void on_open(struct http_sockets *h, struct connection *c,
                    uint32_t events)
{
    uint32_t id = c->id;

    if (events & EPOLLOUT) {
        c->blocked = false;
        watch(h, c);
        http_server_writable(h->server, (struct http_conn_id){id});
    }
    if (events & (EPOLLERR | EPOLLHUP)) {
        lose(h, c);
    } else if (events & EPOLLIN) {
        if (c->ssl != NULL) {
            read_tls(h, c);
        } else {
            read_plain(h, c);
        }
    } else if (events & EPOLLRDHUP) {
        /* Reading is paused, and would not find the end. */
        end_input(h, c);
    }
}

static void on_event(struct http_sockets *h, uint32_t id, uint32_t events)
{
    struct connection *c = find(h, id);

    if (c == NULL) {
        return;
    }
    switch ((enum state)c->state) {
    case SHAKING:
        shake(h, c);
        break;
    case OPEN:
        on_open(h, c, events);
        break;
    case LINGERING:
        discard(h, c);
        break;
    }
}

/* ---- accepting ---- */

static void watch_listener(struct http_sockets *h, bool on)
{
    struct epoll_event e = {.events = on ? EPOLLIN : 0,
                            .data.u32 = LISTENER_ID};

    if (h->listener.fd >= 0) {
        epoll_ctl(h->epoll, EPOLL_CTL_MOD, h->listener.fd, &e);
    }
}

static void pause_accepting(struct http_sockets *h)
{
    http_server_metrics(h->server)->accept_failures++;
    h->resume_us = monotonic_us() + 1000 * HTTP_ACCEPT_PAUSE_MS;
    watch_listener(h, false);
}

/* Descriptors of clients that only have to read their last response are the
 * first to go. */
static void evict_lingering(struct http_sockets *h)
{
    if (h->n == SLOTS_MAX && !list_empty(&h->lingering)) {
        connection_free(h,
                        LIST_OF(h->lingering.next, struct connection, waiting));
    }
}

/* Handshakes cost OpenSSL's memory before the server counts the connection. */
static void begin_handshake(struct http_sockets *h, struct connection *c)
{
    if (h->n_shaking == HTTP_HANDSHAKES_MAX) {
        fail_handshake(h, LIST_OF(h->shaking.next, struct connection, waiting));
    }
    h->n_shaking++;
    wait_until(h, c, &h->shaking, HTTP_HANDSHAKE_MS);
}

static bool add_connection(struct http_sockets *h, int fd)
{
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP};
    struct connection *c;

    evict_lingering(h);
    c = connection_new(h, fd);
    if (c == NULL) {
        close(fd);
        return false;
    }
    c->interest = e.events;
    e.data.u32 = c->id;
    if (epoll_ctl(h->epoll, EPOLL_CTL_ADD, fd, &e) != 0 ||
        (h->tls != NULL && (c->ssl = tls_new(h->tls, fd)) == NULL)) {
        connection_free(h, c);
        return false;
    }
    if (h->tls != NULL) {
        begin_handshake(h, c);
    } else {
        open_connection(h, c);
    }
    return true;
}

static void accept_some(struct http_sockets *h)
{
    for (int i = 0; i < HTTP_ACCEPT_BUDGET; i++) {
        enum listener_result r;
        int fd;

        r = listener_accept(&h->listener, &fd);
        if (r == LISTENER_NONE) {
            return;
        }
        if (r == LISTENER_EXHAUSTED || !add_connection(h, fd)) {
            pause_accepting(h);
            return;
        }
    }
}

static void expire(struct http_sockets *h)
{
    int64_t now = monotonic_us();
    uint64_t times;

    (void)!read(h->timer, &times, sizeof times);
    while (first_due(&h->shaking) <= now) {
        fail_handshake(h, LIST_OF(h->shaking.next, struct connection, waiting));
    }
    while (first_due(&h->lingering) <= now) {
        connection_free(h,
                        LIST_OF(h->lingering.next, struct connection, waiting));
    }
    if (h->resume_us != 0 && h->resume_us <= now) {
        h->resume_us = 0;
        watch_listener(h, true);
    }
    h->armed_us = INT64_MAX;
}

/* ---- the edge ---- */

void http_sockets_turn(struct http_sockets *h)
{
    struct epoll_event events[HTTP_EVENT_BUDGET];
    int n = epoll_wait(h->epoll, events, HTTP_EVENT_BUDGET, 0);

    (void)log_gate_tick(&h->plain, monotonic_us());

    for (int i = 0; i < n; i++) {
        uint32_t id = events[i].data.u32;

        if (id == LISTENER_ID) {
            accept_some(h);
        } else if (id == TIMER_ID) {
            expire(h);
        } else {
            on_event(h, id, events[i].events);
        }
    }
    arm_timer(h);
}

static enum status load_tls(struct http_sockets *h, struct error *e)
{
    SSL_CTX *fresh;
    enum status s = tls_context_new(&fresh, h->cert, h->key, e);

    if (s == ST_OK) {
        SSL_CTX_free(h->tls);
        h->tls = fresh;
    }
    return s;
}

static enum status open_descriptors(struct http_sockets *h, struct error *e)
{
    struct epoll_event e_timer = {.events = EPOLLIN, .data.u32 = TIMER_ID};
    struct epoll_event e_listener = {.data.u32 = LISTENER_ID};

    h->epoll = epoll_create1(EPOLL_CLOEXEC);
    h->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (h->epoll < 0 || h->timer < 0 ||
        epoll_ctl(h->epoll, EPOLL_CTL_ADD, h->timer, &e_timer) != 0 ||
        epoll_ctl(h->epoll, EPOLL_CTL_ADD, h->listener.fd, &e_listener) != 0) {
        return error_set(e, ST_UNAVAILABLE, "no descriptors for HTTP: %s",
                         strerror(errno));
    }
    return ST_OK;
}

static enum status open_all(struct http_sockets *h,
                            const struct http_sockets_options *o,
                            struct error *e)
{
    enum status s;

    if ((o->tls_cert == NULL) != (o->tls_key == NULL)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "TLS needs both a certificate and a key");
    }
    if (o->tls_cert != NULL) {
        h->cert = strdup(o->tls_cert);
        h->key = strdup(o->tls_key);
        s = load_tls(h, e);
        if (s != ST_OK) {
            return s;
        }
    }
    s = o->passed > 0 ? listener_take(&h->listener, o->passed, o->anyone, e)
                      : listener_open(&h->listener, o->listen, o->anyone, e);
    return s == ST_OK ? open_descriptors(h, e) : s;
}

enum status http_sockets_new(struct http_sockets **out,
                             const struct http_sockets_options *options,
                             struct error *e)
{
    struct http_sockets *h = calloc(1, sizeof *h);
    enum status s;

    *out = NULL;
    if (h == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "no memory for sockets");
    }
    h->epoll = h->timer = h->listener.fd = h->listener.reserve = -1;
    h->armed_us = INT64_MAX;
    log_gate_init(&h->plain, LOG_INFO, "http-without-tls", PLAIN_LINES);
    slots_init(&h->slots);
    list_init(&h->shaking);
    list_init(&h->lingering);
    h->io = (struct http_io){.impl = h,
                             .write = io_write,
                             .close = io_close,
                             .pause = io_pause,
                             .peer = io_peer};
    s = open_all(h, options, e);
    if (s != ST_OK) {
        http_sockets_free(&h);
        return s;
    }
    *out = h;
    return ST_OK;
}

void http_sockets_free(struct http_sockets **sockets)
{
    struct http_sockets *h = *sockets;

    *sockets = NULL;
    if (h == NULL) {
        return;
    }
    for (uint32_t i = 0; i < h->slots.n; i++) {
        if (h->slots.rows[i].item != NULL) {
            connection_free(h, h->slots.rows[i].item);
        }
    }
    log_gate_end(&h->plain);
    listener_close(&h->listener);
    if (h->epoll >= 0) {
        close(h->epoll);
    }
    if (h->timer >= 0) {
        close(h->timer);
    }
    SSL_CTX_free(h->tls);
    free(h->cert);
    free(h->key);
    slots_fini(&h->slots);
    free(h);
}

const struct http_io *http_sockets_io(struct http_sockets *h)
{
    return &h->io;
}

void http_sockets_start(struct http_sockets *h, struct http_server *server)
{
    h->server = server;
    watch_listener(h, true);
}

void http_sockets_stop(struct http_sockets *h)
{
    listener_close(&h->listener);
}

int http_sockets_fd(const struct http_sockets *h)
{
    return h->epoll;
}

const char *http_sockets_endpoint(const struct http_sockets *h)
{
    return h->listener.endpoint;
}

enum status http_sockets_reload_tls(struct http_sockets *h, struct error *e)
{
    return h->cert == NULL ? ST_OK : load_tls(h, e);
}
