/* The values of requests, and the form of their messages and tools. */
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
    return bodies_parse(OPENAI_CHAT, body);
}

static void refused_chat(const char *messages, const char *param)
{
    char body[4096];

    snprintf(body, sizeof body, "{\"model\":\"m\",\"messages\":[%s]}",
             messages);
    bodies_refused(OPENAI_CHAT, body, param);
}

static void check_messages(const char *messages, const char *expected)
{
    char list[4096];

    snprintf(list, sizeof list, "[%s]", expected);
    bodies_messages(chat(messages, ""), list);
}

/* ---- values ---- */

static void defaults_are_those_of_sampling(void **state)
{
    struct openai_request *r = bodies_with(OPENAI_CHAT, "");
    struct sampling s = sampling_default();

    (void)state;
    assert_string_equal(r->model, "m");
    assert_true(sampling_same(&r->sampling, &s));
    assert_false(r->given.temperature || r->given.top_k || r->has_seed ||
                 r->has_max_tokens || r->stream || r->add_special);
    assert_int_equal(r->n, 1);
    assert_true(r->add_generation_prompt);
    assert_true(r->parallel_tool_calls);
    assert_int_equal(openai_request_choices(r), 1);
    openai_request_free(&r);
    assert_null(r);
}

static void values_reach_sampling(void **state)
{
    struct openai_request *r = bodies_with(
        OPENAI_COMPLETION,
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
    assert_false(r->add_special);
    openai_request_free(&r);
}

static void a_cache_has_a_switch_and_a_salt(void **state)
{
    struct openai_request *r = bodies_with(
        OPENAI_CHAT, "\"cache_prompt\":false,\"cache_salt\":\"blue\"");

    (void)state;
    assert_false(r->cache_prompt);
    assert_int_equal(r->salt.n, 4);
    assert_memory_equal(r->salt.text, "blue", 4);
    openai_request_free(&r);
    r = bodies_with(OPENAI_CHAT, "\"n\":1");
    assert_true(r->cache_prompt);
    assert_int_equal(r->salt.n, 0);
    openai_request_free(&r);
}

static void drafts_are_a_number_of_the_request(void **state)
{
    struct openai_request *r = bodies_with(OPENAI_CHAT, "\"drafts\":8");

    (void)state;
    assert_true(r->has_drafts);
    assert_int_equal(r->drafts, DRAFTS_MAX);
    openai_request_free(&r);
    r = bodies_with(OPENAI_COMPLETION, "\"drafts\":0");
    assert_true(r->has_drafts);
    assert_int_equal(r->drafts, 0);
    openai_request_free(&r);
    r = bodies_with(OPENAI_CHAT, "\"drafts\":null");
    assert_false(r->has_drafts);
    openai_request_free(&r);
    bodies_refused_with(OPENAI_CHAT, "\"drafts\":9", "drafts");
    bodies_refused_with(OPENAI_CHAT, "\"drafts\":-1", "drafts");
    bodies_refused_with(OPENAI_CHAT, "\"drafts\":1.5", "drafts");
    bodies_refused_with(OPENAI_CHAT, "\"drafts\":\"auto\"", "drafts");
}

static void two_limits_of_tokens_must_agree(void **state)
{
    struct openai_request *r = bodies_with(
        OPENAI_CHAT, "\"max_tokens\":7,\"max_completion_tokens\":7");

    (void)state;
    assert_int_equal(r->max_tokens, 7);
    openai_request_free(&r);
    bodies_refused_with(OPENAI_CHAT,
                        "\"max_tokens\":7,\"max_completion_tokens\":8",
                        "max_tokens");
}

static void exact_seeds_survive(void **state)
{
    struct openai_request *r =
        bodies_with(OPENAI_CHAT, "\"seed\":9007199254740993");

    (void)state;
    assert_true(r->sampling.seed == UINT64_C(9007199254740993));
    openai_request_free(&r);
}

static void stream_options_need_stream(void **state)
{
    struct openai_request *r = bodies_with(
        OPENAI_CHAT, "\"stream\":true,\"stream_options\":{\"include_usage\":"
                     "true,\"continuous_usage_stats\":true,"
                     "\"include_obfuscation\":false}");

    (void)state;
    assert_true(r->stream && r->include_usage && r->continuous_usage);
    openai_request_free(&r);
    bodies_refused_with(OPENAI_CHAT, "\"stream_options\":{}", "stream_options");
    bodies_refused_with(OPENAI_CHAT,
                        "\"stream\":true,\"stream_options\":{\"x\":1}",
                        "stream_options.x");
    bodies_refused_with(OPENAI_CHAT,
                        "\"stream\":true,"
                        "\"stream_options\":{\"include_usage\":1}",
                        "stream_options.include_usage");
}

static void unknown_fields_are_refused_by_name(void **state)
{
    (void)state;
    for (int kind = 0; kind < OPENAI_KIND_NR; kind++) {
        bodies_refused_with((enum openai_kind)kind, "\"temprature\":1",
                            "temprature");
        bodies_refused((enum openai_kind)kind, "[]", "");
        bodies_refused((enum openai_kind)kind, "7", "");
        bodies_refused((enum openai_kind)kind, "{}", "model");
        bodies_refused((enum openai_kind)kind, "{\"model\":\"\"}", "model");
    }
    bodies_refused(OPENAI_CHAT, "{\"model\":\"m\"}", "messages");
    bodies_refused(OPENAI_COMPLETION, "{\"model\":\"m\"}", "prompt");
    bodies_refused(OPENAI_CHAT, "{\"model\":\"a\\u0000b\",\"messages\":[]}",
                   "messages");
}

static void schema_formats_are_refused_for_their_reason(void **state)
{
    (void)state;
    bodies_refused_with(OPENAI_CHAT,
                        "\"response_format\":{\"type\":\"json_schema\"}",
                        "response_format.json_schema");
    bodies_refused_with(OPENAI_CHAT,
                        "\"response_format\":{\"type\":\"json_schema\","
                        "\"json_schema\":{\"name\":\"x\",\"schema\":{}}}",
                        "response_format.type");
    bodies_refused_with(OPENAI_CHAT, "\"response_format\":{}",
                        "response_format.type");
}

/* ---- limits ---- */

/* Returns a list of n times the element; to free(). */
static char *list(const char *element, size_t n)
{
    size_t each = strlen(element) + 1;
    char *text = malloc(n * each + 2);

    assert_non_null(text);
    text[0] = '[';
    for (size_t i = 0; i < n; i++) {
        memcpy(text + 1 + i * each, element, each);
        text[(i + 1) * each] = ',';
    }
    text[n * each] = ']';
    text[n * each + 1] = '\0';
    return text;
}

static void check_limit(enum openai_kind kind, const char *field,
                        const char *element, size_t limit)
{
    for (size_t n = limit; n <= limit + 1; n++) {
        char *elements = list(element, n);
        size_t bytes = strlen(elements) + 200;
        char *body = malloc(bytes);
        struct openai_request *r;
        struct openai_error e;

        assert_non_null(body);
        snprintf(body, bytes, "{\"model\":\"m\",\"%s\":%s%s}", field, elements,
                 strcmp(field, "tools") == 0 ? ",\"messages\":[" USER "]"
                 : strcmp(field, "prompt") != 0 && kind == OPENAI_COMPLETION
                     ? ",\"prompt\":\"a\""
                     : "");
        assert_int_equal(
            openai_request_parse(kind, body, strlen(body), NULL, &r, &e),
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
    check_limit(OPENAI_COMPLETION, "prompt", "\"a\"", OPENAI_PROMPTS_MAX);
    check_limit(OPENAI_COMPLETION, "stop", "\"a\"", STOP_STRINGS_MAX);
    check_limit(OPENAI_COMPLETION, "stop_token_ids", "7", STOP_TOKENS_MAX);
    check_limit(OPENAI_CHAT, "messages", USER, OPENAI_MESSAGES_MAX);
    check_limit(OPENAI_RESPONSES, "input", USER, OPENAI_MESSAGES_MAX);
    check_limit(OPENAI_CHAT, "tools",
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
        r = bodies_parse(OPENAI_CHAT, body);
        openai_request_free(&r);
        snprintf(body, sizeof body, "%s%.*s%s", text_limits[i].head, most + 1,
                 text, text_limits[i].tail);
        bodies_refused(OPENAI_CHAT, body, text_limits[i].param);
    }
}

static void choices_of_all_prompts_are_bounded(void **state)
{
    struct openai_request *r =
        bodies_parse(OPENAI_COMPLETION,
                     "{\"model\":\"m\",\"prompt\":[\"a\",\"b\"],\"n\":64}");

    (void)state;
    assert_int_equal(openai_request_choices(r), OPENAI_TOTAL_MAX);
    openai_request_free(&r);
    bodies_refused(OPENAI_COMPLETION,
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
    assert_false(openai_request_parse(OPENAI_COMPLETION, body, strlen(body),
                                      &limits, &r, &e));
    assert_string_equal(e.param, "n");
    limits.n_max = 3;
    assert_true(openai_request_parse(OPENAI_COMPLETION, body, strlen(body),
                                     &limits, &r, &e));
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
            struct openai_request *r = bodies_with(OPENAI_CHAT, members);

            assert_int_equal(r->sampling.n_biases, n);
            openai_request_free(&r);
        } else {
            bodies_refused_with(OPENAI_CHAT, members, "logit_bias");
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
            struct openai_request *r = bodies_with(OPENAI_CHAT, members);

            assert_int_equal(json_object_size(r->template_kwargs), n);
            openai_request_free(&r);
        } else {
            bodies_refused_with(OPENAI_CHAT, members, "chat_template_kwargs");
        }
    }
    bodies_refused_with(OPENAI_CHAT,
                        "\"chat_template_kwargs\":{\"messages\":[]}",
                        "chat_template_kwargs");
}

/* ---- prompts ---- */

static void prompts_have_four_forms(void **state)
{
    struct openai_request *r = bodies_parse(
        OPENAI_COMPLETION, "{\"model\":\"m\",\"prompt\":\"a\\u0000b\"}");

    (void)state;
    assert_int_equal(r->n_prompts, 1);
    assert_int_equal(r->prompts[0].n_text, 3);
    assert_true(r->add_special);
    openai_request_free(&r);
    r = bodies_parse(OPENAI_COMPLETION, "{\"model\":\"m\",\"prompt\":[1,2,3]}");
    assert_int_equal(r->n_prompts, 1);
    assert_int_equal(r->prompts[0].n_ids, 3);
    assert_int_equal(r->prompts[0].ids[2], 3);
    openai_request_free(&r);
    r = bodies_parse(OPENAI_COMPLETION,
                     "{\"model\":\"m\",\"prompt\":[[1],[2,3]]}");
    assert_int_equal(r->n_prompts, 2);
    assert_int_equal(r->prompts[1].ids[1], 3);
    openai_request_free(&r);
    r = bodies_parse(OPENAI_COMPLETION,
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
        bodies_refused(OPENAI_COMPLETION, body, rows[i].param);
    }
}

static void echo_excludes_logprobs(void **state)
{
    struct openai_request *r = bodies_with(OPENAI_COMPLETION, "\"echo\":true");

    (void)state;
    assert_true(r->echo);
    openai_request_free(&r);
    bodies_refused_with(OPENAI_COMPLETION, "\"echo\":true,\"logprobs\":0",
                        "logprobs");
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
            char *ones = list("1", call == 0 ? half - 2 : half - 1 + over);

            at += (size_t)snprintf(
                body + at, bytes - at,
                "%s{\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":"
                "\"{\\\"x\\\":%s}\"}}",
                call > 0 ? "," : "", ones);
            free(ones);
        }
        snprintf(body + at, bytes - at, "]}]}");
        assert_int_equal(
            openai_request_parse(OPENAI_CHAT, body, strlen(body), NULL, &r, &e),
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
    struct openai_request *r = bodies_with(OPENAI_CHAT, TOOL);

    (void)state;
    assert_int_equal(json_array_size(r->tools), 1);
    openai_request_drop_input(r);
    assert_null(r->messages);
    assert_int_equal(json_array_size(r->tools), 1);
    openai_request_free(&r);
    r = bodies_with(OPENAI_CHAT, TOOL ",\"tool_choice\":\"none\","
                                      "\"parallel_tool_calls\":false");
    assert_null(r->tools);
    assert_false(r->parallel_tool_calls);
    openai_request_free(&r);
}

static void wrong_tools_are_named(void **state)
{
    static const struct {
        const char *tool, *param;
    } rows[] = {
        {"7", "tools[0]"},
        {"{\"type\":\"custom\"}", "tools[0].type"},
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
        bodies_refused_with(OPENAI_CHAT, members, rows[i].param);
    }
    bodies_refused_with(OPENAI_CHAT,
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
    assert_true(r->continue_final_message);
    assert_false(r->add_generation_prompt);
    openai_request_free(&r);
    bodies_refused_with(OPENAI_CHAT, "\"continue_final_message\":true",
                        "continue_final_message");
    bodies_refused(OPENAI_CHAT,
                   "{\"model\":\"m\",\"messages\":[{\"role\":\"assistant\","
                   "\"content\":\"b\"}],\"continue_final_message\":true,"
                   "\"add_generation_prompt\":true}",
                   "add_generation_prompt");
}

static void efforts_become_template_variables(void **state)
{
    struct openai_request *r =
        bodies_with(OPENAI_CHAT, "\"reasoning_effort\":\"none\"");
    json_t *v = r->template_kwargs;

    (void)state;
    assert_string_equal(
        json_string_value(json_object_get(v, "reasoning_effort")), "none");
    assert_true(json_is_false(json_object_get(v, "enable_thinking")));
    openai_request_free(&r);
    r = bodies_with(OPENAI_CHAT,
                    "\"reasoning_effort\":\"none\","
                    "\"chat_template_kwargs\":{\"enable_thinking\":true}");
    v = r->template_kwargs;
    assert_true(json_is_true(json_object_get(v, "enable_thinking")));
    openai_request_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_sampling),
        cmocka_unit_test(values_reach_sampling),
        cmocka_unit_test(a_cache_has_a_switch_and_a_salt),
        cmocka_unit_test(drafts_are_a_number_of_the_request),
        cmocka_unit_test(two_limits_of_tokens_must_agree),
        cmocka_unit_test(exact_seeds_survive),
        cmocka_unit_test(stream_options_need_stream),
        cmocka_unit_test(unknown_fields_are_refused_by_name),
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
