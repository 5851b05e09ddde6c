/* Ledgers and the sequences that run at their worker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "tests/unit/router/rig.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH

/* Two sequences of two blocks and a slot each run at w. */
struct scene {
    struct rig *rig;
    struct fake *w, *c;
};

static void bring(struct scene *s)
{
    s->rig = rig_new(NULL);
    s->w = rig_worker(s->rig, "w1", 64, 8);
    s->c = rig_client(s->rig, "c1");
    client_generate(s->c, 1, 40, 10);
    client_generate(s->c, 2, 40, 10);
    rig_run(s->rig);
    worker_give(s->w, 1, 0, 2, 0);
}

/* Shows blocks as free that are granted. */
static void free_blocks(struct fake *w, uint32_t n)
{
    w->classes[0].free += n;
    w->classes[0].granted -= n;
}

static void report(struct scene *s)
{
    worker_report(s->w);
    rig_run(s->rig);
}

static void a_report_covers_all_running_sequences(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    report(&s);
    assert_false(s.w->gone);
    free_blocks(s.w, 2);
    report(&s);
    assert_true(s.w->gone);
    assert_non_null(strstr(s.w->goodbye, "2 blocks held or granted, but 2 "
                                         "sequences that run there need 3"));
    rig_free(&s.rig);
}

/* Each sequence has one full block of its prompt. */
static void a_full_block_may_be_shared(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    free_blocks(s.w, 1);
    report(&s);
    assert_false(s.w->gone);
    rig_free(&s.rig);
}

/* Its slot is never shared. */
static void a_slot_belongs_to_one_sequence(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    s.w->classes[1].free++;
    s.w->classes[1].granted--;
    report(&s);
    assert_true(s.w->gone);
    assert_non_null(strstr(s.w->goodbye, "1 slots held or granted, but 2 "
                                         "sequences that run there need 2"));
    rig_free(&s.rig);
}

/* More than the running sequences need is no violation: plans in flight. */
static void a_worker_may_hold_more(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    s.w->classes[0].held += 5;
    s.w->classes[0].free -= 5;
    report(&s);
    assert_false(s.w->gone);
    rig_free(&s.rig);
}

/* The row of an ending comes with the ledger that shows its memory as free. */
static void an_ending_frees_with_its_row(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    worker_give(s.w, 1, 0, 8, LENGTH);
    report(&s);
    assert_false(s.w->gone);
    rig_free(&s.rig);
}

/* The same before its row: the router still counts it as running. */
static void an_ending_without_its_row_frees_nothing(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    worker_make(s.w, worker_sequence_of(s.w, 1), 8, LENGTH);
    report(&s);
    assert_true(s.w->gone);
    rig_free(&s.rig);
}

static void a_cancel_frees_before_its_receipt(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    s.w->hold_receipts = true;
    client_cancel(s.c, 1);
    rig_run(s.rig);
    free_blocks(s.w, 2);
    report(&s);
    assert_false(s.w->gone);
    free_blocks(s.w, 1); /* of the other one */
    report(&s);
    assert_true(s.w->gone);
    rig_free(&s.rig);
}

/* A Submit that is refused holds nothing, although the ledger includes its
 * grant and the refusal comes later. */
static void a_refusal_may_come_after_the_ledger(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    s.w->hold_submits = true;
    client_generate(s.c, 3, 40, 10);
    rig_run(s.rig);
    free_blocks(s.w, 2);
    report(&s);
    assert_false(s.w->gone);
    rig_free(&s.rig);
}

static void two_rows_of_one_grant_are_a_lie(void **state)
{
    Sluice__V1__StepOutputMessage m = SLUICE__V1__STEP_OUTPUT_MESSAGE__INIT;
    uint64_t grant[2] = {1, 1};
    uint32_t first[2] = {2, 2}, zero[2] = {0, 0}, live[2] = {3, 3};
    struct scene s;

    (void)state;
    bring(&s);
    m.n_grant = m.n_first_index = m.n_count = m.n_finish = m.n_state = 2;
    m.grant = grant;
    m.first_index = first;
    m.count = m.finish = zero;
    m.state = live;
    worker_say(s.w, &m);
    rig_run(s.rig);
    assert_true(s.w->gone);
    assert_non_null(strstr(s.w->goodbye, "two rows for grant 1"));
    rig_free(&s.rig);
}

/* A sequence that grows holds its prompt before its first token, be it one
 * position: a shard without slots then shows nothing else of it. */
static void a_growing_sequence_holds_its_prompt(void **state)
{
    const struct rig_options o = {
        .max_peers = 8, .max_requests = 8, .max_waiting = 8, .expected = true};
    struct rig *rig = rig_new(&o);
    struct fake *w = fake_worker_new(rig, "w1", 64, 0);
    struct fake *c;

    (void)state;
    w->shard.pages_per_slot = w->shard.pages_per_checkpoint = 0;
    fake_hello(w);
    rig_run(rig);
    c = rig_client(rig, "c1");
    client_generate(c, 1, 1, 100);
    rig_run(rig);
    assert_true(worker_sequence_of(w, 1)->grows);
    worker_step(w);
    rig_run(rig);
    assert_false(w->gone);
    free_blocks(w, 1);
    worker_step(w);
    rig_run(rig);
    assert_true(w->gone);
    assert_non_null(strstr(w->goodbye, "0 blocks held or granted, but 1 "
                                       "sequences that run there need 1"));
    rig_free(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_covers_all_running_sequences),
        cmocka_unit_test(a_full_block_may_be_shared),
        cmocka_unit_test(a_slot_belongs_to_one_sequence),
        cmocka_unit_test(a_worker_may_hold_more),
        cmocka_unit_test(an_ending_frees_with_its_row),
        cmocka_unit_test(an_ending_without_its_row_frees_nothing),
        cmocka_unit_test(a_cancel_frees_before_its_receipt),
        cmocka_unit_test(a_refusal_may_come_after_the_ledger),
        cmocka_unit_test(two_rows_of_one_grant_are_a_lie),
        cmocka_unit_test(a_growing_sequence_holds_its_prompt),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
