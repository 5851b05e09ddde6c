/* A real transport with keys: who is let in, who is not, and who must go.
 *
 * The server's ports: 0 for workers, with tensors; 1 for clients. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/wire/curve_keys.h"
#include "common/wire/door.h"
#include "common/wire/loop.h"
#include "common/wire/method.h"
#include "common/wire/transport.h"
#include "tests/key_files.h"
#include "tests/patience.h"
#include "tests/unit/cmocka.h"

#define WORKERS 0
#define CLIENTS 1
#define ROGUE   100000 /* parts, of which few may arrive */
#define PART    512

struct end {
    struct curve_keys *keys;
    struct transport *t;
    struct loop loop;
    unsigned n_recv, n_lost, n_opened;
    struct peer_id last, lost;
    char from[KEY_NAME_MAX + 1]; /* the name of the last sender */
};

static struct key_files files;

static void end_opened(void *node, struct peer_id who)
{
    (void)who;
    ((struct end *)node)->n_opened++;
}

static void end_recv(void *node, struct peer_id from, struct frame **f)
{
    struct end *x = node;
    struct node_io *io = transport_io(x->t);
    const struct identity *id = io->identity(io, from);

    x->n_recv++;
    x->last = from;
    assert_non_null(id);
    snprintf(x->from, sizeof x->from, "%s", id->name);
    frame_free(f);
}

static void end_lost(void *node, struct peer_id who)
{
    struct end *x = node;

    x->n_lost++;
    x->lost = who;
}

static int64_t end_tick(void *node, int64_t now_us)
{
    (void)node;
    (void)now_us;
    return NODE_IDLE;
}

static const struct node_ops ops = {end_opened, end_recv, end_lost, end_tick};

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

static struct curve_keys *keys_of(const char *name)
{
    char path[KEY_FILES_PATH];
    struct curve_keys *keys;
    struct error e;

