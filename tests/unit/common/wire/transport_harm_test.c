/* Strangers and exhausted descriptors must not harm a transport.
 *
 * Strangers are plain TCP sockets of this process that speak ZMTP 3 by hand,
 * so the test has the descriptor that the transport gets for each. */
#include "common/wire/transport.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/wire/curve_keys.h"
#include "common/wire/loop.h"
#include "common/wire/method.h"
#include "common/wire/port.h"
#include "tests/patience.h"
#include "tests/unit/cmocka.h"

#define HEARD_MAX    16
#define GREETING     64 /* of ZMTP 3 */
#define STRANGERS    20000
#define FEW          96 /* descriptors */
#define NOT_LET_IN_S 1
#define FDS          1024 /* a process of this test has far fewer */
#define ROUNDS       100
#define STORM_US     200
#define STORM_ROUNDS 200

/* ---- a node that records arrivals and departures ---- */

struct end {
    struct transport *t;
    struct loop loop;
    uint32_t heard[HEARD_MAX], lost[HEARD_MAX]; /* ids, in order */
    unsigned n_heard, n_heard_ids, n_lost, n_opened;
    uint8_t said; /* the last byte of the last frame */
};

static bool is_among(uint32_t id, const uint32_t *ids, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

static void end_opened(void *node, struct peer_id who)
{
    (void)who;
    ((struct end *)node)->n_opened++;
}

static void end_recv(void *node, struct peer_id from, struct frame **f)
{
    struct end *x = node;

    assert_true(x->n_heard < HEARD_MAX);
    x->n_heard_ids += !is_among(from.v, x->heard, x->n_heard);
    x->heard[x->n_heard++] = from.v;
    x->said = (*f)->data[(*f)->bytes - 1];
    frame_free(f);
}

static void end_lost(void *node, struct peer_id who)
{
    struct end *x = node;

    assert_true(x->n_lost < HEARD_MAX);
    x->lost[x->n_lost++] = who.v;
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

static void listen_start(struct end *x)
{
    const struct transport_port port = {"tcp://127.0.0.1:*", BY_CLIENT, false};
    struct transport *t = NULL;
    struct error e;

    if (transport_listen(&t, &port, 1, NULL, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    end_init(x, t);
}

/* Runs turns of x until the condition holds. */
#define UNTIL(what, x)                                  \
    do {                                                \
        int64_t until_ = loop_now_us() + patience_us(); \
        while (!(what) && loop_now_us() < until_) {     \
            loop_turn(&(x)->loop, 5000);                \
        }                                               \
        assert_true(what);                              \
    } while (0)

/* ---- strangers ---- */

static struct sockaddr_in where(const struct end *x)
{
    struct sockaddr_in at = {.sin_family = AF_INET};

    at.sin_port =
        htons((uint16_t)atoi(strrchr(transport_endpoint(x->t, 0), ':') + 1));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
}

static void write_all(int fd, const void *data, size_t n)
{
    assert_int_equal(send(fd, data, n, MSG_NOSIGNAL), (ssize_t)n);
}

/* Connects fd to x as a DEALER.  Returns when x's side has the connection:
 * its READY comes after all events of the monitor. */
static void meet(int fd, const struct end *x)
{
    static const char ready[] =
        "\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06"
        "DEALER";
    uint8_t greeting[GREETING] = {0xff, [9] = 0x7f, 3, 0, 'N', 'U', 'L', 'L'};
    struct timeval patience = {patience_s(), 0};
    struct sockaddr_in at = where(x);
    uint8_t got[GREETING + 1];

    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    write_all(fd, greeting, sizeof greeting);
    write_all(fd, ready, sizeof ready - 1);
    assert_int_equal(recv(fd, got, sizeof got, MSG_WAITALL), sizeof got);
}

/* Sends a frame of the smallest size, filled with c. */
static void say(int fd, char c)
{
    uint8_t message[2 + FRAME_HEADER] = {0, FRAME_HEADER};

    memset(message + 2, c, FRAME_HEADER);
    write_all(fd, message, sizeof message);
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0 || errno != EBADF;
}

/* Returns the transport's end of a stranger's connection, by its port. */
static int other_end(int fd)
{
    struct sockaddr_in me, peer;
    socklen_t n = sizeof me;

    assert_int_equal(getsockname(fd, (struct sockaddr *)&me, &n), 0);
    for (int i = 0; i < FDS; i++) {
        n = sizeof peer;
        if (getpeername(i, (struct sockaddr *)&peer, &n) == 0 &&
            peer.sin_family == AF_INET && peer.sin_port == me.sin_port) {
            return i;
        }
    }
    fail_msg("the other end of %d is not there", fd);
    return -1;
}

/* Ends only the stranger's side, so that its number stays taken.  Returns
 * when the transport's side, theirs, is closed too. */
static void leave(int fd, int theirs)
{
    int64_t until = loop_now_us() + patience_us();

    shutdown(fd, SHUT_WR);
    while (is_open(theirs) && loop_now_us() < until) {
        usleep(1000);
    }
    assert_false(is_open(theirs));
}

/* Returns the last sender at x: it is in the table, and the only one. */
static uint32_t only_peer(struct end *x)
{
    uint32_t id = x->heard[x->n_heard - 1];
    struct frame *f = frame_new(FRAME_HEADER);
    struct node_io *io = transport_io(x->t);

    memset(f->data, 0, f->bytes);
    assert_int_equal(io->send(io, (struct peer_id){id}, &f), ST_OK);
    assert_false(is_among(id, x->lost, x->n_lost));
    for (unsigned i = 0; i < x->n_heard; i++) {
        assert_true(x->heard[i] == id ||
                    is_among(x->heard[i], x->lost, x->n_lost));
    }
    loop_turn(&x->loop, 0);
    assert_int_equal(transport_counts(x->t)->peers, 1);
    return id;
}

/* A is accepted, sends all of its bytes, of which the node reads the first if
 * it is to record A, and closes.  B is then accepted on the same descriptor
 * before the node looks.  Returns false if B got another descriptor: ZeroMQ
 * was still busy closing. */
static bool follow(struct end *x, int a, int b, const char *says, bool known,
                   int *theirs)
{
    int fd;

    meet(a, x);
    fd = other_end(a);
    say(a, *says++);
    if (known) {
        UNTIL(x->n_heard == 1, x);
    }
    while (*says != '\0') {
        say(a, *says++);
    }
    leave(a, fd);
    meet(b, x);
    *theirs = other_end(b);
    return *theirs == fd;
}

/* B sends and is the only peer; then it leaves. */
static void speak_and_go(struct end *x, int b, int theirs)
{
    uint32_t id;

    say(b, 'c');
    UNTIL(x->said == 'c', x);
    id = only_peer(x);
    leave(b, theirs);
    UNTIL(is_among(id, x->lost, x->n_lost), x);
    loop_turn(&x->loop, 0);
    assert_int_equal(transport_counts(x->t)->peers, 0);
    assert_int_equal(x->n_lost, x->n_heard_ids);
}

static void follow_until_reused(const char *says, bool known, bool at_once)
{
    bool reused = false;

    for (int i = 0; !reused && i < ROUNDS; i++) {
        int a = socket(AF_INET, SOCK_STREAM, 0);
        int b = socket(AF_INET, SOCK_STREAM, 0), theirs;
        struct end x;

        listen_start(&x);
        reused = follow(&x, a, b, says, known, &theirs);
        if (at_once) { /* before the node has read A's frames */
            say(b, 'b');
        }
        for (int k = 0; k < 20; k++) {
            loop_turn(&x.loop, 1000);
        }
        speak_and_go(&x, b, theirs);
        transport_free(&x.t);
        close(a);
        close(b);
    }
    assert_true(reused);
}

static void the_dead_make_room_for_the_next(void **state)
{
    (void)state;
    follow_until_reused("a", false, false);
    follow_until_reused("aa", false, true);
}

/* Some of A's last frames are read after B's first. */
static void last_words_are_nobody_elses(void **state)
{
    (void)state;
    follow_until_reused("aaaaa", true, true);
    follow_until_reused("aaaaa", true, false);
}

/* Neither that it listens nor that it could not accept. */
static void a_monitor_tells_what_is_used(void **state)
{
    void *context = port_context(1, 1);
    struct port p = {.tensors = false};
    uint16_t event;
    int value;

    (void)state;
    assert_non_null(context);
    assert_true(port_open(&p, context, ZMQ_ROUTER, "tcp://127.0.0.1:*", 1));
    assert_int_equal(zmq_bind(p.socket, "tcp://127.0.0.1:*"), 0);
    assert_false(port_event(&p, &event, &value)); /* LISTENING */
    port_close(&p);
    zmq_ctx_term(context);
}

/* ---- in its own process, which may die or hang ---- */

static void in_child(void (*what)(void))
{
    pid_t child = fork();
    int how = 0;

    assert_true(child >= 0);
    if (child == 0) {
        alarm((unsigned)patience_s() * 4);
        what();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
}

static void check(bool holds, int code)
{
    if (!holds) {
        _exit(code);
    }
}

/* Strangers come and go until no more are accepted; their frames are not
 * read. */
static void free_unread(void)
{
    struct timeval patience = {NOT_LET_IN_S, 0};
    struct sockaddr_in at;
    struct end x;
    bool in = true;

    listen_start(&x);
    at = where(&x);
    for (int i = 0; in && i < STRANGERS; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);

        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        in = connect(fd, (struct sockaddr *)&at, sizeof at) == 0;
        close(fd);
    }
    check(!in, 1);
    transport_free(&x.t);
}

static void is_freed_when_nobody_read(void **state)
{
    (void)state;
    in_child(free_unread);
}

/* Takes all descriptors but n.  Returns the number, and sets *taken. */
static int leave_only(int n, int *taken)
{
    int made = 0, fd;

    while ((fd = dup(0)) >= 0) {
        taken[made++] = fd;
    }
    while (n-- > 0 && made > 0) {
        close(taken[--made]);
    }
    return made;
}

static void give_back(const int *taken, int n)
{
    while (n-- > 0) {
        close(taken[n]);
    }
}

static void few_descriptors(void)
{
    const struct rlimit few = {FEW, FEW};

    check(setrlimit(RLIMIT_NOFILE, &few) == 0, 2);
}

/* Runs turns of both until *what differs from was. */
static bool turn_until(struct end *x, struct end *y, const unsigned *what,
                       unsigned was)
{
    int64_t until = loop_now_us() + patience_us();

    while (*what == was && loop_now_us() < until) {
        loop_turn(&x->loop, 5000);
        loop_turn(&y->loop, 5000);
    }
    return *what == was + 1;
}

/* With any number of free descriptors for a connection: it opens or is lost,
 * and the next one opens once there is room. */
static void dial_without(void)
{
    int taken[FEW], n;
    struct transport *t = NULL;
    struct node_io *io;
    struct end x, c;
    struct error e;

    few_descriptors();
    listen_start(&x);
    check(transport_connect(&t, transport_endpoint(x.t, 0), NULL, &e) == ST_OK,
          3);
    end_init(&c, t);
    io = transport_io(t);
    for (int left = 0; left <= 3; left++) {
        struct peer_id id;

        n = leave_only(left, taken);
        id = io->open(io);
        check(id.v != 0, 4);
        if (left < 3) { /* the socket, and two of its monitor */
            check(turn_until(&c, &x, &c.n_lost, c.n_lost), 5);
            check(c.lost[c.n_lost - 1] == id.v && c.n_opened == 0, 6);
        } else {
            io->close(io, id);
        }
        give_back(taken, n);
    }
    io->open(io);
    check(turn_until(&c, &x, &c.n_opened, 0), 7);
    transport_free(&c.t);
    transport_free(&x.t);
}

static void no_descriptor_is_no_connection(void **state)
{
    (void)state;
    in_child(dial_without);
}

/* With few descriptors, a transport is made or reports why it is not. */
static void make_without(void)
{
    const struct transport_port port = {"tcp://127.0.0.1:*", BY_CLIENT, false};
    int taken[FEW], n, made = 0;

    few_descriptors();
    for (int left = 0; left < 40; left++) {
        struct transport *t = NULL;
        enum status st;
        struct error e;

        n = leave_only(left, taken);
        st = transport_listen(&t, &port, 1, NULL, &e);
        check(st == ST_OK || (st == ST_RESOURCE_EXHAUSTED && t == NULL &&
                              strstr(e.text, "descriptors") != NULL),
              3);
        made += st == ST_OK;
        transport_free(&t);
        st = transport_connect(&t, "tcp://127.0.0.1:1", NULL, &e);
        check(st == ST_OK || st == ST_RESOURCE_EXHAUSTED, 4);
        transport_free(&t);
        give_back(taken, n);
    }
    check(made > 0 && made < 40, 5);
}

static void is_not_made_without_descriptors(void **state)
{
    (void)state;
    in_child(make_without);
}

static void on_alarm(int number)
{
    (void)number;
}

static void set_alarm(suseconds_t us)
{
    const struct itimerval every = {{0, us}, {0, us}};

    assert_int_equal(setitimer(ITIMER_REAL, &every, NULL), 0);
}

/* A signal that comes while the self-test ends its context may not end that
 * early: the connection would not be closed yet when it is counted. */
static void a_self_test_passes_in_a_storm_of_signals(void **state)
{
    const struct transport_port port = {"tcp://127.0.0.1:*", BY_CLIENT, false};
    const struct sigaction action = {.sa_handler = on_alarm};
    struct curve_keys *keys = NULL;
    struct sigaction before;
    struct error e = {.text = ""};

    (void)state;
    assert_int_equal(curve_keys_alone(&keys, &e), ST_OK);
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    set_alarm(STORM_US);
    for (int i = 0; i < STORM_ROUNDS; i++) {
        struct transport *t = NULL;
        enum status st =
            transport_listen(&t, &port, 1, i % 4 == 0 ? keys : NULL, &e);

        transport_free(&t);
        if (st != ST_OK) {
            set_alarm(0);
            fail_msg("round %d: %s", i, e.text);
        }
    }
    set_alarm(0);
    sigaction(SIGALRM, &before, NULL);
    curve_keys_free(&keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_self_test_passes_in_a_storm_of_signals),
        cmocka_unit_test(the_dead_make_room_for_the_next),
        cmocka_unit_test(last_words_are_nobody_elses),
        cmocka_unit_test(a_monitor_tells_what_is_used),
        cmocka_unit_test(no_descriptor_is_no_connection),
        cmocka_unit_test(is_not_made_without_descriptors),
        cmocka_unit_test(is_freed_when_nobody_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
