/* client_generate(): one streaming call, and the cancel that may end it. */
#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "client/client_impl.h"
#include "common/request_id.h"
#include "proto/inference.pb-c.h"

struct generation {
    struct client *client;
    const struct client_request *request;
    struct client_result *out;
    struct error *error;
    enum status status;
    uint64_t call;
    int64_t began_us;
    uint32_t next_index;
    bool ended, wants_cancel;
};

struct client_request client_request_default(void)
{
    return (struct client_request){.temperature = 1, .top_p = 1};
}

static void take_name(char out[CLIENT_WORKER_NAME], bool has,
                      ProtobufCBinaryData name)
{
    size_t n = has ? name.len : 0;

    n = n < CLIENT_WORKER_NAME ? n : CLIENT_WORKER_NAME - 1;
    if (n > 0) {
        memcpy(out, name.data, n);
    }
    out[n] = '\0';
}

static void take_figures(struct client_result *out,
                         const Sluice__V1__GenerateFigures *f)
{
    out->has_figures = true;
    out->n_prompt = f->n_prompt;
    out->n_generated = f->n_generated;
    out->queued_us = f->queued_us;
    out->first_token_us = f->first_token_us;
    out->total_us = f->total_us;
    out->blocks = f->blocks;
    out->slots = f->slots;
    out->seed = f->seed;
    out->n_moves = f->n_moves;
    take_name(out->worker, f->has_worker, f->worker);
}

void client_take_receipt(struct client_receipt *out,
                         const ProtobufCMessage *reply)
{
    const Sluice__V1__Receipt *r = (const Sluice__V1__Receipt *)reply;

    *out = (struct client_receipt){.state = (int)r->state,
                                   .n_generated = r->n_generated,
                                   .blocks = r->blocks,
                                   .slots = r->slots,
                                   .checkpoints = r->checkpoints,
                                   .micros = r->micros};
    if (r->sequence->request_id.len == sizeof out->request_id) {
        memcpy(out->request_id, r->sequence->request_id.data,
               sizeof out->request_id);
    }
    take_name(out->worker, r->has_worker, r->worker);
}

static void on_chunk(void *arg, const ProtobufCMessage *message)
{
    struct generation *g = arg;
    const Sluice__V1__GenerateChunk *m =
        (const Sluice__V1__GenerateChunk *)message;
    struct client_chunk chunk = {.first_index = m->first_index,
                                 .tokens = m->tokens,
                                 .n_tokens = m->n_tokens,
                                 .text = (const char *)m->text.data,
                                 .n_text = m->has_text ? m->text.len : 0};

    if (m->n_tokens > 0 && m->first_index != g->next_index) {
        g->status = error_set(g->error, ST_DATA_LOSS,
                              "tokens from index %u came, %u was next",
                              m->first_index, g->next_index);
        g->wants_cancel = true;
        return;
    }
    if (m->n_tokens > 0 && g->next_index == 0) {
        g->out->first_chunk_us = client_now_us() - g->began_us;
    }
    g->next_index += (uint32_t)m->n_tokens;
    g->out->finish = (int)m->finish;
    if (m->figures != NULL) {
        take_figures(g->out, m->figures);
    }
    if ((chunk.n_tokens > 0 || chunk.n_text > 0) &&
        g->request->on_chunk != NULL &&
        !g->request->on_chunk(g->request->arg, &chunk)) {
        g->wants_cancel = true;
    }
}

static void on_end(void *arg, enum status status, const ProtobufCMessage *reply,
                   const struct error *e, uint32_t retry_after_ms)
{
    struct generation *g = arg;

    (void)reply;
    g->ended = true;
    g->out->end_us = client_now_us() - g->began_us;
    g->out->retry_after_ms = retry_after_ms;
    if (g->status == ST_OK && status != ST_OK) {
        g->status = error_set(g->error, status, "%s",
                              e != NULL ? e->text : status_text(status));
    }
}

