/* Window pages in the pool, in the tables of sequences, and in the audit.
 *
 * Blocks have 4 positions, windows 10, rows at most 6, and a window block has
 * 2 pages: a sequence needs ceil(16 / 4) + 1 = 5 window blocks at most. */
#include "worker/sequence/windows.h"

#include <string.h>

#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "worker/sequence/ledger.h"

#define PAGES  45
#define LIVE   4
#define TABLES 2
#define OTHERS 3 /* sequences without windows */
#define CHUNK  6u
#define LONG   90 /* most positions of a sequence */

static const struct window_rules rules = {
    .window = 10, .pages = TABLES, .block_tokens = 4, .chunk_tokens = CHUNK};

struct bench {
    struct pool pool;
    struct sequence_table table;
    struct ledger ledger;
    char text[1024];
};

static int begin(void **state)
{
    static struct bench b;
    struct pool_options o = {.n_pages = PAGES, .pages_per = {1, 3, 3, 1}};
    struct sequence_limits l = {.capacity = LIVE + OTHERS,
                                .longest = 64,
                                .values = 1024,
                                .hash_seed = 1,
                                .windows = rules};

    assert_true(pool_init(&b.pool, &o, true));
    assert_true(sequence_table_init(&b.table, &l, &b.pool));
    assert_true(ledger_init(&b.ledger, &b.pool, NULL));
    *state = &b;
    return 0;
}

static int end(void **state)
{
    struct bench *b = *state;

    ledger_fini(&b->ledger);
    sequence_table_fini(&b->table);
    pool_fini(&b->pool);
    return 0;
}

static uint32_t audit(struct bench *b)
{
    return ledger_audit(&b->ledger, &b->pool, &b->table, b->text,
                        sizeof b->text);
}

static void holds(struct bench *b)
{
    if (audit(b) != 0) {
        fail_msg("%s", b->text);
    }
    assert_int_equal(b->pool.violations, 0);
}

static void check(const struct bench *b, uint32_t held, uint32_t cached,
                  uint32_t granted)
{
    struct pool_account a = pool_account(&b->pool, POOL_WINDOWS);

    assert_int_equal(a.total, PAGES);
    assert_int_equal(a.held, held);
    assert_int_equal(a.cached, cached);
    assert_int_equal(a.granted, granted);
    assert_int_equal(a.free, pool_pages(&b->pool).free);
}

/* Returns a sequence of n positions with its need; NULL if there is no room. */
static struct sequence *open_sequence(struct bench *b, uint32_t n)
{
    struct pool_need need = {{0, 0, 0, windows_blocks(&rules, n) * TABLES}};
    struct sequence *s;

    if (b->table.n_live == LIVE + OTHERS ||
        pool_grant(&b->pool, &need, NULL) != ST_OK) {
        return NULL;
    }
    s = sequence_new(&b->table, 0, 0);
    assert_non_null(s);
    assert_true(windows_make(&b->table, s, windows_blocks(&rules, n)));
    s->memory.need = need;
    return s;
}

static void close_sequence(struct bench *b, struct sequence *s)
{
    sequence_release(&b->table, s);
    sequence_free(&b->table, &s);
}

/* ---- the pool ---- */

/* Every extent of three pages has two window pages, and a slot needs one. */
static void window_pages_make_way_for_a_slot(void **state)
{
    struct bench *b = *state;
    struct pool_need need = {{0, 0, 0, PAGES}}, slot = {{0, 1, 0, 0}};
    struct plan_copy moves[PAGES];
    uint32_t got[PAGES], number;

    assert_int_equal(pool_grant(&b->pool, &need, NULL), ST_OK);
    assert_true(pool_take(&b->pool, POOL_WINDOWS, PAGES, got));
    for (uint32_t i = 0; i < PAGES; i++) {
        if (pool_page(&b->pool, got[i]) % 3 == 0) {
            pool_release(&b->pool, POOL_WINDOWS, got[i]);
            got[i] = PLACE_NONE;
        }
    }
    assert_int_equal(pool_grant(&b->pool, &slot, NULL), ST_OK);
    assert_true(pool_take(&b->pool, POOL_SLOTS, 1, &number));
    assert_int_equal(pool_take_moves(&b->pool, moves), 2);
    for (uint32_t i = 0; i < PAGES; i++) {
        uint32_t page =
            got[i] == PLACE_NONE ? PLACE_NONE : pool_page(&b->pool, got[i]);

        assert_true(page == PLACE_NONE || page / 3 != number / 3);
    }
    check(b, PAGES / 3 * 2, 0, 0);
    assert_int_equal(b->pool.violations, 0);
}

