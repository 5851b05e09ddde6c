#include "common/peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/admin.pb-c.h"
#include "proto/common.pb-c.h"
#include "proto/health.pb-c.h"
#include "proto/inference.pb-c.h"
#include "proto/registry.pb-c.h"
#include "proto/worker.pb-c.h"
#include "tests/unit/cmocka.h"

#define SESSION 9

/* One end: what its ops saw, and the frames that wait for it. */
struct end {
    struct node_io io;
    struct peer *peer;
    struct arena arena;
    struct frame *in[4096];
    int n_in;
    struct end *other;
    enum status send_status; /* of every send */

    int n_calls, n_cancels, n_replies, n_ends, n_dirty;
    uint16_t method; /* of the last call */
    uint64_t call, tag;
    int64_t deadline_us;
    enum status status;
    char text[ERROR_TEXT];
    uint32_t retry_after_ms;
    uint64_t value;    /* something of the last message */
    uint64_t forged;   /* number of the last frame forged for it */
    bool answer_calls; /* unary calls at once */
};

static int64_t clock_us;

static int64_t now_us(struct node_io *io)
{
    (void)io;
    return clock_us;
}

static enum status send_frame(struct node_io *io, struct peer_id to,
                              struct frame **f)
{
    struct end *e = io->impl;

    (void)to;
    if (e->send_status != ST_OK) {
        frame_free(f);
        return e->send_status;
    }
    assert_true(e->other->n_in < 4096);
    e->other->in[e->other->n_in++] = *f;
    *f = NULL;
    return ST_OK;
}

static void answer(struct end *e, const struct method_row *m, uint64_t call)
{
    Sluice__V1__HealthReply health = SLUICE__V1__HEALTH_REPLY__INIT;

    if (m->number == METHOD_HEALTH_CHECK) {
        health.serving = true;
        peer_end(e->peer, call, &health.base);
    }
}

static void on_call(void *node, struct peer *p, const struct method_row *m,
                    uint64_t call, int64_t deadline_us,
                    const ProtobufCMessage *request)
{
    struct end *e = node;

    assert_ptr_equal(p, e->peer);
    assert_ptr_equal(request->descriptor, m->request);
    e->n_calls++;
    e->method = m->number;
    e->call = call;
    e->deadline_us = deadline_us;
    if (m->number == METHOD_REGISTRY_REPORT) {
        const Sluice__V1__ReportMessage *r =
            (const Sluice__V1__ReportMessage *)request;
        e->value = r->ledger->snapshot;
    }
    if (e->answer_calls) {
        answer(e, m, call);
    }
}

static void on_cancel(void *node, struct peer *p, uint64_t call)
{
    struct end *e = node;

    (void)p;
    e->n_cancels++;
    e->call = call;
}

static void on_reply(void *node, struct peer *p, uint64_t tag,
                     const struct method_row *m, const ProtobufCMessage *reply)
{
    struct end *e = node;

    (void)p;
    e->n_replies++;
    e->tag = tag;
    if (m->number == METHOD_INFERENCE_GENERATE) {
        const Sluice__V1__GenerateChunk *c =
            (const Sluice__V1__GenerateChunk *)reply;
        assert_int_equal(c->first_index, e->n_replies - 1);
        e->value = c->n_tokens;
    }
}

static void on_end(void *node, struct peer *p, uint64_t tag,
                   const struct method_row *m, enum status status,
                   const ProtobufCMessage *reply, const struct error *why,
                   uint32_t retry_after_ms)
{
    struct end *e = node;

    (void)p;
    e->n_ends++;
    e->tag = tag;
    e->status = status;
    e->retry_after_ms = retry_after_ms;
    assert_true((status == ST_OK) == (why == NULL));
    assert_true((reply != NULL) == (status == ST_OK && m->kind == UNARY));
    strcpy(e->text, why == NULL ? "" : why->text);
    if (reply != NULL && m->number == METHOD_HEALTH_CHECK) {
        e->value = (uint64_t)((const Sluice__V1__HealthReply *)reply)->serving;
    }
}

static void on_dirty(void *node, struct peer *p)
{
    struct end *e = node;

    (void)p;
    e->n_dirty++;
}

