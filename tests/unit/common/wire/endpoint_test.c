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

static enum status splits(const char *endpoint, struct error *e)
{
    struct endpoint to;

    return endpoint_split(&to, endpoint, e);
}

static void what_is_one(void **state)
{
    char longest[ENDPOINT_MAX + 1] = "ipc://";
    struct error e;

    (void)state;
    assert_int_equal(splits("tcp://127.0.0.1:1", &e), ST_OK);
    assert_int_equal(splits("ipc:///run/x", &e), ST_OK);
    assert_int_equal(splits("", &e), ST_INVALID_ARGUMENT);
    assert_int_equal(splits("127.0.0.1:1", &e), ST_INVALID_ARGUMENT);
    assert_int_equal(splits("inproc://x", &e), ST_INVALID_ARGUMENT);
    memset(longest + 6, 'x', ENDPOINT_MAX - 7);
    assert_int_equal(strlen(longest), ENDPOINT_MAX - 1);
    assert_int_equal(splits(longest, &e), ST_OK);
    longest[ENDPOINT_MAX - 1] = 'x';
    assert_int_equal(splits(longest, &e), ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "tcp://HOST:PORT"));
}

/* A socket of the abstract namespace has no file, so no file mode protects
 * it. */
static void abstract_names_are_refused(void **state)
{
    struct error e;

    (void)state;
    assert_int_equal(splits("ipc://@sluice", &e), ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "ipc://@sluice: a name that begins with @"));
    assert_int_equal(splits("ipc://@", &e), ST_INVALID_ARGUMENT);
    assert_int_equal(splits("ipc://./@sluice", &e), ST_OK);
    assert_int_equal(splits("ipc:///run/@sluice", &e), ST_OK);
}

#define REFUSED NULL

/* Only text is compared: nothing is bound or dialled here. */
static const struct {
    const char *endpoint;
    /* What is bound and dialled without keys, and with keys. */
    const char *bind, *dial, *bind_keyed, *dial_keyed;
} rows[] = {
#define ALL(endpoint, at)        \
    {                            \
        endpoint, at, at, at, at \
    }
#define BIND(endpoint, at)                 \
    {                                      \
        endpoint, at, REFUSED, at, REFUSED \
    }
#define KEYED(endpoint)                                \
    {                                                  \
        endpoint, REFUSED, REFUSED, endpoint, endpoint \
    }
#define KEYED_BIND(endpoint)                          \
    {                                                 \
        endpoint, REFUSED, REFUSED, endpoint, REFUSED \
    }
#define KEYED_DIAL(endpoint)                          \
    {                                                 \
        endpoint, REFUSED, REFUSED, REFUSED, endpoint \
    }
#define NEVER(endpoint)                              \
    {                                                \
        endpoint, REFUSED, REFUSED, REFUSED, REFUSED \
    }
    ALL("ipc:///run/x", "ipc:///run/x"),
    ALL("tcp://127.0.0.1:1", "tcp://127.0.0.1:1"),
    ALL("tcp://127.0.0.1:65535", "tcp://127.0.0.1:65535"),
    ALL("tcp://127.255.255.255:1", "tcp://127.255.255.255:1"),
    ALL("tcp://[::1]:1", "tcp://[::1]:1"),
    BIND("tcp://127.0.0.1:*", "tcp://127.0.0.1:*"),
    BIND("tcp://127.0.0.1:0", "tcp://127.0.0.1:0"),
    /* Not resolved: a resolver may ask another machine. */
    ALL("tcp://localhost:1", "tcp://127.0.0.1:1"),
    ALL("tcp://LocalHost:1", "tcp://127.0.0.1:1"),
    KEYED("tcp://126.255.255.255:1"),
    KEYED("tcp://128.0.0.1:1"),
    KEYED("tcp://192.0.2.1:7070"),
    KEYED("tcp://[2001:db8::7]:7070"),
    KEYED("tcp://[::10]:1"),
    KEYED("tcp://[::ffff:127.0.0.1]:1"),
    KEYED("tcp://[fe80::1%eth0]:1"),
    KEYED("tcp://[fe80::1%2]:1"),
    KEYED("tcp://[::1%eth0]:1"),
    KEYED_BIND("tcp://*:1"),
    KEYED_BIND("tcp://*:*"),
    KEYED_BIND("tcp://0.0.0.0:1"),
    KEYED_BIND("tcp://[::]:1"),
    KEYED_BIND("tcp://192.0.2.1:*"),
    KEYED_BIND("tcp://[2001:db8::7]:0"),
    KEYED_DIAL("tcp://localhost.example:1"),
    KEYED_DIAL("tcp://127.example.org:1"),
    KEYED_DIAL("tcp://127.0.0.1.example.org.:1"),
    KEYED_DIAL("tcp://worker-0.sluice.my_space.svc.cluster.local:7072"),
    KEYED_DIAL("tcp://7zip:1"),
    KEYED_DIAL("tcp://_x:1"),
    KEYED_DIAL("tcp://lo:1"), /* an interface, to libzmq */
    /* The resolver would read them as addresses. */
    NEVER("tcp://127.0.0.1234567890123:1"),
    NEVER("tcp://0x7f000001:1"),
    NEVER("tcp://0x7f.0x1:1"),
    NEVER("tcp://2130706433:1"),
    NEVER("tcp://127.1:1"),
    NEVER("tcp://127.0.0.1.:1"),
    NEVER("tcp://256.0.0.1:1"),
    /* No names. */
    NEVER("tcp://-a:1"),
    NEVER("tcp://a-:1"),
    NEVER("tcp://a..b:1"),
    NEVER("tcp://.a:1"),
    NEVER("tcp://.:1"),
    NEVER("tcp://a b:1"),
    NEVER("tcp://a/b:1"),
    NEVER("tcp://a@b:1"),
    NEVER("tcp://a%eth0:1"),
    NEVER("tcp://d\xc3\xa4:1"),
    NEVER("tcp://[node-7]:1"),
    NEVER("tcp://[192.0.2.1]:1"),
    NEVER("tcp://[fe80::1%]:1"),
    NEVER("tcp://[fe80::1%a/b]:1"),
    NEVER("tcp://[fe80::1%sixteencharslong]:1"),
    NEVER("tcp://[]:1"),
    NEVER("tcp://[::1:1"),
    NEVER("tcp://::1:1"),
    NEVER("tcp://[::1]1"),
    /* libzmq takes SOURCE;DESTINATION. */
    NEVER("tcp://127.0.0.1:1;192.0.2.1:2"),
    NEVER("tcp://192.0.2.1:2;127.0.0.1:1"),
    NEVER("tcp://localhost:1;192.0.2.1:2"),
    NEVER("tcp://127.0.0.1:65536"),
    NEVER("tcp://127.0.0.1:99999999999999999999"),
    NEVER("tcp://127.0.0.1"),
    NEVER("tcp://127.0.0.1:"),
    NEVER("tcp://127.0.0.1:1 "),
    NEVER("tcp://127.0.0.1:+1"),
    NEVER("tcp://:1"),
    NEVER("tcp://"),
    NEVER("pgm://127.0.0.1:1"),
};

