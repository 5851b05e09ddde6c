/* Cancel and RemoveSequence of one choice and of all, in every state. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/router/rig.h"

#define LENGTH    SLUICE__V1__FINISH__FINISH_LENGTH
#define CANCELLED SLUICE__V1__FINISH__FINISH_CANCELLED
#define STATE(s)  SLUICE__V1__SEQUENCE_STATE__SEQUENCE_##s
#define N         3

/* N choices in one state, with a worker and clients.  For ENDING, the receipts
 * are held.  For ENDED, the last choice still runs, because the router forgets
 * a request without open choices. */
struct scene {
    struct fake_text text;
    struct rig *rig;
    struct fake *w, *c, *other;
    struct record *x, *first; /* first: the Cancel that made them ENDING */
    enum choice_state at;
};

static void bring(struct scene *s, enum choice_state to, uint32_t keep_ms)
{
    struct rig_options o = {.max_peers = 32,
                            .max_requests = 32,
                            .max_waiting = 32,
                            .text = &s->text.seam};
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;

    memset(s, 0, sizeof *s);
    fake_text_init(&s->text, NULL);
    s->rig = rig_new(&o);
    s->at = to;
    s->w = rig_worker(s->rig, "w1", to == CHOICE_WAITING ? 2 : 64, 8);
    s->c = rig_client(s->rig, "c1");
    s->other = rig_client(s->rig, "c2");
    s->text.hold = to == CHOICE_ENCODING;
    s->w->hold_submits = to == CHOICE_SUBMITTED;
    if (to == CHOICE_WAITING) { /* another request has all the room */
        client_generate(s->other, 99, 40, 20);
        rig_run(s->rig);
    }
    m.model = wire_text("tiny");
    m.has_text = m.has_n = m.has_keep_ms = true;
    m.text = wire_text("a prompt of some forty bytes, or so..");
    m.n = N;
    m.keep_ms = keep_ms;
    s->x = client_generate_with(s->c, 1, 0, 10, &m, 0);
    rig_run(s->rig);
    for (uint32_t q = 0; to >= CHOICE_DECODE && q < N; q++) {
        worker_give(s->w, 1, q, 2, 0);
    }
    if (to == CHOICE_ENDING) {
        s->w->hold_receipts = true;
        s->first = client_cancel(s->c, 1);
    }
    for (uint32_t q = 0; to == CHOICE_ENDED && q < N - 1; q++) {
        worker_give(s->w, 1, q, 8, LENGTH);
    }
    rig_run(s->rig);
    for (uint32_t q = 0; q < N; q++) {
        assert_int_equal(rig_choice_state(s->rig, 1, q),
                         to == CHOICE_ENDED && q == N - 1 ? CHOICE_DECODE : to);
    }
}

static void nothing_left(struct scene *s)
{
    struct router_metrics k;
    struct router_worker_view v;
    uint32_t others = s->at == CHOICE_WAITING;

    s->text.hold = false;
    rig_advance(s->rig, 10000);
    router_counts(s->rig->router, &k);
    assert_int_equal(k.choices_open, others);
    assert_int_equal(k.choices_waiting, 0);
    if (router_worker_view(s->rig->router, 0, &v)) {
        assert_int_equal(v.n_sequences, others);
    }
    for (uint32_t q = 0; !s->w->deaf && q < N; q++) {
        assert_null(worker_choice_of(s->w, 1, q));
    }
    rig_free(&s->rig);
    fake_text_fini(&s->text);
}

static bool at_worker(enum choice_state at)
{
    return at >= CHOICE_SUBMITTED && at <= CHOICE_ENDING;
}

