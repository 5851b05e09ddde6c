/* stage_bench_says.c - The messages of the router and the previous stage,
 * and those that come to the router and the next stage. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/health.pb-c.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/stages/stage_bench_internal.h"

/* ---- the router ---- */

static void router_call(void *node, struct peer *p, const struct method_row *m,
                        uint64_t call, int64_t deadline_us,
                        const ProtobufCMessage *message)
{
    struct bench *b = node;
    Sluice__V1__HealthReply health = SLUICE__V1__HEALTH_REPLY__INIT;
    const Sluice__V1__BrokenMessage *broken;

    (void)deadline_us;
    switch (m->number) {
    case METHOD_HEALTH_CHECK:
        peer_end(p, call, &health.base);
        break;
    case METHOD_REGISTRY_BROKEN:
        broken = (const Sluice__V1__BrokenMessage *)message;
        b->n_broken++;
        b->broken = broken->assembly;
        snprintf(b->why, sizeof b->why, "%.*s", (int)broken->why.len,
                 (const char *)broken->why.data);
        break;
    case METHOD_REGISTRY_REPORT:
        b->n_reports++;
        b->ledger_grant =
            ((const Sluice__V1__ReportMessage *)message)->ledger->grant;
        break;
    case METHOD_REGISTRY_STEP_OUTPUT:
        b->n_outputs++;
        break;
    default:
        break;
    }
}

static void router_end(void *node, struct peer *p, uint64_t tag,
                       const struct method_row *m, enum status status,
                       const ProtobufCMessage *reply, const struct error *e,
                       uint32_t retry_after_ms)
{
    struct bench *b = node;
    struct bench_end *end = &b->ends[tag];

    (void)p, (void)m, (void)reply, (void)retry_after_ms;
    assert_false(end->ended);
    end->ended = true;
    end->status = status;
    snprintf(end->text, sizeof end->text, "%s", e != NULL ? e->text : "");
}

static const struct peer_ops router_ops = {.on_call = router_call,
                                           .on_end = router_end};

static void hello(struct bench *b, const struct envelope *v)
{
    Sluice__V1__HelloReply reply = SLUICE__V1__HELLO_REPLY__INIT;
    const Sluice__V1__WorkerShard *s;
    ProtobufCMessage *m;
    struct peer_config c = {.io = &b->router_io,
                            .id = b->router_id,
                            .self = BY_ROUTER,
                            .other = BY_WORKER,
                            .ops = &router_ops,
                            .node = b,
                            .arena = &b->arena};
    struct frame *f;

    assert_int_equal(wire_unpack(&b->arena,
                                 &sluice__v1__hello_request__descriptor,
                                 v->body, v->body_bytes, &m, NULL),
                     ST_OK);
    s = ((const Sluice__V1__HelloRequest *)m)->worker;
    snprintf(b->endpoint, sizeof b->endpoint, "%.*s",
             (int)s->stage_endpoint.len, (const char *)s->stage_endpoint.data);
    b->hidden = s->hidden;
    b->step_tokens = s->step_tokens;
    assert_int_equal(s->n_live, 0);
    b->n_hellos++;
    reply.version_major = WIRE_VERSION_MAJOR;
    reply.version_minor = WIRE_VERSION_MINOR;
    reply.name = wire_text("bench");
    reply.has_your_name = b->your_name != NULL;
    reply.your_name = wire_text(b->your_name != NULL ? b->your_name : "");
    c.session = ++b->session;
    b->own = 0;
    peer_free(&b->router);
    memset(b->ends, 0, sizeof b->ends);
    b->calls = 0;
    b->router = peer_new(&c);
    f = hello_answer(b->session, &reply.base, NULL, 0);
    (void)b->router_io.send(&b->router_io, b->router_id, &f);
}

void bench_router_recv(struct bench *b, struct frame *f)
{
    struct frame_header h;
    struct envelope v;

    assert_int_equal(frame_check(f->data, f->bytes, &h, NULL), ST_OK);
    if (hello_is_call(f, &h, &v)) {
        hello(b, &v);
    } else if (hello_is_goodbye(f, &h, &v)) {
        b->n_goodbyes++;
    } else if (b->router != NULL) {
        assert_int_equal(peer_recv(b->router, f, &h, b->now_us), PEER_FINE);
    }
    frame_free(&f);
}

/* ---- the next stage ---- */

static void copy(uint32_t *out, const uint32_t *in, size_t n)
{
    assert_in_range(n, 0, BENCH_ROWS);
    if (n > 0) {
        memcpy(out, in, n * sizeof *in);
    }
}

