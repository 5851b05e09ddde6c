/* Sequences that make no progress: at each limit, and one before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "router/base/router_limits.h"
#include "tests/unit/router/rig.h"

#define MS     1000
#define PERIOD (250 * MS) /* interval of a worker's reports */

static char stalled[LOG_LINE];

static void sink(void *arg, enum log_level level, const char *line)
{
    (void)arg, (void)level;
    if (strstr(line, "worker-stalled") != NULL) {
        snprintf(stalled, sizeof stalled, "%s", line);
    }
}

static int listen_in(void **state)
{
    (void)state;
    stalled[0] = '\0';
    log_setup(LOG_INFO, sink, NULL);
    return 0;
}

static int listen_no_more(void **state)
{
    (void)state;
    log_setup(LOG_OFF, NULL, NULL);
    return 0;
}

static void report(struct fake *w, uint64_t ticks, uint32_t n_planned)
{
    Sluice__V1__ReportMessage m = SLUICE__V1__REPORT_MESSAGE__INIT;
    Sluice__V1__EngineState e = SLUICE__V1__ENGINE_STATE__INIT;

    e.ticks = ticks;
    e.n_planned = n_planned;
    e.plan_age_us = n_planned;
    m.ledger = &w->ledger;
    m.engine = &e;
    w->ledger.snapshot++;
    fake_pages(w);
    assert_int_equal(peer_oneway(w->peer, METHOD_REGISTRY_REPORT, &m.base),
                     ST_OK);
    rig_run(w->rig);
}

/* Sends a step without rows. */
static void step(struct fake *w, uint64_t ticks)
{
    Sluice__V1__StepOutputMessage m = SLUICE__V1__STEP_OUTPUT_MESSAGE__INIT;
    Sluice__V1__EngineState e = SLUICE__V1__ENGINE_STATE__INIT;

    e.ticks = ticks;
    e.n_planned = 1;
    e.plan_age_us = 1;
    m.engine = &e;
    worker_say(w, &m);
    rig_run(w->rig);
}

/* A worker to which a sequence was granted. */
struct scene {
    struct rig *rig;
    struct fake *w, *c;
    struct fake *other; /* NULL: none */
};

static uint32_t cut_tokens; /* of the worker; 0: not given */

static void bring(struct scene *s)
{
    s->other = NULL;
    s->rig = rig_new(NULL);
    s->w = fake_worker_new(s->rig, "w1", 64, 8);
    s->w->shard.has_cut_tokens = cut_tokens > 0;
    s->w->shard.cut_tokens = cut_tokens;
    fake_hello(s->w);
    rig_run(s->rig);
    s->c = rig_client(s->rig, "c1");
    client_generate(s->c, 1, 40, 10);
    rig_run(s->rig);
    assert_int_equal(rig_state(s->rig, 1), CHOICE_PREFILL);
}

/* Reports for n periods, the first report at once. */
static void idle(struct scene *s, uint32_t n)
{
    report(s->w, 100, 0);
    for (uint32_t i = 0; i < n; i++) {
        if (s->other != NULL) {
            worker_report(s->other);
        }
        rig_advance(s->rig, PERIOD);
        report(s->w, 100, 0);
    }
}

static void an_idle_worker_holds_a_sequence_until_the_limit(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    s.other = rig_worker(s.rig, "w2", 64, 8);
    idle(&s, STALL_IDLE_US / PERIOD - 1);
    assert_false(s.w->gone);
    assert_int_equal(s.other->n_submits, 0);
    worker_report(s.other);
    rig_advance(s.rig, PERIOD);
    report(s.w, 100, 0);
    assert_true(s.w->gone);
    assert_non_null(strstr(s.w->goodbye, "no progress with a sequence"));
    assert_non_null(strstr(stalled, "worker=w1 request=0101"));
    assert_non_null(strstr(stalled, "state=prefill tokens=0 "));
    assert_int_equal(s.other->n_submits, 1);
    rig_free(&s.rig);
}

static void ticks_and_plans_are_not_idle(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    for (uint32_t i = 0; i < 100; i++) { /* a new tick in every report */
        report(s.w, 100 + i, 0);
        rig_advance(s.rig, PERIOD);
    }
    for (uint32_t i = 0; i < 400; i++) { /* a step of 100 s */
        report(s.w, 300 + i, 1);
        rig_advance(s.rig, PERIOD);
    }
    assert_false(s.w->gone);
    rig_free(&s.rig);
}

