/* Every field of OpenAI's schemas with every kind of value: the request is
 * accepted, or refused with a 4xx that names the field. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bodies.h"
#include "gateway/openai/request_parse.h"
#include "tests/unit/cmocka.h"

#define FIELDS "tests/vectors/openai/fields.txt"

/* Wrong types, edges of integers and floats, and the values of other fields. */
static const char *const values[] = {
    "null",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "2",
    "3",
    "5",
    "20",
    "21",
    "64",
    "65",
    "128",
    "129",
    "0.5",
    "1.5",
    "-2",
    "2.0",
    "2.5",
    "100",
    "101",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "-9223372036854775809",
    "123456789012345678901234567890",
    "1e308",
    "-1e308",
    "1e-320",
    "\"\"",
    "\"7\"",
    "\"auto\"",
    "\"none\"",
    "\"required\"",
    "\"high\"",
    "\"text\"",
    "\"a\\u0000b\"",
    "[]",
    "[[]]",
    "[null]",
    "[1]",
    "[-1]",
    "[1.5]",
    "[1048576]",
    "[4294967296]",
    "[\"\"]",
    "[\"a\"]",
    "[\"a\",1]",
    "[1,\"a\"]",
    "[[1],[2]]",
    "[[1],\"a\"]",
    "[[[1]]]",
    "[true]",
    "[{}]",
    "[{\"role\":\"user\"}]",
    "[{\"role\":7,\"content\":\"a\"}]",
    "[{\"role\":\"user\",\"content\":[{}]}]",
    "[{\"type\":\"function\"}]",
    "[{\"type\":\"message\"}]",
    "[{\"type\":7}]",
    "{}",
    "{\"type\":\"text\"}",
    "{\"type\":\"json_object\"}",
    "{\"type\":\"json_schema\"}",
    "{\"type\":\"function\",\"function\":{\"name\":\"f\"}}",
    "{\"1\":1}",
    "{\"1\":101}",
    "{\"1\":null}",
    "{\"-1\":1}",
    "{\"a\":\"b\"}",
    "{\"include_usage\":true}",
    "{\"effort\":\"low\"}",
    "{\"effort\":7}",
    "{\"format\":{\"type\":\"text\"}}",
    "{\"format\":7}"};

static enum bodies_kind kind_of(const char *name)
{
    return strcmp(name, "completion") == 0 ? BODIES_COMPLETION
           : strcmp(name, "chat") == 0     ? BODIES_CHAT
                                           : BODIES_RESPONSES;
}

/* Returns whether the error's place is the field or within it. */
static bool names(const struct openai_error *e, const char *field)
{
    size_t n = strlen(field);

    return strncmp(e->param, field, n) == 0 &&
           strchr(".[", e->param[n]) != NULL; /* or the end */
}

static bool parse(enum bodies_kind kind, json_t *body, const char *field)
{
    char *text = json_dumps(body, JSON_ENCODE_ANY);
    struct openai_request *r;
    struct openai_error e;
    bool fine;

    assert_non_null(text);
    fine = openai_request_parse(bodies_parser(kind), text, strlen(text), NULL,
                                &r, &e);
    if (!fine && (e.http < 400 || e.http > 499 || e.message[0] == '\0' ||
                  !names(&e, field))) {
        fail_msg("%s: %d names '%s': %s", text, e.http, e.param, e.message);
    }
    openai_request_free(&r);
    free(text);
    return fine;
}

/* Puts the value's text into the body, as numbers must stay as written. */
static void try_value(enum bodies_kind kind, const char *field,
                      const char *value)
{
    json_t *body = bodies_least(kind);
    struct openai_request *r;
    struct openai_error e;
    char text[1024];
    char *rest;

    json_object_del(body, field);
    rest = json_dumps(body, JSON_COMPACT);
    snprintf(text, sizeof text, "{\"%s\":%s,%s", field, value, rest + 1);
    if (!openai_request_parse(bodies_parser(kind), text, strlen(text), NULL, &r,
                              &e) &&
        (e.http != 400 || !names(&e, field) ||
         strcmp(e.type, "invalid_request_error") != 0)) {
        fail_msg("%s: %d names '%s': %s", text, e.http, e.param, e.message);
    }
    openai_request_free(&r);
    free(rest);
    json_decref(body);
}

static void try_field(const char *line)
{
    char endpoint[32], field[64], need[16], types[64];
    enum bodies_kind kind;
    json_t *body;

    assert_int_equal(
        sscanf(line, "%31s %63s %15s %63s", endpoint, field, need, types), 4);
    kind = kind_of(endpoint);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        try_value(kind, field, values[i]);
    }
    body = bodies_least(kind);
    json_object_del(body, field);
    /* Without a field that the schema requires there is no request. */
    if (parse(kind, body, field)) {
        assert_string_equal(need, "optional");
    }
    /* null is an absent field. */
    json_object_set_new(body, field, json_null());
    (void)parse(kind, body, field);
    json_decref(body);
}