static void a_returned_page_stays_promised(void **state)
{
    struct bench *b = *state;
    struct pool_need three = {{0, 0, 0, 3}}, all = {{PAGES - 3, 0, 0, 0}};
    uint32_t got[3], block;

    assert_int_equal(pool_grant(&b->pool, &three, NULL), ST_OK);
    assert_true(pool_take(&b->pool, POOL_WINDOWS, 2, got));
    check(b, 2, 0, 1);
    assert_int_equal(pool_grant(&b->pool, &all, NULL), ST_OK);
    assert_true(pool_return(&b->pool, got[0]));
    check(b, 1, 0, 2);
    assert_int_equal(pool_pages(&b->pool).free, 0);
    /* Its page is free, and promised: the other grant does not need it. */
    assert_true(pool_take(&b->pool, POOL_BLOCKS, 1, &block));
    assert_true(pool_take(&b->pool, POOL_WINDOWS, 2, got + 1));
    check(b, 3, 0, 0);
    assert_int_equal(b->pool.violations, 0);
}

static void a_shared_page_keeps_a_promise_for_each_sharer(void **state)
{
    struct bench *b = *state;
    struct pool_need four = {{0, 0, 0, 4}};
    uint32_t page, own;

    assert_int_equal(pool_grant(&b->pool, &four, NULL), ST_OK);
    assert_true(pool_take(&b->pool, POOL_WINDOWS, 1, &page));
    pool_share_window(&b->pool, page);
    check(b, 1, 0, 3); /* two of one sequence, two of the other */
    assert_true(pool_return(&b->pool, page));
    check(b, 1, 0, 3); /* the first one may take another page for it */
    assert_true(pool_take(&b->pool, POOL_WINDOWS, 1, &own));
    check(b, 2, 0, 2);
    pool_share_window(&b->pool, page);
    pool_release(&b->pool, POOL_WINDOWS, page);
    check(b, 2, 0, 1); /* the end of a sharer frees its promise */
    pool_release(&b->pool, POOL_WINDOWS, page);
    check(b, 1, 0, 1);
    assert_int_equal(b->pool.violations, 0);
}

static void a_cached_page_is_shared_for_a_grant(void **state)
{
    struct bench *b = *state;
    struct pool_need one = {{0, 0, 0, 1}}, rest = {{0, 0, 0, PAGES - 2}};
    uint32_t page;

    assert_int_equal(pool_grant(&b->pool, &one, NULL), ST_OK);
    assert_true(pool_take(&b->pool, POOL_WINDOWS, 1, &page));
    pool_index(&b->pool, page);
    assert_true(pool_return(&b->pool, page));
    check(b, 0, 1, 1);
    pool_share_window(&b->pool, page);
    check(b, 1, 0, 0);
    /* Without a free page it cannot be cached and promised. */
    assert_int_equal(pool_grant(&b->pool, &rest, NULL), ST_OK);
    assert_true(pool_return(&b->pool, page));
    check(b, 0, 1, PAGES - 1);
    pool_share_window(&b->pool, page);
    assert_int_equal(pool_grant(&b->pool, &one, NULL), ST_OK);
    assert_false(pool_return(&b->pool, page));
    check(b, 1, 0, PAGES - 1);
    pool_unindex(&b->pool, page);
    assert_true(pool_return(&b->pool, page));
    check(b, 0, 0, PAGES);
    assert_int_equal(b->pool.violations, 0);
}

static void classes_are_not_mixed_up(void **state)
{
    struct bench *b = *state;
    struct pool_need need = {{2, 0, 0, 2}};
    uint32_t block, page;

    assert_int_equal(pool_grant(&b->pool, &need, NULL), ST_OK);
    assert_true(pool_take(&b->pool, POOL_BLOCKS, 1, &block));
    assert_true(pool_take(&b->pool, POOL_WINDOWS, 1, &page));
    pool_release(&b->pool, POOL_WINDOWS, block);
    pool_release(&b->pool, POOL_BLOCKS, page);
    pool_share(&b->pool, page, false);
    pool_share_window(&b->pool, block);
    assert_true(pool_return(&b->pool, block));
    assert_int_equal(b->pool.violations, 5);
    check(b, 1, 0, 1);
    pool_release(&b->pool, POOL_BLOCKS, block);
    pool_release(&b->pool, POOL_WINDOWS, page);
    assert_true(pool_return(&b->pool, page)); /* it is not held any more */
    assert_int_equal(b->pool.violations, 6);
    check(b, 0, 0, 1);
}

