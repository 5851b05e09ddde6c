/* Stop strings: the messages to the worker, and other events at the same time.
 */
#include "router/requests/stops.h"

#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/router/tiny_text.h"

#define LENGTH    SLUICE__V1__FINISH__FINISH_LENGTH
#define STOP      SLUICE__V1__FINISH__FINISH_STOP
#define FAILED    SLUICE__V1__FINISH__FINISH_FAILED
#define CANCELLED SLUICE__V1__FINISH__FINISH_CANCELLED
#define FORGET    UINT32_MAX

static const char *const abcab[] = {"abcab", NULL};
static const uint32_t match[] = {'x', 257, 256, 'c'};

/* The row with the string also ends the sequence. */
static void the_worker_ends_in_the_same_row(void **state)
{
    static const uint32_t finishes[] = {LENGTH, STOP, FAILED, CANCELLED};

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct record *x;
        struct tiny s;

        tiny_set(&s, tiny_tokenizer);
        x = tiny_generate(&s, 1, 4, abcab, NULL);
        tiny_say(s.w, match, 0, 1, 0);
        tiny_say(s.w, match, 1, 3, finishes[i]);
        tiny_check_stopped(x, 0, 3, "x");
        assert_int_equal(s.w->last_ack_index, FORGET);
        assert_int_equal(tiny_held(&s), 0);
        assert_false(s.w->gone);
        tiny_end(&s);
    }
}

static void the_worker_ends_before_it_hears(void **state)
{
    static const uint32_t finishes[] = {LENGTH, STOP, FAILED, CANCELLED};

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct record *x;
        struct tiny s;

        tiny_set(&s, tiny_tokenizer);
        s.w->hold_receipts = true;
        x = tiny_generate(&s, 1, 4, abcab, NULL);
        tiny_say(s.w, match, 0, 3, 0);
        tiny_check_stopped(x, 0, 3, "x");
        tiny_say(s.w, match, 3, 1, finishes[i]);
        assert_int_equal(s.w->last_ack_index, FORGET);
        assert_int_equal(tiny_held(&s), 1);
        worker_receipt(s.w);
        rig_run(s.rig);
        assert_int_equal(tiny_held(&s), 0);
        assert_false(s.w->gone);
        assert_int_equal(tiny_seen.n_last, 1);
        tiny_end(&s);
    }
}

/* The worker is lost before its receipt: its memory is gone, and the sequence
 * does not move. */
static void the_worker_is_lost(void **state)
{
    struct router_metrics counts;
    struct record *x, *k;
    struct fake *w2;
    struct tiny s;

    (void)state;
    tiny_set(&s, tiny_tokenizer);
    w2 = tiny_worker(&s, "w2");
    s.w->hold_receipts = true;
    x = tiny_generate(&s, 1, 60, abcab, NULL);
    assert_int_equal(s.w->n_submits, 1);
    tiny_say(s.w, match, 0, 3, 0);
    k = client_remove(s.c, 1);
    rig_run(s.rig);
    assert_false(k->ended);
    fake_lost(s.w);
    rig_run(s.rig);
    tiny_check_stopped(x, 0, 3, "x");
    assert_true(k->ended);
    assert_int_equal(k->receipt.n_generated, 3);
    assert_int_equal(w2->n_submits, 0);
    router_counts(s.rig->router, &counts);
    assert_int_equal(counts.choices_open, 0);
    assert_int_equal(counts.moved, 0);
    tiny_end(&s);
}

/* Cancel and RemoveSequence in the meantime wait for the same receipt. */
static void removals_wait_for_the_receipt(void **state)
{
    struct record *x, *k, *d;
    struct tiny s;

    (void)state;
    tiny_set(&s, tiny_tokenizer);
    s.w->hold_receipts = true;
    x = tiny_generate(&s, 1, 60, abcab, NULL);
    tiny_say(s.w, match, 0, 3, 0);
    k = client_cancel(s.c, 1);
    d = client_remove(s.c, 1);
    rig_run(s.rig);
    assert_true(x->ended);
    assert_false(k->ended || d->ended);
    worker_receipt(s.w);
    rig_run(s.rig);
    assert_int_equal(s.w->n_cancels + s.w->n_removes, 1);
    assert_true(k->ended && d->ended);
    assert_string_equal(k->worker, "w1");
    d = client_remove(s.c, 1);
    rig_run(s.rig);
    assert_int_equal(d->receipt.state,
                     SLUICE__V1__SEQUENCE_STATE__SEQUENCE_UNKNOWN);
    tiny_end(&s);
}

