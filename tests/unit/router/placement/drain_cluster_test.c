/* Drain, Undrain and Leave in a cluster: where sequences move, which callers
 * get answers, and the limit of callers. */
#include <string.h>

#include "router/base/router_limits.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/router/rig_drain.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH
#define MS     1000

static void serves(struct fake *a, bool yes)
{
    Sluice__V1__Nothing m = SLUICE__V1__NOTHING__INIT;
    struct record *x = client_call(a, METHOD_HEALTH_CHECK, &m.base, 0);

    rig_run(a->rig);
    assert_int_equal(
        ((const Sluice__V1__HealthReply *)(const void *)x->reply)->serving,
        yes);
}

/* No other worker: a draining worker finishes its sequence, and a leaving one
 * returns it to the queue. */
static void alone(void **state)
{
    struct drain_scene s;
    struct record *d;

    (void)state;
    drain_bring_alone(&s, 10000 * MS);
    d = drain(s.a, "w1", 500);
    for (int i = 0; i < 20; i++) {
        rig_advance(s.rig, 500 * MS);
        worker_report(s.w1);
    }
    assert_int_equal(s.w1->n_cancels, 0);
    assert_false(d->ended);
    worker_give(s.w1, 1, 0, 8, LENGTH);
    told(d, 1, 1, 0);
    rig_end(&s.rig);
}

static void another_comes(void **state)
{
    struct drain_scene s;
    struct record *d;

    (void)state;
    drain_bring_alone(&s, 0);
    d = drain(s.a, "w1", 0);
    assert_false(d->ended);
    rig_worker(s.rig, "small", 1, 1); /* "small" could never hold it */
    assert_false(d->ended);
    s.w2 = rig_worker(s.rig, "w2", 2, 1);
    told(d, 1, 0, 1);
    drain_goes_on(&s, s.w2, 2);
    rig_end(&s.rig);
}

static void leaves(void **state)
{
    struct drain_scene s;

    (void)state;
    drain_bring(&s);
    told(leave(s.w1, 0), 1, 0, 1);
    state_is(s.a, 0, "leaving");
    assert_int_equal(undrain(s.a, "w1")->status, ST_FAILED_PRECONDITION);
    told(leave(s.w1, 0), 0, 0, 0);
    drain_goes_on(&s, s.w2, 2);
    rig_end(&s.rig);
}

/* A rolling restart of the only worker. */
static void leaves_and_comes_back(void **state)
{
    struct drain_scene s;
    struct record *y;

    (void)state;
    drain_bring_alone(&s, 1000 * MS);
    told(leave(s.w1, 0), 1, 0, 1);
    assert_int_equal(rig_state(s.rig, 1), CHOICE_WAITING);
    for (int i = 0; i < 20; i++) { /* the worker is slow to leave */
        rig_advance(s.rig, 500 * MS);
        worker_report(s.w1);
    }
    fake_lost(s.w1);
    y = client_generate(s.c, 2, 40, 4); /* a new request waits too */
    rig_advance(s.rig, 999 * MS);
    assert_int_equal(rig_state(s.rig, 1), CHOICE_WAITING);
    assert_int_equal(rig_state(s.rig, 2), CHOICE_WAITING);
    fake_reconnect(s.w1);
    drain_goes_on(&s, s.w1, 2);
    worker_give(s.w1, 2, 0, 4, LENGTH);
    record_check(y, 2, 0, 4);
    rig_end(&s.rig);
}

/* If the other workers could never hold a sequence, it fails instead of
 * waiting. */
static void leaves_what_fits_nowhere(void **state)
{
    struct drain_scene s;

    (void)state;
    drain_bring_alone(&s, 10000 * MS);
    rig_worker(s.rig, "small", 1, 1);
    told(leave(s.w1, 0), 1, 1, 0);
    assert_true(s.x->ended);
    assert_int_equal(s.x->status, ST_UNAVAILABLE);
    assert_int_equal(s.x->retry_ms, RETRY_MS_ABSENT);
    assert_non_null(strstr(s.x->error, "that are drained could hold 50"));
    rig_end(&s.rig);
}

static void several(void **state)
{
    struct drain_scene s;
    struct fake *b;
    struct record *slow, *fast, *late, *gone;

    (void)state;
    drain_bring(&s);
    b = rig_admin(s.rig, "a2");
    slow = drain(s.a, "w1", 60000);
    gone = drain(b, "w1", 50000);
    late = drain_within(s.a, "w1", 40000, 100);
    fake_lost(b);
    rig_advance(s.rig, 200 * MS);
    assert_int_equal(late->status, ST_DEADLINE_EXCEEDED);
    assert_false(gone->ended);
    worker_report(s.w1);
    state_is(s.a, 0, "draining"); /* the drain outlives both */
    fast = drain(s.a, "w1", 0);
    told(slow, 1, 0, 1);
    told(fast, 1, 0, 1);
    drain_goes_on(&s, s.w2, 2);
    rig_end(&s.rig);
}

