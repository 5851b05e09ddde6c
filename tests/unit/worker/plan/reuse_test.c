/* Prefixes that are restored and kept: what is computed, what is held, and that
 * tokens never depend on it. */
#include <string.h>

#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig.h"

static void defaults(struct worker_options *o)
{
    rig_defaults(o);
    o->pool.n_pages = 512;
    o->reuse = true;
}

/* Writes a prompt of n ids that begins like prompt `first` for `same` ids. */
static void make_prompt(uint32_t *out, uint32_t n, uint32_t first,
                        uint32_t same, uint32_t then)
{
    for (uint32_t i = 0; i < n; i++) {
        out[i] = rig_prompt_id(i < same ? first : then, i);
    }
}

/* Runs a prompt to its end and checks its tokens; returns how many positions
 * were computed for it. */
static uint32_t run(struct rig *r, struct rig_submit *s)
{
    struct rig_prompt p = {.ids = s->prompt,
                           .n = s->n_prompt,
                           .spans = s->spans,
                           .n_spans = s->n_spans,
                           .choice = s->choice};
    uint32_t before = r->n_computed, expect[RIG_CONTEXT];
    uint64_t tag = rig_submit(r, s);

    rig_turn(r);
    rig_check_ok(r, tag);
    rig_run(r);
    rig_expect_prompt(r, &p, s->max_tokens, expect);
    assert_int_equal(r->heard[r->grant].n, s->max_tokens);
    assert_memory_equal(r->heard[r->grant].tokens, expect,
                        s->max_tokens * sizeof *expect);
    return r->n_computed - before;
}

/* The chained row after the last token is computed with two plans in flight
 * only if another token may follow, so n + tokens - 1 positions are. */
#define COLD(n, tokens) ((n) + (tokens)-1)

static void restores_what_came_before(void **state)
{
    for (uint32_t depth = 1; depth <= 2; depth++) {
        struct worker_options o;
        struct rig *r;
        uint32_t ids[300];
        struct rig_submit s = {
            .id = 1, .n_prompt = 300, .max_tokens = 5, .prompt = ids};

        defaults(&o);
        o.engine_depth = depth;
        r = rig_new(&o);
        make_prompt(ids, 300, 7, 300, 0);
        assert_int_equal(run(r, &s), COLD(300, 5));
        assert_int_equal(r->heard[r->grant].reused, 0);
        s.id = 2;
        assert_int_equal(run(r, &s), COLD(300, 5) - 256);
        assert_int_equal(r->heard[r->grant].reused, 256);
        /* Twice the same prompt holds no block twice. */
        assert_int_equal(rig_account(r).blocks.cached, 256 / 8);
        rig_free(&r);
    }
    (void)state;
}

static void restores_at_a_branch_once_seen(void **state)
{
    struct worker_options o;
    struct rig *r;
    uint32_t ids[400];
    struct rig_submit s = {
        .id = 1, .n_prompt = 400, .max_tokens = 2, .prompt = ids};

    (void)state;
    defaults(&o);
    r = rig_new(&o);
    make_prompt(ids, 400, 1, 400, 0);
    assert_int_equal(run(r, &s), COLD(400, 2));
    for (uint32_t i = 2; i <= 4; i++) {
        uint32_t computed;

        s.id = i;
        make_prompt(ids, 400, 1, 200, i);
        computed = run(r, &s);
        /* The first branch saves at 192, the others restore it. */
        assert_true(i == 2 ? computed <= COLD(400, 2)
                           : computed == COLD(400, 2) - 192);
    }
    rig_free(&r);
}

/* A row has room for PLAN_SAVES_MAX saves; the deepest ones serve most. */
static void saves_the_end_of_a_long_chunk(void **state)
{
    static uint32_t ids[3000];
    struct worker_options o;
    struct rig *r;
    struct rig_submit s = {
        .id = 1, .n_prompt = 3000, .max_tokens = 2, .prompt = ids};

    (void)state;
    defaults(&o);
    o.pool.n_pages = 2048;
    o.context = o.step_tokens = o.chunk_tokens = RIG_IDS;
    r = rig_new(&o);
    make_prompt(ids, 3000, 1, 3000, 0);
    assert_int_equal(run(r, &s), COLD(3000, 2));
    s.id = 2;
    assert_int_equal(run(r, &s), COLD(3000, 2) - 2944);
    rig_free(&r);
}

