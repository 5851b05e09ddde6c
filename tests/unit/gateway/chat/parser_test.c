/* Limits of the parser, when its events come, and the choice of a format. */
#include <stdlib.h>
#include <string.h>

#include "gateway/chat/output_parts.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/gateway/chat/joined.h"

static struct output_parser_options options_of(enum output_format format)
{
    return (struct output_parser_options){
        .format = format, .tools = true, .keep = true};
}

/* Parses head, n times fill, and tail. */
static struct joined parse(struct output_parser_options options,
                           const char *head, char fill, size_t n,
                           const char *tail)
{
    struct joined_text text = {0};
    struct joined j;
    char *middle = malloc(n + 1);

    assert_non_null(middle);
    memset(middle, fill, n);
    joined_append(&text, head, strlen(head));
    joined_append(&text, middle, n);
    joined_append(&text, tail, strlen(tail));
    joined_parse(&j, &options, text.text, text.n, NULL, NULL);
    free(middle);
    free(text.text);
    return j;
}

/* Checks how many calls and bytes of content an answer gives. */
static void check(struct joined j, uint32_t calls, size_t content)
{
    assert_int_equal(j.n_calls, calls);
    assert_int_equal(j.content.n, content);
    joined_fini(&j);
}

/* ---- limits ---- */

static void arguments_before_the_name_are_withheld_up_to_the_limit(void **state)
{
    const char *head = "<tool_call>{\"arguments\": {\"a\": \"";
    const char *tail = "\"}, \"name\": \"f\"";
    size_t fits = OUTPUT_HELD_BYTES - strlen(head) - strlen(tail);
    struct output_parser_options options = options_of(OUTPUT_HERMES);

    (void)state;
    check(parse(options, head, 'x', fits, tail), 1, 0);
    check(parse(options, head, 'x', fits + 1, tail), 0, OUTPUT_HELD_BYTES + 1);
}

static void arguments_after_the_name_have_no_limit(void **state)
{
    struct joined j =
        parse(options_of(OUTPUT_HERMES),
              "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"", 'x',
              2 * OUTPUT_HELD_BYTES, "\"}}</tool_call>");

    (void)state;
    assert_int_equal(j.calls.n, 2 * OUTPUT_HELD_BYTES + 12);
    check(j, 1, 0);
}

static json_t *number_tool(void)
{
    return json_pack("[{s{s:s,s{s{s{s:s}}}}}]", "function", "name", "f",
                     "parameters", "properties", "i", "type", "integer");
}

static void a_value_past_the_limit_becomes_a_string(void **state)
{
    struct output_parser_options options = options_of(OUTPUT_QWEN3_CODER);
    const char *head = "<function=f><parameter=i>";
    const char *tail = "</parameter></function>";
    json_t *tools = number_tool();
    struct joined j;

    (void)state;
    options.tool_list = tools;
    j = parse(options, head, '1', OUTPUT_HELD_BYTES, tail);
    assert_int_equal(j.calls.n, OUTPUT_HELD_BYTES + 10);
    joined_fini(&j);
    j = parse(options, head, '1', OUTPUT_HELD_BYTES + 1, tail);
    assert_int_equal(j.calls.n, OUTPUT_HELD_BYTES + 1 + 12);
    joined_fini(&j);
    json_decref(tools);
}

static void names_are_bounded(void **state)
{
    const size_t most = OUTPUT_NAME_BYTES;
    struct output_parser_options options = options_of(OUTPUT_HERMES);

    (void)state;
    check(parse(options, "<tool_call>{\"name\": \"", 'f', most, "\"}"), 1, 0);
    check(parse(options, "<tool_call>{\"name\": \"", 'f', most + 1, "\"}"), 0,
          most + 24);
    options.format = OUTPUT_QWEN3_CODER;
    check(parse(options, "<function=", 'f', most, "></function>"), 1, 0);
    check(parse(options, "<function=", 'f', most + 1, "></function>"), 0,
          most + 23);
    check(parse(options, "<function=f><parameter=", 'f', most,
                "></parameter></function>"),
          1, 0);
    check(parse(options, "<function=f><parameter=", 'f', most + 1, ">"), 1,
          most + 13);
    options.format = OUTPUT_HARMONY;
    check(
        parse(options, "<|channel|>commentary to=", 'f', most, "<|message|>{}"),
        1, 0);
    check(parse(options, "<|channel|>commentary to=", 'f', most + 1,
                "<|message|>{}"),
          0, 2);
}

