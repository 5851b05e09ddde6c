/* Answers of /v1/messages: each event, their order, and one answer in both
 * modes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "joined.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/gateway/openai/bodies.h"

static const struct openai_usage prompt = {5, 0, 0, 0};
static const struct openai_usage usage = {5, 3, 1, 2};

static void give(struct openai_answer *a, enum output_kind kind, uint32_t tool,
                 const char *text)
{
    struct output_event event = {
        .kind = kind, .tool = tool, .text = text, .n = strlen(text)};

    openai_answer_output(a, 0, &event);
}

static void end(struct openai_answer *a, const char *reason)
{
    openai_answer_finish(a, 0, reason);
    openai_answer_end(a, &usage);
}

static void talk(struct openai_answer *a)
{
    openai_answer_usage(a, &prompt);
    openai_answer_begin(a);
    give(a, OUTPUT_REASONING, 0, "r");
    openai_answer_flush(a, 0);
    give(a, OUTPUT_CONTENT, 0, "a\"");
    openai_answer_flush(a, 0);
    give(a, OUTPUT_CONTENT, 0, "b");
    give(a, OUTPUT_TOOL_BEGIN, 0, "f");
    give(a, OUTPUT_TOOL_ARGUMENTS, 0, "{\"x\":");
    openai_answer_flush(a, 0);
    give(a, OUTPUT_TOOL_ARGUMENTS, 0, "\"\\n\"}");
    give(a, OUTPUT_TOOL_END, 0, "");
    give(a, OUTPUT_TOOL_BEGIN, 1, "g");
    give(a, OUTPUT_TOOL_ARGUMENTS, 1, "{}");
    give(a, OUTPUT_TOOL_END, 1, "");
    end(a, "tool_calls");
}

/* Returns the list of events, each checked: its name is its type. */
static json_t *events_of(const struct joined *j)
{
    json_t *events = json_array();
    const char *at = j->out.data;

    while (*at != '\0') {
        const char *line = strchr(at, '\n'), *stop = strstr(at, "\n\n");
        json_t *event;

        assert_non_null(line);
        assert_non_null(stop);
        assert_memory_equal(at, "event: ", 7);
        assert_memory_equal(line, "\ndata: ", 7);
        event = json_loadb(line + 7, (size_t)(stop - line - 7), 0, NULL);
        assert_non_null(event);
        assert_memory_equal(at + 7, joined_text(event, "type"),
                            (size_t)(line - at - 7));
        json_array_append_new(events, event);
        at = stop + 2;
    }
    return events;
}

/* The keys of the id and the signatures depend on the request alone. */
static const char *const expected[] = {
    "{\"type\":\"message_start\",\"message\":{\"id\":"
    "\"msg_00000000000000000000000000000007\",\"type\":\"message\",\"role\":"
    "\"assistant\",\"model\":\"m\",\"content\":[],\"stop_reason\":null,"
    "\"stop_sequence\":null,\"usage\":{\"input_tokens\":5,"
    "\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,"
    "\"output_tokens\":0,\"output_tokens_details\":{\"thinking_tokens\":0}}}}",
    "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{"
    "\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}",
    "{\"type\":\"ping\"}",
    "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":"
    "\"thinking_delta\",\"thinking\":\"r\"}}",
    "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":"
    "\"signature_delta\",\"signature\":\"sig_*\"}}",
    "{\"type\":\"content_block_stop\",\"index\":0}",
    "{\"type\":\"content_block_start\",\"index\":1,\"content_block\":{"
    "\"type\":\"text\",\"text\":\"\"}}",
    "{\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":"
    "\"text_delta\",\"text\":\"a\\\"\"}}",
    "{\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":"
    "\"text_delta\",\"text\":\"b\"}}",
    "{\"type\":\"content_block_stop\",\"index\":1}",
    "{\"type\":\"content_block_start\",\"index\":2,\"content_block\":{"
    "\"type\":\"tool_use\",\"id\":\"toolu_*\",\"name\":\"f\",\"input\":{}}}",
    "{\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":"
    "\"input_json_delta\",\"partial_json\":\"{\\\"x\\\":\"}}",
    "{\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":"
    "\"input_json_delta\",\"partial_json\":\"\\\"\\\\n\\\"}\"}}",
    "{\"type\":\"content_block_stop\",\"index\":2}",
    "{\"type\":\"content_block_start\",\"index\":3,\"content_block\":{"
    "\"type\":\"tool_use\",\"id\":\"toolu_*\",\"name\":\"g\",\"input\":{}}}",
    "{\"type\":\"content_block_delta\",\"index\":3,\"delta\":{\"type\":"
    "\"input_json_delta\",\"partial_json\":\"{}\"}}",
    "{\"type\":\"content_block_stop\",\"index\":3}",
    "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\","
    "\"stop_sequence\":null},\"usage\":{\"input_tokens\":4,"
    "\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":1,"
    "\"output_tokens\":3,\"output_tokens_details\":{\"thinking_tokens\":2}}}",
    "{\"type\":\"message_stop\"}"};

