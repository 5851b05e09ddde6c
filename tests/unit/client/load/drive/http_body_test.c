/* JSON bodies, and the addresses that they are sent to. */
#include "client/load/drive/http_body.h"

#include <string.h>

#include "client/load/drive/http_url.h"
#include "tests/unit/cmocka.h"

static void makes(const struct target_options *o, const struct prompt *p,
                  const char *want)
{
    struct http_body b;
    struct http_text out = {0};
    struct error e;

    assert_int_equal(http_body_init(&b, o, &e), ST_OK);
    assert_int_equal(http_body_put(&b, p, 5, &out, &e), ST_OK);
    http_text_put(&out, "", 1);
    assert_string_equal(out.bytes, want);
    http_text_fini(&out);
    http_body_fini(&b);
}

static void refuses(const struct target_options *o, const struct prompt *p,
                    const char *why)
{
    struct http_body b;
    struct http_text out = {0};
    struct error e;

    if (http_body_init(&b, o, &e) == ST_OK) {
        assert_int_equal(http_body_put(&b, p, 5, &out, &e),
                         ST_INVALID_ARGUMENT);
    }
    assert_non_null(strstr(e.text, why));
    http_text_fini(&out);
    http_body_fini(&b);
}

static uint32_t ids[] = {0, 7, 4294967295u};
static char text[] = "hi \"you\"\nand me";
static const struct prompt of_ids = {.ids = ids, .n_ids = 3};
static const struct prompt of_text = {.text = text, .n_text = 8};

static void completions_take_ids_and_text(void **state)
{
    struct target_options o = {.model = "m", .stream = true};

    (void)state;
    makes(&o, &of_ids,
          "{\"prompt\":[0,7,4294967295],\"max_tokens\":5,\"model\":\"m\","
          "\"stream\":true,\"stream_options\":{\"include_usage\":true},"
          "\"temperature\":0.0}");
    o.stream = false;
    o.model = NULL;
    makes(&o, &of_text,
          "{\"prompt\":\"hi \\\"you\\\"\",\"max_tokens\":5,\"stream\":false,"
          "\"temperature\":0.0}");
}

static void chats_take_text_conversations_and_json(void **state)
{
    static struct prompt_message two[] = {{"system", 0, 2}, {"user", 9, 6}};
    struct target_options o = {.chat = true};
    struct prompt p = of_text;

    (void)state;
    makes(&o, &p,
          "{\"messages\":[{\"role\":\"user\",\"content\":\"hi \\\"you\\\"\"}],"
          "\"max_tokens\":5,\"stream\":false,\"temperature\":0.0}");
    p.messages = two;
    p.n_messages = 2;
    makes(&o, &p,
          "{\"messages\":[{\"role\":\"system\",\"content\":\"hi\"},"
          "{\"role\":\"user\",\"content\":\"and me\"}],"
          "\"max_tokens\":5,\"stream\":false,\"temperature\":0.0}");
    p.json = "[{\"role\":\"user\",\"content\":[]}]";
    p.n_json = strlen(p.json);
    makes(&o, &p,
          "{\"messages\":[{\"role\":\"user\",\"content\":[]}],"
          "\"max_tokens\":5,\"stream\":false,\"temperature\":0.0}");
}

static void options_become_members(void **state)
{
    const struct target_options o = {.ignore_eos = true,
                                     .temperature = 0.5,
                                     .top_p = 0.75,
                                     .top_k = 40,
                                     .n = 3,
                                     .has_drafts = true,
                                     .drafts = 4,
                                     .has_seed = true,
                                     .seed = UINT64_MAX,
                                     .stops = {"a\"", "b"},
                                     .n_stops = 2};

    (void)state;
    makes(&o, &of_text,
          "{\"prompt\":\"hi \\\"you\\\"\",\"max_tokens\":5,\"stream\":false,"
          "\"ignore_eos\":true,\"temperature\":0.5,\"top_p\":0.75,"
          "\"top_k\":40,\"n\":3,\"drafts\":4,\"seed\":9223372036854775807,"
          "\"stop\":[\"a\\\"\",\"b\"]}");
}

