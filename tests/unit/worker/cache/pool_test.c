#include "worker/cache/pool.h"

#include <string.h>

#include "common/base/log.h"
#include "tests/unit/cmocka.h"

static struct pool make(uint32_t n_pages, uint32_t per, uint32_t cap)
{
    struct pool p;
    struct pool_options o = {
        .n_pages = n_pages, .pages_per = {1, per, per}, .slot_cap = cap};

    assert_true(pool_init(&p, &o, false));
    return p;
}

static void check(const struct pool *p, enum pool_class c, uint32_t free,
                  uint32_t held, uint32_t cached, uint32_t granted)
{
    struct pool_account a = pool_account(p, c), pages = pool_pages(p);

    assert_int_equal(a.free, free);
    assert_int_equal(a.held, held);
    assert_int_equal(a.cached, cached);
    assert_int_equal(a.granted, granted);
    assert_int_equal(pages.total,
                     pages.free + pages.held + pages.cached + pages.granted);
}

static uint32_t take(struct pool *p, enum pool_class c)
{
    struct pool_need need = {{0, 0, 0}};
    uint32_t n;

    need.n[c] = 1;
    assert_int_equal(pool_grant(p, &need, NULL), ST_OK);
    assert_true(pool_take(p, c, 1, &n));
    return n;
}

static void grants_takes_and_releases(void **state)
{
    struct pool p = make(14, 3, 0);
    struct pool_need need = {{5, 1, 0}}, rest = {{2, 0, 0}};
    uint32_t got[3], slot;

    (void)state;
    check(&p, POOL_BLOCKS, 14, 0, 0, 0);
    check(&p, POOL_SLOTS, 4, 0, 0, 0);
    assert_int_equal(pool_grant(&p, &need, NULL), ST_OK);
    check(&p, POOL_BLOCKS, 6, 0, 0, 5);
    check(&p, POOL_SLOTS, 2, 0, 0, 1);
    assert_true(pool_take(&p, POOL_BLOCKS, 3, got));
    assert_true(pool_take(&p, POOL_SLOTS, 1, &slot));
    check(&p, POOL_BLOCKS, 6, 3, 0, 2);
    check(&p, POOL_SLOTS, 2, 1, 0, 0);
    check(&p, POOL_CHECKPOINTS, 2, 0, 0, 0);
    pool_ungrant(&p, &rest);
    for (int i = 0; i < 3; i++) {
        pool_release(&p, POOL_BLOCKS, got[i]);
    }
    pool_release(&p, POOL_SLOTS, slot);
    check(&p, POOL_BLOCKS, 14, 0, 0, 0);
    check(&p, POOL_SLOTS, 4, 0, 0, 0);
    assert_int_equal(p.violations, 0);
    pool_fini(&p);
}

static void grants_all_or_nothing(void **state)
{
    struct pool p = make(11, 3, 1);
    struct pool_need fits = {{8, 1, 0}}, more = {{9, 1, 0}};
    struct pool_need blocks = {{12, 0, 0}}, slots = {{1, 2, 0}};
    struct error e;

    (void)state;
    assert_int_equal(pool_grant(&p, &more, &e), ST_RESOURCE_EXHAUSTED);
    assert_string_equal(e.text, "needs 12 pages, 11 free of 11");
    assert_int_equal(pool_grant(&p, &blocks, &e), ST_RESOURCE_EXHAUSTED);
    assert_string_equal(e.text, "needs 12 blocks, 11 free of 11");
    assert_int_equal(pool_grant(&p, &slots, &e), ST_RESOURCE_EXHAUSTED);
    assert_string_equal(e.text, "needs 2 slots, 1 free of 1");
    check(&p, POOL_BLOCKS, 11, 0, 0, 0);
    assert_int_equal(pool_grant(&p, &fits, &e), ST_OK);
    check(&p, POOL_BLOCKS, 0, 0, 0, 8);
    check(&p, POOL_SLOTS, 0, 0, 0, 1);
    pool_fini(&p);
}

static void a_class_that_is_absent_grants_nothing(void **state)
{
    struct pool p = make(4, 0, 0);
    struct pool_need slot = {{0, 1, 0}}, checkpoint = {{0, 0, 1}};
    uint32_t got;

    (void)state;
    assert_int_equal(pool_grant(&p, &slot, NULL), ST_RESOURCE_EXHAUSTED);
    assert_int_equal(pool_grant(&p, &checkpoint, NULL), ST_RESOURCE_EXHAUSTED);
    assert_false(pool_cache(&p, &got));
    assert_int_equal(pool_account(&p, POOL_SLOTS).total, 0);
    pool_fini(&p);
}

