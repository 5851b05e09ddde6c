/* --overcommit: grants of the expected need, the bound on greatest needs, and
 * places with suspended sequences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "tests/unit/router/rig.h"

#define STOP      SLUICE__V1__FINISH__FINISH_STOP
#define SUSPENDED SLUICE__V1__SEQUENCE_STATE__SEQUENCE_SUSPENDED
/* A prompt of 1 block and 8 blocks of max_tokens; outputs are a quarter. */
#define PROMPT  32
#define TOKENS  256
#define LENGTH  64
#define LEARNT  60 /* ends after which LENGTH is expected */
#define MOST    9  /* blocks */
#define GRANTED 3

struct scene {
    struct rig *rig;
    struct fake *w, *c;
};

static void bring(struct scene *s, uint32_t overcommit, uint32_t blocks,
                  uint32_t slots)
{
    const struct rig_options o = {.max_peers = 32,
                                  .max_requests = 256,
                                  .max_waiting = 256,
                                  .worker_wait_us = 1000000,
                                  .overcommit = overcommit};

    memset(s, 0, sizeof *s);
    s->rig = rig_new(&o);
    s->c = rig_client(s->rig, "c1");
    s->w = rig_worker(s->rig, "w1", blocks, slots);
}

static struct sequence *submit(struct scene *s, uint8_t id)
{
    client_generate(s->c, id, PROMPT, TOKENS);
    rig_run(s->rig);
    return worker_sequence_of(s->w, id);
}

static bool waits(const struct scene *s, uint8_t id)
{
    return rig_state(s->rig, id) == CHOICE_WAITING;
}

static void learn(struct scene *s, uint32_t n, uint32_t length)
{
    for (uint32_t i = 0; i < n; i++) {
        assert_non_null(submit(s, 255));
        worker_give(s->w, 255, 0, length, STOP);
    }
}

static void report(struct scene *s, uint32_t n_suspended)
{
    s->w->ledger.has_n_suspended = true;
    s->w->ledger.n_suspended = n_suspended;
    worker_report(s->w);
    rig_run(s->rig);
}

/* A row of the sequence without tokens. */
static void row(struct scene *s, uint8_t id, uint32_t state)
{
    const struct sequence *q = worker_sequence_of(s->w, id);
    Sluice__V1__StepOutputMessage m = SLUICE__V1__STEP_OUTPUT_MESSAGE__INIT;
    uint64_t grant = q->grant;
    uint32_t first = q->acked, zero = 0;

    m.grant = &grant;
    m.first_index = &first;
    m.count = m.finish = &zero;
    m.state = &state;
    m.n_grant = m.n_first_index = m.n_count = m.n_finish = m.n_state = 1;
    worker_say(s->w, &m);
    rig_run(s->rig);
}

static void strict_grants_are_whole_whatever_was_learned(void **state)
{
    struct scene s;

    (void)state;
    for (uint32_t f = 0; f <= 1; f++) {
        bring(&s, f, 64, 64);
        learn(&s, LEARNT, LENGTH);
        assert_int_equal(submit(&s, 1)->blocks, MOST);
        assert_false(worker_sequence_of(s.w, 1)->grows);
        rig_free(&s.rig);
    }
}

static void grants_cover_the_expected_length_once_it_is_learned(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, 2, 64, 64);
    assert_int_equal(submit(&s, 1)->blocks, MOST);
    assert_false(worker_sequence_of(s.w, 1)->grows);
    learn(&s, LEARNT, LENGTH);
    assert_int_equal(submit(&s, 2)->blocks, GRANTED);
    assert_true(worker_sequence_of(s.w, 2)->grows);
    rig_free(&s.rig);
}

static void a_model_learns_its_own_lengths_only(void **state)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct fake *other;
    struct scene s;

    (void)state;
    bring(&s, 2, 64, 64);
    other = fake_worker_new(s.rig, "w2", 64, 64);
    strcpy(other->model, "other");
    other->shard.model = wire_text(other->model);
    fake_hello(other);
    rig_run(s.rig);
    learn(&s, LEARNT, LENGTH);
    m.model = wire_text("other");
    client_generate_with(s.c, 1, PROMPT, TOKENS, &m, 0);
    rig_run(s.rig);
    assert_int_equal(worker_sequence_of(other, 1)->blocks, MOST);
    rig_free(&s.rig);
}