/* Asserts the receipt of n choices in state `at`. */
static void check_receipt(const struct scene *s, const struct record *k,
                          uint32_t n)
{
    static const Sluice__V1__SequenceState states[] = {
        [CHOICE_ENCODING] = STATE(QUEUED),  [CHOICE_WAITING] = STATE(QUEUED),
        [CHOICE_SUBMITTED] = STATE(QUEUED), /* as the worker reports */
        [CHOICE_PREFILL] = STATE(QUEUED),   [CHOICE_DECODE] = STATE(DECODE),
        [CHOICE_ENDING] = STATE(DECODE),    [CHOICE_ENDED] = STATE(FINISHED),
    };
    const Sluice__V1__Receipt *r = &k->receipt;
    bool held = at_worker(s->at);

    assert_true(k->ended);
    assert_int_equal(k->status, ST_OK);
    assert_int_equal(r->state, states[s->at]);
    assert_int_equal(r->blocks, held ? 2 * n : 0);
    assert_int_equal(r->slots, held ? n : 0);
    assert_string_equal(k->worker, held ? "w1" : "");
    assert_int_equal(r->snapshot > 0, held);
    assert_int_equal(r->n_generated, s->at == CHOICE_ENDED    ? 10 * n
                                     : s->at >= CHOICE_DECODE ? 2 * n
                                                              : 0);
}

static void one(enum choice_state at, bool remove)
{
    struct record *k;
    struct scene s;

    bring(&s, at, 0);
    k = remove ? client_remove_choice(s.other, 1, 1)
               : client_cancel_choice(s.other, 1, 1);
    rig_run(s.rig);
    if (at == CHOICE_ENDING) {
        assert_false(k->ended);
        worker_receipt(s.w);
        rig_run(s.rig);
        assert_false(k->ended); /* the receipt of choice 0 */
        worker_receipt(s.w);
        rig_run(s.rig);
        assert_false(s.first->ended);
    }
    check_receipt(&s, k, 1);
    assert_true(k->one);
    assert_int_equal(k->choice, 1);
    assert_int_equal(record_choice(s.x, 1)->finish,
                     at == CHOICE_ENDED ? LENGTH : CANCELLED);
    assert_false(s.x->ended);
    if (at == CHOICE_PREFILL || at == CHOICE_DECODE) {
        uint32_t n = at == CHOICE_DECODE ? 8 : 10;

        assert_int_equal(s.w->n_cancels + s.w->n_removes, 1);
        worker_give(s.w, 1, 0, n, LENGTH);
        worker_give(s.w, 1, 2, n, LENGTH);
        assert_true(s.x->ended);
        assert_int_equal(s.x->finish, LENGTH);
        assert_int_equal(s.x->n_tokens, 10);
        assert_int_equal(record_choice(s.x, 2)->finish, LENGTH);
    } else if (at == CHOICE_ENDING) {
        worker_receipt(s.w);
        rig_run(s.rig);
        check_receipt(&s, s.first, N);
    } else {
        client_cancel(s.c, 1);
        rig_run(s.rig);
    }
    assert_true(s.x->ended);
    assert_int_equal(s.x->status, ST_OK);
    nothing_left(&s);
}

static void one_in_every_state(void **state)
{
    (void)state;
    for (int at = 0; at < CHOICE_STATES; at++) {
        one((enum choice_state)at, false);
        one((enum choice_state)at, true);
    }
}

static void all(enum choice_state at, bool remove)
{
    struct record *k, *again;
    struct scene s;

    bring(&s, at, 0);
    k = remove ? client_remove(s.other, 1) : client_cancel(s.other, 1);
    again = client_cancel(s.other, 1);
    rig_run(s.rig);
    for (uint32_t q = 0; at == CHOICE_ENDING && q < N; q++) {
        assert_false(k->ended || s.first->ended || again->ended);
        worker_receipt(s.w);
        rig_run(s.rig);
    }
    assert_false(k->one);
    if (at == CHOICE_ENDED) { /* the last one was running */
        assert_int_equal(k->receipt.state, STATE(DECODE));
        assert_int_equal(k->receipt.n_generated, 22);
        assert_int_equal(k->receipt.blocks, 2);
        assert_string_equal(k->worker, "w1");
    } else {
        check_receipt(&s, k, N);
        assert_int_equal(k->receipt.micros,
                         at_worker(at) ? 18 : 0); /* the longest of all */
    }
    assert_true(again->ended);
    assert_int_equal(again->status, ST_OK);
    assert_true(s.x->ended);
    assert_int_equal(s.x->status, ST_OK);
    assert_int_equal(record_choice(s.x, N - 1)->finish, CANCELLED);
    nothing_left(&s);
}

