/* Answers of the whole core: statuses, codes, headers and finish reasons that a
 * client acts on. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "proto/inference.pb-c.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/gateway/core/world.h"

#define CHAT  "/v1/chat/completions"
#define MODEL "models/tiny-hybrid"

static const struct world_options served = {.served = "m=" MODEL, .model = "m"};

static int teardown(void **state)
{
    world_free(*state);
    return 0;
}

/* Makes a world whose model has this chat template. */
static struct world *world_of_template(const char *source)
{
    struct world_options o = served;
    char path[] = "/tmp/sluice-template-XXXXXX";
    int fd = mkstemp(path);
    struct world *w;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, source, strlen(source)), strlen(source));
    close(fd);
    o.template_file = path;
    w = world_new(&o);
    unlink(path);
    return w;
}

#define HELLO                                            \
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\"," \
    "\"content\":\"hi\"}]"

/* ---- failures of a template ---- */

static void a_limit_of_a_template_is_a_fault_of_the_request(void **state)
{
    struct world *w = world_of_template(
        "{% for i in range(99999) %}{% for j in range(99999) %}"
        "{% endfor %}{% endfor %}");

    *state = w;
    world_post(w, CHAT, HELLO "}");
    world_has(w, "HTTP/1.1 400 ");
    world_has(w, "\"param\":\"messages\",\"code\":\"template_limit\"");
    world_lacks(w, "Retry-After");
    world_forget(w);
    world_post(w, "/tokenize", HELLO "}");
    world_has(w, "HTTP/1.1 400 ");
    world_has(w, "\"code\":\"template_limit\"");
}

/* ---- the route of a request ---- */

static void the_router_gets_the_route_of_a_request(void **state)
{
    struct world *w = world_new(&served);

    *state = w;
    world_post(w, CHAT, HELLO "}");
    assert_string_equal(w->route, "chat_completions");
    world_chunk(w, 0, "a", SLUICE__V1__FINISH__FINISH_STOP);
    world_forget(w);
    world_post(w, "/v1/completions", "{\"model\":\"m\",\"prompt\":\"hi\"}");
    assert_string_equal(w->route, "completions");
    world_chunk(w, 0, "a", SLUICE__V1__FINISH__FINISH_STOP);
    world_forget(w);
    world_post(w, "/v1/responses", "{\"model\":\"m\",\"input\":\"hi\"}");
    assert_string_equal(w->route, "responses");
}

/* ---- figures of tenants ---- */

/* SHA-256 of "alpha" and of "beta". */
#define ALPHA "8ed3f6ad685b959ead7022518e1af76cd816f8e8ec7ccdda1ed4018e8f2223f8"
#define BETA  "f44e64e75f3948e9f73f8dfa94721c4ce8cbb4f265c4790c702b2d41cfbf2753"

static void only_an_operator_sees_the_names_of_tenants(void **state)
{
    struct world_options o = served;
    struct world *w;

    o.keys = ALPHA " acme requests=1/min\n" BETA " watch role=operator\n";
    w = world_new(&o);
    *state = w;
    world_send(w, "POST", CHAT, "Authorization: Bearer alpha\r\n", HELLO "}");
    world_chunk(w, 0, "x", SLUICE__V1__FINISH__FINISH_STOP);
    world_has(w, "HTTP/1.1 200 ");
    world_forget(w);
    world_send(w, "GET", "/metrics", "Authorization: Bearer alpha\r\n", "");
    world_has(w, "sluice_gateway_first_token_seconds_count 1");
    world_lacks(w, "tenant");
    world_lacks(w, "acme");
    world_forget(w);
    world_send(w, "GET", "/metrics", "Authorization: Bearer beta\r\n", "");
    world_has(w, "sluice_gateway_tenant_requests_total{tenant=\"acme\"} 1");
}

/* ---- figures of models ---- */

static void a_model_has_figures_and_a_stranger_has_none(void **state)
{
    struct world *w = world_new(&served);

    *state = w;
    world_post(w, CHAT, HELLO "}");
    world_chunk(w, 0, "x", SLUICE__V1__FINISH__FINISH_STOP);
    world_has(w, "HTTP/1.1 200 ");
    world_forget(w);
    world_post(w, "/v1/completions", "{\"model\":\"ghost\",\"prompt\":\"a\"}");
    world_has(w, "HTTP/1.1 404 ");
    world_forget(w);
    world_send(w, "GET", "/metrics", "", "");
    world_has(w, "sluice_gateway_model_requests_total{model=\"m\"} 1\n");
    world_has(w, "sluice_gateway_model_tokens_total{model=\"m\"} 1\n");
    world_has(w, "model_first_token_seconds_count{model=\"m\"} 1\n");
    world_has(w, "sluice_gateway_model_refused_total{model=\"other\"} 1\n");
    world_lacks(w, "ghost");
}

