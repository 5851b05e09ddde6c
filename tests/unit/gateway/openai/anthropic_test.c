/* Requests of /v1/messages: blocks become the messages of a chat. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bodies.h"
#include "gateway/openai/request_parse.h"
#include "tests/unit/cmocka.h"

#define M BODIES_MESSAGES

/* Parses a body with these messages, whose result is `expected`. */
static void becomes(const char *messages, const char *members,
                    const char *expected)
{
    char body[2048];

    snprintf(body, sizeof body, "{\"model\":\"m\",\"messages\":%s%s}", messages,
             members);
    bodies_messages(bodies_parse(M, body), expected);
}

static void refuses(const char *messages, const char *param)
{
    char body[1024];

    snprintf(body, sizeof body, "{\"model\":\"m\",\"messages\":%s}", messages);
    bodies_refused(M, body, param);
}

#define USER(content)      "{\"role\":\"user\",\"content\":" content "}"
#define ASSISTANT(content) "{\"role\":\"assistant\",\"content\":" content "}"
#define TEXT(text)         "{\"type\":\"text\",\"text\":\"" text "\"}"
#define USE                                                     \
    "{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"f\"," \
    "\"input\":{\"x\":1}}"
#define RESULT(rest) \
    "{\"type\":\"tool_result\",\"tool_use_id\":\"toolu_1\"" rest "}"

static void texts_and_blocks_become_messages(void **state)
{
    (void)state;
    becomes("[" USER("\"a\"") "," ASSISTANT("\"b\"") "," USER("\"c\"") "]", "",
            "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\","
            "\"content\":\"b\"},{\"role\":\"user\",\"content\":\"c\"}]");
    becomes("[" USER("[" TEXT("a") "," TEXT("b") "]") "]", "",
            "[{\"role\":\"user\",\"content\":\"a\\nb\"}]");
}

static void system_comes_first(void **state)
{
    static const char *const forms[] = {
        ",\"system\":\"s\\nt\"", ",\"system\":[" TEXT("s") "," TEXT("t") "]"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        becomes("[" USER("\"a\"") "]", forms[i],
                "[{\"role\":\"system\",\"content\":\"s\\nt\"},"
                "{\"role\":\"user\",\"content\":\"a\"}]");
    }
    becomes("[" USER("\"a\"") "]", ",\"system\":[]",
            "[{\"role\":\"user\",\"content\":\"a\"}]");
    bodies_refused_with(M, "\"system\":[{\"type\":\"image\"}]",
                        "system[0].type");
    refuses("[{\"role\":\"system\",\"content\":[]}]", "messages");
}

static void a_tool_loop_keeps_its_order(void **state)
{
    (void)state;
    becomes(
        "[" USER("\"a\"") "," ASSISTANT(
            "[{\"type\":\"thinking\",\"thinking\":\"t\",\"signature\":"
            "\"x\"},{\"type\":\"redacted_thinking\",\"data\":\"y\"}," TEXT(
                "b") "," USE
                     "]") "," USER("[" RESULT(",\"content\":"
                                              "\"7\"") "," TEXT("c") "]") "]",
        "",
        "[{\"role\":\"user\",\"content\":\"a\"},"
        "{\"role\":\"assistant\",\"content\":\"b\","
        "\"reasoning_content\":\"t\",\"tool_calls\":[{\"id\":\"toolu_1\","
        "\"type\":\"function\",\"function\":{\"name\":\"f\","
        "\"arguments\":{\"x\":1}}}]},"
        "{\"role\":\"tool\",\"content\":\"7\",\"tool_call_id\":"
        "\"toolu_1\"},{\"role\":\"user\",\"content\":\"c\"}]");
}

static void results_have_four_forms(void **state)
{
    static const char *const forms[] = {
        RESULT(""), RESULT(",\"content\":null"), RESULT(",\"content\":[]"),
        RESULT(",\"content\":\"\",\"is_error\":true")};
    char messages[256];

    (void)state;
    for (int i = 0; i < 4; i++) {
        snprintf(messages, sizeof messages, "[" USER("[%s]") "]", forms[i]);
        becomes(messages, "",
                "[{\"role\":\"tool\",\"content\":\"\",\"tool_call_id\":"
                "\"toolu_1\"}]");
    }
    becomes("[" USER("[" RESULT(
                ",\"content\":[" TEXT("7") "," TEXT("8") "]") "]") "]",
            "",
            "[{\"role\":\"tool\",\"content\":\"7\\n8\",\"tool_call_id\":"
            "\"toolu_1\"}]");
}

