/* Several choices of one Generate: one prompt, one seed, one call; each choice
 * a sequence of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/router/rig.h"

#define LENGTH    SLUICE__V1__FINISH__FINISH_LENGTH
#define CANCELLED SLUICE__V1__FINISH__FINISH_CANCELLED
#define FAILED    SLUICE__V1__FINISH__FINISH_FAILED

static void give(struct fake *w, uint8_t id, uint32_t choice, uint32_t n,
                 uint32_t finish)
{
    worker_make(w, worker_choice_of(w, id, choice), n, finish);
    worker_step(w);
    rig_run(w->rig);
}

/* Nothing of anything is open, and no worker runs a thing. */
static void nothing_left(struct rig **rig)
{
    struct router_counts k;
    struct router_worker_view v;

    rig_advance(*rig, 10000);
    router_counts((*rig)->router, &k);
    assert_int_equal(k.n_requests, 0);
    assert_int_equal(k.n_waiting, 0);
    for (uint32_t i = 0; router_worker_view((*rig)->router, i, &v); i++) {
        assert_int_equal(v.n_sequences, 0);
    }
    rig_free(rig);
}

static void check_tokens(const struct record *x, uint8_t id, uint32_t choice,
                         uint32_t n)
{
    const struct record *q = record_choice(x, choice);
    uint8_t full[16];

    memset(full, id, 16);
    assert_true(q->in_order);
    assert_int_equal(q->n_tokens, n);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(q->tokens[i], choice_token(full, choice, i));
    }
}

static void n_is_checked(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 256, 128);
    struct fake *c = rig_client(rig, "c1");
    struct record *none = client_generate_n(c, 1, 0, 40, 4);
    struct record *many = client_generate_n(c, 2, CHOICES_MAX + 1, 40, 4);
    struct record *most = client_generate_n(c, 3, CHOICES_MAX, 40, 4);

    (void)state;
    rig_run(rig);
    assert_int_equal(none->status, ST_INVALID_ARGUMENT);
    assert_string_equal(none->error, "n is 0, must be 1..64");
    assert_int_equal(many->status, ST_INVALID_ARGUMENT);
    assert_string_equal(many->error, "n is 65, must be 1..64");
    assert_false(most->ended);
    assert_int_equal(w->n_submits, CHOICES_MAX);
    client_give_up(c, most);
    rig_run(rig);
    nothing_left(&rig);
}

static void one_choice_needs_no_name(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate_n(c, 1, 1, 40, 4);

    (void)state;
    rig_run(rig);
    give(w, 1, 0, 4, LENGTH);
    assert_true(x->ended);
    assert_false(x->named);
    check_tokens(x, 1, 0, 4);
    nothing_left(&rig);
}

static void two_choices(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate_n(c, 1, 2, 40, 4);
    const struct sequence *a, *b;

    (void)state;
    rig_run(rig);
    a = worker_choice_of(w, 1, 0);
    b = worker_choice_of(w, 1, 1);
    assert_true(a->grant < b->grant);
    assert_true(a->seed != 0 && a->seed == b->seed);
    assert_memory_equal(a->ids, b->ids, 40 * sizeof *a->ids);
    give(w, 1, 1, 4, LENGTH);
    assert_int_equal(record_choice(x, 1)->finish, LENGTH);
    assert_int_equal(record_choice(x, 1)->figures.n_generated, 4);
    assert_false(x->ended);
    give(w, 1, 0, 3, 0);
    rig_advance(rig, 100000);
    give(w, 1, 0, 1, LENGTH);
    assert_true(x->ended);
    assert_int_equal(x->status, ST_OK);
    assert_true(x->named);
    check_tokens(x, 1, 0, 4);
    check_tokens(x, 1, 1, 4);
    assert_int_equal(x->figures.n_prompt, 40);
    assert_true(x->figures.seed == record_choice(x, 1)->figures.seed);
    assert_true(x->figures.total_us > record_choice(x, 1)->figures.total_us);
    nothing_left(&rig);
}

/* A long prompt in parts, and after a move with what was generated: parts lie
 * in the prompt, in what follows it, and in both. */