/* The names of a router that has not answered yet are not known. */
static void no_series_by_name_before_a_router_has_answered(void **state)
{
    const struct world_options away = {.away = true};
    struct world *w = world_new(&away);

    *state = w;
    world_post(w, "/v1/completions", "{\"model\":\"ghost\",\"prompt\":[1,2]}");
    world_run(w, SERVICE_RESUME_MS + 1000);
    world_forget(w);
    world_send(w, "GET", "/metrics", "", "");
    world_has(w, "sluice_gateway_model_requests_total{model=\"other\"} 1\n");
    world_lacks(w, "ghost");
}

/* ---- the list of models ---- */

static void no_list_of_models_before_a_router_has_answered(void **state)
{
    const struct world_options away = {.served = "m=" MODEL, .away = true};
    struct world *w = world_new(&away);

    *state = w;
    world_send(w, "GET", "/v1/models", "", "");
    world_has(w, "HTTP/1.1 503 ");
    world_has(w, "retry-after: 1\r\n");
    world_forget(w);
    world_send(w, "GET", "/v1/models/m", "", "");
    world_has(w, "HTTP/1.1 503 ");
    world_forget(w);
    world_post(w, "/tokenize", "{\"model\":\"other\",\"prompt\":\"a\"}");
    world_has(w, "HTTP/1.1 503 ");
}

static void the_models_that_a_router_names(void **state)
{
    struct world *w = world_new(&served);

    *state = w;
    world_send(w, "GET", "/v1/models", "", "");
    world_has(w, "HTTP/1.1 200 ");
    world_has(w, "\"id\":\"m\"");
    world_forget(w);
    world_send(w, "GET", "/v1/models/other", "", "");
    world_has(w, "HTTP/1.1 404 ");
}

/* ---- usage ---- */

/* Checks a counter of /metrics without labels. */
static void counts(struct world *w, const char *name, unsigned value)
{
    char line[128];

    snprintf(line, sizeof line, "\nsluice_gateway_%s_total %u\n", name, value);
    world_forget(w);
    world_send(w, "GET", "/metrics", "", "");
    world_has(w, line);
}

static void a_refused_prompt_is_not_counted(void **state)
{
    struct error full = {ST_RESOURCE_EXHAUSTED, "the queue is full"};
    struct world *w = world_new(&served);

    *state = w;
    world_post(w, CHAT, HELLO "}");
    assert_int_not_equal(w->call, 0);
    peer_fail(w->peer, w->call, &full, 700);
    world_run(w, 20);
    world_has(w, "HTTP/1.1 429 ");
    counts(w, "prompt_tokens", 0);
}

static void a_prompt_without_a_router_is_not_counted(void **state)
{
    const struct world_options away = {.served = "m=" MODEL, .away = true};
    struct world *w = world_new(&away);

    *state = w;
    world_post(w, CHAT, HELLO "}");
    world_run(w, SERVICE_RESUME_MS + 1000);
    world_has(w, "HTTP/1.1 503 ");
    counts(w, "prompt_tokens", 0);
}

static void a_prompt_that_was_answered_is_counted(void **state)
{
    struct error broken = {ST_INTERNAL, "the wire is cut"};
    struct world *w = world_new(&served);

    *state = w;
    world_post(w, "/v1/completions", "{\"model\":\"m\",\"prompt\":[1,2,3]}");
    world_chunk(w, 0, "a", SLUICE__V1__FINISH__FINISH_RUNNING);
    peer_fail(w->peer, w->call, &broken, 0);
    world_run(w, 20);
    world_has(w, "HTTP/1.1 500 ");
    counts(w, "prompt_tokens", 3);
}

/* ---- tools ---- */

#define TOOL(strict)                                                         \
    "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":" strict \
    "}}"
