#include "worker/budget.h"

#include <string.h>

#include "tests/unit/cmocka.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)

/* A block of 1 MiB holds 32 tokens, a sequence of 1024 needs 32; slots of
 * 4 MiB. */
static const struct budget_need hybrid = {.weight_bytes = 100 * MIB,
                                          .scratch_bytes = 10 * MIB,
                                          .pool = {.block_bytes = MIB,
                                                   .slot_bytes = 4 * MIB,
                                                   .block_tokens = 32,
                                                   .context = 1024,
                                                   .max_rows = 64}};

static struct budget b;
static struct error e;

static void takes_64_sequences_of_the_context(void **state)
{
    (void)state;
    assert_int_equal(budget_divide(&b, NULL, 100 * GIB, &hybrid, &e), ST_OK);
    assert_int_equal(b.pool.n_slots, 64);
    assert_int_equal(b.pool.n_blocks, 64 * 32);
    assert_int_equal(b.bytes, (110 + 64 * 36) * MIB);
}

static void takes_at_most_a_quarter(void **state)
{
    (void)state;
    assert_int_equal(budget_divide(&b, NULL, 4 * GIB, &hybrid, &e), ST_OK);
    assert_true(b.bytes <= GIB);
    assert_true(b.bytes > GIB - 4 * MIB);
    assert_int_equal(b.pool.n_slots, 64); /* 914 MiB / (4 + 8) is more */
    assert_int_equal(b.pool.n_blocks, 914 - 64 * 4);
}

static void fits_one_sequence_and_no_less(void **state)
{
    (void)state;
    assert_int_equal(budget_divide(&b, "146MiB", 0, &hybrid, &e), ST_OK);
    assert_int_equal(b.pool.n_slots, 1);
    assert_int_equal(b.pool.n_blocks, 32);
    assert_int_equal(budget_divide(&b, "145MiB", 0, &hybrid, &e),
                     ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(e.text, "budget of 145.0 MiB"));
    assert_non_null(strstr(e.text, "at least 146.0 MiB"));
}

static void gives_slots_for_shorter_sequences(void **state)
{
    (void)state;
    assert_int_equal(budget_divide(&b, "182MiB", 0, &hybrid, &e), ST_OK);
    assert_int_equal(b.pool.n_slots, 6); /* 72 MiB / (4 + 8) */
    assert_int_equal(b.pool.n_blocks, 48);
}

static void divides(const struct budget_need *n, const char *text,
                    uint32_t n_blocks, uint32_t n_slots)
{
    assert_int_equal(budget_divide(&b, text, 100 * GIB, n, &e), ST_OK);
    assert_int_equal(b.pool.n_blocks, n_blocks);
    assert_int_equal(b.pool.n_slots, n_slots);
    assert_int_equal(b.bytes, n->weight_bytes + n->scratch_bytes +
                                  n_blocks * n->pool.block_bytes +
                                  n_slots * n->pool.slot_bytes);
}

/* A stage without linear layers: from the blocks of one whole sequence to
 * those of all that can run. */
static void knows_shards_without_slots(void **state)
{
    struct budget_need n = hybrid;

    (void)state;
    n.pool.slot_bytes = 0;
    divides(&n, "142MiB", 32, 0);
    divides(&n, "174MiB", 64, 0);
    divides(&n, "2158MiB", 64 * 32, 0);
    divides(&n, "4GiB", 64 * 32, 0);
    divides(&n, NULL, 64 * 32, 0);
    assert_int_equal(budget_divide(&b, "141MiB", 0, &n, &e),
                     ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(e.text, "one sequence of 1024 tokens 32.0 MiB"));
}

/* One without attention: a sequence is a slot, whatever its length. */
static void knows_shards_without_blocks(void **state)
{
    struct budget_need n = hybrid;

    (void)state;
    n.pool.block_bytes = 0;
    divides(&n, "114MiB", 0, 1);
    divides(&n, "117MiB", 0, 1);
    divides(&n, "118MiB", 0, 2);
    divides(&n, "365MiB", 0, 63);
    divides(&n, "366MiB", 0, 64);
    divides(&n, "4GiB", 0, 64);
    divides(&n, NULL, 0, 64);
    assert_int_equal(budget_divide(&b, "113MiB", 0, &n, &e),
                     ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(e.text, "one sequence of 1024 tokens 4.0 MiB"));
}

static void reads_sizes_and_shares(void **state)
{
    static const char *const bad[] = {"0.0", "1.1",  "lots",  "-1GiB",
                                      "",    "0x.8", "0X.8p0"};

    (void)state;
    assert_int_equal(budget_divide(&b, "0.5", 2 * GIB, &hybrid, &e), ST_OK);
    assert_true(b.bytes <= GIB && b.bytes > GIB - 4 * MIB);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(budget_divide(&b, bad[i], GIB, &hybrid, &e),
                         ST_INVALID_ARGUMENT);
    }
    assert_true(budget_available() > MIB);
}

/* Before the layers are known: what is asked for, or a quarter. */
static void reads_a_budget_alone(void **state)
{
    uint64_t bytes;

    (void)state;
    assert_int_equal(budget_bytes(&bytes, NULL, 2 * GIB, &e), ST_OK);
    assert_int_equal(bytes, GIB / 2);
    assert_int_equal(budget_bytes(&bytes, "0.75", 2 * GIB, &e), ST_OK);
    assert_int_equal(bytes, 3 * GIB / 2);
    assert_int_equal(budget_bytes(&bytes, "3GiB", 2 * GIB, &e), ST_OK);
    assert_int_equal(bytes, 3 * GIB);
    assert_int_equal(budget_bytes(&bytes, "1.1", 2 * GIB, &e),
                     ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "--memory 1.1: a size such as 4GiB"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_64_sequences_of_the_context),
        cmocka_unit_test(takes_at_most_a_quarter),
        cmocka_unit_test(fits_one_sequence_and_no_less),
        cmocka_unit_test(gives_slots_for_shorter_sequences),
        cmocka_unit_test(knows_shards_without_slots),
        cmocka_unit_test(knows_shards_without_blocks),
        cmocka_unit_test(reads_sizes_and_shares),
        cmocka_unit_test(reads_a_budget_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
