/* Writes answers of /v1/completions and /v1/chat/completions. */
#include <stdio.h>
#include <xxhash.h>

#include "common/base/plant.h"
#include "gateway/openai/answer_base.h"

static bool is_chat(const struct openai_answer *a)
{
    return a->o.request->kind == OPENAI_CHAT;
}

/* ---- the head of a chunk, or of the body ---- */

/* Equal for equal builds and models, so that a client can detect that seeds may
 * give other texts. */
static void put_fingerprint(struct json_out *o, const char *model)
{
    char text[64];
    uint64_t hash = XXH3_64bits(model, strlen(model));

    snprintf(text, sizeof text, "sluice-%s-%08x", SLUICE_VERSION,
             (unsigned)(hash >> 32));
    answer_member(o, "system_fingerprint", text);
}

static void init(struct openai_answer *a)
{
    struct json_out *o = &a->head;

    json_out_put(o, a->stream ? "data: {\"id\":\"" : "{\"id\":\"");
    json_out_put(o, is_chat(a) ? "chatcmpl-" : "cmpl-");
    json_out_put(o, a->id);
    json_out_put(o, "\",");
    answer_member(o, "object",
                  !is_chat(a) ? "text_completion"
                  : a->stream ? "chat.completion.chunk"
                              : "chat.completion");
    json_out_put(o, ",\"created\":");
    json_out_i64(o, a->o.created_unix);
    json_out_put(o, ",");
    answer_member(o, "model", a->o.model);
    json_out_put(o, ",");
    put_fingerprint(o, a->o.model);
    json_out_put(o, ",\"choices\":[");
}

/* ---- parts of a choice ---- */

static void put_logs(struct openai_answer *a, struct choice *c)
{
    static const char *const names[] = {
        "{\"tokens\":[", "],\"token_logprobs\":[", "],\"top_logprobs\":[",
        "],\"text_offset\":["};
    struct json_out *o = &a->out;

    json_out_put(o, ",\"logprobs\":");
    /* A chunk without tokens has null, a whole answer empty lists. */
    if (!a->wants_logprobs || (a->stream && c->logs[0].n == 0)) {
        json_out_put(o, "null");
        return;
    }
    for (size_t i = 0; i < (is_chat(a) ? 1 : 4); i++) {
        json_out_put(o, is_chat(a) ? "{\"content\":[" : names[i]);
        json_out_raw(o, c->logs[i].data, c->logs[i].n);
        c->logs[i].n = 0;
    }
    json_out_put(o, is_chat(a) ? "],\"refusal\":null}" : "]}");
}

static void put_reason(struct openai_answer *a, const struct choice *c)
{
    json_out_put(&a->out, ",");
    answer_member(&a->out, "finish_reason", c->reason);
    json_out_put(&a->out, "}");
}

/* Id, type and name come once; the arguments follow. */
static void call_head(struct openai_answer *a, uint32_t index,
                      const struct output_event *event, struct json_out *o)
{
    char key[ANSWER_KEY];

    answer_key(a, "call_", index, event->tool, key);
    answer_member(o, "id", key);
    json_out_put(o, ",\"type\":\"function\",\"function\":{\"name\":\"");
    json_out_escaped(o, event->text, event->n);
    json_out_put(o, "\",\"arguments\":\"");
}

/* ---- chunks of a stream ---- */

static void chunk_open(struct openai_answer *a, uint32_t index)
{
    json_out_raw(&a->out, a->head.data, a->head.n);
    json_out_put(&a->out, "{\"index\":");
    json_out_u64(&a->out, index);
    json_out_put(&a->out, is_chat(a) ? ",\"delta\":{" : ",\"text\":");
}

