/* Writes answers of /v1/messages: blocks, and events as they grow.
 *
 *     message_start
 *       ( content_block_start  ping?  content_block_delta*
 *         content_block_stop )*
 *     message_delta  message_stop
 *
 * One ping follows the start of the first block, where the API has it. */
#include <stdlib.h>

#include "gateway/dialects/answer_base.h"
#include "gateway/dialects/anthropic_error.h"
#include "gateway/dialects/anthropic_parse.h"
#include "gateway/dialects/dialect_rows.h"

#define PING "event: ping\ndata: {\"type\":\"ping\"}\n\n"

/* An answer is a list of blocks; one is open at a time. */
enum block { BLOCK_NONE, BLOCK_THINKING, BLOCK_TEXT, BLOCK_USE };

struct anthropic {
    uint32_t n_blocks; /* that are closed */
    enum block open;
    char id[ANSWER_KEY];  /* of the call, or the signature of thinking */
    struct json_out name; /* of the call, escaped */
    /* The open block, in a stream what no delta carried yet.  It is escaped,
     * but for the arguments of a whole answer: there they are JSON. */
    struct json_out text;
    struct json_out blocks; /* closed, with commas between */
};

/* ---- events ---- */

static void event_open(struct openai_answer *a, const char *type)
{
    json_out_put(&a->out, "event: ");
    json_out_put(&a->out, type);
    json_out_put(&a->out, "\ndata: {");
    answer_member(&a->out, "type", type);
}

static void event_close(struct openai_answer *a)
{
    json_out_put(&a->out, "}\n\n");
}

/* An event about the open block. */
static void block_event(struct openai_answer *a, const char *type)
{
    const struct anthropic *s = a->own;

    event_open(a, type);
    json_out_put(&a->out, ",\"index\":");
    json_out_u64(&a->out, s->n_blocks);
}

static void put_quoted(struct json_out *o, const char *key,
                       const struct json_out *text)
{
    json_out_put(o, ",\"");
    json_out_put(o, key);
    json_out_put(o, "\":\"");
    json_out_raw(o, text->data, text->n);
    json_out_put(o, "\"");
}

/* ---- blocks ---- */

/* Writes the open block with its text so far: at its start none.  Signatures
 * prove to Anthropic that it wrote the thinking; here they only have its form.
 */
static void put_block(struct openai_answer *a, struct json_out *o, bool start)
{
    static const struct json_out none = {0};
    const struct anthropic *s = a->own;
    const struct json_out *text = start ? &none : &s->text;

    if (s->open == BLOCK_TEXT) {
        json_out_put(o, "{\"type\":\"text\"");
        put_quoted(o, "text", text);
    } else if (s->open == BLOCK_THINKING) {
        json_out_put(o, "{\"type\":\"thinking\"");
        put_quoted(o, "thinking", text);
        json_out_put(o, ",");
        answer_member(o, "signature", start ? "" : s->id);
    } else {
        json_out_put(o, "{\"type\":\"tool_use\",");
        answer_member(o, "id", s->id);
        put_quoted(o, "name", &s->name);
        json_out_put(o, ",\"input\":");
        json_out_raw(o, text->n > 0 ? text->data : "{}",
                     text->n > 0 ? text->n : 2);
    }
    json_out_put(o, "}");
}

static void block_open(struct openai_answer *a, enum block kind,
                       const struct output_event *event)
{
    struct anthropic *s = a->own;

    s->open = kind;
    s->text.n = s->name.n = 0;
    if (kind == BLOCK_USE) {
        answer_key(a, "toolu_", 0, event->tool, s->id);
        json_out_escaped(&s->name, event->text, event->n);
    } else {
        answer_key(a, "sig_", 0, s->n_blocks, s->id);
    }
    if (!a->stream) {
        return;
    }
    block_event(a, "content_block_start");
    json_out_put(&a->out, ",\"content_block\":");
    put_block(a, &a->out, true);
    event_close(a);
    if (s->n_blocks == 0) {
        json_out_put(&a->out, PING);
    }
}

static void put_delta(struct openai_answer *a, const char *type,
                      const char *key, const struct json_out *text)
{
    block_event(a, "content_block_delta");
    json_out_put(&a->out, ",\"delta\":{");
    answer_member(&a->out, "type", type);
    put_quoted(&a->out, key, text);
    json_out_put(&a->out, "}");
    event_close(a);
}

