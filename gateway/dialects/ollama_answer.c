#include "gateway/dialects/ollama_answer.h"

#include "gateway/openai/ollama_models.h"

void ollama_error(struct json_out *out, const struct openai_error *e)
{
    json_out_put(out, "{\"error\":");
    json_out_text(out, e->message);
    json_out_put(out, "}");
}

bool ollama_init(struct openai_answer *a)
{
    json_out_put(&a->head, "{");
    answer_member(&a->head, "model", a->o.model);
    json_out_put(&a->head, ",\"created_at\":");
    ollama_put_time(&a->head, a->o.created_unix);
    json_out_put(&a->head, ",");
    return true;
}

/* The first line comes with the first text. */
void ollama_first(struct openai_answer *a)
{
    (void)a;
}

/* ---- the text of a choice ---- */

static void call_close(struct choice *c)
{
    if (c->in_call) {
        json_out_put(&c->calls, c->calls.n == c->arguments_at ? "{}}}" : "}}");
        c->in_call = false;
    }
}

/* No line has shown a call that is not whole, so that it is text after all. */
static void call_cut(struct choice *c, const struct output_event *event)
{
    if (event->n > 0) {
        json_out_escaped(&c->text, event->text, event->n);
    } else if (!c->calls.broken) {
        json_out_escaped(&c->text, c->calls.data + c->arguments_at,
                         c->calls.n - c->arguments_at);
    }
    c->calls.n = c->call_at;
    c->in_call = false;
}

void ollama_delta(struct openai_answer *a, uint32_t index,
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
        c->call_at = c->calls.n;
        json_out_put(&c->calls, c->calls.n > 0 ? "," : "");
        json_out_put(&c->calls, "{\"function\":{\"name\":\"");
        json_out_escaped(&c->calls, event->text, event->n);
        json_out_put(&c->calls, "\",\"arguments\":");
        c->arguments_at = c->calls.n;
        c->in_call = true;
        break;
    case OUTPUT_TOOL_ARGUMENTS:
        json_out_raw(&c->calls, event->text, event->n);
        break;
    case OUTPUT_TOOL_END:
        call_close(c);
        break;
    case OUTPUT_TOOL_CUT:
        call_cut(c, event);
        break;
    }
}

/* ---- lines ---- */

/* Begins a line with what the choice holds, but for a call that is not whole;
 * the caller ends it. */
static void put_content(struct openai_answer *a, struct choice *c)
{
    const struct ollama_form *form = a->dialect->form;
    struct json_out *o = &a->out;

    json_out_raw(o, a->head.data, a->head.n);
    json_out_put(o, form->open);
    json_out_raw(o, c->text.data, c->text.n);
    json_out_put(o, "\"");
    if (c->reasoning.n > 0) {
        json_out_put(o, ",\"thinking\":\"");
        json_out_raw(o, c->reasoning.data, c->reasoning.n);
        json_out_put(o, "\"");
    }
    c->text.n = c->reasoning.n = 0;
    if (c->calls.n > 0 && !c->in_call) {
        json_out_put(o, ",\"tool_calls\":[");
        json_out_raw(o, c->calls.data, c->calls.n);
        json_out_put(o, "]");
        c->calls.n = 0;
    }
    json_out_put(o, form->close);
}

void ollama_flush(struct openai_answer *a, uint32_t index)
{
    struct choice *c = &a->choices[index];

    if (c->text.n + c->reasoning.n > 0 || (c->calls.n > 0 && !c->in_call)) {
        put_content(a, c);
        json_out_put(&a->out, ",\"done\":false}\n");
    }
}

void ollama_finish(struct openai_answer *a, uint32_t index)
{
    if (a->stream) {
        ollama_flush(a, index);
    }
}

/* Durations are left out: an answer has no clock. */
void ollama_end(struct openai_answer *a)
{
    struct choice *c = &a->choices[0];
    struct json_out *o = &a->out;

    put_content(a, c);
    json_out_put(o, ",\"done\":true,");
    answer_member(o, "done_reason",
                  c->reason != NULL && strcmp(c->reason, "length") == 0
                      ? "length"
                      : "stop");
    json_out_put(o, ",\"prompt_eval_count\":");
    json_out_u64(o, a->usage.prompt);
    json_out_put(o, ",\"eval_count\":");
    json_out_u64(o, a->usage.completion);
    json_out_put(o, a->stream ? "}\n" : "}");
}

void ollama_fail(struct openai_answer *a, const struct openai_error *e)
{
    a->dialect->error(&a->out, e);
    json_out_put(&a->out, "\n");
}

void ollama_drop(struct openai_answer *a)
{
    a->choices[0].text.n = a->choices[0].reasoning.n = 0;
}

void ollama_fini(struct openai_answer *a)
{
    (void)a;
}
