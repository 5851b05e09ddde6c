/* The proxy's commands over plain sockets.  Argument: the path of the proxy. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/faults/chaos_rig.h"

struct pair {
    int up, down; /* the client's socket; the target's */
};

static int dial(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)rig.plain),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static struct pair pair_make(void)
{
    struct pair p = {.up = dial()};
    struct pollfd in = {rig.listener, POLLIN, 0};

    assert_true(p.up >= 0);
    assert_int_equal(poll(&in, 1, patience_ms()), 1);
    p.down = accept(rig.listener, NULL, NULL);
    assert_true(p.down >= 0);
    return p;
}

static void pair_close(struct pair p)
{
    close(p.up);
    close(p.down);
}

/* Passes n bytes through while serving both ends; checks nothing. */
static void move(int from, int to, const uint8_t *in, uint8_t *out, size_t n)
{
    size_t sent = 0, got = 0;

    while (got < n) {
        struct pollfd fds[] = {{to, POLLIN, 0},
                               {from, sent < n ? POLLOUT : 0, 0}};

        assert_true(poll(fds, 2, patience_ms()) > 0);
        if (fds[1].revents & POLLOUT) {
            ssize_t k = send(from, in + sent, n - sent, MSG_DONTWAIT);
            sent += k > 0 ? (size_t)k : 0;
        }
        if (fds[0].revents != 0) {
            ssize_t k = recv(to, out + got, n - got, MSG_DONTWAIT);
            assert_true(k > 0);
            got += (size_t)k;
        }
    }
}

static void says(int from, int to, const char *text)
{
    char got[64] = "";

    move(from, to, (const uint8_t *)text, (uint8_t *)got, strlen(text));
    assert_string_equal(got, text);
}

static void nothing_at(int fd)
{
    char byte;

    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK), -1);
    assert_int_equal(errno, EAGAIN);
}

/* Returns 0 at an orderly end, else the error. */
static int end_of(int fd)
{
    struct pollfd in = {fd, POLLIN, 0};
    char byte;

    assert_int_equal(poll(&in, 1, patience_ms()), 1);
    return recv(fd, &byte, 1, 0) == 0 ? 0 : errno;
}

static void bytes_pass_both_ways(void **state)
{
    static uint8_t in[3 << 20], out[sizeof in];
    struct pair p = pair_make();

    (void)state;
    for (size_t i = 0; i < sizeof in; i++) {
        in[i] = (uint8_t)(i * 2654435761u >> 24);
    }
    move(p.up, p.down, in, out, sizeof in);
    assert_memory_equal(in, out, sizeof in);
    memset(out, 0, sizeof out);
    move(p.down, p.up, in, out, sizeof in);
    assert_memory_equal(in, out, sizeof in);
    assert_int_equal(rig_stat("plain", "bytes_up"), sizeof in);
    assert_int_equal(rig_stat("plain", "bytes_down"), sizeof in);
    shutdown(p.up, SHUT_WR);
    assert_int_equal(end_of(p.down), 0); /* only this way ended */
    says(p.down, p.up, "still here");
    pair_close(p);
}

static void delay_and_rate(void **state)
{
    static uint8_t in[20480], out[sizeof in];
    struct pair p = pair_make();
    int64_t from = rig_now_ms();

    (void)state;
    rig_ok("plain delay 80 jitter 20");
    says(p.up, p.down, "later");
    assert_true(rig_now_ms() - from >= 80);
    rig_ok("plain delay 0");
    rig_ok("plain rate 102400");
    from = rig_now_ms();
    move(p.down, p.up, in, out, sizeof in);
    assert_true(rig_now_ms() - from >= 160); /* 200 ms less the first slice */
    pair_close(p);
}