static void shares_nothing_within_the_first_unit(void **state)
{
    struct worker_options o;
    struct rig *r;
    uint32_t ids[200];
    struct rig_submit s = {
        .id = 1, .n_prompt = 200, .max_tokens = 2, .prompt = ids};

    (void)state;
    defaults(&o);
    r = rig_new(&o);
    make_prompt(ids, 200, 1, 200, 0);
    run(r, &s);
    ids[5] ^= 1;
    s.id = 2;
    assert_int_equal(run(r, &s), COLD(200, 2));
    assert_int_equal(r->heard[r->grant].reused, 0);
    rig_free(&r);
}

static void tenants_and_salts_share_nothing(void **state)
{
    static const char *const names[] = {"a", "b", NULL, "a", "a", "a"};
    static const char *const salts[] = {NULL, NULL, NULL, NULL, "x", "x"};
    struct worker_options o;
    struct rig *r;
    uint32_t ids[200];
    struct rig_submit s = {.n_prompt = 200, .max_tokens = 2, .prompt = ids};

    (void)state;
    defaults(&o);
    r = rig_new(&o);
    make_prompt(ids, 200, 1, 200, 0);
    for (uint32_t i = 0; i < 6; i++) {
        bool again = i == 3 || i == 5;

        s.id = i + 1;
        s.tenant = names[i];
        s.salt = salts[i];
        assert_int_equal(run(r, &s), COLD(200, 2) - (again ? 192 : 0));
    }
    rig_free(&r);
}

static void leaves_nothing_and_takes_nothing_without_cache(void **state)
{
    struct worker_options o;
    struct rig *r;
    uint32_t ids[200];
    struct rig_submit s = {.id = 1,
                           .n_prompt = 200,
                           .max_tokens = 100,
                           .prompt = ids,
                           .no_cache = true};

    (void)state;
    defaults(&o);
    r = rig_new(&o);
    make_prompt(ids, 200, 1, 200, 0);
    run(r, &s);
    assert_int_equal(rig_account(r).pages.cached, 0);
    s.id = 2;
    s.no_cache = false;
    assert_int_equal(run(r, &s), COLD(200, 100));
    assert_true(rig_account(r).pages.cached > 0);
    s.id = 3;
    s.no_cache = true;
    assert_int_equal(run(r, &s), COLD(200, 100));
    rig_free(&r);
    defaults(&o);
    o.reuse = false;
    r = rig_new(&o);
    s.no_cache = false;
    s.id = 1;
    run(r, &s);
    s.id = 2;
    assert_int_equal(run(r, &s), COLD(200, 100));
    assert_int_equal(rig_account(r).pages.cached, 0);
    rig_free(&r);
}

/* A client's next turn: the prompt, the answer, and more. */
static void restores_generated_text_with_one_arithmetic(void **state)
{
    for (int one = 0; one < 2; one++) {
        struct worker_options o;
        struct rig *r;
        uint32_t ids[500];
        struct rig_submit s = {
            .id = 1, .n_prompt = 100, .max_tokens = 200, .prompt = ids};

        defaults(&o);
        o.one_arithmetic = one == 1;
        r = rig_new(&o);
        make_prompt(ids, 500, 1, 100, 2);
        run(r, &s);
        memcpy(ids + 100, r->heard[r->grant].tokens, 200 * sizeof *ids);
        s.id = 2;
        s.n_prompt = 400;
        s.max_tokens = 3;
        /* 299 positions were computed; decode saved at 256. */
        assert_int_equal(run(r, &s), COLD(400, 3) - (one ? 256 : 64));
        rig_free(&r);
    }
    (void)state;
}

/* Bits of prompt rows and of generated rows differ here: what was generated is
 * never restored as a prompt, and the other way round. */
static void never_mixes_kinds(void **state)
{
    struct worker_options o;
    struct rig *r;
    uint32_t ids[500], spans[] = {100, 200, 100};
    struct rig_submit s = {.id = 1,
                           .n_prompt = 400,
                           .max_tokens = 3,
                           .prompt = ids,
                           .spans = spans,
                           .n_spans = 3};

    (void)state;
    defaults(&o);
    o.one_arithmetic = false;
    r = rig_new(&o);
    make_prompt(ids, 500, 1, 500, 0);
    assert_int_equal(run(r, &s), COLD(400, 3));
    s.id = 2;
    s.n_spans = 0; /* all prompt: only the first run is the same */
    assert_int_equal(run(r, &s), COLD(400, 3) - 64);
    s.id = 3;
    s.n_spans = 3;
    assert_int_equal(run(r, &s), COLD(400, 3) - 64);
    s.id = 4;
    s.n_spans = 0;
    assert_int_equal(run(r, &s), COLD(400, 3) - 384);
    rig_free(&r);
}

