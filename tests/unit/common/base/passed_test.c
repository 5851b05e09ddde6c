/* The variables of a service manager that passes sockets. */
#include "common/base/passed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"

static void set(const char *fds, int pid)
{
    char text[16];

    snprintf(text, sizeof text, "%d", pid);
    setenv("LISTEN_PID", text, 1);
    setenv("LISTEN_FDS", fds, 1);
    setenv("LISTEN_FDNAMES", "http", 1);
}

static void one_socket_is_taken_once(void **state)
{
    struct error e;
    int fd;

    (void)state;
    set("1", (int)getpid());
    assert_int_equal(passed_socket(&fd, &e), ST_OK);
    assert_int_equal(fd, PASSED_FIRST);
    assert_null(getenv("LISTEN_FDS"));
    assert_null(getenv("LISTEN_PID"));
    assert_null(getenv("LISTEN_FDNAMES"));
    assert_int_equal(passed_socket(&fd, &e), ST_OK);
    assert_int_equal(fd, 0);
}

static void sockets_of_another_process_are_not_taken(void **state)
{
    struct error e;
    int fd;

    (void)state;
    set("1", (int)getppid());
    assert_int_equal(passed_socket(&fd, &e), ST_OK);
    assert_int_equal(fd, 0);
    set("0", (int)getpid());
    assert_int_equal(passed_socket(&fd, &e), ST_OK);
    assert_int_equal(fd, 0);
}

static void other_counts_are_refused(void **state)
{
    static const char *const bad[] = {"2", "-1", "", "one", "11"};
    struct error e;
    int fd;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        set(bad[i], (int)getpid());
        assert_int_equal(passed_socket(&fd, &e), ST_INVALID_ARGUMENT);
        assert_non_null(strstr(e.text, "LISTEN_FDS="));
        assert_int_equal(fd, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_socket_is_taken_once),
        cmocka_unit_test(sockets_of_another_process_are_not_taken),
        cmocka_unit_test(other_counts_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
