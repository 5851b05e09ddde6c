/* Sequences that outgrow their grants: who makes room, and how they come
 * back. */
#include <string.h>

#include "common/base/plant.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig.h"
#include "tests/unit/worker/sequences/chat.h"
#include "worker/base/metrics.h"
#include "worker/plan/batch.h"

#define N_PROMPT 40u
#define N        100u /* tokens of each */

#define PAGE_BYTES 4096u

#ifdef SLUICE_PLANTS
enum plant plant_active = PLANT_SWAP_SHARED;
#endif

static struct worker_metrics counts(const struct rig *r)
{
    struct worker_metrics m;

    worker_counts(r->worker, &m);
    return m;
}

/* A pool that holds one and a half of the sequences of these tests. */
static struct rig *with_pool(uint32_t n_pages, uint32_t host_pages,
                             uint32_t depth)
{
    struct worker_options o;

    rig_defaults(&o);
    o.pool.n_pages = n_pages;
    o.pool.host_pages = host_pages;
    o.pool.bytes = (uint64_t)n_pages * PAGE_BYTES;
    o.engine_depth = depth;
    return rig_new(&o);
}

/* Submits one that grows; the next grant is its number. */
static void submit(struct rig *r, uint32_t id, uint32_t grows)
{
    struct rig_submit s = {.id = id,
                           .n_prompt = N_PROMPT,
                           .max_tokens = N,
                           .grows = grows,
                           .ignore_eos = true};

    rig_check_ok(r, (rig_submit(r, &s), rig_turn(r), r->tag));
}

/* All have their tokens, and nothing is left. */
static void finish(struct rig *r, uint32_t n)
{
    rig_run(r);
    rig_advance(r, 20000);
    for (uint32_t id = 1; id <= n; id++) {
        assert_int_equal(r->heard[id].finish,
                         SLUICE__V1__FINISH__FINISH_LENGTH);
        rig_check_tokens(r, id, id, N_PROMPT, N);
    }
    rig_advance(r, 600000);
    rig_check_empty(r);
    rig_free(&r);
}

static void grows_by_a_block_when_its_grant_is_used_up(void **state)
{
    struct rig *r = with_pool(144, 0, 1);
    uint32_t most = 0;

    (void)state;
    submit(r, 1, 8);
    assert_int_equal(rig_used_blocks(r), 6);
    while (rig_step(r)) {
        uint32_t n = rig_used_blocks(r);

        assert_in_range(n, 0, most + 1 > 6 ? most + 1 : 6);
        most = n > most ? n : most;
    }
    assert_int_equal(most, (N_PROMPT + N - 1 + 7) / 8);
    assert_int_equal(counts(r).suspended, 0);
    assert_false(r->tier_heard);
    finish(r, 1);
}

/* Growth takes cached pages before it takes those of others. */
static void cached_pages_go_before_others_are_suspended(void **state)
{
    struct worker_options o;
    struct rig *r;

    (void)state;
    rig_defaults(&o);
    o.pool.n_pages = 52;
    o.reuse = true;
    r = rig_new(&o);
    submit(r, 1, N);
    rig_run(r);
    rig_advance(r, 20000);
    submit(r, 2, 8);
    submit(r, 3, 8);
    assert_true(rig_account(r).pages.cached > 8);
    rig_run(r);
    assert_int_equal(counts(r).suspended, 0);
    assert_true(counts(r).evicted > 0);
    finish(r, 3);
}

static void suspended_sequence_is_computed_again(void **state)
{
    (void)state;
    for (uint32_t depth = 1; depth <= 2; depth++) {
        struct rig *r = with_pool(30, 0, depth);

        submit(r, 1, 8);
        submit(r, 2, 8);
        while (counts(r).suspended == 0) {
            assert_true(rig_step(r));
        }
        assert_int_equal(rig_account(r).n_suspended, 1);
        rig_advance(r, 20000); /* the next report is due */
        assert_int_equal(r->ledger.n_suspended, 1);
        assert_int_equal(r->ledger.n_decode, 1);
        rig_run(r);
        assert_true(counts(r).wasted_suspended > N_PROMPT);
        assert_int_equal(r->n_computed,
                         2 * (N_PROMPT + N - 1) + counts(r).wasted_suspended);
        assert_true(counts(r).resumed_recompute > 0);
        assert_int_equal(counts(r).pages_out, 0);
        rig_advance(r, 20000);
        assert_true(r->tier_heard);
        assert_int_equal(r->tier.wasted_suspended, counts(r).wasted_suspended);
        assert_int_equal(r->tier.n_suspended, counts(r).suspended);
        assert_int_equal(r->tier.n_recomputed, counts(r).resumed_recompute);
        assert_int_equal(r->tier.bytes_out, 0);
        finish(r, 2);
    }
}