#define WITH_TOOL HELLO ",\"tools\":[" TOOL("false") "]"
#define SHOWS     "{{ messages[0].content }}{% if tools %}{{ tools }}{% endif %}"
#define HERMES    SHOWS "{# #}{{ '<tool_call>' }}"
#define RUNNING   SLUICE__V1__FINISH__FINISH_RUNNING
#define STOP      SLUICE__V1__FINISH__FINISH_STOP
#define LENGTH    SLUICE__V1__FINISH__FINISH_LENGTH

static void tools_that_a_model_would_not_see_are_refused(void **state)
{
    struct world *w = world_of_template("{{ messages[0].content }}");

    *state = w;
    world_post(w, CHAT, WITH_TOOL "}");
    world_has(w, "HTTP/1.1 400 ");
    world_has(w, "chat template has no tools");
    world_has(w, "\"param\":\"tools\"");
    world_forget(w);
    world_post(w, "/tokenize", WITH_TOOL "}");
    world_has(w, "chat template has no tools");
    world_forget(w);
    world_post(w, CHAT, WITH_TOOL ",\"tool_choice\":\"none\"}");
    assert_int_equal(w->n_calls, 1); /* nothing is offered */
}

static void calls_that_no_parser_reads_are_refused(void **state)
{
    struct world *w = world_of_template(SHOWS "{{ '[TOOL_CALLS]' }}");

    *state = w;
    world_post(w, CHAT, WITH_TOOL "}");
    world_has(w, "HTTP/1.1 400 ");
    world_has(w, "does not read (mistral)");
    world_forget(w);
    world_send(w, "GET", "/v1/models", "", "");
    world_has(w, "\"function_calling\":false");
    world_has(w, "\"tool_format\":null");
}

static void models_show_what_their_template_and_parser_do(void **state)
{
    struct world *w = world_of_template(HERMES);

    *state = w;
    world_send(w, "GET", "/v1/models/m", "", "");
    world_has(w, "\"capabilities\":{\"completion_chat\":true,"
                 "\"function_calling\":true,\"reasoning\":false},"
                 "\"tool_format\":\"hermes\"");
}

static void strict_is_taken_with_a_warning(void **state)
{
    struct world *w = world_of_template(HERMES);

    *state = w;
    world_post(w, CHAT, HELLO ",\"tools\":[" TOOL("true") "]}");
    world_chunk(w, 0, "a", STOP);
    world_has(w, "HTTP/1.1 200 ");
    world_has(w, "x-sluice-warning: strict is not enforced");
    world_forget(w);
    world_post(w, CHAT, WITH_TOOL "}");
    world_chunk(w, 0, "a", STOP);
    world_has(w, "HTTP/1.1 200 ");
    world_lacks(w, "x-sluice-warning");
}

#define CALL(n) \
    "<tool_call>{\"name\": \"f\", \"arguments\": {\"n\": " n "}}</tool_call>"

static void without_parallel_calls_the_first_ends_the_answer(void **state)
{
    static const char *const streams[] = {"false", "true"};
    struct world *w = world_of_template(HERMES);

    *state = w;
    for (int i = 0; i < 2; i++) {
        char body[512];

        snprintf(body, sizeof body,
                 WITH_TOOL ",\"parallel_tool_calls\":false,\"stream\":%s}",
                 streams[i]);
        world_forget(w);
        world_post(w, CHAT, body);
        world_chunk(w, 0, "now " CALL("1"), RUNNING);
        world_has(w, "\"finish_reason\":\"tool_calls\"");
        world_has(w, "\"name\":\"f\"");
        assert_int_equal(w->call, 0); /* the router makes no more tokens */
        assert_int_equal(w->n_cancels, i + 1);
    }
}

static void both_of_two_calls_come_otherwise(void **state)
{
    struct world *w = world_of_template(HERMES);

    *state = w;
    world_post(w, CHAT, WITH_TOOL "}");
    world_chunk(w, 0, CALL("1") CALL("2"), STOP);
    world_has(w, "{\\\"n\\\": 1}");
    world_has(w, "{\\\"n\\\": 2}");
    world_has(w, "\"finish_reason\":\"tool_calls\"");
}

#define PART "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"x "

