/* Each limit of a request, at the limit and one past it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "world.h"

#define H      "Host: a\r\n"
#define CHUNKS "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"

/* Returns the status for head, then n times c, then tail. */
static int status_of(const char *head, size_t n, char c, const char *tail)
{
    struct http_buffer b = {0};
    struct world w;
    int status;

    http_buffer_text(&b, head);
    for (size_t i = 0; i < n; i++) {
        http_buffer_append(&b, &c, 1);
    }
    http_buffer_text(&b, tail);
    world_begin(&w, NULL);
    world_send(&w, http_buffer_data(&b), b.n, SIZE_MAX);
    status = world_status(&w);
    world_end(&w);
    http_buffer_fini(&b);
    return status;
}

static void request_line_has_a_limit(void **state)
{
    const size_t most = HTTP_LINE_BYTES_MAX - strlen("GET / HTTP/1.1");

    (void)state;
    assert_int_equal(status_of("GET /", most, 'x', " HTTP/1.1\r\n" H "\r\n"),
                     200);
    assert_int_equal(
        status_of("GET /", most + 1, 'x', " HTTP/1.1\r\n" H "\r\n"), 414);
}

static void method_has_a_limit(void **state)
{
    (void)state;
    assert_int_equal(
        status_of("", HTTP_METHOD_BYTES_MAX, 'X', " / HTTP/1.1\r\n" H "\r\n"),
        200);
    assert_int_equal(status_of("", HTTP_METHOD_BYTES_MAX + 1, 'X',
                               " / HTTP/1.1\r\n" H "\r\n"),
                     501);
}

static void headers_have_a_limit(void **state)
{
    const size_t most = HTTP_HEADERS_BYTES_MAX - strlen(H "X: "
                                                          "\r\n"
                                                          "\r\n");

    (void)state;
    assert_int_equal(
        status_of("GET / HTTP/1.1\r\n" H "X: ", most, 'x', "\r\n\r\n"), 200);
    assert_int_equal(
        status_of("GET / HTTP/1.1\r\n" H "X: ", most + 1, 'x', "\r\n\r\n"),
        431);
    /* Spaces that are not kept count too. */
    assert_int_equal(
        status_of("GET / HTTP/1.1\r\n" H "X: ", most + 1, ' ', "\r\n\r\n"),
        431);
}

static int status_of_headers(const char *head, unsigned n)
{
    struct http_buffer b = {0};
    struct world w;
    int status;

    http_buffer_text(&b, head);
    for (unsigned i = 0; i < n; i++) {
        http_buffer_text(&b, "a:\r\n");
    }
    http_buffer_text(&b, "\r\n");
    world_begin(&w, NULL);
    world_send(&w, http_buffer_data(&b), b.n, SIZE_MAX);
    status = world_status(&w);
    world_end(&w);
    http_buffer_fini(&b);
    return status;
}

static void number_of_headers_has_a_limit(void **state)
{
    const char *head = "GET / HTTP/1.1\r\n" H;

    (void)state;
    assert_int_equal(status_of_headers(head, HTTP_HEADERS_MAX - 1), 200);
    assert_int_equal(status_of_headers(head, HTTP_HEADERS_MAX), 431);
    assert_int_equal(status_of_headers(head, 1000000), 431);
}

static void trailers_have_limits(void **state)
{
    const size_t most = HTTP_TRAILERS_BYTES_MAX - strlen("X: "
                                                         "\r\n"
                                                         "\r\n");

    (void)state;
    assert_int_equal(status_of_headers(CHUNKS "0\r\n", HTTP_HEADERS_MAX), 200);
    assert_int_equal(status_of_headers(CHUNKS "0\r\n", HTTP_HEADERS_MAX + 1),
                     431);
    assert_int_equal(status_of(CHUNKS "0\r\nX: ", most, 'x', "\r\n\r\n"), 200);
    assert_int_equal(status_of(CHUNKS "0\r\nX: ", most + 1, 'x', "\r\n\r\n"),
                     431);
}