/* Cancelled at a quarter, they count as longer: nothing is expected to end
 * there. */
static void cancelled_sequences_teach_no_short_length(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, 2, 64, 64);
    for (uint32_t i = 0; i < 2 * LEARNT; i++) {
        assert_non_null(submit(&s, 255));
        worker_give(s.w, 255, 0, LENGTH, 0);
        client_cancel(s.c, 255);
        rig_run(s.rig);
    }
    assert_int_equal(submit(&s, 1)->blocks, MOST);
    rig_free(&s.rig);
}

/* Pages of an empty pool: 128 blocks and 64 slots, each of one.  A sequence has
 * 10 at most and is granted 4. */
static void greatest_needs_stay_within_the_bound(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, 2, 128, 64);
    learn(&s, LEARNT, LENGTH);
    for (uint8_t id = 1; id <= 38; id++) { /* 380 of 384 */
        assert_non_null(submit(&s, id));
    }
    submit(&s, 39);
    assert_true(waits(&s, 39));
    assert_int_equal(fake_view(s.w).greatest_pages, 380);
    worker_give(s.w, 7, 0, LENGTH, STOP);
    assert_false(waits(&s, 39));
    assert_int_equal(fake_view(s.w).greatest_pages, 380);
    rig_free(&s.rig);
}

/* Room still counts: 30 blocks hold 10 grants of 3, though 20 are in bounds. */
static void grants_never_exceed_the_room(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, 8, 30, 64);
    learn(&s, LEARNT, LENGTH);
    for (uint8_t id = 1; id <= 10; id++) {
        assert_non_null(submit(&s, id));
    }
    submit(&s, 11);
    assert_true(waits(&s, 11));
    rig_free(&s.rig);
}

static void a_place_with_suspended_sequences_gets_no_new_one(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, 4, 64, 64);
    learn(&s, LEARNT, LENGTH);
    assert_non_null(submit(&s, 1));
    report(&s, 1);
    assert_null(submit(&s, 2));
    assert_true(waits(&s, 2));
    assert_false(s.w->gone);
    report(&s, 0);
    assert_false(waits(&s, 2));
    rig_free(&s.rig);
}

static void new_sequences_go_to_places_without_suspended_ones(void **state)
{
    struct fake *other;
    struct scene s;

    (void)state;
    bring(&s, 4, 64, 64);
    learn(&s, LEARNT, LENGTH);
    assert_non_null(submit(&s, 1));
    report(&s, 1);
    other = rig_worker(s.rig, "w2", 16, 64);
    assert_null(submit(&s, 2));
    assert_int_equal(worker_sequence_of(other, 2)->blocks, GRANTED);
    rig_free(&s.rig);
}

/* A worker of an older minor version, and a replica of stages. */
static void places_that_cannot_suspend_stay_strict(void **state)
{
    struct fake *old, *stages[2];
    struct scene s;

    (void)state;
    bring(&s, 2, 64, 64);
    learn(&s, LEARNT, LENGTH);
    fake_lost(s.w);
    old = fake_worker_new(s.rig, "old", 64, 64);
    old->minor = 2;
    fake_hello(old);
    rig_run(s.rig);
    s.w = old;
    assert_int_equal(submit(&s, 1)->blocks, MOST);
    assert_false(worker_sequence_of(old, 1)->grows);
    worker_give(old, 1, 0, LENGTH, STOP);
    fake_lost(old);
    rig_replica(s.rig, stages, 2);
    s.w = stages[0];
    assert_int_equal(submit(&s, 2)->blocks, MOST);
    assert_false(worker_sequence_of(s.w, 2)->grows);
    rig_free(&s.rig);
}

/* 70 tokens are more than expected of a new one: the rest is what those that
 * got so far had, all of max_tokens by the prior. */
