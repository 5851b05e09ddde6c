#include "common/session.h"

#include <stdlib.h>
#include <string.h>

#include "proto/common.pb-c.h"
#include "proto/health.pb-c.h"
#include "proto/registry.pb-c.h"
#include "tests/unit/cmocka.h"

/* A node that connects, and what the world saw of it. */
struct node {
    struct node_io io;
    struct session s;
    struct arena arena;
    uint32_t last_id;
    int n_opens, n_closes, n_sent, n_ups, n_downs, n_ends;
    struct frame *sent; /* the last */
    enum status refused;
    char why[ERROR_TEXT];
    bool was_up; /* down had a peer */
    bool restart_in_up, restart_in_end;
    bool idle; /* it listens to nobody */
};

static int64_t clock_us;
static uint64_t dice = 1;

static int64_t now_us(struct node_io *io)
{
    (void)io;
    return clock_us;
}

static uint64_t io_random(struct node_io *io)
{
    (void)io;
    dice ^= dice << 13;
    dice ^= dice >> 7;
    return dice ^= dice << 17;
}

static enum status io_send(struct node_io *io, struct peer_id to,
                           struct frame **f)
{
    struct node *n = io->impl;

    assert_int_equal(to.v, n->last_id);
    frame_free(&n->sent);
    n->sent = *f;
    *f = NULL;
    n->n_sent++;
    return ST_OK;
}

static struct peer_id io_open(struct node_io *io)
{
    struct node *n = io->impl;

    n->n_opens++;
    return (struct peer_id){++n->last_id};
}

static void io_close(struct node_io *io, struct peer_id who)
{
    struct node *n = io->impl;

    assert_int_equal(who.v, n->last_id);
    n->n_closes++;
}

static void hello(void *node, ProtobufCMessage *m)
{
    Sluice__V1__HelloRequest *h = (Sluice__V1__HelloRequest *)m;

    (void)node;
    h->name = wire_text("w1");
}

static void up(void *node, struct peer *p)
{
    struct node *n = node;

    n->n_ups++;
    assert_int_equal(peer_role(p), BY_ROUTER);
    if (n->restart_in_up) {
        session_restart(&n->s, "changed my mind");
        assert_int_equal(n->s.state, SESSION_UP); /* not yet */
    }
}

static void down(void *node, struct peer *p, enum status refused,
                 const char *why)
{
    struct node *n = node;

    n->n_downs++;
    n->was_up = p != NULL;
    n->refused = refused;
    strcpy(n->why, why);
}

static void on_end(void *node, struct peer *p, uint64_t tag,
                   const struct method_row *m, enum status status,
                   const ProtobufCMessage *reply, const struct error *e,
                   uint32_t retry_after_ms)
{
    struct node *n = node;

    (void)p, (void)tag, (void)m, (void)status, (void)reply, (void)e,
        (void)retry_after_ms;
    n->n_ends++;
    if (n->restart_in_end) {
        session_restart(&n->s, "it ended");
    }
}

static bool listens(void *node)
{
    return !((struct node *)node)->idle;
}

static const struct session_ops session_ops = {hello, up, down, listens};
static const struct peer_ops peer_ops = {.on_end = on_end};

static void setup(struct node *n)
{
    memset(n, 0, sizeof *n);
    n->io = (struct node_io){.impl = n,
                             .now_us = now_us,
                             .random = io_random,
                             .send = io_send,
                             .open = io_open,
                             .close = io_close};
    arena_init(&n->arena);
    clock_us = 5000000;
    session_init(&n->s, &n->io, &session_ops, &peer_ops, n, &n->arena,
                 BY_WORKER);
}

static void teardown(struct node *n)
{
    session_fini(&n->s, "the test is over");
    frame_free(&n->sent);
    arena_fini(&n->arena);
}

static void tick(struct node *n)
{
    session_tick(&n->s, clock_us);
}

