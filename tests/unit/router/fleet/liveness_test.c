/* Silent, hung and slow workers: at each limit, and one past it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "router/fleet/workers.h"
#include "tests/unit/router/rig.h"

#define MS     1000
#define PERIOD (250 * MS) /* interval of a worker's reports */

static char hung[LOG_LINE], lost[LOG_LINE], lied[LOG_LINE];

static void sink(void *arg, enum log_level level, const char *line)
{
    (void)arg, (void)level;
    if (strstr(line, "worker-hung") != NULL) {
        snprintf(hung, sizeof hung, "%s", line);
    } else if (strstr(line, "worker-lost") != NULL) {
        snprintf(lost, sizeof lost, "%s", line);
    } else if (strstr(line, "worker-protocol-violation") != NULL) {
        snprintf(lied, sizeof lied, "%s", line);
    }
}

static int listen_in(void **state)
{
    (void)state;
    hung[0] = lost[0] = lied[0] = '\0';
    log_setup(LOG_INFO, sink, NULL);
    return 0;
}

static int listen_no_more(void **state)
{
    (void)state;
    log_setup(LOG_OFF, NULL, NULL);
    return 0;
}

static bool here(const struct rig *rig)
{
    struct router_worker_view v;

    return router_worker_view(rig->router, 0, &v);
}

static void queue_says(struct fake *w, uint64_t ticks, uint32_t n_planned,
                       uint64_t age_us)
{
    Sluice__V1__ReportMessage m = SLUICE__V1__REPORT_MESSAGE__INIT;
    Sluice__V1__EngineState e = SLUICE__V1__ENGINE_STATE__INIT;

    e.ticks = ticks;
    e.n_planned = n_planned;
    e.plan_age_us = age_us;
    m.ledger = &w->ledger;
    m.engine = &e;
    w->ledger.snapshot++;
    assert_int_equal(peer_oneway(w->peer, METHOD_REGISTRY_REPORT, &m.base),
                     ST_OK);
}

static void says(struct fake *w, uint64_t ticks, uint32_t n_planned,
                 uint64_t age_us)
{
    queue_says(w, ticks, n_planned, age_us);
    rig_run(w->rig);
}

/* Sends a step without rows and with this device time, and the engine state. */
static void step(struct fake *w, uint32_t device_us, uint64_t age_us)
{
    Sluice__V1__StepOutputMessage m = SLUICE__V1__STEP_OUTPUT_MESSAGE__INIT;
    Sluice__V1__EngineState e = SLUICE__V1__ENGINE_STATE__INIT;

    e.ticks = 1000 + w->step;
    e.n_planned = age_us > 0;
    e.plan_age_us = age_us;
    m.engine = &e;
    m.has_device_us = true;
    m.device_us = device_us;
    worker_say(w, &m);
    rig_run(w->rig);
}

/* ---- silence ---- */

static void silence_at_the_limit(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 4);
    struct fake *c = rig_client(rig, "c1");

    (void)state;
    worker_report(w);
    rig_run(rig);
    w->mute = true;
    rig_advance(rig, WORKER_SILENT_US - 1);
    client_generate(c, 1, 10, 10);
    rig_run(rig);
    assert_int_equal(rig_state(rig, 1), CHOICE_SUBMITTED);
    rig_advance(rig, 1);
    client_generate(c, 2, 10, 10);
    rig_run(rig);
    assert_int_equal(rig_state(rig, 2), CHOICE_WAITING);
    rig_advance(rig, WORKER_LOST_US - WORKER_SILENT_US - 1);
    assert_true(here(rig));
    rig_advance(rig, 1);
    assert_false(here(rig));
    assert_non_null(strstr(lost, "silent_ms=1500 "));
    rig_free(&rig);
}