/* Pages that come back from the host are not computed again. */
static void swapped_sequence_is_not_computed_again(void **state)
{
    (void)state;
    for (uint32_t depth = 1; depth <= 2; depth++) {
        struct rig *r = with_pool(30, 40, depth);

        submit(r, 1, 8);
        submit(r, 2, 8);
        submit(r, 3, 8);
        while (counts(r).suspended == 0) {
            assert_true(rig_step(r));
        }
        rig_advance(r, 20000);
        assert_int_equal(r->ledger.host_total, 40);
        assert_true(r->ledger.host_used > 2);
        assert_int_equal(r->ledger.host_used, rig_account(r).host_used);
        assert_int_equal(r->tier.waiting, r->ledger.host_used);
        assert_int_equal(r->tier.bytes_out, counts(r).pages_out * PAGE_BYTES);
        assert_int_equal(counts(r).host_bytes_out, r->tier.bytes_out);
        rig_run(r);
        assert_int_equal(r->n_computed, 3 * (N_PROMPT + N - 1));
        assert_int_equal(counts(r).wasted_suspended, 0);
        assert_int_equal(counts(r).suspended,
                         counts(r).resumed_swap + counts(r).resumed_recompute);
        assert_true(counts(r).resumed_swap > 0);
        assert_int_equal(counts(r).pages_out, counts(r).pages_in);
        rig_advance(r, 20000);
        assert_int_equal(r->tier.waiting, 0);
        assert_int_equal(r->tier.bytes_in, counts(r).pages_in * PAGE_BYTES);
        assert_int_equal(r->tier.n_swapped, counts(r).resumed_swap);
        assert_int_equal(r->tier.wasted_suspended, 0);
        finish(r, 3);
    }
}

/* The host tier holds one sequence: the other victim is computed again. */
static void full_host_tier_means_computing_again(void **state)
{
    struct rig *r = with_pool(42, 9, 1);

    (void)state;
    for (uint32_t id = 1; id <= 6; id++) {
        submit(r, id, 8);
    }
    rig_run(r);
    assert_true(counts(r).resumed_swap > 0);
    assert_true(counts(r).wasted_suspended > 0);
    finish(r, 6);
}

/* Strict sequences keep what they were granted, whatever others need. */
static void whole_needs_are_never_suspended(void **state)
{
    struct rig *r = with_pool(60, 0, 2);
    struct rig_submit s = {
        .id = 1, .n_prompt = N_PROMPT, .max_tokens = N, .ignore_eos = true};
    uint64_t since = 0;

    (void)state;
    rig_submit(r, &s);
    rig_turn(r);
    submit(r, 2, 8);
    submit(r, 3, 8);
    submit(r, 4, 8);
    submit(r, 5, 8);
    while (rig_step(r)) {
        assert_true(rig_state(r, 1) == 0 || r->heard[1].n > since ||
                    rig_state(r, 1) > 3);
        since = r->heard[1].n;
    }
    assert_true(counts(r).suspended > 0);
    finish(r, 5);
}

static void nothing_is_suspended_where_nothing_grows(void **state)
{
    struct rig *r = with_pool(44, 100, 2);
    struct rig_submit s = {
        .n_prompt = N_PROMPT, .max_tokens = N, .ignore_eos = true};

    (void)state;
    for (s.id = 1; s.id <= 2; s.id++) {
        rig_submit(r, &s);
    }
    rig_turn(r);
    rig_submit(r, &s);
    rig_turn(r);
    assert_int_equal(r->ends[r->tag].status, ST_RESOURCE_EXHAUSTED);
    rig_run(r);
    assert_int_equal(counts(r).suspended, 0);
    assert_int_equal(r->ledger.n_suspended, 0);
    finish(r, 2);
}

/* A Submit that was promised room waits for it, and takes it from none. */
static void growing_submit_waits_for_room(void **state)
{
    struct rig *r = with_pool(26, 0, 1);

    (void)state;
    submit(r, 1, N);
    submit(r, 2, 16);
    submit(r, 3, 8);
    while (r->heard[1].n < N - 1) {
        assert_int_equal(rig_account(r).n_suspended, 2);
        assert_int_equal(counts(r).suspended, 0);
        assert_true(rig_step(r));
    }
    finish(r, 3);
}

