/* Damaged rows, and steps that fail: who ends, who is computed again, and what
 * the router receives. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig.h"
#include "worker/base/metrics.h"

#define FAILED   SLUICE__V1__FINISH__FINISH_FAILED
#define N_PROMPT 20u

static struct worker_metrics counts(const struct rig *r)
{
    struct worker_metrics m;

    worker_counts(r->worker, &m);
    return m;
}

/* Submits n sequences, which the engine numbers from 1, and runs some steps. */
static struct rig *with_some(uint32_t n, uint32_t depth, uint32_t max_tokens,
                             uint32_t steps)
{
    struct rig *r = rig_with_depth(depth);

    for (uint32_t id = 1; id <= n; id++) {
        struct rig_submit s = {
            .id = id, .n_prompt = N_PROMPT, .max_tokens = max_tokens};

        rig_submit(r, &s);
    }
    rig_turn(r);
    for (uint32_t i = 0; i < steps; i++) {
        assert_true(rig_step(r));
    }
    return r;
}

/* All end, and sequence `bad` with a failure; 0: none.  Frees the rig. */
static void check_ends(struct rig *r, uint32_t n, uint32_t max_tokens,
                       uint32_t bad)
{
    rig_run(r);
    rig_advance(r, 20000);
    for (uint32_t id = 1; id <= n; id++) {
        if (id == bad) {
            assert_int_equal(r->heard[id].finish, FAILED);
        } else {
            assert_int_equal(r->heard[id].finish,
                             SLUICE__V1__FINISH__FINISH_LENGTH);
            rig_check_tokens(r, id, id, N_PROMPT, max_tokens);
        }
    }
    rig_advance(r, 600000);
    rig_check_empty(r);
    rig_free(&r);
}

static void check_failure(const struct rig *r, uint32_t id, const char *text)
{
    char name[32]; /* request ids of the rig begin with id, lower byte first */

    snprintf(name, sizeof name, "sequence %02x000000", id);
    if (strstr(r->failure, text) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", r->failure, text);
    }
    assert_true(strncmp(r->failure, name, strlen(name)) == 0);
    assert_non_null(strstr(r->failure, "/0: "));
}

/* ---- a damaged row ---- */

/* In its first step, or when it has tokens. */
static void ends_the_damaged_row_alone(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        struct rig *r = with_some(6, 1 + i % 2, 30, i / 2 * 3);
        uint32_t n = r->heard[3].n;

        r->damaged = 3;
        while (r->heard[3].finish == 0) {
            assert_true(rig_step(r));
        }
        /* With two plans in flight, the chained row of the second is dropped.
         */
        assert_in_range(r->heard[3].n, n, n + 1);
        check_failure(r, 3, "are not finite");
        assert_int_equal(counts(r).rows_damaged, 1);
        assert_int_equal(counts(r).recomputed, 0);
        assert_int_equal(counts(r).steps_failed, 0);
        check_ends(r, 6, 30, 3);
    }
}

static void names_the_position_and_the_index(void **state)
{
    struct rig *r = with_some(1, 1, 30, 5);
    char text[80];

    (void)state;
    snprintf(text, sizeof text, "the logits at position %u, for token %u, are",
             N_PROMPT + r->heard[1].n - 1, r->heard[1].n);
    r->damaged = 1;
    rig_step(r);
    check_failure(r, 1, text);
    check_ends(r, 1, 30, 1);
}

/* The next owner of the blocks and the slot starts from nothing. */
static void leaves_nothing_behind(void **state)
{
    struct rig *r = with_some(2, 2, 30, 3);
    struct rig_submit s = {.id = 3, .n_prompt = N_PROMPT, .max_tokens = 30};

    (void)state;
    r->damaged = 1;
    while (r->heard[1].finish == 0) {
        assert_true(rig_step(r));
    }
    rig_submit(r, &s);
    rig_turn(r);
    check_ends(r, 3, 30, 1);
}

/* Both sequences of a step fail: each gets its own reason. */
static void damage_all(struct plan_result *out)
{
    for (uint32_t i = 0; i < out->n_rows; i++) {
        out->outcomes[i] = ROW_NOT_FINITE;
    }
}

static void sends_each_sequence_its_own_reason(void **state)
{
    struct rig *r = with_some(2, 1, 30, 4);
    bool first;

    (void)state;
    r->acknowledge = true;
    r->lie = damage_all;
    rig_step(r);
    first = r->heard[1].finish == FAILED;
    assert_int_not_equal(r->heard[1].finish, r->heard[2].finish);
    check_failure(r, first ? 1 : 2, "are not finite");
    while (r->heard[first ? 2 : 1].finish != FAILED) {
        rig_advance(r, 1000);
    }
    check_failure(r, first ? 2 : 1, "are not finite");
    rig_advance(r, 600000);
    rig_check_empty(r);
    rig_free(&r);
}

static void lie_about_an_outcome(struct plan_result *out)
{
    out->outcomes[0] = 3;
}

static void lie_about_a_chain(struct plan_result *out)
{
    out->outcomes[0] = ROW_CUT_OFF;
}

/* An outcome that cannot be fails the step, and nobody ends. */
static void takes_no_wrong_outcome(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct rig *r = with_some(2, 1, 30, 4);

        r->lie = i == 0 ? lie_about_an_outcome : lie_about_a_chain;
        rig_step(r);
        assert_int_equal(counts(r).steps_failed, 1);
        assert_int_equal(counts(r).recomputed, 2);
        check_ends(r, 2, 30, 0);
    }
}

