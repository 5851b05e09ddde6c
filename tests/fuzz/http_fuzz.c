/* Arbitrary bytes as the requests of HTTP clients.
 *
 * Byte 0 chooses the mode:
 *   - SPLIT: the rest are the bytes of one connection.  They are given whole,
 *     and again in random pieces to an io that takes random amounts.  Both
 *     must give the same exchanges, the same output and the same end.
 *   - otherwise the rest are events of two connections whose handler answers
 *     later: {event, argument}, and bytes for EVENT_BYTES.
 *
 * In both modes memory stays within its bounds, each exchange ends exactly
 * once, and nothing is left at the end. */
#include <string.h>

#include "fuzz.h"
#include "gateway/http/buffer.h"
#include "gateway/http/http.h"
#include "gateway/http/http_limits.h"
#include "gateway/http/http_metrics.h"

#define SPLIT     0x80
#define BYTES_MAX 100000
#define BODY_MAX  5000
#define REQUESTS  (4 * (HTTP_HEADERS_BYTES_MAX + HTTP_LINE_BYTES_MAX) + 65536)
#define CLIENTS   2

struct run {
    struct http_server *server;
    struct http_buffer log, output;
    struct http_exchange *held[CLIENTS * 2];
    bool streaming[CLIENTS * 2];
    bool closed[CLIENTS], hold;
    uint64_t random; /* 0: no randomness */
    int64_t now_us;
    int open; /* exchanges */
};

/* xorshift64, Marsaglia 2003 */
static uint32_t draw(struct run *r, uint32_t below)
{
    r->random ^= r->random << 13;
    r->random ^= r->random >> 7;
    r->random ^= r->random << 17;
    return (uint32_t)(r->random >> 32) % below;
}

static size_t io_write(struct http_io *io, struct http_conn_id id,
                       const char *data, size_t n)
{
    struct run *r = io->impl;

    FUZZ_CHECK(n > 0 && !r->closed[id.v]);
    if (r->random != 0) {
        n = draw(r, (uint32_t)n + 1);
    }
    http_buffer_append(&r->output, data, n);
    return n;
}

static void io_close(struct http_io *io, struct http_conn_id id)
{
    struct run *r = io->impl;

    FUZZ_CHECK(!r->closed[id.v]);
    r->closed[id.v] = true;
}

static void io_pause(struct http_io *io, struct http_conn_id id, bool paused)
{
    (void)paused;
    FUZZ_CHECK(!((struct run *)io->impl)->closed[id.v]);
}

/* Answers in a way that the request chooses. */
static void answer(struct http_exchange *x)
{
    struct http_answer a = {.status = 200, .body = http_path(x)};
    size_t n;
    const char *body = http_body(x, &n);

    a.n = strlen(a.body);
    if (a.n % 3 == 0) {
        http_answer_error(x, 404, a.body);
    } else if (a.n % 3 == 1) {
        http_answer(x, &a);
    } else {
        http_stream_begin(x, &a);
        FUZZ_CHECK(http_stream_write(x, body, n));
        http_stream_end(x);
    }
}

static void hold(struct run *r, struct http_exchange *x)
{
    unsigned i = 0;

    while (i < CLIENTS * 2 && r->held[i] != NULL) {
        i++;
    }
    FUZZ_CHECK(i < CLIENTS * 2);
    r->held[i] = x;
    r->streaming[i] = false;
    http_set_user(x, &r->held[i]);
}

static void on_request(void *arg, struct http_exchange *x)
{
    struct run *r = arg;
    size_t n;
    const char *body = http_body(x, &n);

    FUZZ_CHECK(n <= BODY_MAX && body[n] == '\0');
    http_buffer_text(&r->log, http_path(x));
    http_buffer_text(&r->log, http_query(x));
    http_buffer_append(&r->log, body, n);
    http_buffer_append(&r->log, "\n", 1);
    if (r->hold) {
        r->open++;
        hold(r, x);
    } else {
        answer(x);
    }
}

static void on_gone(void *arg, struct http_exchange *x)
{
    struct run *r = arg;
    struct http_exchange **held = http_user(x);

    FUZZ_CHECK(held != NULL && *held == x);
    *held = NULL;
    r->open--;
}

static void begin(struct run *r)
{
    const struct http_options options = {.body_bytes_max = BODY_MAX,
                                         .output_bytes_max = 20000};
    const struct http_handler handler = {.request = on_request,
                                         .gone = on_gone};
    const struct http_io io = {
        .impl = r, .write = io_write, .close = io_close, .pause = io_pause};

    r->now_us = 1;
    r->server = http_server_new(&options, &io, &handler, r);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        FUZZ_CHECK(http_server_accept(r->server, (struct http_conn_id){i}));
    }
}

static void tick(struct run *r)
{
    for (int i = 0;
         i < 1000 && http_server_tick(r->server, r->now_us) <= r->now_us; i++) {
    }
    FUZZ_CHECK(http_server_metrics(r->server)->request_bytes < REQUESTS);
}

