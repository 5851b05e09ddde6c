/* Regions of kept inputs: against a plain array of tokens. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "worker/stages/keeps.h"

#define CAPACITY 40u

static void takes_the_first_gap_that_is_long_enough(void **state)
{
    struct keeps k;
    uint32_t at = 99;

    (void)state;
    keeps_init(&k, CAPACITY);
    assert_true(keeps_take(&k, 9, &at));
    assert_int_equal(at, 0);
    assert_true(keeps_take(&k, 3, &at));
    assert_int_equal(at, 9);
    assert_true(keeps_take(&k, 9, &at));
    assert_int_equal(at, 12);
    keeps_free(&k, 9);
    assert_true(keeps_take(&k, 4, &at)); /* the gap has 3 */
    assert_int_equal(at, 21);
    assert_true(keeps_take(&k, 2, &at));
    assert_int_equal(at, 9);
}

static void gives_exactly_its_capacity(void **state)
{
    struct keeps k;
    uint32_t at = 99;

    (void)state;
    keeps_init(&k, CAPACITY);
    assert_false(keeps_take(&k, CAPACITY + 1, &at));
    assert_true(keeps_take(&k, CAPACITY, &at));
    assert_int_equal(at, 0);
    assert_false(keeps_take(&k, 1, &at));
    keeps_free(&k, 0);
    assert_true(keeps_put(&k, CAPACITY - 1, 1));
    assert_false(keeps_put(&k, CAPACITY - 1, 1));
    assert_false(keeps_put(&k, CAPACITY - 2, 2));
    assert_false(keeps_put(&k, CAPACITY, 1));
    assert_false(keeps_put(&k, UINT32_MAX, 2));
    assert_false(keeps_put(&k, 1, UINT32_MAX));
    keeps_init(&k, 0);
    assert_false(keeps_take(&k, 1, &at));
    assert_false(keeps_put(&k, 0, 1));
    assert_int_equal(at, 0);
}

static void has_at_most_keeps_max_regions(void **state)
{
    struct keeps k;
    uint32_t at;

    (void)state;
    keeps_init(&k, 2 * KEEPS_MAX);
    for (uint32_t i = 0; i < KEEPS_MAX; i++) {
        assert_true(keeps_take(&k, 1, &at));
        assert_int_equal(at, i);
    }
    assert_false(keeps_take(&k, 1, &at));
    assert_false(keeps_put(&k, 2 * KEEPS_MAX - 1, 1));
    keeps_free(&k, 2 * KEEPS_MAX - 1); /* none begins there */
    keeps_free(&k, 0);
    assert_true(keeps_put(&k, 2 * KEEPS_MAX - 1, 1));
}

static bool is_free(const bool *used, uint32_t at, uint32_t n)
{
    bool free = at + n <= CAPACITY;

    for (uint32_t i = at; free && i < at + n; i++) {
        free = !used[i];
    }
    return free;
}

/* Returns the first free place, CAPACITY if there is none. */
static uint32_t first_free(const bool *used, uint32_t n)
{
    uint32_t at = 0;

    while (at < CAPACITY && !is_free(used, at, n)) {
        at++;
    }
    return at;
}

static void follows_a_plain_array(void **state)
{
    bool used[CAPACITY] = {false};
    uint32_t begins[CAPACITY] = {0}; /* the length of a region */
    struct keeps k;

    (void)state;
    keeps_init(&k, CAPACITY);
    srand(5);
    for (int i = 0; i < 20000; i++) {
        uint32_t n = 1 + (uint32_t)rand() % 9, at = (uint32_t)rand() % CAPACITY;
        uint32_t where = first_free(used, n), got = CAPACITY;
        int what = rand() % 4;

        if (what == 0) {
            assert_int_equal(keeps_take(&k, n, &got), where < CAPACITY);
            assert_int_equal(got, where);
            at = got;
        } else if (what == 1) {
            bool ok = is_free(used, at, n);

            assert_int_equal(keeps_put(&k, at, n), ok);
            at = ok ? at : CAPACITY;
        } else {
            keeps_free(&k, at);
            memset(&used[at], 0, begins[at] * sizeof used[0]);
            begins[at] = 0;
            continue;
        }
        if (at < CAPACITY) {
            memset(&used[at], 1, n * sizeof used[0]);
            begins[at] = n;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_the_first_gap_that_is_long_enough),
        cmocka_unit_test(gives_exactly_its_capacity),
        cmocka_unit_test(has_at_most_keeps_max_regions),
        cmocka_unit_test(follows_a_plain_array),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
