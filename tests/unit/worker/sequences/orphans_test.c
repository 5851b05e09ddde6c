/* Orphans: which sequences become one, for how long, how Live announces
 * them, and how they go on. */
#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig_orphan.h"

/* ---- which sequences become orphans ---- */

static void goes_on_from_wherever_it_was(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < 30; n += 3) {
        for (uint32_t depth = 1; depth <= 2; depth++) {
            struct rig *r = lost_after(n, depth);
            struct rig_submit s = having(n);

            rig_step(r); /* without a session */
            rig_reconnect(r);
            assert_int_equal(r->hello_live, 1);
            assert_int_equal(r->n_live, 1);
            assert_int_equal(r->live[0].id, 6);
            assert_in_range(r->live[0].n_generated, n, 30);
            assert_int_equal(rig_used_blocks(r), NEED);
            assert_int_equal(adopt(r, &s), ST_OK);
            rig_run(r);
            rig_advance(r, 20000);
            rig_check_tokens(r, 1, 6, 20, 30);
            assert_int_equal(r->heard[1].finish, LENGTH);
            assert_int_equal(r->n_steps, 30); /* no token was generated twice */
            rig_check_empty(r);
            rig_free(&r);
        }
    }
}

/* The router may have fewer tokens than it acknowledged. */
static void tells_from_where_the_router_is(void **state)
{
    (void)state;
    for (uint32_t have = 0; have <= 10; have += 5) {
        struct rig *r = lost_after(10, 1);
        struct rig_submit s = having(have);

        rig_reconnect(r);
        assert_int_equal(adopt(r, &s), ST_OK);
        rig_advance(r, 20000);
        assert_in_range(r->heard[1].n, 10, 30);
        rig_run(r);
        rig_check_tokens(r, 1, 6, 20, 30);
        rig_free(&r);
    }
}

static void keeps_the_tokens_of_one_that_ended(void **state)
{
    (void)state;
    for (uint32_t acked = 0; acked <= 12; acked += 4) {
        struct rig *r = lost_after(acked, 1);
        struct rig_submit s = having(acked);

        rig_run(r);
        assert_int_equal(rig_state(r, 6), STATE(FINISHED));
        assert_int_equal(rig_used_blocks(r), 0);
        rig_reconnect(r);
        assert_int_equal(r->live[0].n_generated, 30);
        assert_int_equal(adopt(r, &s), ST_OK);
        rig_advance(r, 20000);
        rig_check_tokens(r, 1, 6, 20, 30);
        assert_int_equal(r->n_steps, 30);
        rig_check_empty(r);
        rig_free(&r);
    }
}

/* Its acknowledged tokens were dropped at its end. */
static void does_not_find_what_is_gone(void **state)
{
    struct rig *r = lost_after(8, 1);
    struct rig_submit s = having(7);

    (void)state;
    rig_run(r);
    rig_reconnect(r);
    assert_int_equal(adopt(r, &s), ST_NOT_FOUND);
    s.have = 8;
    assert_int_equal(adopt(r, &s), ST_OK);
    rig_advance(r, 20000);
    rig_check_tokens(r, 2, 6, 20, 30);
    rig_free(&r);
}

static void goes_on_where_it_waits_for_its_first_row(void **state)
{
    struct rig *r;
    struct rig_submit s = {.id = 1, .n_prompt = 30, .max_tokens = 4};
    struct worker_options o;

    (void)state;
    rig_defaults(&o);
    o.max_rows = 1;
    r = rig_new(&o);
    rig_submit(r, &s);
    s.id = 2;
    rig_submit(r, &s);
    rig_turn(r);
    assert_int_equal(rig_state(r, 2), STATE(QUEUED));
    rig_lose(r);
    assert_int_equal(rig_state(r, 2), STATE(QUEUED));
    rig_reconnect(r);
    assert_int_equal(r->n_live, 2);
    assert_false(r->live[0].grows || r->live[1].grows);
    assert_int_equal(adopt(r, &s), ST_OK);
    rig_run(r);
    rig_check_tokens(r, 1, 2, 30, 4);
    rig_free(&r);
}

static void drops_the_others(void **state)
{
    struct rig *r = rig_new(NULL);
    struct rig_submit part = {
        .id = 1, .n_prompt = 20, .max_tokens = 5, .n_first = 10};
    struct rig_submit kept = {
        .id = 2, .n_prompt = 20, .max_tokens = 2, .keep_ms = 60000};
    struct rig_submit gone = {.id = 3, .n_prompt = 20, .max_tokens = 50};

    (void)state;
    rig_submit(r, &kept);
    rig_turn(r);
    rig_run(r);
    rig_advance(r, 300000);
    assert_int_equal(rig_state(r, 2), STATE(KEPT));
    rig_submit(r, &part);
    rig_submit(r, &gone);
    rig_turn(r);
    rig_cancel(r, 3); /* a plan names it */
    rig_cancel(r, 4); /* a tombstone */
    rig_turn(r);
    rig_lose(r);
    assert_int_equal(rig_account(r).n_orphans, 0);
    rig_reconnect(r);
    assert_int_equal(r->n_lives, 0);
    assert_int_equal(r->hello_live, 0);
    rig_run(r);
    rig_check_empty(r);
    gone.id = 4;
    rig_submit(r, &gone);
    rig_turn(r);
    rig_check_ok(r, r->tag);
    rig_free(&r);
}

