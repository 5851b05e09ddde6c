/* /v1/messages through the whole core: headers, statuses, keys, and the route
 * that counts. */
#include <stdio.h>
#include <string.h>

#include "proto/inference.pb-c.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/gateway/core/world.h"

#define PATH  "/v1/messages"
#define COUNT PATH "/count_tokens"
#define MODEL "models/tiny-hybrid"
#define HELLO                                                    \
    "{\"model\":\"m\",\"max_tokens\":9,\"messages\":[{\"role\":" \
    "\"user\",\"content\":\"hi\"}]"

/* SHA-256 of "alpha". */
#define ALPHA "8ed3f6ad685b959ead7022518e1af76cd816f8e8ec7ccdda1ed4018e8f2223f8"

static const struct world_options served = {.served = "m=" MODEL, .model = "m"};

static int teardown(void **state)
{
    world_free(*state);
    return 0;
}

static void a_whole_answer(void **state)
{
    struct world *w = world_new(&served);

    *state = w;
    world_send(w, "POST", PATH "?beta=true",
               "anthropic-version: 2023-06-01\r\n", HELLO "}");
    assert_int_equal(w->max_tokens, 9);
    world_chunk(w, 0, "Hello", SLUICE__V1__FINISH__FINISH_STOP);
    world_has(w, "HTTP/1.1 200 ");
    world_has(w, "Content-Type: application/json\r\n");
    world_has(w, "\r\nx-request-id: ");
    world_has(w, "\r\nrequest-id: ");
    world_has(w, "\"content\":[{\"type\":\"text\",\"text\":\"Hello\"}],"
                 "\"stop_reason\":\"end_turn\"");
}