/* Go to the next thing that is due. */
static void go_on(struct node *n)
{
    int64_t due = session_tick(&n->s, clock_us);

    assert_true(due > clock_us && due != INT64_MAX);
    clock_us = due;
    tick(n);
}

static void give(struct node *n, struct frame *f)
{
    session_recv(&n->s, n->s.id, &f);
    assert_null(f);
}

static struct frame *accept_as(uint64_t session)
{
    Sluice__V1__HelloReply r = SLUICE__V1__HELLO_REPLY__INIT;

    r.version_major = WIRE_VERSION_MAJOR;
    r.name = wire_text("router");
    return hello_answer(session, &r.base, NULL, 0);
}

static void come_up(struct node *n, uint64_t session)
{
    while (n->s.state != SESSION_OPENING) {
        go_on(n);
    }
    session_opened(&n->s, n->s.id);
    assert_int_equal(n->s.state, SESSION_GREETING);
    give(n, accept_as(session));
}

/* The Hello in the last frame sent. */
static uint64_t nonce_sent(struct node *n)
{
    const Sluice__V1__HelloRequest *h;
    struct frame_header fh;
    ProtobufCMessage *m;
    struct envelope e;

    assert_int_equal(frame_check(n->sent->data, n->sent->bytes, &fh, NULL),
                     ST_OK);
    assert_true(hello_is_call(n->sent, &fh, &e));
    assert_int_equal(wire_unpack(&n->arena,
                                 &sluice__v1__hello_request__descriptor, e.body,
                                 e.body_bytes, &m, NULL),
                     ST_OK);
    h = (const Sluice__V1__HelloRequest *)m;
    assert_int_equal(h->role, SLUICE__V1__ROLE__ROLE_WORKER);
    assert_int_equal(h->version_major, WIRE_VERSION_MAJOR);
    assert_int_equal(h->name.len, 2);
    return h->nonce;
}

static void goes_up(void **state)
{
    struct node n;

    (void)state;
    setup(&n);
    tick(&n);
    assert_int_equal(n.n_opens, 1);
    assert_int_equal(n.s.state, SESSION_OPENING);
    session_opened(&n.s, n.s.id);
    nonce_sent(&n);
    give(&n, accept_as(99));
    assert_int_equal(n.n_ups, 1);
    assert_int_equal(n.s.state, SESSION_UP);
    assert_int_equal(peer_session(n.s.peer), 99);
    give(&n, accept_as(99)); /* a second answer changes nothing */
    assert_int_equal(n.n_ups, 1);
    teardown(&n);
    assert_int_equal(n.n_downs, 1);
    assert_int_equal(n.n_closes, 1);
}

static void hello_is_repeated_with_one_nonce(void **state)
{
    struct node n;
    uint64_t nonce;

    (void)state;
    setup(&n);
    tick(&n);
    session_opened(&n.s, n.s.id);
    nonce = nonce_sent(&n);
    for (int i = 1; i < SESSION_HELLO_TRIES; i++) {
        assert_int_equal(n.n_sent, i);
        clock_us += SESSION_HELLO_US;
        tick(&n);
        assert_true(nonce_sent(&n) == nonce);
    }
    clock_us += SESSION_HELLO_US;
    tick(&n);
    assert_int_equal(n.n_sent, SESSION_HELLO_TRIES);
    assert_int_equal(n.s.state, SESSION_CLOSED);
    assert_int_equal(n.n_closes, 1);
    assert_int_equal(n.n_downs, 1);
    assert_false(n.was_up);
    go_on(&n);
    session_opened(&n.s, n.s.id);
    assert_true(nonce_sent(&n) != nonce); /* another connection */
    teardown(&n);
}

