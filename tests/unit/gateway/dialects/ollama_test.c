/* /api/chat and /api/generate of Ollama: their bodies, and lines of JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "joined.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/gateway/openai/bodies.h"

static const struct openai_usage usage = {5, 3, 1, 2};

#define HEAD "{\"model\":\"m\",\"created_at\":\"1970-01-01T00:00:09Z\","
#define SAY(text) \
    HEAD "\"message\":{\"role\":\"assistant\",\"content\":\"" text "\""
#define MORE "},\"done\":false}\n"
#define DONE(reason)                                                        \
    "\"done\":true,\"done_reason\":\"" reason "\",\"prompt_eval_count\":5," \
    "\"eval_count\":3}"

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
    give(a, OUTPUT_TOOL_BEGIN, 0, "f");
    give(a, OUTPUT_TOOL_ARGUMENTS, 0, "{\"x\":");
    openai_answer_flush(a, 0);
    give(a, OUTPUT_TOOL_ARGUMENTS, 0, "1}");
    give(a, OUTPUT_TOOL_END, 0, "");
    openai_answer_flush(a, 0);
    give(a, OUTPUT_TOOL_BEGIN, 1, "g");
    give(a, OUTPUT_TOOL_END, 1, "");
    openai_answer_finish(a, 0, "tool_calls");
    openai_answer_end(a, &usage);
}

/* A stream unless the request has stream: false. */
static void a_stream_is_lines(void **state)
{
    struct joined j;
    struct openai_answer *a = joined_answer(&j, BODIES_OLLAMA, "");

    (void)state;
    talk(a);
    joined_is(&j, SAY("") ",\"thinking\":\"r\"" MORE SAY("a\\\"") MORE SAY(
                      "") ",\"tool_calls\":[{\"function\":{\"name\":\"f\","
                          "\"arguments\":{\"x\":1}}}]" MORE SAY(
                              "") ",\"tool_calls\":[{\"function\":{\"name\":"
                                  "\"g\",\"arguments\":{}}}]" MORE SAY(
                                      "") "}," DONE("stop") "\n");
    joined_free(&j, &a);
}

static void a_whole_answer_is_one_object(void **state)
{
    struct joined j;
    struct openai_answer *a =
        joined_answer(&j, BODIES_OLLAMA, "\"stream\":false");

    (void)state;
    talk(a);
    assert_int_equal(j.n_writes, 1);
    joined_is(&j, SAY("a\\\"") ",\"thinking\":\"r\",\"tool_calls\":[{"
                               "\"function\":{\"name\":\"f\",\"arguments\":{"
                               "\"x\":1}}},{\"function\":{\"name\":\"g\","
                               "\"arguments\":{}}}]}," DONE("stop"));
    joined_free(&j, &a);
}

static void generate_has_a_response(void **state)
{
    struct joined j;
    struct openai_answer *a = joined_answer(&j, BODIES_GENERATE, "");

    (void)state;
    openai_answer_begin(a);
    give(a, OUTPUT_CONTENT, 0, "a");
    openai_answer_finish(a, 0, "length");
    openai_answer_end(a, &usage);
    joined_is(&j, HEAD "\"response\":\"a\",\"done\":false}\n" HEAD
                       "\"response\":\"\"," DONE("length") "\n");
    joined_free(&j, &a);
}

/* No line has shown the call, so that its text can still come. */
static void a_cut_call_is_text(void **state)
{
    static const char *const modes[] = {"\"stream\":true", "\"stream\":false"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct joined j;
        struct openai_answer *a = joined_answer(&j, BODIES_OLLAMA, modes[i]);

        openai_answer_begin(a);
        give(a, OUTPUT_TOOL_BEGIN, 0, "f");
        give(a, OUTPUT_TOOL_ARGUMENTS, 0, "{\"x\":");
        openai_answer_flush(a, 0);
        give(a, OUTPUT_TOOL_CUT, 0, "");
        openai_answer_finish(a, 0, "length");
        openai_answer_end(a, &usage);
        assert_non_null(strstr(j.out.data, "\"content\":\"{\\\"x\\\":\""));
        assert_null(strstr(j.out.data, "tool_calls"));
        joined_free(&j, &a);
    }
}

static void an_error_is_the_last_line(void **state)
{
    struct joined j;
    struct openai_answer *a = joined_answer(&j, BODIES_OLLAMA, "");
    struct openai_error e;

    (void)state;
    openai_answer_begin(a);
    openai_error_set(&e, 503, NULL, NULL, "gone \"away\"");
    openai_answer_fail(a, &e);
    joined_is(&j, "{\"error\":\"gone \\\"away\\\"\"}\n");
    joined_free(&j, &a);
}