static void each_field_takes_each_value_or_is_named(void **state)
{
    char line[256];
    FILE *f = fopen(FIELDS, "r");
    int n = 0;

    (void)state;
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL) {
        try_field(line);
        n++;
    }
    fclose(f);
    assert_int_equal(n, 86);
}

struct edge {
    enum bodies_kind kind;
    const char *field, *fine, *beyond;
};

#define T BODIES_COMPLETION
#define C BODIES_CHAT
#define R BODIES_RESPONSES

static const struct edge edges[] = {
    {T, "temperature", "0", "-0.01"},
    {T, "temperature", "100", "100.1"},
    {T, "top_p", "0", "-0.1"},
    {T, "top_p", "1", "1.01"},
    {T, "min_p", "1", "1.01"},
    {T, "top_k", "-1", "-2"},
    {T, "top_k", "4294967295", "4294967296"},
    {T, "draw_index", "4294967295", "4294967296"},
    {T, "draw_choice", "0", "4294967296"},
    {T, "repetition_penalty", "0.01", "0.009"},
    {T, "repetition_penalty", "100", "100.1"},
    {T, "presence_penalty", "-2", "-2.1"},
    {T, "frequency_penalty", "2", "2.1"},
    {T, "n", "1", "0"},
    {T, "n", "64", "65"},
    {T, "max_tokens", "0", "-1"},
    {T, "max_tokens", "4194304", "4194305"},
    {C, "max_completion_tokens", "4194304", "4194305"},
    {R, "max_output_tokens", "4194304", "4194305"},
    {T, "seed", "9223372036854775807", "9223372036854775808"},
    {T, "seed", "-9223372036854775808", "-9223372036854775809"},
    {T, "logprobs", "20", "21"},
    {T, "logprobs", "0", "-1"},
    {C, "top_logprobs", "0", "1"}, /* without logprobs */
    {R, "top_logprobs", "20", "21"},
    {T, "best_of", "1", "2"},
    {T, "logit_bias", "{\"0\":-100}", "{\"0\":-100.5}"},
    {T, "logit_bias", "{\"1048575\":100}", "{\"1048576\":100}"},
    {T, "logit_bias", "{\"7\":1}", "{\"07\":1}"},
    {T, "stop_token_ids", "[1048575]", "[1048576]"},
    {T, "stop", "[]", "[\"\"]"},
    {T, "suffix", "\"\"", "\"a\""},
    {C, "modalities", "[\"text\"]", "[\"text\",\"audio\"]"},
    {C, "reasoning_effort", "\"max\"", "\"most\""},
    {C, "tool_choice", "\"auto\"", "\"required\""},
    {C, "tool_choice", "null", "\"any\""},
    {C, "tools", "[{\"type\":\"custom\"}]", "[{\"type\":7}]"},
    {C, "response_format", "{\"type\":\"text\"}", "{\"type\":\"json_object\"}"},
    {C, "stream_options", "null", "{\"include_usage\":true}"},
    {C, "functions", "[]", "[{\"name\":\"f\"}]"},
    {R, "truncation", "\"disabled\"", "\"auto\""},
    {R, "background", "false", "true"},
    {R, "store", "true", NULL},
    {R, "previous_response_id", "null", "\"resp_1\""},
    {R, "include", "[\"message.output_text.logprobs\"]",
     "[\"file_search_call.results\"]"},
    {T, "min_tokens", "0", "1"},
    {T, "include_stop_str_in_output", "false", "true"},
    {T, "guided_json", "null", "{}"},
    {C, "structured_outputs", "null", "{\"json\":{}}"},
    {C, "chat_template", "null", "\"{{ messages }}\""},
    {C, "chat_template_kwargs", "{\"enable_thinking\":false}",
     "{\"bos_token\":\"a\"}"},
    {C, "prediction", "{\"type\":\"content\",\"content\":\"a\"}", NULL},
    {C, "audio", "null", "{\"voice\":\"alloy\",\"format\":\"mp3\"}"},
    {C, "thinking_token_budget", "null", "10"},
};

static void edges_are_accepted_and_one_past_is_not(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
        const struct edge *e = &edges[i];
        char members[256];
        struct openai_request *r;
        struct openai_error error;
        json_t *body;
        char *text;

        snprintf(members, sizeof members, "\"%s\":%s", e->field, e->fine);
        r = bodies_with(e->kind, members);
        openai_request_free(&r);
        if (e->beyond == NULL) {
            continue;
        }
        body = bodies_least(e->kind);
        text = json_dumps(body, JSON_COMPACT);
        snprintf(members, sizeof members, "{\"%s\":%s,%s", e->field, e->beyond,
                 text + 1);
        assert_false(openai_request_parse(bodies_parser(e->kind), members,
                                          strlen(members), NULL, &r, &error));
        if (!names(&error, e->field)) {
            fail_msg("%s names '%s'", members, error.param);
        }
        free(text);
        json_decref(body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_field_takes_each_value_or_is_named),
        cmocka_unit_test(edges_are_accepted_and_one_past_is_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