static void backs_off_with_jitter(void **state)
{
    struct node n;
    int64_t wait, mean = SESSION_BACKOFF_US;

    (void)state;
    setup(&n);
    tick(&n);
    for (int i = 0; i < 12; i++) {
        session_lost(&n.s, n.s.id);
        assert_int_equal(n.s.state, SESSION_CLOSED);
        wait = session_tick(&n.s, clock_us) - clock_us;
        assert_in_range(wait, mean / 2, mean);
        clock_us += wait;
        tick(&n);
        assert_int_equal(n.n_opens, i + 2);
        mean = mean * 2 < SESSION_BACKOFF_MAX_US ? mean * 2
                                                 : SESSION_BACKOFF_MAX_US;
    }
    assert_int_equal(n.n_closes, 0); /* what is lost is not closed */
    teardown(&n);
}

static void long_session_resets_the_back_off(void **state)
{
    struct node n;
    int64_t wait;

    (void)state;
    setup(&n);
    tick(&n);
    for (int i = 0; i < 6; i++) {
        session_lost(&n.s, n.s.id);
        go_on(&n);
    }
    come_up(&n, 5);
    clock_us += SESSION_BACKOFF_MAX_US + 1;
    session_lost(&n.s, n.s.id);
    wait = session_tick(&n.s, clock_us) - clock_us;
    assert_in_range(wait, SESSION_BACKOFF_US / 2, SESSION_BACKOFF_US);
    teardown(&n);
}

static void refusal_is_told_and_waited_for(void **state)
{
    struct error e;
    struct node n;

    (void)state;
    setup(&n);
    tick(&n);
    session_opened(&n.s, n.s.id);
    error_set(&e, ST_FAILED_PRECONDITION, "the tokenizer is another");
    give(&n, hello_answer(0, NULL, &e, 700));
    assert_int_equal(n.s.state, SESSION_CLOSED);
    assert_int_equal(n.refused, ST_FAILED_PRECONDITION);
    assert_string_equal(n.why, "the tokenizer is another");
    assert_false(n.was_up);
    /* Half as much again is chance: many are refused at once. */
    assert_in_range(session_tick(&n.s, clock_us) - clock_us, 700000, 1050000);
    teardown(&n);
}

/* However long it asks for: SESSION_BACKOFF_MAX_US, and half as much. */
static void refusal_asks_for_too_long(void **state)
{
    struct error e;
    struct node n;

    (void)state;
    setup(&n);
    tick(&n);
    session_opened(&n.s, n.s.id);
    error_set(&e, ST_RESOURCE_EXHAUSTED, "it is full");
    give(&n, hello_answer(0, NULL, &e, SESSION_BACKOFF_MAX_US / 1000 + 1));
    assert_in_range(session_tick(&n.s, clock_us),
                    clock_us + SESSION_BACKOFF_MAX_US,
                    clock_us + SESSION_BACKOFF_MAX_US / 2 * 3);
    teardown(&n);
}

static void bad_answers_do_not_bring_it_up(void **state)
{
    Sluice__V1__HelloReply r = SLUICE__V1__HELLO_REPLY__INIT;
    struct node n;

    (void)state;
    setup(&n);
    r.version_major = WIRE_VERSION_MAJOR + 1;
    r.name = wire_text("router");
    tick(&n);
    session_opened(&n.s, n.s.id);
    give(&n, hello_answer(5, &r.base, NULL, 0));
    assert_int_equal(n.refused, ST_FAILED_PRECONDITION);
    go_on(&n);
    session_opened(&n.s, n.s.id);
    give(&n, accept_as(0));
    assert_int_equal(n.refused, ST_FAILED_PRECONDITION);
    assert_int_equal(n.n_ups, 0);
    teardown(&n);
}

static void goodbye_ends_and_reconnects(void **state)
{
    struct node n;

    (void)state;
    setup(&n);
    tick(&n);
    come_up(&n, 5);
    give(&n, goodbye_make(6, "of another session"));
    assert_int_equal(n.s.state, SESSION_UP);
    give(&n, goodbye_make(5, "restarting"));
    assert_int_equal(n.s.state, SESSION_CLOSED);
    assert_true(n.was_up);
    assert_non_null(strstr(n.why, "restarting"));
    assert_int_equal(n.n_closes, 1);
    come_up(&n, 7);
    assert_int_equal(n.n_ups, 2);
    teardown(&n);
}

