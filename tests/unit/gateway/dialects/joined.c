#include "joined.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/gateway/openai/bodies.h"

/* ---- making ---- */

static void collect(void *arg, const char *bytes, size_t n)
{
    struct joined *j = arg;

    json_out_raw(&j->out, bytes, n);
    *json_out_reserve(&j->out, 1) = '\0';
    j->n_writes++;
}

static size_t token_bytes(void *arg, uint32_t token, const char **bytes)
{
    static const char *const texts[] = {"a", "\xc3", "\xa9", "d"};

    (void)arg;
    *bytes = token < 4 ? texts[token] : "";
    return strlen(*bytes);
}

struct openai_answer *joined_answer(struct joined *j, enum bodies_kind kind,
                                    const char *members)
{
    static const uint8_t id[16] = {[15] = 7};
    static const struct openai_vocab vocab = {.bytes = token_bytes};
    struct openai_answer_options o = {.dialect = bodies_dialect(kind),
                                      .request_id = id,
                                      .created_unix = 9,
                                      .write = collect,
                                      .arg = j,
                                      .vocab = &vocab};

    *j = (struct joined){.kind = kind, .request = bodies_with(kind, members)};
    o.request = j->request;
    return openai_answer_new(&o);
}

void joined_free(struct joined *j, struct openai_answer **a)
{
    openai_answer_free(a);
    openai_request_free(&j->request);
    json_out_fini(&j->out);
}

void joined_is(const struct joined *j, const char *expected)
{
    assert_int_equal(j->out.n, strlen(j->out.data));
    assert_string_equal(j->out.data, expected);
}

/* ---- looking ---- */

json_t *joined_at(const json_t *tree, const char *path)
{
    char step[64];
    size_t n = strcspn(path, ".");

    if (tree == NULL || *path == '\0') {
        return (json_t *)tree;
    }
    snprintf(step, sizeof step, "%.*s", (int)n, path);
    tree = json_is_array(tree)
               ? json_array_get(tree, (size_t)strtoul(step, NULL, 10))
               : json_object_get(tree, step);
    return joined_at(tree, path + n + (path[n] == '.'));
}

const char *joined_text(const json_t *tree, const char *path)
{
    return json_string_value(joined_at(tree, path));
}

/* ---- joining ---- */

static void add_text(json_t *to, const char *key, const json_t *piece)
{
    const json_t *before = json_object_get(to, key);
    struct json_out text = {0};

    if (piece == NULL || json_is_null(piece)) {
        return;
    }
    if (before != NULL && !json_is_null(before)) {
        json_out_raw(&text, json_string_value(before),
                     json_string_length(before));
    }
    json_out_raw(&text, json_string_value(piece), json_string_length(piece));
    json_object_set_new(to, key,
                        json_stringn(text.n > 0 ? text.data : "", text.n));
    json_out_fini(&text);
}

/* The first delta of a call has its index, id, type and name. */
static void add_call(json_t *message, json_t *delta)
{
    json_t *calls = json_object_get(message, "tool_calls");
    size_t index = (size_t)json_integer_value(json_object_get(delta, "index"));

    if (calls == NULL) {
        calls = json_array();
        json_object_set_new(message, "tool_calls", calls);
    }
    if (index == json_array_size(calls)) {
        assert_string_equal(joined_text(delta, "function.arguments"), "");
        assert_non_null(joined_text(delta, "id"));
        delta = json_deep_copy(delta);
        json_object_del(delta, "index");
        json_array_append_new(calls, delta);
        return;
    }
    assert_int_equal(index, json_array_size(calls) - 1);
    assert_int_equal(json_object_size(delta), 2); /* index, function */
    add_text(joined_at(json_array_get(calls, index), "function"), "arguments",
             joined_at(delta, "function.arguments"));
}

static void add_delta(json_t *choice, const json_t *delta)
{
    json_t *message = json_object_get(choice, "message");
    json_t *calls = json_object_get(delta, "tool_calls");
    size_t i;
    json_t *call;

    if (message == NULL) {
        assert_string_equal(joined_text(delta, "role"), "assistant");
        message = json_pack("{s:s, s:n, s:n}", "role", "assistant", "content",
                            "refusal");
        json_object_set_new(choice, "message", message);
    } else {
        assert_null(json_object_get(delta, "role"));
    }
    add_text(message, "content", json_object_get(delta, "content"));
    add_text(message, "reasoning_content",
             json_object_get(delta, "reasoning_content"));
    json_array_foreach(calls, i, call)
    {
        add_call(message, call);
    }
}