/* The router may lack the end of a kept sequence: its lease ends, but its
 * tokens stay. */
static void ends_the_lease_of_what_is_kept(void **state)
{
    struct rig *r = rig_new(NULL);
    struct rig_submit s = usual;

    (void)state;
    s.keep_ms = 60000;
    r->acknowledge = false;
    rig_submit(r, &s);
    rig_turn(r);
    rig_run(r);
    assert_int_equal(rig_state(r, 6), STATE(KEPT));
    rig_lose(r);
    assert_int_equal(rig_used_blocks(r), 0);
    rig_reconnect(r);
    r->acknowledge = true;
    s.has_have = true;
    /* The Submit asks to keep it, which is no longer possible. */
    assert_int_equal(adopt(r, &s), ST_NOT_FOUND);
    s.keep_ms = 0;
    assert_int_equal(adopt(r, &s), ST_OK);
    rig_advance(r, 20000);
    rig_check_tokens(r, 2, 6, 20, 30);
    rig_check_empty(r);
    rig_free(&r);
}

static void keeps_it_if_its_end_comes_after_the_adoption(void **state)
{
    struct rig *r = lost_after(10, 1);
    struct rig_submit s = having(10);

    (void)state;
    s.keep_ms = 60000;
    rig_reconnect(r);
    assert_int_equal(adopt(r, &s), ST_OK);
    rig_run(r);
    assert_int_equal(rig_state(r, 6), STATE(KEPT));
    rig_free(&r);
}

static void ends_without_a_word_if_its_step_fails(void **state)
{
    struct rig *r = lost_after(5, 1);
    struct rig_submit s = having(5);

    (void)state;
    r->fails_with = 1;
    rig_step(r); /* and once more, alone */
    rig_step(r);
    rig_check_empty(r);
    rig_reconnect(r);
    assert_int_equal(r->n_lives, 0);
    assert_int_equal(adopt(r, &s), ST_NOT_FOUND);
    rig_free(&r);
}

static void goes_with_the_worker(void **state)
{
    struct rig *r = lost_after(5, 2);

    (void)state;
    rig_free(&r); /* stops the worker, and checks that the pool is whole */
}

/* ---- logprobs ---- */

static void waits_at_the_window_of_logprobs(void **state)
{
    struct worker_options o;
    struct rig_submit s = {.id = 3,
                           .n_prompt = 20,
                           .max_tokens = 400,
                           .logprobs = true,
                           .n_top = 3,
                           .has_have = true};
    struct rig *r;

    (void)state;
    rig_defaults(&o);
    r = rig_new(&o);
    rig_submit(r, &s);
    rig_turn(r);
    while (r->heard[1].n < 10) {
        rig_step(r);
    }
    rig_lose(r);
    r->answer_hello = false;
    rig_run(r); /* as far as the window allows */
    r->answer_hello = true;
    rig_reconnect(r);
    assert_in_range(r->live[0].n_generated, LOGPROB_WINDOW,
                    LOGPROB_WINDOW + 10);
    s.have = 10;
    assert_int_equal(adopt(r, &s), ST_OK);
    rig_run(r);
    rig_advance(r, 20000);
    rig_run(r);
    rig_check_tokens(r, 1, 3, 20, 400); /* and each logprob, by the rig */
    rig_check_empty(r);
    rig_free(&r);
}

/* ---- how long ---- */

static void ends_when_its_time_is_over(void **state)
{
    struct rig *r = lost_after(5, 1);

    (void)state;
    r->answer_hello = false;
    rig_advance(r, ORPHAN_US - 1000);
    assert_int_equal(rig_account(r).n_orphans, 1);
    rig_advance(r, 1000);
    assert_int_equal(rig_account(r).n_orphans, 0);
    assert_int_equal(rig_account(r).orphans_expired, 1);
    rig_run(r);
    rig_check_empty(r);
    r->answer_hello = true;
    rig_reconnect(r);
    assert_int_equal(r->n_lives, 0);
    rig_free(&r);
}

static void ends_if_the_next_session_does_not_want_it(void **state)
{
    struct rig *r = lost_after(5, 1);
    int64_t up_us;

    (void)state;
    rig_advance(r, 1000);
    rig_reconnect(r);
    up_us = r->now_us;
    assert_in_range(r->live[0].expires_ms, ORPHAN_US / 1000 - 2,
                    ORPHAN_US / 1000);
    rig_advance(r, ORPHAN_US - 5000);
    assert_int_equal(rig_account(r).n_orphans, 1);
    rig_advance(r, 5000);
    assert_int_equal(rig_account(r).n_orphans, 0);
    assert_true(r->now_us - up_us <= ORPHAN_US);
    rig_run(r);
    rig_check_empty(r);
    rig_free(&r);
}

