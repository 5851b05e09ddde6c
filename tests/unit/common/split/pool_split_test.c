#include "common/split/pool_split.h"

#include "tests/unit/cmocka.h"

/* A sequence of the whole context has 32 blocks and a slot, 36 bytes; of a
 * quarter, 8 blocks and a slot, 12 bytes. */
static const struct pool_split_need hybrid = {.block_bytes = 1,
                                              .slot_bytes = 4,
                                              .block_tokens = 32,
                                              .context = 1024,
                                              .max_rows = 64};

static void prices_a_sequence(void **state)
{
    (void)state;
    assert_int_equal(pool_split_blocks(&hybrid, 1), 1);
    assert_int_equal(pool_split_blocks(&hybrid, 32), 1);
    assert_int_equal(pool_split_blocks(&hybrid, 33), 2);
    assert_int_equal(pool_split_sequence(&hybrid, 1024), 36);
}

static void fits_one_whole_sequence(void **state)
{
    struct pool_split s = pool_split_make(&hybrid, 36);

    (void)state;
    assert_int_equal(s.n_slots, 1);
    assert_int_equal(s.n_blocks, 32);
    assert_int_equal(s.bytes, 36);
    s = pool_split_make(&hybrid, 39); /* three quarters fit, two slots do not */
    assert_int_equal(s.n_slots, 1);
    s = pool_split_make(&hybrid, 40);
    assert_int_equal(s.n_slots, 2);
    assert_int_equal(s.n_blocks, 32);
}

static void takes_what_max_rows_can_hold(void **state)
{
    struct pool_split s = pool_split_make(&hybrid, 64 * 36);

    (void)state;
    assert_int_equal(s.n_slots, 64);
    assert_int_equal(s.n_blocks, 64 * 32);
    s = pool_split_make(&hybrid, UINT64_MAX);
    assert_int_equal(s.n_slots, 64);
    assert_int_equal(s.n_blocks, 64 * 32);
    assert_int_equal(s.bytes, 64 * 36);
}

static void knows_shards_of_one_kind(void **state)
{
    struct pool_split_need n = hybrid;
    struct pool_split s;

    (void)state;
    n.slot_bytes = 0;
    s = pool_split_make(&n, 100);
    assert_int_equal(s.n_slots, 0);
    assert_int_equal(s.n_blocks, 100);
    n = hybrid;
    n.block_bytes = 0;
    s = pool_split_make(&n, 100);
    assert_int_equal(s.n_slots, 25);
    assert_int_equal(s.n_blocks, 0);
    assert_int_equal(s.bytes, 100);
}

/* A pool that no machine has: counts saturate at their largest value. */
static void stops_at_the_largest_number(void **state)
{
    struct pool_split_need n = {.block_bytes = 1,
                                .block_tokens = 1,
                                .context = 16777216,
                                .max_rows = 512};

    (void)state;
    assert_int_equal(pool_split_make(&n, UINT64_MAX).n_blocks, UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prices_a_sequence),
        cmocka_unit_test(fits_one_whole_sequence),
        cmocka_unit_test(takes_what_max_rows_can_hold),
        cmocka_unit_test(knows_shards_of_one_kind),
        cmocka_unit_test(stops_at_the_largest_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
