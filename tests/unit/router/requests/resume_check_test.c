/* Resumed Generate calls: their checks, the end of the earlier call, and a
 * router that has just started. */
#include "router/requests/resume.h"

#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "router/base/router_limits.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/router/have.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH
#define STOP   SLUICE__V1__FINISH__FINISH_STOP

typedef Sluice__V1__GenerateRequest generate_message;

/* ---- checks ---- */

static void check_refused(const generate_message *m, const char *sentence)
{
    struct error e;

    assert_int_equal(resume_check(m, 1000, &e), ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, sentence);
}

static void nothing_had_is_no_resumption(void **state)
{
    generate_message m = have_nothing();
    struct error e;

    (void)state;
    assert_false(resume_asked(&m));
    assert_int_equal(resume_check(&m, 1000, &e), ST_OK);
}

static void columns_are_whole(void **state)
{
    static struct have h;
    generate_message m = have_nothing();
    struct error e;

    (void)state;
    h = (struct have){.n = 2, .count = {1, 2}, .n_tokens = 3};
    have_put(&m, &h);
    assert_int_equal(resume_check(&m, 1000, &e), ST_OK);
    for (int i = 0; i < 3; i++) {
        size_t *n[] = {&m.n_have_count, &m.n_have_text, &m.n_have_ended};
        char sentence[200];

        *n[i] = i == 1 ? 3 : 1;
        snprintf(sentence, sizeof sentence,
                 "have_count, have_text and have_ended have %zu, %zu and %zu "
                 "entries; each needs one per choice, 2",
                 m.n_have_count, m.n_have_text, m.n_have_ended);
        check_refused(&m, sentence);
        *n[i] = 0; /* not even with one value missing */
        assert_int_equal(resume_check(&m, 1000, &e), ST_INVALID_ARGUMENT);
        *n[i] = 2;
    }
    m = have_nothing();
    m.n_have_tokens = 1;
    m.have_tokens = h.tokens;
    assert_int_equal(resume_check(&m, 1000, &e), ST_INVALID_ARGUMENT);
}

static void counts_add_up(void **state)
{
    static struct have h;
    generate_message m = have_nothing();
    struct error e;

    (void)state;
    h = (struct have){.n = 2, .count = {1, 2}, .n_tokens = 4};
    have_put(&m, &h);
    check_refused(&m, "have_count adds up to 3 tokens, but have_tokens has 4");
    m.n_have_tokens = 2;
    check_refused(&m, "have_count adds up to 3 tokens, but have_tokens has 2");
    m.n_have_tokens = 3;
    assert_int_equal(resume_check(&m, 1000, &e), ST_OK);
    h.count[0] = UINT32_MAX; /* the sum must not wrap at 32 bits */
    h.count[1] = 4;
    check_refused(
        &m, "have_count adds up to 4294967299 tokens, but have_tokens has 3");
}

static void ids_are_in_the_vocabulary(void **state)
{
    static struct have h;
    generate_message m = have_nothing();
    struct error e;

    (void)state;
    h = (struct have){.n = 1, .count = {2}, .n_tokens = 2, .tokens = {0, 999}};
    have_put(&m, &h);
    assert_int_equal(resume_check(&m, 1000, &e), ST_OK);
    h.tokens[1] = 1000;
    check_refused(
        &m, "have_tokens: token 1 is 1000, but the vocabulary has 1000 tokens");
}

static void counts_are_within_max_tokens(void **state)
{
    static struct have h;
    generate_message m = have_nothing();
    struct error e;

    (void)state;
    h = (struct have){.n = 2, .count = {0, 3}, .n_tokens = 3};
    have_put(&m, &h);
    m.has_max_tokens = true;
    m.max_tokens = 3;
    assert_int_equal(resume_check(&m, 1000, &e), ST_OK);
    m.max_tokens = 2;
    check_refused(&m, "choice 1: have_count is 3, more than max_tokens, 2");
}

static void text_is_of_tokens(void **state)
{
    static struct have h;
    generate_message m = have_nothing();
    struct error e;

    (void)state;
    h = (struct have){.n = 2, .count = {0, 1}, .text = {1, 1}, .n_tokens = 1};
    have_put(&m, &h);
    check_refused(&m, "choice 0: have_text is 1 bytes, but have_count is 0");
    h.text[0] = 0;
    assert_int_equal(resume_check(&m, 1000, &e), ST_OK);
}