/* ---- bodies ---- */

static void messages_take_the_form_of_chats(void **state)
{
    (void)state;
    bodies_messages(
        bodies_parse(
            BODIES_OLLAMA,
            "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":"
            "\"s\"},{\"role\":\"assistant\",\"thinking\":\"t\","
            "\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{"
            "\"x\":1}}}]},{\"role\":\"tool\",\"tool_name\":\"f\",\"content\":"
            "\"7\",\"images\":[]}]}"),
        "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"assistant\","
        "\"content\":\"\",\"tool_calls\":[{\"id\":\"call_0\",\"type\":"
        "\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"x\":1}}}],"
        "\"reasoning_content\":\"t\"},{\"role\":\"tool\",\"content\":\"7\","
        "\"name\":\"f\"}]");
    bodies_messages(bodies_with(BODIES_GENERATE, "\"system\":\"s\""),
                    "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":"
                    "\"user\",\"content\":\"a\"}]");
    bodies_refused(BODIES_OLLAMA, "{\"model\":\"m\",\"messages\":[7]}",
                   "messages[0]");
    bodies_refused(BODIES_OLLAMA,
                   "{\"model\":\"m\",\"messages\":[{\"role\":\"king\"}]}",
                   "messages[0].role");
    bodies_refused(BODIES_OLLAMA,
                   "{\"model\":\"m\",\"messages\":[{\"role\":\"user\","
                   "\"content\":\"a\",\"images\":[\"x\"]}]}",
                   "messages[0].images");
    bodies_refused(BODIES_OLLAMA,
                   "{\"model\":\"m\",\"messages\":[{\"role\":\"assistant\","
                   "\"tool_calls\":[{\"function\":{\"name\":\"f\","
                   "\"arguments\":\"{}\"}}]}]}",
                   "messages[0].tool_calls[0].function.arguments");
}

static void a_raw_prompt_has_no_template(void **state)
{
    struct openai_request *r =
        bodies_with(BODIES_GENERATE, "\"raw\":true,\"system\":\"s\"");

    (void)state;
    assert_null(r->messages);
    assert_int_equal(r->n_prompts, 1);
    assert_string_equal(r->prompts[0].text, "a");
    openai_request_free(&r);
    bodies_refused(BODIES_GENERATE, "{\"model\":\"m\",\"prompt\":\"\"}",
                   "prompt");
    bodies_refused(BODIES_GENERATE, "{\"model\":\"m\",\"prompt\":7}", "prompt");
}

static void options_are_read_in_their_place(void **state)
{
    struct openai_request *r = bodies_with(
        BODIES_OLLAMA,
        "\"think\":\"low\",\"keep_alive\":\"5m\",\"options\":{\"temperature\":"
        "0,"
        "\"num_predict\":7,\"stop\":[\"x\"],\"seed\":5,\"num_ctx\":4096,"
        "\"repeat_penalty\":1,\"mirostat\":0}");

    (void)state;
    assert_true(r->stream);
    assert_int_equal(r->max_tokens, 7);
    assert_int_equal(r->n_stops, 1);
    assert_int_equal(r->sampling.seed, 5);
    assert_true(r->sampling.temperature == 0 && r->given.temperature);
    assert_string_equal(r->values.ignored.names, "options.num_ctx");
    openai_request_free(&r);
    r = bodies_with(BODIES_OLLAMA, "\"think\":false");
    assert_true(
        json_is_false(json_object_get(r->template.kwargs, "enable_thinking")));
    openai_request_free(&r);
    bodies_refused_with(BODIES_OLLAMA, "\"options\":{\"temperature\":-1}",
                        "options.temperature");
    bodies_refused_with(BODIES_OLLAMA, "\"options\":{\"repeat_penalty\":1.1}",
                        "options.repeat_penalty");
    bodies_refused_with(BODIES_OLLAMA, "\"options\":{\"n\":2}", "options.n");
    bodies_refused_with(BODIES_OLLAMA, "\"options\":7", "options");
    bodies_refused_with(BODIES_OLLAMA, "\"format\":\"json\"", "format");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_is_lines),
        cmocka_unit_test(a_whole_answer_is_one_object),
        cmocka_unit_test(generate_has_a_response),
        cmocka_unit_test(a_cut_call_is_text),
        cmocka_unit_test(an_error_is_the_last_line),
        cmocka_unit_test(messages_take_the_form_of_chats),
        cmocka_unit_test(a_raw_prompt_has_no_template),
        cmocka_unit_test(options_are_read_in_their_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
