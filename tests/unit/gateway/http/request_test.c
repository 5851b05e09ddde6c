/* Requests that are accepted, in every split of their bytes. */
#include <string.h>

#include "tests/unit/cmocka.h"
#include "world.h"

#define H "Host: a\r\n"

static const struct {
    const char *bytes;
    const char *log;
} rows[] = {
    {"GET / HTTP/1.1\r\n" H "\r\n", "GET /? \n"},
    {"\r\nGET / HTTP/1.1\r\n" H "\r\n", "GET /? \n"},
    {"GET /v1/models?a=1?%2f//.. HTTP/1.1\r\n" H "\r\n",
     "GET /v1/models?a=1?%2f//.. \n"},
    {"GET /v1/models/ HTTP/1.1\r\n" H "\r\n", "GET /v1/models/? \n"},
    {"GET /a%20b/%C3%a9/.x/..y/x. HTTP/1.1\r\n" H "\r\n",
     "GET /a b/\xc3\xa9/.x/..y/x.? \n"},
    {"GET /names/org%2Fa%20b/c HTTP/1.1\r\n" H "\r\n",
     "GET /names/org/a b/c? \n"},
    {"OPTIONS * HTTP/1.1\r\n" H "\r\n", "OPTIONS *? \n"},
    {"DELETE /x HTTP/1.1\r\n" H "\r\n", "OTHER /x? \n"},
    {"GET / HTTP/1.0\r\n\r\n", "GET /? \n"},
    {"POST /p HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nhello",
     "POST /p? hello\n"},
    {"POST /p HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\n", "POST /p? \n"},
    {"POST /p HTTP/1.1\r\n" H "content-LENGTH:\t 005 \t\r\n\r\nhello",
     "POST /p? hello\n"},
    {"POST /p HTTP/1.1\r\n" H "Transfer-Encoding: Chunked\r\n\r\n"
     "3\r\nabc\r\n00A;x=\"y\"\r\n0123456789\r\n0\r\n\r\n",
     "POST /p? abc0123456789\n"},
    {"POST /p HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
     "1\r\na\r\n0;end\r\nDigest: x\r\nContent-Length: 9\r\n\r\n"
     "GET /next HTTP/1.1\r\n" H "\r\n",
     "POST /p? a\nGET /next? \n"},
    {"POST /p HTTP/1.1\r\n" H "Content-Encoding: identity\r\n"
     "Content-Length: 1\r\nUpgrade: h2c\r\nX-Text: \x80\xff \"q\"\r\n\r\nz",
     "POST /p? z\n"},
    {"POST /a HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabc"
     "HEAD /b HTTP/1.1\r\n" H "\r\nGET /c HTTP/1.1\r\n" H
     "Connection: Close\r\n\r\nGET /never HTTP/1.1\r\n" H "\r\n",
     "POST /a? abc\nHEAD /b? \nGET /c? \n"},
    {"POST /p HTTP/1.1\r\n" H "Expect: 100-Continue\r\n"
     "Content-Length: 2\r\n\r\nok",
     "POST /p? ok\n"},
};

static void every_split_gives_the_same_exchange(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t n = strlen(rows[i].bytes);
        struct world whole;

        world_begin(&whole, NULL);
        world_send_text(&whole, rows[i].bytes);
        assert_string_equal(world_log(&whole), rows[i].log);
        for (size_t cut = 1; cut < n; cut++) {
            struct world w;

            world_begin(&w, NULL);
            world_send(&w, rows[i].bytes, cut, SIZE_MAX);
            world_send(&w, rows[i].bytes + cut, n - cut, SIZE_MAX);
            assert_string_equal(world_log(&w), rows[i].log);
            assert_string_equal(world_output(&w), world_output(&whole));
            assert_int_equal(w.closed, whole.closed);
            world_end(&w);
        }
        world_end(&whole);
    }
}

static void single_bytes_give_the_same_exchange(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct world w;

        world_begin(&w, NULL);
        world_send(&w, rows[i].bytes, strlen(rows[i].bytes), 1);
        assert_string_equal(world_log(&w), rows[i].log);
        world_end(&w);
    }
}

static void headers_are_found_by_lower_case_names(void **state)
{
    struct world w;
    size_t n;

    (void)state;
    world_begin(&w, NULL);
    w.hold = true;
    world_send_text(&w, "GET / HTTP/1.1\r\nHost: a\r\nX-Twice: 1\r\n"
                        "AUTHORIZATION:  Bearer key \r\nX-Twice: 2\r\n"
                        "X-Empty:\r\n\r\n");
    assert_string_equal(http_header(w.x, "authorization", &n), "Bearer key");
    assert_int_equal(n, 10);
    assert_string_equal(http_header(w.x, "x-twice", NULL), "1");
    assert_string_equal(http_header(w.x, "x-empty", &n), "");
    assert_int_equal(n, 0);
    assert_null(http_header(w.x, "x-none", &n));
    assert_int_equal(n, 0);
    world_end(&w);
}

static void freed_request_leaves_empty_texts(void **state)
{
    struct world w;
    size_t n;

    (void)state;
    world_begin(&w, NULL);
    w.hold = true;
    world_send_text(&w, "POST /p?q HTTP/1.1\r\nHost: a\r\n"
                        "Content-Length: 3\r\n\r\nabc");
    assert_true(http_server_metrics(w.server)->request_bytes > 0);
    http_body_free(w.x);
    assert_int_equal(http_server_metrics(w.server)->request_bytes, 0);
    assert_int_equal(http_method_of(w.x), HTTP_POST);
    assert_string_equal(http_path(w.x), "");
    assert_string_equal(http_query(w.x), "");
    assert_string_equal(http_body(w.x, &n), "");
    assert_int_equal(n, 0);
    assert_null(http_header(w.x, "host", NULL));
    world_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_split_gives_the_same_exchange),
        cmocka_unit_test(single_bytes_give_the_same_exchange),
        cmocka_unit_test(headers_are_found_by_lower_case_names),
        cmocka_unit_test(freed_request_leaves_empty_texts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