static void a_call_that_is_cut_is_text(void **state)
{
    struct world *w = world_of_template(HERMES);

    *state = w;
    world_post(w, CHAT, WITH_TOOL "}");
    world_chunk(w, 0, "Now: " PART, STOP);
    world_has(w, "\"finish_reason\":\"stop\"");
    world_has(w, "\"content\":\"Now: <tool_call>{\\\"name\\\"");
    world_has(w, "{\\\"a\\\": \\\"x \"");
    world_lacks(w, "\"tool_calls\"");
    world_forget(w);
    world_post(w, CHAT, WITH_TOOL "}");
    world_chunk(w, 0, PART, LENGTH);
    world_has(w, "\"finish_reason\":\"length\"");
    world_lacks(w, "\"tool_calls\"");
    world_forget(w);
    world_post(w, CHAT, WITH_TOOL ",\"stream\":true}");
    world_chunk(w, 0, PART, STOP);
    world_has(w, "\"finish_reason\":\"stop\"");
    world_lacks(w, "\"finish_reason\":\"tool_calls\"");
}

static void a_response_has_no_call_that_was_cut(void **state)
{
    struct world *w = world_of_template(HERMES);

    *state = w;
    world_post(w, "/v1/responses",
               "{\"model\":\"m\",\"input\":\"hi\",\"tools\":[{\"type\":"
               "\"function\",\"name\":\"f\"}]}");
    world_chunk(w, 0, PART, STOP);
    world_has(w, "\"type\":\"output_text\",\"text\":\"<tool_call>");
    world_lacks(w, "\"type\":\"function_call\"");
}

/* ---- values that servers take in different ways ---- */

static void no_tokens_are_an_empty_completion(void **state)
{
    struct world *w = world_new(&served);

    *state = w;
    world_post(w, "/v1/completions",
               "{\"model\":\"m\",\"prompt\":\"Hi\",\"max_tokens\":0,"
               "\"echo\":true}");
    world_has(w, "HTTP/1.1 200 ");
    world_has(w, "\"text\":\"Hi\"");
    world_has(w, "\"finish_reason\":\"length\"");
    world_has(w, "\"completion_tokens\":0");
    world_lacks(w, "\"prompt_tokens\":0");
    assert_int_equal(w->n_calls, 0);
    world_forget(w);
    world_post(w, "/v1/completions",
               "{\"model\":\"m\",\"prompt\":[[1],[2]],\"max_tokens\":0,"
               "\"stream\":true}");
    world_has(w, "\"finish_reason\":\"length\"");
    world_has(w, "data: [DONE]");
    world_forget(w);
    world_post(w, CHAT, HELLO ",\"max_tokens\":0}");
    world_has(w, "HTTP/1.1 400 ");
    world_has(w, "leave it out for the server's default");
}

static void values_that_mean_nothing_are_refused_with_a_reason(void **state)
{
    static const struct {
        const char *field, *says;
    } rows[] = {
        {"\"max_tokens\":-1", "but is -1; leave it out for the server's"},
        {"\"stop\":\"\"", "'stop' is empty, and"},
        {"\"stop\":[\"a\",\"\"]", "'stop[1]' is empty, and"},
        {"\"seed\":18446744073709551615", "'seed' must be an integer from -"},
        {"\"echo\":true,\"logprobs\":1", "'logprobs' of a prompt are not"},
    };
    struct world *w = world_new(&served);

    *state = w;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char body[256];

        snprintf(body, sizeof body, "{\"model\":\"m\",\"prompt\":[1],%s}",
                 rows[i].field);
        world_forget(w);
        world_post(w, "/v1/completions", body);
        world_has(w, "HTTP/1.1 400 ");
        world_has(w, rows[i].says);
    }
}

static void a_function_may_have_no_result(void **state)
{
    static const char *const results[] = {"null", "[]", "\"\""};
    struct world *w = world_new(&served);

    *state = w;
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        char body[512];

        snprintf(body, sizeof body,
                 "{\"model\":\"m\",\"messages\":[{\"role\":\"assistant\","
                 "\"content\":[],\"tool_calls\":[{\"id\":\"1\",\"type\":"
                 "\"function\",\"function\":{\"name\":\"f\",\"arguments\":"
                 "\"{}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"1\","
                 "\"content\":%s}]}",
                 results[i]);
        world_forget(w);
        world_post(w, CHAT, body);
        world_chunk(w, 0, "a", STOP);
        world_has(w, "HTTP/1.1 200 ");
    }
    world_forget(w);
    world_post(w, "/v1/responses",
               "{\"model\":\"m\",\"input\":[{\"type\":"
               "\"function_call_output\",\"call_id\":\"1\",\"output\":[]}]}");
    world_chunk(w, 0, "a", STOP);
    world_has(w, "HTTP/1.1 200 ");
}

/* ---- who is doing this ---- */