static void a_moved_sequence_is_granted_more_than_it_has(void **state)
{
    struct fake *other;
    struct scene s;

    (void)state;
    bring(&s, 4, 64, 64);
    learn(&s, LEARNT, LENGTH);
    assert_int_equal(submit(&s, 1)->blocks, GRANTED);
    assert_int_equal(submit(&s, 2)->blocks, GRANTED);
    worker_give(s.w, 1, 0, LENGTH + 6, 0);
    worker_give(s.w, 2, 0, LENGTH - 31, 0);
    other = rig_worker(s.rig, "w2", 64, 64);
    fake_lost(s.w);
    rig_run(s.rig);
    assert_int_equal(worker_sequence_of(other, 1)->blocks, MOST);
    assert_false(worker_sequence_of(other, 1)->grows);
    assert_int_equal(worker_sequence_of(other, 2)->blocks, GRANTED);
    assert_true(worker_sequence_of(other, 2)->grows);
    rig_free(&s.rig);
}

static void what_grew_past_its_grant_breaks_no_rule(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, 4, 64, 64);
    learn(&s, LEARNT, LENGTH);
    assert_non_null(submit(&s, 1));
    /* It takes all pages that a Submit under way counts on. */
    s.w->classes[0].free = 0;
    s.w->classes[0].granted = 64;
    report(&s, 0);
    assert_false(s.w->gone);
    assert_null(submit(&s, 2));
    assert_true(waits(&s, 2));
    rig_free(&s.rig);
}

/* Shows all memory of the worker as free. */
static void free_all(struct scene *s)
{
    s->w->classes[0].granted = s->w->classes[1].granted = 0;
    s->w->classes[0].free = s->w->classes[1].free = 64;
}

static void where_one_grows_any_sequence_may_hold_nothing(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, 4, 64, 64);
    assert_int_equal(submit(&s, 2)->blocks, MOST);
    learn(&s, LEARNT, LENGTH);
    assert_non_null(submit(&s, 1));
    worker_give(s.w, 1, 0, 2, 0);
    free_all(&s);
    s.w->ledger.has_n_suspended = true;
    s.w->ledger.n_suspended = 2;
    row(&s, 1, SUSPENDED);
    row(&s, 2, SUSPENDED); /* its pages were taken before its Submit came */
    assert_false(s.w->gone);
    report(&s, 2);
    report(&s, 0);
    assert_false(s.w->gone);
    rig_free(&s.rig);
}

/* Its prompt is a block, and so are its 33 tokens but the newest. */
static void a_row_shows_that_a_growing_sequence_holds_memory(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 2; n++) {
        struct scene s;

        bring(&s, 4, 64, 64);
        learn(&s, LEARNT, LENGTH);
        assert_non_null(submit(&s, 1));
        worker_give(s.w, 1, 0, 33, 0);
        free_all(&s);
        s.w->classes[0].free -= n;
        s.w->classes[0].held = n;
        s.w->classes[1].free--;
        s.w->classes[1].held = 1;
        row(&s, 1, SLUICE__V1__SEQUENCE_STATE__SEQUENCE_DECODE);
        assert_int_equal(s.w->gone, n < 2);
        if (n < 2) {
            assert_non_null(strstr(s.w->goodbye, "1 blocks held or granted, "
                                                 "but 1 sequences that run "
                                                 "there need 2"));
        }
        rig_free(&s.rig);
    }
}

static void where_none_grows_no_sequence_is_suspended(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, 4, 64, 64);
    assert_non_null(submit(&s, 1)); /* nothing is learned yet */
    worker_give(s.w, 1, 0, 2, 0);
    row(&s, 1, SUSPENDED);
    assert_true(s.w->gone);
    assert_non_null(strstr(s.w->goodbye, "state 6"));
    rig_free(&s.rig);

    bring(&s, 4, 64, 64);
    assert_non_null(submit(&s, 1));
    worker_give(s.w, 1, 0, 2, 0);
    free_all(&s);
    report(&s, 1);
    assert_true(s.w->gone);
    rig_free(&s.rig);
}

