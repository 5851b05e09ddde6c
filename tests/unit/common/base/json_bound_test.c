#include "common/base/json_bound.h"

#include <string.h>

#include "tests/unit/cmocka.h"

/* The text is accepted with these bounds, and refused with any of them one
 * lower. */
static void needs(const char *text, size_t depth, size_t values, size_t lists)
{
    const struct json_bounds just = {depth, values, lists};
    size_t len = strlen(text);
    struct error e;

    assert_int_equal(json_bound(text, len, &just, ST_OUT_OF_RANGE, &e), ST_OK);
    for (int i = 0; i < 3; i++) {
        static const char *const words[] = {"nested", "values", "arrays"};
        struct json_bounds less = just;
        size_t *one = i == 0   ? &less.depth
                      : i == 1 ? &less.values
                               : &less.lists;

        if (*one == 0) {
            continue;
        }
        --*one;
        assert_int_equal(json_bound(text, len, &less, ST_OUT_OF_RANGE, &e),
                         ST_OUT_OF_RANGE);
        assert_non_null(strstr(e.text, words[i]));
    }
}

static void counts(void **state)
{
    (void)state;
    needs("", 0, 0, 0);
    needs("{}", 1, 1, 1);
    needs("[[], [], {}]", 2, 6, 4);
    needs("{\"a\": [1, 2, 3], \"b\": {\"c\": null}}", 2, 6, 3);
    needs("[[[[]]]]", 4, 4, 4);
    needs("[[]][[]]", 2, 4, 4);
}

/* Brackets and commas inside strings are not structure. */
static void skips_strings(void **state)
{
    (void)state;
    needs("[\"[[[,,,{{{\"]", 1, 1, 1);
    needs("[\"a\\\"[\", \"\\\\\", 1]", 1, 3, 1);
    needs("\"[[[", 0, 0, 0);
    needs("\"\\", 0, 0, 0);
    needs("]]}}[", 1, 1, 1);
}

static void counts_members(void **state)
{
    static const char text[] = "{\"a:\\\":\": {\"b\":1}, \"c\" : [{}]}";

    (void)state;
    assert_int_equal(json_members("", 0), 0);
    assert_int_equal(json_members("{}", 2), 0);
    assert_int_equal(json_members(text, sizeof text - 1), 3);
    assert_int_equal(json_members("\":", 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts),
        cmocka_unit_test(skips_strings),
        cmocka_unit_test(counts_members),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