/* The key of "web", whose limit allows one request. */
#define KEY "sk-web"
#define KEYS                                                           \
    "4b3bc1de5ca5cd1f74cf4704c5adec1818080396b5f22c547f8971c849d5c3d0" \
    " web requests=1/min\n"

static char logged[4096];

static void keep_line(void *arg, enum log_level level, const char *line)
{
    (void)arg;
    (void)level;
    snprintf(logged, sizeof logged, "%s", line);
}

/* The value of the last answer's x-request-id must be in the line. */
static void line_has(const struct world *w, const char *part)
{
    const char *id = strstr(w->bytes.data, "x-request-id: ");
    char text[64];

    assert_non_null(id);
    snprintf(text, sizeof text, "request=%.32s", id + strlen("x-request-id: "));
    assert_non_null(strstr(logged, text));
    if (strstr(logged, part) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", part, logged);
    }
}

static void each_line_says_who(void **state)
{
    const char *auth = "authorization: Bearer " KEY "\r\n";
    struct world_options o = served;
    struct world *w;

    o.keys = KEYS;
    w = world_new(&o);
    *state = w;
    log_setup(LOG_INFO, keep_line, NULL);
    world_send(w, "POST", CHAT, auth, HELLO "}");
    world_chunk(w, 0, "a", STOP);
    line_has(w, "status=200 client=10.0.0.7 tenant=web model=m ");
    world_forget(w);
    world_send(w, "POST", CHAT, auth, HELLO "}");
    world_has(w, "HTTP/1.1 429 ");
    line_has(w, "route=chat_completions status=429 client=10.0.0.7 tenant=web "
                "model=m ");
    world_forget(w);
    world_send(w, "POST", "/tokenize", auth,
               "{\"model\":\"m\",\"prompt\":\"a\"}");
    line_has(w,
             "route=tokenize status=200 client=10.0.0.7 tenant=web model=m ");
    world_forget(w);
    world_send(w, "GET", "/none", auth, "");
    world_has(w, "HTTP/1.1 404 ");
    line_has(w, "status=404 client=10.0.0.7 tenant=web model=- ");
    world_forget(w);
    world_send(w, "POST", CHAT, "", HELLO "}");
    world_has(w, "HTTP/1.1 401 ");
    line_has(w, "status=401 client=10.0.0.7 tenant=- model=- ");
    log_setup(LOG_OFF, NULL, NULL);
}

static void without_keys_the_tenant_is_default(void **state)
{
    struct world *w = world_new(&served);

    *state = w;
    log_setup(LOG_INFO, keep_line, NULL);
    world_post(w, CHAT, HELLO "}");
    world_chunk(w, 0, "a", STOP);
    line_has(w, "tenant=default model=m ");
    world_forget(w);
    world_post(w, CHAT,
               "{\"model\":\"x y=\\n\",\"messages\":[{\"role\":"
               "\"user\",\"content\":\"hi\"}]}");
    line_has(w, "status=404 client=10.0.0.7 tenant=default model=x_y__ ");
    log_setup(LOG_OFF, NULL, NULL);
}

/* ---- routes ---- */

static void a_person_finds_the_routes(void **state)
{
    struct world_options o = served;
    struct world *w;

    o.keys = KEYS; /* the page needs none */
    w = world_new(&o);
    *state = w;
    world_send(w, "GET", "/", "", "");
    world_has(w, "HTTP/1.1 200 ");
    world_has(w, "text/html");
    world_has(w, "href=\"v1/models\"");
    world_has(w, "href=\"metrics\"");
    world_has(w, "docs/http.md");
    world_lacks(w, "\"m\"");
}

static void routes_have_aliases(void **state)
{
    static const char *const gets[] = {
        "/v1/models", "/models",    "/v1/models/",  "/models/m",
        "/v1/health", "/health/",   "/v1/models/m", "/v1/models/m/",
        "/v1/ready",  "/v1/metrics"};
    struct world *w = world_new(&served);

    *state = w;
    for (size_t i = 0; i < sizeof gets / sizeof *gets; i++) {
        world_forget(w);
        world_send(w, "GET", gets[i], "", "");
        world_has(w, "HTTP/1.1 200 ");
    }
    world_forget(w);
    world_post(w, "/v1/tokenize", "{\"model\":\"m\",\"prompt\":\"a\"}");
    world_has(w, "\"count\":");
    world_forget(w);
    world_post(w, "/chat/completions/", HELLO "}");
    world_chunk(w, 0, "a", STOP);
    world_has(w, "\"object\":\"chat.completion\"");
    world_forget(w);
    world_send(w, "GET", "/v1", "", "");
    world_has(w, "HTTP/1.1 404 ");
    world_forget(w);
    world_send(w, "GET", "/v1/v1/models", "", "");
    world_has(w, "HTTP/1.1 404 ");
}

