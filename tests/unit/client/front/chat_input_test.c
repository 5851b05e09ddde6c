/* Lines put together into messages and commands. */
#include "client/front/chat_input.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"

static enum chat_input_result push(struct chat_input *in, const char *line)
{
    return chat_input_push(in, line, strlen(line));
}

static void is_message(struct chat_input *in, const char *line,
                       const char *want)
{
    assert_int_equal(push(in, line), CHAT_MESSAGE);
    assert_string_equal(in->text, want);
    assert_int_equal(in->n, strlen(want));
}

static void a_line_is_a_message(void **state)
{
    struct chat_input in = {0};

    (void)state;
    is_message(&in, "Hello", "Hello");
    is_message(&in, "again", "again");
    is_message(&in, " /not a command", " /not a command");
    assert_int_equal(push(&in, ""), CHAT_EMPTY);
    assert_int_equal(push(&in, " \t"), CHAT_EMPTY);
    chat_input_fini(&in);
}

static void a_backslash_continues_the_line(void **state)
{
    struct chat_input in = {0};

    (void)state;
    assert_int_equal(push(&in, "one\\"), CHAT_MORE);
    assert_int_equal(push(&in, "two\\"), CHAT_MORE);
    is_message(&in, "/three", "one\ntwo\n/three");
    assert_int_equal(push(&in, "\\"), CHAT_MORE);
    assert_int_equal(push(&in, ""), CHAT_EMPTY);
    chat_input_fini(&in);
}

static void three_quotes_hold_a_block(void **state)
{
    struct chat_input in = {0};

    (void)state;
    assert_int_equal(push(&in, "\"\"\""), CHAT_MORE);
    assert_int_equal(push(&in, "one\\"), CHAT_MORE);
    assert_int_equal(push(&in, ""), CHAT_MORE);
    assert_int_equal(push(&in, "/reset"), CHAT_MORE);
    is_message(&in, "two\"\"\"", "one\\\n\n/reset\ntwo");
    is_message(&in, "\"\"\"inline\"\"\"", "inline");
    assert_int_equal(push(&in, "\"\"\"\"\"\""), CHAT_EMPTY);
    assert_int_equal(push(&in, "\"\"\"first"), CHAT_MORE);
    is_message(&in, "\"\"\"", "first\n");
    chat_input_fini(&in);
}

static void a_reset_drops_an_unfinished_message(void **state)
{
    struct chat_input in = {0};

    (void)state;
    assert_int_equal(push(&in, "\"\"\"one"), CHAT_MORE);
    chat_input_reset(&in);
    is_message(&in, "two", "two");
    chat_input_fini(&in);
}

static void a_message_has_up_to_1_mib(void **state)
{
    struct chat_input in = {0};
    size_t n = CHAT_INPUT_BYTES_MAX;
    char *text = malloc(n + 1);

    (void)state;
    assert_non_null(text);
    memset(text, 'a', n + 1);
    assert_int_equal(chat_input_push(&in, text, n), CHAT_MESSAGE);
    assert_int_equal(chat_input_push(&in, text, n + 1), CHAT_TOO_LONG);
    is_message(&in, "next", "next");
    assert_int_equal(push(&in, "\"\"\"a"), CHAT_MORE);
    assert_int_equal(chat_input_push(&in, text, n - 1), CHAT_TOO_LONG);
    is_message(&in, "next", "next");
    chat_input_fini(&in);
    free(text);
}

static void commands_have_an_argument(void **state)
{
    struct chat_input in = {0};
    const char *argument;

    (void)state;
    assert_int_equal(push(&in, "/system  You are brief."), CHAT_COMMAND);
    assert_int_equal(chat_command_parse(in.text, &argument), CHAT_VERB_SYSTEM);
    assert_string_equal(argument, "You are brief.");
    assert_int_equal(chat_command_parse("/reset", &argument), CHAT_VERB_RESET);
    assert_string_equal(argument, "");
    assert_int_equal(chat_command_parse("/save\tf", &argument), CHAT_VERB_SAVE);
    assert_string_equal(argument, "f");
    assert_int_equal(chat_command_parse("/retry ", &argument), CHAT_VERB_RETRY);
    assert_int_equal(chat_command_parse("/help", &argument), CHAT_VERB_HELP);
    assert_int_equal(chat_command_parse("/helpme", &argument),
                     CHAT_VERB_UNKNOWN);
    assert_int_equal(chat_command_parse("/", &argument), CHAT_VERB_UNKNOWN);
    chat_input_fini(&in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_a_message),
        cmocka_unit_test(a_backslash_continues_the_line),
        cmocka_unit_test(three_quotes_hold_a_block),
        cmocka_unit_test(a_reset_drops_an_unfinished_message),
        cmocka_unit_test(a_message_has_up_to_1_mib),
        cmocka_unit_test(commands_have_an_argument),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
