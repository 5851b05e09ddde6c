#include "common/scrape/scrape.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/quote.h"
#include "common/scrape/scrape_request.h"

#define BACKLOG    16
#define LIFE_TICKS (SCRAPE_LIFE_MS / SCRAPE_TICK_MS)
#define LISTENER   SCRAPE_CONNECTIONS_MAX /* as epoll data; below: a slot */
#define TIMER      (SCRAPE_CONNECTIONS_MAX + 1)
#define EVENTS     (SCRAPE_CONNECTIONS_MAX + 2)

const struct limit_row scrape_limits[] = {
    LIMIT_ROW(SCRAPE_REQUEST_MAX, "bytes", "a request for metrics"),
    LIMIT_ROW(SCRAPE_CONNECTIONS_MAX, "", "connections for metrics"),
    LIMIT_ROW(SCRAPE_ACCEPTS_MAX, "",
              "connections for metrics accepted in a quarter second"),
    LIMIT_ROW(SCRAPE_DRAIN_MAX, "bytes",
              "skipped after the answer with metrics"),
    LIMIT_ROW(SCRAPE_LIFE_MS, "ms", "life of a connection for metrics"),
};
const size_t scrape_limits_n = sizeof scrape_limits / sizeof scrape_limits[0];

enum stage { STAGE_FREE, STAGE_READ, STAGE_WRITE, STAGE_DRAIN };

struct connection {
    enum stage stage;
    int fd;
    unsigned ticks; /* since it was accepted */
    size_t n_in;    /* bytes in `in`, or skipped while draining */
    char in[SCRAPE_REQUEST_MAX];
    char head[SCRAPE_HEAD_BYTES];
    size_t n_head, n_out; /* n_out: bytes of head and page written */
    struct metric_page page;
};

struct scrape {
    int epoll, listener, timer;
    bool listens, ticks;         /* the listener is watched; the timer runs */
    bool anyone;                 /* any address may be named */
    unsigned n_open, n_accepted; /* n_accepted: since the last tick */
    scrape_render_fn *render;
    void *arg;
    scrape_probe_fn *probe;
    const void *probe_arg;
    char address[INET6_ADDRSTRLEN + 16];
    struct connection connections[SCRAPE_CONNECTIONS_MAX];
};

/* ---- the address ---- */

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* Parses a port.  Returns false if text is not a number from 0 to 65535. */
static bool parse_port(const char *text, uint16_t *port)
{
    unsigned long n = 0;
    size_t digits = strspn(text, "0123456789");

    if (digits == 0 || digits > 5 || text[digits] != '\0') {
        return false;
    }
    n = strtoul(text, NULL, 10);
    *port = htons((uint16_t)n);
    return n <= UINT16_MAX;
}

static bool parse_host(const char *host, uint16_t port, union address *a,
                       socklen_t *n)
{
    size_t end = strlen(host);
    char inner[INET6_ADDRSTRLEN];

    memset(a, 0, sizeof *a);
    if (end > 2 && end - 2 < sizeof inner && host[0] == '[' &&
        host[end - 1] == ']') {
        memcpy(inner, host + 1, end - 2);
        inner[end - 2] = '\0';
        a->v6.sin6_family = AF_INET6;
        a->v6.sin6_port = port;
        *n = sizeof a->v6;
        return inet_pton(AF_INET6, inner, &a->v6.sin6_addr) == 1;
    }
    a->v4.sin_family = AF_INET;
    a->v4.sin_port = port;
    *n = sizeof a->v4;
    return inet_pton(AF_INET,
                     strcmp(host, "localhost") == 0 ? "127.0.0.1" : host,
                     &a->v4.sin_addr) == 1;
}

static bool is_loopback(const union address *a)
{
    return a->any.sa_family == AF_INET
               ? ntohl(a->v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET
               : IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
}

static enum status parse(const char *listen_at, bool anyone, union address *a,
                         socklen_t *n, struct error *e)
{
    const char *colon = strrchr(listen_at, ':');
    char host[INET6_ADDRSTRLEN + 2];
    uint16_t port;

    if (colon == NULL || (size_t)(colon - listen_at) >= sizeof host ||
        !parse_port(colon + 1, &port)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s: must be HOST:PORT, such as 127.0.0.1:9464",
                         quote(listen_at).text);
    }
    memcpy(host, listen_at, (size_t)(colon - listen_at));
    host[colon - listen_at] = '\0';
    if (!parse_host(host, port, a, n)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s: the host must be an IPv4 address, an IPv6 "
                         "address in brackets, or localhost",
                         quote(listen_at).text);
    }
    if (!anyone && !is_loopback(a)) {
        return error_set(e, ST_FAILED_PRECONDITION,
                         "%s: only loopback addresses (127.0.0.1:PORT) are "
                         "allowed, because metrics have no keys; "
                         "--metrics-anyone allows any address",
                         quote(listen_at).text);
    }
    return ST_OK;
}