static const struct peer_ops ops = {on_call, on_cancel, on_reply, on_end,
                                    on_dirty};

struct pair {
    struct end a, b; /* a calls, b serves */
};

static void end_init(struct end *e, struct end *other, uint8_t self,
                     uint8_t role_of_other)
{
    struct peer_config c = {.io = &e->io,
                            .id = {1},
                            .session = SESSION,
                            .self = self,
                            .other = role_of_other,
                            .ops = &ops,
                            .node = e,
                            .arena = &e->arena};

    e->io.impl = e;
    e->io.now_us = now_us;
    e->io.send = send_frame;
    e->other = other;
    arena_init(&e->arena);
    e->peer = peer_new(&c);
}

static struct pair *pair_new(uint8_t a, uint8_t b)
{
    struct pair *pair = calloc(1, sizeof *pair);

    clock_us = 1000000;
    end_init(&pair->a, &pair->b, a, b);
    end_init(&pair->b, &pair->a, b, a);
    return pair;
}

static void end_fini(struct end *e)
{
    while (e->n_in > 0) {
        frame_free(&e->in[--e->n_in]);
    }
    peer_free(&e->peer);
    arena_fini(&e->arena);
}

static void pair_free(struct pair *pair)
{
    end_fini(&pair->a);
    end_fini(&pair->b);
    free(pair);
}

/* Hand over all that waits for e; the worst verdict. */
static enum peer_verdict take_in(struct end *e)
{
    enum peer_verdict worst = PEER_FINE;
    int n = e->n_in;

    e->n_in = 0;
    for (int i = 0; i < n; i++) {
        struct frame_header h;
        enum peer_verdict v;

        assert_int_equal(frame_check(e->in[i]->data, e->in[i]->bytes, &h, NULL),
                         ST_OK);
        assert_int_equal(h.session, SESSION);
        v = peer_recv(e->peer, e->in[i], &h, clock_us);
        worst = v > worst ? v : worst;
        frame_free(&e->in[i]);
    }
    return worst;
}

static void settle(struct pair *pair)
{
    for (int i = 0; i < 10; i++) {
        peer_flush(pair->a.peer, clock_us);
        peer_flush(pair->b.peer, clock_us);
        assert_int_equal(take_in(&pair->a), PEER_FINE);
        assert_int_equal(take_in(&pair->b), PEER_FINE);
    }
}

static const Sluice__V1__Nothing nothing = SLUICE__V1__NOTHING__INIT;

static enum status call_health(struct end *e, uint32_t deadline_ms,
                               uint64_t tag, uint64_t *call)
{
    return peer_call(e->peer, METHOD_HEALTH_CHECK, &nothing.base, deadline_ms,
                     tag, call);
}

static uint8_t id16[16] = {1};

static void fill_generate(Sluice__V1__GenerateRequest *r)
{
    sluice__v1__generate_request__init(r);
    r->request_id = (ProtobufCBinaryData){.len = 16, .data = id16};
    r->model = wire_text("m");
}

static enum status call_generate(struct end *e, uint32_t deadline_ms,
                                 uint64_t tag, uint64_t *call)
{
    Sluice__V1__GenerateRequest r;

    fill_generate(&r);
    return peer_call(e->peer, METHOD_INFERENCE_GENERATE, &r.base, deadline_ms,
                     tag, call);
}

static enum status reply_chunk(struct end *e, uint64_t call, uint32_t first)
{
    Sluice__V1__GenerateChunk c = SLUICE__V1__GENERATE_CHUNK__INIT;
    uint32_t tokens[3] = {1, 2, 3};

    c.first_index = first;
    c.n_tokens = 3;
    c.tokens = tokens;
    return peer_reply(e->peer, call, &c.base);
}

static void unary_call_is_answered(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    uint64_t call = 0;

    (void)state;
    p->b.answer_calls = true;
    assert_int_equal(call_health(&p->a, 0, 42, &call), ST_OK);
    assert_int_equal(call, 1);
    settle(p);
    assert_int_equal(p->b.n_calls, 1);
    assert_true(p->b.deadline_us == NODE_IDLE);
    assert_int_equal(p->a.n_ends, 1);
    assert_int_equal(p->a.tag, 42);
    assert_int_equal(p->a.status, ST_OK);
    assert_int_equal(p->a.value, 1);
    pair_free(p);
}

