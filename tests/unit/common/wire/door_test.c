/* A door with keys, without ZeroMQ: which connections the sweeps end. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/wire/door.h"
#include "tests/unit/cmocka.h"

#define MESSAGE (ZMTP_MESSAGE_MIN + ZMTP_CURVE)

struct rig {
    unsigned door;
    int listener, peer, fd; /* fd: the accepted end */
    uint32_t generation;
};

static void push(const struct rig *r, const void *data, size_t n)
{
    uint8_t got[512];

    assert_int_equal(send(r->peer, data, n, MSG_NOSIGNAL), n);
    assert_int_equal(recv(r->fd, got, n, MSG_WAITALL), n);
}

static void say(const struct rig *r)
{
    static const uint8_t message[2 + MESSAGE] = {0, MESSAGE};

    push(r, message, sizeof message);
}

static void greet(const struct rig *r)
{
    static const uint8_t greeting[64] = {0xff, [9] = 0x7f, [10] = 3, [12] = 'C',
                                         'U',  'R',        'V',      'E'};
    static const uint8_t hello[2 + ZMTP_HELLO] = {4, ZMTP_HELLO};
    static const uint8_t initiate[9 + ZMTP_INITIATE] = {
        6, [7] = ZMTP_INITIATE >> 8, [8] = ZMTP_INITIATE & 0xff};

    push(r, greeting, sizeof greeting);
    push(r, hello, sizeof hello);
    push(r, initiate, sizeof initiate);
}

static void begin(struct rig *r)
{
    const struct door_config c = {
        .limits = {8, 8, 1000, 8, 8},
        .message_max = 1000,
        .trusted_max = 1000,
        .curve = true,
        .untaken_bytes = 100000,
        .trusted_untaken = 100000,
    };
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof at;

    r->door = door_open(&c, 0);
    assert_int_not_equal(r->door, 0);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    r->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(r->listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(r->listener, 1), 0);
    assert_true(door_listens(r->door));
    getsockname(r->listener, (struct sockaddr *)&at, &size);
    r->peer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(r->peer, (struct sockaddr *)&at, sizeof at), 0);
    r->fd = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(r->fd >= 0);
    r->generation = door_generation(r->fd);
    assert_int_not_equal(r->generation, 0);
    greet(r);
}

static void end(struct rig *r)
{
    close(r->fd);
    close(r->peer);
    close(r->listener);
    door_close(r->door);
}

static void sweep(const struct rig *r, int n)
{
    for (int i = 0; i < n; i++) {
        door_drained(r->door);
        door_sweep(r->door, 0);
    }
}

/* A frame of a connection that had the descriptor before may be credited to
 * it. */
static void a_credit_is_no_unfinished_message(void **state)
{
    struct rig r;

    (void)state;
    begin(&r);
    say(&r);
    door_taken(r.fd, r.generation, ZMTP_MESSAGE_MIN);
    door_taken(r.fd, r.generation, ZMTP_MESSAGE_MIN);
    sweep(&r, 3 * DOOR_STUCK);
    assert_int_equal(door_counts(r.door).cut[ZMTP_PARTS], 0);
    end(&r);
}

/* However long libzmq takes to close it. */
static void a_connection_is_cut_once(void **state)
{
    struct rig r;

    (void)state;
    begin(&r);
    say(&r);
    sweep(&r, 1 + DOOR_STUCK);
    assert_int_equal(door_counts(r.door).cut[ZMTP_PARTS], 1);
    sweep(&r, 3 * DOOR_STUCK);
    door_cut(r.fd, r.generation, ZMTP_PARTS);
    door_dismiss(r.fd, r.generation, 0);
    sweep(&r, 1);
    assert_int_equal(door_counts(r.door).cut[ZMTP_PARTS], 1);
    assert_int_equal(door_counts(r.door).closed, 0);
    end(&r);
}

static void limits_frames_that_nobody_hears(void **state)
{
    uint8_t byte;
    struct rig r;

    (void)state;
    begin(&r);
    for (int i = 0; i < DOOR_UNHEARD_MAX; i++) {
        say(&r);
    }
    assert_int_equal(door_counts(r.door).cut[ZMTP_PARTS], 0);
    for (int i = 0; i < 2 + MESSAGE; i++) {
        assert_int_equal(send(r.peer,
                              i == 1 ? &(uint8_t){MESSAGE} : &(uint8_t){0}, 1,
                              MSG_NOSIGNAL),
                         1);
        assert_int_equal(recv(r.fd, &byte, 1, MSG_WAITALL),
                         i < 1 + MESSAGE ? 1 : -1);
    }
    assert_int_equal(errno, ECONNRESET);
    assert_int_equal(door_counts(r.door).cut[ZMTP_PARTS], 1);
    end(&r);
}

static void limits_no_more_what_is_heard(void **state)
{
    struct rig r;

    (void)state;
    begin(&r);
    say(&r);
    door_taken(r.fd, r.generation, ZMTP_MESSAGE_MIN);
    for (int i = 0; i < DOOR_UNTAKEN_MAX; i++) {
        say(&r);
    }
    assert_int_equal(door_counts(r.door).cut[ZMTP_PARTS], 0);
    end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_credit_is_no_unfinished_message),
        cmocka_unit_test(a_connection_is_cut_once),
        cmocka_unit_test(limits_frames_that_nobody_hears),
        cmocka_unit_test(limits_no_more_what_is_heard),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