/* A router that was stalled first reads the frames that have arrived. */
static void its_own_absence_is_no_silence(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 4);

    (void)state;
    worker_report(w);
    rig_run(rig);
    rig->now += 5000 * MS; /* the router was stopped */
    rig_run(rig);
    assert_true(here(rig));
    rig_advance(rig, LISTEN_US - 1);
    worker_report(w);
    rig_run(rig);
    rig_advance(rig, WORKER_LOST_US - 1);
    assert_true(here(rig));
    /* Both delays were of some seconds, and count with an eighth. */
    rig_advance(rig, WORKER_LOST_US + 1);
    assert_true(here(rig));
    rig_advance(rig, (PATIENCE_FACTOR - 2) * WORKER_LOST_US);
    assert_false(here(rig));
    rig_free(&rig);
}

static void an_absence_excuses_once(void **state)
{
    struct rig *rig = rig_new(NULL);

    (void)state;
    rig_worker(rig, "w1", 8, 4);
    rig->now += 5000 * MS;
    rig_run(rig);
    rig_advance(rig, LISTEN_US - 1);
    assert_true(here(rig));
    rig->now += 5000 * MS; /* excused only once */
    rig_run(rig);
    assert_false(here(rig));
    rig_free(&rig);
}

/* A timer that is late by LISTEN_US at most counts as on time. */
static void a_little_late_is_no_absence(void **state)
{
    for (int64_t more = 0; more <= 1; more++) {
        struct rig *rig = rig_new(NULL);
        struct fake *w = rig_worker(rig, "w1", 8, 4);

        (void)state;
        worker_report(w);
        rig_run(rig);
        rig_advance(rig, WORKER_SILENT_US);
        rig->now += WORKER_LOST_US - WORKER_SILENT_US + LISTEN_US + more;
        rig_run(rig);
        assert_int_equal(here(rig), more);
        rig_free(&rig);
    }
}

/* ---- hung ---- */

static void stands_until_the_limit(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 4);

    (void)state;
    says(w, 100, 1, 10 * MS);
    for (uint32_t i = 1; i <= 5; i++) {
        rig_advance(rig, PERIOD);
        says(w, 100, 1, 10 * MS + i * PERIOD);
    }
    rig_advance(rig, PERIOD - 1);
    assert_true(here(rig));
    rig_advance(rig, 1);
    assert_false(here(rig));
    assert_true(w->gone);
    assert_non_null(strstr(w->goodbye, "no progress for 1500 ms"));
    assert_non_null(strstr(hung, "worker=w1 hung_ms=1500 plans=1 "));
    rig_free(&rig);
}

static void recovers_one_report_before_the_limit(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 4);

    (void)state;
    says(w, 100, 1, 10 * MS);
    for (uint32_t again = 0; again < 4; again++) {
        for (uint32_t i = 1; i <= 5; i++) {
            rig_advance(rig, PERIOD);
            says(w, 100 + again, 1, i * PERIOD);
        }
        rig_advance(rig, PERIOD - 1);
        says(w, 101 + again, 1, 6 * PERIOD);
    }
    assert_true(here(rig));
    assert_string_equal(hung, "");
    rig_free(&rig);
}

/* Every report in that time must have plans in flight. */
static void idle_in_between_is_not_hung(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 4);

    (void)state;
    for (uint32_t i = 0; i < 40; i++) {
        says(w, 100, i % 6 != 5, 0);
        rig_advance(rig, PERIOD);
    }
    for (uint32_t i = 0; i < 40; i++) {
        says(w, 100, 0, 0);
        rig_advance(rig, PERIOD);
    }
    assert_true(here(rig));
    rig_free(&rig);
}

/* A step of ten minutes whose ticks advance. */
static void a_step_that_ticks_is_never_fenced(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 4);

    (void)state;
    for (uint32_t i = 0; i < 2400; i++) {
        says(w, 100 + i / 5, 1, (uint64_t)i * PERIOD);
        rig_advance(rig, PERIOD);
    }
    assert_true(here(rig));
    rig_free(&rig);
}

/* Delayed reports arrive together: the gap counts HUNG_GAP_US at most. */
static void late_reports_condemn_nobody(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 4);

    (void)state;
    says(w, 100, 1, 10 * MS);
    for (uint32_t i = 0; i < 2; i++) {
        rig_advance(rig, 900 * MS);
        says(w, 100, 1, 910 * MS);
        says(w, 100, 1, 920 * MS);
    }
    rig_advance(rig, WORKER_HUNG_US - 2 * HUNG_GAP_US);
    assert_true(here(rig)); /* the delay extends the limit, too */
    rig_free(&rig);
}

