/* Strangers: bytes on the ports from senders that are not peers. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <zmq.h>

#include "common/wire/endpoint.h"
#include "tests/faults/rogue.h"
#include "tests/faults/rogue_node.h"
#include "tests/patience.h"

#define SILENT 500 /* silent connections at once */

/* Connects to tcp://HOST:PORT or ipc://PATH.  Returns -1 if nothing listens. */
static int dial(const char *endpoint)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct sockaddr_in in = {.sin_family = AF_INET};
    bool ipc = endpoint_is_ipc(endpoint);
    int fd = socket(ipc ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int rc;

    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    in.sin_port = htons((uint16_t)atoi(strrchr(endpoint, ':') + 1));
    snprintf(un.sun_path, sizeof un.sun_path, "%s",
             endpoint + strlen("ipc://"));
    rc = ipc ? connect(fd, (struct sockaddr *)&un, sizeof un)
             : connect(fd, (struct sockaddr *)&in, sizeof in);
    if (rc != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Waits until the other side closes.  Returns false if it does not. */
static bool is_closed(int fd)
{
    char bytes[4096];
    ssize_t n;

    for (;;) {
        struct pollfd in = {fd, POLLIN, 0};

        if (poll(&in, 1, patience_ms()) != 1) {
            return false;
        }
        n = recv(fd, bytes, sizeof bytes, 0);
        if (n == 0 || (n < 0 && errno != EINTR)) {
            return true;
        }
    }
}

/* Returns whether a correct peer gets a session meanwhile. */
static bool others_come_in(const struct rogue_at *at)
{
    struct rogue_node *n = rogue_node_new(at->clients, BY_CLIENT, "bystander");
    bool well = rogue_run_up(n);

    rogue_node_free(&n);
    return well;
}

static const uint8_t greeting[64] = {0xff, [9] = 0x7f, [10] = 3, [12] = 'N',
                                     'U',  'L',        'L'};
static const uint8_t ready[] = "\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06"
                               "DEALER";

/* Exchanges greetings and READY. */
static void shake(int fd)
{
    uint8_t bytes[sizeof greeting + 2 + 39]; /* READY from a ROUTER */

    (void)!send(fd, greeting, sizeof greeting, MSG_NOSIGNAL);
    (void)!send(fd, ready, sizeof ready - 1, MSG_NOSIGNAL);
    (void)!recv(fd, bytes, sizeof bytes, MSG_WAITALL);
}

/* Sends bytes on a new connection, after the handshake or instead of it. */
static int say(const char *endpoint, bool shaken, const void *bytes, size_t n)
{
    int fd = dial(endpoint);

    if (fd >= 0 && shaken) {
        shake(fd);
    }
    if (fd >= 0) {
        (void)!send(fd, bytes, n, MSG_NOSIGNAL);
    }
    return fd;
}

struct bytes {
    const char *at;
    size_t n;
    bool shaken;
};

/* The bytes must end their connection, at both ports. */
static bool run_bytes(struct rogue_at *at, const struct rogue_case *c)
{
    const struct bytes *b = c->arg;
    const char *ports[] = {at->workers, at->clients};
    unsigned closed = 0;
    int fds[2];
    bool well;

    for (int i = 0; i < 2; i++) {
        fds[i] = say(ports[i], b->shaken, b->at, b->n);
    }
    for (int i = 0; i < 2; i++) {
        closed += fds[i] >= 0 && is_closed(fds[i]);
        close(fds[i]);
    }
    well = closed == 2 && others_come_in(at);
    return rogue_saw(at, well, "%u of 2 connections closed, others: %s", closed,
                     well ? "served" : "not checked");
}

static bool run_garbage(struct rogue_at *at, const struct rogue_case *c)
{
    static uint8_t bytes[1 << 18];
    const char *ports[] = {at->workers, at->clients};
    unsigned closed = 0;
    bool well;

    (void)c;
    for (int i = 0; i < 20; i++) {
        int fd;

        for (size_t k = 0; k < sizeof bytes; k += 256) {
            (void)!getrandom(bytes + k, 256, 0);
        }
        fd = say(ports[i % 2], i % 4 > 1, bytes, sizeof bytes);
        closed += fd >= 0;
        close(fd);
    }
    well = closed == 20 && others_come_in(at);
    return rogue_saw(at, well, "20 times 256 KiB, others: %s",
                     well ? "served" : "not served");
}

/* Half a handshake, then silence: the connections must be closed after the
 * handshake timeout, and other peers accepted before. */
static bool run_silence(struct rogue_at *at, const struct rogue_case *c)
{
    static int fds[SILENT];
    unsigned n = 0, closed = 0;
    bool well;

    (void)c;
    for (unsigned i = 0; i < SILENT; i++) {
        fds[n] =
            say(i % 2 ? at->workers : at->clients, false, greeting, i % 65);
        n += fds[n] >= 0;
    }
    well = n == SILENT && others_come_in(at);
    for (unsigned i = 0; i < n; i++) {
        closed += is_closed(fds[i]);
        close(fds[i]);
    }
    return rogue_saw(at, well && closed == n,
                     "%u connections, others meanwhile: %s, then %u closed", n,
                     well ? "served" : "not served", closed);
}

/* Sends whole messages that are not valid frames, over a real socket. */
static bool run_parts(struct rogue_at *at, const struct rogue_case *c)
{
    void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_DEALER);
    static const char signal_frame[] = "\x00\x11\x22\x33\x44\x55\x66\x77";
    int linger = 1000;
    bool well;

    (void)c;
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
    zmq_connect(socket, at->clients);
    for (int i = 0; i < 200; i++) {
        for (int k = 0; k < i % 7; k++) {
            zmq_send(socket, signal_frame, (size_t)k, ZMQ_SNDMORE);
        }
        zmq_send(socket, signal_frame, i % 9 < 8 ? (size_t)(i % 9) : 8, 0);
    }
    well = others_come_in(at);
    zmq_close(socket);
    zmq_ctx_term(context);
    return rogue_saw(at, well, "200 messages of 1 to 7 parts, others: %s",
                     well ? "served" : "not served");
}

#define BYTES(name, text, shaken) \
    static const struct bytes name = {text, sizeof text - 1, shaken}

BYTES(http, "GET / HTTP/1.1\r\nHost: sluice\r\n\r\n", false);
BYTES(length_max, "\x02\xff\xff\xff\xff\xff\xff\xff\xff", true);
BYTES(length_past, "\x02\x00\x00\x00\x00\x00\x20\x00\x01", true);
BYTES(unfinished, "\x01\x00", true);
BYTES(flags, "\x08\x01x", true);
BYTES(command_empty, "\x04\x00", true);
BYTES(version_old, "\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x01\x05", false);
BYTES(command_long, "\x06\x00\x00\x00\x00\x7f\xff\xff\xff", true);

#define CLOSED(bytes, text)                                               \
    {                                                                     \
        text, ROGUE_ROUTER, "the connection is closed", run_bytes, &bytes \
    }

static const struct rogue_case cases[] = {
    CLOSED(http, "raw-http"),
    CLOSED(length_max, "raw-length-max"),
    CLOSED(length_past, "raw-length-past-limit"),
    CLOSED(command_long, "raw-command-long"),
    {"raw-garbage", ROGUE_ROUTER, "others are served", run_garbage, NULL},
    {"raw-silence", ROGUE_ROUTER, "closed in time, others are served",
     run_silence, NULL},
    CLOSED(unfinished, "raw-unfinished"),
    CLOSED(flags, "raw-flags"),
    CLOSED(command_empty, "raw-command-empty"),
    CLOSED(version_old, "raw-version-old"),
    {"raw-parts", ROGUE_ROUTER, "closed or dropped, others are served",
     run_parts, NULL},
};

const struct rogue_table rogue_raws = {cases, sizeof cases / sizeof cases[0]};
