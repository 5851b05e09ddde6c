/* Requests that are refused, in every split of their bytes: shapes that two
 * servers could read differently, and what this server does not do. */
#include <string.h>

#include "tests/unit/cmocka.h"
#include "world.h"

#define H         "Host: a\r\n"
#define GET(t)    "GET " t " HTTP/1.1\r\n" H "\r\n"
#define WITH(h)   "POST / HTTP/1.1\r\n" H h "\r\n\r\n"
#define CHUNKS(c) "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n" c

static const struct {
    int status;
    const char *bytes;
} rows[] = {
    /* the request line */
    {400, " GET / HTTP/1.1\r\n" H "\r\n"},
    {400, "\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n"},
    {400, "\nGET / HTTP/1.1\r\n" H "\r\n"},
    {400, "GET  / HTTP/1.1\r\n" H "\r\n"},
    {400, "GET /  HTTP/1.1\r\n" H "\r\n"},
    {400, "GET\t/ HTTP/1.1\r\n" H "\r\n"},
    {400, "GET / HTTP/1.1 \r\n" H "\r\n"},
    {400, "GET / HTTP/1.1\n" H "\r\n"},
    {400, "GET / HTTP/1.1\rX" H "\r\n"},
    {400, "GET /\r\n\r\n"},
    {400, "GET / http/1.1\r\n" H "\r\n"},
    {400, "G(T / HTTP/1.1\r\n" H "\r\n"},
    {400, "\x16\x03\x01\x02\x01"},
    {505, "GET / HTTP/2.0\r\n" H "\r\n"},
    {505, "GET / HTTP/0.9\r\n" H "\r\n"},
    {505, "GET / HTTP/1.2\r\n" H "\r\n"},
    {505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
    /* the target */
    {400, GET("http://b/v1/models")},
    {400, GET("http:///v1/models")},
    {400, GET("https://a@a/v1/models")},
    {400, GET("http://a:80/v1/models")},
    {400, GET("ftp://a/v1/models")},
    {400, GET("a:443")},
    {400, GET("v1/models")},
    {400, GET("?x")},
    {400, GET("//v1/models")},
    {400, GET("/v1//models")},
    {400, GET("/v1/models//")},
    {400, GET("/v1/../models")},
    {400, GET("/v1/./models")},
    {400, GET("/v1/..")},
    {400, GET("/..")},
    {400, GET("/.")},
    {400, GET("/v1/%2e%2e/models")},
    {400, GET("/v1/%2E/models")},
    {400, GET("/v1%2fmodels")},
    {400, GET("/names%2fa")},
    {400, GET("/names/a%2f%2fb")},
    {400, GET("/names/%2fa")},
    {400, GET("/names/..%2fa")},
    {400, GET("/names/a%2f..")},
    {400, GET("/names/a%2F%2e%2e")},
    {400, GET("/names/a%252fb")},
    {400, GET("/v1%5Cmodels")},
    {400, GET("/v1\\models")},
    {400, GET("/v1/%252e")},
    {400, GET("/v1/%00")},
    {400, GET("/v1/%0d%0a")},
    {400, GET("/v1/%7f")},
    {400, GET("/v1/%2")},
    {400, GET("/v1/%")},
    {400, GET("/v1/%zz")},
    {400, GET("/v1/%ff")},
    {400, GET("/v1/\xc3\xa9")},
    {400, GET("/v1#x")},
    {400, GET("/v1/<x>")},
    {400, "GET /\x01 HTTP/1.1\r\n" H "\r\n"},
    {400, "GET /\x7f HTTP/1.1\r\n" H "\r\n"},
    /* headers */
    {400, "GET / HTTP/1.1\r\n\r\n"},
    {400, "GET / HTTP/1.1\r\nHost:\r\n\r\n"},
    {400, "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"},
    {400, "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"},
    {400, "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"},
    {400, "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"},
    {400, WITH("X : 1")},
    {400, WITH("X\t: 1")},
    {400, WITH(": 1")},
    {400, WITH("X")},
    {400, WITH("X(y): 1")},
    {400, WITH("X: 1\r\n 2")},
    {400, WITH("X: 1\r\n\t2")},
    {400, "GET / HTTP/1.1\r\n Host: a\r\n\r\n"},
    {400, WITH("X: 1\nY: 2")},
    {400, WITH("X: a\rb")},
    {400, WITH("X: \x01")},
    {400, WITH("X: \x7f")},
    {400, WITH("X: \x0b")},
    {400, "GET / HTTP/1.1\r\n" H "\n"},
    {400, WITH("Authorization: a\r\nAuthorization: b")},
    {400, WITH("Content-Type: a\r\nContent-Type: b")},
    /* lengths */
    {400, WITH("Content-Length: 5\r\nContent-Length: 5")},
    {400, WITH("Content-Length: 5\r\nContent-Length: 6")},
    {400, WITH("Content-Length: 5, 5")},
    {400, WITH("Content-Length: +5")},
    {400, WITH("Content-Length: -1")},
    {400, WITH("Content-Length: 0x5")},
    {400, WITH("Content-Length: 5 5")},
    {400, WITH("Content-Length: 1e1")},
    {400, WITH("Content-Length:")},
    {413, WITH("Content-Length: 2147483648")},
    {413, WITH("Content-Length: 9223372036854775808")},
    {413, WITH("Content-Length: 18446744073709551621")},
    {413, WITH("Content-Length: 99999999999999999999999999999999999999")},
    {400, WITH("Content-Length: 5\r\nTransfer-Encoding: chunked")},
    {400, WITH("Transfer-Encoding: chunked\r\nContent-Length: 5")},
    {400, WITH("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked")},
    {400, WITH("Transfer-Encoding: chunked\r\nTransfer-Encoding: x")},
    {400, "POST / HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n\r\n"},
    {501, WITH("Transfer-Encoding: gzip, chunked")},
    {501, WITH("Transfer-Encoding: chunked, chunked")},
    {501, WITH("Transfer-Encoding: xchunked")},
    {501, WITH("Transfer-Encoding: chunked;q=1")},
    {501, WITH("Transfer-Encoding: identity")},
    {501, WITH("Transfer-Encoding: \"chunked\"")},
    {501, WITH("Transfer-Encoding:")},
    {400, WITH("Transfer-Encoding: \x0b"
               "chunked")},
    {400, WITH("Transfer-Encoding : chunked")},
    {400, WITH("Transfer-Encoding:\r\n chunked")},
    /* codings and expectations */
    {415, WITH("Content-Encoding: gzip")},
    {415, WITH("Content-Encoding: br\r\nContent-Length: 5")},
    {417, WITH("Expect: 200-ok")},
    {417, WITH("Expect: 100-continue, x")},
    {400, WITH("Expect: 100-continue\r\nExpect: 100-continue")},
    /* chunks */
    {400, CHUNKS("x\r\n")},
    {400, CHUNKS("\r\n")},
    {400, CHUNKS(";a\r\n")},
    {400, CHUNKS(" 1\r\n")},
    {400, CHUNKS("1 \r\n")},
    {400, CHUNKS("1 ;a\r\n")},
    {400, CHUNKS("-1\r\n")},
    {400, CHUNKS("+1\r\n")},
    {400, CHUNKS("0x1\r\n")},
    {400, CHUNKS("1\na")},
    {400, CHUNKS("1\rXa")},
    {400, CHUNKS("1;a\nb")},
    {400, CHUNKS("1;\x01\r\n")},
    {400, CHUNKS("1\r\nab\r\n")},
    {400, CHUNKS("1\r\na\n0\r\n\r\n")},
    {400, CHUNKS("1\r\na0\r\n\r\n")},
    {400, CHUNKS("0\r\n X: 1\r\n\r\n")},
    {400, CHUNKS("0\r\nX : 1\r\n\r\n")},
    {400, CHUNKS("0\r\nX\r\n\r\n")},
    {400, CHUNKS("0\r\nX: 1\n\r\n")},
    {413, CHUNKS("8000000000000000\r\n")},
    {413, CHUNKS("FFFFFFFFFFFFFFFF\r\n")},
    {400, CHUNKS("10000000000000000\r\n")},
    {400, CHUNKS("00000000000000001\r\n")},
};

/* A second request behind the refused one must not be served. */
#define SMUGGLED "GET /smuggled HTTP/1.1\r\n" H "\r\n"

static void check(size_t i, size_t piece)
{
    struct world w;

    world_begin(&w, NULL);
    world_send(&w, rows[i].bytes, strlen(rows[i].bytes), piece);
    world_send(&w, SMUGGLED, strlen(SMUGGLED), piece);
    if (world_status(&w) != rows[i].status) {
        print_message("%s\n-> %s\n", rows[i].bytes, world_output(&w));
    }
    assert_int_equal(world_status(&w), rows[i].status);
    assert_non_null(strstr(world_output(&w), "\r\nConnection: close\r\n"));
    assert_non_null(strstr(world_output(&w), "{\"error\":{\"message\":\""));
    assert_string_equal(world_log(&w), "");
    assert_true(w.closed);
    world_end(&w);
}

static void ambiguous_requests_are_refused_and_close(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check(i, SIZE_MAX);
    }
}

