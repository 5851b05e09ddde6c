/* The listening side of an edge: who may connect, and what ends the edge. */
#include "common/wire/greeter.h"

#include <stdio.h>
#include <string.h>

#include "proto/registry.pb-c.h"
#include "tests/unit/cmocka.h"

#define ASSEMBLY 42
#define SENT     64

static struct {
    struct node_io io;
    struct arena arena;
    struct greeter g;
    int64_t clock_us;
    uint8_t allowed;
    const struct identity *who; /* what every connection proves */
    struct frame *sent[SENT];
    uint32_t to[SENT], n_sent;
    uint32_t n_up, n_down;
    char why[160];
} w;

static int64_t now_us(struct node_io *io)
{
    (void)io;
    return w.clock_us;
}

static uint64_t random_number(struct node_io *io)
{
    static uint64_t last;

    (void)io;
    return last++; /* the first is 0, which is no session */
}

static enum status send_frame(struct node_io *io, struct peer_id to,
                              struct frame **f)
{
    (void)io;
    assert_true(w.n_sent < SENT);
    w.to[w.n_sent] = to.v;
    w.sent[w.n_sent++] = *f;
    *f = NULL;
    return ST_OK;
}

static uint8_t port(struct node_io *io, struct peer_id who)
{
    (void)io, (void)who;
    return w.allowed;
}

static const struct identity *identity(struct node_io *io, struct peer_id who)
{
    (void)io, (void)who;
    return w.who;
}

static enum status welcome(void *node, uint64_t assembly, uint32_t index,
                           const struct identity *who, struct error *e)
{
    (void)node;
    assert_ptr_equal(who, w.who);
    return assembly == ASSEMBLY && index == 1
               ? ST_OK
               : error_set(e, ST_FAILED_PRECONDITION, "not that one");
}

static void up(void *node, struct peer *p)
{
    (void)node, (void)p;
    w.n_up++;
}

static void down(void *node, struct peer *p, const char *why)
{
    (void)node;
    assert_non_null(p);
    w.n_down++;
    snprintf(w.why, sizeof w.why, "%s", why);
}

static const struct greeter_ops greeter_table = {welcome, up, down};
static const struct peer_ops peer_table = {.on_call = NULL};

static void forget_sent(void)
{
    while (w.n_sent > 0) {
        frame_free(&w.sent[--w.n_sent]);
    }
}

static int begin(void **state)
{
    (void)state;
    memset(&w, 0, sizeof w);
    w.clock_us = 1000000;
    w.allowed = BY_WORKER;
    w.io = (struct node_io){.now_us = now_us,
                            .random = random_number,
                            .send = send_frame,
                            .port = port,
                            .identity = identity};
    arena_init(&w.arena);
    greeter_init(&w.g, &w.io, &greeter_table, &peer_table, &w, &w.arena, "w",
                 &link_limits_usual);
    return 0;
}

static int finish(void **state)
{
    (void)state;
    greeter_fini(&w.g, "the test is over");
    forget_sent();
    arena_fini(&w.arena);
    return 0;
}

static Sluice__V1__StagePeer stage;

static Sluice__V1__HelloRequest fine(void)
{
    Sluice__V1__HelloRequest m = SLUICE__V1__HELLO_REQUEST__INIT;
    Sluice__V1__StagePeer s = SLUICE__V1__STAGE_PEER__INIT;

    s.assembly = ASSEMBLY;
    s.index = 1;
    stage = s;
    m.version_major = WIRE_VERSION_MAJOR;
    m.role = SLUICE__V1__ROLE__ROLE_WORKER;
    m.nonce = 5;
    m.name = wire_text("n");
    m.stage = &stage;
    return m;
}

/* Returns the status of the answer to Hello; sets *session on success. */
static enum status hello(uint32_t from, const Sluice__V1__HelloRequest *m,
                         uint64_t *session)
{
    struct frame *f = hello_make(&m->base);
    struct frame_header h;
    struct envelope e;
    ProtobufCMessage *reply;

    greeter_recv(&w.g, (struct peer_id){from}, &f);
    assert_null(f);
    assert_true(w.n_sent > 0);
    assert_int_equal(w.to[w.n_sent - 1], from);
    f = w.sent[w.n_sent - 1];
    assert_int_equal(frame_check(f->data, f->bytes, &h, NULL), ST_OK);
    assert_true(hello_is_answer(f, &h, &e));
    if (e.status == ST_OK && session != NULL) {
        assert_int_equal(wire_unpack(&w.arena,
                                     &sluice__v1__hello_reply__descriptor,
                                     e.body, e.body_bytes, &reply, NULL),
                         ST_OK);
        *session = ((Sluice__V1__HelloReply *)reply)->session;
    }
    return (enum status)e.status;
}