static void every_choice_gets_the_whole_prompt(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 100000, 64);
    struct fake *w2, *c = rig_client(rig, "c1");
    struct record *x = client_generate_n(c, 1, CHOICES_MAX, 24570, 100);

    (void)state;
    rig_advance(rig, 1000000);
    assert_int_equal(w->n_submits, CHOICES_MAX);
    for (uint32_t q = 0; q < CHOICES_MAX; q++) {
        give(w, 1, q, q % 20, 0);
    }
    w2 = rig_worker(rig, "w2", 100000, 64);
    fake_lost(w);
    rig_advance(rig, 1000000);
    assert_int_equal(w2->n_submits, CHOICES_MAX);
    for (uint32_t q = 0; q < CHOICES_MAX; q++) {
        const struct sequence *s = worker_choice_of(w2, 1, q);

        assert_int_equal(s->grant, q + 1); /* in their old order */
        assert_int_equal(s->n_given, q % 20);
        assert_int_equal(s->n_ids, 24570 + q % 20);
        for (uint32_t i = 0; i < 24570; i++) {
            assert_int_equal(s->ids[i], (i * 3 + 1) % RIG_VOCAB);
        }
        for (uint32_t i = 0; i < q % 20; i++) {
            assert_int_equal(s->ids[24570 + i], choice_token(s->id, q, i));
        }
        give(w2, 1, q, 100 - q % 20, LENGTH);
    }
    assert_true(x->ended);
    assert_int_equal(x->status, ST_OK);
    for (uint32_t q = 0; q < CHOICES_MAX; q++) {
        check_tokens(x, 1, q, 100);
        assert_int_equal(record_choice(x, q)->figures.n_moves, 1);
    }
    nothing_left(&rig);
}

static void a_text_is_encoded_once(void **state)
{
    struct fake_text text;
    struct rig_options o = {32, 32, 32, &text.seam};
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct fake *w, *c;
    struct record *x;
    struct rig *rig;

    (void)state;
    fake_text_init(&text, NULL);
    text.hold = true;
    rig = rig_new(&o);
    w = rig_worker(rig, "w1", 64, 8);
    c = rig_client(rig, "c1");
    m.model = wire_text("tiny");
    m.has_text = m.has_n = true;
    m.text = wire_text("a prompt");
    m.n = 3;
    x = client_generate_with(c, 1, 0, 4, &m, 0);
    rig_run(rig);
    assert_int_equal(text.n_jobs, 1);
    assert_int_equal(rig_choice_state(rig, 1, 2), REQUEST_ENCODING);
    client_cancel_choice(c, 1, 1); /* of three, one shall not run */
    rig_run(rig);
    assert_int_equal(record_choice(x, 1)->finish, CANCELLED);
    text.hold = false;
    rig_advance(rig, 10000);
    assert_int_equal(w->n_submits, 2);
    assert_null(worker_choice_of(w, 1, 1));
    assert_int_equal(worker_choice_of(w, 1, 2)->n_prompt, 8);
    give(w, 1, 0, 4, LENGTH);
    give(w, 1, 2, 4, LENGTH);
    assert_true(x->ended);
    assert_int_equal(x->status, ST_OK);
    nothing_left(&rig);
    fake_text_fini(&text);
}

/* Of a prompt that cannot be encoded, or that nobody wants any more. */
static void a_text_that_comes_to_nothing(void **state)
{
    for (int late = 0; late < 2; late++) {
        struct fake_text text;
        struct rig_options o = {32, 32, 32, &text.seam};
        Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
        struct fake *w, *c;
        struct record *x;
        struct rig *rig;

        (void)state;
        fake_text_init(&text, NULL);
        text.hold = true;
        text.fail = !late;
        rig = rig_new(&o);
        w = rig_worker(rig, "w1", 64, 8);
        c = rig_client(rig, "c1");
        m.model = wire_text("tiny");
        m.has_text = m.has_n = true;
        m.text = wire_text("a prompt");
        m.n = 2;
        x = client_generate_with(c, 1, 0, 4, &m, 0);
        rig_run(rig);
        client_cancel_choice(c, 1, 0);
        if (late) {
            client_cancel_choice(c, 1, 1);
        }
        rig_run(rig);
        assert_int_equal(x->ended, late);
        text.hold = false;
        rig_advance(rig, 10000);
        assert_true(x->ended);
        assert_int_equal(x->finish, CANCELLED);
        assert_int_equal(x->status == ST_OK, late);
        assert_int_equal(w->n_submits, 0);
        nothing_left(&rig);
        fake_text_fini(&text);
    }
}

