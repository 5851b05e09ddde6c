/* The load's comparison of texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/faults/reference.h"

#define RUNNING   SLUICE__V1__FINISH__FINISH_RUNNING
#define CANCELLED SLUICE__V1__FINISH__FINISH_CANCELLED
#define STOP      SLUICE__V1__FINISH__FINISH_STOP

/* The recorded text " to" ends by the second stop string. */
static const struct client_stop stops[2] = {{"\n\n", 2}, {" the ", 5}};
static char text[] = " to";
static const struct stream_of_choice wanted = {
    .finish = STOP, .stop_string = 1, .text = text, .n_text = 3};

/* Returns the verdict on a chunk with this text, after `before`. */
static uint64_t wrong(size_t before, const char *chunk, int finish)
{
    struct reading r = {.n_text = before};
    struct client_chunk c = {
        .text = chunk, .n_text = strlen(chunk), .finish = finish};

    reading_chunk(&r, &wanted, stops, &c);
    return r.wrong;
}

static void text_as_it_was(void **state)
{
    (void)state;
    assert_int_equal(wrong(0, " to", RUNNING), 0);
    assert_int_equal(wrong(1, "t", RUNNING), 0);
    assert_int_equal(wrong(3, "", STOP), 0);
    assert_int_equal(wrong(0, " no", RUNNING), 1);
    assert_int_equal(wrong(0, " ton", RUNNING), 1);
}

static void what_was_held_back(void **state)
{
    (void)state;
    assert_int_equal(wrong(0, " to the", CANCELLED), 0);
    assert_int_equal(wrong(3, " the", CANCELLED), 0);
    assert_int_equal(wrong(3, " ", CANCELLED), 0);
    assert_int_equal(wrong(3, " the", RUNNING), 1);
    assert_int_equal(wrong(3, " the", STOP), 1);
    assert_int_equal(wrong(3, " the ", CANCELLED), 1);
    assert_int_equal(wrong(3, "\n", CANCELLED), 1);
    assert_int_equal(wrong(3, " that", CANCELLED), 1);
    assert_int_equal(wrong(0, " no the", CANCELLED), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_as_it_was),
        cmocka_unit_test(what_was_held_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
