#include "gateway/dialects/answer_base.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

#include "common/base/bytes.h"

/* ---- life ---- */

static void open_account(struct openai_answer *a)
{
    a->account.budget = a->o.memory;
    a->out.account = a->head.account = &a->account;
    for (uint32_t i = 0; i < a->n_choices; i++) {
        struct choice *c = &a->choices[i];

        c->text.account = c->reasoning.account = &a->account;
        c->calls.account = &a->account;
        for (size_t list = 0; list < ANSWER_LOGS; list++) {
            c->logs[list].account = &a->account;
        }
    }
}

bool openai_answer_broken(const struct openai_answer *a)
{
    return a->account.broken;
}

struct openai_answer *openai_answer_new(const struct openai_answer_options *o)
{
    uint32_t n = openai_request_choices(o->request);
    struct openai_answer *a = calloc(1, sizeof *a + n * sizeof *a->choices);

    if (a == NULL) {
        return NULL;
    }
    a->o = *o;
    a->n_choices = n;
    open_account(a);
    a->stream = o->request->stream;
    a->wants_logprobs = o->request->sampling.logprobs;
    if (a->o.model == NULL) {
        a->o.model = o->request->model;
    }
    for (size_t i = 0; i < 16; i++) {
        snprintf(a->id + 2 * i, 3, "%02x", o->request_id[i]);
    }
    a->dialect = o->dialect;
    /* Heads of chunks are made once, not for each chunk. */
    if (!a->dialect->init(a) || a->account.broken) {
        openai_answer_free(&a);
    }
    return a;
}

void openai_answer_free(struct openai_answer **answer)
{
    struct openai_answer *a = *answer;

    if (a == NULL) {
        return;
    }
    a->dialect->fini(a);
    for (uint32_t i = 0; i < a->n_choices; i++) {
        struct choice *c = &a->choices[i];

        json_out_fini(&c->text);
        json_out_fini(&c->reasoning);
        json_out_fini(&c->calls);
        for (size_t list = 0; list < ANSWER_LOGS; list++) {
            json_out_fini(&c->logs[list]);
        }
    }
    json_out_fini(&a->out);
    json_out_fini(&a->head);
    free(a);
    *answer = NULL;
}

/* ---- pieces ---- */

/* Hands the text over in one write, so that chunks cost no small writes. */
static void write_out(struct openai_answer *a)
{
    if (a->out.n > 0 && !a->account.broken) {
        a->o.write(a->o.arg, a->out.data, a->out.n);
        a->out.n = 0;
    }
}

void openai_answer_begin(struct openai_answer *a)
{
    if (a->stream) {
        a->dialect->first(a);
        write_out(a);
    }
}

void openai_answer_output(struct openai_answer *a, uint32_t index,
                          const struct output_event *event)
{
    assert(index < a->n_choices);
    a->dialect->delta(a, index, event);
}

void openai_answer_echo(struct openai_answer *a, uint32_t index,
                        const char *text, size_t n)
{
    struct output_event event = {.kind = OUTPUT_CONTENT, .text = text, .n = n};

    /* Offsets of tokens count from the start of the text. */
    openai_answer_output(a, index, &event);
    for (size_t i = 0; i < n; i++) {
        a->choices[index].n_chars += ((uint8_t)text[i] & 0xc0) != 0x80;
    }
}

/* Converted at once: the caller's tokens do not outlive the call. */
void openai_answer_logprobs(struct openai_answer *a, uint32_t index,
                            const struct openai_logprobs *l)
{
    assert(index < a->n_choices);
    if (a->wants_logprobs && a->o.vocab != NULL) {
        a->dialect->logprobs(a, &a->choices[index], l);
    }
}

void openai_answer_usage(struct openai_answer *a, const struct openai_usage *u)
{
    a->usage = *u;
}

void openai_answer_flush(struct openai_answer *a, uint32_t index)
{
    assert(index < a->n_choices);
    if (a->stream) {
        a->dialect->flush(a, index);
        write_out(a);
    }
}

void openai_answer_stopped(struct openai_answer *a, uint32_t index,
                           uint32_t stop)
{
    assert(index < a->n_choices);
    if (stop < a->o.request->n_stops) {
        a->choices[index].stop = &a->o.request->stops[stop];
    }
}

/* The choice may still hold text; its writer adds the reason to that. */
void openai_answer_finish(struct openai_answer *a, uint32_t index,
                          const char *reason)
{
    assert(index < a->n_choices);
    a->choices[index].reason = reason;
    a->dialect->finish(a, index);
    if (a->stream) {
        write_out(a);
    }
}

void openai_answer_end(struct openai_answer *a, const struct openai_usage *u)
{
    a->usage = *u;
    a->dialect->end(a);
    write_out(a);
}

void openai_answer_fail(struct openai_answer *a, const struct openai_error *e)
{
    if (a->account.broken) {
        /* The error may find memory again.  Pending texts, which lack a part,
         * are dropped. */
        json_out_fini(&a->out);
        a->account.broken = false;
        a->dialect->drop(a);
    }
    if (a->stream) {
        a->dialect->fail(a, e);
    } else {
        /* Nothing was written yet, so the status line can still be that of
         * the error. */
        a->out.n = 0;
        a->dialect->error(&a->out, e);
    }
    write_out(a);
}

const char *openai_answer_type(const struct openai_answer *a)
{
    return a->stream ? a->dialect->stream_type : a->dialect->whole_type;
}

/* ---- what writers share ---- */

void answer_key(const struct openai_answer *a, const char *prefix,
                uint32_t index, uint32_t number, char *key)
{
    uint8_t place[16 + 2 * sizeof(uint32_t)];
    XXH128_hash_t hash;

    /* Bytes in one order, so that every gateway derives the same id. */
    memcpy(place, a->o.request_id, 16);
    put_u32(place + 16, index);
    put_u32(place + 20, number);
    hash = XXH3_128bits(place, sizeof place);
    snprintf(key, ANSWER_KEY, "%s%08x%016llx", prefix,
             (unsigned)(hash.high64 >> 32), (unsigned long long)hash.low64);
}

void answer_member(struct json_out *o, const char *key, const char *value)
{
    json_out_put(o, "\"");
    json_out_put(o, key);
    json_out_put(o, "\":");
    json_out_text(o, value);
}

void answer_usage(struct json_out *o, const struct openai_usage *u)
{
    json_out_put(o, "{\"prompt_tokens\":");
    json_out_u64(o, u->prompt);
    json_out_put(o, ",\"completion_tokens\":");
    json_out_u64(o, u->completion);
    json_out_put(o, ",\"total_tokens\":");
    json_out_u64(o, u->prompt + u->completion);
    json_out_put(o, ",\"prompt_tokens_details\":{\"cached_tokens\":");
    json_out_u64(o, u->cached);
    json_out_put(o, "},\"completion_tokens_details\":{\"reasoning_tokens\":");
    json_out_u64(o, u->reasoning);
    json_out_put(o, "}}");
}
