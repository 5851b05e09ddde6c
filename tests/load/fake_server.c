/* fake_server.c - A fast OpenAI-compatible HTTP server with known delays, for
 * tests of sluice-load.
 *
 * Prints its URL, then serves until SIGTERM or SIGINT.  Requests are numbered
 * in the order of arrival.  The delay of a request, from its last byte to its
 * first token, is a function of its number.  --print-delays writes a line for
 * each request:
 *
 *     NUMBER ARRIVED_US DELAY_US DUE_US
 *
 * Times count from the first request.  DUE_US - ARRIVED_US is the delay with
 * the stall. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/base/list.h"
#include "common/base/monotonic.h"
#include "common/base/option.h"
#include "common/base/timer.h"
#include "tests/load/fake_answer.h"

#define HEAD_MAX   65536
#define BODY_MAX   (64u << 20)
#define EVENTS     256
#define READ_BYTES 262144

#define FAKE_OPTIONS(X)                                                       \
    X(port, U32, "N", "0", "TCP port on 127.0.0.1; 0: any", 0, 65535)         \
    X(delay, STRING, "SPEC", "0s",                                            \
      "time to the first token: 100ms, or 200ms..2s by the request's number", \
      0, 0)                                                                   \
    X(gap, MS, "TIME", "0s", "time between tokens", 0, 60000)                 \
    X(stall, STRING, "AT,FOR", NULL,                                          \
      "no token AT after the first request, FOR so long", 0, 0)               \
    X(fail, F64, "SHARE", "0",                                                \
      "share of requests that get 503, 500 or half a stream", 0, 1)           \
    X(print_delays, STRING, "FILE", NULL, "write what is due when", 0, 0)     \
    X(help, FLAG, NULL, NULL, "print this and exit", 0, 0)

OPTION_TABLE(fake_options, FAKE_OPTIONS);

struct server {
    struct fake_options o;
    int64_t delay_low_us, delay_high_us, stall_us, stall_end_us, first_us;
    int epoll, listener, signals;
    struct timers timers;
    struct list dead;
    uint64_t n_requests;
    FILE *delays;
};

enum phase { READING, WAITING, STREAMING };

struct connection {
    struct timer timer;
    struct list node;
    int fd;
    enum phase phase;
    struct fake_text in, out;
    size_t n_sent;  /* of out */
    size_t n_whole; /* head and body of the request; 0: no head yet */
    size_t n_head;
    bool wants_out, closes; /* closes: after out is sent */
    struct fake_request q;
    uint32_t next; /* token */
    int64_t due_us;
};

static int64_t around_stall(const struct server *s, int64_t at_us)
{
    return at_us - s->first_us >= s->stall_us &&
                   at_us - s->first_us < s->stall_end_us
               ? s->first_us + s->stall_end_us
               : at_us;
}

/* ---- output ---- */

static void drop(struct server *s, struct connection *c)
{
    if (!list_linked(&c->node)) {
        timer_clear(&s->timers, &c->timer);
        close(c->fd);
        list_append(&s->dead, &c->node);
    }
}

static void watch_out(struct server *s, struct connection *c, bool wants)
{
    struct epoll_event ev = {.events = EPOLLIN | (wants ? EPOLLOUT : 0u),
                             .data.ptr = c};

    if (c->wants_out != wants) {
        epoll_ctl(s->epoll, EPOLL_CTL_MOD, c->fd, &ev);
        c->wants_out = wants;
    }
}

static void flush(struct server *s, struct connection *c)
{
    while (c->n_sent < c->out.n) {
        ssize_t n = send(c->fd, c->out.bytes + c->n_sent, c->out.n - c->n_sent,
                         MSG_NOSIGNAL);

        if (n < 0 && errno == EAGAIN) {
            watch_out(s, c, true);
            return;
        }
        if (n < 0) {
            drop(s, c);
            return;
        }
        c->n_sent += (size_t)n;
    }
    c->out.n = 0;
    c->n_sent = 0;
    watch_out(s, c, false);
    if (c->closes) {
        drop(s, c);
    }
}

/* ---- requests ---- */

static void end_request(struct connection *c)
{
    memmove(c->in.bytes, c->in.bytes + c->n_whole, c->in.n - c->n_whole);
    c->in.n -= c->n_whole;
    c->n_whole = 0;
    c->phase = READING;
}

/* Appends the tokens that are due.  Returns false if more follow. */
static bool put_tokens(struct server *s, struct connection *c, int64_t now)
{
    const struct fake_request *q = &c->q;
    uint32_t last = q->fault == FAKE_CUT ? q->n_tokens / 2 : q->n_tokens;
    int64_t gap_us = (int64_t)s->o.gap * 1000;

    while (c->next < last) {
        int64_t at = around_stall(s, c->due_us);

        if (at > now) {
            timer_set(&s->timers, &c->timer, at);
            return false;
        }
        if (c->out.n < READ_BYTES) { /* else the client reads slowly */
            fake_token(&c->out, q, c->next++);
            c->due_us = at + gap_us;
        } else {
            timer_set(&s->timers, &c->timer, now + 1000);
            return false;
        }
    }
    return true;
}

