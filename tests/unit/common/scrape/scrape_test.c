/* The endpoint over real sockets: answers, limits and bad peers. */
#include "common/scrape/scrape.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"

#define REQUEST "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"

struct fixture {
    struct scrape *s;
    size_t bytes;    /* of the page */
    unsigned n_made; /* pages */
};

static struct fixture f;

static void render(void *arg, struct metric_page *page)
{
    struct fixture *x = arg;

    x->n_made++;
    while (page->n < x->bytes) {
        metric_page_text(page, "0123456789");
    }
}

static int begin(void **state)
{
    struct error e;

    (void)state;
    f = (struct fixture){.bytes = 100};
    if (scrape_new(&f.s, "127.0.0.1:0", false, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    scrape_render(f.s, render, &f);
    return 0;
}

static int end(void **state)
{
    (void)state;
    scrape_free(&f.s);
    return 0;
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Runs the endpoint while it has work, at most wait_ms after the last. */
static void run(int wait_ms)
{
    struct pollfd item = {.fd = scrape_fd(f.s), .events = POLLIN};

    while (poll(&item, 1, wait_ms) > 0) {
        scrape_ready(f.s, scrape_fd(f.s));
        wait_ms = 1;
    }
}

static int dial(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_port = htons((uint16_t)atoi(strchr(scrape_address(f.s), ':') + 1));
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Reads to the end while the endpoint runs.  Returns the bytes; *reset: the
 * peer did not end in order. */
static size_t hear(int fd, char *out, size_t cap, bool *reset)
{
    size_t n = 0;
    ssize_t got;

    do {
        run(0);
        got = recv(fd, out + n, cap - n - 1, MSG_DONTWAIT);
        n += got > 0 ? (size_t)got : 0;
        if (got < 0 && errno == EAGAIN) {
            run(20);
        }
    } while (n + 1 < cap && (got > 0 || (got < 0 && errno == EAGAIN)));
    out[n] = '\0';
    if (reset != NULL) {
        *reset = got < 0;
    }
    return n;
}

static void assert_answer(int fd, const char *status)
{
    char text[4096];

    (void)hear(fd, text, sizeof text, NULL);
    close(fd);
    if (strncmp(text + 9, status, 3) != 0) {
        fail_msg("wanted %s: %s", status, text);
    }
}

static void a_request_gets_the_page(void **state)
{
    char text[4096];
    bool reset;
    int fd = dial();

    (void)state;
    say(fd, REQUEST);
    (void)hear(fd, text, sizeof text, &reset);
    assert_false(reset);
    assert_memory_equal(text, "HTTP/1.1 200 OK\r\n", 17);
    assert_non_null(strstr(text, "\r\nContent-Length: 100\r\n"));
    assert_int_equal(strlen(strstr(text, "\r\n\r\n") + 4), 100);
    close(fd);
    run(0);
}

static void other_requests_get_errors(void **state)
{
    static char long_one[5000];
    int fd = dial();

    (void)state;
    say(fd, "GET / HTTP/1.1\r\n\r\n");
    assert_answer(fd, "404");
    fd = dial();
    say(fd, "PUT /metrics HTTP/1.1\r\n\r\n");
    assert_answer(fd, "405");
    fd = dial();
    say(fd, "\x16\x03\x01 hello\n\n");
    assert_answer(fd, "400");
    memset(long_one, 'x', sizeof long_one - 1);
    fd = dial();
    say(fd, long_one);
    assert_answer(fd, "431");
    assert_int_equal(f.n_made, 0);
}

static bool is_ready(const void *arg)
{
    return *(const bool *)arg;
}

/* Sends a request of path, and checks the answer's status and body. */
static void assert_probe(const char *path, const char *status, const char *body)
{
    char text[4096], request[64];
    int fd = dial();

    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\n\r\n", path);
    say(fd, request);
    (void)hear(fd, text, sizeof text, NULL);
    close(fd);
    assert_memory_equal(text + 9, status, 3);
    assert_string_equal(strstr(text, "\r\n\r\n") + 4, body);
}

static void ready_follows_the_program(void **state)
{
    bool ready = false;

    (void)state;
    assert_probe("/ready", "200", "ok\n"); /* without a probe */
    scrape_probe(f.s, is_ready, &ready);
    assert_probe("/ready", "503", "not ready\n");
    assert_probe("/live", "200", "ok\n");
    ready = true;
    assert_probe("/ready", "200", "ok\n");
    assert_int_equal(f.n_made, 0); /* no metrics were made */
}

/* More than a socket's buffers hold, read late: the rest follows, and the
 * endpoint never blocks meanwhile. */
static void a_long_page_is_written_in_parts(void **state)
{
    size_t cap = (size_t)32 << 20;
    char *text = malloc(cap);
    const char *body;
    int fd = dial();

    (void)state;
    f.bytes = (size_t)16 << 20;
    assert_non_null(text);
    say(fd, REQUEST);
    run(20); /* nobody reads yet */
    assert_int_equal(f.n_made, 1);
    (void)hear(fd, text, cap, NULL);
    body = strstr(text, "\r\n\r\n");
    assert_non_null(body);
    assert_true(strlen(body + 4) >= f.bytes);
    close(fd);
    free(text);
}

static void a_request_may_come_byte_by_byte(void **state)
{
    int fd = dial();

    (void)state;
    for (size_t i = 0; i < strlen(REQUEST); i++) {
        char one[2] = {REQUEST[i], '\0'};

        say(fd, one);
        run(1);
    }
    assert_answer(fd, "200");
}

/* SCRAPE_CONNECTIONS_MAX stalled peers are closed when their time is up, and
 * the next request is answered then. */
static void stalled_peers_end(void **state)
{
    int fds[SCRAPE_CONNECTIONS_MAX], fd;
    int64_t from = now_ms();
    char one;

    (void)state;
    for (int i = 0; i < SCRAPE_CONNECTIONS_MAX; i++) {
        fds[i] = dial();
        run(20);
    }
    fd = dial();
    say(fd, REQUEST);
    run(20);
    assert_int_equal(recv(fd, &one, 1, MSG_DONTWAIT), -1);
    assert_int_equal(f.n_made, 0);
    assert_answer(fd, "200");
    assert_true(now_ms() - from >= SCRAPE_LIFE_MS - 2 * SCRAPE_TICK_MS);
    for (int i = 0; i < SCRAPE_CONNECTIONS_MAX; i++) {
        assert_int_equal(recv(fds[i], &one, 1, 0), 0); /* closed */
        close(fds[i]);
    }
}

/* Connections beyond SCRAPE_ACCEPTS_MAX wait for the next tick, which is never
 * early. */
static void a_flood_is_accepted_slowly(void **state)
{
    int fds[2 * SCRAPE_ACCEPTS_MAX];
    int64_t from = now_ms();

    (void)state;
    for (int i = 0; i < 2 * SCRAPE_ACCEPTS_MAX; i++) {
        fds[i] = dial();
        say(fds[i], REQUEST);
        shutdown(fds[i], SHUT_WR);
    }
    for (int i = 0; i < 2 * SCRAPE_ACCEPTS_MAX; i++) {
        assert_answer(fds[i], "200");
    }
    assert_int_equal(f.n_made, 2 * SCRAPE_ACCEPTS_MAX);
    assert_true(now_ms() - from >= SCRAPE_TICK_MS - 1);
}

/* A peer that goes on sending after its answer is cut off. */
static void an_endless_request_is_cut_off(void **state)
{
    static char bytes[65536];
    size_t sent = 0;
    ssize_t n;
    int fd = dial();

    (void)state;
    memset(bytes, 'x', sizeof bytes);
    do {
        n = send(fd, bytes, sizeof bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        sent += n > 0 ? (size_t)n : 0;
        run(1);
    } while ((n > 0 || errno == EAGAIN) && sent < (size_t)64 << 20);
    assert_true(n < 0 && (errno == EPIPE || errno == ECONNRESET));
    close(fd);
}

static void only_loopback_is_bound(void **state)
{
    static const struct {
        const char *at;
        enum status status;
    } rows[] = {
        {"0.0.0.0:0", ST_FAILED_PRECONDITION},
        {"192.0.2.1:9464", ST_FAILED_PRECONDITION},
        {"[::]:0", ST_FAILED_PRECONDITION},
        {"[2001:db8::1]:0", ST_FAILED_PRECONDITION},
        {"[::ffff:127.0.0.1]:0", ST_FAILED_PRECONDITION},
        {"127.0.0.1", ST_INVALID_ARGUMENT},
        {"127.0.0.1:", ST_INVALID_ARGUMENT},
        {"127.0.0.1:65536", ST_INVALID_ARGUMENT},
        {"127.0.0.1:1x", ST_INVALID_ARGUMENT},
        {"127.0.0.1:-1", ST_INVALID_ARGUMENT},
        {":80", ST_INVALID_ARGUMENT},
        {"", ST_INVALID_ARGUMENT},
        {"example.org:80", ST_INVALID_ARGUMENT},
        {"127.1:80", ST_INVALID_ARGUMENT},
        {"[]:80", ST_INVALID_ARGUMENT},
        {"::1:80", ST_INVALID_ARGUMENT},
    };
    struct scrape *s;
    struct error e;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        enum status st = scrape_new(&s, rows[i].at, false, &e);

        if (st != rows[i].status) {
            fail_msg("\"%s\": %s", rows[i].at, status_name(st));
        }
        assert_null(s);
    }
    assert_int_equal(scrape_new(&s, "localhost:0", false, &e), ST_OK);
    assert_memory_equal(scrape_address(s), "127.0.0.1:", 10);
    scrape_free(&s);
    assert_int_equal(scrape_new(&s, "127.9.8.7:0", false, &e), ST_OK);
    scrape_free(&s);
    assert_int_equal(scrape_new(&s, scrape_address(f.s), false, &e),
                     ST_UNAVAILABLE);
    assert_non_null(strstr(e.text, "in use"));
}

static void any_address_is_bound_when_allowed(void **state)
{
    struct scrape *s;
    struct error e;

    (void)state;
    assert_int_equal(scrape_new(&s, "0.0.0.0:0", true, &e), ST_OK);
    assert_memory_equal(scrape_address(s), "0.0.0.0:", 8);
    scrape_free(&s);
    assert_int_equal(scrape_new(&s, "example.org:80", true, &e),
                     ST_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_request_gets_the_page, begin, end),
        cmocka_unit_test_setup_teardown(other_requests_get_errors, begin, end),
        cmocka_unit_test_setup_teardown(ready_follows_the_program, begin, end),
        cmocka_unit_test_setup_teardown(a_long_page_is_written_in_parts, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_request_may_come_byte_by_byte, begin,
                                        end),
        cmocka_unit_test_setup_teardown(stalled_peers_end, begin, end),
        cmocka_unit_test_setup_teardown(a_flood_is_accepted_slowly, begin, end),
        cmocka_unit_test_setup_teardown(an_endless_request_is_cut_off, begin,
                                        end),
        cmocka_unit_test_setup_teardown(only_loopback_is_bound, begin, end),
        cmocka_unit_test_setup_teardown(any_address_is_bound_when_allowed,
                                        begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
