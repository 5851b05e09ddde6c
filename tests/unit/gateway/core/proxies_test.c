/* The client in the log, behind proxies that are trusted or not. */
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/gateway/core/world.h"

static char logged[LOG_LINE];

static int teardown(void **state)
{
    log_setup(LOG_OFF, NULL, NULL);
    world_free(*state);
    return 0;
}

static void keep_line(void *arg, enum log_level level, const char *line)
{
    (void)arg;
    (void)level;
    snprintf(logged, sizeof logged, "%s", line);
}

/* Expects this client in the line of a request with these headers. */
static void client_is(struct world *w, const char *lines, const char *client)
{
    char part[64];

    world_send(w, "GET", "/none", lines, "");
    snprintf(part, sizeof part, " client=%s ", client);
    if (strstr(logged, part) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", part, logged);
    }
    world_forget(w);
}

static struct world *world_behind(const char *proxy)
{
    struct world_options o = {.proxy = proxy};

    log_setup(LOG_INFO, keep_line, NULL);
    return world_new(&o);
}

#define FORWARDED "X-Forwarded-For: "

static void a_trusted_proxy_names_the_client(void **state)
{
    struct world *w = world_behind("10.0.0.0/28");

    *state = w;
    client_is(w, "", "10.0.0.7");
    client_is(w, FORWARDED "192.0.2.1\r\n", "192.0.2.1");
    client_is(w, FORWARDED "192.0.2.1:4711\r\n", "192.0.2.1");
    client_is(w, FORWARDED "2001:DB8::0:1\r\n", "2001:db8::1");
    client_is(w, FORWARDED "[2001:db8::1]:80\r\n", "2001:db8::1");
    client_is(w, FORWARDED "::ffff:192.0.2.1\r\n", "192.0.2.1");
}

/* Only what a proxy has appended counts, and proxies append at the end. */
static void a_client_cannot_name_itself(void **state)
{
    struct world *w = world_behind("10.0.0.7");

    *state = w;
    client_is(w, FORWARDED "1.2.3.4, 192.0.2.1\r\n", "192.0.2.1");
    client_is(w, FORWARDED "1.2.3.4 ,\t192.0.2.1 , 10.0.0.7\r\n", "192.0.2.1");
    client_is(w, FORWARDED "1.2.3.4\r\n" FORWARDED "192.0.2.1\r\n",
              "192.0.2.1");
    client_is(w, FORWARDED "1.2.3.4\r\n" FORWARDED "10.0.0.7\r\n", "1.2.3.4");
    client_is(w, FORWARDED "1.2.3.4, x\r\n", "10.0.0.7");
    client_is(w, FORWARDED "1.2.3.4,\r\n", "10.0.0.7");
    client_is(w, FORWARDED "\r\n", "10.0.0.7");
    client_is(w, FORWARDED "unix\r\n", "10.0.0.7");
    client_is(w, FORWARDED "a b=c client=1.2.3.4\r\n", "10.0.0.7");
}

static void other_peers_name_nobody(void **state)
{
    struct world *w = world_behind("10.0.0.8/29");

    *state = w;
    client_is(w, FORWARDED "192.0.2.1\r\n", "10.0.0.7");
}

static void proxies_are_addresses_and_networks(void **state)
{
    static const char *const good[] = {"127.0.0.1", "10.0.0.0/8",  "0.0.0.0/0",
                                       "::1",       "fd00::/8",    "::/0",
                                       "unix",      "10.0.0.1/32", "::1/128"};
    static const char *const bad[] = {"",          "localhost",   "10.0.0",
                                      "10.0.0.0/", "10.0.0.0/33", "::1/129",
                                      "/8",        "10.0.0.0/x",  "10.0.0.0/-1",
                                      "unix/8",    "10.0.0.0/8 ", "[::1]"};
    struct http_proxies p = {.n = 0};

    *state = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(http_proxies_add(&p, bad[i]));
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(http_proxies_add(&p, good[i]));
    }
    while (p.n < HTTP_PROXIES_MAX) {
        assert_true(http_proxies_add(&p, "::1"));
    }
    assert_false(http_proxies_add(&p, "::1"));
}

#define CASE(f) cmocka_unit_test_teardown(f, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_trusted_proxy_names_the_client),
        CASE(a_client_cannot_name_itself),
        CASE(other_peers_name_nobody),
        cmocka_unit_test(proxies_are_addresses_and_networks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
