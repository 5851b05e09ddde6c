/* Answers of /v1/responses: the order of events, and one text in both modes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "joined.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/gateway/openai/bodies.h"

static const struct openai_usage usage = {5, 3, 1, 2};

static void give(struct openai_answer *a, enum output_kind kind, uint32_t tool,
                 const char *text)
{
    struct output_event event = {
        .kind = kind, .tool = tool, .text = text, .n = strlen(text)};

    openai_answer_output(a, 0, &event);
}

static void talk(struct openai_answer *a)
{
    openai_answer_begin(a);
    give(a, OUTPUT_REASONING, 0, "r");
    openai_answer_flush(a, 0);
    give(a, OUTPUT_CONTENT, 0, "a\"");
    openai_answer_flush(a, 0);
    give(a, OUTPUT_CONTENT, 0, "b");
    give(a, OUTPUT_TOOL_BEGIN, 0, "f");
    give(a, OUTPUT_TOOL_ARGUMENTS, 0, "{}");
    give(a, OUTPUT_TOOL_END, 0, "");
    openai_answer_flush(a, 0);
    openai_answer_finish(a, 0, "tool_calls");
    openai_answer_end(a, &usage);
}

/* Returns the list of events, each checked: its name, its number. */
static json_t *events_of(const struct joined *j)
{
    json_t *events = json_array();
    const char *at = j->out.data;

    while (*at != '\0') {
        const char *line = strchr(at, '\n');
        const char *end = strstr(at, "\n\n");
        json_t *event;

        assert_non_null(line);
        assert_non_null(end);
        assert_memory_equal(at, "event: ", 7);
        assert_memory_equal(line, "\ndata: ", 7);
        event = json_loadb(line + 7, (size_t)(end - line - 7), 0, NULL);
        assert_non_null(event);
        assert_memory_equal(at + 7, joined_text(event, "type"),
                            (size_t)(line - at - 7));
        assert_int_equal(
            json_integer_value(joined_at(event, "sequence_number")),
            json_array_size(events));
        json_array_append_new(events, event);
        at = end + 2;
    }
    return events;
}

static void events_come_in_order(void **state)
{
    static const char *const types[] = {
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.reasoning_text.delta",
        "response.reasoning_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed"};
    struct joined j;
    struct openai_answer *a =
        joined_answer(&j, BODIES_RESPONSES, "\"stream\":true");
    json_t *events;

    (void)state;
    talk(a);
    events = events_of(&j);
    assert_int_equal(json_array_size(events), sizeof types / sizeof types[0]);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        assert_string_equal(joined_text(json_array_get(events, i), "type"),
                            types[i]);
    }
    assert_string_equal(joined_text(events, "12.text"), "a\"b");
    assert_string_equal(joined_text(events, "17.arguments"), "{}");
    assert_string_equal(joined_text(events, "18.item.name"), "f");
    assert_int_equal(json_integer_value(joined_at(events, "18.output_index")),
                     2);
    json_decref(events);
    joined_free(&j, &a);
}

static void last_event_has_the_whole_response(void **state)
{
    struct joined whole, stream;
    struct openai_answer *a = joined_answer(&whole, BODIES_RESPONSES, "");
    struct openai_answer *b =
        joined_answer(&stream, BODIES_RESPONSES, "\"stream\":true");
    json_t *body, *events, *last;

    (void)state;
    talk(a);
    talk(b);
    assert_int_equal(whole.n_writes, 1);
    body = json_loads(whole.out.data, 0, NULL);
    events = events_of(&stream);
    last = json_array_get(events, json_array_size(events) - 1);
    assert_true(json_equal(joined_at(last, "response"), body));
    assert_string_equal(joined_text(body, "status"), "completed");
    assert_string_equal(joined_text(body, "output.1.content.0.text"), "a\"b");
    assert_int_equal(json_integer_value(joined_at(body, "usage.total_tokens")),
                     8);
    assert_true(json_is_false(joined_at(body, "store")));
    json_decref(body);
    json_decref(events);
    joined_free(&whole, &a);
    joined_free(&stream, &b);
}