/* The router takes a kept sequence for ended once its heir is accepted. */
static void waiting_heir_ends_the_kept_one(void **state)
{
    struct rig *r = with_pool(26, 0, 1);
    struct chat c = {.r = r};
    struct rig_submit heir = {
        .id = 3, .n_prompt = 48, .max_tokens = 50, .grows = 40, .from = 1};

    (void)state;
    chat_turn(&c, N_PROMPT, 8, false);
    submit(r, 2, 60);
    assert_int_equal(rig_state(r, 1), KEPT);
    heir.prompt = c.ids;
    heir.spans = c.spans;
    heir.n_spans = c.n_spans;
    rig_check_ok(r, (rig_submit(r, &heir), rig_turn(r), r->tag));
    assert_int_equal(rig_account(r).n_suspended, 1);
    assert_int_equal(rig_state(r, 1), UNKNOWN);
    rig_run(r);
    assert_int_equal(r->heard[3].finish, SLUICE__V1__FINISH__FINISH_LENGTH);
    rig_advance(r, 600000);
    rig_check_empty(r);
    rig_free(&r);
}

static void strict_submit_suspends_others(void **state)
{
    struct rig *r = with_pool(30, 40, 1);
    struct rig_submit s = {
        .id = 2, .n_prompt = N_PROMPT, .max_tokens = N, .ignore_eos = true};

    (void)state;
    submit(r, 1, N);
    for (int i = 0; i < 5; i++) {
        rig_step(r);
    }
    rig_submit(r, &s);
    rig_turn(r);
    rig_check_ok(r, r->tag);
    rig_step(r);
    assert_int_equal(counts(r).suspended, 1);
    assert_int_equal(rig_account(r).n_suspended, 1);
    rig_run(r);
    assert_int_equal(counts(r).resumed_swap, 1);
    finish(r, 2);
}

/* Ids of a waiting Submit may come later. */
static void waiting_submit_takes_parts(void **state)
{
    struct rig *r = with_pool(26, 0, 1);
    struct rig_submit s = {.id = 2,
                           .n_prompt = N_PROMPT,
                           .n_first = 10,
                           .max_tokens = N,
                           .grows = 8,
                           .ignore_eos = true};
    struct rig_message m;

    (void)state;
    submit(r, 1, N);
    rig_message(r, &s, &m);
    rig_send_submit(r, &m);
    rig_turn(r);
    assert_int_equal(rig_account(r).n_suspended, 0);
    rig_part(r, r->grant, &m, 10, N_PROMPT - 10);
    rig_turn(r);
    assert_int_equal(rig_account(r).n_suspended, 1);
    finish(r, 2);
}

/* Runs until one more is suspended, and returns its number. */
static uint32_t next_victim(struct rig *r)
{
    uint64_t n = counts(r).suspended;

    while (counts(r).suspended == n) {
        assert_true(rig_step(r));
    }
    assert_int_equal(rig_account(r).n_suspended, 1);
    return rig_state(r, 1) == 6 ? 1 : 2;
}

/* The second one is the shorter, and so loses less both times. */
static void victim_is_not_chosen_twice_in_a_row(void **state)
{
    struct rig *r = with_pool(44, 100, 1);
    struct rig_submit s = {
        .n_prompt = 100, .max_tokens = 150, .grows = 8, .ignore_eos = true};

    (void)state;
    s.id = 1;
    rig_submit(r, &s);
    s.id = 2;
    s.n_prompt = 20;
    rig_submit(r, &s);
    s.id = 3;
    s.grows = 0;
    s.n_prompt = 40;
    s.max_tokens = 70;
    rig_submit(r, &s);
    rig_turn(r);
    assert_int_equal(next_victim(r), 2);
    while (rig_account(r).n_suspended > 0) {
        assert_true(rig_step(r));
    }
    assert_int_equal(next_victim(r), 1);
    rig_run(r);
    rig_check_tokens(r, 1, 1, 100, 150);
    rig_check_tokens(r, 2, 2, 20, 150);
    rig_advance(r, 20000);
    rig_free(&r);
}

/* Choices of one request share their prompt; what others read is not copied
 * back over. */
static void shared_blocks_are_found_again(void **state)
{
    struct worker_options o;
    struct rig *r;

    (void)state;
    rig_defaults(&o);
    o.reuse = true;
    o.pool.n_pages = 60;
    o.pool.host_pages = 60;
    r = rig_new(&o);
    for (uint32_t i = 0; i < 4; i++) {
        struct rig_submit s = {.id = 1,
                               .choice = i,
                               .n_prompt = 130,
                               .max_tokens = N,
                               .grows = 8,
                               .ignore_eos = true};

        rig_submit(r, &s);
        rig_turn(r);
    }
    rig_run(r);
    assert_true(counts(r).resumed_swap > 0);
    /* The 16 blocks of a shared prompt stay where they are. */
    assert_int_equal(counts(r).resumed_swap, 2);
    assert_int_equal(counts(r).pages_out, (166 + 7) / 8 + 2 + 224 / 8 - 16 + 2);
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t expect[N];

        rig_expect_choice(1, i, 130, N, expect);
        assert_int_equal(r->heard[i + 1].n, N);
        assert_memory_equal(r->heard[i + 1].tokens, expect, sizeof expect);
    }
    rig_advance(r, 20000);
    rig_free(&r);
}

