#include "common/wire/calls.h"

#include <stdlib.h>

#include "tests/unit/cmocka.h"

#define NUMBERS 64

/* Random adds and takes compared with a plain array.  The numbers share their
 * home, so that runs form, wrap and close. */
static void agrees_with_a_plain_array(void **state)
{
    struct call want[NUMBERS] = {{.number = 0}}, out;
    struct calls cs;
    uint32_t n = 0;

    (void)state;
    srand(2);
    calls_init(&cs);
    for (int turn = 0; turn < 300000; turn++) {
        int i = rand() % NUMBERS;
        uint64_t number = (uint64_t)(i % 8 + 4092) + 4096 * (uint64_t)(i / 8);
        const struct call *c = calls_find(&cs, number);

        assert_int_equal(c != NULL, want[i].number != 0);
        if (c == NULL) {
            want[i] = (struct call){number, (uint64_t)turn, rand() % 1000, 0};
            assert_true(calls_reserve(&cs, 1));
            calls_add(&cs, &want[i]);
            n++;
        } else {
            assert_int_equal(c->tag, want[i].tag);
            assert_true(calls_take(&cs, number, &out));
            assert_int_equal(out.tag, want[i].tag);
            assert_false(calls_take(&cs, number, &out));
            want[i].number = 0;
            n--;
        }
        assert_int_equal(cs.n, n);
    }
    while (calls_take_any(&cs, &out)) {
        n--;
    }
    assert_int_equal(n, 0);
    calls_fini(&cs);
}

static void takes_those_that_are_due(void **state)
{
    struct calls cs;
    struct call out;
    int64_t last = 0;
    int n = 0;

    (void)state;
    srand(3);
    calls_init(&cs);
    assert_true(cs.due_us == INT64_MAX);
    for (uint64_t i = 1; i <= 500; i++) {
        struct call c = {i * 7, i, 1 + rand() % 1000, NULL};

        assert_true(calls_reserve(&cs, 1));
        calls_add(&cs, &c);
    }
    for (int64_t now = 0; now <= 1000; now += 50) {
        while (calls_take_due(&cs, now, &out)) {
            assert_in_range(out.deadline_us, last + 1, now);
            n++;
        }
        assert_true(cs.due_us > now);
        last = now;
    }
    assert_int_equal(n, 500);
    assert_int_equal(cs.n, 0);
    calls_fini(&cs);
}

static void makes_room_for_many_at_once(void **state)
{
    struct calls cs;
    uint32_t capacity;

    (void)state;
    calls_init(&cs);
    assert_true(calls_reserve(&cs, 0));
    assert_int_equal(cs.capacity, 0);
    assert_true(calls_reserve(&cs, 100));
    capacity = cs.capacity;
    for (uint64_t i = 1; i <= 100; i++) {
        struct call c = {i, i, INT64_MAX, NULL};

        calls_add(&cs, &c);
    }
    assert_int_equal(cs.capacity, capacity);
    calls_fini(&cs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_a_plain_array),
        cmocka_unit_test(takes_those_that_are_due),
        cmocka_unit_test(makes_room_for_many_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