static void stream_is_answered_and_ended(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);

    (void)state;
    assert_int_equal(call_generate(&p->a, 0, 7, NULL), ST_OK);
    settle(p);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(reply_chunk(&p->b, p->b.call, i), ST_OK);
    }
    settle(p);
    assert_int_equal(p->a.n_replies, 5);
    assert_int_equal(p->a.value, 3);
    assert_int_equal(p->a.n_ends, 0);
    peer_end(p->b.peer, p->b.call, NULL);
    settle(p);
    assert_int_equal(p->a.n_ends, 1);
    assert_int_equal(p->a.status, ST_OK);
    assert_int_equal(reply_chunk(&p->b, p->b.call, 5), ST_NOT_FOUND);
    peer_end(p->b.peer, p->b.call, NULL); /* a no-op */
    settle(p);
    assert_int_equal(p->a.n_ends, 1);
    pair_free(p);
}

static void failure_carries_its_sentence(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    struct error e;

    (void)state;
    assert_int_equal(call_generate(&p->a, 0, 7, NULL), ST_OK);
    settle(p);
    error_set(&e, ST_RESOURCE_EXHAUSTED, "17 are waiting already");
    peer_fail(p->b.peer, p->b.call, &e, 250);
    settle(p);
    assert_int_equal(p->a.status, ST_RESOURCE_EXHAUSTED);
    assert_string_equal(p->a.text, "17 are waiting already");
    assert_int_equal(p->a.retry_after_ms, 250);
    pair_free(p);
}

static void caller_cancels(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    uint64_t call;

    (void)state;
    assert_int_equal(call_generate(&p->a, 0, 7, &call), ST_OK);
    settle(p);
    peer_cancel(p->a.peer, call);
    assert_int_equal(p->a.n_ends, 1);
    assert_int_equal(p->a.status, ST_CANCELLED);
    assert_int_equal(reply_chunk(&p->b, p->b.call, 0), ST_OK); /* crosses */
    settle(p);
    assert_int_equal(p->b.n_cancels, 1);
    assert_int_equal(p->a.n_replies, 0);
    assert_int_equal(reply_chunk(&p->b, p->b.call, 1), ST_NOT_FOUND);
    peer_cancel(p->a.peer, call); /* a no-op */
    settle(p);
    assert_int_equal(p->a.n_ends, 1);
    assert_int_equal(p->b.n_cancels, 1);
    pair_free(p);
}

static void cancel_crosses_the_end(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    uint64_t call;

    (void)state;
    assert_int_equal(call_generate(&p->a, 0, 7, &call), ST_OK);
    settle(p);
    peer_end(p->b.peer, p->b.call, NULL);
    peer_cancel(p->a.peer, call);
    settle(p);
    assert_int_equal(p->a.n_ends, 1);
    assert_int_equal(p->b.n_cancels, 0);
    pair_free(p);
}

static void deadline_ends_both_sides(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);

    (void)state;
    assert_int_equal(call_generate(&p->a, 50, 7, NULL), ST_OK);
    settle(p);
    assert_int_equal(p->b.deadline_us, clock_us + 50000);
    clock_us += 10000;
    settle(p); /* acks are out of the way */
    assert_int_equal(peer_due(p->b.peer), clock_us + 40000);
    clock_us += 39999;
    settle(p);
    assert_int_equal(p->a.n_ends + p->b.n_cancels, 0);
    clock_us += 1;
    peer_flush(p->b.peer, clock_us);
    assert_int_equal(p->b.n_cancels, 1);
    peer_flush(p->a.peer, clock_us);
    assert_int_equal(p->a.n_ends, 1);
    assert_int_equal(p->a.status, ST_DEADLINE_EXCEEDED);
    settle(p);
    assert_int_equal(p->a.n_ends, 1);
    assert_int_equal(p->b.n_cancels, 1);
    pair_free(p);
}

