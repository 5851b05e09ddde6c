/* Answers of completions and chats: exact chunks, and streams that join to the
 * whole answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "joined.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/gateway/openai/bodies.h"

/* ---- exact bytes ---- */

#define HEAD(object)                                                 \
    "data: {\"id\":\"" object "\",\"created\":9,\"model\":\"m\","    \
    "\"system_fingerprint\":\"sluice-" SLUICE_VERSION "-f0904807\"," \
    "\"choices\":["
#define ID       "00000000000000000000000000000007"
#define CHAT     HEAD("chatcmpl-" ID "\",\"object\":\"chat.completion.chunk")
#define TEXT     HEAD("cmpl-" ID "\",\"object\":\"text_completion")
#define NO_LOGS  ",\"logprobs\":null,\"finish_reason\":"
#define OPEN     NO_LOGS "null}]"
#define END      "}\n\n"
#define DONE     "data: [DONE]\n\n"
#define NO_USAGE ",\"usage\":null"
#define USAGE                                                             \
    ",\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":3,"            \
    "\"total_tokens\":8,\"prompt_tokens_details\":{\"cached_tokens\":1}," \
    "\"completion_tokens_details\":{\"reasoning_tokens\":2}}"

static const struct openai_usage usage = {5, 3, 1, 2};

static void give(struct openai_answer *a, enum output_kind kind,
                 const char *text)
{
    struct output_event event = {.kind = kind, .text = text, .n = strlen(text)};

    openai_answer_output(a, 0, &event);
}

static void chat_chunks_have_one_role_and_one_reason(void **state)
{
    struct joined j;
    struct openai_answer *a = joined_answer(
        &j, BODIES_CHAT,
        "\"stream\":true,\"stream_options\":{\"include_usage\":true}");

    (void)state;
    openai_answer_begin(a);
    give(a, OUTPUT_CONTENT, "a\"\n");
    give(a, OUTPUT_CONTENT, "b");
    openai_answer_flush(a, 0);
    openai_answer_flush(a, 0); /* nothing new: no chunk */
    give(a, OUTPUT_CONTENT, "c");
    openai_answer_finish(a, 0, "stop");
    openai_answer_end(a, &usage);
    joined_is(&j, CHAT
              "{\"index\":0,\"delta\":{\"role\":\"assistant\","
              "\"content\":\"\"}" OPEN NO_USAGE END CHAT
              "{\"index\":0,\"delta\":{\"content\":\"a\\\"\\nb\"}" OPEN NO_USAGE
                  END CHAT "{\"index\":0,\"delta\":{\"content\":\"c\"}" NO_LOGS
              "\"stop\"}]" NO_USAGE END CHAT "]" USAGE END DONE);
    joined_free(&j, &a);
}

static void calls_are_streamed_by_the_rules(void **state)
{
    struct joined j;
    struct openai_answer *a = joined_answer(&j, BODIES_CHAT, "\"stream\":true");
    char expected[4096];
    const char *key;

    (void)state;
    give(a, OUTPUT_REASONING, "r");
    give(a, OUTPUT_TOOL_BEGIN, "f");
    give(a, OUTPUT_TOOL_ARGUMENTS, "{\"x\"");
    give(a, OUTPUT_TOOL_ARGUMENTS, ":1}");
    give(a, OUTPUT_TOOL_END, "");
    openai_answer_flush(a, 0);
    openai_answer_finish(a, 0, "tool_calls");
    openai_answer_end(a, &usage);
    key = strstr(j.out.data, "call_");
    assert_non_null(key);
    assert_int_equal(strspn(key + 5, "0123456789abcdef"), 24);
    snprintf(expected, sizeof expected,
             "%s{\"index\":0,\"delta\":{\"reasoning_content\":\"r\"}%s%s"
             "%s{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\""
             "%.29s\",\"type\":\"function\",\"function\":{\"name\":\"f\","
             "\"arguments\":\"\"}}]}%s%s"
             "%s{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,"
             "\"function\":{\"arguments\":\"{\\\"x\\\":1}\"}}]}%s%s"
             "%s{\"index\":0,\"delta\":{}%s\"tool_calls\"}]%s%s",
             CHAT, OPEN, END, CHAT, key, OPEN, END, CHAT, OPEN, END, CHAT,
             NO_LOGS, END, DONE);
    joined_is(&j, expected);
    joined_free(&j, &a);
}

