/* The watchdog over the engine, alone and in the core. */
#include "worker/base/watch.h"

#include <string.h>

#include "common/base/log.h"
#include "common/wire/session.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig.h"

/* ---- the watchdog ---- */

static void counts_what_was_looked_at(void **state)
{
    struct engine_watch w = {0};
    int64_t now = 7000000;

    (void)state;
    watch_look(&w, 5, true, now);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(w.still_us, i * WATCH_LOOK_US);
        assert_int_equal(watch_is_stalled(&w), w.still_us >= ENGINE_STILL_US);
        assert_false(watch_is_dead(&w));
        assert_int_equal(watch_due(&w), now + WATCH_LOOK_US);
        now += WATCH_LOOK_US;
        watch_look(&w, 5, true, now);
    }
    assert_true(watch_is_dead(&w));
}

static void dies_at_the_limit(void **state)
{
    for (int64_t less = 0; less <= 1; less++) {
        struct engine_watch w = {0};
        int64_t now = 1;

        (void)state;
        watch_look(&w, 5, true, now);
        for (int i = 0; i < 40; i++) {
            now += WATCH_LOOK_US - (i == 0 ? less : 0);
            watch_look(&w, 5, true, now);
        }
        assert_int_equal(watch_is_dead(&w), less == 0);
        watch_look(&w, 5, true, now + 1);
        assert_true(watch_is_dead(&w));
    }
}

static void a_tick_or_rest_begins_anew(void **state)
{
    struct engine_watch w = {0};

    (void)state;
    watch_look(&w, 5, true, 0);
    for (int i = 1; i < 100; i++) {
        watch_look(&w, 5 + (uint64_t)i / 20, true, i * WATCH_LOOK_US);
        assert_false(watch_is_dead(&w));
    }
    watch_look(&w, 9, false, 100 * WATCH_LOOK_US);
    assert_int_equal(w.still_us, 0);
    assert_true(watch_due(&w) == INT64_MAX);
    /* The engine has just received a plan: the time before does not count. */
    watch_look(&w, 9, true, 1000 * WATCH_LOOK_US);
    assert_int_equal(w.still_us, 0);
}

/* The whole process was suspended for a minute: the engine had no time to
 * tick. */
static void its_own_absence_counts_little(void **state)
{
    struct engine_watch w = {0};

    (void)state;
    watch_look(&w, 5, true, 0);
    watch_look(&w, 5, true, 60000000);
    assert_int_equal(w.still_us, WATCH_GAP_US);
    watch_look(&w, 5, true, 60000000 + WATCH_GAP_US);
    assert_int_equal(w.still_us, 2 * WATCH_GAP_US);
}

/* ---- reports ---- */

static void reports_say_where_the_engine_stands(void **state)
{
    struct rig *r = rig_with_depth(2);
    struct rig_submit s = {.id = 1, .n_prompt = 20, .max_tokens = 30};
    int64_t sent_us;

    (void)state;
    rig_advance(r, 20000);
    assert_true(r->has_engine);
    assert_int_equal(r->heard_engine.n_planned, 0);
    assert_int_equal(r->heard_engine.plan_age_us, 0);
    rig_submit(r, &s);
    sent_us = r->now_us;
    rig_turn(r);
    assert_int_equal(rig_inflight(r), 2);
    for (int i = 0; i < 4; i++) { /* nothing changes, and reports go on */
        uint32_t before = r->n_reports;

        rig_advance(r, REPORT_US);
        assert_int_equal(r->n_reports, before + 1);
        assert_int_equal(r->heard_engine.n_planned, 2);
        assert_in_range(r->heard_engine.plan_age_us,
                        (uint64_t)(r->now_us - sent_us - REPORT_US),
                        (uint64_t)(r->now_us - sent_us));
    }
    rig_step(r); /* the next oldest is as old, and another plan is in flight */
    assert_int_equal(r->heard_engine.n_planned, 2);
    assert_int_equal(r->heard_engine.plan_age_us, r->now_us - sent_us);
    rig_step(r);
    assert_in_range(r->heard_engine.plan_age_us, 0, 1000);
    rig_run(r);
    rig_free(&r);
}