/* Each is admitted when there is room for it, in order of arrival. */
static void choices_wait_their_turn(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 6, 8); /* room for three */
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate_n(c, 1, 4, 40, 4);
    struct record *y = client_generate_n(c, 2, 2, 40, 4);
    struct router_counts k;

    (void)state;
    rig_run(rig);
    assert_int_equal(w->n_submits, 3);
    assert_int_equal(rig_choice_state(rig, 1, 3), REQUEST_WAITING);
    router_counts(rig->router, &k);
    assert_int_equal(k.n_waiting, 3);
    assert_int_equal(k.n_requests, 6);
    assert_int_equal(k.requests, 2);
    give(w, 1, 2, 4, LENGTH);
    assert_non_null(worker_choice_of(w, 1, 3));
    assert_null(worker_choice_of(w, 2, 0));
    give(w, 1, 3, 4, LENGTH);
    give(w, 1, 1, 4, LENGTH);
    assert_non_null(worker_choice_of(w, 2, 0));
    assert_non_null(worker_choice_of(w, 2, 1));
    assert_int_equal(rig_choice_state(rig, 1, 1), REQUEST_ENDED);
    assert_false(x->ended);
    give(w, 1, 0, 4, LENGTH);
    assert_true(x->ended);
    give(w, 2, 0, 4, LENGTH);
    give(w, 2, 1, 4, LENGTH);
    assert_true(y->ended);
    nothing_left(&rig);
}

/* All of a call or nothing, in the queue and among the open. */
static void places_are_counted_by_choices(void **state)
{
    const struct rig_options queue = {32, 32, 4, NULL};
    const struct rig_options open = {32, 5, 32, NULL};
    struct rig *rig = rig_new(&queue);
    struct fake *c = rig_client(rig, "c1");
    struct record *x, *y;

    (void)state;
    rig_worker(rig, "w1", 2, 1);
    client_generate_n(c, 1, 3, 40, 4); /* one runs, two wait */
    rig_run(rig);
    x = client_generate_n(c, 2, 3, 40, 4);
    y = client_generate_n(c, 3, 5, 40, 4);
    rig_run(rig);
    assert_int_equal(x->status, ST_RESOURCE_EXHAUSTED);
    assert_string_equal(x->error,
                        "2 sequences wait for room, at most 4 may, and these "
                        "would be 3 more; try again in 1000 ms");
    assert_int_equal(x->retry_ms, 1000);
    assert_int_equal(y->status, ST_RESOURCE_EXHAUSTED);
    assert_string_equal(y->error,
                        "5 choices are more than may wait for room, 4 at most");
    assert_int_equal(y->retry_ms, 0);
    x = client_generate_n(c, 2, 2, 40, 4);
    rig_run(rig);
    assert_false(x->ended);
    rig_free(&rig);

    rig = rig_new(&open);
    c = rig_client(rig, "c1");
    rig_worker(rig, "w1", 256, 128);
    client_generate_n(c, 1, 3, 40, 4);
    x = client_generate_n(c, 2, 3, 40, 4);
    y = client_generate_n(c, 3, 6, 40, 4);
    rig_run(rig);
    assert_int_equal(x->status, ST_RESOURCE_EXHAUSTED);
    assert_string_equal(x->error, "3 sequences are open, at most 5 may be, and "
                                  "these would be 3 more");
    assert_true(x->retry_ms > 0);
    assert_int_equal(y->status, ST_RESOURCE_EXHAUSTED);
    assert_int_equal(y->retry_ms, 0);
    x = client_generate_n(c, 2, 2, 40, 4);
    rig_run(rig);
    assert_false(x->ended);
    rig_free(&rig);
}