/* The message borrows everything from the request. */
static enum status begin(struct generation *g)
{
    static const struct client_call_ops ops = {on_chunk, on_end};
    const struct client_request *r = g->request;
    const char *model = r->model == NULL ? "" : r->model;
    Sluice__V1__Sampling sampling = SLUICE__V1__SAMPLING__INIT;
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;

    sampling.has_temperature = sampling.has_top_k = sampling.has_top_p = 1;
    sampling.temperature = r->temperature;
    sampling.top_k = r->top_k;
    sampling.top_p = r->top_p;
    sampling.has_seed = r->has_seed;
    sampling.seed = r->seed;
    sampling.has_ignore_eos = 1;
    sampling.ignore_eos = r->ignore_eos;
    m.sampling = &sampling;
    m.request_id = (ProtobufCBinaryData){16, g->out->request_id};
    m.model = (ProtobufCBinaryData){strlen(model), (uint8_t *)(uintptr_t)model};
    m.has_text = r->text != NULL;
    m.text = (ProtobufCBinaryData){r->n_text, (uint8_t *)(uintptr_t)r->text};
    m.n_tokens = r->n_ids;
    m.tokens = (uint32_t *)(uintptr_t)r->ids;
    m.has_max_tokens = r->max_tokens != 0;
    m.max_tokens = r->max_tokens;
    m.has_keep_ms = r->keep_ms != 0;
    m.keep_ms = r->keep_ms;
    m.has_parse_special = m.has_want_text = 1;
    m.parse_special = r->parse_special;
    m.want_text = !r->no_text;
    return client_begin(g->client, METHOD_INFERENCE_GENERATE, &m.base,
                        r->deadline_ms, &ops, g, &g->call);
}

/* Ask the router to cancel and wait for what it gave back; the call itself
 * ends meanwhile.  Interrupted again, or without an answer: give up. */
static void cancel(struct generation *g)
{
    struct error e;
    enum status s =
        client_cancel(g->client, g->out->request_id, &g->out->receipt, &e);

    g->out->has_receipt = s == ST_OK;
    if (!g->ended) {
        client_give_up(g->client, g->call);
    }
    if (g->status == ST_OK || g->status == ST_CANCELLED) {
        g->status = error_set(g->error, ST_CANCELLED, "cancelled%s%s",
                              s == ST_OK ? "" : ", without a receipt: ",
                              s == ST_OK ? "" : e.text);
    }
}

/* Of a call that ended OK. */
static enum status judge(const struct client_result *out, struct error *e)
{
    switch (out->finish) {
    case SLUICE__V1__FINISH__FINISH_STOP:
    case SLUICE__V1__FINISH__FINISH_LENGTH:
        return ST_OK;
    case SLUICE__V1__FINISH__FINISH_CANCELLED:
        return error_set(e, ST_CANCELLED,
                         "cancelled by somebody else after %u tokens",
                         out->n_generated);
    case SLUICE__V1__FINISH__FINISH_FAILED:
        return error_set(e, ST_INTERNAL, "the worker failed the sequence");
    default:
        return error_set(e, ST_DATA_LOSS, "the stream ended without its end");
    }
}

enum status client_generate(struct client *c, const struct client_request *r,
                            struct client_result *out, struct error *e)
{
    struct generation g = {.client = c, .request = r, .out = out, .error = e};

    *out = (struct client_result){0};
    memcpy(out->request_id, r->request_id, sizeof out->request_id);
    if (request_id_is_zero(r->request_id)) {
        client_draw_id(out->request_id);
    }
    g.began_us = client_now_us();
    g.status = begin(&g);
    if (g.status != ST_OK) {
        return client_not_begun(METHOD_INFERENCE_GENERATE, g.status, e);
    }
    while (!g.ended && !g.wants_cancel && !client_take_interrupt(c)) {
        client_turn(c, CLIENT_TURN_MS);
    }
    if (!g.ended) {
        cancel(&g);
    }
    return g.status == ST_OK ? judge(out, e) : g.status;
}
