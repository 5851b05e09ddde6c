/* --admission expected: grants of what is needed now, places that the forecast
 * fills, and places with suspended sequences. */
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
#define GRANTED 2  /* of a new one: its prompt and a token */

struct scene {
    struct rig *rig;
    struct fake *w, *c;
};

static void bring(struct scene *s, bool expected, uint32_t blocks,
                  uint32_t slots)
{
    const struct rig_options o = {.max_peers = 32,
                                  .max_requests = 256,
                                  .max_waiting = 256,
                                  .worker_wait_us = 1000000,
                                  .expected = expected};

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

/* One of a single token: its grant is all that it can need. */
static struct sequence *submit_short(struct scene *s, uint8_t id)
{
    client_generate(s->c, id, PROMPT, 1);
    rig_run(s->rig);
    return worker_sequence_of(s->w, id);
}

/* The length that most outputs of a model do not exceed. */
static uint32_t expected_of(const struct scene *s, const char *model)
{
    struct router_model_view m;

    for (uint32_t i = 0; router_model_view(s->rig->router, i, &m); i++) {
        if (strcmp(m.name, model) == 0) {
            return m.expected;
        }
    }
    fail();
    return 0;
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
    bring(&s, false, 64, 64);
    learn(&s, LEARNT, LENGTH);
    assert_int_equal(submit(&s, 1)->blocks, MOST);
    assert_false(worker_sequence_of(s.w, 1)->grows);
    rig_free(&s.rig);
}

static void grants_cover_the_prompt_and_a_token(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, true, 64, 64);
    assert_int_equal(submit(&s, 1)->blocks, GRANTED);
    assert_true(worker_sequence_of(s.w, 1)->grows);
    assert_int_equal(submit_short(&s, 2)->blocks, GRANTED);
    assert_false(worker_sequence_of(s.w, 2)->grows);
    assert_int_equal(fake_view(s.w).greatest_pages, MOST + 1 + GRANTED + 1);
    rig_free(&s.rig);
}

static void a_model_learns_its_own_lengths_only(void **state)
{
    struct fake *other;
    struct scene s;

    (void)state;
    bring(&s, true, 64, 64);
    other = fake_worker_new(s.rig, "w2", 64, 64);
    strcpy(other->model, "other");
    other->shard.model = wire_text(other->model);
    fake_hello(other);
    rig_run(s.rig);
    learn(&s, LEARNT, LENGTH);
    assert_in_range(expected_of(&s, s.w->model), LENGTH - 8, LENGTH + 8);
    assert_not_in_range(expected_of(&s, "other"), LENGTH - 8, LENGTH + 8);
    rig_free(&s.rig);
}

/* Cancelled at a quarter, they do not show where they would have ended. */
static void cancelled_sequences_teach_no_short_length(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, true, 64, 64);
    for (uint32_t i = 0; i < 2 * LEARNT; i++) {
        assert_non_null(submit(&s, 255));
        worker_give(s.w, 255, 0, LENGTH, 0);
        client_cancel(s.c, 255);
        rig_run(s.rig);
    }
    assert_true(expected_of(&s, s.w->model) > 2 * LENGTH);
    rig_free(&s.rig);
}

/* Each may need 10 of 128 + 64 pages, and will need 4. */
static void a_place_takes_what_is_expected_to_fit(void **state)
{
    struct scene s;
    uint8_t n = 0;

    (void)state;
    bring(&s, true, 128, 64);
    learn(&s, LEARNT, LENGTH);
    while (n < 60 && submit(&s, n + 1) != NULL) {
        n++;
    }
    assert_in_range(n, 30, 48);
    assert_true(waits(&s, n + 1));
    assert_int_equal(fake_view(s.w).greatest_pages, n * (MOST + 1));
    worker_give(s.w, 7, 0, LENGTH, STOP);
    assert_false(waits(&s, n + 1));
    assert_int_equal(fake_view(s.w).greatest_pages, n * (MOST + 1));
    rig_free(&s.rig);
}

/* Gives a sequence n tokens, with the blocks for them beyond its grant. */
static void outgrow(struct scene *s, uint8_t id, uint32_t n)
{
    uint32_t more = (PROMPT + n + 31) / 32 - GRANTED;

    s->w->classes[0].free -= more;
    s->w->classes[0].held += more;
    worker_give(s->w, id, 0, n, 0);
}

static void an_empty_place_takes_all_that_it_can_hold(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, true, MOST, 1);
    for (uint8_t id = 1; id <= 20; id++) {
        assert_non_null(submit(&s, id));
        worker_give(s.w, id, 0, TOKENS, SLUICE__V1__FINISH__FINISH_LENGTH);
    }
    rig_free(&s.rig);
}

