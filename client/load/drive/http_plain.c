/* http_plain.c - HTTP/1.1 over TCP, with connections that are kept.
 *
 * A connection serves one exchange at a time.  The last one used is used again
 * first.  A server may close a kept connection in the moment that a request is
 * sent on it; such a request is sent once more on a new connection (RFC 9112,
 * section 9.3.1). */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "client/load/drive/http_reply.h"
#include "client/load/drive/http_text.h"
#include "client/load/drive/http_wire.h"
#include "common/base/memory.h"
#include "common/base/monotonic.h"
#include "common/base/timer.h"

/* A turn is short, because what is due in the generator waits for its end: so
 * many connections, about 10 us each, and so many bytes, about 1 ns each. */
#define TURN_EVENTS 8
#define TURN_BYTES  262144
#define READ_BYTES  65536
#define SEND_BYTES  131072

struct http_wire {
    const struct http_events *events;
    int epoll;
    struct sockaddr_storage address;
    socklen_t n_address;
    int64_t connect_us;
    uint32_t n_links, n_links_max; /* 0: no limit */
    struct list idle, busy, dead;
    struct list waiting; /* exchanges */
    struct timers timers;
    struct http_text head; /* up to the value of Content-Length */
    size_t n_moved;        /* bytes sent and received in this turn */
    char why[160];
    char bytes[READ_BYTES];
};

struct link {
    struct http_wire *w;
    struct list node;
    struct timer timer; /* of connecting */
    int fd;
    bool connecting, wants_out, paused, dead;
    bool used;   /* it has served an exchange before */
    bool leaves; /* the exchange was taken away while its bytes were parsed */
    struct http_exchange *x;
    char length[32];
    size_t n_length;
    size_t n_sent; /* of head, length and body */
    struct http_reply reply;
};

static void begin(struct link *l, struct http_exchange *x);

/* ---- connections ---- */

static void watch(struct link *l, int op)
{
    struct epoll_event ev = {.events = (l->paused ? 0 : EPOLLIN) |
                                       (l->wants_out ? EPOLLOUT : 0u),
                             .data.ptr = l};

    epoll_ctl(l->w->epoll, op, l->fd, &ev);
}

static void want_out(struct link *l, bool wants)
{
    if (l->wants_out != wants) {
        l->wants_out = wants;
        watch(l, EPOLL_CTL_MOD);
    }
}

/* Closes a connection.  Its struct lives until the end of the turn, because
 * events of this turn may point at it. */
static void close_link(struct link *l)
{
    timer_clear(&l->w->timers, &l->timer);
    close(l->fd);
    l->dead = true;
    l->leaves = true;
    l->x = NULL;
    l->w->n_links--;
    list_remove(&l->node);
    list_append(&l->w->dead, &l->node);
}

static void free_links(struct list *links)
{
    struct list *node;

    while ((node = list_take(links)) != NULL) {
        free(LIST_OF(node, struct link, node));
    }
}

