/* Writes answers of /v1/responses: items, and events as they grow. */
#include <stdlib.h>

#include "gateway/dialects/answer_base.h"
#include "gateway/dialects/dialect_rows.h"
#include "gateway/dialects/responses_parse.h"

/* An answer is a list of items; one is open at a time:
 *
 *     reasoning   content part reasoning_text
 *     message     content part output_text
 *     call        arguments
 */
enum item_kind { ITEM_NONE, ITEM_REASONING, ITEM_MESSAGE, ITEM_CALL };

struct responses {
    uint64_t sequence; /* number of the next event */
    uint32_t n_items;  /* items that are closed */
    uint32_t tool;
    enum item_kind open;
    char item_id[ANSWER_KEY], call_id[ANSWER_KEY];
    struct json_out name;  /* of the call, escaped */
    struct json_out text;  /* of the open item, escaped */
    size_t n_sent;         /* bytes of text that deltas carried */
    struct json_out logs;  /* of the open item */
    struct json_out items; /* closed, with commas between */
};

/* ---- events ---- */

static void event_open(struct openai_answer *a, const char *type)
{
    struct responses *s = a->own;
    struct json_out *o = &a->out;

    json_out_put(o, "event: ");
    json_out_put(o, type);
    json_out_put(o, "\ndata: {");
    answer_member(o, "type", type);
    json_out_put(o, ",\"sequence_number\":");
    json_out_u64(o, s->sequence++);
}

static void event_close(struct openai_answer *a)
{
    json_out_put(&a->out, "}\n\n");
}

/* An event about the open item, or its only part. */
static void item_event(struct openai_answer *a, const char *type, bool part)
{
    const struct responses *s = a->own;

    event_open(a, type);
    json_out_put(&a->out, ",");
    answer_member(&a->out, "item_id", s->item_id);
    json_out_put(&a->out, ",\"output_index\":");
    json_out_u64(&a->out, s->n_items);
    json_out_put(&a->out, part ? ",\"content_index\":0" : "");
}

static void put_quoted(struct json_out *o, const char *key, const char *text,
                       size_t n)
{
    json_out_put(o, ",\"");
    json_out_put(o, key);
    json_out_put(o, "\":\"");
    json_out_raw(o, text, n);
    json_out_put(o, "\"");
}

static void put_logs(struct json_out *o, const char *logs, size_t n)
{
    json_out_put(o, ",\"logprobs\":[");
    json_out_raw(o, logs, n);
    json_out_put(o, "]");
}

/* ---- items ---- */

static const char *type_of(enum item_kind kind)
{
    return kind == ITEM_REASONING ? "reasoning"
           : kind == ITEM_MESSAGE ? "message"
                                  : "function_call";
}

/* Writes the part of a message or of reasoning, with the text so far. */
static void put_part(struct openai_answer *a, struct json_out *o)
{
    const struct responses *s = a->own;
    bool message = s->open == ITEM_MESSAGE;

    json_out_put(o, "{");
    answer_member(o, "type", message ? "output_text" : "reasoning_text");
    put_quoted(o, "text", s->text.data, s->text.n);
    if (message) {
        json_out_put(o, ",\"annotations\":[]");
        put_logs(o, s->logs.data, s->logs.n);
    }
    json_out_put(o, "}");
}

/* Writes the open item.  An item in progress has no part yet. */
static void put_item(struct openai_answer *a, const char *status,
                     struct json_out *o)
{
    const struct responses *s = a->own;
    bool in_progress = strcmp(status, "in_progress") == 0;

    json_out_put(o, "{");
    answer_member(o, "id", s->item_id);
    json_out_put(o, ",");
    answer_member(o, "type", type_of(s->open));
    json_out_put(o, ",");
    answer_member(o, "status", status);
    if (s->open == ITEM_CALL) {
        json_out_put(o, ",");
        answer_member(o, "call_id", s->call_id);
        put_quoted(o, "name", s->name.data, s->name.n);
        put_quoted(o, "arguments", s->text.data, s->text.n);
    } else {
        json_out_put(o, s->open == ITEM_MESSAGE ? ",\"role\":\"assistant\""
                                                : ",\"summary\":[]");
        json_out_put(o, ",\"content\":[");
        if (!in_progress) {
            put_part(a, o);
        }
        json_out_put(o, "]");
    }
    json_out_put(o, "}");
}

