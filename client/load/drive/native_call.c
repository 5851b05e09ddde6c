#include "client/load/drive/native_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/client.h"
#include "common/base/memory.h"
#include "common/wire/loop.h"
#include "common/wire/method.h"
#include "proto/worker.pb-c.h"

typedef Sluice__V1__GenerateChunk chunk;
typedef Sluice__V1__GenerateFigures figures;

/* ---- the request ---- */

static void copy_prompt(struct call *c, const struct prompt *p)
{
    Sluice__V1__GenerateRequest *m = &c->message;

    if (p->n_ids > 0) {
        c->ids = memory_must(malloc(p->n_ids * sizeof *c->ids));
        memcpy(c->ids, p->ids, p->n_ids * sizeof *c->ids);
        m->tokens = c->ids;
        m->n_tokens = p->n_ids;
        return;
    }
    c->text = memory_must(malloc(p->n_text));
    memcpy(c->text, p->text, p->n_text);
    m->has_text = true;
    m->text = (ProtobufCBinaryData){p->n_text, (uint8_t *)c->text};
}

static void fill(struct call *c, uint32_t max_tokens)
{
    const struct native_shape *shape = c->shape;
    Sluice__V1__GenerateRequest *m = &c->message;

    m->request_id = (ProtobufCBinaryData){sizeof c->id, c->id};
    m->model = shape->model;
    m->has_tenant = shape->tenant.len > 0;
    m->tenant = shape->tenant;
    m->sampling = (Sluice__V1__Sampling *)(uintptr_t)&shape->sampling;
    m->has_max_tokens = max_tokens > 0;
    m->max_tokens = max_tokens;
    m->has_want_text = true; /* text costs the router time */
    m->want_text = m->has_text;
    m->n_stop = shape->n_stops;
    m->stop = (ProtobufCBinaryData *)(uintptr_t)shape->stops;
    m->has_drafts = shape->has_drafts;
    m->drafts = shape->drafts;
    m->has_n = shape->n > 1;
    m->n = shape->n > 1 ? shape->n : 1;
}

struct call *native_call_new(const struct native_shape *shape,
                             const struct call_request *r, const uint8_t id[16],
                             size_t *bytes, struct error *e)
{
    const struct prompt *p = r->prompt;
    struct call *c;

    if (p->n_ids == 0 && p->n_text == 0) {
        (void)error_set(e, ST_INVALID_ARGUMENT,
                        p->n_json > 0
                            ? "a dataset's messages need a chat template; send "
                              "them to an HTTP server, such as sluice-gateway"
                            : "the prompt is empty");
        return NULL;
    }
    c = memory_must(calloc(1, sizeof *c));
    c->shape = shape;
    c->ops = r->ops;
    c->arg = r->arg;
    memcpy(c->id, id, sizeof c->id);
    memcpy(c->shown.request_id, id, sizeof c->id);
    list_init(&c->ended_calls);
    sluice__v1__generate_request__init(&c->message);
    copy_prompt(c, p);
    fill(c, r->max_tokens);
    c->shown.n_choices = c->message.n;
    c->end.queue_us = SAMPLE_NEVER;
    *bytes =
        sizeof *c + p->n_ids * sizeof *c->ids + (p->n_ids > 0 ? 0 : p->n_text);
    return c;
}

static void free_prompt(struct call *c)
{
    free(c->ids);
    free(c->text);
    c->ids = NULL;
    c->text = NULL;
}

void native_call_free(struct call *c)
{
    free_prompt(c);
    free(c);
}

/* ---- the end ---- */

static void set_why(struct call *c, const char *why)
{
    if (c->why[0] == '\0') { /* the first reason is the cause */
        snprintf(c->why, sizeof c->why, "%.*s", SAMPLE_WHY - 1, why);
    }
}

static void leak(struct call *c, const char *why)
{
    c->end.leaked = true;
    c->why[0] = '\0'; /* matters more than any other reason */
    set_why(c, why);
}

static void judge_receipt(struct call *c)
{
    char why[SAMPLE_WHY];

    c->end.has_receipt = c->has_receipt;
    c->shown.has_figures = c->n_figures == c->shown.n_choices;
    c->shown.moved = c->end.n_moves > 0 || c->stream.n_resumes > 0;
    if (c->has_receipt &&
        !native_receipt_fits(&c->receipt, &c->shown, why, sizeof why)) {
        leak(c, why);
    }
}

static void end_given_up(struct call *c)
{
    static const struct {
        enum outcome outcome;
        const char *why;
    } ends[] = {
        [GIVE_UP_CANCEL] = {OUTCOME_CANCELLED, "cancelled"},
        [GIVE_UP_DISCONNECT] = {OUTCOME_DISCONNECTED, "disconnected"},
        [GIVE_UP_TIMEOUT] = {OUTCOME_TIMEOUT, "the time limit has passed"},
    };

    c->end.outcome = (uint8_t)ends[c->how].outcome;
    c->end.code = ST_CANCELLED;
    set_why(c, ends[c->how].why);
}