/* As a client encodes the name in a path, with and without /v1. */
static void a_slash_of_a_model_may_be_encoded(void **state)
{
    const struct world_options o = {.served = "org/m=" MODEL, .model = "org/m"};
    static const char *const gets[] = {
        "/v1/models/org/m", "/v1/models/org%2fm", "/models/org/m",
        "/models/org%2Fm",  "/models/org%2Fm/",   "/v1/models/org%2Fm/"};
    struct world *w = world_new(&o);

    *state = w;
    for (size_t i = 0; i < sizeof gets / sizeof *gets; i++) {
        world_forget(w);
        world_send(w, "GET", gets[i], "", "");
        world_has(w, "HTTP/1.1 200 ");
        world_has(w, "\"id\":\"org/m\"");
    }
}

static void absolute_form_names_the_host_of_its_header(void **state)
{
    struct world *w = world_new(&served);

    *state = w;
    world_send(w, "GET", "http://localhost/v1/models?a=b", "", "");
    world_has(w, "HTTP/1.1 200 ");
    world_forget(w);
    world_send(w, "GET", "HTTPS://LocalHost", "", "");
    world_has(w, "text/html"); /* the path is "/" */
    world_forget(w);
    world_send(w, "GET", "http://evil.example/v1/models", "", "");
    world_has(w, "HTTP/1.1 400 ");
    world_has(w, "Host header names another");
}

static void each_answer_has_a_date_and_an_id(void **state)
{
    static const char *const targets[] = {"/v1/models", "/none"};
    static const char *const says[] = {"200", "404"};
    struct world *w = world_new(&served);

    *state = w;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        world_forget(w);
        world_send(w, "GET", targets[i], "", "");
        world_has(w, says[i]);
        world_has(w, "Date: Thu, 01 Jan 1970 00:00:09 GMT\r\n");
        world_has(w, "x-request-id: ");
    }
    world_forget(w);
    world_send(w, "OPTIONS", "/v1/models", "", "");
    world_has(w, "HTTP/1.1 204 ");
    world_has(w, "x-request-id: ");
    world_forget(w);
    world_send(w, "GET", "//", "", ""); /* refused by the server itself */
    world_has(w, "HTTP/1.1 400 ");
    world_has(w, "Date: ");
    world_has(w, "x-request-id: ");
}

#define CASE(f) cmocka_unit_test_teardown(f, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_router_gets_the_route_of_a_request),
        CASE(a_limit_of_a_template_is_a_fault_of_the_request),
        CASE(only_an_operator_sees_the_names_of_tenants),
        CASE(a_model_has_figures_and_a_stranger_has_none),
        CASE(no_series_by_name_before_a_router_has_answered),
        CASE(no_list_of_models_before_a_router_has_answered),
        CASE(the_models_that_a_router_names),
        CASE(a_refused_prompt_is_not_counted),
        CASE(a_prompt_without_a_router_is_not_counted),
        CASE(a_prompt_that_was_answered_is_counted),
        CASE(tools_that_a_model_would_not_see_are_refused),
        CASE(calls_that_no_parser_reads_are_refused),
        CASE(models_show_what_their_template_and_parser_do),
        CASE(strict_is_taken_with_a_warning),
        CASE(without_parallel_calls_the_first_ends_the_answer),
        CASE(both_of_two_calls_come_otherwise),
        CASE(a_call_that_is_cut_is_text),
        CASE(a_response_has_no_call_that_was_cut),
        CASE(no_tokens_are_an_empty_completion),
        CASE(values_that_mean_nothing_are_refused_with_a_reason),
        CASE(a_function_may_have_no_result),
        CASE(each_line_says_who),
        CASE(a_person_finds_the_routes),
        CASE(routes_have_aliases),
        CASE(a_slash_of_a_model_may_be_encoded),
        CASE(absolute_form_names_the_host_of_its_header),
        CASE(each_answer_has_a_date_and_an_id),
        CASE(without_keys_the_tenant_is_default),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
