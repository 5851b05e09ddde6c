#include "tests/unit/worker/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/health.pb-c.h"
#include "tests/unit/cmocka.h"

/* ---- what a token is ---- */

static uint64_t mix(uint64_t h, uint32_t id)
{
    h = (h ^ id) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
}

/* Never the end token. */
static uint32_t sampled(uint64_t h)
{
    return 16 + (uint32_t)(h % (RIG_VOCAB - 16));
}

uint32_t rig_prompt_id(uint32_t id, uint32_t i)
{
    return 16 + (id * 131u + i * 17u) % (RIG_VOCAB - 16);
}

void rig_expect(uint32_t id, uint32_t n_prompt, uint32_t n, uint32_t *out)
{
    uint64_t h = 0;

    for (uint32_t i = 0; i < n_prompt; i++) {
        h = mix(h, rig_prompt_id(id, i));
    }
    for (uint32_t i = 0; i < n; i++) {
        out[i] = sampled(h);
        h = mix(h, out[i]);
    }
}

/* ---- the engine ---- */

struct rig_fake {
    const struct plan *plans[ENGINE_DEPTH_MAX];
    uint32_t n;
    struct plan_result done[ENGINE_DEPTH_MAX], before;
    uint32_t n_done;
    uint32_t *ids;       /* [n_blocks * block_tokens] */
    uint64_t *owner;     /* [n_blocks] sequence that wrote it last */
    uint64_t *slot_hash; /* [n_slots] */
    uint32_t *slot_n;
};

static struct rig *rig_of(struct engine *e)
{
    return (struct rig *)(void *)((char *)e - offsetof(struct rig, engine));
}

static enum status fake_submit(struct engine *e, const struct plan *p)
{
    struct rig *r = rig_of(e);

    assert_true(r->fake->n < r->o.engine_depth);
    if (r->refuse_plans) {
        return ST_RESOURCE_EXHAUSTED;
    }
    assert_in_range(p->n_rows, 1, r->o.max_rows);
    assert_in_range(p->n_tokens, 1, r->o.step_tokens);
    r->last_rows = p->n_rows;
    r->last_tokens = p->n_tokens;
    r->fake->plans[r->fake->n++] = p;
    return ST_OK;
}

static bool fake_poll(struct engine *e, struct plan_result *out)
{
    struct rig_fake *f = rig_of(e)->fake;

    if (f->n_done == 0) {
        return false;
    }
    *out = f->done[0];
    f->n_done--;
    memmove(&f->done[0], &f->done[1], f->n_done * sizeof f->done[0]);
    return true;
}

static uint64_t fake_progress(struct engine *e)
{
    return rig_of(e)->n_steps;
}

static const struct engine_ops fake_ops = {fake_submit, fake_poll,
                                           fake_progress};

static uint32_t row_id(const struct rig_fake *f, const struct plan *p,
                       const struct plan_row *row, uint32_t i)
{
    if (row->chained) {
        assert_int_equal(row->n_tokens, 1);
        assert_in_range(row->chain_row, 0, f->before.n_rows - 1);
        return f->before.tokens[row->chain_row];
    }
    return p->tokens[row->token + i];
}

/* Write the row's ids where its table says. */
static void write_row(struct rig *r, const struct plan *p,
                      const struct plan_row *row)
{
    struct rig_fake *f = r->fake;
    uint32_t bt = r->o.block_tokens;

    for (uint32_t i = 0; i < row->n_tokens; i++) {
        uint32_t at = row->position + i;
        uint32_t id = row_id(f, p, row, i);
        uint32_t block;

        assert_in_range(id, 0, RIG_VOCAB - 1);
        if (row->slot != SLOT_NONE) {
            assert_int_equal(f->slot_n[row->slot], at);
            f->slot_hash[row->slot] = mix(f->slot_hash[row->slot], id);
            f->slot_n[row->slot]++;
        }
        if (r->o.n_blocks == 0) {
            continue;
        }
        assert_in_range(at / bt, 0, row->n_blocks - 1);
        block = p->blocks[row->block + at / bt];
        assert_in_range(block, 0, r->o.n_blocks - 1);
        if (at % bt == 0) {
            f->owner[block] = row->sequence;
        }
        assert_int_equal(f->owner[block], row->sequence);
        f->ids[block * bt + at % bt] = id;
    }
}