static void a_drop_is_one_way_and_hides_the_end(void **state)
{
    struct pair p = pair_make(), q = pair_make();

    (void)state;
    rig_ok("plain drop up");
    assert_int_equal(send(p.up, "lost", 4, 0), 4);
    rig_until("plain", "dropped_bytes", 4);
    nothing_at(p.down);
    says(p.down, p.up, "down goes");
    rig_ok("plain heal");
    says(p.up, p.down, "up goes again");

    rig_ok("plain drop both");
    close(p.up); /* an orderly end */
    send(q.down, "unread", 6, 0);
    rig_until("plain", "dropped_bytes", 10);
    send(q.up, "x", 1, 0);
    rig_until("plain", "dropped_bytes", 11);
    nothing_at(p.down);
    rig_ok("plain heal");
    assert_int_equal(end_of(p.down), 0);
    close(p.down);
    pair_close(q);
}

static void a_frozen_way_fills_and_goes_on(void **state)
{
    static uint8_t in[1 << 20], out[sizeof in];
    struct pair p = pair_make();
    size_t sent = 0;
    ssize_t n;

    (void)state;
    for (size_t i = 0; i < sizeof in; i++) {
        in[i] = (uint8_t)(i ^ i >> 8);
    }
    rig_ok("plain freeze up");
    while ((n = send(p.up, in, sizeof in, MSG_DONTWAIT)) > 0) {
        sent += (size_t)n; /* until the kernel's buffer is full */
        assert_true(sent < 256u << 20);
    }
    assert_int_equal(rig_stat("plain", "bytes_up"), 0);
    nothing_at(p.down);
    says(p.down, p.up, "not this way");
    rig_ok("plain heal");
    for (size_t got = 0; got < sent; got += (size_t)n) {
        n = recv(p.down, out, sizeof out, 0);
        assert_true(n > 0);
    }
    says(p.up, p.down, "and on");
    pair_close(p);
}

static void a_reset_behind_a_cut_is_told_when_it_heals(void **state)
{
    struct linger none = {.l_onoff = 1, .l_linger = 0};
    struct pair p = pair_make();

    (void)state;
    rig_ok("plain drop both");
    setsockopt(p.up, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    close(p.up);
    send(p.down, "into the void", 13, 0);
    rig_until("plain", "dropped_bytes", 13);
    nothing_at(p.down);
    assert_int_equal(rig_stat("plain", "open"), 1);
    rig_ok("plain heal");
    assert_int_equal(end_of(p.down), ECONNRESET);
    close(p.down);
}

static void reset_close_and_one_of_many(void **state)
{
    struct pair p = pair_make(), q = pair_make();

    (void)state;
    assert_string_equal(rig_tell("plain connections"), "ok n=2 ids=1,2");
    assert_string_equal(rig_tell("plain#1 reset"), "ok n=1");
    assert_int_equal(end_of(p.up), ECONNRESET);
    assert_int_equal(end_of(p.down), ECONNRESET);
    says(q.up, q.down, "I live");
    assert_string_equal(rig_tell("plain connections"), "ok n=1 ids=2");
    assert_string_equal(rig_tell("plain close"), "ok n=1");
    assert_int_equal(end_of(q.up), 0);
    assert_int_equal(end_of(q.down), 0);
    assert_int_equal(rig_stat("plain", "resets"), 1);
    pair_close(p);
    pair_close(q);
}

static void settings_of_one_connection(void **state)
{
    struct pair p = pair_make(), q = pair_make();

    (void)state;
    rig_ok("plain#2 drop up");
    send(q.up, "gone", 4, 0);
    rig_until("plain", "dropped_bytes", 4);
    says(p.up, p.down, "mine is well");
    nothing_at(q.down);
    pair_close(p);
    pair_close(q);
}

static void pause_and_refuse(void **state)
{
    int fd, refused;
    struct pair p;

    (void)state;
    rig_ok("plain pause_accept");
    fd = dial(); /* the kernel accepts it */
    assert_true(fd >= 0);
    assert_int_equal(rig_stat("plain", "accepted"), 0);
    rig_ok("plain heal");
    rig_until("plain", "accepted", 1);
    close(fd);
    close(accept(rig.listener, NULL, NULL));
    rig_ok("plain refuse");
    refused = dial();
    assert_int_equal(refused, -1);
    assert_int_equal(errno, ECONNREFUSED);
    rig_ok("plain heal");
    p = pair_make();
    says(p.up, p.down, "the same port");
    pair_close(p);
}

/* Counts the bytes that differ, each by one bit. */
static size_t flips(const uint8_t *in, const uint8_t *out, size_t n)
{
    size_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        uint8_t x = in[i] ^ out[i];

        assert_int_equal(x & (x - 1), 0);
        sum += x != 0;
    }
    return sum;
}

