#include "gateway/dialects/choices.h"

#include <stdio.h>
#include <xxhash.h>

#include "common/base/plant.h"

static const struct choices_form *form_of(const struct openai_answer *a)
{
    return a->dialect->form;
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

bool choices_init(struct openai_answer *a)
{
    const struct choices_form *form = form_of(a);
    struct json_out *o = &a->head;

    json_out_put(o, a->stream ? "data: {\"id\":\"" : "{\"id\":\"");
    json_out_put(o, form->id_prefix);
    json_out_put(o, a->id);
    json_out_put(o, "\",");
    answer_member(o, "object", a->stream ? form->chunk : form->whole);
    json_out_put(o, ",\"created\":");
    json_out_i64(o, a->o.created_unix);
    json_out_put(o, ",");
    answer_member(o, "model", a->o.model);
    json_out_put(o, ",");
    put_fingerprint(o, a->o.model);
    if (a->o.request->turn.shows_tier) {
        json_out_put(o, ",");
        answer_member(o, "service_tier", openai_tiers[a->o.request->turn.tier]);
    }
    json_out_put(o, ",\"choices\":[");
    return true;
}

/* ---- parts of a choice ---- */

static void put_logs(struct openai_answer *a, struct choice *c)
{
    const struct choices_form *form = form_of(a);
    struct json_out *o = &a->out;

    json_out_put(o, ",\"logprobs\":");
    /* A chunk without tokens has null, a whole answer empty lists. */
    if (!a->wants_logprobs || (a->stream && c->logs[0].n == 0)) {
        json_out_put(o, "null");
        return;
    }
    for (size_t i = 0; i < ANSWER_LOGS && form->logs[i] != NULL; i++) {
        json_out_put(o, form->logs[i]);
        json_out_raw(o, c->logs[i].data, c->logs[i].n);
        c->logs[i].n = 0;
    }
    json_out_put(o, form->logs_end);
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
    json_out_put(&a->out, form_of(a)->delta_open);
}

/* Ends a chunk after its delta; the reason is null until the choice ends. */
static void chunk_close(struct openai_answer *a, uint32_t index)
{
    const struct openai_request *r = a->o.request;
    struct choice *c = &a->choices[index];

    json_out_put(&a->out, form_of(a)->delta_close);
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
    form_of(a)->put_run(&a->out, c);
    c->text.n = 0;
}

void choices_put_text(struct json_out *o, const struct choice *c)
{
    json_out_put(o, "\"");
    json_out_raw(o, c->text.data, c->text.n);
    json_out_put(o, "\"");
}

/* Writes the pending run, and logprobs even without text, so that none are
 * kept for long. */
void choices_flush(struct openai_answer *a, uint32_t index)
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
        choices_flush(a, index);
    }
    if (event->kind == OUTPUT_TOOL_BEGIN) {
        emit_call(a, index, event);
    } else if (event->kind != OUTPUT_TOOL_END &&
               event->kind != OUTPUT_TOOL_CUT) {
        c->is_open = true;
        c->run = event->kind;
        c->tool = event->tool;
        json_out_escaped(&c->text, event->text, event->n);
    }
}

/* ---- whole answers ---- */

static void call_close(struct choice *c)
{
    if (c->in_call) {
        json_out_put(&c->calls, "\"}}");
        c->in_call = false;
    }
}

/* Takes back a call that was cut: its text is content.  If the parser kept no
 * text, the arguments are. */
static void call_cut(struct choice *c, const struct output_event *event)
{
    if (event->n > 0) {
        json_out_escaped(&c->text, event->text, event->n);
    } else if (!c->calls.broken) {
        json_out_raw(&c->text, c->calls.data + c->arguments_at,
                     c->calls.n - c->arguments_at);
    }
    c->calls.n = c->call_at;
    c->in_call = false;
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
        c->call_at = c->calls.n;
        json_out_put(&c->calls, c->calls.n > 0 ? ",{" : "{");
        call_head(a, index, event, &c->calls);
        c->arguments_at = c->calls.n;
        c->in_call = true;
        break;
    case OUTPUT_TOOL_ARGUMENTS:
        json_out_escaped(&c->calls, event->text, event->n);
        break;
    case OUTPUT_TOOL_END:
        call_close(c);
        break;
    case OUTPUT_TOOL_CUT:
        call_cut(c, event);
        break;
    }
}

static void put_choice(struct openai_answer *a, uint32_t index)
{
    struct choice *c = &a->choices[index];

    json_out_put(&a->out, index > 0 ? ",{\"index\":" : "{\"index\":");
    json_out_u64(&a->out, index);
    form_of(a)->put_whole(&a->out, c);
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

void choices_first(struct openai_answer *a)
{
    const char *role = form_of(a)->role;

    for (uint32_t i = 0; role != NULL && i < a->n_choices; i++) {
        chunk_open(a, i);
        json_out_put(&a->out, role);
        chunk_close(a, i);
    }
}

void choices_delta(struct openai_answer *a, uint32_t index,
                   const struct output_event *event)
{
    (a->stream ? stream_output : whole_output)(a, index, event);
}

/* The reason goes with the last text, or alone. */
void choices_finish(struct openai_answer *a, uint32_t index)
{
    struct choice *c = &a->choices[index];

    if (!a->stream) {
        call_close(c);
        return;
    }
    chunk_open(a, index);
    if (form_of(a)->last_text || c->text.n > 0) {
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

void choices_end(struct openai_answer *a)
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
void choices_fail(struct openai_answer *a, const struct openai_error *e)
{
    json_out_put(&a->out, "data: ");
    a->dialect->error(&a->out, e);
    json_out_put(&a->out, "\n\n");
    put_done(a);
}

void choices_fini(struct openai_answer *a)
{
    (void)a;
}

/* choices_fail() writes none. */
void choices_drop(struct openai_answer *a)
{
    (void)a;
}