static void ticks_grow_with_every_result(void **state)
{
    struct rig *r = rig_new(NULL);
    struct rig_submit s = {.id = 1, .n_prompt = 20, .max_tokens = 30};
    uint64_t ticks = 0;

    (void)state;
    rig_submit(r, &s);
    rig_turn(r);
    while (rig_step(r)) {
        assert_true(r->heard_engine.ticks > ticks);
        ticks = r->heard_engine.ticks;
    }
    rig_free(&r);
}

/* ---- the core ---- */

static char logged[LOG_LINE];

static void sink(void *arg, enum log_level level, const char *line)
{
    (void)arg, (void)level;
    if (strstr(line, "engine-dead") != NULL ||
        strstr(line, "device-lost") != NULL) {
        strcpy(logged, line);
    }
}

static struct rig *wedged(void)
{
    struct rig *r = rig_new(NULL);
    struct rig_submit s = {.id = 1, .n_prompt = 20, .max_tokens = 30};

    logged[0] = '\0';
    log_setup(LOG_INFO, sink, NULL);
    rig_advance(r, 20000);
    rig_submit(r, &s);
    rig_turn(r);
    assert_int_equal(rig_inflight(r), 1);
    return r;
}

static void a_dead_engine_ends_the_worker(void **state)
{
    struct rig *r = wedged();

    (void)state;
    rig_advance(r, ENGINE_DEAD_US - 1000);
    assert_true(r->due_us != NODE_STOP);
    assert_false(worker_failed(r->worker));
    assert_int_equal(r->n_goodbyes, 0);
    rig_advance(r, 1000);
    assert_true(r->due_us == NODE_STOP);
    assert_true(worker_failed(r->worker));
    assert_int_equal(r->n_goodbyes, 1);
    assert_non_null(strstr(logged, "worker=w still_ms=10000 plans=1 step=1 "));
    log_setup(LOG_OFF, NULL, NULL);
    rig_free(&r);
}

static void lose_the_device(struct plan_result *out)
{
    out->status =
        error_set(&out->error, ST_UNAVAILABLE, "the device fell off the bus");
    out->lost = true;
}

static void keep_status(struct plan_result *out)
{
    out->lost = true;
}

/* The worker stops at once, with Goodbye and without rows of its sequences,
 * whatever else the result has: the router moves them. */
static void a_lost_device_ends_the_worker(void **state)
{
    for (int kept = 0; kept <= 1; kept++) {
        struct rig *r = wedged();

        (void)state;
        assert_false(worker_lost(r->worker));
        r->lie = kept ? keep_status : lose_the_device;
        rig_step(r);
        assert_true(r->due_us == NODE_STOP);
        assert_true(worker_failed(r->worker));
        assert_true(worker_lost(r->worker));
        assert_int_equal(r->n_goodbyes, 1);
        assert_int_equal(r->heard[1].n, 0);
        assert_int_equal(r->heard[1].finish, 0);
        assert_non_null(strstr(logged, "device-lost worker=w step=1 rows=1"));
        log_setup(LOG_OFF, NULL, NULL);
        rig_free(&r);
    }
}

/* The same at a worker that is stopping and waits for the plan. */
static void a_lost_device_ends_a_stop(void **state)
{
    struct rig *r = wedged();

    (void)state;
    worker_stop(r->worker);
    r->lie = lose_the_device;
    rig_step(r);
    assert_true(r->due_us == NODE_STOP);
    assert_true(worker_lost(r->worker));
    log_setup(LOG_OFF, NULL, NULL);
    rig_free(&r);
}

