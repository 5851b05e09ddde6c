/* Requests that wait in the queue until their time is over, and the deadlines
 * that workers get. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "tests/unit/router/rig.h"

#define LENGTH   SLUICE__V1__FINISH__FINISH_LENGTH
#define LIMIT_US 5000000

struct scene {
    struct rig *rig;
    struct fake *w, *c;
};

/* Request 1 takes all blocks of the only worker. */
static void bring(struct scene *s)
{
    const struct rig_options o = {.max_peers = 32,
                                  .max_requests = 256,
                                  .max_waiting = 256,
                                  .queue_timeout_us = LIMIT_US,
                                  .worker_wait_us = 60000000};

    memset(s, 0, sizeof *s);
    s->rig = rig_new(&o);
    s->c = rig_client(s->rig, "c1");
    s->w = rig_worker(s->rig, "w1", 10, 4);
    client_generate(s->c, 1, 40, 280);
    rig_run(s->rig);
    assert_non_null(worker_sequence_of(s->w, 1));
}

/* Lets time pass while the worker reports. */
static void pass(struct scene *s, int64_t us)
{
    for (int64_t t = 0; t < us; t += 100000) {
        rig_advance(s->rig, 100000);
        worker_report(s->w);
        rig_run(s->rig);
    }
}

static struct record *ask(struct scene *s, uint8_t id, uint32_t deadline_ms)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct record *x = client_generate_with(s->c, id, 40, 280, &m, deadline_ms);

    rig_run(s->rig);
    return x;
}

static void one_without_room_is_refused_in_time(void **state)
{
    struct record *x;
    struct scene s;

    (void)state;
    bring(&s);
    x = ask(&s, 2, 0);
    pass(&s, LIMIT_US - 200000);
    assert_false(x->ended);
    pass(&s, 400000);
    assert_true(x->ended);
    assert_int_equal(x->status, ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(x->error, "within 5.0 s (--queue-timeout)"));
    assert_true(x->retry_ms > 0);
    worker_give(s.w, 1, 0, 280, LENGTH);
    rig_end(&s.rig);
}

static void each_has_its_own_time(void **state)
{
    struct record *x, *y;
    struct scene s;

    (void)state;
    bring(&s);
    x = ask(&s, 2, 0);
    pass(&s, LIMIT_US / 2);
    y = ask(&s, 3, 0);
    pass(&s, LIMIT_US / 2 + 100000);
    assert_true(x->ended);
    assert_false(y->ended);
    pass(&s, LIMIT_US / 2);
    assert_true(y->ended);
    worker_give(s.w, 1, 0, 280, LENGTH);
    rig_end(&s.rig);
}

static void what_runs_has_no_limit(void **state)
{
    struct record *x;
    struct scene s;

    (void)state;
    bring(&s);
    x = ask(&s, 2, 0);
    pass(&s, LIMIT_US / 2);
    worker_give(s.w, 1, 0, 280, LENGTH);
    assert_non_null(worker_sequence_of(s.w, 2));
    for (uint32_t i = 0; i < 4; i++) {
        worker_give(s.w, 2, 0, 1, 0);
        pass(&s, LIMIT_US / 2);
    }
    assert_false(x->ended);
    worker_give(s.w, 2, 0, 276, LENGTH);
    assert_int_equal(x->status, ST_OK);
    rig_end(&s.rig);
}

/* One choice runs: the other waits for as long as it takes. */
static void a_request_that_runs_in_part_goes_on(void **state)
{
    struct record *x;
    struct scene s;

    (void)state;
    bring(&s);
    x = client_generate_n(s.c, 2, 2, 40, 200);
    rig_run(s.rig);
    worker_give(s.w, 1, 0, 280, LENGTH);
    assert_non_null(worker_choice_of(s.w, 2, 0));
    assert_null(worker_choice_of(s.w, 2, 1));
    for (uint32_t i = 0; i < 4; i++) {
        worker_give(s.w, 2, 0, 1, 0);
        pass(&s, LIMIT_US / 2);
    }
    assert_false(x->ended);
    worker_give(s.w, 2, 0, 196, LENGTH);
    assert_non_null(worker_choice_of(s.w, 2, 1));
    worker_give(s.w, 2, 1, 200, LENGTH);
    assert_int_equal(x->status, ST_OK);
    rig_end(&s.rig);
}

static void a_deadline_takes_its_place(void **state)
{
    struct record *x;
    struct scene s;

    (void)state;
    bring(&s);
    x = ask(&s, 2, 3 * LIMIT_US / 1000);
    pass(&s, 2 * LIMIT_US);
    assert_false(x->ended);
    pass(&s, 2 * LIMIT_US);
    assert_true(x->ended);
    assert_int_equal(x->status, ST_DEADLINE_EXCEEDED);
    worker_give(s.w, 1, 0, 280, LENGTH);
    rig_end(&s.rig);
}

static void a_cancelled_one_leaves_no_timer(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    ask(&s, 2, 0);
    client_cancel(s.c, 2);
    rig_run(s.rig);
    pass(&s, 2 * LIMIT_US);
    worker_give(s.w, 1, 0, 280, LENGTH);
    rig_end(&s.rig);
}

/* ---- the worker ---- */

static void a_worker_gets_the_time_that_is_left(void **state)
{
    struct sequence *q;
    struct scene s;

    (void)state;
    bring(&s);
    assert_int_equal(worker_sequence_of(s.w, 1)->deadline_ms, 0);
    ask(&s, 2, 30000);
    pass(&s, 10000000);
    worker_give(s.w, 1, 0, 280, LENGTH);
    q = worker_sequence_of(s.w, 2);
    assert_non_null(q);
    assert_in_range(q->deadline_ms, 19900, 20001);
    worker_give(s.w, 2, 0, 280, LENGTH);
    rig_end(&s.rig);
}

static void what_a_worker_ends_is_past_its_deadline(void **state)
{
    struct record *x;
    struct scene s;

    (void)state;
    bring(&s);
    worker_give(s.w, 1, 0, 280, LENGTH);
    x = ask(&s, 2, 30000);
    worker_give(s.w, 2, 0, 3, SLUICE__V1__FINISH__FINISH_CANCELLED);
    assert_true(x->ended);
    assert_int_equal(x->status, ST_DEADLINE_EXCEEDED);
    rig_end(&s.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_without_room_is_refused_in_time),
        cmocka_unit_test(each_has_its_own_time),
        cmocka_unit_test(what_runs_has_no_limit),
        cmocka_unit_test(a_request_that_runs_in_part_goes_on),
        cmocka_unit_test(a_deadline_takes_its_place),
        cmocka_unit_test(a_cancelled_one_leaves_no_timer),
        cmocka_unit_test(a_worker_gets_the_time_that_is_left),
        cmocka_unit_test(what_a_worker_ends_is_past_its_deadline),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