static void splits_do_not_change_a_refusal(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t piece = 1; piece <= 7; piece++) {
            check(i, piece);
        }
    }
}

static void nul_is_refused_everywhere(void **state)
{
    static const char text[] =
        "POST /p HTTP/1.1\r\n" H "X: y\r\nTransfer-Encoding: chunked\r\n\r\n"
        "1\r\na\r\n0\r\nT: u\r\n\r\n";
    const char *data = strstr(text, "a\r\n0");

    (void)state;
    for (size_t i = 0; i + 1 < sizeof text; i++) {
        char copy[sizeof text];
        struct world w;

        memcpy(copy, text, sizeof text);
        copy[i] = '\0';
        world_begin(&w, NULL);
        world_send(&w, copy, sizeof text - 1, SIZE_MAX);
        /* A NUL inside the data is data. */
        assert_int_equal(world_status(&w) == 200, text + i == data);
        world_end(&w);
    }
}

static void refusal_follows_earlier_answers(void **state)
{
    struct world w;
    const char *ok, *bad;

    (void)state;
    world_begin(&w, NULL);
    world_send_text(&w, "GET /first HTTP/1.1\r\n" H "\r\nGET //bad HTTP/1.1"
                        "\r\n" H "\r\n" SMUGGLED);
    ok = strstr(world_output(&w), "HTTP/1.1 200 OK");
    bad = strstr(world_output(&w), "HTTP/1.1 400 Bad Request");
    assert_true(ok != NULL && bad != NULL && ok < bad);
    assert_string_equal(world_log(&w), "GET /first? \n");
    world_end(&w);
}

