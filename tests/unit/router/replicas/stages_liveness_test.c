/* A replica receives grants while all its stages are UP, and ends with any of
 * them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "router/base/router_limits.h"
#include "tests/unit/router/rig.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH
#define MS     1000

struct scene {
    struct rig *rig;
    struct fake *w[3], *c;
    struct record *x;
};

/* Three stages, without a sequence; then sequence 1 with two tokens at the
 * leader w[0]. */

static void bring_idle(struct scene *s)
{
    const struct rig_options o = {.max_peers = 32,
                                  .max_requests = 256,
                                  .max_waiting = 256,
                                  .worker_wait_us = 60000 * MS};

    memset(s, 0, sizeof *s);
    s->rig = rig_new(&o);
    rig_replica(s->rig, s->w, 3);
    s->c = rig_client(s->rig, "c1");
}

static void bring(struct scene *s)
{
    bring_idle(s);
    s->x = client_generate(s->c, 1, 40, 10);
    rig_run(s->rig);
    worker_give(s->w[0], 1, 0, 2, 0);
}

static void ask(struct scene *s, uint8_t id)
{
    client_generate(s->c, id, 40, 10);
    rig_run(s->rig);
}

static bool waits(const struct scene *s, uint8_t id)
{
    return rig_state(s->rig, id) == CHOICE_WAITING;
}

static void says(struct fake *w, uint64_t ticks, uint32_t n_planned,
                 uint64_t age_us)
{
    Sluice__V1__ReportMessage m = SLUICE__V1__REPORT_MESSAGE__INIT;
    Sluice__V1__EngineState e = SLUICE__V1__ENGINE_STATE__INIT;

    e.ticks = ticks;
    e.n_planned = n_planned;
    e.plan_age_us = age_us;
    w->ledger.snapshot++;
    fake_pages(w);
    m.ledger = &w->ledger;
    m.engine = &e;
    assert_int_equal(peer_oneway(w->peer, METHOD_REGISTRY_REPORT, &m.base),
                     ST_OK);
    rig_run(w->rig);
}

/* Moves the time by us, while all stages but one report ticks. */
static void pass(struct scene *s, int64_t us, const struct fake *but)
{
    for (; us > 0; us -= 250 * MS) {
        rig_advance(s->rig, us < 250 * MS ? us : 250 * MS);
        for (int i = 0; i < 3; i++) {
            if (s->w[i] != but && !s->w[i]->gone) {
                worker_report(s->w[i]);
            }
        }
        rig_run(s->rig);
    }
}

static void come_back(struct scene *s, const struct fake *died)
{
    for (int i = 0; i < 3; i++) {
        if (s->w[i] == died) {
            fake_restart(s->w[i]);
        } else {
            fake_reconnect(s->w[i]);
        }
    }
    pass(s, ASSEMBLE_RETRY_US, NULL);
}

static void one_is_silent(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct scene s;

        bring(&s);
        worker_report(s.w[i]);
        rig_run(s.rig);
        s.w[i]->mute = true;
        pass(&s, WORKER_SILENT_US - 1, s.w[i]);
        ask(&s, 2);
        assert_false(waits(&s, 2)); /* not yet */
        pass(&s, 1, s.w[i]);
        ask(&s, 3);
        assert_true(waits(&s, 3));
        s.w[i]->mute = false;
        worker_report(s.w[i]);
        rig_run(s.rig);
        assert_false(waits(&s, 3));
        rig_free(&s.rig);
    }
}

/* The silent stage is lost; no other stage has died, and its sequences move. */
static void one_stays_silent(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct scene s;

        bring(&s);
        worker_report(s.w[i]);
        rig_run(s.rig);
        s.w[i]->mute = true;
        pass(&s, WORKER_LOST_US, s.w[i]);
        assert_true(waits(&s, 1));
        for (int k = 0; k < 3; k++) {
            assert_true(s.w[k]->gone);
        }
        come_back(&s, s.w[i]);
        for (int k = 0; k < 3; k++) {
            assert_int_equal(fake_view(s.w[k]).n_barren, k == i);
        }
        worker_give(s.w[0], 1, 0, 8, LENGTH);
        record_check(s.x, 1, 0, 10);
        rig_end(&s.rig);
    }
}

static void one_hangs(void **state)
{
    struct router_metrics k;
    struct scene s;

    (void)state;
    bring(&s);
    for (int64_t us = 0; us <= WORKER_HUNG_US && !s.w[1]->gone;
         us += 250 * MS) {
        says(s.w[0], 10 + (uint64_t)us, 1, 0);
        says(s.w[1], 10, 1, (uint64_t)us);
        says(s.w[2], 10 + (uint64_t)us, 1, 0);
        rig_advance(s.rig, 250 * MS);
    }
    assert_true(s.w[0]->gone && s.w[1]->gone && s.w[2]->gone);
    assert_non_null(strstr(s.w[1]->goodbye, "its engine made no progress"));
    assert_non_null(
        strstr(s.w[0]->goodbye, "its replica has ended: worker w1"));
    router_counts(s.rig->router, &k);
    assert_int_equal(k.hung, 1);
    come_back(&s, s.w[1]);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fake_view(s.w[i]).n_barren, i == 1);
    }
    worker_give(s.w[0], 1, 0, 8, LENGTH);
    record_check(s.x, 1, 0, 10);
    rig_end(&s.rig);
}

