/* The values and prompts of requests. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/openai/request_parse.h"

#include "bodies.h"
#include "gateway/openai/messages.h"
#include "tests/unit/cmocka.h"

#define USER "{\"role\":\"user\",\"content\":\"a\"}"

/* ---- values ---- */

static void defaults_are_those_of_sampling(void **state)
{
    struct openai_request *r = bodies_with(BODIES_CHAT, "");
    struct sampling s = sampling_default();

    (void)state;
    assert_string_equal(r->model, "m");
    assert_true(sampling_same(&r->sampling, &s));
    assert_false(r->given.temperature || r->given.top_k || r->has_seed ||
                 r->has_max_tokens || r->stream || r->template.add_special);
    assert_int_equal(r->n, 1);
    assert_true(r->template.add_generation_prompt);
    assert_true(r->template.parallel_tool_calls);
    assert_int_equal(openai_request_choices(r), 1);
    openai_request_free(&r);
    assert_null(r);
}

static void values_reach_sampling(void **state)
{
    struct openai_request *r = bodies_with(
        BODIES_COMPLETION,
        "\"temperature\":0.5,\"top_k\":40,\"top_p\":0,\"seed\":-1,"
        "\"max_tokens\":7,\"n\":3,\"stop\":[\"x\",\"yz\"],\"ignore_eos\":true,"
        "\"stop_token_ids\":[9,2,9],\"logit_bias\":{\"12\":-100,\"3\":1.5},"
        "\"logprobs\":5,\"skip_special_tokens\":false,"
        "\"add_special_tokens\":false");
    const struct sampling *s = &r->sampling;

    (void)state;
    assert_true(s->temperature == 0.5f && r->given.temperature);
    assert_int_equal(s->top_k, 40);
    assert_true(s->top_p > 0 && s->top_p < 1e-30f);
    assert_true(s->seed == UINT64_MAX && r->has_seed);
    assert_int_equal(r->max_tokens, 7);
    assert_int_equal(openai_request_choices(r), 3);
    assert_int_equal(r->n_stops, 2);
    assert_memory_equal(r->stops[1].text, "yz", 2);
    assert_int_equal(s->n_stop_tokens, 2);
    assert_int_equal(s->stop_tokens[0], 2);
    assert_int_equal(s->stop_tokens[1], 9);
    assert_int_equal(s->n_biases, 2);
    assert_int_equal(s->bias_tokens[0], 3);
    assert_true(s->biases[0] == 1.5f && s->biases[1] == -100);
    assert_true(s->logprobs && s->ignore_eos);
    assert_int_equal(s->n_top_logprobs, 5);
    assert_true(r->keep_special);
    assert_false(r->template.add_special);
    openai_request_free(&r);
}

static void a_cache_has_a_switch_and_a_salt(void **state)
{
    struct openai_request *r = bodies_with(
        BODIES_CHAT, "\"cache_prompt\":false,\"cache_salt\":\"blue\"");

    (void)state;
    assert_false(r->cache_prompt);
    assert_int_equal(r->salt.n, 4);
    assert_memory_equal(r->salt.text, "blue", 4);
    openai_request_free(&r);
    r = bodies_with(BODIES_CHAT, "\"n\":1");
    assert_true(r->cache_prompt);
    assert_int_equal(r->salt.n, 0);
    openai_request_free(&r);
}

static void drafts_are_a_number_of_the_request(void **state)
{
    struct openai_request *r = bodies_with(BODIES_CHAT, "\"drafts\":8");

    (void)state;
    assert_true(r->drafts.given);
    assert_int_equal(r->drafts.n, DRAFTS_MAX);
    openai_request_free(&r);
    r = bodies_with(BODIES_COMPLETION, "\"drafts\":0");
    assert_true(r->drafts.given);
    assert_int_equal(r->drafts.n, 0);
    openai_request_free(&r);
    r = bodies_with(BODIES_CHAT, "\"drafts\":null");
    assert_false(r->drafts.given);
    openai_request_free(&r);
    bodies_refused_with(BODIES_CHAT, "\"drafts\":9", "drafts");
    bodies_refused_with(BODIES_CHAT, "\"drafts\":-1", "drafts");
    bodies_refused_with(BODIES_CHAT, "\"drafts\":1.5", "drafts");
    bodies_refused_with(BODIES_CHAT, "\"drafts\":\"auto\"", "drafts");
}

