/* Requests that continue kept sequences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "router/requests/choice_state.h"
#include "tests/unit/router/rig.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH

struct scene {
    struct rig *rig;
    struct fake *w, *other, *c;
};

static struct record *generate(struct scene *s, uint8_t id, uint32_t n_prompt,
                               const char *tenant, uint32_t keep_ms,
                               uint8_t from)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    uint8_t full[16];
    struct record *x;

    memset(full, from, sizeof full);
    ref.request_id = (ProtobufCBinaryData){sizeof full, full};
    m.model = wire_text("tiny");
    m.has_keep_ms = true;
    m.keep_ms = keep_ms;
    m.has_tenant = tenant != NULL;
    if (tenant != NULL) {
        m.tenant = wire_text(tenant);
    }
    m.continue_from = from > 0 ? &ref : NULL;
    x = client_generate_with(s->c, id, n_prompt, 4, &m, 0);
    rig_run(s->rig);
    return x;
}

/* Request 1 of 40 ids and 4 tokens is kept at w; the other worker has more
 * room. */
static void bring_with(struct scene *s, uint32_t blocks, const char *tenant)
{
    s->rig = rig_new(NULL);
    s->w = rig_worker(s->rig, "w1", blocks, 8);
    s->c = rig_client(s->rig, "c1");
    generate(s, 1, 40, tenant, 60000, 0);
    worker_give(s->w, 1, 0, 4, LENGTH);
    assert_int_equal(rig_state(s->rig, 1), CHOICE_ENDED);
    s->other = rig_worker(s->rig, "w2", 200, 64);
}

static void bring(struct scene *s)
{
    bring_with(s, 64, NULL);
}

/* Checks that a sequence has the ids of request 1, its tokens up to n_kept ids,
 * and then those of its own prompt. */
static void check_ids(const struct sequence *s, uint32_t n_kept, uint8_t id)
{
    uint8_t first[16];

    memset(first, 1, sizeof first);
    for (uint32_t i = 0; i < s->n_prompt; i++) {
        uint32_t want = i < 40 && i < n_kept ? (i * 3 + 1) % RIG_VOCAB
                        : i < n_kept         ? fake_token(first, i - 40)
                                     : ((i - n_kept) * 3 + id) % RIG_VOCAB;
        assert_int_equal(s->ids[i], want);
    }
}

static uint32_t n_open(struct scene *s)
{
    struct router_metrics k;

    router_counts(s->rig->router, &k);
    return (uint32_t)k.choices_open;
}

static void the_keeper_continues(void **state)
{
    struct scene s;
    struct sequence *q;
    struct record *x;
    struct router_metrics k;

    (void)state;
    bring(&s);
    x = generate(&s, 2, 10, NULL, 0, 1);
    q = worker_sequence_of(s.w, 2);
    assert_non_null(q);
    assert_true(q->continues);
    assert_int_equal(q->n_prompt, 40 + 4 + 10);
    check_ids(q, 44, 2);
    assert_int_equal(q->n_spans, 3);
    assert_int_equal(q->spans[0], 40);
    assert_int_equal(q->spans[1], 4);
    assert_int_equal(q->spans[2], 10);
    assert_int_equal(q->blocks, 2);  /* its whole length */
    assert_int_equal(n_open(&s), 1); /* the kept one has ended */
    q->reused = 43;
    worker_give(s.w, 2, 0, 4, LENGTH);
    record_check(x, 2, 0, 4);
    assert_int_equal(x->figures.n_prompt, 54);
    assert_true(x->figures.has_n_cached);
    assert_int_equal(x->figures.n_cached, 43);
    router_counts(s.rig->router, &k);
    assert_int_equal(k.continued, 1);
    assert_int_equal(k.reused_tokens, 43);
    rig_end(&s.rig);
}

