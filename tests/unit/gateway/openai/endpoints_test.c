/* Requests of /tokenize, /detokenize and /v1/responses. */
#include "bodies.h"
#include "gateway/openai/request_parse.h"
#include "tests/unit/cmocka.h"

#define USER "{\"role\":\"user\",\"content\":\"a\"}"

static void tokenize_takes_a_prompt_or_messages(void **state)
{
    struct openai_request *r =
        bodies_parse(BODIES_TOKENIZE, "{\"model\":\"m\",\"prompt\":\"\","
                                      "\"return_token_strs\":true}");

    (void)state;
    assert_true(r->return_token_strs && r->template.add_special);
    assert_int_equal(r->prompts[0].n_text, 0);
    openai_request_free(&r);
    r = bodies_parse(BODIES_TOKENIZE,
                     "{\"model\":\"m\",\"messages\":[" USER "]}");
    assert_true(r->template.add_generation_prompt && !r->template.add_special);
    openai_request_free(&r);
    bodies_refused(BODIES_TOKENIZE, "{\"model\":\"m\"}", "prompt");
    bodies_refused_with(BODIES_TOKENIZE, "\"messages\":[" USER "]", "prompt");
    r = bodies_parse(BODIES_DETOKENIZE, "{\"model\":\"m\",\"tokens\":[5,6]}");
    assert_int_equal(r->n_tokens, 2);
    assert_int_equal(r->tokens[1], 6);
    openai_request_free(&r);
    bodies_refused(BODIES_DETOKENIZE, "{\"model\":\"m\",\"tokens\":[-1]}",
                   "tokens[0]");
}

/* llama.cpp's clients name no model, and add no special tokens to content. */
static void tokenize_takes_the_fields_of_llama_cpp(void **state)
{
    struct openai_request *r =
        bodies_parse(BODIES_TOKENIZE, "{\"content\":\"a\",\"with_pieces\":"
                                      "true,\"parse_special\":true}");

    (void)state;
    assert_null(r->model);
    assert_false(r->template.add_special);
    assert_true(r->values.pieces);
    openai_request_free(&r);
    r = bodies_parse(BODIES_TOKENIZE,
                     "{\"content\":\"a\",\"add_special\":true}");
    assert_true(r->template.add_special);
    openai_request_free(&r);
    r = bodies_parse(BODIES_DETOKENIZE, "{\"tokens\":[5]}");
    assert_null(r->model);
    openai_request_free(&r);
    bodies_refused(BODIES_TOKENIZE, "{\"content\":\"a\",\"prompt\":\"b\"}",
                   "content");
    bodies_refused(BODIES_TOKENIZE,
                   "{\"content\":\"a\",\"parse_special\":false}",
                   "parse_special");
}

static void items_become_messages(void **state)
{
    (void)state;
    bodies_messages(
        bodies_parse(
            BODIES_RESPONSES,
            "{\"model\":\"m\",\"instructions\":\"i\",\"input\":["
            "{\"role\":\"user\",\"content\":[{\"type\":\"input_text\","
            "\"text\":\"a\"}]},"
            "{\"type\":\"reasoning\",\"id\":\"rs\",\"summary\":[],"
            "\"content\":[{\"type\":\"reasoning_text\",\"text\":\"r\"}]},"
            "{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{"
            "\"type\":\"output_text\",\"text\":\"b\"}]},"
            "{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\","
            "\"arguments\":\"{}\"},"
            "{\"type\":\"function_call_output\",\"call_id\":\"c\","
            "\"output\":\"2\"}]}"),
        "[{\"role\":\"system\",\"content\":\"i\"},"
        "{\"role\":\"user\",\"content\":\"a\"},"
        "{\"role\":\"assistant\",\"content\":\"b\","
        "\"reasoning_content\":\"r\",\"tool_calls\":[{\"id\":\"c\","
        "\"type\":\"function\",\"function\":{\"name\":\"f\","
        "\"arguments\":{}}}]},"
        "{\"role\":\"tool\",\"content\":\"2\",\"tool_call_id\":\"c\"}]");
}

static void turns_of_the_assistant_stay_apart(void **state)
{
    (void)state;
    bodies_messages(
        bodies_parse(BODIES_RESPONSES,
                     "{\"model\":\"m\",\"input\":["
                     "{\"role\":\"assistant\",\"content\":\"a\"},"
                     "{\"role\":\"assistant\",\"content\":\"b\"}]}"),
        "[{\"role\":\"assistant\",\"content\":\"a\"},"
        "{\"role\":\"assistant\",\"content\":\"b\"}]");
}

static void wrong_items_are_named(void **state)
{
    static const struct {
        const char *item, *param;
    } rows[] = {
        {"7", "input[0]"},
        {"{\"type\":\"item_reference\",\"id\":\"x\"}", "input[0].type"},
        {"{\"type\":\"reasoning\",\"summary\":[]}", "input"},
        {"{\"role\":\"tool\",\"content\":\"a\"}", "input[0].role"},
        {"{\"role\":\"user\",\"content\":[{\"type\":\"input_image\"}]}",
         "input[0].content[0].type"},
        {"{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\"}",
         "input[0].arguments"},
        {"{\"type\":\"function_call_output\",\"call_id\":\"c\"}",
         "input[0].output"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char body[300];

        snprintf(body, sizeof body, "{\"model\":\"m\",\"input\":[%s]}",
                 rows[i].item);
        bodies_refused(BODIES_RESPONSES, body, rows[i].param);
    }
}

static void flat_tools_take_the_form_of_chats(void **state)
{
    struct openai_request *r = bodies_with(
        BODIES_RESPONSES, "\"tools\":[{\"type\":\"function\",\"name\":\"f\","
                          "\"parameters\":null,\"strict\":null}]");
    json_t *expected = json_loads(
        "[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]", 0, NULL);

    (void)state;
    assert_true(json_equal(r->template.tools, expected));
    json_decref(expected);
    openai_request_free(&r);
    bodies_refused_with(BODIES_RESPONSES, "\"tools\":[{\"type\":null}]",
                        "tools[0].type");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokenize_takes_a_prompt_or_messages),
        cmocka_unit_test(tokenize_takes_the_fields_of_llama_cpp),
        cmocka_unit_test(items_become_messages),
        cmocka_unit_test(turns_of_the_assistant_stay_apart),
        cmocka_unit_test(wrong_items_are_named),
        cmocka_unit_test(flat_tools_take_the_form_of_chats),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