    key_files_path(&files, name, ".key", path);
    if (curve_keys_load(&keys, path, files.dir, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    return keys;
}

static void server_start(struct end *x, const char *key)
{
    const struct transport_port ports[] = {
        {"tcp://127.0.0.1:*", BY_WORKER, true},
        {"tcp://127.0.0.1:*", BY_CLIENT | BY_ADMIN, false}};
    struct error e;

    *x = (struct end){.keys = keys_of(key)};
    if (transport_listen(&x->t, ports, 2, x->keys, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    loop_init(&x->loop, x->t, &ops, x);
}

static struct peer_id redial(struct end *c)
{
    return transport_io(c->t)->open(transport_io(c->t));
}

/* Dials a port with the key of a name, NULL: without keys. */
static struct peer_id dial(struct end *c, const struct end *s, unsigned port,
                           const char *key)
{
    struct error e;

    *c = (struct end){.keys = key != NULL ? keys_of(key) : NULL};
    if (transport_connect(&c->t, transport_endpoint(s->t, port), c->keys, &e) !=
        ST_OK) {
        fail_msg("%s", e.text);
    }
    loop_init(&c->loop, c->t, &ops, c);
    return redial(c);
}

static void end_stop(struct end *x)
{
    transport_free(&x->t);
    curve_keys_free(&x->keys);
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

static void reload(struct end *x)
{
    struct error e;

    if (curve_keys_reload(x->keys, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    transport_reload(x->t);
}

/* Connects and sends a frame, which arrives. */
static struct peer_id meet(struct end *c, struct end *s, unsigned port,
                           const char *key)
{
    unsigned before = s->n_recv;
    struct peer_id id = dial(c, s, port, key);

    UNTIL(s, c, c->n_opened == 1);
    say(c, id, FRAME_HEADER);
    UNTIL(s, c, s->n_recv == before + 1);
    return id;
}

/* Dials with a key that the port does not accept. */
static void expect_denied(struct end *s, unsigned port, const char *key,
                          enum node_denial why)
{
    uint64_t before = counts(s).denied[why];
    unsigned recv = s->n_recv;
    struct end c;

    dial(&c, s, port, key);
    UNTIL(s, &c, c.n_lost == 1 && counts(s).denied[why] == before + 1);
    assert_int_equal(c.n_opened, 0);
    assert_int_equal(s->n_recv, recv);
    assert_string_not_equal(transport_trouble(c.t), "");
    end_stop(&c);
}

static int begin(void **state)
{
    (void)state;
    key_files_begin(&files);
    key_files_make(&files, "router", "router", 1);
    key_files_make(&files, "w1", "worker", 1);
    key_files_make(&files, "w2", "worker", 1);
    key_files_make(&files, "alice", "client", 1);
    key_files_make(&files, "root", "admin", 1);
    key_files_make(&files, "mallory", "router,worker,client,admin", 0);
    return 0;
}

static int finish(void **state)
{
    (void)state;
    key_files_end(&files);
    return 0;
}

static void knows_peers_by_their_keys(void **state)
{
    struct node_io *io;
    struct end s, w, c;
    struct peer_id id;

    (void)state;
    server_start(&s, "router");
    meet(&w, &s, WORKERS, "w1");
    assert_string_equal(s.from, "w1");
    id = meet(&c, &s, CLIENTS, "alice");
    assert_string_equal(s.from, "alice");
    io = transport_io(c.t);
    assert_string_equal(io->identity(io, id)->name, "router");
    assert_int_equal(io->identity(io, id)->roles, BY_ROUTER);
    say(&s, s.last, FRAME_HEADER);
    UNTIL(&s, &c, c.n_recv == 1);
    assert_string_equal(c.from, "router");
    end_stop(&c);
    end_stop(&w);
    end_stop(&s);
}

static void refuses_who_may_not_connect(void **state)
{
    struct end s;

    (void)state;
    server_start(&s, "router");
    for (unsigned port = WORKERS; port <= CLIENTS; port++) {
        expect_denied(&s, port, NULL, DENIED_NO_KEY);
        expect_denied(&s, port, "mallory", DENIED_UNKNOWN_KEY);
        expect_denied(&s, port, "router", DENIED_WRONG_ROLE);
    }
    expect_denied(&s, WORKERS, "alice", DENIED_WRONG_ROLE);
    expect_denied(&s, WORKERS, "root", DENIED_WRONG_ROLE);
    expect_denied(&s, CLIENTS, "w1", DENIED_WRONG_ROLE);
    assert_int_equal(s.n_lost, 0);
    end_stop(&s);
}

/* An administrator is also a client. */
static void an_admin_connects_as_a_client(void **state)
{
    struct end s, c;

    (void)state;
    server_start(&s, "router");
    meet(&c, &s, CLIENTS, "root");
    assert_string_equal(s.from, "root");
    end_stop(&c);
    end_stop(&s);
}

static void a_wrong_server_key_fails_the_handshake(void **state)
{
    struct end s;

    (void)state;
    server_start(&s, "router");
    key_files_make(&files, "router", "router", 1); /* another one */
    expect_denied(&s, CLIENTS, "alice", DENIED_HANDSHAKE);
    end_stop(&s);
}

/* The client trusts both keys and tries them in turn. */
static void finds_a_router_whose_key_has_changed(void **state)
{
    char from[KEY_FILES_PATH], to[KEY_FILES_PATH];
    struct peer_id id = {0};
    struct end s, c;

    (void)state;
    key_files_path(&files, "router", ".cert", from);
    key_files_path(&files, "an-older-router", ".cert", to);
    assert_int_equal(rename(from, to), 0);
    key_files_make(&files, "router+2", "router", 1);
    server_start(&s, "router+2");
    id = dial(&c, &s, CLIENTS, "alice");
    UNTIL(&s, &c, c.n_opened + c.n_lost > 0);
    for (int i = 0; c.n_opened == 0; i++) {
        unsigned before = c.n_lost;

        assert_true(i < 2);
        id = redial(&c);
        UNTIL(&s, &c, c.n_opened == 1 || c.n_lost > before);
    }
    say(&c, id, FRAME_HEADER);
    UNTIL(&s, &c, s.n_recv == 1);
    assert_string_equal(
        transport_io(c.t)->identity(transport_io(c.t), id)->name, "router");
    end_stop(&c);
    end_stop(&s);
    key_files_remove(&files, "router+2", ".cert");
    assert_int_equal(rename(to, from), 0);
}

static void a_removed_key_ends_its_connections(void **state)
{
    struct peer_id w_at_s;
    struct end s, w, c;

    (void)state;
    server_start(&s, "router");
    meet(&w, &s, WORKERS, "w1");
    w_at_s = s.last;
    meet(&c, &s, CLIENTS, "alice");
    key_files_remove(&files, "alice", ".cert");
    reload(&s);
    UNTIL(&s, &c, s.n_lost == 1 && c.n_lost == 1);
    assert_int_equal(s.lost.v, s.last.v);
    redial(&c);
    UNTIL(&s, &c, c.n_lost == 2);
    assert_int_equal(c.n_opened, 1);
    say(&s, w_at_s, FRAME_HEADER); /* the other one stays */
    UNTIL(&s, &w, w.n_recv == 1);
    assert_int_equal(s.n_lost, 1);
    end_stop(&c);
    end_stop(&w);
    end_stop(&s);
}

/* A connection that has not spoken yet reaches no core afterwards. */
static void a_removed_key_does_not_begin_to_speak(void **state)
{
    struct peer_id id;
    struct end s, c;

    (void)state;
    server_start(&s, "router");
    id = dial(&c, &s, CLIENTS, "alice");
    UNTIL(&s, &c, c.n_opened == 1);
    key_files_remove(&files, "alice", ".cert");
    reload(&s);
    say(&c, id, FRAME_HEADER);
    UNTIL(&s, &c, c.n_lost == 1);
    assert_int_equal(s.n_recv, 0);
    end_stop(&c);
    end_stop(&s);
}

static void a_lost_role_ends_its_connections(void **state)
{
    char text[1024], path[KEY_FILES_PATH];
    struct end s, c;
    FILE *f;

    (void)state;
    server_start(&s, "router");
    meet(&c, &s, CLIENTS, "root");
    key_files_path(&files, "root", ".cert", path);
    f = fopen(path, "r");
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    memcpy(strstr(text, "\"admin\""), "client\n", 7);
    key_files_write(&files, "root", ".cert", text);
    reload(&s);
    UNTIL(&s, &c, s.n_lost == 1 && c.n_lost == 1);
    end_stop(&c);
    end_stop(&s);
}

static void a_client_ends_when_it_trusts_the_router_no_more(void **state)
{
    struct end s, c;

    (void)state;
    server_start(&s, "router");
    meet(&c, &s, CLIENTS, "alice");
    key_files_remove(&files, "router", ".cert");
    reload(&c);
    UNTIL(&s, &c, c.n_lost == 1 && s.n_lost == 1);
    redial(&c);
    UNTIL(&s, &c, c.n_lost == 2);
    assert_non_null(strstr(transport_trouble(c.t), "role router"));
    end_stop(&c);
    end_stop(&s);
}

/* ---- raw bytes ---- */

static int raw_dial(const char *endpoint)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    struct timeval wait = {patience_s(), 0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons((uint16_t)atoi(strrchr(endpoint, ':') + 1));
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    return fd;
}

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

/* A relay to the clients' port. */
struct relay {
    int listener, down, up; /* -1: not open */
    char endpoint[64];
    uint8_t kept[4096]; /* the first bytes of the client */
    size_t sent;        /* bytes of the client that were passed on */
    size_t limit;       /* of them */
    bool ended;         /* the server has closed */
};

static void relay_begin(struct relay *r)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof at;

    *r = (struct relay){.down = -1, .up = -1, .limit = SIZE_MAX};
    r->listener =
        socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(r->listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(r->listener, 1), 0);
    getsockname(r->listener, (struct sockaddr *)&at, &size);
    snprintf(r->endpoint, sizeof r->endpoint, "tcp://127.0.0.1:%u",
             ntohs(at.sin_port));
}

static void relay_end(const struct relay *r)
{
    close(r->listener);
    close(r->down);
    close(r->up);
}

/* Passes on what has come from the client, up to the limit. */
static void relay_up(struct relay *r)
{
    size_t room = r->limit - r->sent;
    uint8_t bytes[4096];
    ssize_t n;

    room = room < sizeof bytes ? room : sizeof bytes;
    n = room > 0 ? recv(r->down, bytes, room, MSG_DONTWAIT) : 0;
    if (n > 0) {
        for (size_t i = 0; i < (size_t)n; i++) {
            if (r->sent + i < sizeof r->kept) {
                r->kept[r->sent + i] = bytes[i];
            }
        }
        r->ended |= send(r->up, bytes, (size_t)n, MSG_NOSIGNAL) != n;
        r->sent += (size_t)n;
    }
}

static void relay_turn(struct relay *r, const struct end *s)
{
    uint8_t bytes[4096];
    ssize_t n;

    if (r->down < 0) {
        r->down = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC);
        return;
    }
    if (r->up < 0) {
        r->up = raw_dial(transport_endpoint(s->t, CLIENTS));
    }
    for (int i = 0; i < 64; i++) {
        relay_up(r);
    }
    n = recv(r->up, bytes, sizeof bytes, MSG_DONTWAIT);
    r->ended |= n == 0 || (n < 0 && errno != EAGAIN);
    if (n > 0) {
        send(r->down, bytes, (size_t)n, MSG_NOSIGNAL);
    }
}

/* Runs the relay and the server until the expression is true. */
#define RELAY_UNTIL(r, s, expression)                     \
    do {                                                  \
        int64_t until_us = loop_now_us() + patience_us(); \
                                                          \
        while (!(expression)) {                           \
            assert_true(loop_now_us() < until_us);        \
            relay_turn(r, s);                             \
            loop_turn(&(s)->loop, 1000);                  \
        }                                                 \
    } while (0)

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

/* Opens a socket of ZeroMQ with the key of alice. */
static void rogue_begin(struct rogue *g)
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
    /* What was sent also filled the buffers of two TCP connections. */
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

/* ---- messages ---- */

static void long_messages_come_as_without_keys(void **state)
{
    struct peer_id id;
    struct end s, w;

    (void)state;
    server_start(&s, "router");
    id = meet(&w, &s, WORKERS, "w1");
    say(&w, id, FRAME_BYTES_MAX);
    UNTIL(&s, &w, s.n_recv == 2);
    transport_io(s.t)->trust(transport_io(s.t), s.last);
    say(&w, id, FRAME_BYTES_MAX + FRAME_TENSOR_MAX);
    UNTIL(&s, &w, s.n_recv == 3);
    say(&s, s.last, FRAME_BYTES_MAX);
    UNTIL(&s, &w, w.n_recv == 1);
    end_stop(&w);
    id = meet(&w, &s, CLIENTS, "alice");
    say(&w, id, FRAME_BYTES_MAX + 1);
    UNTIL(&s, &w, w.n_lost == 1);
    assert_int_equal(s.n_recv, 4);
    assert_int_equal(counts(&s).cut, 1);
    end_stop(&w);
    end_stop(&s);
}

/* Many messages at once are no unfinished message. */
static void bursts_are_not_cut(void **state)
{
    struct peer_id id;
    struct end s, c;
    unsigned sent = 1;

    (void)state;
    server_start(&s, "router");
    id = meet(&c, &s, CLIENTS, "alice");
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 200; i++) {
            struct frame *f = frame_new(FRAME_HEADER + (uint32_t)i * 37);
            struct node_io *io = transport_io(c.t);

            memset(f->data, 0, f->bytes);
            sent += io->send(io, id, &f) == ST_OK;
        }
        loop_turn(&c.loop, 0);
    }
    UNTIL(&s, &c, s.n_recv == sent);
    assert_int_equal(counts(&s).cut, 0);
    assert_int_equal(c.n_lost, 0);
    end_stop(&c);
    end_stop(&s);
}

static void a_stage_is_dialled_by_its_key(void **state)
{
    const struct transport_port port = {"tcp://127.0.0.1:*", BY_WORKER, true};
    struct curve_keys *own = keys_of("w1");
    struct end next = {.keys = keys_of("w2")}, prev = {.keys = own};
    const struct identity *there;
    struct peer_id id;
    struct node_io *io;
    struct error e;

    (void)state;
    assert_int_equal(
        transport_new(&next.t, "tcp://127.0.0.1:1", &port, 1, next.keys, &e),
        ST_OK);
    loop_init(&next.loop, next.t, &ops, &next);
    assert_int_equal(
        transport_new(&prev.t, "tcp://127.0.0.1:1", &port, 1, own, &e), ST_OK);
    loop_init(&prev.loop, prev.t, &ops, &prev);
    io = transport_io(prev.t);
    /* Without a key, and with one that is no worker's, nothing is dialled. */
    io->open_to(io, transport_endpoint(next.t, 0), NULL);
    UNTIL(&next, &prev, prev.n_lost == 1);
    there = curve_keys_nth(own, BY_CLIENT, 0);
    io->open_to(io, transport_endpoint(next.t, 0), there->key);
    UNTIL(&next, &prev, prev.n_lost == 2);
    id = io->open_to(io, transport_endpoint(next.t, 0),
                     curve_keys_public(next.keys));
    UNTIL(&next, &prev, prev.n_opened == 1);
    say(&prev, id, FRAME_HEADER);
    UNTIL(&next, &prev, next.n_recv == 1);
    assert_string_equal(next.from, "w1");
    assert_string_equal(io->identity(io, id)->name, "w2");
    end_stop(&prev);
    end_stop(&next);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(knows_peers_by_their_keys),
        TEST(refuses_who_may_not_connect),
        TEST(an_admin_connects_as_a_client),
        TEST(a_wrong_server_key_fails_the_handshake),
        TEST(finds_a_router_whose_key_has_changed),
        TEST(a_removed_key_ends_its_connections),
        TEST(a_removed_key_does_not_begin_to_speak),
        TEST(a_lost_role_ends_its_connections),
        TEST(a_client_ends_when_it_trusts_the_router_no_more),
        TEST(refuses_a_replay),
        TEST(limits_unfinished_handshakes),
        TEST(cuts_endless_messages_of_an_authenticated_peer),
        TEST(cuts_an_unfinished_message_of_an_authenticated_peer),
        TEST(cuts_a_peer_after_a_message_of_several_parts),
        TEST(cuts_messages_that_are_too_short),
        TEST(long_messages_come_as_without_keys),
        TEST(bursts_are_not_cut),
        TEST(a_stage_is_dialled_by_its_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
