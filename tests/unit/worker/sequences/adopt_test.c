/* Sequences that are not new: they run here already, or began at another
 * worker. */
#include <string.h>

#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig.h"
#include "worker/base/metrics.h"

#define STOP   SLUICE__V1__FINISH__FINISH_STOP
#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH

/* Positions that another worker had computed count under that reason alone. */
static void check_wasted(struct rig *r, uint32_t n_moved)
{
    struct worker_metrics m;

    worker_counts(r->worker, &m);
    assert_int_equal(m.wasted_moved, n_moved);
    assert_int_equal(m.wasted_failed, 0);
    assert_int_equal(m.wasted_suspended, 0);
    assert_int_equal(r->tier_heard, n_moved > 0);
    assert_int_equal(r->tier.wasted_moved, n_moved);
}

static void goes_on_with_what_was_generated_elsewhere(void **state)
{
    for (uint32_t k = 0; k <= 30; k += 5) {
        for (uint32_t depth = 1; depth <= 2; depth++) {
            struct rig *r = rig_with_depth(depth);
            uint32_t ids[30];
            struct rig_submit s = {.id = 4,
                                   .n_prompt = 70,
                                   .max_tokens = 30,
                                   .n_generated = k,
                                   .generated = ids,
                                   .has_have = true,
                                   .have = 0};

            rig_expect(4, 70, 30, ids);
            rig_submit(r, &s);
            rig_turn(r);
            rig_run(r);
            rig_advance(r, 20000);
            rig_check_tokens(r, 1, 4, 70, 30);
            assert_int_equal(r->heard[1].finish, LENGTH);
            check_wasted(r, k == 0 || k == 30 ? 0 : 70 + k - 1);
            rig_check_empty(r);
            rig_free(&r);
        }
    }
    (void)state;
}

static void sends_only_what_the_router_lacks(void **state)
{
    struct rig *r = rig_new(NULL);
    uint32_t ids[12];
    struct rig_submit s = {.id = 4,
                           .n_prompt = 20,
                           .max_tokens = 12,
                           .n_generated = 8,
                           .generated = ids};

    (void)state;
    rig_expect(4, 20, 12, ids);
    rig_submit(r, &s);
    r->heard[1].n = 8; /* without have_index the router has all that it sent */
    memcpy(r->heard[1].tokens, ids, 8 * sizeof *ids);
    rig_turn(r);
    rig_run(r);
    rig_check_tokens(r, 1, 4, 20, 12);
    rig_free(&r);
}

static void ends_at_once_what_had_ended_elsewhere(void **state)
{
    struct rig *r = rig_new(NULL);
    uint32_t ids[3] = {20, 30, RIG_EOS};
    struct rig_submit s = {.id = 4,
                           .n_prompt = 20,
                           .max_tokens = 12,
                           .n_generated = 3,
                           .generated = ids};

    (void)state;
    r->heard[1].n = 3;
    rig_submit(r, &s);
    rig_advance(r, 20000);
    assert_int_equal(r->heard[1].finish, STOP);
    assert_int_equal(r->n_steps, 0);
    rig_advance(r, 600000);
    rig_check_empty(r);
    rig_free(&r);
}

static void adopts_one_that_runs(void **state)
{
    for (uint32_t depth = 1; depth <= 2; depth++) {
        struct rig *r = rig_with_depth(depth);
        struct rig_submit s = {.id = 6, .n_prompt = 20, .max_tokens = 30};
        uint64_t tag;

        rig_submit(r, &s);
        rig_turn(r);
        for (int i = 0; i < 10; i++) {
            rig_step(r);
        }
        s.has_have = true;
        s.have = 4;
        tag = rig_submit(r, &s);
        r->heard[2].n = 4;
        memcpy(r->heard[2].tokens, r->heard[1].tokens, 4 * sizeof(uint32_t));
        rig_turn(r);
        rig_check_ok(r, tag);
        assert_int_equal(
            rig_account(r).blocks.held + rig_account(r).blocks.granted, 7);
        rig_run(r);
        rig_check_tokens(r, 2, 6, 20, 30);
        assert_int_equal(r->heard[1].finish, 0);
        assert_int_equal(r->n_steps, 30);
        rig_advance(r, 20000);
        rig_check_empty(r);
        rig_free(&r);
    }
    (void)state;
}

