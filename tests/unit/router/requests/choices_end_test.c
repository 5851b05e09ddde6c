/* How several choices of one Generate end: by failures, by lost workers, and
 * with their call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/router/rig.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH
#define FAILED SLUICE__V1__FINISH__FINISH_FAILED

/* If one choice fails, the call ends with its error, and the others are
 * cancelled, whether they run (even in the same step) or wait. */
static void one_that_fails_fails_the_call(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 6, 8);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate_n(c, 1, 5, 40, 4);
    struct router_metrics k;

    (void)state;
    rig_run(rig);
    worker_give(w, 1, 0, 2, 0);
    worker_make(w, worker_choice_of(w, 1, 0), 1, FAILED);
    worker_make(w, worker_choice_of(w, 1, 1), 4, LENGTH);
    worker_make(w, worker_choice_of(w, 1, 2), 2, 0);
    worker_step(w);
    rig_run(rig);
    assert_true(x->ended);
    assert_int_equal(x->status, ST_INTERNAL);
    assert_string_equal(x->error, "worker w1: the sequence failed");
    assert_int_equal(w->n_cancels, 2);
    assert_int_equal(w->last_reason,
                     SLUICE__V1__CANCEL_REASON__CANCEL_CHOICE_FAILED);
    assert_int_equal(w->n_submits, 3);
    router_counts(rig->router, &k);
    assert_int_equal(k.failed, 1);
    assert_int_equal(k.cancelled + k.finished, 4);
    rig_end(&rig);
}

static void one_that_is_refused_fails_the_call(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *c = rig_client(rig, "c1");
    struct record *x;

    (void)state;
    w->refuse_submits = ST_INVALID_ARGUMENT;
    x = client_generate_n(c, 1, 3, 40, 4);
    rig_run(rig);
    assert_true(x->ended);
    assert_int_equal(x->status, ST_INVALID_ARGUMENT);
    assert_string_equal(x->error, "worker w1 refused the sequence: not now");
    assert_int_equal(w->n_cancels,
                     2); /* submitted before the failure arrived */
    rig_end(&rig);
}

/* The choices of the lost worker move to the other one; the rest are
 * unaffected. */
static void a_worker_of_some_choices_is_lost(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w1 = rig_worker(rig, "w1", 64, 8);
    struct fake *w2 = rig_worker(rig, "w2", 64, 8);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate_n(c, 1, 4, 8, 10);

    (void)state;
    rig_run(rig);
    assert_int_equal(w1->n_submits, 2);
    assert_int_equal(w2->n_submits, 2);
    for (uint32_t q = 0; q < 4; q++) {
        struct fake *w = worker_choice_of(w1, 1, q) != NULL ? w1 : w2;
        worker_give(w, 1, q, q + 1, 0);
    }
    fake_lost(w1);
    rig_run(rig);
    assert_int_equal(w2->n_submits, 4);
    for (uint32_t q = 0; q < 4; q++) {
        assert_int_equal(worker_choice_of(w2, 1, q)->n_tokens, q + 1);
        worker_give(w2, 1, q, 9 - q, LENGTH);
        record_check(x, 1, q, 10);
    }
    assert_true(x->ended);
    assert_int_equal(x->status, ST_OK);
    assert_int_equal(x->figures.n_moves + record_choice(x, 1)->figures.n_moves +
                         record_choice(x, 2)->figures.n_moves +
                         record_choice(x, 3)->figures.n_moves,
                     2);
    rig_end(&rig);
}

/* Lost choices wait in their order of arrival, in whatever order workers are
 * lost. */
static void lost_choices_keep_their_order(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w3 = rig_worker(rig, "w3", 8, 8);
    struct fake *c = rig_client(rig, "c1");
    struct fake *w1, *w2;

    (void)state;
    client_generate(c, 99, 200, 56); /* fills w3 */
    rig_run(rig);
    w1 = rig_worker(rig, "w1", 64, 8);
    w2 = rig_worker(rig, "w2", 64, 8);
    client_generate_n(c, 1, 4, 8, 10);
    rig_run(rig);
    assert_non_null(worker_choice_of(w1, 1, 0));
    assert_non_null(worker_choice_of(w2, 1, 1));
    assert_non_null(worker_choice_of(w1, 1, 2));
    assert_non_null(worker_choice_of(w2, 1, 3));
    for (uint32_t q = 0; q < 4; q++) { /* none is a suspect */
        worker_give(q % 2 ? w2 : w1, 1, q, 2, 0);
    }
    fake_lost(w2);
    rig_run(rig);
    worker_give(w1, 1, 1, 2, 0);
    worker_give(w1, 1, 3, 2, 0);
    fake_lost(w1);
    rig_run(rig);
    assert_int_equal(w3->n_submits, 1);
    worker_give(w3, 99, 0, 56, LENGTH);
    assert_int_equal(w3->n_submits, 5);
    for (uint32_t q = 0; q < 4; q++) {
        assert_int_equal(worker_choice_of(w3, 1, q)->grant, 2 + q);
    }
    rig_free(&rig);
}

/* If the last worker leaves, the call ends once; so does a waiting request that
 * no other worker can hold. */
static void nobody_is_left_to_run_them(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 6, 8);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate_n(c, 1, 5, 40, 4);

    (void)state;
    rig_run(rig);
    fake_lost(w);
    rig_run(rig);
    assert_true(x->ended);
    assert_int_equal(x->status, ST_UNAVAILABLE);
    rig_end(&rig);
}

