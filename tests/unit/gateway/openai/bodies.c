#include "bodies.h"
#include "gateway/dialects/dialects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"

#define CHAT                                                         \
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":" \
    "\"a\"}]"

/* The least body of each kind, without its end. */
static const char *const least[BODIES_NR] = {
    [BODIES_COMPLETION] = "{\"model\":\"m\",\"prompt\":\"a\"",
    [BODIES_CHAT] = (CHAT),
    [BODIES_RESPONSES] = "{\"model\":\"m\",\"input\":\"a\"",
    [BODIES_MESSAGES] = (CHAT),
    [BODIES_OLLAMA] = (CHAT),
    [BODIES_GENERATE] = "{\"model\":\"m\",\"prompt\":\"a\"",
    [BODIES_TOKENIZE] = "{\"model\":\"m\",\"prompt\":\"a\"",
    [BODIES_DETOKENIZE] = "{\"model\":\"m\",\"tokens\":[1]"};

const struct dialect *bodies_dialect(enum bodies_kind kind)
{
    static const struct dialect *const rows[BODIES_NR] = {
        [BODIES_COMPLETION] = &completions_dialect,
        [BODIES_CHAT] = &chat_dialect,
        [BODIES_RESPONSES] = &responses_dialect,
        [BODIES_MESSAGES] = &anthropic_dialect,
        [BODIES_OLLAMA] = &ollama_dialect,
        [BODIES_GENERATE] = &ollama_generate_dialect};

    return rows[kind];
}

openai_parse_fn *bodies_parser(enum bodies_kind kind)
{
    const struct dialect *d = bodies_dialect(kind);

    return d != NULL                 ? d->parse
           : kind == BODIES_TOKENIZE ? openai_parse_tokenize
                                     : openai_parse_detokenize;
}

static char *compose(enum bodies_kind kind, const char *members)
{
    size_t n = strlen(least[kind]) + strlen(members) + 3;
    char *body = malloc(n);

    assert_non_null(body);
    snprintf(body, n, "%s%s%s}", least[kind], members[0] != '\0' ? "," : "",
             members);
    return body;
}

struct openai_request *bodies_parse(enum bodies_kind kind, const char *body)
{
    struct openai_request *r;
    struct openai_error e;

    if (!openai_request_parse(bodies_parser(kind), body, strlen(body), NULL, &r,
                              &e)) {
        fail_msg("%s: %s (%s)", body, e.message, e.param);
    }
    assert_non_null(r);
    return r;
}

struct openai_request *bodies_with(enum bodies_kind kind, const char *members)
{
    char *body = compose(kind, members);
    struct openai_request *r = bodies_parse(kind, body);

    free(body);
    return r;
}

void bodies_refused(enum bodies_kind kind, const char *body, const char *param)
{
    struct openai_request *r;
    struct openai_error e;

    if (openai_request_parse(bodies_parser(kind), body, strlen(body), NULL, &r,
                             &e)) {
        fail_msg("%s: accepted", body);
    }
    assert_null(r);
    assert_int_equal(e.http, 400);
    assert_string_equal(e.type, "invalid_request_error");
    if (strcmp(e.param, param) != 0) {
        fail_msg("%s: names '%s': %s", body, e.param, e.message);
    }
}

void bodies_refused_with(enum bodies_kind kind, const char *members,
                         const char *param)
{
    char *body = compose(kind, members);

    bodies_refused(kind, body, param);
    free(body);
}

json_t *bodies_least(enum bodies_kind kind)
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

char *bodies_list(const char *element, size_t n)
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
