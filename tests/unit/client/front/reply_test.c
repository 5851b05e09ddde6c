/* Chunks, errors and lists of models from a server that may send anything. */
#include "client/front/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"

struct rig {
    struct reply r;
    char text[256]; /* content plain, reasoning in parentheses */
};

static void on_piece(void *arg, enum reply_kind kind, const char *text,
                     size_t n)
{
    struct rig *rig = arg;
    size_t used = strlen(rig->text);

    snprintf(rig->text + used, sizeof rig->text - used,
             kind == REPLY_REASONING ? "(%.*s)" : "%.*s", (int)n, text);
}

static void take(struct rig *rig, const char *data)
{
    reply_take(&rig->r, data, strlen(data), on_piece, rig);
}

#define CHUNK(fields) "{\"choices\":[{\"index\":0," fields "}]}"

static void pieces_come_in_order(void **state)
{
    struct rig rig = {0};

    (void)state;
    take(&rig, CHUNK("\"delta\":{\"role\":\"assistant\",\"content\":\"\"}"));
    take(&rig, CHUNK("\"delta\":{\"reasoning_content\":\"hm\"}"));
    take(&rig, CHUNK("\"delta\":{\"content\":\"a\\u00e4\"}"));
    take(&rig, "{\"choices\":[{\"index\":1,\"delta\":{\"content\":\"no\"}}]}");
    take(&rig, CHUNK("\"delta\":{\"content\":\"b\"},"
                     "\"finish_reason\":\"stop\""));
    take(&rig, "{\"choices\":[],\"usage\":{\"prompt_tokens\":7,"
               "\"completion_tokens\":9}}");
    assert_false(rig.r.done);
    take(&rig, "[DONE]");
    assert_true(rig.r.done);
    take(&rig, CHUNK("\"delta\":{\"content\":\"late\"}"));
    assert_string_equal(rig.text, "(hm)a\xc3\xa4"
                                  "b");
    assert_string_equal(rig.r.finish, "stop");
    assert_true(rig.r.has_usage);
    assert_int_equal(rig.r.n_prompt, 7);
    assert_int_equal(rig.r.n_generated, 9);
    assert_false(rig.r.failed);
}

static void wrong_types_count_as_absent(void **state)
{
    static const char *const chunks[] = {
        "{}",
        "{\"choices\":null}",
        "{\"choices\":3}",
        "{\"choices\":[null]}",
        "{\"choices\":[{\"delta\":[]}]}",
        CHUNK("\"delta\":{\"content\":5}"),
        CHUNK("\"delta\":{\"content\":null}"),
        CHUNK("\"finish_reason\":1"),
        "{\"usage\":[]}",
        "{\"usage\":{\"prompt_tokens\":-1,\"completion_tokens\":2}}",
        "{\"usage\":{\"prompt_tokens\":1.5,\"completion_tokens\":2}}",
        "{\"error\":null}",
    };
    struct rig rig = {0};

    (void)state;
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        take(&rig, chunks[i]);
    }
    assert_string_equal(rig.text, "");
    assert_false(rig.r.failed);
    assert_false(rig.r.has_usage);
    assert_string_equal(rig.r.finish, "");
}

static void an_error_ends_the_reply(void **state)
{
    static const struct {
        const char *data, *want;
    } cases[] = {
        {"{\"error\":{\"message\":\"no room\"}}", "no room"},
        {"{\"error\":\"plain\"}", "plain"},
        {"{\"error\":{}}", "an error without a message"},
        {"not json", "the server sent no JSON object: \"not json\""},
        {"[1]", "the server sent no JSON object: \"[1]\""},
        {"", "the server sent no JSON object: \"\""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rig rig = {0};

        take(&rig, cases[i].data);
        assert_true(rig.r.failed);
        assert_string_equal(rig.r.e.text, cases[i].want);
        take(&rig, "[DONE]");
        assert_false(rig.r.done);
    }
}

static void deep_nesting_is_refused(void **state)
{
    struct rig rig = {0};
    char *text = malloc(1 << 20);

    (void)state;
    assert_non_null(text);
    memset(text, '[', 1 << 20);
    reply_take(&rig.r, text, 1 << 20, on_piece, &rig);
    assert_true(rig.r.failed);
    free(text);
}

static void a_refusal_has_the_servers_sentence(void **state)
{
    static const struct {
        long http;
        const char *body, *want;
    } cases[] = {
        {429, "{\"error\":{\"message\":\"slow down\"}}",
         "slow down (HTTP 429)"},
        {400, "{\"message\":\"old form\"}", "old form (HTTP 400)"},
        {502, "<html>\x1b", "HTTP 502: \"<html>\\x1b\""},
        {404, "", "HTTP 404 without a message"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error e;

        reply_error(cases[i].http, cases[i].body, strlen(cases[i].body), &e);
        assert_string_equal(e.text, cases[i].want);
    }
}

static bool first(const char *body, char *id, size_t size)
{
    return reply_first_model(body, strlen(body), id, size);
}

static void the_first_model_is_found(void **state)
{
    char id[5];

    (void)state;
    assert_true(
        first("{\"data\":[{\"id\":\"tiny\"},{\"id\":\"b\"}]}", id, sizeof id));
    assert_string_equal(id, "tiny");
    assert_false(first("{\"data\":[{\"id\":\"tiny5\"}]}", id, sizeof id));
    assert_false(first("{\"data\":[{\"id\":\"\"}]}", id, sizeof id));
    assert_false(first("{\"data\":[]}", id, sizeof id));
    assert_false(first("{\"data\":[{\"id\":7}]}", id, sizeof id));
    assert_false(first("nothing", id, sizeof id));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_come_in_order),
        cmocka_unit_test(wrong_types_count_as_absent),
        cmocka_unit_test(an_error_ends_the_reply),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(a_refusal_has_the_servers_sentence),
        cmocka_unit_test(the_first_model_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