static void the_id_is_taken_while_a_choice_is(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate_n(c, 1, 2, 40, 4), *again;

    (void)state;
    rig_run(rig);
    give(w, 1, 0, 4, LENGTH);
    again = client_generate(c, 1, 40, 4);
    rig_run(rig);
    assert_int_equal(again->status, ST_ALREADY_EXISTS);
    assert_string_equal(again->error, "a request of this id is prefill");
    give(w, 1, 1, 4, LENGTH);
    assert_true(x->ended);
    again = client_generate(c, 1, 40, 4);
    rig_run(rig);
    assert_false(again->ended);
    rig_free(&rig);
}

/* One fails: the call ends with its sentence, the others are cancelled, be
 * they running (and in the same step) or waiting. */
static void one_that_fails_fails_the_call(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 6, 8);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate_n(c, 1, 5, 40, 4);
    struct router_counts k;

    (void)state;
    rig_run(rig);
    give(w, 1, 0, 2, 0);
    worker_make(w, worker_choice_of(w, 1, 0), 1, FAILED);
    worker_make(w, worker_choice_of(w, 1, 1), 4, LENGTH);
    worker_make(w, worker_choice_of(w, 1, 2), 2, 0);
    worker_step(w);
    rig_run(rig);
    assert_true(x->ended);
    assert_int_equal(x->status, ST_INTERNAL);
    assert_string_equal(x->error, "worker w1: the sequence failed");
    assert_int_equal(w->n_cancels, 2);
    assert_int_equal(w->last_reason,
                     SLUICE__V1__CANCEL_REASON__CANCEL_CHOICE_FAILED);
    assert_int_equal(w->n_submits, 3);
    router_counts(rig->router, &k);
    assert_int_equal(k.failed, 1);
    assert_int_equal(k.cancelled + k.finished, 4);
    nothing_left(&rig);
}

static void one_that_is_refused_fails_the_call(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *c = rig_client(rig, "c1");
    struct record *x;

    (void)state;
    w->refuse_submits = ST_INVALID_ARGUMENT;
    x = client_generate_n(c, 1, 3, 40, 4);
    rig_run(rig);
    assert_true(x->ended);
    assert_int_equal(x->status, ST_INVALID_ARGUMENT);
    assert_string_equal(x->error, "worker w1 refused it: not now");
    assert_int_equal(w->n_cancels, 2); /* submitted before it was known */
    nothing_left(&rig);
}

/* Those of the lost worker go on at the other, the rest notice nothing. */
static void a_worker_of_some_choices_is_lost(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w1 = rig_worker(rig, "w1", 64, 8);
    struct fake *w2 = rig_worker(rig, "w2", 64, 8);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate_n(c, 1, 4, 40, 10);

    (void)state;
    rig_run(rig);
    assert_int_equal(w1->n_submits, 2);
    assert_int_equal(w2->n_submits, 2);
    for (uint32_t q = 0; q < 4; q++) {
        struct fake *w = worker_choice_of(w1, 1, q) != NULL ? w1 : w2;
        give(w, 1, q, q + 1, 0);
    }
    fake_lost(w1);
    rig_run(rig);
    assert_int_equal(w2->n_submits, 4);
    for (uint32_t q = 0; q < 4; q++) {
        assert_int_equal(worker_choice_of(w2, 1, q)->n_tokens, q + 1);
        give(w2, 1, q, 9 - q, LENGTH);
        check_tokens(x, 1, q, 10);
    }
    assert_true(x->ended);
    assert_int_equal(x->status, ST_OK);
    assert_int_equal(x->figures.n_moves + record_choice(x, 1)->figures.n_moves +
                         record_choice(x, 2)->figures.n_moves +
                         record_choice(x, 3)->figures.n_moves,
                     2);
    nothing_left(&rig);
}