/* "32 more": the tokens of both parts are one generated run. */
static void it_goes_on_without_a_prompt(void **state)
{
    struct scene s;
    struct sequence *q;
    struct record *x;

    (void)state;
    bring(&s);
    x = generate(&s, 2, 0, NULL, 60000, 1);
    q = worker_sequence_of(s.w, 2);
    assert_non_null(q);
    assert_true(q->continues);
    assert_int_equal(q->n_prompt, 40 + 4);
    check_ids(q, 44, 2);
    assert_int_equal(q->n_spans, 2);
    assert_int_equal(q->spans[0], 40);
    assert_int_equal(q->spans[1], 4);
    worker_give(s.w, 2, 0, 4, LENGTH);
    record_check(x, 2, 0, 4);
    generate(&s, 3, 0, NULL, 0, 2);
    q = worker_sequence_of(s.w, 3);
    assert_int_equal(q->n_prompt, 48);
    assert_int_equal(q->n_spans, 2);
    assert_int_equal(q->spans[1], 8);
    worker_give(s.w, 3, 0, 4, LENGTH);
    x = generate(&s, 4, 0, NULL, 0, 0); /* it continues nothing */
    assert_int_equal(x->status, ST_INVALID_ARGUMENT);
    assert_non_null(strstr(x->error, "the prompt is empty"));
    rig_end(&s.rig);
}

/* Runs follow one another: prompt, generated, prompt, generated, prompt. */
static void a_continuation_is_continued(void **state)
{
    struct scene s;
    struct sequence *q;

    (void)state;
    bring(&s);
    generate(&s, 2, 10, NULL, 60000, 1);
    worker_give(s.w, 2, 0, 4, LENGTH);
    generate(&s, 3, 7, NULL, 0, 2);
    q = worker_sequence_of(s.w, 3);
    assert_non_null(q);
    assert_true(q->continues);
    assert_int_equal(q->n_prompt, 54 + 4 + 7);
    assert_int_equal(q->n_spans, 5);
    assert_int_equal(q->spans[2], 10);
    assert_int_equal(q->spans[3], 4);
    assert_int_equal(q->spans[4], 7);
    worker_give(s.w, 3, 0, 4, LENGTH);
    rig_end(&s.rig);
}

/* A prompt may have SPANS_MAX runs: 64 turns end with one run of prompt, the
 * next one would have two runs more. */
static void the_number_of_runs_has_a_limit(void **state)
{
    struct record *x = NULL;
    struct scene s;
    uint8_t id;

    (void)state;
    bring(&s);
    for (id = 2; id <= SPANS_MAX / 2; id++) {
        x = generate(&s, id, 3, NULL, 60000, id - 1);
        worker_give(s.w, id, 0, 4, LENGTH);
        assert_int_equal(x->status, ST_OK);
    }
    x = generate(&s, id, 3, NULL, 60000, id - 1);
    assert_int_equal(x->status, ST_INVALID_ARGUMENT);
    assert_non_null(strstr(x->error, "129 runs"));
    /* The claim was returned. */
    x = generate(&s, id, 3, NULL, 60000, id - 1);
    assert_int_equal(x->status, ST_INVALID_ARGUMENT);
    rig_free(&s.rig);
}

static void it_is_continued_once(void **state)
{
    struct record *x;
    struct scene s;

    (void)state;
    bring(&s);
    s.w->hold_submits = true;
    generate(&s, 2, 10, NULL, 0, 1);
    x = generate(&s, 3, 10, NULL, 0, 1);
    assert_int_equal(x->status, ST_NOT_FOUND);
    assert_non_null(strstr(x->error, "send the whole prompt"));
    assert_non_null(strstr(x->error, "cache_salt"));
    rig_free(&s.rig);
}

