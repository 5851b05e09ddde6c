/* Bugs planted in the pool and its index (common/base/plant.h), each of which
 * its scenario finds.  Without a bug no scenario finds anything. */
#include <string.h>

#include "common/base/log.h"
#include "common/base/plant.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/cache/prefix_bench.h"
#include "worker/sequence/ledger.h"
#include "worker/sequence/windows.h"

enum plant plant_active = PLANT_NONE;

static const struct bench_options hybrid = {
    .n_pages = 400, .pages_per_slot = 8, .block_tokens = 16, .n_nodes = 100};

static uint32_t text[1024];

/* As bench_end(), which would fail. */
static void drop(struct bench *b)
{
    prefix_free(&b->x);
    host_fini(&b->host);
    slab_fini(&b->slab);
    pool_fini(&b->pool);
}

/* Two sequences share a block, and one of them ends. */
static bool a_reference_is_missing(void)
{
    struct sequence_limits l = {
        .capacity = 4, .longest = 64, .values = 512, .hash_seed = 1};
    struct pool_options o = {.n_pages = 8, .pages_per = {1, 0, 0}};
    struct pool_need need = {{2, 0, 0}};
    struct sequence_table table;
    struct sequence *s[2];
    struct ledger ledger;
    struct pool pool;
    uint32_t block, n;

    assert_true(pool_init(&pool, &o, false));
    assert_true(sequence_table_init(&table, &l, &pool));
    assert_true(ledger_init(&ledger, &pool, NULL));
    for (int i = 0; i < 2; i++) {
        s[i] = sequence_new(&table, 4, 2);
        assert_int_equal(pool_grant(&pool, &need, NULL), ST_OK);
        s[i]->memory.need = need;
        if (i == 0) {
            assert_true(pool_take(&pool, POOL_BLOCKS, 1, &block));
        } else {
            pool_share(&pool, block, true);
        }
        paged_write(&table.slab, &s[i]->memory.blocks, s[i]->memory.n_blocks++,
                    &block, 1);
    }
    sequence_release(&table, s[0]);
    n = ledger_audit(&ledger, &pool, &table, NULL, 0);
    ledger_fini(&ledger);
    sequence_table_fini(&table);
    pool_fini(&pool);
    return n > 0;
}

/* The state at 256 is found at another position. */
static bool a_checkpoint_is_astray(void)
{
    struct prefix_hit hit;
    struct request r;
    struct bench b;
    uint32_t checkpoint;

    bench_begin(&b, &hybrid);
    bench_text(text, 300, 1);
    assert_true(bench_start(&b, &r, "", text, 300));
    assert_int_equal(r.at[0], 256);
    checkpoint = r.saves[0];
    bench_computed(&b, &r);
    bench_stop(&b, &r);
    hit = bench_match(&b, "", text, 300);
    drop(&b);
    return hit.checkpoint == checkpoint && hit.n_tokens != 256;
}

static bool tenants_share(void)
{
    struct bench b;
    uint32_t n;

    bench_begin(&b, &hybrid);
    bench_text(text, 300, 1);
    bench_run(&b, "a", text, 300);
    bench_run(&b, "b", text + 1, 200);
    n = bench_match(&b, "b", text, 300).n_tokens;
    drop(&b);
    return n > 0;
}

/* Counts what a mirror has after the events, and compares. */
static bool a_mirror_differs(void)
{
    struct prefix_event events[64];
    bool snapshot, more;
    uint32_t n, there = 0;
    struct bench b;

    bench_begin(&b, &hybrid);
    prefix_events(b.x, events, 64, &n, &snapshot, &more);
    for (uint32_t i = 0; i < 4; i++) {
        bench_text(text, 200 + 64 * i, i);
        bench_run(&b, "", text, 200 + 64 * i);
    }
    prefix_clear(b.x);
    prefix_events(b.x, events, 64, &n, &snapshot, &more);
    for (uint32_t i = 0; i < n; i++) {
        there += events[i].n_tokens > 0 ? 1 : UINT32_MAX;
    }
    drop(&b);
    return there != 0;
}

static bool what_is_held_goes(void)
{
    struct pool_need need = {{400, 0, 0}};
    struct pool_account a;
    struct request r;
    struct bench b;

    bench_begin(&b, &hybrid);
    bench_text(text, 300, 1);
    assert_true(bench_start(&b, &r, "", text, 300));
    bench_computed(&b, &r);
    prefix_make_room(b.x, &need, PREFIX_NONE);
    a = pool_account(&b.pool, POOL_BLOCKS);
    drop(&b);
    return a.held != 19;
}

/* A sequence slides over 40 positions.  Returns whether a row does not find
 * what it sees, or the account is wrong. */
static bool a_window_is_wrong(void)
{
    struct sequence_limits l = {
        .capacity = 2,
        .longest = 64,
        .values = 512,
        .hash_seed = 1,
        .windows = {
            .window = 6, .pages = 2, .block_tokens = 4, .chunk_tokens = 1}};
    struct pool_options o = {.n_pages = 20, .pages_per = {1, 0, 0, 1}};
    struct pool_need need = {{0, 0, 0, 6}};
    struct sequence_table table;
    struct ledger ledger;
    struct sequence *s;
    struct pool pool;
    bool found = false;

    assert_true(pool_init(&pool, &o, false));
    assert_true(sequence_table_init(&table, &l, &pool));
    assert_true(ledger_init(&ledger, &pool, NULL));
    s = sequence_new(&table, 0, 0);
    assert_true(windows_make(&table, s, 3));
    assert_int_equal(pool_grant(&pool, &need, NULL), ST_OK);
    s->memory.need = need;
    for (uint32_t at = 0; at < 40 && !found; at++) {
        uint32_t seen = at < 6 ? 0 : at - 6 + 1;

        found = !windows_move(&table, s, at, at + 1) ||
                !windows_trim(&table, s, at) ||
                s->memory.window_first * 4 > seen ||
                ledger_audit(&ledger, &pool, &table, NULL, 0) > 0;
    }
    sequence_release(&table, s);
    ledger_fini(&ledger);
    sequence_table_fini(&table);
    pool_fini(&pool);
    return found;
}