static void settle(struct call *c)
{
    if (!c->stream_ended || c->asks || list_linked(&c->ended_calls)) {
        return;
    }
    client_core_unwait(c->session->core, &c->limit);
    judge_receipt(c);
    if (c->given_up && !c->end.bad_stream) {
        end_given_up(c);
    }
    c->end.n_output = c->n_figures > 0 ? c->n_generated : c->shown.n_received;
    c->end.n_resumes = c->stream.n_resumes;
    c->end.why = c->why;
    c->ended_us = loop_now_us();
    c->session->n_calls--;
    list_append(c->shape->ended, &c->ended_calls);
}

void native_call_report(struct call *c)
{
    list_remove(&c->ended_calls);
    c->ops->on_end(c->arg, c->ended_us, &c->end);
    resumable_fini(&c->stream);
    native_call_free(c);
}

/* ---- the stream ---- */

static void fail(struct call *c, enum outcome outcome, enum status status,
                 const char *why)
{
    c->end.outcome = (uint8_t)outcome;
    c->end.code = (uint16_t)status;
    set_why(c, why);
}

static void take_figures(struct call *c, uint32_t choice, const figures *f)
{
    char why[SAMPLE_WHY];

    c->n_figures++;
    c->n_generated += f->n_generated;
    c->shown.blocks += f->blocks;
    c->shown.slots += f->slots;
    c->shown.windows += f->windows;
    c->end.n_prompt = f->n_prompt;
    c->end.n_moves += f->n_moves;
    c->end.n_cached = c->n_figures == 1 || f->n_cached < c->end.n_cached
                          ? f->n_cached
                          : c->end.n_cached;
    if ((int64_t)f->queued_us > c->end.queue_us) {
        c->end.queue_us = (int64_t)f->queued_us;
    }
    if (f->n_generated != c->stream.choices[choice].n) {
        snprintf(why, sizeof why,
                 "the router counts %u tokens of a choice, %u have arrived",
                 f->n_generated, c->stream.choices[choice].n);
        c->end.bad_stream = true;
        fail(c, OUTCOME_FAILED, ST_DATA_LOSS, why);
    }
}

static void take_finish(struct call *c, Sluice__V1__Finish finish)
{
    c->n_ended_choices++;
    if (finish == SLUICE__V1__FINISH__FINISH_FAILED) {
        fail(c, OUTCOME_FAILED, ST_INTERNAL,
             "the worker failed to run the sequence");
    } else if (finish == SLUICE__V1__FINISH__FINISH_CANCELLED && !c->given_up) {
        fail(c, OUTCOME_FAILED, ST_CANCELLED, "cancelled by another client");
    }
}

/* The stream sums the pauses up; the longest one is wanted. */
static void note_gap(struct call *c)
{
    int64_t gap_us = c->stream.gap_us - c->gap_seen_us;

    c->gap_seen_us = c->stream.gap_us;
    if (gap_us > c->end.gap_us) {
        c->end.gap_us = gap_us;
    }
}

/* Ids and text are those of the first choice, because the choices of a request
 * come in any order. */
static void on_chunk(void *arg, const chunk *m)
{
    struct call *c = arg;
    bool first = m->choice == 0;

    note_gap(c);
    if (c->stream.options.resume_ms == 0) {
        free_prompt(c); /* here and not in start(), whose time is lag */
    }
    c->shown.n_received += (uint32_t)m->n_tokens;
    if (m->figures != NULL) {
        take_figures(c, m->choice, m->figures);
    }
    if (m->finish != SLUICE__V1__FINISH__FINISH_RUNNING) {
        take_finish(c, m->finish);
    }
    if (m->n_tokens > 0 || (m->has_text && m->text.len > 0)) {
        c->ops->on_output(c->arg, native_group_now_us(c->session->group),
                          (uint32_t)m->n_tokens, m->tokens,
                          first ? m->n_tokens : 0, (const char *)m->text.data,
                          first && m->has_text ? m->text.len : 0);
    }
}

/* Returns whether a live router refused the request. */
static bool is_refusal(const struct call *c, enum status status)
{
    return c->shown.n_received == 0 &&
           (status == ST_RESOURCE_EXHAUSTED ||
            (status == ST_UNAVAILABLE && native_session_up(c->session)));
}

static void on_stream_end(void *arg, enum status status, const struct error *e,
                          uint32_t retry_after_ms)
{
    struct call *c = arg;

    (void)retry_after_ms;
    note_gap(c);
    c->stream_ended = true;
    if (c->session->cuts && !c->given_up) {
        c->given_up = true;
        c->how = GIVE_UP_DISCONNECT;
    }
    if (status == ST_OK && c->n_ended_choices < c->shown.n_choices) {
        c->end.bad_stream = true;
        fail(c, OUTCOME_FAILED, ST_DATA_LOSS,
             "the stream ended without the end of a choice");
    } else if (status != ST_OK) {
        c->end.bad_stream |= status == ST_DATA_LOSS;
        fail(c, is_refusal(c, status) ? OUTCOME_REFUSED : OUTCOME_FAILED,
             status, e != NULL ? e->text : status_text(status));
    }
    settle(c);
}

