/* The reader of HTTP responses: it takes what is right in any pieces, and finds
 * what is wrong. */
#include <string.h>

#include "tests/sim/web_reader.h"
#include "tests/unit/cmocka.h"

struct row {
    const char *bytes;
    int status;
    const char *body;
};

static const struct row right[] = {
    {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello"},
    {"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", 404, ""},
    {"HTTP/1.1 204 No Content\r\n\r\n", 204, ""},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
     "3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
     200, "hello"},
};

#define CHUNKED "Transfer-Encoding: chunked\r\n"

static const char *const wrong[] = {
    "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 99 Odd\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\n\r\n", /* neither a length nor a close */
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n" CHUNKED "\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n",
};

static void feed(struct web_reader *r, const char *bytes, size_t cut)
{
    size_t n = strlen(bytes);

    web_reader_begin(r, false);
    assert_int_equal(web_reader_feed(r, bytes, cut), cut);
    assert_int_equal(web_reader_feed(r, bytes + cut, n - cut), n - cut);
}

static void right_responses_are_read_in_any_two_pieces(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
        for (size_t cut = 0; cut < strlen(right[i].bytes); cut++) {
            struct web_reader r = {0};

            feed(&r, right[i].bytes, cut);
            assert_null(r.wrong);
            assert_int_equal(r.at, WEB_AT_DONE);
            assert_int_equal(r.status, right[i].status);
            assert_int_equal(r.n_body, strlen(right[i].body));
            assert_memory_equal(r.n_body ? r.body : "", right[i].body,
                                r.n_body);
            web_reader_fini(&r);
        }
    }
}

static void wrong_responses_are_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct web_reader r = {0};

        web_reader_begin(&r, false);
        (void)web_reader_feed(&r, wrong[i], strlen(wrong[i]));
        assert_non_null(r.wrong);
        web_reader_fini(&r);
    }
}

static void a_second_response_is_left_alone(void **state)
{
    static const char two[] = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"
                              "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nb";
    struct web_reader r = {0};
    size_t n;

    (void)state;
    web_reader_begin(&r, false);
    n = web_reader_feed(&r, two, sizeof(two) - 1);
    assert_int_equal(n, (sizeof(two) - 1) / 2);
    web_reader_begin(&r, false);
    assert_int_equal(web_reader_feed(&r, two + n, sizeof(two) - 1 - n), n);
    assert_string_equal(r.body, "b");
    web_reader_fini(&r);
}

static void a_body_without_length_ends_with_the_connection(void **state)
{
    static const char bytes[] = "HTTP/1.1 200 OK\r\nConnection: close\r\n"
                                "Content-Type: text/event-stream\r\n\r\nabc";
    struct web_reader r = {0};

    (void)state;
    feed(&r, bytes, 10);
    assert_null(r.wrong);
    assert_true(r.closes);
    assert_true(r.is_events);
    assert_int_equal(r.at, WEB_AT_END);
    assert_string_equal(r.body, "abc");
    web_reader_fini(&r);
}

static void a_head_request_has_no_body(void **state)
{
    static const char bytes[] = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
    struct web_reader r = {0};

    (void)state;
    web_reader_begin(&r, true);
    assert_int_equal(web_reader_feed(&r, bytes, sizeof(bytes) - 1),
                     sizeof(bytes) - 1);
    assert_int_equal(r.at, WEB_AT_DONE);
    web_reader_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_responses_are_read_in_any_two_pieces),
        cmocka_unit_test(wrong_responses_are_found),
        cmocka_unit_test(a_second_response_is_left_alone),
        cmocka_unit_test(a_body_without_length_ends_with_the_connection),
        cmocka_unit_test(a_head_request_has_no_body),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
