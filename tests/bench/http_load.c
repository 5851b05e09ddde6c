/* The load over HTTP: one thread, a connection a stream.  Connections beside
 * the streams are idle, or have a request and read nothing of its reply. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/bench/http_reply.h"
#include "tests/bench/load_tally.h"

#define TURN_MS     10
#define EVENTS      256
#define READ_BYTES  65536
#define PROMPT_MAX  65536
#define STALL_BYTES 4096 /* receive buffer of a stalled connection */
#define STALL_TOKENS                                         \
    3500 /* of a stalled request: far more than buffers hold \
          */

struct http {
    const struct load_options *o;
    struct load_tally *tally;
    struct sockaddr_in to;
    int epoll;
    char request[PROMPT_MAX + 1024];
    uint32_t n_open; /* streams */
};

struct http_stream {
    struct http *h;
    struct load_stream *s;
    struct http_reply reply;
    int fd;
};

/* Sets the request that is sent from now on. */
static void make_request(struct http *h, uint32_t tokens)
{
    static char words[PROMPT_MAX], body[PROMPT_MAX + 512];
    int n;

    load_prompt(h->o, words, sizeof words);
    n = snprintf(body, sizeof body,
                 "{\"model\":\"%s\",\"messages\":[{\"role\":\"user\","
                 "\"content\":\"%s\"}],\"max_tokens\":%u,\"temperature\":0,"
                 "\"ignore_eos\":true,\"stream\":true,"
                 "\"stream_options\":{\"include_usage\":true}}",
                 h->o->model, words, tokens);
    snprintf(h->request, sizeof h->request,
             "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\n"
             "Content-Type: application/json\r\nContent-Length: %d\r\n"
             "\r\n%s",
             h->o->endpoint, n, body);
}

/* Splits HOST:PORT; HOST is an IPv4 address. */
static void resolve(struct http *h)
{
    const char *colon = strrchr(h->o->endpoint, ':');
    char host[64];

    if (colon == NULL || colon - h->o->endpoint >= (long)sizeof host) {
        load_die(h->o->endpoint, "HOST:PORT is required");
    }
    memcpy(host, h->o->endpoint, (size_t)(colon - h->o->endpoint));
    host[colon - h->o->endpoint] = '\0';
    h->to.sin_family = AF_INET;
    h->to.sin_port = htons((uint16_t)atoi(colon + 1));
    if (inet_pton(AF_INET, host, &h->to.sin_addr) != 1) {
        load_die(host, "an IPv4 address is required");
    }
}

static int dial(const struct http *h, int receive_bytes)
{
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && receive_bytes > 0) {
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes,
                   sizeof receive_bytes);
    }
    if (fd < 0 ||
        connect(fd, (const struct sockaddr *)&h->to, sizeof h->to) != 0) {
        load_die("no connection", strerror(errno));
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

/* Requests are far shorter than a send buffer, which is empty here. */
static void send_request(const struct http *h, int fd)
{
    size_t n = strlen(h->request);

    if (write(fd, h->request, n) != (ssize_t)n) {
        load_die("a request could not be sent", strerror(errno));
    }
}

static void on_line(void *arg, const char *line, size_t n)
{
    struct http_stream *q = arg;
    static char text[HTTP_REPLY_LINE];
    long n_prompt;

    if (n == 0) {
        return;
    }
    if (q->reply.status != 200 || strncmp(line, "data: {\"error\"", 14) == 0) {
        load_die("a request failed", line);
    }
    tally_add(q->h->tally, q->s, text,
              http_reply_string(line, "content", text, sizeof text));
    n_prompt = http_reply_number(line, "prompt_tokens");
    if (n_prompt >= 0) {
        q->h->tally->n_prompt = n_prompt;
    }
}

static void begin(struct http_stream *q)
{
    tally_send(q->h->tally, q->s);
    send_request(q->h, q->fd);
}

static void read_stream(struct http_stream *q)
{
    static char buf[READ_BYTES];
    ssize_t n = read(q->fd, buf, sizeof buf);
    size_t taken;

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        load_die("a connection ended", n < 0 ? strerror(errno) : "closed");
    }
    taken = http_reply_push(&q->reply, buf, (size_t)n, on_line, q);
    if (q->reply.state == HTTP_REPLY_BAD || taken < (size_t)n) {
        load_die("a reply is not HTTP/1.1", buf);
    }
    if (q->reply.state == HTTP_REPLY_DONE) {
        tally_end(q->h->tally, q->s);
        http_reply_next(&q->reply);
        begin(q);
    }
}

static void open_stream(struct http *h, struct http_stream *q)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = q};

    q->h = h;
    q->s = &h->tally->streams[h->n_open++];
    q->fd = dial(h, 0);
    http_reply_init(&q->reply);
    begin(q);
    fcntl(q->fd, F_SETFL, O_NONBLOCK);
    if (epoll_ctl(h->epoll, EPOLL_CTL_ADD, q->fd, &e) != 0) {
        load_die("epoll", strerror(errno));
    }
}

static void turn(struct http *h)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(h->epoll, events, EVENTS, TURN_MS);

    for (int i = 0; i < n; i++) {
        read_stream(events[i].data.ptr);
    }
}

void http_load(const struct load_options *o, struct load_tally *t)
{
    static struct http h;
    struct http_stream *streams = calloc(o->streams, sizeof *streams);

    h = (struct http){.o = o, .tally = t, .epoll = epoll_create1(0)};
    if (streams == NULL || h.epoll < 0) {
        load_die("no memory, or no epoll", strerror(errno));
    }
    resolve(&h);
    for (uint32_t i = 0; i < o->idle; i++) {
        dial(&h, 0); /* open until the program ends */
    }
    make_request(&h, STALL_TOKENS);
    for (uint32_t i = 0; i < o->stalled; i++) {
        send_request(&h, dial(&h, STALL_BYTES));
    }
    make_request(&h, o->tokens);
    while (!tally_is_over(t)) {
        if (h.n_open < o->streams && h.n_open - t->n_live < o->ramp) {
            open_stream(&h, &streams[h.n_open]);
        } else {
            turn(&h);
        }
    }
    for (uint32_t i = 0; i < o->streams; i++) {
        close(streams[i].fd);
        http_reply_fini(&streams[i].reply);
    }
    close(h.epoll);
    free(streams);
}
