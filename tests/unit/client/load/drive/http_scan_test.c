/* JSON read from left to right, with every escape. */
#include "client/load/drive/http_scan.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/cmocka.h"

static void reads(const char *json, const char *want)
{
    struct scan s;
    struct scan_slice string;
    struct http_text out = {0};

    scan_begin(&s, json, strlen(json));
    assert_true(scan_string(&s, &string));
    scan_text(&string, &out);
    http_text_put(&out, "", 1);
    assert_string_equal(out.bytes, want);
    http_text_fini(&out);
}

static void strings_lose_their_escapes(void **state)
{
    (void)state;
    reads("\"\"", "");
    reads("\"plain\"", "plain");
    reads("  \"a\\\"b\\\\c\\/d\"", "a\"b\\c/d");
    reads("\"\\b\\f\\n\\r\\t\"", "\b\f\n\r\t");
    reads("\"\\u0041\\u00e9\\u20ac\"", "A\xc3\xa9\xe2\x82\xac");
    reads("\"\\ud83d\\ude00!\"", "\xf0\x9f\x98\x80!");
    reads("\"\xc3\xa9\"", "\xc3\xa9");
    reads("\"\\\\\"", "\\");
    reads("\"\\\\u0041\"", "\\u0041");
}

static void broken_escapes_become_replacements(void **state)
{
    (void)state;
    reads("\"\\ud83d\"", "\xef\xbf\xbd");
    reads("\"\\ude00x\"", "\xef\xbf\xbdx");
    reads("\"\\ud83d\\u0041\"", "\xef\xbf\xbd"
                                "A");
    reads("\"\\u12\"", "\xef\xbf\xbd"
                       "12");
    reads("\"\\q\"", "\xef\xbf\xbd");
}

/* Returns the member n of an object, skipping all others. */
static bool finds(const char *json, size_t n_json, uint64_t *out)
{
    struct scan s;
    struct scan_slice key;
    bool found = false;

    scan_begin(&s, json, n_json);
    if (!scan_object(&s)) {
        return false;
    }
    while (scan_member(&s, &key)) {
        if (scan_is(&key, "n")) {
            found = scan_u64(&s, out);
        } else {
            scan_skip(&s);
        }
    }
    return found && !s.bad;
}

static void members_are_found_behind_any_value(void **state)
{
    static const char *const before[] = {
        "",
        "\"a\":null,",
        "\"a\":true, \"b\" : false ,",
        "\"a\":-1.5e+3,",
        "\"a\":\"}]\\\"n\\\":2,\",",
        "\"a\":{\"n\":3,\"b\":[{},[],{\"n\":4}]},",
        "\"a\":[],\"b\":{},",
        "\"a\":[1,\"]\",{\"x\":\"}\"}],",
    };
    char json[200];
    uint64_t v;

    (void)state;
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        snprintf(json, sizeof json, "{%s\"n\":%d ,\"z\":[null]}", before[i], 7);
        assert_true(finds(json, strlen(json), &v));
        assert_int_equal(v, 7);
    }
}

static void cut_json_is_bad_at_every_byte(void **state)
{
    static const char json[] =
        "{\"a\":[1,{\"b\":\"c\\\"\"}],\"n\":7,\"z\":{\"y\":[\"x\"]}}";
    uint64_t v;

    (void)state;
    assert_true(finds(json, sizeof json - 1, &v));
    for (size_t n = 0; n < sizeof json - 1; n++) {
        assert_false(finds(json, n, &v));
    }
}

static void wrong_json_is_bad(void **state)
{
    static const char *const wrong[] = {
        "{\"n\" 7}", "{n:7}",    "{\"n\":7,,}",   "{\"n\":}",
        "[\"n\"]",   "{\"n\":7", "{\"n\":\"7\"}", "{\"n\":7 8}"};
    uint64_t v;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(finds(wrong[i], strlen(wrong[i]), &v));
    }
}

static bool skips_depth(unsigned depth)
{
    char json[2 * SCAN_DEPTH_MAX + 8];
    struct scan s;

    memset(json, '[', depth);
    memset(json + depth, ']', depth);
    scan_begin(&s, json, 2 * (size_t)depth);
    scan_skip(&s);
    return !s.bad;
}

static void depth_is_limited(void **state)
{
    (void)state;
    assert_true(skips_depth(SCAN_DEPTH_MAX));
    assert_false(skips_depth(SCAN_DEPTH_MAX + 1));
}

static void written_strings_are_read_back(void **state)
{
    struct http_text json = {0}, out = {0};
    struct scan_slice string;
    struct scan s;
    char all[128 + 5] = {0};

    (void)state;
    for (int i = 0; i < 128; i++) {
        all[i] = (char)i;
    }
    memcpy(all + 128, "\xf0\x9f\x98\x80", 4);
    http_text_string(&json, all, 132);
    scan_begin(&s, json.bytes, json.n);
    assert_true(scan_string(&s, &string));
    scan_text(&string, &out);
    assert_int_equal(out.n, 132);
    assert_memory_equal(out.bytes, all, 132);
    http_text_fini(&json);
    http_text_fini(&out);
}

static void bytes_that_are_no_utf8_become_replacements(void **state)
{
    struct http_text json = {0};

    (void)state;
    http_text_string(&json, "a\xff\xc3", 3);
    assert_int_equal(json.n, 9);
    assert_memory_equal(json.bytes, "\"a\xef\xbf\xbd\xef\xbf\xbd\"", 9);
    http_text_fini(&json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_lose_their_escapes),
        cmocka_unit_test(broken_escapes_become_replacements),
        cmocka_unit_test(members_are_found_behind_any_value),
        cmocka_unit_test(cut_json_is_bad_at_every_byte),
        cmocka_unit_test(wrong_json_is_bad),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(written_strings_are_read_back),
        cmocka_unit_test(bytes_that_are_no_utf8_become_replacements),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
