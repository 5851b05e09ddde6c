/* The form of messages and tools. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/openai/request_parse.h"

#include "bodies.h"
#include "gateway/openai/messages.h"
#include "tests/unit/cmocka.h"

#define USER "{\"role\":\"user\",\"content\":\"a\"}"

static struct openai_request *chat(const char *messages, const char *rest)
{
    char body[4096];

    snprintf(body, sizeof body, "{\"model\":\"m\",\"messages\":[%s]%s}",
             messages, rest);
    return bodies_parse(BODIES_CHAT, body);
}

static void refused_chat(const char *messages, const char *param)
{
    char body[4096];

    snprintf(body, sizeof body, "{\"model\":\"m\",\"messages\":[%s]}",
             messages);
    bodies_refused(BODIES_CHAT, body, param);
}

static void check_messages(const char *messages, const char *expected)
{
    char list[4096];

    snprintf(list, sizeof list, "[%s]", expected);
    bodies_messages(chat(messages, ""), list);
}

/* ---- messages ---- */

static void parts_become_a_string(void **state)
{
    (void)state;
    check_messages("{\"role\":\"developer\",\"content\":[{\"type\":\"text\","
                   "\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]},"
                   "{\"role\":\"user\",\"content\":\"c\",\"name\":\"eve\"}",
                   "{\"role\":\"system\",\"content\":\"a\\nb\"},"
                   "{\"role\":\"user\",\"content\":\"c\",\"name\":\"eve\"}");
}

static void calls_and_results_reach_the_template(void **state)
{
    (void)state;
    check_messages(
        USER ",{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{"
             "\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"f\","
             "\"arguments\":\"{\\\"x\\\": 1}\"}}]},"
             "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"2\"}",
        USER ",{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{"
             "\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"f\","
             "\"arguments\":{\"x\":1}}}]},"
             "{\"role\":\"tool\",\"content\":\"2\",\"tool_call_id\":\"c1\"}");
}

static void arguments_that_are_no_object_stay_text(void **state)
{
    static const char *const texts[] = {"[1]", "{\\\"x\\\":", "", "7",
                                        "{}\\u0000{"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char message[500];
        struct openai_request *r;
        json_t *call;

        snprintf(message, sizeof message,
                 "{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"c\","
                 "\"type\":\"function\",\"function\":{\"name\":\"f\","
                 "\"arguments\":\"%s\"}}]}",
                 texts[i]);
        r = chat(message, "");
        call = json_array_get(
            json_object_get(json_array_get(r->messages, 0), "tool_calls"), 0);
        assert_true(json_is_string(
            json_object_get(json_object_get(call, "function"), "arguments")));
        openai_request_free(&r);
    }
}

static void arguments_of_all_calls_are_bounded(void **state)
{
    /* The first call leaves half of the values.  The bound does not count the
     * first element of a list. */
    size_t half = MESSAGES_ARGUMENTS_VALUES / 2;

    (void)state;
    for (size_t over = 0; over < 2; over++) {
        size_t bytes = 4 * half + 4096, at = 0;
        char *body = malloc(bytes);
        struct openai_request *r;
        struct openai_error e;

        assert_non_null(body);
        at += (size_t)snprintf(body, bytes,
                               "{\"model\":\"m\",\"messages\":[{\"role\":"
                               "\"assistant\",\"tool_calls\":[");
        for (size_t call = 0; call < 2; call++) {
            char *ones =
                bodies_list("1", call == 0 ? half - 2 : half - 1 + over);

            at += (size_t)snprintf(
                body + at, bytes - at,
                "%s{\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":"
                "\"{\\\"x\\\":%s}\"}}",
                call > 0 ? "," : "", ones);
            free(ones);
        }
        snprintf(body + at, bytes - at, "]}]}");
        assert_int_equal(openai_request_parse(bodies_parser(BODIES_CHAT), body,
                                              strlen(body), NULL, &r, &e),
                         over == 0);
        assert_true(
            over == 0 ||
            strcmp(e.param, "messages[0].tool_calls[1].function.arguments") ==
                0);
        openai_request_free(&r);
        free(body);
    }
}

static void reasoning_is_kept(void **state)
{
    (void)state;
    check_messages("{\"role\":\"assistant\",\"content\":\"b\","
                   "\"reasoning\":\"r\",\"refusal\":null,\"audio\":null}",
                   "{\"role\":\"assistant\",\"content\":\"b\","
                   "\"reasoning_content\":\"r\"}");
}

