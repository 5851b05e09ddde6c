/* Both transports, against a server in the same thread. */
#include "client/load/drive/http_wire.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "common/base/monotonic.h"
#include "tests/patience.h"
#include "tests/unit/client/load/drive/http_peer.h"
#include "tests/unit/cmocka.h"

#define OK_HEAD                                              \
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" \
    "Transfer-Encoding: chunked\r\n\r\n"
#define OK_ANSWER OK_HEAD "2\r\nhi\r\n0\r\n\r\n"

/* An exchange and what became of it. */
struct seen {
    struct http_exchange x;
    int n_sent, status, n_done;
    bool streams, broken;
    char body[200], why[200];
    bool stops_at_bytes;
    struct seen *starts_at_done; /* the next exchange, or NULL */
};

struct fixture {
    const struct http_wire_ops *ops;
    struct http_wire *wire;
    struct http_peer peer;
};

static struct fixture f;

static void on_sent(struct http_exchange *x, int64_t now)
{
    ((struct seen *)x)->n_sent++;
    assert_true(now > 0);
}

static void on_head(struct http_exchange *x, int status, bool streams)
{
    struct seen *s = (struct seen *)x;

    s->status = status;
    s->streams = streams;
}

static void on_bytes(struct http_exchange *x, const char *bytes, size_t n,
                     int64_t now)
{
    struct seen *s = (struct seen *)x;

    assert_true(now > 0);
    strncat(s->body, bytes, n);
    if (s->stops_at_bytes) {
        f.ops->stop(f.wire, x);
    }
}

static void start(struct seen *s)
{
    s->x.body = "{\"max_tokens\":1}";
    s->x.n_body = strlen(s->x.body);
    f.ops->start(f.wire, &s->x);
}

static void on_done(struct http_exchange *x, const char *broken, int64_t now)
{
    struct seen *s = (struct seen *)x;

    assert_true(now > 0);
    s->n_done++;
    s->broken = broken != NULL;
    snprintf(s->why, sizeof s->why, "%s", broken == NULL ? "" : broken);
    if (s->starts_at_done != NULL) {
        start(s->starts_at_done);
    }
}

static const struct http_events events = {on_sent, on_head, on_bytes, on_done};

static void open_wire(const struct http_wire_ops *ops, uint32_t n_connections)
{
    struct target_options o = {.key = "secret",
                               .n_connections = n_connections,
                               .connect_ms = (uint32_t)patience_ms()};
    struct http_url url;
    struct error e;

    f.ops = ops;
    http_peer_open(&f.peer);
    assert_int_equal(http_url_read(&url, f.peer.url, &e), ST_OK);
    assert_int_equal(ops->open(&f.wire, &url, &o, &events, &e), ST_OK);
}

static void close_wire(void)
{
    f.ops->close(&f.wire);
    http_peer_close(&f.peer);
}

static void turn(void)
{
    struct pollfd item = {.fd = f.ops->fd(f.wire), .events = POLLIN};

    http_peer_turn(&f.peer);
    poll(&item, 1, 1);
    f.ops->turn(f.wire);
}

/* Turns both sides until *value reaches `want`. */
static void until(const int *value, int want)
{
    int64_t end = monotonic_us() + patience_us();

    while (*value < want && monotonic_us() < end) {
        turn();
    }
    assert_int_equal(*value, want);
}

static void until_requests(size_t want)
{
    int64_t end = monotonic_us() + patience_us();

    while (f.peer.n_requests < want && monotonic_us() < end) {
        turn();
    }
    assert_int_equal(f.peer.n_requests, want);
}

static const struct http_wire_ops *const kinds[] = {&http_plain, &http_curl};

#define FOR_BOTH(ops) for (size_t k_ = 0; k_ < 2 && ((ops) = kinds[k_]); k_++)

static void answers_arrive_and_connections_are_kept(void **state)
{
    const struct http_wire_ops *ops;

    (void)state;
    FOR_BOTH(ops)
    {
        open_wire(ops, 0);
        for (size_t i = 1; i <= 3; i++) {
            struct seen s = {0};

            start(&s);
            until_requests(i);
            assert_int_equal(s.n_sent, 1);
            assert_non_null(strstr(f.peer.last, "POST /v1/completions HTTP"));
            assert_non_null(
                strstr(f.peer.last, "Authorization: Bearer secret\r\n"));
            assert_non_null(strstr(f.peer.last, "\r\n\r\n{\"max_tokens\":1}"));
            http_peer_send(&f.peer, 0, OK_ANSWER);
            until(&s.n_done, 1);
            assert_false(s.broken);
            assert_int_equal(s.status, 200);
            assert_true(s.streams);
            assert_string_equal(s.body, "hi");
        }
        assert_int_equal(f.peer.n, 1);
        close_wire();
    }
}

