/* Suspended sequences that end, lose their session, or meet failures. */
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig.h"
#include "worker/base/metrics.h"

#define N_PROMPT 40u
#define N        100u

static struct worker_metrics counts(const struct rig *r)
{
    struct worker_metrics m;

    worker_counts(r->worker, &m);
    return m;
}

static struct rig_submit submit_of(uint32_t id)
{
    return (struct rig_submit){.id = id,
                               .n_prompt = N_PROMPT,
                               .max_tokens = N,
                               .grows = 8,
                               .ignore_eos = true};
}

/* Two that grow in a pool for one and a half; the second one is suspended. */
static struct rig *with_suspended(uint32_t host_pages, uint32_t depth)
{
    struct worker_options o;
    struct rig *r;

    rig_defaults(&o);
    o.pool.n_pages = 30;
    o.pool.host_pages = host_pages;
    o.engine_depth = depth;
    r = rig_new(&o);
    for (uint32_t id = 1; id <= 2; id++) {
        struct rig_submit s = submit_of(id);

        rig_submit(r, &s);
        rig_turn(r);
    }
    while (rig_account(r).n_suspended == 0) {
        assert_true(rig_step(r));
    }
    assert_int_equal(rig_state(r, 2), 6);
    assert_int_equal(rig_account(r).host_used > 0, host_pages > 0);
    return r;
}

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

static void cancel_frees_a_suspended_sequence_at_once(void **state)
{
    (void)state;
    for (uint32_t host = 0; host <= 40; host += 40) {
        struct rig *r = with_suspended(host, 2);
        uint64_t tag = rig_cancel(r, 2);

        rig_turn(r);
        rig_check_ok(r, tag);
        assert_int_equal(r->ends[tag].receipt.state, 6);
        assert_int_equal(r->ends[tag].receipt.blocks, 0);
        assert_int_equal(rig_account(r).host_used, 0);
        assert_int_equal(rig_account(r).n_suspended, 0);
        finish(r, 1);
    }
}

static void remove_frees_a_suspended_sequence(void **state)
{
    struct rig *r = with_suspended(40, 1);
    uint64_t tag = rig_remove(r, 2);

    (void)state;
    rig_turn(r);
    rig_check_ok(r, tag);
    assert_int_equal(rig_account(r).host_used, 0);
    finish(r, 1);
}

/* Two that grow, after n steps. */
static struct rig *after_steps(uint32_t n, uint32_t depth)
{
    struct worker_options o;
    struct rig *r;

    rig_defaults(&o);
    o.pool.n_pages = 30;
    o.pool.host_pages = 40;
    o.engine_depth = depth;
    r = rig_new(&o);
    for (uint32_t id = 1; id <= 2; id++) {
        struct rig_submit s = submit_of(id);

        rig_submit(r, &s);
        rig_turn(r);
    }
    while (n-- > 0) {
        assert_true(rig_step(r));
    }
    return r;
}

/* At every step around the suspension: before it, while plans in flight name
 * the victim, and after it. */
static void cancel_at_any_step(void **state)
{
    (void)state;
    for (uint32_t n = 40; n < 160; n++) {
        struct rig *r = after_steps(n / 2, 2);
        uint32_t id = 1 + n % 2, other = 3 - id;

        rig_cancel(r, id);
        rig_run(r);
        rig_advance(r, 20000);
        assert_int_equal(r->heard[other].finish,
                         SLUICE__V1__FINISH__FINISH_LENGTH);
        rig_check_tokens(r, other, other, N_PROMPT, N);
        rig_free(&r);
    }
}

