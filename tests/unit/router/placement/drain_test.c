/* Drain: which sequences finish, which move, and how they meet other calls. */
#include <string.h>

#include "router/base/router_limits.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/router/rig_drain.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH
#define MOVED  SLUICE__V1__CANCEL_REASON__CANCEL_MOVED
#define MS     1000

static void nothing_is_there(void **state)
{
    struct rig *rig = rig_waiting(0);
    struct fake *w1 = rig_worker(rig, "w1", 64, 8), *w2;
    struct fake *c = rig_client(rig, "c1"), *a = rig_admin(rig, "a1");

    (void)state;
    w2 = rig_worker(rig, "w2", 4, 1);
    told(drain(a, "w1", 1000), 0, 0, 0);
    state_is(a, 0, "drained");
    state_is(a, 1, "up");
    client_generate(c, 1, 40, 10); /* w1 has more room */
    client_generate(c, 2, 40, 10); /* w2 has none left */
    rig_run(rig);
    assert_int_equal(w1->n_submits, 0);
    assert_int_equal(w2->n_submits, 1);
    told(drain(a, "w1", 0), 0, 0, 0); /* a second Drain */
    assert_int_equal(undrain(a, "w1")->status, ST_OK);
    assert_int_equal(undrain(a, "w1")->status, ST_OK); /* repeatable */
    assert_int_equal(w1->n_submits, 1);
    state_is(a, 0, "up");
    rig_free(&rig);
}

static void ends_within_the_grace(void **state)
{
    struct drain_scene s;
    struct record *d;

    (void)state;
    drain_bring(&s);
    d = drain(s.a, "w1", 1000);
    rig_advance(s.rig, 900 * MS);
    worker_report(s.w1);
    rig_run(s.rig);
    state_is(s.a, 0, "draining");
    assert_false(d->ended);
    worker_give(s.w1, 1, 0, 8, LENGTH);
    told(d, 1, 1, 0);
    assert_true(
        ((const Sluice__V1__DrainReply *)(const void *)d->reply)->micros >=
        900 * MS);
    record_check(s.x, 1, 0, 10);
    assert_int_equal(s.w1->n_cancels, 0);
    rig_end(&s.rig);
}

static void moves_after_the_grace(void **state)
{
    struct drain_scene s;
    struct record *d;

    (void)state;
    drain_bring(&s);
    d = drain(s.a, "w1", 500);
    rig_advance(s.rig, 499 * MS);
    assert_int_equal(s.w1->n_cancels, 0);
    s.w1->hold_receipts = true;
    rig_advance(s.rig, 1 * MS);
    assert_int_equal(s.w1->n_cancels, 1);
    assert_int_equal(s.w1->last_reason, MOVED);
    /* Tokens of the step in progress are not lost. */
    worker_give(s.w1, 1, 0, 1, 0);
    record_check(s.x, 1, 0, 3);
    assert_false(d->ended);
    assert_int_equal(s.w2->n_submits, 0);
    worker_receipt(s.w1);
    rig_run(s.rig);
    told(d, 1, 0, 1);
    assert_int_equal(s.w2->n_submits, 1);
    drain_goes_on(&s, s.w2, 3);
    assert_int_equal(s.x->figures.n_moves, 1);
    rig_end(&s.rig);
}

/* The worker's row reports the end before its receipt does. */
static void let_go_before_the_receipt(void **state)
{
    struct drain_scene s;
    struct record *d;

    (void)state;
    drain_bring(&s);
    s.w1->hold_receipts = true;
    d = drain(s.a, "w1", 0);
    worker_give(s.w1, 1, 0, 1, SLUICE__V1__FINISH__FINISH_CANCELLED);
    record_check(s.x, 1, 0, 3);
    assert_false(s.x->ended || d->ended);
    worker_receipt(s.w1);
    rig_run(s.rig);
    told(d, 1, 0, 1);
    drain_goes_on(&s, s.w2, 3);
    rig_end(&s.rig);
}

/* Late rows of the old grant are acknowledged and dropped. */
static void late_rows(void **state)
{
    uint64_t grant = 1;
    uint32_t first = 2, count = 1, finish = 0, was = 4, token;
    Sluice__V1__StepOutputMessage m = SLUICE__V1__STEP_OUTPUT_MESSAGE__INIT;
    struct drain_scene s;

    (void)state;
    drain_bring(&s);
    told(drain(s.a, "w1", 0), 1, 0, 1);
    token = choice_token((const uint8_t[16]){1}, 0, 2);
    m.n_grant = m.n_first_index = m.n_count = m.n_finish = m.n_state = 1;
    m.n_tokens = 1;
    m.grant = &grant;
    m.first_index = &first;
    m.count = &count;
    m.finish = &finish;
    m.state = &was;
    m.tokens = &token;
    worker_say(s.w1, &m);
    rig_run(s.rig);
    assert_true(s.w1->last_ack_grant == 1);
    assert_true(s.w1->last_ack_index == UINT32_MAX);
    record_check(s.x, 1, 0, 2);
    drain_goes_on(&s, s.w2, 2);
    rig_end(&s.rig);
}