static void unknown_running_and_foreign_ones_are_refused(void **state)
{
    struct record *x;
    struct scene s;

    (void)state;
    bring_with(&s, 64, "acme");
    assert_int_equal(generate(&s, 2, 10, "acme", 0, 77)->status, ST_NOT_FOUND);
    /* Another tenant learns nothing. */
    assert_int_equal(generate(&s, 3, 10, "umbrella", 0, 1)->status,
                     ST_NOT_FOUND);
    assert_int_equal(generate(&s, 4, 10, NULL, 0, 1)->status, ST_NOT_FOUND);
    generate(&s, 5, 10, "acme", 0, 0);
    x = generate(&s, 6, 10, "acme", 0, 5);
    assert_int_equal(x->status, ST_FAILED_PRECONDITION);
    assert_non_null(strstr(x->error, "its state is prefill"));
    generate(&s, 7, 10, "acme", 0, 1);
    assert_non_null(worker_sequence_of(s.w, 7));
    assert_string_equal(worker_sequence_of(s.w, 7)->tenant, "acme");
    rig_free(&s.rig);
}

/* The worker has lost it: the request runs anywhere, from its ids. */
static void a_keeper_that_lost_it(void **state)
{
    struct sequence *q;
    struct record *x;
    struct scene s;

    (void)state;
    bring(&s);
    s.w->refuse_continues = ST_NOT_FOUND;
    x = generate(&s, 2, 10, NULL, 0, 1);
    assert_int_equal(s.w->n_continues, 1);
    q = worker_sequence_of(s.other, 2);
    assert_non_null(q);
    assert_false(q->continues);
    check_ids(q, 44, 2);
    assert_int_equal(q->n_spans, 3);
    assert_int_equal(n_open(&s), 1);
    worker_give(s.other, 2, 0, 4, LENGTH);
    record_check(x, 2, 0, 4);
    rig_free(&s.rig);
}

/* A refusal for want of room leaves it kept, and is tried again there. */
static void a_refusal_for_room_keeps_it(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    s.w->refuse_continues = ST_RESOURCE_EXHAUSTED;
    generate(&s, 2, 10, NULL, 0, 1);
    assert_int_equal(rig_state(s.rig, 2), CHOICE_WAITING);
    assert_int_equal(n_open(&s), 2);
    s.w->refuse_continues = ST_OK;
    worker_report(s.w);
    rig_run(s.rig);
    assert_non_null(worker_sequence_of(s.w, 2));
    assert_true(worker_sequence_of(s.w, 2)->continues);
    rig_free(&s.rig);
}

static void the_keeper_is_lost(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    s.w->hold_submits = true;
    generate(&s, 2, 10, NULL, 0, 1);
    assert_int_equal(rig_state(s.rig, 2), CHOICE_SUBMITTED);
    fake_lost(s.w);
    rig_run(s.rig);
    assert_non_null(worker_sequence_of(s.other, 2));
    check_ids(worker_sequence_of(s.other, 2), 44, 2);
    worker_give(s.other, 2, 0, 4, LENGTH);
    rig_end(&s.rig);
}

/* Fills w so that a continuation has no room there while request 9 runs. */
static void crowd(struct scene *s)
{
    fake_lost(s->other);
    rig_run(s->rig);
    generate(s, 9, 40, NULL, 0, 0);
    assert_non_null(worker_sequence_of(s->w, 9));
    s->other = rig_worker(s->rig, "w3", 200, 64);
}

/* It waits for room at its keeper, although another place has room.  Those
 * behind it go to that place, and not to the room that it waits for. */
static void it_waits_for_room_at_its_keeper(void **state)
{
    struct scene s;

    (void)state;
    bring_with(&s, 5, NULL);
    crowd(&s); /* 4 of 5 blocks are taken */
    generate(&s, 2, 10, NULL, 0, 1);
    assert_int_equal(rig_state(s.rig, 2), CHOICE_WAITING);
    generate(&s, 3, 4, NULL, 0, 0);
    assert_non_null(worker_sequence_of(s.other, 3));
    assert_null(worker_sequence_of(s.w, 3));
    worker_give(s.w, 9, 0, 4, LENGTH);
    assert_non_null(worker_sequence_of(s.w, 2));
    assert_true(worker_sequence_of(s.w, 2)->continues);
    rig_free(&s.rig);
}