static void wrong_messages_are_named(void **state)
{
    (void)state;
    refuses("[]", "messages");
    refuses("[7]", "messages[0]");
    refuses("[{\"role\":\"king\",\"content\":\"a\"}]", "messages[0].role");
    refuses("[" USER("7") "]", "messages[0].content");
    refuses("[" USER("[]") "]", "messages[0].content");
    refuses("[" USER("[{}]") "]", "messages[0].content[0].type");
    refuses("[" USER("[{\"type\":\"image\",\"source\":{}}]") "]",
            "messages[0].content[0].type");
    refuses("[" USER("[" USE "]") "]", "messages[0].content[0].type");
    refuses("[" USER("[{\"type\":\"text\"}]") "]",
            "messages[0].content[0].text");
    refuses("[" USER("[" TEXT("a") ",{\"type\":\"text\",\"text\":7}]") "]",
            "messages[0].content[1].text");
    refuses("[" USER("[{\"type\":\"tool_result\"}]") "]",
            "messages[0].content[0].tool_use_id");
    refuses("[" USER("[" RESULT(",\"is_error\":7") "]") "]",
            "messages[0].content[0].is_error");
    refuses("[" ASSISTANT("[" RESULT("") "]") "]",
            "messages[0].content[0].type");
    refuses("[" ASSISTANT("[{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\","
                          "\"input\":\"{}\"}]") "]",
            "messages[0].content[0].input");
    refuses("[" USER("[{\"type\":\"text\",\"text\":\"a\",\"cache_control\":"
                     "7}]") "]",
            "messages[0].content[0].cache_control");
}

static void a_begun_answer_is_continued(void **state)
{
    struct openai_request *r =
        bodies_parse(M, "{\"model\":\"m\",\"messages\":[" USER(
                            "\"a\"") "," ASSISTANT("\"b\"") "]}");

    (void)state;
    assert_true(r->template.continue_final_message);
    assert_false(r->template.add_generation_prompt);
    openai_request_free(&r);
    r = bodies_with(M, "");
    assert_false(r->template.continue_final_message);
    assert_true(r->template.add_generation_prompt);
    openai_request_free(&r);
    r = bodies_parse(
        M, "{\"model\":\"m\",\"messages\":[" ASSISTANT("[" USE "]") "]}");
    assert_false(r->template.continue_final_message);
    openai_request_free(&r);
}

static void tools_take_the_form_of_chats(void **state)
{
    struct openai_request *r = bodies_with(
        M, "\"tools\":[{\"name\":\"f\",\"description\":\"d\","
           "\"input_schema\":{\"type\":\"object\"},\"cache_control\":{\"type\":"
           "\"ephemeral\"}},{\"type\":\"custom\",\"name\":\"g\","
           "\"input_schema\":{}},{\"type\":\"web_search_20250305\",\"name\":"
           "\"web_search\"}]");
    json_t *expected = json_loads(
        "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":"
        "\"d\",\"parameters\":{\"type\":\"object\"}}},{\"type\":\"function\","
        "\"function\":{\"name\":\"g\",\"parameters\":{}}}]",
        0, NULL);

    (void)state;
    assert_true(json_equal(r->template.tools, expected));
    assert_true(r->values.marks_cache);
    assert_string_equal(r->values.ignored.names, "tools.web_search_20250305");
    json_decref(expected);
    openai_request_free(&r);
    bodies_refused_with(M, "\"tools\":[{\"name\":\"f\"}]",
                        "tools[0].input_schema");
    bodies_refused_with(M, "\"tools\":[{\"name\":\"a b\",\"input_schema\":{}}]",
                        "tools[0].name");
    bodies_refused_with(M, "\"tools\":[{\"type\":7}]", "tools[0].type");
}