static void bits_flip_by_the_seed(void **state)
{
    static uint8_t in[1 << 20], out[sizeof in], again[sizeof in];
    struct pair p = pair_make();
    size_t n;

    rig_ok("plain flip 1/1000");
    move(p.up, p.down, in, out, sizeof in);
    n = flips(in, out, sizeof in);
    assert_int_equal(n, rig_stat("plain", "flips"));
    /* 1049 are expected, with a standard deviation of 19. */
    assert_in_range(n, 1049 - 6 * 19, 1049 + 6 * 19);
    pair_close(p);
    rig_teardown(state);
    rig_setup(state);
    p = pair_make(); /* connection number 1 again */
    rig_ok("plain flip 1/1000");
    move(p.up, p.down, in, again, sizeof in);
    assert_memory_equal(out, again, sizeof in);
    pair_close(p);
}

static void nobody_there(void **state)
{
    char text[64];
    int fd;

    (void)state;
    close(rig.listener);
    fd = dial();
    assert_true(fd >= 0);
    assert_int_equal(end_of(fd), ECONNRESET);
    assert_int_equal(rig_stat("plain", "unreachable"), 1);
    close(fd);
    snprintf(text, sizeof text, "add more=0:%u,plain", rig.z);
    rig_ok(text);
    assert_int_equal(rig_stat("more", "accepted"), 0);
    rig.listener = dup(STDIN_FILENO); /* a descriptor for teardown */
}

static void what_is_refused(void **state)
{
    static const char *const cases[][2] = {
        {"", "ok"},
        {"plain", "error plain is not a command"},
        {"plain explode", "error explode is not a command"},
        {"nobody heal", "error there is no route nobody"},
        {"plain#0 heal", "error plain#0: ids are numbers from 1"},
        {"plain#9 heal", "error plain#9 is not open"},
        {"plain#9 refuse", "error refuse: a route is required"},
        {"plain delay", "error delay takes 1 to 3 words, not 0"},
        {"plain delay -1", "error delay: MS or MS jitter MS, at most 600000,"},
        {"plain delay 600001", "error delay: MS or"},
        {"plain delay 1 jitter", "error delay: MS or"},
        {"plain rate fast", "error rate: a number of bytes a second"},
        {"plain drop left", "error drop: up, down or both"},
        {"plain freeze", "error freeze takes 1 to 1 words"},
        {"plain flip 2/3", "error flip: 1/N is required"},
        {"plain dup 1/4294967296", "error dup: 1/N is required"},
        {"plain dup 1/2", "error dup: route plain is plain"},
        {"* lose 1/2", "error lose: route plain is plain"},
        {"* connections", "error connections: one route is required"},
        {"add x=1:2:3", "error x=1:2:3: NAME=LISTEN:TARGET"},
        {"add x=0:65536", "error x=0:65536: NAME=LISTEN:TARGET"},
        {"add plain=0:9", "error plain exists already"},
        {"add a#b=0:9", "error a name has 1 to 31 bytes"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *answer = rig_tell(cases[i][0]);

        if (strncmp(answer, cases[i][1], strlen(cases[i][1])) != 0) {
            fail_msg("\"%s\": %s", cases[i][0], answer);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(bytes_pass_both_ways),
        RIG_TEST(delay_and_rate),
        RIG_TEST(a_drop_is_one_way_and_hides_the_end),
        RIG_TEST(a_frozen_way_fills_and_goes_on),
        RIG_TEST(a_reset_behind_a_cut_is_told_when_it_heals),
        RIG_TEST(reset_close_and_one_of_many),
        RIG_TEST(settings_of_one_connection),
        RIG_TEST(pause_and_refuse),
        RIG_TEST(bits_flip_by_the_seed),
        RIG_TEST(nobody_there),
        RIG_TEST(what_is_refused),
    };

    if (!rig_program(argc, argv)) {
        return 2;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
