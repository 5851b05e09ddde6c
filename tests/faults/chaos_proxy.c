#include "tests/faults/chaos_proxy.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/base/monotonic.h"

#define BACKLOG    1024
#define EVENTS     64
#define READ_BYTES (64u << 10)
#define READS      16 /* reads of one socket per turn */
#define WAIT_MS    1000

/* An object watched by epoll: a route's port, or one socket of a connection. */
struct side {
    enum { SIDE_PORT, SIDE_SOCKET } kind;
    int fd;
    uint32_t watched; /* events; 0: not in the epoll set */
    struct route *route;
    struct connection *connection; /* if this is a SIDE_SOCKET */
    unsigned at;                   /* 0: the client's socket; 1: the target's */
};

struct connection {
    struct connection *next; /* newest first */
    uint32_t id;
    struct side side[2];
    struct chaos_pipe pipe[2]; /* pipe[i]: from side i to the other */
    bool shut[2];              /* the end of pipe[i] has passed */
    bool dead[2];              /* side i broke, and the other must not notice */
    bool connecting, gone;
    struct chaos_settings settings;
};

struct route {
    char name[CHAOS_NAME_MAX + 1];
    uint16_t listen, target;
    bool zmtp;
    enum chaos_accept accept;
    struct side port;
    struct chaos_settings settings;
    struct chaos_totals totals;
    struct connection *connections;
    uint32_t last_id;
};

struct chaos_proxy {
    int epoll;
    uint64_t seed;
    struct in_addr listen, target;
    struct route *routes[CHAOS_ROUTES_MAX];
    unsigned n_routes, n_connections;
    int64_t now_us; /* time at the start of the turn */
    struct side command;
};

/* epoll always reports a hang-up, so a side without events leaves the set. */
static void watch(struct chaos_proxy *p, struct side *s, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = s};
    int op = s->watched == 0 ? EPOLL_CTL_ADD
             : events == 0   ? EPOLL_CTL_DEL
                             : EPOLL_CTL_MOD;
    int rc = 0;

    if (events != s->watched) {
        rc = epoll_ctl(p->epoll, op, s->fd, &e);
        s->watched = events;
    }
    assert(rc == 0);
    (void)rc;
}

/* ---- connections ---- */

static void linger_none(int fd)
{
    struct linger none = {.l_onoff = 1, .l_linger = 0};

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
}

/* The memory is freed at the end of the turn: events may still refer to it. */
static void end(struct chaos_proxy *p, struct connection *c, bool reset)
{
    if (c->gone) {
        return;
    }
    c->gone = true;
    for (int i = 0; i < 2; i++) {
        watch(p, &c->side[i], 0);
        if (reset) {
            linger_none(c->side[i].fd);
        }
        close(c->side[i].fd);
        chaos_pipe_fini(&c->pipe[i]);
    }
    c->side[0].route->totals.resets += reset;
    c->side[0].route->totals.open--;
    p->n_connections--;
}

static void sweep(struct route *r)
{
    struct connection **at = &r->connections, *c;

    while ((c = *at) != NULL) {
        if (c->gone) {
            *at = c->next;
            free(c);
        } else {
            at = &c->next;
        }
    }
}

static struct sockaddr_in address(struct in_addr host, uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = host};
}

static int socket_make(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    assert(fd >= 0);
    return fd;
}

