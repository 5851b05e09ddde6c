/* Responses of OpenAI-compatible servers, split anywhere. */
#include "client/load/drive/http_answer.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/cmocka.h"

struct seen {
    char text[256];
    uint32_t n_calls, n_tokens;
    struct http_answer *stops; /* at the first output, if not NULL */
};

static void on_output(void *arg, uint32_t n, const char *text, size_t n_text)
{
    struct seen *s = arg;
    size_t used = strlen(s->text);

    s->n_calls++;
    s->n_tokens += n;
    snprintf(s->text + used, sizeof s->text - used, "[%.*s]", (int)n_text,
             text);
    if (s->stops != NULL) {
        http_answer_stop(s->stops);
    }
}

/* Gives body in parts of `step` bytes. */
static void give(struct http_answer *a, const char *body, size_t step)
{
    size_t n = strlen(body);

    for (size_t at = 0; at < n; at += step) {
        http_answer_bytes(a, body + at, step < n - at ? step : n - at);
    }
}

static struct call_end run(struct http_answer *a, int status, bool streams,
                           const char *body, const char *broken,
                           struct seen *seen)
{
    struct call_end end;

    http_answer_begin(a, 1, on_output, seen);
    http_answer_head(a, status, streams);
    give(a, body, strlen(body) + 1);
    http_answer_end(a, broken, &end);
    return end;
}

static const char chat[] =
    ": a comment\n\n"
    "data: {\"id\":\"1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":"
    "\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":"
    "\"hm\"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n\n"
    "data: {\"choices\":[{\"delta\":{\"content\":\"a \\\"b\\\"\"}}]}\n\n"
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":12,"
    "\"completion_tokens\":5,\"prompt_tokens_details\":{\"audio\":{},"
    "\"cached_tokens\":8}}}\n\n"
    "data: [DONE]\n\n";

static void chat_streams_give_texts_and_usage(void **state)
{
    struct http_answer a = {0};

    (void)state;
    for (size_t step = 1; step <= sizeof chat; step++) {
        struct seen seen = {0};
        struct call_end end;

        http_answer_begin(&a, 1, on_output, &seen);
        http_answer_head(&a, 200, true);
        give(&a, chat, step);
        http_answer_end(&a, NULL, &end);
        assert_int_equal(end.outcome, OUTCOME_OK);
        assert_null(end.why);
        assert_string_equal(seen.text, "[hm][a \"b\"]");
        assert_int_equal(seen.n_tokens, 2);
        assert_int_equal(end.n_prompt, 12);
        assert_int_equal(end.n_output, 5);
        assert_int_equal(end.n_cached, 8);
        assert_int_equal(end.code, 200);
        assert_true(end.queue_us == SAMPLE_NEVER);
    }
    http_answer_fini(&a);
}

static void completions_give_texts(void **state)
{
    struct http_answer a = {0};
    struct seen seen = {0};
    struct call_end end =
        run(&a, 200, true,
            "data: {\"choices\":[{\"text\":\" x\",\"index\":0}]}\r\n\r\n"
            "data: {\"choices\":[{\"text\":\"y\\u00e9\",\"finish_reason\":"
            "\"stop\"}]}\r\n\r\n",
            NULL, &seen);

    (void)state;
    assert_int_equal(end.outcome, OUTCOME_OK); /* without [DONE] */
    assert_string_equal(seen.text, "[ x][y\xc3\xa9]");
    http_answer_fini(&a);
}

static void a_reasoning_with_two_names_is_counted_once(void **state)
{
    struct http_answer a = {0};
    struct seen seen = {0};

    (void)state;
    run(&a, 200, true,
        "data: {\"choices\":[{\"delta\":{\"reasoning\":\"r\","
        "\"reasoning_content\":\"r\"}}]}\n\ndata: [DONE]\n\n",
        NULL, &seen);
    assert_string_equal(seen.text, "[r]");
    http_answer_fini(&a);
}

