#include "bodies.h"
#include "gateway/openai/request_parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"

#define CHAT                                                         \
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":" \
    "\"a\"}]"

/* The least body of each kind, without its end. */
static const char *const least[OPENAI_KIND_NR] = {
    [OPENAI_COMPLETION] = "{\"model\":\"m\",\"prompt\":\"a\"",
    [OPENAI_CHAT] = (CHAT),
    [OPENAI_RESPONSES] = "{\"model\":\"m\",\"input\":\"a\"",
    [OPENAI_TOKENIZE] = "{\"model\":\"m\",\"prompt\":\"a\"",
    [OPENAI_DETOKENIZE] = "{\"model\":\"m\",\"tokens\":[1]"};

static char *compose(enum openai_kind kind, const char *members)
{
    size_t n = strlen(least[kind]) + strlen(members) + 3;
    char *body = malloc(n);

    assert_non_null(body);
    snprintf(body, n, "%s%s%s}", least[kind], members[0] != '\0' ? "," : "",
             members);
    return body;
}

struct openai_request *bodies_parse(enum openai_kind kind, const char *body)
{
    struct openai_request *r;
    struct openai_error e;

    if (!openai_request_parse(kind, body, strlen(body), NULL, &r, &e)) {
        fail_msg("%s: %s (%s)", body, e.message, e.param);
    }
    assert_non_null(r);
    return r;
}

struct openai_request *bodies_with(enum openai_kind kind, const char *members)
{
    char *body = compose(kind, members);
    struct openai_request *r = bodies_parse(kind, body);

    free(body);
    return r;
}

void bodies_refused(enum openai_kind kind, const char *body, const char *param)
{
    struct openai_request *r;
    struct openai_error e;

    if (openai_request_parse(kind, body, strlen(body), NULL, &r, &e)) {
        fail_msg("%s: accepted", body);
    }
    assert_null(r);
    assert_int_equal(e.http, 400);
    assert_string_equal(e.type, "invalid_request_error");
    if (strcmp(e.param, param) != 0) {
        fail_msg("%s: names '%s': %s", body, e.param, e.message);
    }
}

void bodies_refused_with(enum openai_kind kind, const char *members,
                         const char *param)
{
    char *body = compose(kind, members);

    bodies_refused(kind, body, param);
    free(body);
}

json_t *bodies_least(enum openai_kind kind)
{
    char *body = compose(kind, "");
    json_t *tree = json_loads(body, 0, NULL);

    assert_non_null(tree);
    free(body);
    return tree;
}

void bodies_messages(struct openai_request *r, const char *expected)
{
    json_t *tree = json_loads(expected, 0, NULL);

    assert_non_null(tree);
    if (!json_equal(r->messages, tree)) {
        char *text = json_dumps(r->messages, 0);

        fail_msg("messages are %s, expected %s", text, expected);
    }
    json_decref(tree);
    openai_request_free(&r);
}