#define EXPECTED_N (sizeof expected / sizeof expected[0])

/* Replaces ids by their prefix and a star, so that they can be compared. */
static void hide_id(json_t *object, const char *key, const char *prefix)
{
    const char *id = json_string_value(json_object_get(object, key));
    char hidden[16];

    if (id != NULL && id[0] != '\0') {
        assert_int_equal(strlen(id), strlen(prefix) + 24);
        assert_memory_equal(id, prefix, strlen(prefix));
        snprintf(hidden, sizeof hidden, "%s*", prefix);
        json_object_set_new(object, key, json_string(hidden));
    }
}

static void each_event_comes_in_its_order(void **state)
{
    struct joined j;
    struct openai_answer *a =
        joined_answer(&j, BODIES_MESSAGES, "\"stream\":true");
    json_t *events;

    (void)state;
    talk(a);
    events = events_of(&j);
    assert_int_equal(json_array_size(events), EXPECTED_N);
    for (size_t i = 0; i < EXPECTED_N; i++) {
        json_t *event = json_array_get(events, i);
        json_t *wanted = json_loads(expected[i], 0, NULL);

        assert_non_null(wanted);
        hide_id(joined_at(event, "delta"), "signature", "sig_");
        hide_id(joined_at(event, "content_block"), "id", "toolu_");
        if (!json_equal(event, wanted)) {
            fail_msg("event %zu is %s", i, json_dumps(event, 0));
        }
        json_decref(wanted);
    }
    json_decref(events);
    joined_free(&j, &a);
}

/* ---- a client that joins a stream ---- */

static void add(json_t *block, const char *key, const char *piece)
{
    const char *before = json_string_value(json_object_get(block, key));
    char text[256];

    snprintf(text, sizeof text, "%s%s", before != NULL ? before : "", piece);
    json_object_set_new(block, key, json_string(text));
}

static void add_delta(json_t *block, const json_t *delta)
{
    static const char *const keys[][3] = {
        {"text_delta", "text", "text"},
        {"thinking_delta", "thinking", "thinking"},
        {"signature_delta", "signature", "signature"},
        {"input_json_delta", "partial_json", "json"}};

    for (size_t i = 0; i < 4; i++) {
        if (strcmp(joined_text(delta, "type"), keys[i][0]) == 0) {
            add(block, keys[i][2], joined_text(delta, keys[i][1]));
        }
    }
}

static void end_block(json_t *block)
{
    const char *text = json_string_value(json_object_get(block, "json"));

    if (text != NULL) {
        json_object_set_new(block, "input", json_loads(text, 0, NULL));
        json_object_del(block, "json");
    }
}

static json_t *join(const json_t *events)
{
    json_t *message = json_deep_copy(joined_at(events, "0.message"));
    json_t *content = json_object_get(message, "content"), *event;
    size_t i;

    json_array_foreach((json_t *)events, i, event)
    {
        const char *type = joined_text(event, "type");
        json_t *block = json_array_get(
            content, (size_t)json_integer_value(joined_at(event, "index")));

        if (strcmp(type, "content_block_start") == 0) {
            json_array_append(content, joined_at(event, "content_block"));
        } else if (strcmp(type, "content_block_delta") == 0) {
            add_delta(block, joined_at(event, "delta"));
        } else if (strcmp(type, "content_block_stop") == 0) {
            end_block(block);
        } else if (strcmp(type, "message_delta") == 0) {
            json_object_update(message, joined_at(event, "delta"));
            json_object_set(message, "usage", joined_at(event, "usage"));
        }
    }
    return message;
}