typedef enum status rule_fn(const char *endpoint, bool keys,
                            char out[ENDPOINT_MAX], struct error *e);

static void check_row(const char *endpoint, const char *expected, rule_fn *rule,
                      bool keys)
{
    char at[ENDPOINT_MAX];
    struct error e;
    enum status st = rule(endpoint, keys, at, &e);

    if ((st == ST_OK) != (expected != REFUSED) ||
        (st != ST_OK && st != ST_INVALID_ARGUMENT)) {
        fail_msg("%s %s keys: %s", endpoint, keys ? "with" : "without",
                 status_name(st));
    }
    if (st == ST_OK) {
        assert_string_equal(at, expected);
    }
}

static void what_is_bound_and_dialled(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *endpoint = rows[i].endpoint;

        check_row(endpoint, rows[i].bind, endpoint_bind, false);
        check_row(endpoint, rows[i].dial, endpoint_dial, false);
        check_row(endpoint, rows[i].bind_keyed, endpoint_bind, true);
        check_row(endpoint, rows[i].dial_keyed, endpoint_dial, true);
    }
}

static void a_refusal_says_what_to_do(void **state)
{
    char at[ENDPOINT_MAX];
    struct error e;

    (void)state;
    assert_int_equal(endpoint_dial("tcp://192.0.2.1:2", false, at, &e),
                     ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "tcp://192.0.2.1:2: refused, this program "
                                   "has no keys, so only loopback"));
    assert_non_null(strstr(e.text, "--key and --trust (sluicectl keygen"));
    assert_int_equal(endpoint_bind("tcp://eth0:2", true, at, &e),
                     ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "tcp://eth0:2: a program listens at an "
                                   "address, not at a name or an interface"));
    assert_int_equal(endpoint_dial("tcp://[::]:2", true, at, &e),
                     ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, ":: is every address of a machine"));
    assert_int_equal(endpoint_dial("tcp://node:0", true, at, &e),
                     ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "tcp://node:0: the port must be from 1"));
    assert_int_equal(endpoint_dial("tcp://a..b:1", true, at, &e),
                     ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "tcp://a..b:1: HOST must be"));
    assert_true(endpoint_is_ipc("ipc://x"));
    assert_false(endpoint_is_ipc("tcp://x:1"));
}

/* An endpoint of n bytes for the host, with labels of 63 bytes. */
static void name_of(char *out, size_t n, size_t label)
{
    memcpy(out, "tcp://", 6);
    for (size_t i = 0; i < n; i++) {
        out[6 + i] = i % (label + 1) == label ? '.' : 'x';
    }
    memcpy(out + 6 + n, ":1", 3);
}

