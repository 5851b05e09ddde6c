/* Responses, keep-alive, pipelining, and clients that leave. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/http/connection.h"
#include "tests/unit/cmocka.h"
#include "world.h"

#define H       "Host: a\r\n"
#define GET     "GET / HTTP/1.1\r\n" H "\r\n"
#define KEEPS   "Connection: keep-alive\r\n"
#define CLOSES  "Connection: close\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n"

static const struct http_answer sse = {.status = 200,
                                       .content_type = "text/event-stream",
                                       .headers = "X-A: b\r\n"};

static bool sent(struct world *w, const char *text)
{
    return strstr(world_output(w), text) != NULL;
}

static void hold(struct world *w, const char *request)
{
    world_begin(w, NULL);
    w->hold = true;
    world_send_text(w, request);
    assert_non_null(w->x);
}

static void answer_is_written_whole(void **state)
{
    struct world w;

    (void)state;
    hold(&w, GET);
    http_answer(w.x, &(struct http_answer){.status = 404,
                                           .content_type = "a/b",
                                           .headers = "X: y\r\n",
                                           .body = "hi",
                                           .n = 2});
    world_tick(&w);
    assert_string_equal(world_output(&w),
                        "HTTP/1.1 404 Not Found\r\nContent-Type: a/b\r\n"
                        "Content-Length: 2\r\nX: y\r\n\r\nhi");
    assert_false(w.closed);
    world_end(&w);
}

static void no_content_has_no_length(void **state)
{
    struct world w;

    (void)state;
    hold(&w, "OPTIONS /x HTTP/1.1\r\n" H "\r\n");
    http_answer(w.x, &(struct http_answer){.status = 204});
    world_tick(&w);
    assert_string_equal(world_output(&w), "HTTP/1.1 204 No Content\r\n\r\n");
    world_end(&w);
}

static void head_gets_the_length_without_the_body(void **state)
{
    struct world w;

    (void)state;
    world_begin(&w, NULL);
    world_send_text(&w, "HEAD /abc HTTP/1.1\r\n" H "\r\n" GET);
    assert_true(sent(&w, "Content-Length: 4\r\n\r\nHTTP/1.1 200"));
    world_end(&w);
}

static void stream_is_chunked(void **state)
{
    struct world w;

    (void)state;
    hold(&w, GET);
    http_stream_begin(w.x, &sse);
    assert_true(http_stream_write(w.x, "hello", 5));
    assert_true(http_stream_write(w.x, "", 0));
    assert_true(http_stream_write(w.x, "0123456789abcdef", 16));
    http_stream_end(w.x);
    world_tick(&w);
    assert_string_equal(world_output(&w),
                        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream"
                        "\r\n" CHUNKED "X-A: b\r\n\r\n5\r\nhello\r\n"
                        "10\r\n0123456789abcdef\r\n0\r\n\r\n");
    assert_false(w.closed || w.gone);
    world_end(&w);
}

static void stream_of_head_has_no_body(void **state)
{
    struct world w;

    (void)state;
    hold(&w, "HEAD / HTTP/1.1\r\n" H "\r\n");
    http_stream_begin(w.x, &sse);
    assert_true(http_stream_write(w.x, "hello", 5));
    http_stream_end(w.x);
    world_tick(&w);
    assert_true(strlen(world_output(&w)) > 4);
    assert_string_equal(strstr(world_output(&w), "\r\n\r\n"), "\r\n\r\n");
    world_end(&w);
}

static void stream_of_an_old_client_ends_with_the_connection(void **state)
{
    struct world w;

    (void)state;
    hold(&w, "GET / HTTP/1.0\r\n" KEEPS "\r\n");
    http_stream_begin(w.x, &sse);
    assert_true(http_stream_write(w.x, "hello", 5));
    http_stream_end(w.x);
    world_tick(&w);
    assert_false(sent(&w, CHUNKED));
    assert_true(sent(&w, CLOSES));
    assert_true(sent(&w, "\r\n\r\nhello"));
    assert_true(w.closed);
    world_end(&w);
}

static void connections_are_kept_as_asked(void **state)
{
    static const struct {
        const char *version, *headers;
        bool kept;
    } rows[] = {
        {"1.1", "", true},
        {"1.1", KEEPS, true},
        {"1.1", CLOSES, false},
        {"1.1", "Connection: x, CLOSE ,y\r\n", false},
        {"1.1", "Connection: x-close\r\n", true},
        {"1.1", KEEPS CLOSES, false},
        {"1.0", "", false},
        {"1.0", KEEPS, true},
        {"1.0", KEEPS CLOSES, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct world w;
        char text[200];

        snprintf(text, sizeof text, "GET / HTTP/%s\r\n" H "%s\r\n",
                 rows[i].version, rows[i].headers);
        world_begin(&w, NULL);
        world_send_text(&w, text);
        assert_int_equal(w.closed, !rows[i].kept);
        assert_int_equal(sent(&w, CLOSES), !rows[i].kept);
        world_end(&w);
    }
}

static void client_that_waits_is_told_to_continue(void **state)
{
    struct world w;

    (void)state;
    world_begin(&w, NULL);
    world_send_text(&w, "POST / HTTP/1.1\r\n" H "Expect: 100-continue\r\n"
                        "Content-Length: 2\r\n\r\n");
    assert_string_equal(world_output(&w), "HTTP/1.1 100 Continue\r\n\r\n");
    world_send_text(&w, "ok");
    assert_string_equal(world_log(&w), "POST /? ok\n");
    world_end(&w);
}

static void refused_expectation_is_not_continued(void **state)
{
    struct world w;

    (void)state;
    world_begin(&w, NULL);
    w.refuse_heads = 401;
    world_send_text(&w, "POST / HTTP/1.1\r\n" H "Expect: 100-continue\r\n"
                        "Content-Length: 2\r\n\r\n");
    assert_int_equal(world_status(&w), 401);
    assert_true(w.closed);
    assert_string_equal(world_log(&w), "");
    world_end(&w);
}

static void stream_before_the_body_discards_it(void **state)
{
    struct world w;

    (void)state;
    world_begin(&w, NULL);
    w.hold_heads = true;
    w.stream_heads = true;
    world_send_text(&w, "POST / HTTP/1.1\r\n" H "Expect: 100-continue\r\n"
                        "Content-Length: 3\r\n\r\n");
    assert_false(sent(&w, "100 Continue"));
    world_send_text(&w, "abc" GET);
    assert_false(w.paused);
    world_wait(&w, HTTP_BODY_MS);
    assert_false(w.closed || w.gone);
    http_stream_end(w.heads[0]);
    world_tick(&w);
    assert_true(sent(&w, CLOSES));
    assert_true(w.closed);
    assert_string_equal(world_log(&w), "");
    world_end(&w);
}

static void answer_to_a_head_without_body_keeps_the_connection(void **state)
{
    struct world w;

    (void)state;
    world_begin(&w, NULL);
    w.refuse_heads = 401;
    world_send_text(&w, GET);
    assert_int_equal(world_status(&w), 401);
    assert_false(w.closed);
    world_end(&w);
}

static void pipelined_requests_are_answered_in_order(void **state)
{
    struct http_buffer all = {0}, log = {0};
    struct world w;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        char text[80];

        snprintf(text, sizeof text, "GET /%d HTTP/1.1\r\n" H "\r\n", i);
        http_buffer_text(&all, text);
        snprintf(text, sizeof text, "GET /%d? \n", i);
        http_buffer_text(&log, text);
    }
    http_buffer_append(&log, "", 1);
    world_begin(&w, NULL);
    world_send(&w, http_buffer_data(&all), all.n, SIZE_MAX);
    assert_string_equal(world_log(&w), http_buffer_data(&log));
    assert_int_equal(http_server_metrics(w.server)->responses_2xx, 1000);
    http_buffer_fini(&all);
    http_buffer_fini(&log);
    world_end(&w);
}

static void next_request_waits_for_the_response(void **state)
{
    struct world w;

    (void)state;
    hold(&w, GET "GET /2 HTTP/1.1\r\n" H "\r\n");
    assert_string_equal(world_log(&w), "GET /? \n");
    assert_true(w.paused);
    w.hold = false;
    http_answer_error(w.x, 503, "busy");
    world_tick(&w);
    assert_string_equal(world_log(&w), "GET /? \nGET /2? \n");
    assert_false(w.paused);
    assert_true(sent(&w, "\"type\":\"server_error\""));
    world_end(&w);
}

static void next_request_waits_for_a_slow_reader(void **state)
{
    struct world w;
    char *body = calloc(1, HTTP_OUTPUT_LOW + 1);

    (void)state;
    hold(&w, GET "GET /2 HTTP/1.1\r\n" H "\r\n");
    w.room = 0;
    http_answer(w.x, &(struct http_answer){.status = 200,
                                           .body = body,
                                           .n = HTTP_OUTPUT_LOW + 1});
    world_tick(&w);
    assert_string_equal(world_log(&w), "GET /? \n");
    world_take(&w, 1000);
    assert_string_equal(world_log(&w), "GET /? \nGET /2? \n");
    free(body);
    world_end(&w);
}

static void stalled_reader_is_cut_at_the_limit(void **state)
{
    struct world w;
    char block[1024] = {0};
    size_t n = 0;

    (void)state;
    hold(&w, GET);
    w.room = 0;
    http_stream_begin(w.x, &sse);
    world_tick(&w);
    while (http_stream_write(w.x, block, sizeof block)) {
        assert_true(w.x->c->out.n <= HTTP_OUTPUT_BYTES_MAX + 8);
        n += sizeof block;
    }
    assert_true(n > HTTP_OUTPUT_BYTES_MAX - 8192);
    assert_false(w.gone);
    assert_false(http_stream_write(w.x, "x", 1));
    http_stream_end(w.x);
    world_tick(&w);
    assert_true(w.gone && w.closed);
    assert_int_equal(http_server_metrics(w.server)->stalled_readers, 1);
    world_end(&w);
}

static void output_at_the_limit_is_kept(void **state)
{
    const struct http_options o = {.output_bytes_max = 1000};
    struct world w;
    char block[1000] = {0};

    (void)state;
    world_begin(&w, &o);
    w.hold = true;
    world_send_text(&w, "GET / HTTP/1.0\r\n\r\n");
    http_stream_begin(w.x, &sse);
    world_tick(&w);
    w.room = 0;
    assert_true(http_stream_write(w.x, block, 1000));
    assert_false(http_stream_write(w.x, block, 1));
    world_end(&w);
}

static void client_without_output_may_get_more_than_the_limit(void **state)
{
    char *block = calloc(1, 2 * HTTP_OUTPUT_BYTES_MAX);
    struct world w;

    (void)state;
    hold(&w, GET);
    http_stream_begin(w.x, &sse);
    w.room = 1000;
    assert_true(http_stream_write(w.x, block, 2 * HTTP_OUTPUT_BYTES_MAX));
    assert_false(http_stream_write(w.x, block, 1));
    free(block);
    world_end(&w);
}

static void fast_reader_may_get_much_in_one_turn(void **state)
{
    struct world w;
    char block[65536] = {0};

    (void)state;
    hold(&w, GET);
    http_stream_begin(w.x, &sse);
    for (int i = 0; i < 100; i++) {
        assert_true(http_stream_write(w.x, block, sizeof block));
    }
    world_end(&w);
}

static void output_goes_out_in_one_write_a_turn(void **state)
{
    struct world w;

    (void)state;
    hold(&w, GET);
    http_stream_begin(w.x, &sse);
    assert_true(http_stream_write(w.x, "a", 1));
    assert_string_equal(world_output(&w), "");
    world_tick(&w);
    assert_true(sent(&w, "1\r\na\r\n"));
    world_end(&w);
}

static void client_that_leaves_is_gone(void **state)
{
    (void)state;
    for (int how = 0; how < 4; how++) {
        struct world w;

        hold(&w, GET);
        if (how % 2 == 1) {
            http_stream_begin(w.x, &sse);
            world_tick(&w);
        }
        if (how < 2) {
            http_server_lost(w.server, WORLD_ID);
        } else {
            http_server_eof(w.server, WORLD_ID);
        }
        world_tick(&w);
        assert_true(w.gone);
        assert_int_equal(w.closed, how >= 2);
        assert_int_equal(http_server_connections(w.server), 0);
        assert_int_equal(http_server_metrics(w.server)->gone, 1);
        assert_int_equal(http_server_metrics(w.server)->exchanges, 0);
        world_end(&w);
    }
}

static void output_of_a_cancelled_stream_is_dropped(void **state)
{
    struct world w;

    (void)state;
    hold(&w, GET);
    w.room = 0;
    http_stream_begin(w.x, &sse);
    world_tick(&w);
    http_server_eof(w.server, WORLD_ID);
    world_tick(&w);
    assert_true(w.gone && w.closed);
    world_end(&w);
}

static void client_that_leaves_at_any_byte_leaves_nothing(void **state)
{
    const char text[] =
        "POST /p HTTP/1.1\r\n" H CHUNKED "\r\n3\r\nabc\r\n0\r\n\r\n";

    (void)state;
    for (size_t n = 0; n < sizeof text - 1; n++) {
        struct world w;

        world_begin(&w, NULL);
        world_send(&w, text, n, SIZE_MAX);
        http_server_eof(w.server, WORLD_ID);
        world_tick(&w);
        assert_true(w.closed);
        assert_string_equal(world_log(&w), "");
        assert_int_equal(http_server_metrics(w.server)->request_bytes, 0);
        world_end(&w);
    }
}

static void answer_reaches_a_client_that_closed_its_side(void **state)
{
    struct world w;

    (void)state;
    world_begin(&w, NULL);
    http_server_bytes(w.server, WORLD_ID, GET, strlen(GET));
    http_server_eof(w.server, WORLD_ID);
    world_tick(&w);
    assert_int_equal(world_status(&w), 200);
    assert_true(w.closed);
    assert_false(w.gone);
    world_end(&w);
}

static void events_of_unknown_connections_are_ignored(void **state)
{
    const struct http_conn_id other = {8};
    struct world w;

    (void)state;
    hold(&w, GET);
    http_server_bytes(w.server, other, GET, strlen(GET));
    http_server_eof(w.server, other);
    http_server_writable(w.server, other);
    http_server_lost(w.server, other);
    assert_false(http_server_accept(w.server, WORLD_ID));
    assert_string_equal(world_log(&w), "GET /? \n");
    assert_false(w.gone);
    world_end(&w);
}

static void free_ends_open_exchanges(void **state)
{
    struct world w;

    (void)state;
    hold(&w, GET);
    http_server_free(&w.server);
    assert_true(w.gone && w.closed);
    world_end(&w);
}

static void drain_closes_idle_connections_and_waits_for_others(void **state)
{
    struct world w;

    (void)state;
    hold(&w, GET);
    assert_true(http_server_accept(w.server, (struct http_conn_id){8}));
    http_server_drain(w.server);
    world_tick(&w);
    assert_int_equal(http_server_connections(w.server), 1);
    assert_false(http_server_accept(w.server, (struct http_conn_id){9}));
    http_answer_error(w.x, 500, "late");
    world_tick(&w);
    assert_true(sent(&w, CLOSES));
    assert_int_equal(http_server_connections(w.server), 0);
    world_end(&w);
}

/* ---- memory ---- */

