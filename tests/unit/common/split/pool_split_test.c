#include "common/split/pool_split.h"

#include <string.h>

#include "common/split/page_unit.h"
#include "proto/limits.h"
#include "tests/unit/cmocka.h"

/* A sequence of the whole context has 32 blocks and a slot of 4 pages. */
static const struct pool_split_need hybrid = {.page_bytes = 10,
                                              .pages_per_slot = 4,
                                              .pages_per_block = 1,
                                              .block_tokens = 32,
                                              .context = 1024,
                                              .max_rows = 64};

static void prices_a_sequence(void **state)
{
    (void)state;
    assert_int_equal(pool_split_blocks(&hybrid, 1), 1);
    assert_int_equal(pool_split_blocks(&hybrid, 32), 1);
    assert_int_equal(pool_split_blocks(&hybrid, 33), 2);
    assert_int_equal(pool_split_pages(&hybrid, 33), 6);
    assert_int_equal(pool_split_sequence(&hybrid, 1024), 360);
    assert_int_equal(pool_split_least(&hybrid), 360);
}

/* A window of 100 tokens and chunks of 28 are at most 5 blocks at once. */
static void prices_the_windows_of_a_sequence(void **state)
{
    struct pool_split_need n = hybrid;

    (void)state;
    assert_int_equal(pool_split_windows(&n, 1024), 0);
    n.window_pages = 3;
    n.window_tokens = 100;
    n.chunk_tokens = 28;
    assert_int_equal(pool_split_windows(&n, 1), 3);
    assert_int_equal(pool_split_windows(&n, 32), 3);
    assert_int_equal(pool_split_windows(&n, 33), 6);
    assert_int_equal(pool_split_windows(&n, 128), 12);
    assert_int_equal(pool_split_windows(&n, 129), 15);
    assert_int_equal(pool_split_windows(&n, 1024), 15);
    assert_int_equal(pool_split_pages(&n, 33), 6 + 6);
    assert_int_equal(pool_split_least(&n), 360 + 150);
    n.chunk_tokens = 29; /* one token past the border of a block */
    assert_int_equal(pool_split_windows(&n, 1024), 18);
}

