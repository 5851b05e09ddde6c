/* The address of `sluice serve`: what is refused before a program starts, and
 * which option the sentence names. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/front/serve_check.h"
#include "tests/unit/cmocka.h"

static void refused(const struct serve_args *a, const char *word)
{
    struct error e = {.text = ""};

    assert_int_not_equal(serve_check_address(a, &e), ST_OK);
    if (strstr(e.text, word) == NULL) {
        fail_msg("%s is not in: %s", word, e.text);
    }
}

/* Listens on a port that the kernel chooses. */
static int listen_at(uint32_t *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (void *)&at, n), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (void *)&at, &n), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

static void a_used_port_names_the_option(void **state)
{
    struct serve_args a = {.listen_host = "127.0.0.1"};
    struct error e;
    int fd = listen_at(&a.port);

    (void)state;
    refused(&a, "--port");
    a.listen_host = "localhost";
    refused(&a, "--port");
    close(fd);
    assert_int_equal(serve_check_address(&a, &e), ST_OK);
    assert_int_equal(serve_check_address(&a, &e), ST_OK); /* nothing is left */
}

static void an_open_address_needs_keys(void **state)
{
    static const char *const open[] = {"0.0.0.0", "::", "[::]"};
    struct serve_args a = {.port = 0};
    struct error e;

    (void)state;
    for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
        a.listen_host = open[i];
        refused(&a, "--keys");
    }
    a.keys = "file";
    a.listen_host = "0.0.0.0";
    assert_int_equal(serve_check_address(&a, &e), ST_OK);
}

static void an_address_of_another_machine_names_the_host(void **state)
{
    const struct serve_args a = {.listen_host = "192.0.2.1", .keys = "file"};

    (void)state;
    refused(&a, "--host"); /* RFC 5737: no machine has it */
}

static void a_name_is_left_to_the_gateway(void **state)
{
    struct serve_args a = {.listen_host = "no such host"};
    struct error e;

    (void)state;
    assert_int_equal(serve_check_address(&a, &e), ST_OK);
    a.listen_host = NULL; /* sluice bench has no gateway */
    assert_int_equal(serve_check_address(&a, &e), ST_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_used_port_names_the_option),
        cmocka_unit_test(an_open_address_needs_keys),
        cmocka_unit_test(an_address_of_another_machine_names_the_host),
        cmocka_unit_test(a_name_is_left_to_the_gateway),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