static bool said_goodbye(uint32_t to, uint64_t session)
{
    for (uint32_t i = 0; i < w.n_sent; i++) {
        struct frame *f = w.sent[i];
        struct frame_header h;
        struct envelope e;

        assert_int_equal(frame_check(f->data, f->bytes, &h, NULL), ST_OK);
        if (w.to[i] == to && h.session == session &&
            hello_is_goodbye(f, &h, &e)) {
            return true;
        }
    }
    return false;
}

static void hellos_are_judged(void **state)
{
    Sluice__V1__HelloRequest m = fine();

    (void)state;
    m.version_major++;
    assert_int_equal(hello(1, &m, NULL), ST_FAILED_PRECONDITION);
    m = fine();
    m.role = SLUICE__V1__ROLE__ROLE_CLIENT;
    assert_int_equal(hello(1, &m, NULL), ST_PERMISSION_DENIED);
    m = fine();
    m.name.len = 0;
    assert_int_equal(hello(1, &m, NULL), ST_INVALID_ARGUMENT);
    m = fine();
    m.stage = NULL;
    assert_int_equal(hello(1, &m, NULL), ST_INVALID_ARGUMENT);
    m = fine();
    stage.assembly++;
    assert_int_equal(hello(1, &m, NULL), ST_FAILED_PRECONDITION);
    m = fine();
    stage.index++;
    assert_int_equal(hello(1, &m, NULL), ST_FAILED_PRECONDITION);
    w.allowed = BY_CLIENT;
    m = fine();
    assert_int_equal(hello(1, &m, NULL), ST_PERMISSION_DENIED);
    assert_int_equal(w.n_up, 0);
    assert_int_equal(w.g.counts.refused, 7);
    w.allowed = BY_WORKER;
    assert_int_equal(hello(1, &m, NULL), ST_OK);
    assert_int_equal(w.n_up, 1);
}

/* The transport has checked the role; the greeter does not depend on that. */
static void a_key_needs_the_role_worker(void **state)
{
    static const uint8_t roles[] = {BY_CLIENT, BY_ADMIN, BY_ROUTER, 0};
    struct identity who = {.name = "k"};
    Sluice__V1__HelloRequest m = fine();

    (void)state;
    w.who = &who;
    for (size_t i = 0; i < sizeof roles; i++) {
        who.roles = roles[i];
        assert_int_equal(hello(1, &m, NULL), ST_PERMISSION_DENIED);
    }
    assert_int_equal(w.n_up, 0);
    who.roles = BY_WORKER | BY_CLIENT;
    assert_int_equal(hello(1, &m, NULL), ST_OK);
    assert_int_equal(w.n_up, 1);
}

static void hello_may_be_repeated(void **state)
{
    Sluice__V1__HelloRequest m = fine();
    uint64_t first = 0, again = 0;

    (void)state;
    assert_int_equal(hello(1, &m, &first), ST_OK);
    assert_int_equal(hello(1, &m, &again), ST_OK);
    assert_true(first != 0 && first == again);
    assert_int_equal(w.n_up, 1);
    m.nonce++; /* another Hello on a connection with a session */
    assert_int_equal(hello(1, &m, NULL), ST_FAILED_PRECONDITION);
    assert_int_equal(w.n_down, 0);
}

