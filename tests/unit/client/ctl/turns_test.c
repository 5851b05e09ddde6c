/* Interleaved texts are shown one after the other. */
#include "client/ctl/turns.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/cmocka.h"

static char shown[256];

static void add(const char *text, size_t n)
{
    assert_true(strlen(shown) + n < sizeof shown);
    strncat(shown, text, n);
}

static void begin(void *arg, uint32_t i)
{
    char head[16];

    (void)arg;
    add(head, (size_t)snprintf(head, sizeof head, "<%u>", i));
}

static void show(void *arg, const char *text, size_t n)
{
    (void)arg;
    assert_true(n > 0);
    add(text, n);
}

static void end(void *arg, uint32_t i)
{
    char tail[16];

    (void)arg;
    add(tail, (size_t)snprintf(tail, sizeof tail, "</%u>", i));
}

static const struct turns_ops ops = {begin, show, end};

static struct turns *start(uint32_t n)
{
    shown[0] = '\0';
    return turns_new(n, &ops, NULL);
}

static void put(struct turns *t, uint32_t i, const char *text)
{
    turns_put(t, i, text, strlen(text));
}

static void the_first_text_is_shown_at_once(void **state)
{
    struct turns *t = start(1);

    (void)state;
    put(t, 0, "a");
    assert_string_equal(shown, "<0>a");
    put(t, 0, "");
    put(t, 0, "b");
    turns_end(t, 0);
    turns_finish(t);
    assert_string_equal(shown, "<0>ab</0>");
    turns_free(&t);
    assert_null(t);
}

static void later_texts_are_held(void **state)
{
    struct turns *t = start(3);

    (void)state;
    put(t, 2, "x");
    put(t, 0, "a");
    put(t, 1, "1");
    put(t, 0, "b");
    put(t, 1, "2");
    turns_end(t, 2);
    assert_string_equal(shown, "<0>ab");
    turns_end(t, 0);
    assert_string_equal(shown, "<0>ab</0><1>12");
    put(t, 1, "3"); /* shown at once from here on */
    assert_string_equal(shown, "<0>ab</0><1>123");
    turns_end(t, 1);
    assert_string_equal(shown, "<0>ab</0><1>123</1><2>x</2>");
    turns_free(&t);
}

static void finish_shows_the_held_texts(void **state)
{
    struct turns *t = start(3);

    (void)state;
    put(t, 1, "held");
    put(t, 0, "a");
    turns_finish(t);
    assert_string_equal(shown, "<0>a</0><1>held</1><2></2>");
    turns_free(&t);
}

static void held_texts_are_freed(void **state)
{
    struct turns *t = start(2);

    (void)state;
    put(t, 1, "held");
    turns_free(&t);
    assert_string_equal(shown, "<0>");
}

static void text_after_an_end_is_ignored(void **state)
{
    struct turns *t = start(2);

    (void)state;
    turns_end(t, 1);
    turns_end(t, 1);
    put(t, 1, "late");
    turns_end(t, 0);
    put(t, 0, "late");
    assert_string_equal(shown, "<0></0><1></1>");
    turns_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_text_is_shown_at_once),
        cmocka_unit_test(later_texts_are_held),
        cmocka_unit_test(finish_shows_the_held_texts),
        cmocka_unit_test(held_texts_are_freed),
        cmocka_unit_test(text_after_an_end_is_ignored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