static void orphans_that_grow_are_adopted_as_such(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, 4, 64, 64);
    learn(&s, LEARNT, LENGTH);
    assert_non_null(submit(&s, 1));
    worker_give(s.w, 1, 0, 2, 0);
    s.w->survives = true;
    fake_lost(s.w);
    fake_reconnect(s.w);
    worker_live(s.w, 5000);
    rig_run(s.rig);
    assert_int_equal(s.w->n_adopts, 1);
    assert_int_equal(fake_view(s.w).greatest_pages, MOST + 1);
    /* Strict, it would have to hold 9 blocks; it was granted 3. */
    report(&s, 0);
    assert_false(s.w->gone);
    row(&s, 1, SLUICE__V1__SEQUENCE_STATE__SEQUENCE_DECODE);
    assert_false(s.w->gone);
    worker_give(s.w, 1, 0, 5, STOP);
    assert_int_equal(fake_view(s.w).greatest_pages, 0);
    rig_end(&s.rig);
}

/* Adoption grants no room, so it needs none. */
static void suspended_orphans_are_adopted(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, 4, 64, 64);
    learn(&s, LEARNT, LENGTH);
    assert_non_null(submit(&s, 1));
    worker_give(s.w, 1, 0, 2, 0);
    s.w->survives = true;
    s.w->ledger.has_n_suspended = true;
    s.w->ledger.n_suspended = 1;
    fake_lost(s.w);
    fake_reconnect(s.w);
    worker_live(s.w, 5000);
    rig_run(s.rig);
    assert_int_equal(s.w->n_adopts, 1);
    assert_null(submit(&s, 2));
    rig_free(&s.rig);
}

static void an_orphan_that_does_not_grow_holds_its_whole_need(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, 4, 64, 64);
    learn(&s, LEARNT, LENGTH);
    assert_non_null(submit(&s, 1));
    worker_give(s.w, 1, 0, 2, 0);
    s.w->survives = s.w->hides_growth = true;
    fake_lost(s.w);
    fake_reconnect(s.w);
    worker_live(s.w, 5000);
    rig_run(s.rig);
    assert_int_equal(s.w->n_adopts, 1);
    report(&s, 0);
    assert_true(s.w->gone);
    rig_free(&s.rig);
}

/* Its worker may release up to the greatest need. */
static void the_receipt_of_a_grown_sequence_is_accepted(void **state)
{
    struct record *x, *y;
    struct scene s;

    (void)state;
    for (uint32_t more = 0; more <= 1; more++) {
        bring(&s, 4, 64, 64);
        learn(&s, LEARNT, LENGTH);
        y = client_generate(s.c, 1, PROMPT, TOKENS);
        rig_run(s.rig);
        worker_give(s.w, 1, 0, 2, 0);
        s.w->receipt_blocks = MOST + more;
        x = client_cancel(s.c, 1);
        rig_run(s.rig);
        assert_int_equal(s.w->gone, more);
        assert_true(more || x->receipt.blocks == MOST);
        assert_true(more || y->figures.blocks == MOST);
        rig_free(&s.rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strict_grants_are_whole_whatever_was_learned),
        cmocka_unit_test(grants_cover_the_expected_length_once_it_is_learned),
        cmocka_unit_test(a_model_learns_its_own_lengths_only),
        cmocka_unit_test(cancelled_sequences_teach_no_short_length),
        cmocka_unit_test(greatest_needs_stay_within_the_bound),
        cmocka_unit_test(grants_never_exceed_the_room),
        cmocka_unit_test(a_place_with_suspended_sequences_gets_no_new_one),
        cmocka_unit_test(new_sequences_go_to_places_without_suspended_ones),
        cmocka_unit_test(places_that_cannot_suspend_stay_strict),
        cmocka_unit_test(a_moved_sequence_is_granted_more_than_it_has),
        cmocka_unit_test(what_grew_past_its_grant_breaks_no_rule),
        cmocka_unit_test(where_one_grows_any_sequence_may_hold_nothing),
        cmocka_unit_test(a_row_shows_that_a_growing_sequence_holds_memory),
        cmocka_unit_test(where_none_grows_no_sequence_is_suspended),
        cmocka_unit_test(orphans_that_grow_are_adopted_as_such),
        cmocka_unit_test(suspended_orphans_are_adopted),
        cmocka_unit_test(an_orphan_that_does_not_grow_holds_its_whole_need),
        cmocka_unit_test(the_receipt_of_a_grown_sequence_is_accepted),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
