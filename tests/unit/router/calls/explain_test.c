/* Explain: why a sequence waits, or went where it went. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "router/base/router_limits.h"
#include "tests/unit/router/rig.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH

struct scene {
    struct rig *rig;
    struct fake *w, *c, *a;
};

static void bring(struct scene *s, uint32_t blocks)
{
    static const struct rig_options o = {.max_peers = 64,
                                         .max_requests = 64,
                                         .max_waiting = 64,
                                         .worker_wait_us = 5000000};

    s->rig = rig_new(&o);
    s->w = rig_worker(s->rig, "w1", blocks, 8);
    s->c = rig_client(s->rig, "c1");
    s->a = rig_admin(s->rig, "a1");
}

static struct record *ask(struct scene *s, uint8_t id, uint32_t choice)
{
    Sluice__V1__ExplainRequest m = SLUICE__V1__EXPLAIN_REQUEST__INIT;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    uint8_t full[16];
    struct record *x;

    memset(full, id, sizeof full);
    ref.request_id = (ProtobufCBinaryData){sizeof full, full};
    ref.has_choice = choice > 0;
    ref.choice = choice;
    m.sequence = &ref;
    x = client_call(s->a, METHOD_ADMIN_EXPLAIN, &m.base, 0);
    rig_run(s->rig);
    assert_true(x->ended);
    return x;
}

static const Sluice__V1__ExplainReply *explain(struct scene *s, uint8_t id)
{
    struct record *x = ask(s, id, 0);

    assert_int_equal(x->status, ST_OK);
    return (const void *)x->reply;
}

static bool same(ProtobufCBinaryData d, const char *text)
{
    return d.len == strlen(text) && memcmp(d.data, text, d.len) == 0;
}

static void says(ProtobufCBinaryData d, const char *part)
{
    char text[2048];

    snprintf(text, sizeof text, "%.*s", (int)d.len, (const char *)d.data);
    if (strstr(text, part) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", part, text);
    }
}

static void one_that_waits_has_its_position_and_places(void **state)
{
    const Sluice__V1__ExplainReply *r;
    struct scene s;

    (void)state;
    bring(&s, 4);
    for (uint8_t id = 1; id <= 3; id++) {
        client_generate(s.c, id, 70, 20); /* 3 blocks and a slot */
        rig_run(s.rig);
    }
    rig_advance(s.rig, 700);
    r = explain(&s, 2);
    assert_true(same(r->state, "waiting"));
    assert_false(r->has_worker);
    assert_true(r->has_position && r->position == 0);
    assert_int_equal(r->n_prompt, 70);
    assert_int_equal(r->queued_us, 700);
    assert_int_equal(r->n_places, 1);
    assert_true(same(r->places[0]->worker, "w1"));
    assert_int_equal(r->places[0]->need_pages, 4);
    assert_int_equal(r->places[0]->room_pages, 12 - 4);
    assert_int_equal(r->places[0]->n_running, 1);
    assert_true(r->places[0]->score == 0);
    says(r->places[0]->reason, "too few of its pages are free");
    says(r->text, "It is the first in the queue of model tiny.");
    says(r->text, "It is expected to start in 0.");
    r = explain(&s, 3);
    assert_int_equal(r->position, 1);
    says(r->text, "It waits behind 1 sequences");
    rig_free(&s.rig);
}

/* The reply names the blockers, the largest first, and the max_tokens that
 * would fit. */
static void blockers_and_remedies_are_named(void **state)
{
    const Sluice__V1__ExplainReply *r;
    struct scene s;

    (void)state;
    bring(&s, 12);                    /* 12 blocks, 8 slots: 20 pages */
    client_generate(s.c, 1, 70, 20);  /* 3 blocks and a slot */
    client_generate(s.c, 2, 100, 60); /* 5 blocks and a slot */
    rig_run(s.rig);
    client_generate(s.c, 3, 40, 150); /* 6 of the 4 that are left */
    rig_run(s.rig);
    r = explain(&s, 3);
    assert_true(same(r->state, "waiting"));
    says(r->text, "At worker w1, 0202");
    says(r->text, "of tenant default has 5 pages");
    says(r->text, "At worker w1, 0101");
    says(r->text, "With max_tokens of 88 or less, worker w1 would have room");
    client_generate(s.c, 4, 300, 20); /* no length helps */
    rig_run(s.rig);
    r = explain(&s, 4);
    says(r->text, "One more worker of the model would help.");
    rig_free(&s.rig);
}