static void headers_are_bounded(void **state)
{
    const char *head = "<|channel|>";
    size_t fits = OUTPUT_HEADER_BYTES - strlen(head);
    struct output_parser_options options = options_of(OUTPUT_HARMONY);

    (void)state;
    check(parse(options, head, 'x', fits, "<|message|>a"), 0, 1);
    check(parse(options, head, 'x', fits + 1, "<|message|>a"), 0,
          OUTPUT_HEADER_BYTES + 13);
}

static void white_space_is_withheld_up_to_the_limit(void **state)
{
    const size_t most = OUTPUT_SPACE_BYTES;
    struct output_parser_options options = options_of(OUTPUT_QWEN3_CODER);

    (void)state;
    check(parse(options, "a", ' ', most, "<function=f></function>"), 1, 1);
    check(parse(options, "a", ' ', most + 1, "<function=f></function>"), 1,
          1 + most);
    options.reasoning = true;
    check(parse(options, "<think>a", '\n', 3 * most, "</think>b"), 0, 1);
    check(parse(options, "", ' ', most, "<think>a</think>b"), 0, 1);
    check(parse(options, "", ' ', most + 1, "<think>a</think>b"), 0,
          most + 1 + 17);
}

static void arguments_deeper_than_the_limit_end_the_call(void **state)
{
    const char *head = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": ";
    struct output_parser_options options = options_of(OUTPUT_HERMES);
    char tail[OUTPUT_JSON_DEPTH + 4] = "1";

    (void)state;
    memset(tail + 1, ']', OUTPUT_JSON_DEPTH - 1);
    strcpy(tail + OUTPUT_JSON_DEPTH, "}}");
    check(parse(options, head, '[', OUTPUT_JSON_DEPTH - 1, tail), 1, 0);
    memset(tail + 1, ']', OUTPUT_JSON_DEPTH);
    strcpy(tail + OUTPUT_JSON_DEPTH + 1, "}}");
    check(parse(options, head, '[', OUTPUT_JSON_DEPTH, tail), 0,
          strlen(head) + OUTPUT_JSON_DEPTH + strlen(tail));
}

static void every_limit_has_a_row(void **state)
{
    (void)state;
    assert_int_equal(output_limits_n, 5);
    for (size_t i = 0; i < output_limits_n; i++) {
        assert_true(output_limits[i].value > 0);
    }
}

/* ---- when events come ---- */

/* Pushes text and returns how many events have come since. */
static uint32_t push(struct output_parser *p, struct joined *j,
                     const char *text)
{
    uint32_t before = j->n_events;

    output_parser_push(p, text, strlen(text), joined_add, j);
    return j->n_events - before;
}

static void content_comes_with_its_piece(void **state)
{
    (void)state;
    for (int f = OUTPUT_PLAIN; f <= OUTPUT_LLAMA3; f++) {
        struct output_parser_options options =
            options_of((enum output_format)f);
        struct output_parser *p = output_parser_new(&options);
        struct joined j = {0};

        assert_non_null(p);
        assert_int_equal(push(p, &j, "Hello"), 1);
        assert_int_equal(push(p, &j, " world"), 1);
        assert_int_equal(push(p, &j, " <b"), 1);
        assert_string_equal(j.content.text, "Hello world <b");
        joined_fini(&j);
        output_parser_free(&p);
    }
}