static void chunk_lines_have_limits(void **state)
{
    const char *tail = "\r\nx\r\n0\r\n\r\n";

    (void)state;
    assert_int_equal(status_of(CHUNKS, HTTP_CHUNK_DIGITS_MAX - 1, '0',
                               "1\r\nx\r\n0\r\n\r\n"),
                     200);
    assert_int_equal(
        status_of(CHUNKS, HTTP_CHUNK_DIGITS_MAX, '0', "1\r\nx\r\n0\r\n\r\n"),
        400);
    assert_int_equal(
        status_of(CHUNKS "1;", HTTP_EXTENSIONS_BYTES_MAX, 'x', tail), 200);
    assert_int_equal(
        status_of(CHUNKS "1;", HTTP_EXTENSIONS_BYTES_MAX + 1, 'x', tail), 413);
}

static void extensions_of_all_chunks_count_together(void **state)
{
    const char half[] = "1;1234567\r\nx\r\n"; /* 7 bytes of extension */
    struct world w;

    (void)state;
    world_begin(&w, NULL);
    world_send_text(&w, CHUNKS);
    for (int i = 0; i <= HTTP_EXTENSIONS_BYTES_MAX / 7; i++) {
        assert_int_equal(world_status(&w), 0);
        world_send_text(&w, half);
    }
    assert_int_equal(world_status(&w), 413);
    world_end(&w);
}

static void body_has_a_limit(void **state)
{
    char head[128];

    (void)state;
    snprintf(head, sizeof head,
             "POST / HTTP/1.1\r\n" H "Content-Length: %d\r\n\r\n",
             HTTP_BODY_BYTES_MAX);
    assert_int_equal(status_of(head, HTTP_BODY_BYTES_MAX, 'x', ""), 200);
    /* Refused before any of it arrives. */
    snprintf(head, sizeof head,
             "POST / HTTP/1.1\r\n" H "Content-Length: %d\r\n\r\n",
             HTTP_BODY_BYTES_MAX + 1);
    assert_int_equal(status_of(head, 0, 'x', ""), 413);
}

static void chunked_body_has_a_limit(void **state)
{
    char head[128];

    (void)state;
    snprintf(head, sizeof head, CHUNKS "%x\r\n", HTTP_BODY_BYTES_MAX);
    assert_int_equal(status_of(head, HTTP_BODY_BYTES_MAX, 'x', "\r\n0\r\n\r\n"),
                     200);
    assert_int_equal(
        status_of(head, HTTP_BODY_BYTES_MAX, 'x', "\r\n1\r\nx\r\n0\r\n\r\n"),
        413);
    snprintf(head, sizeof head, CHUNKS "%x\r\n", HTTP_BODY_BYTES_MAX + 1);
    assert_int_equal(status_of(head, 0, 'x', ""), 413);
}

/* CVE-2025-23310: many tiny chunks cost neither stack nor memory of their
 * own. */
static void one_byte_chunks_cost_only_their_bytes(void **state)
{
    const struct http_options o = {.body_bytes_max = 100000};
    struct world w;
    int n = 0;

    (void)state;
    world_begin(&w, &o);
    world_send_text(&w, CHUNKS);
    while (world_status(&w) == 0) {
        world_send_text(&w, "1\r\nx\r\n");
        n++;
        assert_true(http_server_metrics(w.server)->request_bytes < 400000);
    }
    assert_int_equal(world_status(&w), 413);
    assert_int_equal(n, 100001);
    world_end(&w);
}

/* CVE-2025-48956: a header without end costs the limit, not its length. */
static void endless_header_costs_the_limit(void **state)
{
    char text[HTTP_READ_BYTES_MAX];
    struct world w;

    (void)state;
    memset(text, 'x', sizeof text);
    world_begin(&w, NULL);
    world_send_text(&w, "GET / HTTP/1.1\r\n" H "X: ");
    for (int i = 0; i < 65536 && world_status(&w) == 0; i++) {
        world_send(&w, text, sizeof text, SIZE_MAX);
        assert_true(http_server_metrics(w.server)->request_bytes <= 131072);
    }
    assert_int_equal(world_status(&w), 431);
    assert_true(http_server_metrics(w.server)->bytes_in <= 65536);
    world_end(&w);
}