static void each_place_has_its_reason(void **state)
{
    const Sluice__V1__ExplainReply *r;
    struct fake *full, *slots, *short_one;
    struct scene s;

    (void)state;
    bring(&s, 2);
    full = rig_worker(s.rig, "full", 2, 8);
    slots = rig_worker(s.rig, "slots", 64, 1);
    short_one = fake_worker_new(s.rig, "short", 64, 8);
    short_one->shard.context = 64;
    fake_hello(short_one);
    client_generate(s.c, 1, 70, 20);
    rig_run(s.rig);
    assert_non_null(worker_sequence_of(slots, 1));
    full->refuse_submits = ST_OK;
    client_generate(s.c, 2, 70, 20);
    rig_run(s.rig);
    r = explain(&s, 2);
    assert_int_equal(r->n_places, 4);
    says(r->places[0]->reason, "too few of its pages");
    says(r->places[2]->reason, "all its slots are taken");
    says(r->places[3]->reason, "its context is too short");
    rig_free(&s.rig);
}

static void without_a_worker_it_has_no_place(void **state)
{
    const Sluice__V1__ExplainReply *r;
    struct scene s;

    (void)state;
    bring(&s, 4);
    client_generate(s.c, 1, 70, 20);
    rig_run(s.rig);
    worker_give(s.w, 1, 0, 2, 0);
    fake_lost(s.w);
    rig_run(s.rig);
    r = explain(&s, 1);
    assert_int_equal(r->n_places, 0);
    says(r->text, "No worker of the model is up.");
    says(r->text, "It ran before and has 2 tokens.");
    rig_free(&s.rig);
}

/* The figures are those of the grant, whatever came later. */
static void one_that_was_granted_has_the_places_of_that_time(void **state)
{
    const Sluice__V1__ExplainReply *r;
    struct fake *w2;
    struct scene s;

    (void)state;
    bring(&s, 64);
    w2 = rig_worker(s.rig, "w2", 32, 8);
    worker_index(w2, 1, 0, 4, true, true);
    client_generate(s.c, 1, 300, 20);
    rig_run(s.rig);
    assert_non_null(worker_sequence_of(w2, 1));
    worker_index(w2, 1, 0, 4, false, false);
    r = explain(&s, 1);
    assert_true(same(r->state, "prefill"));
    assert_true(r->has_worker && same(r->worker, "w2"));
    assert_false(r->has_position || r->has_n_cached);
    assert_int_equal(r->n_places, 2);
    assert_true(same(r->places[0]->worker, "w2"));
    assert_int_equal(r->places[0]->restorable, 256);
    assert_int_equal(r->places[0]->need_pages, 11);
    assert_int_equal(r->places[0]->room_pages, 40);
    assert_true(same(r->places[1]->worker, "w1"));
    assert_int_equal(r->places[1]->restorable, 0);
    assert_true(r->places[0]->score > r->places[1]->score);
    assert_true(r->places[1]->score > 0);
    assert_false(r->places[1]->has_reason);
    says(r->text, "granted at worker w2: 44 tokens were to compute");
    says(r->text, "expected 256 tokens of its prompt to be restored");
    worker_sequence_of(w2, 1)->reused = 192;
    worker_give(w2, 1, 0, 1, 0);
    r = explain(&s, 1);
    assert_true(r->has_n_cached && r->n_cached == 192);
    says(r->text, "The worker restored 192 of 300 tokens.");
    assert_int_equal(r->places[0]->restorable, 256);
    rig_free(&s.rig);
}

