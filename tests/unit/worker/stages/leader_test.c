/* A leader with simulated stages (ring.h): the messages that it sends, how
 * it handles the answers, and that no memory leaks anywhere. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/stages/ring.h"
#include "worker/sequence/sequence.h"
#include "worker/stages/assembly.h"

static const struct rig_submit usual = {
    .id = 1, .n_prompt = 10, .max_tokens = 6, .ignore_eos = true};

/* Returns the leader's next message after the n-th. */
static const struct ring_said *said(const struct rig *r, uint32_t n,
                                    enum method m)
{
    const struct ring_said *s = ring_said(r->ring, n);

    assert_int_equal(s->method, m);
    return s;
}

/* ---- the stream ---- */

static void generates_round_the_ring(void **state)
{
    for (uint32_t n = 2; n <= 4; n++) {
        struct rig *r = ring_rig(n, NULL);
        uint64_t tag = rig_submit(r, &usual);

        (void)state;
        rig_turn(r);
        rig_check_ok(r, tag);
        ring_run(r->ring);
        rig_check_tokens(r, 1, 1, 10, 6);
        assert_int_equal(r->heard[1].finish, FINISH_LENGTH);
        assert_int_equal(r->ring->n_results, 6);
        assert_int_equal(r->n_stage_us, n);
        assert_int_equal(r->stage_us[n - 1], 11 + n - 1);
        /* Open, six Forwards, Remove. */
        assert_int_equal(r->ring->n_said, 8);
        said(r, 0, METHOD_STAGE_OPEN);
        said(r, 1, METHOD_STAGE_FORWARD);
        said(r, 7, METHOD_STAGE_REMOVE);
        rig_check_empty(r);
        ring_rig_end(&r);
    }
}

static void gives_logprobs_of_the_last_stage(void **state)
{
    struct rig *r = ring_rig(3, NULL);
    struct rig_submit s = usual;

    (void)state;
    s.logprobs = true;
    s.n_top = 3;
    rig_submit(r, &s);
    s.id = 2;
    s.n_top = 0;
    rig_submit(r, &s);
    s.id = 3;
    s.logprobs = false;
    rig_submit(r, &s);
    rig_turn(r);
    ring_run(r->ring); /* the router's end compares every bit */
    for (uint32_t i = 1; i <= 3; i++) {
        rig_check_tokens(r, i, i, 10, 6);
    }
    ring_rig_end(&r);
}

/* One Open each, in order; void for refused and cancelled ones. */
static void opens_once_a_submit(void **state)
{
    struct rig *r = ring_rig(3, NULL);
    struct rig_message m;
    uint64_t refused;

    (void)state;
    rig_submit(r, &usual);
    rig_message(r, &usual, &m);
    m.need.blocks = 1;
    m.id[0] = 2;
    refused = rig_send_submit(r, &m);
    rig_cancel(r, 3);
    rig_turn(r);
    ring_check_refused(r, refused, ST_INVALID_ARGUMENT, "need has 1 blocks");
    rig_message(r, &usual, &m);
    m.id[0] = 3;
    refused = rig_send_submit(r, &m);
    rig_message(r, &usual, &m);
    m.id[0] = 4;
    rig_send_submit(r, &m);
    rig_turn(r);
    ring_check_refused(r, refused, ST_CANCELLED, "cancelled before it came");
    assert_false(said(r, 0, METHOD_STAGE_OPEN)->is_void);
    assert_true(said(r, 1, METHOD_STAGE_OPEN)->is_void);
    assert_true(said(r, 2, METHOD_STAGE_OPEN)->is_void);
    assert_false(said(r, 3, METHOD_STAGE_OPEN)->is_void);
    ring_run(r->ring);
    ring_rig_end(&r);
}

/* Ids are sent only for penalties; ids that come in parts go on in parts,
 * before the row that samples (ring.c). */