static void answer(struct server *s, struct connection *c, int64_t now)
{
    struct fake_request *q = &c->q;

    if (q->fault == FAKE_503) {
        fake_error(&c->out, 503, "the fake server is full");
    } else if (q->fault == FAKE_500) {
        fake_error(&c->out, 500, "the fake server is broken");
    } else if (!q->stream) {
        fake_whole(&c->out, q);
    } else {
        if (c->phase == WAITING) {
            fake_head(&c->out);
            c->phase = STREAMING;
        }
        if (!put_tokens(s, c, now)) {
            flush(s, c);
            return;
        }
        if (q->fault == FAKE_CUT) {
            c->closes = true;
        } else {
            fake_end(&c->out, q);
        }
    }
    end_request(c);
    flush(s, c);
}

static void begin(struct server *s, struct connection *c, int64_t now)
{
    uint64_t number = s->n_requests++;
    int64_t delay = fake_delay_us(number, s->delay_low_us, s->delay_high_us);
    int64_t gap_us = (int64_t)s->o.gap * 1000;

    s->first_us = number == 0 ? now : s->first_us;
    c->q = (struct fake_request){
        .chat = memmem(c->in.bytes, c->n_head, "/chat/", 6) != NULL,
        .number = number,
        .fault = fake_fault_of(number, s->o.fail)};
    fake_request_read(&c->q, c->in.bytes + c->n_head, c->n_whole - c->n_head);
    c->next = 0;
    c->due_us = now + delay;
    if (!c->q.stream) {
        c->due_us += gap_us * (c->q.n_tokens > 0 ? c->q.n_tokens - 1 : 0);
    }
    c->due_us = around_stall(s, c->due_us);
    if (s->delays != NULL) {
        fprintf(s->delays, "%llu %lld %lld %lld\n", (unsigned long long)number,
                (long long)(now - s->first_us), (long long)delay,
                (long long)(c->due_us - s->first_us));
    }
    c->phase = WAITING;
    if (c->due_us <= now) {
        answer(s, c, now);
    } else {
        timer_set(&s->timers, &c->timer, c->due_us);
    }
}

/* Finds the end of the head and the length of the body.  Returns false if the
 * request is none. */
static bool read_head(struct connection *c)
{
    char *end = memmem(c->in.bytes, c->in.n, "\r\n\r\n", 4);
    char *length;
    unsigned long n = 0;

    if (end == NULL) {
        return c->in.n < HEAD_MAX;
    }
    *end = '\0';
    length = strcasestr(c->in.bytes, "\ncontent-length:");
    if (length != NULL) {
        n = strtoul(length + 16, NULL, 10);
    }
    if (strcasestr(c->in.bytes, "\nexpect:") != NULL) {
        fake_print(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
    }
    c->n_head = (size_t)(end - c->in.bytes) + 4;
    c->n_whole = c->n_head + n;
    return n <= BODY_MAX;
}

static void take_requests(struct server *s, struct connection *c)
{
    while (c->phase == READING && !list_linked(&c->node)) {
        if (c->n_whole == 0 && !read_head(c)) {
            drop(s, c);
            return;
        }
        if (c->out.n > 0) {
            flush(s, c);
        }
        if (c->n_whole == 0 || c->in.n < c->n_whole) {
            return;
        }
        if (memcmp(c->in.bytes, "POST ", 5) == 0) {
            begin(s, c, monotonic_us());
            continue;
        }
        if (memcmp(c->in.bytes, "GET /v1/models", 14) == 0) {
            fake_models(&c->out);
        } else {
            fake_error(&c->out, 404, "no such route");
        }
        end_request(c);
        flush(s, c);
    }
}

static void on_readable(struct server *s, struct connection *c)
{
    static char bytes[READ_BYTES];
    ssize_t n = recv(c->fd, bytes, sizeof bytes, 0);

    if (n > 0) {
        fake_put(&c->in, bytes, (size_t)n);
        take_requests(s, c);
    } else if (n == 0 || errno != EAGAIN) {
        drop(s, c);
    }
}

/* ---- the loop ---- */

static void watch(struct server *s, int fd, void *arg)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = arg};

    if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &ev) != 0) {
        perror("fake_server: epoll_ctl");
        exit(1);
    }
}