static void a_timeout_is_in_seconds(void **state)
{
    struct openai_request *r = bodies_with(BODIES_CHAT, "\"timeout\":0.5");

    (void)state;
    assert_int_equal(r->timeout_ms, 500);
    openai_request_free(&r);
    r = bodies_with(BODIES_RESPONSES, "\"timeout\":86400");
    assert_int_equal(r->timeout_ms, 86400000);
    openai_request_free(&r);
    r = bodies_with(BODIES_COMPLETION, "\"timeout\":null");
    assert_int_equal(r->timeout_ms, 0);
    openai_request_free(&r);
    bodies_refused_with(BODIES_CHAT, "\"timeout\":86401", "timeout");
    bodies_refused_with(BODIES_CHAT, "\"timeout\":0", "timeout");
    bodies_refused_with(BODIES_CHAT, "\"timeout\":-1", "timeout");
    bodies_refused_with(BODIES_CHAT, "\"timeout\":\"9\"", "timeout");
}

static void takes_tier(const char *member, enum openai_tier tier, bool shows)
{
    struct openai_request *r = bodies_with(BODIES_CHAT, member);

    assert_int_equal(r->turn.tier, tier);
    assert_int_equal(r->turn.shows_tier, shows);
    openai_request_free(&r);
}

static void a_tier_has_a_name_or_a_number(void **state)
{
    (void)state;
    takes_tier("\"service_tier\":null", OPENAI_TIER_DEFAULT, false);
    takes_tier("\"service_tier\":\"auto\"", OPENAI_TIER_DEFAULT, true);
    takes_tier("\"service_tier\":\"default\"", OPENAI_TIER_DEFAULT, true);
    takes_tier("\"service_tier\":\"flex\"", OPENAI_TIER_FLEX, true);
    takes_tier("\"service_tier\":\"priority\"", OPENAI_TIER_PRIORITY, true);
    takes_tier("\"priority\":0", OPENAI_TIER_DEFAULT, false);
    takes_tier("\"priority\":-3", OPENAI_TIER_PRIORITY, false);
    takes_tier("\"priority\":1", OPENAI_TIER_FLEX, false);
    bodies_refused_with(BODIES_CHAT, "\"service_tier\":\"gold\"",
                        "service_tier");
    bodies_refused_with(BODIES_RESPONSES, "\"service_tier\":1", "service_tier");
    bodies_refused_with(BODIES_COMPLETION, "\"priority\":1.5", "priority");
}

static void two_limits_of_tokens_must_agree(void **state)
{
    struct openai_request *r = bodies_with(
        BODIES_CHAT, "\"max_tokens\":7,\"max_completion_tokens\":7");

    (void)state;
    assert_int_equal(r->max_tokens, 7);
    openai_request_free(&r);
    bodies_refused_with(BODIES_CHAT,
                        "\"max_tokens\":7,\"max_completion_tokens\":8",
                        "max_tokens");
}

static void exact_seeds_survive(void **state)
{
    struct openai_request *r =
        bodies_with(BODIES_CHAT, "\"seed\":9007199254740993");

    (void)state;
    assert_true(r->sampling.seed == UINT64_C(9007199254740993));
    openai_request_free(&r);
}

static void stream_options_need_stream(void **state)
{
    struct openai_request *r = bodies_with(
        BODIES_CHAT, "\"stream\":true,\"stream_options\":{\"include_usage\":"
                     "true,\"continuous_usage_stats\":true,"
                     "\"include_obfuscation\":false}");

    (void)state;
    assert_true(r->stream && r->include_usage && r->continuous_usage);
    openai_request_free(&r);
    r = bodies_with(BODIES_CHAT, "\"stream_options\":{}");
    openai_request_free(&r);
    bodies_refused_with(BODIES_CHAT,
                        "\"stream_options\":{\"include_usage\":true}",
                        "stream_options");
    r = bodies_with(BODIES_CHAT,
                    "\"stream\":true,\"stream_options\":{\"x\":1}");
    assert_string_equal(r->values.ignored.names, "stream_options.x");
    openai_request_free(&r);
    bodies_refused_with(BODIES_CHAT,
                        "\"stream\":true,"
                        "\"stream_options\":{\"include_usage\":1}",
                        "stream_options.include_usage");
}