static void note_address(struct scrape *s)
{
    char host[INET6_ADDRSTRLEN] = "";
    union address a;
    socklen_t n = sizeof a;

    if (getsockname(s->listener, &a.any, &n) != 0) {
        return;
    }
    if (a.any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &a.v4.sin_addr, host, sizeof host);
        snprintf(s->address, sizeof s->address, "%s:%u", host,
                 ntohs(a.v4.sin_port));
    } else {
        inet_ntop(AF_INET6, &a.v6.sin6_addr, host, sizeof host);
        snprintf(s->address, sizeof s->address, "[%s]:%u", host,
                 ntohs(a.v6.sin6_port));
    }
}

/* ---- what is watched ---- */

static bool watch(const struct scrape *s, int how, int fd, uint32_t events,
                  uint32_t data)
{
    struct epoll_event event = {.events = events, .data.u32 = data};

    return epoll_ctl(s->epoll, how, fd, &event) == 0;
}

static void set_timer(struct scrape *s, bool on)
{
    const long ns = on ? SCRAPE_TICK_MS * 1000000L : 0;
    const struct itimerspec period = {{0, ns}, {0, ns}};

    if (s->ticks != on) {
        s->ticks = on;
        (void)timerfd_settime(s->timer, 0, &period, NULL);
    }
}

static void set_listening(struct scrape *s, bool on)
{
    if (s->listens != on) {
        s->listens = on;
        (void)watch(s, EPOLL_CTL_MOD, s->listener, on ? EPOLLIN : 0, LISTENER);
    }
}

/* Listens again if connections and accepts are left. */
static void balance(struct scrape *s)
{
    set_listening(s, s->n_open < SCRAPE_CONNECTIONS_MAX &&
                         s->n_accepted < SCRAPE_ACCEPTS_MAX);
    set_timer(s, s->n_open > 0 || s->n_accepted > 0);
}

/* ---- a connection ---- */

static void end(struct scrape *s, struct connection *c)
{
    close(c->fd); /* leaves the epoll set with it */
    c->stage = STAGE_FREE;
    metric_page_clear(&c->page);
    s->n_open--;
}

static void set_stage(struct scrape *s, struct connection *c, enum stage stage)
{
    c->stage = stage;
    if (!watch(s, EPOLL_CTL_MOD, c->fd,
               stage == STAGE_WRITE ? EPOLLOUT : EPOLLIN,
               (uint32_t)(c - s->connections))) {
        end(s, c);
    }
}

/* Writes what the socket takes; then closes this side only, because closing
 * both while the peer still sends would reset the connection, and the peer
 * might lose the answer. */
static void write_on(struct scrape *s, struct connection *c)
{
    size_t total = c->n_head + c->page.n;
    size_t in_page = c->n_out > c->n_head ? c->n_out - c->n_head : 0;
    size_t in_head = c->n_out < c->n_head ? c->n_out : c->n_head;
    struct iovec parts[] = {
        {c->head + in_head, c->n_head - in_head},
        {c->page.text + in_page, c->page.n - in_page},
    };
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t n = sendmsg(c->fd, &m, MSG_NOSIGNAL);

    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR) {
            end(s, c);
        }
        return;
    }
    c->n_out += (size_t)n;
    if (c->n_out == total) {
        shutdown(c->fd, SHUT_WR);
        c->n_in = 0;
        set_stage(s, c, STAGE_DRAIN);
    }
}

static void answer(struct scrape *s, struct connection *c, int status,
                   enum scrape_page page)
{
    if (status == 200 && page == SCRAPE_READY && s->probe != NULL &&
        !s->probe(s->probe_arg)) {
        status = 503;
    }
    if (status == 200 && page == SCRAPE_METRICS) {
        s->render(s->arg, &c->page);
    }
    if (c->page.broken) {
        metric_page_clear(&c->page);
        status = 503;
    }
    if (status != 200 || page != SCRAPE_METRICS) {
        metric_page_text(&c->page, scrape_text(status));
    }
    c->n_head = scrape_head(c->head, status, page, c->page.n);
    c->n_out = 0;
    set_stage(s, c, STAGE_WRITE);
}

/* Reads once, into the part of `in` that is free, or over it when draining. */
static void read_on(struct scrape *s, struct connection *c)
{
    bool drains = c->stage == STAGE_DRAIN;
    size_t used = drains ? 0 : c->n_in;
    ssize_t n = recv(c->fd, c->in + used, sizeof c->in - used, 0);
    enum scrape_page page = SCRAPE_METRICS;
    int status;

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        end(s, c);
        return;
    }
    c->n_in += (size_t)n;
    if (drains) {
        if (c->n_in > SCRAPE_DRAIN_MAX) {
            end(s, c);
        }
        return;
    }
    status = scrape_judge(c->in, c->n_in, &page);
    if (status == 200 && !s->anyone && scrape_is_foreign(c->in, c->n_in)) {
        status = 403;
    }
    if (status != 0) {
        answer(s, c, status, page);
    }
}