/* Ends a chunk after its delta; the reason is null until the choice ends. */
static void chunk_close(struct openai_answer *a, uint32_t index)
{
    const struct openai_request *r = a->o.request;
    struct choice *c = &a->choices[index];

    json_out_put(&a->out, is_chat(a) ? "}" : "");
    put_logs(a, c);
    put_reason(a, c);
    json_out_put(&a->out, "]");
    if (r->continuous_usage) {
        json_out_put(&a->out, ",\"usage\":");
        answer_usage(&a->out, &a->usage);
    } else if (r->include_usage) { /* null until the last chunk */
        json_out_put(&a->out, ",\"usage\":null");
    }
    json_out_put(&a->out, "}\n\n");
}

static void put_run(struct openai_answer *a, struct choice *c)
{
    struct json_out *o = &a->out;
    bool call = is_chat(a) && c->run == OUTPUT_TOOL_ARGUMENTS;

    if (call) {
        json_out_put(o, "\"tool_calls\":[{\"index\":");
        json_out_u64(o, c->tool);
        json_out_put(o, ",\"function\":{\"arguments\":");
    } else if (is_chat(a)) {
        json_out_put(o, c->run == OUTPUT_REASONING ? "\"reasoning_content\":"
                                                   : "\"content\":");
    }
    json_out_put(o, "\"");
    json_out_raw(o, c->text.data, c->text.n);
    json_out_put(o, call ? "\"}}]" : "\"");
    c->text.n = 0;
}

/* Writes the pending run, and logprobs even without text, so that none are
 * kept for long. */
static void emit_run(struct openai_answer *a, uint32_t index)
{
    struct choice *c = &a->choices[index];

    /* Logprobs alone travel with empty content, whatever ran before. */
    if (c->text.n == 0) {
        c->run = OUTPUT_CONTENT;
    }
    if (c->text.n > 0 || c->logs[0].n > 0) {
        chunk_open(a, index);
        put_run(a, c);
        chunk_close(a, index);
    }
    c->is_open = false;
}

/* A chunk of its own with empty arguments: clients create the call there and
 * then only append. */
static void emit_call(struct openai_answer *a, uint32_t index,
                      const struct output_event *event)
{
    chunk_open(a, index);
    json_out_put(&a->out, "\"tool_calls\":[{\"index\":");
    json_out_u64(&a->out, event->tool);
    json_out_put(&a->out, ",");
    call_head(a, index, event, &a->out);
    json_out_put(&a->out, "\"}}]");
    chunk_close(a, index);
}

static void stream_output(struct openai_answer *a, uint32_t index,
                          const struct output_event *event)
{
    struct choice *c = &a->choices[index];

    /* A chunk has one kind of text, so that order survives in the stream. */
    if (c->is_open && (c->run != event->kind || c->tool != event->tool)) {
        emit_run(a, index);
    }
    if (event->kind == OUTPUT_TOOL_BEGIN) {
        emit_call(a, index, event);
    } else if (event->kind != OUTPUT_TOOL_END) {
        c->is_open = true;
        c->run = event->kind;
        c->tool = event->tool;
        json_out_escaped(&c->text, event->text, event->n);
    }
}

/* ---- whole answers ---- */

/* A model that stops inside a call leaves its JSON open. */
static void call_close(struct choice *c)
{
    if (c->in_call) {
        json_out_put(&c->calls, "\"}}");
        c->in_call = false;
    }
}

static void whole_output(struct openai_answer *a, uint32_t index,
                         const struct output_event *event)
{
    struct choice *c = &a->choices[index];

    switch (event->kind) {
    case OUTPUT_CONTENT:
        json_out_escaped(&c->text, event->text, event->n);
        break;
    case OUTPUT_REASONING:
        json_out_escaped(&c->reasoning, event->text, event->n);
        break;
    case OUTPUT_TOOL_BEGIN:
        call_close(c);
        json_out_put(&c->calls, c->calls.n > 0 ? ",{" : "{");
        call_head(a, index, event, &c->calls);
        c->in_call = true;
        break;
    case OUTPUT_TOOL_ARGUMENTS:
        json_out_escaped(&c->calls, event->text, event->n);
        break;
    case OUTPUT_TOOL_END:
        call_close(c);
        break;
    }
}