/* A page holds whole window layers, and is at least one of them. */
static void a_unit_has_the_pages_of_a_window_block(void **state)
{
    static const struct {
        struct page_parts parts;
        uint64_t page, per_slot, windows;
        uint32_t per_block;
    } rows[] = {
        {{640, 0, 640, 12}, 640, 0, 12, 1},
        {{640, 0, 320, 5}, 640, 0, 3, 1},
        {{640, 1300, 128, 10}, 640, 3, 2, 1},
        {{640, 1300, 1024, 2}, 1024, 2, 2, 1},
        {{0, 0, 128, 7}, 896, 0, 1, 0},
        {{0, 1000, 128, 7}, 896, 2, 1, 0},
        {{640, 1300, 1024, 0}, 640, 3, 0, 1},
        {{0, 1000, 0, 0}, 1000, 1, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct page_unit u = page_unit_make(&rows[i].parts);

        assert_int_equal(u.page_bytes, rows[i].page);
        assert_int_equal(u.pages_per_slot, rows[i].per_slot);
        assert_int_equal(u.window_pages, rows[i].windows);
        assert_int_equal(u.pages_per_block, rows[i].per_block);
    }
}

static void takes_all_pages_of_the_budget(void **state)
{
    struct pool_split s = pool_split_make(&hybrid, 360);

    (void)state;
    assert_int_equal(s.n_pages, 36);
    assert_int_equal(s.bytes, 360);
    assert_int_equal(s.slot_cap, 36 / 4);
    assert_int_equal(pool_split_sequences(&hybrid, &s, 1024), 1);
    s = pool_split_make(&hybrid, 719);
    assert_int_equal(s.n_pages, 71);
    assert_int_equal(s.bytes, 710);
    assert_int_equal(pool_split_sequences(&hybrid, &s, 1024), 1);
    s = pool_split_make(&hybrid, 720);
    assert_int_equal(pool_split_sequences(&hybrid, &s, 1024), 2);
    /* More than all rows need: the rest keeps prefixes. */
    s = pool_split_make(&hybrid, 100 * 360);
    assert_int_equal(s.n_pages, 3600);
    assert_int_equal(pool_split_sequences(&hybrid, &s, 1024), 64);
}

static void the_border_is_where_sequences_need_it(void **state)
{
    struct pool_split s = pool_split_make(&hybrid, 720);

    (void)state;
    assert_int_equal(pool_split_sequences(&hybrid, &s, 1), 14); /* 72 / 5 */
    assert_int_equal(pool_split_sequences(&hybrid, &s, 512), 3);
    assert_int_equal(pool_split_sequences(&hybrid, &s, 1024), 2);
}

/* Slots are a cap: they reserve no page and change no pool. */
static void slots_cap_the_sequences(void **state)
{
    struct pool_split_need n = hybrid;
    struct pool_split s;

    (void)state;
    n.slots = 3;
    assert_int_equal(pool_split_least(&n), 360);
    s = pool_split_make(&n, 3600);
    assert_int_equal(s.n_pages, 360);
    assert_int_equal(s.slot_cap, 3);
    assert_int_equal(pool_split_sequences(&n, &s, 1), 3);
    n.slots = 70; /* more than can run in a step */
    s = pool_split_make(&n, 3600);
    assert_int_equal(s.slot_cap, 70);
    assert_int_equal(pool_split_sequences(&n, &s, 1), 70);
    n.slots = 91; /* more than there is room for */
    s = pool_split_make(&n, 3600);
    assert_int_equal(s.slot_cap, 90);
    n.pages_per_slot = 0; /* a stage without the class */
    assert_int_equal(pool_split_make(&n, 3600).slot_cap, 0);
}

static void knows_shards_of_one_kind(void **state)
{
    struct pool_split_need n = hybrid;
    struct pool_split s;

    (void)state;
    n.pages_per_slot = 0;
    s = pool_split_make(&n, 1000);
    assert_int_equal(s.n_pages, 100);
    assert_int_equal(s.slot_cap, 0);
    assert_int_equal(pool_split_sequences(&n, &s, 1), 100); /* no cap */
    assert_int_equal(pool_split_sequences(&n, &s, 1024), 3);
    n = hybrid;
    n.pages_per_slot = 1;
    n.pages_per_block = 0;
    assert_int_equal(pool_split_blocks(&n, 1024), 0);
    s = pool_split_make(&n, 250);
    assert_int_equal(s.n_pages, 25);
    assert_int_equal(s.slot_cap, 25);
    assert_int_equal(pool_split_sequences(&n, &s, 1024), 25);
    s = pool_split_make(&n, 1000);
    assert_int_equal(pool_split_sequences(&n, &s, 1024), 64);
}

/* 100 pages of 10 bytes hold 2 sequences of 36; each uses 355 of 360 bytes. */
static void counts_rounding_and_the_rest_as_waste(void **state)
{
    struct pool_split_need n = hybrid;
    struct pool_split s = pool_split_make(&n, 1000);
    double waste = pool_split_waste(&n, &s, 1024, 355);

    (void)state;
    assert_true(waste > 0.2899 && waste < 0.2901);
    n.slots = 1; /* the cap leaves pages to prefixes */
    s = pool_split_make(&n, 1000);
    waste = pool_split_waste(&n, &s, 1024, 355);
    assert_true(waste > 0.2899 && waste < 0.2901);
    s = pool_split_make(&n, 360);
    assert_true(pool_split_waste(&n, &s, 1024, 360) <= 0);
    n.context = 512;
    s = pool_split_make(&n, 200);
    assert_true(pool_split_waste(&n, &s, 1024, 360) <= 0); /* none fits */
}

/* A budget at the limit, and one byte below it. */
static void refuses_a_budget_without_room(void **state)
{
    struct pool_budget b = {
        .weight_bytes = 100, .scratch_bytes = 10, .pool = hybrid};
    struct pool_split s;
    struct error e;

    (void)state;
    assert_int_equal(pool_split_budget(&s, &b, 470, &e), ST_OK);
    assert_int_equal(s.bytes, 360);
    assert_int_equal(pool_split_budget(&s, &b, 469, &e), ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(e.text, "one sequence of 1024 tokens"));
    b.pool.slots = 4096; /* no cap asks for more */
    assert_int_equal(pool_split_budget(&s, &b, 470, &e), ST_OK);
    assert_int_equal(s.slot_cap, 9);
}

/* A device that allocates 36 pages, and one fewer. */
static void keeps_to_what_a_device_allocates(void **state)
{
    struct pool_budget b = {.pool = hybrid};
    struct pool_split s;
    struct error e;

    (void)state;
    b.pool.pages_max = 36;
    assert_int_equal(pool_split_budget(&s, &b, 100000, &e), ST_OK);
    assert_int_equal(s.n_pages, 36);
    assert_int_equal(s.bytes, 360);
    assert_int_equal(s.slot_cap, 9);
    assert_int_equal(pool_split_budget(&s, &b, 359, &e), ST_RESOURCE_EXHAUSTED);
    b.pool.pages_max = 35;
    assert_int_equal(pool_split_budget(&s, &b, 100000, &e),
                     ST_RESOURCE_EXHAUSTED);
    assert_string_equal(e.text,
                        "the device's largest allocation holds 35 pages, but "
                        "one sequence of 1024 tokens takes 36; give a shorter "
                        "--context");
}

/* A pool that no machine has: at the limit, and past it. */
static void stops_at_the_largest_number(void **state)
{
    struct pool_split_need n = {.page_bytes = 1,
                                .pages_per_block = 1,
                                .block_tokens = 1,
                                .context = 16777216,
                                .max_rows = 512};

    (void)state;
    assert_int_equal(pool_split_make(&n, SHARD_CLASS_MAX - 1).n_pages,
                     SHARD_CLASS_MAX - 1);
    assert_int_equal(pool_split_make(&n, SHARD_CLASS_MAX).n_pages,
                     SHARD_CLASS_MAX);
    assert_int_equal(pool_split_make(&n, UINT64_C(1) + SHARD_CLASS_MAX).n_pages,
                     SHARD_CLASS_MAX);
    assert_int_equal(pool_split_make(&n, UINT64_MAX).bytes, SHARD_CLASS_MAX);
}

/* A slot of more pages than a pool can have: no sequence, and no fault. */
static void knows_slots_that_never_fit(void **state)
{
    struct pool_split_need n = hybrid;
    struct pool_split s;

    (void)state;
    n.page_bytes = 1;
    n.pages_per_slot = UINT64_C(1) << 40;
    s = pool_split_make(&n, UINT64_C(1) << 41);
    assert_int_equal(s.slot_cap, 0);
    assert_int_equal(pool_split_sequences(&n, &s, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prices_a_sequence),
        cmocka_unit_test(prices_the_windows_of_a_sequence),
        cmocka_unit_test(a_unit_has_the_pages_of_a_window_block),
        cmocka_unit_test(takes_all_pages_of_the_budget),
        cmocka_unit_test(the_border_is_where_sequences_need_it),
        cmocka_unit_test(slots_cap_the_sequences),
        cmocka_unit_test(knows_shards_of_one_kind),
        cmocka_unit_test(counts_rounding_and_the_rest_as_waste),
        cmocka_unit_test(refuses_a_budget_without_room),
        cmocka_unit_test(keeps_to_what_a_device_allocates),
        cmocka_unit_test(stops_at_the_largest_number),
        cmocka_unit_test(knows_slots_that_never_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
