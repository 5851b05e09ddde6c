#include "client/front/reply.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "common/base/json_bound.h"
#include "common/base/quote.h"

/* A chunk of a reply nests five deep; a list of models has a few fields for
 * each. */
static const struct json_bounds bounds = {32, 100000, 10000};

static json_t *parse(const char *text, size_t n)
{
    struct error e;

    if (json_bound(text, n, &bounds, ST_OUT_OF_RANGE, &e) != ST_OK) {
        return NULL;
    }
    return json_loadb(text, n, 0, NULL);
}

/* Copies a string; "" if v is none.  Cut to fit. */
static void copy_string(const json_t *v, char *out, size_t size)
{
    snprintf(out, size, "%s", json_is_string(v) ? json_string_value(v) : "");
}

static void take_error(struct reply *r, const json_t *error)
{
    const json_t *message = json_object_get(error, "message");
    const char *text = json_is_string(error)     ? json_string_value(error)
                       : json_is_string(message) ? json_string_value(message)
                                                 : "an error without a message";

    r->failed = true;
    error_set(&r->e, ST_UNKNOWN, "%s", text);
}

static void take_delta(const json_t *delta, const char *key,
                       enum reply_kind kind, reply_fn *fn, void *arg)
{
    const json_t *text = json_object_get(delta, key);

    if (json_is_string(text) && json_string_length(text) > 0) {
        fn(arg, kind, json_string_value(text), json_string_length(text));
    }
}

static void take_choice(struct reply *r, const json_t *choice, reply_fn *fn,
                        void *arg)
{
    const json_t *delta = json_object_get(choice, "delta");
    const json_t *finish = json_object_get(choice, "finish_reason");

    if (json_integer_value(json_object_get(choice, "index")) != 0) {
        return;
    }
    take_delta(delta, "reasoning_content", REPLY_REASONING, fn, arg);
    take_delta(delta, "content", REPLY_CONTENT, fn, arg);
    if (json_is_string(finish)) {
        copy_string(finish, r->finish, sizeof r->finish);
    }
}

static void take_usage(struct reply *r, const json_t *usage)
{
    const json_t *prompt = json_object_get(usage, "prompt_tokens");
    const json_t *generated = json_object_get(usage, "completion_tokens");

    if (json_is_integer(prompt) && json_is_integer(generated) &&
        json_integer_value(prompt) >= 0 && json_integer_value(generated) >= 0) {
        r->has_usage = true;
        r->n_prompt = (uint64_t)json_integer_value(prompt);
        r->n_generated = (uint64_t)json_integer_value(generated);
    }
}

void reply_take(struct reply *r, const char *data, size_t n, reply_fn *fn,
                void *arg)
{
    json_t *chunk;
    const json_t *error, *choice;
    size_t i;

    if (r->done || r->failed) {
        return;
    }
    if (n == 6 && memcmp(data, "[DONE]", 6) == 0) {
        r->done = true;
        return;
    }
    chunk = parse(data, n);
    error = json_object_get(chunk, "error");
    if (!json_is_object(chunk)) {
        r->failed = true;
        error_set(&r->e, ST_DATA_LOSS, "the server sent no JSON object: %s",
                  quote_bytes(data, n).text);
    } else if (error != NULL && !json_is_null(error)) {
        take_error(r, error);
    } else {
        json_array_foreach(json_object_get(chunk, "choices"), i, choice)
        {
            take_choice(r, choice, fn, arg);
        }
        take_usage(r, json_object_get(chunk, "usage"));
    }
    json_decref(chunk);
}

void reply_error(long http, const char *body, size_t n, struct error *e)
{
    json_t *root = parse(body, n);
    const json_t *error = json_object_get(root, "error");
    const json_t *message =
        json_object_get(json_is_object(error) ? error : root, "message");

    if (json_is_string(message)) {
        error_set(e, ST_UNKNOWN, "%s (HTTP %ld)", json_string_value(message),
                  http);
    } else if (n > 0) {
        error_set(e, ST_UNKNOWN, "HTTP %ld: %s", http,
                  quote_bytes(body, n).text);
    } else {
        error_set(e, ST_UNKNOWN, "HTTP %ld without a message", http);
    }
    json_decref(root);
}

bool reply_first_model(const char *body, size_t n, char *id, size_t size)
{
    json_t *root = parse(body, n);
    const json_t *first = json_array_get(json_object_get(root, "data"), 0);
    const json_t *name = json_object_get(first, "id");
    bool found = json_is_string(name) && json_string_length(name) > 0 &&
                 json_string_length(name) < size;

    if (found) {
        copy_string(name, id, size);
    }
    json_decref(root);
    return found;
}
