/* A real transport with keys, attacked over raw sockets and by peers whose keys
 * are trusted. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/wire/door.h"
#include "common/wire/method.h"
#include "tests/patience.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/common/wire/transport_curve_rig.h"

#define ROGUE 100000 /* parts, of which few may arrive */
#define PART  512

/* Reads what there is; returns false at the end of the connection. */
static bool drain(int fd)
{
    char bytes[4096];
    ssize_t n;

    do {
        n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    } while (n > 0);
    return n < 0 && errno == EAGAIN;
}

/* A recorded connection, sent again to the same router, is ended.  It is sent
 * in one piece, and in two after the greeting or HELLO. */
static void refuses_a_replay(void **state)
{
    static const size_t heads[] = {64, 64 + 202, SIZE_MAX};
    struct relay r;
    struct end s, c = {.keys = keys_of("alice")};
    struct peer_id id;
    struct error e;
    size_t n;

    (void)state;
    server_start(&s, "router");
    relay_begin(&r);
    assert_int_equal(transport_connect(&c.t, r.endpoint, c.keys, &e), ST_OK);
    loop_init(&c.loop, c.t, &ops, &c);
    id = redial(&c);
    RELAY_UNTIL(&r, &s, (loop_turn(&c.loop, 0), c.n_opened == 1));
    say(&c, id, FRAME_HEADER);
    RELAY_UNTIL(&r, &s, s.n_recv == 1);
    relay_end(&r);
    end_stop(&c);
    UNTIL(&s, &s, s.n_lost == 1);
    n = r.sent;
    assert_in_range(n, 64 + 202 + 9 + ZMTP_INITIATE, sizeof r.kept);
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        size_t head = heads[i] < n ? heads[i] : n;
        int fd = raw_dial(transport_endpoint(s.t, CLIENTS));

        send(fd, r.kept, head, MSG_NOSIGNAL);
        send(fd, r.kept + head, n - head, MSG_NOSIGNAL);
        UNTIL(&s, &s, !drain(fd));
        close(fd);
    }
    assert_int_equal(s.n_recv, 1);
    end_stop(&s);
}

/* A handshake that is never finished ends, and does not wait for the core. */
static void limits_unfinished_handshakes(void **state)
{
    int fds[DOOR_HANDSHAKES];
    unsigned most = door_share(DOOR_HANDSHAKES);
    struct end s, w;

    (void)state;
    server_start(&s, "router");
    meet(&w, &s, WORKERS, "w1");
    for (unsigned i = 0; i <= most; i++) {
        fds[i] = raw_dial(transport_endpoint(s.t, CLIENTS));
    }
    UNTIL(&s, &w, counts(&s).denied[DENIED_TOO_MANY] >= 1);
    UNTIL(&s, &w, !drain(fds[0])); /* its time is over */
    for (unsigned i = 0; i <= most; i++) {
        close(fds[i]);
    }
    assert_int_equal(s.n_lost, 0);
    end_stop(&w);
    end_stop(&s);
}

/* ---- an authenticated rogue ---- */

static void set_key(void *socket, int option, const uint8_t *key)
{
    assert_int_equal(zmq_setsockopt(socket, option, key, KEY_BYTES), 0);
}

struct rogue {
    void *context, *socket, *monitor;
    struct relay relay;
};

/* Opens a socket of ZeroMQ with the key of alice.  name: the routing id that it
 * asks for, "": none. */
