#include "client/front/conversation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/base/memory.h"
#include "common/base/utf8.h"

struct conversation {
    char *system;     /* NULL: none */
    json_t *messages; /* without the system message */
    size_t n_bytes;   /* of all texts */
};

struct conversation *conversation_new(void)
{
    struct conversation *c = memory_must(calloc(1, sizeof *c));

    c->messages = memory_must(json_array());
    return c;
}

void conversation_free(struct conversation **c)
{
    if (*c != NULL) {
        free((*c)->system);
        json_decref((*c)->messages);
        free(*c);
    }
    *c = NULL;
}

/* ---- messages ---- */

static enum status check(const struct conversation *c, const char *text,
                         size_t n, struct error *e)
{
    size_t bad;

    if (!utf8_valid(text, n, &bad)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the text is not UTF-8 at byte %zu", bad);
    }
    /* A long reply may have passed the limit. */
    if (c->n_bytes > CONVERSATION_BYTES_MAX ||
        n > CONVERSATION_BYTES_MAX - c->n_bytes) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "the conversation has %zu bytes, and %zu more exceed "
                         "the limit of %u; /reset starts a new one",
                         c->n_bytes, n, CONVERSATION_BYTES_MAX);
    }
    return ST_OK;
}

static json_t *last(const struct conversation *c)
{
    size_t n = json_array_size(c->messages);

    return n > 0 ? json_array_get(c->messages, n - 1) : NULL;
}

static bool last_is(const struct conversation *c, const char *role)
{
    const char *is = json_string_value(json_object_get(last(c), "role"));

    return is != NULL && strcmp(is, role) == 0;
}

static void drop_last(struct conversation *c)
{
    c->n_bytes -= json_string_length(json_object_get(last(c), "content"));
    json_array_remove(c->messages, json_array_size(c->messages) - 1);
}

static void add(struct conversation *c, const char *role, const char *text,
                size_t n)
{
    /* "s%": a string of the given length, which may hold NULs. */
    json_t *m =
        memory_must(json_pack("{s:s,s:s%}", "role", role, "content", text, n));

    json_array_append_new(c->messages, m);
    c->n_bytes += n;
}

enum status conversation_set_system(struct conversation *c, const char *text,
                                    struct error *e)
{
    size_t n = text != NULL ? strlen(text) : 0;
    size_t n_old = c->system != NULL ? strlen(c->system) : 0;
    enum status st = ST_OK;

    c->n_bytes -= n_old;
    if (n > 0) {
        st = check(c, text, n, e);
    }
    if (st != ST_OK) {
        c->n_bytes += n_old;
        return st;
    }
    free(c->system);
    c->system = n > 0 ? memory_must(strdup(text)) : NULL;
    c->n_bytes += n;
    return ST_OK;
}

enum status conversation_ask(struct conversation *c, const char *text, size_t n,
                             struct error *e)
{
    enum status st = check(c, text, n, e);

    if (st != ST_OK) {
        return st;
    }
    if (last_is(c, "user")) {
        drop_last(c);
    }
    add(c, "user", text, n);
    return ST_OK;
}

void conversation_answer(struct conversation *c, const char *text, size_t n)
{
    size_t bad;

    /* A reply is kept past the limit, so that it can be saved.  The next
     * question is then refused. */
    if (n > 0 && last_is(c, "user") && utf8_valid(text, n, &bad)) {
        add(c, "assistant", text, n);
    }
}

bool conversation_retry(struct conversation *c)
{
    if (last_is(c, "assistant")) {
        drop_last(c);
    }
    return last_is(c, "user");
}

void conversation_reset(struct conversation *c)
{
    json_array_clear(c->messages);
    c->n_bytes = c->system != NULL ? strlen(c->system) : 0;
}

/* ---- JSON ---- */

/* Returns the messages with the system message in front. */
static json_t *all_messages(const struct conversation *c)
{
    json_t *all = memory_must(json_array());

    if (c->system != NULL) {
        json_array_append_new(
            all, memory_must(json_pack("{s:s,s:s}", "role", "system", "content",
                                       c->system)));
    }
    json_array_extend(all, c->messages);
    return all;
}

char *conversation_request(const struct conversation *c,
                           const struct conversation_settings *settings)
{
    json_t *root = memory_must(json_pack(
        "{s:s,s:o,s:b,s:{s:b}}", "model", settings->model, "messages",
        all_messages(c), "stream", 1, "stream_options", "include_usage", 1));
    char *text;

    if (settings->has_temperature) {
        json_object_set_new(root, "temperature",
                            json_real(settings->temperature));
    }
    if (settings->has_max_tokens) {
        json_object_set_new(root, "max_completion_tokens",
                            json_integer(settings->max_tokens));
    }
    if (settings->has_drafts) {
        json_object_set_new(root, "drafts", json_integer(settings->drafts));
    }
    if (settings->no_think) {
        json_object_set_new(root, "chat_template_kwargs",
                            json_pack("{s:b}", "enable_thinking", 0));
    }
    text = memory_must(json_dumps(root, JSON_COMPACT));
    json_decref(root);
    return text;
}

char *conversation_text(const struct conversation *c)
{
    json_t *all = all_messages(c);
    char *json = memory_must(json_dumps(all, JSON_INDENT(2)));
    char *text;

    if (asprintf(&text, "%s\n", json) < 0) {
        (void)memory_must(NULL);
    }
    free(json);
    json_decref(all);
    return text;
}