/* The history as the blocks have it. */
static uint64_t history(const struct rig *r, const struct plan *p,
                        const struct plan_row *row)
{
    uint32_t end = row->position + row->n_tokens;
    uint32_t bt = r->o.block_tokens;
    uint64_t h = 0;

    if (r->o.n_blocks == 0) {
        return r->fake->slot_hash[row->slot];
    }
    for (uint32_t at = 0; at < end; at++) {
        uint32_t block = p->blocks[row->block + at / bt];

        assert_int_equal(r->fake->owner[block], row->sequence);
        h = mix(h, r->fake->ids[block * bt + at % bt]);
    }
    if (row->slot != SLOT_NONE) {
        assert_true(h == r->fake->slot_hash[row->slot]);
    }
    return h;
}

static void check_cut(const struct rig *r, const struct plan_row *row)
{
    uint32_t chunk = r->o.chunk_tokens;
    uint32_t cut = chunk < r->o.step_tokens ? chunk : r->o.step_tokens;

    cut = cut < 64 ? cut : 64;
    assert_in_range(row->n_tokens, 1, chunk);
    if (row->kind == ROW_PROMPT && !row->sample) {
        (void)cut;
    }
}

static void compute(struct rig *r, const struct plan *p,
                    struct plan_result *out)
{
    for (uint32_t i = 0; i < p->n_zero; i++) {
        r->fake->slot_hash[p->zero_slots[i]] = 0;
        r->fake->slot_n[p->zero_slots[i]] = 0;
    }
    for (uint32_t i = 0; i < p->n_rows; i++) {
        const struct plan_row *row = &p->rows[i];
        uint64_t h;

        check_cut(r, row);
        write_row(r, p, row);
        h = history(r, p, row);
        out->tokens[i] = TOKEN_NONE;
        if (row->sample) {
            out->tokens[i] = row->index == r->eos_at ? RIG_EOS : sampled(h);
        }
    }
}

bool rig_step(struct rig *r)
{
    struct rig_fake *f = r->fake;
    struct plan_result *out;
    const struct plan *p;

    if (f->n == 0) {
        return false;
    }
    p = f->plans[0];
    out = &f->done[f->n_done++];
    *out = (struct plan_result){
        .step = p->step, .n_rows = p->n_rows, .device_us = 11};
    if (r->fail_next != NULL) {
        out->status = error_set(&out->error, ST_INTERNAL, "%s", r->fail_next);
        r->fail_next = NULL;
        memset(out->tokens, 0, sizeof out->tokens);
    } else {
        compute(r, p, out);
    }
    f->before = *out;
    f->n--;
    memmove(&f->plans[0], &f->plans[1], f->n * sizeof f->plans[0]);
    r->n_steps++;
    r->now_us += 100;
    rig_turn(r);
    return true;
}

uint32_t rig_inflight(const struct rig *r)
{
    return r->fake->n;
}

const struct plan *rig_plan(const struct rig *r, uint32_t i)
{
    return i < r->fake->n ? r->fake->plans[i] : NULL;
}

void rig_run(struct rig *r)
{
    for (int i = 0; rig_step(r); i++) {
        assert_in_range(i, 0, 100000);
    }
}

static void fake_new(struct rig *r)
{
    const struct worker_options *o = &r->o;
    struct rig_fake *f = calloc(1, sizeof *f);

    f->ids = calloc((size_t)o->n_blocks * o->block_tokens + 1, sizeof *f->ids);
    f->owner = calloc(o->n_blocks + 1, sizeof *f->owner);
    f->slot_hash = calloc(o->n_slots + 1, sizeof *f->slot_hash);
    f->slot_n = calloc(o->n_slots + 1, sizeof *f->slot_n);
    /* A slot that nobody zeroed is found out. */
    for (uint32_t i = 0; i < o->n_slots; i++) {
        f->slot_n[i] = 12345;
    }
    r->fake = f;
    r->engine.ops = &fake_ops;
    r->eos_at = UINT32_MAX;
}