/* The router counts cached pages as room: a grant evicts. */
static void evicts_before_it_refuses(void **state)
{
    struct worker_options o;
    struct rig *r;
    uint32_t ids[400];
    struct rig_submit s = {.n_prompt = 400, .max_tokens = 100, .prompt = ids};

    (void)state;
    defaults(&o);
    o.pool.n_pages = 70;
    r = rig_new(&o);
    for (uint32_t i = 1; i <= 6; i++) {
        struct class_account a;

        s.id = i;
        make_prompt(ids, 400, i, 400, 0);
        run(r, &s);
        a = rig_account(r).pages;
        assert_int_equal(a.free + a.cached, 70);
        assert_true(a.cached > 30);
    }
    rig_free(&r);
}

/* Saves that a plan in flight makes are cached pages too. */
static void takes_back_what_is_about_to_be_saved(void **state)
{
    struct worker_options o;
    struct rig *r;
    uint32_t ids[400];
    struct rig_submit s = {
        .id = 1, .n_prompt = 200, .max_tokens = 56, .prompt = ids};
    uint64_t tag;

    (void)state;
    defaults(&o);
    o.pool.pages_per_slot = 8;
    o.pool.n_pages = 32 + 8 + 32 + 8;
    r = rig_new(&o);
    make_prompt(ids, 400, 1, 400, 0);
    rig_submit(r, &s);
    rig_turn(r);
    rig_step(r); /* the second chunk saves near the end of the prompt */
    assert_int_equal(rig_account(r).checkpoints.cached, 1);
    s.id = 2;
    tag = rig_submit(r, &s);
    rig_turn(r);
    rig_check_ok(r, tag);
    assert_int_equal(rig_account(r).checkpoints.cached, 0);
    rig_run(r);
    rig_check_ok(r, tag);
    assert_int_equal(r->heard[1].n, 56);
    assert_int_equal(r->heard[2].n, 56);
    assert_memory_equal(r->heard[1].tokens, r->heard[2].tokens,
                        56 * sizeof *ids);
    rig_free(&r);
}

/* ---- failures ---- */

static void keeps_nothing_of_a_failed_step(void **state)
{
    for (uint32_t depth = 1; depth <= 2; depth++) {
        struct worker_options o;
        struct rig *r;
        uint32_t ids[300], before;
        struct rig_submit s = {
            .id = 1, .n_prompt = 300, .max_tokens = 5, .prompt = ids};

        defaults(&o);
        o.engine_depth = depth;
        o.chunk_tokens = 128;
        r = rig_new(&o);
        make_prompt(ids, 300, 7, 300, 0);
        r->fail_next = "a failure";
        rig_submit(r, &s);
        rig_turn(r);
        rig_step(r);
        rig_run(r);
        before = r->n_computed;
        assert_true(before >= COLD(300, 5));
        s.id = 2;
        assert_int_equal(run(r, &s), COLD(300, 5) - 256);
        rig_free(&r);
    }
    (void)state;
}

/* The steps before the failed one were good, and the index has them. */
static void computes_again_from_a_checkpoint(void **state)
{
    struct worker_options o;
    struct rig *r;
    uint32_t ids[300], before, expect[RIG_CONTEXT];
    struct rig_prompt p = {.ids = ids, .n = 300};
    struct rig_submit s = {
        .id = 1, .n_prompt = 300, .max_tokens = 9, .prompt = ids};

    (void)state;
    defaults(&o);
    r = rig_new(&o);
    make_prompt(ids, 300, 7, 300, 0);
    rig_submit(r, &s);
    rig_turn(r);
    for (int i = 0; i < 5; i++) { /* three chunks, and two tokens */
        rig_step(r);
    }
    assert_int_equal(r->heard[1].n, 3);
    r->fail_next = "a failure";
    rig_step(r);
    before = r->n_computed;
    rig_run(r);
    rig_expect_prompt(r, &p, 9, expect);
    assert_memory_equal(r->heard[1].tokens, expect, 9 * sizeof *expect);
    assert_int_equal(r->n_computed - before, COLD(300, 9) - 256);
    rig_free(&r);
}