static void stale_events_change_nothing(void **state)
{
    struct peer_id old;
    struct node n;
    struct frame *f;

    (void)state;
    setup(&n);
    tick(&n);
    old = n.s.id;
    session_lost(&n.s, old);
    go_on(&n);
    session_opened(&n.s, old);
    assert_int_equal(n.s.state, SESSION_OPENING);
    session_lost(&n.s, old);
    assert_int_equal(n.s.state, SESSION_OPENING);
    session_opened(&n.s, n.s.id);
    f = accept_as(3);
    session_recv(&n.s, old, &f);
    assert_null(f);
    assert_int_equal(n.s.state, SESSION_GREETING);
    teardown(&n);
}

static void opening_is_given_up(void **state)
{
    struct node n;

    (void)state;
    setup(&n);
    tick(&n);
    clock_us += SESSION_OPEN_US;
    tick(&n);
    assert_int_equal(n.s.state, SESSION_CLOSED);
    assert_int_equal(n.n_closes, 1);
    teardown(&n);
}

static struct peer_id io_open_to(struct node_io *io, const char *endpoint)
{
    assert_string_equal(endpoint, "tcp://next");
    return io_open(io);
}

/* An edge's connection that hangs is tried again within the time that an
 * assembly has for its edges. */
static void opening_the_next_stage_is_given_up_early(void **state)
{
    const struct session_stage stage = {
        .endpoint = "tcp://next", .assembly = 7, .limits = link_limits_usual};
    struct node n;

    (void)state;
    setup(&n);
    session_fini(&n.s, "not the router");
    n.io.open_to = io_open_to;
    session_init_stage(&n.s, &n.io, &session_ops, &peer_ops, &n, &n.arena,
                       &stage);
    tick(&n);
    assert_int_equal(n.n_opens, 1);
    clock_us += SESSION_OPEN_NEXT_US - 1;
    tick(&n);
    assert_int_equal(n.s.state, SESSION_OPENING);
    clock_us += 1;
    tick(&n);
    assert_int_equal(n.s.state, SESSION_CLOSED);
    clock_us += SESSION_BACKOFF_US * 3 / 2;
    tick(&n);
    assert_int_equal(n.n_opens, 2);
    teardown(&n);
}

static void restarts_from_within_its_ops(void **state)
{
    Sluice__V1__Nothing nothing = SLUICE__V1__NOTHING__INIT;
    struct node n;

    (void)state;
    setup(&n);
    n.restart_in_up = true;
    tick(&n);
    come_up(&n, 5);
    assert_int_equal(n.s.state, SESSION_CLOSED);
    assert_string_equal(n.why, "changed my mind");
    n.restart_in_up = false;
    n.restart_in_end = true;
    come_up(&n, 6);
    assert_int_equal(
        peer_call(n.s.peer, METHOD_HEALTH_CHECK, &nothing.base, 5, 1, NULL),
        ST_OK);
    clock_us += 5000;
    tick(&n); /* its deadline passes within peer_flush() */
    assert_int_equal(n.n_ends, 1);
    assert_int_equal(n.s.state, SESSION_CLOSED);
    assert_string_equal(n.why, "it ended");
    n.restart_in_end = false;
    come_up(&n, 7);
    assert_int_equal(n.n_ups, 3);
    teardown(&n);
}

static void rule_breaking_router_is_left(void **state)
{
    struct frame_header h = {.session = 5, .ack = 1000};
    struct node n;

    (void)state;
    setup(&n);
    tick(&n);
    come_up(&n, 5);
    for (int i = 0; i < PEER_STRIKES; i++) {
        assert_int_equal(n.s.state, SESSION_UP);
        give(&n, frame_make(&h, NULL, NULL));
    }
    assert_int_equal(n.s.state, SESSION_CLOSED);
    teardown(&n);
}