static void limit_makes_a_response_incomplete(void **state)
{
    struct joined j;
    struct openai_answer *a = joined_answer(&j, BODIES_RESPONSES, "");
    json_t *body;

    (void)state;
    give(a, OUTPUT_CONTENT, 0, "a");
    openai_answer_finish(a, 0, "length");
    openai_answer_end(a, &usage);
    body = json_loads(j.out.data, 0, NULL);
    assert_string_equal(joined_text(body, "status"), "incomplete");
    assert_string_equal(joined_text(body, "incomplete_details.reason"),
                        "max_output_tokens");
    assert_string_equal(joined_text(body, "output.0.status"), "incomplete");
    json_decref(body);
    joined_free(&j, &a);
}

static void empty_response_has_an_empty_message(void **state)
{
    struct joined j;
    struct openai_answer *a = joined_answer(&j, BODIES_RESPONSES, "");
    json_t *body;

    (void)state;
    openai_answer_finish(a, 0, "stop");
    openai_answer_end(a, &usage);
    body = json_loads(j.out.data, 0, NULL);
    assert_string_equal(joined_text(body, "output.0.content.0.text"), "");
    json_decref(body);
    joined_free(&j, &a);
}

static void failed_response_is_the_last_event(void **state)
{
    struct joined j;
    struct openai_answer *a =
        joined_answer(&j, BODIES_RESPONSES, "\"stream\":true");
    struct openai_error e;
    json_t *events, *last;

    (void)state;
    openai_answer_begin(a);
    give(a, OUTPUT_CONTENT, 0, "a");
    openai_error_set(&e, 503, NULL, NULL, "gone");
    openai_answer_fail(a, &e);
    events = events_of(&j);
    last = json_array_get(events, json_array_size(events) - 1);
    assert_string_equal(joined_text(last, "type"), "response.failed");
    assert_string_equal(joined_text(last, "response.error.message"), "gone");
    assert_string_equal(joined_text(last, "response.error.code"),
                        "server_error");
    json_decref(events);
    joined_free(&j, &a);
}

static void logprobs_are_in_the_text_alone(void **state)
{
    static const uint32_t token[] = {0};
    static const float logprob[] = {-0.5f};
    static const struct openai_logprobs one = {1,       0,    token,
                                               logprob, NULL, NULL};
    struct joined j;
    struct openai_answer *a = joined_answer(
        &j, BODIES_RESPONSES, "\"include\":[\"message.output_text.logprobs\"]");
    json_t *body;

    (void)state;
    give(a, OUTPUT_REASONING, 0, "r");
    openai_answer_logprobs(a, 0, &one);
    openai_answer_flush(a, 0);
    give(a, OUTPUT_CONTENT, 0, "a");
    openai_answer_logprobs(a, 0, &one);
    openai_answer_flush(a, 0);
    give(a, OUTPUT_CONTENT, 0, "a");
    openai_answer_logprobs(a, 0, &one);
    openai_answer_finish(a, 0, "stop");
    openai_answer_end(a, &usage);
    body = json_loads(j.out.data, 0, NULL);
    assert_non_null(body);
    assert_string_equal(joined_text(body, "output.0.content.0.text"), "r");
    /* The reasoning's own logprob has no place in this API. */
    assert_int_equal(
        json_array_size(joined_at(body, "output.1.content.0.logprobs")), 2);
    json_decref(body);
    joined_free(&j, &a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_come_in_order),
        cmocka_unit_test(last_event_has_the_whole_response),
        cmocka_unit_test(limit_makes_a_response_incomplete),
        cmocka_unit_test(empty_response_has_an_empty_message),
        cmocka_unit_test(failed_response_is_the_last_event),
        cmocka_unit_test(logprobs_are_in_the_text_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
