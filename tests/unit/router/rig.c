#include "tests/unit/router/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RUN_ROUNDS 10000

static int64_t io_now(struct node_io *io)
{
    return ((struct rig *)io->impl)->now;
}

static int64_t fake_now(struct node_io *io)
{
    return ((struct fake *)io->impl)->rig->now;
}

static uint64_t draw(struct rig *rig)
{
    uint64_t z = (rig->random += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t io_random(struct node_io *io)
{
    return draw(io->impl);
}

static uint64_t fake_random(struct node_io *io)
{
    return draw(((struct fake *)io->impl)->rig);
}

static void fly(struct rig *rig, struct fake *from, struct fake *to,
                struct frame **f)
{
    if (rig->n_flying == rig->flying_size) {
        rig->flying_size = rig->flying_size == 0 ? 64 : 2 * rig->flying_size;
        rig->flying =
            realloc(rig->flying, rig->flying_size * sizeof *rig->flying);
        assert_non_null(rig->flying);
    }
    rig->flying[rig->n_flying++] = (struct flying){to, from, *f};
    *f = NULL;
}

static enum status io_send(struct node_io *io, struct peer_id to,
                           struct frame **f)
{
    struct rig *rig = io->impl;

    rig->n_sent++;
    for (uint32_t i = 0; i < rig->n_fakes; i++) {
        if (rig->fakes[i]->id.v == to.v) {
            fly(rig, NULL, rig->fakes[i], f);
            return ST_OK;
        }
    }
    frame_free(f);
    return ST_UNAVAILABLE;
}

static enum status fake_send(struct node_io *io, struct peer_id to,
                             struct frame **f)
{
    struct fake *from = io->impl;

    (void)to;
    if (from->mute) {
        frame_free(f);
    } else {
        fly(from->rig, from, NULL, f);
    }
    return ST_OK;
}

static uint8_t io_port(struct node_io *io, struct peer_id who)
{
    (void)who;
    return ((struct rig *)io->impl)->port;
}

struct rig *rig_new(const struct rig_options *o)
{
    static const struct rig_options plenty = {128, 4096, 4096, NULL};
    struct rig *rig = calloc(1, sizeof *rig);
    struct router_options ro = {.name = "r"};

    assert_non_null(rig);
    o = o == NULL ? &plenty : o;
    rig->io = (struct node_io){.impl = rig,
                               .now_us = io_now,
                               .random = io_random,
                               .send = io_send,
                               .port = io_port};
    rig->now = 1000000;
    rig->port = BY_ALL;
    arena_init(&rig->arena);
    ro.max_peers = o->max_peers;
    ro.max_requests = o->max_requests;
    ro.max_waiting = o->max_waiting;
    ro.text = o->text;
    rig->router = router_new(&ro, &rig->io);
    return rig;
}

static void fake_free(struct fake *f)
{
    peer_free(&f->peer);
    for (int i = 0; i < RIG_SEQUENCES; i++) {
        free(f->sequences[i].ids);
    }
    for (int i = 0; i < RIG_RECORDS; i++) {
        if (f->records[i] != NULL && f->records[i]->reply != NULL) {
            protobuf_c_message_free_unpacked(f->records[i]->reply, NULL);
        }
        free(f->records[i]);
    }
    free(f);
}

void rig_free(struct rig **prig)
{
    struct rig *rig = *prig;

    *prig = NULL;
    router_free(&rig->router);
    for (uint32_t i = 0; i < rig->n_fakes; i++) {
        fake_free(rig->fakes[i]);
    }
    for (uint32_t i = 0; i < rig->n_flying; i++) {
        frame_free(&rig->flying[i].frame);
    }
    free(rig->flying);
    arena_fini(&rig->arena);
    free(rig);
}

/* A fake hears. */

static void worker_on_submit(struct fake *w, uint64_t call,
                             const Sluice__V1__SubmitRequest *m)
{
    struct sequence *s = NULL;

    w->n_submits++;
    w->grants_in_order = w->grants_in_order && m->grant == w->last_grant + 1;
    w->last_grant = m->grant;
    for (int i = 0; i < RIG_SEQUENCES && s == NULL; i++) {
        if (!w->sequences[i].used) {
            s = &w->sequences[i];
        }
    }
    assert_non_null(s);
    free(s->ids);
    *s = (struct sequence){.used = true,
                           .grant = m->grant,
                           .call = call,
                           .blocks = m->need->blocks,
                           .slots = m->need->slots,
                           .n_prompt = m->n_prompt,
                           .n_given = m->n_generated,
                           .n_tokens = m->n_generated,
                           .max_tokens = m->max_tokens,
                           .have_index = m->have_index,
                           .acked = m->have_index,
                           .keep_ms = m->keep_ms,
                           .seed = m->sampling->seed};
    memcpy(s->id, m->sequence->request_id.data, 16);
    s->ids = calloc(m->n_prompt + m->n_generated, sizeof *s->ids);
    if (m->n_tokens > 0) {
        memcpy(s->ids, m->tokens, m->n_tokens * sizeof *s->ids);
    }
    s->n_ids = (uint32_t)m->n_tokens;
    w->ledger.grant = m->grant;
    if (w->refuse_submits != ST_OK) {
        struct error e;
        error_set(&e, w->refuse_submits, "not now");
        peer_fail(w->peer, call, &e, 0);
        s->used = false;
        return;
    }
    /* What the whole design is for: a grant always fits. */
    assert_true(s->blocks <= w->classes[0].free);
    assert_true(s->slots <= w->classes[1].free);
    w->classes[0].free -= s->blocks;
    w->classes[0].granted += s->blocks;
    w->classes[1].free -= s->slots;
    w->classes[1].granted += s->slots;
    if (!w->hold_submits) {
        Sluice__V1__Nothing none = SLUICE__V1__NOTHING__INIT;
        peer_end(w->peer, call, &none.base);
    }
}

static void worker_on_part(struct fake *w,
                           const Sluice__V1__SubmitPartMessage *m)
{
    for (int i = 0; i < RIG_SEQUENCES; i++) {
        struct sequence *s = &w->sequences[i];
        if (s->used && s->grant == m->grant) {
            assert_int_equal(m->offset, s->n_ids);
            memcpy(s->ids + s->n_ids, m->tokens, m->n_tokens * sizeof *s->ids);
            s->n_ids += (uint32_t)m->n_tokens;
            w->n_parts++;
        }
    }
}

void worker_release(struct fake *w, struct sequence *s)
{
    w->classes[0].granted -= s->blocks;
    w->classes[0].free += s->blocks;
    w->classes[1].granted -= s->slots;
    w->classes[1].free += s->slots;
    s->blocks = s->slots = 0;
}

static void worker_on_ack(struct fake *w,
                          const Sluice__V1__AcknowledgeMessage *m)
{
    w->n_acks++;
    for (size_t k = 0; k < m->n_grant; k++) {
        w->last_ack_grant = m->grant[k];
        w->last_ack_index = m->index[k];
        for (int i = 0; i < RIG_SEQUENCES; i++) {
            struct sequence *s = &w->sequences[i];
            if (!s->used || s->grant != m->grant[k]) {
                continue;
            }
            if (m->index[k] == UINT32_MAX ||
                (s->finish != 0 && m->index[k] >= s->n_tokens)) {
                s->used = s->keep_ms > 0 && m->index[k] != UINT32_MAX;
                s->finished = true;
            } else if (m->index[k] > s->acked) {
                s->acked = m->index[k];
            }
        }
    }
}

static struct sequence *by_id(struct fake *w, const uint8_t *id)
{
    for (int i = 0; i < RIG_SEQUENCES; i++) {
        struct sequence *s = &w->sequences[i];
        if (s->used && memcmp(s->id, id, 16) == 0) {
            return s;
        }
    }
    return NULL;
}

static uint8_t held_id[16];

static void answer_removal(struct fake *w, uint64_t call, const uint8_t *id)
{
    Sluice__V1__Receipt r = SLUICE__V1__RECEIPT__INIT;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    struct sequence *s = by_id(w, id);
    uint8_t copy[16];

    memcpy(copy, id, 16);
    ref.request_id = (ProtobufCBinaryData){16, copy};
    r.sequence = &ref;
    if (s != NULL) {
        r.state = s->finish != 0 ? SLUICE__V1__SEQUENCE_STATE__SEQUENCE_KEPT
                  : s->n_tokens == 0
                      ? SLUICE__V1__SEQUENCE_STATE__SEQUENCE_QUEUED
                      : SLUICE__V1__SEQUENCE_STATE__SEQUENCE_DECODE;
        r.n_generated = s->n_tokens;
        r.blocks = s->blocks;
        r.slots = s->slots;
        r.micros = 17;
        r.snapshot = w->ledger.snapshot + 1;
        worker_release(w, s);
        s->used = false;
        s->cancelled = true;
    }
    peer_end(w->peer, call, &r.base);
}

static void worker_on_removal(struct fake *w, uint64_t call,
                              const Sluice__V1__SequenceRef *ref)
{
    if (w->hold_receipts) {
        w->held_call = call;
        memcpy(held_id, ref->request_id.data, 16);
    } else {
        answer_removal(w, call, ref->request_id.data);
    }
}

void worker_receipt(struct fake *w)
{
    assert_true(w->held_call != 0);
    answer_removal(w, w->held_call, held_id);
    w->held_call = 0;
}

static void worker_on_audit(struct fake *w, uint64_t call)
{
    Sluice__V1__AuditReply a = SLUICE__V1__AUDIT_REPLY__INIT;
    uint32_t live = 0;

    if (w->mute_audit) {
        return;
    }
    for (int i = 0; i < RIG_SEQUENCES; i++) {
        live += w->sequences[i].used && w->sequences[i].finish == 0;
    }
    w->ledger.session = w->session;
    w->ledger.snapshot++;
    w->ledger.has_n_decode = true;
    w->ledger.n_decode = live;
    a.ledger = &w->ledger;
    a.n_differences = w->audit_differences;
    peer_end(w->peer, call, &a.base);
}

static void fake_on_call(void *node, struct peer *p, const struct method_row *m,
                         uint64_t call, int64_t deadline_us,
                         const ProtobufCMessage *request)
{
    struct fake *w = node;
    const Sluice__V1__CancelRequest *c = (const void *)request;

    (void)p, (void)deadline_us;
    switch (m->number) {
    case METHOD_WORKER_SUBMIT:
        worker_on_submit(w, call, (const void *)request);
        break;
    case METHOD_WORKER_SUBMIT_PART:
        worker_on_part(w, (const void *)request);
        break;
    case METHOD_WORKER_ACKNOWLEDGE:
        worker_on_ack(w, (const void *)request);
        break;
    case METHOD_WORKER_CANCEL:
        w->n_cancels++;
        w->last_reason = c->reason;
        worker_on_removal(w, call, c->sequence);
        break;
    case METHOD_WORKER_REMOVE:
        w->n_removes++;
        worker_on_removal(
            w, call,
            ((const Sluice__V1__RemoveRequest *)(const void *)request)
                ->sequence);
        break;
    case METHOD_WORKER_AUDIT:
        worker_on_audit(w, call);
        break;
    default:
        fail_msg("the router called %s", m->name);
    }
}

static void fake_on_cancel(void *node, struct peer *p, uint64_t call)
{
    (void)node, (void)p, (void)call;
}

static void take_chunk(struct record *x, const Sluice__V1__GenerateChunk *c)
{
    x->in_order = x->in_order && c->first_index == x->n_tokens &&
                  x->finish == SLUICE__V1__FINISH__FINISH_RUNNING;
    assert_true(x->n_tokens + c->n_tokens <= RIG_TOKENS);
    if (c->n_tokens > 0) {
        memcpy(x->tokens + x->n_tokens, c->tokens,
               c->n_tokens * sizeof *x->tokens);
    }
    x->n_tokens += (uint32_t)c->n_tokens;
    if (c->has_text) {
        assert_true(wire_text_ok(c->text, 0, c->text.len));
        assert_true(x->n_text + c->text.len <= RIG_TEXT);
        if (c->text.len > 0) {
            memcpy(x->text + x->n_text, c->text.data, c->text.len);
        }
        x->n_text += c->text.len;
    }
    if (c->has_finish) {
        x->finish = c->finish;
        assert_non_null(c->figures);
        x->figures = *c->figures;
        snprintf(x->worker, sizeof x->worker, "%.*s",
                 (int)c->figures->worker.len,
                 (const char *)c->figures->worker.data);
    }
}

static void keep(struct record *x, const ProtobufCMessage *m)
{
    size_t n = protobuf_c_message_get_packed_size(m);
    uint8_t *bytes = malloc(n + 1);

    if (x->reply != NULL) {
        protobuf_c_message_free_unpacked(x->reply, NULL);
    }
    protobuf_c_message_pack(m, bytes);
    x->reply = protobuf_c_message_unpack(m->descriptor, NULL, n, bytes);
    free(bytes);
    assert_non_null(x->reply);
}

static void take_reply(struct record *x, const struct method_row *m,
                       const ProtobufCMessage *reply)
{
    x->n_replies++;
    if (m->number == METHOD_INFERENCE_GENERATE) {
        take_chunk(x, (const void *)reply);
    } else if (m->reply == &sluice__v1__receipt__descriptor) {
        x->receipt = *(const Sluice__V1__Receipt *)(const void *)reply;
        snprintf(x->worker, sizeof x->worker, "%.*s",
                 (int)x->receipt.worker.len,
                 (const char *)x->receipt.worker.data);
    } else {
        keep(x, reply);
    }
}

static void fake_on_reply(void *node, struct peer *p, uint64_t tag,
                          const struct method_row *m,
                          const ProtobufCMessage *reply)
{
    (void)p;
    take_reply(((struct fake *)node)->records[tag], m, reply);
}

static void fake_on_end(void *node, struct peer *p, uint64_t tag,
                        const struct method_row *m, enum status status,
                        const ProtobufCMessage *reply, const struct error *e,
                        uint32_t retry_after_ms)
{
    struct record *x = ((struct fake *)node)->records[tag];

    (void)p;
    assert_false(x->ended);
    x->ended = true;
    x->status = status;
    x->retry_ms = retry_after_ms;
    if (e != NULL) {
        snprintf(x->error, sizeof x->error, "%s", e->text);
    }
    if (reply != NULL) {
        take_reply(x, m, reply);
    }
}

static void fake_on_dirty(void *node, struct peer *p)
{
    (void)node, (void)p;
}

static const struct peer_ops fake_peer_ops = {
    fake_on_call, fake_on_cancel, fake_on_reply, fake_on_end, fake_on_dirty};

static void fake_up(struct fake *f, uint64_t session)
{
    struct peer_config c = {.io = &f->io,
                            .id = {1},
                            .session = session,
                            .self = f->role,
                            .other = BY_ROUTER,
                            .ops = &fake_peer_ops,
                            .node = f,
                            .arena = &f->rig->arena};

    f->session = session;
    f->ledger.session = session;
    f->peer = peer_new(&c);
    f->up = true;
}

static void fake_hears(struct fake *f, const struct frame *frame)
{
    struct frame_header h;
    struct envelope v;
    struct error e;

    assert_int_equal(frame_check(frame->data, frame->bytes, &h, &e), ST_OK);
    if (hello_is_answer(frame, &h, &v)) {
        if (v.status != ST_OK) {
            failure_read(&f->rig->arena, &v, &e, &f->retry_ms);
            f->refused = true;
            f->refusal = (enum status)v.status;
            snprintf(f->why, sizeof f->why, "%s", e.text);
        } else if (!f->up) {
            Sluice__V1__HelloReply *r;
            ProtobufCMessage *m;
            assert_int_equal(wire_unpack(&f->rig->arena,
                                         &sluice__v1__hello_reply__descriptor,
                                         v.body, v.body_bytes, &m, &e),
                             ST_OK);
            r = (void *)m;
            fake_up(f, r->session);
        }
    } else if (hello_is_goodbye(frame, &h, &v)) {
        f->gone = true;
        snprintf(f->goodbye, sizeof f->goodbye, "%.*s", (int)v.body_bytes,
                 (const char *)v.body);
    } else if (f->up) {
        assert_int_equal(h.session, f->session);
        assert_int_equal(peer_recv(f->peer, frame, &h, f->rig->now), PEER_FINE);
    }
}

static bool deliver(struct rig *rig)
{
    uint32_t n = rig->n_flying;
    struct flying *now = rig->flying;

    rig->flying = NULL;
    rig->n_flying = rig->flying_size = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (now[i].to == NULL) {
            router_node_ops.recv(rig->router, now[i].from->id, &now[i].frame);
        } else {
            if (!now[i].to->deaf) {
                fake_hears(now[i].to, now[i].frame);
            }
            frame_free(&now[i].frame);
        }
    }
    free(now);
    return n > 0;
}

static int64_t turn(struct rig *rig)
{
    int64_t due = NODE_IDLE;

    if (!rig->stopped) {
        due = router_node_ops.tick(rig->router, rig->now);
        if (due == NODE_STOP) {
            rig->stopped = true;
            due = NODE_IDLE;
        }
    }
    for (uint32_t i = 0; i < rig->n_fakes; i++) {
        struct fake *f = rig->fakes[i];
        if (f->up && !f->gone) {
            peer_flush(f->peer, rig->now);
            if (peer_due(f->peer) < due) {
                due = peer_due(f->peer);
            }
        }
    }
    return due;
}

void rig_run(struct rig *rig)
{
    int rounds = 0;

    do {
        turn(rig);
        assert_true(++rounds < RUN_ROUNDS);
    } while (deliver(rig));
}

void rig_advance(struct rig *rig, int64_t us)
{
    int64_t end = rig->now + us;

    for (;;) {
        int64_t due;

        rig_run(rig);
        due = turn(rig);
        if (deliver(rig)) {
            continue;
        }
        if (due >= end || rig->now >= end) {
            break;
        }
        rig->now = due > rig->now ? due : rig->now + 1;
    }
    rig->now = end;
    rig_run(rig);
}

/* Fakes. */

struct fake *fake_new(struct rig *rig, uint8_t role, const char *name)
{
    struct fake *f = calloc(1, sizeof *f);

    assert_true(f != NULL && rig->n_fakes < RIG_FAKES);
    f->rig = rig;
    f->role = role;
    f->id.v = ++rig->last_id;
    f->nonce = draw(rig);
    f->grants_in_order = true;
    snprintf(f->name, sizeof f->name, "%s", name);
    f->io = (struct node_io){.impl = f,
                             .now_us = fake_now,
                             .random = fake_random,
                             .send = fake_send};
    rig->fakes[rig->n_fakes++] = f;
    return f;
}

struct fake *fake_worker_new(struct rig *rig, const char *name, uint32_t blocks,
                             uint32_t slots)
{
    struct fake *f = fake_new(rig, BY_WORKER, name);
    Sluice__V1__WorkerShard *s = &f->shard;
    const uint32_t totals[4] = {blocks, slots, 0, 0};

    sluice__v1__worker_shard__init(s);
    sluice__v1__ledger__init(&f->ledger);
    for (int i = 0; i < 4; i++) {
        sluice__v1__class_ledger__init(&f->classes[i]);
        f->classes[i].total = f->classes[i].free = totals[i];
    }
    f->ledger.blocks = &f->classes[0];
    f->ledger.slots = &f->classes[1];
    f->ledger.checkpoints = &f->classes[2];
    f->ledger.pages = &f->classes[3];
    strcpy(f->model, "tiny");
    strcpy(f->device, "fake");
    memset(f->fingerprint, 7, 16);
    s->model = wire_text(f->model);
    s->device = wire_text(f->device);
    s->fingerprint = (ProtobufCBinaryData){16, f->fingerprint};
    s->tokenizer = (ProtobufCBinaryData){0, f->tokenizer};
    s->layer_end = s->n_layers = 4;
    s->block_tokens = RIG_BLOCK;
    s->block_bytes = 4096;
    s->slot_bytes = slots > 0 ? 8192 : 0;
    s->pages_per_block = s->pages_per_slot = 1;
    s->context = RIG_CONTEXT;
    s->vocab = RIG_VOCAB;
    s->max_rows = 64;
    s->ledger = &f->ledger;
    return f;
}

void fake_hello(struct fake *f)
{
    Sluice__V1__HelloRequest m = SLUICE__V1__HELLO_REQUEST__INIT;
    struct frame *frame;

    m.version_major = WIRE_VERSION_MAJOR;
    m.version_minor = WIRE_VERSION_MINOR;
    m.role = f->role == BY_WORKER   ? SLUICE__V1__ROLE__ROLE_WORKER
             : f->role == BY_CLIENT ? SLUICE__V1__ROLE__ROLE_CLIENT
                                    : SLUICE__V1__ROLE__ROLE_ADMIN;
    m.nonce = f->nonce;
    m.name = wire_text(f->name);
    m.worker = f->role == BY_WORKER ? &f->shard : NULL;
    frame = hello_make(&m.base);
    fake_send(&f->io, (struct peer_id){1}, &frame);
    rig_run(f->rig);
}

void fake_lost(struct fake *f)
{
    f->deaf = f->mute = true;
    router_node_ops.lost(f->rig->router, f->id);
}

void fake_reconnect(struct fake *f)
{
    peer_free(&f->peer);
    f->up = f->gone = f->deaf = f->mute = f->refused = false;
    f->id.v = ++f->rig->last_id;
    f->nonce = draw(f->rig);
    f->ledger.session = f->ledger.snapshot = f->ledger.grant = 0;
    f->last_grant = 0;
    for (int i = 0; i < RIG_SEQUENCES; i++) {
        if (f->sequences[i].used) {
            worker_release(f, &f->sequences[i]);
            f->sequences[i].used = false;
        }
    }
    fake_hello(f);
}

static struct fake *up(struct fake *f)
{
    fake_hello(f);
    if (!f->up) {
        fail_msg("%s was refused: %s", f->name, f->why);
    }
    return f;
}

struct fake *rig_worker(struct rig *rig, const char *name, uint32_t blocks,
                        uint32_t slots)
{
    return up(fake_worker_new(rig, name, blocks, slots));
}

struct fake *rig_client(struct rig *rig, const char *name)
{
    return up(fake_new(rig, BY_CLIENT, name));
}

struct fake *rig_admin(struct rig *rig, const char *name)
{
    return up(fake_new(rig, BY_ADMIN, name));
}

uint32_t fake_token(const uint8_t id[16], uint32_t index)
{
    return (id[0] * 131u + index * 7u + 1) % RIG_VOCAB;
}

struct sequence *worker_sequence_of(struct fake *w, uint8_t id)
{
    uint8_t full[16];

    memset(full, id, 16);
    return by_id(w, full);
}

void worker_report(struct fake *w)
{
    Sluice__V1__ReportMessage m = SLUICE__V1__REPORT_MESSAGE__INIT;

    w->ledger.snapshot++;
    m.ledger = &w->ledger;
    assert_int_equal(peer_oneway(w->peer, METHOD_REGISTRY_REPORT, &m.base),
                     ST_OK);
}

void worker_make(struct fake *w, struct sequence *s, uint32_t n,
                 uint32_t finish)
{
    assert_non_null(s);
    s->n_tokens += n;
    s->finish = finish;
    if (finish != 0 && s->keep_ms == 0) {
        worker_release(w, s);
    }
}

void worker_say(struct fake *w, Sluice__V1__StepOutputMessage *m)
{
    m->step = ++w->step;
    if (m->ledger == NULL) {
        w->ledger.snapshot++;
        m->ledger = &w->ledger;
    }
    assert_int_equal(
        peer_oneway(w->peer, METHOD_REGISTRY_STEP_OUTPUT, &m->base), ST_OK);
}

void worker_step(struct fake *w)
{
    worker_step_with(w, NULL);
}

void worker_step_with(struct fake *w, Sluice__V1__Ledger *l)
{
    static uint32_t tokens[8192];
    uint64_t grant[RIG_SEQUENCES];
    uint32_t first[RIG_SEQUENCES], count[RIG_SEQUENCES];
    uint32_t finish[RIG_SEQUENCES], state[RIG_SEQUENCES];
    Sluice__V1__StepOutputMessage m = SLUICE__V1__STEP_OUTPUT_MESSAGE__INIT;
    size_t n = 0;

    for (int i = 0; i < RIG_SEQUENCES; i++) {
        const struct sequence *s = &w->sequences[i];
        if (!s->used || s->finished) {
            continue;
        }
        grant[n] = s->grant;
        first[n] = s->acked;
        count[n] = s->n_tokens - s->acked;
        finish[n] = s->finish;
        state[n] = s->n_tokens > 0
                       ? SLUICE__V1__SEQUENCE_STATE__SEQUENCE_DECODE
                       : SLUICE__V1__SEQUENCE_STATE__SEQUENCE_PREFILL;
        for (uint32_t k = s->acked; k < s->n_tokens; k++) {
            assert_true(m.n_tokens < 8192);
            tokens[m.n_tokens++] = fake_token(s->id, k);
        }
        n++;
    }
    m.ledger = l;
    m.grant = grant;
    m.first_index = first;
    m.count = count;
    m.finish = finish;
    m.state = state;
    m.tokens = tokens;
    m.n_grant = m.n_first_index = m.n_count = m.n_finish = m.n_state = n;
    worker_say(w, &m);
}

struct record *client_call(struct fake *c, enum method m,
                           const ProtobufCMessage *request,
                           uint32_t deadline_ms)
{
    struct record *x = calloc(1, sizeof *x);
    uint64_t tag = 0;

    while (tag < RIG_RECORDS && c->records[tag] != NULL) {
        tag++;
    }
    assert_true(x != NULL && tag < RIG_RECORDS);
    c->records[tag] = x;
    x->in_order = true;
    assert_int_equal(peer_call(c->peer, m, request, deadline_ms, tag, &x->call),
                     ST_OK);
    return x;
}

struct record *client_generate_with(struct fake *c, uint8_t id,
                                    uint32_t n_prompt, uint32_t max_tokens,
                                    Sluice__V1__GenerateRequest *m,
                                    uint32_t deadline_ms)
{
    uint32_t *ids = calloc(n_prompt + 1, sizeof *ids);
    uint8_t full[16];
    struct record *x;

    memset(full, id, 16);
    for (uint32_t i = 0; i < n_prompt; i++) {
        ids[i] = (i * 3 + id) % RIG_VOCAB;
    }
    m->request_id = (ProtobufCBinaryData){16, full};
    m->n_tokens = n_prompt;
    m->tokens = ids;
    m->has_max_tokens = max_tokens > 0;
    m->max_tokens = max_tokens;
    x = client_call(c, METHOD_INFERENCE_GENERATE, &m->base, deadline_ms);
    free(ids);
    return x;
}

struct record *client_generate(struct fake *c, uint8_t id, uint32_t n_prompt,
                               uint32_t max_tokens)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;

    m.model = wire_text("tiny");
    return client_generate_with(c, id, n_prompt, max_tokens, &m, 0);
}