/* Whatever is lost in whatever order, they wait as they came. */
static void lost_choices_keep_their_order(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w3 = rig_worker(rig, "w3", 8, 8);
    struct fake *c = rig_client(rig, "c1");
    struct fake *w1, *w2;

    (void)state;
    client_generate(c, 99, 200, 56); /* has all of w3 */
    rig_run(rig);
    w1 = rig_worker(rig, "w1", 64, 8);
    w2 = rig_worker(rig, "w2", 64, 8);
    client_generate_n(c, 1, 4, 40, 4);
    rig_run(rig);
    assert_non_null(worker_choice_of(w1, 1, 0));
    assert_non_null(worker_choice_of(w2, 1, 1));
    assert_non_null(worker_choice_of(w1, 1, 2));
    assert_non_null(worker_choice_of(w2, 1, 3));
    fake_lost(w2);
    rig_run(rig);
    fake_lost(w1);
    rig_run(rig);
    assert_int_equal(w3->n_submits, 1);
    give(w3, 99, 0, 56, LENGTH);
    assert_int_equal(w3->n_submits, 5);
    for (uint32_t q = 0; q < 4; q++) {
        assert_int_equal(worker_choice_of(w3, 1, q)->grant, 2 + q);
    }
    rig_free(&rig);
}

/* The last worker goes: the call ends once; so does what waits and fits no
 * other. */
static void nobody_is_left_to_run_them(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 6, 8);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate_n(c, 1, 5, 40, 4);

    (void)state;
    rig_run(rig);
    fake_lost(w);
    rig_run(rig);
    assert_true(x->ended);
    assert_int_equal(x->status, ST_UNAVAILABLE);
    nothing_left(&rig);
}

static void what_waits_fits_nowhere_any_more(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *small = rig_worker(rig, "small", 2, 8);
    struct fake *large = rig_worker(rig, "large", 16, 8);
    struct fake *c = rig_client(rig, "c1");
    struct record *first = client_generate_n(c, 1, 2, 200, 56);
    struct record *x = client_generate_n(c, 2, 3, 200, 56);
    struct record *y = client_generate_n(c, 3, 2, 40, 4);
    struct record *z = client_generate_n(c, 4, 3, 200, 56);

    (void)state;
    rig_run(rig);
    assert_int_equal(large->n_submits, 2);
    fake_lost(large);
    rig_run(rig);
    assert_int_equal(first->status, ST_RESOURCE_EXHAUSTED);
    assert_int_equal(x->status, ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(x->error, "it can never run"));
    assert_int_equal(z->status, ST_RESOURCE_EXHAUSTED);
    assert_false(y->ended);
    give(small, 3, 0, 4, LENGTH);
    give(small, 3, 1, 4, LENGTH);
    assert_true(y->ended);
    assert_int_equal(y->status, ST_OK);
    nothing_left(&rig);
}

/* The call ends for all: by its deadline, by its caller, with its client. */
static void all_end_with_the_call(void **state)
{
    static const Sluice__V1__CancelReason reasons[] = {
        SLUICE__V1__CANCEL_REASON__CANCEL_DEADLINE,
        SLUICE__V1__CANCEL_REASON__CANCEL_BY_CLIENT,
        SLUICE__V1__CANCEL_REASON__CANCEL_CLIENT_GONE};

    (void)state;
    for (int how = 0; how < 3; how++) {
        struct rig *rig = rig_new(NULL);
        struct fake *w = rig_worker(rig, "w1", 6, 8);
        struct fake *c = rig_client(rig, "c1");
        Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
        struct record *x;

        m.model = wire_text("tiny");
        m.has_n = true;
        m.n = 5; /* one ends, three run, one waits */
        x = client_generate_with(c, 1, 40, 4, &m, how == 0 ? 500 : 0);
        rig_run(rig);
        give(w, 1, 0, 4, LENGTH);
        give(w, 1, 1, 2, 0);
        assert_int_equal(rig_choice_state(rig, 1, 4), REQUEST_WAITING);
        if (how == 0) {
            rig_advance(rig, 600000);
            assert_int_equal(x->status, ST_DEADLINE_EXCEEDED);
        } else if (how == 1) {
            client_give_up(c, x);
        } else {
            fake_lost(c);
        }
        rig_run(rig);
        assert_int_equal(w->n_cancels, 3);
        assert_int_equal(w->last_reason, reasons[how]);
        assert_int_equal(w->n_submits, 4);
        nothing_left(&rig);
    }
}