static void the_longest_name_is_dialled(void **state)
{
    char text[ENDPOINT_MAX + 64], at[ENDPOINT_MAX];

    (void)state;
    /* The endpoint, with tcp:// and the port, is the shorter limit. */
    name_of(text, ENDPOINT_MAX - 1 - 8, ENDPOINT_LABEL_MAX);
    assert_int_equal(endpoint_dial(text, true, at, NULL), ST_OK);
    name_of(text, ENDPOINT_MAX - 8, ENDPOINT_LABEL_MAX);
    assert_int_equal(endpoint_dial(text, true, at, NULL), ST_INVALID_ARGUMENT);
    name_of(text, 100, ENDPOINT_LABEL_MAX + 1);
    assert_int_equal(endpoint_dial(text, true, at, NULL), ST_INVALID_ARGUMENT);
}

static void an_endpoint_has_parts(void **state)
{
    char out[ENDPOINT_MAX], host[ENDPOINT_MAX];
    struct endpoint to;

    (void)state;
    assert_int_equal(endpoint_split(&to, "tcp://[fe80::1%eth0]:70", NULL),
                     ST_OK);
    assert_int_equal(to.kind, ENDPOINT_V6);
    assert_string_equal(to.host, "fe80::1%eth0");
    assert_string_equal(to.port, "70");
    assert_false(to.loopback || to.wildcard);
    assert_true(endpoint_join(out, to.host, to.port));
    assert_string_equal(out, "tcp://[fe80::1%eth0]:70");
    assert_int_equal(endpoint_split(&to, "tcp://node-7:1", NULL), ST_OK);
    assert_int_equal(to.kind, ENDPOINT_NAME);
    assert_int_equal(endpoint_split(&to, "tcp://[::]:1", NULL), ST_OK);
    assert_true(to.wildcard);
    assert_int_equal(endpoint_split(&to, "tcp://*:1", NULL), ST_OK);
    assert_true(to.kind == ENDPOINT_ANY && to.wildcard);
    memset(host, 'x', sizeof host);
    host[ENDPOINT_MAX - 1 - 8] = '\0';
    assert_true(endpoint_join(out, host, "1"));
    assert_false(endpoint_join(out, host, "10"));
}

static bool takes(const char *endpoint, const char *own)
{
    struct error e;
    enum status st = endpoint_of_peer((const uint8_t *)endpoint,
                                      strlen(endpoint), own, false, &e);

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
    assert_int_equal(endpoint_of_peer(two, sizeof two - 1, NULL, false, &e),
                     ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "\"tcp://127.0.0.1:1\\x00;192.0.2.1:2\""));
}

/* With keys a peer may name any host; files stay those beside our own. */
static void a_peer_with_keys_names_any_host(void **state)
{
    static const struct {
        const char *endpoint;
        bool ok;
    } named[] = {
        {"tcp://192.0.2.1:7070", true}, {"tcp://[2001:db8::7]:7070", true},
        {"tcp://node-7:7070", true},    {"tcp://127.0.0.1:7070", true},
        {"tcp://*:7070", false},        {"tcp://0.0.0.0:7070", false},
        {"tcp://[::]:7070", false},     {"tcp://node-7:0", false},
        {"tcp://a:1;b:2", false},       {"tcp://node 7:7070", false},
        {"ipc:///run/s/b", true},       {"ipc:///etc/passwd", false},
        {"tcp://node-7:7070\n", false},
    };
    struct error e;

    (void)state;
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        const uint8_t *text = (const uint8_t *)named[i].endpoint;
        enum status st = endpoint_of_peer(text, strlen(named[i].endpoint),
                                          "ipc:///run/s/a", true, &e);

        if ((st == ST_OK) != named[i].ok) {
            fail_msg("%s: %s", named[i].endpoint, status_name(st));
        }
    }
}

static void the_longest_name_of_a_peer_is_dialled(void **state)
{
    uint8_t name[ENDPOINT_MAX];
    struct error e;

    (void)state;
    memset(name, 'x', sizeof name);
    memcpy(name, "ipc://", 6);
    assert_int_equal(endpoint_of_peer(name, ENDPOINT_MAX - 1, NULL, false, &e),
                     ST_OK);
    assert_int_equal(endpoint_of_peer(name, ENDPOINT_MAX, NULL, false, &e),
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
        cmocka_unit_test(what_is_bound_and_dialled),
        cmocka_unit_test(a_refusal_says_what_to_do),
        cmocka_unit_test(the_longest_name_is_dialled),
        cmocka_unit_test(an_endpoint_has_parts),
        cmocka_unit_test(a_peer_with_keys_names_any_host),
        cmocka_unit_test(a_peer_names_neighbours_only),
        cmocka_unit_test(the_longest_name_of_a_peer_is_dialled),
        cmocka_unit_test(refuses_to_listen_in_the_open),
        cmocka_unit_test(refuses_to_dial_other_machines),
        cmocka_unit_test(whether_it_is_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