static void all_in_every_state(void **state)
{
    (void)state;
    for (int at = 0; at < CHOICE_STATES; at++) {
        all((enum choice_state)at, false);
        all((enum choice_state)at, true);
    }
}

/* Choices are removed one by one; the last one ends the call. */
static void each_by_itself(void **state)
{
    (void)state;
    for (int at = 0; at < CHOICE_ENDING; at++) {
        struct scene s;

        bring(&s, (enum choice_state)at, 0);
        for (uint32_t q = N; q-- > 0;) {
            assert_false(s.x->ended);
            client_cancel_choice(s.c, 1, q);
            rig_run(s.rig);
            assert_int_equal(record_choice(s.x, q)->finish, CANCELLED);
        }
        assert_true(s.x->ended);
        assert_int_equal(s.x->status, ST_OK);
        nothing_left(&s);
    }
}

static void the_worker_goes_in_every_state(void **state)
{
    (void)state;
    for (int at = 0; at < CHOICE_STATES; at++) {
        struct scene s;

        bring(&s, (enum choice_state)at, 0);
        fake_lost(s.w);
        s.text.hold = false;
        rig_advance(s.rig, 10000);
        assert_true(s.x->ended);
        if (at == CHOICE_ENDING) {
            assert_true(s.first->ended);
            assert_int_equal(s.first->status, ST_OK);
            assert_int_equal(s.first->receipt.blocks, 0);
            assert_int_equal(s.first->receipt.n_generated, 2 * N);
            assert_int_equal(s.first->receipt.state, STATE(UNKNOWN));
            assert_int_equal(s.x->status, ST_OK);
            assert_int_equal(s.x->finish, CANCELLED);
        } else {
            assert_int_equal(s.x->status, ST_UNAVAILABLE);
        }
        s.at = CHOICE_ENDED; /* the other request ended with the worker */
        nothing_left(&s);
    }
}

/* Choices of one call in all states at once. */
static void all_of_many_states(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 6, 8); /* room for three */
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate_n(c, 1, 6, 40, 4), *one, *k;
    struct router_metrics n;

    (void)state;
    rig_run(rig);
    worker_give(w, 1, 0, 4, LENGTH); /* choice 3 gets the room */
    worker_give(w, 1, 1, 2, 0);
    w->hold_receipts = true;
    one = client_cancel_choice(c, 1, 2);
    k = client_cancel(c, 1);
    rig_run(rig);
    assert_int_equal(rig_choice_state(rig, 1, 3), CHOICE_ENDING);
    assert_int_equal(rig_choice_state(rig, 1, 5), CHOICE_ENDED);
    assert_int_equal(w->n_cancels, 3);
    while (w->n_held > 0) {
        assert_false(k->ended);
        worker_receipt(w);
        rig_run(rig);
        assert_true(one->ended);
    }
    assert_true(k->ended);
    assert_int_equal(one->receipt.blocks, 2);
    assert_int_equal(k->receipt.blocks, 6);
    assert_int_equal(k->receipt.slots, 3);
    assert_int_equal(k->receipt.n_generated, 6);
    assert_int_equal(k->receipt.state, STATE(DECODE));
    assert_string_equal(k->worker, "w1");
    assert_true(x->ended);
    assert_int_equal(x->finish, LENGTH);
    assert_int_equal(record_choice(x, 5)->finish, CANCELLED);
    router_counts(rig->router, &n);
    assert_int_equal(n.choices_open, 0);
    assert_int_equal(n.cancelled, 5);
    rig_free(&rig);
}

