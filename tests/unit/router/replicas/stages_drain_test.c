/* A stage that drains or leaves takes its replica with it. */
#include <string.h>

#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/router/rig_drain.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH
#define MS     1000

/* Sequence 1 runs at w[0], the leader of three stages, with two tokens.  A
 * worker with all layers and less room is beside it. */
struct scene {
    struct rig *rig;
    struct fake *w[3], *whole, *c, *a;
    struct record *x;
};

static void bring_alone(struct scene *s)
{
    memset(s, 0, sizeof *s);
    s->rig = rig_waiting(10000 * MS);
    rig_replica(s->rig, s->w, 3);
    s->c = rig_client(s->rig, "c1");
    s->a = rig_admin(s->rig, "a1");
    s->x = client_generate(s->c, 1, 40, 10);
    rig_run(s->rig);
    worker_give(s->w[0], 1, 0, 2, 0);
    record_check(s->x, 1, 0, 2);
}

static void bring(struct scene *s)
{
    bring_alone(s);
    s->whole = rig_worker(s->rig, "whole", 16, 2);
}

static void states_are(struct scene *s, const char *const *state)
{
    Sluice__V1__ListRequest m = SLUICE__V1__LIST_REQUEST__INIT;
    struct record *x = client_call(s->a, METHOD_ADMIN_LIST_WORKERS, &m.base, 0);
    const Sluice__V1__ListWorkersReply *l;

    rig_run(s->rig);
    l = (const void *)x->reply;
    for (size_t i = 0; i < 3; i++) {
        const ProtobufCBinaryData *is = &l->workers[i]->state;

        assert_int_equal(is->len, strlen(state[i]));
        assert_memory_equal(is->data, state[i], is->len);
    }
}

static bool serves(struct scene *s)
{
    Sluice__V1__Nothing m = SLUICE__V1__NOTHING__INIT;
    struct record *x = client_call(s->a, METHOD_HEALTH_CHECK, &m.base, 0);

    rig_run(s->rig);
    return ((const Sluice__V1__HealthReply *)(const void *)x->reply)->serving;
}

static void goes_on(struct scene *s, struct fake *w, uint32_t had)
{
    const struct sequence *q = worker_sequence_of(w, 1);

    assert_non_null(q);
    assert_int_equal(q->n_given, had);
    worker_give(w, 1, 0, 10 - had, LENGTH);
    assert_int_equal(s->x->status, ST_OK);
    record_check(s->x, 1, 0, 10);
}

static void of_any_stage(void **state)
{
    static const char *const names[] = {"w0", "w1", "w2"};

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct scene s;
        struct record *d, *y;

        bring(&s);
        assert_true(serves(&s));
        assert_int_equal(drain(s.a, "whole", 0)->status, ST_OK);
        d = drain(s.a, names[i], 60000);
        assert_false(d->ended || serves(&s));
        assert_int_equal(undrain(s.a, "whole")->status, ST_OK);
        states_are(&s,
                   (const char *const[]){"draining", "draining", "draining"});
        y = client_generate(s.c, 2, 40, 4);
        rig_run(s.rig);
        assert_non_null(worker_sequence_of(s.whole, 2));
        worker_give(s.w[0], 1, 0, 8, LENGTH);
        told(d, 1, 1, 0);
        states_are(&s, (const char *const[]){"drained", "drained", "drained"});
        worker_give(s.whole, 2, 0, 4, LENGTH);
        record_check(y, 2, 0, 4);
        rig_end(&s.rig);
    }
}

static void moves_after_the_grace(void **state)
{
    struct scene s;
    struct record *d;

    (void)state;
    bring(&s);
    s.w[0]->hold_receipts = true;
    d = drain(s.a, "w1", 500);
    rig_advance(s.rig, 499 * MS);
    assert_int_equal(s.w[0]->n_cancels, 0);
    rig_advance(s.rig, 1 * MS);
    assert_int_equal(s.w[0]->n_cancels,
                     1); /* only the leader gets the Cancel */
    assert_int_equal(s.w[1]->n_cancels + s.w[2]->n_cancels, 0);
    assert_false(d->ended);
    worker_receipt(s.w[0]);
    rig_run(s.rig);
    told(d, 1, 0, 1);
    goes_on(&s, s.whole, 2);
    rig_end(&s.rig);
}

/* Two stages drain: both calls get answers, and one Undrain opens the replica.
 */
static void of_two_stages(void **state)
{
    struct scene s;
    struct record *d, *e, *y;

    (void)state;
    bring_alone(&s);
    d = drain(s.a, "w1", 60000);
    e = drain(s.a, "w2", 60000);
    assert_int_equal(undrain(s.a, "w0")->status, ST_OK);
    assert_int_equal(d->status, ST_ABORTED);
    assert_int_equal(e->status, ST_ABORTED);
    assert_non_null(strstr(d->error, "w1 accepts sequences again"));
    assert_non_null(strstr(e->error, "w2 accepts sequences again"));
    states_are(&s, (const char *const[]){"up", "up", "up"});
    y = client_generate(s.c, 2, 40, 4);
    rig_run(s.rig);
    worker_give(s.w[0], 2, 0, 4, LENGTH);
    record_check(y, 2, 0, 4);
    worker_give(s.w[0], 1, 0, 8, LENGTH); /* the sequence has not moved */
    record_check(s.x, 1, 0, 10);
    rig_end(&s.rig);
}