static void sends_ids_where_they_are_needed(void **state)
{
    struct rig *r = ring_rig(3, NULL);
    struct rig_submit s = usual;
    struct rig_message m;

    (void)state;
    s.n_prompt = 100;
    rig_submit(r, &s);
    rig_turn(r);
    assert_int_equal(said(r, 0, METHOD_STAGE_OPEN)->n_ids, 0);
    ring_run(r->ring);
    s.id = 2;
    s.penalise = true;
    rig_submit(r, &s);
    rig_turn(r);
    assert_int_equal(r->ring->grants[2].n_ids, 100);
    s.id = 3;
    s.n_first = 30;
    rig_message(r, &s, &m);
    rig_send_submit(r, &m);
    rig_turn(r);
    assert_int_equal(r->ring->grants[3].n_ids, 30);
    rig_part(r, 3, &m, 30, 50);
    rig_part(r, 3, &m, 80, 20);
    rig_turn(r);
    assert_int_equal(r->ring->grants[3].n_ids, 100);
    assert_memory_equal(r->ring->grants[3].ids, m.ids, 100 * sizeof m.ids[0]);
    ring_run(r->ring);
    for (uint32_t i = 1; i <= 3; i++) {
        rig_check_tokens(r, i, i, 100, 6);
    }
    ring_rig_end(&r);
}

/* As many ids as an Open holds, and one more. */
static void sends_long_prompts_in_parts(void **state)
{
    static uint32_t ids[OPEN_IDS_MAX + 1];
    struct worker_options o;

    (void)state;
    ring_options(&o);
    o.context = OPEN_IDS_MAX + 100;
    o.pool.n_pages = o.context / o.block_tokens + 1 + o.pool.pages_per_slot;
    for (uint32_t n = OPEN_IDS_MAX; n <= OPEN_IDS_MAX + 1; n++) {
        struct rig *r = ring_rig(2, &o);
        struct rig_submit s = usual;
        struct rig_message m;

        s.penalise = true;
        rig_message(r, &s, &m);
        m.m.n_prompt = n;
        m.m.tokens = ids;
        m.m.n_tokens = n;
        m.need.blocks = (n + s.max_tokens + 7) / 8;
        m.stages.blocks[0] = m.need.blocks;
        rig_send_submit(r, &m);
        rig_turn(r);
        rig_check_ok(r, r->tag);
        assert_int_equal(said(r, 0, METHOD_STAGE_OPEN)->n_ids, OPEN_IDS_MAX);
        assert_int_equal(r->ring->n_said, 1 + n - OPEN_IDS_MAX);
        assert_int_equal(r->ring->grants[1].n_ids, n);
        rig_cancel(r, 1);
        rig_turn(r);
        ring_run(r->ring);
        ring_rig_end(&r);
    }
}

static void refuses_what_is_not_for_it(void **state)
{
    struct rig *r = ring_rig(3, NULL);
    struct rig_message m;
    uint64_t tag;

    (void)state;
    rig_message(r, &usual, &m);
    m.m.stages = NULL;
    tag = rig_send_submit(r, &m);
    rig_turn(r);
    ring_check_refused(r, tag, ST_INVALID_ARGUMENT, "stages is missing");
    assert_int_equal(r->ring->n_said, 0);
    rig_message(r, &usual, &m);
    m.stages.m.n_slots = 1;
    tag = rig_send_submit(r, &m);
    r->ring->last_open =
        1; /* the other stages have not received the first one */
    rig_turn(r);
    ring_check_refused(
        r, tag, ST_INVALID_ARGUMENT,
        "2 grants, 2 blocks, 1 slots, 2 checkpoints and 0 windows; this worker "
        "leads 2 others");
    ring_rig_free(&r);
}