static void fake_free(struct rig_fake *f)
{
    free(f->ids);
    free(f->owner);
    free(f->slot_hash);
    free(f->slot_n);
    free(f);
}

/* ---- the router's end ---- */

static void hear_ledger(struct rig *r, const Sluice__V1__Ledger *l)
{
    const Sluice__V1__ClassLedger *b = l->blocks, *p = l->pages;

    assert_int_equal(l->session, r->session);
    assert_true(l->snapshot > r->ledger.snapshot);
    assert_int_equal(b->total, b->free + b->held + b->cached + b->granted);
    assert_int_equal(p->total, p->free + p->held + p->cached + p->granted);
    r->ledger = *l;
    r->blocks = *b;
    r->slots = *l->slots;
    r->pages = *p;
}

static void hear_row(struct rig *r, const Sluice__V1__StepOutputMessage *m,
                     size_t i, size_t at)
{
    struct rig_heard *h;

    assert_in_range(m->grant[i], 1, r->grant);
    h = &r->heard[m->grant[i]];
    h->rows++;
    h->state = m->state[i];
    if (m->first_index[i] > h->n) {
        return;
    }
    for (uint32_t j = 0; j < m->count[i]; j++) {
        uint32_t index = m->first_index[i] + j;

        if (index < h->n) {
            assert_int_equal(h->tokens[index], m->tokens[at + j]);
        } else {
            h->tokens[h->n++] = m->tokens[at + j];
        }
    }
    if (m->finish[i] != 0) {
        h->finish = m->finish[i];
    }
}

static void acknowledge(struct rig *r, const Sluice__V1__StepOutputMessage *m)
{
    Sluice__V1__AcknowledgeMessage ack = SLUICE__V1__ACKNOWLEDGE_MESSAGE__INIT;
    uint32_t index[STEP_ROWS_MAX];

    for (size_t i = 0; i < m->n_grant; i++) {
        struct rig_heard *h = &r->heard[m->grant[i]];

        index[i] = h->forgotten ? UINT32_MAX : h->n;
        h->forgotten = h->forgotten || h->finish != 0;
    }
    ack.n_grant = ack.n_index = m->n_grant;
    ack.grant = m->grant;
    ack.index = index;
    assert_int_equal(peer_oneway(r->peer, METHOD_WORKER_ACKNOWLEDGE, &ack.base),
                     ST_OK);
}

static void hear_output(struct rig *r, const Sluice__V1__StepOutputMessage *m)
{
    size_t at = 0;

    assert_int_equal(m->n_grant, m->n_first_index);
    assert_int_equal(m->n_grant, m->n_count);
    assert_int_equal(m->n_grant, m->n_finish);
    assert_int_equal(m->n_grant, m->n_state);
    assert_true(m->n_grant <= STEP_ROWS_MAX);
    hear_ledger(r, m->ledger);
    r->n_outputs++;
    r->last_step = m->step;
    if (m->has_failure) {
        snprintf(r->failure, sizeof r->failure, "%.*s", (int)m->failure.len,
                 (const char *)m->failure.data);
    }
    for (size_t i = 0; i < m->n_grant; i++) {
        assert_true(m->count[i] <= STEP_ROW_TOKENS_MAX);
        hear_row(r, m, i, at);
        at += m->count[i];
    }
    assert_int_equal(at, m->n_tokens);
    if (r->acknowledge) {
        acknowledge(r, m);
    }
}