/* ---- tables ---- */

/* Moves s over all of its positions in rows of n. */
static void run(struct bench *b, struct sequence *s, uint32_t end, uint32_t n)
{
    for (uint32_t at = s->plan.n_planned; at < end; at = s->plan.n_planned) {
        uint32_t to = at + n < end ? at + n : end;

        assert_true(windows_move(&b->table, s, at, to));
        holds(b);
        assert_true(windows_trim(&b->table, s, at));
        assert_int_equal(s->memory.window_first,
                         at < rules.window ? 0 : (at - rules.window + 1) / 4);
        assert_int_equal(s->memory.window_first + s->memory.n_windows,
                         (to + 3) / 4);
        s->plan.n_planned = to;
        holds(b);
    }
}

static void gives_back_what_no_row_sees_any_more(void **state)
{
    struct bench *b = *state;

    for (uint32_t n = 1; n <= CHUNK; n++) {
        struct sequence *s = open_sequence(b, LONG);

        run(b, s, LONG, n);
        assert_int_equal(s->memory.need.n[POOL_WINDOWS], 5 * TABLES);
        close_sequence(b, s);
        holds(b);
        check(b, 0, 0, 0);
    }
}

static void a_row_longer_than_the_need_is_refused(void **state)
{
    struct bench *b = *state;
    struct sequence *s = open_sequence(b, LONG);

    /* Positions 30 to 49: blocks 5 to 12. */
    run(b, s, 30, CHUNK);
    assert_false(windows_move(&b->table, s, 30, 50));
    close_sequence(b, s);
    s = open_sequence(b, 9); /* 3 blocks */
    assert_true(windows_move(&b->table, s, 0, 12));
    assert_false(windows_move(&b->table, s, 0, 13));
    close_sequence(b, s);
    holds(b);
}

static void a_row_whose_window_is_gone_is_refused(void **state)
{
    struct bench *b = *state;
    struct sequence *s = open_sequence(b, LONG);

    run(b, s, 40, CHUNK); /* the last row at 36 keeps blocks 6 to 9 */
    assert_true(windows_reach(&b->table, s, 33)); /* sees 24 on */
    assert_false(windows_reach(&b->table, s, 32));
    assert_true(windows_reach(&b->table, s, 0));
    assert_false(windows_reach(&b->table, s, 3)); /* in a block that is gone */
    assert_false(windows_reach(&b->table, s, 44));
    assert_true(windows_move(&b->table, s, 0, 6)); /* it begins anew */
    assert_int_equal(s->memory.window_first, 0);
    assert_int_equal(s->memory.n_windows, 2);
    holds(b);
    assert_false(windows_move(&b->table, s, 32, 33));
    close_sequence(b, s);
}

static void a_twin_shares_what_its_next_row_sees(void **state)
{
    struct bench *b = *state;
    struct sequence *s = open_sequence(b, LONG), *t = open_sequence(b, LONG);

    run(b, s, 38, CHUNK);
    windows_share(&b->table, s, t, 38, false);
    t->plan.n_planned = 38;
    assert_int_equal(t->memory.window_first, 7); /* position 29 */
    assert_int_equal(t->memory.n_windows, 2);    /* 28 to 35 */
    assert_true(windows_shared(&b->table, s, 7));
    assert_false(windows_shared(&b->table, s, 9));
    holds(b);
    /* Either may slide on first, or end. */
    run(b, s, 60, 1);
    run(b, t, 60, 3);
    close_sequence(b, s);
    holds(b);
    run(b, t, LONG, CHUNK);
    close_sequence(b, t);
    check(b, 0, 0, 0);
}