static void refuses_without_an_assembly(void **state)
{
    struct worker_options o;
    struct rig *r;
    struct rig_message m;
    struct rig_stages stages;
    uint64_t tag;

    (void)state;
    ring_options(&o);
    r = rig_new(&o);
    tag = rig_submit(r, &usual);
    rig_turn(r);
    ring_check_refused(r, tag, ST_UNAVAILABLE, "its assembly is not up");
    rig_free(&r);

    r = rig_new(NULL);
    memset(&stages, 0, sizeof stages);
    sluice__v1__stage_grants__init(&stages.m);
    rig_message(r, &usual, &m);
    m.m.stages = &stages.m;
    tag = rig_send_submit(r, &m);
    rig_turn(r);
    ring_check_refused(r, tag, ST_INVALID_ARGUMENT,
                       "this worker has all layers");
    rig_free(&r);
}

/* ---- microbatches ---- */

static void has_as_many_under_way_as_stages(void **state)
{
    for (uint32_t n = 2; n <= 4; n++) {
        struct worker_options o;
        struct rig *r;

        (void)state;
        ring_options(&o);
        o.engine_depth = 1 + n % 2;
        r = ring_rig(n, &o);
        for (uint32_t i = 1; i <= 8; i++) {
            struct rig_submit s = usual;

            s.id = i;
            rig_submit(r, &s);
        }
        rig_turn(r);
        ring_run(r->ring);
        /* No Result returns before all microbatches are out. */
        assert_int_equal(r->ring->most_under_way, n);
        for (uint32_t i = 1; i <= 8; i++) {
            rig_check_tokens(r, i, i, 10, 6);
        }
        ring_rig_end(&r);
    }
}

static void prefills_in_consecutive_microbatches(void **state)
{
    struct rig *r = ring_rig(3, NULL);
    struct rig_submit s = usual;

    (void)state;
    s.n_prompt = 450;
    rig_submit(r, &s);
    rig_turn(r);
    while (rig_step(r)) {
    }
    assert_int_equal(r->ring->n_forwards, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(said(r, 1 + i, METHOD_STAGE_FORWARD)->position[0],
                         128 * i);
    }
    ring_run(r->ring);
    rig_check_tokens(r, 1, 1, 450, 6);
    ring_rig_end(&r);
}

/* ---- cancels ---- */

/* One receipt with all stages, another without; the memory is free. */
static void check_receipt(struct rig *r, uint64_t tag, int was, uint32_t blocks)
{
    const struct rig_end *e = &r->ends[tag];
    uint32_t n = r->ring->n_stages, sum = 0;

    rig_check_ok(r, tag);
    assert_int_equal(e->receipt.state, was);
    assert_int_equal(e->receipt.n_stages, n);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(e->receipt.stage_blocks[i], blocks + i);
        assert_int_equal(e->receipt.stage_slots[i], 1);
        sum += blocks + i;
    }
    assert_int_equal(e->receipt.blocks, sum);
    assert_int_equal(e->receipt.slots, n);
    assert_true(e->receipt.snapshot > 0);
}

/* Cancels it now, and runs to the end. */
static void cancel_now(struct rig *r, int was, uint32_t blocks)
{
    uint64_t tag = rig_cancel(r, 1), again;

    rig_turn(r);
    assert_false(r->ends[tag].ended);
    again = rig_cancel(r, 1);
    rig_turn(r);
    assert_int_equal(rig_state(r, 1), 5);
    ring_run(r->ring);
    check_receipt(r, tag, was, blocks);
    rig_check_ok(r, again);
    assert_int_equal(r->ends[again].receipt.n_stages, 0);
    assert_int_equal(r->ends[again].receipt.blocks, 0);
    assert_int_equal(r->ends[again].receipt.state, 5);
    assert_int_equal(ring_removes(r->ring, 1), 1);
    rig_advance(r, 500000); /* its end is acknowledged */
    rig_check_empty(r);
    ring_rig_end(&r);
}

static struct rig *with_one(const struct rig_submit *s)
{
    struct rig *r = ring_rig(3, NULL);

    rig_submit(r, s);
    rig_turn(r);
    return r;
}