/* ---- the earlier call ---- */

static struct record *ask(struct rig *rig, struct fake *c, struct have *h)
{
    generate_message m = have_nothing();
    struct record *x;

    if (h != NULL) {
        have_put(&m, h);
    }
    x = client_generate_with(c, 1, 10, 20, &m, 0);
    x->n_tokens = h != NULL ? h->count[0] : 0;
    rig_run(rig);
    return x;
}

static void a_call_in_another_session_makes_way(void **state)
{
    static struct have h;
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 2);
    struct fake *a = rig_client(rig, "c1"), *b = rig_client(rig, "c2");
    struct record *x = ask(rig, a, NULL), *y;
    uint64_t seen;

    (void)state;
    worker_give(w, 1, 0, 3, 0);
    seen = worker_sequence_of(w, 1)->seed;
    w->hold_receipts = true;
    h = have_one(x->tokens, 3, 0);
    y = ask(rig, b, &h);
    assert_true(x->ended && y->ended);
    assert_int_equal(x->status, ST_ALREADY_EXISTS);
    assert_int_equal(x->retry_ms, RESUME_RETRY_MS);
    assert_string_equal(x->error, "the request was resumed in another session");
    assert_int_equal(y->status, ST_ALREADY_EXISTS);
    assert_int_equal(y->retry_ms, RESUME_RETRY_MS);
    assert_int_equal(w->last_reason,
                     SLUICE__V1__CANCEL_REASON__CANCEL_CLIENT_GONE);
    y = ask(rig, b, &h); /* the worker still has the sequence */
    assert_int_equal(y->status, ST_ALREADY_EXISTS);
    assert_int_equal(y->retry_ms, RESUME_RETRY_MS);
    worker_receipt(w);
    rig_run(rig);
    worker_report(w);
    y = ask(rig, b, &h);
    assert_false(y->ended);
    assert_int_equal(worker_sequence_of(w, 1)->seed, seen);
    worker_give(w, 1, 0, 17, LENGTH);
    assert_int_equal(y->status, ST_OK);
    assert_int_equal(y->n_tokens, 20);
    assert_true(y->in_order);
    rig_end(&rig);
}

/* An earlier call that only waits ends at once. */
static void one_that_waits_makes_way_at_once(void **state)
{
    static struct have h;
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 1, 1);
    struct fake *a = rig_client(rig, "c1"), *b = rig_client(rig, "c2");
    struct record *first = client_generate(a, 2, 10, 10), *x, *y;

    (void)state;
    rig_run(rig);
    x = ask(rig, a, NULL);
    assert_int_equal(rig_state(rig, 1), CHOICE_WAITING);
    h = (struct have){.n = 1};
    y = ask(rig, b, &h);
    assert_int_equal(x->status, ST_ALREADY_EXISTS);
    assert_false(y->ended);
    assert_int_equal(rig_state(rig, 1), CHOICE_WAITING);
    worker_give(w, 2, 0, 10, LENGTH);
    assert_true(first->ended);
    worker_report(w);
    rig_run(rig);
    worker_give(w, 1, 0, 20, LENGTH);
    assert_int_equal(y->status, ST_OK);
    rig_end(&rig);
}

static void only_a_resumption_of_another_session_does_so(void **state)
{
    static struct have h;
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 2);
    struct fake *a = rig_client(rig, "c1"), *b = rig_client(rig, "c2");
    struct record *x = ask(rig, a, NULL), *y;

    (void)state;
    y = ask(rig, b, NULL);
    assert_int_equal(y->status, ST_ALREADY_EXISTS);
    assert_int_equal(y->retry_ms, 0);
    h = (struct have){.n = 1};
    y = ask(rig, a, &h);
    assert_int_equal(y->status, ST_ALREADY_EXISTS);
    assert_int_equal(y->retry_ms, 0);
    assert_false(x->ended);
    worker_give(w, 1, 0, 20, LENGTH);
    assert_int_equal(x->status, ST_OK);
    rig_end(&rig);
}