/* The sequence has ended at its worker while its memory waits for a plan: the
 * audit finds no difference. */
static void an_audit_before_the_receipt(void **state)
{
    Sluice__V1__Nothing none = SLUICE__V1__NOTHING__INIT;
    struct record *x, *audit;
    struct tiny s;

    (void)state;
    tiny_set(&s, tiny_tokenizer);
    s.w->hold_receipts = true;
    x = tiny_generate(&s, 1, 60, abcab, NULL);
    tiny_say(s.w, match, 0, 3, 0);
    assert_true(x->ended);
    assert_int_equal(tiny_held(&s), 1);
    assert_null(worker_sequence_of(s.w, 1));
    audit =
        client_call(rig_admin(s.rig, "a1"), METHOD_ADMIN_AUDIT, &none.base, 0);
    rig_run(s.rig);
    assert_true(audit->ended); /* one answer is enough */
    assert_int_equal(
        ((const Sluice__V1__AuditAllReply *)audit->reply)->n_differences, 0);
    worker_receipt(s.w);
    rig_run(s.rig);
    tiny_end(&s);
}

/* The string arrives while a Cancel is pending: the choice ends at once, and
 * the canceller gets the receipt later. */
static void a_cancel_came_first(void **state)
{
    struct record *x, *k;
    struct tiny s;

    (void)state;
    tiny_set(&s, tiny_tokenizer);
    s.w->hold_receipts = true;
    x = tiny_generate(&s, 1, 60, abcab, NULL);
    tiny_say(s.w, match, 0, 2, 0);
    k = client_cancel(s.c, 1);
    rig_run(s.rig);
    assert_int_equal(rig_state(s.rig, 1), CHOICE_ENDING);
    tiny_say(s.w, match, 2, 2, 0);
    tiny_check_stopped(x, 0, 3, "x");
    assert_false(k->ended);
    assert_int_equal(s.w->n_cancels, 1);
    worker_receipt(s.w);
    rig_run(s.rig);
    assert_true(k->ended);
    assert_int_equal(tiny_held(&s), 0);
    tiny_end(&s);
}

/* The client has cancelled its call: the worker frees the sequence anyway. */
static void the_client_gives_up(void **state)
{
    struct router_metrics counts;
    struct record *x;
    struct tiny s;

    (void)state;
    tiny_set(&s, tiny_tokenizer);
    s.w->hold_receipts = true;
    x = tiny_generate(&s, 1, 60, abcab, NULL);
    s.c->deaf = true;
    tiny_say(s.w, match, 0, 4, 0);
    client_give_up(s.c, x);
    peer_flush(s.c->peer, s.rig->now);
    rig_run(s.rig);
    worker_receipt(s.w);
    rig_run(s.rig);
    router_counts(s.rig->router, &counts);
    assert_int_equal(counts.choices_open, 0);
    assert_int_equal(s.w->n_cancels, 1);
    tiny_end(&s);
}

/* A stop string frees a sequence despite keep_ms.  This holds even if the
 * worker ended it in the same row, or if the string comes from the rest of a
 * character at the end. */