static void the_router_stops(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 6, 8);
    struct fake *c = rig_client(rig, "c1");
    struct fake *other = rig_client(rig, "c2");
    struct record *x = client_generate_n(c, 1, 5, 40, 4), *one, *all;

    (void)state;
    rig_run(rig);
    give(w, 1, 0, 4, LENGTH);
    give(w, 1, 1, 2, 0);
    w->hold_receipts = true;
    one = client_cancel_choice(other, 1, 1);
    all = client_cancel(other, 1);
    rig_run(rig);
    router_stop(rig->router);
    rig_run(rig);
    assert_int_equal(x->status, ST_UNAVAILABLE);
    assert_int_equal(one->status, ST_UNAVAILABLE);
    assert_int_equal(all->status, ST_UNAVAILABLE);
    assert_true(c->gone && w->gone);
    rig_free(&rig);
}

/* Each choice stays at its worker until its lease ends or it is removed. */
static void kept_choices(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *c = rig_client(rig, "c1");
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct record *x, *k, *again;

    (void)state;
    m.model = wire_text("tiny");
    m.has_n = m.has_keep_ms = true;
    m.n = 3;
    m.keep_ms = 2000;
    x = client_generate_with(c, 1, 40, 4, &m, 0);
    rig_run(rig);
    for (uint32_t q = 0; q < 3; q++) {
        give(w, 1, q, 4, LENGTH);
    }
    assert_true(x->ended);
    worker_choice_of(w, 1, 2)->acked = 0; /* as if no word of it had come */
    worker_choice_of(w, 1, 2)->finished = false;
    worker_step(w);
    k = client_remove_choice(c, 1, 1);
    again = client_generate(c, 1, 40, 4);
    rig_run(rig);
    assert_int_equal(k->receipt.state,
                     SLUICE__V1__SEQUENCE_STATE__SEQUENCE_KEPT);
    assert_int_equal(k->receipt.blocks, 2);
    assert_int_equal(again->status, ST_ALREADY_EXISTS);
    assert_string_equal(again->error,
                        "a request of this id is kept: remove it first");
    for (int i = 0; i < 14; i++) {
        rig_advance(rig, 200000);
        worker_report(w);
    }
    again = client_generate(c, 1, 40, 4);
    rig_run(rig);
    assert_int_equal(again->status, ST_ALREADY_EXISTS);
    rig_advance(rig, 300000); /* the leases end */
    nothing_left(&rig);
}

/* Time passes, the worker is heard. */
static void wait_s(struct fake *w, int seconds)
{
    for (int i = 0; i < seconds; i++) {
        rig_advance(w->rig, 1000000);
        worker_report(w);
    }
    rig_run(w->rig);
}

/* Turns are by choice: what waits goes by chunks of each in turn. */
static void choices_share_a_slow_line(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 100000, 64);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate_n(c, 1, 4, 10, 30000);

    (void)state;
    rig_run(rig);
    c->deaf = true;
    for (int k = 0; k < 80; k++) { /* first what fills the line */
        for (uint32_t q = 0; q < 4; q++) {
            worker_make(w, worker_choice_of(w, 1, q), k < 70 ? 1 : 2000, 0);
        }
        worker_step(w);
        rig_advance(rig, 1000);
    }
    c->deaf = false;
    wait_s(w, 5);
    for (uint32_t q = 0; q < 4; q++) {
        check_tokens(x, 1, q, 20070);
    }
    assert_true(x->n_chunks < 4 * 80); /* some were of several steps */
    for (uint32_t i = 0; i + 4 < x->n_chunks; i++) {
        assert_int_equal(x->chunks[i], x->chunks[i + 4]);
    }
    rig_free(&rig);
}

/* Enough of these are more than a deaf client is given. */
static void one_token_each(struct fake *w, int n)
{
    for (int i = 0; i < n; i++) {
        for (uint32_t q = 0; q < 3; q++) {
            worker_make(w, worker_choice_of(w, 1, q), 1, 0);
        }
        worker_step(w);
        rig_advance(w->rig, 1000);
    }
}

/* Nothing taken for 30 s: all choices go. */
static void a_reader_of_choices_is_slow(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 100000, 64);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate_n(c, 1, 3, 10, 39000);
    struct router_counts k;

    (void)state;
    rig_run(rig);
    c->deaf = true;
    one_token_each(w, 1300);
    wait_s(w, 20);
    c->deaf = false; /* for a moment */
    wait_s(w, 2);
    c->deaf = true;
    one_token_each(w, 1300);
    assert_true(x->n_tokens >= 1300);
    wait_s(w, 24);
    assert_int_equal(w->n_cancels, 0);
    wait_s(w, 10);
    assert_int_equal(w->n_cancels, 3);
    assert_int_equal(w->last_reason,
                     SLUICE__V1__CANCEL_REASON__CANCEL_SLOW_READER);
    router_counts(rig->router, &k);
    assert_int_equal(k.cancelled, 3);
    nothing_left(&rig);
}