static void calls_of_tools_are_output(void **state)
{
    struct http_answer a = {0};
    struct seen seen = {0};

    (void)state;
    run(&a, 200, true,
        "data: {\"choices\":[{\"delta\":{\"content\":null,\"tool_calls\":"
        "[{\"id\":1}]}}]}\n\n"
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[]}}]}\n\n"
        "data: [DONE]\n\n",
        NULL, &seen);
    assert_string_equal(seen.text, "[[{\"id\":1}]]");
    http_answer_fini(&a);
}

static void whole_answers_give_all_tokens_at_once(void **state)
{
    struct http_answer a = {0};
    struct seen seen = {0};
    struct call_end end =
        run(&a, 200, false,
            "{\"choices\":[{\"message\":{\"content\":\"one\"},"
            "\"finish_reason\":\"stop\"},{\"message\":{\"content\":\" two\"}}],"
            "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":9}}",
            NULL, &seen);

    (void)state;
    assert_int_equal(end.outcome, OUTCOME_OK);
    assert_string_equal(seen.text, "[one two]");
    assert_int_equal(seen.n_tokens, 9);
    assert_int_equal(end.n_output, 9);
    http_answer_fini(&a);
}

static void fails(int status, bool streams, const char *body,
                  const char *broken, enum outcome outcome, const char *why)
{
    struct http_answer a = {0};
    struct seen seen = {0};
    struct call_end end = run(&a, status, streams, body, broken, &seen);

    assert_int_equal(end.outcome, outcome);
    assert_int_equal(end.code, status);
    if (strstr(end.why, why) == NULL) {
        fail_msg("\"%s\" has no \"%s\"", end.why, why);
    }
    http_answer_fini(&a);
}

static void errors_carry_the_servers_message(void **state)
{
    (void)state;
    fails(500, false,
          "{\"error\":{\"message\":\"a \\\"b\\\"\",\"type\":\"x\"}}", NULL,
          OUTCOME_FAILED, "HTTP 500: \"a \\\"b\\\"\"");
    fails(429, false, "{\"error\":{\"message\":\"slow down\"}}", NULL,
          OUTCOME_REFUSED, "HTTP 429: \"slow down\"");
    fails(503, true, "{\"error\":\"full\"}", NULL, OUTCOME_REFUSED,
          "HTTP 503: \"full\"");
    fails(400, false, "{\"object\":\"error\",\"message\":\"too long\"}", NULL,
          OUTCOME_FAILED, "HTTP 400: \"too long\"");
    fails(404, false, "{\"detail\":\"Not Found\"}", NULL, OUTCOME_FAILED,
          "HTTP 404: \"Not Found\"");
    fails(502, false, "<html>", NULL, OUTCOME_FAILED, "HTTP 502: no message");
    fails(500, false, "", NULL, OUTCOME_FAILED, "HTTP 500: no message");
    fails(302, false, "", NULL, OUTCOME_FAILED, "HTTP 302: no message");
    fails(200, true,
          "data: {\"choices\":[{\"text\":\"x\"}]}\n\n"
          "data: {\"error\":{\"message\":\"worker died\"}}\n\n"
          "data: [DONE]\n\n",
          NULL, OUTCOME_FAILED, "worker died");
    fails(200, true, "data: {\"error\":{\"code\":1}}\n\ndata: [DONE]\n\n", NULL,
          OUTCOME_FAILED, "an error without a message");
}