static void unknown_fields_are_ignored_by_name(void **state)
{
    (void)state;
    for (int kind = 0; kind < BODIES_NR; kind++) {
        struct openai_request *r =
            bodies_with((enum bodies_kind)kind, "\"temprature\":1");

        assert_string_equal(r->values.ignored.names, "temprature");
        openai_request_free(&r);
    }
}

static void bodies_without_their_fields_are_refused(void **state)
{
    (void)state;
    for (int kind = 0; kind < BODIES_NR; kind++) {
        bodies_refused((enum bodies_kind)kind, "[]", "");
        bodies_refused((enum bodies_kind)kind, "7", "");
        bodies_refused((enum bodies_kind)kind, "{}",
                       kind == BODIES_TOKENIZE     ? "prompt"
                       : kind == BODIES_DETOKENIZE ? "tokens"
                                                   : "model");
        bodies_refused((enum bodies_kind)kind, "{\"model\":\"\"}", "model");
    }
    bodies_refused(BODIES_CHAT, "{\"model\":\"m\"}", "messages");
    bodies_refused(BODIES_COMPLETION, "{\"model\":\"m\"}", "prompt");
    bodies_refused(BODIES_CHAT, "{\"model\":\"a\\u0000b\",\"messages\":[]}",
                   "messages");
}

static void schema_formats_are_refused_for_their_reason(void **state)
{
    (void)state;
    bodies_refused_with(BODIES_CHAT,
                        "\"response_format\":{\"type\":\"json_schema\"}",
                        "response_format.json_schema");
    bodies_refused_with(BODIES_CHAT,
                        "\"response_format\":{\"type\":\"json_schema\","
                        "\"json_schema\":{\"name\":\"x\",\"schema\":{}}}",
                        "response_format.type");
    bodies_refused_with(BODIES_CHAT, "\"response_format\":{}",
                        "response_format.type");
}

/* ---- limits ---- */

static void check_limit(enum bodies_kind kind, const char *field,
                        const char *element, size_t limit)
{
    for (size_t n = limit; n <= limit + 1; n++) {
        char *elements = bodies_list(element, n);
        size_t bytes = strlen(elements) + 200;
        char *body = malloc(bytes);
        struct openai_request *r;
        struct openai_error e;

        assert_non_null(body);
        snprintf(body, bytes, "{\"model\":\"m\",\"%s\":%s%s}", field, elements,
                 strcmp(field, "tools") == 0 ? ",\"messages\":[" USER "]"
                 : strcmp(field, "prompt") != 0 && kind == BODIES_COMPLETION
                     ? ",\"prompt\":\"a\""
                     : "");
        assert_int_equal(openai_request_parse(bodies_parser(kind), body,
                                              strlen(body), NULL, &r, &e),
                         n == limit);
        assert_true(n == limit || strcmp(e.param, field) == 0);
        openai_request_free(&r);
        free(body);
        free(elements);
    }
}

static void lists_have_limits(void **state)
{
    (void)state;
    check_limit(BODIES_COMPLETION, "prompt", "\"a\"", OPENAI_PROMPTS_MAX);
    check_limit(BODIES_COMPLETION, "stop", "\"a\"", STOP_STRINGS_MAX);
    check_limit(BODIES_COMPLETION, "stop_token_ids", "7", STOP_TOKENS_MAX);
    check_limit(BODIES_CHAT, "messages", USER, OPENAI_MESSAGES_MAX);
    check_limit(BODIES_RESPONSES, "input", USER, OPENAI_MESSAGES_MAX);
    check_limit(BODIES_CHAT, "tools",
                "{\"type\":\"function\",\"function\":{\"name\":\"f\"}}",
                OPENAI_TOOLS_MAX);
}

