/* Which requests of web pages a server without keys refuses. */
#include "gateway/http/pages.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "world.h"

#define OWN     "Host: localhost:8000\r\n"
#define CROSS   "Sec-Fetch-Site: cross-site\r\n"
#define LINK    "Sec-Fetch-Mode: navigate\r\n"
#define EVIL    "Origin: http://evil.example\r\n"
#define FRIEND  "Origin: https://chat.example.com\r\n"
#define PROXIED "Host: llm.example.com\r\n"

static const char *const listed[] = {"llm.example.com", "2001:db8::1"};
static const char *const any[] = {"*"};

static const struct http_page_rules none = {.cors = NULL},
                                    friend = {.cors =
                                                  "https://chat.example.com"},
                                    all = {.cors = "*"},
                                    proxied = {.hosts = listed, .n_hosts = 2},
                                    anything = {.hosts = any, .n_hosts = 1};

static bool refused(const struct http_page_rules *rules, const char *method,
                    const char *headers)
{
    char text[400];
    struct world w;
    bool is;

    snprintf(text, sizeof text, "%s / HTTP/1.0\r\n%s\r\n", method, headers);
    world_begin(&w, NULL);
    w.hold = true;
    world_send_text(&w, text);
    assert_non_null(w.x);
    is = http_page_refusal(w.x, rules) != NULL;
    world_end(&w);
    return is;
}

static void foreign_pages_are_refused(void **state)
{
    static const struct {
        const struct http_page_rules *rules;
        const char *method, *headers;
        bool refused;
    } rows[] = {
        /* Programs send a Host, or nothing. */
        {&none, "GET", "", false},
        {&none, "GET", OWN, false},
        {&none, "GET", "Host: 127.0.0.1\r\n", false},
        {&none, "GET", "Host: [::1]:9\r\n", false},
        /* A name that resolves to 127.0.0.1. */
        {&none, "GET", "Host: evil.example:8000\r\n", true},
        {&none, "GET", "Host: localhost.evil.example\r\n", true},
        {&none, "GET", "Host: 127.0.0.1.evil.example\r\n", true},
        {&none, "GET", "Host: 10.0.0.1\r\n", true},
        /* Pages. */
        {&none, "POST", OWN EVIL, true},
        {&none, "POST", OWN "Origin: null\r\n", true},
        {&none, "POST", OWN "Origin: http://localhost.evil.example\r\n", true},
        {&none, "POST", OWN "Origin: http://localhost:3000\r\n", false},
        {&none, "POST", OWN "Origin: http://[::1]:3000\r\n", false},
        {&none, "GET", OWN CROSS, true},
        {&none, "POST", OWN CROSS, true},
        {&none, "GET", OWN CROSS "Sec-Fetch-Mode: no-cors\r\n", true},
        {&none, "GET", OWN "Sec-Fetch-Site: same-origin\r\n", false},
        {&none, "GET", OWN "Sec-Fetch-Site: none\r\n", false},
        /* A link that a person follows. */
        {&none, "GET", OWN CROSS LINK, false},
        {&none, "HEAD", OWN CROSS LINK, false},
        {&none, "POST", OWN CROSS LINK, true},
        {&none, "GET", "Host: evil.example\r\n" CROSS LINK, true},
        /* --cors */
        {&friend, "POST", OWN FRIEND CROSS, false},
        {&friend, "POST", OWN EVIL CROSS, true},
        {&friend, "GET", OWN CROSS, true},
        {&friend, "POST", "Host: evil.example\r\n" FRIEND, true},
        {&all, "POST", "Host: evil.example\r\n" EVIL CROSS, false},
        /* --allow-host */
        {&proxied, "GET", PROXIED, false},
        {&proxied, "GET", "Host: LLM.example.com:443\r\n", false},
        {&proxied, "GET", "Host: [2001:db8::1]:80\r\n", false},
        {&proxied, "POST", PROXIED "Origin: https://llm.example.com\r\n",
         false},
        {&proxied, "POST", PROXIED EVIL, true},
        {&proxied, "GET", "Host: a.llm.example.com\r\n", true},
        {&anything, "GET", "Host: evil.example\r\n", false},
        {&anything, "GET", "Host: evil.example\r\n" CROSS, true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (refused(rows[i].rules, rows[i].method, rows[i].headers) !=
            rows[i].refused) {
            fail_msg("row %zu: %s %s", i, rows[i].method, rows[i].headers);
        }
    }
}

static void host_names_are_checked(void **state)
{
    static const char *const good[] = {"*", "llm.example.com", "10.0.0.1",
                                       "2001:db8::1", "_a-b"};
    static const char *const bad[] = {"",    "a:80",      "http://a",
                                      "a/b", "*.a",       "[::1]",
                                      "a b", "a\r\nX: y", "a,b"};

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(http_page_host_valid(good[i]));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(http_page_host_valid(bad[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(foreign_pages_are_refused),
        cmocka_unit_test(host_names_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
