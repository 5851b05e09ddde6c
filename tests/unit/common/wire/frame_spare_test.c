/* Memory of frames: sizes, reuse, and the bounds of what is kept. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/frame_spare.h"
#include "tests/unit/cmocka.h"

/* All of the memory can be written, at every size around the classes'
 * borders. */
static void there_is_room(void **state)
{
    (void)state;
    for (size_t c = FRAME_SPARE_LEAST; c <= 2 * FRAME_SPARE_MOST; c *= 2) {
        for (size_t bytes = c - 1; bytes <= c + 1; bytes++) {
            size_t room;
            void *p = spare_take(bytes, &room);

            assert_true(room >= bytes);
            memset(p, 0xa5, bytes);
            spare_give(p, room);
        }
    }
}

static void what_was_given_is_taken(void **state)
{
    size_t room, again;
    void *p = spare_take(1000, &room), *q;
    uintptr_t was = (uintptr_t)p;

    (void)state;
    spare_give(p, room);
    q = spare_take(room - 100, &again);
    if (FRAME_SPARE_KEEPS) {
        assert_true((uintptr_t)q == was);
        assert_int_equal(again, room);
    }
    spare_give(q, again);
    spare_give(NULL, 0);
}

/* One class at its bound and one past it: the excess is freed, which a leak
 * checker would otherwise report. */
static void so_much_is_kept(void **state)
{
    enum { N = FRAME_SPARE_MAX + 1 };
    static void *pieces[N];
    size_t room = 0;

    (void)state;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) {
            pieces[i] = spare_take(100, &room);
            assert_int_equal(room, FRAME_SPARE_KEEPS ? FRAME_SPARE_LEAST : 100);
            for (int j = 0; j < i; j++) {
                assert_ptr_not_equal(pieces[j], pieces[i]);
            }
        }
        for (int i = 0; i < N; i++) {
            spare_give(pieces[i], room);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_is_room),
        cmocka_unit_test(what_was_given_is_taken),
        cmocka_unit_test(so_much_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
