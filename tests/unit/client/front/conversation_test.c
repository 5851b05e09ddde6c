/* The messages of a chat and the body of a request. */
#include "client/front/conversation.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"

static void ask(struct conversation *c, const char *text)
{
    struct error e;

    assert_int_equal(conversation_ask(c, text, strlen(text), &e), ST_OK);
}

static void answer(struct conversation *c, const char *text)
{
    conversation_answer(c, text, strlen(text));
}

/* Expects the messages of a request, as JSON without the brackets. */
static void has(const struct conversation *c, const char *messages)
{
    struct conversation_settings settings = {.model = "m"};
    char *body = conversation_request(c, &settings);
    char *begin = strchr(body, '[') + 1;

    *strstr(begin, "],\"stream\":true") = '\0';
    assert_string_equal(begin, messages);
    free(body);
}

#define USER(text)      "{\"role\":\"user\",\"content\":\"" text "\"}"
#define ASSISTANT(text) "{\"role\":\"assistant\",\"content\":\"" text "\"}"
#define SYSTEM(text)    "{\"role\":\"system\",\"content\":\"" text "\"}"

static void messages_alternate(void **state)
{
    struct conversation *c = conversation_new();

    (void)state;
    answer(c, "too early");
    has(c, "");
    ask(c, "a");
    answer(c, "");
    has(c, USER("a"));
    ask(c, "b"); /* replaces a question without a reply */
    has(c, USER("b"));
    answer(c, "1");
    answer(c, "2");
    ask(c, "c");
    has(c, USER("b") "," ASSISTANT("1") "," USER("c"));
    conversation_free(&c);
}

static void a_retry_removes_the_reply(void **state)
{
    struct conversation *c = conversation_new();

    (void)state;
    assert_false(conversation_retry(c));
    ask(c, "a");
    assert_true(conversation_retry(c));
    answer(c, "1");
    assert_true(conversation_retry(c));
    has(c, USER("a"));
    conversation_free(&c);
}

static void a_reset_keeps_the_system_message(void **state)
{
    struct conversation *c = conversation_new();
    struct error e;

    (void)state;
    assert_int_equal(conversation_set_system(c, "s", &e), ST_OK);
    ask(c, "a");
    has(c, SYSTEM("s") "," USER("a"));
    conversation_reset(c);
    has(c, SYSTEM("s"));
    assert_int_equal(conversation_set_system(c, "", &e), ST_OK);
    has(c, "");
    conversation_free(&c);
}

static void settings_are_fields_only_if_given(void **state)
{
    struct conversation *c = conversation_new();
    struct conversation_settings settings = {.model = "m"};
    char *body = conversation_request(c, &settings);

    (void)state;
    assert_string_equal(body,
                        "{\"model\":\"m\",\"messages\":[],\"stream\":true,"
                        "\"stream_options\":{\"include_usage\":true}}");
    free(body);
    settings = (struct conversation_settings){.model = "m",
                                              .has_temperature = true,
                                              .temperature = 0.5,
                                              .has_max_tokens = true,
                                              .max_tokens = UINT32_MAX,
                                              .no_think = true,
                                              .has_drafts = true};
    body = conversation_request(c, &settings);
    assert_non_null(strstr(body, "\"temperature\":0.5"));
    assert_non_null(strstr(body, "\"max_completion_tokens\":4294967295"));
    assert_non_null(
        strstr(body, "\"chat_template_kwargs\":{\"enable_thinking\":false}"));
    assert_non_null(strstr(body, "\"drafts\":0,"));
    free(body);
    conversation_free(&c);
}

static void text_is_kept_byte_for_byte(void **state)
{
    struct conversation *c = conversation_new();
    struct error e;
    char *text;

    (void)state;
    assert_int_equal(conversation_ask(c, "a\0\"\n\xc3\xa4", 6, &e), ST_OK);
    has(c, USER("a\\u0000\\\"\\n\xc3\xa4"));
    assert_int_equal(conversation_ask(c, "a\xff", 2, &e), ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, "the text is not UTF-8 at byte 1");
    text = conversation_text(c);
    assert_string_equal(text, "[\n  {\n    \"role\": \"user\",\n    "
                              "\"content\": \"a\\u0000\\\"\\n\xc3\xa4\"\n  "
                              "}\n]\n");
    free(text);
    conversation_free(&c);
}

static void the_limit_counts_all_texts(void **state)
{
    struct conversation *c = conversation_new();
    size_t n = CONVERSATION_BYTES_MAX;
    char *text = malloc(n + 1);
    struct error e;

    (void)state;
    assert_non_null(text);
    memset(text, 'a', n);
    text[n] = '\0';
    assert_int_equal(conversation_ask(c, text, n + 1, &e),
                     ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(e.text, "/reset"));
    assert_int_equal(conversation_ask(c, text, n, &e), ST_OK);
    assert_int_equal(conversation_set_system(c, "s", &e),
                     ST_RESOURCE_EXHAUSTED);
    /* A reply is kept past the limit; then nothing more is. */
    conversation_answer(c, text, n);
    assert_int_equal(conversation_ask(c, "", 0, &e), ST_RESOURCE_EXHAUSTED);
    conversation_reset(c);
    assert_int_equal(conversation_set_system(c, "s", &e), ST_OK);
    assert_int_equal(conversation_ask(c, text, n - 1, &e), ST_OK);
    conversation_free(&c);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_alternate),
        cmocka_unit_test(a_retry_removes_the_reply),
        cmocka_unit_test(a_reset_keeps_the_system_message),
        cmocka_unit_test(settings_are_fields_only_if_given),
        cmocka_unit_test(text_is_kept_byte_for_byte),
        cmocka_unit_test(the_limit_counts_all_texts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
