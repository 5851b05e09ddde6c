/* The framing of HTTP/1.1 responses, split anywhere. */
#include "client/load/drive/http_reply.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/cmocka.h"

struct seen {
    char body[200];
    size_t n;
    int status, n_heads;
    bool streams;
};

static void on_head(void *arg, const struct http_reply *r)
{
    struct seen *s = arg;

    s->status = r->status;
    s->streams = r->streams;
    s->n_heads++;
}

static void on_body(void *arg, const char *bytes, size_t n)
{
    struct seen *s = arg;

    memcpy(s->body + s->n, bytes, n);
    s->n += n;
}

static const struct http_reply_ops ops = {on_head, on_body};
static const bool never = false;

/* Pushes text in parts of `step` bytes.  Returns the bytes taken. */
static size_t push(struct http_reply *r, const char *text, size_t step,
                   struct seen *s)
{
    size_t n = strlen(text), took = 0;

    http_reply_begin(r);
    for (size_t at = 0; at < n; at += step) {
        took += http_reply_push(r, text + at, step < n - at ? step : n - at,
                                &ops, s, &never);
    }
    return took;
}

static struct http_reply reply;

static void gives(const char *text, int status, const char *body, bool keeps)
{
    for (size_t step = 1; step <= strlen(text); step++) {
        struct seen s = {0};

        assert_int_equal(push(&reply, text, step, &s), strlen(text));
        assert_int_equal(reply.part, REPLY_DONE);
        assert_int_equal(s.status, status);
        assert_int_equal(s.n_heads, 1);
        assert_string_equal(s.body, body);
        assert_true(reply.keeps == keeps);
    }
}

static void bodies_end_by_length_or_last_chunk(void **state)
{
    (void)state;
    gives("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello",
          true);
    gives("HTTP/1.1 200 OK\r\ncontent-length:0\r\n\r\n", 200, "", true);
    gives("HTTP/1.1 204 None\r\n\r\n", 204, "", true);
    gives("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
          "5\r\nhello\r\nA;x=y\r\n0123456789\r\n0\r\nT: x\r\n\r\n",
          200, "hello0123456789", true);
    gives("HTTP/1.1 500\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx",
          500, "x", false);
    gives("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, "x", false);
    gives("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1"
          "\r\n\r\nx",
          200, "x", true);
}

static void interim_responses_are_skipped(void **state)
{
    (void)state;
    gives("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n"
          "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
          200, "x", true);
}

static void a_body_without_length_ends_with_the_connection(void **state)
{
    struct seen s = {0};

    (void)state;
    push(&reply, "HTTP/1.1 200 OK\r\n\r\nhello", 3, &s);
    assert_int_equal(reply.part, REPLY_BODY);
    assert_true(http_reply_close(&reply));
    assert_false(reply.keeps);
    assert_string_equal(s.body, "hello");
}

static void a_cut_response_is_incomplete(void **state)
{
    static const char *const texts[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        for (size_t n = 0; n < strlen(texts[i]); n++) {
            struct seen s = {0};
            char part[100];

            snprintf(part, sizeof part, "%.*s", (int)n, texts[i]);
            push(&reply, part, 1000, &s);
            assert_false(http_reply_close(&reply));
        }
    }
}

static void the_next_response_is_left_alone(void **state)
{
    struct seen s = {0};

    (void)state;
    assert_int_equal(push(&reply,
                          "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP",
                          1000, &s),
                     strlen("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"));
}

static void event_streams_are_recognised(void **state)
{
    struct seen s = {0};

    (void)state;
    push(&reply,
         "HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream; charset=utf-8"
         "\r\n\r\n",
         1000, &s);
    assert_true(s.streams);
    push(&reply, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n",
         1000, &s);
    assert_false(s.streams);
}

static void wrong_responses_are_bad(void **state)
{
    static const char *const texts[] = {
        "SSH-2.0-x\r\n",
        "HTTP/2 200\r\n\r\n",
        "HTTP/1.1 abc\r\n\r\n",
        "\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        "HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n1111111111111\r\n"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct seen s = {0};

        push(&reply, texts[i], 1000, &s);
        assert_int_equal(reply.part, REPLY_BAD);
        assert_non_null(reply.why);
        assert_false(http_reply_close(&reply));
    }
}

static void header_lines_are_limited(void **state)
{
    static char text[HTTP_HEAD_MAX + 64];
    struct seen s = {0};
    size_t n = (size_t)snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nX: ");

    (void)state;
    memset(text + n, 'x', HTTP_HEAD_MAX - 1 - 3);
    push(&reply, text, 1000, &s);
    assert_int_equal(reply.part, REPLY_HEAD);
    memset(text + n, 'x', HTTP_HEAD_MAX - 3);
    push(&reply, text, 1000, &s);
    assert_int_equal(reply.part, REPLY_BAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_end_by_length_or_last_chunk),
        cmocka_unit_test(interim_responses_are_skipped),
        cmocka_unit_test(a_body_without_length_ends_with_the_connection),
        cmocka_unit_test(a_cut_response_is_incomplete),
        cmocka_unit_test(the_next_response_is_left_alone),
        cmocka_unit_test(event_streams_are_recognised),
        cmocka_unit_test(wrong_responses_are_bad),
        cmocka_unit_test(header_lines_are_limited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