static void names_of_tools_have_a_limit(void **state)
{
    char name[ANTHROPIC_NAME_MAX + 2], members[256];
    struct openai_request *r;

    (void)state;
    memset(name, 'a', sizeof name);
    for (int past = 0; past < 2; past++) {
        name[ANTHROPIC_NAME_MAX + past] = '\0';
        snprintf(members, sizeof members,
                 "\"tools\":[{\"name\":\"%s\",\"input_schema\":{}}]", name);
        if (past) {
            bodies_refused_with(M, members, "tools[0].name");
        } else {
            r = bodies_with(M, members);
            openai_request_free(&r);
            name[ANTHROPIC_NAME_MAX] = 'a';
        }
    }
}

#define TOOLS "\"tools\":[{\"name\":\"f\",\"input_schema\":{}}],"

static void choices_of_tools_are_read(void **state)
{
    struct openai_request *r =
        bodies_with(M, TOOLS "\"tool_choice\":{\"type\":\"auto\","
                             "\"disable_parallel_tool_use\":true}");

    (void)state;
    assert_non_null(r->template.tools);
    assert_false(r->template.parallel_tool_calls);
    openai_request_free(&r);
    r = bodies_with(M, TOOLS "\"tool_choice\":{\"type\":\"none\"}");
    assert_null(r->template.tools);
    openai_request_free(&r);
    bodies_refused_with(M, TOOLS "\"tool_choice\":{\"type\":\"any\"}",
                        "tool_choice.type");
    bodies_refused_with(
        M, TOOLS "\"tool_choice\":{\"type\":\"tool\",\"name\":\"f\"}",
        "tool_choice.type");
    bodies_refused_with(M, TOOLS "\"tool_choice\":\"auto\"", "tool_choice");
}

static void other_fields_are_read(void **state)
{
    struct openai_request *r = bodies_with(
        M, "\"max_tokens\":7,\"stop_sequences\":[\"x\",\"y\"],\"top_k\":5,"
           "\"metadata\":{\"user_id\":\"u\"},\"service_tier\":"
           "\"standard_only\",\"thinking\":{\"type\":\"enabled\","
           "\"budget_tokens\":1024},\"output_config\":{\"effort\":\"low\"},"
           "\"context_management\":{\"edits\":[]}");
    const json_t *kwargs = r->template.kwargs;

    (void)state;
    assert_int_equal(r->max_tokens, 7);
    assert_int_equal(r->n_stops, 2);
    assert_int_equal(r->sampling.top_k, 5);
    assert_false(r->values.marks_cache);
    assert_true(json_is_true(json_object_get(kwargs, "enable_thinking")));
    assert_string_equal(
        json_string_value(json_object_get(kwargs, "reasoning_effort")), "low");
    assert_string_equal(r->values.ignored.names,
                        "context_management, thinking.budget_tokens");
    openai_request_free(&r);
    r = bodies_with(M, "\"cache_control\":{\"type\":\"ephemeral\"}");
    assert_true(r->values.marks_cache);
    openai_request_free(&r);
    bodies_refused_with(M, "\"n\":2", "n");
    bodies_refused_with(M, "\"metadata\":7", "metadata");
    bodies_refused_with(M, "\"mcp_servers\":[{}]", "mcp_servers");
    bodies_refused_with(M, "\"output_format\":{\"type\":\"json_schema\"}",
                        "output_format");
    bodies_refused_with(M, "\"output_config\":{\"format\":{}}",
                        "output_config.format");
    bodies_refused_with(M, "\"service_tier\":\"gold\"", "service_tier");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_and_blocks_become_messages),
        cmocka_unit_test(system_comes_first),
        cmocka_unit_test(a_tool_loop_keeps_its_order),
        cmocka_unit_test(results_have_four_forms),
        cmocka_unit_test(wrong_messages_are_named),
        cmocka_unit_test(a_begun_answer_is_continued),
        cmocka_unit_test(tools_take_the_form_of_chats),
        cmocka_unit_test(names_of_tools_have_a_limit),
        cmocka_unit_test(choices_of_tools_are_read),
        cmocka_unit_test(other_fields_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
