/* Clients that are too slow, by a clock of the test's own. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "world.h"

#define H   "Host: a\r\n"
#define GET "GET / HTTP/1.1\r\n" H "\r\n"

static void silent_connection_is_closed(void **state)
{
    struct world w;

    (void)state;
    world_begin(&w, NULL);
    world_wait(&w, HTTP_IDLE_MS - 1);
    assert_false(w.closed);
    world_wait(&w, 1);
    assert_true(w.closed);
    assert_string_equal(world_output(&w), "");
    assert_int_equal(http_server_metrics(w.server)->timeouts_idle, 1);
    world_end(&w);
}

static void request_renews_the_idle_time(void **state)
{
    struct world w;

    (void)state;
    world_begin(&w, NULL);
    world_wait(&w, HTTP_IDLE_MS - 1);
    world_send_text(&w, GET);
    world_wait(&w, HTTP_IDLE_MS - 1);
    assert_false(w.closed);
    world_wait(&w, 1);
    assert_true(w.closed);
    world_end(&w);
}

/* One byte at a time does not renew the time of a head. */
static void slow_head_times_out(void **state)
{
    struct world w;
    int n = 0;

    (void)state;
    world_begin(&w, NULL);
    world_send_text(&w, "GET / HTTP/1.1\r\nX: ");
    for (; !w.closed; n++) {
        world_send_text(&w, "x");
        world_wait(&w, 1000);
    }
    assert_int_equal(n, HTTP_HEAD_MS / 1000);
    assert_int_equal(world_status(&w), 408);
    assert_int_equal(http_server_metrics(w.server)->timeouts_request, 1);
    world_end(&w);
}

static void begin_body(struct world *w)
{
    world_begin(w, NULL);
    world_send_text(w, "POST / HTTP/1.1\r\n" H "Content-Length: 9000\r\n\r\n");
}

static void slow_body_times_out(void **state)
{
    struct world w;
    int n = 0;

    (void)state;
    begin_body(&w);
    for (; !w.closed; n++) {
        world_send_text(&w, "x");
        world_wait(&w, 1000);
    }
    assert_int_equal(n, HTTP_BODY_MS / 1000);
    assert_int_equal(world_status(&w), 408);
    world_end(&w);
}

static void body_with_progress_may_take_long(void **state)
{
    char block[HTTP_PROGRESS_BYTES];
    struct world w;

    (void)state;
    memset(block, 'x', sizeof block);
    begin_body(&w);
    for (int i = 0; i < 8; i++) {
        world_send(&w, block, sizeof block, SIZE_MAX);
        world_wait(&w, HTTP_BODY_MS - 1);
        assert_false(w.closed);
    }
    world_send(&w, block, 9000 - 8 * sizeof block, SIZE_MAX);
    assert_int_equal(world_status(&w), 200);
    world_end(&w);
}

/* The second timer is due in the same tick, but its wait is over. */
static void timeout_may_end_another_exchange(void **state)
{
    const char text[] = "POST / HTTP/1.1\r\n" H "Content-Length: 9\r\n\r\n";
    const struct http_conn_id other = {8};
    struct world w;

    (void)state;
    world_begin(&w, NULL);
    w.hold_heads = true;
    assert_true(http_server_accept(w.server, other));
    http_server_bytes(w.server, other, text, strlen(text));
    world_send_text(&w, text);
    world_wait(&w, HTTP_BODY_MS);
    assert_true(w.gone);
    assert_int_equal(http_server_connections(w.server), 0);
    assert_int_equal(http_server_metrics(w.server)->responses_4xx, 1);
    assert_int_equal(http_server_metrics(w.server)->responses_5xx, 1);
    world_end(&w);
}

static void handler_may_take_long(void **state)
{
    struct world w;

    (void)state;
    world_begin(&w, NULL);
    w.hold = true;
    world_send_text(&w, GET);
    world_wait(&w, 24 * 3600 * 1000);
    assert_false(w.closed || w.gone);
    world_end(&w);
}

static void hold_full_stream(struct world *w, size_t n)
{
    char *block = calloc(1, n);

    world_begin(w, NULL);
    w->hold = true;
    world_send_text(w, GET);
    http_stream_begin(w->x, &(struct http_answer){.status = 200});
    world_tick(w);
    w->room = 0;
    assert_true(http_stream_write(w->x, block, n));
    world_tick(w);
    free(block);
}

static void reader_without_progress_is_cut(void **state)
{
    struct world w;

    (void)state;
    hold_full_stream(&w, 1);
    world_wait(&w, HTTP_WRITE_MS - 1);
    assert_false(w.gone);
    world_wait(&w, 1);
    assert_true(w.gone && w.closed);
    assert_int_equal(http_server_metrics(w.server)->stalled_readers, 1);
    world_end(&w);
}

static void reader_with_progress_may_take_long(void **state)
{
    struct world w;

    (void)state;
    hold_full_stream(&w, 10000);
    for (int i = 0; i < 8; i++) {
        world_take(&w, HTTP_PROGRESS_BYTES);
        world_wait(&w, HTTP_WRITE_MS - 1);
        assert_false(w.gone);
    }
    /* Input of the client is no progress of its reading. */
    world_send_text(&w, "GET / HTTP/1.1\r\nX: 123456789\r\n\r\n");
    world_take(&w, HTTP_PROGRESS_BYTES - 1);
    world_wait(&w, 1);
    assert_true(w.gone);
    world_end(&w);
}

static void answered_client_that_does_not_read_is_cut(void **state)
{
    struct world w;

    (void)state;
    world_begin(&w, NULL);
    w.room = 0;
    world_send_text(&w, GET);
    world_wait(&w, HTTP_WRITE_MS);
    assert_true(w.closed);
    assert_false(w.gone);
    world_end(&w);
}

static void tick_returns_the_earliest_timeout(void **state)
{
    struct world w;

    (void)state;
    world_begin(&w, NULL);
    assert_int_equal(http_server_tick(w.server, w.now_us),
                     w.now_us + 1000 * HTTP_IDLE_MS);
    w.hold = true;
    world_send_text(&w, GET);
    assert_true(http_server_tick(w.server, w.now_us) == INT64_MAX);
    world_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silent_connection_is_closed),
        cmocka_unit_test(request_renews_the_idle_time),
        cmocka_unit_test(slow_head_times_out),
        cmocka_unit_test(slow_body_times_out),
        cmocka_unit_test(body_with_progress_may_take_long),
        cmocka_unit_test(timeout_may_end_another_exchange),
        cmocka_unit_test(handler_may_take_long),
        cmocka_unit_test(reader_without_progress_is_cut),
        cmocka_unit_test(reader_with_progress_may_take_long),
        cmocka_unit_test(answered_client_that_does_not_read_is_cut),
        cmocka_unit_test(tick_returns_the_earliest_timeout),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