/* Sends the leader's report of n steps, which has the step times of all stages.
 */
static void says_steps(struct fake *leader, uint32_t n, uint32_t us)
{
    uint32_t all[3] = {us, us, us};

    while (n-- > 0) {
        Sluice__V1__StepOutputMessage m = SLUICE__V1__STEP_OUTPUT_MESSAGE__INIT;

        m.has_device_us = true;
        m.device_us = us;
        m.n_stage_us = 3;
        m.stage_us = all;
        worker_say(leader, &m);
        rig_run(leader->rig);
    }
}

static void one_is_slow(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    says_steps(s.w[0], SLOW_STEPS_MIN, 60 * MS);
    says(s.w[2], 1, 1, SLOW_FACTOR * 60 * MS);
    assert_false(fake_view(s.w[2]).slow);
    ask(&s, 2);
    assert_false(waits(&s, 2));
    says(s.w[2], 2, 1, SLOW_FACTOR * 60 * MS + 1);
    assert_true(fake_view(s.w[2]).slow);
    assert_false(fake_view(s.w[0]).slow || fake_view(s.w[1]).slow);
    ask(&s, 3);
    assert_true(waits(&s, 3));
    says(s.w[2], 3, 0, 0);
    assert_false(waits(&s, 3));
    rig_free(&s.rig);
}

/* Tokens of a replica count for each of its stages: no life is barren. */
static void a_good_life(void **state)
{
    for (uint32_t n = LIFE_TOKENS - 1; n <= LIFE_TOKENS; n++) {
        struct scene s;

        (void)state;
        bring(&s);
        client_generate(s.c, 2, 40, 200);
        rig_run(s.rig);
        worker_give(s.w[0], 2, 0, n - 2, 0);
        fake_lost(s.w[2]);
        rig_run(s.rig);
        come_back(&s, s.w[2]);
        assert_int_equal(fake_view(s.w[2]).n_barren, n < LIFE_TOKENS);
        assert_int_equal(fake_view(s.w[0]).n_barren, 0);
        rig_free(&s.rig);
    }
}

/* A neighbour notices a death, but the connection to the router is open.  The
 * router waits until the next life sends Hello, or until the silence ends the
 * session. */
static void one_dies_in_the_dark(void **state)
{
    for (int comes = 0; comes < 2; comes++) {
        struct scene s;

        (void)state;
        bring(&s);
        s.w[1]->deaf = s.w[1]->mute = true;
        rig_advance(s.rig, 1 * MS);
        stage_broken(s.w[2], s.w[2]->assembly, "the edge from stage 1 ended");
        pass(&s, NAME_BUSY_US, s.w[1]);
        assert_false(s.w[0]->gone);
        ask(&s, 2);
        assert_true(waits(&s, 2));
        assert_int_equal(rig_state(s.rig, 1), CHOICE_DECODE);
        if (comes) {
            fake_restart(s.w[1]);
        } else {
            pass(&s, WORKER_LOST_US, s.w[1]);
        }
        assert_true(s.w[0]->gone && s.w[2]->gone && waits(&s, 1));
        fake_reconnect(s.w[0]);
        fake_reconnect(s.w[2]);
        if (!comes) {
            fake_restart(s.w[1]);
        }
        pass(&s, ASSEMBLE_RETRY_US, NULL);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(fake_view(s.w[i]).n_barren, i == 1);
        }
        worker_give(s.w[0], 1, 0, 8, LENGTH);
        record_check(s.x, 1, 0, 10);
        rig_free(&s.rig);
    }
}

/* With a stage on probation the replica gets one sequence at a time. */
static void one_on_probation(void **state)
{
    struct scene s;

    (void)state;
    bring_idle(&s);
    for (int death = 0; death < 2; death++) {
        fake_lost(s.w[1]);
        rig_run(s.rig);
        come_back(&s, s.w[1]);
    }
    assert_true(fake_view(s.w[1]).probation);
    ask(&s, 1);
    ask(&s, 2);
    assert_true(waits(&s, 1));
    pass(&s, 2000 * MS, NULL); /* the readmission delay */
    assert_false(waits(&s, 1));
    assert_true(waits(&s, 2));
    worker_give(s.w[0], 1, 0, TRIAL_TOKENS, 0);
    assert_false(waits(&s, 2));
    assert_false(fake_view(s.w[1]).probation);
    rig_free(&s.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_is_silent),
        cmocka_unit_test(one_stays_silent),
        cmocka_unit_test(one_hangs),
        cmocka_unit_test(one_is_slow),
        cmocka_unit_test(a_good_life),
        cmocka_unit_test(one_on_probation),
        cmocka_unit_test(one_dies_in_the_dark),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