static void undrained_on_the_way(void **state)
{
    struct drain_scene s;
    struct record *d, *y;

    (void)state;
    drain_bring(&s);
    y = client_generate(s.c, 2, 40, 4);
    rig_run(s.rig);
    s.w1->hold_receipts = true;
    d = drain(s.a, "w1", 0);
    worker_receipt(s.w1); /* of sequence 1, which has moved */
    rig_run(s.rig);
    assert_int_equal(undrain(s.a, "w1")->status, ST_OK);
    assert_true(d->ended);
    assert_int_equal(d->status, ST_ABORTED);
    assert_non_null(strstr(d->error, "w1 accepts sequences again"));
    worker_receipt(s.w1); /* the sequence that is moving still moves */
    rig_run(s.rig);
    drain_goes_on(&s, s.w2, 2);
    worker_give(worker_sequence_of(s.w1, 2) != NULL ? s.w1 : s.w2, 2, 0, 4,
                LENGTH);
    record_check(y, 2, 0, 4);
    rig_end(&s.rig);
}

/* Undrain of one worker lets sequences of the others move there. */
static void undrain_lets_others_go(void **state)
{
    struct drain_scene s;
    struct record *d;

    (void)state;
    drain_bring(&s);
    told(drain(s.a, "w2", 0), 0, 0, 0);
    d = drain(s.a, "w1", 0);
    assert_false(d->ended);
    assert_int_equal(undrain(s.a, "w2")->status, ST_OK);
    told(d, 1, 0, 1);
    drain_goes_on(&s, s.w2, 2);
    rig_end(&s.rig);
}

static void unknown(void **state)
{
    char long_name[65] = {0};
    struct rig *rig = rig_waiting(0);
    struct fake *a = rig_admin(rig, "a1");
    struct record *x = drain(a, "w9", 0);

    (void)state;
    assert_int_equal(x->status, ST_NOT_FOUND);
    assert_non_null(
        strstr(x->error, "no worker is named w9; connected workers: none"));
    rig_worker(rig, "w1", 64, 8);
    rig_worker(rig, "w2", 64, 8);
    x = undrain(a, "w9");
    assert_int_equal(x->status, ST_NOT_FOUND);
    assert_non_null(strstr(x->error, "connected workers: w1, w2"));
    for (int i = 3; i < 12; i++) { /* more names than an error text can hold */
        memset(long_name, 'a' + i, 60);
        rig_worker(rig, long_name, 64, 8);
    }
    x = drain(a, "w9", 0);
    assert_non_null(strstr(x->error, ", ..."));
    assert_int_equal(drain(a, "", 0)->status, ST_INVALID_ARGUMENT);
    rig_end(&rig);
}

static void limits(void **state)
{
    struct drain_scene s;
    struct record *d[DRAIN_CALLS_MAX], *x;

    (void)state;
    drain_bring(&s);
    assert_int_equal(drain(s.a, "w1", GRACE_MS_MAX + 1)->status,
                     ST_INVALID_ARGUMENT);
    assert_int_equal(leave(s.w1, GRACE_MS_MAX + 1)->status,
                     ST_INVALID_ARGUMENT);
    for (int i = 0; i < DRAIN_CALLS_MAX; i++) {
        d[i] = drain(s.a, "w1", GRACE_MS_MAX);
        assert_false(d[i]->ended);
    }
    x = drain(s.a, "w1", 0);
    assert_int_equal(x->status, ST_RESOURCE_EXHAUSTED);
    assert_true(x->retry_ms > 0);
    assert_int_equal(s.w1->n_cancels,
                     0); /* the refused Drain changed nothing */
    x = leave(s.w1, 0);  /* Leave has no limit */
    told(x, 1, 0, 1);
    for (int i = 0; i < DRAIN_CALLS_MAX; i++) {
        told(d[i], 1, 0, 1);
    }
    drain_goes_on(&s, s.w2, 2);
    rig_end(&s.rig);
}

static void lost_while_it_drains(void **state)
{
    struct drain_scene s;
    struct record *d;

    (void)state;
    drain_bring(&s);
    s.w1->hold_receipts = true;
    d = drain(s.a, "w1", 0);
    assert_false(d->ended);
    fake_lost(s.w1);
    rig_run(s.rig);
    told(d, 1, 0, 1);
    drain_goes_on(&s, s.w2, 2);
    fake_reconnect(s.w1); /* a new session is not draining */
    state_is(s.a, 1, "up");
    rig_end(&s.rig);
}

static void the_router_stops(void **state)
{
    struct drain_scene s;
    struct record *d;

    (void)state;
    drain_bring(&s);
    d = drain(s.a, "w1", 1000);
    router_stop(s.rig->router);
    rig_run(s.rig);
    assert_true(s.rig->stopped);
    assert_true(d->ended || s.a->gone); /* whichever the router notices first */
    rig_free(&s.rig);
}

