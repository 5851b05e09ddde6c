/* Several choices of one Generate: one prompt, one seed and one call, and one
 * sequence per choice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/router/rig.h"

#define LENGTH    SLUICE__V1__FINISH__FINISH_LENGTH
#define CANCELLED SLUICE__V1__FINISH__FINISH_CANCELLED

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
    rig_end(&rig);
}

static void one_choice_needs_no_name(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate_n(c, 1, 1, 40, 4);

    (void)state;
    rig_run(rig);
    worker_give(w, 1, 0, 4, LENGTH);
    assert_true(x->ended);
    assert_false(x->named);
    record_check(x, 1, 0, 4);
    rig_end(&rig);
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
    worker_give(w, 1, 1, 4, LENGTH);
    assert_int_equal(record_choice(x, 1)->finish, LENGTH);
    assert_int_equal(record_choice(x, 1)->figures.n_generated, 4);
    assert_false(x->ended);
    worker_give(w, 1, 0, 3, 0);
    rig_advance(rig, 100000);
    worker_give(w, 1, 0, 1, LENGTH);
    assert_true(x->ended);
    assert_int_equal(x->status, ST_OK);
    assert_true(x->named);
    record_check(x, 1, 0, 4);
    record_check(x, 1, 1, 4);
    assert_int_equal(x->figures.n_prompt, 40);
    assert_true(x->figures.seed == record_choice(x, 1)->figures.seed);
    assert_true(x->figures.total_us > record_choice(x, 1)->figures.total_us);
    rig_end(&rig);
}

/* Tokens before the move: enough that no choice is a suspect, so all move at
 * once. */
static uint32_t n_before(uint32_t choice)
{
    return 2 + choice % 20;
}

/* A long prompt is sent in parts, and after a move with the tokens generated.
 * Parts cover the prompt, the tokens, or both. */
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
        worker_give(w, 1, q, n_before(q), 0);
    }
    w2 = rig_worker(rig, "w2", 100000, 64);
    fake_lost(w);
    rig_advance(rig, 1000000);
    assert_int_equal(w2->n_submits, CHOICES_MAX);
    for (uint32_t q = 0; q < CHOICES_MAX; q++) {
        const struct sequence *s = worker_choice_of(w2, 1, q);

        assert_int_equal(s->grant, q + 1); /* in their old order */
        assert_int_equal(s->n_given, n_before(q));
        assert_int_equal(s->n_ids, 24570 + n_before(q));
        for (uint32_t i = 0; i < 24570; i++) {
            assert_int_equal(s->ids[i], (i * 3 + 1) % RIG_VOCAB);
        }
        for (uint32_t i = 0; i < n_before(q); i++) {
            assert_int_equal(s->ids[24570 + i], choice_token(s->id, q, i));
        }
        worker_give(w2, 1, q, 100 - n_before(q), LENGTH);
    }
    assert_true(x->ended);
    assert_int_equal(x->status, ST_OK);
    for (uint32_t q = 0; q < CHOICES_MAX; q++) {
        record_check(x, 1, q, 100);
        assert_int_equal(record_choice(x, q)->figures.n_moves, 1);
    }
    rig_end(&rig);
}

static void a_text_is_encoded_once(void **state)
{
    struct fake_text text;
    struct rig_options o = {.max_peers = 32,
                            .max_requests = 32,
                            .max_waiting = 32,
                            .text = &text.seam};
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
    assert_int_equal(rig_choice_state(rig, 1, 2), CHOICE_ENCODING);
    client_cancel_choice(c, 1, 1); /* one of three is cancelled */
    rig_run(rig);
    assert_int_equal(record_choice(x, 1)->finish, CANCELLED);
    text.hold = false;
    rig_advance(rig, 10000);
    assert_int_equal(w->n_submits, 2);
    assert_null(worker_choice_of(w, 1, 1));
    assert_int_equal(worker_choice_of(w, 1, 2)->n_prompt, 8);
    worker_give(w, 1, 0, 4, LENGTH);
    worker_give(w, 1, 2, 4, LENGTH);
    assert_true(x->ended);
    assert_int_equal(x->status, ST_OK);
    rig_end(&rig);
    fake_text_fini(&text);
}

/* A prompt that cannot be encoded, or whose call was cancelled. */
static void a_text_that_comes_to_nothing(void **state)
{
    for (int late = 0; late < 2; late++) {
        struct fake_text text;
        struct rig_options o = {.max_peers = 32,
                                .max_requests = 32,
                                .max_waiting = 32,
                                .text = &text.seam};
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
        rig_end(&rig);
        fake_text_fini(&text);
    }
}