static void put_item_event(struct openai_answer *a, const char *type,
                           const char *status)
{
    const struct responses *s = a->own;

    event_open(a, type);
    json_out_put(&a->out, ",\"output_index\":");
    json_out_u64(&a->out, s->n_items);
    json_out_put(&a->out, ",\"item\":");
    put_item(a, status, &a->out);
    event_close(a);
}

static void put_part_event(struct openai_answer *a, const char *type)
{
    item_event(a, type, true);
    json_out_put(&a->out, ",\"part\":");
    put_part(a, &a->out);
    event_close(a);
}

static void item_open(struct openai_answer *a, enum item_kind kind,
                      const struct output_event *event)
{
    struct responses *s = a->own;
    static const char *const prefixes[] = {"", "rs_", "msg_", "fc_"};

    s->open = kind;
    /* Buffers keep their memory from item to item. */
    s->text.n = s->n_sent = s->logs.n = s->name.n = 0;
    answer_key(a, prefixes[kind], UINT32_MAX, s->n_items, s->item_id);
    if (kind == ITEM_CALL) {
        s->tool = event->tool;
        answer_key(a, "call_", 0, event->tool, s->call_id);
        json_out_escaped(&s->name, event->text, event->n);
    }
    if (a->stream) {
        put_item_event(a, "response.output_item.added", "in_progress");
        if (kind != ITEM_CALL) {
            put_part_event(a, "response.content_part.added");
        }
    }
}

/* The text stays: the events that end an item repeat it.
 * Writes the text that no delta carried yet, and its logprobs. */
static void put_delta(struct openai_answer *a, struct json_out *logs)
{
    static const char *const types[] = {
        "", "response.reasoning_text.delta", "response.output_text.delta",
        "response.function_call_arguments.delta"};
    struct responses *s = a->own;

    item_event(a, types[s->open], s->open != ITEM_CALL);
    put_quoted(&a->out, "delta", s->text.data + s->n_sent,
               s->text.n - s->n_sent);
    if (s->open == ITEM_MESSAGE) {
        put_logs(&a->out, logs->data, logs->n);
    }
    event_close(a);
    s->n_sent = s->text.n;
}

/* Logprobs of reasoning and calls have no place in this API. */
static void flush(struct openai_answer *a, uint32_t index)
{
    struct responses *s = a->own;
    struct json_out *logs = &a->choices[index].logs[0];

    if (s->open == ITEM_NONE) {
        return;
    }
    if (a->stream && s->text.n > s->n_sent) {
        put_delta(a, logs);
    }
    if (s->open == ITEM_MESSAGE && logs->n > 0) {
        json_out_put(&s->logs, s->logs.n > 0 ? "," : "");
        json_out_raw(&s->logs, logs->data, logs->n);
    }
    logs->n = 0;
}

static void put_text_done(struct openai_answer *a)
{
    const struct responses *s = a->own;
    bool message = s->open == ITEM_MESSAGE;

    item_event(a,
               message ? "response.output_text.done"
                       : "response.reasoning_text.done",
               true);
    put_quoted(&a->out, "text", s->text.data, s->text.n);
    if (message) {
        put_logs(&a->out, s->logs.data, s->logs.n);
    }
    event_close(a);
    put_part_event(a, "response.content_part.done");
}

static void put_arguments_done(struct openai_answer *a)
{
    const struct responses *s = a->own;

    item_event(a, "response.function_call_arguments.done", false);
    put_quoted(&a->out, "name", s->name.data, s->name.n);
    put_quoted(&a->out, "arguments", s->text.data, s->text.n);
    event_close(a);
}