/* Runs a prompt whose prefix is in the host tier.  c[n]: its copies, one a
 * page; blocks: its table. */
static uint32_t come_back(struct bench *b, struct plan_copy *c,
                          uint32_t *blocks)
{
    static struct plan_copy made[PLAN_COPIES_MAX];
    struct bench_options o = {.n_pages = 64,
                              .block_tokens = 16,
                              .n_nodes = 32,
                              .no_states = true,
                              .host_pages = 64};
    struct pool_need need = {{64, 0, 0}};
    uint32_t n, n_pages = 0;
    struct request r;

    bench_begin(b, &o);
    bench_text(text, 300, 1);
    bench_run(b, "", text, 300);
    prefix_make_room(b->x, &need, PREFIX_NONE);
    (void)bench_plan(b, COPY_OUT);
    assert_true(bench_start(b, &r, "", text, 300));
    n = pool_take_moves(&b->pool, made);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < made[i].n; k++) {
            c[n_pages++] = (struct plan_copy){made[i].from + k, made[i].to + k,
                                              1, made[i].kind};
        }
    }
    for (uint32_t i = 0; i < 16; i++) {
        blocks[i] = pool_page(&b->pool, paged_get(&b->slab, &r.blocks, i));
    }
    bench_stop(b, &r);
    return n_pages;
}

/* The pages of a unit come back in the order in which they went. */
static bool blocks_come_back_wrong(void)
{
    struct plan_copy c[64];
    uint32_t blocks[16], n, n_found = 0;
    struct bench b;

    n = come_back(&b, c, blocks);
    for (uint32_t i = 0; i < 16; i++) {
        for (uint32_t k = 0; k < n; k++) {
            /* Four units of four host pages, the last one first. */
            n_found += c[k].kind == COPY_IN && c[k].to == blocks[i] &&
                       c[k].from == (3 - i / 4) * 4 + i % 4;
        }
    }
    drop(&b);
    return n_found != 16;
}

static bool host_pages_are_left(void)
{
    struct plan_copy c[64];
    uint32_t blocks[16], left;
    struct bench b;

    (void)come_back(&b, c, blocks);
    prefix_clear(b.x);
    left = b.host.n_used;
    drop(&b);
    return left > 0;
}

/* A block moves for a slot, goes to the host tier, and is freed. */
static bool a_copy_reads_a_stale_page(void)
{
    struct pool_options o = {.n_pages = 8, .pages_per = {1, 4, 4}};
    struct pool_need need = {{5, 0, 0}}, slot = {{0, 1, 0}};
    uint32_t blocks[5], page, n, s;
    struct plan_copy moves[8];
    struct pool pool;
    bool stale;

    assert_true(pool_init(&pool, &o, false));
    assert_int_equal(pool_grant(&pool, &need, NULL), ST_OK);
    assert_true(pool_take(&pool, POOL_BLOCKS, 5, blocks));
    for (uint32_t i = 1; i < 4; i++) {
        pool_release(&pool, POOL_BLOCKS, blocks[i]);
    }
    assert_int_equal(pool_grant(&pool, &slot, NULL), ST_OK);
    assert_true(pool_take(&pool, POOL_SLOTS, 1, &s));
    assert_int_equal(pool.n_moves, 1);
    for (uint32_t i = 0; i < 5; i += 4) {
        page = pool_page(&pool, blocks[i]);
        if (pool.blocks[blocks[i]].arrives > 0) {
            pool_copy_out(&pool, page, 0);
        }
        pool_release(&pool, POOL_BLOCKS, blocks[i]);
    }
    n = pool_take_moves(&pool, moves);
    stale = n != 2 || moves[0].kind != COPY_PAGES || moves[0].n != 1;
    pool_fini(&pool);
    return stale;
}

static void scenarios_find_planted_bugs(void **state)
{
    static const struct {
        enum plant plant;
        bool (*finds)(void);
    } rows[] = {
        {PLANT_REFERENCE_TWICE, a_reference_is_missing},
        {PLANT_CHECKPOINT_ASTRAY, a_checkpoint_is_astray},
        {PLANT_HASH_WITHOUT_TENANT, tenants_share},
        {PLANT_EVENT_LOST, a_mirror_differs},
        {PLANT_EVICTED_HELD, what_is_held_goes},
        {PLANT_WINDOW_FREED_EARLY, a_window_is_wrong},
        {PLANT_WINDOW_KEPT, a_window_is_wrong},
        {PLANT_WINDOW_MISCOUNTED, a_window_is_wrong},
        {PLANT_CACHED_SWAP_LOST, blocks_come_back_wrong},
        {PLANT_CACHED_SWAP_ASTRAY, blocks_come_back_wrong},
        {PLANT_CACHED_HOST_LEAKS, host_pages_are_left},
        {PLANT_SWAP_STALE, a_copy_reads_a_stale_page},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        plant_active = PLANT_NONE;
        assert_false(rows[i].finds());
        plant_active = rows[i].plant;
        assert_true(rows[i].finds());
    }
    plant_active = PLANT_NONE;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scenarios_find_planted_bugs),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