static void suspended_orphan_is_adopted(void **state)
{
    (void)state;
    for (uint32_t host = 0; host <= 40; host += 40) {
        struct rig *r = with_suspended(host, 1);
        uint32_t have = r->heard[2].n, used = rig_account(r).host_used;
        struct rig_submit s = submit_of(2);
        uint64_t tag;

        rig_lose(r);
        assert_int_equal(rig_account(r).n_orphans, 2);
        assert_int_equal(rig_account(r).host_used, used);
        rig_reconnect(r);
        assert_int_equal(r->n_live, 2);
        assert_true(r->live[0].grows && r->live[1].grows);
        s.have = have;
        tag = rig_adopt(r, &s);
        rig_turn(r);
        rig_check_ok(r, tag);
        rig_disown(r, 1, 0);
        rig_turn(r);
        rig_run(r);
        rig_advance(r, 20000);
        rig_check_tokens(r, r->grant, 2, N_PROMPT, N);
        rig_free(&r);
    }
}

static void disowned_suspended_orphan_leaves_nothing(void **state)
{
    struct rig *r = with_suspended(40, 1);

    (void)state;
    rig_lose(r);
    rig_reconnect(r);
    rig_disown(r, 2, 0);
    rig_disown(r, 1, 0);
    rig_turn(r);
    rig_run(r);
    rig_advance(r, 20000);
    rig_check_empty(r);
    rig_free(&r);
}

static void orphans_come_back_without_a_session(void **state)
{
    struct rig *r = with_suspended(40, 1);

    (void)state;
    rig_lose(r);
    r->answer_hello = false;
    while (rig_step(r)) {
    }
    rig_turn(r);
    assert_int_equal(counts(r).resumed_swap, 1);
    assert_int_equal(rig_account(r).n_suspended, 0);
    rig_advance(r, 8000000);
    r->answer_hello = true;
    rig_reconnect(r);
    rig_check_empty(r);
    rig_free(&r);
}

static void stop_frees_the_host_tier(void **state)
{
    struct rig *r = with_suspended(40, 2);

    (void)state;
    rig_free(&r); /* checks that everything is free */
}

/* ---- failures ---- */

/* Where the plan with the copies out never runs, the next one has them. */
static void refused_plan_delays_its_copies(void **state)
{
    uint32_t n_out = 0;

    (void)state;
    for (uint32_t n = 40; n < 80; n++) {
        struct rig *r = after_steps(n, 1);

        r->refuse_once = true;
        rig_run(r);
        rig_turn(r);
        rig_run(r);
        assert_int_equal(counts(r).wasted_suspended, 0);
        n_out += counts(r).resumed_swap > 0;
        finish(r, 2);
    }
    assert_true(n_out > 0);
}

/* Refuses, or fails, the n-th plan after the first suspension, for each n until
 * all have come back. */
static void any_plan_may_fail(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < 120; n++) {
        struct rig *r = with_suspended(n % 3 == 0 ? 0 : 40, 1 + n % 2);

        for (uint32_t i = 0; i < n / 2; i++) {
            assert_true(rig_step(r));
        }
        if (n % 4 < 2) {
            r->refuse_once = true;
        } else {
            r->fail_next = "it was told to";
        }
        finish(r, 2);
    }
}

static void failing_sequence_ends_alone(void **state)
{
    (void)state;
    for (uint32_t id = 1; id <= 2; id++) {
        struct rig *r = with_suspended(40, 2);
        uint32_t other = 3 - id;

        r->fails_with = id;
        rig_run(r);
        rig_advance(r, 20000);
        assert_int_equal(r->heard[id].finish,
                         SLUICE__V1__FINISH__FINISH_FAILED);
        rig_check_tokens(r, other, other, N_PROMPT, N);
        rig_free(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancel_frees_a_suspended_sequence_at_once),
        cmocka_unit_test(remove_frees_a_suspended_sequence),
        cmocka_unit_test(cancel_at_any_step),
        cmocka_unit_test(suspended_orphan_is_adopted),
        cmocka_unit_test(disowned_suspended_orphan_leaves_nothing),
        cmocka_unit_test(orphans_come_back_without_a_session),
        cmocka_unit_test(stop_frees_the_host_tier),
        cmocka_unit_test(refused_plan_delays_its_copies),
        cmocka_unit_test(any_plan_may_fail),
        cmocka_unit_test(failing_sequence_ends_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