/* The small one has room for the grant, but never for the whole sequence. */
static void a_sequence_goes_only_where_all_of_it_fits(void **state)
{
    struct fake *small;
    struct scene s;

    (void)state;
    bring(&s, true, MOST, 1);
    small = rig_worker(s.rig, "w2", MOST - 1, 8);
    assert_non_null(submit(&s, 1));
    assert_null(submit(&s, 2));
    assert_null(worker_sequence_of(small, 2));
    assert_true(waits(&s, 2));
    worker_give(s.w, 1, 0, LENGTH, STOP);
    assert_non_null(worker_sequence_of(s.w, 2));
    rig_free(&s.rig);
}

static void grants_never_exceed_the_room(void **state)
{
    struct scene s;
    uint8_t n = 0;

    (void)state;
    bring(&s, true, 30, 64);
    learn(&s, LEARNT, LENGTH);
    while (n < 30 && submit(&s, n + 1) != NULL) {
        n++;
    }
    assert_in_range(n, 4, 15);
    assert_true(waits(&s, n + 1));
    rig_free(&s.rig);
}

static void a_place_with_suspended_sequences_gets_no_new_one(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, true, 64, 64);
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
    bring(&s, true, 64, 64);
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
    bring(&s, true, 64, 64);
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

static void a_moved_sequence_is_granted_what_it_has(void **state)
{
    struct fake *other;
    struct scene s;

    (void)state;
    bring(&s, true, 64, 64);
    assert_int_equal(submit(&s, 1)->blocks, GRANTED);
    assert_int_equal(submit(&s, 2)->blocks, GRANTED);
    outgrow(&s, 1, TOKENS - 33); /* 32 + 223 + 1 tokens */
    outgrow(&s, 2, TOKENS - 32);
    other = rig_worker(s.rig, "w2", 64, 64);
    fake_lost(s.w);
    rig_run(s.rig);
    assert_int_equal(worker_sequence_of(other, 1)->blocks, MOST - 1);
    assert_true(worker_sequence_of(other, 1)->grows);
    assert_int_equal(worker_sequence_of(other, 2)->blocks, MOST);
    assert_false(worker_sequence_of(other, 2)->grows);
    rig_free(&s.rig);
}

static void what_grew_past_its_grant_breaks_no_rule(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, true, 64, 64);
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
    bring(&s, true, 64, 64);
    assert_false(submit_short(&s, 2)->grows);
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

        bring(&s, true, 64, 64);
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
    bring(&s, true, 64, 64);
    assert_non_null(submit_short(&s, 1));
    row(&s, 1, SUSPENDED);
    assert_true(s.w->gone);
    assert_non_null(strstr(s.w->goodbye, "state 6"));
    rig_free(&s.rig);

    bring(&s, true, 64, 64);
    assert_non_null(submit_short(&s, 1));
    free_all(&s);
    report(&s, 1);
    assert_true(s.w->gone);
    rig_free(&s.rig);
}

static void orphans_that_grow_are_adopted_as_such(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, true, 64, 64);
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
    /* Strict, it would have to hold 9 blocks; it was granted 2. */
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
    bring(&s, true, 64, 64);
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
    bring(&s, true, 64, 64);
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
        bring(&s, true, 64, 64);
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

/* It waits for the whole of its need, and grows by nothing. */
static void a_guarantee_is_the_whole_need(void **state)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    const struct sequence *q;
    struct scene s;

    (void)state;
    bring(&s, true, MOST + GRANTED, 8);
    m.has_guaranteed = m.guaranteed = true;
    client_generate_with(s.c, 1, PROMPT, TOKENS, &m, 0);
    rig_run(s.rig);
    q = worker_sequence_of(s.w, 1);
    assert_int_equal(q->blocks, MOST);
    assert_false(q->grows);
    client_generate_with(s.c, 2, PROMPT, TOKENS, &m, 0);
    rig_run(s.rig);
    assert_true(waits(&s, 2));
    rig_free(&s.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_guarantee_is_the_whole_need),
        cmocka_unit_test(strict_grants_are_whole_whatever_was_learned),
        cmocka_unit_test(grants_cover_the_prompt_and_a_token),
        cmocka_unit_test(a_model_learns_its_own_lengths_only),
        cmocka_unit_test(cancelled_sequences_teach_no_short_length),
        cmocka_unit_test(a_place_takes_what_is_expected_to_fit),
        cmocka_unit_test(an_empty_place_takes_all_that_it_can_hold),
        cmocka_unit_test(a_sequence_goes_only_where_all_of_it_fits),
        cmocka_unit_test(grants_never_exceed_the_room),
        cmocka_unit_test(a_place_with_suspended_sequences_gets_no_new_one),
        cmocka_unit_test(new_sequences_go_to_places_without_suspended_ones),
        cmocka_unit_test(places_that_cannot_suspend_stay_strict),
        cmocka_unit_test(a_moved_sequence_is_granted_what_it_has),
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
