/* rig_router.c - The router's end of the wire: receives and answers. */
#include <stdio.h>
#include <string.h>

#include "proto/health.pb-c.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig_internal.h"

/* ---- received messages ---- */

/* Each page of host memory in use has one owner. */
static void hear_tier(struct rig *r, const Sluice__V1__Ledger *l)
{
    const Sluice__V1__HostTier *h = l->host;

    r->tier_heard = h != NULL;
    assert_true(r->tier_heard || l->host_total == 0);
    if (h != NULL) {
        assert_int_equal(l->host_used, h->waiting + h->kept + h->cached);
        r->tier = *h;
    }
}

static void hear_ledger(struct rig *r, const Sluice__V1__Ledger *l)
{
    const Sluice__V1__ClassLedger *b = l->blocks, *p = l->pages;

    assert_int_equal(l->session, r->session);
    assert_true(l->snapshot > r->ledger.snapshot);
    assert_int_equal(p->total, p->free + p->held + p->cached + p->granted);
    assert_true((l->windows != NULL) == (r->o.pool.window_pages > 0));
    r->used_blocks_at[l->snapshot % RIG_SNAPSHOTS] = b->held + b->granted;
    r->ledger = *l;
    r->blocks = *b;
    r->slots = *l->slots;
    r->pages = *p;
    hear_tier(r, l);
}

static void check_bits(float heard, float right)
{
    assert_memory_equal(&heard, &right, sizeof heard);
}

/* Cursors into the columns. */
struct columns {
    size_t token, logprob, top;
};

/* Checks the logprobs of row i, as many as were requested. */
static void check_logprobs(const struct rig *r,
                           const Sluice__V1__StepOutputMessage *m, size_t i,
                           const struct columns *at)
{
    uint32_t width = m->n_width > 0 ? m->width[i] : 0;
    const float *logprob;
    const uint32_t *top;

    assert_int_equal(width, r->heard[m->grant[i]].width);
    if (width == 0 || r->hears_lies || m->count[i] == 0) {
        return;
    }
    logprob = m->logprobs + at->logprob;
    top = width > 1 ? m->top_tokens + at->top : NULL;
    assert_true(at->logprob + (size_t)m->count[i] * width <= m->n_logprobs);
    assert_true(at->top + (size_t)m->count[i] * (width - 1) <= m->n_top_tokens);
    for (uint32_t j = 0; j < m->count[i]; j++) {
        uint32_t index = m->first_index[i] + j;
        uint32_t token = m->tokens[at->token + j];

        check_bits(*logprob++, rig_logprob(token, index));
        for (uint32_t k = 0; k + 1 < width; k++) {
            struct token_logprob t = rig_top(token, index, k);

            assert_int_equal(*top++, t.token);
            check_bits(*logprob++, t.logprob);
        }
    }
}

