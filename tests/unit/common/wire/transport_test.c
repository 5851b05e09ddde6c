#include "common/wire/transport.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <zmq.h>

#include "common/wire/loop.h"
#include "common/wire/method.h"
#include "tests/patience.h"
#include "tests/unit/cmocka.h"

#define TURNS 2000 /* of at most 5 ms */

/* A node that counts, and echoes frames if requested. */
struct end {
    struct transport *t;
    struct loop loop;
    bool echo;
    struct peer_id last, lost, opened;
    uint32_t n_recv, n_lost, n_opened;
    uint8_t mark; /* the last byte of the last frame */
};

static void busy(int64_t us)
{
    int64_t until = loop_now_us() + us;

    while (loop_now_us() < until) {
    }
}

static void end_opened(void *node, struct peer_id who)
{
    struct end *x = node;

    x->opened = who;
    x->n_opened++;
}

static void end_recv(void *node, struct peer_id from, struct frame **f)
{
    struct end *x = node;

    x->last = from;
    x->n_recv++;
    x->mark = (*f)->data[(*f)->bytes - 1];
    if (x->echo) {
        struct node_io *io = transport_io(x->t);

        io->send(io, from, f);
    } else {
        frame_free(f);
    }
}

static void end_lost(void *node, struct peer_id who)
{
    struct end *x = node;

    x->lost = who;
    x->n_lost++;
}

static int64_t end_tick(void *node, int64_t now_us)
{
    (void)node;
    (void)now_us;
    return NODE_IDLE;
}

static const struct node_ops end_ops = {end_opened, end_recv, end_lost,
                                        end_tick};

static void end_init(struct end *x, struct transport *t)
{
    memset(x, 0, sizeof *x);
    x->t = t;
    loop_init(&x->loop, t, &end_ops, x);
}