static void arguments_come_with_their_piece(void **state)
{
    struct output_parser_options options = options_of(OUTPUT_HERMES);
    struct output_parser *p = output_parser_new(&options);
    struct joined j = {0};

    (void)state;
    assert_non_null(p);
    assert_int_equal(push(p, &j, "<tool_call>{\"name\": \"f\", "), 0);
    assert_int_equal(push(p, &j, "\"arguments\": "), 0);
    assert_int_equal(push(p, &j, "{"), 2);
    assert_int_equal(push(p, &j, "\"a\": \"b"), 1);
    assert_int_equal(push(p, &j, "c"), 1);
    assert_int_equal(push(p, &j, "\"}"), 1);
    assert_true(j.open);
    assert_int_equal(push(p, &j, "}"), 1);
    assert_false(j.open);
    joined_fini(&j);
    output_parser_free(&p);
}

static void string_parameters_come_with_their_piece(void **state)
{
    struct output_parser_options options = options_of(OUTPUT_QWEN3_CODER);
    struct output_parser *p = output_parser_new(&options);
    struct joined j = {0};

    (void)state;
    assert_non_null(p);
    assert_int_equal(push(p, &j, "<tool_call>\n<function=f>"), 1);
    assert_int_equal(push(p, &j, "\n<parameter=code>\n"), 1);
    assert_int_equal(push(p, &j, "print"), 1);
    assert_int_equal(push(p, &j, "(\"x\")"), 1);
    assert_int_equal(push(p, &j, "\n"), 0);
    assert_int_equal(push(p, &j, "</parameter>"), 1);
    joined_fini(&j);
    output_parser_free(&p);
}

static void an_answer_in_json_is_not_withheld(void **state)
{
    struct output_parser_options options = options_of(OUTPUT_LLAMA3);
    struct output_parser *p = output_parser_new(&options);
    struct joined j = {0};

    (void)state;
    assert_non_null(p);
    assert_int_equal(push(p, &j, "{\"answer\""), 1);
    assert_int_equal(push(p, &j, ": 42"), 1);
    joined_fini(&j);
    output_parser_free(&p);
}

static void long_pieces_are_cut_at_characters(void **state)
{
    struct output_parser_options options = options_of(OUTPUT_PLAIN);
    struct joined_text text = {0};
    struct joined j;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        joined_append(&text, "日", 3);
    }
    joined_parse(&j, &options, text.text, text.n, NULL, NULL);
    assert_true(j.n_events > 1);
    assert_int_equal(j.content.n, text.n);
    assert_memory_equal(j.content.text, text.text, text.n);
    free(text.text);
    joined_fini(&j);
}

/* ---- formats ---- */

static void formats_have_names(void **state)
{
    static const char *const names[] = {"plain", "hermes", "qwen3-coder",
                                        "llama3", "gpt-oss"};
    enum output_format format;

    (void)state;
    for (int f = OUTPUT_PLAIN; f <= OUTPUT_HARMONY; f++) {
        assert_true(output_format_parse(names[f], &format));
        assert_int_equal(format, f);
    }
    assert_false(output_format_parse("Hermes", &format));
    assert_false(output_format_parse("", &format));
}

static void only_formats_of_special_tokens_need_them(void **state)
{
    (void)state;
    assert_false(output_needs_special(OUTPUT_PLAIN));
    assert_false(output_needs_special(OUTPUT_HERMES));
    assert_false(output_needs_special(OUTPUT_QWEN3_CODER));
    assert_true(output_needs_special(OUTPUT_LLAMA3));
    assert_true(output_needs_special(OUTPUT_HARMONY));
}

