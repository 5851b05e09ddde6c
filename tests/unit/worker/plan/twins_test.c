/* Choices of one request: one prefill, one prompt's blocks. */
#include <string.h>

#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig.h"

#define N     8
#define STEPS 2000

static void defaults(struct worker_options *o)
{
    rig_defaults(o);
    o->pool.n_pages = 1024;
    o->pool.slot_cap = 16;
    o->reuse = true;
}

static void check_choice(const struct rig *r, uint64_t grant, uint32_t choice,
                         uint32_t n_prompt, uint32_t n)
{
    uint32_t expect[RIG_CONTEXT];

    rig_expect_choice(9, choice, n_prompt, n, expect);
    assert_int_equal(r->heard[grant].n, n);
    assert_memory_equal(r->heard[grant].tokens, expect, n * sizeof *expect);
}

/* Submits the choices of request 9 and makes a turn. */
static void submit(struct rig *r, uint32_t first, uint32_t n, uint32_t n_prompt,
                   uint32_t max_tokens)
{
    struct rig_submit s = {
        .id = 9, .n_prompt = n_prompt, .max_tokens = max_tokens};

    for (s.choice = first; s.choice < first + n; s.choice++) {
        rig_submit(r, &s);
    }
    rig_turn(r);
}

static void computes_a_prompt_once_for_eight(void **state)
{
    for (uint32_t depth = 1; depth <= 2; depth++) {
        struct worker_options o;
        struct rig *r;
        uint32_t held;

        defaults(&o);
        o.pool.n_pages = 4096;
        o.context = 2048;
        o.step_tokens = 512;
        o.chunk_tokens = 512;
        o.engine_depth = depth;
        r = rig_new(&o);
        submit(r, 0, N, 2000 - 3, 40);
        while (r->heard[1].n == 0) {
            assert_true(rig_step(r));
        }
        assert_int_equal(r->n_twins, N - 1);
        for (uint32_t i = 1; i <= N; i++) {
            assert_true(r->heard[i].n > 0); /* all first tokens in one plan */
            assert_int_equal(r->heard[i].reused, i == 1 ? 0 : 2000 - 3);
        }
        /* Each writes its own tokens from the block of position 1,992 on, of
         * which plans in flight have reached at most two. */
        held = rig_account(r).blocks.held;
        assert_in_range(held, 249 + N, 249 + 2 * N);
        rig_run(r);
        assert_int_equal(r->n_computed, 1997 + N * 39);
        for (uint32_t i = 0; i < N; i++) {
            check_choice(r, i + 1, i, 1997, 40);
        }
        rig_free(&r);
    }
    (void)state;
}

static void shares_whole_blocks_without_a_copy(void **state)
{
    struct worker_options o;
    struct rig *r;

    (void)state;
    defaults(&o);
    r = rig_new(&o);
    submit(r, 0, 3, 96, 2);
    assert_int_equal(rig_plan(r, 0)->n_rows, 3);
    assert_int_equal(rig_plan(r, 0)->n_after, 2); /* slots, no block */
    rig_run(r);
    for (uint32_t i = 0; i < 3; i++) {
        check_choice(r, i + 1, i, 96, 2);
    }
    rig_free(&r);
}

/* The rows of a step bound the twins; the others follow with a hit. */
static void those_that_do_not_fit_come_next(void **state)
{
    for (uint32_t rows = 1; rows <= 5; rows++) {
        struct worker_options o;
        struct rig *r;

        defaults(&o);
        o.max_rows = rows;
        o.engine_depth = 1 + rows % 2;
        r = rig_new(&o);
        submit(r, 0, 6, 200, 5);
        rig_run(r);
        for (uint32_t i = 0; i < 6; i++) {
            check_choice(r, i + 1, i, 200, 5);
        }
        /* 192 positions were computed once, and the rest of the prompt at most
         * once for each group of twins. */
        assert_in_range(r->n_computed, 200 + 6 * 4, 192 + 6 * (8 + 4));
        rig_free(&r);
    }
    (void)state;
}

static void others_keep_their_turn(void **state)
{
    struct worker_options o;
    struct rig *r;
    struct rig_submit other = {.id = 5, .n_prompt = 128, .max_tokens = 2};

    (void)state;
    defaults(&o);
    o.step_tokens = 64;
    o.chunk_tokens = 64;
    r = rig_new(&o);
    submit(r, 0, 1, 128, 2);
    rig_submit(r, &other);
    submit(r, 1, 3, 128, 2); /* they come after the other one */
    rig_run(r);
    rig_check_tokens(r, 2, 5, 128, 2);
    assert_int_equal(r->heard[1].n, 2);
    for (uint32_t i = 1; i <= 3; i++) {
        check_choice(r, i + 2, i, 128, 2);
    }
    assert_int_equal(r->n_computed, 2 * 128 + 5);
    rig_free(&r);
}

/* The leader ends while it prefills, after `steps` chunks: the next one leads,
 * in its place, and what was computed is not computed again. */
