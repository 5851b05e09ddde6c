/* The prefix index moves pages to the host tier and brings them back. */
#include <string.h>

#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/cache/prefix_bench.h"
#include "worker/sequence/ledger.h"

static uint32_t text[8192];

/* A prompt of 300 tokens leaves 16 blocks and a state of 8 pages, at 256. */
#define N     300u
#define PAGES 24u

static const struct bench_options hybrid = {.n_pages = 400,
                                            .pages_per_slot = 8,
                                            .block_tokens = 16,
                                            .n_nodes = 100,
                                            .host_pages = 3 * PAGES};
static const struct bench_options attention = {.n_pages = 64,
                                               .block_tokens = 16,
                                               .n_nodes = 100,
                                               .no_states = true,
                                               .host_pages = 64};

static uint32_t run(struct bench *b, const char *tenant, uint32_t what,
                    uint32_t n)
{
    bench_text(text, n, what);
    return bench_run(b, tenant, text, n);
}

static struct prefix_hit find(struct bench *b, uint32_t what, uint32_t n)
{
    bench_text(text, n, what);
    return bench_match(b, "", text, n);
}

/* Evicts all that is cached. */
static void evict_all(struct bench *b)
{
    struct pool_account a = pool_pages(&b->pool);
    struct pool_need need = {{0, 0, 0}};

    need.n[b->o.no_blocks ? POOL_SLOTS : POOL_BLOCKS] = a.free + a.cached;
    prefix_make_room(b->x, &need, PREFIX_NONE);
    assert_int_equal(pool_pages(&b->pool).cached, 0);
    assert_int_equal(pool_pages(&b->pool).free, a.free + a.cached);
}

/* Counts the events that have come since the last call. */
static void events(struct bench *b, uint32_t *appeared, uint32_t *gone)
{
    struct prefix_event e[256];
    bool snapshot, more;
    uint32_t n;

    prefix_events(b->x, e, 256, &n, &snapshot, &more);
    *appeared = *gone = 0;
    for (uint32_t i = 0; i < n; i++) {
        *(e[i].n_tokens > 0 ? appeared : gone) += 1;
    }
}

static void what_is_evicted_is_found_in_the_host_tier(void **state)
{
    struct prefix_hit hit;
    struct bench b;
    uint32_t appeared, gone;

    (void)state;
    bench_begin(&b, &hybrid);
    events(&b, &appeared, &gone);
    run(&b, "", 1, N);
    events(&b, &appeared, &gone);
    assert_int_equal(appeared, 1);
    hit = find(&b, 1, N);
    assert_int_equal(hit.n_pool, 256);
    assert_int_equal(hit.host, HOST_NONE);
    evict_all(&b);
    assert_int_equal(bench_plan(&b, COPY_OUT), PAGES);
    assert_int_equal(b.host.n_used, PAGES);
    hit = find(&b, 1, N);
    assert_int_equal(hit.n_tokens, 256);
    assert_int_equal(hit.n_pool, 0);
    assert_int_equal(hit.checkpoint, SLOT_NONE);
    assert_int_not_equal(hit.host, HOST_NONE);
    /* The router need not learn where it is. */
    events(&b, &appeared, &gone);
    assert_int_equal(appeared + gone, 0);
    assert_int_equal(prefix_figures(b.x).evicted, 0);
    bench_end(&b);
}

/* Blocks come back to pages of the grant, and are cached afterwards. */
static void a_hit_brings_its_blocks_back(void **state)
{
    struct request r;
    struct bench b;

    (void)state;
    bench_begin(&b, &hybrid);
    run(&b, "", 1, N);
    evict_all(&b);
    (void)bench_plan(&b, COPY_OUT);
    bench_text(text, N, 1);
    assert_true(bench_start(&b, &r, "", text, N));
    assert_int_equal(r.hit.n_tokens, 256);
    assert_int_equal(prefix_figures(b.x).host_in, 16);
    assert_int_equal(pool_account(&b.pool, POOL_BLOCKS).held, 19);
    assert_int_equal(pool_account(&b.pool, POOL_BLOCKS).granted, 0);
    bench_computed(&b, &r);
    bench_stop(&b, &r);
    assert_int_equal(pool_account(&b.pool, POOL_BLOCKS).cached, 16);
    bench_end(&b);
}

/* The order of copies decides what they have: in after out. */
static void copies_are_in_the_order_of_decisions(void **state)
{
    struct plan_copy c[64];
    struct request r;
    struct bench b;
    uint32_t n;

    (void)state;
    bench_begin(&b, &attention);
    run(&b, "", 1, N);
    evict_all(&b);
    bench_text(text, N, 1);
    assert_true(bench_start(&b, &r, "", text, N));
    n = pool_take_moves(&b.pool, c);
    assert_in_range(n, 2, 64);
    assert_int_equal(c[0].kind, COPY_OUT);
    assert_int_equal(c[n - 1].kind, COPY_IN);
    bench_stop(&b, &r);
    bench_end(&b);
}