/* One that shares blocks writes them again when it is computed from an earlier
 * checkpoint; the others see no change. */
static void rewrites_shared_blocks_with_the_same_bits(void **state)
{
    for (uint32_t fail = 1; fail <= 6; fail++) {
        struct worker_options o;
        struct rig *r;
        uint32_t ids[300], expect[RIG_CONTEXT];
        struct rig_prompt p = {.ids = ids, .n = 300};
        struct rig_submit s = {
            .id = 1, .n_prompt = 300, .max_tokens = 9, .prompt = ids};

        defaults(&o);
        o.engine_depth = 2;
        r = rig_new(&o);
        make_prompt(ids, 300, 7, 300, 0);
        rig_expect_prompt(r, &p, 9, expect);
        run(r, &s);
        for (s.id = 2; s.id <= 4; s.id++) {
            rig_submit(r, &s);
        }
        rig_turn(r);
        for (uint32_t i = 0; i < fail; i++) {
            rig_step(r);
        }
        r->fail_next = "a failure";
        rig_step(r);
        rig_run(r);
        for (uint32_t g = 2; g <= 4; g++) {
            assert_int_equal(r->heard[g].n, 9);
            assert_memory_equal(r->heard[g].tokens, expect, 9 * sizeof *expect);
        }
        rig_free(&r);
    }
    (void)state;
}

static void forgets_what_is_damaged(void **state)
{
    struct worker_options o;
    struct rig *r;
    uint32_t ids[300];
    struct rig_submit s = {
        .id = 1, .n_prompt = 300, .max_tokens = 5, .prompt = ids};

    (void)state;
    defaults(&o);
    r = rig_new(&o);
    make_prompt(ids, 300, 7, 300, 0);
    run(r, &s);
    s.id = 2;
    r->damaged = 2;
    rig_submit(r, &s);
    rig_turn(r);
    rig_run(r);
    assert_int_equal(r->heard[2].finish, SLUICE__V1__FINISH__FINISH_FAILED);
    assert_int_equal(rig_account(r).pages.cached, 0);
    s.id = 3;
    assert_int_equal(run(r, &s), COLD(300, 5));
    rig_free(&r);
}

static void undoes_a_plan_that_is_refused(void **state)
{
    struct worker_options o;
    struct rig *r;
    uint32_t ids[300], expect[RIG_CONTEXT];
    struct rig_prompt p = {.ids = ids, .n = 300};
    struct rig_submit s = {
        .id = 1, .n_prompt = 300, .max_tokens = 5, .prompt = ids};

    (void)state;
    defaults(&o);
    o.pool.n_pages = 120;
    o.pool.pages_per_slot = 5;
    r = rig_new(&o);
    make_prompt(ids, 300, 7, 300, 0);
    rig_expect_prompt(r, &p, 5, expect);
    run(r, &s);
    s.id = 2;
    rig_submit(r, &s);
    r->refuse_once = true;
    rig_turn(r);
    rig_run(r);
    assert_int_equal(r->heard[2].n, 5);
    assert_memory_equal(r->heard[2].tokens, expect, 5 * sizeof *expect);
    rig_free(&r);
}

/* ---- endings ---- */

/* However it ends, blocks that others use stay, and what was computed of the
 * prompt is found. */
static void cancelled_at_any_moment(void **state)
{
    for (uint32_t steps = 0; steps <= 8; steps++) {
        struct worker_options o;
        struct rig *r;
        uint32_t ids[300];
        struct rig_submit s = {
            .id = 1, .n_prompt = 300, .max_tokens = 9, .prompt = ids};

        defaults(&o);
        o.engine_depth = 1 + steps % 2;
        r = rig_new(&o);
        make_prompt(ids, 300, 7, 300, 0);
        run(r, &s);
        s.id = 2;
        rig_submit(r, &s);
        s.id = 3;
        rig_submit(r, &s);
        rig_turn(r);
        for (uint32_t i = 0; i < steps; i++) {
            rig_step(r);
        }
        rig_cancel(r, 2);
        rig_turn(r);
        rig_run(r);
        assert_int_equal(r->heard[3].n, 9);
        assert_memory_equal(r->heard[1].tokens, r->heard[3].tokens,
                            9 * sizeof *ids);
        s.id = 4;
        assert_int_equal(run(r, &s), COLD(300, 9) - 256);
        rig_free(&r);
    }
    (void)state;
}