/* A body is head, a text of the limit's length or one byte more, and tail. */
static const struct {
    size_t most;
    const char *head, *tail, *param;
} text_limits[] = {
    {MODEL_NAME_MAX, "{\"model\":\"", "\",\"messages\":[" USER "]}", "model"},
    {STOP_STRING_BYTES_MAX,
     "{\"model\":\"m\",\"messages\":[" USER "],\"stop\":\"", "\"}", "stop"},
    {CACHE_SALT_MAX,
     "{\"model\":\"m\",\"messages\":[" USER "],\"cache_salt\":\"", "\"}",
     "cache_salt"},
    {OPENAI_NAME_MAX,
     "{\"model\":\"m\",\"messages\":[" USER "],\"tools\":[{\"type\":"
     "\"function\",\"function\":{\"name\":\"",
     "\"}}]}", "tools[0].function.name"},
    {OPENAI_CALL_ID_MAX,
     "{\"model\":\"m\",\"messages\":[{\"role\":\"tool\",\"content\":\"a\","
     "\"tool_call_id\":\"",
     "\"}]}", "messages[0].tool_call_id"},
};

static void text_limits_hold(void **state)
{
    char text[STOP_STRING_BYTES_MAX + 1], body[600];

    (void)state;
    memset(text, 'a', sizeof text);
    for (size_t i = 0; i < sizeof text_limits / sizeof text_limits[0]; i++) {
        int most = (int)text_limits[i].most;
        struct openai_request *r;

        snprintf(body, sizeof body, "%s%.*s%s", text_limits[i].head, most, text,
                 text_limits[i].tail);
        r = bodies_parse(BODIES_CHAT, body);
        openai_request_free(&r);
        snprintf(body, sizeof body, "%s%.*s%s", text_limits[i].head, most + 1,
                 text, text_limits[i].tail);
        bodies_refused(BODIES_CHAT, body, text_limits[i].param);
    }
}

static void choices_of_all_prompts_are_bounded(void **state)
{
    struct openai_request *r =
        bodies_parse(BODIES_COMPLETION,
                     "{\"model\":\"m\",\"prompt\":[\"a\",\"b\"],\"n\":64}");

    (void)state;
    assert_int_equal(openai_request_choices(r), OPENAI_TOTAL_MAX);
    openai_request_free(&r);
    bodies_refused(BODIES_COMPLETION,
                   "{\"model\":\"m\",\"prompt\":[\"a\",\"b\",\"c\"],\"n\":43}",
                   "n");
}

static void operators_may_lower_limits(void **state)
{
    static const char body[] = "{\"model\":\"m\",\"prompt\":\"a\",\"n\":3}";
    struct openai_limits limits = {.n_max = 2};
    struct openai_request *r;
    struct openai_error e;

    (void)state;
    assert_false(openai_request_parse(bodies_parser(BODIES_COMPLETION), body,
                                      strlen(body), &limits, &r, &e));
    assert_string_equal(e.param, "n");
    limits.n_max = 3;
    assert_true(openai_request_parse(bodies_parser(BODIES_COMPLETION), body,
                                     strlen(body), &limits, &r, &e));
    openai_request_free(&r);
}

static void biases_are_bounded(void **state)
{
    (void)state;
    for (int n = LOGIT_BIASES_MAX; n <= LOGIT_BIASES_MAX + 1; n++) {
        char members[20000] = "\"logit_bias\":{";
        size_t at = strlen(members);

        for (int i = 0; i < n; i++) {
            at += (size_t)snprintf(members + at, sizeof members - at,
                                   "%s\"%d\":1", i > 0 ? "," : "", i);
        }
        snprintf(members + at, sizeof members - at, "}");
        if (n == LOGIT_BIASES_MAX) {
            struct openai_request *r = bodies_with(BODIES_CHAT, members);

            assert_int_equal(r->sampling.n_biases, n);
            openai_request_free(&r);
        } else {
            bodies_refused_with(BODIES_CHAT, members, "logit_bias");
        }
    }
}

static void template_variables_are_bounded_and_some_are_reserved(void **state)
{
    (void)state;
    for (int n = OPENAI_KWARGS_MAX; n <= OPENAI_KWARGS_MAX + 1; n++) {
        char members[1000] = "\"chat_template_kwargs\":{";
        size_t at = strlen(members);

        for (int i = 0; i < n; i++) {
            at += (size_t)snprintf(members + at, sizeof members - at,
                                   "%s\"v%d\":1", i > 0 ? "," : "", i);
        }
        snprintf(members + at, sizeof members - at, "}");
        if (n == OPENAI_KWARGS_MAX) {
            struct openai_request *r = bodies_with(BODIES_CHAT, members);

            assert_int_equal(json_object_size(r->template.kwargs), n);
            openai_request_free(&r);
        } else {
            bodies_refused_with(BODIES_CHAT, members, "chat_template_kwargs");
        }
    }
    bodies_refused_with(BODIES_CHAT,
                        "\"chat_template_kwargs\":{\"messages\":[]}",
                        "chat_template_kwargs");
}