/* ---- extended limits ---- */

/* Reports n times at this interval, with or without a tick in each. */
static void reports(struct fake *w, uint32_t n, int64_t every_us, bool ticks)
{
    static uint64_t tick = 1000;

    for (uint32_t i = 0; i < n && !w->gone; i++) {
        says(w, tick += ticks, 1, 1);
        rig_advance(w->rig, every_us);
    }
}

static int64_t limit(const struct rig *rig)
{
    struct router_worker_view v;

    assert_true(router_worker_view(rig->router, 0, &v));
    return v.hung_us;
}

static void a_punctual_worker_has_the_limits_as_given(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 4);

    (void)state;
    reports(w, 100, PERIOD, true);
    assert_int_equal(limit(rig), WORKER_HUNG_US);
    reports(w, 100, PERIOD + 20 * MS, true); /* as on a busy machine */
    assert_int_equal(limit(rig), WORKER_HUNG_US);
    rig_free(&rig);
}

/* As on a starved host: reports come 450 ms late. */
static void late_reports_extend_the_limits(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 4);

    (void)state;
    reports(w, 60, PERIOD + 450 * MS, true);
    assert_in_range(limit(rig), WORKER_HUNG_US + 1700 * MS,
                    WORKER_HUNG_US + 1800 * MS);
    reports(w, 5, PERIOD + 450 * MS, false); /* 500 ms of each count */
    assert_true(here(rig));
    assert_string_equal(hung, "");
    reports(w, 2, PERIOD + 450 * MS, false);
    assert_false(here(rig));
    rig_free(&rig);
}

static void a_mean_delay_is_forgotten(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 4);

    (void)state;
    reports(w, 60, PERIOD + 450 * MS, true);
    reports(w, 4 * 30, PERIOD, true);
    assert_int_equal(limit(rig), WORKER_HUNG_US);
    rig_free(&rig);
}

/* One stall of the worker is no starved machine. */
static void one_stall_counts_little(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 4);

    (void)state;
    reports(w, 10, PERIOD, true);
    rig_advance(rig, 1000 * MS);
    says(w, 5000, 1, 1);
    assert_true(limit(rig) < WORKER_HUNG_US + 600 * MS);
    rig_free(&rig);
}

static void delays_extend_up_to_a_factor(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 4);

    (void)state;
    for (uint32_t i = 0; i < 400; i++) {
        says(w, 1000 + i, 1, 1);
        rig->now += 5000 * MS; /* the router stands as well */
        says(w, 1000 + i, 1, 1);
        if (!here(rig)) {
            break;
        }
        assert_true(limit(rig) <= PATIENCE_FACTOR * WORKER_HUNG_US);
    }
    rig_free(&rig);
}

static void limits_are_options(void **state)
{
    struct rig_options o = {.max_peers = 16,
                            .max_requests = 16,
                            .max_waiting = 16,
                            .silent_us = 3000 * MS,
                            .lost_us = 4000 * MS,
                            .hung_us = 5000 * MS};
    struct rig *rig = rig_new(&o);
    struct fake *w = rig_worker(rig, "w1", 8, 4);

    (void)state;
    reports(w, 5000 / 250 - 1, PERIOD, false);
    assert_true(here(rig));
    reports(w, 2, PERIOD, false);
    assert_false(here(rig));
    assert_non_null(strstr(hung, "hung_ms=5000 "));
    w = rig_worker(rig, "w2", 8, 4);
    worker_report(w);
    rig_run(rig);
    w->mute = true;
    rig_advance(rig, 4000 * MS - 1);
    assert_true(here(rig));
    rig_advance(rig, 1);
    assert_false(here(rig));
    rig_free(&rig);
}