/* ---- a failed step ---- */

static void loses_no_sequence_to_a_failed_step(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 12; i++) {
        struct rig *r = with_some(6, 1 + i % 2, 30, i);

        r->fail_next = "kernel attention: no such luck";
        rig_step(r);
        assert_int_equal(counts(r).steps_failed, 1);
        assert_in_range(counts(r).recomputed, 1, 6);
        check_ends(r, 6, 30, 0);
    }
}

/* All that came before the failed step is computed a second time. */
static void counts_what_a_failed_step_wasted(void **state)
{
    struct rig *r = with_some(6, 1, 30, 4);
    uint32_t n_before = r->n_computed, n_failed;

    (void)state;
    r->fail_next = "kernel attention: no such luck";
    rig_step(r);
    n_failed = r->n_computed - n_before;
    rig_run(r);
    assert_int_equal(counts(r).wasted_failed, n_before);
    assert_int_equal(counts(r).wasted_suspended + counts(r).wasted_moved, 0);
    assert_int_equal(r->n_computed,
                     6 * (N_PROMPT + 30 - 1) + n_before + n_failed);
    rig_advance(r, 20000);
    assert_true(r->tier_heard);
    assert_int_equal(r->tier.wasted_failed, n_before);
    check_ends(r, 6, 30, 0);
}

/* Its rows run alone, and every other plan is for the others. */
static void computes_alone_and_in_turns(void **state)
{
    struct rig *r = with_some(4, 1, 60, 6);
    struct rig_submit s = {.id = 5, .n_prompt = N_PROMPT, .max_tokens = 60};
    uint32_t n_alone = 0, n_others = 0;

    (void)state;
    r->fail_next = "kernel attention: no such luck";
    rig_step(r);
    rig_submit(r, &s);
    rig_turn(r);
    while (r->heard[4].n < 60 && rig_inflight(r) > 0) {
        const struct plan *p = rig_plan(r, 0);
        bool first = p->rows[0].position == 0 && p->rows[0].sequence < 5;

        n_others += p->rows[0].sequence == 5 && n_alone < 4;
        if (first) {
            assert_int_equal(p->n_rows, 1);
            assert_int_equal(p->n_zero, 1);
            n_alone++;
        }
        rig_step(r);
    }
    assert_int_equal(n_alone, 4);
    assert_in_range(n_others, 1, 100);
    check_ends(r, 5, 60, 0);
}

/* Returns whether the newest plan, behind another one, computes the last
 * positions of sequence 1 again. */
static bool ends_again(const struct rig *r)
{
    const struct plan *p = rig_plan(r, 1);

    return p != NULL && p->rows[0].sequence == 1 && p->rows[0].n_tokens > 1 &&
           p->rows[0].sample;
}

/* A refused plan comes back first: the one that runs alone has not failed. */
static void outlives_a_refused_plan_behind_the_one_alone(void **state)
{
    struct rig *r = with_some(1, 2, 60, 6);
    struct rig_submit s = {.id = 2, .n_prompt = N_PROMPT, .max_tokens = 60};

    (void)state;
    r->fail_next = "kernel attention: no such luck";
    rig_submit(r, &s);
    do {
        assert_true(rig_step(r));
    } while (!ends_again(r));
    r->refuse_once = true;
    rig_step(r);
    assert_false(r->refuse_once);
    assert_int_equal(counts(r).recomputed, 3); /* both now */
    check_ends(r, 2, 60, 0);
}

/* The cause ends when it fails alone; the others are whole. */
static void ends_what_fails_alone(void **state)
{
    (void)state;
    for (uint32_t depth = 1; depth <= 2; depth++) {
        struct rig *r = with_some(6, depth, 30, 4);

        r->fails_with = 2;
        while (r->heard[2].finish == 0) {
            assert_true(rig_step(r));
        }
        check_failure(r, 2, "when it ran alone: its fault");
        check_ends(r, 6, 30, 2);
    }
}

/* Cancels, the end of the session, and new sequences at every moment. */
static void ends_at_any_moment_of_it(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 48; i++) {
        struct rig *r = with_some(3, 1 + i % 2, 30, 5);

        r->fail_next = "kernel attention: no such luck";
        rig_step(r);
        for (uint32_t k = 0; k < i / 4; k++) {
            rig_step(r);
        }
        if (i / 2 % 2) {
            rig_lose(r);
            rig_run(r);
            rig_reconnect(r);
            rig_advance(r, 10000000); /* orphans expire */
        } else {
            for (uint32_t id = 1; id <= 3; id++) {
                rig_cancel(r, id);
            }
            rig_turn(r);
            rig_run(r);
            rig_advance(r, 600000);
        }
        rig_check_empty(r);
        rig_free(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_the_damaged_row_alone),
        cmocka_unit_test(names_the_position_and_the_index),
        cmocka_unit_test(leaves_nothing_behind),
        cmocka_unit_test(sends_each_sequence_its_own_reason),
        cmocka_unit_test(takes_no_wrong_outcome),
        cmocka_unit_test(loses_no_sequence_to_a_failed_step),
        cmocka_unit_test(counts_what_a_failed_step_wasted),
        cmocka_unit_test(computes_alone_and_in_turns),
        cmocka_unit_test(outlives_a_refused_plan_behind_the_one_alone),
        cmocka_unit_test(ends_what_fails_alone),
        cmocka_unit_test(ends_at_any_moment_of_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
