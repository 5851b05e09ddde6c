/* Every state of a request, and the events in each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/router/rig.h"

#define CANCELLED SLUICE__V1__FINISH__FINISH_CANCELLED

/* A request in one state, with a worker and clients. */
struct scene {
    struct fake_text text;
    struct rig *rig;
    struct fake *w, *c, *other;
    struct record *x, *first; /* first: the Cancel that made it ENDING */
    enum choice_state at;
};

static void bring(struct scene *s, enum choice_state to)
{
    struct rig_options o = {.max_peers = 32,
                            .max_requests = 32,
                            .max_waiting = 32,
                            .text = &s->text.seam};

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
    }
    rig_run(s->rig);
    s->x = client_generate_text(s->c, 1,
                                "a prompt of some forty bytes, or so..", 10);
    rig_run(s->rig);
    if (to >= CHOICE_DECODE) {
        worker_make(s->w, worker_sequence_of(s->w, 1), 2, 0);
        worker_step(s->w);
    }
    if (to == CHOICE_ENDING) {
        rig_run(s->rig);
        s->w->hold_receipts = true;
        s->first = client_cancel(s->c, 1);
    }
    if (to == CHOICE_ENDED) {
        worker_make(s->w, worker_sequence_of(s->w, 1), 8,
                    SLUICE__V1__FINISH__FINISH_LENGTH);
        worker_step(s->w);
    }
    rig_run(s->rig);
    assert_int_equal(rig_state(s->rig, 1), to);
}

/* Asserts that nothing of the request is left. */
static void nothing_left(struct scene *s)
{
    struct router_metrics k;
    struct router_worker_view v;

    s->text.hold = false;
    rig_advance(s->rig, 10000);
    router_counts(s->rig->router, &k);
    assert_int_equal(rig_state(s->rig, 1), CHOICE_ENDED);
    assert_int_equal(k.choices_open, s->at == CHOICE_WAITING ? 1 : 0);
    assert_int_equal(k.choices_waiting, 0);
    if (router_worker_view(s->rig->router, 0, &v)) {
        assert_int_equal(v.n_sequences, s->at == CHOICE_WAITING ? 1 : 0);
    }
    if (!s->w->deaf) {
        assert_null(worker_sequence_of(s->w, 1));
    }
    rig_free(&s->rig);
    fake_text_fini(&s->text);
}

static bool at_worker(enum choice_state at)
{
    return at >= CHOICE_SUBMITTED && at <= CHOICE_ENDING;
}

static void check_receipt(const struct scene *s, const struct record *k)
{
    const Sluice__V1__Receipt *r = &k->receipt;

    assert_true(k->ended);
    assert_int_equal(k->status, ST_OK);
    if (at_worker(s->at)) {
        assert_string_equal(k->worker, "w1");
        assert_int_equal(r->blocks, 2);
        assert_int_equal(r->slots, 1);
        assert_true(r->snapshot > 0);
        return;
    }
    assert_string_equal(k->worker, "");
    assert_int_equal(r->blocks + r->slots + r->micros + r->snapshot, 0);
    assert_int_equal(r->state,
                     s->at == CHOICE_ENDED
                         ? SLUICE__V1__SEQUENCE_STATE__SEQUENCE_UNKNOWN
                         : SLUICE__V1__SEQUENCE_STATE__SEQUENCE_QUEUED);
}