/* A worker connects again because its engine has made progress. */
static void a_return_doubles_the_limit(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 4);
    int64_t want = WORKER_HUNG_US;

    (void)state;
    for (uint32_t i = 0; i <= HUNG_RETURNS_MAX + 1; i++) {
        assert_int_equal(limit(rig), want);
        want *= i < HUNG_RETURNS_MAX ? 2 : 1;
        reports(w, 40, PERIOD, false);
        assert_false(here(rig));
        fake_reconnect(w);
        rig_run(rig);
    }
    reports(w, 40, PERIOD, false);
    fake_restart(w);
    rig_run(rig);
    assert_int_equal(limit(rig), WORKER_HUNG_US); /* a new process */
    rig_free(&rig);
}

/* The timer was late: frames that have arrived are read first. */
static void its_own_absence_hangs_nobody(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 4);

    (void)state;
    for (uint32_t i = 0; i <= 4; i++) {
        says(w, 100, 1, i * PERIOD);
        rig_advance(rig, PERIOD);
    }
    says(w, 100, 1, 5 * PERIOD); /* 1.25 s */
    rig->now += 900 * MS;
    rig_run(rig);
    assert_true(here(rig));
    says(w, 101, 1, 6 * PERIOD);
    rig_advance(rig, 600 * MS);
    assert_true(here(rig));
    rig_free(&rig);
}

static void without_an_engine_silence_alone_counts(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 4);

    (void)state;
    says(w, 100, 1, 10 * MS);
    for (uint32_t i = 0; i < 40; i++) {
        rig_advance(rig, PERIOD);
        worker_report(w);
    }
    rig_run(rig);
    assert_true(here(rig));
    says(w, 5, 1, 0); /* no earlier tick count */
    assert_true(here(rig));
    rig_free(&rig);
}

static void ticks_that_go_back_are_a_lie(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 4);

    (void)state;
    says(w, 100, 0, 0);
    says(w, 100, 0, 0);
    w->ledger.snapshot -= 2; /* an older report arrives late */
    says(w, 99, 0, 0);
    assert_true(here(rig));
    w->ledger.snapshot++;
    says(w, 99, 0, 0);
    assert_false(here(rig));
    assert_non_null(strstr(lied, "tick count went back from 100 to 99"));
    rig_free(&rig);
}

static void more_plans_than_possible_are_a_lie(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 4);

    (void)state;
    says(w, 100, PLANS_MAX, PLAN_AGE_US_MAX);
    assert_true(here(rig));
    says(w, 101, PLANS_MAX + 1, 0);
    assert_false(here(rig));
    assert_non_null(strstr(lied, "65 plans in flight"));
    rig_free(&rig);
}

static void a_plan_older_than_possible_is_a_lie(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 4);

    (void)state;
    says(w, 100, 1, PLAN_AGE_US_MAX + 1);
    assert_false(here(rig));
    assert_non_null(strstr(lied, "86400000001 us"));
    rig_free(&rig);
}

/* ---- slow ---- */

static void p99_of_the_last_steps(void **state)
{
    struct worker w = {0};

    (void)state;
    liveness_step(&w, 9000);
    for (uint32_t i = 1; i < SLOW_STEPS_MIN - 1; i++) {
        liveness_step(&w, 1000);
    }
    assert_int_equal(liveness_p99_us(&w), 0);
    liveness_step(&w, 1000);
    assert_int_equal(liveness_p99_us(&w), 9000); /* the longest of 32 */
    while (w.live.n_steps < 99) {
        liveness_step(&w, 1000);
    }
    assert_int_equal(liveness_p99_us(&w), 9000);
    liveness_step(&w, 1000);
    assert_int_equal(liveness_p99_us(&w), 1000); /* the second longest of 100 */
    liveness_step(&w, 8000);
    assert_int_equal(liveness_p99_us(&w), 8000);
    while (w.live.n_steps <= SLOW_STEPS) {
        liveness_step(&w, 1000);
    }
    assert_int_equal(liveness_p99_us(&w),
                     1000); /* the oldest step has left the window */
}

