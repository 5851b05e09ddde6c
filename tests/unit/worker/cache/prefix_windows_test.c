/* Window pages in the prefix index.
 *
 * Blocks have 16 positions, so a unit has 4; windows have 100 positions and 2
 * tables: to go on behind a node takes the window pages of 2 units, 8 each. */
#include <string.h>

#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "worker/cache/prefix.h"

#define BLOCK  16u
#define UNIT   (PREFIX_UNIT / BLOCK)
#define TABLES 2u
#define PAGES  200u
#define UNITS  10u

static struct bench {
    struct pool pool;
    struct prefix *x;
    struct slab slab;
} bench;

/* A prompt of whole units, with all that computing it takes. */
struct prompt {
    struct paged ids, blocks;
    uint32_t n, windows[UNITS * UNIT * TABLES];
    uint32_t node;
};

static void begin_with(float tenant_share, uint32_t window)
{
    struct pool_options p = {.n_pages = PAGES, .pages_per = {1, 0, 0, 1}};
    struct prefix_options o = {.block_tokens = BLOCK,
                               .n_nodes = 40,
                               .has_blocks = true,
                               .window = window,
                               .window_pages = TABLES,
                               .checkpoint_share = 1,
                               .tenant_share = tenant_share,
                               .on = true};

    assert_true(pool_init(&bench.pool, &p, false));
    assert_true(prefix_init(&bench.x, &o, &bench.pool));
    assert_true(slab_init(&bench.slab, 1024, 1 << 16, 64));
}

static int begin(void **state)
{
    (void)state;
    begin_with(1, 100);
    return 0;
}

static int end(void **state)
{
    (void)state;
    assert_int_equal(bench.pool.violations, 0);
    prefix_clear(bench.x);
    assert_int_equal(bench.pool.free, PAGES);
    prefix_free(&bench.x);
    slab_fini(&bench.slab);
    pool_fini(&bench.pool);
    return 0;
}

/* Computes n units, whose tokens depend on `what` from unit `from` on, and
 * inserts them. */
static void compute(struct prompt *p, uint32_t n, uint32_t from, uint32_t what)
{
    uint32_t n_windows = n * UNIT * TABLES, block;
    struct pool_need need = {{n * UNIT, 0, 0, n_windows}};

    memset(p, 0, sizeof *p);
    p->n = n;
    assert_true(paged_make(&bench.slab, &p->ids, n * PREFIX_UNIT + 1));
    assert_true(paged_make(&bench.slab, &p->blocks, n * UNIT));
    for (uint32_t i = 0; i <= n * PREFIX_UNIT; i++) {
        uint32_t id = i + 1000 * (i >= from * PREFIX_UNIT ? what : 1);

        paged_write(&bench.slab, &p->ids, i, &id, 1);
    }
    prefix_make_room(bench.x, &need, PREFIX_NONE);
    assert_int_equal(pool_grant(&bench.pool, &need, NULL), ST_OK);
    for (uint32_t i = 0; i < n * UNIT; i++) {
        assert_true(pool_take(&bench.pool, POOL_BLOCKS, 1, &block));
        paged_write(&bench.slab, &p->blocks, i, &block, 1);
    }
    assert_true(pool_take(&bench.pool, POOL_WINDOWS, n_windows, p->windows));
    p->node = prefix_insert(bench.x, "", 0, &bench.slab, &p->ids, &p->blocks,
                            n * PREFIX_UNIT);
    assert_int_not_equal(p->node, PREFIX_NONE);
}

/* Gives units [first, end) their window pages. */
static void put(const struct prompt *p, uint32_t first, uint32_t end)
{
    uint32_t units[UNITS];

    prefix_units(bench.x, p->node, units);
    for (uint32_t i = first; i < end; i++) {
        prefix_put_windows(bench.x, units[i],
                           p->windows + (size_t)i * UNIT * TABLES, 0);
    }
}

static void stop(struct prompt *p)
{
    for (uint32_t i = 0; i < p->n * UNIT; i++) {
        pool_release(&bench.pool, POOL_BLOCKS,
                     paged_get(&bench.slab, &p->blocks, i));
    }
    for (uint32_t i = 0; i < p->n * UNIT * TABLES; i++) {
        pool_release(&bench.pool, POOL_WINDOWS, p->windows[i]);
    }
}

static struct prefix_hit match(const struct prompt *p, uint32_t n_units)
{
    return prefix_match(bench.x, "", 0, &bench.slab, &p->ids,
                        n_units * PREFIX_UNIT + 1);
}

static void hits(const struct prompt *p, uint32_t n_units, uint32_t at)
{
    assert_int_equal(match(p, n_units).n_tokens, at * PREFIX_UNIT);
}

static uint32_t cached_windows(void)
{
    return pool_account(&bench.pool, POOL_WINDOWS).cached;
}