static void adopts_one_whose_end_is_not_acknowledged(void **state)
{
    struct rig *r = rig_new(NULL);
    struct rig_submit s = {.id = 6, .n_prompt = 20, .max_tokens = 5};

    (void)state;
    r->acknowledge = false;
    rig_submit(r, &s);
    rig_turn(r);
    rig_run(r);
    assert_int_equal(rig_state(r, 6), 5);
    s.has_have = true;
    rig_submit(r, &s);
    r->acknowledge = true;
    rig_advance(r, 20000);
    rig_check_tokens(r, 2, 6, 20, 5);
    assert_int_equal(r->n_steps, 5);
    rig_check_empty(r);
    rig_free(&r);
}

/* Its end was acknowledged under the old grant, which no longer counts. */
static void adopts_one_that_is_kept(void **state)
{
    struct rig *r = rig_new(NULL);
    struct rig_submit s = {
        .id = 6, .n_prompt = 20, .max_tokens = 5, .keep_ms = 60000};
    uint64_t tag;

    (void)state;
    rig_submit(r, &s);
    rig_turn(r);
    rig_run(r);
    rig_advance(r, 300000);
    r->acknowledge = false;
    s.has_have = true;
    s.have = 3;
    tag = rig_submit(r, &s);
    rig_turn(r);
    rig_check_ok(r, tag);
    rig_remove(r, 6);
    rig_turn(r);
    /* The memory is free, but the end was not sent yet. */
    assert_int_equal(rig_used_blocks(r), 0);
    assert_int_equal(rig_state(r, 6), 5);
    memcpy(r->heard[2].tokens, r->heard[1].tokens, sizeof r->heard[1].tokens);
    r->heard[2].n = 3;
    r->acknowledge = true;
    rig_advance(r, 20000);
    rig_check_tokens(r, 2, 6, 20, 5);
    assert_int_equal(r->heard[2].finish, LENGTH);
    rig_check_empty(r);
    rig_free(&r);
}

/* Its acknowledged tokens are gone, so it is computed again. */
static void starts_a_finished_one_again(void **state)
{
    struct rig *r = rig_new(NULL);
    struct rig_submit s = {.id = 6, .n_prompt = 20, .max_tokens = 5};

    (void)state;
    r->acknowledge = false;
    rig_submit(r, &s);
    rig_turn(r);
    rig_run(r);
    rig_ack(r, 1, 4);
    rig_turn(r);
    assert_int_equal(rig_state(r, 6), 5);
    s.has_have = true; /* and it has none */
    rig_submit(r, &s);
    r->acknowledge = true;
    rig_turn(r);
    rig_run(r);
    rig_check_tokens(r, 2, 6, 20, 5);
    assert_int_equal(r->n_steps, 10);
    rig_free(&r);
}

static void does_not_adopt_another_length(void **state)
{
    struct rig *r = rig_new(NULL);
    struct rig_submit s = {.id = 6, .n_prompt = 20, .max_tokens = 5};
    uint64_t tag;

    (void)state;
    rig_submit(r, &s);
    rig_turn(r);
    s.max_tokens = 6;
    tag = rig_submit(r, &s);
    rig_turn(r);
    assert_int_equal(r->ends[tag].status, ST_ALREADY_EXISTS);
    rig_run(r);
    rig_check_tokens(r, 1, 6, 20, 5);
    rig_free(&r);
}

static void replaces_one_that_is_being_received(void **state)
{
    struct rig *r = rig_new(NULL);
    struct rig_submit s = {
        .id = 6, .n_prompt = 20, .max_tokens = 5, .n_first = 10};
    uint64_t first, second;

    (void)state;
    first = rig_submit(r, &s);
    rig_turn(r);
    s.n_first = 0;
    second = rig_submit(r, &s);
    rig_turn(r);
    assert_int_equal(r->ends[first].status, ST_ABORTED);
    rig_check_ok(r, second);
    rig_run(r);
    rig_check_tokens(r, 2, 6, 20, 5);
    rig_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_on_with_what_was_generated_elsewhere),
        cmocka_unit_test(sends_only_what_the_router_lacks),
        cmocka_unit_test(ends_at_once_what_had_ended_elsewhere),
        cmocka_unit_test(adopts_one_that_runs),
        cmocka_unit_test(adopts_one_whose_end_is_not_acknowledged),
        cmocka_unit_test(adopts_one_that_is_kept),
        cmocka_unit_test(starts_a_finished_one_again),
        cmocka_unit_test(does_not_adopt_another_length),
        cmocka_unit_test(replaces_one_that_is_being_received),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