static void cancels_before_its_ids_are_here(void **state)
{
    struct rig_submit s = usual;
    struct rig *r;
    uint64_t tag;

    (void)state;
    s.n_first = 5;
    r = with_one(&s);
    tag = r->tag;
    cancel_now(r, 1, 2);
    (void)tag;
}

static void cancels_what_is_here(void **state)
{
    (void)state;
    cancel_now(with_one(&usual), 2, 2);
}

static void cancels_what_has_passed(void **state)
{
    struct rig *r = with_one(&usual);

    (void)state;
    rig_step(r);
    assert_int_equal(rig_inflight(r), 0);
    cancel_now(r, 2, 2);
}

/* One chunk here, one at the stages, one not yet planned. */
static void cancels_a_long_prefill(void **state)
{
    struct rig_submit s = usual;
    struct rig *r;

    (void)state;
    s.n_prompt = 450;
    r = with_one(&s);
    rig_step(r);
    assert_int_equal(rig_inflight(r), 1);
    assert_int_equal(r->ring->n_forwards, 1);
    cancel_now(r, 2, 57);
}

static void cancels_between_two_tokens(void **state)
{
    struct rig *r = with_one(&usual);

    (void)state;
    rig_step(r);
    ring_step(r->ring);
    ring_step(r->ring); /* the first token; its next plan is here */
    assert_int_equal(r->heard[1].n, 1);
    cancel_now(r, 3, 2);
}

static void removes_what_is_kept(void **state)
{
    struct rig_submit s = usual;
    struct rig *r;

    (void)state;
    s.keep_ms = 1000;
    r = with_one(&s);
    ring_run(r->ring);
    assert_int_equal(rig_state(r, 1), 4);
    assert_int_equal(ring_removes(r->ring, 1), 0);
    cancel_now(r, 4, 2);
}

/* The router grants from the free pages, and a sequence that is being removed
 * still has a place in the table. */
static void keeps_its_own_until_all_stages_have_removed(void **state)
{
    struct rig_submit s = usual;
    struct rig *r;
    uint64_t tag;

    (void)state;
    s.keep_ms = 1000;
    r = with_one(&s);
    ring_run(r->ring);
    assert_int_equal(rig_account(r).blocks.held, 2);
    tag = rig_remove(r, 1);
    rig_turn(r);
    assert_int_equal(rig_account(r).blocks.held, 2);
    assert_int_equal(rig_account(r).n_sequences, 1);
    assert_false(r->ends[tag].ended);
    ring_run(r->ring);
    assert_int_equal(rig_account(r).pages.free, r->o.pool.n_pages);
    check_receipt(r, tag, 4, 2);
    ring_rig_end(&r);
}

/* Submits and cancels sequences from s->id on while a slot is free.  Returns
 * how many. */
static uint32_t cancel_while_free(struct rig *r, struct rig_submit *s)
{
    uint32_t n = 0;

    for (; rig_account(r).slots.free > 0; n++, s->id++) {
        uint64_t tag = rig_submit(r, s);

        rig_turn(r);
        rig_check_ok(r, tag);
        rig_cancel(r, s->id);
        rig_turn(r);
    }
    return n;
}

/* The last stage does not answer: the table cannot fill, because no memory is
 * free to grant. */
static void grants_no_more_than_its_table_holds(void **state)
{
    struct worker_options o;
    struct rig_submit s = usual;
    struct rig *r;

    (void)state;
    ring_options(&o);
    o.pool.slot_cap = 4;
    r = ring_rig(3, &o);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(cancel_while_free(r, &s), o.pool.slot_cap);
        assert_int_equal(rig_account(r).slots.free, 0);
        ring_run(r->ring);
        rig_advance(r, 500000);
        rig_check_empty(r);
    }
    ring_rig_end(&r);
}

/* The table has room for the ids of 4 such prompts: those of a removed sequence
 * go before its end is acknowledged. */