/* Status "incomplete" marks the item in which the limit fell. */
static void item_close(struct openai_answer *a, const char *status)
{
    struct responses *s = a->own;

    if (s->open == ITEM_NONE) {
        return;
    }
    flush(a, 0);
    if (a->stream) {
        if (s->open == ITEM_CALL) {
            put_arguments_done(a);
        } else {
            put_text_done(a);
        }
        put_item_event(a, "response.output_item.done", status);
    }
    json_out_put(&s->items, s->n_items > 0 ? "," : "");
    put_item(a, status, &s->items);
    s->n_items++;
    s->open = ITEM_NONE;
}

/* ---- the response ---- */

static void put_usage(struct json_out *o, const struct openai_usage *u)
{
    json_out_put(o, "{\"input_tokens\":");
    json_out_u64(o, u->prompt);
    json_out_put(o, ",\"input_tokens_details\":{\"cached_tokens\":");
    json_out_u64(o, u->cached);
    json_out_put(o, ",\"cache_write_tokens\":0},\"output_tokens\":");
    json_out_u64(o, u->completion);
    json_out_put(o, ",\"output_tokens_details\":{\"reasoning_tokens\":");
    json_out_u64(o, u->reasoning);
    json_out_put(o, "},\"total_tokens\":");
    json_out_u64(o, u->prompt + u->completion);
    json_out_put(o, "}");
}

static const char *incomplete_reason(const struct openai_answer *a)
{
    const char *reason = a->choices[0].reason;

    if (reason == NULL) {
        return NULL;
    }
    return strcmp(reason, "length") == 0           ? "max_output_tokens"
           : strcmp(reason, "content_filter") == 0 ? "content_filter"
                                                   : NULL;
}

static void put_error(struct json_out *o, const struct openai_error *e)
{
    json_out_put(o, ",\"error\":");
    if (e == NULL) {
        json_out_put(o, "null");
        return;
    }
    json_out_put(o, "{");
    /* The API has a fixed list of codes. */
    answer_member(o, "code",
                  e->http == 429  ? "rate_limit_exceeded"
                  : e->http < 500 ? "invalid_prompt"
                                  : "server_error");
    json_out_put(o, ",");
    answer_member(o, "message", e->message);
    json_out_put(o, "}");
}

static void put_response(struct openai_answer *a, const char *status,
                         const struct openai_error *e, bool ended)
{
    const struct responses *s = a->own;
    struct json_out *o = &a->out;
    const char *reason = incomplete_reason(a), *key;
    json_t *value;

    json_out_put(o, "{\"id\":\"resp_");
    json_out_put(o, a->id);
    json_out_put(o, "\",\"object\":\"response\",\"created_at\":");
    json_out_i64(o, a->o.created_unix);
    json_out_put(o, ",");
    answer_member(o, "status", status);
    put_error(o, e);
    json_out_put(o, ",\"incomplete_details\":");
    if (ended && reason != NULL) {
        json_out_put(o, "{");
        answer_member(o, "reason", reason);
        json_out_put(o, "}");
    } else {
        json_out_put(o, "null");
    }
    json_out_put(o, ",");
    answer_member(o, "model", a->o.model);
    json_out_put(o, ",\"output\":[");
    json_out_raw(o, s->items.data, s->items.n);
    json_out_put(o, "]");
    if (ended) {
        json_out_put(o, ",\"usage\":");
        put_usage(o, &a->usage);
    }
    json_object_foreach(a->o.request->values.repeated, key, value)
    {
        json_out_put(o, ",");
        json_out_text(o, key);
        json_out_put(o, ":");
        json_out_value(o, value);
    }
    json_out_put(o, "}");
}

static void put_response_event(struct openai_answer *a, const char *type,
                               const char *status, const struct openai_error *e,
                               bool ended)
{
    event_open(a, type);
    json_out_put(&a->out, ",\"response\":");
    put_response(a, status, e, ended);
    event_close(a);
}

/* ---- the operations ---- */

static bool init(struct openai_answer *a)
{
    struct responses *s = calloc(1, sizeof *s);

    a->own = s;
    if (s != NULL) {
        s->name.account = s->text.account = &a->account;
        s->logs.account = s->items.account = &a->account;
    }
    return s != NULL;
}