static void garbage_is_dropped(void **state)
{
    struct frame *f;
    struct node n;

    (void)state;
    setup(&n);
    tick(&n);
    come_up(&n, 5);
    f = frame_new(300);
    memset(f->data, 0x5a, 300);
    give(&n, f);
    f = frame_new(0);
    give(&n, f);
    assert_int_equal(n.s.state, SESSION_UP);
    teardown(&n);
}

/* ---- a connection that is open at this end only ---- */

/* The Health/Check in the last frame sent; 0: there is none. */
static uint64_t ping_sent(const struct node *n)
{
    struct frame_header h;
    struct envelope e;
    uint32_t at = 0;

    assert_int_equal(frame_check(n->sent->data, n->sent->bytes, &h, NULL),
                     ST_OK);
    return h.n_ordered == 1 && envelope_next(n->sent, &h, &at, &e) &&
                   e.method == METHOD_HEALTH_CHECK && e.kind == ENVELOPE_CALL
               ? e.call
               : 0;
}

/* A frame of the router's with nothing in it. */
static void word(struct node *n)
{
    struct frame_header h = {.session = 5};

    give(n, frame_make(&h, NULL, NULL));
}

static void listening(struct node *n)
{
    setup(n);
    tick(n);
    come_up(n, 5);
    tick(n);
    n->n_sent = 0;
}

static void asks_when_it_is_quiet(void **state)
{
    struct node n;

    (void)state;
    listening(&n);
    clock_us += SESSION_QUIET_US - 1;
    assert_int_equal(session_tick(&n.s, clock_us), clock_us + 1);
    assert_int_equal(n.n_sent, 0);
    clock_us++;
    tick(&n);
    assert_int_equal(n.n_sent, 1);
    assert_true(ping_sent(&n) != 0);
    teardown(&n);
}

static void a_word_begins_anew(void **state)
{
    struct node n;

    (void)state;
    listening(&n);
    for (int i = 0; i < 10; i++) {
        clock_us += SESSION_QUIET_US - 1;
        tick(&n);
        word(&n);
    }
    assert_int_equal(n.n_sent, 0);
    /* ... also when it had been asked for, one moment before the end */
    clock_us += SESSION_QUIET_US;
    tick(&n);
    clock_us += SESSION_SILENT_US - SESSION_QUIET_US - 1;
    tick(&n);
    word(&n);
    clock_us += SESSION_QUIET_US - 1;
    tick(&n);
    assert_int_equal(n.s.state, SESSION_UP);
    teardown(&n);
}

static void ends_when_it_is_silent(void **state)
{
    struct node n;

    (void)state;
    listening(&n);
    clock_us += SESSION_QUIET_US;
    tick(&n);
    clock_us += SESSION_SILENT_US - SESSION_QUIET_US - 1;
    assert_true(session_tick(&n.s, clock_us) <= clock_us + 1);
    assert_int_equal(n.s.state, SESSION_UP);
    clock_us++;
    tick(&n);
    assert_int_equal(n.s.state, SESSION_CLOSED);
    assert_int_equal(n.n_closes, 1);
    assert_true(n.was_up);
    assert_int_equal(n.refused, ST_OK);
    assert_string_equal(n.why, "nothing was heard from the router for 1500 ms");
    assert_int_equal(n.n_ends, 0); /* the question was nobody's call */
    come_up(&n, 6);
    assert_int_equal(n.n_ups, 2);
    teardown(&n);
}

/* A minute of which it knows nothing: it asks, and waits for the answer. */
static void its_own_absence_is_no_silence(void **state)
{
    struct node n;

    (void)state;
    listening(&n);
    clock_us += 60000000;
    tick(&n);
    assert_true(ping_sent(&n) != 0);
    clock_us += SESSION_SILENT_US - SESSION_QUIET_US - 1;
    tick(&n);
    assert_int_equal(n.s.state, SESSION_UP);
    clock_us++;
    tick(&n);
    assert_int_equal(n.s.state, SESSION_CLOSED);
    teardown(&n);
}

