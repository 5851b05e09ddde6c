#include <string.h>

#include "common/base/utf8.h"
#include "tests/unit/cmocka.h"

/* Rows of Table 3-7 of the Unicode Standard, at their borders. */
static const struct {
    const char *s;
    size_t n, length; /* 0: no character */
} edges[] = {
    {"\x00", 1, 1},
    {"\x7f", 1, 1},
    {"\x80", 1, 0},
    {"\xc1\xbf", 2, 0},
    {"\xc2\x80", 2, 2},
    {"\xdf\xbf", 2, 2},
    {"\xdf\xc0", 2, 0},
    {"\xe0\x9f\x80", 3, 0},
    {"\xe0\xa0\x80", 3, 3},
    {"\xed\x9f\xbf", 3, 3},
    {"\xed\xa0\x80", 3, 0}, /* a surrogate */
    {"\xef\xbf\xbf", 3, 3},
    {"\xf0\x8f\xbf\xbf", 4, 0},
    {"\xf0\x90\x80\x80", 4, 4},
    {"\xf4\x8f\xbf\xbf", 4, 4},
    {"\xf4\x90\x80\x80", 4, 0}, /* past U+10FFFF */
    {"\xf5\x80\x80\x80", 4, 0},
};

static void accepts_what_the_standard_lists(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        const uint8_t *s = (const uint8_t *)edges[i].s;
        enum utf8_kind kind;

        assert_int_equal(utf8_length(s, edges[i].n), edges[i].length);
        assert_int_equal(utf8_valid(s, edges[i].n, NULL), edges[i].length > 0);
        (void)utf8_step(s, edges[i].n, &kind);
        assert_int_equal(kind, edges[i].length > 0 ? UTF8_CHAR : UTF8_BAD);
        for (size_t n = 1; n < edges[i].length; n++) {
            assert_int_equal(utf8_step(s, n, &kind), n);
            assert_int_equal(kind, UTF8_CUT);
            assert_int_equal(utf8_length(s, n), 0);
        }
    }
}

static void finds_the_first_bad_byte(void **state)
{
    static const char text[] = "ab\xc3\xa9\xe2\x82z";
    size_t bad = 99;

    (void)state;
    assert_true(utf8_valid(text, 4, &bad));
    assert_int_equal(bad, 99);
    assert_false(utf8_valid(text, strlen(text), &bad));
    assert_int_equal(bad, 4);
    assert_true(utf8_valid(text, 0, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_what_the_standard_lists),
        cmocka_unit_test(finds_the_first_bad_byte),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