static void the_joined_stream_is_the_whole_answer(void **state)
{
    struct joined whole, stream;
    struct openai_answer *a = joined_answer(&whole, BODIES_MESSAGES, "");
    struct openai_answer *b =
        joined_answer(&stream, BODIES_MESSAGES, "\"stream\":true");
    json_t *body, *events, *message;

    (void)state;
    talk(a);
    talk(b);
    assert_int_equal(whole.n_writes, 1);
    body = json_loads(whole.out.data, 0, NULL);
    events = events_of(&stream);
    message = join(events);
    if (!json_equal(message, body)) {
        fail_msg("%s\n%s", json_dumps(message, 0), whole.out.data);
    }
    assert_string_equal(joined_text(body, "content.2.input.x"), "\n");
    json_decref(message);
    json_decref(events);
    json_decref(body);
    joined_free(&whole, &a);
    joined_free(&stream, &b);
}

/* ---- reasons and usage ---- */

static json_t *whole_of(const char *members,
                        void (*say)(struct openai_answer *), const char *reason)
{
    struct joined j;
    struct openai_answer *a = joined_answer(&j, BODIES_MESSAGES, members);
    json_t *body;

    say(a);
    end(a, reason);
    body = json_loads(j.out.data, 0, NULL);
    assert_non_null(body);
    joined_free(&j, &a);
    return body;
}

static void nothing(struct openai_answer *a)
{
    (void)a;
}

static void stopped(struct openai_answer *a)
{
    give(a, OUTPUT_CONTENT, 0, "a");
    openai_answer_stopped(a, 0, 1);
}

static void out_of_range(struct openai_answer *a)
{
    openai_answer_stopped(a, 0, 2);
}

static void reason_is(const char *reason, void (*say)(struct openai_answer *),
                      const char *wanted, const char *stop)
{
    json_t *body =
        whole_of("\"stop_sequences\":[\"x\",\"y\\\"\"]", say, reason);

    assert_string_equal(joined_text(body, "stop_reason"), wanted);
    if (stop != NULL) {
        assert_string_equal(joined_text(body, "stop_sequence"), stop);
    } else {
        assert_true(json_is_null(joined_at(body, "stop_sequence")));
    }
    json_decref(body);
}

static void reasons_have_their_names(void **state)
{
    (void)state;
    reason_is("stop", nothing, "end_turn", NULL);
    reason_is("length", nothing, "max_tokens", NULL);
    reason_is("tool_calls", nothing, "tool_use", NULL);
    reason_is("content_filter", nothing, "refusal", NULL);
    reason_is("stop", stopped, "stop_sequence", "y\"");
    reason_is("tool_calls", stopped, "tool_use", NULL);
    reason_is("stop", out_of_range, "end_turn", NULL);
}

/* A client that marks blocks counts on what is kept of its prompt. */
static void marks_change_the_usage(void **state)
{
    json_t *body =
        whole_of("\"cache_control\":{\"type\":\"ephemeral\"}", nothing, "stop");
    json_t *wanted = json_loads("{\"input_tokens\":0,"
                                "\"cache_creation_input_tokens\":4,"
                                "\"cache_read_input_tokens\":1,"
                                "\"output_tokens\":3,"
                                "\"output_tokens_details\":{"
                                "\"thinking_tokens\":2}}",
                                0, NULL);

    (void)state;
    assert_true(json_equal(joined_at(body, "usage"), wanted));
    assert_int_equal(json_array_size(joined_at(body, "content")), 0);
    json_decref(wanted);
    json_decref(body);
}

/* ---- broken answers ---- */

static void cut_call(struct openai_answer *a, const char *kept)
{
    openai_answer_begin(a);
    give(a, OUTPUT_TOOL_BEGIN, 0, "f");
    give(a, OUTPUT_TOOL_ARGUMENTS, 0, "{\"x\": \"");
    give(a, OUTPUT_TOOL_CUT, 0, kept);
}

static void cut_kept(struct openai_answer *a)
{
    cut_call(a, "<call>f{\"x\": \"");
}

static void cut_lost(struct openai_answer *a)
{
    cut_call(a, "");
}