static void extra_members_win(void **state)
{
    struct target_options o = {.temperature = 1,
                               .extra = "{\"temperature\":2,\"x\":{\"y\":[]}}"};

    (void)state;
    makes(&o, &of_text,
          "{\"prompt\":\"hi \\\"you\\\"\",\"max_tokens\":5,\"stream\":false,"
          "\"temperature\":2,\"x\":{\"y\":[]}}");
    o.extra = "{\"max_completion_tokens\":9}";
    makes(&o, &of_text,
          "{\"prompt\":\"hi \\\"you\\\"\",\"stream\":false,"
          "\"temperature\":1.0,\"max_completion_tokens\":9}");
}

static void what_a_route_cannot_take_is_refused(void **state)
{
    struct target_options o = {.chat = true};
    struct prompt p = {.json = "[]", .n_json = 2};

    (void)state;
    refuses(&o, &of_ids, "--api completions");
    o.chat = false;
    refuses(&o, &p, "--api chat");
    o.extra = "[]";
    refuses(&o, &of_text, "--extra is no JSON object");
    o.extra = "{";
    refuses(&o, &of_text, "--extra is no JSON object");
    o.extra = NULL;
    o.model = "\xff";
    refuses(&o, &of_text, "--model");
    o.model = NULL;
    o.stops[0] = "\xff";
    o.n_stops = 1;
    refuses(&o, &of_text, "--stop");
}

static void addresses_have_parts(void **state)
{
    static const struct {
        const char *url, *host, *port, *authority, *base;
        bool secure;
    } cases[] = {
        {"http://a:1", "a", "1", "a:1", "/v1", false},
        {"http://a/", "a", "80", "a:80", "/v1", false},
        {"http://a:1/v1", "a", "1", "a:1", "/v1", false},
        {"http://a:1/v1/", "a", "1", "a:1", "/v1", false},
        {"https://a/x/v4", "a", "443", "a:443", "/x/v4", true},
        {"http://[::1]:8000/v1", "::1", "8000", "[::1]:8000", "/v1", false},
        {"http://a/chat/completions", "a", "80", "a:80", "", false},
        {"http://a/x/completions", "a", "80", "a:80", "/x", false},
    };
    struct http_url u;
    struct error e;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(http_url_read(&u, cases[i].url, &e), ST_OK);
        assert_string_equal(u.host, cases[i].host);
        assert_string_equal(u.port, cases[i].port);
        assert_string_equal(u.authority, cases[i].authority);
        assert_string_equal(u.base, cases[i].base);
        assert_true(u.secure == cases[i].secure);
    }
}

static void addresses_that_are_none_are_refused(void **state)
{
    static const char *const wrong[] = {
        "ftp://a",       "http://",         "a:1",        "http://u@a",
        "http://a:1?x",  "http://a:1#x",    "http://a:b", "http://a:99999",
        "file:///etc/x", "http://a\r\nX: y"};
    char url[HTTP_URL_MAX + 2];
    struct http_url u;
    struct error e;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(http_url_read(&u, wrong[i], &e), ST_INVALID_ARGUMENT);
        assert_non_null(strstr(e.text, "http://HOST:PORT"));
    }
    memset(url, 'a', sizeof url);
    memcpy(url, "http://a/", 9);
    url[HTTP_URL_MAX - 1] = '\0';
    assert_int_equal(http_url_read(&u, url, &e), ST_OK);
    url[HTTP_URL_MAX - 1] = 'a';
    url[HTTP_URL_MAX] = '\0';
    assert_int_equal(http_url_read(&u, url, &e), ST_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completions_take_ids_and_text),
        cmocka_unit_test(chats_take_text_conversations_and_json),
        cmocka_unit_test(options_become_members),
        cmocka_unit_test(extra_members_win),
        cmocka_unit_test(what_a_route_cannot_take_is_refused),
        cmocka_unit_test(addresses_have_parts),
        cmocka_unit_test(addresses_that_are_none_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
