/* generate.c - client_generate(): a request's stream, and the cancel that may
 * end it. */
#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "client/lib/client_impl.h"
#include "client/lib/request.h"
#include "client/lib/resumable.h"
#include "common/base/minmax.h"
#include "common/wire/request_id.h"

/* A request in progress. */
struct generate_call {
    struct client *client;
    const struct client_request *request;
    struct client_result *out;
    struct error *error;
    enum status status; /* of checks at this end, later of the call */
    int64_t began_us;
    bool ended, wants_cancel;
    struct resumable stream;
    struct request_message message;
};

/* Copies a worker's name; a router of another version may send a longer one,
 * which is cut. */
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

static void take_figures(struct client_result *out, struct client_choice *k,
                         const Sluice__V1__GenerateFigures *f)
{
    k->has_figures = true;
    k->n_generated = f->n_generated;
    k->blocks = f->blocks;
    k->slots = f->slots;
    k->windows = f->windows;
    k->n_moves = f->n_moves;
    k->n_cached = f->has_n_cached ? f->n_cached : 0;
    k->queued_us = f->queued_us;
    k->first_token_us = f->first_token_us;
    k->total_us = f->total_us;
    take_name(k->worker, f->has_worker, f->worker);
    out->n_prompt = f->n_prompt;
    out->seed = f->seed;
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
                                   .windows = r->windows,
                                   .position = r->position,
                                   .micros = r->micros};
    if (r->sequence->request_id.len == sizeof out->request_id) {
        memcpy(out->request_id, r->sequence->request_id.data,
               sizeof out->request_id);
    }
    take_name(out->worker, r->has_worker, r->worker);
}

/* Checks a chunk against the request, so that callbacks can rely on the array
 * lengths.  The stream (resumable.c) checks it against earlier chunks. */
static enum status check_chunk(const struct generate_call *g,
                               const Sluice__V1__GenerateChunk *m)
{
    const struct client_request *r = g->request;
    bool wanted = r->sampling.logprobs || r->sampling.n_top_logprobs > 0;
    size_t n_top = m->n_tokens * r->sampling.n_top_logprobs;

    if (wanted && (m->n_logprobs != m->n_tokens || m->n_top_tokens != n_top ||
                   m->n_top_logprobs != n_top)) {
        return error_set(g->error, ST_DATA_LOSS,
                         "bad chunk from the router: %zu tokens with %zu "
                         "logprobs and %zu top logprobs",
                         m->n_tokens, m->n_logprobs, m->n_top_logprobs);
    }
    if (m->has_stop_string && m->stop_string >= r->n_stops) {
        return error_set(g->error, ST_DATA_LOSS,
                         "bad chunk from the router: ended by stop string "
                         "%u of %zu",
                         m->stop_string, r->n_stops);
    }
    return ST_OK;
}

static void count_chunk(struct generate_call *g,
                        const Sluice__V1__GenerateChunk *m)
{
    struct client_choice *k = &g->out->choices[m->choice];

    if (m->n_tokens > 0 && k->n_generated == 0) {
        k->first_chunk_us = client_now_us() - g->began_us;
        k->n_first = (uint32_t)m->n_tokens;
    }
    k->n_generated += (uint32_t)m->n_tokens; /* figures replace the count */
    k->finish = (int)m->finish;
    k->stop_string = m->has_stop_string ? (int)m->stop_string : -1;
    if (k->finish != SLUICE__V1__FINISH__FINISH_RUNNING) {
        k->end_us = client_now_us() - g->began_us;
    }
    if (m->figures != NULL) {
        take_figures(g->out, k, m->figures);
    }
}