static void hear_failure(struct bench_said *s, bool has, ProtobufCBinaryData d)
{
    if (has) {
        snprintf(s->failure, sizeof s->failure, "%.*s", (int)d.len,
                 (const char *)d.data);
    }
}

static void hear_forward(const struct bench *b, struct bench_said *s,
                         struct peer *p, const Sluice__V1__StageForward *m)
{
    const float *x = peer_tensor(p, &s->n_x);

    s->step = m->step;
    s->n = (uint32_t)m->n_grant;
    assert_in_range(s->n, 1, BENCH_ROWS);
    memcpy(s->grants, m->grant, s->n * sizeof *m->grant);
    copy(s->position, m->position, m->n_position);
    copy(s->count, m->count, m->n_count);
    copy(s->kind, m->kind, m->n_kind);
    copy(s->index, m->index, m->n_index);
    s->n_device_us = (uint32_t)m->n_device_us;
    copy(s->device_us, m->device_us, m->n_device_us);
    s->n_saves = (uint32_t)m->n_save_row;
    copy(s->save_row, m->save_row, m->n_save_row);
    copy(s->save_position, m->save_position, m->n_save_position);
    copy(s->save_name, m->save_checkpoint, m->n_save_checkpoint);
    s->n_sources = (uint32_t)m->n_source;
    copy(s->source, m->source, m->n_source);
    s->n_drafts = (uint32_t)m->n_drafts;
    copy(s->drafts, m->drafts, m->n_drafts);
    s->n_keep_at = (uint32_t)m->n_keep_at;
    copy(s->keep_at, m->keep_at, m->n_keep_at);
    s->n_propose = (uint32_t)m->n_propose;
    copy(s->propose, m->propose, m->n_propose);
    s->n_ids = (uint32_t)m->n_tokens;
    assert_in_range(s->n_ids, 0, BENCH_IDS);
    if (s->n_ids > 0) {
        memcpy(s->ids, m->tokens, s->n_ids * sizeof *s->ids);
    }
    s->n_next = (uint32_t)m->n_next;
    copy(s->next, m->next, m->n_next);
    for (uint32_t i = 0; i < BENCH_ROWS && i * 4 * b->o.hidden < s->n_x; i++) {
        s->x[i] = x[(i + 1) * b->o.hidden - 1];
    }
    hear_failure(s, m->has_failure, m->failure);
}

static void hear_result(struct bench_said *s, const Sluice__V1__StageResult *m)
{
    s->step = m->step;
    s->n = (uint32_t)m->n_tokens;
    copy(s->tokens, m->tokens, m->n_tokens);
    s->n_width = (uint32_t)m->n_width;
    copy(s->width, m->width, m->n_width);
    s->n_damaged = (uint32_t)m->n_damaged;
    copy(s->damaged, m->damaged, m->n_damaged);
    s->n_accepted = (uint32_t)m->n_accepted;
    copy(s->accepted, m->accepted, m->n_accepted);
    s->n_proposed = (uint32_t)m->n_proposed;
    copy(s->proposed, m->proposed, m->n_proposed);
    s->n_proposals = (uint32_t)m->n_proposals;
    copy(s->proposals, m->proposals, m->n_proposals);
    s->n_device_us = (uint32_t)m->n_device_us;
    copy(s->device_us, m->device_us, m->n_device_us);
    s->n_logprobs = (uint32_t)m->n_logprobs;
    s->n_top = (uint32_t)m->n_top_tokens;
    copy(s->top, m->top_tokens, m->n_top_tokens);
    if (m->n_logprobs > 0) {
        memcpy(s->logprobs, m->logprobs, m->n_logprobs * sizeof(float));
    }
    hear_failure(s, m->has_failure, m->failure);
}

static void hear_geometry(struct bench_said *s,
                          const Sluice__V1__StageGeometry *m)
{
    s->n = (uint32_t)m->n_n_pages;
    copy(s->a, m->n_pages, m->n_n_pages);
    copy(s->b, m->pages_per_block, m->n_pages_per_block);
    copy(s->c, m->pages_per_slot, m->n_pages_per_slot);
    s->n_keep_tokens = (uint32_t)m->n_keep_tokens;
    copy(s->keep_tokens, m->keep_tokens, m->n_keep_tokens);
    s->proposes = m->proposes;
}

static void hear_keep(struct bench_said *s, const Sluice__V1__StageKeep *m)
{
    s->grant = m->grant;
    s->n = (uint32_t)m->n_node;
    copy(s->a, m->node, m->n_node);
    copy(s->b, m->parent, m->n_parent);
    copy(s->c, m->end, m->n_end);
}