/* Sessions that come and go do not extend its time for ever. */
static void does_not_live_by_flaps(void **state)
{
    struct rig *r = lost_after(5, 1);
    int64_t lost_us = r->now_us;
    uint32_t told = 0;

    (void)state;
    r->ticks = true; /* a worker with a stalled engine does not reconnect */
    while (rig_account(r).n_orphans > 0) {
        rig_reconnect(r);
        told += r->n_live;
        rig_lose(r);
        assert_true(r->now_us - lost_us <= 2 * ORPHAN_US + 1000);
        rig_advance(r, 1000);
    }
    assert_true(told > 1);
    rig_reconnect(r);
    rig_run(r);
    rig_check_empty(r);
    rig_free(&r);
}

static void lives_through_several_sessions(void **state)
{
    struct rig *r = lost_after(3, 2);

    (void)state;
    for (uint32_t n = 6; n <= 24; n += 3) {
        struct rig_submit s;
        uint32_t have = n - 3;

        rig_reconnect(r);
        s = having(have);
        assert_int_equal(adopt(r, &s), ST_OK);
        while (r->heard[1].n < n) {
            rig_step(r);
        }
        rig_lose(r);
    }
    rig_reconnect(r);
    assert_int_equal(adopt(r, &(struct rig_submit){.id = 6,
                                                   .n_prompt = 20,
                                                   .max_tokens = 30,
                                                   .has_have = true,
                                                   .have = 24}),
                     ST_OK);
    rig_run(r);
    rig_check_tokens(r, 1, 6, 20, 30);
    assert_int_equal(r->n_steps, 30);
    rig_free(&r);
}

/* ---- many ---- */

/* Finished orphans fill the table: a new sequence replaces the oldest of
 * them. */
static void makes_room_in_the_table(void **state)
{
    struct worker_options o;
    struct rig *r;
    struct rig_submit s = {.n_prompt = 4, .max_tokens = 1};
    uint32_t n;

    (void)state;
    rig_defaults(&o);
    o.pool.slot_cap = 1;
    r = rig_new(&o);
    r->acknowledge = false;
    for (s.id = 1; s.id <= 20; s.id++) {
        rig_submit(r, &s);
        rig_turn(r);
        rig_run(r);
    }
    n = rig_account(r).n_sequences;
    rig_submit(r, &s);
    rig_turn(r);
    assert_int_equal(r->ends[r->tag].status, ST_RESOURCE_EXHAUSTED);
    assert_int_equal(n, 20);
    rig_lose(r);
    rig_reconnect(r);
    assert_int_equal(r->n_live, 20);
    r->acknowledge = true;
    rig_submit(r, &s);
    rig_turn(r);
    rig_check_ok(r, r->tag);
    assert_int_equal(rig_account(r).n_orphans, 19);
    assert_int_equal(rig_state(r, 1), STATE(UNKNOWN));
    rig_run(r);
    rig_check_tokens(r, 1, 21, 4, 1);
    rig_free(&r);
}

static void tell_of(uint32_t n, uint32_t messages)
{
    struct worker_options o;
    struct rig *r;
    struct rig_submit s = {.n_prompt = 1, .max_tokens = 1};

    rig_defaults(&o);
    o.pool.slot_cap = LIVE_ROWS_MAX + 1;
    o.pool.n_pages = 3 * (LIVE_ROWS_MAX + 1);
    o.max_rows = 1;
    r = rig_new(&o);
    for (s.id = 1; s.id <= n; s.id++) {
        rig_submit(r, &s);
        if (s.id % 500 == 0) { /* limit of open calls */
            rig_turn(r);
        }
    }
    rig_turn(r);
    rig_lose(r);
    rig_reconnect(r);
    assert_int_equal(r->n_lives, messages);
    assert_int_equal(r->n_live, n);
    assert_int_equal(r->hello_live, n);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(r->live[i].id, i + 1);
    }
    rig_free(&r);
}

static void tells_of_many_in_several_messages(void **state)
{
    (void)state;
    tell_of(LIVE_ROWS_MAX, 1);
    tell_of(LIVE_ROWS_MAX + 1, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_on_from_wherever_it_was),
        cmocka_unit_test(tells_from_where_the_router_is),
        cmocka_unit_test(keeps_the_tokens_of_one_that_ended),
        cmocka_unit_test(does_not_find_what_is_gone),
        cmocka_unit_test(goes_on_where_it_waits_for_its_first_row),
        cmocka_unit_test(drops_the_others),
        cmocka_unit_test(ends_the_lease_of_what_is_kept),
        cmocka_unit_test(keeps_it_if_its_end_comes_after_the_adoption),
        cmocka_unit_test(ends_without_a_word_if_its_step_fails),
        cmocka_unit_test(goes_with_the_worker),
        cmocka_unit_test(waits_at_the_window_of_logprobs),
        cmocka_unit_test(ends_when_its_time_is_over),
        cmocka_unit_test(ends_if_the_next_session_does_not_want_it),
        cmocka_unit_test(does_not_live_by_flaps),
        cmocka_unit_test(lives_through_several_sessions),
        cmocka_unit_test(makes_room_in_the_table),
        cmocka_unit_test(tells_of_many_in_several_messages),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
