/* The doors of a real transport, attacked over raw sockets and by ZeroMQ. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/wire/door.h"
#include "common/wire/loop.h"
#include "common/wire/method.h"
#include "tests/patience.h"

static const uint8_t greeting[64] = {0xff, [9] = 0x7f, [10] = 3, [12] = 'N',
                                     'U',  'L',        'L'};
static const char ready[] = "\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06"
                            "DEALER";

/* A node that counts what it gets. */
struct end {
    struct transport *t;
    struct loop loop;
    unsigned n_recv, n_lost, n_opened;
    struct peer_id last;
};

static void end_opened(void *node, struct peer_id who)
{
    (void)who;
    ((struct end *)node)->n_opened++;
}

static void end_recv(void *node, struct peer_id from, struct frame **f)
{
    struct end *x = node;

    x->n_recv++;
    x->last = from;
    frame_free(f);
}

static void end_lost(void *node, struct peer_id who)
{
    (void)who;
    ((struct end *)node)->n_lost++;
}

static int64_t end_tick(void *node, int64_t now_us)
{
    (void)node;
    (void)now_us;
    return NODE_IDLE;
}

static const struct node_ops ops = {end_opened, end_recv, end_lost, end_tick};

static void end_init(struct end *x, struct transport *t)
{
    *x = (struct end){.t = t};
    loop_init(&x->loop, t, &ops, x);
}

