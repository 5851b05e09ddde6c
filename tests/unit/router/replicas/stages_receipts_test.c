/* A leader's reports about its stages must add up: receipts and steps; and
 * audits of the stages themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "tests/unit/router/rig.h"

static char lied[LOG_LINE];

static void sink(void *arg, enum log_level level, const char *line)
{
    (void)arg, (void)level;
    if (strstr(line, "worker-protocol-violation") != NULL) {
        snprintf(lied, sizeof lied, "%s", line);
    }
}

static int listen_in(void **state)
{
    (void)state;
    lied[0] = '\0';
    log_setup(LOG_INFO, sink, NULL);
    return 0;
}

static int listen_no_more(void **state)
{
    (void)state;
    log_setup(LOG_OFF, NULL, NULL);
    return 0;
}

/* Sequence 1 runs at w[0], the leader of three stages, with two blocks at each.
 */
struct scene {
    struct rig *rig;
    struct fake *w[3], *c, *a;
    struct record *x;
    uint64_t age_us; /* of the step at w[1]; 0: none */
};

static void bring(struct scene *s)
{
    memset(s, 0, sizeof *s);
    s->rig = rig_new(NULL);
    rig_replica(s->rig, s->w, 3);
    s->c = rig_client(s->rig, "c1");
    s->a = rig_admin(s->rig, "a1");
    s->x = client_generate(s->c, 1, 40, 10);
    rig_run(s->rig);
    worker_give(s->w[0], 1, 0, 2, 0);
}

static void is_lie(struct scene *s, struct fake *w, const char *why)
{
    if (strstr(lied, why) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", why, lied);
    }
    for (int i = 0; i < 3; i++) {
        assert_true(s->w[i]->gone); /* its assembly ends with it */
    }
    assert_non_null(strstr(w->goodbye, "protocol violation"));
    rig_free(&s->rig);
}

/* ---- receipts ---- */

static void of_one(void **state)
{
    static const uint32_t blocks[] = {2, 0, 2}, slots[] = {0, 1, 1};
    static const uint32_t totals[] = {64, 0, 64}, more[] = {0, 8, 8};
    struct scene s = {.rig = rig_new(NULL)};
    struct record *k;

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        static const char *const names[] = {"w0", "w1", "w2"};

        s.w[i] = rig_stage_with(s.rig, names[i], i, i < 2 ? i + 1 : 4,
                                totals[i], more[i]);
    }
    s.c = rig_client(s.rig, "c1");
    client_generate(s.c, 1, 40, 10);
    rig_run(s.rig);
    k = client_cancel(s.c, 1);
    rig_run(s.rig);
    assert_int_equal(k->status, ST_OK);
    assert_int_equal(k->receipt.blocks, 4);
    assert_int_equal(k->receipt.slots, 2);
    assert_int_equal(k->n_stages, 3);
    assert_memory_equal(k->stage_blocks, blocks, sizeof blocks);
    assert_memory_equal(k->stage_slots, slots, sizeof slots);
    assert_string_equal(k->worker, "w0");
    assert_int_equal(s.w[0]->n_cancels, 1);
    assert_int_equal(s.w[1]->n_cancels + s.w[2]->n_cancels, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(s.w[i]->classes[0].free, totals[i]);
        assert_int_equal(s.w[i]->classes[1].free, more[i]);
    }
    rig_end(&s.rig);
}

/* All choices of a request at one replica: sums per stage. */
static void of_choices(void **state)
{
    struct scene s;
    struct record *k;

    (void)state;
    bring(&s);
    client_generate_n(s.c, 2, 3, 40, 10);
    rig_run(s.rig);
    k = client_remove(s.c, 2);
    rig_run(s.rig);
    assert_int_equal(k->status, ST_OK);
    assert_int_equal(k->receipt.blocks, 18);
    assert_int_equal(k->n_stages, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(k->stage_blocks[i], 6);
        assert_int_equal(k->stage_slots[i], 3);
    }
    rig_free(&s.rig);
}