static void survives_the_end_of_a_session(void **state)
{
    struct worker_options o;
    struct rig *r;
    uint32_t ids[300];
    struct rig_submit s = {
        .id = 1, .n_prompt = 300, .max_tokens = 9, .prompt = ids};

    (void)state;
    defaults(&o);
    r = rig_new(&o);
    make_prompt(ids, 300, 7, 300, 0);
    rig_submit(r, &s);
    rig_turn(r);
    rig_step(r);
    rig_step(r);
    rig_lose(r);
    rig_reconnect(r);
    rig_run(r);
    rig_disown(r, 1, 0);
    rig_turn(r);
    rig_check_empty(r);
    s.id = 2;
    assert_int_equal(run(r, &s), COLD(300, 9) - 256);
    rig_free(&r);
}

/* ---- the counter model ---- */

/* A token is the sum of all ids before it: 1 2 3 give 6 4, and 1 2 3 6 4 7 give
 * 7 6, whatever is restored.  Zeros in front make whole units. */
static void counts_alike_cold_and_warm(void **state)
{
    static const uint32_t first[] = {1, 2, 3}, second[] = {1, 2, 3, 6, 4, 7};

    for (int warm = 0; warm < 2; warm++) {
        struct worker_options o;
        struct rig *r;
        uint32_t ids[200] = {0};
        struct rig_submit s = {.id = 1,
                               .n_prompt = 128,
                               .max_tokens = 2,
                               .prompt = ids,
                               .ignore_eos = true};

        defaults(&o);
        o.reuse = warm == 1;
        r = rig_new(&o);
        r->counts = true;
        memcpy(ids + 125, first, sizeof first);
        rig_submit(r, &s);
        rig_turn(r);
        rig_run(r);
        assert_int_equal(r->heard[1].tokens[0], 6);
        assert_int_equal(r->heard[1].tokens[1], 4);
        memcpy(ids + 125, second, sizeof second);
        s.id = 2;
        s.n_prompt = 131;
        rig_submit(r, &s);
        rig_turn(r);
        rig_run(r);
        assert_int_equal(r->heard[2].tokens[0], 7);
        assert_int_equal(r->heard[2].tokens[1], 6);
        assert_int_equal(r->heard[2].reused, warm ? 128 : 0);
        rig_free(&r);
    }
    (void)state;
}

/* ---- shards of one kind ---- */

static void serves_shards_of_one_kind(void **state)
{
    for (int kind = 0; kind < 2; kind++) {
        struct worker_options o;
        struct rig *r;
        uint32_t ids[300];
        struct rig_submit s = {
            .id = 1, .n_prompt = 300, .max_tokens = 5, .prompt = ids};

        defaults(&o);
        o.pool.pages_per_block = kind == 0 ? 0 : 1;
        o.pool.pages_per_slot = kind == 0 ? 1 : 0;
        r = rig_new(&o);
        make_prompt(ids, 300, 7, 300, 0);
        assert_int_equal(run(r, &s), COLD(300, 5));
        s.id = 2;
        assert_int_equal(run(r, &s), COLD(300, 5) - 256);
        rig_free(&r);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restores_what_came_before),
        cmocka_unit_test(restores_at_a_branch_once_seen),
        cmocka_unit_test(saves_the_end_of_a_long_chunk),
        cmocka_unit_test(shares_nothing_within_the_first_unit),
        cmocka_unit_test(tenants_and_salts_share_nothing),
        cmocka_unit_test(leaves_nothing_and_takes_nothing_without_cache),
        cmocka_unit_test(restores_generated_text_with_one_arithmetic),
        cmocka_unit_test(never_mixes_kinds),
        cmocka_unit_test(evicts_before_it_refuses),
        cmocka_unit_test(takes_back_what_is_about_to_be_saved),
        cmocka_unit_test(keeps_nothing_of_a_failed_step),
        cmocka_unit_test(computes_again_from_a_checkpoint),
        cmocka_unit_test(rewrites_shared_blocks_with_the_same_bits),
        cmocka_unit_test(forgets_what_is_damaged),
        cmocka_unit_test(undoes_a_plan_that_is_refused),
        cmocka_unit_test(cancelled_at_any_moment),
        cmocka_unit_test(survives_the_end_of_a_session),
        cmocka_unit_test(counts_alike_cold_and_warm),
        cmocka_unit_test(serves_shards_of_one_kind),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