/* Choices at two workers: the receipt names neither, because each worker counts
 * its own snapshots. */
static void all_at_two_workers(void **state)
{
    (void)state;
    for (int lost = 0; lost < 2; lost++) {
        struct rig *rig = rig_new(NULL);
        struct fake *w1 = rig_worker(rig, "w1", 64, 8);
        struct fake *w2 = rig_worker(rig, "w2", 64, 8);
        struct fake *c = rig_client(rig, "c1");
        struct record *x = client_generate_n(c, 1, 4, 8, 4), *k;
        struct router_metrics n;

        rig_run(rig);
        assert_int_equal(w1->n_submits, 2);
        assert_int_equal(w2->n_submits, 2);
        w1->hold_receipts = true;
        k = client_remove(c, 1);
        rig_run(rig);
        assert_false(k->ended);
        if (lost) {
            fake_lost(w1);
        } else {
            worker_receipt(w1);
            rig_run(rig);
            assert_false(k->ended);
            worker_receipt(w1);
        }
        rig_run(rig);
        assert_true(k->ended);
        assert_int_equal(k->receipt.blocks, lost ? 2 : 4);
        assert_string_equal(k->worker, lost ? "w2" : "");
        assert_int_equal(k->receipt.snapshot > 0, lost);
        assert_true(x->ended);
        assert_int_equal(x->finish, CANCELLED);
        router_counts(rig->router, &n);
        assert_int_equal(n.choices_open, 0);
        rig_free(&rig);
    }
}

/* RemoveSequence frees kept sequences and stops running ones; Cancel leaves
 * kept ones. */
static void kept_and_running(void **state)
{
    for (int first = 0; first < 2; first++) {
        struct record *k;
        struct scene s;

        (void)state;
        bring(&s, CHOICE_ENDED, 60000);
        if (first) {
            k = client_cancel(s.c, 1);
            rig_run(s.rig);
            assert_int_equal(k->receipt.state, STATE(DECODE));
            assert_int_equal(k->receipt.blocks, 2);
            assert_int_equal(k->receipt.n_generated, 22);
            assert_int_equal(s.w->n_cancels, 1);
            assert_true(s.x->ended);
        }
        s.w->hold_receipts = true;
        k = client_remove(s.c, 1);
        rig_run(s.rig);
        assert_int_equal(s.w->n_held, first ? N - 1 : N);
        while (s.w->n_held > 0) {
            assert_false(k->ended);
            worker_receipt(s.w);
            rig_run(s.rig);
        }
        assert_true(k->ended);
        assert_int_equal(k->receipt.state, first ? STATE(KEPT) : STATE(DECODE));
        assert_int_equal(k->receipt.blocks, first ? 4 : 6);
        assert_int_equal(k->receipt.n_generated, 22);
        assert_true(s.x->ended);
        nothing_left(&s);
    }
}

/* Calls while the receipt of a kept choice is missing. */
static void callers_of_a_kept_choice(void **state)
{
    struct record *remove, *cancel, *both;
    struct scene s;

    (void)state;
    bring(&s, CHOICE_ENDED, 60000);
    s.w->hold_receipts = true;
    remove = client_remove_choice(s.c, 1, 0);
    cancel = client_cancel_choice(s.c, 1, 0); /* the choice has ended */
    both = client_remove_choice(s.other, 1, 0);
    rig_run(s.rig);
    assert_true(cancel->ended);
    assert_int_equal(cancel->receipt.state, STATE(FINISHED));
    assert_false(remove->ended || both->ended);
    assert_int_equal(s.w->n_removes, 1);
    worker_receipt(s.w);
    rig_run(s.rig);
    assert_int_equal(remove->receipt.state, STATE(KEPT));
    assert_int_equal(both->receipt.blocks, 2);
    remove = client_remove_choice(s.c, 1, 0); /* a second removal */
    rig_run(s.rig);
    assert_int_equal(remove->receipt.state, STATE(FINISHED));
    s.w->hold_receipts = false;
    client_remove(s.c, 1);
    rig_run(s.rig);
    nothing_left(&s);
}