/* A plan brings SWAP_PAGES_MAX pages back, less those of a slot: a victim with
 * one more is computed again. */
static void larger_swaps_than_a_plan_are_none(void **state)
{
    (void)state;
    for (uint32_t past = 0; past <= 1; past++) {
        struct worker_options o;
        struct rig *r;

        rig_defaults(&o);
        o.pool.pages_per_slot = (SWAP_PAGES_MAX - 10) / 2;
        o.pool.n_pages = 2 * o.pool.pages_per_slot + 20 + 2 * past;
        o.pool.host_pages = o.pool.n_pages;
        r = rig_new(&o);
        submit(r, 1, 8);
        submit(r, 2, 8);
        while (counts(r).suspended == 0) {
            assert_true(rig_step(r));
        }
        assert_int_equal(rig_account(r).host_used,
                         past ? 0 : SWAP_PAGES_MAX - o.pool.pages_per_slot);
        finish(r, 2);
    }
}

/* ---- checks of a Submit ---- */

static uint64_t submit_of(struct rig *r, uint32_t max_tokens, uint32_t grows)
{
    static uint32_t id = 100;
    struct rig_submit s = {
        .id = ++id, .n_prompt = 64, .max_tokens = max_tokens, .grows = grows};
    uint64_t tag = rig_submit(r, &s);

    rig_turn(r);
    return tag;
}

static void most_that_it_may_use_fits_the_pool(void **state)
{
    struct rig *r = with_pool(30, 0, 1);
    uint64_t tag;

    (void)state;
    tag = submit_of(r, 28 * 8 - 64 + 1, 1);
    assert_int_equal(r->ends[tag].status, ST_INVALID_ARGUMENT);
    assert_non_null(
        strstr(r->ends[tag].text, "may use 31 pages, the pool has 30"));
    tag = submit_of(r, 28 * 8 - 64, 1);
    rig_check_ok(r, tag);
    rig_free(&r);
}

static void need_covers_the_ids_that_are_known(void **state)
{
    struct rig *r = with_pool(144, 0, 1);
    struct rig_submit s = {
        .id = 1, .n_prompt = 64, .max_tokens = 50, .grows = 1};
    struct rig_message m;

    (void)state;
    rig_message(r, &s, &m);
    m.need.blocks = 7;
    rig_send_submit(r, &m);
    rig_turn(r);
    assert_int_equal(r->ends[r->tag].status, ST_INVALID_ARGUMENT);
    rig_message(r, &s, &m);
    m.need.blocks = 8;
    rig_send_submit(r, &m);
    rig_turn(r);
    rig_check_ok(r, r->tag);
    rig_free(&r);
}

static void stage_refuses_a_sequence_that_grows(void **state)
{
    struct worker_options o;
    struct rig *r;
    uint64_t tag;

    (void)state;
    rig_defaults(&o);
    o.layer_end = 2;
    r = rig_new(&o);
    tag = submit_of(r, 10, 1);
    assert_int_not_equal(r->ends[tag].status, ST_OK);
    rig_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows_by_a_block_when_its_grant_is_used_up),
        cmocka_unit_test(cached_pages_go_before_others_are_suspended),
        cmocka_unit_test(suspended_sequence_is_computed_again),
        cmocka_unit_test(swapped_sequence_is_not_computed_again),
        cmocka_unit_test(full_host_tier_means_computing_again),
        cmocka_unit_test(whole_needs_are_never_suspended),
        cmocka_unit_test(nothing_is_suspended_where_nothing_grows),
        cmocka_unit_test(growing_submit_waits_for_room),
        cmocka_unit_test(waiting_heir_ends_the_kept_one),
        cmocka_unit_test(strict_submit_suspends_others),
        cmocka_unit_test(waiting_submit_takes_parts),
        cmocka_unit_test(victim_is_not_chosen_twice_in_a_row),
        cmocka_unit_test(shared_blocks_are_found_again),
        cmocka_unit_test(larger_swaps_than_a_plan_are_none),
        cmocka_unit_test(most_that_it_may_use_fits_the_pool),
        cmocka_unit_test(need_covers_the_ids_that_are_known),
        cmocka_unit_test(stage_refuses_a_sequence_that_grows),
    };

#ifdef SLUICE_PLANTS
    cmocka_set_test_filter("shared_blocks_are_found_again");
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
