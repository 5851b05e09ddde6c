/* Fields that real clients send: none breaks a request, unless it would change
 * the answer and cannot be honoured; then the refusal names it.  A field that
 * is ignored is named too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bodies.h"
#include "gateway/openai/request_parse.h"
#include "tests/unit/cmocka.h"

#define PAIRS "tests/vectors/openai/wild.txt"

/* Parses the least chat with one more member. */
static bool parse(const char *field, const char *value, bool refuse_unknown,
                  struct openai_request **r, struct openai_error *e)
{
    const struct openai_limits limits = {.refuse_unknown = refuse_unknown};
    char body[1024];

    snprintf(body, sizeof body,
             "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":"
             "\"a\"}],\"%s\":%s}",
             field, value);
    return openai_request_parse(bodies_parser(BODIES_CHAT), body, strlen(body),
                                &limits, r, e);
}

static void is_refused(const char *field, const char *value)
{
    struct openai_request *r;
    struct openai_error e;

    if (parse(field, value, false, &r, &e)) {
        fail_msg("%s: %s is accepted", field, value);
    }
    assert_int_equal(e.http, 400);
    if (strncmp(e.param, field, strlen(field)) != 0 ||
        strstr(e.message, field) == NULL) {
        fail_msg("%s: %s: '%s' in: %s", field, value, e.param, e.message);
    }
}

/* ignored: the name of what the server does not use; "": it uses all. */
static void is_accepted(const char *field, const char *value,
                        const char *ignored)
{
    struct openai_request *r;
    struct openai_error e;

    if (!parse(field, value, false, &r, &e)) {
        fail_msg("%s: %s: %s", field, value, e.message);
    }
    if (strcmp(r->values.ignored.names, ignored) != 0) {
        fail_msg("%s: %s: ignores '%s'", field, value, r->values.ignored.names);
    }
    assert_int_equal(r->values.ignored.n, ignored[0] != '\0');
    openai_request_free(&r);
}

/* --unknown-fields refuse names the same places. */
static void is_strict(const char *field, const char *value, const char *ignored)
{
    struct openai_request *r;
    struct openai_error e;
    bool fine = parse(field, value, true, &r, &e);

    /* An unknown name is refused there even if it is null. */
    if (strcmp(value, "null") != 0 && fine != (ignored[0] == '\0')) {
        fail_msg("%s: %s: accepted: %d", field, value, fine);
    }
    if (!fine && strncmp(e.param, field, strlen(field)) != 0) {
        fail_msg("%s: %s names %s", field, value, e.param);
    }
    openai_request_free(&r);
}

static void try_pair(char *line)
{
    char field[64], fate[96];
    int at = 0;
    char *value, *ignored;

    line[strcspn(line, "\n")] = '\0';
    assert_int_equal(sscanf(line, "%63s %95s %n", field, fate, &at), 2);
    value = line + at;
    if (strcmp(fate, "refused") == 0) {
        is_refused(field, value);
        return;
    }
    ignored = strcmp(fate, "read") == 0 ? fate + strlen(fate)
                                        : fate + strlen("ignored:");
    is_accepted(field, value, ignored);
    is_strict(field, value, ignored);
}

static void each_pair_has_its_fate(void **state)
{
    char line[1024];
    FILE *f = fopen(PAIRS, "r");
    int n = 0;

    (void)state;
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL) {
        try_pair(line);
        n++;
    }
    fclose(f);
    assert_int_equal(n, 168);
}

static struct openai_request *chat_with(const char *members)
{
    return bodies_with(BODIES_CHAT, members);
}

static void other_names_are_honoured(void **state)
{
    struct openai_request *r =
        chat_with("\"n_predict\":7,\"stop_sequences\":[\"x\"],"
                  "\"random_seed\":5,\"do_sample\":false");

    (void)state;
    assert_int_equal(r->max_tokens, 7);
    assert_int_equal(r->n_stops, 1);
    assert_int_equal(r->sampling.seed, 5);
    assert_true(r->sampling.temperature == 0 && r->given.temperature);
    openai_request_free(&r);
    r = chat_with("\"n_predict\":-1");
    assert_false(r->has_max_tokens);
    openai_request_free(&r);
    bodies_refused_with(BODIES_CHAT, "\"stop\":\"a\",\"stop_sequences\":\"a\"",
                        "stop_sequences");
    bodies_refused_with(BODIES_CHAT, "\"max_tokens\":4,\"n_predict\":5",
                        "n_predict");
    bodies_refused_with(BODIES_CHAT,
                        "\"repetition_penalty\":1.1,\"repeat_last_n\":64",
                        "repeat_last_n");
    r = chat_with("\"repetition_penalty\":1.1,\"repeat_last_n\":-1");
    openai_request_free(&r);
}