struct record *client_generate_text(struct fake *c, uint8_t id,
                                    const char *text, uint32_t max_tokens)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;

    m.model = wire_text("tiny");
    m.has_text = true;
    m.text = wire_text(text);
    return client_generate_with(c, id, 0, max_tokens, &m, 0);
}

struct record *client_cancel(struct fake *c, uint8_t id)
{
    Sluice__V1__CancelRequest m = SLUICE__V1__CANCEL_REQUEST__INIT;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    uint8_t full[16];

    memset(full, id, 16);
    ref.request_id = (ProtobufCBinaryData){16, full};
    m.sequence = &ref;
    return client_call(c, METHOD_INFERENCE_CANCEL, &m.base, 0);
}

struct record *client_remove(struct fake *c, uint8_t id)
{
    Sluice__V1__RemoveRequest m = SLUICE__V1__REMOVE_REQUEST__INIT;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    uint8_t full[16];

    memset(full, id, 16);
    ref.request_id = (ProtobufCBinaryData){16, full};
    m.sequence = &ref;
    return client_call(c, METHOD_INFERENCE_REMOVE, &m.base, 0);
}

void client_give_up(struct fake *c, struct record *x)
{
    peer_cancel(c->peer, x->call);
}

enum request_state rig_state(const struct rig *rig, uint8_t id)
{
    uint8_t full[16];

    memset(full, id, 16);
    return router_request_state(rig->router, full);
}