static void add_logs(json_t *choice, const json_t *logs)
{
    json_t *before = json_object_get(choice, "logprobs");

    if (before == NULL || json_is_null(before)) {
        json_object_set_new(choice, "logprobs", json_deep_copy(logs));
    } else if (!json_is_null(logs)) {
        json_array_extend(json_object_get(before, "content"),
                          json_object_get(logs, "content"));
    }
}

static void add_choice(json_t *choices, const json_t *piece)
{
    size_t index = (size_t)json_integer_value(json_object_get(piece, "index"));
    json_t *choice;

    while (json_array_size(choices) <= index) {
        json_array_append_new(
            choices,
            json_pack("{s:i}", "index", (int)json_array_size(choices)));
    }
    choice = json_array_get(choices, index);
    assert_false(json_is_string(json_object_get(choice, "finish_reason")));
    if (json_object_get(piece, "delta") != NULL) {
        add_delta(choice, json_object_get(piece, "delta"));
    } else {
        add_text(choice, "text", json_object_get(piece, "text"));
    }
    add_logs(choice, json_object_get(piece, "logprobs"));
    json_object_set(choice, "finish_reason",
                    json_object_get(piece, "finish_reason"));
}

/* Removes the parts that a stream lacks: content that is null for calls, the
 * whole object's name, lists of logprobs without tokens, and usage that was
 * not requested. */
static void settle(const struct joined *j, json_t *body)
{
    size_t i;
    json_t *choice;

    json_array_foreach(json_object_get(body, "choices"), i, choice)
    {
        json_t *message = json_object_get(choice, "message");

        assert_true(json_is_string(json_object_get(choice, "finish_reason")));
        if (json_object_get(message, "tool_calls") != NULL &&
            json_string_length(json_object_get(message, "content")) == 0) {
            json_object_set_new(message, "content", json_null());
        }
        if (j->request->sampling.logprobs &&
            json_is_null(json_object_get(choice, "logprobs"))) {
            json_object_set_new(choice, "logprobs",
                                json_pack("{s:[], s:n}", "content", "refusal"));
        }
    }
    if (j->kind == BODIES_CHAT) {
        json_object_set_new(body, "object", json_string("chat.completion"));
    }
    if (!j->request->include_usage) {
        json_object_set_new(
            body, "usage",
            json_pack("{s:i, s:i, s:i, s:{s:i}, s:{s:i}}", "prompt_tokens", 5,
                      "completion_tokens", 3, "total_tokens", 8,
                      "prompt_tokens_details", "cached_tokens", 1,
                      "completion_tokens_details", "reasoning_tokens", 2));
    }
}

static void add_chunk(json_t **body, const char *text, size_t n)
{
    json_t *chunk = json_loadb(text, n, 0, NULL);
    json_t *usage = json_object_get(chunk, "usage"), *piece;
    size_t i;

    assert_non_null(chunk);
    if (*body == NULL) {
        *body = json_deep_copy(chunk);
        json_array_clear(json_object_get(*body, "choices"));
    }
    json_array_foreach(json_object_get(chunk, "choices"), i, piece)
    {
        add_choice(json_object_get(*body, "choices"), piece);
    }
    if (usage != NULL) {
        json_object_set(*body, "usage", usage);
    }
    json_decref(chunk);
}

json_t *joined_chunks(const struct joined *j)
{
    json_t *body = NULL;
    const char *at = j->out.data;

    for (;;) {
        const char *end = strstr(at, "\n\n");

        assert_non_null(end);
        assert_memory_equal(at, "data: ", 6);
        at += 6;
        if (strcmp(at, "[DONE]\n\n") == 0) {
            break;
        }
        add_chunk(&body, at, (size_t)(end - at));
        at = end + 2;
    }
    settle(j, body);
    return body;
}
