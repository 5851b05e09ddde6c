/* Rare events: a full quarantine, texts at their limits, a client that breaks
 * rules, a worker that fails a Cancel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "router/base/router_limits.h"
#include "tests/unit/router/rig.h"

static void lie(struct fake *w)
{
    w->classes[0].free++;
    worker_report(w);
    rig_run(w->rig);
    assert_true(w->gone);
    w->classes[0].free--;
}

/* One name past the limit: the oldest one is admitted again. */
static void forgets_the_oldest_liar(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w[QUARANTINE_MAX + 1];
    char name[16];

    (void)state;
    for (int i = 0; i <= QUARANTINE_MAX; i++) {
        snprintf(name, sizeof name, "w%d", i);
        w[i] = rig_worker(rig, name, 64, 8);
        lie(w[i]);
        rig_advance(rig, 1000);
    }
    fake_reconnect(w[0]);
    assert_true(w[0]->up);
    for (int i = 1; i <= QUARANTINE_MAX; i += 21) {
        fake_reconnect(w[i]);
        assert_false(w[i]->up);
        assert_int_equal(w[i]->refusal, ST_UNAVAILABLE);
    }
    rig_free(&rig);
}

/* A second violation restarts the quarantine. */
static void a_liar_lies_again(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);

    (void)state;
    for (int i = 0; i < 3; i++) {
        lie(w);
        rig_advance(rig, WORKER_QUARANTINE_US / 2);
        fake_reconnect(w);
        assert_false(w->up);
        rig_advance(rig, WORKER_QUARANTINE_US / 2);
        fake_reconnect(w);
        assert_true(w->up);
    }
    rig_free(&rig);
}

static struct record *tokenize(struct fake *c, ProtobufCBinaryData model,
                               ProtobufCBinaryData text)
{
    Sluice__V1__TokenizeRequest m = SLUICE__V1__TOKENIZE_REQUEST__INIT;
    struct record *x;

    m.model = model;
    m.text = text;
    x = client_call(c, METHOD_INFERENCE_TOKENIZE, &m.base, 0);
    rig_run(c->rig);
    rig_advance(c->rig, 10000);
    assert_true(x->ended);
    return x;
}

static size_t n_ids(const struct record *x)
{
    assert_int_equal(x->status, ST_OK);
    return ((const Sluice__V1__TokenizeReply *)(const void *)x->reply)
        ->n_tokens;
}

static void texts_at_their_edges(void **state)
{
    static uint8_t large[1048576 / 4];
    struct fake_text text;
    struct rig_options o = {.max_peers = 16,
                            .max_requests = 16,
                            .max_waiting = 16,
                            .text = &text.seam};
    ProtobufCBinaryData none = {0, NULL}, tiny = wire_text("tiny");
    ProtobufCBinaryData nul = {2, (uint8_t *)(uintptr_t) "a"};
    char name[MODEL_NAME_MAX + 2];
    struct rig *rig;
    struct fake *c;

    (void)state;
    fake_text_init(&text, NULL);
    rig = rig_new(&o);
    c = rig_client(rig, "c1");
    assert_int_equal(n_ids(tokenize(c, tiny, none)), 0);
    assert_int_equal(tokenize(c, tiny, nul)->status, ST_INVALID_ARGUMENT);
    /* Without a name: the only model, if there is exactly one. */
    assert_int_equal(tokenize(c, none, tiny)->status, ST_INVALID_ARGUMENT);
    rig_worker(rig, "w1", 64, 8);
    assert_int_equal(n_ids(tokenize(c, none, tiny)), 4);
    memset(name, 'x', sizeof name);
    name[MODEL_NAME_MAX + 1] = '\0';
    assert_int_equal(tokenize(c, wire_text(name), tiny)->status,
                     ST_INVALID_ARGUMENT);
    name[MODEL_NAME_MAX] = '\0';
    assert_int_equal(tokenize(c, wire_text(name), tiny)->status, ST_NOT_FOUND);
    /* The largest answer within its limit, and one past it. */
    memset(large, 'x', sizeof large);
    assert_int_equal(
        tokenize(c, tiny, (ProtobufCBinaryData){sizeof large, large})->status,
        ST_OUT_OF_RANGE);
    assert_int_equal(
        n_ids(
            tokenize(c, tiny, (ProtobufCBinaryData){sizeof large - 4, large})),
        sizeof large - 4);
    text.full = true;
    assert_int_equal(tokenize(c, tiny, tiny)->status, ST_RESOURCE_EXHAUSTED);
    rig_free(&rig);
    fake_text_fini(&text);
}

/* Calls of the Admin service by a client: one below the limit, and at it. */
static void a_client_that_breaks_rules_is_put_out(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *c = rig_client(rig, "c1"), *other = rig_client(rig, "c2");
    Sluice__V1__StatusRequest nothing = SLUICE__V1__STATUS_REQUEST__INIT;
    struct router_metrics k;

    (void)state;
    for (int i = 0; i < PEER_STRIKES; i++) {
        struct record *x;

        assert_false(c->gone);
        x = client_call(c, METHOD_ADMIN_STATUS, &nothing.base, 0);
        rig_run(rig);
        assert_true(i == PEER_STRIKES - 1 || x->status == ST_PERMISSION_DENIED);
    }
    assert_true(c->gone && !other->gone);
    router_counts(rig->router, &k);
    assert_int_equal(k.strikes, PEER_STRIKES);
    rig_free(&rig);
}