static void uses_the_last_released_first(void **state)
{
    struct pool p = make(8, 0, 0);
    struct pool_need need = {{4, 0, 0}};
    uint32_t got[3], again;

    (void)state;
    assert_int_equal(pool_grant(&p, &need, NULL), ST_OK);
    assert_true(pool_take(&p, POOL_BLOCKS, 3, got));
    assert_int_equal(got[0], 0);
    assert_int_equal(got[1], 1);
    pool_release(&p, POOL_BLOCKS, got[1]);
    assert_true(pool_take(&p, POOL_BLOCKS, 1, &again));
    assert_int_equal(again, got[1]);
    pool_fini(&p);
}

static void blocks_fill_the_tail_first(void **state)
{
    struct pool p = make(11, 3, 0);

    (void)state;
    assert_int_equal(pool_page(&p, take(&p, POOL_BLOCKS)), 9);
    assert_int_equal(pool_page(&p, take(&p, POOL_BLOCKS)), 10);
    assert_int_equal(pool_page(&p, take(&p, POOL_BLOCKS)), 0);
    assert_int_equal(take(&p, POOL_SLOTS), 3);
    assert_int_equal(pool_page(&p, take(&p, POOL_BLOCKS)), 1);
    assert_int_equal(p.n_moves, 0);
    pool_fini(&p);
}

/* One block in each extent of a pool, so that no extent is free. */
static void scatter(struct pool *p, uint32_t left[4])
{
    uint32_t got[12];

    for (int i = 0; i < 12; i++) {
        got[i] = take(p, POOL_BLOCKS);
    }
    for (int i = 0; i < 12; i++) {
        if (pool_page(p, got[i]) % 3 != 0) {
            pool_release(p, POOL_BLOCKS, got[i]);
        } else {
            left[pool_page(p, got[i]) / 3] = got[i];
        }
    }
}

static void blocks_move_out_of_the_way_of_a_slot(void **state)
{
    struct pool p = make(12, 3, 0);
    struct plan_copy moves[PLAN_COPIES_MAX];
    uint32_t left[4], slot, gone = 0;

    (void)state;
    scatter(&p, left);
    check(&p, POOL_SLOTS, 2, 0, 0, 0);
    slot = take(&p, POOL_SLOTS);
    assert_int_equal(pool_take_moves(&p, moves), 1);
    assert_int_equal(moves[0].from, slot);
    assert_int_equal(moves[0].n, 1);
    for (uint32_t i = 0; i < 4; i++) {
        if (pool_page(&p, left[i]) == moves[0].to) {
            gone = i;
        }
    }
    assert_int_equal(gone, slot / 3);
    assert_int_equal(pool_take_moves(&p, moves), 0);
    slot = take(&p, POOL_SLOTS);
    assert_true(pool_take_moves(&p, moves) > 0);
    check(&p, POOL_SLOTS, 0, 2, 0, 0);
    check(&p, POOL_BLOCKS, 2, 4, 0, 0);
    assert_int_equal(p.violations, 0);
    pool_fini(&p);
}

static void a_block_may_move_twice_before_a_plan(void **state)
{
    struct pool p = make(12, 3, 0);
    struct plan_copy moves[PLAN_COPIES_MAX];
    uint32_t left[4], n, at[12];

    (void)state;
    scatter(&p, left);
    for (uint32_t i = 0; i < 12; i++) {
        at[i] = i; /* contents of the pages */
    }
    take(&p, POOL_SLOTS);
    take(&p, POOL_SLOTS);
    n = pool_take_moves(&p, moves);
    assert_true(n >= 2);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < moves[i].n; k++) {
            at[moves[i].to + k] = at[moves[i].from + k];
        }
    }
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(at[pool_page(&p, left[i])], 3 * i);
    }
    pool_fini(&p);
}

static void a_freed_block_is_not_moved(void **state)
{
    struct pool p = make(12, 3, 0);
    struct plan_copy moves[PLAN_COPIES_MAX];
    uint32_t left[4], slot;

    (void)state;
    scatter(&p, left);
    slot = take(&p, POOL_SLOTS);
    pool_release(&p, POOL_BLOCKS, left[slot / 3]);
    assert_int_equal(pool_take_moves(&p, moves), 0);
    pool_fini(&p);
}

static void a_refused_plan_brings_its_moves_back(void **state)
{
    struct pool p = make(12, 3, 0);
    struct plan_copy first[PLAN_COPIES_MAX], both[PLAN_COPIES_MAX];
    uint32_t left[4], n;

    (void)state;
    scatter(&p, left);
    take(&p, POOL_SLOTS);
    n = pool_take_moves(&p, first);
    take(&p, POOL_SLOTS);
    pool_untake_moves(&p, first, n);
    assert_true(pool_take_moves(&p, both) > n);
    assert_memory_equal(first, both, n * sizeof *first);
    pool_fini(&p);
}