static void a_template_chooses_its_format(void **state)
{
    static const struct {
        const char *source;
        enum output_format format;
        bool reasoning;
        const char *unread;
    } rows[] = {
        {"", OUTPUT_PLAIN, false, NULL},
        {"{{ messages }}", OUTPUT_PLAIN, false, NULL},
        {"{{ '<think>\n' }}", OUTPUT_PLAIN, true, NULL},
        {"{% if '</think>' in content %}", OUTPUT_PLAIN, true, NULL},
        {"{{ message.reasoning_content }}", OUTPUT_PLAIN, true, NULL},
        {"<tool_call>\n{\"name\": }", OUTPUT_HERMES, false, NULL},
        {"<tool_call> <think>", OUTPUT_HERMES, true, NULL},
        {"<tool_call>\n<function=x>", OUTPUT_QWEN3_CODER, false, NULL},
        {"<|python_tag|>", OUTPUT_LLAMA3, false, NULL},
        {"<|start_header_id|> \"parameters\"", OUTPUT_LLAMA3, false, NULL},
        {"<|start_header_id|>", OUTPUT_PLAIN, false, NULL},
        {"<|start|>assistant<|channel|>analysis", OUTPUT_HARMONY, true, NULL},
        {"{{ '[TOOL_CALLS] [' }}", OUTPUT_PLAIN, false, "mistral"},
        /* GLM: its tag is that of hermes, its calls are not. */
        {"<tool_call>{{ name }}\n<arg_key>", OUTPUT_PLAIN, false, "glm"},
        {"<\uff5ctool\u2581calls\u2581begin\uff5c>", OUTPUT_PLAIN, false,
         "deepseek"}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct output_found f =
            output_format_of_template(rows[i].source, strlen(rows[i].source));

        assert_int_equal(f.format, rows[i].format);
        assert_int_equal(f.reasoning, rows[i].reasoning);
        assert_string_equal(f.unread != NULL ? f.unread : "read",
                            rows[i].unread != NULL ? rows[i].unread : "read");
    }
}

static void tools_without_an_inner_object_have_types(void **state)
{
    struct output_parser_options options = options_of(OUTPUT_QWEN3_CODER);
    json_t *tools =
        json_pack("[{s:s,s:s,s{s{s{s:s}}}}]", "type", "function", "name", "f",
                  "parameters", "properties", "i", "type", "integer");
    struct joined j;

    (void)state;
    options.tool_list = tools;
    j = parse(options, "<function=f><parameter=i>", '1', 2,
              "</parameter></function>");
    assert_string_equal(j.calls.text, "f\x01{\"i\": 11}\x02");
    joined_fini(&j);
    json_decref(tools);
}

static void odd_tool_lists_are_ignored(void **state)
{
    static const char *const lists[] = {
        "{}",
        "[]",
        "[1, null]",
        "[{\"function\": 1}]",
        "[{\"function\": {\"name\": \"f\", \"parameters\": []}}]",
        "[{\"function\": {\"name\": \"f\", \"parameters\": "
        "{\"properties\": {\"i\": [1]}}}}]",
        "[{\"function\": {\"name\": \"f\", \"parameters\": {\"properties\": "
        "{\"i\": {\"type\": [1, {}], \"anyOf\": 3, \"enum\": {}}}}}}]"};
    struct output_parser_options options = options_of(OUTPUT_QWEN3_CODER);

    (void)state;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        json_t *tools = json_loads(lists[i], 0, NULL);
        struct joined j;

        assert_non_null(tools);
        options.tool_list = tools;
        j = parse(options, "<function=f><parameter=i>", '1', 2,
                  "</parameter></function>");
        assert_string_equal(j.calls.text, "f\x01{\"i\": \"11\"}\x02");
        joined_fini(&j);
        json_decref(tools);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            arguments_before_the_name_are_withheld_up_to_the_limit),
        cmocka_unit_test(arguments_after_the_name_have_no_limit),
        cmocka_unit_test(a_value_past_the_limit_becomes_a_string),
        cmocka_unit_test(names_are_bounded),
        cmocka_unit_test(headers_are_bounded),
        cmocka_unit_test(white_space_is_withheld_up_to_the_limit),
        cmocka_unit_test(arguments_deeper_than_the_limit_end_the_call),
        cmocka_unit_test(every_limit_has_a_row),
        cmocka_unit_test(content_comes_with_its_piece),
        cmocka_unit_test(arguments_come_with_their_piece),
        cmocka_unit_test(string_parameters_come_with_their_piece),
        cmocka_unit_test(an_answer_in_json_is_not_withheld),
        cmocka_unit_test(long_pieces_are_cut_at_characters),
        cmocka_unit_test(formats_have_names),
        cmocka_unit_test(only_formats_of_special_tokens_need_them),
        cmocka_unit_test(a_template_chooses_its_format),
        cmocka_unit_test(tools_without_an_inner_object_have_types),
        cmocka_unit_test(odd_tool_lists_are_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