/* Choices at two places: the receipt has no columns per stage. */
static void of_several_places(void **state)
{
    struct scene s;
    struct record *k;
    struct fake *whole;

    (void)state;
    bring(&s);
    whole = rig_worker(s.rig, "whole", 62, 7);
    client_generate_n(s.c, 2, 2, 40, 10);
    rig_run(s.rig);
    assert_int_equal(whole->n_submits, 1);
    k = client_remove(s.c, 2);
    rig_run(s.rig);
    assert_int_equal(k->status, ST_OK);
    assert_int_equal(k->receipt.blocks, 8);
    assert_int_equal(k->n_stages, 0);
    assert_string_equal(k->worker, "");
    rig_free(&s.rig);
}

/* Nothing was freed: the columns may be missing, and the sums are right. */
static void of_nothing(void **state)
{
    struct scene s;
    struct record *k;

    (void)state;
    bring(&s);
    s.w[0]->receipt_stages = -1;
    worker_release(s.w[0], worker_sequence_of(s.w[0], 1));
    k = client_cancel(s.c, 1);
    rig_run(s.rig);
    assert_int_equal(k->status, ST_OK);
    assert_int_equal(k->receipt.blocks + k->n_stages, 0);
    rig_end(&s.rig);
}

static void none_where_something_was_freed(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    s.w[0]->receipt_stages = -1;
    client_cancel(s.c, 1);
    rig_run(s.rig);
    is_lie(&s, s.w[0], "the receipt lists 0 and 0 stages, the place has 3");
}

static void one_stage_too_few(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    s.w[0]->receipt_stages = 2;
    client_cancel(s.c, 1);
    rig_run(s.rig);
    is_lie(&s, s.w[0], "the receipt lists 2 and 2 stages, the place has 3");
}

static void one_stage_too_many(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    s.w[0]->receipt_stages = 4;
    client_cancel(s.c, 1);
    rig_run(s.rig);
    is_lie(&s, s.w[0], "the receipt lists 4 and 4 stages, the place has 3");
}

static void sums_that_are_none(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    s.w[0]->receipt_blocks = 7;
    client_cancel(s.c, 1);
    rig_run(s.rig);
    is_lie(&s, s.w[0],
           "the receipt reports 7 blocks and 3 slots, but its stages add up to "
           "6 and 3");
}

/* A worker with all layers has no stages to report. */
static void of_a_whole_one(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8), *c = rig_client(rig, "c1");

    (void)state;
    client_generate(c, 1, 40, 10);
    rig_run(rig);
    w->receipt_stages = 1;
    client_cancel(c, 1);
    rig_run(rig);
    assert_true(w->gone);
    assert_non_null(
        strstr(lied, "the receipt lists 1 and 1 stages, the place has 0"));
    rig_free(&rig);
}

/* ---- steps ---- */

static void a_step_of_a_stage(void **state)
{
    Sluice__V1__StepOutputMessage m = SLUICE__V1__STEP_OUTPUT_MESSAGE__INIT;
    struct scene s;

    (void)state;
    bring(&s);
    worker_say(s.w[1], &m);
    rig_run(s.rig);
    is_lie(&s, s.w[1],
           "StepOutput came from layers 1-2, only the first stage may send it");
}

static void says_times(struct fake *w, size_t n)
{
    uint32_t us[4] = {100, 200, 300, 400};
    Sluice__V1__StepOutputMessage m = SLUICE__V1__STEP_OUTPUT_MESSAGE__INIT;

    m.has_device_us = true;
    m.device_us = 100;
    m.n_stage_us = n;
    m.stage_us = us;
    worker_say(w, &m);
    rig_run(w->rig);
}