static int open_socket(const struct http_wire *w)
{
    int one = 1;
    int fd = socket(w->address.ss_family,
                    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    return fd;
}

/* Ends an exchange that has no connection. */
static void break_exchange(struct http_wire *w, struct http_exchange *x,
                           const char *what, int error)
{
    const char *advice = error == EMFILE || error == ENFILE
                             ? "; raise ulimit -n or limit --connections"
                         : error == EADDRNOTAVAIL
                             ? ", no free local port; limit --connections"
                             : "";

    x->link = NULL;
    snprintf(w->why, sizeof w->why, "%s: %s%s", what, strerror(error), advice);
    w->events->done(x, w->why, monotonic_us());
}

static void note_sent(struct http_wire *w, struct http_exchange *x)
{
    if (!x->sent) {
        x->sent = true;
        w->events->sent(x, monotonic_us());
    }
}

static struct link *new_link(struct http_wire *w, int fd)
{
    struct link *l = memory_must(malloc(sizeof *l));

    memset(l, 0, offsetof(struct link, reply));
    l->w = w;
    l->fd = fd;
    list_init(&l->node);
    list_append(&w->busy, &l->node);
    w->n_links++;
    return l;
}

/* Opens a connection for an exchange. */
static void connect_link(struct http_wire *w, struct http_exchange *x)
{
    int fd = open_socket(w);
    struct link *l;

    if (fd < 0) {
        break_exchange(w, x, "cannot open a socket", errno);
        return;
    }
    l = new_link(w, fd);
    l->x = x;
    x->link = l;
    note_sent(w, x);
    if (l->x == NULL) { /* stopped */
        return;
    }
    if (connect(fd, (struct sockaddr *)&w->address, w->n_address) == 0) {
        watch(l, EPOLL_CTL_ADD);
        begin(l, x);
    } else if (errno == EINPROGRESS) {
        l->connecting = true;
        l->wants_out = true;
        watch(l, EPOLL_CTL_ADD);
        timer_set(&w->timers, &l->timer, monotonic_us() + w->connect_us);
    } else {
        int error = errno;

        close_link(l);
        break_exchange(w, x, "cannot connect", error);
    }
}

/* Starts exchanges that wait for a connection, while one may be opened. */
static void serve_waiting(struct http_wire *w)
{
    struct list *node;

    while ((w->n_links_max == 0 || w->n_links < w->n_links_max ||
            !list_empty(&w->idle)) &&
           (node = list_take(&w->waiting)) != NULL) {
        http_plain.start(w, LIST_OF(node, struct http_exchange, waiting));
    }
}

/* Ends the exchange of a connection that cannot go on. */
static void break_link(struct link *l, const char *why)
{
    struct http_wire *w = l->w;
    struct http_exchange *x = l->x;

    close_link(l);
    if (x != NULL) {
        x->link = NULL;
        w->events->done(x, why, monotonic_us());
    }
    serve_waiting(w);
}

/* The server closed or reset the connection. */
static void lose_link(struct link *l, int error)
{
    struct http_wire *w = l->w;
    struct http_exchange *x = l->x;
    const struct http_reply *r = &l->reply;
    bool early = x != NULL && r->status == 0 && r->n_line == 0;

    if (early && l->used && !x->retried) {
        x->retried = true;
        x->link = NULL;
        close_link(l);
        connect_link(w, x);
        return;
    }
    snprintf(w->why, sizeof w->why, "the server closed the connection %s%s%s",
             early ? "before an answer" : "in the middle of an answer",
             error == 0 ? "" : ": ", error == 0 ? "" : strerror(error));
    break_link(l, w->why);
}

/* ---- sending ---- */

static size_t total(const struct link *l)
{
    return l->w->head.n + l->n_length + l->x->n_body;
}

/* Fills the parts that follow the first n_sent bytes, at most SEND_BYTES. */
static int unsent(const struct link *l, struct iovec *out)
{
    const struct iovec parts[3] = {
        {l->w->head.bytes, l->w->head.n},
        {(void *)(uintptr_t)l->length, l->n_length},
        {(void *)(uintptr_t)l->x->body, l->x->n_body}};
    size_t skip = l->n_sent, most = SEND_BYTES;
    int n = 0;

    for (int i = 0; i < 3; i++) {
        size_t cut = skip < parts[i].iov_len ? skip : parts[i].iov_len;
        size_t left = parts[i].iov_len - cut;

        skip -= cut;
        left = left < most ? left : most;
        most -= left;
        if (left > 0) {
            out[n].iov_base = (char *)parts[i].iov_base + cut;
            out[n++].iov_len = left;
        }
    }
    return n;
}

/* Sends one part.  A long body takes several turns. */
static void send_more(struct link *l)
{
    struct iovec parts[3];
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = 0};
    ssize_t n;

    m.msg_iovlen = (size_t)unsent(l, parts);
    n = m.msg_iovlen == 0 ? 0 : sendmsg(l->fd, &m, MSG_NOSIGNAL);
    if (n < 0 && errno == EPIPE) { /* there may be an answer to read */
        want_out(l, false);
    } else if (n < 0 && errno != EAGAIN) {
        lose_link(l, errno);
    } else {
        l->n_sent += n > 0 ? (size_t)n : 0;
        l->w->n_moved += n > 0 ? (size_t)n : 0;
        want_out(l, l->n_sent < total(l));
    }
}

static void begin(struct link *l, struct http_exchange *x)
{
    l->x = x;
    x->link = l;
    l->n_sent = 0;
    l->leaves = false;
    l->n_length =
        (size_t)snprintf(l->length, sizeof l->length, "%zu\r\n\r\n", x->n_body);
    http_reply_begin(&l->reply);
    note_sent(l->w, x);
    if (l->x == x) {
        send_more(l);
    }
}

/* ---- receiving ---- */

static void on_head(void *arg, const struct http_reply *r)
{
    struct link *l = arg;

    l->w->events->head(l->x, r->status, r->streams);
}

static void on_body(void *arg, const char *bytes, size_t n)
{
    struct link *l = arg;

    l->w->events->bytes(l->x, bytes, n, monotonic_us());
}

static const struct http_reply_ops reply_ops = {on_head, on_body};

/* The response has ended.  The connection is idle before `done` runs, which may
 * start the next exchange. */