static void what_is_kept_is_removed(void **state)
{
    static struct have h;
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 2);
    struct fake *a = rig_client(rig, "c1"), *b = rig_client(rig, "c2");
    generate_message m = have_nothing();
    struct record *x, *y;

    (void)state;
    m.has_keep_ms = true;
    m.keep_ms = 60000;
    x = client_generate_with(a, 1, 10, 20, &m, 0);
    rig_run(rig);
    worker_give(w, 1, 0, 20, LENGTH);
    assert_int_equal(x->status, ST_OK);
    h = have_one(x->tokens, 19, 0); /* the last chunk was lost */
    y = ask(rig, b, &h);
    assert_int_equal(y->status, ST_ALREADY_EXISTS);
    assert_int_equal(y->retry_ms, RESUME_RETRY_MS);
    assert_int_equal(w->n_removes, 1);
    worker_report(w);
    y = ask(rig, b, &h);
    worker_give(w, 1, 0, 1, LENGTH);
    assert_int_equal(y->status, ST_OK);
    assert_int_equal(y->n_tokens, 20);
    rig_end(&rig);
}

/* ---- a router that has just started ---- */

static void no_worker_yet(void **state)
{
    static struct have h;
    struct rig *rig = rig_new(NULL);
    struct fake *c = rig_client(rig, "c1");
    generate_message m = have_nothing();
    struct record *x;

    (void)state;
    h = (struct have){.n = 1};
    x = ask(rig, c, &h);
    assert_int_equal(x->status, ST_UNAVAILABLE);
    assert_int_equal(x->retry_ms, RETRY_MS_MIN);
    have_put(&m, &h);
    m.model = wire_text("m");
    x = client_generate_with(c, 1, 10, 20, &m, 0);
    rig_run(rig);
    assert_int_equal(x->status, ST_UNAVAILABLE);
    assert_int_equal(x->retry_ms, RETRY_MS_MIN);
    assert_string_equal(x->error, "no worker of model m is up yet");
    (void)rig_worker(rig, "w1", 1, 2); /* the larger worker is not back yet */
    m.model = wire_text("");
    x = client_generate_with(c, 1, 30, 20, &m, 0);
    rig_run(rig);
    assert_int_equal(x->status, ST_RESOURCE_EXHAUSTED);
    assert_int_equal(x->retry_ms, RETRY_MS_MIN);
    rig_end(&rig);
}

/* The choice has all its tokens, but a worker decides whether the last one
 * ended it. */
static void the_last_word_is_a_workers(void **state)
{
    static struct have h;
    static uint32_t ids[20];
    struct rig *rig = rig_new(NULL);
    struct fake *a = rig_worker(rig, "w1", 8, 2), *b;
    struct fake *c = rig_client(rig, "c1");
    struct record *x;

    (void)state;
    for (uint32_t i = 0; i < 20; i++) {
        ids[i] = fake_token(
            (uint8_t[16]){1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, i);
    }
    h = have_one(ids, 20, 0);
    x = ask(rig, c, &h);
    b = rig_worker(rig, "w2", 8, 2);
    fake_lost(a);
    rig_run(rig);
    assert_false(x->ended);
    assert_int_equal(worker_sequence_of(b, 1)->n_given, 20);
    worker_give(b, 1, 0, 0, STOP);
    assert_int_equal(x->status, ST_OK);
    assert_int_equal(x->finish, STOP);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_had_is_no_resumption),
        cmocka_unit_test(columns_are_whole),
        cmocka_unit_test(counts_add_up),
        cmocka_unit_test(ids_are_in_the_vocabulary),
        cmocka_unit_test(counts_are_within_max_tokens),
        cmocka_unit_test(text_is_of_tokens),
        cmocka_unit_test(a_call_in_another_session_makes_way),
        cmocka_unit_test(one_that_waits_makes_way_at_once),
        cmocka_unit_test(only_a_resumption_of_another_session_does_so),
        cmocka_unit_test(what_is_kept_is_removed),
        cmocka_unit_test(no_worker_yet),
        cmocka_unit_test(the_last_word_is_a_workers),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
