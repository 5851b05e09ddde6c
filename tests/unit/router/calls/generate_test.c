/* Requests from end to end, on one worker and on several. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/router/rig.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH
#define STOP   SLUICE__V1__FINISH__FINISH_STOP

static void check_tokens(const struct record *x, uint8_t id, uint32_t n)
{
    uint8_t full[16];

    memset(full, id, 16);
    assert_true(x->in_order);
    assert_int_equal(x->n_tokens, n);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(x->tokens[i], fake_token(full, i));
    }
}

static void tokens_arrive_once_and_in_order(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 4);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate(c, 1, 40, 10);
    struct sequence *s;

    (void)state;
    rig_run(rig);
    s = worker_sequence_of(w, 1);
    assert_non_null(s);
    assert_int_equal(s->grant, 1);
    assert_int_equal(s->blocks, 2); /* ceil(50 / 32) */
    assert_int_equal(s->slots, 1);
    assert_int_equal(s->n_ids, 40);
    assert_int_equal(rig_state(rig, 1), CHOICE_PREFILL);
    for (int i = 0; i < 9; i++) {
        rig->now += 1000;
        worker_make(w, s, 1, 0);
        worker_step(w);
        rig_run(rig);
        assert_int_equal(rig_state(rig, 1), CHOICE_DECODE);
        assert_int_equal(x->n_tokens, i + 1);
    }
    worker_make(w, s, 1, LENGTH);
    worker_step(w);
    rig_run(rig);
    assert_true(x->ended);
    assert_int_equal(x->status, ST_OK);
    assert_int_equal(x->finish, LENGTH);
    check_tokens(x, 1, 10);
    assert_int_equal(x->figures.n_prompt, 40);
    assert_int_equal(x->figures.n_generated, 10);
    assert_int_equal(x->figures.blocks, 2);
    assert_int_equal(x->figures.slots, 1);
    assert_int_equal(x->figures.n_moves, 0);
    assert_int_equal(x->figures.first_token_us, 1000);
    assert_int_equal(x->figures.total_us, 9000);
    assert_string_equal(x->worker, "w1");
    assert_int_equal(rig_state(rig, 1), CHOICE_ENDED);
    assert_false(s->used); /* all tokens are acknowledged */
    rig_free(&rig);
}

static void a_lost_worker_is_a_pause(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w1 = rig_worker(rig, "w1", 64, 4);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate(c, 1, 40, 10);
    struct fake *w2;
    struct sequence *s;

    (void)state;
    rig_run(rig);
    w2 = rig_worker(rig, "w2", 64, 4);
    s = worker_sequence_of(w1, 1);
    worker_make(w1, s, 4, 0);
    worker_step(w1);
    rig_run(rig);
    fake_lost(w1);
    rig_run(rig);
    s = worker_sequence_of(w2, 1);
    assert_non_null(s);
    assert_int_equal(s->n_prompt, 40);
    assert_int_equal(s->n_given, 4);
    assert_int_equal(s->have_index, 4);
    assert_int_equal(s->n_ids, 44);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(s->ids[40 + i], fake_token(s->id, i));
    }
    assert_false(x->ended);
    worker_make(w2, s, 6, LENGTH);
    worker_step(w2);
    rig_run(rig);
    assert_true(x->ended);
    assert_int_equal(x->status, ST_OK);
    check_tokens(x, 1, 10);
    assert_int_equal(x->figures.n_moves, 1);
    assert_string_equal(x->worker, "w2");
    rig_free(&rig);
}

static void a_cancel_brings_the_workers_receipt(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 4);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate(c, 1, 40, 10), *k;

    (void)state;
    rig_run(rig);
    worker_make(w, worker_sequence_of(w, 1), 3, 0);
    worker_step(w);
    rig_run(rig);
    k = client_cancel(c, 1);
    rig_run(rig);
    assert_true(k->ended);
    assert_int_equal(k->status, ST_OK);
    assert_int_equal(k->receipt.state,
                     SLUICE__V1__SEQUENCE_STATE__SEQUENCE_DECODE);
    assert_int_equal(k->receipt.n_generated, 3);
    assert_int_equal(k->receipt.blocks, 2);
    assert_string_equal(k->worker, "w1");
    assert_true(x->ended);
    assert_int_equal(x->status, ST_OK);
    assert_int_equal(x->finish, SLUICE__V1__FINISH__FINISH_CANCELLED);
    check_tokens(x, 1, 3);
    rig_free(&rig);
}

static void the_head_of_the_queue_waits_for_a_ledger(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 3, 4);
    struct fake *c = rig_client(rig, "c1");
    struct record *a = client_generate(c, 1, 40, 10);
    struct record *b = client_generate(c, 2, 40, 50);
    struct record *d = client_generate(c, 3, 10, 30);

    (void)state;
    rig_run(rig);
    assert_int_equal(rig_state(rig, 2), CHOICE_WAITING);
    /* One block is left. */
    assert_int_equal(rig_state(rig, 3), CHOICE_WAITING);
    worker_make(w, worker_sequence_of(w, 1), 10, LENGTH);
    worker_step(w);
    rig_run(rig);
    assert_true(a->ended);
    assert_int_equal(rig_state(rig, 2), CHOICE_PREFILL);
    assert_int_equal(rig_state(rig, 3), CHOICE_WAITING);
    assert_int_equal(worker_sequence_of(w, 2)->grant, 2);
    worker_make(w, worker_sequence_of(w, 2), 50, LENGTH);
    worker_step(w);
    rig_run(rig);
    assert_int_equal(rig_state(rig, 3), CHOICE_PREFILL);
    assert_int_equal(worker_sequence_of(w, 3)->grant, 3);
    assert_true(b->ended);
    assert_false(d->ended);
    assert_true(w->grants_in_order);
    rig_free(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_arrive_once_and_in_order),
        cmocka_unit_test(a_lost_worker_is_a_pause),
        cmocka_unit_test(a_cancel_brings_the_workers_receipt),
        cmocka_unit_test(the_head_of_the_queue_waits_for_a_ledger),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