static void times_of_each_stage(void **state)
{
    Sluice__V1__ListRequest m = SLUICE__V1__LIST_REQUEST__INIT;
    Sluice__V1__StatusRequest none = SLUICE__V1__STATUS_REQUEST__INIT;
    const Sluice__V1__ListWorkersReply *l;
    struct record *x;
    struct scene s;

    (void)state;
    bring(&s);
    says_times(s.w[0], 3);
    x = client_call(s.a, METHOD_ADMIN_LIST_WORKERS, &m.base, 0);
    rig_run(s.rig);
    l = (const void *)x->reply;
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(l->workers[i]->step_us, 100 * (i + 1));
        assert_int_equal(l->workers[i]->n_tokens, 2);
        assert_int_equal(l->workers[i]->n_sequences, 1);
    }
    x = client_call(s.a, METHOD_ADMIN_STATUS, &none.base, 0);
    rig_run(s.rig);
    assert_int_equal(
        ((const Sluice__V1__StatusReply *)(const void *)x->reply)->n_running,
        1);
    rig_free(&s.rig);
}

static void times_of_too_few(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    says_times(s.w[0], 2);
    is_lie(&s, s.w[0], "StepOutput lists 2 stages, the place has 3");
}

static void times_of_too_many(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    says_times(s.w[0], 4);
    is_lie(&s, s.w[0], "StepOutput lists 4 stages, the place has 3");
}

/* ---- audit ---- */

/* Reports a step under way, of that age. */
static void report_step(struct fake *w, uint64_t age_us)
{
    Sluice__V1__ReportMessage m = SLUICE__V1__REPORT_MESSAGE__INIT;
    Sluice__V1__EngineState e = SLUICE__V1__ENGINE_STATE__INIT;

    e.ticks = ++w->ledger.snapshot;
    e.n_planned = 1;
    e.plan_age_us = age_us;
    fake_pages(w);
    m.ledger = &w->ledger;
    m.engine = &e;
    assert_int_equal(peer_oneway(w->peer, METHOD_REGISTRY_REPORT, &m.base),
                     ST_OK);
}

static const Sluice__V1__AuditAllReply *audit(struct scene *s)
{
    Sluice__V1__Nothing m = SLUICE__V1__NOTHING__INIT;
    struct record *x = client_call(s->a, METHOD_ADMIN_AUDIT, &m.base, 0);

    for (int i = 0; i < 25 && !x->ended; i++) {
        rig_advance(s->rig, 100000);
        for (int k = 0; k < 3; k++) {
            worker_report(s->w[k]);
        }
        if (s->age_us > 0) {
            report_step(s->w[1], s->age_us);
        }
        rig_run(s->rig);
    }
    assert_int_equal(x->status, ST_OK);
    return (const void *)x->reply;
}

static void differs(struct scene *s, int i, const char *how)
{
    const Sluice__V1__AuditAllReply *m = audit(s);
    char text[512];

    assert_int_equal(m->n_workers, 3);
    assert_int_equal(m->n_differences, 1);
    assert_int_equal(m->workers[i]->n_differences, 1);
    snprintf(text, sizeof text, "%.*s", (int)m->workers[i]->text.len,
             (const char *)m->workers[i]->text.data);
    if (strstr(text, how) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", how, text);
    }
    rig_free(&s->rig);
}

static void all_is_well(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    client_generate_n(s.c, 2, 3, 100, 50);
    rig_run(s.rig);
    s.w[0]->refuse_submits =
        ST_CANCELLED; /* a grant number without a sequence */
    client_generate(s.c, 3, 100, 50);
    rig_run(s.rig);
    s.w[0]->refuse_submits = ST_OK;
    assert_int_equal(audit(&s)->n_differences, 0);
    s.w[0]->hold_receipts = true; /* being cancelled: present or not */
    client_cancel(s.c, 1);
    rig_run(s.rig);
    assert_int_equal(audit(&s)->n_differences, 0);
    worker_release(s.w[2], worker_sequence_of(s.w[2], 1));
    worker_sequence_of(s.w[2], 1)->used = false;
    assert_int_equal(audit(&s)->n_differences, 0);
    rig_free(&s.rig);
}

