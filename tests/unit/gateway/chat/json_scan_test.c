/* The scan of JSON values agrees with the grammar, and its depth is bounded. */
#include <string.h>

#include "gateway/chat/json_scan.h"
#include "tests/unit/cmocka.h"

static bool whole(const char *text)
{
    return json_scan_whole(text, strlen(text));
}

static void values_of_the_grammar_are_whole(void **state)
{
    static const char *const texts[] = {"{}",
                                        "[]",
                                        "\"\"",
                                        "0",
                                        "-0",
                                        "12",
                                        "1.5",
                                        "1e5",
                                        "1E+5",
                                        "-1e-5",
                                        "0.0",
                                        "true",
                                        "false",
                                        "null",
                                        " [ ] ",
                                        "{ }\n",
                                        "[1,2 , 3]",
                                        "[[],{}]",
                                        "[1e5]",
                                        "[0]",
                                        "[-1.5]",
                                        "\"\\u00e9\\n\\/\"",
                                        "{\"a\":1,\"b\":[true,{\"c\":null}]}"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (!whole(texts[i])) {
            fail_msg("%s", texts[i]);
        }
    }
}

static void other_texts_are_not_whole(void **state)
{
    static const char *const texts[] = {
        "",          " ",          "{",           "[",     "\"",
        "-",         "01",         "1.",          ".5",    "1e",
        "1e+",       "+1",         "tru",         "truex", "nul",
        "nan",       "[1,]",       "[,1]",        "[1 2]", "{\"a\"}",
        "{\"a\":}",  "{a:1}",      "{\"a\":1,}",  "{,}",   "[1}",
        "{\"a\":1]", "\"\\x\"",    "\"\\u12g4\"", "1 2",   "{} {}",
        "'a'",       "\"\\u123\"", "--1",         "]"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (whole(texts[i])) {
            fail_msg("%s", texts[i]);
        }
    }
}

static bool nested(size_t depth)
{
    char text[2 * OUTPUT_JSON_DEPTH + 8];

    memset(text, '[', depth);
    memset(text + depth, ']', depth);
    return json_scan_whole(text, 2 * depth);
}

static void depth_is_bounded(void **state)
{
    (void)state;
    assert_true(nested(OUTPUT_JSON_DEPTH));
    assert_false(nested(OUTPUT_JSON_DEPTH + 1));
}

static void control_characters_in_strings_are_accepted(void **state)
{
    (void)state;
    assert_true(whole("\"a\nb\x01\""));
    assert_true(json_scan_whole("\"\0\"", 3));
    assert_false(json_scan_whole("[\0]", 3));
    assert_false(json_scan_whole("\"\\\0\"", 4));
}

static void numbers_end_before_the_next_byte(void **state)
{
    struct json_scan s = {0};

    (void)state;
    assert_int_equal(json_scan_step(&s, '4'), JSON_SCAN_MORE);
    assert_int_equal(json_scan_step(&s, ','), JSON_SCAN_ENDED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_the_grammar_are_whole),
        cmocka_unit_test(other_texts_are_not_whole),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(control_characters_in_strings_are_accepted),
        cmocka_unit_test(numbers_end_before_the_next_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