static void cancel_or_remove(enum choice_state at, bool remove, bool foreign)
{
    struct scene s;
    struct record *k, *k2;
    struct fake *who;

    bring(&s, at);
    who = foreign ? s.other : s.c;
    k = remove ? client_remove(who, 1) : client_cancel(who, 1);
    k2 = client_cancel(who, 1); /* while the first is pending, or afterwards */
    rig_run(s.rig);
    if (at == CHOICE_ENDING) {
        assert_false(k->ended || k2->ended || s.first->ended);
        worker_receipt(s.w);
        rig_run(s.rig);
        check_receipt(&s, s.first);
        assert_int_equal(s.w->n_cancels + s.w->n_removes, 1);
    }
    check_receipt(&s, k);
    assert_true(k2->ended);
    assert_int_equal(k2->status, ST_OK);
    assert_true(s.x->ended);
    assert_int_equal(s.x->status, ST_OK);
    assert_true(s.x->in_order);
    if (at != CHOICE_ENDED) {
        assert_int_equal(s.x->finish, CANCELLED);
        assert_int_equal(s.x->figures.n_generated, s.x->n_tokens);
    }
    if (at_worker(at) && at != CHOICE_ENDING) {
        assert_int_equal(remove ? s.w->n_removes : s.w->n_cancels, 1);
    } else if (at != CHOICE_ENDING) {
        assert_int_equal(s.w->n_removes + s.w->n_cancels, 0);
    }
    nothing_left(&s);
}

static void cancel_in_every_state(void **state)
{
    (void)state;
    for (int at = 0; at < CHOICE_STATES; at++) {
        cancel_or_remove((enum choice_state)at, false, false);
        cancel_or_remove((enum choice_state)at, false, true);
    }
}

static void remove_in_every_state(void **state)
{
    (void)state;
    for (int at = 0; at < CHOICE_STATES; at++) {
        cancel_or_remove((enum choice_state)at, true, false);
        cancel_or_remove((enum choice_state)at, true, true);
    }
}

static void give_up_in_every_state(void **state)
{
    (void)state;
    for (int at = 0; at < CHOICE_ENDED; at++) {
        struct scene s;

        bring(&s, (enum choice_state)at);
        client_give_up(s.c, s.x);
        rig_run(s.rig);
        assert_int_equal(s.x->status, ST_CANCELLED);
        if (at == CHOICE_ENDING) {
            worker_receipt(s.w);
        } else if (at_worker(s.at)) {
            assert_int_equal(s.w->n_cancels, 1);
            assert_int_equal(s.w->last_reason,
                             SLUICE__V1__CANCEL_REASON__CANCEL_BY_CLIENT);
        }
        nothing_left(&s);
    }
}

static void client_goes_in_every_state(void **state)
{
    (void)state;
    for (int at = 0; at < CHOICE_STATES; at++) {
        struct scene s;

        bring(&s, (enum choice_state)at);
        fake_lost(s.c);
        rig_run(s.rig);
        if (at == CHOICE_ENDING) {
            worker_receipt(s.w);
        } else if (at_worker(s.at)) {
            assert_int_equal(s.w->n_cancels, 1);
            assert_int_equal(s.w->last_reason,
                             SLUICE__V1__CANCEL_REASON__CANCEL_CLIENT_GONE);
        }
        nothing_left(&s);
    }
}

static void worker_goes_in_every_state(void **state)
{
    (void)state;
    for (int at = 0; at < CHOICE_STATES; at++) {
        struct scene s;

        bring(&s, (enum choice_state)at);
        fake_lost(s.w);
        s.text.hold = false;
        rig_advance(s.rig, 10000);
        assert_true(s.x->ended);
        if (at == CHOICE_ENDING) {
            assert_true(s.first->ended);
            assert_int_equal(s.first->status, ST_OK);
            assert_int_equal(s.x->finish, CANCELLED);
            assert_int_equal(s.first->receipt.blocks, 0);
        } else if (at == CHOICE_ENDED) {
            assert_int_equal(s.x->status, ST_OK);
        } else {
            assert_int_equal(s.x->status, ST_UNAVAILABLE);
            assert_non_null(strstr(s.x->error, "tiny"));
        }
        s.at = CHOICE_ENDED; /* the other request ended with the worker */
        nothing_left(&s);
    }
}