static void a_cut_releases_what_is_behind_it(void **state)
{
    struct bench *b = *state;
    struct sequence *s = open_sequence(b, LONG);
    struct pool_need rest = {{0}};

    run(b, s, 42, CHUNK); /* blocks 6 to 10 */
    rest.n[POOL_WINDOWS] =
        s->memory.need.n[POOL_WINDOWS] - s->memory.n_windows * TABLES;
    pool_ungrant(&b->pool, &rest);
    s->memory.need.n[POOL_WINDOWS] -= rest.n[POOL_WINDOWS];
    assert_int_equal(windows_cut(&b->table, s, 41), 2 * TABLES); /* 6, 7 */
    assert_int_equal(windows_cut(&b->table, s, 40), TABLES);     /* 10 */
    assert_int_equal(windows_cut(&b->table, s, 33), TABLES);
    holds(b);
    assert_int_equal(s->memory.n_windows, 1);
    assert_int_equal(windows_cut(&b->table, s, 0), TABLES);
    assert_int_equal(s->memory.need.n[POOL_WINDOWS], 0);
    close_sequence(b, s);
    check(b, 0, 0, 0);
}

/* A shard without window layers counts the same positions, in no page. */
static void other_shards_count_alike(void **state)
{
    struct bench *b = *state;
    struct sequence *s;

    b->table.windows.pages = 0;
    s = sequence_new(&b->table, 0, 0);
    assert_true(windows_make(&b->table, s, windows_blocks(&rules, LONG)));
    run(b, s, LONG, CHUNK);
    close_sequence(b, s);
    check(b, 0, 0, 0);
}

/* ---- the audit ---- */

static void finds(struct bench *b, const char *text)
{
    assert_true(audit(b) > 0);
    if (strstr(b->text, text) == NULL) {
        fail_msg("\"%s\" is not in:\n%s", text, b->text);
    }
}

static void the_audit_finds_wrong_windows(void **state)
{
    struct bench *b = *state;
    struct sequence *s = open_sequence(b, LONG);
    uint32_t page;

    run(b, s, 30, CHUNK);
    page = windows_nth(&b->table, s, 1);
    b->pool.blocks[page].window = false;
    finds(b, "is a block, but has a place of windows");
    b->pool.blocks[page].window = true;
    b->pool.blocks[page].refs = 2;
    finds(b, "has 2 references, found 1");
    finds(b, "windows: granted is");
    b->pool.blocks[page].refs = 1;
    b->pool.held.n[POOL_WINDOWS]--;
    b->pool.held.n[POOL_BLOCKS]++;
    finds(b, "windows: held is");
    finds(b, "blocks: held is");
    b->pool.held.n[POOL_WINDOWS]++;
    b->pool.held.n[POOL_BLOCKS]--;
    s->memory.need.n[POOL_WINDOWS] = 1;
    finds(b, "windows: sequence 1 has 10 of 1");
    s->memory.need.n[POOL_WINDOWS] = 5 * TABLES;
    holds(b);
    close_sequence(b, s);
}

static void the_reaper_frees_lost_windows(void **state)
{
    struct bench *b = *state;
    struct sequence *s = open_sequence(b, LONG), *t = open_sequence(b, LONG);

    run(b, s, 30, CHUNK);
    windows_share(&b->table, s, t, 30, false);
    t->memory.n_windows =
        0; /* its references are lost, and what it was promised */
    t->memory.need.n[POOL_WINDOWS] = 0;
    assert_true(audit(b) > 0);
    assert_true(ledger_reap(&b->ledger, &b->pool, &b->table) > 0);
    b->pool.violations = 0;
    holds(b);
    close_sequence(b, s);
    close_sequence(b, t);
    check(b, 0, 0, 0);
}

/* ---- random traffic ---- */

static uint64_t seed;

