/* Endpoints: their syntax, who can reach them, whether they are taken. */
#include "common/wire/endpoint.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/wire/method.h"
#include "common/wire/transport.h"
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

/* What is bound and dialled.  Only text is compared: nothing is dialled here.
 */
static void only_this_machine_is_bound_or_dialled(void **state)
{
    static const struct {
        const char *endpoint, *at; /* NULL: refused */
    } rows[] = {
        {"ipc:///run/x", "ipc:///run/x"},
        {"tcp://127.0.0.1:1", "tcp://127.0.0.1:1"},
        {"tcp://127.0.0.1:*", "tcp://127.0.0.1:*"},
        {"tcp://127.0.0.1:65535", "tcp://127.0.0.1:65535"},
        {"tcp://127.0.0.1:65536", NULL},
        {"tcp://127.0.0.1:99999999999999999999", NULL},
        {"tcp://127.255.255.255:1", "tcp://127.255.255.255:1"},
        {"tcp://[::1]:1", "tcp://[::1]:1"},
        /* No name is resolved: a resolver may ask another machine. */
        {"tcp://localhost:1", "tcp://127.0.0.1:1"},
        {"tcp://localhost.example:1", NULL},
        {"tcp://127.example.org:1", NULL},
        {"tcp://127.0.0.1.example.org:1", NULL},
        {"tcp://127.0.0.1234567890123:1", NULL},
        {"tcp://126.255.255.255:1", NULL},
        {"tcp://128.0.0.1:1", NULL},
        {"tcp://*:1", NULL},
        {"tcp://0.0.0.0:1", NULL},
        {"tcp://0x7f000001:1", NULL},
        {"tcp://[::]:1", NULL},
        {"tcp://[::10]:1", NULL},
        {"tcp://[::1%eth0]:1", NULL},
        {"tcp://lo:1", NULL}, /* an interface, to libzmq */
        /* libzmq takes SOURCE;DESTINATION. */
        {"tcp://127.0.0.1:1;192.0.2.1:2", NULL},
        {"tcp://192.0.2.1:2;127.0.0.1:1", NULL},
        {"tcp://localhost:1;192.0.2.1:2", NULL},
        {"tcp://127.0.0.1", NULL},
        {"tcp://127.0.0.1:", NULL},
        {"tcp://127.0.0.1:1 ", NULL},
        {"tcp://:1", NULL},
        {"tcp://", NULL},
        {"pgm://127.0.0.1:1", NULL},
    };
    char at[ENDPOINT_MAX];
    struct error e;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        enum status st = endpoint_private(rows[i].endpoint, at, &e);

        if ((st == ST_OK) != (rows[i].at != NULL)) {
            fail_msg("%s: %s", rows[i].endpoint, status_name(st));
        }
        if (st == ST_OK) {
            assert_string_equal(at, rows[i].at);
        }
    }
    assert_int_equal(endpoint_private("tcp://192.0.2.1:2", at, &e),
                     ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "tcp://192.0.2.1:2: refused, there are no "
                                   "keys yet, so only loopback"));
    assert_non_null(strstr(e.text, "ssh -L"));
    assert_true(endpoint_is_ipc("ipc://x"));
    assert_false(endpoint_is_ipc("tcp://x:1"));
}

static bool takes(const char *endpoint, const char *own)
{
    struct error e;
    enum status st =
        endpoint_of_peer((const uint8_t *)endpoint, strlen(endpoint), own, &e);

    assert_true(st == ST_OK || st == ST_INVALID_ARGUMENT);
    return st == ST_OK;
}

/* A peer may name a loopback port or a file beside our own. */
static void a_peer_names_neighbours_only(void **state)
{
    static const uint8_t two[] = "tcp://127.0.0.1:1\0;192.0.2.1:2";
    struct error e;

    (void)state;
    assert_true(takes("tcp://127.0.0.1:7070", "tcp://127.0.0.1:1"));
    assert_true(takes("tcp://127.0.0.1:65535", "ipc:///run/s/a"));
    assert_true(takes("tcp://[::1]:1", "ipc:///run/s/a"));
    assert_false(takes("tcp://127.0.0.1:0", NULL));
    assert_false(takes("tcp://127.0.0.1:*", NULL));
    assert_false(takes("tcp://192.0.2.1:7070", NULL));
    assert_false(takes("tcp://127.0.0.1:1;192.0.2.1:2", NULL));
    assert_false(takes("", NULL));
    assert_true(takes("ipc:///run/s/b", "ipc:///run/s/a"));
    assert_true(takes("ipc://b", "ipc://a"));
    assert_false(takes("ipc:///etc/passwd", "ipc:///run/s/a"));
    assert_false(takes("ipc:///etc/passwd", "tcp://127.0.0.1:1"));
    assert_false(takes("ipc:///run/s/../../etc/passwd", "ipc:///run/s/a"));
    assert_false(takes("ipc:///run/s/b/c", "ipc:///run/s/a"));
    assert_false(takes("ipc:///run/sb", "ipc:///run/s/a"));
    assert_false(takes("ipc:///run/s/", "ipc:///run/s/a"));
    assert_false(takes("ipc://@b", "ipc://a"));
    assert_true(takes("ipc:///etc/passwd", NULL)); /* who does not dial it */
    assert_int_equal(endpoint_of_peer(two, sizeof two - 1, NULL, &e),
                     ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "\"tcp://127.0.0.1:1\\x00;192.0.2.1:2\""));
}

static void the_longest_name_of_a_peer_is_dialled(void **state)
{
    uint8_t name[ENDPOINT_MAX];
    struct error e;

    (void)state;
    memset(name, 'x', sizeof name);
    memcpy(name, "ipc://", 6);
    assert_int_equal(endpoint_of_peer(name, ENDPOINT_MAX - 1, NULL, &e), ST_OK);
    assert_int_equal(endpoint_of_peer(name, ENDPOINT_MAX, NULL, &e),
                     ST_INVALID_ARGUMENT);
}

/* ---- transports ---- */

static void refuses_to_listen_in_the_open(void **state)
{
    static const char *const open[] = {"tcp://0.0.0.0:7070", "tcp://*:7070",
                                       "tcp://192.0.2.1:7070",
                                       "tcp://[::]:7070"};
    struct transport *t = NULL;
    struct error e;

    (void)state;
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++) {
        struct transport_port port = {open[i], BY_ALL, false};

        assert_int_equal(transport_listen(&t, &port, 1, NULL, &e),
                         ST_INVALID_ARGUMENT);
        assert_non_null(strstr(e.text, "no keys"));
        assert_null(t);
    }
}

/* The rule for dialling is the rule for binding.  Nothing is dialled here: a
 * connecting transport dials only in open(). */
static void refuses_to_dial_other_machines(void **state)
{
    struct transport *t = NULL;
    struct error e;

    (void)state;
    assert_int_equal(transport_connect(&t, "tcp://192.0.2.1:7070", NULL, &e),
                     ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "no keys"));
    assert_null(t);
    assert_int_equal(transport_connect_many(&t, "tcp://127.0.0.1:1;192.0.2.1:2",
                                            2, NULL, &e),
                     ST_INVALID_ARGUMENT);
    assert_null(t);
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
        cmocka_unit_test(only_this_machine_is_bound_or_dialled),
        cmocka_unit_test(a_peer_names_neighbours_only),
        cmocka_unit_test(the_longest_name_of_a_peer_is_dialled),
        cmocka_unit_test(refuses_to_listen_in_the_open),
        cmocka_unit_test(refuses_to_dial_other_machines),
        cmocka_unit_test(whether_it_is_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