static void end_exchange(struct link *l, bool keeps)
{
    struct http_wire *w = l->w;
    struct http_exchange *x = l->x;

    keeps &= l->reply.keeps && l->n_sent == total(l);
    l->x = NULL;
    x->link = NULL;
    if (keeps) {
        if (l->paused) {
            l->paused = false;
            watch(l, EPOLL_CTL_MOD);
        }
        l->used = true;
        list_remove(&l->node);
        list_append(&w->idle, &l->node);
    } else {
        close_link(l);
    }
    w->events->done(x, NULL, monotonic_us());
    serve_waiting(w);
}

static void take_bytes(struct link *l, const char *bytes, size_t n)
{
    size_t took =
        http_reply_push(&l->reply, bytes, n, &reply_ops, l, &l->leaves);

    if (l->leaves) {
        return;
    }
    if (l->reply.part == REPLY_DONE) {
        end_exchange(l, took == n);
    } else if (l->reply.part == REPLY_BAD) {
        break_link(l, l->reply.why);
    }
}

static void receive(struct link *l)
{
    ssize_t n = recv(l->fd, l->w->bytes, READ_BYTES, 0);

    if (n < 0 && errno == EAGAIN) {
        return;
    }
    l->w->n_moved += n > 0 ? (size_t)n : 0;
    if (l->x == NULL) { /* closed by the server, or out of turn */
        close_link(l);
    } else if (n > 0) {
        take_bytes(l, l->w->bytes, (size_t)n);
    } else if (n == 0 && http_reply_close(&l->reply)) {
        end_exchange(l, false);
    } else {
        lose_link(l, n == 0 ? 0 : errno);
    }
}

static void finish_connect(struct link *l)
{
    int error = 0;
    socklen_t size = sizeof error;

    getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
        snprintf(l->w->why, sizeof l->w->why, "cannot connect: %s",
                 strerror(error));
        break_link(l, l->w->why);
        return;
    }
    l->connecting = false;
    timer_clear(&l->w->timers, &l->timer);
    begin(l, l->x);
}

static void serve_link(struct link *l, uint32_t events)
{
    if (l->connecting) {
        finish_connect(l);
        return;
    }
    if ((events & EPOLLOUT) != 0 && l->x != NULL) {
        send_more(l);
    }
    if ((events & ~(uint32_t)EPOLLOUT) != 0 && !l->dead) {
        receive(l);
    }
}

/* ---- the transport ---- */

static void plain_turn(struct http_wire *w)
{
    struct epoll_event events[TURN_EVENTS];
    int n = epoll_wait(w->epoll, events, TURN_EVENTS, 0);
    struct timer *t;

    w->n_moved = 0;
    for (int i = 0; i < n && w->n_moved < TURN_BYTES; i++) {
        struct link *l = events[i].data.ptr;

        if (!l->dead) {
            serve_link(l, events[i].events);
        }
    }
    while ((t = timers_pop(&w->timers, monotonic_us())) != NULL) {
        snprintf(w->why, sizeof w->why,
                 "cannot connect within %lld ms (--connect-timeout)",
                 (long long)(w->connect_us / 1000));
        break_link(LIST_OF(t, struct link, timer), w->why);
    }
    free_links(&w->dead);
}

static void plain_start(struct http_wire *w, struct http_exchange *x)
{
    x->link = NULL;
    list_init(&x->waiting);
    if (!list_empty(&w->idle)) {
        struct link *l = LIST_OF(w->idle.prev, struct link, node);

        list_remove(&l->node);
        list_append(&w->busy, &l->node);
        begin(l, x);
    } else if (w->n_links_max == 0 || w->n_links < w->n_links_max) {
        connect_link(w, x);
    } else {
        list_append(&w->waiting, &x->waiting);
    }
}

static void plain_stop(struct http_wire *w, struct http_exchange *x)
{
    struct link *l = x->link;

    list_remove(&x->waiting);
    x->link = NULL;
    if (l != NULL) {
        close_link(l);
        serve_waiting(w);
    }
}

static void plain_pause(struct http_wire *w, struct http_exchange *x,
                        bool paused)
{
    struct link *l = x->link;

    (void)w;
    if (l != NULL && l->paused != paused) {
        l->paused = paused;
        watch(l, EPOLL_CTL_MOD);
    }
}

static int plain_fd(const struct http_wire *w)
{
    return w->epoll;
}

static int64_t plain_due_us(const struct http_wire *w)
{
    return timers_due(&w->timers);
}

/* Returns whether the address can be reached within the time to connect. */
static bool answers(const struct http_wire *w, const struct addrinfo *a)
{
    struct timeval most = {w->connect_us / 1000000, w->connect_us % 1000000};
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok;

    if (fd < 0) {
        return false;
    }
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
    ok = connect(fd, a->ai_addr, a->ai_addrlen) == 0;
    close(fd);
    return ok;
}