static void completions_echo_and_end(void **state)
{
    struct joined j;
    struct openai_answer *a =
        joined_answer(&j, BODIES_COMPLETION, "\"stream\":true,\"echo\":true");

    (void)state;
    openai_answer_begin(a);
    openai_answer_echo(a, 0, "p", 1);
    give(a, OUTPUT_CONTENT, "a");
    openai_answer_flush(a, 0);
    openai_answer_finish(a, 0, "length");
    openai_answer_end(a, &usage);
    joined_is(&j, TEXT "{\"index\":0,\"text\":\"pa\"" OPEN END TEXT
                       "{\"index\":0,\"text\":\"\"" NO_LOGS
                       "\"length\"}]" END DONE);
    joined_free(&j, &a);
}

static void continuous_usage_is_in_each_chunk(void **state)
{
    struct joined j;
    struct openai_answer *a = joined_answer(
        &j, BODIES_COMPLETION,
        "\"stream\":true,\"stream_options\":{\"include_usage\":true,"
        "\"continuous_usage_stats\":true}");

    (void)state;
    openai_answer_usage(a, &usage);
    give(a, OUTPUT_CONTENT, "a");
    openai_answer_flush(a, 0);
    joined_is(&j, TEXT "{\"index\":0,\"text\":\"a\"" OPEN USAGE END);
    joined_free(&j, &a);
}

static void failed_stream_has_an_error_and_an_end(void **state)
{
    struct joined j;
    struct openai_answer *a = joined_answer(&j, BODIES_CHAT, "\"stream\":true");
    struct openai_error e;

    (void)state;
    give(a, OUTPUT_CONTENT, "a");
    openai_error_set(&e, 503, NULL, NULL, "gone");
    openai_answer_fail(a, &e);
    joined_is(&j, "data: {\"error\":{\"message\":\"gone\",\"type\":"
                  "\"server_error\",\"param\":null,\"code\":null}}\n\n" DONE);
    joined_free(&j, &a);
}

static void failed_body_is_the_error(void **state)
{
    struct joined j;
    struct openai_answer *a = joined_answer(&j, BODIES_CHAT, "");
    struct openai_error e;

    (void)state;
    give(a, OUTPUT_CONTENT, "a");
    openai_error_of_status(&e, ST_RESOURCE_EXHAUSTED, NULL);
    openai_answer_fail(a, &e);
    joined_is(&j, "{\"error\":{\"message\":\"no room now, retry later\","
                  "\"type\":\"rate_limit_error\",\"param\":null,"
                  "\"code\":\"rate_limit_exceeded\"}}");
    joined_free(&j, &a);
}

/* ---- whole bodies ---- */

static json_t *body_of(struct joined *j)
{
    json_t *tree =
        json_loadb(j->out.data, j->out.n, JSON_REJECT_DUPLICATES, NULL);

    assert_non_null(tree);
    return tree;
}

static const char *text_at(const json_t *tree, const char *path)
{
    const char *text = joined_text(tree, path);

    assert_non_null(text);
    return text;
}