/* Chunks of some choices every 25 s are enough for all 64 to go on, though
 * each of them waits for minutes. */
static void a_reader_takes_a_little(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 100000, 64);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate_n(c, 1, CHOICES_MAX, 10, 70 + 80 * 49);
    int rounds = 0;

    (void)state;
    rig_run(rig);
    c->deaf = true;
    for (int k = 0; k < 150; k++) { /* first what fills its line */
        for (uint32_t q = 0; q < CHOICES_MAX; q++) {
            worker_make(w, worker_choice_of(w, 1, q), k < 70 ? 1 : 49,
                        k < 149 ? 0 : LENGTH);
        }
        worker_step(w);
        rig_advance(rig, 1000);
    }
    for (; !x->ended && rounds < 50; rounds++) {
        wait_s(w, 20);
        c->deaf = false;
        c->n_hears = 2;
        wait_s(w, 5);
    }
    assert_true(rounds > 3);
    assert_int_equal(x->status, ST_OK);
    for (uint32_t q = 0; q < CHOICES_MAX; q++) {
        check_tokens(x, 1, q, 70 + 80 * 49);
    }
    c->deaf = false;
    nothing_left(&rig);
}

static void each_choice_is_listed(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 4, 8);
    struct fake *c = rig_client(rig, "c1");
    struct fake *a = rig_admin(rig, "a1");
    Sluice__V1__ListRequest m = SLUICE__V1__LIST_REQUEST__INIT;
    const Sluice__V1__ListSequencesReply *l;
    struct record *x;

    (void)state;
    client_generate_n(c, 1, 3, 40, 4);
    rig_run(rig);
    give(w, 1, 1, 2, 0);
    x = client_call(a, METHOD_ADMIN_LIST_SEQUENCES, &m.base, 0);
    rig_run(rig);
    l = (const void *)x->reply;
    assert_int_equal(l->n_sequences, 3);
    for (uint32_t q = 0; q < 3; q++) {
        assert_true(l->sequences[q]->sequence->has_choice);
        assert_int_equal(l->sequences[q]->sequence->choice, q);
        assert_int_equal(l->sequences[q]->n_prompt, 40);
    }
    assert_int_equal(l->sequences[1]->n_generated, 2);
    assert_memory_equal(l->sequences[1]->state.data, "decode", 6);
    assert_memory_equal(l->sequences[2]->state.data, "waiting", 7);
    rig_free(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(n_is_checked),
        cmocka_unit_test(one_choice_needs_no_name),
        cmocka_unit_test(two_choices),
        cmocka_unit_test(every_choice_gets_the_whole_prompt),
        cmocka_unit_test(a_text_is_encoded_once),
        cmocka_unit_test(a_text_that_comes_to_nothing),
        cmocka_unit_test(choices_wait_their_turn),
        cmocka_unit_test(places_are_counted_by_choices),
        cmocka_unit_test(the_id_is_taken_while_a_choice_is),
        cmocka_unit_test(one_that_fails_fails_the_call),
        cmocka_unit_test(one_that_is_refused_fails_the_call),
        cmocka_unit_test(a_worker_of_some_choices_is_lost),
        cmocka_unit_test(lost_choices_keep_their_order),
        cmocka_unit_test(nobody_is_left_to_run_them),
        cmocka_unit_test(what_waits_fits_nowhere_any_more),
        cmocka_unit_test(all_end_with_the_call),
        cmocka_unit_test(the_router_stops),
        cmocka_unit_test(kept_choices),
        cmocka_unit_test(choices_share_a_slow_line),
        cmocka_unit_test(a_reader_of_choices_is_slow),
        cmocka_unit_test(a_reader_takes_a_little),
        cmocka_unit_test(each_choice_is_listed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
