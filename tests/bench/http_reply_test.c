/* The load's parser of HTTP replies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/bench/http_reply.h"

#define LINES 512

static void add_line(void *arg, const char *line, size_t n)
{
    char *lines = arg;

    assert_true(strlen(lines) + n + 2 < LINES);
    strncat(lines, line, n);
    strcat(lines, "|");
}

/* Reads a whole connection in pieces of `piece` bytes; joins all lines. */
static void read_all(struct http_reply *r, const char *data, size_t piece,
                     char lines[LINES])
{
    size_t n = strlen(data);

    http_reply_init(r);
    lines[0] = '\0';
    while (n > 0 && r->state != HTTP_REPLY_BAD) {
        size_t m = piece < n ? piece : n;
        size_t taken = http_reply_push(r, data, m, add_line, lines);

        data += taken;
        n -= taken;
        if (r->state == HTTP_REPLY_DONE && n > 0) {
            strcat(lines, "#");
            http_reply_next(r);
        }
    }
}

static const char two[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    "transfer-encoding: Chunked\r\n\r\n"
    "c\r\ndata: {\"a\":1\r\n4\r\n}\n\n1\r\n2\r\n\n\n\r\n0\r\n\r\n"
    "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 7\r\n\r\n{\"b\":2}"
    "HTTP/1.1 204 No Content\r\n\r\n";

static void same_lines_for_every_piece(void **state)
{
    struct http_reply r;
    char lines[LINES];

    (void)state;
    for (size_t piece = 1; piece <= sizeof two; piece++) {
        read_all(&r, two, piece, lines);
        assert_string_equal(lines, "data: {\"a\":1}||1||#{\"b\":2}|#");
        assert_int_equal(r.state, HTTP_REPLY_DONE);
        assert_int_equal(r.status, 204);
        http_reply_fini(&r);
    }
}

static void broken_replies_are_bad(void **state)
{
    static const char *const bad[] = {
        "HTTP/1.0 200 OK\r\n", "nonsense\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n"};
    struct http_reply r;
    char lines[LINES];

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        read_all(&r, bad[i], 3, lines);
        assert_int_equal(r.state, HTTP_REPLY_BAD);
        http_reply_fini(&r);
    }
}

static void line_has_a_limit(void **state)
{
    static char line[HTTP_REPLY_LINE];
    struct http_reply r;

    (void)state;
    memset(line, 'a', sizeof line);
    http_reply_init(&r);
    http_reply_push(&r, line, sizeof line - 1, add_line, NULL);
    assert_int_equal(r.state, HTTP_REPLY_STATUS);
    http_reply_push(&r, line, 1, add_line, NULL);
    assert_int_equal(r.state, HTTP_REPLY_BAD);
    http_reply_fini(&r);
}

static void strings_lose_their_escapes(void **state)
{
    static const char line[] =
        "{\"delta\":{\"reasoning_content\":null,\"content\": "
        "\"a\\n\\\"\\\\\\u00e9\\u20ac\\ud83d\\ude00\\/z\"},"
        "\"completion_tokens\": 17,\"usage\":null}";
    char out[64];
    size_t n = http_reply_string(line, "content", out, sizeof out);

    (void)state;
    assert_int_equal(n,
                     strlen("a\n\"\\\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80/z"));
    assert_memory_equal(out, "a\n\"\\\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80/z",
                        n);
    assert_int_equal(
        http_reply_string(line, "reasoning_content", out, sizeof out), 0);
    assert_int_equal(http_reply_string(line, "text", out, sizeof out), 0);
    assert_int_equal(http_reply_number(line, "completion_tokens"), 17);
    assert_int_equal(http_reply_number(line, "usage"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_lines_for_every_piece),
        cmocka_unit_test(broken_replies_are_bad),
        cmocka_unit_test(line_has_a_limit),
        cmocka_unit_test(strings_lose_their_escapes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