static void calls_leave_content_null(void **state)
{
    struct joined j;
    struct openai_answer *a = joined_answer(&j, BODIES_CHAT, "");
    json_t *body;

    (void)state;
    give(a, OUTPUT_TOOL_BEGIN, "f");
    give(a, OUTPUT_TOOL_ARGUMENTS, "{}");
    openai_answer_finish(a, 0, "tool_calls"); /* cut inside the call */
    openai_answer_end(a, &usage);
    body = body_of(&j);
    assert_true(json_is_null(joined_at(body, "choices.0.message.content")));
    assert_true(json_is_null(joined_at(body, "choices.0.message.refusal")));
    assert_true(json_is_null(joined_at(body, "choices.0.logprobs")));
    assert_string_equal(
        text_at(body, "choices.0.message.tool_calls.0.function.arguments"),
        "{}");
    assert_string_equal(text_at(body, "choices.0.finish_reason"), "tool_calls");
    json_decref(body);
    joined_free(&j, &a);
}

static void answers_without_text_are_empty(void **state)
{
    struct joined j;
    struct openai_answer *a = joined_answer(&j, BODIES_CHAT, "");
    json_t *body;

    (void)state;
    openai_answer_finish(a, 0, "stop");
    openai_answer_end(a, &usage);
    body = body_of(&j);
    assert_string_equal(text_at(body, "choices.0.message.content"), "");
    json_decref(body);
    joined_free(&j, &a);
}

/* ---- logprobs ---- */

/* Token 1 ends inside a character that token 2 ends. */
static const uint32_t tokens[] = {0, 1, 2};
static const float logprobs[] = {-0.5f, -1.25f, 0};
static const uint32_t top_tokens[] = {0, 3, 3, 1, 2, 3};
static const float top_logprobs[] = {-0.5f, -2, -0.25f, -1.25f, 0, -100};
static const struct openai_logprobs logs = {3,        2,          tokens,
                                            logprobs, top_tokens, top_logprobs};

static void chat_logprobs_have_bytes(void **state)
{
    struct joined j;
    struct openai_answer *a =
        joined_answer(&j, BODIES_CHAT, "\"logprobs\":true,\"top_logprobs\":2");
    json_t *body, *list;

    (void)state;
    openai_answer_logprobs(a, 0, &logs);
    give(a, OUTPUT_CONTENT, "a\xc3\xa9");
    openai_answer_finish(a, 0, "stop");
    openai_answer_end(a, &usage);
    body = body_of(&j);
    list = joined_at(body, "choices.0.logprobs.content");
    assert_int_equal(json_array_size(list), 3);
    assert_string_equal(text_at(list, "1.token"), "\xef\xbf\xbd");
    assert_int_equal(json_integer_value(joined_at(list, "1.bytes.0")), 0xc3);
    assert_int_equal(json_array_size(joined_at(list, "1.bytes")), 1);
    assert_int_equal(json_array_size(joined_at(list, "1.top_logprobs")), 2);
    assert_true(json_real_value(joined_at(list, "1.logprob")) == -1.25);
    assert_string_equal(text_at(list, "0.top_logprobs.1.token"), "d");
    json_decref(body);
    joined_free(&j, &a);
}

static void no_candidates_give_empty_lists(void **state)
{
    struct openai_logprobs none = logs;
    struct joined j;
    struct openai_answer *a =
        joined_answer(&j, BODIES_CHAT, "\"logprobs\":true,\"top_logprobs\":0");
    json_t *body;

    (void)state;
    none.n_top = 0;
    openai_answer_logprobs(a, 0, &none);
    openai_answer_finish(a, 0, "stop");
    openai_answer_end(a, &usage);
    body = body_of(&j);
    assert_int_equal(json_array_size(joined_at(
                         body, "choices.0.logprobs.content.0.top_logprobs")),
                     0);
    json_decref(body);
    joined_free(&j, &a);
}