/* A page that came back has its copy still: to evict it again costs nothing. */
static void a_copy_that_is_there_is_not_made_again(void **state)
{
    struct bench b;

    (void)state;
    bench_begin(&b, &attention);
    run(&b, "", 1, N);
    evict_all(&b);
    assert_int_equal(bench_plan(&b, COPY_OUT), 16);
    assert_int_equal(run(&b, "", 1, N), 256);
    assert_int_equal(bench_plan(&b, COPY_IN), 16);
    evict_all(&b);
    assert_int_equal(bench_plan(&b, COPY_OUT), 0);
    assert_int_equal(find(&b, 1, N).n_tokens, 256);
    bench_end(&b);
}

static void the_least_recently_used_leaves_the_host_tier(void **state)
{
    struct bench b;
    uint32_t appeared, gone;

    (void)state;
    bench_begin(&b, &hybrid);
    events(&b, &appeared, &gone);
    for (uint32_t i = 1; i <= 3; i++) {
        run(&b, "", i, N);
        evict_all(&b);
    }
    assert_int_equal(b.host.n_used, 3 * PAGES);
    assert_int_equal(run(&b, "", 1, N), 256); /* used */
    evict_all(&b);
    (void)bench_plan(&b, COPY_OUT);
    events(&b, &appeared, &gone);
    run(&b, "", 4, N);
    evict_all(&b);
    assert_int_equal(find(&b, 2, N).n_tokens, 0);
    assert_int_equal(find(&b, 1, N).n_tokens, 256);
    assert_int_equal(find(&b, 3, N).n_tokens, 256);
    assert_int_equal(find(&b, 4, N).n_tokens, 256);
    events(&b, &appeared, &gone);
    assert_int_equal(gone, 1);
    assert_int_equal(prefix_figures(b.x).host_dropped, PAGES);
    bench_end(&b);
}

/* Without its deepest unit a prefix is shorter; the first one goes last. */
static void a_prefix_leaves_from_its_end(void **state)
{
    struct bench_options o = attention;
    struct bench b;

    (void)state;
    o.host_pages = 15;
    bench_begin(&b, &o);
    run(&b, "", 1, N);
    evict_all(&b);
    assert_int_equal(find(&b, 1, N).n_tokens, 192);
    assert_int_equal(b.host.n_used, 12);
    assert_true(prefix_host_room(b.x, 4));
    assert_int_equal(find(&b, 1, N).n_tokens, 128);
    assert_true(prefix_host_room(b.x, 15));
    assert_int_equal(find(&b, 1, N).n_tokens, 0);
    assert_false(prefix_host_room(b.x, 16));
    bench_end(&b);
}

/* A suspended sequence takes the pages of the index, not the other way. */
static void suspended_sequences_go_first(void **state)
{
    uint32_t chain, appeared, gone;
    struct bench b;

    (void)state;
    bench_begin(&b, &hybrid);
    events(&b, &appeared, &gone);
    run(&b, "", 1, N);
    evict_all(&b);
    events(&b, &appeared, &gone);
    assert_int_equal(prefix_host_pages(b.x), PAGES);
    assert_true(prefix_host_room(b.x, b.host.n_pages));
    assert_true(host_take(&b.host, b.host.n_pages, &chain));
    events(&b, &appeared, &gone);
    assert_int_equal(gone, 1);
    run(&b, "", 2, N);
    evict_all(&b);
    assert_int_equal(prefix_host_pages(b.x), 0);
    assert_int_equal(find(&b, 2, N).branch, 0);
    host_give(&b.host, chain);
    bench_end(&b);
}

static void a_tenant_has_its_share_of_the_host_tier(void **state)
{
    struct bench_options o = hybrid;
    struct bench b;

    (void)state;
    o.tenant_share = 0.4f; /* 28 pages: one prompt */
    bench_begin(&b, &o);
    run(&b, "b", 9, N);
    evict_all(&b);
    for (uint32_t i = 1; i <= 3; i++) {
        run(&b, i < 3 ? "a" : "a|salt", i, N);
        evict_all(&b);
    }
    assert_in_range(b.host.n_used, PAGES + 1, 2 * PAGES);
    bench_text(text, N, 9);
    assert_int_equal(bench_match(&b, "b", text, N).n_tokens, 256);
    bench_text(text, N, 3);
    assert_int_equal(bench_match(&b, "a|salt", text, N).n_tokens, 256);
    bench_text(text, N, 2);
    assert_int_equal(bench_match(&b, "a", text, N).n_tokens, 0);
    bench_end(&b);
}