static void on_call(void *node, struct peer *p, const struct method_row *m,
                    uint64_t call, int64_t deadline_us,
                    const ProtobufCMessage *request)
{
    struct rig *r = node;

    (void)p;
    (void)call;
    (void)deadline_us;
    if (m->number == METHOD_REGISTRY_STEP_OUTPUT) {
        hear_output(r, (const Sluice__V1__StepOutputMessage *)request);
    } else if (m->number == METHOD_REGISTRY_REPORT) {
        r->n_reports++;
        hear_ledger(r, ((const Sluice__V1__ReportMessage *)request)->ledger);
    }
}

static void on_end(void *node, struct peer *p, uint64_t tag,
                   const struct method_row *m, enum status status,
                   const ProtobufCMessage *reply, const struct error *e,
                   uint32_t retry_after_ms)
{
    struct rig *r = node;
    struct rig_end *end = &r->ends[tag];

    (void)p;
    assert_false(end->ended);
    end->ended = true;
    end->status = status;
    end->retry_after_ms = retry_after_ms;
    if (e != NULL) {
        snprintf(end->text, sizeof end->text, "%s", e->text);
    }
    if (reply != NULL && (m->number == METHOD_WORKER_CANCEL ||
                          m->number == METHOD_WORKER_REMOVE)) {
        const Sluice__V1__Receipt *c = (const Sluice__V1__Receipt *)reply;

        end->receipt.state = (int)c->state;
        end->receipt.n_generated = c->n_generated;
        end->receipt.blocks = c->blocks;
        end->receipt.slots = c->slots;
        end->receipt.checkpoints = c->checkpoints;
        end->receipt.micros = c->micros;
        end->receipt.snapshot = c->snapshot;
    }
    if (reply != NULL && m->number == METHOD_WORKER_AUDIT) {
        end->differences =
            ((const Sluice__V1__AuditReply *)reply)->n_differences;
    }
}

static const struct peer_ops router_ops = {.on_call = on_call,
                                           .on_end = on_end};

/* ---- io ---- */

static struct rig *rig_io(struct node_io *io)
{
    return io->impl;
}

static int64_t io_now(struct node_io *io)
{
    return rig_io(io)->now_us;
}

static uint64_t io_random(struct node_io *io)
{
    struct rig *r = rig_io(io);

    r->random = mix(r->random + 1, 1);
    return r->random;
}

/* Both ends send through it; only the worker's end is connection 1, 2, ... */
static enum status io_send(struct node_io *io, struct peer_id to,
                           struct frame **f)
{
    struct rig *r = rig_io(io);
    struct frame *frame = *f;

    *f = NULL;
    if (!r->open || to.v != r->id.v) {
        frame_free(&frame);
        return ST_UNAVAILABLE;
    }
    assert_true(r->n_to_router < RIG_FRAMES);
    r->to_router[r->n_to_router++] = frame;
    return ST_OK;
}

static enum status router_send(struct node_io *io, struct peer_id to,
                               struct frame **f)
{
    struct rig *r = rig_io(io);

    (void)to;
    assert_true(r->n_to_worker < RIG_FRAMES);
    r->to_worker[r->n_to_worker++] = *f;
    *f = NULL;
    return ST_OK;
}

static struct peer_id io_open(struct node_io *io)
{
    struct rig *r = rig_io(io);

    r->id.v++;
    r->opening = true;
    return r->id;
}

static void drop_frames(struct frame **frames, uint32_t *n)
{
    for (uint32_t i = 0; i < *n; i++) {
        frame_free(&frames[i]);
    }
    *n = 0;
}

static void cut(struct rig *r)
{
    r->open = r->opening = false;
    drop_frames(r->to_router, &r->n_to_router);
    drop_frames(r->to_worker, &r->n_to_worker);
    peer_free(&r->peer);
}

static void io_close(struct node_io *io, struct peer_id who)
{
    struct rig *r = rig_io(io);

    assert_int_equal(who.v, r->id.v);
    /* What was sent before is still on its way. */
    r->open = r->opening = false;
}

static struct node_io router_io;