static void refusal_is_json_whatever_is_quoted(void **state)
{
    struct world w;

    (void)state;
    world_begin(&w, NULL);
    world_send_text(&w, GET("/\"\\x"));
    assert_non_null(strstr(world_output(&w),
                           "{\"error\":{\"message\":\"the path \\\"/\\\\\\\""
                           "\\\\\\\\x\\\" has a character that must be "
                           "percent-encoded\",\"type\":"
                           "\"invalid_request_error\",\"param\":null,"
                           "\"code\":null}}"));
    world_end(&w);
}

static void refused_head_request_gets_no_body(void **state)
{
    struct world w;

    (void)state;
    world_begin(&w, NULL);
    world_send_text(&w, "HEAD / HTTP/1.1\r\n" H "Content-Length: 9\r\n"
                        "Transfer-Encoding: chunked\r\n\r\n");
    assert_int_equal(world_status(&w), 400);
    assert_null(strchr(world_output(&w), '{'));
    world_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ambiguous_requests_are_refused_and_close),
        cmocka_unit_test(splits_do_not_change_a_refusal),
        cmocka_unit_test(nul_is_refused_everywhere),
        cmocka_unit_test(refusal_follows_earlier_answers),
        cmocka_unit_test(refusal_is_json_whatever_is_quoted),
        cmocka_unit_test(refused_head_request_gets_no_body),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