static uint32_t below(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

/* Returns a sequence; NULL: none.  The first ones are others. */
static struct sequence *any(const struct bench *b)
{
    struct sequence *s = b->table.all.head;

    for (uint32_t i = OTHERS + below(LIVE); s != NULL && i > 0; i--) {
        s = sequence_next(s, LIST_ALL);
    }
    return s;
}

/* Blocks and slots come and go beside the windows. */
static void operate_other(struct bench *b, struct sequence *s)
{
    static const struct pool_need both = {{1, 1, 0, 0}};
    uint32_t block;

    if (s->memory.n_blocks > 0) {
        sequence_give_back(&b->table, s);
    } else if (pool_grant(&b->pool, &both, NULL) == ST_OK) {
        s->memory.need = both;
        assert_true(pool_take(&b->pool, POOL_BLOCKS, 1, &block));
        assert_true(pool_take(&b->pool, POOL_SLOTS, 1, &s->memory.slot));
        paged_write(&b->table.slab, &s->memory.blocks, s->memory.n_blocks++,
                    &block, 1);
    }
}

static void operate(struct bench *b)
{
    struct sequence *s = any(b), *t;
    uint32_t n;

    switch (below(8)) {
    case 0:
    case 1:
        t = open_sequence(b, LONG);
        if (t != NULL && s != NULL && below(2) == 0) {
            bool all = s->memory.window_first + s->memory.n_windows >=
                       (s->plan.n_planned + 3) / 4;

            windows_share(&b->table, s, t, s->plan.n_planned,
                          all && below(2) == 0);
            t->plan.n_planned = t->memory.n_windows > 0 ? s->plan.n_planned : 0;
        }
        break;
    case 2:
        if (s != NULL && below(3) == 0) {
            close_sequence(b, s);
        }
        break;
    case 3:
        if (s != NULL && below(4) == 0) {
            s->plan.n_planned = 0;
        }
        break;
    default:
        n = s == NULL ? 0 : 1 + below(CHUNK);
        if (n > 0 && s->plan.n_planned + n <= LONG) {
            assert_true(windows_move(&b->table, s, s->plan.n_planned,
                                     s->plan.n_planned + n));
            s->plan.n_planned += n;
        }
    }
}

static void the_audit_holds_under_random_traffic(void **state)
{
    struct bench *b = *state;
    static struct plan_copy copies[PLAN_COPIES_MAX];
    struct sequence *others[OTHERS];
    uint32_t n_full = 0;

    for (uint32_t i = 0; i < OTHERS; i++) {
        others[i] = sequence_new(&b->table, 0, 1);
    }
    for (uint32_t i = 0; i < 40000; i++) {
        seed = i % 1000 == 0 ? i : seed;
        (void)pool_take_freed(&b->pool, copies);
        operate_other(b, others[below(OTHERS)]);
        operate(b);
        (void)pool_take_moves(&b->pool, copies);
        n_full += b->pool.free < 5 * TABLES;
        if (i % 16 == 0) {
            holds(b);
        }
    }
    assert_true(n_full > 1000);
    while (b->table.all.head != NULL) {
        close_sequence(b, b->table.all.head);
    }
    check(b, 0, 0, 0);
    holds(b);
}

/* A range is removed whose block the window had left: the row that goes on
 * there sees positions of that block, but no full one. */
static void a_position_in_a_block_that_was_left_is_not_reached(void **state)
{
    struct bench *b = *state;
    struct sequence *s;

    b->table.windows.window = 3;
    s = open_sequence(b, LONG);
    for (uint32_t at = 0; at < 48; at += 4) {
        assert_true(windows_move(&b->table, s, at, at + 4));
        assert_true(windows_trim(&b->table, s, at));
    }
    assert_true(windows_reach(&b->table, s, 48));
    assert_true(windows_reach(&b->table, s, 47));
    (void)windows_cut(&b->table, s, 31);
    assert_int_equal(s->memory.n_windows, 0);
    assert_false(windows_reach(&b->table, s, 31));
    close_sequence(b, s);
    b->table.windows = rules;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
        TEST(window_pages_make_way_for_a_slot),
        TEST(a_returned_page_stays_promised),
        TEST(a_shared_page_keeps_a_promise_for_each_sharer),
        TEST(a_cached_page_is_shared_for_a_grant),
        TEST(classes_are_not_mixed_up),
        TEST(gives_back_what_no_row_sees_any_more),
        TEST(a_row_longer_than_the_need_is_refused),
        TEST(a_row_whose_window_is_gone_is_refused),
        TEST(a_twin_shares_what_its_next_row_sees),
        TEST(a_cut_releases_what_is_behind_it),
        TEST(a_position_in_a_block_that_was_left_is_not_reached),
        TEST(other_shards_count_alike),
        TEST(the_audit_finds_wrong_windows),
        TEST(the_reaper_frees_lost_windows),
        TEST(the_audit_holds_under_random_traffic),
#undef TEST
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
