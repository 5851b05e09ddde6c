/* demo - A small server over gateway/http, for tests over real sockets.
 *
 *     demo LISTEN [CERT KEY]
 *
 * Prints its endpoint, serves until standard input ends, and exits 0.
 *
 *     /echo      the body
 *     /stream    chunks without end, one each turn of the loop
 *     /flood     as much as possible, in each turn
 *     /hold      no answer
 *     /stats     counters, one "name value" a line
 *     /reload    reads certificate and key again: "ok" or the error
 *     others     "hello" */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/monotonic.h"
#include "gateway/http/http_metrics.h"
#include "gateway/http/sockets.h"

#define STREAMS 64

struct demo {
    struct http_sockets *sockets;
    struct http_server *server;
    struct http_exchange *streams[STREAMS]; /* NULL: free */
    bool flood[STREAMS];
};

static void answer(struct http_exchange *x, const char *text, size_t n)
{
    http_answer(x, &(struct http_answer){.status = 200,
                                         .content_type = "text/plain",
                                         .body = text,
                                         .n = n});
}

static void answer_stats(struct demo *d, struct http_exchange *x)
{
    const struct http_metrics *m = http_server_metrics(d->server);
    char text[2048] = "";
    size_t n = 0;

    for (size_t i = 0; i < METRIC_COUNT(http_metrics_rows); i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%s %llu\n",
                              http_metrics_rows[i].name,
                              (unsigned long long)metric_value(m, i));
    }
    answer(x, text, n);
}

static void answer_reload(struct demo *d, struct http_exchange *x)
{
    struct error e = {.text = "ok"};

    (void)!http_sockets_reload_tls(d->sockets, &e);
    answer(x, e.text, strlen(e.text));
}

static void begin(struct demo *d, struct http_exchange *x, bool flood)
{
    for (int i = 0; i < STREAMS; i++) {
        if (d->streams[i] == NULL) {
            d->streams[i] = x;
            d->flood[i] = flood;
            http_body_free(x);
            http_stream_begin(x, &(struct http_answer){.status = 200});
            return;
        }
    }
    http_answer_error(x, 503, "too many streams");
}

static void on_request(void *arg, struct http_exchange *x)
{
    struct demo *d = arg;
    const char *path = http_path(x);
    size_t n;
    const char *body = http_body(x, &n);

    if (strcmp(path, "/echo") == 0) {
        answer(x, body, n);
    } else if (strcmp(path, "/stream") == 0 || strcmp(path, "/flood") == 0) {
        begin(d, x, path[1] == 'f');
    } else if (strcmp(path, "/stats") == 0) {
        answer_stats(d, x);
    } else if (strcmp(path, "/reload") == 0) {
        answer_reload(d, x);
    } else if (strcmp(path, "/hold") != 0) {
        answer(x, "hello", 5);
    }
}

static void on_gone(void *arg, struct http_exchange *x)
{
    struct demo *d = arg;

    for (int i = 0; i < STREAMS; i++) {
        if (d->streams[i] == x) {
            d->streams[i] = NULL;
        }
    }
}

/* Returns whether there are streams. */
static bool write_streams(struct demo *d)
{
    static const char block[4096] = "data";
    bool some = false;

    for (int i = 0; i < STREAMS; i++) {
        struct http_exchange *x = d->streams[i];
        size_t n = d->flood[i] ? sizeof block : 100;

        some = some || x != NULL;
        while (x != NULL && http_stream_write(x, block, n) && d->flood[i]) {
        }
    }
    return some;
}

static void serve(struct demo *d)
{
    struct pollfd fds[2] = {
        {.fd = http_sockets_fd(d->sockets), .events = POLLIN},
        {.fd = STDIN_FILENO, .events = POLLIN}};
    int64_t due = 0;

    while (fds[1].revents == 0) {
        int64_t ms =
            due == INT64_MAX ? 1000 : (due - monotonic_us()) / 1000 + 1;

        ms = ms > 1000 ? 1000 : ms < 0 ? 0 : ms;
        /* Streams get a chunk each millisecond. */
        ms = write_streams(d) && ms > 1 ? 1 : ms;
        poll(fds, 2, (int)ms);
        http_sockets_turn(d->sockets);
        due = http_server_tick(d->server, monotonic_us());
    }
}

int main(int argc, char **argv)
{
    /* Short times, so that tests of slow clients are short. */
    const struct http_options options = {.head_ms = 2000, .write_ms = 3000};
    const struct http_handler handler = {.request = on_request,
                                         .gone = on_gone};
    struct http_sockets_options o = {.listen = argc > 1 ? argv[1] : ""};
    struct demo d = {0};
    struct error e;

    if (argc > 3) {
        o.tls_cert = argv[2];
        o.tls_key = argv[3];
    }
    if (http_sockets_new(&d.sockets, &o, &e) != ST_OK) {
        fprintf(stderr, "demo: %s: %s\n", status_name(e.code), e.text);
        return 1;
    }
    d.server =
        http_server_new(&options, http_sockets_io(d.sockets), &handler, &d);
    http_sockets_start(d.sockets, d.server);
    printf("%s\n", http_sockets_endpoint(d.sockets));
    fflush(stdout);
    serve(&d);
    http_server_free(&d.server);
    http_sockets_free(&d.sockets);
    return 0;
}