static void on_chunk(void *arg, const Sluice__V1__GenerateChunk *m)
{
    struct generate_call *g = arg;
    const struct client_request *r = g->request;
    struct client_chunk chunk = {.choice = m->choice,
                                 .tokens = m->tokens,
                                 .n_tokens = m->n_tokens,
                                 .text = (const char *)m->text.data,
                                 .n_text = m->has_text ? m->text.len : 0,
                                 .finish = (int)m->finish};

    if (g->wants_cancel) {
        return; /* chunks sent before the cancel arrived */
    }
    g->status = check_chunk(g, m);
    if (g->status != ST_OK) {
        g->wants_cancel = true;
        return;
    }
    chunk.first_index = g->out->choices[m->choice].n_generated;
    if (r->sampling.logprobs || r->sampling.n_top_logprobs > 0) {
        chunk.logprobs = m->logprobs;
        chunk.n_top = r->sampling.n_top_logprobs;
        chunk.top_tokens = chunk.n_top > 0 ? m->top_tokens : NULL;
        chunk.top_logprobs = chunk.n_top > 0 ? m->top_logprobs : NULL;
    }
    count_chunk(g, m);
    chunk.stop_string = g->out->choices[m->choice].stop_string;
    if (r->on_chunk != NULL && !r->on_chunk(r->arg, &chunk)) {
        g->wants_cancel = true;
    }
}

static void on_lost(void *arg, const char *why)
{
    struct generate_call *g = arg;

    if (g->request->on_resume != NULL) {
        g->request->on_resume(g->request->arg, why);
    }
}

static void on_end(void *arg, enum status status, const struct error *e,
                   uint32_t retry_after_ms)
{
    struct generate_call *g = arg;

    g->ended = true;
    g->out->end_us = client_now_us() - g->began_us;
    g->out->retry_after_ms = retry_after_ms;
    /* An error found by check_chunk() takes precedence over the call's. */
    if (g->status == ST_OK && status != ST_OK) {
        g->status = error_set(g->error, status, "%s",
                              e != NULL ? e->text : status_text(status));
    }
}

static enum status begin_request(struct generate_call *g)
{
    static const struct resumable_ops ops = {on_chunk, on_lost, on_end};
    const struct client_request *r = g->request;
    struct resumable_options o = {.io = client_io(g->client),
                                  .ops = &ops,
                                  .arg = g,
                                  .deadline_ms = r->deadline_ms,
                                  .resume_ms = r->resume_ms};
    enum status s =
        request_message(&g->message, r, g->out->request_id, g->error);

    if (s != ST_OK) {
        return s;
    }
    if (o.resume_ms == 0) {
        o.resume_ms = CLIENT_RESUME_MS;
    }
    if (r->no_resume) {
        o.resume_ms = 0;
    }
    client_soon(g->client); /* send before the first wait */
    s = resumable_begin(&g->stream, client_core_of(g->client), &g->message.m,
                        &o);
    return s == ST_OK
               ? ST_OK
               : client_not_begun(METHOD_INFERENCE_GENERATE, s, g->error);
}

/* Cancels at the router and waits for the receipt; the request's call ends
 * meanwhile.  A second interrupt, or a receipt that does not come in time, ends
 * the wait.  Without a session no cancel can be sent, and none is needed: the
 * router cancels the requests of a lost client, and sequences of a lost router
 * end at their workers after 3 s. */
static void cancel_request(struct generate_call *g)
{
    struct error e;
    enum status s;

    g->out->cancelled_here = true;
    if (!client_core_up(client_core_of(g->client))) {
        s = error_set(&e, ST_UNAVAILABLE, "not connected to a router");
    } else {
        s = client_cancel(g->client, g->out->request_id, CLIENT_ALL_CHOICES, 0,
                          &g->out->receipt, &e);
    }
    g->out->has_receipt = s == ST_OK;
    client_soon(g->client);
    resumable_cancel(&g->stream);
    if (g->status == ST_OK || g->status == ST_CANCELLED) {
        g->status = error_set(g->error, ST_CANCELLED, "cancelled%s%s",
                              s == ST_OK ? "" : ", without a receipt: ",
                              s == ST_OK ? "" : e.text);
    }
}