/* The lease has ended at the worker; the router notices by its own clock. */
static void what_was_kept_may_be_gone(void **state)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct scene s;

    (void)state;
    bring(&s);
    m.model = wire_text("tiny");
    m.has_keep_ms = true;
    m.keep_ms = 600000;
    client_generate_with(s.c, 2, 40, 4, &m, 0);
    rig_run(s.rig);
    worker_give(s.w[0], 2, 0, 4, SLUICE__V1__FINISH__FINISH_LENGTH);
    rig_run(s.rig);
    assert_int_equal(audit(&s)->n_differences, 0);
    worker_release(s.w[2], worker_sequence_of(s.w[2], 2));
    worker_sequence_of(s.w[2], 2)->used = false;
    assert_int_equal(audit(&s)->n_differences, 0);
    rig_free(&s.rig);
}

/* A stage never received the removal of a sequence. */
static void one_too_many(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    s.w[2]->hold_removes = true;
    client_cancel(s.c, 1);
    rig_run(s.rig);
    differs(&s, 2,
            "the worker runs 1 sequences of the grants up to 1, the router "
            "counts 0");
}

/* Ended, and its removal waits for a step of the stage before. */
static void one_more_behind_a_long_step(void **state)
{
    struct scene s;

    (void)state;
    for (int old = 0; old < 2; old++) {
        bring(&s);
        s.w[2]->hold_removes = true;
        client_cancel(s.c, 1);
        rig_run(s.rig);
        s.age_us = old ? 500000 : 399999;
        if (old) {
            assert_int_equal(audit(&s)->n_differences, 0);
            rig_free(&s.rig);
        } else {
            differs(&s, 2, "the worker runs 1 sequences");
        }
    }
}

/* The stage has all sequences, but holds less for them than was granted. */
static void less_than_was_granted(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    s.w[1]->classes[0].granted--;
    s.w[1]->classes[0].free++;
    differs(&s, 1,
            "the worker holds 1 blocks and 1 slots for the grants up to 1, the "
            "router counts at most 2 and 1");
}

/* A leader frees a sequence that has ended after all its stages: those may have
 * a long step before the removal. */
static void a_slot_more(void **state)
{
    struct scene s;

    (void)state;
    for (int old = 0; old < 2; old++) {
        bring(&s);
        s.w[0]->classes[1].granted++;
        s.w[0]->classes[1].free--;
        s.age_us = old ? 500000 : 399999;
        if (old) {
            assert_int_equal(audit(&s)->n_differences, 0);
            rig_free(&s.rig);
        } else {
            differs(&s, 0,
                    "the worker holds 2 blocks and 2 slots for the grants up "
                    "to 1, the router counts at most 2 and 1");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_one),
        cmocka_unit_test(of_choices),
        cmocka_unit_test(of_several_places),
        cmocka_unit_test(of_nothing),
        cmocka_unit_test_setup(none_where_something_was_freed, listen_in),
        cmocka_unit_test_setup(one_stage_too_few, listen_in),
        cmocka_unit_test_setup(one_stage_too_many, listen_in),
        cmocka_unit_test_setup(sums_that_are_none, listen_in),
        cmocka_unit_test_setup(of_a_whole_one, listen_in),
        cmocka_unit_test_setup(a_step_of_a_stage, listen_in),
        cmocka_unit_test(times_of_each_stage),
        cmocka_unit_test_setup(times_of_too_few, listen_in),
        cmocka_unit_test_setup(times_of_too_many, listen_in),
        cmocka_unit_test(all_is_well),
        cmocka_unit_test(what_was_kept_may_be_gone),
        cmocka_unit_test(one_too_many),
        cmocka_unit_test(one_more_behind_a_long_step),
        cmocka_unit_test(less_than_was_granted),
        cmocka_unit_test(a_slot_more),
    };

    return cmocka_run_group_tests(tests, listen_in, listen_no_more);
}