/* With every sequence there kept, no room can come: what is kept makes it. */
static void what_is_kept_gives_way_if_no_room_can_come(void **state)
{
    struct scene s;

    (void)state;
    bring_with(&s, 3, NULL);
    generate(&s, 2, 10, NULL, 0, 1); /* 2 blocks; 1 is free */
    assert_int_equal(s.w->n_removes, 1);
    assert_int_equal(s.w->n_continues, 0);
    assert_non_null(worker_sequence_of(s.other, 2));
    check_ids(worker_sequence_of(s.other, 2), 44, 2);
    rig_free(&s.rig);
}

static void a_drain_lets_it_go_elsewhere(void **state)
{
    Sluice__V1__DrainRequest m = SLUICE__V1__DRAIN_REQUEST__INIT;
    struct fake *a;
    struct scene s;

    (void)state;
    bring_with(&s, 5, NULL);
    a = rig_admin(s.rig, "a1");
    crowd(&s);
    generate(&s, 2, 10, NULL, 0, 1);
    assert_int_equal(rig_state(s.rig, 2), CHOICE_WAITING);
    m.worker = wire_text("w1");
    m.has_grace_ms = true;
    m.grace_ms = 60000;
    client_call(a, METHOD_ADMIN_DRAIN, &m.base, 0);
    rig_run(s.rig);
    assert_non_null(worker_sequence_of(s.other, 2));
    /* One that comes later does not wait for it either. */
    generate(&s, 3, 10, NULL, 0, 1);
    assert_non_null(worker_sequence_of(s.other, 3));
    rig_free(&s.rig);
}

/* A request that ends before its Submit returns its claim. */
static void a_cancelled_one_returns_its_claim(void **state)
{
    struct scene s;

    (void)state;
    bring_with(&s, 5, NULL);
    crowd(&s);
    generate(&s, 2, 10, NULL, 0, 1);
    client_cancel(s.c, 2);
    rig_run(s.rig);
    worker_give(s.w, 9, 0, 4, LENGTH);
    generate(&s, 3, 10, NULL, 0, 1);
    assert_true(worker_sequence_of(s.w, 3)->continues);
    rig_free(&s.rig);
}

/* A request that waits outlives the lease of what it continues. */
static void the_lease_ends_first(void **state)
{
    struct scene s;

    (void)state;
    bring_with(&s, 5, NULL);
    crowd(&s);
    generate(&s, 2, 10, NULL, 0, 1);
    for (int i = 0; i < 62; i++) {
        worker_report(s.w);
        worker_report(s.other);
        rig_advance(s.rig, 500000);
        worker_report(s.w);
        worker_report(s.other);
        rig_advance(s.rig, 500000);
    }
    assert_non_null(worker_sequence_of(s.other, 2));
    check_ids(worker_sequence_of(s.other, 2), 44, 2);
    rig_free(&s.rig);
}

/* A sequence that has moved computes from its ids; its spans go along. */
static void spans_move_along(void **state)
{
    struct sequence *q;
    struct record *x;
    struct scene s;

    (void)state;
    bring(&s);
    x = generate(&s, 2, 10, NULL, 0, 1);
    worker_give(s.w, 2, 0, 2, 0);
    fake_lost(s.w);
    rig_run(s.rig);
    q = worker_sequence_of(s.other, 2);
    assert_non_null(q);
    assert_false(q->continues);
    assert_int_equal(q->n_spans, 3);
    assert_int_equal(q->n_prompt, 54);
    assert_int_equal(q->n_given, 2);
    worker_give(s.other, 2, 0, 2, LENGTH);
    record_check(x, 2, 0, 4);
    rig_end(&s.rig);
}

/* All choices that are sent before the first is accepted name what is kept. */
static void choices_continue_together(void **state)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    uint8_t full[16];
    struct scene s;

    (void)state;
    bring(&s);
    memset(full, 1, sizeof full);
    ref.request_id = (ProtobufCBinaryData){sizeof full, full};
    m.continue_from = &ref;
    m.has_n = true;
    m.n = 3;
    s.w->hold_submits = true;
    client_generate_with(s.c, 2, 10, 4, &m, 0);
    rig_run(s.rig);
    for (uint32_t c = 0; c < 3; c++) {
        assert_true(worker_choice_of(s.w, 2, c)->continues);
    }
    assert_int_equal(s.w->n_continues, 3);
    assert_int_equal(n_open(&s), 4); /* none is accepted yet */
    rig_free(&s.rig);
}