static void many_deadlines_pass_at_once(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);

    (void)state;
    for (uint32_t i = 0; i < PEER_CALLS_MAX; i++) {
        assert_int_equal(call_health(&p->a, 10 + i % 7, i, NULL), ST_OK);
    }
    settle(p);
    assert_int_equal(p->b.n_calls, PEER_CALLS_MAX);
    clock_us += 12000;
    settle(p);
    assert_int_equal(p->a.n_ends, PEER_CALLS_MAX / 7 * 3 + 2);
    assert_true(peer_due(p->a.peer) > clock_us); /* not that of the past */
    clock_us += 10000;
    settle(p);
    assert_int_equal(p->a.n_ends, PEER_CALLS_MAX);
    assert_int_equal(p->b.n_cancels, PEER_CALLS_MAX);
    pair_free(p);
}

static void calls_are_bounded(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    uint64_t call = 0;

    (void)state;
    for (uint32_t i = 0; i < PEER_CALLS_MAX; i++) {
        assert_int_equal(call_health(&p->a, 0, i, &call), ST_OK);
    }
    assert_int_equal(call_health(&p->a, 0, 0, NULL), ST_RESOURCE_EXHAUSTED);
    settle(p);
    assert_int_equal(p->b.n_calls, PEER_CALLS_MAX);
    peer_cancel(p->a.peer, call);
    assert_int_equal(call_health(&p->a, 0, 0, NULL), ST_OK);
    settle(p);
    assert_int_equal(p->b.n_calls, PEER_CALLS_MAX + 1);
    pair_free(p);
}

/* Envelopes as a peer of ours would never send them. */
static enum peer_verdict forge(struct end *to, const struct envelope *e,
                               bool ordered)
{
    uint8_t *buffer = malloc(ENVELOPE_HEADER + (size_t)e->body_bytes);
    struct frame_header h = {.session = SESSION};
    enum peer_verdict v;
    struct frame *f;

    h.envelopes_bytes = (uint32_t)envelope_write(buffer, e);
    h.n_ordered = ordered;
    h.n_state = !ordered;
    h.number = ordered ? ++to->forged : 0;
    f = frame_make(&h, buffer, NULL);
    assert_int_equal(frame_check(f->data, f->bytes, &h, NULL), ST_OK);
    v = peer_recv(to->peer, f, &h, clock_us);
    frame_free(&f);
    free(buffer);
    return v;
}

/* What the last frame to e says in its one End. */
static enum status last_end(struct end *e, char *text, size_t bytes)
{
    struct frame_header h;
    struct envelope env;
    struct error why;
    uint32_t at = 0, retry;
    struct arena a;
    struct frame *f;

    peer_flush(e->other->peer, clock_us);
    assert_true(e->n_in > 0);
    f = e->in[--e->n_in];
    assert_int_equal(frame_check(f->data, f->bytes, &h, NULL), ST_OK);
    assert_true(envelope_next(f, &h, &at, &env));
    assert_int_equal(env.kind, ENVELOPE_END);
    arena_init(&a);
    failure_read(&a, &env, &why, &retry);
    snprintf(text, bytes, "%s", why.text);
    arena_fini(&a);
    frame_free(&f);
    return why.code;
}

static void unbuilt_method_is_unimplemented(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    struct envelope e = {.kind = ENVELOPE_CALL, .call = 1, .method = 0x7777};
    char text[ERROR_TEXT];

    (void)state;
    assert_int_equal(
        peer_call(p->a.peer, METHOD_HEALTH_WATCH, &nothing.base, 0, 1, NULL),
        ST_OK);
    settle(p);
    assert_int_equal(p->a.status, ST_UNIMPLEMENTED);
    assert_string_equal(p->a.text, "/sluice.v1.Health/Watch: not built");
    assert_int_equal(p->b.n_calls, 0);
    pair_free(p);

    p = pair_new(BY_CLIENT, BY_ROUTER);
    assert_int_equal(forge(&p->b, &e, true), PEER_FINE);
    assert_int_equal(last_end(&p->a, text, sizeof text), ST_UNIMPLEMENTED);
    assert_string_equal(text, "call: no such method");
    pair_free(p);
}

