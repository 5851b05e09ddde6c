/* A listening socket that another program has bound. */
#include "gateway/http/listener.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"

static int bound(uint32_t address, bool listening)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr = {htonl(address)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_true(!listening || listen(fd, 8) == 0);
    return fd;
}

static void a_passed_socket_accepts(void **state)
{
    struct listener l;
    struct error e;
    struct sockaddr_in to;
    socklen_t n = sizeof to;
    int fd = bound(INADDR_LOOPBACK, true), client, accepted;

    (void)state;
    assert_int_equal(listener_take(&l, fd, false, &e), ST_OK);
    assert_int_equal(l.fd, fd);
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(strncmp(l.endpoint, "127.0.0.1:", 10), 0);
    assert_int_equal(listener_accept(&l, &accepted), LISTENER_NONE);
    client = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&to, &n), 0);
    assert_int_equal(connect(client, (struct sockaddr *)&to, n), 0);
    assert_int_equal(listener_accept(&l, &accepted), LISTENER_OK);
    close(accepted);
    close(client);
    listener_close(&l);
}

static void others_need_keys_to_reach_a_passed_socket(void **state)
{
    struct listener l;
    struct error e;

    (void)state;
    assert_int_equal(listener_take(&l, bound(INADDR_ANY, true), false, &e),
                     ST_PERMISSION_DENIED);
    assert_non_null(strstr(e.text, "0.0.0.0:"));
    listener_close(&l);
    assert_int_equal(listener_take(&l, bound(INADDR_ANY, true), true, &e),
                     ST_OK);
    listener_close(&l);
}

static void what_is_no_listening_tcp_socket_is_refused(void **state)
{
    struct listener l;
    struct error e;
    int ends[2], fd = bound(INADDR_LOOPBACK, false);

    (void)state;
    assert_int_equal(listener_take(&l, fd, true, &e), ST_INVALID_ARGUMENT);
    close(fd);
    assert_int_equal(listener_take(&l, fd, true, &e), ST_INVALID_ARGUMENT);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(listener_take(&l, ends[0], true, &e), ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "ListenStream"));
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_passed_socket_accepts),
        cmocka_unit_test(others_need_keys_to_reach_a_passed_socket),
        cmocka_unit_test(what_is_no_listening_tcp_socket_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