static void a_cut_call_is_text(void **state)
{
    json_t *body = whole_of("", cut_kept, "length");

    (void)state;
    assert_int_equal(json_array_size(joined_at(body, "content")), 1);
    assert_string_equal(joined_text(body, "content.0.text"),
                        "<call>f{\"x\": \"");
    json_decref(body);
    body = whole_of("", cut_lost, "length");
    assert_string_equal(joined_text(body, "content.0.text"), "{\"x\": \"");
    json_decref(body);
}

/* A stream has shown the beginning, and its arguments stay incomplete. */
static void a_streamed_call_that_is_cut_stays_open_json(void **state)
{
    struct joined j;
    struct openai_answer *a =
        joined_answer(&j, BODIES_MESSAGES, "\"stream\":true");
    json_t *events;

    (void)state;
    cut_kept(a);
    end(a, "length");
    events = events_of(&j);
    assert_int_equal(json_array_size(events), 7);
    assert_string_equal(joined_text(events, "3.delta.partial_json"),
                        "{\"x\": \"");
    assert_string_equal(joined_text(events, "4.type"), "content_block_stop");
    assert_string_equal(joined_text(events, "5.delta.stop_reason"),
                        "max_tokens");
    json_decref(events);
    joined_free(&j, &a);
}

static void an_error_is_the_last_event(void **state)
{
    struct joined j;
    struct openai_answer *a =
        joined_answer(&j, BODIES_MESSAGES, "\"stream\":true");
    struct openai_error e;
    json_t *events;

    (void)state;
    openai_answer_begin(a);
    give(a, OUTPUT_CONTENT, 0, "a");
    openai_answer_flush(a, 0);
    openai_error_set(&e, 503, NULL, NULL, "gone \"away\"");
    openai_answer_fail(a, &e);
    events = events_of(&j);
    assert_int_equal(json_array_size(events), 5);
    assert_string_equal(joined_text(events, "4.type"), "error");
    assert_string_equal(joined_text(events, "4.error.type"),
                        "overloaded_error");
    assert_string_equal(joined_text(events, "4.error.message"),
                        "gone \"away\"");
    json_decref(events);
    joined_free(&j, &a);
}

static void errors_have_their_types(void **state)
{
    static const struct {
        int http;
        const char *type;
        int status;
    } rows[] = {
        {400, "invalid_request_error", 400}, {401, "authentication_error", 401},
        {403, "permission_error", 403},      {404, "not_found_error", 404},
        {405, "invalid_request_error", 405}, {413, "request_too_large", 413},
        {429, "rate_limit_error", 429},      {500, "api_error", 500},
        {503, "overloaded_error", 529},      {504, "timeout_error", 504}};
    const struct dialect *d = bodies_dialect(BODIES_MESSAGES);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct json_out out = {0};
        struct openai_error e;
        json_t *body;

        openai_error_set(&e, rows[i].http, "x", NULL, "s");
        assert_int_equal(d->status(&e), rows[i].status);
        d->error(&out, &e);
        body = json_loadb(out.data, out.n, 0, NULL);
        assert_string_equal(joined_text(body, "type"), "error");
        assert_string_equal(joined_text(body, "error.type"), rows[i].type);
        assert_string_equal(joined_text(body, "error.message"), "s");
        json_decref(body);
        json_out_fini(&out);
    }
}

/* A full queue of the router is no limit of the client. */
static void a_full_queue_is_overload(void **state)
{
    const struct dialect *d = bodies_dialect(BODIES_MESSAGES);
    struct error full = {ST_RESOURCE_EXHAUSTED, "the queue is full"};
    struct openai_error e;

    (void)state;
    openai_error_of_status(&e, full.code, &full);
    assert_int_equal(e.http, 429);
    assert_int_equal(d->status(&e), 529);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_event_comes_in_its_order),
        cmocka_unit_test(the_joined_stream_is_the_whole_answer),
        cmocka_unit_test(reasons_have_their_names),
        cmocka_unit_test(marks_change_the_usage),
        cmocka_unit_test(a_cut_call_is_text),
        cmocka_unit_test(a_streamed_call_that_is_cut_stays_open_json),
        cmocka_unit_test(an_error_is_the_last_event),
        cmocka_unit_test(errors_have_their_types),
        cmocka_unit_test(a_full_queue_is_overload),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
