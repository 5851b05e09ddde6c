#include "gateway/upstream/upstream.h"

#include <string.h>

#include "tests/unit/cmocka.h"

/* An io whose connections never stand: places do not depend on sessions. */
struct fake {
    struct node_io io;
    int64_t now_us;
    uint32_t n_open, n_closed;
};

static struct fake fake;
static struct upstream *up;

static int64_t fake_now(struct node_io *io)
{
    return ((struct fake *)io->impl)->now_us;
}

static uint64_t fake_random(struct node_io *io)
{
    (void)io;
    return 7;
}

static enum status fake_send(struct node_io *io, struct peer_id to,
                             struct frame **f)
{
    (void)io;
    (void)to;
    frame_free(f);
    return ST_UNAVAILABLE;
}

static struct peer_id fake_open(struct node_io *io)
{
    return (struct peer_id){++((struct fake *)io->impl)->n_open};
}

static void fake_close(struct node_io *io, struct peer_id who)
{
    (void)who;
    ((struct fake *)io->impl)->n_closed++;
}

static int start(void **state)
{
    (void)state;
    fake = (struct fake){.io = {.impl = &fake,
                                .now_us = fake_now,
                                .random = fake_random,
                                .send = fake_send,
                                .open = fake_open,
                                .close = fake_close},
                         .now_us = 1000000};
    up = upstream_new("gateway", 2, &fake.io);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    upstream_free(&up);
    assert_null(up);
    return 0;
}

static void opens_a_session_when_all_places_are_taken(void **state)
{
    struct client_core *first = upstream_take(up), *second;

    (void)state;
    for (int i = 1; i < UPSTREAM_CALLS; i++) {
        assert_ptr_equal(upstream_take(up), first);
    }
    assert_int_equal(upstream_sessions(up), 1);
    second = upstream_take(up);
    assert_ptr_not_equal(second, first);
    assert_int_equal(upstream_sessions(up), 2);
    assert_int_equal(upstream_calls(up), UPSTREAM_CALLS + 1);
    upstream_give(up, first);
    assert_int_equal(upstream_calls(up), UPSTREAM_CALLS);
    assert_ptr_equal(upstream_take(up), first);
}

static void refuses_one_past_the_places_of_all_sessions(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * UPSTREAM_CALLS; i++) {
        assert_non_null(upstream_take(up));
    }
    assert_null(upstream_take(up));
    upstream_give(up, upstream_main(up));
    assert_ptr_equal(upstream_take(up), upstream_main(up));
}

static void closes_an_extra_session_that_stays_idle(void **state)
{
    struct client_core *second = NULL;

    (void)state;
    for (int i = 0; i <= UPSTREAM_CALLS; i++) {
        second = upstream_take(up);
    }
    (void)upstream_tick(up, fake.now_us);
    assert_int_equal(fake.n_open, 2);
    upstream_give(up, second);
    assert_true(upstream_tick(up, fake.now_us) <=
                fake.now_us + UPSTREAM_IDLE_US);
    fake.now_us += UPSTREAM_IDLE_US - 1;
    (void)upstream_tick(up, fake.now_us);
    assert_int_equal(upstream_sessions(up), 2);
    fake.now_us += 1;
    (void)upstream_tick(up, fake.now_us);
    assert_int_equal(upstream_sessions(up), 1);
}

static void keeps_the_first_session(void **state)
{
    (void)state;
    fake.now_us += 10 * UPSTREAM_IDLE_US;
    (void)upstream_tick(up, fake.now_us);
    assert_int_equal(upstream_sessions(up), 1);
    assert_int_equal(upstream_sessions_up(up), 0);
    assert_false(upstream_up(up));
}

static void ignores_connections_of_no_session(void **state)
{
    struct frame *f = frame_new(FRAME_HEADER);

    (void)state;
    upstream_opened(up, (struct peer_id){99});
    upstream_lost(up, (struct peer_id){99});
    upstream_recv(up, (struct peer_id){99}, &f);
    assert_null(f);
    assert_int_equal(upstream_sessions(up), 1);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(opens_a_session_when_all_places_are_taken),
        CASE(refuses_one_past_the_places_of_all_sessions),
        CASE(closes_an_extra_session_that_stays_idle),
        CASE(keeps_the_first_session),
        CASE(ignores_connections_of_no_session),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