static void on_connection(struct scrape *s, struct connection *c)
{
    if (c->stage == STAGE_WRITE) {
        write_on(s, c);
    } else if (c->stage != STAGE_FREE) {
        read_on(s, c);
    }
}

/* ---- all of them ---- */

static struct connection *free_connection(struct scrape *s)
{
    struct connection *c = s->connections;

    while (c->stage != STAGE_FREE) {
        c++;
    }
    return c;
}

/* A failure counts as an accept, so that a lack of descriptors cannot keep the
 * loop busy. */
static void on_listener(struct scrape *s)
{
    struct connection *c = free_connection(s);
    int fd = accept4(s->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    s->n_accepted++;
    if (fd < 0) {
        return;
    }
    if (!watch(s, EPOLL_CTL_ADD, fd, EPOLLIN, (uint32_t)(c - s->connections))) {
        close(fd);
        return;
    }
    c->stage = STAGE_READ;
    c->fd = fd;
    c->ticks = 0;
    c->n_in = 0;
    s->n_open++;
}

static void on_timer(struct scrape *s)
{
    uint64_t n;

    if (read(s->timer, &n, sizeof n) != sizeof n) {
        return;
    }
    s->n_accepted = 0;
    for (size_t i = 0; i < SCRAPE_CONNECTIONS_MAX; i++) {
        struct connection *c = &s->connections[i];

        if (c->stage != STAGE_FREE && ++c->ticks >= LIFE_TICKS) {
            end(s, c);
        }
    }
}

void scrape_ready(void *arg, int fd)
{
    struct epoll_event events[EVENTS];
    struct scrape *s = arg;
    int n = epoll_wait(fd, events, EVENTS, 0);

    for (int i = 0; i < n; i++) {
        uint32_t which = events[i].data.u32;

        if (which == TIMER) {
            on_timer(s);
        } else if (which == LISTENER) {
            /* Another event may have left no room since. */
            if (s->n_open < SCRAPE_CONNECTIONS_MAX) {
                on_listener(s);
            }
        } else {
            on_connection(s, &s->connections[which]);
        }
    }
    balance(s);
}

/* ---- the endpoint ---- */

static enum status open_all(struct scrape *s, const union address *a,
                            socklen_t n, const char *listen_at, struct error *e)
{
    const int on = 1;

    s->listener =
        socket(a->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    s->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (s->listener < 0 || s->timer < 0 || s->epoll < 0 ||
        setsockopt(s->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) !=
            0 ||
        bind(s->listener, &a->any, n) != 0 ||
        listen(s->listener, BACKLOG) != 0 ||
        !watch(s, EPOLL_CTL_ADD, s->listener, EPOLLIN, LISTENER) ||
        !watch(s, EPOLL_CTL_ADD, s->timer, EPOLLIN, TIMER)) {
        return error_set(e, ST_UNAVAILABLE, "cannot listen on %s: %s",
                         quote(listen_at).text, strerror(errno));
    }
    s->listens = true;
    note_address(s);
    return ST_OK;
}

enum status scrape_new(struct scrape **out, const char *listen_at, bool anyone,
                       struct error *e)
{
    struct scrape *s;
    union address a;
    socklen_t n = 0;
    enum status st = parse(listen_at, anyone, &a, &n, e);

    *out = NULL;
    if (st != ST_OK) {
        return st;
    }
    s = memory_must(calloc(1, sizeof *s));
    s->listener = s->timer = s->epoll = -1;
    s->anyone = anyone;
    st = open_all(s, &a, n, listen_at, e);
    if (st != ST_OK) {
        scrape_free(&s);
        return st;
    }
    *out = s;
    return ST_OK;
}

static void close_one(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
}

void scrape_free(struct scrape **ps)
{
    struct scrape *s = *ps;

    *ps = NULL;
    if (s == NULL) {
        return;
    }
    for (size_t i = 0; i < SCRAPE_CONNECTIONS_MAX; i++) {
        if (s->connections[i].stage != STAGE_FREE) {
            close(s->connections[i].fd);
        }
        metric_page_fini(&s->connections[i].page);
    }
    close_one(s->listener);
    close_one(s->timer);
    close_one(s->epoll);
    free(s);
}

void scrape_render(struct scrape *s, scrape_render_fn *render, void *arg)
{
    s->render = render;
    s->arg = arg;
}

void scrape_probe(struct scrape *s, scrape_probe_fn *probe, const void *arg)
{
    s->probe = probe;
    s->probe_arg = arg;
}

const char *scrape_address(const struct scrape *s)
{
    return s->address;
}

int scrape_fd(const struct scrape *s)
{
    return s->epoll;
}