/* Reports that come late and together show little of the time before. */
static void a_gap_counts_in_part(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    report(s.w, 100, 0);
    for (uint32_t i = 0; i < STALL_IDLE_US / HUNG_GAP_US; i++) {
        rig_advance(s.rig, 900 * MS);
        report(s.w, 100, 0);
        report(s.w, 100, 0);
        assert_false(s.w->gone);
    }
    /* Late reports extend the limit, but not without end. */
    for (uint32_t i = 0; i < PATIENCE_FACTOR * STALL_IDLE_US / HUNG_GAP_US;
         i++) {
        rig_advance(s.rig, 900 * MS);
        report(s.w, 100, 0);
    }
    assert_true(s.w->gone);
    rig_free(&s.rig);
}

static void without_sequences_a_worker_may_be_idle(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    worker_give(s.w, 1, 0, 10, SLUICE__V1__FINISH__FINISH_LENGTH);
    idle(&s, 100);
    assert_false(s.w->gone);
    rig_free(&s.rig);
}

static void new_tokens_are_progress(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    for (uint32_t i = 0; i < 5; i++) {
        idle(&s, STALL_IDLE_US / PERIOD - 2);
        worker_give(s.w, 1, 0, 1, 0);
        assert_false(s.w->gone);
    }
    rig_free(&s.rig);
}

/* Its ids have not left the router: the worker cannot go on. */
static void an_unread_link_is_not_a_stall(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    s.w->deaf = true;
    client_generate(s.c, 2, 40, 10);
    rig_run(s.rig);
    worker_give(s.w, 1, 0, 10, SLUICE__V1__FINISH__FINISH_LENGTH);
    idle(&s, STALL_IDLE_US / PERIOD - 1);
    assert_string_equal(stalled, "");
    rig_free(&s.rig);
}

/* Steps that a place of one sequence with 50 tokens needs: twice 2. */
#define STEPS (STALL_STEPS + 4)

/* Returns whether n steps in this time pass the sequence over. */
static bool is_passed_over(uint32_t n, int64_t us)
{
    struct scene s;
    uint64_t ticks = 0;
    bool gone;

    bring(&s);
    for (uint32_t i = 1; i < n; i++) {
        step(s.w, ++ticks);
    }
    for (int64_t left = us; left > 0; left -= PERIOD) {
        rig_advance(s.rig, left < PERIOD ? left : PERIOD);
        report(s.w, ++ticks, 1);
    }
    step(s.w, ++ticks);
    rig_advance(s.rig, STALL_LOOK_US);
    report(s.w, ++ticks, 1);
    gone = s.w->gone;
    rig_free(&s.rig);
    return gone;
}

static void a_sequence_is_passed_over_at_both_limits(void **state)
{
    (void)state;
    assert_true(is_passed_over(STEPS, STALL_US - STALL_LOOK_US));
    assert_false(is_passed_over(STEPS - 1, STALL_US));
    assert_false(is_passed_over(STEPS, STALL_US - STALL_LOOK_US - 1));
}

/* Ten tokens a step: the sequence may need five steps more. */
static void small_steps_take_longer(void **state)
{
    (void)state;
    cut_tokens = 10;
    assert_false(is_passed_over(STEPS + 9, STALL_US));
    assert_true(is_passed_over(STEPS + 10, STALL_US));
    cut_tokens = 0;
}

/* A new router has no count of the steps that its workers made before. */
static void steps_of_earlier_sessions_do_not_count(void **state)
{
    struct scene s;
    uint64_t ticks = 0;

    (void)state;
    bring(&s);
    s.w->step = 10 * STEPS;
    step(s.w, ++ticks);
    for (int64_t left = 2 * STALL_US; left > 0; left -= PERIOD) {
        rig_advance(s.rig, PERIOD);
        report(s.w, ++ticks, 1); /* its second step takes long */
    }
    assert_false(s.w->gone);
    rig_free(&s.rig);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, listen_in, listen_no_more)
    const struct CMUnitTest tests[] = {
        T(an_idle_worker_holds_a_sequence_until_the_limit),
        T(ticks_and_plans_are_not_idle),
        T(a_gap_counts_in_part),
        T(without_sequences_a_worker_may_be_idle),
        T(new_tokens_are_progress),
        T(an_unread_link_is_not_a_stall),
        T(a_sequence_is_passed_over_at_both_limits),
        T(small_steps_take_longer),
        T(steps_of_earlier_sessions_do_not_count),
    };
#undef T

    return cmocka_run_group_tests(tests, NULL, NULL);
}