/* With one worker past the limit, the chosen one is among those kept. */
static void the_record_is_bounded(void **state)
{
    const Sluice__V1__ExplainReply *r;
    struct fake *last = NULL;
    struct scene s;

    (void)state;
    bring(&s, 64);
    for (int i = 1; i <= EXPLAIN_PLACES_MAX; i++) {
        char name[16];

        snprintf(name, sizeof name, "v%d", i);
        last = rig_worker(s.rig, name, 64 + (uint32_t)i, 8);
    }
    client_generate(s.c, 1, 70, 20);
    rig_run(s.rig);
    assert_non_null(worker_sequence_of(last, 1));
    r = explain(&s, 1);
    assert_int_equal(r->n_places, EXPLAIN_PLACES_MAX);
    assert_true(same(r->places[0]->worker, last->name));
    assert_true(same(r->places[1]->worker, "w1"));
    rig_free(&s.rig);
}

static void a_moved_one_shows_its_newest_place(void **state)
{
    const Sluice__V1__ExplainReply *r;
    struct scene s;

    (void)state;
    bring(&s, 64);
    client_generate(s.c, 1, 70, 20);
    rig_run(s.rig);
    worker_give(s.w, 1, 0, 3, 0);
    rig_worker(s.rig, "w2", 64, 8);
    fake_lost(s.w);
    rig_run(s.rig);
    r = explain(&s, 1);
    assert_true(same(r->worker, "w2"));
    says(r->text, "It moved 1 times");
    says(r->text, "73 tokens were to compute");
    rig_free(&s.rig);
}

static void kept_and_ended_ones(void **state)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct record *x;
    struct scene s;

    (void)state;
    bring(&s, 64);
    m.has_keep_ms = true;
    m.keep_ms = 5000;
    client_generate_with(s.c, 1, 70, 2, &m, 0);
    client_generate(s.c, 2, 70, 2);
    rig_run(s.rig);
    worker_give(s.w, 1, 0, 2, LENGTH);
    worker_give(s.w, 2, 0, 2, LENGTH);
    assert_true(same(explain(&s, 1)->state, "kept"));
    x = ask(&s, 2, 0);
    assert_int_equal(x->status, ST_NOT_FOUND);
    assert_non_null(strstr(x->error, "there is no such sequence"));
    x = ask(&s, 1, 1);
    assert_int_equal(x->status, ST_NOT_FOUND);
    x = ask(&s, 0, 0);
    assert_int_equal(x->status, ST_INVALID_ARGUMENT);
    rig_free(&s.rig);
}

/* The same policy asks about headroom. */
static void headroom_is_a_reason(void **state)
{
    static const struct rig_options o = {.max_peers = 64,
                                         .max_requests = 64,
                                         .max_waiting = 64,
                                         .headroom = true};
    const Sluice__V1__ExplainReply *r;
    struct scene s;

    (void)state;
    s.rig = rig_new(&o);
    s.w = rig_worker(s.rig, "w1", 6, 8);
    rig_worker(s.rig, "w2", 4, 8);
    s.c = rig_client(s.rig, "c1");
    s.a = rig_admin(s.rig, "a1");
    for (uint8_t id = 1; id <= 2; id++) {
        client_generate(s.c, id, 70, 20);
        rig_run(s.rig);
    }
    assert_int_equal(rig_state(s.rig, 2), CHOICE_WAITING);
    r = explain(&s, 2);
    assert_int_equal(r->n_places, 2);
    says(r->places[0]->reason, "kept for the loss of another worker");
    rig_free(&s.rig);
}