/* 0 to 2 go to 3 to 5, and 3 goes on to 6. */
static void ranges_of_moves_do_not_overlap(void **state)
{
    struct pool p = make(12, 3, 0);
    struct plan_copy moves[PLAN_COPIES_MAX];

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        p.moves[p.n_moves++] =
            (struct plan_copy){.from = i, .to = i + 3, .n = 1};
    }
    assert_int_equal(pool_take_moves(&p, moves), 2);
    assert_int_equal(moves[0].n, 3);
    assert_int_equal(moves[1].from, 3);
    pool_fini(&p);
}

/* The limit of recorded moves is kept, and one past it. */
static void slots_wait_when_a_plan_has_no_room_for_moves(void **state)
{
    struct pool p = make(12, 3, 0);
    uint32_t left[4];

    (void)state;
    scatter(&p, left);
    assert_true(pool_can_take(&p, POOL_SLOTS, 1, 1));
    assert_false(pool_can_take(&p, POOL_SLOTS, 1, 0));
    assert_true(pool_can_take(&p, POOL_SLOTS, 2, 4));
    assert_false(pool_can_take(&p, POOL_SLOTS, 2, 3));
    assert_true(pool_can_take(&p, POOL_BLOCKS, 8, 0));
    p.n_moves = PLAN_COPIES_MAX;
    p.granted.n[POOL_SLOTS] = 1;
    assert_false(pool_take(&p, POOL_SLOTS, 1, left));
    assert_int_equal(p.violations, 1);
    p.n_moves = POOL_EXTENT_MAX;
    assert_false(pool_cache(&p, left));
    p.n_moves--;
    assert_true(pool_cache(&p, left));
    p.n_moves = 0;
    pool_fini(&p);
}

static void shared_blocks_are_held_until_the_last_release(void **state)
{
    struct pool p = make(8, 0, 0);
    struct pool_need need = {{2, 0, 0}};
    uint32_t block;

    (void)state;
    assert_int_equal(pool_grant(&p, &need, NULL), ST_OK);
    assert_true(pool_take(&p, POOL_BLOCKS, 1, &block));
    pool_share(&p, block, true);
    check(&p, POOL_BLOCKS, 7, 1, 0, 0);
    pool_release(&p, POOL_BLOCKS, block);
    check(&p, POOL_BLOCKS, 7, 1, 0, 0);
    pool_release(&p, POOL_BLOCKS, block);
    check(&p, POOL_BLOCKS, 8, 0, 0, 0);
    assert_int_equal(p.violations, 0);
    pool_fini(&p);
}

static void indexed_blocks_are_cached_without_a_reference(void **state)
{
    struct pool p = make(8, 0, 0);
    uint32_t block = take(&p, POOL_BLOCKS);

    (void)state;
    pool_index(&p, block);
    check(&p, POOL_BLOCKS, 7, 1, 0, 0);
    pool_release(&p, POOL_BLOCKS, block);
    check(&p, POOL_BLOCKS, 7, 0, 1, 0);
    pool_share(&p, block, false);
    check(&p, POOL_BLOCKS, 7, 1, 0, 0);
    pool_unindex(&p, block);
    check(&p, POOL_BLOCKS, 7, 1, 0, 0);
    pool_release(&p, POOL_BLOCKS, block);
    check(&p, POOL_BLOCKS, 8, 0, 0, 0);
    assert_int_equal(p.violations, 0);
    pool_fini(&p);
}

static void counts_what_breaks_the_account(void **state)
{
    struct pool p = make(4, 0, 0);
    struct pool_need need = {{2, 0, 0}}, more = {{3, 0, 0}};
    uint32_t got[4];

    (void)state;
    assert_int_equal(pool_grant(&p, &need, NULL), ST_OK);
    assert_false(pool_take(&p, POOL_BLOCKS, 3, got));
    assert_int_equal(p.violations, 1);
    assert_true(pool_take(&p, POOL_BLOCKS, 2, got));
    pool_release(&p, POOL_BLOCKS, got[0]);
    pool_release(&p, POOL_BLOCKS, got[0]); /* twice */
    assert_int_equal(p.violations, 2);
    pool_release(&p, POOL_BLOCKS, 4); /* no such number */
    pool_release(&p, POOL_BLOCKS, 3); /* it is not held */
    pool_release(&p, POOL_SLOTS, 0);  /* no such class */
    assert_int_equal(p.violations, 5);
    pool_ungrant(&p, &more);
    pool_share(&p, 3, false);
    pool_share(&p, got[1], true); /* nothing is granted */
    pool_index(&p, 3);
    pool_unindex(&p, got[1]);
    pool_uncache(&p, 0);
    assert_int_equal(p.violations, 11);
    check(&p, POOL_BLOCKS, 3, 1, 0, 0);
    pool_fini(&p);
}