static void no_delay(int fd)
{
    int on = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* Connects a new client, fd, to the target.  If the kernel reports that the
 * target is unreachable, the client's connection is reset. */
static void take(struct chaos_proxy *p, struct route *r, int fd)
{
    struct sockaddr_in to = address(p->target, r->target);
    struct connection *c = calloc(1, sizeof *c);
    uint64_t seed = p->seed;

    assert(c != NULL);
    c->id = ++r->last_id;
    c->settings = r->settings;
    c->connecting = true;
    for (const char *at = r->name; *at != '\0'; at++) {
        seed = seed * 131 + (uint8_t)*at;
    }
    for (unsigned i = 0; i < 2; i++) {
        c->side[i] = (struct side){.kind = SIDE_SOCKET,
                                   .fd = i == 0 ? fd : socket_make(),
                                   .route = r,
                                   .connection = c,
                                   .at = i};
        no_delay(c->side[i].fd);
        chaos_pipe_init(&c->pipe[i], &c->settings, &r->totals.counts,
                        (enum chaos_way)i, r->zmtp,
                        seed ^ (uint64_t)c->id << 33 ^ (uint64_t)i << 32);
    }
    c->next = r->connections;
    r->connections = c;
    r->totals.accepted++;
    r->totals.open++;
    p->n_connections++;
    if (connect(c->side[1].fd, (struct sockaddr *)&to, sizeof to) != 0 &&
        errno != EINPROGRESS) {
        r->totals.unreachable++;
        end(p, c, true);
    }
}

static void accept_all(struct chaos_proxy *p, struct route *r)
{
    while (p->n_connections < CHAOS_CONNECTIONS_MAX) {
        int fd = accept4(r->port.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0) {
            return;
        }
        take(p, r, fd);
    }
}

static void connected(struct chaos_proxy *p, struct connection *c)
{
    int error = 0;
    socklen_t n = sizeof error;

    getsockopt(c->side[1].fd, SOL_SOCKET, SO_ERROR, &error, &n);
    c->connecting = false;
    if (error != 0) {
        c->side[1].route->totals.unreachable++;
        end(p, c, true);
    }
}

static bool again(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static bool is_cut(const struct connection *c, unsigned way)
{
    return c->settings.drop[way] || c->settings.freeze[way];
}

/* A connection that broke on one side is broken on the other, as soon as that
 * way is open. */
static void broke(struct chaos_proxy *p, struct connection *c, unsigned at)
{
    c->dead[at] = true;
    if (!is_cut(c, at)) {
        end(p, c, true);
    }
}

static void read_side(struct chaos_proxy *p, struct connection *c, unsigned at)
{
    static uint8_t buffer[READ_BYTES];

    for (int i = 0; i < READS && !chaos_pipe_full(&c->pipe[at]); i++) {
        ssize_t n = read(c->side[at].fd, buffer, sizeof buffer);

        if (n > 0) {
            chaos_pipe_put(&c->pipe[at], buffer, (size_t)n, monotonic_us());
        } else if (n == 0) {
            chaos_pipe_end(&c->pipe[at], monotonic_us());
        } else {
            if (!again()) {
                broke(p, c, at);
            }
            return;
        }
    }
}

/* Writes as much of pipe[1 - at] as the socket takes.  Returns true if more is
 * due. */
static bool write_side(struct chaos_proxy *p, struct connection *c, unsigned at)
{
    struct chaos_pipe *from = &c->pipe[1 - at];
    const uint8_t *data;
    size_t n;

    while ((n = chaos_pipe_peek(from, &data, p->now_us)) > 0) {
        ssize_t out = send(c->side[at].fd, data, n, MSG_NOSIGNAL);

        if (out < 0) {
            if (!again()) {
                broke(p, c, at);
            }
            return true;
        }
        chaos_pipe_took(from, (size_t)out, p->now_us);
    }
    if (chaos_pipe_done(from) && !c->shut[1 - at]) {
        c->shut[1 - at] = true;
        shutdown(c->side[at].fd, SHUT_WR);
    }
    return false;
}

static void serve_side(struct chaos_proxy *p, struct connection *c, unsigned at)
{
    uint32_t events = 0;

    if (c->dead[at]) {
        broke(p, c, at);
    } else if (write_side(p, c, at)) {
        events |= EPOLLOUT;
    }
    if (!c->gone) {
        events |= chaos_pipe_full(&c->pipe[at]) ? 0u : EPOLLIN;
        watch(p, &c->side[at], c->dead[at] ? 0 : events);
    }
}

/* Moves all bytes that can move, and watches for the rest. */
static void serve(struct chaos_proxy *p, struct connection *c)
{
    if (c->connecting) {
        watch(p, &c->side[1], EPOLLOUT);
        return;
    }
    for (unsigned i = 0; i < 2 && !c->gone; i++) {
        serve_side(p, c, i);
    }
    if (!c->gone && c->shut[0] && c->shut[1]) {
        end(p, c, false);
    }
}

static void happened(struct chaos_proxy *p, struct side *s)
{
    struct connection *c = s->connection;

    if (s->kind == SIDE_PORT) {
        accept_all(p, s->route);
    } else if (!c->gone && c->connecting) {
        connected(p, c);
    } else if (!c->gone && !c->dead[s->at]) {
        read_side(p, c, s->at);
    }
}

/* ---- ports ---- */

static enum status port_open(struct in_addr host, struct route *r,
                             struct error *e)
{
    struct sockaddr_in at = address(host, r->listen);
    socklen_t n = sizeof at;
    int on = 1, fd = socket_make();

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) != 0 ||
        listen(fd, BACKLOG) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &n) != 0) {
        error_set(e, ST_ALREADY_EXISTS, "port %u: %s", r->listen,
                  strerror(errno));
        close(fd);
        return e->code;
    }
    r->listen = ntohs(at.sin_port);
    r->port = (struct side){.kind = SIDE_PORT, .fd = fd, .route = r};
    return ST_OK;
}

