/* A session comes up, ends and starts again. */
#include <stdlib.h>
#include <string.h>

#include "proto/common.pb-c.h"
#include "proto/health.pb-c.h"
#include "proto/registry.pb-c.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/common/wire/session_node.h"

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

/* A key of another length is of a later version, and is left alone. */
static void takes_a_key_of_prefix_hashes(void **state)
{
    static const size_t lengths[] = {PREFIX_KEY_BYTES, PREFIX_KEY_BYTES - 1,
                                     PREFIX_KEY_BYTES + 1, 0};
    uint8_t key[PREFIX_KEY_BYTES + 1];

    (void)state;
    memset(key, 7, sizeof key);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        Sluice__V1__HelloReply r = SLUICE__V1__HELLO_REPLY__INIT;
        struct node n;

        setup(&n);
        tick(&n);
        session_opened(&n.s, n.s.id);
        r.version_major = WIRE_VERSION_MAJOR;
        r.version_minor = WIRE_VERSION_MINOR;
        r.session = 99;
        r.name = wire_text("router");
        r.has_prefix_key = lengths[i] > 0;
        r.prefix_key = (ProtobufCBinaryData){lengths[i], key};
        give(&n, hello_answer(99, &r.base, NULL, 0));
        assert_int_equal(n.s.state, SESSION_UP);
        assert_int_equal(n.s.has_prefix_key, i == 0);
        if (i == 0) {
            assert_memory_equal(n.s.prefix_key.bytes, key, PREFIX_KEY_BYTES);
        }
        teardown(&n);
    }
}

static void refuses_a_minor_version_that_is_too_low(void **state)
{
    (void)state;
    for (uint32_t minor = 3; minor <= 4; minor++) {
        Sluice__V1__HelloReply r = SLUICE__V1__HELLO_REPLY__INIT;
        struct node n;

        setup(&n);
        session_need_minor(&n.s, 4, "a model with sliding windows");
        tick(&n);
        session_opened(&n.s, n.s.id);
        r.version_major = WIRE_VERSION_MAJOR;
        r.version_minor = minor;
        r.session = 99;
        r.name = wire_text("router");
        give(&n, hello_answer(99, &r.base, NULL, 0));
        assert_int_equal(n.s.state, minor < 4 ? SESSION_CLOSED : SESSION_UP);
        if (minor < 4) {
            assert_int_equal(n.refused, ST_FAILED_PRECONDITION);
            assert_string_equal(
                n.why, "the router has version 1.3, but a model with sliding "
                       "windows needs 1.4 or later: upgrade it");
        }
        teardown(&n);
    }
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
    assert_int_equal(n.n_closes, 0); /* a lost connection is not closed */
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
    /* Up to half as much is added at random: many sessions are refused at
     * once. */
    assert_in_range(session_tick(&n.s, clock_us) - clock_us, 700000, 1050000);
    teardown(&n);
}

/* A longer request is limited to SESSION_BACKOFF_MAX_US plus half. */
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

/* A connection to a stage that hangs is retried within the time that an
 * assembly has for its edges. */
static void opening_the_next_stage_is_given_up_early(void **state)
{
    struct node n;

    (void)state;
    setup_edge(&n);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_up),
        cmocka_unit_test(takes_a_key_of_prefix_hashes),
        cmocka_unit_test(refuses_a_minor_version_that_is_too_low),
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
