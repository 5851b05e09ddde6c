/* The map of names: against a plain array. */
#include <stdlib.h>

#include "tests/unit/cmocka.h"
#include "worker/stages/name_map.h"

static void finds_what_was_added(void **state)
{
    struct name_map m;
    uint32_t value = 5;

    (void)state;
    assert_true(name_map_init(&m, 3));
    assert_false(name_map_find(&m, 7, &value));
    assert_int_equal(value, 5);
    assert_true(name_map_add(&m, 7, 70));
    assert_true(name_map_add(&m, 0, 1));
    assert_true(name_map_add(&m, UINT32_MAX, 2));
    assert_true(name_map_find(&m, 7, &value));
    assert_int_equal(value, 70);
    assert_true(name_map_find(&m, UINT32_MAX, &value));
    assert_int_equal(value, 2);
    assert_false(name_map_add(&m, 8, 80)); /* full */
    assert_true(name_map_remove(&m, 0));
    assert_false(name_map_remove(&m, 0));
    assert_true(name_map_add(&m, 8, 80));
    name_map_clear(&m);
    assert_false(name_map_find(&m, 8, &value));
    assert_int_equal(m.n, 0);
    name_map_fini(&m);
}

static void equals_an_array_after_random_changes(void **state)
{
    enum { NAMES = 64, ROOM = 24 };
    struct name_map m;
    uint32_t known[NAMES] = {0}, n = 0, value;

    (void)state;
    srand(7);
    assert_true(name_map_init(&m, ROOM));
    for (int turn = 0; turn < 200000; turn++) {
        uint32_t name = (uint32_t)rand() % NAMES;

        if (known[name] != 0) {
            assert_true(name_map_find(&m, name * 16, &value));
            assert_int_equal(value, known[name]);
            if (rand() % 2 == 0) {
                assert_true(name_map_remove(&m, name * 16));
                known[name] = 0;
                n--;
            }
        } else {
            assert_false(name_map_find(&m, name * 16, &value));
            assert_int_equal(name_map_add(&m, name * 16, name + 1u), n < ROOM);
            known[name] = n < ROOM ? name + 1 : 0;
            n += n < ROOM;
        }
        assert_int_equal(m.n, n);
    }
    name_map_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_was_added),
        cmocka_unit_test(equals_an_array_after_random_changes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