static void what_waits_fits_nowhere_any_more(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *small = rig_worker(rig, "small", 2, 8);
    struct fake *large = rig_worker(rig, "large", 16, 8);
    struct fake *c = rig_client(rig, "c1");
    struct record *first = client_generate_n(c, 1, 2, 200, 56);
    struct record *x = client_generate_n(c, 2, 3, 200, 56);
    struct record *y = client_generate_n(c, 3, 2, 40, 4);
    struct record *z = client_generate_n(c, 4, 3, 200, 56);

    (void)state;
    rig_run(rig);
    assert_int_equal(large->n_submits, 2);
    fake_lost(large);
    rig_run(rig);
    assert_int_equal(first->status, ST_RESOURCE_EXHAUSTED);
    assert_int_equal(x->status, ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(x->error, "it can never run"));
    assert_int_equal(z->status, ST_RESOURCE_EXHAUSTED);
    assert_false(y->ended);
    worker_give(small, 3, 0, 4, LENGTH);
    worker_give(small, 3, 1, 4, LENGTH);
    assert_true(y->ended);
    assert_int_equal(y->status, ST_OK);
    rig_end(&rig);
}

/* All choices end with the call: by its deadline, its caller, or its client. */
static void all_end_with_the_call(void **state)
{
    static const Sluice__V1__CancelReason reasons[] = {
        SLUICE__V1__CANCEL_REASON__CANCEL_DEADLINE,
        SLUICE__V1__CANCEL_REASON__CANCEL_BY_CLIENT,
        SLUICE__V1__CANCEL_REASON__CANCEL_CLIENT_GONE};

    (void)state;
    for (int how = 0; how < 3; how++) {
        struct rig *rig = rig_new(NULL);
        struct fake *w = rig_worker(rig, "w1", 6, 8);
        struct fake *c = rig_client(rig, "c1");
        Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
        struct record *x;

        m.model = wire_text("tiny");
        m.has_n = true;
        m.n = 5; /* one ends, three run, one waits */
        x = client_generate_with(c, 1, 40, 4, &m, how == 0 ? 500 : 0);
        rig_run(rig);
        worker_give(w, 1, 0, 4, LENGTH);
        worker_give(w, 1, 1, 2, 0);
        assert_int_equal(rig_choice_state(rig, 1, 4), CHOICE_WAITING);
        if (how == 0) {
            rig_advance(rig, 600000);
            assert_int_equal(x->status, ST_DEADLINE_EXCEEDED);
        } else if (how == 1) {
            client_give_up(c, x);
        } else {
            fake_lost(c);
        }
        rig_run(rig);
        assert_int_equal(w->n_cancels, 3);
        assert_int_equal(w->last_reason, reasons[how]);
        assert_int_equal(w->n_submits, 4);
        rig_end(&rig);
    }
}

static void the_router_stops(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 6, 8);
    struct fake *c = rig_client(rig, "c1");
    struct fake *other = rig_client(rig, "c2");
    struct record *x = client_generate_n(c, 1, 5, 40, 4), *one, *all;

    (void)state;
    rig_run(rig);
    worker_give(w, 1, 0, 4, LENGTH);
    worker_give(w, 1, 1, 2, 0);
    w->hold_receipts = true;
    one = client_cancel_choice(other, 1, 1);
    all = client_cancel(other, 1);
    rig_run(rig);
    router_stop(rig->router);
    rig_run(rig);
    assert_false(x->ended); /* the end of the session ends the call */
    assert_int_equal(one->status, ST_UNAVAILABLE);
    assert_int_equal(all->status, ST_UNAVAILABLE);
    assert_true(c->gone && w->gone);
    rig_free(&rig);
}

/* A kept choice stays at its worker until its lease ends or it is removed. */
static void kept_choices(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *c = rig_client(rig, "c1");
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct record *x, *k, *again;

    (void)state;
    m.model = wire_text("tiny");
    m.has_n = m.has_keep_ms = true;
    m.n = 3;
    m.keep_ms = 2000;
    x = client_generate_with(c, 1, 40, 4, &m, 0);
    rig_run(rig);
    for (uint32_t q = 0; q < 3; q++) {
        worker_give(w, 1, q, 4, LENGTH);
    }
    assert_true(x->ended);
    worker_choice_of(w, 1, 2)->acked =
        0; /* as if no acknowledgement had come */
    worker_choice_of(w, 1, 2)->finished = false;
    worker_step(w);
    k = client_remove_choice(c, 1, 1);
    again = client_generate(c, 1, 40, 4);
    rig_run(rig);
    assert_int_equal(k->receipt.state,
                     SLUICE__V1__SEQUENCE_STATE__SEQUENCE_KEPT);
    assert_int_equal(k->receipt.blocks, 2);
    assert_int_equal(again->status, ST_ALREADY_EXISTS);
    assert_string_equal(
        again->error,
        "a request with this id exists; its state is kept; remove it first");
    for (int i = 0; i < 14; i++) {
        rig_advance(rig, 200000);
        worker_report(w);
    }
    again = client_generate(c, 1, 40, 4);
    rig_run(rig);
    assert_int_equal(again->status, ST_ALREADY_EXISTS);
    rig_advance(rig, 300000); /* the leases end */
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_fails_fails_the_call),
        cmocka_unit_test(one_that_is_refused_fails_the_call),
        cmocka_unit_test(a_worker_of_some_choices_is_lost),
        cmocka_unit_test(lost_choices_keep_their_order),
        cmocka_unit_test(nobody_is_left_to_run_them),
        cmocka_unit_test(what_waits_fits_nowhere_any_more),
        cmocka_unit_test(all_end_with_the_call),
        cmocka_unit_test(the_router_stops),
        cmocka_unit_test(kept_choices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