static void a_move_in_every_state(void **state)
{
    (void)state;
    for (int at = CHOICE_SUBMITTED; at <= CHOICE_DECODE; at++) {
        struct scene s;
        struct fake *w2;
        struct sequence *q;
        uint32_t n = at == CHOICE_DECODE ? 2 : 0;

        bring(&s, (enum choice_state)at);
        w2 = rig_worker(s.rig, "w2", 64, 8);
        fake_lost(s.w);
        rig_run(s.rig);
        q = worker_sequence_of(w2, 1);
        assert_non_null(q);
        assert_int_equal(q->n_given, n);
        worker_make(w2, q, 10 - n, SLUICE__V1__FINISH__FINISH_LENGTH);
        worker_step(w2);
        rig_run(s.rig);
        assert_true(s.x->ended);
        assert_int_equal(s.x->status, ST_OK);
        assert_int_equal(s.x->n_tokens, 10);
        for (uint32_t i = 0; i < 10; i++) {
            assert_int_equal(s.x->tokens[i], fake_token(q->id, i));
        }
        assert_int_equal(s.x->figures.n_moves, 1);
        s.at = CHOICE_ENDED;
        nothing_left(&s);
    }
}

static void a_deadline_passes_in_every_state(void **state)
{
    (void)state;
    for (int at = 0; at < CHOICE_ENDING; at++) {
        struct scene s;
        Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
        struct record *x;

        bring(&s, (enum choice_state)at);
        m.model = wire_text("tiny");
        m.has_text = at == CHOICE_ENCODING;
        m.text = wire_text("some text");
        x = client_generate_with(s.c, 2, m.has_text ? 0 : 40, 10, &m, 500);
        rig_run(s.rig);
        if (at == CHOICE_DECODE) {
            worker_make(s.w, worker_sequence_of(s.w, 2), 1, 0);
            worker_step(s.w);
            rig_run(s.rig);
        }
        assert_int_equal(rig_state(s.rig, 2), at);
        rig_advance(s.rig, 600000);
        assert_true(x->ended);
        assert_int_equal(x->status, ST_DEADLINE_EXCEEDED);
        assert_int_equal(rig_state(s.rig, 2), CHOICE_ENDED);
        assert_int_equal(s.w->n_cancels, at_worker(s.at) ? 1 : 0);
        if (at_worker(s.at)) {
            assert_int_equal(s.w->last_reason,
                             SLUICE__V1__CANCEL_REASON__CANCEL_DEADLINE);
        }
        client_cancel(s.c, 1);
        rig_run(s.rig);
        nothing_left(&s);
    }
}

static void a_finish_before_the_receipt_counts(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, CHOICE_ENDING);
    worker_make(s.w, worker_sequence_of(s.w, 1), 8,
                SLUICE__V1__FINISH__FINISH_LENGTH);
    worker_step(s.w);
    rig_run(s.rig);
    assert_int_equal(rig_state(s.rig, 1), CHOICE_ENDING);
    worker_receipt(s.w);
    rig_run(s.rig);
    assert_true(s.x->ended);
    assert_int_equal(s.x->finish, SLUICE__V1__FINISH__FINISH_LENGTH);
    assert_int_equal(s.x->n_tokens, 10);
    assert_true(s.first->ended);
    s.at = CHOICE_ENDED;
    nothing_left(&s);
}