static void hear_accept(struct bench_said *s, const Sluice__V1__StageAccept *m)
{
    s->n = (uint32_t)m->n_grant;
    assert_in_range(s->n, 1, BENCH_ROWS);
    memcpy(s->grants, m->grant, s->n * sizeof *m->grant);
    copy(s->count, m->count, m->n_count);
}

static void hear_gone(struct bench_said *s, const Sluice__V1__StageGone *m)
{
    s->n = (uint32_t)m->n_node;
    s->n_b = (uint32_t)m->n_checkpoint;
    copy(s->a, m->node, m->n_node);
    copy(s->b, m->checkpoint, m->n_checkpoint);
}

void bench_hear(struct bench *b, struct peer *p, const struct method_row *m,
                const ProtobufCMessage *message)
{
    struct bench_said *s = &b->said[b->n_said++];
    const Sluice__V1__StageRemove *r;

    assert_true(b->n_said < BENCH_SAID);
    memset(s, 0, sizeof *s);
    s->method = (enum method)m->number;
    switch (m->number) {
    case METHOD_STAGE_OPEN:
        s->grant = ((const Sluice__V1__StageOpen *)message)->grant;
        s->n = (uint32_t)((const Sluice__V1__StageOpen *)message)->n_tokens;
        break;
    case METHOD_STAGE_OPEN_PART:
        s->grant = ((const Sluice__V1__StageOpenPart *)message)->grant;
        s->n = (uint32_t)((const Sluice__V1__StageOpenPart *)message)->n_tokens;
        break;
    case METHOD_STAGE_FORWARD:
        hear_forward(b, s, p, (const Sluice__V1__StageForward *)message);
        break;
    case METHOD_STAGE_GEOMETRY:
        hear_geometry(s, (const Sluice__V1__StageGeometry *)message);
        break;
    case METHOD_STAGE_RESTORE:
        s->grant = ((const Sluice__V1__StageRestore *)message)->grant;
        s->n = ((const Sluice__V1__StageRestore *)message)->position;
        break;
    case METHOD_STAGE_KEEP:
        hear_keep(s, (const Sluice__V1__StageKeep *)message);
        break;
    case METHOD_STAGE_GONE:
        hear_gone(s, (const Sluice__V1__StageGone *)message);
        break;
    case METHOD_STAGE_ACCEPT:
        hear_accept(s, (const Sluice__V1__StageAccept *)message);
        break;
    case METHOD_STAGE_RESULT:
        hear_result(s, (const Sluice__V1__StageResult *)message);
        break;
    default:
        assert_int_equal(m->number, METHOD_STAGE_REMOVE);
        r = (const Sluice__V1__StageRemove *)message;
        s->grant = r->grant;
        s->n = (uint32_t)r->n_blocks;
        copy(s->blocks, r->blocks, r->n_blocks);
        copy(s->slots, r->slots, r->n_slots);
        assert_int_equal(r->n_checkpoints, r->n_blocks);
    }
}

const struct bench_said *bench_last(const struct bench *b, enum method m)
{
    for (uint32_t i = b->n_said; i > 0; i--) {
        if (b->said[i - 1].method == m) {
            return &b->said[i - 1];
        }
    }
    fail_msg("nothing of %s was said", method_find((uint16_t)m)->name);
    return NULL;
}

/* ---- the stage before ---- */

void bench_say(struct bench *b, enum method m, const ProtobufCMessage *message)
{
    assert_non_null(b->out);
    assert_int_equal(peer_oneway(b->out, m, message), ST_OK);
    bench_turn(b);
}

static uint32_t windows_of(const struct worker_options *o, uint32_t n)
{
    uint32_t bt = o->block_tokens;
    uint32_t all = (n + bt - 1) / bt;
    uint32_t most = (o->window + o->chunk_tokens + bt - 1) / bt + 1;

    return o->pool.window_pages * (all < most ? all : most);
}