static void put_message(struct openai_answer *a, const struct choice *c)
{
    struct json_out *o = &a->out;

    json_out_put(o, ",\"message\":{\"role\":\"assistant\",\"content\":");
    if (c->calls.n > 0 && c->text.n == 0) {
        json_out_put(o, "null");
    } else {
        json_out_put(o, "\"");
        json_out_raw(o, c->text.data, c->text.n);
        json_out_put(o, "\"");
    }
    json_out_put(o, ",\"refusal\":null");
    if (c->reasoning.n > 0) {
        json_out_put(o, ",\"reasoning_content\":\"");
        json_out_raw(o, c->reasoning.data, c->reasoning.n);
        json_out_put(o, "\"");
    }
    if (c->calls.n > 0) {
        json_out_put(o, ",\"tool_calls\":[");
        json_out_raw(o, c->calls.data, c->calls.n);
        json_out_put(o, "]");
    }
    json_out_put(o, "}");
}

static void put_choice(struct openai_answer *a, uint32_t index)
{
    struct choice *c = &a->choices[index];

    json_out_put(&a->out, index > 0 ? ",{\"index\":" : "{\"index\":");
    json_out_u64(&a->out, index);
    if (is_chat(a)) {
        put_message(a, c);
    } else {
        json_out_put(&a->out, ",\"text\":\"");
        json_out_raw(&a->out, c->text.data, c->text.n);
        json_out_put(&a->out, "\"");
    }
    put_logs(a, c);
    put_reason(a, c);
}

static void whole_end(struct openai_answer *a)
{
    json_out_raw(&a->out, a->head.data, a->head.n);
    for (uint32_t i = 0; i < a->n_choices; i++) {
        put_choice(a, i);
    }
    json_out_put(&a->out, "],\"usage\":");
    answer_usage(&a->out, &a->usage);
    json_out_put(&a->out, "}");
}

/* ---- the operations ---- */

static void begin(struct openai_answer *a)
{
    for (uint32_t i = 0; is_chat(a) && i < a->n_choices; i++) {
        chunk_open(a, i);
        json_out_put(&a->out, "\"role\":\"assistant\",\"content\":\"\"");
        chunk_close(a, i);
    }
}

static void output(struct openai_answer *a, uint32_t index,
                   const struct output_event *event)
{
    (a->stream ? stream_output : whole_output)(a, index, event);
}

/* The reason goes with the last text, or alone. */
static void finish(struct openai_answer *a, uint32_t index)
{
    struct choice *c = &a->choices[index];

    if (!a->stream) {
        call_close(c);
        return;
    }
    chunk_open(a, index);
    if (!is_chat(a) || c->text.n > 0) {
        put_run(a, c);
    }
    chunk_close(a, index);
    c->is_open = false;
}

static void put_done(struct openai_answer *a)
{
    json_out_put(&a->out, "data: [DONE]\n\n");
    if (PLANT(GATEWAY_DONE_TWICE)) {
        json_out_put(&a->out, "data: [DONE]\n\n");
    }
}

static void end(struct openai_answer *a)
{
    if (!a->stream) {
        whole_end(a);
        return;
    }
    /* The last chunk has no choice, as the usage is that of all. */
    if (a->o.request->include_usage) {
        json_out_raw(&a->out, a->head.data, a->head.n);
        json_out_put(&a->out, "],\"usage\":");
        answer_usage(&a->out, &a->usage);
        json_out_put(&a->out, "}\n\n");
    }
    put_done(a);
}

/* The status line is gone; clients throw when a chunk has "error". */
static void fail(struct openai_answer *a, const struct openai_error *e)
{
    json_out_put(&a->out, "data: ");
    openai_error_body(&a->out, e);
    json_out_put(&a->out, "\n\n");
    put_done(a);
}

static void fini(struct openai_answer *a)
{
    (void)a;
}

const struct answer_ops choices_ops = {.init = init,
                                       .begin = begin,
                                       .output = output,
                                       .flush = emit_run,
                                       .finish = finish,
                                       .end = end,
                                       .fail = fail,
                                       .fini = fini};