static void a_kept_sequence_is_removed(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *c = rig_client(rig, "c1");
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct record *x, *k, *again;
    struct router_metrics n;

    (void)state;
    m.model = wire_text("tiny");
    m.has_keep_ms = true;
    m.keep_ms = 5000;
    x = client_generate_with(c, 1, 40, 4, &m, 0);
    rig_run(rig);
    worker_make(w, worker_sequence_of(w, 1), 4,
                SLUICE__V1__FINISH__FINISH_LENGTH);
    worker_step(w);
    rig_run(rig);
    assert_true(x->ended);
    again = client_generate(c, 1, 40, 4);
    k = client_cancel(c, 1); /* already ended: nothing to cancel */
    rig_run(rig);
    assert_int_equal(again->status, ST_ALREADY_EXISTS);
    assert_int_equal(k->receipt.state,
                     SLUICE__V1__SEQUENCE_STATE__SEQUENCE_FINISHED);
    assert_int_equal(w->n_cancels, 0);
    k = client_remove(c, 1);
    rig_run(rig);
    assert_true(k->ended);
    assert_int_equal(k->receipt.state,
                     SLUICE__V1__SEQUENCE_STATE__SEQUENCE_KEPT);
    assert_int_equal(k->receipt.blocks, 2);
    assert_string_equal(k->worker, "w1");
    router_counts(rig->router, &n);
    assert_int_equal(n.choices_open, 0);
    rig_free(&rig);
}

static void a_lease_ends(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *c = rig_client(rig, "c1");
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct router_metrics n;

    (void)state;
    m.model = wire_text("tiny");
    m.has_keep_ms = true;
    m.keep_ms = 2000;
    client_generate_with(c, 1, 40, 4, &m, 0);
    rig_run(rig);
    worker_make(w, worker_sequence_of(w, 1), 4,
                SLUICE__V1__FINISH__FINISH_LENGTH);
    worker_step(w);
    for (int i = 0; i < 14; i++) {
        router_counts(rig->router, &n);
        assert_int_equal(n.choices_open, 1);
        rig_advance(rig, 200000);
        worker_report(w);
    }
    rig_advance(rig, 300000);
    router_counts(rig->router, &n);
    assert_int_equal(n.choices_open, 0);
    rig_free(&rig);
}

static void bad_names_of_sequences(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *c = rig_client(rig, "c1");
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    Sluice__V1__CancelRequest m = SLUICE__V1__CANCEL_REQUEST__INIT;
    Sluice__V1__RemoveRequest d = SLUICE__V1__REMOVE_REQUEST__INIT;
    uint8_t id[17] = {0};
    struct record *zero, *odd, *range, *choice;

    (void)state;
    ref.request_id = (ProtobufCBinaryData){16, id};
    m.sequence = d.sequence = &ref;
    zero = client_call(c, METHOD_INFERENCE_CANCEL, &m.base, 0);
    id[0] = 1;
    ref.request_id.len = 17;
    odd = client_call(c, METHOD_INFERENCE_CANCEL, &m.base, 0);
    ref.request_id.len = 16;
    d.has_begin = true;
    range = client_call(c, METHOD_INFERENCE_REMOVE, &d.base, 0);
    ref.has_choice = true;
    ref.choice = 3;
    choice = client_call(c, METHOD_INFERENCE_CANCEL, &m.base, 0);
    rig_run(rig);
    assert_int_equal(zero->status, ST_INVALID_ARGUMENT);
    assert_int_equal(odd->status, ST_INVALID_ARGUMENT);
    assert_string_equal(odd->error, "request_id has 17 bytes, must have 16");
    assert_int_equal(range->status, ST_NOT_FOUND);
    assert_int_equal(choice->status, ST_OK);
    assert_int_equal(choice->receipt.state,
                     SLUICE__V1__SEQUENCE_STATE__SEQUENCE_UNKNOWN);
    rig_free(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancel_in_every_state),
        cmocka_unit_test(remove_in_every_state),
        cmocka_unit_test(give_up_in_every_state),
        cmocka_unit_test(client_goes_in_every_state),
        cmocka_unit_test(worker_goes_in_every_state),
        cmocka_unit_test(a_move_in_every_state),
        cmocka_unit_test(a_deadline_passes_in_every_state),
        cmocka_unit_test(a_finish_before_the_receipt_counts),
        cmocka_unit_test(a_kept_sequence_is_removed),
        cmocka_unit_test(a_lease_ends),
        cmocka_unit_test(bad_names_of_sequences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