static void in_every_state(void **state)
{
    struct drain_scene s;
    struct record *y;

    (void)state;
    drain_bring(&s);
    s.w1->hold_submits = true;
    y = client_generate(s.c, 2, 40, 4); /* the sequence stays SUBMITTED */
    rig_run(s.rig);
    assert_int_equal(rig_state(s.rig, 2), CHOICE_SUBMITTED);
    told(drain(s.a, "w1", 0), 2, 0, 2);
    drain_goes_on(&s, s.w2, 2);
    worker_give(s.w2, 2, 0, 4, LENGTH);
    record_check(y, 2, 0, 4);
    rig_end(&s.rig);
}

/* A Submit with missing ids is refused when the Cancel comes. */
static void refused_while_it_moves(void **state)
{
    struct drain_scene s;
    struct record *d, *y;
    struct error e;

    (void)state;
    drain_bring(&s);
    s.w1->hold_submits = s.w1->hold_receipts = true;
    y = client_generate(s.c, 2, 40, 4);
    rig_run(s.rig);
    d = drain(s.a, "w1", 0);
    error_set(&e, ST_CANCELLED, "cancelled before all of its ids had come");
    peer_fail(s.w1->peer, worker_sequence_of(s.w1, 2)->call, &e, 0);
    rig_run(s.rig);
    assert_false(d->ended); /* the other sequence's receipt is still missing */
    assert_int_equal(s.w2->n_submits, 1);
    worker_receipt(s.w1);
    worker_receipt(s.w1); /* a receipt of a forgotten grant */
    rig_run(s.rig);
    told(d, 2, 0, 2);
    drain_goes_on(&s, s.w2, 2);
    worker_give(s.w2, 2, 0, 4, LENGTH);
    record_check(y, 2, 0, 4);
    rig_end(&s.rig);
}

static void ends_while_it_moves(void **state)
{
    struct drain_scene s;
    struct record *d;

    (void)state;
    drain_bring(&s);
    s.w1->hold_receipts = true;
    d = drain(s.a, "w1", 0);
    worker_give(s.w1, 1, 0, 8, LENGTH);
    record_check(s.x, 1, 0, 10);
    told(d, 1, 1, 0);
    worker_receipt(s.w1);
    rig_run(s.rig);
    assert_int_equal(s.w2->n_submits, 0);
    rig_end(&s.rig);
}

static void cancelled_while_it_moves(void **state)
{
    struct drain_scene s;
    struct record *d, *k;

    (void)state;
    drain_bring(&s);
    s.w1->hold_receipts = true;
    d = drain(s.a, "w1", 0);
    k = client_cancel(s.c, 1);
    rig_run(s.rig);
    assert_int_equal(s.w1->n_cancels, 1); /* one Cancel serves both callers */
    worker_receipt(s.w1);
    rig_run(s.rig);
    assert_true(k->ended);
    assert_int_equal(k->receipt.blocks, 2);
    assert_int_equal(s.x->finish, SLUICE__V1__FINISH__FINISH_CANCELLED);
    told(d, 1, 1, 0);
    assert_int_equal(s.w2->n_submits, 0);
    rig_end(&s.rig);
}

static void what_is_ending_ends(void **state)
{
    struct drain_scene s;
    struct record *d, *k;

    (void)state;
    drain_bring(&s);
    s.w1->hold_receipts = true;
    k = client_cancel(s.c, 1);
    rig_run(s.rig);
    d = drain(s.a, "w1", 0);
    assert_int_equal(s.w1->n_cancels, 1);
    assert_false(d->ended);
    worker_receipt(s.w1);
    rig_run(s.rig);
    assert_true(k->ended);
    told(d, 1, 1, 0);
    rig_end(&s.rig);
}

static void what_is_kept_is_kept_for_the_grace(void **state)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct rig *rig = rig_waiting(0);
    struct fake *w1 = rig_worker(rig, "w1", 64, 8);
    struct fake *c = rig_client(rig, "c1"), *a = rig_admin(rig, "a1");
    struct record *d;

    (void)state;
    rig_worker(rig, "w2", 32, 8);
    m.model = wire_text("tiny");
    m.has_keep_ms = true;
    m.keep_ms = 600000;
    client_generate_with(c, 1, 40, 4, &m, 0);
    rig_run(rig);
    worker_give(w1, 1, 0, 4, LENGTH);
    d = drain(a, "w1", 500);
    rig_advance(rig, 499 * MS);
    assert_int_equal(w1->n_removes, 0);
    assert_false(d->ended);
    rig_advance(rig, 1 * MS);
    assert_int_equal(w1->n_removes, 1);
    told(d, 1, 1, 0);
    assert_null(worker_sequence_of(w1, 1));
    rig_free(&rig); /* the lease goes on, from its ids */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_there),
        cmocka_unit_test(ends_within_the_grace),
        cmocka_unit_test(moves_after_the_grace),
        cmocka_unit_test(let_go_before_the_receipt),
        cmocka_unit_test(late_rows),
        cmocka_unit_test(in_every_state),
        cmocka_unit_test(refused_while_it_moves),
        cmocka_unit_test(ends_while_it_moves),
        cmocka_unit_test(cancelled_while_it_moves),
        cmocka_unit_test(what_is_ending_ends),
        cmocka_unit_test(what_is_kept_is_kept_for_the_grace),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
