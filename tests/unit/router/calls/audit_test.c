/* Audit: the router compares each worker's ledger with its own account. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "router/base/router_limits.h"
#include "router/calls/router_state.h"
#include "tests/unit/router/rig.h"

static struct record *ask(struct fake *a)
{
    Sluice__V1__Nothing none = SLUICE__V1__NOTHING__INIT;
    struct record *x = client_call(a, METHOD_ADMIN_AUDIT, &none.base, 0);

    rig_run(a->rig);
    return x;
}

static const Sluice__V1__AuditAllReply *audit(struct fake *a)
{
    struct record *x = ask(a);

    rig_advance(a->rig, 3000000);
    assert_true(x->ended);
    assert_int_equal(x->status, ST_OK);
    return (const void *)x->reply;
}

static bool says(const Sluice__V1__WorkerAudit *w, const char *part)
{
    char text[4096];

    snprintf(text, sizeof text, "%.*s", (int)w->text.len,
             (const char *)w->text.data);
    return strstr(text, part) != NULL;
}

static void audits(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *c = rig_client(rig, "c1");
    struct fake *a = rig_admin(rig, "a1");
    const Sluice__V1__AuditAllReply *r;

    (void)state;
    r = (const void *)ask(a)->reply;
    assert_non_null(r); /* answered at once, without differences */
    assert_int_equal(r->n_differences, 0);
    assert_int_equal(r->n_workers, 1);
    client_generate(c, 1, 40, 4);
    client_generate(c, 2, 40, 4);
    rig_run(rig);
    r = (const void *)ask(a)->reply;
    assert_non_null(r);
    assert_int_equal(r->n_differences, 0);
    assert_int_equal(r->workers[0]->ledger->blocks->granted, 4);
    /* Differences that the worker finds itself are passed on. */
    w->audit_differences = 3;
    r = (const void *)ask(a)->reply;
    assert_int_equal(r->n_differences, 3);
    w->audit_differences = 0;
    /* A sequence that the worker has freed without reporting it. */
    worker_sequence_of(w, 2)->used = false;
    r = audit(a);
    assert_int_equal(r->n_differences, 1);
    assert_true(says(r->workers[0], "runs 1 sequences"));
    assert_true(says(r->workers[0], "counts 2"));
    rig_free(&rig);
}

/* A cancelled sequence may have ended at the worker while its memory waits for
 * a long plan.  Exactly that much may be missing. */
static void audits_of_the_leaving(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *c = rig_client(rig, "c1");
    struct fake *a = rig_admin(rig, "a1");

    (void)state;
    client_generate(c, 1, 40, 4);
    client_generate(c, 2, 40, 4);
    rig_run(rig);
    w->hold_receipts = true;
    client_cancel(c, 1);
    rig_run(rig);
    assert_int_equal(rig_state(rig, 1), CHOICE_ENDING);
    assert_true(ask(a)->ended);
    worker_sequence_of(w, 1)->finish = SLUICE__V1__FINISH__FINISH_CANCELLED;
    assert_true(ask(a)->ended);
    worker_sequence_of(w, 2)->finish = SLUICE__V1__FINISH__FINISH_CANCELLED;
    assert_false(ask(a)->ended); /* the worker is asked again */
    worker_sequence_of(w, 2)->finish = 0;
    rig_advance(rig, 200000);
    worker_receipt(w);
    rig_run(rig);
    rig_free(&rig);
}

/* The same for a sequence that is being moved. */
static void audits_of_the_moving(void **state)
{
    Sluice__V1__DrainRequest m = SLUICE__V1__DRAIN_REQUEST__INIT;
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *w2 = rig_worker(rig, "w2", 32, 8);
    struct fake *a = rig_admin(rig, "a1");
    struct record *x;

    (void)state;
    client_generate(rig_client(rig, "c1"), 1, 40, 4);
    rig_run(rig);
    w->hold_receipts = true;
    m.worker = wire_text("w1");
    m.has_grace_ms = true;
    m.grace_ms = 0;
    client_call(a, METHOD_ADMIN_DRAIN, &m.base, 0);
    rig_run(rig);
    assert_int_equal(rig_state(rig, 1), CHOICE_PREFILL);
    worker_sequence_of(w, 1)->finish = SLUICE__V1__FINISH__FINISH_CANCELLED;
    x = ask(a);
    assert_true(x->ended);
    assert_int_equal(
        ((const Sluice__V1__AuditAllReply *)x->reply)->n_differences, 0);
    worker_receipt(w);
    rig_run(rig);
    assert_int_equal(w2->n_submits, 1);
    rig_free(&rig);
}