static size_t heap(void)
{
    return mallinfo2().uordblks;
}

#define MANY 1000

static void accept_many(struct world *w)
{
    for (uint32_t i = 0; i < MANY; i++) {
        assert_true(
            http_server_accept(w->server, (struct http_conn_id){100 + i}));
    }
    world_tick(w);
}

/* Under a sanitizer the figures of the allocator are not ours. */
static void idle_connection_costs_less_than_1_kib(void **state)
{
    struct world w;
    size_t before;

    (void)state;
    world_begin(&w, NULL);
    before = heap();
    accept_many(&w);
    for (uint32_t i = 0; i < MANY; i++) {
        http_server_bytes(w.server, (struct http_conn_id){100 + i}, GET,
                          strlen(GET));
    }
    world_tick(&w);
    http_buffer_fini(&w.output);
    http_buffer_fini(&w.log);
    assert_true(heap() - before < MANY * 1024);
    world_end(&w);
}

static void stream_without_its_request_costs_less_than_2_kib(void **state)
{
    struct world w;
    size_t before;

    (void)state;
    world_begin(&w, NULL);
    w.hold = true;
    before = heap();
    accept_many(&w);
    for (uint32_t i = 0; i < MANY; i++) {
        http_server_bytes(w.server, (struct http_conn_id){100 + i}, GET,
                          strlen(GET));
        http_stream_begin(w.x, &sse);
        http_body_free(w.x);
    }
    world_tick(&w);
    http_buffer_fini(&w.output);
    http_buffer_fini(&w.log);
    assert_true(heap() - before < MANY * 2048);
    world_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answer_is_written_whole),
        cmocka_unit_test(no_content_has_no_length),
        cmocka_unit_test(head_gets_the_length_without_the_body),
        cmocka_unit_test(stream_is_chunked),
        cmocka_unit_test(stream_of_head_has_no_body),
        cmocka_unit_test(stream_of_an_old_client_ends_with_the_connection),
        cmocka_unit_test(connections_are_kept_as_asked),
        cmocka_unit_test(client_that_waits_is_told_to_continue),
        cmocka_unit_test(refused_expectation_is_not_continued),
        cmocka_unit_test(stream_before_the_body_discards_it),
        cmocka_unit_test(answer_to_a_head_without_body_keeps_the_connection),
        cmocka_unit_test(pipelined_requests_are_answered_in_order),
        cmocka_unit_test(next_request_waits_for_the_response),
        cmocka_unit_test(next_request_waits_for_a_slow_reader),
        cmocka_unit_test(stalled_reader_is_cut_at_the_limit),
        cmocka_unit_test(output_at_the_limit_is_kept),
        cmocka_unit_test(client_without_output_may_get_more_than_the_limit),
        cmocka_unit_test(fast_reader_may_get_much_in_one_turn),
        cmocka_unit_test(output_goes_out_in_one_write_a_turn),
        cmocka_unit_test(client_that_leaves_is_gone),
        cmocka_unit_test(output_of_a_cancelled_stream_is_dropped),
        cmocka_unit_test(client_that_leaves_at_any_byte_leaves_nothing),
        cmocka_unit_test(answer_reaches_a_client_that_closed_its_side),
        cmocka_unit_test(events_of_unknown_connections_are_ignored),
        cmocka_unit_test(free_ends_open_exchanges),
        cmocka_unit_test(drain_closes_idle_connections_and_waits_for_others),
        cmocka_unit_test(idle_connection_costs_less_than_1_kib),
        cmocka_unit_test(stream_without_its_request_costs_less_than_2_kib),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