/* Returns true if n steps of step_us make a plan of that age slow. */
static bool slow_at(uint32_t n, uint32_t step_us, uint64_t age_us)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 4);
    struct fake *c = rig_client(rig, "c1");
    enum choice_state at;

    for (uint32_t i = 0; i < n; i++) {
        step(w, step_us, 0);
    }
    says(w, 1000 + w->step, 1, age_us);
    client_generate(c, 1, 10, 10);
    rig_run(rig);
    at = rig_state(rig, 1);
    step(w, step_us, 0); /* the plan is done */
    assert_int_equal(rig_state(rig, 1), CHOICE_PREFILL);
    rig_free(&rig);
    assert_true(at == CHOICE_WAITING || at == CHOICE_PREFILL);
    return at == CHOICE_WAITING;
}

static void slow_at_the_limit(void **state)
{
    uint32_t least = SLOW_MIN_US / SLOW_FACTOR;

    (void)state;
    assert_false(slow_at(SLOW_STEPS_MIN, 1000, SLOW_MIN_US));
    assert_true(slow_at(SLOW_STEPS_MIN, 1000, SLOW_MIN_US + 1));
    assert_false(slow_at(SLOW_STEPS_MIN - 1, 1000, SLOW_MIN_US + 1));
    assert_false(slow_at(200, least * 2, SLOW_MIN_US * 2));
    assert_true(slow_at(200, least * 2, SLOW_MIN_US * 2 + 1));
}

static const Sluice__V1__WorkerRow *row_of(struct fake *a)
{
    Sluice__V1__ListRequest m = SLUICE__V1__LIST_REQUEST__INIT;
    struct record *x = client_call(a, METHOD_ADMIN_LIST_WORKERS, &m.base, 0);
    const Sluice__V1__ListWorkersReply *reply;

    rig_run(a->rig);
    reply = (const void *)x->reply;
    assert_int_equal(reply->n_workers, 1);
    return reply->workers[0];
}

static void is_listed(const Sluice__V1__WorkerRow *row, const char *state,
                      uint64_t age_us)
{
    assert_int_equal(row->state.len, strlen(state));
    assert_memory_equal(row->state.data, state, row->state.len);
    assert_true(row->has_plan_age_us);
    assert_int_equal(row->plan_age_us, age_us);
}

/* Slow, silent, slow again, up: each state as operators see it. */
static void the_list_says_so(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 4);
    struct fake *a = rig_admin(rig, "a1");

    (void)state;
    assert_false(row_of(a)->has_plan_age_us);
    for (uint32_t i = 0; i < SLOW_STEPS_MIN; i++) {
        step(w, 1000, 0);
    }
    is_listed(row_of(a), "up", 0);
    says(w, 1000 + w->step, 1, 300 * MS);
    is_listed(row_of(a), "slow", 300 * MS);
    rig_advance(rig, WORKER_SILENT_US);
    is_listed(row_of(a), "silent", 300 * MS);
    says(w, 1000 + w->step, 1, 1300 * MS);
    is_listed(row_of(a), "slow", 1300 * MS);
    step(w, 1400 * MS, 5);
    is_listed(row_of(a), "up", 5);
    rig_free(&rig);
}

int main(void)
{
#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, listen_in, listen_no_more)
    const struct CMUnitTest tests[] = {
        TEST(silence_at_the_limit),
        TEST(its_own_absence_is_no_silence),
        TEST(an_absence_excuses_once),
        TEST(a_little_late_is_no_absence),
        TEST(stands_until_the_limit),
        TEST(recovers_one_report_before_the_limit),
        TEST(idle_in_between_is_not_hung),
        TEST(a_step_that_ticks_is_never_fenced),
        TEST(late_reports_condemn_nobody),
        TEST(its_own_absence_hangs_nobody),
        TEST(a_punctual_worker_has_the_limits_as_given),
        TEST(late_reports_extend_the_limits),
        TEST(a_mean_delay_is_forgotten),
        TEST(one_stall_counts_little),
        TEST(delays_extend_up_to_a_factor),
        TEST(limits_are_options),
        TEST(a_return_doubles_the_limit),
        TEST(without_an_engine_silence_alone_counts),
        TEST(ticks_that_go_back_are_a_lie),
        TEST(more_plans_than_possible_are_a_lie),
        TEST(a_plan_older_than_possible_is_a_lie),
        TEST(p99_of_the_last_steps),
        TEST(slow_at_the_limit),
        TEST(the_list_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