static void hello(struct rig *r, const struct envelope *e)
{
    Sluice__V1__HelloReply reply = SLUICE__V1__HELLO_REPLY__INIT;
    const Sluice__V1__HelloRequest *m;
    ProtobufCMessage *message;
    struct peer_config c = {.io = &router_io,
                            .id = r->id,
                            .self = BY_ROUTER,
                            .other = BY_WORKER,
                            .ops = &router_ops,
                            .node = r,
                            .arena = &r->arena};

    r->n_hellos++;
    if (!r->answer_hello) {
        return;
    }
    assert_int_equal(wire_unpack(&r->arena,
                                 &sluice__v1__hello_request__descriptor,
                                 e->body, e->body_bytes, &message, NULL),
                     ST_OK);
    m = (const Sluice__V1__HelloRequest *)message;
    assert_non_null(m->worker);
    assert_int_equal(m->worker->ledger->snapshot, 0);
    assert_int_equal(m->worker->fingerprint.len, 16);
    reply.version_major = WIRE_VERSION_MAJOR;
    reply.version_minor = WIRE_VERSION_MINOR;
    reply.name = wire_text("bench");
    r->session++;
    r->grant = 0;
    memset(r->heard, 0, sizeof r->heard);
    memset(&r->ledger, 0, sizeof r->ledger);
    c.session = r->session;
    r->peer = peer_new(&c);
    r->to_worker[r->n_to_worker++] =
        hello_answer(r->session, &reply.base, NULL, 0);
}

static void router_recv(struct rig *r, struct frame *f)
{
    struct frame_header h;
    struct envelope e;

    assert_int_equal(frame_check(f->data, f->bytes, &h, NULL), ST_OK);
    if (hello_is_call(f, &h, &e)) {
        hello(r, &e);
    } else if (hello_is_goodbye(f, &h, &e)) {
        r->n_goodbyes++;
    } else if (r->peer != NULL) {
        assert_int_equal(peer_recv(r->peer, f, &h, r->now_us), PEER_FINE);
    }
    frame_free(&f);
}

/* ---- turns ---- */

struct worker_account rig_account(const struct rig *r)
{
    struct worker_account a;

    worker_account(r->worker, &a);
    return a;
}

static void check_class(const struct class_account *a)
{
    assert_int_equal(a->total, a->free + a->held + a->cached + a->granted);
}

static void check_account(const struct rig *r)
{
    struct worker_account a = rig_account(r);
    char text[1024];

    if (worker_audit(r->worker, text, sizeof text) != 0) {
        fail_msg("audit: %s", text);
    }
    check_class(&a.blocks);
    check_class(&a.slots);
    check_class(&a.checkpoints);
    assert_int_equal(a.violations, 0);
}

static bool deliver(struct rig *r)
{
    struct frame *router[RIG_FRAMES], *worker[RIG_FRAMES];
    uint32_t n_router = r->n_to_router, n_worker = r->n_to_worker;

    memcpy(router, r->to_router, n_router * sizeof *router);
    memcpy(worker, r->to_worker, n_worker * sizeof *worker);
    r->n_to_router = r->n_to_worker = 0;
    for (uint32_t i = 0; i < n_router; i++) {
        router_recv(r, router[i]);
    }
    for (uint32_t i = 0; i < n_worker; i++) {
        if (r->open) {
            worker_node_ops.recv(r->worker, r->id, &worker[i]);
        } else {
            frame_free(&worker[i]);
        }
    }
    return n_router + n_worker > 0;
}

void rig_turn(struct rig *r)
{
    bool more = true;

    while (more) {
        if (r->opening) {
            r->opening = false;
            r->open = true;
            worker_node_ops.opened(r->worker, r->id);
        }
        if (r->peer != NULL) {
            peer_flush(r->peer, r->now_us);
        }
        more = deliver(r);
        if (r->due_us != NODE_STOP) {
            r->due_us = worker_node_ops.tick(r->worker, r->now_us);
        }
        check_account(r);
        more = more || r->opening || r->n_to_router + r->n_to_worker > 0;
    }
}

void rig_advance(struct rig *r, int64_t us)
{
    for (int64_t end = r->now_us + us; r->now_us < end;) {
        r->now_us += 1000;
        rig_turn(r);
    }
}

