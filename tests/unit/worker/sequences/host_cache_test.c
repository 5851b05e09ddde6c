/* Prefixes that were evicted to the host tier and come back.  The rig compares
 * each row with what the copies brought. */
#include <string.h>

#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig.h"
#include "worker/base/metrics.h"

#define N_PROMPT 300u
#define N        5u
#define UNITS    256u /* of the prompt, in tokens */

static struct worker_metrics counts(const struct rig *r)
{
    struct worker_metrics m;

    worker_counts(r->worker, &m);
    return m;
}

/* A pool for two prompts, and a host tier for many. */
static void defaults(struct worker_options *o)
{
    rig_defaults(o);
    o->pool.n_pages = 110;
    o->pool.host_pages = 400;
    o->reuse = true;
}

static void make_prompt(uint32_t *ids, uint32_t n, uint32_t what)
{
    for (uint32_t i = 0; i < n; i++) {
        ids[i] = rig_prompt_id(what, i);
    }
}

static void submit(struct rig *r, uint32_t id, const uint32_t *ids)
{
    struct rig_submit s = {.id = id,
                           .n_prompt = N_PROMPT,
                           .max_tokens = N,
                           .ignore_eos = true,
                           .prompt = ids};
    uint64_t tag = rig_submit(r, &s);

    rig_turn(r);
    rig_check_ok(r, tag);
}

static void check(const struct rig *r, uint32_t grant, const uint32_t *ids)
{
    struct rig_prompt p = {.ids = ids, .n = N_PROMPT};
    uint32_t expect[RIG_CONTEXT];

    rig_expect_prompt(r, &p, N, expect);
    assert_int_equal(r->heard[grant].n, N);
    assert_memory_equal(r->heard[grant].tokens, expect, N * sizeof *expect);
}

/* Runs prompt `what` to its end; returns the positions that were computed. */
static uint32_t run(struct rig *r, uint32_t id, uint32_t what)
{
    uint32_t ids[N_PROMPT], before = r->n_computed;

    make_prompt(ids, N_PROMPT, what);
    submit(r, id, ids);
    rig_run(r);
    check(r, (uint32_t)r->grant, ids);
    return r->n_computed - before;
}

/* Runs the prompt, then others until the pool has nothing of it. */
static struct rig *with_evicted(const struct worker_options *o)
{
    struct rig *r = rig_new(o);

    assert_int_equal(run(r, 1, 1), N_PROMPT + N - 1);
    for (uint32_t i = 2; i <= 5; i++) {
        (void)run(r, i, i);
    }
    assert_true(counts(r).cached_out > UNITS / 8);
    assert_int_equal(counts(r).reused_host_tokens, 0);
    return r;
}

static void what_was_evicted_is_not_computed_again(void **state)
{
    for (uint32_t depth = 1; depth <= 2; depth++) {
        for (uint32_t pages_per_slot = 0; pages_per_slot <= 8;
             pages_per_slot += 4) {
            struct worker_options o;
            struct rig *r;

            defaults(&o);
            o.engine_depth = depth;
            o.pool.pages_per_slot = pages_per_slot;
            r = with_evicted(&o);
            assert_int_equal(run(r, 6, 1), N_PROMPT + N - 1 - UNITS);
            assert_int_equal(r->heard[r->grant].reused, UNITS);
            assert_int_equal(counts(r).reused_host_tokens, UNITS);
            assert_int_equal(counts(r).cached_in, UNITS / 8 + pages_per_slot);
            rig_free(&r);
        }
    }
    (void)state;
}

/* The router sends requests to where their prefixes are on the host, too. */
static void the_router_sees_it_as_restorable(void **state)
{
    struct worker_options o;
    uint32_t ids[N_PROMPT];
    struct rig *r;

    (void)state;
    defaults(&o);
    r = with_evicted(&o);
    make_prompt(ids, N_PROMPT, 1);
    rig_advance(r, 20000);
    assert_int_equal(rig_index_find(r, "", ids, N_PROMPT), UNITS);
    rig_free(&r);
}

static void windows_come_back(void **state)
{
    struct worker_options o;
    struct rig *r;

    (void)state;
    defaults(&o);
    o.window = 60;
    o.pool.window_pages = 2;
    o.pool.pages_per_slot = 0;
    o.chunk_tokens = 64;
    o.pool.n_pages = 150;
    r = with_evicted(&o);
    assert_int_equal(run(r, 6, 1), N_PROMPT + N - 1 - UNITS);
    assert_int_equal(counts(r).reused_host_tokens, UNITS);
    /* 8 window blocks of two pages are before position 256. */
    assert_int_equal(counts(r).cached_in, UNITS / 8 + 8 * 2);
    rig_free(&r);
}

