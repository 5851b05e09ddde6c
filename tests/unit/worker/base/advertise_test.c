/* Where the previous stage reaches a worker: --advertise and its default. */
#include "worker/base/advertise.h"

#include <stdio.h>
#include <string.h>

#include "common/wire/endpoint.h"
#include "common/wire/source_address.h"
#include "tests/unit/cmocka.h"

static void what_is_advertised(void **state)
{
    static const struct {
        const char *given, *listening, *advertised; /* NULL: refused */
    } rows[] = {
        {NULL, "tcp://10.0.0.7:9000", "tcp://10.0.0.7:9000"},
        {NULL, "tcp://[::]:9000", "tcp://[::]:9000"},
        {NULL, "ipc:///run/x", "ipc:///run/x"},
        {"node-7", "tcp://[::]:9000", "tcp://node-7:9000"},
        {"10.0.0.7", "tcp://0.0.0.0:9000", "tcp://10.0.0.7:9000"},
        {"node-7:80", "tcp://[::]:9000", "tcp://node-7:80"},
        {"fd00::7", "tcp://[::]:9000", "tcp://[fd00::7]:9000"},
        {"[fd00::7]", "tcp://[::]:9000", "tcp://[fd00::7]:9000"},
        {"[fd00::7]:80", "tcp://[::]:9000", "tcp://[fd00::7]:80"},
        {"tcp://node-7:80", "tcp://[::]:9000", "tcp://node-7:80"},
        {"ipc:///run/y", "tcp://[::]:9000", "ipc:///run/y"},
        {"node-7:80", "ipc:///run/x", "tcp://node-7:80"},
        {"node-7", "ipc:///run/x", NULL}, /* which port? */
        {"", "tcp://[::]:9000", NULL},
        {"node-7:0", "tcp://[::]:9000", NULL},
        {"node-7:*", "tcp://[::]:9000", NULL},
        {"node-7:x", "tcp://[::]:9000", NULL},
        {"0.0.0.0", "tcp://[::]:9000", NULL},
        {"*", "tcp://[::]:9000", NULL},
        {"::", "tcp://[::]:9000", NULL},
        {"a b", "tcp://[::]:9000", NULL},
        {"tcp://", "tcp://[::]:9000", NULL},
        {"http://node-7:80", "tcp://[::]:9000", NULL},
    };
    char at[ENDPOINT_MAX];
    struct error e;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *given = rows[i].given;
        enum status st =
            advertise_endpoint(at, given, rows[i].listening, true, &e);

        if ((st == ST_OK) != (rows[i].advertised != NULL)) {
            fail_msg("%s: %s", given, status_name(st));
        }
        if (st == ST_OK) {
            assert_string_equal(at, rows[i].advertised);
        } else {
            assert_non_null(strstr(e.text, "--advertise"));
        }
        /* Found before the program listens, but for the port of a file. */
        if (given != NULL && !endpoint_is_ipc(rows[i].listening)) {
            assert_int_equal(advertise_check(given, true, &e), st);
        }
    }
}

static void other_hosts_need_keys(void **state)
{
    char at[ENDPOINT_MAX];
    struct error e;

    (void)state;
    assert_int_equal(advertise_check("node-7", false, &e), ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "--advertise node-7: "));
    assert_non_null(strstr(e.text, "other hosts need keys"));
    assert_int_equal(advertise_check("localhost", false, &e), ST_OK);
    assert_int_equal(
        advertise_endpoint(at, "node-7", "tcp://127.0.0.1:1", false, &e),
        ST_INVALID_ARGUMENT);
}

static void the_longest_host_is_advertised(void **state)
{
    char host[ENDPOINT_MAX], at[ENDPOINT_MAX];

    (void)state;
    memset(host, 'x', sizeof host);
    for (size_t i = 60; i < sizeof host; i += 60) {
        host[i] = '.';
    }
    host[ENDPOINT_MAX - 1 - 8] = '\0'; /* tcp:// and :1 */
    assert_int_equal(advertise_endpoint(at, host, "tcp://[::]:1", true, NULL),
                     ST_OK);
    assert_int_equal(advertise_endpoint(at, host, "tcp://[::]:10", true, NULL),
                     ST_INVALID_ARGUMENT);
}

/* ---- a wildcard ---- */

static bool local_v6(struct node_io *io, char out[ENDPOINT_MAX])
{
    (void)io;
    snprintf(out, ENDPOINT_MAX, "fd00::7");
    return true;
}

static bool no_way(struct node_io *io, char out[ENDPOINT_MAX])
{
    (void)io, (void)out;
    return false;
}

static void a_wildcard_stands_for_the_address_towards_the_router(void **state)
{
    struct node_io io = {.local = local_v6};
    char at[ENDPOINT_MAX];

    (void)state;
    assert_string_equal(advertise_now(at, "tcp://[::]:9000", &io),
                        "tcp://[fd00::7]:9000");
    assert_string_equal(advertise_now(at, "tcp://0.0.0.0:9000", &io),
                        "tcp://[fd00::7]:9000");
    assert_string_equal(advertise_now(at, "tcp://node-7:9000", &io),
                        "tcp://node-7:9000");
    assert_string_equal(advertise_now(at, "ipc:///run/x", &io), "ipc:///run/x");
    io.local = no_way; /* the router then refuses the wildcard */
    assert_string_equal(advertise_now(at, "tcp://[::]:9000", &io),
                        "tcp://[::]:9000");
    io.local = NULL;
    assert_string_equal(advertise_now(at, "tcp://[::]:9000", &io),
                        "tcp://[::]:9000");
}

static void the_source_address_is_that_of_the_route(void **state)
{
    char at[ENDPOINT_MAX];

    (void)state;
    assert_true(source_address("tcp://127.0.0.1:7070", at));
    assert_string_equal(at, "127.0.0.1");
    assert_false(source_address("tcp://node-7:7070", at));
    assert_false(source_address("ipc:///run/x", at));
    assert_false(source_address("tcp://*:7070", at));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_advertised),
        cmocka_unit_test(other_hosts_need_keys),
        cmocka_unit_test(the_longest_host_is_advertised),
        cmocka_unit_test(a_wildcard_stands_for_the_address_towards_the_router),
        cmocka_unit_test(the_source_address_is_that_of_the_route),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