static void completion_logprobs_have_offsets(void **state)
{
    struct joined j;
    struct openai_answer *a =
        joined_answer(&j, BODIES_COMPLETION, "\"logprobs\":2");
    json_t *body, *l;

    (void)state;
    openai_answer_logprobs(a, 0, &logs);
    openai_answer_logprobs(a, 0, &logs);
    openai_answer_finish(a, 0, "stop");
    openai_answer_end(a, &usage);
    body = body_of(&j);
    l = joined_at(body, "choices.0.logprobs");
    assert_int_equal(json_array_size(joined_at(l, "tokens")), 6);
    assert_string_equal(text_at(l, "tokens.1"), "bytes:\\xc3");
    assert_int_equal(json_integer_value(joined_at(l, "text_offset.1")), 1);
    assert_int_equal(json_integer_value(joined_at(l, "text_offset.3")), 2);
    /* The chosen token 1 is a candidate; token 0 and 3 are. */
    assert_int_equal(json_object_size(joined_at(l, "top_logprobs.0")), 2);
    json_decref(body);
    joined_free(&j, &a);
}

static void chosen_tokens_join_their_candidates(void **state)
{
    static const uint32_t other[] = {3};
    static const float lp[] = {-3};
    struct openai_logprobs one = {1, 1, tokens, logprobs, other, lp};
    struct joined j;
    struct openai_answer *a =
        joined_answer(&j, BODIES_COMPLETION, "\"logprobs\":1");
    json_t *body, *top;

    (void)state;
    openai_answer_logprobs(a, 0, &one);
    openai_answer_finish(a, 0, "stop");
    openai_answer_end(a, &usage);
    body = body_of(&j);
    top = joined_at(body, "choices.0.logprobs.top_logprobs.0");
    assert_int_equal(json_object_size(top), 2);
    assert_true(json_real_value(json_object_get(top, "a")) == -0.5);
    json_decref(body);
    joined_free(&j, &a);
}

static void candidates_of_one_text_are_one_key(void **state)
{
    static const uint32_t top[] = {3, 8, 9}; /* 8 and 9 have no text */
    static const float lp[] = {-1, -2, -3};
    struct openai_logprobs one = {1, 3, tokens, logprobs, top, lp};
    struct joined j;
    struct openai_answer *a =
        joined_answer(&j, BODIES_COMPLETION, "\"logprobs\":3");
    json_t *body, *candidates;

    (void)state;
    openai_answer_logprobs(a, 0, &one);
    openai_answer_finish(a, 0, "stop");
    openai_answer_end(a, &usage);
    body = body_of(&j); /* body_of() refuses repeated keys */
    candidates = joined_at(body, "choices.0.logprobs.top_logprobs.0");
    assert_int_equal(json_object_size(candidates), 3); /* d, "", a */
    assert_true(json_number_value(json_object_get(candidates, "")) == -2);
    json_decref(body);
    joined_free(&j, &a);
}

static void logprobs_come_with_their_chunk(void **state)
{
    struct joined j;
    struct openai_answer *a =
        joined_answer(&j, BODIES_CHAT, "\"stream\":true,\"logprobs\":true");

    (void)state;
    openai_answer_logprobs(a, 0, &logs);
    openai_answer_flush(a, 0); /* its text is still held back */
    assert_non_null(strstr(j.out.data, "\"delta\":{\"content\":\"\"}"));
    assert_non_null(strstr(j.out.data, "\"logprobs\":{\"content\":[{"));
    j.out.n = 0;
    give(a, OUTPUT_CONTENT, "a");
    openai_answer_flush(a, 0);
    j.out.data[j.out.n] = '\0';
    assert_non_null(strstr(j.out.data, "\"logprobs\":null"));
    joined_free(&j, &a);
}

/* ---- streams and whole answers ---- */

static uint32_t random_state = 7;

static uint32_t draw(uint32_t n)
{
    random_state = random_state * 1664525 + 1013904223;
    return (random_state >> 8) % n;
}

static const char *const pieces[] = {"a",
                                     "\"",
                                     "\\",
                                     "\n",
                                     "\xc3\xa9",
                                     "",
                                     "\xf0\x9f\x98\x80",
                                     "{}",
                                     "\x01\x1f",
                                     "a longer run of plain text, 40 bytes..",
                                     "\xe2\x80\xa8",
                                     "</think>"};