/* An earlier turn of a session that went on takes free pages only. */
static void a_superseded_state_displaces_nothing(void **state)
{
    struct bench_options o = hybrid;
    struct bench b;

    (void)state;
    o.host_pages = PAGES;
    bench_begin(&b, &o);
    run(&b, "", 1, N);
    evict_all(&b);
    assert_int_equal(b.host.n_used, PAGES);
    run(&b, "", 2, N);
    bench_text(text, 600, 2);
    assert_int_equal(bench_run(&b, "", text, 600), 256);
    prefix_make_room(b.x,
                     &(struct pool_need){{pool_pages(&b.pool).free + 16, 0, 0}},
                     PREFIX_NONE);
    assert_int_equal(find(&b, 1, N).n_tokens, 256);
    assert_int_equal(find(&b, 2, N).n_tokens, 0);
    bench_end(&b);
}

/* A sequence that computed the same positions brings its blocks instead. */
static void blocks_that_are_inserted_again_need_no_copy(void **state)
{
    struct request first, second;
    struct bench b;

    (void)state;
    bench_begin(&b, &attention);
    bench_text(text, N, 1);
    assert_true(bench_start(&b, &first, "", text, N));
    assert_true(bench_start(&b, &second, "", text, N));
    bench_computed(&b, &first);
    bench_stop(&b, &first);
    evict_all(&b);
    assert_int_equal(bench_plan(&b, COPY_OUT), 16);
    bench_computed(&b, &second);
    bench_stop(&b, &second);
    assert_int_equal(pool_account(&b.pool, POOL_BLOCKS).cached, 16);
    assert_int_equal(find(&b, 1, N).n_pool, 256);
    assert_int_equal(run(&b, "", 1, N), 256);
    assert_int_equal(bench_plan(&b, COPY_IN), 0);
    bench_end(&b);
}

/* At its quota, a tenant evicts for a unit that is inserted again; the copy
 * that goes for that is the state which the unit leads to. */
static void a_node_stays_while_its_blocks_come_back(void **state)
{
    struct request first, second;
    struct bench_options o = hybrid;
    struct bench b;

    (void)state;
    o.tenant_share = 0.37f; /* 148 pages of the pool, 26 of the tier */
    bench_begin(&b, &o);
    bench_text(text, N, 1);
    assert_true(bench_start(&b, &first, "", text, N));
    assert_true(bench_start(&b, &second, "", text, N));
    bench_failed(&b, &second); /* it saves no state */
    bench_computed(&b, &first);
    bench_stop(&b, &first);
    evict_all(&b);
    assert_int_equal(b.host.n_used, PAGES);
    for (uint32_t i = 2; i < 8; i++) {
        run(&b, "", i, N);
    }
    assert_int_equal(b.host.n_used, PAGES);
    bench_computed(&b, &second);
    assert_int_equal(find(&b, 1, N).branch, 256);
    assert_true(prefix_figures(b.x).host_dropped >= 8);
    bench_stop(&b, &second);
    bench_end(&b);
}

/* Blocks in which the MTP layer lacks positions have copies of their own. */
static void blocks_with_holes_are_copied_again(void **state)
{
    struct request first, second;
    struct bench b;

    (void)state;
    bench_begin(&b, &attention);
    bench_text(text, N, 1);
    assert_true(bench_start(&b, &first, "", text, N));
    assert_true(bench_start(&b, &second, "", text, N));
    bench_computed(&b, &first);
    bench_stop(&b, &first);
    evict_all(&b);
    (void)bench_plan(&b, COPY_OUT);
    prefix_set_hole(b.x, true);
    bench_computed(&b, &second);
    bench_stop(&b, &second);
    assert_true(prefix_has_hole(b.x, find(&b, 1, N).node));
    assert_int_equal(b.host.n_used, 0);
    evict_all(&b);
    assert_int_equal(bench_plan(&b, COPY_OUT), 16);
    assert_true(prefix_has_hole(b.x, find(&b, 1, N).node));
    bench_end(&b);
}

/* A branch in the pool keeps the path above it there. */
static void a_path_is_in_the_pool_above_what_is_held(void **state)
{
    struct request r;
    struct bench b;

    (void)state;
    bench_begin(&b, &attention);
    run(&b, "", 1, N);
    bench_text(text, 100, 1);
    assert_true(bench_start(&b, &r, "", text, 100));
    assert_int_equal(r.hit.n_tokens, 64);
    evict_all(&b);
    assert_int_equal(bench_plan(&b, COPY_OUT), 12);
    assert_int_equal(find(&b, 1, N).n_pool, 64);
    assert_int_equal(find(&b, 1, N).n_tokens, 256);
    bench_stop(&b, &r);
    bench_end(&b);
}