static const char *not_begun(enum status status)
{
    switch ((int)status) {
    case ST_INVALID_ARGUMENT:
        return "the prompt exceeds the 1048576 bytes of a Generate call";
    case ST_RESOURCE_EXHAUSTED:
        return "too many requests wait for the connection to the router";
    default:
        return status_text(status);
    }
}

void native_call_fail(struct call *c, enum status status, const char *why)
{
    c->stream_ended = true;
    c->ended_us = loop_now_us();
    fail(c, OUTCOME_FAILED, status, why);
    c->end.why = c->why;
    list_append(c->shape->ended, &c->ended_calls);
}

void native_call_begin(struct call *c, struct native_session *s)
{
    static const struct resumable_ops ops = {on_chunk, NULL, on_stream_end};
    struct resumable_options o = {
        .io = &s->io,
        .ops = &ops,
        .arg = c,
        .resume_ms = c->way == NATIVE_CUT ? 0 : c->shape->resume_ms};
    enum status st;

    c->session = s;
    st = resumable_begin(&c->stream, s->core, &c->message, &o);
    if (st != ST_OK) {
        native_call_fail(c, st, not_begun(st));
        return;
    }
    s->n_calls++;
}

void native_call_sent(struct call *c, int64_t now_us)
{
    if (!c->was_sent) { /* else it resumes */
        c->was_sent = true;
        c->ops->on_sent(c->arg, now_us);
    }
}

/* ---- giving up ---- */

static void leave(struct call *c, enum give_up how)
{
    c->given_up = true;
    c->how = how;
    resumable_cancel(&c->stream);
}

void native_call_leave(struct call *c)
{
    leave(c, GIVE_UP_DISCONNECT);
}

static void on_limit(struct client_wait *w)
{
    struct call *c =
        (struct call *)(void *)((char *)w - offsetof(struct call, limit));

    if (!client_core_ending(c->session->core)) {
        leak(c, "the stream went on after the receipt of its cancel");
        leave(c, c->how);
    }
}

/* The receipt did not come.  Only a router that is there owes one. */
static void no_receipt(struct call *c, enum status status,
                       const struct error *e)
{
    const struct client_core *core = c->session->core;
    const char *cause = e != NULL ? e->text : status_text(status);
    char why[SAMPLE_WHY];

    snprintf(why, sizeof why, "no receipt of the cancel: %.80s", cause);
    if (client_core_up(core) && !client_core_ending(core)) {
        leak(c, why);
    } else {
        set_why(c, why);
    }
}

static void on_receipt(void *arg, enum status status,
                       const ProtobufCMessage *reply, const struct error *e,
                       uint32_t retry_after_ms)
{
    struct call *c = arg;
    struct client_core *core = c->session->core;
    struct node_io *io = &c->session->io;

    (void)retry_after_ms;
    c->asks = false;
    if (status == ST_OK && reply != NULL) {
        c->has_receipt = true;
        native_receipt_take(&c->receipt, (const Sluice__V1__Receipt *)reply);
    } else {
        no_receipt(c, status, e);
    }
    if (c->stream_ended) {
        settle(c);
    } else if (c->has_receipt) { /* the last chunks follow */
        client_core_wait(core, &c->limit,
                         io->now_us(io) + CLIENT_RECEIPT_MS * INT64_C(1000));
    } else {
        leave(c, c->how);
    }
}

static enum status send_cancel(struct call *c)
{
    static const struct client_call_ops ops = {NULL, on_receipt};
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    Sluice__V1__CancelRequest m = SLUICE__V1__CANCEL_REQUEST__INIT;

    ref.request_id = (ProtobufCBinaryData){sizeof c->id, c->id};
    m.sequence = &ref;
    return client_core_call(c->session->core, METHOD_INFERENCE_CANCEL, &m.base,
                            CLIENT_RECEIPT_MS, &ops, c, NULL);
}

/* Without a session, no router has the request: it ends with the connection,
 * and sequences of a lost router end at their workers. */
void native_call_cancel(struct call *c, enum give_up how)
{
    enum status st;

    c->given_up = true;
    c->how = how;
    if (!client_core_up(c->session->core) ||
        c->stream.state != RESUMABLE_OPEN) {
        set_why(c, "given up without a connection to a router");
        leave(c, how);
        return;
    }
    c->limit.fire = on_limit;
    c->asks = true;
    st = send_cancel(c);
    if (st != ST_OK) {
        c->asks = false;
        no_receipt(c, st, NULL);
        leave(c, how);
    }
}