static void listen_start(struct end *x, uint8_t allowed, bool tensors)
{
    const struct transport_port port = {"tcp://127.0.0.1:*", allowed, tensors};
    struct transport *t;
    struct error e;

    if (transport_listen(&t, &port, 1, NULL, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    end_init(x, t);
}

static struct peer_id dial(struct end *c, const struct end *s)
{
    struct transport *t;
    struct error e;

    if (transport_connect(&t, transport_endpoint(s->t, 0), NULL, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    end_init(c, t);
    return transport_io(t)->open(transport_io(t));
}

static void say(struct end *x, struct peer_id to, uint32_t bytes)
{
    struct frame *f = frame_new(bytes);

    memset(f->data, 0, bytes);
    assert_int_equal(transport_io(x->t)->send(transport_io(x->t), to, &f),
                     ST_OK);
}

static struct node_counts counts(const struct end *x)
{
    struct node_counts c;

    transport_io(x->t)->counts(transport_io(x->t), &c);
    return c;
}

/* Runs both nodes until the expression is true. */
#define UNTIL(x, y, expression)                           \
    do {                                                  \
        int64_t until_us = loop_now_us() + patience_us(); \
                                                          \
        while (!(expression)) {                           \
            assert_true(loop_now_us() < until_us);        \
            loop_turn(&(x)->loop, 5000);                  \
            loop_turn(&(y)->loop, 5000);                  \
        }                                                 \
    } while (0)

/* Connects to the port of x with this source address. */
static int raw_dial(const struct end *x, uint32_t from)
{
    const char *endpoint = transport_endpoint(x->t, 0);
    struct sockaddr_in to = {.sin_family = AF_INET},
                       own = {.sin_family = AF_INET};
    struct timeval wait = {patience_s(), 0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    own.sin_addr.s_addr = htonl(from);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons((uint16_t)atoi(strrchr(endpoint, ':') + 1));
    assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof own), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    return fd;
}

/* Returns whether the other side closes; reads what comes before. */
static bool is_closed(int fd)
{
    char bytes[4096];
    ssize_t n;

    do {
        n = recv(fd, bytes, sizeof bytes, 0);
    } while (n > 0);
    return n == 0 || errno == ECONNRESET;
}

/* Exchanges greetings and READY. */
static void shake(int fd)
{
    uint8_t bytes[sizeof greeting + 2 + 39];

    assert_int_equal(send(fd, greeting, sizeof greeting, MSG_NOSIGNAL),
                     sizeof greeting);
    assert_int_equal(send(fd, ready, sizeof ready - 1, MSG_NOSIGNAL),
                     sizeof ready - 1);
    assert_int_equal(recv(fd, bytes, sizeof bytes, MSG_WAITALL), sizeof bytes);
}

/* The port greets whom it accepts. */
static int raw_dial_until_accepted(const struct end *x)
{
    int64_t until_us = loop_now_us() + patience_us();
    uint8_t byte;
    int fd;

    while (fd = raw_dial(x, INADDR_LOOPBACK), recv(fd, &byte, 1, 0) != 1) {
        assert_true(loop_now_us() < until_us);
        close(fd);
    }
    return fd;
}

static void cuts_a_message_of_several_frames(void **state)
{
    static const uint8_t part[2] = {1, 0};
    struct end s;
    int fd;

    (void)state;
    listen_start(&s, BY_CLIENT, false);
    fd = raw_dial(&s, INADDR_LOOPBACK);
    shake(fd);
    assert_int_equal(send(fd, part, sizeof part, MSG_NOSIGNAL), sizeof part);
    assert_true(is_closed(fd));
    assert_int_equal(counts(&s).cut, 1);
    assert_int_equal(s.n_recv, 0);
    close(fd);
    transport_free(&s.t);
}

static void refuses_past_the_limits(void **state)
{
    struct end s;
    int fds[4];

    (void)state;
    listen_start(&s, BY_CLIENT, false);
    transport_limit(s.t, 0, 3, 2);
    for (int i = 0; i < 4; i++) {
        fds[i] = raw_dial(&s, INADDR_LOOPBACK + (uint32_t)i);
        if (i < 2) {
            shake(fds[i]);
        } else {
            /* 127.0.0.0/8 is one address. */
            assert_true(is_closed(fds[i]));
        }
    }
    assert_int_equal(counts(&s).accepted, 2);
    assert_int_equal(counts(&s).refused, 2);
    close(fds[0]);
    fds[0] = raw_dial_until_accepted(&s);
    assert_int_equal(counts(&s).accepted, 3);
    for (int i = 0; i < 4; i++) {
        close(fds[i]);
    }
    transport_free(&s.t);
}

/* The thread that refuses does not wait for the next connection. */
static void serves_after_a_refusal(void **state)
{
    struct end s;
    int first, second;
    uint8_t byte;

    (void)state;
    listen_start(&s, BY_CLIENT, false);
    transport_limit(s.t, 0, 1, 1);
    first = raw_dial(&s, INADDR_LOOPBACK);
    assert_int_equal(recv(first, &byte, 1, MSG_PEEK), 1); /* accepted */
    second = raw_dial(&s, INADDR_LOOPBACK);
    assert_true(is_closed(second));
    shake(first);
    close(first);
    close(second);
    transport_free(&s.t);
}

/* Before it is trusted, a peer cannot make the port hold a tensor. */
static void strangers_send_no_tensor(void **state)
{
    struct peer_id id;
    struct end s, c;

    (void)state;
    listen_start(&s, BY_WORKER, true);
    id = dial(&c, &s);
    UNTIL(&s, &c, c.n_opened == 1);
    say(&c, id, FRAME_BYTES_MAX + 1);
    UNTIL(&s, &c, c.n_lost == 1);
    assert_int_equal(s.n_recv, 0);
    assert_int_equal(counts(&s).cut, 1);
    transport_free(&c.t);
    transport_free(&s.t);
}

/* A closed connection ends although its peer stays, after what was sent to it
 * before has arrived. */
static void ends_what_is_closed(void **state)
{
    struct peer_id id;
    struct end s, c;

    (void)state;
    listen_start(&s, BY_CLIENT, false);
    id = dial(&c, &s);
    UNTIL(&s, &c, c.n_opened == 1);
    say(&c, id, FRAME_HEADER);
    UNTIL(&s, &c, s.n_recv == 1);
    say(&s, s.last, FRAME_BYTES_MAX);
    transport_io(s.t)->close(transport_io(s.t), s.last);
    UNTIL(&s, &c, c.n_lost == 1);
    assert_int_equal(c.n_recv, 1);
    assert_int_equal(s.n_lost, 0);
    assert_int_equal(counts(&s).cut, 0);
    transport_free(&c.t);
    transport_free(&s.t);
}

static void ends_who_never_speaks(void **state)
{
    const unsigned door = 1; /* the only one */
    struct peer_id id;
    struct end s, c;
    int fd;

    (void)state;
    listen_start(&s, BY_CLIENT, false);
    id = dial(&c, &s);
    UNTIL(&s, &c, c.n_opened == 1);
    say(&c, id, FRAME_HEADER);
    UNTIL(&s, &c, s.n_recv == 1);
    fd = raw_dial(&s, INADDR_LOOPBACK);
    shake(fd);
    door_sweep(door, loop_now_us());
    assert_int_equal(counts(&s).cut, 0);
    door_sweep(door, loop_now_us() + DOOR_SILENT_MS * 1000ll);
    assert_true(is_closed(fd));
    assert_int_equal(counts(&s).cut, 1);
    say(&c, id, FRAME_HEADER); /* its connection stays */
    UNTIL(&s, &c, s.n_recv == 2);
    close(fd);
    transport_free(&c.t);
    transport_free(&s.t);
}

/* libzmq reads no message of the second, and would never close it if its queue
 * became full. */
static void closes_peers_with_one_routing_id(void **state)
{
    static const char named[] = "\x04\x14\x05READY\x08Identity\0\0\0\1n";
    static const uint8_t message[2 + FRAME_HEADER] = {0, FRAME_HEADER};
    const unsigned door = 1; /* the only one */
    uint8_t bytes[sizeof greeting + 2 + 39];
    struct end s;
    int fds[2];

    (void)state;
    listen_start(&s, BY_CLIENT, false);
    for (int i = 0; i < 2; i++) {
        fds[i] = raw_dial(&s, INADDR_LOOPBACK);
        send(fds[i], greeting, sizeof greeting, MSG_NOSIGNAL);
        send(fds[i], named, sizeof named - 1, MSG_NOSIGNAL);
        assert_int_equal(recv(fds[i], bytes, sizeof bytes, MSG_WAITALL),
                         sizeof bytes);
        loop_turn(&s.loop, 0);
    }
    for (int i = 0; i < 2 * TRANSPORT_HWM; i++) {
        send(fds[1], message, sizeof message, MSG_NOSIGNAL);
    }
    UNTIL(&s, &s, door_counts(door).spoke == 1);
    close(fds[0]);
    close(fds[1]);
    UNTIL(&s, &s, door_counts(door).closed == 2);
    assert_int_equal(s.n_recv, 0);
    transport_free(&s.t);
}

static void refuses_to_listen_without_a_door(void **state)
{
    const struct transport_port port = {"tcp://127.0.0.1:*", BY_CLIENT, false};
    struct transport *t[DOOR_PORTS_MAX] = {NULL};
    struct error e;

    (void)state;
    for (unsigned i = 0; i < DOOR_PORTS_MAX; i++) {
        assert_int_equal(transport_listen(&t[i], &port, 1, NULL, &e), ST_OK);
    }
    assert_int_equal(
        transport_listen(&(struct transport *){NULL}, &port, 1, NULL, &e),
        ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(e.text, "8 ports"));
    for (unsigned i = 0; i < DOOR_PORTS_MAX; i++) {
        transport_free(&t[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_a_message_of_several_frames),
        cmocka_unit_test(refuses_past_the_limits),
        cmocka_unit_test(serves_after_a_refusal),
        cmocka_unit_test(strangers_send_no_tensor),
        cmocka_unit_test(ends_what_is_closed),
        cmocka_unit_test(ends_who_never_speaks),
        cmocka_unit_test(closes_peers_with_one_routing_id),
        cmocka_unit_test(refuses_to_listen_without_a_door),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
