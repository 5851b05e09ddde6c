#include "worker/cache/prefix.h"

#include <string.h>

#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/cache/prefix_bench.h"

static const struct bench_options hybrid = {
    .n_pages = 1024, .pages_per_slot = 8, .block_tokens = 16, .n_nodes = 256};
static const struct bench_options attention = {
    .n_pages = 256, .block_tokens = 16, .n_nodes = 64, .no_states = true};
static const struct bench_options linear = {.n_pages = 64,
                                            .pages_per_slot = 1,
                                            .block_tokens = 16,
                                            .n_nodes = 64,
                                            .no_blocks = true};

static uint32_t text[16384];

static void the_second_sighting_is_reused(void **state)
{
    const struct bench_options *all[] = {&hybrid, &attention, &linear};
    struct bench b;

    (void)state;
    bench_text(text, 300, 1);
    for (int i = 0; i < 3; i++) {
        bench_begin(&b, all[i]);
        assert_int_equal(bench_run(&b, "", text, 300), 0);
        assert_int_equal(bench_run(&b, "", text, 300), 256);
        assert_int_equal(bench_run(&b, "", text, 300), 256);
        bench_end(&b);
    }
}

static void the_last_token_is_never_reused(void **state)
{
    struct bench b;

    (void)state;
    bench_text(text, 300, 1);
    bench_begin(&b, &attention);
    bench_run(&b, "", text, 300);
    assert_int_equal(bench_match(&b, "", text, 64).n_tokens, 0);
    assert_int_equal(bench_match(&b, "", text, 65).n_tokens, 64);
    assert_int_equal(bench_match(&b, "", text, 128).n_tokens, 64);
    assert_int_equal(bench_match(&b, "", text, 129).n_tokens, 128);
    bench_end(&b);
}

static void a_difference_in_the_first_block_shares_nothing(void **state)
{
    struct bench b;

    (void)state;
    bench_text(text, 300, 1);
    bench_begin(&b, &attention);
    bench_run(&b, "", text, 300);
    text[3]++;
    assert_int_equal(bench_run(&b, "", text, 300), 0);
    text[3]--;
    assert_int_equal(bench_run(&b, "", text, 300), 256);
    bench_end(&b);
}

static void tenants_share_nothing(void **state)
{
    struct bench b;

    (void)state;
    bench_text(text, 300, 1);
    bench_begin(&b, &hybrid);
    assert_int_equal(bench_run(&b, "a", text, 300), 0);
    assert_int_equal(bench_run(&b, "b", text, 300), 0);
    assert_int_equal(bench_run(&b, "", text, 300), 0);
    assert_int_equal(bench_run(&b, "a", text, 300), 256);
    assert_int_equal(bench_match(&b, "b", text, 300).n_tokens, 256);
    assert_int_equal(bench_match(&b, "ab", text, 300).n_tokens, 0);
    assert_int_equal(prefix_figures(b.x).n_tenants, 3);
    bench_end(&b);
}

/* Only new nodes are marked, and everything below one has its hole. */
static void a_hole_marks_what_is_below_it(void **state)
{
    struct prefix_hit shallow, deep;
    struct bench b;

    (void)state;
    bench_text(text, 400, 1);
    bench_begin(&b, &attention);
    bench_run(&b, "", text, 130);
    prefix_set_hole(b.x, true);
    bench_run(&b, "", text, 260);
    prefix_set_hole(b.x, false);
    bench_run(&b, "", text, 400);
    shallow = bench_match(&b, "", text, 129);
    deep = bench_match(&b, "", text, 400);
    assert_int_equal(shallow.n_tokens, 128);
    assert_int_equal(deep.n_tokens, 384);
    assert_false(prefix_has_hole(b.x, PREFIX_NONE));
    assert_false(prefix_has_hole(b.x, shallow.node));
    assert_true(prefix_has_hole(b.x, bench_match(&b, "", text, 193).node));
    assert_true(prefix_has_hole(b.x, deep.node));
    bench_end(&b);
}

/* B97.10: never by trimming. */
static void a_hybrid_is_reused_only_where_a_state_is(void **state)
{
    struct bench b;
    struct prefix_hit hit;

    (void)state;
    bench_text(text, 400, 1);
    bench_begin(&b, &hybrid);
    bench_run(&b, "", text, 400); /* its state is at 384 */
    hit = bench_match(&b, "", text, 300);
    assert_int_equal(hit.n_tokens, 0);
    assert_int_equal(hit.branch, 256);
    hit = bench_match(&b, "", text, 385);
    assert_int_equal(hit.n_tokens, 384);
    bench_end(&b);
}