void bench_open(struct bench *b, struct bench_open *o, uint32_t n_prompt,
                uint32_t max_tokens)
{
    uint32_t n = n_prompt + max_tokens;

    sluice__v1__stage_open__init(&o->m);
    sluice__v1__stage_grants__init(&o->stages);
    sluice__v1__sequence_ref__init(&o->ref);
    sluice__v1__sampling__init(&o->sampling);
    b->grant++;
    b->own++;
    for (uint32_t i = 0; i + 1 < b->n_stages; i++) {
        bool here = i + 1 == b->stage;

        o->grants[i] = here ? b->own : 77;
        o->blocks[i] =
            here ? (n + b->o.block_tokens - 1) / b->o.block_tokens : 99;
        o->blocks[i] *= !here || b->o.pool.pages_per_block > 0;
        o->slots[i] = here && b->o.pool.pages_per_slot > 0;
        o->checkpoints[i] = 0;
        o->windows[i] = here ? windows_of(&b->o, n) : 33;
    }
    o->stages.n_grant = o->stages.n_blocks = b->n_stages - 1;
    o->stages.n_slots = o->stages.n_checkpoints = b->n_stages - 1;
    o->stages.grant = o->grants;
    o->stages.blocks = o->blocks;
    o->stages.slots = o->slots;
    o->stages.checkpoints = o->checkpoints;
    o->stages.n_windows = b->o.window > 0 ? b->n_stages - 1 : 0;
    o->stages.windows = o->windows;
    memset(o->id, 1, sizeof o->id);
    memcpy(o->id, &b->grant, sizeof b->grant);
    o->ref.request_id = (ProtobufCBinaryData){sizeof o->id, o->id};
    o->sampling.has_seed = true;
    o->m.grant = b->grant;
    o->m.stages = &o->stages;
    o->m.sequence = &o->ref;
    o->m.has_n_prompt = o->m.has_n_generated = o->m.has_max_tokens = true;
    o->m.n_prompt = n_prompt;
    o->m.max_tokens = max_tokens;
    o->m.sampling = &o->sampling;
    o->m.tokens = o->ids;
    for (uint32_t i = 0; i < 64; i++) {
        o->ids[i] = 100 + i;
    }
}

uint64_t bench_open_plain(struct bench *b, uint32_t n_prompt,
                          uint32_t max_tokens)
{
    struct bench_open o;

    bench_open(b, &o, n_prompt, max_tokens);
    bench_say(b, METHOD_STAGE_OPEN, &o.m.base);
    return b->grant;
}

float bench_x(uint64_t step, uint32_t token)
{
    return (float)(step * 20 + token);
}

void bench_begin(struct bench *b, struct bench_forward *f)
{
    sluice__v1__stage_forward__init(&f->m);
    f->m.step = ++b->step;
    f->m.grant = f->grant;
    f->m.position = f->position;
    f->m.count = f->count;
    f->m.kind = f->kind;
    f->m.index = f->index;
    f->m.save_row = f->save_row;
    f->m.save_position = f->save_position;
    f->m.save_checkpoint = f->save_name;
    f->m.source = f->source;
    f->m.drafts = f->drafts;
    f->m.keep_at = f->keep_at;
    f->m.propose = f->propose;
    f->m.tokens = f->tokens;
    f->m.next = f->next;
    f->m.n_device_us = b->stage;
    f->m.device_us = f->device_us;
    f->n_tokens = 0;
    for (uint32_t i = 0; i < b->stage; i++) {
        f->device_us[i] = 5 + i;
    }
}

void bench_row(struct bench_forward *f, uint64_t grant, bool generated,
               uint32_t position, uint32_t count, uint32_t index)
{
    size_t i = f->m.n_grant;
    bool samples = index != UINT32_MAX;

    assert_in_range(i, 0, BENCH_ROWS - 1);
    f->grant[i] = grant;
    f->position[i] = position;
    f->count[i] = count;
    f->kind[i] = (generated ? 1u : 0u) + (samples ? 2u : 0u);
    f->index[i] = samples ? index : 0;
    f->n_tokens += count;
    f->m.n_grant = f->m.n_position = f->m.n_count = i + 1;
    f->m.n_kind = f->m.n_index = i + 1;
    f->drafts[i] = f->propose[i] = 0;
}

void bench_drafts(struct bench_forward *f, uint32_t keep_at,
                  const uint32_t *ids, uint32_t n)
{
    size_t i = f->m.n_grant - 1;

    f->drafts[i] = n;
    f->count[i] += n;
    f->n_tokens += n;
    f->keep_at[f->m.n_keep_at++] = keep_at;
    memcpy(&f->tokens[f->m.n_tokens], ids, (n + 1) * sizeof *ids);
    f->m.n_tokens += n + 1;
}

void bench_twin(struct bench_forward *f, uint64_t grant, uint32_t source,
                uint32_t position)
{
    bench_row(f, grant, false, position, 0, 0);
    f->source[f->m.n_source++] = source;
}