static void first(struct openai_answer *a)
{
    put_response_event(a, "response.created", "in_progress", NULL, false);
    put_response_event(a, "response.in_progress", "in_progress", NULL, false);
}

/* Ends a call that was cut.  A stream has shown it; a whole answer has its text
 * in place of it, or its arguments if the parser kept no text. */
static void cut(struct openai_answer *a, const struct output_event *event)
{
    struct responses *s = a->own;
    size_t n = s->text.n;

    if (a->stream) {
        item_close(a, "incomplete");
        return;
    }
    item_open(a, ITEM_MESSAGE, NULL);
    if (event->n > 0) {
        json_out_escaped(&s->text, event->text, event->n);
    } else {
        s->text.n = n; /* item_open() left the bytes in place */
    }
}

static void delta(struct openai_answer *a, uint32_t index,
                  const struct output_event *event)
{
    static const enum item_kind kinds[] = {
        [OUTPUT_CONTENT] = ITEM_MESSAGE, [OUTPUT_REASONING] = ITEM_REASONING,
        [OUTPUT_TOOL_BEGIN] = ITEM_CALL, [OUTPUT_TOOL_ARGUMENTS] = ITEM_CALL,
        [OUTPUT_TOOL_END] = ITEM_CALL,   [OUTPUT_TOOL_CUT] = ITEM_CALL,
    };
    struct responses *s = a->own;
    enum item_kind kind = kinds[event->kind];

    (void)index; /* one choice */
    if (event->kind == OUTPUT_TOOL_CUT) {
        cut(a, event);
        return;
    }
    /* A call begins an item even after a call. */
    if (s->open != kind || event->kind == OUTPUT_TOOL_BEGIN) {
        item_close(a, "completed");
        if (event->kind != OUTPUT_TOOL_END) {
            item_open(a, kind, event);
        }
    }
    if (event->kind == OUTPUT_TOOL_END) {
        item_close(a, "completed");
    } else if (event->kind != OUTPUT_TOOL_BEGIN) {
        json_out_escaped(&s->text, event->text, event->n);
    }
}

static void finish(struct openai_answer *a, uint32_t index)
{
    const struct responses *s = a->own;
    const char *status =
        incomplete_reason(a) != NULL ? "incomplete" : "completed";

    (void)index;
    /* An answer has at least one item. */
    if (s->open == ITEM_NONE && s->n_items == 0) {
        item_open(a, ITEM_MESSAGE, NULL);
    }
    item_close(a, status);
}

static void end(struct openai_answer *a)
{
    bool cut = incomplete_reason(a) != NULL;
    const char *status = cut ? "incomplete" : "completed";

    if (!a->stream) {
        put_response(a, status, NULL, true);
        return;
    }
    put_response_event(a, cut ? "response.incomplete" : "response.completed",
                       status, NULL, true);
}

static void fail(struct openai_answer *a, const struct openai_error *e)
{
    /* Open items end first, so that clients see each one whole. */
    item_close(a, "incomplete");
    put_response_event(a, "response.failed", "failed", e, false);
}

static void drop(struct openai_answer *a)
{
    struct responses *s = a->own;

    s->open = ITEM_NONE;
}

static void fini(struct openai_answer *a)
{
    struct responses *s = a->own;

    if (s == NULL) {
        return;
    }
    json_out_fini(&s->name);
    json_out_fini(&s->text);
    json_out_fini(&s->logs);
    json_out_fini(&s->items);
    free(s);
}

const struct dialect responses_dialect = {
    .path = "/v1/responses",
    .help = "responses",
    .label = GATEWAY_ROUTE_RESPONSES,
    .parse = responses_parse,
    .input = "input",
    .stream_type = DIALECT_EVENTS,
    .whole_type = DIALECT_JSON,
    .ping = DIALECT_COMMENT,
    .remark = DIALECT_REMARK,
    .error = openai_error_body,
    .init = init,
    .first = first,
    .delta = delta,
    .logprobs = answer_logs_objects,
    .flush = flush,
    .finish = finish,
    .end = end,
    .fail = fail,
    .drop = drop,
    .fini = fini,
};