void rig_lose(struct rig *r)
{
    struct peer_id id = r->id;

    cut(r);
    worker_node_ops.lost(r->worker, id);
    check_account(r);
}

void rig_reconnect(struct rig *r)
{
    uint64_t session = r->session;

    if (r->peer != NULL && !r->open) {
        cut(r);
    }
    for (int i = 0; i < 5000 && (r->session == session || r->peer == NULL);
         i++) {
        rig_advance(r, 1000);
    }
    rig_turn(r);
    assert_true(r->session > session);
}

/* ---- made and freed ---- */

void rig_defaults(struct worker_options *o)
{
    *o = (struct worker_options){.name = "w",
                                 .model = "fake",
                                 .device = "none",
                                 .layer_end = 4,
                                 .n_layers = 4,
                                 .block_tokens = 8,
                                 .block_bytes = 1024,
                                 .slot_bytes = 512,
                                 .n_blocks = 128,
                                 .n_slots = 8,
                                 .pages_per_block = 1,
                                 .pages_per_slot = 1,
                                 .context = RIG_CONTEXT,
                                 .vocab = RIG_VOCAB,
                                 .eos = {RIG_EOS},
                                 .n_eos = 1,
                                 .max_rows = 16,
                                 .step_tokens = 256,
                                 .chunk_tokens = 128,
                                 .engine_depth = 1};
}

struct rig *rig_new(const struct worker_options *o)
{
    struct rig *r = calloc(1, sizeof *r);

    assert_non_null(r);
    if (o != NULL) {
        r->o = *o;
    } else {
        rig_defaults(&r->o);
    }
    r->now_us = 1000000;
    r->acknowledge = r->answer_hello = true;
    r->io.impl = r;
    r->io.now_us = io_now;
    r->io.random = io_random;
    r->io.send = io_send;
    r->io.open = io_open;
    r->io.close = io_close;
    router_io = r->io;
    router_io.send = router_send;
    arena_init(&r->arena);
    fake_new(r);
    r->worker = worker_new(&r->o, &r->io, &r->engine);
    assert_non_null(r->worker);
    rig_turn(r);
    assert_non_null(r->peer);
    return r;
}

void rig_free(struct rig **rp)
{
    struct rig *r = *rp;

    worker_stop(r->worker);
    r->due_us = 0;
    rig_run(r);
    rig_turn(r);
    assert_true(r->due_us == NODE_STOP);
    rig_check_empty(r);
    worker_free(&r->worker);
    cut(r);
    arena_fini(&r->arena);
    fake_free(r->fake);
    free(r);
    *rp = NULL;
}

void rig_check_empty(const struct rig *r)
{
    struct worker_account a = rig_account(r);

    assert_int_equal(a.blocks.free, a.blocks.total);
    assert_int_equal(a.slots.free, a.slots.total);
    assert_int_equal(a.checkpoints.free, a.checkpoints.total);
    assert_int_equal(a.n_sequences, 0);
}

/* ---- what the router says ---- */

static void make_id(uint32_t id, uint8_t out[16])
{
    memset(out, 0xa5, 16);
    memcpy(out, &id, sizeof id);
}

int rig_state(const struct rig *r, uint32_t id)
{
    uint8_t key[16];

    make_id(id, key);
    return worker_sequence_state(r->worker, key, 0);
}

void rig_message(struct rig *r, const struct rig_submit *s,
                 struct rig_message *out)
{
    uint32_t bt = r->o.block_tokens;
    Sluice__V1__SubmitRequest *m = &out->m;