/* B226.5: whatever moves and ends beside it, a slot keeps its pages. */
static void a_slot_stays_in_its_place(void **state)
{
    struct pool p = make(15, 3, 0);
    struct plan_copy moves[PLAN_COPIES_MAX];
    uint32_t first = take(&p, POOL_SLOTS), got[12], n;

    (void)state;
    for (uint32_t i = 0; i < 12; i++) {
        got[i] = take(&p, POOL_BLOCKS);
    }
    for (uint32_t i = 0; i < 12; i++) {
        if (pool_page(&p, got[i]) % 3 != 0) {
            pool_release(&p, POOL_BLOCKS, got[i]);
        }
    }
    take(&p, POOL_SLOTS);
    take(&p, POOL_SLOTS);
    n = pool_take_moves(&p, moves);
    assert_true(n > 0);
    for (uint32_t i = 0; i < n; i++) {
        assert_true(moves[i].to >= first + 3 ||
                    moves[i].to + moves[i].n <= first);
        assert_true(moves[i].from != first);
    }
    pool_release(&p, POOL_SLOTS, first);
    assert_int_equal(take(&p, POOL_SLOTS), first); /* the last released */
    pool_fini(&p);
}

/* B226.6: what a step releases serves the next grant. */
static void a_released_slot_serves_the_next_grant(void **state)
{
    struct pool p = make(6, 3, 0);
    struct pool_need need = {{0, 1, 0}};
    uint32_t slot = take(&p, POOL_SLOTS);

    (void)state;
    take(&p, POOL_SLOTS);
    assert_int_equal(pool_grant(&p, &need, NULL), ST_RESOURCE_EXHAUSTED);
    pool_release(&p, POOL_SLOTS, slot);
    assert_int_equal(take(&p, POOL_SLOTS), slot);
    pool_fini(&p);
}

/* A page is poisoned when it is free and nothing copies it any more. */
static void freed_pages_are_poisoned_once(void **state)
{
    struct pool_options o = {.n_pages = 12, .pages_per = {1, 3, 3}};
    struct plan_copy freed[PLAN_COPIES_MAX], moves[PLAN_COPIES_MAX];
    struct pool p;
    uint32_t left[4], slot;

    (void)state;
    assert_true(pool_init(&p, &o, true));
    scatter(&p, left);
    assert_int_equal(pool_take_freed(&p, freed), 4); /* two pages of each */
    assert_int_equal(freed[0].n, 2);
    assert_int_equal(pool_take_freed(&p, freed), 0);
    slot = take(&p, POOL_SLOTS);
    pool_release(&p, POOL_SLOTS, slot);
    assert_int_equal(pool_take_freed(&p, freed), 1);
    assert_int_equal(freed[0].n, 2); /* not the one that a move reads */
    assert_int_equal(pool_take_moves(&p, moves), 1);
    assert_int_equal(pool_take_freed(&p, freed), 1); /* it has run by then */
    assert_int_equal(freed[0].from, moves[0].from);
    assert_int_equal(freed[0].n, 1);
    pool_fini(&p);
}

static void a_slot_has_a_limit_of_pages(void **state)
{
    struct pool p;
    struct pool_options o = {
        .n_pages = 2 * POOL_EXTENT_MAX,
        .pages_per = {1, POOL_EXTENT_MAX, POOL_EXTENT_MAX}};

    (void)state;
    assert_true(pool_init(&p, &o, false));
    pool_fini(&p);
    o.pages_per[POOL_SLOTS]++;
    o.pages_per[POOL_CHECKPOINTS]++;
    assert_false(pool_init(&p, &o, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grants_takes_and_releases),
        cmocka_unit_test(grants_all_or_nothing),
        cmocka_unit_test(a_class_that_is_absent_grants_nothing),
        cmocka_unit_test(uses_the_last_released_first),
        cmocka_unit_test(blocks_fill_the_tail_first),
        cmocka_unit_test(blocks_move_out_of_the_way_of_a_slot),
        cmocka_unit_test(a_block_may_move_twice_before_a_plan),
        cmocka_unit_test(a_freed_block_is_not_moved),
        cmocka_unit_test(a_refused_plan_brings_its_moves_back),
        cmocka_unit_test(ranges_of_moves_do_not_overlap),
        cmocka_unit_test(slots_wait_when_a_plan_has_no_room_for_moves),
        cmocka_unit_test(shared_blocks_are_held_until_the_last_release),
        cmocka_unit_test(indexed_blocks_are_cached_without_a_reference),
        cmocka_unit_test(counts_what_breaks_the_account),
        cmocka_unit_test(a_slot_stays_in_its_place),
        cmocka_unit_test(a_released_slot_serves_the_next_grant),
        cmocka_unit_test(freed_pages_are_poisoned_once),
        cmocka_unit_test(a_slot_has_a_limit_of_pages),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