static void port_close(struct chaos_proxy *p, struct route *r)
{
    if (r->port.fd >= 0) {
        watch(p, &r->port, 0);
        close(r->port.fd);
        r->port.fd = -1;
    }
}

enum status chaos_proxy_accept(struct chaos_proxy *p, unsigned route,
                               enum chaos_accept how, struct error *e)
{
    struct route *r = p->routes[route];
    enum status st = ST_OK;

    if (how == CHAOS_REFUSE) {
        port_close(p, r);
    } else if (r->port.fd < 0) {
        st = port_open(p->listen, r, e);
    }
    r->accept = st == ST_OK ? how : r->accept;
    return st;
}

/* ---- the proxy ---- */

struct chaos_proxy *chaos_proxy_new(uint64_t seed)
{
    struct chaos_proxy *p = calloc(1, sizeof *p);

    assert(p != NULL);
    p->seed = seed;
    p->listen.s_addr = p->target.s_addr = htonl(INADDR_LOOPBACK);
    p->epoll = epoll_create1(EPOLL_CLOEXEC);
    assert(p->epoll >= 0);
    return p;
}

void chaos_proxy_hosts(struct chaos_proxy *p, struct in_addr listen,
                       struct in_addr target)
{
    p->listen = listen;
    p->target = target;
}

void chaos_proxy_free(struct chaos_proxy **self)
{
    struct chaos_proxy *p = *self;

    *self = NULL;
    for (unsigned i = 0; i < p->n_routes; i++) {
        port_close(p, p->routes[i]);
        chaos_proxy_end(p, i, CHAOS_ALL, false);
        sweep(p->routes[i]);
        free(p->routes[i]);
    }
    close(p->epoll);
    free(p);
}

enum status chaos_proxy_add(struct chaos_proxy *p, const char *name,
                            uint16_t listen_at, uint16_t target, bool zmtp,
                            struct error *e)
{
    struct route *r;
    size_t n = strlen(name);

    if (p->n_routes == CHAOS_ROUTES_MAX) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "at most %d routes",
                         CHAOS_ROUTES_MAX);
    }
    if (n == 0 || n > CHAOS_NAME_MAX || strpbrk(name, "#* ") != NULL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "a name has 1 to %d bytes without #, * and spaces",
                         CHAOS_NAME_MAX);
    }
    for (unsigned i = 0; i < p->n_routes; i++) {
        if (strcmp(p->routes[i]->name, name) == 0) {
            return error_set(e, ST_ALREADY_EXISTS, "%s exists already", name);
        }
    }
    r = calloc(1, sizeof *r);
    assert(r != NULL);
    memcpy(r->name, name, n);
    r->listen = listen_at;
    r->target = target;
    r->zmtp = zmtp;
    if (port_open(p->listen, r, e) != ST_OK) {
        free(r);
        return e->code;
    }
    p->routes[p->n_routes++] = r;
    return ST_OK;
}

unsigned chaos_proxy_routes(const struct chaos_proxy *p)
{
    return p->n_routes;
}

const char *chaos_proxy_name(const struct chaos_proxy *p, unsigned route)
{
    return p->routes[route]->name;
}