static void an_idle_node_asks_nobody(void **state)
{
    struct node n;

    (void)state;
    listening(&n);
    n.idle = true;
    tick(&n);
    assert_true(session_tick(&n.s, clock_us) == NODE_IDLE);
    clock_us += 3600000000;
    tick(&n);
    assert_int_equal(n.n_sent, 0);
    n.idle = false; /* from now on the silence counts */
    tick(&n);
    clock_us += SESSION_QUIET_US - 1;
    tick(&n);
    assert_int_equal(n.n_sent, 0);
    clock_us++;
    tick(&n);
    assert_true(ping_sent(&n) != 0);
    n.idle = true; /* what it waited for has come */
    clock_us += 3600000000;
    tick(&n);
    assert_int_equal(n.s.state, SESSION_UP);
    teardown(&n);
}

/* The router says something now and then, but never answers: one question. */
static void one_question_at_a_time(void **state)
{
    uint64_t ping = 0, first = 0;
    struct node n;

    (void)state;
    listening(&n);
    for (int i = 0; i < 20; i++) {
        clock_us += SESSION_QUIET_US;
        tick(&n);
        ping = ping_sent(&n); /* the first, resent by the link */
        first = first == 0 ? ping : first;
        assert_true(ping == first || ping == 0);
        word(&n);
    }
    assert_true(first != 0);
    assert_int_equal(n.s.state, SESSION_UP);
    teardown(&n);
}

/* Its answer is no end of a call of the node's. */
static void the_answer_is_told_to_nobody(void **state)
{
    Sluice__V1__HealthReply reply = SLUICE__V1__HEALTH_REPLY__INIT;
    struct frame_header h = {.session = 5, .n_ordered = 1};
    struct envelope e = {.method = METHOD_HEALTH_CHECK, .kind = ENVELOPE_END};
    uint8_t body[16], envelope[64];
    struct node n;

    (void)state;
    listening(&n);
    for (uint64_t i = 1; i <= 3; i++) {
        clock_us += SESSION_QUIET_US;
        tick(&n);
        e.call = ping_sent(&n);
        assert_int_equal(e.call, i); /* a new one, as the last was answered */
        reply.serving = true;
        e.body_bytes = (uint32_t)sluice__v1__health_reply__pack(&reply, body);
        e.body = body;
        h.number = i;
        h.ack = i;
        h.envelopes_bytes = (uint32_t)envelope_write(envelope, &e);
        give(&n, frame_make(&h, envelope, NULL));
    }
    assert_int_equal(n.n_ends, 0);
    assert_int_equal(n.s.state, SESSION_UP);
    teardown(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_up),
        cmocka_unit_test(hello_is_repeated_with_one_nonce),
        cmocka_unit_test(backs_off_with_jitter),
        cmocka_unit_test(long_session_resets_the_back_off),
        cmocka_unit_test(refusal_is_told_and_waited_for),
        cmocka_unit_test(refusal_asks_for_too_long),
        cmocka_unit_test(bad_answers_do_not_bring_it_up),
        cmocka_unit_test(goodbye_ends_and_reconnects),
        cmocka_unit_test(stale_events_change_nothing),
        cmocka_unit_test(opening_is_given_up),
        cmocka_unit_test(opening_the_next_stage_is_given_up_early),
        cmocka_unit_test(restarts_from_within_its_ops),
        cmocka_unit_test(rule_breaking_router_is_left),
        cmocka_unit_test(garbage_is_dropped),
        cmocka_unit_test(asks_when_it_is_quiet),
        cmocka_unit_test(a_word_begins_anew),
        cmocka_unit_test(ends_when_it_is_silent),
        cmocka_unit_test(its_own_absence_is_no_silence),
        cmocka_unit_test(an_idle_node_asks_nobody),
        cmocka_unit_test(one_question_at_a_time),
        cmocka_unit_test(the_answer_is_told_to_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