static void thinking_is(const char *members, bool on)
{
    struct openai_request *r = chat_with(members);
    const json_t *v = json_object_get(r->template.kwargs, "enable_thinking");

    assert_true(on ? json_is_true(v) : json_is_false(v));
    openai_request_free(&r);
}

static void thinking_has_many_names(void **state)
{
    (void)state;
    thinking_is("\"enable_thinking\":true", true);
    thinking_is("\"enable_thinking\":false", false);
    thinking_is("\"thinking\":{\"type\":\"disabled\"}", false);
    thinking_is("\"thinking\":{\"type\":\"enabled\"}", true);
    thinking_is("\"think\":false", false);
    thinking_is("\"reasoning\":{\"enabled\":false}", false);
    thinking_is("\"reasoning\":{\"effort\":\"none\"}", false);
    thinking_is("\"thinking_budget\":0", false);
    /* The template's own variable takes precedence. */
    thinking_is("\"chat_template_kwargs\":{\"enable_thinking\":true},"
                "\"thinking\":{\"type\":\"disabled\"}",
                true);
}

/* A tool that would run at the server is left out; the functions stay. */
static void foreign_tools_are_left_out(void **state)
{
    struct openai_request *r =
        chat_with("\"tools\":[{\"type\":\"web_search\"},{\"type\":\"function\","
                  "\"function\":{\"name\":\"f\"}},{\"type\":\"web_search\"},"
                  "{\"type\":\"custom\"}]");

    (void)state;
    assert_int_equal(json_array_size(r->template.tools), 1);
    assert_string_equal(r->values.ignored.names,
                        "tools.web_search, tools.custom");
    openai_request_free(&r);
    r = bodies_with(BODIES_RESPONSES,
                    "\"tools\":[{\"type\":\"function\",\"name\":\"f\"},"
                    "{\"type\":\"namespace\",\"name\":\"n\"}],"
                    "\"client_metadata\":{}");
    assert_int_equal(json_array_size(r->template.tools), 1);
    assert_int_equal(
        json_array_size(json_object_get(r->values.repeated, "tools")), 1);
    assert_string_equal(r->values.ignored.names,
                        "client_metadata, tools.namespace");
    openai_request_free(&r);
    r = chat_with("\"tools\":[{\"type\":\"web_search\"}]");
    assert_null(r->template.tools);
    openai_request_free(&r);
}

/* The names enter a header, whose line they must not end. */
static void names_are_plain(void **state)
{
    struct openai_request *r =
        chat_with("\"a\\r\\nset-cookie: b\":1,\"\":2,\"c\\u00e9\":3");

    (void)state;
    assert_string_equal(r->values.ignored.names, "a??set-cookie??b, ?, c??");
    assert_int_equal(r->values.ignored.n, 3);
    openai_request_free(&r);
}

/* Three names of 63 bytes, and a last one that just fits, or does not. */
static void names_have_a_limit(void **state)
{
    char members[512], name[64];

    (void)state;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (int past = 0; past < 2; past++) {
        const int room = OPENAI_IGNORED_MAX - 3 * 65 + past;
        struct openai_request *r;

        snprintf(members, sizeof members,
                 "\"a%.62s\":1,\"b%.62s\":1,\"c%.62s\":1,\"%.*s\":1", name,
                 name, name, room, name);
        r = chat_with(members);
        assert_int_equal(r->values.ignored.n, 4);
        assert_int_equal(r->values.ignored.n_named, 4 - past);
        assert_int_equal(strlen(r->values.ignored.names),
                         past ? 3 * 65 - 2 : OPENAI_IGNORED_MAX);
        openai_request_free(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_pair_has_its_fate),
        cmocka_unit_test(other_names_are_honoured),
        cmocka_unit_test(thinking_has_many_names),
        cmocka_unit_test(foreign_tools_are_left_out),
        cmocka_unit_test(names_are_plain),
        cmocka_unit_test(names_have_a_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