static void all_requests_together_have_a_limit(void **state)
{
    const struct http_options o = {.requests_bytes_max = 8192};
    struct world w;
    char text[9000];

    (void)state;
    memset(text, 'x', sizeof text);
    world_begin(&w, &o);
    world_send_text(&w, "POST / HTTP/1.1\r\n" H
                        "Transfer-Encoding: chunked\r\n\r\n2328\r\n");
    world_send(&w, text, sizeof text, 1000);
    assert_int_equal(world_status(&w), 503);
    assert_non_null(strstr(world_output(&w), "\r\nRetry-After: 1\r\n"));
    assert_int_equal(http_server_metrics(w.server)->request_bytes, 0);
    world_end(&w);
}

/* The head alone shows that there is no memory, or never can be. */
static void a_body_without_room_is_not_read(void **state)
{
    static const struct {
        unsigned length;
        int status;
    } rows[] = {{8192 / HTTP_BODY_WEIGHT + 1, 413},
                {8192 / HTTP_BODY_WEIGHT, 503}, /* the head has taken some */
                {1024, 0}};
    const struct http_options o = {.requests_bytes_max = 8192};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct world w;
        char text[200];

        world_begin(&w, &o);
        snprintf(text, sizeof text,
                 "POST / HTTP/1.1\r\n" H "Content-Length: %u\r\n\r\n",
                 rows[i].length);
        world_send_text(&w, text);
        assert_int_equal(world_status(&w), rows[i].status);
        world_end(&w);
    }
}

static void connections_have_a_limit(void **state)
{
    const struct http_options o = {.connections_max = 2};
    struct world w;

    (void)state;
    world_begin(&w, &o);
    assert_true(http_server_accept(w.server, (struct http_conn_id){8}));
    assert_false(http_server_accept(w.server, (struct http_conn_id){9}));
    assert_int_equal(http_server_connections(w.server), 2);
    http_server_lost(w.server, (struct http_conn_id){8});
    assert_true(http_server_accept(w.server, (struct http_conn_id){9}));
    world_end(&w);
}

static void input_that_waits_has_a_limit(void **state)
{
    struct world w;
    char text[HTTP_READ_BYTES_MAX];

    (void)state;
    memset(text, 'x', sizeof text);
    world_begin(&w, NULL);
    w.hold = true;
    world_send_text(&w, "GET / HTTP/1.1\r\n" H "\r\n");
    assert_false(w.paused);
    for (int i = 0; i < HTTP_AHEAD_BYTES_MAX / HTTP_READ_BYTES_MAX; i++) {
        world_send(&w, text, sizeof text, SIZE_MAX);
        assert_true(w.paused);
        assert_false(w.gone);
    }
    world_send(&w, text, 1, SIZE_MAX);
    assert_true(w.gone);
    assert_true(w.closed);
    world_end(&w);
}

static void every_limit_is_printed(void **state)
{
    (void)state;
    assert_true(http_limits_n > 20);
    for (size_t i = 0; i < http_limits_n; i++) {
        assert_true(http_limits[i].value > 0);
        assert_int_equal(strncmp(http_limits[i].name, "HTTP_", 5), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_line_has_a_limit),
        cmocka_unit_test(method_has_a_limit),
        cmocka_unit_test(headers_have_a_limit),
        cmocka_unit_test(number_of_headers_has_a_limit),
        cmocka_unit_test(trailers_have_limits),
        cmocka_unit_test(chunk_lines_have_limits),
        cmocka_unit_test(extensions_of_all_chunks_count_together),
        cmocka_unit_test(body_has_a_limit),
        cmocka_unit_test(chunked_body_has_a_limit),
        cmocka_unit_test(one_byte_chunks_cost_only_their_bytes),
        cmocka_unit_test(endless_header_costs_the_limit),
        cmocka_unit_test(all_requests_together_have_a_limit),
        cmocka_unit_test(a_body_without_room_is_not_read),
        cmocka_unit_test(connections_have_a_limit),
        cmocka_unit_test(input_that_waits_has_a_limit),
        cmocka_unit_test(every_limit_is_printed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