/* The first event has the tokens of the prompt, which are known by then. */
static void a_stream(void **state)
{
    struct world *w = world_new(&served);

    *state = w;
    world_post(w, PATH, HELLO ",\"stream\":true}");
    world_chunk(w, 0, "Hello", SLUICE__V1__FINISH__FINISH_RUNNING);
    world_has(w, "Content-Type: text/event-stream");
    world_has(w, "event: message_start\ndata: {\"type\":\"message_start\"");
    world_lacks(w, "\"usage\":{\"input_tokens\":0,");
    world_has(w, "\"text_delta\",\"text\":\"Hello\"}");
    world_forget(w);
    world_run(w, SERVICE_PING_US / 1000 + 1000);
    world_has(w, "event: ping\ndata: {\"type\":\"ping\"}\n\n");
    world_chunk(w, 1, "!", SLUICE__V1__FINISH__FINISH_LENGTH);
    world_has(w, "\"stop_reason\":\"max_tokens\"");
    world_has(w, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
    world_lacks(w, "[DONE]");
}

static void errors_have_their_form(void **state)
{
    struct error full = {ST_RESOURCE_EXHAUSTED, "the queue is full"};
    struct error broken = {ST_INTERNAL, "the wire is cut"};
    struct world *w = world_new(&served);

    *state = w;
    world_post(w, PATH, "{\"model\":\"m\"}");
    world_has(w, "HTTP/1.1 400 ");
    world_has(w, "{\"type\":\"error\",\"error\":{\"type\":"
                 "\"invalid_request_error\",\"message\":\"'messages' is "
                 "required\"}}");
    world_forget(w);
    world_send(w, "GET", PATH, "", "");
    world_has(w, "HTTP/1.1 405 ");
    world_has(w, "\"type\":\"invalid_request_error\"");
    world_forget(w);
    world_post(w, PATH, HELLO "}");
    peer_fail(w->peer, w->call, &full, 700);
    world_run(w, 20);
    world_has(w, "HTTP/1.1 529 Site Is Overloaded\r\n");
    world_has(w, "retry-after: 1\r\n");
    world_has(w, "\"overloaded_error\",\"message\":\"the queue is full\"");
    world_forget(w);
    world_post(w, PATH, HELLO "}");
    peer_fail(w->peer, w->call, &broken, 0);
    world_run(w, 20);
    world_has(w, "HTTP/1.1 500 ");
    world_has(w, "\"api_error\"");
    world_forget(w);
    world_send(w, "GET", "/metrics", "", "");
    world_has(w, "http_requests_total{route=\"messages\",code=\"529\"} 1\n");
}

static void a_long_prompt_has_the_words_of_the_api(void **state)
{
    struct world *w = world_new(&served);

    *state = w;
    world_post(w, PATH,
               "{\"model\":\"m\",\"max_tokens\":4096,\"messages\":[{\"role\":"
               "\"user\",\"content\":\"hi\"}]}");
    world_has(w, "HTTP/1.1 400 ");
    world_has(w, "\"message\":\"prompt is too long: the model's context is "
                 "4096 tokens");
}

static struct world *keyed(void **state)
{
    struct world_options o = served;

    o.keys = ALPHA " acme requests=1/min\n";
    *state = world_new(&o);
    return *state;
}

static void without_a_key_there_is_no_answer(void **state)
{
    struct world *w = keyed(state);

    world_post(w, PATH, HELLO "}");
    world_has(w, "HTTP/1.1 401 ");
    world_has(w, "\"type\":\"authentication_error\",\"message\":\"no API key");
}

static void a_wrong_key_is_no_key(void **state)
{
    struct world *w = keyed(state);

    world_send(w, "POST", PATH, "x-api-key: beta\r\n", HELLO "}");
    world_has(w, "HTTP/1.1 401 ");
    world_has(w, "\"message\":\"the API key is not valid\"");
}

static void keys_come_in_either_header(void **state)
{
    struct world *w = keyed(state);

    world_send(w, "POST", PATH, "x-api-key: alpha\r\n", HELLO "}");
    world_chunk(w, 0, "x", SLUICE__V1__FINISH__FINISH_STOP);
    world_has(w, "HTTP/1.1 200 ");
    world_forget(w);
    world_send(w, "POST", PATH, "Authorization: Bearer alpha\r\n", HELLO "}");
    world_has(w, "HTTP/1.1 429 "); /* its own limit, no overload */
    world_has(w, "\"rate_limit_error\"");
}

/* The same number as a generation's prompt, without a call of the router. */
static void tokens_are_counted(void **state)
{
    struct world *w = world_new(&served);
    const char *count, *usage;
    char counted[32];

    *state = w;
    world_post(w, COUNT, HELLO "}");
    world_run(w, 20);
    assert_int_equal(w->n_calls, 0);
    world_has(w, "HTTP/1.1 200 ");
    world_has(w, "\r\nrequest-id: ");
    count = strstr(w->bytes.data, "{\"input_tokens\":");
    assert_non_null(count);
    snprintf(counted, sizeof counted, "%s", count + 1);
    counted[strcspn(counted, "}")] = '\0';
    world_forget(w);
    world_post(w, PATH, HELLO "}");
    world_chunk(w, 0, "x", SLUICE__V1__FINISH__FINISH_STOP);
    usage = strstr(w->bytes.data, "\"usage\":{");
    assert_non_null(usage);
    assert_memory_equal(usage + strlen("\"usage\":{"), counted,
                        strlen(counted));
    world_forget(w);
    world_post(w, COUNT,
               "{\"model\":\"none\",\"messages\":[{\"role\":\"user\","
               "\"content\":\"hi\"}]}");
    world_has(w, "HTTP/1.1 404 ");
    world_has(w, "\"type\":\"not_found_error\"");
}

/* The same template and parser as for a chat. */
static void a_tool_is_called(void **state)
{
    static const enum output_format hermes = OUTPUT_HERMES;
    struct world_options o = served;
    struct world *w;

    o.format = &hermes;
    w = world_new(&o);
    *state = w;
    world_post(w, PATH,
               HELLO ",\"tools\":[{\"name\":\"f\",\"input_schema\":"
                     "{\"type\":\"object\"}}]}");
    world_chunk(w, 0,
                "<tool_call>{\"name\": \"f\", \"arguments\": {\"n\": 1}}"
                "</tool_call>",
                SLUICE__V1__FINISH__FINISH_STOP);
    world_has(w, "HTTP/1.1 200 ");
    world_has(w, "\"name\":\"f\",\"input\":{\"n\": 1}}],"
                 "\"stop_reason\":\"tool_use\"");
}

#define CASE(f) cmocka_unit_test_teardown(f, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_whole_answer),
        CASE(a_stream),
        CASE(errors_have_their_form),
        CASE(a_long_prompt_has_the_words_of_the_api),
        CASE(without_a_key_there_is_no_answer),
        CASE(a_wrong_key_is_no_key),
        CASE(keys_come_in_either_header),
        CASE(tokens_are_counted),
        CASE(a_tool_is_called),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