static void rogue_named(struct rogue *g, const char *name)
{
    struct curve_keys *keys = keys_of("alice");
    int zero = 0, never = -1;

    relay_begin(&g->relay);
    g->context = zmq_ctx_new();
    g->socket = zmq_socket(g->context, ZMQ_DEALER);
    set_key(g->socket, ZMQ_CURVE_PUBLICKEY, curve_keys_public(keys));
    set_key(g->socket, ZMQ_CURVE_SECRETKEY, curve_keys_secret(keys));
    set_key(g->socket, ZMQ_CURVE_SERVERKEY,
            curve_keys_nth(keys, BY_ROUTER, 0)->key);
    if (*name != '\0') {
        zmq_setsockopt(g->socket, ZMQ_ROUTING_ID, name, strlen(name));
    }
    zmq_setsockopt(g->socket, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt(g->socket, ZMQ_RECONNECT_IVL, &never, sizeof never);
    zmq_socket_monitor(g->socket, "inproc://rogue",
                       ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
    g->monitor = zmq_socket(g->context, ZMQ_PAIR);
    zmq_setsockopt(g->monitor, ZMQ_LINGER, &zero, sizeof zero);
    zmq_connect(g->monitor, "inproc://rogue");
    zmq_connect(g->socket, g->relay.endpoint);
    curve_keys_free(&keys);
}

static void rogue_begin(struct rogue *g)
{
    rogue_named(g, "");
}

static void rogue_end(struct rogue *g)
{
    zmq_socket_monitor(g->socket, NULL, 0);
    zmq_close(g->socket);
    zmq_close(g->monitor);
    zmq_ctx_term(g->context);
    relay_end(&g->relay);
}

static bool is_accepted(const struct rogue *g)
{
    zmq_pollitem_t item = {.socket = g->monitor, .events = ZMQ_POLLIN};

    return zmq_poll(&item, 1, 0) == 1;
}

/* Queues a message of n parts.  libzmq passes it on when it is complete. */
static void rogue_say(const struct rogue *g, unsigned n, size_t bytes)
{
    static const uint8_t part[PART];

    assert_true(bytes <= sizeof part);
    for (unsigned i = 1; i <= n; i++) {
        assert_int_equal(
            zmq_send(g->socket, part, bytes, i < n ? ZMQ_SNDMORE : 0), bytes);
    }
}

static long resident_bytes(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    long pages = 0, all;

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld %ld", &all, &pages), 2);
    fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

static void cuts_endless_messages_of_an_authenticated_peer(void **state)
{
    struct rogue g;
    struct end s;
    long before;

    (void)state;
    server_start(&s, "router");
    rogue_begin(&g);
    rogue_say(&g, ROGUE, PART);
    before = resident_bytes(); /* with the rogue's own queue */
    RELAY_UNTIL(&g.relay, &s, g.relay.ended);
    assert_int_equal(counts(&s).cut, 1);
    assert_int_equal(s.n_recv, 0);
    /* The bytes sent also filled the buffers of two TCP connections. */
    assert_true(g.relay.sent < ROGUE / 4 * PART);
#ifndef __SANITIZE_ADDRESS__ /* which keeps what is freed */
    assert_true(resident_bytes() - before < ROGUE / 4 * PART);
#endif
    (void)before;
    rogue_end(&g);
    end_stop(&s);
}

/* The rest of the message never comes: the sweeps find it. */
static void cuts_an_unfinished_message_of_an_authenticated_peer(void **state)
{
    struct rogue g;
    struct end s;

    (void)state;
    server_start(&s, "router");
    rogue_begin(&g);
    RELAY_UNTIL(&g.relay, &s, is_accepted(&g));
    g.relay.limit = g.relay.sent + 2 * (9 + PART + ZMTP_CURVE);
    rogue_say(&g, 3, PART);
    RELAY_UNTIL(&g.relay, &s, g.relay.ended);
    assert_int_equal(g.relay.sent, g.relay.limit);
    assert_int_equal(counts(&s).cut, 1);
    assert_int_equal(s.n_recv, 0);
    rogue_end(&g);
    end_stop(&s);
}

/* It was whole when it came, and its sender is not served again. */
static void cuts_a_peer_after_a_message_of_several_parts(void **state)
{
    struct rogue g;
    struct end s;

    (void)state;
    server_start(&s, "router");
    rogue_begin(&g);
    rogue_say(&g, 1, PART);
    RELAY_UNTIL(&g.relay, &s, s.n_recv == 1);
    rogue_say(&g, 3, PART);
    RELAY_UNTIL(&g.relay, &s, g.relay.ended);
    assert_int_equal(counts(&s).cut, 1);
    assert_int_equal(s.n_recv, 1);
    rogue_end(&g);
    end_stop(&s);
}

/* Heartbeats would be counted as parts. */
static void cuts_messages_that_are_too_short(void **state)
{
    struct rogue g;
    struct end s;

    (void)state;
    server_start(&s, "router");
    rogue_begin(&g);
    rogue_say(&g, 1, FRAME_HEADER - 1);
    RELAY_UNTIL(&g.relay, &s, g.relay.ended);
    assert_int_equal(counts(&s).cut, 1);
    assert_int_equal(s.n_recv, 0);
    rogue_end(&g);
    end_stop(&s);
}

/* Two peers with one routing id: libzmq would never read the second one, nor
 * close it. */
static void refuses_a_peer_that_chooses_its_routing_id(void **state)
{
    struct rogue g;
    struct end s;

    (void)state;
    server_start(&s, "router");
    rogue_named(&g, "n");
    RELAY_UNTIL(&g.relay, &s, g.relay.ended || is_accepted(&g));
    assert_true(g.relay.ended);
    assert_int_equal(counts(&s).cut, 1);
    rogue_end(&g);
    end_stop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(refuses_a_replay),
        TEST(limits_unfinished_handshakes),
        TEST(cuts_endless_messages_of_an_authenticated_peer),
        TEST(cuts_an_unfinished_message_of_an_authenticated_peer),
        TEST(cuts_a_peer_after_a_message_of_several_parts),
        TEST(cuts_messages_that_are_too_short),
        TEST(refuses_a_peer_that_chooses_its_routing_id),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