static void flush(struct openai_answer *a, uint32_t index)
{
    static const char *const forms[][2] = {
        [BLOCK_THINKING] = {"thinking_delta", "thinking"},
        [BLOCK_TEXT] = {"text_delta", "text"},
        [BLOCK_USE] = {"input_json_delta", "partial_json"},
    };
    struct anthropic *s = a->own;

    (void)index; /* one choice */
    if (a->stream && s->open != BLOCK_NONE && s->text.n > 0) {
        put_delta(a, forms[s->open][0], forms[s->open][1], &s->text);
        s->text.n = 0;
    }
}

static void put_signature(struct openai_answer *a)
{
    const struct anthropic *s = a->own;
    struct json_out id = {.data = (char *)(uintptr_t)s->id, .n = strlen(s->id)};

    put_delta(a, "signature_delta", "signature", &id);
}

static void block_close(struct openai_answer *a)
{
    struct anthropic *s = a->own;

    if (s->open == BLOCK_NONE) {
        return;
    }
    if (a->stream) {
        flush(a, 0);
        if (s->open == BLOCK_THINKING) {
            put_signature(a);
        }
        block_event(a, "content_block_stop");
        event_close(a);
    } else {
        json_out_put(&s->blocks, s->n_blocks > 0 ? "," : "");
        put_block(a, &s->blocks, false);
    }
    s->n_blocks++;
    s->open = BLOCK_NONE;
}

/* Ends a call that was cut.  A stream has shown it; a whole answer has its text
 * in place of it, or its arguments if the parser kept no text. */
static void cut(struct openai_answer *a, const struct output_event *event)
{
    struct anthropic *s = a->own;
    struct json_out raw = s->text;

    if (a->stream) {
        block_close(a);
        return;
    }
    s->text = (struct json_out){.account = raw.account};
    block_open(a, BLOCK_TEXT, NULL);
    if (event->n > 0) {
        json_out_escaped(&s->text, event->text, event->n);
    } else {
        json_out_escaped(&s->text, raw.data, raw.n);
    }
    json_out_fini(&raw);
}

/* ---- the message ---- */

/* Tokens that were read from the cache are no input; those that went into it
 * are neither, if the client marks what it counts on. */
static void put_usage(struct openai_answer *a)
{
    struct json_out *o = &a->out;
    uint64_t fresh = a->usage.prompt - a->usage.cached;
    bool marks = a->o.request->values.marks_cache;

    json_out_put(o, "{\"input_tokens\":");
    json_out_u64(o, marks ? 0 : fresh);
    json_out_put(o, ",\"cache_creation_input_tokens\":");
    json_out_u64(o, marks ? fresh : 0);
    json_out_put(o, ",\"cache_read_input_tokens\":");
    json_out_u64(o, a->usage.cached);
    json_out_put(o, ",\"output_tokens\":");
    json_out_u64(o, a->usage.completion);
    json_out_put(o, ",\"output_tokens_details\":{\"thinking_tokens\":");
    json_out_u64(o, a->usage.reasoning);
    json_out_put(o, "}}");
}

static void put_reason(struct openai_answer *a)
{
    static const char *const reasons[][2] = {{"stop", "end_turn"},
                                             {"length", "max_tokens"},
                                             {"tool_calls", "tool_use"},
                                             {"content_filter", "refusal"}};
    const struct choice *c = &a->choices[0];
    const struct openai_stop *stop = c->stop;
    const char *reason = NULL;

    for (size_t i = 0; c->reason != NULL && i < 4; i++) {
        if (strcmp(c->reason, reasons[i][0]) == 0) {
            reason = reasons[i][1];
        }
    }
    /* A stop string may end an answer behind a whole call: the call counts. */
    if (reason == reasons[0][1] && stop != NULL) {
        reason = "stop_sequence";
    } else {
        stop = NULL;
    }
    answer_member(&a->out, "stop_reason", reason);
    json_out_put(&a->out, ",\"stop_sequence\":");
    if (stop != NULL) {
        json_out_string(&a->out, stop->text, stop->n);
    } else {
        json_out_put(&a->out, "null");
    }
}