static void keeps_no_ids_of_what_is_removed(void **state)
{
    struct worker_options o;
    struct rig_submit s = {.id = 1, .n_prompt = 480, .max_tokens = 9};
    struct rig *r;

    (void)state;
    ring_options(&o);
    o.pool.slot_cap = 2;
    r = ring_rig(3, &o);
    r->acknowledge = false;
    for (; s.id <= 20; s.id++) {
        uint64_t tag = rig_submit(r, &s);

        rig_turn(r);
        rig_check_ok(r, tag);
        rig_cancel(r, s.id);
        rig_turn(r);
        ring_run(r->ring);
        assert_int_equal(rig_account(r).n_sequences, s.id);
    }
    r->acknowledge = true;
    rig_advance(r, 500000);
    ring_rig_end(&r);
}

static void removes_when_a_lease_ends(void **state)
{
    struct rig_submit s = usual;
    struct rig *r;

    (void)state;
    s.keep_ms = 50;
    r = with_one(&s);
    ring_run(r->ring);
    rig_advance(r, 60000);
    assert_int_equal(ring_removes(r->ring, 1), 1);
    ring_run(r->ring);
    rig_check_empty(r);
    ring_rig_end(&r);
}

static void empty_receipts_have_no_stages(void **state)
{
    struct rig *r = with_one(&usual);
    uint64_t unknown = rig_cancel_grant(r, 9, 1), finished;

    (void)state;
    rig_turn(r);
    r->acknowledge = false;
    ring_run(r->ring);
    finished = rig_cancel(r, 1);
    rig_turn(r);
    rig_check_ok(r, unknown);
    rig_check_ok(r, finished);
    assert_int_equal(r->ends[unknown].receipt.n_stages, 0);
    assert_int_equal(r->ends[finished].receipt.n_stages, 0);
    assert_int_equal(r->ends[finished].receipt.state, 5);
    r->acknowledge = true;
    rig_advance(r, 500000);
    ring_rig_end(&r);
}

/* The router cancels the Submit while its ids are on their way. */
static void removes_a_submit_that_is_refused_late(void **state)
{
    struct rig_submit s = usual;
    struct rig_message m;
    struct rig *r = ring_rig(3, NULL);
    uint64_t tag;

    (void)state;
    s.n_first = 5;
    rig_message(r, &s, &m);
    tag = rig_send_submit(r, &m);
    rig_turn(r);
    m.ids[7] = RIG_VOCAB;
    rig_part(r, 1, &m, 5, 5);
    rig_turn(r);
    ring_check_refused(r, tag, ST_INVALID_ARGUMENT, "id 1000");
    ring_run(r->ring);
    assert_int_equal(ring_removes(r->ring, 1), 1);
    rig_check_empty(r);
    ring_rig_end(&r);
}

/* The same Submit again: nothing is adopted, both have their own grants. */
static void starts_anew_what_is_submitted_again(void **state)
{
    struct rig *r = with_one(&usual);
    uint64_t tag;

    (void)state;
    rig_step(r);
    ring_step(r->ring);
    ring_step(r->ring);
    assert_int_equal(r->heard[1].n, 1);
    tag = rig_submit(r, &usual);
    rig_turn(r);
    rig_check_ok(r, tag);
    ring_run(r->ring);
    rig_check_tokens(r, 2, 1, 10, 6);
    assert_int_equal(ring_removes(r->ring, 1), 1);
    assert_int_equal(ring_removes(r->ring, 2), 1);
    ring_rig_end(&r);
}

/* ---- random streams ---- */

static uint32_t roll(uint64_t *dice, uint32_t n)
{
    *dice = *dice * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*dice >> 33) % n;
}