static void wrong_role_is_denied_and_struck(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    struct envelope e = {
        .kind = ENVELOPE_CALL, .call = 1, .method = METHOD_ADMIN_STATUS};
    char text[ERROR_TEXT];

    (void)state;
    assert_int_equal(forge(&p->b, &e, true), PEER_STRIKE);
    assert_int_equal(last_end(&p->a, text, sizeof text), ST_PERMISSION_DENIED);
    assert_string_equal(text, "/sluice.v1.Admin/Status: not for this peer");
    e = (struct envelope){.kind = ENVELOPE_ONEWAY,
                          .method = METHOD_REGISTRY_REPORT};
    assert_int_equal(forge(&p->b, &e, false), PEER_STRIKE);
    e = (struct envelope){.kind = ENVELOPE_CALL,
                          .call = 2,
                          .method = METHOD_WORKER_AUDIT}; /* not served here */
    assert_int_equal(forge(&p->b, &e, true), PEER_STRIKE);
    assert_int_equal(p->b.n_calls, 0);
    /* One that the other may call, but not here. */
    e.call = 1;
    assert_int_equal(forge(&p->a, &e, true), PEER_STRIKE);
    assert_int_equal(last_end(&p->b, text, sizeof text), ST_PERMISSION_DENIED);
    assert_int_equal(p->a.n_calls, 0);
    pair_free(p);
}

static void their_calls_are_bounded(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    struct envelope e = {.kind = ENVELOPE_CALL, .method = METHOD_HEALTH_CHECK};
    char text[ERROR_TEXT];

    (void)state;
    for (e.call = 1; e.call <= PEER_CALLS_MAX; e.call++) {
        assert_int_equal(forge(&p->b, &e, true), PEER_FINE);
    }
    assert_int_equal(p->b.n_calls, PEER_CALLS_MAX);
    assert_int_equal(forge(&p->b, &e, true), PEER_FINE);
    assert_int_equal(p->b.n_calls, PEER_CALLS_MAX);
    assert_int_equal(last_end(&p->a, text, sizeof text), ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(text, "too many open calls"));
    pair_free(p);
}

/* What a server may not answer: our call ends, and it is a strike. */
static void bad_answers_end_the_call(void **state)
{
    static uint8_t body[8192];
    const struct {
        bool stream; /* what was called */
        struct envelope e;
        enum peer_verdict verdict;
        enum status status;
    } cases[] = {
        {false, {.kind = ENVELOPE_REPLY}, PEER_STRIKE, ST_INTERNAL},
        {true,
         {.kind = ENVELOPE_END, .body_bytes = 1},
         PEER_STRIKE,
         ST_INTERNAL},
        {false,
         {.kind = ENVELOPE_END, .body_bytes = 1025},
         PEER_STRIKE,
         ST_INTERNAL},
        {false, {.kind = ENVELOPE_END}, PEER_FINE, ST_INTERNAL}, /* required */
        {true,
         {.kind = ENVELOPE_REPLY, .body_bytes = 1},
         PEER_FINE,
         ST_INTERNAL},
        {false,
         {.kind = ENVELOPE_END, .status = ST_ABORTED, .body_bytes = 4097},
         PEER_STRIKE,
         ST_UNKNOWN},
        {false,
         {.kind = ENVELOPE_END, .status = ST_ABORTED, .body_bytes = 1},
         PEER_FINE,
         ST_ABORTED},
        {false, {.kind = ENVELOPE_END, .status = 99}, PEER_FINE, ST_UNKNOWN},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
        struct envelope e = cases[i].e;

        assert_int_equal(cases[i].stream ? call_generate(&p->a, 0, 7, NULL)
                                         : call_health(&p->a, 0, 7, NULL),
                         ST_OK);
        e.call = 1;
        e.body = body; /* zeros: no field has number 0 */
        assert_int_equal(forge(&p->a, &e, true), cases[i].verdict);
        assert_int_equal(p->a.n_ends, 1);
        assert_int_equal(p->a.n_replies, 0);
        assert_int_equal(p->a.status, cases[i].status);
        pair_free(p);
    }
}