static void wrong_messages_are_named(void **state)
{
    static const struct {
        const char *messages, *param;
    } rows[] = {
        {"", "messages"},
        {"7", "messages[0]"},
        {"{}", "messages[0].role"},
        {"{\"role\":\"function\",\"content\":\"a\"}", "messages[0].role"},
        {"{\"role\":\"user\"}", "messages[0].content"},
        {"{\"role\":\"user\",\"content\":null}", "messages[0].content"},
        {"{\"role\":\"user\",\"content\":[]}", "messages[0].content"},
        {USER ",{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}",
         "messages[1].content[0].type"},
        {"{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}",
         "messages[0].content[0].text"},
        {"{\"role\":\"user\",\"content\":\"a\",\"name\":7}",
         "messages[0].name"},
        {"{\"role\":\"assistant\"}", "messages[0].content"},
        {"{\"role\":\"assistant\",\"content\":\"a\",\"function_call\":{}}",
         "messages[0].function_call"},
        {"{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"c\"}]}",
         "messages[0].tool_calls[0].function"},
        {"{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{}}]}",
         "messages[0].tool_calls[0].id"},
        {"{\"role\":\"tool\",\"content\":\"a\"}", "messages[0].tool_call_id"},
        {"{\"role\":\"tool\",\"tool_call_id\":\"c\"}", "messages[0].content"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        refused_chat(rows[i].messages, rows[i].param);
    }
}

/* ---- tools and the template ---- */

#define TOOL                                                              \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f_1-x\"," \
    "\"description\":\"d\",\"parameters\":{\"type\":\"object\"},"         \
    "\"strict\":true}}]"

static void tools_are_kept_unless_none(void **state)
{
    struct openai_request *r = bodies_with(BODIES_CHAT, TOOL);

    (void)state;
    assert_int_equal(json_array_size(r->template.tools), 1);
    openai_request_drop_input(r);
    assert_null(r->messages);
    assert_int_equal(json_array_size(r->template.tools), 1);
    openai_request_free(&r);
    r = bodies_with(BODIES_CHAT, TOOL ",\"tool_choice\":\"none\","
                                      "\"parallel_tool_calls\":false");
    assert_null(r->template.tools);
    assert_false(r->template.parallel_tool_calls);
    openai_request_free(&r);
}

static void wrong_tools_are_named(void **state)
{
    static const struct {
        const char *tool, *param;
    } rows[] = {
        {"7", "tools[0]"},
        {"{\"type\":{}}", "tools[0].type"},
        {"{\"type\":\"function\"}", "tools[0].function"},
        {"{\"type\":\"function\",\"function\":{}}", "tools[0].function.name"},
        {"{\"type\":\"function\",\"function\":{\"name\":\"a b\"}}",
         "tools[0].function.name"},
        {"{\"type\":\"function\",\"function\":{\"name\":\"f\","
         "\"parameters\":[]}}",
         "tools[0].function.parameters"},
        {"{\"type\":\"function\",\"function\":{\"name\":\"f\","
         "\"strict\":1}}",
         "tools[0].function.strict"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char members[300];

        snprintf(members, sizeof members, "\"tools\":[%s]", rows[i].tool);
        bodies_refused_with(BODIES_CHAT, members, rows[i].param);
    }
    bodies_refused_with(BODIES_CHAT,
                        TOOL ",\"tool_choice\":{\"type\":\"function\","
                             "\"function\":{\"name\":\"f\"}}",
                        "tool_choice");
}

static void final_messages_can_be_continued(void **state)
{
    struct openai_request *r =
        chat(USER ",{\"role\":\"assistant\",\"content\":\"b\"}",
             ",\"continue_final_message\":true");

    (void)state;
    assert_true(r->template.continue_final_message);
    assert_false(r->template.add_generation_prompt);
    openai_request_free(&r);
    bodies_refused_with(BODIES_CHAT, "\"continue_final_message\":true",
                        "continue_final_message");
    bodies_refused(BODIES_CHAT,
                   "{\"model\":\"m\",\"messages\":[{\"role\":\"assistant\","
                   "\"content\":\"b\"}],\"continue_final_message\":true,"
                   "\"add_generation_prompt\":true}",
                   "add_generation_prompt");
}

static void efforts_become_template_variables(void **state)
{
    struct openai_request *r =
        bodies_with(BODIES_CHAT, "\"reasoning_effort\":\"none\"");
    json_t *v = r->template.kwargs;

    (void)state;
    assert_string_equal(
        json_string_value(json_object_get(v, "reasoning_effort")), "none");
    assert_true(json_is_false(json_object_get(v, "enable_thinking")));
    openai_request_free(&r);
    r = bodies_with(BODIES_CHAT,
                    "\"reasoning_effort\":\"none\","
                    "\"chat_template_kwargs\":{\"enable_thinking\":true}");
    v = r->template.kwargs;
    assert_true(json_is_true(json_object_get(v, "enable_thinking")));
    openai_request_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_become_a_string),
        cmocka_unit_test(calls_and_results_reach_the_template),
        cmocka_unit_test(arguments_that_are_no_object_stay_text),
        cmocka_unit_test(arguments_of_all_calls_are_bounded),
        cmocka_unit_test(reasoning_is_kept),
        cmocka_unit_test(wrong_messages_are_named),
        cmocka_unit_test(tools_are_kept_unless_none),
        cmocka_unit_test(wrong_tools_are_named),
        cmocka_unit_test(final_messages_can_be_continued),
        cmocka_unit_test(efforts_become_template_variables),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