static void give_both(struct openai_answer *both[2], uint32_t index,
                      enum output_kind kind, uint32_t tool, const char *text)
{
    struct output_event event = {
        .kind = kind, .tool = tool, .text = text, .n = strlen(text)};

    for (int i = 0; i < 2; i++) {
        openai_answer_output(both[i], index, &event);
        if (draw(3) == 0) {
            openai_answer_flush(both[i], index);
        }
    }
}

static void give_random(struct openai_answer *both[2], uint32_t index,
                        uint32_t *tool)
{
    const char *piece = pieces[draw(sizeof pieces / sizeof pieces[0])];

    switch (draw(8)) {
    case 0:
        give_both(both, index, OUTPUT_TOOL_BEGIN, *tool, "f");
        for (uint32_t n = draw(4); n > 0; n--) {
            give_both(both, index, OUTPUT_TOOL_ARGUMENTS, *tool, piece);
        }
        give_both(both, index, OUTPUT_TOOL_END, (*tool)++, "");
        break;
    case 1:
    case 2:
        give_both(both, index, OUTPUT_REASONING, 0, piece);
        break;
    default:
        give_both(both, index, OUTPUT_CONTENT, 0, piece);
        for (int i = 0; i < 2; i++) {
            openai_answer_logprobs(both[i], index, &logs);
        }
        break;
    }
}

static void compare(enum bodies_kind kind, const char *members,
                    const char *streamed)
{
    struct joined whole, stream;
    struct openai_answer *both[2] = {joined_answer(&whole, kind, members),
                                     joined_answer(&stream, kind, streamed)};
    uint32_t tools[2] = {0};
    json_t *a, *b;

    openai_answer_begin(both[1]);
    for (uint32_t n = draw(30); n > 0; n--) {
        uint32_t index = draw(2);

        if (kind == BODIES_CHAT) {
            give_random(both, index, &tools[index]);
        } else {
            give_both(both, index, OUTPUT_CONTENT, 0, pieces[draw(8)]);
        }
    }
    for (int i = 0; i < 2; i++) {
        openai_answer_finish(both[i], 1, "stop");
        openai_answer_finish(both[i], 0, "length");
        openai_answer_end(both[i], &usage);
    }
    a = body_of(&whole);
    b = joined_chunks(&stream);
    if (!json_equal(a, b)) {
        fail_msg("a stream differs: %s", stream.out.data);
    }
    json_decref(a);
    json_decref(b);
    joined_free(&whole, &both[0]);
    joined_free(&stream, &both[1]);
}

static void streams_join_to_the_whole_answer(void **state)
{
    (void)state;
    for (int i = 0; i < 500; i++) {
        compare(BODIES_CHAT, "\"n\":2", "\"n\":2,\"stream\":true");
        compare(BODIES_CHAT, "\"n\":2,\"logprobs\":true",
                "\"n\":2,\"logprobs\":true,\"stream\":true,"
                "\"stream_options\":{\"include_usage\":true}");
        compare(BODIES_COMPLETION, "\"n\":2", "\"n\":2,\"stream\":true");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chat_chunks_have_one_role_and_one_reason),
        cmocka_unit_test(calls_are_streamed_by_the_rules),
        cmocka_unit_test(completions_echo_and_end),
        cmocka_unit_test(continuous_usage_is_in_each_chunk),
        cmocka_unit_test(failed_stream_has_an_error_and_an_end),
        cmocka_unit_test(failed_body_is_the_error),
        cmocka_unit_test(calls_leave_content_null),
        cmocka_unit_test(answers_without_text_are_empty),
        cmocka_unit_test(chat_logprobs_have_bytes),
        cmocka_unit_test(no_candidates_give_empty_lists),
        cmocka_unit_test(completion_logprobs_have_offsets),
        cmocka_unit_test(chosen_tokens_join_their_candidates),
        cmocka_unit_test(candidates_of_one_text_are_one_key),
        cmocka_unit_test(logprobs_come_with_their_chunk),
        cmocka_unit_test(streams_join_to_the_whole_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