static void oversize_reply_is_struck(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    uint8_t *body = calloc(1, 131073);
    struct envelope e = {.kind = ENVELOPE_REPLY, .call = 1, .body = body};

    (void)state;
    assert_int_equal(call_generate(&p->a, 0, 7, NULL), ST_OK);
    /* GenerateChunk{first_index: 0, text: ...}: at the cap, then past it. */
    memcpy(body, "\x08\x00\x1a\xfa\xff\x07", 6);
    e.body_bytes = 131072;
    assert_int_equal(forge(&p->a, &e, true), PEER_FINE);
    assert_int_equal(p->a.n_replies, 1);
    body[3] = 0xfb;
    e.body_bytes = 131073;
    assert_int_equal(forge(&p->a, &e, true), PEER_STRIKE);
    assert_int_equal(p->a.n_replies, 1);
    assert_int_equal(p->a.status, ST_INTERNAL);
    free(body);
    pair_free(p);
}

static void oversize_body_is_refused(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    uint8_t body[17] = {0x9a, 0x06, 14}; /* field 99: 14 unknown bytes */
    struct envelope e = {.kind = ENVELOPE_CALL,
                         .call = 1,
                         .method = METHOD_HEALTH_CHECK,
                         .body = body,
                         .body_bytes = 16};
    char text[ERROR_TEXT];

    (void)state;
    body[2] = 13;
    assert_int_equal(forge(&p->b, &e, true), PEER_FINE);
    assert_int_equal(p->b.n_calls, 1); /* at the cap */
    body[2] = 14;
    e.call = 2;
    e.body_bytes = 17;
    assert_int_equal(forge(&p->b, &e, true), PEER_STRIKE);
    assert_int_equal(p->b.n_calls, 1);
    assert_int_equal(last_end(&p->a, text, sizeof text), ST_INVALID_ARGUMENT);
    pair_free(p);
}

static void own_oversize_is_not_sent(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    Sluice__V1__GenerateRequest r;
    uint8_t *text = calloc(1, 1 << 20);

    (void)state;
    fill_generate(&r);
    r.has_text = true;
    r.text = (ProtobufCBinaryData){.len = (1 << 20) - 25, .data = text};
    assert_int_equal(protobuf_c_message_get_packed_size(&r.base), 1 << 20);
    assert_int_equal(
        peer_call(p->a.peer, METHOD_INFERENCE_GENERATE, &r.base, 0, 1, NULL),
        ST_OK);
    r.text.len++;
    assert_int_equal(
        peer_call(p->a.peer, METHOD_INFERENCE_GENERATE, &r.base, 0, 1, NULL),
        ST_INVALID_ARGUMENT);
    settle(p);
    assert_int_equal(p->b.n_calls, 1);
    free(text);
    pair_free(p);
}

static void undecodable_body_is_invalid_and_session_lives(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    uint8_t body[2] = {0xff, 0xff};
    struct envelope e = {.kind = ENVELOPE_CALL,
                         .method = METHOD_INFERENCE_GENERATE,
                         .body = body,
                         .body_bytes = 2};
    char text[ERROR_TEXT];

    (void)state;
    for (e.call = 1; e.call < 4 * PEER_STRIKES; e.call++) {
        assert_int_equal(forge(&p->b, &e, true), PEER_FINE);
        assert_int_equal(last_end(&p->a, text, sizeof text),
                         ST_INVALID_ARGUMENT);
        assert_non_null(strstr(text, "do not parse"));
    }
    assert_int_equal(p->b.n_calls, 0);
    pair_free(p);
}

static void strikes_end_the_session(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    struct envelope e = {.kind = ENVELOPE_CALL,
                         .call = 5,
                         .method = METHOD_INFERENCE_LIST_MODELS};

    (void)state;
    assert_int_equal(forge(&p->b, &e, true), PEER_FINE);
    for (int i = 1; i < PEER_STRIKES; i++) {
        assert_int_equal(forge(&p->b, &e, true), PEER_STRIKE); /* doubled */
    }
    assert_int_equal(p->b.n_calls, 1);
    assert_int_equal(forge(&p->b, &e, true), PEER_OUT);
    pair_free(p);
}