static void put_message(struct openai_answer *a)
{
    const struct anthropic *s = a->own;
    struct json_out *o = &a->out;

    json_out_put(o, "{\"id\":\"msg_");
    json_out_put(o, a->id);
    json_out_put(o, "\",\"type\":\"message\",\"role\":\"assistant\",");
    answer_member(o, "model", a->o.model);
    json_out_put(o, ",\"content\":[");
    json_out_raw(o, s->blocks.data, s->blocks.n);
    json_out_put(o, "],");
    put_reason(a);
    json_out_put(o, ",\"usage\":");
    put_usage(a);
    json_out_put(o, "}");
}

/* ---- the operations ---- */

static bool init(struct openai_answer *a)
{
    struct anthropic *s = calloc(1, sizeof *s);

    a->own = s;
    if (s != NULL) {
        s->name.account = s->text.account = &a->account;
        s->blocks.account = &a->account;
    }
    return s != NULL;
}

static void first(struct openai_answer *a)
{
    event_open(a, "message_start");
    json_out_put(&a->out, ",\"message\":");
    put_message(a);
    event_close(a);
}

static void delta(struct openai_answer *a, uint32_t index,
                  const struct output_event *event)
{
    static const enum block kinds[] = {
        [OUTPUT_CONTENT] = BLOCK_TEXT,   [OUTPUT_REASONING] = BLOCK_THINKING,
        [OUTPUT_TOOL_BEGIN] = BLOCK_USE, [OUTPUT_TOOL_ARGUMENTS] = BLOCK_USE,
        [OUTPUT_TOOL_END] = BLOCK_USE,   [OUTPUT_TOOL_CUT] = BLOCK_USE,
    };
    struct anthropic *s = a->own;
    enum block kind = kinds[event->kind];

    (void)index;
    if (event->kind == OUTPUT_TOOL_CUT) {
        cut(a, event);
        return;
    }
    if (event->kind == OUTPUT_TOOL_END) {
        block_close(a);
        return;
    }
    /* A call begins a block even after a call; no other block is empty. */
    if (event->kind == OUTPUT_TOOL_BEGIN || (s->open != kind && event->n > 0)) {
        block_close(a);
        block_open(a, kind, event);
    }
    if (event->kind == OUTPUT_TOOL_BEGIN) {
        return;
    }
    if (kind == BLOCK_USE && !a->stream) {
        json_out_raw(&s->text, event->text, event->n);
    } else {
        json_out_escaped(&s->text, event->text, event->n);
    }
}

static void finish(struct openai_answer *a, uint32_t index)
{
    (void)index;
    block_close(a);
}

static void end(struct openai_answer *a)
{
    if (!a->stream) {
        put_message(a);
        return;
    }
    event_open(a, "message_delta");
    json_out_put(&a->out, ",\"delta\":{");
    put_reason(a);
    json_out_put(&a->out, "},\"usage\":");
    put_usage(a);
    event_close(a);
    event_open(a, "message_stop");
    event_close(a);
}

/* The SDKs throw at this event, and read none after it. */
static void fail(struct openai_answer *a, const struct openai_error *e)
{
    json_out_put(&a->out, "event: error\ndata: ");
    anthropic_error_body(&a->out, e);
    json_out_put(&a->out, "\n\n");
}

static void drop(struct openai_answer *a)
{
    struct anthropic *s = a->own;

    s->open = BLOCK_NONE;
}

static void fini(struct openai_answer *a)
{
    struct anthropic *s = a->own;

    if (s == NULL) {
        return;
    }
    json_out_fini(&s->name);
    json_out_fini(&s->text);
    json_out_fini(&s->blocks);
    free(s);
}

const struct dialect anthropic_dialect = {
    .path = "/v1/messages",
    .help = "messages, as Anthropic's API",
    .label = GATEWAY_ROUTE_MESSAGES,
    .parse = anthropic_parse,
    .input = "messages",
    .stream_type = DIALECT_EVENTS,
    .whole_type = DIALECT_JSON,
    .ping = PING,
    .remark = DIALECT_REMARK,
    .error = anthropic_error_body,
    .status = anthropic_error_status,
    .id_header = ANTHROPIC_ID_HEADER,
    .init = init,
    .first = first,
    .delta = delta,
    .flush = flush,
    .finish = finish,
    .end = end,
    .fail = fail,
    .drop = drop,
    .fini = fini,
};