static void one_edge_at_a_time(void **state)
{
    Sluice__V1__HelloRequest m = fine();
    uint64_t first = 0, second = 0;

    (void)state;
    assert_int_equal(hello(1, &m, &first), ST_OK);
    stage.assembly++; /* a refused Hello disturbs nothing */
    assert_int_equal(hello(2, &m, NULL), ST_FAILED_PRECONDITION);
    assert_int_equal(w.n_down, 0);
    stage.assembly--;
    assert_int_equal(hello(2, &m, NULL), ST_UNAVAILABLE);
    assert_int_equal(w.n_down, 1);
    assert_true(said_goodbye(1, first));
    assert_int_equal(hello(2, &m, &second), ST_OK);
    assert_true(second != first);
    assert_int_equal(w.n_up, 2);
    greeter_lost(&w.g, (struct peer_id){1}); /* of another connection */
    assert_int_equal(w.n_down, 1);
    greeter_lost(&w.g, (struct peer_id){2});
    assert_int_equal(w.n_down, 2);
    assert_string_equal(w.why, "the connection from the stage before broke");
}

static void foreign_frames_are_answered_goodbye(void **state)
{
    Sluice__V1__HelloRequest m = fine();
    struct frame_header h = {.session = 99999};
    uint64_t session = 0;
    struct frame *f;

    (void)state;
    assert_int_equal(hello(1, &m, &session), ST_OK);
    f = frame_make(&h, NULL, NULL);
    greeter_recv(&w.g, (struct peer_id){1}, &f);
    assert_true(said_goodbye(1, 99999));
    h.session = session; /* from another connection */
    f = frame_make(&h, NULL, NULL);
    greeter_recv(&w.g, (struct peer_id){2}, &f);
    assert_true(said_goodbye(2, session));
    assert_int_equal(w.g.counts.foreign, 2);
    f = goodbye_make(77, "bye"); /* not answered */
    forget_sent();
    greeter_recv(&w.g, (struct peer_id){2}, &f);
    assert_int_equal(w.n_sent, 0);
    f = goodbye_make(session, "it is over");
    greeter_recv(&w.g, (struct peer_id){1}, &f);
    assert_int_equal(w.n_down, 1);
    assert_string_equal(w.why,
                        "the stage before ended the session: it is over");
}

static void strikes_end_it(void **state)
{
    Sluice__V1__HelloRequest m = fine();
    struct frame_header h = {.ack =
                                 1}; /* an ack of a frame that was never sent */
    struct frame *f;

    (void)state;
    assert_int_equal(hello(1, &m, &h.session), ST_OK);
    for (int i = 0; i < PEER_STRIKES; i++) {
        assert_int_equal(w.n_down, 0);
        f = frame_make(&h, NULL, NULL);
        greeter_recv(&w.g, (struct peer_id){1}, &f);
    }
    assert_int_equal(w.n_down, 1);
    assert_int_equal(w.g.counts.strikes, PEER_STRIKES);
    assert_true(said_goodbye(1, h.session));
    f = frame_make(&h, NULL, NULL);
    f->data[20] = 1; /* no valid frame: counted */
    greeter_recv(&w.g, (struct peer_id){1}, &f);
    assert_int_equal(w.g.counts.malformed, 1);
}

static void silence_ends_it(void **state)
{
    Sluice__V1__HelloRequest m = fine();
    int64_t begin_us = w.clock_us;

    (void)state;
    assert_true(greeter_tick(&w.g, w.clock_us) == NODE_IDLE);
    assert_int_equal(hello(1, &m, NULL), ST_OK);
    for (int i = 0; i < 1000 && w.n_down == 0; i++) {
        int64_t due = greeter_tick(&w.g, w.clock_us);

        w.clock_us = due > w.clock_us && due < w.clock_us + 100000
                         ? due
                         : w.clock_us + 100000;
        forget_sent();
    }
    assert_int_equal(w.n_down, 1);
    assert_true(w.clock_us - begin_us >= SESSION_SILENT_US);
    assert_non_null(strstr(w.why, "no frame arrived from the stage before"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(hellos_are_judged, begin, finish),
        cmocka_unit_test_setup_teardown(a_key_needs_the_role_worker, begin,
                                        finish),
        cmocka_unit_test_setup_teardown(hello_may_be_repeated, begin, finish),
        cmocka_unit_test_setup_teardown(one_edge_at_a_time, begin, finish),
        cmocka_unit_test_setup_teardown(foreign_frames_are_answered_goodbye,
                                        begin, finish),
        cmocka_unit_test_setup_teardown(strikes_end_it, begin, finish),
        cmocka_unit_test_setup_teardown(silence_ends_it, begin, finish),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