static void a_branch_gets_a_checkpoint_at_its_second_sighting(void **state)
{
    struct bench b;

    (void)state;
    bench_text(text, 400, 1);
    bench_begin(&b, &hybrid);
    bench_run(&b, "", text, 400);
    bench_text(text + 200, 200, 2);
    assert_int_equal(bench_run(&b, "", text, 400), 0);
    bench_text(text + 200, 200, 3);
    assert_int_equal(bench_run(&b, "", text, 400), 192);
    bench_end(&b);
}

static void wants_the_end_the_branch_and_a_grid(void **state)
{
    struct bench b;
    struct prefix_hit hit = {.n_tokens = 512, .branch = 640};
    uint32_t at[BENCH_SAVES];

    (void)state;
    bench_begin(&b, &hybrid);
    assert_int_equal(prefix_wants(b.x, &hit, 2000, at, BENCH_SAVES), 4);
    assert_int_equal(at[0], 640);
    assert_int_equal(at[1], 1024);
    assert_int_equal(at[2], 1536);
    assert_int_equal(at[3], 1984);
    assert_int_equal(prefix_wants(b.x, &hit, 2000, at, 2), 2);
    assert_int_equal(at[0], 640);
    assert_int_equal(at[1], 1984);
    assert_int_equal(prefix_wants(b.x, &hit, 2000, at, 1), 1);
    assert_int_equal(at[0], 1984);
    assert_int_equal(prefix_wants(b.x, &hit, 2000, at, 0), 0);
    assert_int_equal(prefix_wants(b.x, &hit, 576, at, BENCH_SAVES), 0);
    assert_int_equal(prefix_wants(b.x, &hit, 577, at, BENCH_SAVES), 1);
    hit = (struct prefix_hit){0};
    /* 16 to 8192, 8 more to 16384, one at 18432, and the end. */
    assert_int_equal(prefix_wants(b.x, &hit, 20001, at, BENCH_SAVES), 26);
    bench_end(&b);
}

static void without_states_nothing_is_saved(void **state)
{
    struct bench b;
    struct prefix_hit hit = {0};
    uint32_t at[BENCH_SAVES], checkpoint;

    (void)state;
    bench_begin(&b, &attention);
    assert_int_equal(prefix_wants(b.x, &hit, 2000, at, BENCH_SAVES), 0);
    assert_false(prefix_reserve(b.x, &checkpoint));
    bench_end(&b);
}

static void off_finds_and_keeps_nothing(void **state)
{
    struct bench_options o = hybrid;
    struct bench b;

    (void)state;
    o.off = true;
    bench_text(text, 300, 1);
    bench_begin(&b, &o);
    bench_run(&b, "", text, 300);
    assert_int_equal(bench_run(&b, "", text, 300), 0);
    assert_int_equal(pool_pages(&b.pool).cached, 0);
    bench_end(&b);
}

/* B97.9, S-226.25: the state of a checkpoint stays when its sequence goes on or
 * ends. */
static void a_released_sequence_leaves_its_checkpoints(void **state)
{
    struct bench b;
    struct request r;

    (void)state;
    bench_text(text, 300, 1);
    bench_begin(&b, &hybrid);
    assert_true(bench_start(&b, &r, "", text, 300));
    bench_computed(&b, &r);
    assert_int_equal(bench_match(&b, "", text, 300).n_tokens, 256);
    bench_stop(&b, &r);
    assert_int_equal(bench_match(&b, "", text, 300).n_tokens, 256);
    assert_int_equal(pool_account(&b.pool, POOL_BLOCKS).cached, 16);
    assert_int_equal(pool_account(&b.pool, POOL_CHECKPOINTS).cached, 1);
    bench_end(&b);
}

static void a_failed_step_leaves_nothing(void **state)
{
    struct bench b;
    struct request r;

    (void)state;
    bench_text(text, 300, 1);
    bench_begin(&b, &hybrid);
    assert_true(bench_start(&b, &r, "", text, 300));
    bench_failed(&b, &r);
    bench_stop(&b, &r);
    assert_int_equal(pool_pages(&b.pool).free, 1024);
    assert_int_equal(prefix_figures(b.x).n_nodes, 0);
    bench_end(&b);
}

static void forgets_a_damaged_path(void **state)
{
    struct bench b;
    struct prefix_hit hit;

    (void)state;
    bench_begin(&b, &hybrid);
    bench_text(text, 400, 1);
    bench_run(&b, "", text, 400);
    bench_text(text + 128, 272, 2);
    bench_run(&b, "", text, 400);
    hit = bench_match(&b, "", text, 400);
    assert_int_equal(hit.n_tokens, 384);
    prefix_forget(b.x, hit.node);
    hit = bench_match(&b, "", text, 400);
    assert_int_equal(hit.n_tokens, 128); /* the other path uses it, too */
    prefix_forget(b.x, PREFIX_NONE);
    bench_text(text, 400, 1);
    assert_int_equal(bench_match(&b, "", text, 400).n_tokens, 384);
    bench_end(&b);
}