/* Makes n more pages free than now. */
static void evict(uint32_t n)
{
    struct pool_need need = {{bench.pool.free + n, 0, 0, 0}};

    prefix_make_room(bench.x, &need, PREFIX_NONE);
}

static void a_hit_has_the_pages_of_its_window(void **state)
{
    struct prompt p;

    (void)state;
    compute(&p, 6, 0, 1);
    hits(&p, 6, 0);
    put(&p, 3, 4); /* a window at 256 reaches back to 157, in unit 2 */
    hits(&p, 6, 0);
    put(&p, 2, 3);
    hits(&p, 6, 4);
    assert_int_equal(match(&p, 3).n_tokens, 0); /* unit 1 has none */
    put(&p, 0, 1);
    hits(&p, 1, 1); /* a window at 64 begins at 0 */
    put(&p, 4, 6);
    hits(&p, 6, 6);
    stop(&p);
    hits(&p, 6, 6);
    assert_int_equal(cached_windows(), 5 * UNIT * TABLES);
}

/* A window of 33 positions at the end of a unit needs its last two blocks. */
static void a_small_window_needs_the_end_of_a_unit(void **state)
{
    uint32_t units[UNITS], got[UNIT * TABLES];
    struct prompt p;

    end(state);
    begin_with(1, 33);
    compute(&p, 4, 0, 1);
    prefix_units(bench.x, p.node, units);
    prefix_put_windows(bench.x, units[2], p.windows + 11 * TABLES, 3);
    hits(&p, 4, 0);
    prefix_put_windows(bench.x, units[2], p.windows + 10 * TABLES, 2);
    hits(&p, 4, 3);
    prefix_windows(bench.x, units[2], 10, got);
    assert_memory_equal(got, p.windows + 10 * TABLES, 2 * TABLES * 4);
    stop(&p);
    assert_int_equal(cached_windows(), 2 * TABLES);
    evict(PAGES - bench.pool.free);
}

static void a_hit_names_the_pages_of_its_window(void **state)
{
    uint32_t got[UNITS * UNIT * TABLES];
    struct prompt p;
    struct prefix_hit hit;

    (void)state;
    compute(&p, 5, 0, 1);
    put(&p, 0, 5);
    hit = match(&p, 5);
    for (uint32_t first = 0; first < 5 * UNIT; first++) {
        prefix_windows(bench.x, hit.node, first, got);
        assert_memory_equal(got, p.windows + (size_t)first * TABLES,
                            (5 * UNIT - first) * TABLES * sizeof *got);
    }
    stop(&p);
}

/* Only the last two units of a prompt that nothing branches off are needed to
 * go on, so the others go first, and blocks later. */
static void spent_windows_go_before_blocks(void **state)
{
    struct prompt p;

    (void)state;
    compute(&p, 6, 0, 1);
    put(&p, 0, 6);
    stop(&p);
    evict(4 * UNIT * TABLES);
    assert_int_equal(cached_windows(), 2 * UNIT * TABLES);
    assert_int_equal(pool_account(&bench.pool, POOL_BLOCKS).cached, 6 * UNIT);
    hits(&p, 6, 6);
    evict(1);
    hits(&p, 6, 0); /* the last unit has gone, with its windows */
    assert_int_equal(pool_account(&bench.pool, POOL_BLOCKS).cached, 5 * UNIT);
    assert_int_equal(cached_windows(), UNIT * TABLES);
}

/* Two prompts with three units in common. */
static void windows_of_a_branch_point_stay(void **state)
{
    struct prompt p, q;

    (void)state;
    compute(&p, 5, 0, 1);
    put(&p, 0, 5);
    compute(&q, 5, 3, 2);
    hits(&q, 5, 3); /* it goes on there: units 1 and 2 are used */
    put(&q, 3, 5);
    stop(&p);
    stop(&q);
    while (cached_windows() > 6 * UNIT * TABLES) {
        evict(1);
    }
    hits(&p, 5, 5);
    hits(&q, 5, 5);
    hits(&p, 3, 3);
}

static void every_cached_page_can_be_freed(void **state)
{
    struct prompt p;
    uint32_t held = 3 * UNIT * TABLES;

    (void)state;
    compute(&p, 6, 0, 1);
    put(&p, 0, 6);
    for (uint32_t i = 0; i < held; i++) { /* the blocks are held too */
        pool_release(&bench.pool, POOL_WINDOWS, p.windows[i]);
    }
    assert_int_equal(cached_windows(), held);
    evict(held);
    assert_int_equal(cached_windows(), 0);
    assert_int_equal(bench.pool.free, PAGES - 6 * UNIT - held);
    for (uint32_t i = 0; i < held; i++) {
        struct pool_need one = {{0, 0, 0, 1}};

        assert_int_equal(pool_grant(&bench.pool, &one, NULL), ST_OK);
        assert_true(pool_take(&bench.pool, POOL_WINDOWS, 1, &p.windows[i]));
    }
    stop(&p);
}