static void server_start(struct end *s, const char *endpoint)
{
    const struct transport_port ports[] = {
        {endpoint, BY_WORKER, false}, {"tcp://127.0.0.1:*", BY_CLIENT, false}};
    struct transport *t = NULL;
    struct error e;

    if (transport_listen(&t, ports, 2, NULL, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    end_init(s, t);
    s->echo = true;
}

static struct peer_id dial(struct end *c, const char *endpoint)
{
    struct transport *t = NULL;
    struct error e;

    if (transport_connect(&t, endpoint, NULL, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    end_init(c, t);
    return transport_io(t)->open(transport_io(t));
}

static enum status say(struct end *x, struct peer_id to, uint8_t mark,
                       uint32_t bytes)
{
    struct frame *f = frame_new(bytes);

    memset(f->data, mark, bytes);
    return transport_io(x->t)->send(transport_io(x->t), to, &f);
}

/* Runs turns of all until *what reaches n. */
#define UNTIL(what, n, ...)                                                \
    do {                                                                   \
        struct end *ends_[] = {__VA_ARGS__};                               \
        int left_ = TURNS;                                                 \
        while ((what) < (n) && left_-- > 0) {                              \
            for (size_t i_ = 0; i_ < sizeof ends_ / sizeof *ends_; i_++) { \
                loop_turn(&ends_[i_]->loop, 5000);                         \
            }                                                              \
        }                                                                  \
        assert_true((what) >= (n));                                        \
    } while (0)

static void tells_two_connections_apart(void **state)
{
    struct end s, a, b;
    struct peer_id at_s, id_a, id_b;

    (void)state;
    server_start(&s, "tcp://127.0.0.1:*");
    id_a = dial(&a, transport_endpoint(s.t, 0));
    id_b = dial(&b, transport_endpoint(s.t, 1));
    UNTIL(a.n_opened + b.n_opened, 2, &s, &a, &b);
    assert_int_equal(say(&a, id_a, 'a', 64), ST_OK);
    UNTIL(a.n_recv, 1, &s, &a, &b);
    at_s = s.last;
    assert_int_equal(transport_io(s.t)->port(transport_io(s.t), at_s),
                     BY_WORKER);
    assert_int_equal(say(&b, id_b, 'b', 100), ST_OK);
    UNTIL(b.n_recv, 1, &s, &a, &b);
    assert_int_not_equal(at_s.v, s.last.v);
    assert_int_equal(transport_io(s.t)->port(transport_io(s.t), s.last),
                     BY_CLIENT);
    assert_int_equal(a.mark, 'a');
    assert_int_equal(b.mark, 'b');
    assert_int_equal(a.n_recv, 1);
    /* a leaves: only a is lost. */
    transport_free(&a.t);
    UNTIL(s.n_lost, 1, &s, &b);
    assert_int_equal(s.lost.v, at_s.v);
    assert_int_equal(say(&b, id_b, 'c', 64), ST_OK);
    UNTIL(b.n_recv, 2, &s, &b);
    assert_int_equal(s.n_lost, 1);
    assert_int_equal(say(&s, at_s, 'x', 64), ST_UNAVAILABLE);
    transport_free(&b.t);
    transport_free(&s.t);
}

static void opens_anew_after_a_restart(void **state)
{
    char endpoint[256];
    struct peer_id first, second;
    struct end s, c;

    (void)state;
    server_start(&s, "tcp://127.0.0.1:*");
    snprintf(endpoint, sizeof endpoint, "%s", transport_endpoint(s.t, 0));
    first = dial(&c, endpoint);
    UNTIL(c.n_opened, 1, &s, &c);
    transport_free(&s.t);
    UNTIL(c.n_lost, 1, &c);
    assert_int_equal(c.lost.v, first.v);
    assert_int_equal(say(&c, first, 'x', 64), ST_UNAVAILABLE);
    /* No listener: lost again, reported once. */
    second = transport_io(c.t)->open(transport_io(c.t));
    assert_int_not_equal(second.v, first.v);
    UNTIL(c.n_lost, 2, &c);
    assert_int_equal(c.lost.v, second.v);
    server_start(&s, endpoint);
    second = transport_io(c.t)->open(transport_io(c.t));
    UNTIL(c.n_opened, 2, &s, &c);
    assert_int_equal(say(&c, second, 'y', 64), ST_OK);
    UNTIL(c.n_recv, 1, &s, &c);
    assert_int_equal(s.n_recv, 1);
    transport_free(&c.t);
    transport_free(&s.t);
}

static void says_no_lost_after_close(void **state)
{
    struct end s, c;
    struct peer_id id;

    (void)state;
    server_start(&s, "tcp://127.0.0.1:*");
    id = dial(&c, transport_endpoint(s.t, 0));
    UNTIL(c.n_opened, 1, &s, &c);
    say(&c, id, 'a', 64);
    UNTIL(c.n_recv, 1, &s, &c);
    transport_io(s.t)->close(transport_io(s.t), s.last);
    assert_int_equal(say(&s, s.last, 'x', 64), ST_UNAVAILABLE);
    say(&c, id, 'b', 64); /* arrives, and is not delivered */
    transport_io(c.t)->close(transport_io(c.t), id);
    for (int i = 0; i < 20; i++) {
        loop_turn(&s.loop, 5000);
        loop_turn(&c.loop, 5000);
    }
    assert_int_equal(s.n_recv, 1);
    assert_int_equal(s.n_lost + c.n_lost, 0);
    transport_free(&c.t);
    transport_free(&s.t);
}

static void notices_a_killed_process(void **state)
{
    struct end s;
    pid_t child;

    (void)state;
    server_start(&s, "tcp://127.0.0.1:*");
    child = fork();
    if (child == 0) {
        struct end c;
        struct peer_id id = dial(&c, transport_endpoint(s.t, 0));

        while (c.n_opened == 0) {
            loop_turn(&c.loop, 5000);
        }
        say(&c, id, 'k', 64);
        for (;;) {
            loop_turn(&c.loop, 5000);
        }
    }
    UNTIL(s.n_recv, 1, &s);
    kill(child, SIGKILL);
    UNTIL(s.n_lost, 1, &s);
    assert_int_equal(s.lost.v, s.last.v);
    waitpid(child, NULL, 0);
    transport_free(&s.t);
}

static void drops_what_is_no_frame(void **state)
{
    static uint8_t big[FRAME_BYTES_MAX + 1];
    void *context = zmq_ctx_new(), *rogue = zmq_socket(context, ZMQ_DEALER);
    void *named = zmq_socket(context, ZMQ_DEALER);
    struct end s, c;
    struct peer_id id;

    (void)state;
    server_start(&s, "tcp://127.0.0.1:*");
    id = dial(&c, transport_endpoint(s.t, 0));
    UNTIL(c.n_opened, 1, &s, &c);
    zmq_connect(rogue, transport_endpoint(s.t, 0));
    zmq_setsockopt(named, ZMQ_ROUTING_ID, "squat", 5);
    zmq_connect(named, transport_endpoint(s.t, 0));
    zmq_send(rogue, big, FRAME_HEADER - 1, 0);
    zmq_send(named, big, FRAME_HEADER, 0);
    UNTIL(transport_counts(s.t)->malformed, 1, &s, &c);
    zmq_send(rogue, big, sizeof big, 0); /* ends the connection */
    for (int i = 0; i < 20; i++) {
        loop_turn(&s.loop, 5000);
    }
    assert_int_equal(s.n_recv, 0);
    say(&c, id, 'a', FRAME_BYTES_MAX);
    UNTIL(c.n_recv, 1, &s, &c);
    assert_int_equal(s.n_recv, 1);
    zmq_close(rogue);
    zmq_close(named);
    zmq_ctx_term(context);
    transport_free(&c.t);
    transport_free(&s.t);
}

static void never_blocks_on_a_slow_peer(void **state)
{
    enum status st = ST_OK;
    struct end s, slow, good;
    struct peer_id at_slow, id;
    int sent = 0;

    (void)state;
    server_start(&s, "tcp://127.0.0.1:*");
    id = dial(&slow, transport_endpoint(s.t, 0));
    UNTIL(slow.n_opened, 1, &s, &slow);
    say(&slow, id, 's', 64);
    UNTIL(s.n_recv, 1, &s);
    at_slow = s.last;
    while (st == ST_OK && sent < 100000) {
        st = say(&s, at_slow, 'z', 65536);
        sent += st == ST_OK;
    }
    assert_int_equal(st, ST_RESOURCE_EXHAUSTED);
    assert_true(transport_counts(s.t)->no_room > 0);
    id = dial(&good, transport_endpoint(s.t, 0));
    UNTIL(good.n_opened, 1, &s, &good);
    say(&good, id, 'g', 64);
    UNTIL(good.n_recv, 1, &s, &good);
    /* Every accepted frame arrives once the peer reads. */
    UNTIL(slow.n_recv, (uint32_t)sent, &s, &slow);
    transport_free(&slow.t);
    transport_free(&good.t);
    transport_free(&s.t);
}

static void carries_ten_thousand_each_way(void **state)
{
    uint32_t sent = 0;
    struct end s, c;
    struct peer_id id;

    (void)state;
    server_start(&s, "tcp://127.0.0.1:*");
    id = dial(&c, transport_endpoint(s.t, 0));
    UNTIL(c.n_opened, 1, &s, &c);
    for (int turn = 0; c.n_recv < 10000 && turn < 200000; turn++) {
        while (sent < 10000 && sent - c.n_recv < 32 &&
               say(&c, id, 'm', 200) == ST_OK) {
            sent++;
        }
        loop_turn(&s.loop, 100);
        loop_turn(&c.loop, 100);
    }
    assert_int_equal(c.n_recv, 10000);
    assert_int_equal(s.n_recv, 10000);
    transport_free(&c.t);
    transport_free(&s.t);
}

/* More frames arrived than one turn reads, and no frame follows. */
static void reads_on_after_a_full_turn(void **state)
{
    uint32_t each = TRANSPORT_BUDGET - 4;
    struct end s, a, b;
    struct peer_id id_a, id_b;

    (void)state;
    server_start(&s, "tcp://127.0.0.1:*");
    s.echo = false;
    id_a = dial(&a, transport_endpoint(s.t, 0));
    id_b = dial(&b, transport_endpoint(s.t, 0));
    UNTIL(a.n_opened + b.n_opened, 2, &s, &a, &b);
    for (uint32_t i = 0; i < each; i++) {
        assert_int_equal(say(&a, id_a, 'a', 64), ST_OK);
        assert_int_equal(say(&b, id_b, 'b', 64), ST_OK);
    }
    busy(100000);
    UNTIL(s.n_recv, 2 * each, &s);
    transport_free(&a.t);
    transport_free(&b.t);
    transport_free(&s.t);
}

/* ---- a ball between two processes, one of which sends in between ----
 *
 * The second process returns the ball, is busy until the ball has come again,
 * and only then sends another frame.  That send consumes the signal of the
 * ball, so a loop that relies on the descriptor alone waits for ever. */

struct player {
    struct transport *t;
    struct loop loop;
    struct peer_id other;
    bool talks, opened, holds;
    uint32_t n_caught;
};

#define BALL    'b'
#define TALK    't'
#define BUSY_US 2000 /* longer than libzmq's 1 ms between two looks */

static void player_say(struct player *x, uint8_t what)
{
    struct frame *f = frame_new(FRAME_HEADER);

    memset(f->data, what, FRAME_HEADER);
    transport_io(x->t)->send(transport_io(x->t), x->other, &f);
}

static void player_opened(void *node, struct peer_id who)
{
    (void)who;
    ((struct player *)node)->opened = true;
}

static void player_recv(void *node, struct peer_id from, struct frame **f)
{
    struct player *x = node;

    if ((*f)->data[0] == BALL) {
        x->other = from;
        x->holds = true;
        x->n_caught++;
    }
    frame_free(f);
}

static void player_lost(void *node, struct peer_id who)
{
    (void)node, (void)who;
}

static int64_t player_tick(void *node, int64_t now_us)
{
    struct player *x = node;

    (void)now_us;
    if (x->holds) {
        x->holds = false;
        player_say(x, BALL);
        if (x->talks) {
            busy(BUSY_US);
            player_say(x, TALK);
        }
    }
    return NODE_IDLE;
}

static const struct node_ops player_ops = {player_opened, player_recv,
                                           player_lost, player_tick};

static struct player *player_new(struct transport *t, bool talks)
{
    struct player *x = calloc(1, sizeof *x);

    assert_non_null(x);
    x->t = t;
    x->talks = talks;
    loop_init(&x->loop, t, &player_ops, x);
    return x;
}

/* Runs both ends of n rounds; the server is its own process. */
static void play(uint32_t n, bool server_talks, bool client_talks)
{
    struct transport_port port = {"tcp://127.0.0.1:*", BY_CLIENT, false};
    struct transport *t = NULL, *mine = NULL;
    int64_t until = loop_now_us() + patience_us();
    struct player *x;
    struct error e;
    pid_t child;
    int ends[2];
    char endpoint[64];

    assert_int_equal(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG,
              SIGKILL); /* a failed test leaves no process behind */
        if (transport_listen(&t, &port, 1, NULL, &e) != ST_OK ||
            write(ends[1], transport_endpoint(t, 0), 64) != 64) {
            _exit(1);
        }
        loop_run(&player_new(t, server_talks)->loop);
    }
    assert_int_equal(read(ends[0], endpoint, 64), 64);
    assert_int_equal(transport_connect(&mine, endpoint, NULL, &e), ST_OK);
    x = player_new(mine, client_talks);
    x->other = transport_io(mine)->open(transport_io(mine));
    while (!x->opened && loop_now_us() < until) {
        loop_turn(&x->loop, 1000000);
    }
    x->holds = true;
    x->loop.due_us = 0;
    while (x->n_caught < n && loop_now_us() < until) {
        loop_turn(&x->loop, 1000000);
    }
    assert_int_equal(x->n_caught, n);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(ends[0]);
    close(ends[1]);
    transport_free(&mine);
    free(x);
}

static void no_message_waits_for_the_next(void **state)
{
    (void)state;
    play(3000, false, false);
    play(200, false, true);
    play(200, true, false);
    play(200, true, true);
}

static void names_a_port_in_use(void **state)
{
    struct transport_port port;
    struct transport *t = NULL;
    struct error e;
    struct end s;

    (void)state;
    server_start(&s, "tcp://127.0.0.1:*");
    port = (struct transport_port){transport_endpoint(s.t, 0), BY_ALL, false};
    assert_int_equal(transport_listen(&t, &port, 1, NULL, &e),
                     ST_ALREADY_EXISTS);
    assert_non_null(strstr(e.text, transport_endpoint(s.t, 0)));
    assert_non_null(strstr(e.text, "in use"));
    port.endpoint = "udp://127.0.0.1:1";
    assert_int_equal(transport_listen(&t, &port, 1, NULL, &e),
                     ST_INVALID_ARGUMENT);
    assert_int_equal(transport_connect(&t, "nowhere", NULL, &e),
                     ST_INVALID_ARGUMENT);
    transport_free(&s.t);
}

static void keeps_an_ipc_socket_private(void **state)
{
    char dir[] = "/tmp/sluice-test-XXXXXX", path[64], endpoint[80];
    struct transport_port again = {endpoint, BY_ALL, false};
    struct transport *t = NULL;
    struct peer_id id;
    struct error e;
    struct end s, c;
    struct stat st;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/s", dir);
    snprintf(endpoint, sizeof endpoint, "ipc://%s", path);
    server_start(&s, endpoint);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(transport_listen(&t, &again, 1, NULL, &e),
                     ST_ALREADY_EXISTS);
    assert_non_null(strstr(e.text, "in use"));
    id = dial(&c, endpoint);
    UNTIL(c.n_opened, 1, &s, &c);
    say(&c, id, 'i', 64);
    UNTIL(c.n_recv, 1, &s, &c);
    transport_free(&c.t);
    UNTIL(s.n_lost, 1, &s);
    transport_free(&s.t);
    unlink(path);
    rmdir(dir);
}

/* Starts a transport that connects to s and listens itself, as a worker
 * does. */
static void both_start(struct end *x, const struct end *s, bool tensors)
{
    const struct transport_port port = {"tcp://127.0.0.1:*", BY_WORKER,
                                        tensors};
    struct transport *t = NULL;
    struct error e;

    if (transport_new(&t, transport_endpoint(s->t, 0), &port, 1, NULL, &e) !=
        ST_OK) {
        fail_msg("%s", e.text);
    }
    end_init(x, t);
}

static struct peer_id open_to(struct end *x, const struct end *to)
{
    struct node_io *io = transport_io(x->t);

    return io->open_to(io, transport_endpoint(to->t, 0), NULL);
}

/* A router, and two nodes that connect to it and to each other. */
static void one_transport_connects_and_listens(void **state)
{
    struct peer_id a_router, a_next, b_next;
    struct end s, a, b;

    (void)state;
    server_start(&s, "tcp://127.0.0.1:*");
    both_start(&a, &s, true);
    both_start(&b, &s, true);
    a_router = transport_io(a.t)->open(transport_io(a.t));
    a_next = open_to(&a, &b);
    b_next = open_to(&b, &a);
    UNTIL(a.n_opened, 2, &s, &a, &b);
    UNTIL(b.n_opened, 1, &s, &a, &b);
    assert_int_equal(say(&b, b_next, 'b', 64), ST_OK);
    UNTIL(a.n_recv, 1, &s, &a, &b);
    assert_int_equal(a.mark, 'b');
    assert_int_not_equal(a.last.v, a_router.v);
    assert_int_not_equal(a.last.v, a_next.v);
    assert_int_not_equal(a_router.v, a_next.v);
    assert_int_equal(say(&a, a.last, 'c', 64), ST_OK);
    UNTIL(b.n_recv, 1, &s, &a, &b);
    assert_int_equal(b.mark, 'c');
    assert_int_equal(b.last.v, b_next.v);
    assert_int_equal(say(&a, a_router, 'd', 64), ST_OK);
    UNTIL(a.n_recv, 2, &s, &a, &b); /* the echo */
    assert_int_equal(a.last.v, a_router.v);
    assert_int_equal(say(&a, a_next, 'g', 64),
                     ST_OK); /* b has the connection now */
    UNTIL(b.n_recv, 2, &s, &a, &b);
    /* One connection ends, the others stay. */
    transport_io(a.t)->close(transport_io(a.t), a_next);
    UNTIL(b.n_lost, 1, &s, &a, &b);
    assert_int_equal(say(&a, a_next, 'e', 64), ST_UNAVAILABLE);
    assert_int_equal(say(&a, a_router, 'f', 64), ST_OK);
    UNTIL(a.n_recv, 3, &s, &a, &b);
    assert_int_equal(a.n_lost, 0);
    for (int i = 1; i < TRANSPORT_DIAL_MAX; i++) {
        assert_int_not_equal(open_to(&a, &b).v, 0);
    }
    assert_int_equal(open_to(&a, &b).v, 0); /* one past the limit */
    transport_free(&a.t);
    transport_free(&b.t);
    transport_free(&s.t);
}

/* A peer chose the endpoint.  This one names a second host, to libzmq: here it
 * is a port of this process. */
static void an_endpoint_with_two_hosts_is_lost(void **state)
{
    struct end s, a;
    struct node_io *io;
    char two[ENDPOINT_MAX];

    (void)state;
    server_start(&s, "tcp://127.0.0.1:*");
    both_start(&a, &s, true);
    io = transport_io(a.t);
    snprintf(two, sizeof two, "tcp://127.0.0.1:0;%s",
             transport_endpoint(s.t, 0) + strlen("tcp://"));
    assert_int_not_equal(io->open_to(io, two, NULL).v, 0);
    UNTIL(a.n_lost, 1, &s, &a);
    assert_int_equal(a.n_opened, 0);
    transport_free(&a.t);
    transport_free(&s.t);
}

static void long_messages_come_where_tensors_may(void **state)
{
    struct peer_id id;
    struct end s, a, b;

    (void)state;
    server_start(&s, "tcp://127.0.0.1:*");
    for (int tensors = 0; tensors < 2; tensors++) {
        uint32_t most = FRAME_BYTES_MAX + (tensors ? FRAME_TENSOR_MAX : 0);

        both_start(&a, &s, false);
        both_start(&b, &s, tensors);
        id = open_to(&a, &b);
        UNTIL(a.n_opened, 1, &a, &b);
        assert_int_equal(say(&a, id, 'l', 64), ST_OK);
        UNTIL(b.n_recv, 1, &a, &b);
        transport_io(b.t)->trust(transport_io(b.t), b.last);
        assert_int_equal(say(&a, id, 'm', most), ST_OK);
        UNTIL(b.n_recv, 2, &a, &b);
        assert_int_equal(b.mark, 'm');
        assert_int_equal(say(&a, id, 'n', most + 1), ST_OK);
        UNTIL(a.n_lost, 1, &a, &b);
        assert_int_equal(b.n_recv, 2);
        transport_free(&a.t);
        transport_free(&b.t);
    }
    transport_free(&s.t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_two_connections_apart),
        cmocka_unit_test(opens_anew_after_a_restart),
        cmocka_unit_test(says_no_lost_after_close),
        cmocka_unit_test(notices_a_killed_process),
        cmocka_unit_test(drops_what_is_no_frame),
        cmocka_unit_test(never_blocks_on_a_slow_peer),
        cmocka_unit_test(carries_ten_thousand_each_way),
        cmocka_unit_test(reads_on_after_a_full_turn),
        cmocka_unit_test(no_message_waits_for_the_next),
        cmocka_unit_test(names_a_port_in_use),
        cmocka_unit_test(keeps_an_ipc_socket_private),
        cmocka_unit_test(one_transport_connects_and_listens),
        cmocka_unit_test(an_endpoint_with_two_hosts_is_lost),
        cmocka_unit_test(long_messages_come_where_tensors_may),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
