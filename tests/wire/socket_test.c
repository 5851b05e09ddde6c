/* Sessions over real sockets.  A small router in its own process is killed,
 * restarted and attacked; a worker must not be disturbed. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <zmq.h>

#include "common/wire/loop.h"
#include "common/wire/session.h"
#include "proto/common.pb-c.h"
#include "proto/health.pb-c.h"
#include "proto/registry.pb-c.h"
#include "tests/patience.h"
#include "tests/unit/cmocka.h"

#define PEERS  64
#define SILENT 500

static const Sluice__V1__Nothing nothing = SLUICE__V1__NOTHING__INIT;

static void answer_health(struct peer *p, uint64_t call)
{
    Sluice__V1__HealthReply r = SLUICE__V1__HEALTH_REPLY__INIT;

    r.serving = true;
    peer_end(p, call, &r.base);
}

/* ---- the router ---- */

struct router {
    struct transport *t;
    struct node_io *io;
    struct arena arena;
    struct peer *peers[PEERS]; /* by peer id */
};

static void router_call(void *node, struct peer *p, const struct method_row *m,
                        uint64_t call, int64_t deadline_us,
                        const ProtobufCMessage *request)
{
    (void)node, (void)deadline_us, (void)request;
    if (m->number == METHOD_HEALTH_CHECK) {
        answer_health(p, call);
        /* And a call in the other direction. */
        (void)!peer_call(p, METHOD_HEALTH_CHECK, &nothing.base, 0, 0, NULL);
    }
}

static void router_end(void *node, struct peer *p, uint64_t tag,
                       const struct method_row *m, enum status status,
                       const ProtobufCMessage *reply, const struct error *e,
                       uint32_t retry_after_ms)
{
    (void)node, (void)p, (void)tag, (void)m, (void)status, (void)reply, (void)e,
        (void)retry_after_ms;
}

static const struct peer_ops router_peer_ops = {.on_call = router_call,
                                                .on_end = router_end};

static void router_hello(struct router *r, struct peer_id from)
{
    Sluice__V1__HelloReply reply = SLUICE__V1__HELLO_REPLY__INIT;
    struct peer_config c = {.io = r->io,
                            .id = from,
                            .session = 1000 + from.v,
                            .self = BY_ROUTER,
                            .other = BY_WORKER,
                            .ops = &router_peer_ops,
                            .node = r,
                            .arena = &r->arena};
    struct frame *f;

    if (r->peers[from.v] == NULL) {
        r->peers[from.v] = peer_new(&c);
    }
    reply.version_major = WIRE_VERSION_MAJOR;
    reply.name = wire_text("r");
    f = hello_answer(c.session, &reply.base, NULL, 0);
    r->io->send(r->io, from, &f);
}

static void router_recv(void *node, struct peer_id from, struct frame **f)
{
    struct router *r = node;
    struct peer *p = from.v < PEERS ? r->peers[from.v] : NULL;
    struct frame_header h;
    struct envelope e;

    if (frame_check((*f)->data, (*f)->bytes, &h, NULL) == ST_OK) {
        if (hello_is_call(*f, &h, &e) && from.v < PEERS) {
            router_hello(r, from);
        } else if (p != NULL && h.session == peer_session(p)) {
            (void)!peer_recv(p, *f, &h, loop_now_us());
        }
    }
    frame_free(f);
}

static void router_lost(void *node, struct peer_id who)
{
    struct router *r = node;

    if (who.v < PEERS) {
        peer_free(&r->peers[who.v]);
    }
}

static int64_t router_tick(void *node, int64_t now_us)
{
    struct router *r = node;
    int64_t due = NODE_IDLE;

    for (size_t i = 0; i < PEERS; i++) {
        if (r->peers[i] != NULL) {
            peer_flush(r->peers[i], now_us);
            due = peer_due(r->peers[i]) < due ? peer_due(r->peers[i]) : due;
        }
    }
    return due;
}

static const struct node_ops router_ops = {
    .recv = router_recv, .lost = router_lost, .tick = router_tick};

/* Runs until it is killed; writes its endpoint to the pipe. */
static void router_run(const char *endpoint, int tell)
{
    struct transport_port port = {endpoint, BY_WORKER, false};
    struct router r = {.t = NULL};
    struct loop loop;
    struct error e;

    if (transport_listen(&r.t, &port, 1, NULL, &e) != ST_OK) {
        _exit(1);
    }
    r.io = transport_io(r.t);
    arena_init(&r.arena);
    loop_init(&loop, r.t, &router_ops, &r);
    if (write(tell, transport_endpoint(r.t, 0), 64) != 64) {
        _exit(2);
    }
    loop_run(&loop);
    _exit(0);
}