    sluice__v1__submit_request__init(m);
    sluice__v1__sequence_ref__init(&out->ref);
    sluice__v1__need__init(&out->need);
    sluice__v1__sampling__init(&out->sampling);
    make_id(s->id, out->id);
    out->ref.request_id = (ProtobufCBinaryData){16, out->id};
    out->ref.has_choice = true;
    out->ref.choice = s->choice;
    if (r->o.n_blocks > 0) {
        out->need.blocks = (s->n_prompt + s->max_tokens + bt - 1) / bt;
    }
    out->need.slots = r->o.n_slots > 0 ? 1 : 0;
    out->sampling.has_seed = true;
    out->sampling.seed = s->id;
    out->sampling.has_ignore_eos = s->ignore_eos;
    out->sampling.ignore_eos = s->ignore_eos;
    out->n_ids = s->n_prompt + s->n_generated;
    for (uint32_t i = 0; i < s->n_prompt && i < RIG_CONTEXT; i++) {
        out->ids[i] = rig_prompt_id(s->id, i);
    }
    for (uint32_t i = 0; i < s->n_generated; i++) {
        out->ids[s->n_prompt + i] = s->generated[i];
    }
    m->sequence = &out->ref;
    m->need = &out->need;
    m->sampling = &out->sampling;
    m->n_prompt = s->n_prompt;
    m->n_generated = s->n_generated;
    m->max_tokens = s->max_tokens;
    m->has_keep_ms = s->keep_ms > 0;
    m->keep_ms = s->keep_ms;
    m->has_have_index = s->has_have;
    m->have_index = s->have;
    m->tokens = out->ids;
    m->n_tokens = s->n_first > 0 ? s->n_first : out->n_ids;
    m->grant = r->grant + 1;
}

uint64_t rig_send_submit(struct rig *r, const struct rig_message *m)
{
    r->grant = m->m.grant > r->grant ? m->m.grant : r->grant;
    assert_in_range(r->grant, 0, RIG_GRANTS - 1);
    assert_int_equal(
        peer_call(r->peer, METHOD_WORKER_SUBMIT, &m->m.base, 0, ++r->tag, NULL),
        ST_OK);
    return r->tag;
}

uint64_t rig_submit(struct rig *r, const struct rig_submit *s)
{
    struct rig_message m;

    rig_message(r, s, &m);
    return rig_send_submit(r, &m);
}

void rig_part(struct rig *r, uint64_t grant, const struct rig_message *m,
              uint32_t offset, uint32_t n)
{
    Sluice__V1__SubmitPartMessage part = SLUICE__V1__SUBMIT_PART_MESSAGE__INIT;

    part.grant = grant;
    part.offset = offset;
    part.n_tokens = n;
    part.tokens = (uint32_t *)(uintptr_t)&m->ids[offset];
    assert_int_equal(
        peer_oneway(r->peer, METHOD_WORKER_SUBMIT_PART, &part.base), ST_OK);
}

uint64_t rig_cancel(struct rig *r, uint32_t id)
{
    Sluice__V1__CancelRequest m = SLUICE__V1__CANCEL_REQUEST__INIT;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    uint8_t key[16];

    make_id(id, key);
    ref.request_id = (ProtobufCBinaryData){16, key};
    m.sequence = &ref;
    assert_int_equal(
        peer_call(r->peer, METHOD_WORKER_CANCEL, &m.base, 0, ++r->tag, NULL),
        ST_OK);
    return r->tag;
}

uint64_t rig_remove(struct rig *r, uint32_t id)
{
    Sluice__V1__RemoveRequest m = SLUICE__V1__REMOVE_REQUEST__INIT;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    uint8_t key[16];

    make_id(id, key);
    ref.request_id = (ProtobufCBinaryData){16, key};
    m.sequence = &ref;
    assert_int_equal(
        peer_call(r->peer, METHOD_WORKER_REMOVE, &m.base, 0, ++r->tag, NULL),
        ST_OK);
    return r->tag;
}

void rig_ack(struct rig *r, uint64_t grant, uint32_t index)
{
    Sluice__V1__AcknowledgeMessage m = SLUICE__V1__ACKNOWLEDGE_MESSAGE__INIT;

    m.n_grant = m.n_index = 1;
    m.grant = &grant;
    m.index = &index;
    assert_int_equal(peer_oneway(r->peer, METHOD_WORKER_ACKNOWLEDGE, &m.base),
                     ST_OK);
}