uint16_t chaos_proxy_listen(const struct chaos_proxy *p, unsigned route)
{
    return p->routes[route]->listen;
}

bool chaos_proxy_zmtp(const struct chaos_proxy *p, unsigned route)
{
    return p->routes[route]->zmtp;
}

static bool is_meant(const struct connection *c, uint32_t id)
{
    return !c->gone && (id == CHAOS_ALL || c->id == id);
}

bool chaos_proxy_change(struct chaos_proxy *p, unsigned route, uint32_t id,
                        chaos_change_fn *change, const void *arg)
{
    struct route *r = p->routes[route];
    bool found = id == CHAOS_ALL;

    if (id == CHAOS_ALL) {
        change(&r->settings, arg);
    }
    for (struct connection *c = r->connections; c != NULL; c = c->next) {
        if (is_meant(c, id)) {
            change(&c->settings, arg);
            found = true;
        }
    }
    return found;
}

unsigned chaos_proxy_end(struct chaos_proxy *p, unsigned route, uint32_t id,
                         bool reset)
{
    unsigned n = 0;

    for (struct connection *c = p->routes[route]->connections; c != NULL;
         c = c->next) {
        if (is_meant(c, id)) {
            end(p, c, reset);
            n++;
        }
    }
    return n;
}

void chaos_proxy_totals(const struct chaos_proxy *p, unsigned route,
                        struct chaos_totals *out)
{
    *out = p->routes[route]->totals;
}

unsigned chaos_proxy_ids(const struct chaos_proxy *p, unsigned route,
                         uint32_t *ids, unsigned n)
{
    unsigned all = 0, at = 0;
    const struct connection *first = p->routes[route]->connections;

    for (const struct connection *c = first; c != NULL; c = c->next) {
        all += !c->gone;
    }
    for (const struct connection *c = first; c != NULL; c = c->next) {
        if (!c->gone && all - ++at < n) {
            ids[all - at] = c->id;
        }
    }
    return all;
}

/* Returns the time until the first pipe has output, rounded up. */
static int wait_ms(const struct chaos_proxy *p)
{
    int64_t due_us = CHAOS_NEVER, left_us;

    for (unsigned i = 0; i < p->n_routes; i++) {
        for (const struct connection *c = p->routes[i]->connections; c != NULL;
             c = c->next) {
            for (int k = 0; k < 2 && !c->connecting; k++) {
                int64_t at_us = chaos_pipe_due(&c->pipe[k]);

                /* Output that is due already waits for room in the socket. */
                if (at_us > p->now_us && at_us < due_us) {
                    due_us = at_us;
                }
            }
        }
    }
    left_us = due_us - p->now_us;
    return due_us == CHAOS_NEVER || left_us > WAIT_MS * 1000
               ? WAIT_MS
               : (int)((left_us + 999) / 1000);
}

/* At the limit of connections no client is accepted. */
static void watch_port(struct chaos_proxy *p, struct route *r)
{
    bool in =
        r->accept == CHAOS_ACCEPT && p->n_connections < CHAOS_CONNECTIONS_MAX;

    if (r->port.fd >= 0) {
        watch(p, &r->port, in ? EPOLLIN : 0);
    }
}

static void serve_all(struct chaos_proxy *p)
{
    for (unsigned i = 0; i < p->n_routes; i++) {
        for (struct connection *c = p->routes[i]->connections; c != NULL;
             c = c->next) {
            if (!c->gone) {
                serve(p, c);
            }
        }
        sweep(p->routes[i]);
        watch_port(p, p->routes[i]);
    }
}

bool chaos_proxy_turn(struct chaos_proxy *p, int fd)
{
    struct epoll_event events[EVENTS];
    bool readable = false;
    int n;

    if (p->command.watched == 0) {
        p->command = (struct side){.kind = SIDE_PORT, .fd = fd};
        watch(p, &p->command, EPOLLIN);
    }
    p->now_us = monotonic_us();
    serve_all(p);
    n = epoll_wait(p->epoll, events, EVENTS, wait_ms(p));
    for (int i = 0; i < n; i++) {
        struct side *s = events[i].data.ptr;

        if (s == &p->command) {
            readable = true;
        } else {
            happened(p, s);
        }
    }
    return readable;
}