/* Its owner removes it while the Submit that continues it is under way: each
 * gets its answer. */
static void what_is_continued_may_be_removed(void **state)
{
    Sluice__V1__Nothing none = SLUICE__V1__NOTHING__INIT;
    struct record *x, *k;
    struct scene s;

    (void)state;
    bring(&s);
    s.w->hold_submits = s.w->hold_receipts = true;
    x = generate(&s, 2, 10, NULL, 0, 1);
    k = client_remove(s.c, 1);
    rig_run(s.rig);
    assert_false(k->ended);
    peer_end(s.w->peer, worker_sequence_of(s.w, 2)->call, &none.base);
    rig_run(s.rig);
    assert_false(k->ended);
    worker_receipt(s.w);
    rig_run(s.rig);
    assert_int_equal(k->status, ST_OK);
    assert_int_equal(k->receipt.blocks, 0);
    worker_give(s.w, 2, 0, 4, LENGTH);
    record_check(x, 2, 0, 4);
    rig_end(&s.rig);
}

/* A call that is resumed after it took over what was kept. */
static void a_resumed_call_does_not_find_it(void **state)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    uint32_t one = 1, zero = 0, tokens[1];
    protobuf_c_boolean no = false;
    uint8_t full[16], id[16];
    struct fake *c2;
    struct record *x;
    struct scene s;

    (void)state;
    bring(&s);
    generate(&s, 2, 10, NULL, 0, 1);
    worker_give(s.w, 2, 0, 1, 0);
    fake_lost(s.c);
    rig_run(s.rig);
    worker_report(s.w);
    rig_run(s.rig);
    c2 = rig_client(s.rig, "c2");
    memset(full, 1, sizeof full);
    memset(id, 2, sizeof id);
    tokens[0] = fake_token(id, 0);
    ref.request_id = (ProtobufCBinaryData){sizeof full, full};
    m.model = wire_text("tiny");
    m.continue_from = &ref;
    m.n_have_count = m.n_have_text = m.n_have_ended = m.n_have_tokens = 1;
    m.have_count = &one;
    m.have_text = &zero;
    m.have_ended = &no;
    m.have_tokens = tokens;
    x = client_generate_with(c2, 2, 10, 4, &m, 0);
    rig_run(s.rig);
    assert_int_equal(x->status, ST_NOT_FOUND);
    assert_int_equal(x->retry_ms, 0);
    assert_non_null(strstr(x->error, "send the whole prompt"));
    rig_free(&s.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_keeper_continues),
        cmocka_unit_test(it_goes_on_without_a_prompt),
        cmocka_unit_test(a_continuation_is_continued),
        cmocka_unit_test(the_number_of_runs_has_a_limit),
        cmocka_unit_test(it_is_continued_once),
        cmocka_unit_test(unknown_running_and_foreign_ones_are_refused),
        cmocka_unit_test(a_keeper_that_lost_it),
        cmocka_unit_test(a_refusal_for_room_keeps_it),
        cmocka_unit_test(the_keeper_is_lost),
        cmocka_unit_test(it_waits_for_room_at_its_keeper),
        cmocka_unit_test(what_is_kept_gives_way_if_no_room_can_come),
        cmocka_unit_test(a_drain_lets_it_go_elsewhere),
        cmocka_unit_test(a_cancelled_one_returns_its_claim),
        cmocka_unit_test(the_lease_ends_first),
        cmocka_unit_test(spans_move_along),
        cmocka_unit_test(choices_continue_together),
        cmocka_unit_test(what_is_continued_may_be_removed),
        cmocka_unit_test(a_resumed_call_does_not_find_it),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