void bench_save(struct bench_forward *f, uint32_t position, uint32_t name)
{
    size_t i = f->m.n_save_row;

    f->save_row[i] = (uint32_t)f->m.n_grant - 1;
    f->save_position[i] = position;
    f->save_name[i] = name;
    f->m.n_save_row = f->m.n_save_position = f->m.n_save_checkpoint = i + 1;
}

void bench_send(struct bench *b, struct bench_forward *f)
{
    uint32_t n = f->n_tokens * b->o.hidden;
    float *x;

    if (f->m.n_drafts == 0 && f->m.n_keep_at > 0) {
        f->m.n_drafts = f->m.n_grant;
    }
    if (f->m.has_failure || n == 0) {
        bench_say(b, METHOD_STAGE_FORWARD, &f->m.base);
        return;
    }
    x = malloc(n * sizeof *x);
    assert_non_null(x);
    for (uint32_t i = 0; i < n; i++) {
        x[i] = bench_x(f->m.step, i / b->o.hidden);
    }
    assert_int_equal(peer_oneway_tensor(b->out, METHOD_STAGE_FORWARD,
                                        &f->m.base, x, n * (uint32_t)sizeof *x),
                     ST_OK);
    free(x);
    bench_turn(b);
}

void bench_forward(struct bench *b, uint64_t grant, bool generated,
                   uint32_t position, uint32_t count, uint32_t index)
{
    struct bench_forward f;

    bench_begin(b, &f);
    bench_row(&f, grant, generated, position, count, index);
    bench_send(b, &f);
}

void bench_remove(struct bench *b, uint64_t grant)
{
    Sluice__V1__StageRemove m = SLUICE__V1__STAGE_REMOVE__INIT;

    m.grant = grant;
    bench_say(b, METHOD_STAGE_REMOVE, &m.base);
}

void bench_geometry(struct bench *b)
{
    Sluice__V1__StageGeometry m = SLUICE__V1__STAGE_GEOMETRY__INIT;

    bench_say(b, METHOD_STAGE_GEOMETRY, &m.base);
}

void bench_restore(struct bench *b, uint64_t grant, uint32_t position,
                   uint32_t node, uint32_t checkpoint)
{
    Sluice__V1__StageRestore m = SLUICE__V1__STAGE_RESTORE__INIT;

    m.grant = grant;
    m.position = position;
    m.has_node = node != UINT32_MAX;
    m.node = node;
    m.has_checkpoint = checkpoint != UINT32_MAX;
    m.checkpoint = checkpoint;
    bench_say(b, METHOD_STAGE_RESTORE, &m.base);
}

void bench_continue(struct bench *b, uint64_t grant, uint32_t position,
                    uint64_t from)
{
    Sluice__V1__StageRestore m = SLUICE__V1__STAGE_RESTORE__INIT;

    m.grant = grant;
    m.position = position;
    m.has_from = true;
    m.from = from;
    bench_say(b, METHOD_STAGE_RESTORE, &m.base);
}

void bench_cut(struct bench *b, uint64_t grant, uint32_t position,
               uint32_t checkpoint)
{
    Sluice__V1__StageRestore m = SLUICE__V1__STAGE_RESTORE__INIT;

    m.grant = grant;
    m.position = position;
    m.has_checkpoint = checkpoint != UINT32_MAX;
    m.checkpoint = checkpoint;
    m.has_cut = m.cut = true;
    bench_say(b, METHOD_STAGE_RESTORE, &m.base);
}

void bench_keep(struct bench *b, uint64_t grant, uint32_t node, uint32_t parent,
                uint32_t end)
{
    Sluice__V1__StageKeep m = SLUICE__V1__STAGE_KEEP__INIT;

    m.grant = grant;
    m.n_node = m.n_parent = m.n_end = 1;
    m.node = &node;
    m.parent = &parent;
    m.end = &end;
    bench_say(b, METHOD_STAGE_KEEP, &m.base);
}

void bench_accept(struct bench *b, uint64_t grant, uint32_t count)
{
    Sluice__V1__StageAccept m = SLUICE__V1__STAGE_ACCEPT__INIT;

    m.n_grant = m.n_count = 1;
    m.grant = &grant;
    m.count = &count;
    bench_say(b, METHOD_STAGE_ACCEPT, &m.base);
}

void bench_gone(struct bench *b, uint32_t node, uint32_t checkpoint)
{
    Sluice__V1__StageGone m = SLUICE__V1__STAGE_GONE__INIT;

    m.n_node = node != UINT32_MAX;
    m.node = &node;
    m.n_checkpoint = checkpoint != UINT32_MAX;
    m.checkpoint = &checkpoint;
    bench_say(b, METHOD_STAGE_GONE, &m.base);
}
