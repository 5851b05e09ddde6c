#include "tests/unit/common/wire/peer_pair.h"

#include <stdlib.h>
#include <string.h>

#include "proto/common.pb-c.h"
#include "proto/health.pb-c.h"
#include "proto/registry.pb-c.h"
#include "tests/unit/cmocka.h"

int64_t pair_clock_us;

static int64_t now_us(struct node_io *io)
{
    (void)io;
    return pair_clock_us;
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
    assert_true(e->other->n_in < PAIR_FRAMES);
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

static void take_tensor(struct end *e)
{
    const void *tensor = peer_tensor(e->peer, &e->tensor_bytes);
    size_t n = e->tensor_bytes;

    if (n > 0) {
        memcpy(e->tensor, tensor, n < sizeof e->tensor ? n : sizeof e->tensor);
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
    take_tensor(e);
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

static void end_init(struct end *e, struct end *other, uint8_t self,
                     uint8_t role_of_other)
{
    struct peer_config c = {.io = &e->io,
                            .id = {1},
                            .session = PAIR_SESSION,
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

struct pair *pair_new(uint8_t a, uint8_t b)
{
    struct pair *pair = calloc(1, sizeof *pair);

    pair_clock_us = 1000000;
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

void pair_free(struct pair *pair)
{
    end_fini(&pair->a);
    end_fini(&pair->b);
    free(pair);
}

enum peer_verdict pair_take_in(struct end *e)
{
    enum peer_verdict worst = PEER_FINE;
    int n = e->n_in;

    e->n_in = 0;
    for (int i = 0; i < n; i++) {
        struct frame_header h;
        enum peer_verdict v;

        assert_int_equal(frame_check(e->in[i]->data, e->in[i]->bytes, &h, NULL),
                         ST_OK);
        assert_int_equal(h.session, PAIR_SESSION);
        v = peer_recv(e->peer, e->in[i], &h, pair_clock_us);
        worst = v > worst ? v : worst;
        frame_free(&e->in[i]);
    }
    return worst;
}

void pair_settle(struct pair *pair)
{
    for (int i = 0; i < 10; i++) {
        peer_flush(pair->a.peer, pair_clock_us);
        peer_flush(pair->b.peer, pair_clock_us);
        assert_int_equal(pair_take_in(&pair->a), PEER_FINE);
        assert_int_equal(pair_take_in(&pair->b), PEER_FINE);
    }
}

enum status pair_call_health(struct end *e, uint32_t deadline_ms, uint64_t tag,
                             uint64_t *call)
{
    const Sluice__V1__Nothing nothing = SLUICE__V1__NOTHING__INIT;

    return peer_call(e->peer, METHOD_HEALTH_CHECK, &nothing.base, deadline_ms,
                     tag, call);
}

static uint8_t id16[16] = {1};

void pair_fill_generate(Sluice__V1__GenerateRequest *r)
{
    sluice__v1__generate_request__init(r);
    r->request_id = (ProtobufCBinaryData){.len = 16, .data = id16};
    r->model = wire_text("m");
}

enum status pair_call_generate(struct end *e, uint32_t deadline_ms,
                               uint64_t tag, uint64_t *call)
{
    Sluice__V1__GenerateRequest r;

    pair_fill_generate(&r);
    return peer_call(e->peer, METHOD_INFERENCE_GENERATE, &r.base, deadline_ms,
                     tag, call);
}