static void audits_of_the_silent(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w1 = rig_worker(rig, "w1", 64, 8);
    struct fake *w2 = rig_worker(rig, "w2", 64, 8);
    struct fake *a = rig_admin(rig, "a1");
    const Sluice__V1__AuditAllReply *r;
    struct record *x, *y;

    (void)state;
    w1->mute_audit = true;
    x = ask(a);
    assert_false(x->ended);
    for (int i = 0; i < 21; i++) {
        rig_advance(rig, 100000);
        worker_report(w1);
        worker_report(w2);
    }
    assert_true(x->ended);
    r = (const void *)x->reply;
    assert_int_equal(r->n_differences, 1);
    assert_true(says(r->workers[0], "did not answer"));
    assert_null(r->workers[0]->ledger);
    /* A worker, and a caller, that is lost during the audit. */
    x = ask(a);
    y = ask(a);
    client_give_up(a, y);
    rig_run(rig);
    fake_lost(w1);
    rig_run(rig);
    assert_true(x->ended);
    r = (const void *)x->reply;
    assert_true(says(r->workers[0], "session ended during the audit"));
    rig_free(&rig);
}

/* A worker's report is compared, and passed on if it is valid text. */
static void audits_of_the_odd(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *a = rig_admin(rig, "a1");
    const Sluice__V1__AuditAllReply *r;

    (void)state;
    w->audit_session = w->session + 1;
    r = (const void *)ask(a)->reply;
    assert_int_equal(r->n_differences, 1);
    assert_true(says(r->workers[0], "ledger belongs to session"));
    assert_null(r->workers[0]->ledger);
    w->audit_session = 0;
    w->broken_audit = true;
    r = (const void *)ask(a)->reply;
    assert_int_equal(r->n_differences, 1);
    assert_true(says(r->workers[0], "pages do not add up"));
    /* The router's own difference and two of the worker's, one per line. */
    w->audit_differences = 2;
    w->audit_text = "block 7 is nobody's";
    r = (const void *)ask(a)->reply;
    assert_int_equal(r->n_differences, 3);
    assert_true(says(r->workers[0], "\nblock 7 is nobody's"));
    w->broken_audit = false;
    w->audit_text = "no \xff text";
    r = (const void *)ask(a)->reply;
    assert_int_equal(r->n_differences, 2);
    assert_true(says(r->workers[0], "found differences"));
    w->audit_differences = 0;
    assert_int_equal(audit(a)->n_differences, 0);
    rig_free(&rig);
}

static void audits_of_a_worker_that_counts_too_many(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *a = rig_admin(rig, "a1");
    const Sluice__V1__AuditAllReply *r;

    (void)state;
    w->audit_differences = AUDIT_DIFFERENCES_MAX;
    r = (const void *)ask(a)->reply;
    assert_int_equal(r->n_differences, AUDIT_DIFFERENCES_MAX);
    assert_false(w->gone);
    w->audit_differences = AUDIT_DIFFERENCES_MAX + 1;
    r = (const void *)ask(a)->reply;
    assert_true(w->gone);
    assert_int_equal(r->n_differences, 1);
    assert_true(says(r->workers[0], "session ended during the audit"));
    rig_free(&rig);
}

static void audits_at_once(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *a = rig_admin(rig, "a1");
    struct record *x[5];

    (void)state;
    w->mute_audit = true;
    for (int i = 0; i < 5; i++) {
        x[i] = ask(a);
        assert_int_equal(x[i]->ended, i == 4);
    }
    assert_int_equal(x[4]->status, ST_RESOURCE_EXHAUSTED);
    client_give_up(a, x[0]);
    rig_run(rig);
    assert_false(ask(a)->ended);
    fake_lost(w);
    rig_run(rig);
    for (int i = 1; i < 4; i++) {
        assert_true(x[i]->ended && x[i]->status == ST_OK);
    }
    rig_free(&rig);
}

/* With the most differences possible, the answer still fits in a message. */
static void audits_of_many(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *a = rig_admin(rig, "a1");
    const Sluice__V1__AuditAllReply *r;
    struct record *x;
    char name[80];

    (void)state;
    for (int i = 0; i < ROUTER_WORKERS_MAX; i++) {
        struct fake *w;
        memset(name, 'x', PEER_NAME_MAX);
        name[PEER_NAME_MAX] = '\0';
        name[0] = (char)('A' + i / 8);
        name[1] = (char)('0' + i % 8);
        w = rig_worker(rig, name, 64, 8);
        w->audit_differences = 1;
    }
    x = ask(a);
    assert_true(x->ended);
    if (x->status != ST_OK) {
        fail_msg("%s", x->error);
    }
    r = (const void *)x->reply;
    assert_int_equal(r->n_workers, ROUTER_WORKERS_MAX);
    assert_int_equal(r->n_differences, ROUTER_WORKERS_MAX);
    rig_free(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(audits),
        cmocka_unit_test(audits_of_the_leaving),
        cmocka_unit_test(audits_of_the_moving),
        cmocka_unit_test(audits_of_the_silent),
        cmocka_unit_test(audits_of_the_odd),
        cmocka_unit_test(audits_of_a_worker_that_counts_too_many),
        cmocka_unit_test(audits_at_once),
        cmocka_unit_test(audits_of_many),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