static void it_lives_if_the_step_comes_back(void **state)
{
    struct rig *r = wedged();

    (void)state;
    for (int i = 0; i < 3; i++) {
        rig_advance(r, ENGINE_DEAD_US - 1000);
        rig_step(r);
    }
    rig_run(r);
    rig_check_tokens(r, 1, 1, 20, 30);
    assert_string_equal(logged, "");
    log_setup(LOG_OFF, NULL, NULL);
    rig_free(&r);
}

/* The same at a worker that is stopping and waits for the plan. */
static void it_does_not_wait_for_ever_to_stop(void **state)
{
    struct rig *r = wedged();

    (void)state;
    rig_advance(r, 1000000);
    worker_stop(r->worker);
    rig_advance(r, ENGINE_DEAD_US - 1000000 - 1000);
    assert_true(r->due_us != NODE_STOP);
    rig_advance(r, 1000);
    assert_true(r->due_us == NODE_STOP);
    assert_true(worker_failed(r->worker));
    log_setup(LOG_OFF, NULL, NULL);
    rig_free(&r);
}

/* After the router has fenced it, the worker reconnects only when its engine
 * makes progress. */
static void no_session_while_the_engine_stands(void **state)
{
    struct rig *r = wedged();
    uint32_t hellos;

    (void)state;
    rig_advance(r, ENGINE_STILL_US);
    hellos = r->n_hellos;
    rig_lose(r);
    rig_advance(r, 3000000);
    assert_int_equal(r->n_hellos, hellos);
    rig_step(r);
    rig_advance(r, 3000000);
    assert_int_equal(r->n_hellos, hellos + 1);
    log_setup(LOG_OFF, NULL, NULL);
    rig_run(r);
    rig_free(&r);
}

/* The cable is cut while the worker generates: each output replaces the one
 * before, nothing accumulates, and after the limit the worker drops the
 * connection. */
static void a_broken_cable_costs_nothing(void **state)
{
    struct rig *r = rig_new(NULL);
    struct rig_submit s = {
        .id = 1, .n_prompt = 20, .max_tokens = 400, .ignore_eos = true};
    struct peer_id id;
    uint32_t n_steps;

    (void)state;
    rig_submit(r, &s);
    rig_turn(r);
    rig_step(r);
    rig_turn(r);
    id = r->id;
    r->broken = true;
    n_steps = r->n_steps;
    for (int64_t t = 0; t < SESSION_SILENT_US - 20000; t += 10000) {
        rig_advance(r, 10000);
        rig_step(r);
    }
    assert_true(r->open && r->id.v == id.v);
    n_steps = r->n_steps - n_steps;
    assert_in_range(n_steps, 100, 200);
    /* One output a step with the tokens since the last acknowledgement, a
     * ping, and what the link resends. */
    assert_in_range(r->n_eaten, n_steps, n_steps + 10);
    assert_in_range(r->eaten_bytes, 1, (size_t)r->n_eaten * 1024);
    rig_advance(r, 40000);
    assert_true(!r->open || r->id.v != id.v);
    r->broken = false;
    rig_advance(r, 3000000);
    rig_run(r);
    rig_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_what_was_looked_at),
        cmocka_unit_test(dies_at_the_limit),
        cmocka_unit_test(a_tick_or_rest_begins_anew),
        cmocka_unit_test(its_own_absence_counts_little),
        cmocka_unit_test(reports_say_where_the_engine_stands),
        cmocka_unit_test(ticks_grow_with_every_result),
        cmocka_unit_test(a_dead_engine_ends_the_worker),
        cmocka_unit_test(a_lost_device_ends_the_worker),
        cmocka_unit_test(a_lost_device_ends_a_stop),
        cmocka_unit_test(it_lives_if_the_step_comes_back),
        cmocka_unit_test(it_does_not_wait_for_ever_to_stop),
        cmocka_unit_test(no_session_while_the_engine_stands),
        cmocka_unit_test(a_broken_cable_costs_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