static void hear_row(struct rig *r, const Sluice__V1__StepOutputMessage *m,
                     size_t i, size_t at)
{
    struct rig_heard *h;

    assert_in_range(m->grant[i], 1, r->grant);
    h = &r->heard[m->grant[i]];
    h->rows++;
    h->state = m->state[i];
    h->reused = m->n_reused > 0 ? m->reused[i] : 0;
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

/* Takes all rows, each with its part of the columns. */
static void hear_rows(struct rig *r, const Sluice__V1__StepOutputMessage *m)
{
    struct columns at = {0, 0, 0};
    bool wide = false;

    assert_true(m->n_width == 0 || m->n_width == m->n_grant);
    assert_true(m->n_reused == 0 || m->n_reused == m->n_grant);
    for (size_t i = 0; i < m->n_grant; i++) {
        uint32_t width = m->n_width > 0 ? m->width[i] : 0;

        assert_true(m->count[i] <= STEP_ROW_TOKENS_MAX);
        check_logprobs(r, m, i, &at);
        hear_row(r, m, i, at.token);
        r->last_count[i] = m->count[i];
        at.token += m->count[i];
        at.logprob += (size_t)m->count[i] * width;
        at.top += width > 0 ? (size_t)m->count[i] * (width - 1) : 0;
        wide = wide || width > 0;
    }
    assert_int_equal(at.token, m->n_tokens);
    assert_int_equal(at.logprob, m->n_logprobs);
    assert_int_equal(at.top, m->n_top_tokens);
    assert_int_equal(wide, m->n_width > 0);
    assert_true(m->n_logprobs <= STEP_LOGPROBS_MAX);
    r->last_outs = (uint32_t)m->n_grant;
    r->last_logprobs = (uint32_t)m->n_logprobs;
}

static void hear_output(struct rig *r, const Sluice__V1__StepOutputMessage *m)
{

    assert_int_equal(m->n_grant, m->n_first_index);
    assert_int_equal(m->n_grant, m->n_count);
    assert_int_equal(m->n_grant, m->n_finish);
    assert_int_equal(m->n_grant, m->n_state);
    assert_true(m->n_grant <= STEP_ROWS_MAX);
    hear_ledger(r, m->ledger);
    r->n_outputs++;
    if (m->drafts != NULL) {
        r->drafts_heard = *m->drafts;
    }
    r->n_stage_us = (uint32_t)m->n_stage_us;
    for (size_t i = 0; i < m->n_stage_us; i++) {
        r->stage_us[i] = m->stage_us[i];
    }
    r->last_step = m->step;
    if (m->has_failure) {
        snprintf(r->failure, sizeof r->failure, "%.*s", (int)m->failure.len,
                 (const char *)m->failure.data);
    }
    hear_rows(r, m);
    if (r->acknowledge) {
        acknowledge(r, m);
    }
}

/* Live comes before any ledger of the session. */
static void hear_live(struct rig *r, const Sluice__V1__LiveMessage *m)
{
    assert_int_equal(r->ledger.snapshot, 0);
    assert_in_range(m->n_choice, 1, LIVE_ROWS_MAX);
    assert_int_equal(m->n_n_generated, m->n_choice);
    assert_int_equal(m->request_ids.len, 16 * m->n_choice);
    assert_true(m->n_grows == 0 || m->n_grows == m->n_choice);
    r->n_lives++;
    for (size_t i = 0; i < m->n_choice; i++) {
        struct rig_live *l = &r->live[r->n_live++];

        assert_true(r->n_live <= RIG_LIVE);
        memcpy(&l->id, m->request_ids.data + 16 * i, sizeof l->id);
        l->choice = m->choice[i];
        l->n_generated = m->n_generated[i];
        l->expires_ms = m->expires_ms;
        l->grows = m->n_grows > 0 && m->grows[i] != 0;
    }
}

/* Every report has an engine state, and its figures never decrease. */
static void hear_engine(struct rig *r, const Sluice__V1__EngineState *e)
{
    assert_non_null(e);
    assert_true(e->ticks >= r->heard_engine.ticks);
    assert_int_equal(e->n_planned, rig_inflight(r));
    r->heard_engine = *e;
    r->has_engine = true;
}

static void on_call(void *node, struct peer *p, const struct method_row *m,
                    uint64_t call, int64_t deadline_us,
                    const ProtobufCMessage *request)
{
    struct rig *r = node;

    (void)deadline_us;
    if (m->number == METHOD_REGISTRY_STEP_OUTPUT) {
        const Sluice__V1__StepOutputMessage *o =
            (const Sluice__V1__StepOutputMessage *)request;

        hear_engine(r, o->engine);
        hear_output(r, o);
    } else if (m->number == METHOD_REGISTRY_REPORT) {
        const Sluice__V1__ReportMessage *o =
            (const Sluice__V1__ReportMessage *)request;

        r->n_reports++;
        hear_engine(r, o->engine);
        hear_ledger(r, o->ledger);
    } else if (m->number == METHOD_HEALTH_CHECK) {
        Sluice__V1__HealthReply health = SLUICE__V1__HEALTH_REPLY__INIT;

        health.serving = true;
        peer_end(p, call, &health.base);
    } else if (m->number == METHOD_REGISTRY_LEAVE) {
        r->n_leaves++;
        r->leave_call = call;
        r->leave_grace_ms =
            ((const Sluice__V1__LeaveRequest *)request)->grace_ms;
    } else if (m->number == METHOD_REGISTRY_BROKEN) {
        const Sluice__V1__BrokenMessage *b =
            (const Sluice__V1__BrokenMessage *)request;

        r->n_broken++;
        snprintf(r->broken_why, sizeof r->broken_why, "%.*s", (int)b->why.len,
                 (const char *)b->why.data);
    } else if (m->number == METHOD_REGISTRY_INDEX) {
        rig_index_hear(r, (const Sluice__V1__IndexMessage *)request);
    } else if (m->number == METHOD_REGISTRY_LIVE) {
        hear_live(r, (const Sluice__V1__LiveMessage *)request);
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
        end->receipt.windows = c->windows;
        end->receipt.has_position = c->has_position;
        end->receipt.position = c->position;
        end->receipt.micros = c->micros;
        end->receipt.snapshot = c->snapshot;
        assert_int_equal(c->n_stage_blocks, c->n_stage_slots);
        end->receipt.n_stages = (uint32_t)c->n_stage_blocks;
        for (size_t i = 0; i < c->n_stage_blocks; i++) {
            end->receipt.stage_blocks[i] = c->stage_blocks[i];
            end->receipt.stage_slots[i] = c->stage_slots[i];
        }
    }
    if (reply != NULL && m->number == METHOD_WORKER_AUDIT) {
        const Sluice__V1__AuditReply *audit = (const void *)reply;

        end->differences = audit->n_differences;
        end->has_host = audit->ledger->host != NULL;
    }
}

static const struct peer_ops router_ops = {.on_call = on_call,
                                           .on_end = on_end};

/* ---- Hello ---- */

static void hello(struct rig *r, const struct envelope *e)
{
    Sluice__V1__HelloReply reply = SLUICE__V1__HELLO_REPLY__INIT;
    const Sluice__V1__HelloRequest *m;
    ProtobufCMessage *message;
    uint8_t key[PREFIX_KEY_BYTES];
    struct peer_config c = {.io = &r->router_io,
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
    reply.version_minor = r->minor > 0 ? r->minor : WIRE_VERSION_MINOR;
    reply.name = wire_text("bench");
    r->hello_windows.has_chunk = m->worker->has_chunk_tokens;
    r->hello_windows.has_window =
        m->worker->has_window_tokens && m->worker->has_window_pages;
    r->hello_windows.chunk_tokens = m->worker->chunk_tokens;
    r->hello_windows.window_tokens = m->worker->window_tokens;
    r->hello_windows.window_pages = m->worker->window_pages;
    memset(key, r->key_byte, sizeof key);
    reply.has_prefix_key = !r->keyless;
    reply.prefix_key = (ProtobufCBinaryData){sizeof key, key};
    r->index.n = r->index.n_messages = 0;
    r->session++;
    r->grant = 0;
    r->n_live = r->n_lives = 0;
    r->hello_live = m->worker->n_live;
    assert_true(m->worker->has_kv_format);
    assert_int_equal(m->worker->kv_format.len, strlen(r->o.shared.kv_format));
    assert_memory_equal(m->worker->kv_format.data, r->o.shared.kv_format,
                        m->worker->kv_format.len);
    assert_true(m->worker->has_arithmetic);
    assert_int_equal(m->worker->arithmetic.len, strlen(r->o.shared.arithmetic));
    assert_memory_equal(m->worker->arithmetic.data, r->o.shared.arithmetic,
                        m->worker->arithmetic.len);
    memset(r->heard, 0, sizeof r->heard);
    memset(&r->ledger, 0, sizeof r->ledger);
    c.session = r->session;
    peer_free(&r->peer); /* of a call that it gave up */
    r->peer = peer_new(&c);
    r->to_worker[r->n_to_worker++] =
        hello_answer(r->session, &reply.base, NULL, 0);
}

void rig_router_recv(struct rig *r, struct frame *f)
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