static void broken_answers_fail(void **state)
{
    (void)state;
    fails(200, true, "data: {\"choices\":[{\"text\":\"x\"}]}\n\n", NULL,
          OUTCOME_FAILED, "ended after 1 chunks, without [DONE]");
    fails(200, true, "data: {\"choices\":[{\"text\":\"x\"}]}\n\n",
          "the connection broke", OUTCOME_FAILED, "the connection broke");
    fails(200, true, "data: {\"choices\":[{\"text\":\n\n", NULL, OUTCOME_FAILED,
          "broken JSON");
    fails(200, true, "data: <html>\n\n", NULL, OUTCOME_FAILED, "broken JSON");
    fails(200, false, "{\"choices\":[", NULL, OUTCOME_FAILED, "broken JSON");
    fails(200, false, "", NULL, OUTCOME_FAILED, "broken JSON");
    fails(0, false, "", "refused", OUTCOME_FAILED, "refused");
    fails(503, false, "{\"err", "cut", OUTCOME_REFUSED, "cut");
}

static void a_connection_that_breaks_after_the_end_does_not_matter(void **state)
{
    struct http_answer a = {0};
    struct seen seen = {0};
    struct call_end end =
        run(&a, 200, true, "data: [DONE]\n\n", "reset", &seen);

    (void)state;
    assert_int_equal(end.outcome, OUTCOME_OK);
    http_answer_fini(&a);
}

static void every_choice_must_finish(void **state)
{
    static const char one[] =
        "data: {\"choices\":[{\"index\":0,\"text\":\"x\",\"finish_reason\":"
        "\"stop\"}]}\n\n";
    struct http_answer a = {0};
    struct call_end end;

    (void)state;
    for (int n = 1; n <= 2; n++) {
        struct seen seen = {0};

        http_answer_begin(&a, 2, on_output, &seen);
        http_answer_head(&a, 200, true);
        for (int i = 0; i < n; i++) {
            give(&a, one, 1000);
        }
        http_answer_end(&a, NULL, &end);
        assert_int_equal(end.outcome, n == 2 ? OUTCOME_OK : OUTCOME_FAILED);
    }
    http_answer_fini(&a);
}

static void output_without_usage_is_in_chunks(void **state)
{
    static const char one[] =
        "data: {\"choices\":[{\"text\":\"four whole tokens here\"}]}\n\n"
        "data: [DONE]\n\n";
    struct http_answer a = {0};
    struct seen seen = {0};

    (void)state;
    assert_true(run(&a, 200, true, one, NULL, &seen).chunks);
    assert_false(run(&a, 200, true, chat, NULL, &seen).chunks);
    assert_false(run(&a, 500, false, "{}", NULL, &seen).chunks);
    http_answer_fini(&a);
}

static void a_stopped_answer_passes_nothing_on(void **state)
{
    struct http_answer a = {0};
    struct seen seen = {.stops = &a};

    (void)state;
    run(&a, 200, true, chat, NULL, &seen);
    assert_int_equal(seen.n_calls, 1);
    http_answer_fini(&a);
}

static void events_are_limited(void **state)
{
    static char body[SSE_EVENT_BYTES_MAX + 64];
    struct http_answer a = {0};
    struct seen seen = {0};
    struct call_end end;

    (void)state;
    memset(body, 'x', sizeof body - 1);
    memcpy(body, "data: ", 6);
    end = run(&a, 200, true, body, NULL, &seen);
    assert_int_equal(end.outcome, OUTCOME_FAILED);
    assert_non_null(strstr(end.why, "1 MiB"));
    http_answer_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chat_streams_give_texts_and_usage),
        cmocka_unit_test(completions_give_texts),
        cmocka_unit_test(a_reasoning_with_two_names_is_counted_once),
        cmocka_unit_test(calls_of_tools_are_output),
        cmocka_unit_test(whole_answers_give_all_tokens_at_once),
        cmocka_unit_test(errors_carry_the_servers_message),
        cmocka_unit_test(broken_answers_fail),
        cmocka_unit_test(
            a_connection_that_breaks_after_the_end_does_not_matter),
        cmocka_unit_test(every_choice_must_finish),
        cmocka_unit_test(output_without_usage_is_in_chunks),
        cmocka_unit_test(a_stopped_answer_passes_nothing_on),
        cmocka_unit_test(events_are_limited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