/* A page that its sequence gives back is promised again at once. */
static void a_promise_evicts_or_takes_the_page(void **state)
{
    struct pool_need rest = {{0}}, more = {{0}};
    struct prompt p, q;

    (void)state;
    compute(&p, 2, 0, 1);
    put(&p, 0, 2);
    compute(&q, 2, 0, 2);
    put(&q, 0, 2);
    stop(&q);
    rest.n[POOL_BLOCKS] = bench.pool.free;
    assert_int_equal(pool_grant(&bench.pool, &rest, NULL), ST_OK);
    assert_false(pool_return(&bench.pool, p.windows[0]));
    assert_true(prefix_free_page(bench.x)); /* of the other prompt */
    assert_true(pool_return(&bench.pool, p.windows[0]));
    hits(&p, 2, 2);
    hits(&q, 2, 1);
    /* If nothing could be evicted, the index would lose the page. */
    prefix_drop_window(bench.x, p.windows[1]);
    hits(&p, 2, 0);
    more.n[POOL_BLOCKS] = bench.pool.free;
    assert_int_equal(pool_grant(&bench.pool, &more, NULL), ST_OK);
    assert_true(pool_return(&bench.pool, p.windows[1]));
    pool_ungrant(&bench.pool, &rest);
    pool_ungrant(&bench.pool, &more);
    assert_true(pool_take(&bench.pool, POOL_WINDOWS, 2, p.windows));
    stop(&p);
}

static void a_tenant_at_its_quota_keeps_no_windows(void **state)
{
    struct prompt p;
    uint32_t most;

    end(state);
    begin_with(0.2f,
               100); /* 40 pages: 24 of blocks, and two units of windows */
    compute(&p, 6, 0, 1);
    put(&p, 0, 6);
    assert_int_equal(prefix_tenant_pages(bench.x, &most),
                     6 * UNIT + 2 * UNIT * TABLES);
    assert_int_equal(most, 40);
    hits(&p, 6, 2);
    stop(&p);
}

/* The pages of twins: one that the index has is not put again. */
static void a_page_is_in_the_index_once(void **state)
{
    uint32_t own[2 * UNIT * TABLES];
    struct prompt p, q;

    (void)state;
    compute(&p, 2, 0, 1);
    compute(&q, 2, 0, 2);
    put(&p, 0, 2);
    memcpy(own, q.windows, sizeof own);
    memcpy(q.windows, p.windows, sizeof own);
    put(&q, 0, 2);
    hits(&p, 2, 2);
    hits(&q, 2, 0);
    memcpy(q.windows, own, sizeof own);
    put(&q, 0, 2);
    hits(&q, 2, 2);
    put(&q, 0, 2); /* it has some */
    stop(&p);
    stop(&q);
}

/* The events lead to the digest's content. */
static void events_follow_the_windows(void **state)
{
    struct prefix_event e[64];
    bool snapshot, more;
    struct prompt p;
    uint32_t n;

    (void)state;
    prefix_events(bench.x, e, 64, &n, &snapshot, &more);
    compute(&p, 4, 0, 1);
    prefix_events(bench.x, e, 64, &n, &snapshot, &more);
    assert_int_equal(n, 0);
    put(&p, 1, 3);
    prefix_events(bench.x, e, 64, &n, &snapshot, &more);
    assert_int_equal(n, 2);
    assert_int_equal(e[0].n_tokens, 2 * PREFIX_UNIT);
    assert_int_equal(e[1].n_tokens, 3 * PREFIX_UNIT);
    (void)prefix_digest(bench.x, &n);
    assert_int_equal(n, 2);
    stop(&p);
    evict(PAGES - bench.pool.free);
    prefix_events(bench.x, e, 64, &n, &snapshot, &more);
    assert_int_equal(n, 2);
    assert_int_equal(e[0].n_tokens + e[1].n_tokens, 0);
    (void)prefix_digest(bench.x, &n);
    assert_int_equal(n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
        TEST(a_hit_has_the_pages_of_its_window),
        TEST(a_small_window_needs_the_end_of_a_unit),
        TEST(a_hit_names_the_pages_of_its_window),
        TEST(spent_windows_go_before_blocks),
        TEST(windows_of_a_branch_point_stay),
        TEST(every_cached_page_can_be_freed),
        TEST(a_promise_evicts_or_takes_the_page),
        TEST(a_tenant_at_its_quota_keeps_no_windows),
        TEST(a_page_is_in_the_index_once),
        TEST(events_follow_the_windows),
#undef TEST
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