static void end(struct run *r)
{
    const struct http_metrics *m = http_server_metrics(r->server);

    for (uint32_t i = 0; i < CLIENTS; i++) {
        http_server_lost(r->server, (struct http_conn_id){i});
    }
    FUZZ_CHECK(r->open == 0);
    FUZZ_CHECK(http_server_connections(r->server) == 0);
    FUZZ_CHECK(m->exchanges == 0);
    m = http_server_metrics(r->server);
    FUZZ_CHECK(m->request_bytes == 0);
    http_server_free(&r->server);
    http_buffer_fini(&r->log);
    http_buffer_fini(&r->output);
}

/* ---- SPLIT ---- */

static void give(struct run *r, const uint8_t *data, size_t n)
{
    /* A copy, so that a sanitizer detects a read past the piece. */
    char *copy = malloc(n);

    FUZZ_CHECK(copy != NULL);
    memcpy(copy, data, n);
    http_server_bytes(r->server, (struct http_conn_id){0}, copy, n);
    free(copy);
    tick(r);
}

static void give_all(struct run *r, const uint8_t *data, size_t n)
{
    while (n > 0) {
        size_t k = n < HTTP_READ_BYTES_MAX ? n : HTTP_READ_BYTES_MAX;

        if (r->random != 0) {
            k = 1 + draw(r, draw(r, 2) == 0 ? 3 : (uint32_t)k);
            k = k < n ? k : n;
        }
        give(r, data, k);
        /* Everything written is taken before more arrives. */
        for (int i = 0; r->random != 0 && i < 100; i++) {
            http_server_writable(r->server, (struct http_conn_id){0});
            tick(r);
        }
        data += k;
        n -= k;
    }
}

static bool same(const struct http_buffer *a, const struct http_buffer *b)
{
    return a->n == b->n && (a->n == 0 || memcmp(a->data, b->data, a->n) == 0);
}

static void compare_splits(uint8_t seed, const uint8_t *data, size_t n)
{
    struct run whole = {0};
    struct run split = {.random = 0x9e3779b97f4a7c15u + seed};

    begin(&whole);
    begin(&split);
    give_all(&whole, data, n);
    give_all(&split, data, n);
    FUZZ_CHECK(same(&whole.log, &split.log));
    FUZZ_CHECK(same(&whole.output, &split.output));
    FUZZ_CHECK(whole.closed[0] == split.closed[0]);
    end(&whole);
    end(&split);
}

/* ---- events ---- */

enum event {
    EVENT_BYTES,
    EVENT_EOF,
    EVENT_LOST,
    EVENT_WRITABLE,
    EVENT_WAIT,
    EVENT_ANSWER,
    EVENT_STREAM,
    EVENT_END,
    EVENT_DRAIN,
    EVENTS
};

static void stream(struct run *r, unsigned i, uint8_t argument)
{
    static const char block[4096];

    if (!r->streaming[i]) {
        http_body_free(r->held[i]);
        http_stream_begin(r->held[i], &(struct http_answer){.status = 200});
        r->streaming[i] = true;
    }
    (void)http_stream_write(r->held[i], block, argument * 16u);
}

static void finish(struct run *r, unsigned i, bool streaming)
{
    struct http_exchange *x = r->held[i];

    if (r->streaming[i] != streaming) {
        return;
    }
    /* A stream that is over its limit ends with gone() instead. */
    if (streaming && !http_stream_write(x, "x", 1)) {
        return;
    }
    r->held[i] = NULL;
    r->open--;
    if (streaming) {
        http_stream_end(x);
    } else {
        http_answer_error(x, 429, "later");
    }
}

static void on_event(struct run *r, enum event e, uint8_t argument)
{
    const struct http_conn_id id = {argument % CLIENTS};
    unsigned i = argument % (CLIENTS * 2);

    if (e == EVENT_EOF) {
        http_server_eof(r->server, id);
    } else if (e == EVENT_LOST) {
        r->closed[id.v] = true;
        http_server_lost(r->server, id);
    } else if (e == EVENT_WRITABLE) {
        http_server_writable(r->server, id);
    } else if (e == EVENT_WAIT) {
        r->now_us += argument * 1000000;
    } else if (e == EVENT_DRAIN && argument == 0) {
        http_server_drain(r->server);
    } else if (r->held[i] != NULL && e == EVENT_STREAM) {
        stream(r, i, argument);
    } else if (r->held[i] != NULL && (e == EVENT_ANSWER || e == EVENT_END)) {
        finish(r, i, e == EVENT_END);
    }
}

static void play(const uint8_t *data, size_t n)
{
    struct run r = {.hold = true, .random = 0x9e3779b97f4a7c15u};

    begin(&r);
    while (n >= 2) {
        uint8_t e = data[0] % 16, argument = data[1];
        size_t k = argument < n - 2 ? argument : n - 2;

        data += 2;
        n -= 2;
        /* Most events are bytes. */
        if (e >= EVENTS || e == EVENT_BYTES) {
            http_server_bytes(r.server,
                              (struct http_conn_id){data[-2] / 16 % CLIENTS},
                              (const char *)data, k);
            data += k;
            n -= k;
        } else {
            on_event(&r, (enum event)e, argument);
        }
        if (e % 2 == 0) {
            tick(&r);
        }
    }
    end(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0 || n > BYTES_MAX) {
        return 0;
    }
    if (data[0] & SPLIT) {
        compare_splits(data[0] & 0x7f, data + 1, n - 1);
    } else {
        play(data + 1, n - 1);
    }
    return 0;
}