/* ---- prompts ---- */

static void prompts_have_four_forms(void **state)
{
    struct openai_request *r = bodies_parse(
        BODIES_COMPLETION, "{\"model\":\"m\",\"prompt\":\"a\\u0000b\"}");

    (void)state;
    assert_int_equal(r->n_prompts, 1);
    assert_int_equal(r->prompts[0].n_text, 3);
    assert_true(r->template.add_special);
    openai_request_free(&r);
    r = bodies_parse(BODIES_COMPLETION, "{\"model\":\"m\",\"prompt\":[1,2,3]}");
    assert_int_equal(r->n_prompts, 1);
    assert_int_equal(r->prompts[0].n_ids, 3);
    assert_int_equal(r->prompts[0].ids[2], 3);
    openai_request_free(&r);
    r = bodies_parse(BODIES_COMPLETION,
                     "{\"model\":\"m\",\"prompt\":[[1],[2,3]]}");
    assert_int_equal(r->n_prompts, 2);
    assert_int_equal(r->prompts[1].ids[1], 3);
    openai_request_free(&r);
    r = bodies_parse(BODIES_COMPLETION,
                     "{\"model\":\"m\",\"prompt\":[\"a\",\"bc\"]}");
    assert_string_equal(r->prompts[1].text, "bc");
    openai_request_drop_input(r);
    assert_null(r->prompts);
    assert_int_equal(openai_request_choices(r), 2);
    assert_string_equal(r->model, "m");
    openai_request_free(&r);
}

static void prompts_without_text_are_refused(void **state)
{
    static const struct {
        const char *value, *param;
    } rows[] = {{"[]", "prompt"},
                {"\"\"", "prompt"},
                {"[\"a\",\"\"]", "prompt[1]"},
                {"[[]]", "prompt[0]"},
                {"[1,\"a\"]", "prompt[1]"},
                {"[\"a\",1]", "prompt[1]"},
                {"[[1],[1048576]]", "prompt[1][0]"},
                {"{}", "prompt"},
                {"[[1.5]]", "prompt[0][0]"}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char body[200];

        snprintf(body, sizeof body, "{\"model\":\"m\",\"prompt\":%s}",
                 rows[i].value);
        bodies_refused(BODIES_COMPLETION, body, rows[i].param);
    }
}

static void echo_excludes_logprobs(void **state)
{
    struct openai_request *r = bodies_with(BODIES_COMPLETION, "\"echo\":true");

    (void)state;
    assert_true(r->echo);
    openai_request_free(&r);
    bodies_refused_with(BODIES_COMPLETION, "\"echo\":true,\"logprobs\":0",
                        "logprobs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_sampling),
        cmocka_unit_test(values_reach_sampling),
        cmocka_unit_test(a_cache_has_a_switch_and_a_salt),
        cmocka_unit_test(drafts_are_a_number_of_the_request),
        cmocka_unit_test(a_timeout_is_in_seconds),
        cmocka_unit_test(a_tier_has_a_name_or_a_number),
        cmocka_unit_test(two_limits_of_tokens_must_agree),
        cmocka_unit_test(exact_seeds_survive),
        cmocka_unit_test(stream_options_need_stream),
        cmocka_unit_test(unknown_fields_are_ignored_by_name),
        cmocka_unit_test(bodies_without_their_fields_are_refused),
        cmocka_unit_test(schema_formats_are_refused_for_their_reason),
        cmocka_unit_test(lists_have_limits),
        cmocka_unit_test(text_limits_hold),
        cmocka_unit_test(choices_of_all_prompts_are_bounded),
        cmocka_unit_test(operators_may_lower_limits),
        cmocka_unit_test(biases_are_bounded),
        cmocka_unit_test(template_variables_are_bounded_and_some_are_reserved),
        cmocka_unit_test(prompts_have_four_forms),
        cmocka_unit_test(prompts_without_text_are_refused),
        cmocka_unit_test(echo_excludes_logprobs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