static void a_choice_that_is_none(void **state)
{
    struct record *k;
    struct scene s;

    (void)state;
    bring(&s, CHOICE_DECODE, 0);
    k = client_cancel_choice(s.c, 1, N);
    rig_run(s.rig);
    assert_int_equal(k->receipt.state, STATE(UNKNOWN));
    assert_int_equal(k->choice, N);
    assert_int_equal(s.w->n_cancels, 0);
    client_cancel(s.c, 1);
    rig_run(s.rig);
    nothing_left(&s);
}

/* RECEIPT_WAITERS_MAX callers may wait for one choice, and as many for all. */
static void callers_crowd(void **state)
{
    struct record *one[65], *all[65], *second;
    struct scene s;

    (void)state;
    bring(&s, CHOICE_DECODE, 0);
    s.w->hold_receipts = true;
    for (int i = 0; i < 65; i++) {
        one[i] = client_cancel_choice(s.c, 1, 0);
    }
    second = client_cancel_choice(s.c, 1, 2);
    rig_run(s.rig);
    for (int i = 0; i < 65; i++) {
        all[i] = client_cancel(s.c, 1);
    }
    rig_run(s.rig);
    assert_int_equal(one[64]->status, ST_RESOURCE_EXHAUSTED);
    assert_string_equal(
        one[64]->error,
        "64 callers, the limit, already wait for the receipt of this sequence");
    assert_int_equal(all[64]->status, ST_RESOURCE_EXHAUSTED);
    assert_false(one[0]->ended || all[63]->ended || second->ended);
    while (s.w->n_held > 0) {
        worker_receipt(s.w);
    }
    rig_run(s.rig);
    for (int i = 0; i < 64; i++) {
        assert_int_equal(one[i]->receipt.blocks, 2);
        assert_int_equal(all[i]->receipt.blocks, 2 * N);
    }
    assert_int_equal(second->receipt.blocks, 2);
    nothing_left(&s);
}

static void a_caller_goes(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, CHOICE_DECODE, 0);
    s.w->hold_receipts = true;
    client_cancel(s.other, 1);
    client_cancel_choice(s.other, 1, 0);
    rig_run(s.rig);
    worker_receipt(s.w);
    fake_lost(s.other);
    rig_run(s.rig);
    while (s.w->n_held > 0) {
        worker_receipt(s.w);
    }
    rig_run(s.rig);
    assert_true(s.x->ended);
    assert_int_equal(s.x->finish, CANCELLED);
    nothing_left(&s);
}

/* A choice that finishes before its receipt keeps its finish reason. */
static void a_finish_before_the_receipt(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, CHOICE_ENDING, 0);
    worker_give(s.w, 1, 1, 8, LENGTH);
    while (s.w->n_held > 0) {
        worker_receipt(s.w);
    }
    rig_run(s.rig);
    assert_true(s.x->ended);
    assert_int_equal(s.x->finish, CANCELLED);
    assert_int_equal(record_choice(s.x, 1)->finish, LENGTH);
    assert_int_equal(record_choice(s.x, 1)->n_tokens, 10);
    assert_true(s.first->ended);
    nothing_left(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_in_every_state),
        cmocka_unit_test(all_in_every_state),
        cmocka_unit_test(each_by_itself),
        cmocka_unit_test(the_worker_goes_in_every_state),
        cmocka_unit_test(all_of_many_states),
        cmocka_unit_test(all_at_two_workers),
        cmocka_unit_test(kept_and_running),
        cmocka_unit_test(callers_of_a_kept_choice),
        cmocka_unit_test(a_choice_that_is_none),
        cmocka_unit_test(callers_crowd),
        cmocka_unit_test(a_caller_goes),
        cmocka_unit_test(a_finish_before_the_receipt),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