static bool ended_well(const struct client_choice *k)
{
    return k->finish == SLUICE__V1__FINISH__FINISH_STOP ||
           k->finish == SLUICE__V1__FINISH__FINISH_LENGTH;
}

/* Returns the smaller time; 0 means none. */
static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* Combines the choices as client.h documents.  The first choice that did not
 * end with STOP or LENGTH decides the finish, so that a failure is not hidden
 * by the others' success. */
static void sum_up(struct client_result *out)
{
    const struct client_choice *k, *chosen = &out->choices[0];

    out->has_figures = true;
    for (uint32_t i = 0; i < out->n_choices; i++) {
        k = &out->choices[i];
        if (ended_well(chosen) && !ended_well(k)) {
            chosen = k;
        }
        out->has_figures = out->has_figures && k->has_figures;
        out->n_generated += k->n_generated;
        out->blocks += k->blocks;
        out->slots += k->slots;
        out->windows += k->windows;
        out->n_moves += k->n_moves;
        out->n_cached =
            i == 0 || k->n_cached < out->n_cached ? k->n_cached : out->n_cached;
        out->queued_us = max_u64(out->queued_us, k->queued_us);
        out->total_us = max_u64(out->total_us, k->total_us);
        out->first_token_us = earlier(out->first_token_us, k->first_token_us);
        out->first_chunk_us = (int64_t)earlier((uint64_t)out->first_chunk_us,
                                               (uint64_t)k->first_chunk_us);
        if (out->first_chunk_us == k->first_chunk_us) {
            out->n_first = k->n_first;
        }
    }
    out->finish = chosen->finish;
    out->stop_string = chosen->stop_string;
    memcpy(out->worker, chosen->worker, sizeof out->worker);
}

/* Returns the status of a request whose call ended OK. */
static enum status judge(const struct client_result *out, struct error *e)
{
    switch (out->finish) {
    case SLUICE__V1__FINISH__FINISH_STOP:
    case SLUICE__V1__FINISH__FINISH_LENGTH:
        return ST_OK;
    case SLUICE__V1__FINISH__FINISH_CANCELLED:
        return error_set(e, ST_CANCELLED,
                         "cancelled by another client after %u tokens",
                         out->n_generated);
    case SLUICE__V1__FINISH__FINISH_FAILED:
        return error_set(e, ST_INTERNAL,
                         "the worker failed to run the sequence");
    default:
        return error_set(e, ST_DATA_LOSS,
                         "the stream ended without the end of a choice");
    }
}

static void prepare(struct client_result *out, const struct client_request *r)
{
    *out = (struct client_result){.n_choices = r->n > 1 ? r->n : 1};
    if (out->n_choices > CHOICES_MAX) {
        out->n_choices = CHOICES_MAX; /* request_message() rejects r->n */
    }
    for (uint32_t i = 0; i < out->n_choices; i++) {
        out->choices[i].stop_string = -1;
    }
    memcpy(out->request_id, r->request_id, sizeof out->request_id);
    if (request_id_is_zero(r->request_id)) {
        client_draw_id(out->request_id);
    }
}

enum status client_generate(struct client *c, const struct client_request *r,
                            struct client_result *out, struct error *e)
{
    struct generate_call g = {
        .client = c, .request = r, .out = out, .error = e};

    prepare(out, r);
    g.began_us = client_now_us();
    g.status = begin_request(&g);
    if (g.status != ST_OK) {
        return g.status;
    }
    while (!g.ended && !g.wants_cancel && !client_take_interrupt(c)) {
        client_turn(c, CLIENT_TURN_MS);
    }
    /* The call may have ended in the turn in which on_chunk returned false. */
    if (!g.ended || (g.wants_cancel && g.status == ST_OK)) {
        cancel_request(&g);
    }
    resumable_fini(&g.stream);
    out->n_resumes = g.stream.n_resumes;
    out->gap_us = g.stream.gap_us;
    sum_up(out);
    return g.status == ST_OK ? judge(out, e) : g.status;
}