/* The request ends anyway, and its caller gets the answer. */
static void a_worker_that_fails_a_cancel(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate(c, 1, 40, 10), *cancel;
    struct error e;

    (void)state;
    rig_run(rig);
    w->hold_receipts = true;
    cancel = client_cancel(c, 1);
    rig_run(rig);
    assert_false(cancel->ended);
    error_set(&e, ST_INTERNAL, "not today");
    peer_fail(w->peer, w->held[0].call, &e, 0);
    rig_run(rig);
    assert_true(cancel->ended && x->ended);
    assert_int_equal(cancel->status, ST_OK);
    assert_int_equal(cancel->receipt.blocks, 0);
    assert_int_equal(rig_state(rig, 1), CHOICE_ENDED);
    rig_free(&rig);
}

/* Calls by a client: a range, and invalid ids. */
static void removals_that_cannot_be(void **state)
{
    static const uint8_t id[16] = {1};
    struct rig *rig = rig_new(NULL);
    struct fake *c = rig_client(rig, "c1");
    Sluice__V1__RemoveRequest m = SLUICE__V1__REMOVE_REQUEST__INIT;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    struct record *x;

    (void)state;
    m.sequence = &ref;
    ref.request_id = (ProtobufCBinaryData){16, (uint8_t *)(uintptr_t)id};
    m.has_begin = true;
    x = client_call(c, METHOD_INFERENCE_REMOVE, &m.base, 0);
    rig_run(rig);
    assert_int_equal(x->status, ST_NOT_FOUND);
    m.has_begin = false;
    m.has_end = true;
    x = client_call(c, METHOD_INFERENCE_REMOVE, &m.base, 0);
    rig_run(rig);
    assert_int_equal(x->status, ST_NOT_FOUND);
    m.has_end = false;
    ref.request_id.len = 15;
    x = client_call(c, METHOD_INFERENCE_REMOVE, &m.base, 0);
    rig_run(rig);
    assert_int_equal(x->status, ST_INVALID_ARGUMENT);
    rig_free(&rig);
}

/* A report that a newer one has overtaken is dropped, and is no violation. */
static void an_old_report(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct router_worker_view before, after;

    (void)state;
    for (int i = 0; i < 3; i++) {
        worker_report(w);
        rig_run(rig);
    }
    assert_true(router_worker_view(rig->router, 0, &before));
    w->ledger.snapshot -= 2;
    worker_report(w);
    rig_run(rig);
    assert_true(router_worker_view(rig->router, 0, &after));
    assert_false(w->gone);
    assert_int_equal(after.snapshot, before.snapshot);
    rig_free(&rig);
}

static uint32_t n_clients(struct fake *admin)
{
    Sluice__V1__StatusRequest m = SLUICE__V1__STATUS_REQUEST__INIT;
    struct record *k = client_call(admin, METHOD_ADMIN_STATUS, &m.base, 0);
    uint32_t n;

    rig_run(admin->rig);
    assert_true(k->ended);
    n = ((Sluice__V1__StatusReply *)(void *)k->reply)->n_clients;
    fake_forget(admin);
    return n;
}

/* A client that was suspended is served again if it returns in time; one that
 * never acknowledges loses its session, and a resend ends. */
static void a_client_that_acknowledges_nothing(void **state)
{
    Sluice__V1__ListModelsRequest m = SLUICE__V1__LIST_MODELS_REQUEST__INIT;
    struct rig *rig = rig_new(NULL);
    struct fake *c = rig_client(rig, "c"), *admin = rig_admin(rig, "a");
    struct record *k;
    uint64_t sent;

    (void)state;
    for (int i = 0; i < 2; i++) {
        k = client_call(c, METHOD_INFERENCE_LIST_MODELS, &m.base, 0);
        c->deaf = true;
        rig_run(rig);
        rig_advance(rig, LINK_UNACKED_US - 2 * LINK_RESEND_MAX_US);
        assert_int_equal(n_clients(admin), 2);
        c->deaf = i > 0;
        rig_advance(rig, 3 * LINK_RESEND_MAX_US);
        assert_int_equal(k->ended, i == 0);
        assert_int_equal(n_clients(admin), i == 0 ? 2 : 1);
    }
    sent = rig->n_sent;
    rig_advance(rig, LINK_UNACKED_US);
    assert_int_equal(rig->n_sent, sent);
    rig_free(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forgets_the_oldest_liar),
        cmocka_unit_test(a_liar_lies_again),
        cmocka_unit_test(texts_at_their_edges),
        cmocka_unit_test(a_client_that_breaks_rules_is_put_out),
        cmocka_unit_test(a_worker_that_fails_a_cancel),
        cmocka_unit_test(removals_that_cannot_be),
        cmocka_unit_test(an_old_report),
        cmocka_unit_test(a_client_that_acknowledges_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