/* A leaving stage moves the sequences of the replica; the other stages wait for
 * it. */
static void leaves_and_comes_back(void **state)
{
    struct scene s;
    struct record *y;

    (void)state;
    bring_alone(&s);
    told(leave(s.w[2], 0), 1, 0, 1);
    assert_int_equal(rig_state(s.rig, 1), CHOICE_WAITING);
    states_are(&s, (const char *const[]){"drained", "drained", "leaving"});
    assert_int_equal(undrain(s.a, "w0")->status, ST_FAILED_PRECONDITION);
    fake_lost(s.w[2]);
    rig_run(s.rig);
    assert_true(s.w[0]->gone && s.w[1]->gone);
    assert_non_null(
        strstr(s.w[0]->goodbye, "its replica has ended: worker w2"));
    fake_reconnect(s.w[0]);
    fake_reconnect(s.w[1]);
    y = client_generate(s.c, 2, 40, 4); /* the new request waits, too */
    rig_run(s.rig);
    fake_restart(s.w[2]);
    assert_int_equal(s.w[0]->n_assembles, 2);
    goes_on(&s, s.w[0], 2);
    worker_give(s.w[0], 2, 0, 4, LENGTH);
    record_check(y, 2, 0, 4);
    rig_end(&s.rig);
}

/* Whichever session ends, the sequences move, and callers that drain another
 * stage get their answer. */
static void lost_while_it_drains(void **state)
{
    (void)state;
    for (int lost = 0; lost < 3; lost++) {
        struct scene s;
        struct record *d;

        bring(&s);
        s.w[0]->hold_receipts = true;
        d = drain(s.a, "w1", 0);
        assert_false(d->ended);
        fake_lost(s.w[lost]);
        rig_run(s.rig);
        told(d, 1, 0, 1);
        goes_on(&s, s.whole, 2);
        rig_end(&s.rig);
    }
}

/* A stage in no replica is drained at once, and is not assembled. */
static void in_no_replica(void **state)
{
    const struct rig_options o = {
        .max_peers = 16, .max_requests = 16, .max_waiting = 16};
    struct scene s = {.rig = rig_new(&o)};
    struct fake *w0, *w1;

    (void)state;
    s.a = rig_admin(s.rig, "a1");
    w0 = rig_stage(s.rig, "w0", 0, 2);
    told(drain(s.a, "w0", 60000), 0, 0, 0);
    w1 = rig_stage(s.rig, "w1", 2, 4);
    assert_int_equal(w0->n_assembles + w1->n_assembles, 0);
    assert_int_equal(undrain(s.a, "w0")->status, ST_OK);
    assert_int_equal(w0->n_assembles, 1);
    assert_int_equal(w1->n_stages, 2);
    rig_end(&s.rig);
}

/* A drain before UP: the replica comes up draining. */
static void while_it_forms(void **state)
{
    const struct rig_options o = {.max_peers = 16,
                                  .max_requests = 16,
                                  .max_waiting = 16,
                                  .worker_wait_us = 10000 * MS};
    struct scene s = {.rig = rig_new(&o)};
    struct fake *w0, *w1;

    (void)state;
    s.a = rig_admin(s.rig, "a1");
    s.c = rig_client(s.rig, "c1");
    w0 = fake_stage_new(s.rig, "w0", 0, 2);
    w0->hold_assembles = true;
    fake_hello(w0);
    w1 = rig_stage(s.rig, "w1", 2, 4);
    told(drain(s.a, "w1", 60000), 0, 0, 0);
    stage_assembled(w0);
    s.x = client_generate(s.c, 1, 40, 10);
    rig_run(s.rig);
    assert_int_equal(rig_state(s.rig, 1), CHOICE_WAITING);
    assert_int_equal(undrain(s.a, "w1")->status, ST_OK);
    assert_int_equal(w1->n_stages, 2);
    goes_on(&s, w0, 0);
    rig_end(&s.rig);
}

/* No other place could hold the sequence: it stays to its end. */
static void nowhere_to_go(void **state)
{
    struct scene s;
    struct record *d;
    struct fake *v0;

    (void)state;
    bring_alone(&s);
    d = drain(s.a, "w2", 0);
    assert_int_equal(s.w[0]->n_cancels, 0);
    assert_false(d->ended);
    v0 = rig_stage(s.rig, "v0", 0, 2);
    assert_false(d->ended);
    rig_stage(s.rig, "v1", 2, 4); /* another replica */
    told(d, 1, 0, 1);
    goes_on(&s, v0, 2);
    rig_end(&s.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_any_stage),
        cmocka_unit_test(moves_after_the_grace),
        cmocka_unit_test(of_two_stages),
        cmocka_unit_test(leaves_and_comes_back),
        cmocka_unit_test(lost_while_it_drains),
        cmocka_unit_test(in_no_replica),
        cmocka_unit_test(while_it_forms),
        cmocka_unit_test(nowhere_to_go),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
