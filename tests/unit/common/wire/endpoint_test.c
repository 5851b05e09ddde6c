/* Endpoints: their syntax, who can reach them, whether they are taken. */
#include "common/wire/endpoint.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"

static void what_is_one(void **state)
{
    char longest[ENDPOINT_MAX + 1] = "ipc://";
    struct error e;

    (void)state;
    assert_int_equal(endpoint_check("tcp://127.0.0.1:1", &e), ST_OK);
    assert_int_equal(endpoint_check("ipc:///run/x", &e), ST_OK);
    assert_int_equal(endpoint_check("", &e), ST_INVALID_ARGUMENT);
    assert_int_equal(endpoint_check("127.0.0.1:1", &e), ST_INVALID_ARGUMENT);
    assert_int_equal(endpoint_check("inproc://x", &e), ST_INVALID_ARGUMENT);
    memset(longest + 6, 'x', ENDPOINT_MAX - 7);
    assert_int_equal(strlen(longest), ENDPOINT_MAX - 1);
    assert_int_equal(endpoint_check(longest, &e), ST_OK);
    longest[ENDPOINT_MAX - 1] = 'x';
    assert_int_equal(endpoint_check(longest, &e), ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "tcp://HOST:PORT"));
}

/* A socket of the abstract namespace has no file, so no file mode protects
 * it. */
static void abstract_names_are_refused(void **state)
{
    struct error e;

    (void)state;
    assert_int_equal(endpoint_check("ipc://@sluice", &e), ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "ipc://@sluice: a name that begins with @"));
    assert_int_equal(endpoint_check("ipc://@", &e), ST_INVALID_ARGUMENT);
    assert_int_equal(endpoint_check("ipc://./@sluice", &e), ST_OK);
    assert_int_equal(endpoint_check("ipc:///run/@sluice", &e), ST_OK);
}

static void who_can_reach_it(void **state)
{
    (void)state;
    assert_true(endpoint_is_private("ipc:///run/x"));
    assert_true(endpoint_is_private("tcp://127.0.0.1:1"));
    assert_true(endpoint_is_private("tcp://127.1.2.3:1"));
    assert_true(endpoint_is_private("tcp://127.255.255.255:1"));
    assert_true(endpoint_is_private("tcp://[::1]:1"));
    assert_true(endpoint_is_private("tcp://localhost:1"));
    assert_false(endpoint_is_private("tcp://127.example.org:1"));
    assert_false(endpoint_is_private("tcp://127.0.0.1.example.org:1"));
    assert_false(endpoint_is_private("tcp://127.0.0.1234567890123:1"));
    assert_false(endpoint_is_private("tcp://126.255.255.255:1"));
    assert_false(endpoint_is_private("tcp://128.0.0.1:1"));
    assert_false(endpoint_is_private("tcp://*:1"));
    assert_false(endpoint_is_private("tcp://0.0.0.0:1"));
    assert_false(endpoint_is_private("tcp://[::]:1"));
    assert_false(endpoint_is_private("tcp://[::10]:1"));
    assert_false(endpoint_is_private("tcp://localhost.example:1"));
    assert_true(endpoint_is_ipc("ipc://x"));
    assert_false(endpoint_is_ipc("tcp://x:1"));
}

static void whether_it_is_taken(void **state)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char endpoint[sizeof at.sun_path + 8], longer[ENDPOINT_MAX] = "ipc://";
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    (void)state;
    snprintf(at.sun_path, sizeof at.sun_path, "/tmp/sluice-endpoint.%d",
             (int)getpid());
    snprintf(endpoint, sizeof endpoint, "ipc://%s", at.sun_path);
    assert_false(endpoint_taken(endpoint));
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_false(endpoint_taken(endpoint)); /* a file without a listener */
    assert_int_equal(listen(fd, 4), 0);
    assert_true(endpoint_taken(endpoint));
    close(fd);
    assert_false(endpoint_taken(endpoint)); /* left behind */
    unlink(at.sun_path);
    assert_false(endpoint_taken("ipc://"));
    assert_false(endpoint_taken("tcp://127.0.0.1:1"));
    memset(longer + 6, 'x', sizeof at.sun_path);
    assert_false(endpoint_taken(longer));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_one),
        cmocka_unit_test(abstract_names_are_refused),
        cmocka_unit_test(who_can_reach_it),
        cmocka_unit_test(whether_it_is_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