static void accept_all(struct server *s)
{
    int one = 1;

    for (;;) {
        int fd = accept4(s->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        struct connection *c;

        if (fd < 0) {
            return;
        }
        c = calloc(1, sizeof *c);
        if (c == NULL) {
            abort();
        }
        c->fd = fd;
        list_init(&c->node);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        watch(s, fd, c);
    }
}

static void free_dead(struct server *s)
{
    struct list *node;

    while ((node = list_take(&s->dead)) != NULL) {
        struct connection *c = LIST_OF(node, struct connection, node);

        free(c->in.bytes);
        free(c->out.bytes);
        free(c);
    }
}

static void run_timers(struct server *s)
{
    int64_t now = monotonic_us();
    struct timer *t;

    while ((t = timers_pop(&s->timers, now)) != NULL) {
        struct connection *c = LIST_OF(t, struct connection, timer);

        answer(s, c, now);
        take_requests(s, c);
    }
}

static int wait_events(struct server *s, struct epoll_event *events)
{
    int64_t due = timers_due(&s->timers);
    int64_t left = due == INT64_MAX ? 3600000000 : due - monotonic_us();
    struct timespec t = {0};

    if (left > 0) {
        t.tv_sec = left / 1000000;
        t.tv_nsec = left % 1000000 * 1000;
    }
    return epoll_pwait2(s->epoll, events, EVENTS, &t, NULL);
}

static void serve(struct server *s)
{
    struct epoll_event events[EVENTS];

    for (;;) {
        int n = wait_events(s, events);

        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;

            if (events[i].data.ptr == &s->signals) {
                return;
            }
            if (events[i].data.ptr == &s->listener) {
                accept_all(s);
            } else if (!list_linked(&c->node)) {
                if ((events[i].events & EPOLLOUT) != 0) {
                    flush(s, c);
                }
                if ((events[i].events & ~(uint32_t)EPOLLOUT) != 0 &&
                    !list_linked(&c->node)) {
                    on_readable(s, c);
                }
            }
        }
        run_timers(s);
        free_dead(s);
    }
}

/* ---- start ---- */

static int start_listener(struct server *s)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)s->o.port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;
    int one = 1;

    s->listener =
        socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(s->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(s->listener, (void *)&a, size) != 0 ||
        listen(s->listener, 4096) != 0 ||
        getsockname(s->listener, (void *)&a, &size) != 0) {
        perror("fake_server: listen");
        exit(1);
    }
    return ntohs(a.sin_port);
}

static void start(struct server *s)
{
    struct rlimit files;
    sigset_t set;

    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    s->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    timers_init(&s->timers);
    list_init(&s->dead);
    printf("http://127.0.0.1:%d\n", start_listener(s));
    fflush(stdout);
    watch(s, s->signals, &s->signals);
    watch(s, s->listener, &s->listener);
}

/* Reads "200ms..2s" or, with ',', "10s,2s". */
static bool two_times(const char *text, const char *between, int64_t *a_us,
                      int64_t *b_us)
{
    char copy[64];
    char *second;
    uint64_t a, b;

    snprintf(copy, sizeof copy, "%s", text);
    second = strstr(copy, between);
    if (second != NULL) {
        *second = '\0';
        second += strlen(between);
    }
    if (!option_ms(copy, &a) ||
        !option_ms(second == NULL ? copy : second, &b)) {
        return false;
    }
    *a_us = (int64_t)a * 1000;
    *b_us = (int64_t)b * 1000;
    return true;
}

static bool understand(struct server *s)
{
    int64_t length;

    if (!two_times(s->o.delay, "..", &s->delay_low_us, &s->delay_high_us) ||
        s->delay_low_us > s->delay_high_us) {
        fprintf(stderr, "fake_server: --delay is 100ms or 200ms..2s\n");
        return false;
    }
    if (s->o.stall != NULL) {
        if (!two_times(s->o.stall, ",", &s->stall_us, &length)) {
            fprintf(stderr, "fake_server: --stall is 10s,2s\n");
            return false;
        }
        s->stall_end_us = s->stall_us + length;
    }
    if (s->o.print_delays != NULL) {
        s->delays = fopen(s->o.print_delays, "w");
        if (s->delays == NULL) {
            perror(s->o.print_delays);
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    static struct server s;
    struct error e;

    if (option_parse_alone(fake_options_rows, OPTION_COUNT(fake_options_rows),
                           &s.o, argc, argv, &e) != ST_OK) {
        fprintf(stderr, "fake_server: %s\n", e.text);
        return 2;
    }
    if (s.o.help) {
        option_print(stdout, fake_options_rows,
                     OPTION_COUNT(fake_options_rows));
        return 0;
    }
    if (!understand(&s)) {
        return 2;
    }
    start(&s);
    serve(&s);
    if (s.delays != NULL && fclose(s.delays) != 0) {
        perror(s.o.print_delays);
        return 1;
    }
    return 0;
}