static void a_stopped_exchange_closes_its_connection(void **state)
{
    const struct http_wire_ops *ops;

    (void)state;
    FOR_BOTH(ops)
    {
        struct seen s = {0};
        int64_t end = monotonic_us() + patience_us();

        open_wire(ops, 0);
        start(&s);
        until_requests(1);
        http_peer_send(&f.peer, 0, OK_HEAD "2\r\nhi\r\n");
        while (s.body[0] == '\0' && monotonic_us() < end) {
            turn();
        }
        ops->stop(f.wire, &s.x);
        while (!f.peer.ended[0] && monotonic_us() < end) {
            turn();
        }
        assert_true(f.peer.ended[0]);
        assert_int_equal(s.n_done, 0);
        close_wire();
    }
}

static void events_may_stop_and_start_exchanges(void **state)
{
    const struct http_wire_ops *ops;

    (void)state;
    FOR_BOTH(ops)
    {
        struct seen stopped = {.stops_at_bytes = true}, second = {0},
                    first = {.starts_at_done = &second};

        open_wire(ops, 0);
        start(&stopped);
        until_requests(1);
        http_peer_send(&f.peer, 0, OK_HEAD "2\r\nhi\r\n2\r\nho\r\n");
        while (!f.peer.ended[0]) {
            turn();
        }
        assert_string_equal(stopped.body, ops == &http_plain ? "hi" : "hiho");
        start(&first);
        until_requests(2);
        http_peer_send(&f.peer, 1, OK_ANSWER);
        until_requests(3);
        http_peer_send(&f.peer, 1, OK_ANSWER);
        until(&second.n_done, 1);
        assert_int_equal(first.n_done, 1);
        assert_int_equal(stopped.n_done, 0);
        close_wire();
    }
}

static void broken_connections_end_with_a_reason(void **state)
{
    const struct http_wire_ops *ops;

    (void)state;
    FOR_BOTH(ops)
    {
        static const char *const parts[] = {"", OK_HEAD, OK_HEAD "2\r\nhi\r\n"};

        open_wire(ops, 0);
        for (int i = 0; i < 6; i++) {
            struct seen s = {0};

            start(&s);
            until_requests((size_t)i + 1);
            http_peer_send(&f.peer, i, parts[i % 3]);
            if (i < 3) {
                http_peer_hang_up(&f.peer, i);
            } else {
                http_peer_reset(&f.peer, i);
            }
            until(&s.n_done, 1);
            assert_true(s.broken);
            assert_true(strlen(s.why) > 10);
        }
        close_wire();
    }
}

static void refused_connections_end_with_a_reason(void **state)
{
    const struct http_wire_ops *ops;

    (void)state;
    FOR_BOTH(ops)
    {
        struct seen s = {0};

        open_wire(ops, 0);
        http_peer_close(&f.peer);
        start(&s);
        until(&s.n_done, 1);
        assert_true(s.broken);
        assert_int_equal(s.status, 0);
        assert_int_equal(s.n_sent, 1);
        f.ops->close(&f.wire);
    }
}

static void a_missing_descriptor_ends_the_exchange_with_advice(void **state)
{
    struct rlimit before, none;
    struct seen s = {0};

    (void)state;
    open_wire(&http_plain, 0);
    getrlimit(RLIMIT_NOFILE, &before);
    none = before;
    none.rlim_cur = 0;
    setrlimit(RLIMIT_NOFILE, &none);
    start(&s);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(s.n_done, 1);
    assert_non_null(strstr(s.why, "ulimit -n"));
    close_wire();
}

static void a_kept_connection_that_was_closed_is_replaced(void **state)
{
    const struct http_wire_ops *ops;

    (void)state;
    FOR_BOTH(ops)
    {
        struct seen first = {0}, second = {0};

        open_wire(ops, 0);
        start(&first);
        until_requests(1);
        http_peer_send(&f.peer, 0, OK_ANSWER);
        until(&first.n_done, 1);
        http_peer_hang_up(&f.peer, 0); /* the client has not seen it yet */
        start(&second);
        until_requests(2);
        http_peer_send(&f.peer, 1, OK_ANSWER);
        until(&second.n_done, 1);
        assert_false(second.broken);
        assert_int_equal(second.n_sent, 1);
        close_wire();
    }
}

static void
limited_connections_are_opened_before_the_first_request(void **state)
{
    struct seen s = {0};

    (void)state;
    open_wire(&http_plain, 3);
    until(&f.peer.n, 3);
    assert_int_equal(f.peer.n_requests, 0);
    start(&s);
    until_requests(1);
    assert_int_equal(f.peer.n, 3);
    close_wire();
}