static pid_t router_start(const char *endpoint, char *real)
{
    int ends[2];
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG,
              SIGKILL); /* a failed test leaves no process behind */
        router_run(endpoint, ends[1]);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], real, 64), 64);
    close(ends[0]);
    return child;
}

static void router_kill(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* ---- the worker ---- */

struct worker {
    struct transport *t;
    struct session s;
    struct arena arena;
    struct loop loop;
    uint32_t n_up, n_down, n_broke, n_asked, n_answered, n_failed;
    uint32_t in_flight, n_to_ask;
    int64_t down_us, asked_us, slowest_us;
};

static void worker_hello(void *node, ProtobufCMessage *m)
{
    (void)node;
    ((Sluice__V1__HelloRequest *)m)->name = wire_text("w");
}

static void worker_up(void *node, struct peer *p)
{
    (void)p;
    ((struct worker *)node)->n_up++;
}

static void worker_down(void *node, struct peer *p, enum status refused,
                        const char *why)
{
    struct worker *w = node;

    (void)refused;
    if (p != NULL) {
        w->n_down++;
        w->down_us = loop_now_us();
        w->n_broke += strstr(why, "broke") != NULL;
    }
}

static void worker_call(void *node, struct peer *p, const struct method_row *m,
                        uint64_t call, int64_t deadline_us,
                        const ProtobufCMessage *request)
{
    struct worker *w = node;

    (void)m, (void)deadline_us, (void)request;
    w->n_asked++;
    answer_health(p, call);
}

static void worker_end(void *node, struct peer *p, uint64_t tag,
                       const struct method_row *m, enum status status,
                       const ProtobufCMessage *reply, const struct error *e,
                       uint32_t retry_after_ms)
{
    struct worker *w = node;
    int64_t took = loop_now_us() - (int64_t)tag;

    (void)p, (void)m, (void)reply, (void)e, (void)retry_after_ms;
    w->in_flight--;
    if (status == ST_OK) {
        w->n_answered++;
        w->slowest_us = took > w->slowest_us ? took : w->slowest_us;
    } else {
        w->n_failed++;
    }
}

static const struct session_ops worker_session_ops = {
    .hello = worker_hello, .up = worker_up, .down = worker_down};
static const struct peer_ops worker_peer_ops = {.on_call = worker_call,
                                                .on_end = worker_end};

static void worker_opened(void *node, struct peer_id who)
{
    session_opened(&((struct worker *)node)->s, who);
}

static void worker_recv(void *node, struct peer_id from, struct frame **f)
{
    session_recv(&((struct worker *)node)->s, from, f);
}

static void worker_lost(void *node, struct peer_id who)
{
    session_lost(&((struct worker *)node)->s, who);
}

static int64_t worker_tick(void *node, int64_t now_us)
{
    struct worker *w = node;

    while (w->s.state == SESSION_UP && w->n_to_ask > 0 && w->in_flight < 256 &&
           peer_call(w->s.peer, METHOD_HEALTH_CHECK, &nothing.base, 0,
                     (uint64_t)loop_now_us(), NULL) == ST_OK) {
        w->n_to_ask--;
        w->in_flight++;
    }
    return session_tick(&w->s, now_us);
}

static const struct node_ops worker_ops = {worker_opened, worker_recv,
                                           worker_lost, worker_tick};

static void worker_start(struct worker *w, const char *endpoint)
{
    struct error e;

    memset(w, 0, sizeof *w);
    assert_int_equal(transport_connect(&w->t, endpoint, NULL, &e), ST_OK);
    arena_init(&w->arena);
    session_init(&w->s, transport_io(w->t), &worker_session_ops,
                 &worker_peer_ops, w, &w->arena, BY_WORKER);
    loop_init(&w->loop, w->t, &worker_ops, w);
}

static void worker_stop(struct worker *w)
{
    session_fini(&w->s, "the test is over");
    transport_free(&w->t);
    arena_fini(&w->arena);
}

/* Runs turns until *what reaches n. */
static void await(struct worker *w, const uint32_t *what, uint32_t n)
{
    int64_t until = loop_now_us() + patience_us();

    while (*what < n && loop_now_us() < until) {
        loop_turn(&w->loop, 10000);
    }
    assert_in_range(*what, n, UINT32_MAX);
}

static void ask(struct worker *w, uint32_t n)
{
    uint32_t before = w->n_answered;

    w->n_to_ask = n;
    await(w, &w->n_answered, before + n);
}

/* ---- tests ---- */

static void ten_thousand_calls_each_way(void **state)
{
    char endpoint[64];
    pid_t router = router_start("tcp://127.0.0.1:*", endpoint);
    struct worker w;
    int64_t begin;

    (void)state;
    worker_start(&w, endpoint);
    await(&w, &w.n_up, 1);
    begin = loop_now_us();
    ask(&w, 10000);
    await(&w, &w.n_asked, 10000);
    print_message("20000 calls in %lld us\n",
                  (long long)(loop_now_us() - begin));
    assert_int_equal(w.n_asked, 10000);
    assert_int_equal(w.n_failed, 0);
    worker_stop(&w);
    router_kill(router);
}

static void killed_router_is_noticed_and_found_again(void **state)
{
    char endpoint[64];
    pid_t router = router_start("tcp://127.0.0.1:*", endpoint);
    int64_t killed_us, slowest_us = 0;
    struct worker w;

    (void)state;
    worker_start(&w, endpoint);
    for (uint32_t i = 1; i <= 5; i++) {
        await(&w, &w.n_up, i);
        ask(&w, 100);
        killed_us = loop_now_us();
        router_kill(router);
        await(&w, &w.n_down, i);
        if (w.down_us - killed_us > slowest_us) {
            slowest_us = w.down_us - killed_us;
        }
        router = router_start(endpoint, endpoint);
    }
    print_message("noticed after %lld us at the slowest\n",
                  (long long)slowest_us);
    assert_int_equal(w.n_broke, 5); /* no silence had to end a session */
    await(&w, &w.n_up, 6);
    ask(&w, 100);
    worker_stop(&w);
    router_kill(router);
}

static int silent_connection(const char *endpoint)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    to.sin_port = htons((uint16_t)atoi(strrchr(endpoint, ':') + 1));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* Waits for the end of the stream: the router has hung up. */
static bool is_hung_up(int fd)
{
    struct timeval wait = {.tv_sec = patience_s()};
    char byte[64];
    ssize_t n;

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    do {
        n = recv(fd, byte, sizeof byte, 0); /* the greeting comes first */
    } while (n > 0);
    return n == 0 || errno == ECONNRESET;
}

static void silent_connections_disturb_nobody(void **state)
{
    char endpoint[64];
    pid_t router = router_start("tcp://127.0.0.1:*", endpoint);
    int fds[SILENT];
    struct worker w;
    int64_t alone_us;

    (void)state;
    worker_start(&w, endpoint);
    await(&w, &w.n_up, 1);
    ask(&w, 1000);
    alone_us = w.slowest_us;
    w.slowest_us = 0;
    for (int i = 0; i < SILENT; i++) {
        fds[i] = silent_connection(endpoint);
        if (i % 10 == 0 && write(fds[i], "\xff\0\0\0", 4) != 4) {
            fail_msg("half a greeting is not taken");
        }
        if (i % 50 == 0) {
            ask(&w, 100);
        }
    }
    ask(&w, 1000);
    print_message("slowest call %lld us alone, %lld us among %d\n",
                  (long long)alone_us, (long long)w.slowest_us, SILENT);
    assert_int_equal(w.n_failed, 0);
    assert_int_equal(w.n_up, 1);
    for (int i = 0; i < SILENT; i++) {
        assert_true(is_hung_up(fds[i]));
        close(fds[i]);
    }
    worker_stop(&w);
    router_kill(router);
}

/* A peer completes the handshake, then sends noise of every size. */
static void noise_disturbs_nobody(void **state)
{
    char endpoint[64];
    pid_t router = router_start("tcp://127.0.0.1:*", endpoint);
    void *context = zmq_ctx_new(), *rogue = zmq_socket(context, ZMQ_DEALER);
    uint8_t noise[4096];
    int linger = 0;
    struct worker w;

    (void)state;
    srand(3);
    worker_start(&w, endpoint);
    await(&w, &w.n_up, 1);
    zmq_setsockopt(rogue, ZMQ_LINGER, &linger, sizeof linger);
    assert_int_equal(zmq_connect(rogue, endpoint), 0);
    for (int i = 0; i < 5000; i++) {
        size_t n = (size_t)(rand() % (int)sizeof noise);

        for (size_t k = 0; k < n; k++) {
            noise[k] = (uint8_t)rand();
        }
        if (i % 2 == 0) {
            memcpy(noise, "SLUC\1\0\0\0", 8);
        }
        zmq_send(rogue, noise, n,
                 ZMQ_DONTWAIT | (i % 7 == 0 ? ZMQ_SNDMORE : 0));
        if (i % 500 == 0) {
            ask(&w, 50);
        }
    }
    ask(&w, 500);
    assert_int_equal(w.n_failed, 0);
    assert_int_equal(w.n_up, 1);
    zmq_close(rogue);
    zmq_ctx_term(context);
    worker_stop(&w);
    router_kill(router);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_thousand_calls_each_way),
        cmocka_unit_test(killed_router_is_noticed_and_found_again),
        cmocka_unit_test(silent_connections_disturb_nobody),
        cmocka_unit_test(noise_disturbs_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