static void the_next_leads_if_the_first_is_cancelled(void **state)
{
    for (uint32_t steps = 0; steps <= 3; steps++) {
        struct worker_options o;
        struct rig *r;
        struct rig_submit other = {.id = 5, .n_prompt = 200, .max_tokens = 1};

        defaults(&o);
        o.step_tokens = 64;
        o.chunk_tokens = 64;
        o.engine_depth = 1 + steps % 2;
        r = rig_new(&o);
        submit(r, 0, 4, 250, 5);
        rig_submit(r, &other);
        rig_turn(r);
        for (uint32_t i = 0; i < steps; i++) {
            rig_step(r);
        }
        rig_cancel_choice(r, 9, 0);
        rig_turn(r);
        assert_int_equal(r->heard[5].n, 0);
        rig_run(r);
        for (uint32_t i = 1; i < 4; i++) {
            check_choice(r, i + 1, i, 250, 5);
        }
        rig_check_tokens(r, 5, 5, 200, 1);
        /* With two plans in flight, the last row may be planned already. */
        assert_in_range(r->n_twins, 2, steps == 3 ? 3 : 2);
        rig_free(&r);
    }
    (void)state;
}

static void one_that_waits_can_be_cancelled(void **state)
{
    struct worker_options o;
    struct rig *r;
    uint64_t tag;

    (void)state;
    defaults(&o);
    o.step_tokens = 64;
    o.chunk_tokens = 64;
    r = rig_new(&o);
    submit(r, 0, 3, 250, 5);
    tag = rig_cancel_choice(r, 9, 1);
    rig_turn(r);
    assert_int_equal(r->ends[tag].receipt.state, 1);
    assert_int_equal(r->ends[tag].receipt.blocks, 32);
    rig_run(r);
    check_choice(r, 1, 0, 250, 5);
    check_choice(r, 3, 2, 250, 5);
    assert_int_equal(r->heard[2].n, 0);
    rig_free(&r);
}

static void the_next_leads_if_a_step_fails(void **state)
{
    for (uint32_t steps = 0; steps <= 6; steps++) {
        struct worker_options o;
        struct rig *r;

        defaults(&o);
        o.step_tokens = 64;
        o.chunk_tokens = 64;
        o.engine_depth = 1 + steps % 2;
        r = rig_new(&o);
        submit(r, 0, 4, 250, 5);
        for (uint32_t i = 0; i < steps; i++) {
            rig_step(r);
        }
        r->fail_next = "a failure";
        rig_step(r);
        rig_run(r);
        for (uint32_t i = 0; i < 4; i++) {
            check_choice(r, i + 1, i, 250, 5);
        }
        rig_free(&r);
    }
    (void)state;
}

/* With two plans in flight, twins may stand in the plan behind the one that
 * fails: its step succeeds, but their source continued from garbage. */
static void twins_of_garbage_are_computed_again(void **state)
{
    struct worker_options o;
    struct rig *r;

    (void)state;
    defaults(&o);
    o.step_tokens = 128;
    o.chunk_tokens = 128;
    o.engine_depth = 2;
    r = rig_new(&o);
    submit(r, 0, 4, 250, 5);
    assert_int_equal(rig_plan(r, 1)->n_rows, 4);
    r->fail_next = "a failure";
    rig_step(r);
    rig_run(r);
    for (uint32_t i = 0; i < 4; i++) {
        check_choice(r, i + 1, i, 250, 5);
    }
    rig_free(&r);
}

static void the_next_leads_if_the_first_is_damaged(void **state)
{
    struct worker_options o;
    struct rig *r;

    (void)state;
    defaults(&o);
    o.max_rows = 2;
    r = rig_new(&o);
    r->damaged = 1;
    submit(r, 0, 4, 100, 5);
    rig_run(r);
    assert_int_equal(r->heard[1].finish, SLUICE__V1__FINISH__FINISH_FAILED);
    for (uint32_t i = 1; i < 4; i++) {
        check_choice(r, i + 1, i, 100, 5);
    }
    rig_free(&r);
}

/* A twin that is computed again rewrites blocks that its kept sibling has.  If
 * its step fails, the rows behind it would write garbage there. */
static void a_sibling_outlives_failures_of_its_twin(void **state)
{
    struct worker_options o;
    struct rig *r;
    uint32_t ids[RIG_CONTEXT], expect[4];
    struct rig_prompt p = {.ids = ids, .n = 420};
    struct rig_submit s = {.id = 9,
                           .n_prompt = 400,
                           .max_tokens = 3,
                           .keep_ms = 60000,
                           .prompt = ids};

    (void)state;
    defaults(&o);
    o.engine_depth = 2;
    o.pool.checkpoint_share = 0; /* it begins again at 0 */
    r = rig_new(&o);
    for (uint32_t i = 0; i < RIG_CONTEXT; i++) {
        ids[i] = rig_prompt_id(9, i);
    }
    rig_submit(r, &s);
    s.choice = 1;
    s.max_tokens = 60;
    rig_submit(r, &s);
    rig_turn(r);
    while (rig_choice_state(r, 9, 0) != 4) {
        assert_true(rig_step(r));
    }
    assert_int_equal(r->n_twins, 1);
    r->fail_next = "a failure";
    do {
        assert_true(rig_step(r));
    } while (rig_plan(r, 0)->rows[0].position > 0);
    r->fail_next = "another failure";
    rig_run(r);
    assert_int_equal(r->heard[2].finish, SLUICE__V1__FINISH__FINISH_FAILED);
    memcpy(ids + 400, r->heard[1].tokens, 3 * sizeof *ids);
    rig_submit(r, &(struct rig_submit){.id = 10,
                                       .n_prompt = 420,
                                       .max_tokens = 4,
                                       .prompt = ids,
                                       .from = 9});
    rig_turn(r);
    rig_run(r);
    rig_expect_prompt(r, &p, 4, expect);
    assert_int_equal(r->heard[3].n, 4);
    assert_memory_equal(r->heard[3].tokens, expect, sizeof expect);
    assert_int_equal(r->heard[3].reused, 402);
    rig_free(&r);
}