static void a_limited_connection_that_cannot_be_opened_is_an_error(void **state)
{
    struct target_options o = {.n_connections = 2,
                               .connect_ms = (uint32_t)patience_ms()};
    struct http_wire *wire = NULL;
    struct http_url url;
    struct error e;

    (void)state;
    http_peer_open(&f.peer);
    assert_int_equal(http_url_read(&url, f.peer.url, &e), ST_OK);
    http_peer_close(&f.peer);
    assert_int_equal(http_plain.open(&wire, &url, &o, &events, &e),
                     ST_UNAVAILABLE);
    assert_non_null(strstr(e.text, "connection 1 of --connections 2"));
    assert_null(wire);
}

static void exchanges_above_the_limit_wait_unsent(void **state)
{
    const struct http_wire_ops *ops;

    (void)state;
    FOR_BOTH(ops)
    {
        struct seen s[4] = {0};

        open_wire(ops, 2);
        for (int i = 0; i < 4; i++) {
            start(&s[i]);
        }
        until_requests(2);
        assert_int_equal(s[0].n_sent + s[1].n_sent, 2);
        assert_int_equal(s[2].n_sent + s[3].n_sent, 0);
        ops->stop(f.wire, &s[3].x); /* waiting exchanges can be stopped */
        http_peer_send(&f.peer, 0, OK_ANSWER);
        until(&s[2].n_sent, 1);
        until_requests(3);
        http_peer_send(&f.peer, 0, OK_ANSWER);
        http_peer_send(&f.peer, 1, OK_ANSWER);
        until(&s[0].n_done, 1);
        until(&s[1].n_done, 1);
        until(&s[2].n_done, 1);
        assert_int_equal(s[3].n_sent + s[3].n_done, 0);
        assert_int_equal(f.peer.n, 2);
        close_wire();
    }
}

static void a_paused_exchange_is_not_read(void **state)
{
    const struct http_wire_ops *ops;

    (void)state;
    FOR_BOTH(ops)
    {
        struct seen s = {0};
        int64_t end = monotonic_us() + patience_us();

        open_wire(ops, 0);
        start(&s);
        until_requests(1);
        http_peer_send(&f.peer, 0, OK_HEAD "2\r\nhi\r\n");
        while (s.body[0] == '\0' && monotonic_us() < end) {
            turn();
        }
        ops->pause(f.wire, &s.x, true);
        http_peer_send(&f.peer, 0, "2\r\nho\r\n0\r\n\r\n");
        for (int i = 0; i < 50; i++) {
            turn();
        }
        assert_string_equal(s.body, "hi");
        ops->pause(f.wire, &s.x, false);
        until(&s.n_done, 1);
        assert_string_equal(s.body, "hiho");
        close_wire();
    }
}

static void long_bodies_are_sent_in_parts(void **state)
{
    static char body[8 << 20];
    const struct http_wire_ops *ops;

    (void)state;
    memset(body, 'x', sizeof body);
    FOR_BOTH(ops)
    {
        struct seen s = {.x = {.body = body, .n_body = sizeof body}};
        int64_t end = monotonic_us() + patience_us();
        size_t n = 0;

        open_wire(ops, 0);
        ops->start(f.wire, &s.x);
        while (n < sizeof body && monotonic_us() < end) {
            turn();
            n += f.peer.n > 0 ? f.peer.n_in[0] : 0;
            f.peer.n_in[0] = 0;
        }
        assert_true(n > sizeof body);
        http_peer_send(&f.peer, 0, OK_ANSWER);
        until(&s.n_done, 1);
        assert_false(s.broken);
        close_wire();
    }
}

static void open_exchanges_are_freed_with_the_transport(void **state)
{
    const struct http_wire_ops *ops;

    (void)state;
    FOR_BOTH(ops)
    {
        struct seen s[3] = {0};

        open_wire(ops, 2);
        for (int i = 0; i < 3; i++) {
            start(&s[i]);
        }
        until_requests(2);
        close_wire();
        assert_int_equal(s[0].n_done + s[1].n_done + s[2].n_done, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_arrive_and_connections_are_kept),
        cmocka_unit_test(a_stopped_exchange_closes_its_connection),
        cmocka_unit_test(events_may_stop_and_start_exchanges),
        cmocka_unit_test(broken_connections_end_with_a_reason),
        cmocka_unit_test(refused_connections_end_with_a_reason),
        cmocka_unit_test(a_missing_descriptor_ends_the_exchange_with_advice),
        cmocka_unit_test(a_kept_connection_that_was_closed_is_replaced),
        cmocka_unit_test(
            limited_connections_are_opened_before_the_first_request),
        cmocka_unit_test(
            a_limited_connection_that_cannot_be_opened_is_an_error),
        cmocka_unit_test(exchanges_above_the_limit_wait_unsent),
        cmocka_unit_test(a_paused_exchange_is_not_read),
        cmocka_unit_test(long_bodies_are_sent_in_parts),
        cmocka_unit_test(open_exchanges_are_freed_with_the_transport),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