static void nothing_is_kept(void **state)
{
    static const char *const stop[] = {"abcab", "b\xEF\xBF\xBD", NULL};
    static const uint32_t rows[][4] = {
        {'x', 257, 256, 'c'}, {'x', 257, 256, 'c'}, {'x', 'a', 'b', 0xE2}};
    static const uint32_t n_tokens[] = {3, 3, 4};

    (void)state;
    for (int i = 0; i < 3; i++) {
        Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
        struct router_metrics counts;
        struct record *x;
        struct tiny s;

        tiny_set(&s, tiny_tokenizer);
        m.keep_ms = 60000;
        m.has_keep_ms = true;
        x = tiny_generate(&s, 1, 4, stop, &m);
        tiny_say(s.w, rows[i], 0, 4, i > 0 ? LENGTH : 0);
        tiny_check_stopped(x, i < 2 ? 0 : 1, n_tokens[i], i < 2 ? "x" : "xa");
        assert_int_equal(s.w->n_cancels, 1);
        assert_int_equal(s.w->classes[0].granted, 0);
        router_counts(s.rig->router, &counts);
        assert_int_equal(counts.choices_open, 0);
        tiny_end(&s);
    }
}

/* Another worker continues within a string; repeated tokens are not searched
 * twice. */
static void it_goes_on_elsewhere(void **state)
{
    static const char *const stop[] = {"abab", NULL};
    static const uint32_t ids[] = {'x', 'a', 'b', 'c', 'a', 'b', 'a', 'b'};
    struct record *x;
    struct fake *w2;
    struct tiny s;

    (void)state;
    tiny_set(&s, tiny_tokenizer);
    x = tiny_generate(&s, 1, 60, stop, NULL);
    tiny_say(s.w, ids, 0, 3, 0);
    tiny_say(s.w, ids, 1, 2, 0); /* a repeated "ab" does not make "abab" */
    tiny_say(s.w, ids, 1, 6, 0);
    assert_int_equal(x->n_tokens, 7);
    tiny_check_text(x, "xabc");
    w2 = tiny_worker(&s, "w2");
    fake_lost(s.w);
    rig_run(s.rig);
    assert_int_equal(w2->n_submits, 1);
    tiny_say(w2, ids, 5, 3, 0);
    tiny_check_stopped(x, 0, 8, "xabc");
    assert_int_equal(x->figures.n_moves, 1);
    assert_int_equal(w2->n_cancels, 1);
    tiny_end(&s);
}

/* Each choice ends by itself. */
static void each_choice_ends_by_itself(void **state)
{
    static const uint32_t other[] = {'a', 'b', 'c', 'd', 257, 256};
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    const struct record *y;
    struct record *x;
    struct tiny s;

    (void)state;
    tiny_set(&s, tiny_tokenizer);
    m.has_n = true;
    m.n = 3;
    x = tiny_generate(&s, 1, 60, abcab, &m);
    assert_int_equal(s.w->n_submits, 3);
    tiny_say_of(s.w, 1, other, 0, 5, 0);
    tiny_say_of(s.w, 2, match, 0, 4, 0);
    tiny_say_of(s.w, 3, other, 0, 4, 0);
    y = record_choice(x, 1);
    assert_int_equal(y->finish, STOP);
    assert_int_equal(y->n_tokens, 3);
    tiny_check_text(y, "x");
    assert_false(x->ended);
    assert_int_equal(tiny_held(&s), 2);
    tiny_check_text(x, "abcd");
    tiny_say_of(s.w, 3, other, 4, 1, STOP);
    assert_int_equal(tiny_seen.stop_string, NO_STRING);
    tiny_check_text(record_choice(x, 2), "abcd");
    tiny_say_of(s.w, 1, other, 5, 1, 0);
    assert_int_equal(tiny_seen.stop_string, 0);
    assert_int_equal(x->n_tokens, 6);
    tiny_check_text(x, "abcd");
    assert_true(x->ended);
    assert_int_equal(s.w->n_cancels, 2);
    assert_int_equal(tiny_held(&s), 0);
    tiny_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worker_ends_in_the_same_row),
        cmocka_unit_test(the_worker_ends_before_it_hears),
        cmocka_unit_test(the_worker_is_lost),
        cmocka_unit_test(removals_wait_for_the_receipt),
        cmocka_unit_test(an_audit_before_the_receipt),
        cmocka_unit_test(a_cancel_came_first),
        cmocka_unit_test(the_client_gives_up),
        cmocka_unit_test(nothing_is_kept),
        cmocka_unit_test(it_goes_on_elsewhere),
        cmocka_unit_test(each_choice_ends_by_itself),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, tiny_load, tiny_unload);
}
