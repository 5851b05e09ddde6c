#include "worker/engine/budget.h"

#include <string.h>

#include "tests/unit/cmocka.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)

/* A page of 1 MiB holds 32 tokens, so a sequence of 1024 needs 32 blocks;
 * a slot takes 4 pages. */
static const struct pool_budget hybrid = {.weight_bytes = 100 * MIB,
                                          .scratch_bytes = 10 * MIB,
                                          .pool = {.page_bytes = MIB,
                                                   .pages_per_slot = 4,
                                                   .pages_per_block = 1,
                                                   .block_tokens = 32,
                                                   .context = 1024,
                                                   .max_rows = 64}};

static struct budget b;
static struct error e;

static enum status divide(const char *text, uint64_t available,
                          const struct pool_budget *n)
{
    struct budget_memory m = {.text = text, .available = available};

    return budget_divide(&b, &m, n, &e);
}

static void takes_64_sequences_of_the_context(void **state)
{
    (void)state;
    assert_int_equal(divide(NULL, 100 * GIB, &hybrid), ST_OK);
    assert_int_equal(b.pool.n_pages, 64 * 36);
    assert_int_equal(b.pool.slot_cap, 64);
    assert_int_equal(b.bytes, (110 + 64 * 36) * MIB);
}

static void takes_at_most_a_quarter(void **state)
{
    (void)state;
    assert_int_equal(divide(NULL, 4 * GIB, &hybrid), ST_OK);
    assert_int_equal(b.bytes, GIB);
    assert_int_equal(b.pool.n_pages, 1024 - 110);
    assert_int_equal(b.pool.slot_cap, 64);
}

static void fits_one_sequence_and_no_less(void **state)
{
    (void)state;
    assert_int_equal(divide("146MiB", 100 * GIB, &hybrid), ST_OK);
    assert_int_equal(b.pool.n_pages, 36);
    assert_int_equal(b.pool.slot_cap, 9);
    assert_int_equal(divide("145MiB", 100 * GIB, &hybrid),
                     ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(e.text, "budget of 145.0 MiB"));
    assert_non_null(strstr(e.text, "give at least 146.0 MiB"));
}

static void divides(const struct pool_budget *n, const char *text,
                    uint32_t n_pages, uint32_t slot_cap)
{
    assert_int_equal(divide(text, 100 * GIB, n), ST_OK);
    assert_int_equal(b.pool.n_pages, n_pages);
    assert_int_equal(b.pool.slot_cap, slot_cap);
    assert_int_equal(b.bytes, n->weight_bytes + n->scratch_bytes +
                                  n_pages * n->pool.page_bytes);
}

/* A stage without linear layers, from the blocks of one whole sequence on. */
static void knows_shards_without_slots(void **state)
{
    struct pool_budget n = hybrid;

    (void)state;
    n.pool.pages_per_slot = 0;
    divides(&n, "142MiB", 32, 0);
    divides(&n, "4GiB", 4096 - 110, 0);
    divides(&n, NULL, 64 * 32, 0);
    assert_int_equal(divide("141MiB", 100 * GIB, &n), ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(e.text, "one sequence of 1024 tokens 32.0 MiB"));
}

/* A stage without attention: a sequence takes one slot, whatever its length. */
static void knows_shards_without_blocks(void **state)
{
    struct pool_budget n = hybrid;

    (void)state;
    n.pool.page_bytes = 4 * MIB;
    n.pool.pages_per_slot = 1;
    n.pool.pages_per_block = 0;
    divides(&n, "114MiB", 1, 1);
    divides(&n, "117MiB", 1, 1);
    divides(&n, "118MiB", 2, 2);
    divides(&n, "366MiB", 64, 64);
    divides(&n, "510MiB", 100, 64);
    divides(&n, NULL, 64, 64);
    assert_int_equal(divide("113MiB", 100 * GIB, &n), ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(e.text, "one sequence of 1024 tokens 4.0 MiB"));
}

static void reads_sizes_and_shares(void **state)
{
    static const char *const bad[] = {"0.0", "1.1",  "lots",  "-1GiB",
                                      "",    "0x.8", "0X.8p0"};

    (void)state;
    assert_int_equal(divide("0.5", 2 * GIB, &hybrid), ST_OK);
    assert_true(b.bytes <= GIB && b.bytes > GIB - 4 * MIB);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(divide(bad[i], GIB, &hybrid), ST_INVALID_ARGUMENT);
    }
}

/* More than the machine, or the device, has. */
static void refuses_what_is_not_there(void **state)
{
    struct budget_memory m = {.text = "2GiB", .available = 2 * GIB};

    (void)state;
    assert_int_equal(budget_divide(&b, &m, &hybrid, &e), ST_OK);
    m.available--;
    assert_int_equal(budget_divide(&b, &m, &hybrid, &e), ST_RESOURCE_EXHAUSTED);
    assert_string_equal(e.text,
                        "--memory 2GiB is 2048.0 MiB, more than the 2048.0 MiB "
                        "that this machine or its cgroup has available; give "
                        "less, or a share such as 0.5");
    m.device = true;
    m.available = GIB;
    assert_int_equal(budget_divide(&b, &m, &hybrid, &e), ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(e.text, "1024.0 MiB that the device has"));
    m.text = "1.0";
    assert_int_equal(budget_divide(&b, &m, &hybrid, &e), ST_OK);
}

static enum status alone(const char *text, uint64_t *bytes)
{
    struct budget_memory m = {.text = text, .available = 2 * GIB};

    return budget_bytes(bytes, &m, &e);
}

/* Before the layers are assigned: --memory, or a quarter of the available
 * memory. */
static void reads_a_budget_alone(void **state)
{
    uint64_t bytes;

    (void)state;
    assert_int_equal(alone(NULL, &bytes), ST_OK);
    assert_int_equal(bytes, GIB / 2);
    assert_int_equal(alone("0.75", &bytes), ST_OK);
    assert_int_equal(bytes, 3 * GIB / 2);
    assert_int_equal(alone("2GiB", &bytes), ST_OK);
    assert_int_equal(bytes, 2 * GIB);
    assert_int_equal(alone("3GiB", &bytes), ST_RESOURCE_EXHAUSTED);
    assert_int_equal(alone("1.1", &bytes), ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "--memory 1.1: give a size such as 4GiB"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_64_sequences_of_the_context),
        cmocka_unit_test(takes_at_most_a_quarter),
        cmocka_unit_test(fits_one_sequence_and_no_less),
        cmocka_unit_test(knows_shards_without_slots),
        cmocka_unit_test(knows_shards_without_blocks),
        cmocka_unit_test(reads_sizes_and_shares),
        cmocka_unit_test(refuses_what_is_not_there),
        cmocka_unit_test(reads_a_budget_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