/* Each choice is admitted when it has room, in order of arrival. */
static void choices_wait_their_turn(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 6, 8); /* room for three */
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate_n(c, 1, 4, 40, 4);
    struct record *y = client_generate_n(c, 2, 2, 40, 4);
    struct router_metrics k;

    (void)state;
    rig_run(rig);
    assert_int_equal(w->n_submits, 3);
    assert_int_equal(rig_choice_state(rig, 1, 3), CHOICE_WAITING);
    router_counts(rig->router, &k);
    assert_int_equal(k.choices_waiting, 3);
    assert_int_equal(k.choices_open, 6);
    assert_int_equal(k.requests, 2);
    worker_give(w, 1, 2, 4, LENGTH);
    assert_non_null(worker_choice_of(w, 1, 3));
    assert_null(worker_choice_of(w, 2, 0));
    worker_give(w, 1, 3, 4, LENGTH);
    worker_give(w, 1, 1, 4, LENGTH);
    assert_non_null(worker_choice_of(w, 2, 0));
    assert_non_null(worker_choice_of(w, 2, 1));
    assert_int_equal(rig_choice_state(rig, 1, 1), CHOICE_ENDED);
    assert_false(x->ended);
    worker_give(w, 1, 0, 4, LENGTH);
    assert_true(x->ended);
    worker_give(w, 2, 0, 4, LENGTH);
    worker_give(w, 2, 1, 4, LENGTH);
    assert_true(y->ended);
    rig_end(&rig);
}

/* The queue of one model is full; another model has its own. */
static void a_flooded_model_takes_no_place_of_another(void **state)
{
    const struct rig_options o = {
        .max_peers = 32, .max_requests = 64, .max_waiting = 4};
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct rig *rig = rig_new(&o);
    struct fake *c = rig_client(rig, "c1"), *other;
    struct record *x;

    (void)state;
    rig_worker(rig, "w1", 2, 1);
    other = fake_worker_new(rig, "w2", 2, 1);
    strcpy(other->model, "other");
    other->shard.model = wire_text(other->model);
    fake_hello(other);
    rig_run(rig);
    client_generate_n(c, 2, 1, 40, 4);
    rig_run(rig);
    client_generate_n(c, 3, 4, 40, 4); /* fills the queue */
    rig_run(rig);
    x = client_generate_n(c, 4, 1, 40, 4);
    rig_run(rig);
    assert_int_equal(x->status, ST_RESOURCE_EXHAUSTED);
    m.model = wire_text("other");
    for (uint8_t id = 5; id <= 8; id++) {
        x = client_generate_with(c, id, 40, 4, &m, 0);
        rig_run(rig);
        assert_false(x->ended);
    }
    assert_non_null(worker_sequence_of(other, 5));
    rig_free(&rig);
}

/* The limits of the queue and of open choices take a call whole or not at all.
 */
static void places_are_counted_by_choices(void **state)
{
    const struct rig_options queue = {
        .max_peers = 32, .max_requests = 32, .max_waiting = 4};
    const struct rig_options open = {
        .max_peers = 32, .max_requests = 5, .max_waiting = 32};
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
    assert_string_equal(
        x->error, "the queue of tiny is full: 2 sequences wait for room, 2 of "
                  "them the tenant's, at most 4 may, and the request adds 3; "
                  "retry in 1000 ms");
    assert_int_equal(x->retry_ms, 1000);
    assert_int_equal(y->status, ST_RESOURCE_EXHAUSTED);
    assert_string_equal(y->error,
                        "the request has 5 choices, at most 4 may wait for "
                        "room; lower n");
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
    assert_string_equal(
        x->error,
        "3 sequences are open, at most 5 may be, and the request adds 3");
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
    worker_give(w, 1, 0, 4, LENGTH);
    again = client_generate(c, 1, 40, 4);
    rig_run(rig);
    assert_int_equal(again->status, ST_ALREADY_EXISTS);
    assert_string_equal(again->error,
                        "a request with this id exists; its state is prefill");
    worker_give(w, 1, 1, 4, LENGTH);
    assert_true(x->ended);
    again = client_generate(c, 1, 40, 4);
    rig_run(rig);
    assert_false(again->ended);
    rig_free(&rig);
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
    worker_give(w, 1, 1, 2, 0);
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
        cmocka_unit_test(a_flooded_model_takes_no_place_of_another),
        cmocka_unit_test(places_are_counted_by_choices),
        cmocka_unit_test(the_id_is_taken_while_a_choice_is),
        cmocka_unit_test(each_choice_is_listed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