static void damage_leaves_the_host_tier_too(void **state)
{
    struct bench b;

    (void)state;
    bench_begin(&b, &hybrid);
    run(&b, "", 1, N);
    evict_all(&b);
    prefix_forget(b.x, find(&b, 1, 100).node);
    assert_int_equal(b.host.n_used, PAGES);
    prefix_forget(b.x, find(&b, 1, N).node);
    assert_int_equal(b.host.n_used, 0);
    bench_end(&b);
}

/* Checkpoints of a shard without attention layers have no blocks. */
static void states_alone_go_and_come(void **state)
{
    struct bench_options o = hybrid;
    struct bench b;

    (void)state;
    o.no_blocks = true;
    o.n_pages = 40;
    bench_begin(&b, &o);
    run(&b, "", 1, N);
    prefix_make_room(b.x, &(struct pool_need){{0, 5, 0}}, PREFIX_NONE);
    assert_int_equal(bench_plan(&b, COPY_OUT), 8);
    assert_int_not_equal(find(&b, 1, N).host, HOST_NONE);
    bench_end(&b);
}

/* ---- limits ---- */

static void a_plan_has_a_limit_of_copies(void **state)
{
    struct bench_options o = attention;
    struct bench b;

    (void)state;
    bench_begin(&b, &o);
    assert_int_equal(pool_swaps_left(&b.pool), POOL_SWAPS_MAX);
    for (uint32_t i = 0; i < POOL_SWAPS_MAX; i++) {
        pool_copy_out(&b.pool, i % 2, 0); /* no two continue each other */
    }
    assert_int_equal(pool_swaps_left(&b.pool), 0);
    assert_int_equal(bench_plan(&b, COPY_OUT), POOL_SWAPS_MAX);
    assert_int_equal(pool_swaps_left(&b.pool), POOL_SWAPS_MAX);
    bench_end(&b);
}

/* The index takes a quarter of a plan's copies for what it evicts. */
static void evicted_beyond_the_limit_is_gone(void **state)
{
    for (uint32_t past = 0; past <= 1; past++) {
        struct bench b;

        bench_begin(&b, &attention);
        run(&b, "", 1, 100);
        for (uint32_t i = past; i < 4; i++) {
            pool_copy_out(&b.pool, i % 2, 0);
        }
        for (uint32_t i = 4; i < POOL_SWAPS_MAX / 4 - 4 + 2 * past; i++) {
            pool_copy_out(&b.pool, i % 2, 0);
        }
        evict_all(&b);
        assert_int_equal(find(&b, 1, 100).n_tokens, past ? 0 : 64);
        (void)bench_plan(&b, COPY_OUT);
        bench_end(&b);
    }
    (void)state;
}

/* A hit that needs more copies than the plan has left is shorter. */
static void a_hit_fits_the_plan(void **state)
{
    for (uint32_t past = 0; past <= 1; past++) {
        struct bench b;

        bench_begin(&b, &attention);
        run(&b, "", 1, N);
        evict_all(&b);
        (void)bench_plan(&b, COPY_OUT);
        for (uint32_t i = 0; i < POOL_SWAPS_MAX - 16 + past; i++) {
            pool_copy_out(&b.pool, i % 2, 0);
        }
        assert_int_equal(find(&b, 1, N).n_tokens, past ? 192 : 256);
        (void)bench_plan(&b, COPY_OUT);
        bench_end(&b);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_evicted_is_found_in_the_host_tier),
        cmocka_unit_test(a_hit_brings_its_blocks_back),
        cmocka_unit_test(copies_are_in_the_order_of_decisions),
        cmocka_unit_test(a_copy_that_is_there_is_not_made_again),
        cmocka_unit_test(the_least_recently_used_leaves_the_host_tier),
        cmocka_unit_test(a_prefix_leaves_from_its_end),
        cmocka_unit_test(suspended_sequences_go_first),
        cmocka_unit_test(a_tenant_has_its_share_of_the_host_tier),
        cmocka_unit_test(a_superseded_state_displaces_nothing),
        cmocka_unit_test(blocks_that_are_inserted_again_need_no_copy),
        cmocka_unit_test(a_node_stays_while_its_blocks_come_back),
        cmocka_unit_test(blocks_with_holes_are_copied_again),
        cmocka_unit_test(a_path_is_in_the_pool_above_what_is_held),
        cmocka_unit_test(damage_leaves_the_host_tier_too),
        cmocka_unit_test(states_alone_go_and_come),
        cmocka_unit_test(a_plan_has_a_limit_of_copies),
        cmocka_unit_test(evicted_beyond_the_limit_is_gone),
        cmocka_unit_test(a_hit_fits_the_plan),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