static void submit_any(struct rig *r, uint64_t *dice)
{
    struct rig_submit s = {.id = 1 + roll(dice, 40),
                           .n_prompt = 1 + roll(dice, 200),
                           .max_tokens = 1 + roll(dice, 20),
                           .keep_ms = roll(dice, 5) == 0 ? 20 : 0,
                           .penalise = roll(dice, 4) == 0,
                           .logprobs = roll(dice, 4) == 0};
    struct rig_message m;

    s.n_top = s.logprobs ? roll(dice, 5) : 0;
    s.n_first = roll(dice, 6) == 0 ? (s.n_prompt + 1) / 2 : 0;
    rig_message(r, &s, &m);
    if (roll(dice, 10) == 0) {
        m.need.blocks = 0;
    }
    rig_send_submit(r, &m);
    if (s.n_first > 0 && s.n_first < s.n_prompt && roll(dice, 3) > 0) {
        rig_turn(r);
        rig_part(r, r->grant, &m, s.n_first, s.n_prompt - s.n_first);
    }
}

static void act(struct rig *r, uint64_t *dice)
{
    switch (roll(dice, 16)) {
    case 0:
    case 1:
        submit_any(r, dice);
        break;
    case 2:
        rig_cancel(r, 1 + roll(dice, 40));
        break;
    case 3:
        r->fail_next = roll(dice, 8) == 0 ? "an engine" : r->fail_next;
        break;
    case 4:
        r->ring->fail_next = roll(dice, 8) == 0 ? "a stage" : NULL;
        break;
    case 5:
        rig_advance(r, 1000 * roll(dice, 30));
        break;
    case 6:
    case 7:
    case 8:
    case 9:
        rig_step(r);
        break;
    default:
        ring_step(r->ring);
    }
    rig_turn(r);
}

/* Checks that every call was answered, and that receipts with memory name
 * the stages. */
static void check_ends(const struct rig *r)
{
    for (uint64_t i = 1; i <= r->tag; i++) {
        const struct rig_end *e = &r->ends[i];

        assert_true(e->ended);
        assert_int_equal(e->receipt.n_stages,
                         e->receipt.blocks > 0 ? r->ring->n_stages : 0);
    }
}

static void holds_whatever_comes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        uint64_t dice = seed;
        struct worker_options o;
        struct rig *r;

        ring_options(&o);
        o.engine_depth = 1 + roll(&dice, 2);
        r = ring_rig(2 + roll(&dice, 3), &o);
        for (int i = 0; i < 1500; i++) {
            act(r, &dice);
        }
        r->fail_next = r->ring->fail_next = NULL;
        for (uint32_t id = 1; id <= 40; id++) {
            rig_cancel_grant(r, id, 0);
        }
        rig_turn(r);
        ring_run(r->ring);
        rig_advance(r, 500000);
        assert_int_equal(r->n_broken, 0);
        rig_check_empty(r);
        check_ends(r);
        ring_rig_end(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generates_round_the_ring),
        cmocka_unit_test(gives_logprobs_of_the_last_stage),
        cmocka_unit_test(opens_once_a_submit),
        cmocka_unit_test(sends_ids_where_they_are_needed),
        cmocka_unit_test(sends_long_prompts_in_parts),
        cmocka_unit_test(refuses_what_is_not_for_it),
        cmocka_unit_test(refuses_without_an_assembly),
        cmocka_unit_test(has_as_many_under_way_as_stages),
        cmocka_unit_test(prefills_in_consecutive_microbatches),
        cmocka_unit_test(cancels_before_its_ids_are_here),
        cmocka_unit_test(cancels_what_is_here),
        cmocka_unit_test(cancels_what_has_passed),
        cmocka_unit_test(cancels_a_long_prefill),
        cmocka_unit_test(cancels_between_two_tokens),
        cmocka_unit_test(removes_what_is_kept),
        cmocka_unit_test(keeps_its_own_until_all_stages_have_removed),
        cmocka_unit_test(grants_no_more_than_its_table_holds),
        cmocka_unit_test(keeps_no_ids_of_what_is_removed),
        cmocka_unit_test(removes_when_a_lease_ends),
        cmocka_unit_test(empty_receipts_have_no_stages),
        cmocka_unit_test(removes_a_submit_that_is_refused_late),
        cmocka_unit_test(starts_anew_what_is_submitted_again),
        cmocka_unit_test(holds_whatever_comes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
