#include "gateway/http/slots.h"

#include "tests/unit/cmocka.h"

static void old_id_does_not_find_the_next_owner(void **state)
{
    struct slots s;
    int a, b;
    uint32_t first, second;

    (void)state;
    slots_init(&s);
    first = slots_add(&s, &a);
    assert_ptr_equal(slots_find(&s, first), &a);
    slots_remove(&s, first);
    assert_null(slots_find(&s, first));
    second = slots_add(&s, &b);
    assert_ptr_equal(slots_find(&s, second), &b);
    assert_null(slots_find(&s, first));
    slots_fini(&s);
}

static void slots_have_a_limit(void **state)
{
    struct slots s;
    uint32_t id = 0;
    int item;

    (void)state;
    slots_init(&s);
    for (int i = 0; i < SLOTS_MAX; i++) {
        id = slots_add(&s, &item);
        assert_true(id < SLOT_NONE - 1);
    }
    assert_int_equal(slots_add(&s, &item), SLOT_NONE);
    slots_remove(&s, id);
    assert_int_not_equal(slots_add(&s, &item), SLOT_NONE);
    slots_fini(&s);
}

static void unknown_ids_find_nothing(void **state)
{
    struct slots s;
    int item;

    (void)state;
    slots_init(&s);
    assert_null(slots_find(&s, 0));
    (void)slots_add(&s, &item);
    assert_null(slots_find(&s, 1));
    assert_null(slots_find(&s, SLOT_NONE));
    assert_null(slots_find(&s, SLOT_NONE - 1));
    slots_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_id_does_not_find_the_next_owner),
        cmocka_unit_test(slots_have_a_limit),
        cmocka_unit_test(unknown_ids_find_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