/* Moves during drains do not count against IDLE_MOVES_MAX. */
static void moves_cost_nothing(void **state)
{
    struct drain_scene s;

    (void)state;
    drain_bring(&s);
    for (int i = 0; i < IDLE_MOVES_MAX; i++) {
        told(drain(s.a, "w1", 0), 1, 0, 1);
        undrain(s.a, "w1");
        told(drain(s.a, "w2", 0), 1, 0, 1);
        undrain(s.a, "w2");
        worker_report(s.w1); /* for the room that was freed */
        worker_report(s.w2);
    }
    drain_goes_on(&s, s.w1, 2);
    assert_int_equal(s.x->figures.n_moves, 2 * IDLE_MOVES_MAX);
    rig_end(&s.rig);
}

static void all_are_drained(void **state)
{
    struct drain_scene s;
    struct record *d, *y, *z;

    (void)state;
    drain_bring_alone(&s, 1000 * MS);
    serves(s.a, true);
    d = drain(s.a, "w1", 0);
    serves(s.a, false);
    y = client_generate(s.c, 2, 40, 4);
    for (int i = 0; i < 4;
         i++) { /* other requests wait while the leaving worker has sequences */
        rig_advance(s.rig, 500 * MS);
        worker_report(s.w1);
    }
    assert_int_equal(rig_state(s.rig, 2), CHOICE_WAITING);
    worker_give(s.w1, 1, 0, 8, LENGTH);
    told(d, 1, 1, 0);
    rig_advance(s.rig, 900 * MS);
    worker_report(s.w1);
    assert_int_equal(rig_state(s.rig, 2), CHOICE_WAITING);
    rig_advance(s.rig, 200 * MS);
    assert_int_equal(y->status, ST_UNAVAILABLE);
    assert_int_equal(y->retry_ms, RETRY_MS_ABSENT);
    assert_non_null(strstr(y->error, "every worker of model tiny is drained"));
    z = client_generate(s.c, 3, 40, 4);
    rig_run(s.rig);
    assert_int_equal(z->status, ST_UNAVAILABLE);
    worker_report(s.w1);
    undrain(s.a, "w1");
    z = client_generate(s.c, 4, 40, 4);
    rig_run(s.rig);
    worker_give(s.w1, 4, 0, 4, LENGTH);
    record_check(z, 4, 0, 4);
    rig_end(&s.rig);
}

/* A request that only a draining worker could hold does not block the queue. */
static void only_the_drained_could(void **state)
{
    struct drain_scene s;
    struct record *d, *y, *z;

    (void)state;
    drain_bring(&s);
    client_generate(s.c, 2, 40, 32 * 60); /* w1 is full now */
    y = client_generate(s.c, 3, 40, 32 * 40);
    rig_run(s.rig);
    assert_int_equal(rig_state(s.rig, 3), CHOICE_WAITING);
    d = drain(s.a, "w1", 60000);
    rig_run(s.rig);
    assert_int_equal(y->status, ST_UNAVAILABLE);
    z = client_generate(s.c, 4, 40, 32 * 40);
    rig_run(s.rig);
    assert_int_equal(z->status, ST_UNAVAILABLE);
    assert_non_null(strstr(z->error, "that are drained could hold"));
    assert_false(d->ended);
    rig_free(&s.rig);
}

/* While all workers drain, every request waits.  Once a worker opens that could
 * never hold a request, the request fails. */
static void only_one_that_is_still_drained_could(void **state)
{
    struct drain_scene s;
    struct record *y, *z;

    (void)state;
    drain_bring(&s);
    client_generate(s.c, 2, 40, 32 * 60); /* w1 is full now */
    y = client_generate(s.c, 3, 40, 32 * 40);
    z = client_generate(s.c, 4, 40, 4);
    rig_run(s.rig);
    assert_int_equal(rig_state(s.rig, 3), CHOICE_WAITING);
    drain(s.a, "w2", 60000);
    drain(s.a, "w1", 60000);
    assert_int_equal(rig_state(s.rig, 3), CHOICE_WAITING);
    undrain(s.a, "w2");
    assert_int_equal(y->status, ST_UNAVAILABLE);
    assert_non_null(strstr(y->error, "that are drained could hold"));
    worker_give(s.w2, 4, 0, 4, LENGTH);
    record_check(z, 4, 0, 4);
    rig_free(&s.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone),
        cmocka_unit_test(another_comes),
        cmocka_unit_test(leaves),
        cmocka_unit_test(leaves_and_comes_back),
        cmocka_unit_test(leaves_what_fits_nowhere),
        cmocka_unit_test(several),
        cmocka_unit_test(undrained_on_the_way),
        cmocka_unit_test(undrain_lets_others_go),
        cmocka_unit_test(unknown),
        cmocka_unit_test(limits),
        cmocka_unit_test(lost_while_it_drains),
        cmocka_unit_test(the_router_stops),
        cmocka_unit_test(moves_cost_nothing),
        cmocka_unit_test(all_are_drained),
        cmocka_unit_test(only_the_drained_could),
        cmocka_unit_test(only_one_that_is_still_drained_could),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
