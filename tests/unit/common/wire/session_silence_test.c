/* A connection that is open at this end only. */
#include <stdlib.h>
#include <string.h>

#include "proto/common.pb-c.h"
#include "proto/health.pb-c.h"
#include "proto/registry.pb-c.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/common/wire/session_node.h"

/* Returns the call of the Health/Check in the last frame sent; 0: none. */
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

/* Delivers an empty frame of the router. */
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
    /* also if the node began to listen one moment before the end */
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
    assert_string_equal(n.why, "no frame arrived from the router for 1500 ms");
    assert_int_equal(n.n_ends, 0); /* the ping was no call of the node */
    come_up(&n, 6);
    assert_int_equal(n.n_ups, 2);
    teardown(&n);
}

/* Frames arrive, so the router is not silent, but none acknowledges. */
static void ends_when_nothing_is_acknowledged(void **state)
{
    int64_t began;
    struct node n;

    (void)state;
    listening(&n);
    began = clock_us;
    assert_true(peer_ping(n.s.peer));
    while (clock_us - began < LINK_UNACKED_US - LINK_RESEND_MAX_US) {
        tick(&n);
        word(&n);
        assert_int_equal(n.s.state, SESSION_UP);
        clock_us += LINK_RESEND_US / 2;
    }
    while (n.s.state == SESSION_UP &&
           clock_us - began < LINK_UNACKED_US + LINK_RESEND_MAX_US) {
        word(&n);
        clock_us += LINK_RESEND_US / 2;
        tick(&n);
    }
    assert_int_equal(n.n_downs, 1);
    assert_string_equal(n.why, "the router has acknowledged no frame for 60 s");
    assert_true(n.was_up);
    teardown(&n);
}

/* The node was stopped for a minute: it pings, and waits for the answer. */
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
    n.idle = true; /* the awaited frame has arrived */
    clock_us += 3600000000;
    tick(&n);
    assert_int_equal(n.s.state, SESSION_UP);
    teardown(&n);
}

/* The router sends frames but never answers: there is one ping. */
static void one_question_at_a_time(void **state)
{
    uint64_t ping = 0, first = 0;
    struct node n;

    (void)state;
    listening(&n);
    for (int i = 0; i < 20; i++) {
        clock_us += SESSION_QUIET_US;
        tick(&n);
        ping = ping_sent(&n); /* the first ping, resent by the link */
        first = first == 0 ? ping : first;
        assert_true(ping == first || ping == 0);
        word(&n);
    }
    assert_true(first != 0);
    assert_int_equal(n.s.state, SESSION_UP);
    teardown(&n);
}

/* The answer to a ping does not end a call of the node. */
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
        assert_int_equal(e.call,
                         i); /* a new ping, as the last one was answered */
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
        cmocka_unit_test(asks_when_it_is_quiet),
        cmocka_unit_test(a_word_begins_anew),
        cmocka_unit_test(ends_when_it_is_silent),
        cmocka_unit_test(ends_when_nothing_is_acknowledged),
        cmocka_unit_test(its_own_absence_is_no_silence),
        cmocka_unit_test(an_idle_node_asks_nobody),
        cmocka_unit_test(one_question_at_a_time),
        cmocka_unit_test(the_answer_is_told_to_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
