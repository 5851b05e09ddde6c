#include "gateway/http/cors.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "world.h"

static void hold(struct world *w, const char *headers)
{
    char text[400];

    snprintf(text, sizeof text, "GET / HTTP/1.0\r\n%s\r\n", headers);
    world_begin(w, NULL);
    w->hold = true;
    world_send_text(w, text);
    assert_non_null(w->x);
}

static void origins_are_checked(void **state)
{
    static const char *const good[] = {"*", "http://localhost:3000",
                                       "https://chat.example.com",
                                       "http://[::1]:80"};
    static const char *const bad[] = {
        "",          "example.com",        "ftp://a",          "https://",
        "http://a/", "http://a, http://b", "http://a\r\nX: y", "null"};

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(http_cors_valid(good[i]));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(http_cors_valid(bad[i]));
    }
}

static void only_the_allowed_origin_gets_headers(void **state)
{
    struct http_cors c;
    struct world w;

    (void)state;
    hold(&w, "Origin: https://a\r\n");
    c = http_cors_headers(w.x, "https://a", false);
    assert_string_equal(c.lines, "Access-Control-Allow-Origin: https://a\r\n"
                                 "Vary: Origin\r\n");
    c = http_cors_headers(w.x, "*", true);
    assert_non_null(strstr(c.lines, "Access-Control-Allow-Origin: *\r\n"));
    assert_non_null(strstr(c.lines, "Access-Control-Allow-Methods: GET"));
    assert_string_equal(http_cors_headers(w.x, NULL, true).lines, "");
    assert_string_equal(http_cors_headers(w.x, "https://b", true).lines, "");
    world_end(&w);
    hold(&w, "");
    assert_string_equal(http_cors_headers(w.x, "*", true).lines, "");
    world_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(origins_are_checked),
        cmocka_unit_test(only_the_allowed_origin_gets_headers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