/* Keeps the first address that can be reached.  Keeps the last one anyway, so
 * that requests report its error. */
static enum status resolve(struct http_wire *w, const struct http_url *url,
                           struct error *e)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *all = NULL;
    int failed = getaddrinfo(url->host, url->port, &hints, &all);

    if (failed != 0) {
        return error_set(e, ST_UNAVAILABLE, "%s: %s", url->host,
                         gai_strerror(failed));
    }
    for (struct addrinfo *a = all; a != NULL && w->n_address == 0;
         a = a->ai_next) {
        if (a->ai_next == NULL || answers(w, a)) {
            memcpy(&w->address, a->ai_addr, a->ai_addrlen);
            w->n_address = a->ai_addrlen;
        }
    }
    freeaddrinfo(all);
    return ST_OK;
}

/* Waits for a connection that connect() has begun.  Returns its error, 0 if
 * it stands. */
static int await_connect(const struct http_wire *w, int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    socklen_t size = sizeof(int);
    int error = 0;

    if (poll(&p, 1, (int)(w->connect_us / 1000)) == 0) {
        return ETIMEDOUT;
    }
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    return error;
}

/* Opens all connections of a limited number, so that requests do not open them
 * when the server is slow and many are needed at once. */
static enum status open_all(struct http_wire *w, struct error *e)
{
    while (w->n_links < w->n_links_max) {
        int fd = open_socket(w), error = 0;
        struct link *l;

        if (fd < 0 ||
            (connect(fd, (struct sockaddr *)&w->address, w->n_address) != 0 &&
             (error = errno) == EINPROGRESS)) {
            error = fd < 0 ? errno : await_connect(w, fd);
        }
        if (error != 0) {
            if (fd >= 0) {
                close(fd);
            }
            return error_set(e, ST_UNAVAILABLE,
                             "cannot open connection %u of --connections %u: "
                             "%s",
                             w->n_links + 1, w->n_links_max, strerror(error));
        }
        l = new_link(w, fd);
        l->used = true; /* the server may close it before its first request */
        list_remove(&l->node);
        list_append(&w->idle, &l->node);
        watch(l, EPOLL_CTL_ADD);
    }
    return ST_OK;
}

static void make_head(struct http_wire *w, const struct http_url *url,
                      const struct target_options *o)
{
    struct http_text *h = &w->head;

    http_text_puts(h, "POST ");
    http_text_puts(h, url->base);
    http_text_puts(h, o->chat ? "/chat/completions" : "/completions");
    http_text_puts(h, " HTTP/1.1\r\nHost: ");
    http_text_puts(h, url->authority);
    http_text_puts(h, "\r\nUser-Agent: sluice-load/" SLUICE_VERSION
                      "\r\nAccept: */*\r\nContent-Type: application/json\r\n");
    if (o->key != NULL) {
        http_text_puts(h, "Authorization: Bearer ");
        http_text_puts(h, o->key);
        http_text_puts(h, "\r\n");
    }
    http_text_puts(h, "Content-Length: ");
}

static void plain_close(struct http_wire **self)
{
    struct http_wire *w = *self;

    *self = NULL;
    while (!list_empty(&w->idle)) {
        close_link(LIST_OF(w->idle.next, struct link, node));
    }
    while (!list_empty(&w->busy)) {
        close_link(LIST_OF(w->busy.next, struct link, node));
    }
    free_links(&w->dead);
    timers_fini(&w->timers);
    http_text_fini(&w->head);
    if (w->epoll >= 0) {
        close(w->epoll);
    }
    free(w);
}

static enum status plain_open(struct http_wire **out,
                              const struct http_url *url,
                              const struct target_options *o,
                              const struct http_events *events, struct error *e)
{
    struct http_wire *w = memory_must(calloc(1, sizeof *w));
    enum status st;

    w->events = events;
    w->connect_us = (int64_t)o->connect_ms * 1000;
    w->n_links_max = o->n_connections;
    list_init(&w->idle);
    list_init(&w->busy);
    list_init(&w->dead);
    list_init(&w->waiting);
    timers_init(&w->timers);
    make_head(w, url, o);
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    st = w->epoll < 0
             ? error_set(e, ST_RESOURCE_EXHAUSTED, "epoll: %s", strerror(errno))
             : resolve(w, url, e);
    if (st == ST_OK) {
        st = open_all(w, e);
    }
    if (st != ST_OK) {
        plain_close(&w);
        return st;
    }
    *out = w;
    return ST_OK;
}

const struct http_wire_ops http_plain = {plain_open,   plain_close, plain_start,
                                         plain_stop,   plain_pause, plain_fd,
                                         plain_due_us, plain_turn};