static void clear_frees_everything(void **state)
{
    struct bench b;

    (void)state;
    bench_begin(&b, &hybrid);
    for (uint32_t i = 0; i < 4; i++) {
        bench_text(text, 400, i);
        bench_run(&b, i % 2 ? "a" : "", text, 400);
    }
    prefix_clear(b.x);
    assert_int_equal(pool_pages(&b.pool).free, 1024);
    assert_int_equal(prefix_figures(b.x).n_checkpoints, 0);
    bench_end(&b);
}

static void all_that_is_cached_can_be_granted(void **state)
{
    struct bench b;
    struct pool_need need = {{0, 0, 0}};
    struct pool_account a;

    (void)state;
    bench_begin(&b, &hybrid);
    for (uint32_t i = 0; i < 40; i++) {
        bench_text(text, 700, i);
        bench_run(&b, "", text, 700);
    }
    a = pool_pages(&b.pool);
    assert_int_equal(a.held, 0);
    need.n[POOL_BLOCKS] = a.free + a.cached + 1;
    prefix_make_room(b.x, &need, PREFIX_NONE);
    assert_int_equal(pool_grant(&b.pool, &need, NULL), ST_RESOURCE_EXHAUSTED);
    need.n[POOL_BLOCKS]--;
    prefix_make_room(b.x, &need, PREFIX_NONE);
    assert_int_equal(pool_grant(&b.pool, &need, NULL), ST_OK);
    pool_ungrant(&b.pool, &need);
    bench_end(&b);
}

static void what_is_held_stays_when_its_node_goes(void **state)
{
    struct bench b;
    struct request r, other;
    struct pool_need need = {{0, 0, 0}};

    (void)state;
    bench_begin(&b, &hybrid);
    bench_text(text, 400, 1);
    /* Both compute the same, so that the first one's blocks are indexed. */
    assert_true(bench_start(&b, &r, "", text, 400));
    bench_text(text + 300, 340, 2);
    assert_true(bench_start(&b, &other, "", text, 640));
    bench_computed(&b, &r);
    bench_computed(&b, &other);
    bench_stop(&b, &r);
    need.n[POOL_BLOCKS] = pool_pages(&b.pool).free + pool_pages(&b.pool).cached;
    assert_true(pool_pages(&b.pool).cached > 0);
    prefix_make_room(b.x, &need, PREFIX_NONE);
    assert_int_equal(pool_grant(&b.pool, &need, NULL), ST_OK);
    assert_int_equal(pool_account(&b.pool, POOL_BLOCKS).held, 40);
    pool_ungrant(&b.pool, &need);
    bench_stop(&b, &other);
    bench_end(&b);
}

static void a_reservation_is_taken_back_for_a_grant(void **state)
{
    struct bench b;
    struct request r;
    struct pool_need need = {{0, 0, 0}};

    (void)state;
    bench_begin(&b, &hybrid);
    bench_text(text, 400, 1);
    assert_true(bench_start(&b, &r, "", text, 400));
    assert_int_equal(r.n_saves, 1);
    need.n[POOL_BLOCKS] = pool_pages(&b.pool).free + pool_pages(&b.pool).cached;
    prefix_make_room(b.x, &need, PREFIX_NONE);
    assert_int_equal(pool_grant(&b.pool, &need, NULL), ST_OK);
    bench_computed(&b, &r); /* its checkpoint is ignored */
    assert_int_equal(bench_match(&b, "", text, 400).n_tokens, 0);
    pool_ungrant(&b.pool, &need);
    bench_stop(&b, &r);
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_second_sighting_is_reused),
        cmocka_unit_test(the_last_token_is_never_reused),
        cmocka_unit_test(a_difference_in_the_first_block_shares_nothing),
        cmocka_unit_test(tenants_share_nothing),
        cmocka_unit_test(a_hole_marks_what_is_below_it),
        cmocka_unit_test(a_hybrid_is_reused_only_where_a_state_is),
        cmocka_unit_test(a_branch_gets_a_checkpoint_at_its_second_sighting),
        cmocka_unit_test(wants_the_end_the_branch_and_a_grid),
        cmocka_unit_test(without_states_nothing_is_saved),
        cmocka_unit_test(off_finds_and_keeps_nothing),
        cmocka_unit_test(a_released_sequence_leaves_its_checkpoints),
        cmocka_unit_test(a_failed_step_leaves_nothing),
        cmocka_unit_test(forgets_a_damaged_path),
        cmocka_unit_test(clear_frees_everything),
        cmocka_unit_test(all_that_is_cached_can_be_granted),
        cmocka_unit_test(what_is_held_stays_when_its_node_goes),
        cmocka_unit_test(a_reservation_is_taken_back_for_a_grant),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