static void all_end_with_the_session(void **state)
{
    for (uint32_t steps = 0; steps <= 5; steps++) {
        struct worker_options o;
        struct rig *r;

        defaults(&o);
        o.step_tokens = 64;
        o.chunk_tokens = 64;
        o.engine_depth = 2;
        r = rig_new(&o);
        submit(r, 0, 4, 250, 5);
        for (uint32_t i = 0; i < steps; i++) {
            rig_step(r);
        }
        rig_lose(r);
        rig_reconnect(r);
        rig_run(r);
        for (uint32_t i = 0; i < 4; i++) {
            rig_disown(r, 9, i);
        }
        rig_turn(r);
        rig_check_empty(r);
        rig_free(&r);
    }
    (void)state;
}

static void a_late_one_is_a_hit(void **state)
{
    struct worker_options o;
    struct rig *r;

    (void)state;
    defaults(&o);
    r = rig_new(&o);
    submit(r, 0, 1, 200, 20);
    for (int i = 0; i < 5; i++) {
        rig_step(r);
    }
    submit(r, 1, 1, 200, 20);
    rig_run(r);
    check_choice(r, 1, 0, 200, 20);
    check_choice(r, 2, 1, 200, 20);
    assert_int_equal(r->n_twins, 0);
    assert_int_equal(r->n_computed, 200 + 8 + 2 * 19);
    rig_free(&r);
}

static void other_prompts_are_no_twins(void **state)
{
    struct worker_options o;
    struct rig *r;
    uint32_t ids[100];
    struct rig_submit s = {
        .id = 9, .n_prompt = 100, .max_tokens = 2, .prompt = ids};

    (void)state;
    defaults(&o);
    r = rig_new(&o);
    for (s.choice = 0; s.choice < 2; s.choice++) {
        for (uint32_t i = 0; i < 100; i++) {
            ids[i] = rig_prompt_id(9, i) + (i == 99 ? s.choice : 0);
        }
        rig_submit(r, &s);
    }
    s.choice = 2;
    s.no_cache = true;
    rig_submit(r, &s);
    s.choice = 3;
    s.no_cache = false;
    s.tenant = "b";
    rig_submit(r, &s);
    rig_turn(r);
    rig_run(r);
    assert_int_equal(r->n_twins, 0);
    assert_int_equal(r->n_computed, 4 * 101);
    rig_free(&r);
}

static void penalties_and_logprobs_are_each_ones_own(void **state)
{
    struct worker_options o;
    struct rig *r;
    struct rig_submit s = {.id = 9, .n_prompt = 100, .max_tokens = 9};

    (void)state;
    defaults(&o);
    o.engine_depth = 2;
    r = rig_new(&o);
    for (s.choice = 0; s.choice < 4; s.choice++) {
        s.penalise = s.choice % 2 == 0;
        s.n_top = s.choice;
        s.logprobs = s.choice > 0;
        rig_submit(r, &s);
    }
    rig_turn(r);
    rig_run(r);
    assert_int_equal(r->n_twins, 3);
    for (uint32_t i = 0; i < 4; i++) {
        check_choice(r, i + 1, i, 100, 9);
    }
    rig_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(computes_a_prompt_once_for_eight),
        cmocka_unit_test(shares_whole_blocks_without_a_copy),
        cmocka_unit_test(those_that_do_not_fit_come_next),
        cmocka_unit_test(others_keep_their_turn),
        cmocka_unit_test(the_next_leads_if_the_first_is_cancelled),
        cmocka_unit_test(one_that_waits_can_be_cancelled),
        cmocka_unit_test(the_next_leads_if_a_step_fails),
        cmocka_unit_test(twins_of_garbage_are_computed_again),
        cmocka_unit_test(the_next_leads_if_the_first_is_damaged),
        cmocka_unit_test(a_sibling_outlives_failures_of_its_twin),
        cmocka_unit_test(all_end_with_the_session),
        cmocka_unit_test(a_late_one_is_a_hit),
        cmocka_unit_test(other_prompts_are_no_twins),
        cmocka_unit_test(penalties_and_logprobs_are_each_ones_own),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
