#include "common/split/pool_split.h"

#include <string.h>

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

/* Qwen3.5-0.8B with its own context in 4.1 GiB: a sequence of the whole context
 * takes 3 GiB of blocks, one of 4096 tokens 48 MiB, a slot 18.6 MiB.  A
 * quarter of the context would give 5 slots. */
static void holds_typical_sequences_whatever_the_context(void **state)
{
    struct pool_split_need n = {.block_bytes = 32 * 12288,
                                .slot_bytes = 19537920,
                                .block_tokens = 32,
                                .context = 262144,
                                .max_rows = 64};
    struct pool_split s = pool_split_make(&n, 4402341478u);

    (void)state;
    assert_int_equal(s.n_slots, 60); /* as the whole sequence allows */
    assert_true(s.n_blocks >= 8192);
    s = pool_split_make(&n, 2 * 4402341478u);
    assert_int_equal(s.n_slots, 64);
    assert_int_equal(pool_split_sequences(&n, &s, POOL_TYPICAL_TOKENS), 64);
    assert_int_equal(pool_split_sequences(&n, &s, 262144), 2);
    /* 9B in 62 GiB: 512 do not fit, but far more than 30 do. */
    n.block_bytes = 32 * 32768;
    n.slot_bytes = 51511296;
    n.max_rows = 512;
    s = pool_split_make(&n, (uint64_t)62 << 30);
    assert_int_equal(s.n_slots, 358);
    assert_int_equal(pool_split_sequences(&n, &s, POOL_TYPICAL_TOKENS), 358);
}

/* At the last length whose quarter is shorter, and one block later. */
static void a_typical_sequence_is_a_quarter_of_a_short_context(void **state)
{
    struct pool_split_need n = hybrid;

    (void)state;
    n.context = 4 * POOL_TYPICAL_TOKENS; /* a typical one has 128 blocks */
    assert_int_equal(pool_split_make(&n, 6600).n_slots, 6600 / 132);
    n.context += 4;
    assert_int_equal(pool_split_make(&n, 6600).n_slots, 6600 / 132);
    n.context = 4 * POOL_TYPICAL_TOKENS - 4 * 32; /* 127 blocks */
    assert_int_equal(pool_split_make(&n, 6600).n_slots, 6600 / 131);
}

static void takes_the_slots_that_are_set(void **state)
{
    struct pool_split_need n = hybrid;
    struct pool_split s;

    (void)state;
    n.slots = 3;
    assert_int_equal(pool_split_least(&n), 32 + 3 * 4);
    s = pool_split_make(&n, 44);
    assert_int_equal(s.n_slots, 3);
    assert_int_equal(s.n_blocks, 32);
    s = pool_split_make(&n, 1000); /* no blocks that 3 cannot use */
    assert_int_equal(s.n_slots, 3);
    assert_int_equal(s.n_blocks, 96);
    n.slots = 100; /* more than can run in a step */
    s = pool_split_make(&n, 4000);
    assert_int_equal(s.n_slots, 100);
    assert_int_equal(s.n_blocks, 3200);
    n.slot_bytes = 0; /* a stage without the class */
    assert_int_equal(pool_split_least(&n), 32);
    assert_int_equal(pool_split_make(&n, 100).n_slots, 0);
}

/* A budget at each limit, and one byte past it. */
static void refuses_a_budget_without_room(void **state)
{
    struct pool_budget b = {
        .weight_bytes = 100, .scratch_bytes = 10, .pool = hybrid};
    struct pool_split s;
    struct error e;

    (void)state;
    assert_int_equal(pool_split_budget(&s, &b, 146, &e), ST_OK);
    assert_int_equal(s.bytes, 36);
    assert_int_equal(pool_split_budget(&s, &b, 145, &e), ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(e.text, "one sequence of 1024 tokens"));
    b.pool.slots = 4;
    assert_int_equal(pool_split_budget(&s, &b, 158, &e), ST_OK);
    assert_int_equal(s.n_slots, 4);
    assert_int_equal(pool_split_budget(&s, &b, 157, &e), ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(e.text, "--slots 4: "));
    assert_non_null(strstr(e.text, "give at most 3 slots"));
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
        cmocka_unit_test(holds_typical_sequences_whatever_the_context),
        cmocka_unit_test(a_typical_sequence_is_a_quarter_of_a_short_context),
        cmocka_unit_test(takes_the_slots_that_are_set),
        cmocka_unit_test(refuses_a_budget_without_room),
        cmocka_unit_test(stops_at_the_largest_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