static void one_that_waits_for_its_keeper(void **state)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    const Sluice__V1__ExplainReply *r;
    struct scene s;

    (void)state;
    bring(&s, 5);
    m.has_keep_ms = true;
    m.keep_ms = 60000;
    client_generate_with(s.c, 1, 40, 4, &m, 0);
    rig_run(s.rig);
    worker_give(s.w, 1, 0, 4, LENGTH);
    client_generate(s.c, 2, 40, 4);
    rig_run(s.rig);
    rig_worker(s.rig, "w2", 64, 8);
    client_continue(s.c, 3, 1, 10, 4);
    rig_run(s.rig);
    r = explain(&s, 3);
    assert_true(same(r->state, "waiting"));
    says(r->text, "continues a sequence that worker w1 keeps");
    assert_int_equal(r->places[0]->restorable, 43);
    says(r->places[0]->reason, "too few of its pages");
    says(r->places[1]->reason, "another worker keeps");
    rig_free(&s.rig);
}

/* Requests that end after a quarter of their max_tokens, until that is
 * expected; then one that may grow, and one that waits. */
static void a_growing_one_has_its_expected_and_greatest_need(void **state)
{
    static const struct rig_options o = {.max_peers = 64,
                                         .max_requests = 64,
                                         .max_waiting = 64,
                                         .expected = true};
    const Sluice__V1__ExplainReply *r;
    Sluice__V1__StepOutputMessage m = SLUICE__V1__STEP_OUTPUT_MESSAGE__INIT;
    uint32_t first = 0, zero = 0;
    uint32_t suspended = SLUICE__V1__SEQUENCE_STATE__SEQUENCE_SUSPENDED;
    uint64_t grant;
    struct scene s = {.rig = rig_new(&o)};

    (void)state;
    s.w = rig_worker(s.rig, "w1", 64, 8);
    s.c = rig_client(s.rig, "c1");
    s.a = rig_admin(s.rig, "a1");
    for (int i = 0; i < 60; i++) {
        client_generate(s.c, 99, 32, 256);
        rig_run(s.rig);
        worker_give(s.w, 99, 0, 64, SLUICE__V1__FINISH__FINISH_STOP);
    }
    client_generate(s.c, 1, 32, 256);
    rig_run(s.rig);
    r = explain(&s, 1);
    assert_true(same(r->state, "prefill"));
    assert_true(r->has_n_expected);
    assert_in_range(r->n_expected, 60, 68);
    assert_int_equal(r->max_tokens, 256);
    assert_int_equal(r->places[0]->need_pages, 3);
    assert_true(r->places[0]->has_most_pages);
    assert_int_equal(r->places[0]->most_pages, 10);
    says(r->text, "It was granted 3 pages and may grow to 10; ");
    says(r->text, " of 256 tokens are expected of it.");
    grant = worker_sequence_of(s.w, 1)->grant;
    m.grant = &grant;
    m.first_index = &first;
    m.count = m.finish = &zero;
    m.state = &suspended;
    m.n_grant = m.n_first_index = m.n_count = m.n_finish = m.n_state = 1;
    s.w->ledger.has_n_suspended = true;
    s.w->ledger.n_suspended = 1;
    worker_say(s.w, &m);
    rig_run(s.rig);
    r = explain(&s, 1);
    assert_true(same(r->state, "suspended"));
    says(r->text, "It is suspended until pages are free again.");
    client_generate(s.c, 2, 32, 256);
    rig_run(s.rig);
    r = explain(&s, 2);
    assert_true(same(r->state, "waiting"));
    says(r->places[0]->reason, "suspended sequences, which come back first");
    rig_free(&s.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_waits_has_its_position_and_places),
        cmocka_unit_test(blockers_and_remedies_are_named),
        cmocka_unit_test(each_place_has_its_reason),
        cmocka_unit_test(without_a_worker_it_has_no_place),
        cmocka_unit_test(one_that_was_granted_has_the_places_of_that_time),
        cmocka_unit_test(the_record_is_bounded),
        cmocka_unit_test(a_moved_one_shows_its_newest_place),
        cmocka_unit_test(kept_and_ended_ones),
        cmocka_unit_test(headroom_is_a_reason),
        cmocka_unit_test(one_that_waits_for_its_keeper),
        cmocka_unit_test(a_growing_one_has_its_expected_and_greatest_need),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
