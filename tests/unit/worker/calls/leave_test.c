/* How a worker leaves: with the router's answer, or without it. */
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig.h"

#define MS 1000

/* A worker with a sequence in decode that was asked to leave. */
static struct rig *leaving(uint32_t grace_ms)
{
    struct rig *r = rig_new(NULL);
    struct rig_submit s = {.id = 1, .n_prompt = 20, .max_tokens = 40};

    rig_submit(r, &s);
    rig_turn(r);
    assert_true(rig_step(r));
    worker_leave(r->worker, grace_ms);
    rig_turn(r);
    assert_int_equal(r->n_leaves, 1);
    assert_int_equal(r->leave_grace_ms, grace_ms);
    return r;
}

static bool has_stopped(const struct rig *r)
{
    return r->due_us == NODE_STOP;
}

/* rig_free() checks that the pool is whole. */
static void end(struct rig *r)
{
    rig_run(r);
    rig_turn(r);
    assert_true(has_stopped(r));
    assert_int_equal(r->n_leaves, 1);
    rig_free(&r);
}

static void serves_until_the_answer(void **state)
{
    Sluice__V1__DrainReply reply = SLUICE__V1__DRAIN_REPLY__INIT;
    struct rig *r = leaving(30000);
    struct rig_submit s = {.id = 2, .n_prompt = 20, .max_tokens = 4};

    (void)state;
    rig_submit(r, &s); /* it was on its way */
    rig_turn(r);
    rig_run(r);
    rig_check_tokens(r, 1, 1, 20, 40);
    rig_check_tokens(r, 2, 2, 20, 4);
    rig_advance(r, 100 * MS);
    assert_false(has_stopped(r));
    assert_int_equal(r->n_goodbyes, 0);
    peer_end(r->peer, r->leave_call, &reply.base);
    rig_turn(r);
    assert_true(has_stopped(r));
    assert_int_equal(r->n_goodbyes, 1);
    end(r);
}

static void a_refusal_is_an_answer(void **state)
{
    struct rig *r = leaving(30000);
    struct error e;

    (void)state;
    error_set(&e, ST_UNIMPLEMENTED, "what is that?");
    peer_fail(r->peer, r->leave_call, &e, 0);
    rig_turn(r);
    assert_int_equal(r->n_goodbyes, 1);
    end(r);
}

static void waits_for_the_answer_as_long_as_it_said(void **state)
{
    struct rig *r = leaving(50);

    (void)state;
    rig_advance(r, 50 * MS + LEAVE_US - 1 * MS);
    assert_false(has_stopped(r));
    assert_int_equal(r->n_goodbyes, 0);
    rig_advance(r, 1 * MS);
    assert_int_equal(r->n_goodbyes, 1);
    end(r);
}

static void goes_with_its_session(void **state)
{
    struct rig *r = leaving(30000);

    (void)state;
    rig_lose(r);
    rig_turn(r);
    end(r);
}

static void goes_at_once_without_one(void **state)
{
    struct rig *r = rig_new(NULL);

    (void)state;
    rig_lose(r);
    worker_leave(r->worker, 30000);
    rig_turn(r);
    assert_true(has_stopped(r));
    assert_int_equal(r->n_leaves, 0);
    rig_free(&r);
}

static void a_second_wish_is_a_command(void **state)
{
    struct rig *r = leaving(30000);

    (void)state;
    worker_leave(r->worker, 30000);
    rig_turn(r);
    assert_int_equal(r->n_goodbyes, 1);
    worker_leave(r->worker, 30000); /* a third call changes nothing */
    end(r);
}

static void stopping_is_not_leaving(void **state)
{
    struct rig *r = rig_new(NULL);

    (void)state;
    worker_stop(r->worker);
    worker_leave(r->worker, 30000);
    rig_turn(r);
    assert_true(has_stopped(r));
    assert_int_equal(r->n_leaves, 0);
    rig_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(serves_until_the_answer),
        cmocka_unit_test(a_refusal_is_an_answer),
        cmocka_unit_test(waits_for_the_answer_as_long_as_it_said),
        cmocka_unit_test(goes_with_its_session),
        cmocka_unit_test(goes_at_once_without_one),
        cmocka_unit_test(a_second_wish_is_a_command),
        cmocka_unit_test(stopping_is_not_leaving),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