static void kinds_out_of_place_are_struck(void **state)
{
    const struct {
        struct envelope e;
        bool ordered;
    } bad[] = {
        {{.kind = ENVELOPE_CALL, .call = 1, .method = METHOD_HEALTH_CHECK},
         false},
        {{.kind = ENVELOPE_END, .call = 1}, false},
        {{.kind = ENVELOPE_CALL, .call = 0, .method = METHOD_HEALTH_CHECK},
         true},
        {{.kind = ENVELOPE_CALL, .call = 1, .method = METHOD_REGISTRY_GOODBYE},
         true},
        {{.kind = ENVELOPE_ONEWAY, .method = METHOD_HEALTH_CHECK}, true},
        {{.kind = ENVELOPE_ONEWAY, .method = METHOD_REGISTRY_GOODBYE}, true},
        {{.kind = ENVELOPE_ONEWAY,
          .call = 3,
          .method = METHOD_REGISTRY_GOODBYE},
         false},
    };
    const struct envelope fine[] = {
        {.kind = ENVELOPE_END, .call = 77},
        {.kind = ENVELOPE_REPLY, .call = 77},
        {.kind = ENVELOPE_CANCEL, .call = 77},
        {.kind = 0},
        {.kind = 200},
        {.kind = ENVELOPE_ONEWAY, .method = 0x7777},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);

        assert_int_equal(forge(&p->b, &bad[i].e, bad[i].ordered), PEER_STRIKE);
        assert_int_equal(p->b.n_calls, 0);
        pair_free(p);
    }
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);

        assert_int_equal(forge(&p->b, &fine[i], true), PEER_FINE);
        assert_int_equal(p->b.n_calls, 0);
        pair_free(p);
    }
}

static void goodbye_is_told(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    Sluice__V1__GoodbyeMessage g = SLUICE__V1__GOODBYE_MESSAGE__INIT;

    (void)state;
    g.has_reason = true;
    g.reason = wire_text("drain\x1b[2J");
    assert_int_equal(peer_oneway(p->a.peer, METHOD_REGISTRY_GOODBYE, &g.base),
                     ST_OK);
    peer_flush(p->a.peer, clock_us);
    assert_int_equal(take_in(&p->b), PEER_GOODBYE);
    assert_string_equal(peer_goodbye(p->b.peer), "drain?[2J");
    pair_free(p);
}

static enum status report(struct end *e, uint64_t snapshot)
{
    Sluice__V1__ReportMessage m = SLUICE__V1__REPORT_MESSAGE__INIT;
    Sluice__V1__Ledger l = SLUICE__V1__LEDGER__INIT;
    Sluice__V1__ClassLedger c = SLUICE__V1__CLASS_LEDGER__INIT;

    l.session = SESSION;
    l.snapshot = snapshot;
    l.blocks = l.slots = l.checkpoints = l.pages = &c;
    m.ledger = &l;
    return peer_oneway(e->peer, METHOD_REGISTRY_REPORT, &m.base);
}

static void newest_report_wins(void **state)
{
    struct pair *p = pair_new(BY_WORKER, BY_ROUTER);

    (void)state;
    for (uint64_t i = 1; i <= 20; i++) {
        assert_int_equal(report(&p->a, i), ST_OK);
    }
    settle(p);
    assert_int_equal(p->b.n_calls, 1);
    assert_int_equal(p->b.value, 20);
    assert_int_equal(p->b.call, 0);
    pair_free(p);
}

static void dirty_is_told_once(void **state)
{
    struct pair *p = pair_new(BY_WORKER, BY_ROUTER);

    (void)state;
    assert_int_equal(report(&p->a, 1), ST_OK);
    assert_int_equal(report(&p->a, 2), ST_OK);
    assert_int_equal(p->a.n_dirty, 1);
    assert_int_equal(peer_due(p->a.peer), 0); /* now, not NODE_STOP */
    peer_flush(p->a.peer, clock_us);
    assert_int_equal(report(&p->a, 3), ST_OK);
    assert_int_equal(p->a.n_dirty, 2);
    assert_int_equal(take_in(&p->b), PEER_FINE);
    assert_int_equal(p->b.n_dirty, 0); /* state needs no ack */
    assert_int_equal(call_health(&p->a, 0, 1, NULL), ST_OK);
    peer_flush(p->a.peer, clock_us);
    assert_int_equal(take_in(&p->b), PEER_FINE);
    assert_int_equal(p->b.n_dirty, 1); /* an ack is due some time */
    pair_free(p);
}