/* Copies of a plan that never ran go with the next one. */
static void refused_plan_delays_the_copies(void **state)
{
    for (uint32_t depth = 1; depth <= 2; depth++) {
        struct worker_options o;
        uint32_t ids[N_PROMPT];
        struct rig *r;

        defaults(&o);
        o.engine_depth = depth;
        r = with_evicted(&o);
        make_prompt(ids, N_PROMPT, 1);
        r->refuse_once = true;
        submit(r, 6, ids);
        rig_run(r);
        rig_turn(r);
        rig_run(r);
        check(r, (uint32_t)r->grant, ids);
        rig_free(&r);
    }
    (void)state;
}

static void failed_step_keeps_what_came_back(void **state)
{
    struct worker_options o;
    uint32_t ids[N_PROMPT], computed;
    struct rig *r;

    (void)state;
    defaults(&o);
    r = with_evicted(&o);
    make_prompt(ids, N_PROMPT, 1);
    computed = r->n_computed;
    submit(r, 6, ids);
    r->fail_next = "it was told to";
    rig_run(r);
    check(r, (uint32_t)r->grant, ids);
    assert_in_range(r->n_computed - computed, 0, 2 * (N_PROMPT - UNITS) + N);
    rig_free(&r);
}

/* Two that hit the same prefix in one plan share its blocks. */
static void one_copy_serves_two_sequences(void **state)
{
    struct worker_options o;
    uint32_t ids[N_PROMPT], in;
    struct rig *r;

    (void)state;
    defaults(&o);
    r = with_evicted(&o);
    in = (uint32_t)counts(r).cached_in;
    make_prompt(ids, N_PROMPT, 1);
    submit(r, 6, ids);
    submit(r, 7, ids);
    rig_run(r);
    check(r, (uint32_t)r->grant - 1, ids);
    check(r, (uint32_t)r->grant, ids);
    assert_in_range(counts(r).cached_in - in, UNITS / 8,
                    UNITS / 8 + 2 * o.pool.pages_per_slot);
    rig_free(&r);
}

/* Cancels at every step of a sequence whose prefix comes back. */
static void cancelled_at_any_moment(void **state)
{
    for (uint32_t steps = 0; steps <= 6; steps++) {
        struct worker_options o;
        uint32_t ids[N_PROMPT];
        struct rig *r;

        defaults(&o);
        o.engine_depth = 1 + steps % 2;
        r = with_evicted(&o);
        make_prompt(ids, N_PROMPT, 1);
        submit(r, 6, ids);
        for (uint32_t i = 0; i < steps; i++) {
            rig_step(r);
        }
        rig_cancel(r, 6);
        rig_turn(r);
        rig_run(r);
        assert_int_equal(run(r, 7, 1), N_PROMPT + N - 1 - UNITS);
        rig_free(&r);
    }
    (void)state;
}

/* Suspended sequences push prefixes out of the host tier. */
static void suspended_sequence_goes_before_prefixes(void **state)
{
    struct worker_options o;
    struct rig *r;

    (void)state;
    defaults(&o);
    o.pool.n_pages = 60;
    o.pool.host_pages = 60;
    r = rig_new(&o);
    for (uint32_t i = 1; i <= 4; i++) {
        (void)run(r, i, i);
    }
    assert_true(rig_account(r).host_cached > 30);
    rig_advance(r, 300000);
    assert_int_equal(r->tier.cached, rig_account(r).host_cached);
    assert_int_equal(r->tier.waiting + r->tier.kept, 0);
    for (uint32_t id = 5; id <= 7; id++) {
        struct rig_submit s = {.id = id,
                               .n_prompt = 100,
                               .max_tokens = 200,
                               .grows = 8,
                               .ignore_eos = true};

        rig_submit(r, &s);
        rig_turn(r);
    }
    rig_run(r);
    assert_true(counts(r).resumed_swap > 0);
    assert_true(counts(r).cached_dropped > 0);
    for (uint32_t id = 5; id <= 7; id++) {
        rig_check_tokens(r, id, id, 100, 200);
    }
    rig_advance(r, 20000);
    rig_free(&r);
}

/* Without a host tier nothing changes. */
static void nothing_is_copied_without_a_host_tier(void **state)
{
    struct worker_options o;
    struct rig *r;

    (void)state;
    defaults(&o);
    o.pool.host_pages = 0;
    r = rig_new(&o);
    for (uint32_t i = 1; i <= 6; i++) {
        (void)run(r, i, i);
    }
    assert_int_equal(counts(r).cached_out + counts(r).cached_in, 0);
    assert_int_equal(run(r, 7, 1), N_PROMPT + N - 1);
    rig_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_evicted_is_not_computed_again),
        cmocka_unit_test(the_router_sees_it_as_restorable),
        cmocka_unit_test(windows_come_back),
        cmocka_unit_test(refused_plan_delays_the_copies),
        cmocka_unit_test(failed_step_keeps_what_came_back),
        cmocka_unit_test(one_copy_serves_two_sequences),
        cmocka_unit_test(cancelled_at_any_moment),
        cmocka_unit_test(suspended_sequence_goes_before_prefixes),
        cmocka_unit_test(nothing_is_copied_without_a_host_tier),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