static void freeing_ends_all_calls(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);

    (void)state;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(call_generate(&p->a, 0, 7, NULL), ST_OK);
    }
    settle(p);
    peer_free(&p->a.peer);
    assert_null(p->a.peer);
    assert_int_equal(p->a.n_ends, 100);
    assert_int_equal(p->a.status, ST_UNAVAILABLE);
    peer_free(&p->b.peer);
    assert_int_equal(p->b.n_cancels, 100);
    pair_free(p);
}

static void silent_reader_is_refused(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    struct envelope e = {.kind = ENVELOPE_CALL, .method = METHOD_HEALTH_CHECK};
    enum peer_verdict v = PEER_FINE;
    size_t most = LINK_OUTBOX_BYTES;

    (void)state;
    p->b.answer_calls = true;
    p->b.send_status = ST_RESOURCE_EXHAUSTED; /* it never reads */
    for (e.call = 1; e.call < 1000000 && v != PEER_OUT; e.call++) {
        v = forge(&p->b, &e, true);
        peer_flush(p->b.peer, clock_us);
        if (peer_room(p->b.peer, LANE_CONTROL) < most) {
            most = peer_room(p->b.peer, LANE_CONTROL);
        }
    }
    assert_int_equal(v, PEER_OUT);
    assert_true(most > 0); /* its answers never filled the lane */
    pair_free(p);
}

static void full_transport_is_tried_again(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);

    (void)state;
    p->b.answer_calls = true;
    p->a.send_status = ST_RESOURCE_EXHAUSTED;
    assert_int_equal(call_health(&p->a, 0, 1, NULL), ST_OK);
    peer_flush(p->a.peer, clock_us);
    p->a.send_status = ST_OK;
    settle(p);
    assert_int_equal(p->b.n_calls, 0);
    assert_int_equal(peer_due(p->a.peer), clock_us + LINK_HOLD_US);
    clock_us += LINK_HOLD_US;
    settle(p);
    assert_int_equal(p->a.n_ends, 1);
    assert_int_equal(p->a.status, ST_OK);
    pair_free(p);
}

static void hello_in_a_session_is_refused(void **state)
{
    struct pair *p = pair_new(BY_CLIENT, BY_ROUTER);
    struct envelope e = {
        .kind = ENVELOPE_CALL, .call = 1, .method = METHOD_REGISTRY_HELLO};
    char text[ERROR_TEXT];

    (void)state;
    assert_int_equal(forge(&p->b, &e, true), PEER_FINE);
    assert_int_equal(last_end(&p->a, text, sizeof text),
                     ST_FAILED_PRECONDITION);
    pair_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unary_call_is_answered),
        cmocka_unit_test(stream_is_answered_and_ended),
        cmocka_unit_test(failure_carries_its_sentence),
        cmocka_unit_test(caller_cancels),
        cmocka_unit_test(cancel_crosses_the_end),
        cmocka_unit_test(deadline_ends_both_sides),
        cmocka_unit_test(many_deadlines_pass_at_once),
        cmocka_unit_test(calls_are_bounded),
        cmocka_unit_test(unbuilt_method_is_unimplemented),
        cmocka_unit_test(wrong_role_is_denied_and_struck),
        cmocka_unit_test(their_calls_are_bounded),
        cmocka_unit_test(bad_answers_end_the_call),
        cmocka_unit_test(oversize_reply_is_struck),
        cmocka_unit_test(oversize_body_is_refused),
        cmocka_unit_test(own_oversize_is_not_sent),
        cmocka_unit_test(undecodable_body_is_invalid_and_session_lives),
        cmocka_unit_test(strikes_end_the_session),
        cmocka_unit_test(kinds_out_of_place_are_struck),
        cmocka_unit_test(goodbye_is_told),
        cmocka_unit_test(newest_report_wins),
        cmocka_unit_test(dirty_is_told_once),
        cmocka_unit_test(freeing_ends_all_calls),
        cmocka_unit_test(silent_reader_is_refused),
        cmocka_unit_test(full_transport_is_tried_again),
        cmocka_unit_test(hello_in_a_session_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
