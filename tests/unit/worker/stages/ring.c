#include "tests/unit/worker/stages/ring.h"
#include "tests/unit/worker/rig_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/health.pb-c.h"
#include "tests/unit/cmocka.h"

#define FIRST_ID 100000u /* first connection but the router's */

/* ---- io of the simulated stages ---- */

static struct ring *ring_of(struct node_io *io)
{
    return io->impl;
}

static int64_t io_now(struct node_io *io)
{
    return ring_of(io)->rig->now_us;
}

static uint64_t io_random(struct node_io *io)
{
    return ++ring_of(io)->random * 0x9e3779b97f4a7c15u;
}

static enum status io_send(struct node_io *io, struct peer_id to,
                           struct frame **f)
{
    struct ring *g = ring_of(io);

    assert_true(g->n_to_worker < RING_FRAMES);
    g->to_worker[g->n_to_worker].from = to;
    g->to_worker[g->n_to_worker++].frame = *f;
    *f = NULL;
    return ST_OK;
}

static struct peer_id io_open_to(struct node_io *io, const char *endpoint,
                                 const uint8_t *key)
{
    struct ring *g = ring_of(io);

    (void)key;
    assert_string_equal(endpoint, g->rig->o.stage_endpoint);
    g->before_id.v += 2;
    g->before_opening = true;
    return g->before_id;
}

/* Notifies the other end that the connection is closed. */
static void io_close(struct node_io *io, struct peer_id who)
{
    struct ring *g = ring_of(io);

    if (who.v == g->before_id.v || who.v == g->next_id.v) {
        worker_node_ops.lost(g->rig->worker, who);
    }
}

/* ---- the leader's messages ---- */

static struct ring_said *hear(struct ring *g, enum method m, uint64_t grant)
{
    struct ring_said *s = &g->said[g->n_said++];

    assert_true(g->n_said < RING_QUEUE);
    memset(s, 0, sizeof *s);
    s->method = m;
    s->grant = grant;
    return s;
}

static struct ring_grant *grant_of(struct ring *g, uint64_t grant)
{
    assert_in_range(grant, 1, RIG_GRANTS - 1);
    return &g->grants[grant];
}

static void take_ids(struct ring_grant *x, uint32_t offset, const uint32_t *ids,
                     size_t n)
{
    assert_int_equal(offset, x->n_ids);
    assert_true(x->n_ids + n <= x->n_prompt + x->n_generated);
    for (size_t i = 0; i < n; i++, x->n_ids++) {
        if (x->n_ids < RING_IDS) {
            x->ids[x->n_ids] = ids[i];
        }
    }
}

static void check_grants(const struct ring *g, const Sluice__V1__StageGrants *s,
                         uint64_t grant)
{
    assert_int_equal(s->n_grant, g->n_stages - 1);
    for (size_t i = 0; i < s->n_grant; i++) {
        assert_int_equal(s->grant[i], grant + 100 * (i + 1));
    }
}

static void hear_open(struct ring *g, const Sluice__V1__StageOpen *m)
{
    struct ring_said *s = hear(g, METHOD_STAGE_OPEN, m->grant);
    struct ring_grant *x = grant_of(g, m->grant);

    assert_int_equal(m->grant, g->last_open + 1);
    g->last_open = m->grant;
    assert_false(x->opened);
    check_grants(g, m->stages, m->grant);
    x->opened = true;
    x->is_void = s->is_void = m->void_;
    s->n_ids = (uint32_t)m->n_tokens;
    if (m->void_) {
        assert_null(m->sequence);
        assert_null(m->sampling);
        return;
    }
    x->blocks = m->stages->blocks[0];
    x->slots = m->stages->slots[0];
    x->checkpoints = m->stages->checkpoints[0];
    x->n_prompt = m->n_prompt;
    x->n_generated = m->n_generated;
    x->ignores_eos = m->sampling->ignore_eos;
    x->penalises = m->sampling->frequency_penalty != 0;
    x->width = m->sampling->logprobs || m->sampling->top_logprobs > 0
                   ? 1 + m->sampling->top_logprobs
                   : 0;
    assert_non_null(m->sequence);
    take_ids(x, 0, m->tokens, m->n_tokens);
    ring_stages_open(g->stages, m);
}

static void hear_part(struct ring *g, const Sluice__V1__StageOpenPart *m)
{
    struct ring_said *s = hear(g, METHOD_STAGE_OPEN_PART, m->grant);
    struct ring_grant *x = grant_of(g, m->grant);

    assert_true(x->opened && !x->is_void && !x->removed && x->penalises);
    assert_true(m->n_tokens > 0);
    s->n_ids = (uint32_t)m->n_tokens;
    take_ids(x, m->offset, m->tokens, m->n_tokens);
}

static void hear_remove(struct ring *g, const Sluice__V1__StageRemove *m)
{
    struct ring_grant *x = grant_of(g, m->grant);

    hear(g, METHOD_STAGE_REMOVE, m->grant);
    assert_true(x->opened && !x->is_void && !x->removed);
    assert_int_equal(m->n_blocks + m->n_slots + m->n_checkpoints, 0);
    if (x->n_kept > 0) {
        keeps_free(&g->keeps, x->keep_at);
        x->n_kept = 0;
    }
    x->removed = true;
    ring_stages_remove(g->stages, m->grant);
}

/* Returns whether the message is a Forward with this grant. */
static bool names(const struct ring_said *s, uint64_t grant)
{
    bool found = false;

    for (uint32_t i = 0; s->method == METHOD_STAGE_FORWARD && i < s->n_rows;
         i++) {
        found = found || s->grants[i] == grant;
    }
    return found;
}

static void check_row(struct ring *g, const struct ring_said *s, uint32_t i)
{
    struct ring_grant *x = grant_of(g, s->grants[i]);
    bool prompt = s->position[i] < x->n_prompt;
    bool samples = s->kind[i] & SLUICE__V1__STAGE_ROW__STAGE_ROW_SAMPLE;
    bool anew = s->kind[i] & SLUICE__V1__STAGE_ROW__STAGE_ROW_ANEW;

    assert_true(x->opened && !x->is_void && !x->removed);
    if (anew) { /* alone, and after the Results of all Forwards with it */
        assert_int_equal(s->n_rows, 1);
        for (uint32_t k = g->n_done; k + 1 < g->n_said; k++) {
            assert_false(names(&g->said[k], s->grants[i]));
        }
        x->next = x->restored && s->position[i] > 0 ? x->next : 0;
    }
    if (s->count[i] == 0) { /* a twin */
        assert_true(x->next == 0 && samples && !anew);
        x->next = x->n_prompt;
        prompt = true;
    }
    x->restored = false;
    assert_int_equal(s->position[i], x->next);
    /* A continued prompt may have generated runs, also if nothing of the kept
     * sequence was left to take over. */
    if (!(x->continues || g->has_runs) || !prompt) {
        assert_int_equal(s->kind[i] &
                             SLUICE__V1__STAGE_ROW__STAGE_ROW_GENERATED,
                         prompt ? 0 : 1);
    }
    assert_in_range(s->count[i], 0, g->rig->o.chunk_tokens);
    x->next += s->count[i] - s->drafts[i].n;
    assert_true(!prompt || x->next <= x->n_prompt);
    if (samples) {
        assert_int_equal(s->index[i], x->next - x->n_prompt);
        assert_int_equal(x->n_ids,
                         x->penalises ? x->n_prompt + x->n_generated : 0);
    } else if (!anew) {
        assert_int_equal(s->index[i], 0);
    }
}

/* The leader's engine puts the token of the k-th twin of a row beside the
 * row's own. */
static void hear_twin(struct ring_said *s, const Sluice__V1__StageForward *m,
                      uint32_t i, const float *x)
{
    uint32_t source = m->source[s->n_twins], k = 1, last = 0;

    assert_in_range(source, 0, i - 1);
    assert_in_range(m->count[source], 1, UINT32_MAX);
    for (uint32_t j = 0; j < s->n_twins; j++) {
        k += m->source[j] == source;
    }
    for (uint32_t j = 0; j <= source; j++) {
        last += m->count[j];
    }
    s->n_twins++;
    assert_in_range(k, 1, RING_TOKENS - 1);
    if (!s->failed) {
        s->token[i] = (uint32_t)x[(size_t)(last - 1) * RING_HIDDEN + k];
    }
}

static void hear_forward(struct ring *g, const Sluice__V1__StageForward *m,
                         const float *x, uint32_t bytes)
{
    struct ring_said *s = hear(g, METHOD_STAGE_FORWARD, 0);
    uint32_t at = 0;

    assert_in_range(m->n_grant, 1, RING_ROWS);
    assert_true(m->n_position == m->n_grant && m->n_count == m->n_grant &&
                m->n_kind == m->n_grant && m->n_index == m->n_grant);
    assert_int_equal(m->n_device_us, 1);
    s->step = m->step;
    s->failed = m->has_failure;
    s->n_rows = (uint32_t)m->n_grant;
    for (uint32_t i = 0; i < s->n_rows; i++) {
        s->grants[i] = m->grant[i];
        s->position[i] = m->position[i];
        s->count[i] = m->count[i];
        s->kind[i] = m->kind[i];
        s->index[i] = m->index[i];
        s->drafts[i].n = m->n_drafts > 0 ? m->drafts[i] : 0;
        check_row(g, s, i);
        at += m->count[i];
        if (m->count[i] == 0) {
            hear_twin(s, m, i, x);
        } else if (!s->failed) {
            s->token[i] = (uint32_t)x[(size_t)(at - 1) * RING_HIDDEN];
        }
    }
    ring_take_drafts(g, s, m, x);
    s->n_saves = (uint32_t)m->n_save_row;
    assert_int_equal(m->n_source, s->n_twins);
    assert_true(!s->failed || s->n_saves == 0);
    ring_stages_forward(g->stages, m);
    assert_int_equal(bytes, s->failed ? 0 : at * RING_HIDDEN * sizeof(float));
    g->n_forwards++;
    assert_in_range(g->n_forwards - g->n_results, 1, g->n_stages);
    if (g->n_forwards - g->n_results > g->most_under_way) {
        g->most_under_way = g->n_forwards - g->n_results;
    }
}

/* ---- reuse ---- */

/* Answered at once and not recorded: it comes once in an assembly. */
static void hear_geometry(struct ring *g, const Sluice__V1__StageGeometry *m)
{
    Sluice__V1__StageGeometry out = SLUICE__V1__STAGE_GEOMETRY__INIT;
    uint32_t pages[STAGES_MAX], blocks[STAGES_MAX], slots[STAGES_MAX];
    uint32_t windows[STAGES_MAX];

    assert_int_equal(g->n_said, 0);
    assert_int_equal(m->n_n_pages + m->n_pages_per_block + m->n_pages_per_slot,
                     0);
    for (uint32_t i = 0; i + 1 < g->n_stages; i++) {
        const struct mirror_stage *x = ring_stages_shape(g->stages, i);

        pages[i] = x->n_pages;
        blocks[i] = x->pages_per_block;
        slots[i] = x->pages_per_slot;
        windows[i] = x->window_pages;
    }
    out.n_window_pages = g->rig->o.window > 0 ? g->n_stages - 1 : 0;
    out.window_pages = windows;
    out.n_n_pages = out.n_pages_per_block = g->n_stages - 1;
    out.n_pages_per_slot = g->n_stages - 1;
    out.n_pages = pages;
    out.pages_per_block = blocks;
    out.pages_per_slot = slots;
    ring_fill_keep_tokens(g, &out);
    if (!g->no_geometry) {
        assert_int_equal(
            peer_oneway(g->to_leader, METHOD_STAGE_GEOMETRY, &out.base), ST_OK);
    }
}

static void hear_restore(struct ring *g, const Sluice__V1__StageRestore *m)
{
    struct ring_said *s = hear(g, METHOD_STAGE_RESTORE, m->grant);
    struct ring_grant *x = grant_of(g, m->grant);

    assert_true(x->opened && !x->is_void && !x->removed);
    for (uint32_t k = g->n_done; k + 1 < g->n_said; k++) {
        assert_false(names(&g->said[k], m->grant));
    }
    assert_int_equal(x->n_kept, 0);
    s->at = m->position;
    s->has_node = m->has_node;
    s->has_checkpoint = m->has_checkpoint;
    s->has_from = m->has_from;
    s->cut = m->cut;
    x->next = m->position;
    x->restored = true;
    x->continues = x->continues || m->has_from;
    ring_stages_restore(g->stages, m);
}

static void hear_keep(struct ring *g, const Sluice__V1__StageKeep *m)
{
    struct ring_said *s = hear(g, METHOD_STAGE_KEEP, m->grant);

    s->n_nodes = (uint32_t)m->n_node;
    assert_in_range(m->end[m->n_node - 1], 1, grant_of(g, m->grant)->next);
    ring_stages_keep(g->stages, m);
}

static void hear_gone(struct ring *g, const Sluice__V1__StageGone *m)
{
    struct ring_said *s = hear(g, METHOD_STAGE_GONE, 0);

    s->n_nodes = (uint32_t)m->n_node;
    s->n_checkpoints = (uint32_t)m->n_checkpoint;
    assert_true(m->n_node + m->n_checkpoint > 0);
    ring_stages_gone(g->stages, m);
}

static bool hear_reuse(struct ring *g, const struct method_row *m,
                       const ProtobufCMessage *message)
{
    switch (m->number) {
    case METHOD_STAGE_GEOMETRY:
        hear_geometry(g, (const Sluice__V1__StageGeometry *)message);
        return true;
    case METHOD_STAGE_RESTORE:
        hear_restore(g, (const Sluice__V1__StageRestore *)message);
        return true;
    case METHOD_STAGE_KEEP:
        hear_keep(g, (const Sluice__V1__StageKeep *)message);
        return true;
    case METHOD_STAGE_ACCEPT:
        hear(g, METHOD_STAGE_ACCEPT, 0);
        ring_take_accept(g, (const Sluice__V1__StageAccept *)message);
        return true;
    case METHOD_STAGE_GONE:
        hear_gone(g, (const Sluice__V1__StageGone *)message);
        return true;
    default:
        return false;
    }
}

static void on_call(void *node, struct peer *p, const struct method_row *m,
                    uint64_t call, int64_t deadline_us,
                    const ProtobufCMessage *message)
{
    struct ring *g = node;
    uint32_t bytes;
    const float *x = peer_tensor(p, &bytes);
    Sluice__V1__HealthReply health = SLUICE__V1__HEALTH_REPLY__INIT;

    (void)deadline_us;
    switch (m->number) {
    case METHOD_STAGE_OPEN:
        hear_open(g, (const Sluice__V1__StageOpen *)message);
        break;
    case METHOD_STAGE_OPEN_PART:
        hear_part(g, (const Sluice__V1__StageOpenPart *)message);
        break;
    case METHOD_STAGE_FORWARD:
        hear_forward(g, (const Sluice__V1__StageForward *)message, x, bytes);
        break;
    case METHOD_STAGE_REMOVE:
        hear_remove(g, (const Sluice__V1__StageRemove *)message);
        break;
    case METHOD_HEALTH_CHECK:
        health.serving = true;
        peer_end(p, call, &health.base);
        break;
    default:
        if (!hear_reuse(g, m, message)) {
            fail_msg("the leader says %s", m->name);
        }
    }
}

static void on_end(void *node, struct peer *p, uint64_t tag,
                   const struct method_row *m, enum status status,
                   const ProtobufCMessage *reply, const struct error *e,
                   uint32_t retry_after_ms)
{
    (void)node, (void)p, (void)tag, (void)m, (void)status;
    (void)reply, (void)e, (void)retry_after_ms;
}

static const struct peer_ops peer_table = {.on_call = on_call,
                                           .on_end = on_end};

/* ---- edges ---- */

static enum status welcome(void *node, uint64_t assembly, uint32_t index,
                           const struct identity *who, struct error *e)
{
    struct ring *g = node;

    (void)e;
    assert_null(who);
    assert_true(assembly == g->assembly);
    assert_int_equal(index, 0);
    return ST_OK;
}

static void next_up(void *node, struct peer *p)
{
    (void)node, (void)p;
}

static void next_down(void *node, struct peer *p, const char *why)
{
    (void)node, (void)p, (void)why;
}

static const struct greeter_ops greeter_table = {
    .welcome = welcome, .up = next_up, .down = next_down};

static void before_hello(void *node, ProtobufCMessage *message)
{
    Sluice__V1__HelloRequest *m = (Sluice__V1__HelloRequest *)message;

    (void)node;
    m->role = SLUICE__V1__ROLE__ROLE_WORKER;
    m->name = wire_text("the others");
}

static void before_up(void *node, struct peer *p)
{
    struct ring *g = node;

    g->to_leader = p;
}

static void before_down(void *node, struct peer *p, enum status refused,
                        const char *why)
{
    struct ring *g = node;

    (void)p, (void)refused, (void)why;
    g->to_leader = NULL;
}

static const struct session_ops session_table = {
    .hello = before_hello, .up = before_up, .down = before_down};

/* ---- for the rig ---- */

struct peer_id ring_open_to(struct ring *g)
{
    g->next_id.v += 2;
    g->next_opening = true;
    return g->next_id;
}

bool ring_has(const struct ring *g, struct peer_id id)
{
    return g != NULL && id.v >= FIRST_ID;
}

void ring_take(struct ring *g, struct peer_id to, struct frame *f)
{
    assert_true(g->n_from_worker < RING_FRAMES);
    g->from_worker[g->n_from_worker].from = to;
    g->from_worker[g->n_from_worker++].frame = f;
}

void ring_close(struct ring *g, struct peer_id who)
{
    if (who.v == g->before_id.v) {
        session_lost(&g->before, who);
    } else if (who.v == g->next_id.v) {
        greeter_lost(&g->next, who);
    }
}

static void to_worker(struct ring *g)
{
    for (uint32_t i = 0; i < g->n_to_worker; i++) {
        rig_within(g->rig, true);
        worker_node_ops.recv(g->rig->worker, g->to_worker[i].from,
                             &g->to_worker[i].frame);
        rig_within(g->rig, false);
    }
    g->n_to_worker = 0;
}

static void from_worker(struct ring *g)
{
    uint32_t n = g->n_from_worker;

    g->n_from_worker = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct peer_id to = g->from_worker[i].from;

        if (session_is_at(&g->before, to)) {
            session_recv(&g->before, to, &g->from_worker[i].frame);
        } else {
            greeter_recv(&g->next, to, &g->from_worker[i].frame);
        }
    }
}

bool ring_deliver(struct ring *g)
{
    uint32_t n;

    if (g == NULL) {
        return false;
    }
    if (g->before_opening) {
        g->before_opening = false;
        session_opened(&g->before, g->before_id);
    }
    if (g->next_opening) {
        g->next_opening = false;
        worker_node_ops.opened(g->rig->worker, g->next_id);
    }
    n = g->n_from_worker;
    from_worker(g);
    if (g->assembly != 0) {
        (void)session_tick(&g->before, g->rig->now_us);
        (void)greeter_tick(&g->next, g->rig->now_us);
    }
    n += g->n_to_worker;
    to_worker(g);
    return n > 0 || g->before_opening || g->next_opening;
}

void ring_fill_stages(const struct ring *g, const Sluice__V1__Need *need,
                      uint32_t blocks, struct rig_stages *out)
{
    Sluice__V1__StageGrants *m = &out->m;
    const struct worker_options *o = &g->rig->o;
    uint32_t chunk =
        o->chunk_tokens < o->step_tokens ? o->chunk_tokens : o->step_tokens;
    uint32_t windows =
        (o->window + chunk + o->block_tokens - 1) / o->block_tokens + 1;
    size_t n = g->n_stages - 1;

    windows = o->window == 0 || windows < blocks ? windows : blocks;
    sluice__v1__stage_grants__init(m);
    for (size_t i = 0; i < n; i++) {
        out->grant[i] = g->rig->grant + 1 + 100 * (i + 1);
        const struct mirror_stage *x =
            ring_stages_shape(g->stages, (uint32_t)i);

        out->blocks[i] = x->pages_per_block > 0 ? blocks : 0;
        out->slots[i] = x->pages_per_slot > 0;
        out->windows[i] = windows * x->window_pages;
        out->checkpoints[i] = need->checkpoints;
    }
    m->n_grant = m->n_blocks = m->n_slots = m->n_checkpoints = n;
    m->grant = out->grant;
    m->blocks = out->blocks;
    m->slots = out->slots;
    m->checkpoints = out->checkpoints;
    m->n_windows = g->rig->o.window > 0 ? n : 0;
    m->windows = out->windows;
}

/* ---- the simulated stages ---- */

uint32_t ring_waiting(const struct ring *g)
{
    return g->n_said - g->n_done;
}

const struct ring_said *ring_said(const struct ring *g, uint32_t n)
{
    assert_in_range(n, 0, g->n_said - 1);
    return &g->said[n];
}

uint32_t ring_removes(const struct ring *g, uint64_t grant)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < g->n_said; i++) {
        n += g->said[i].method == METHOD_STAGE_REMOVE &&
             g->said[i].grant == grant;
    }
    return n;
}

void ring_say(struct ring *g, enum method m, const ProtobufCMessage *message)
{
    assert_non_null(g->to_leader);
    assert_int_equal(peer_oneway(g->to_leader, m, message), ST_OK);
    rig_turn(g->rig);
}

static void add_logprobs(uint32_t token, uint32_t index, uint32_t width,
                         struct ring_result *out)
{
    Sluice__V1__StageResult *m = &out->m;

    out->logprobs[m->n_logprobs++] = rig_logprob(token, index);
    for (uint32_t j = 0; j + 1 < width; j++) {
        struct token_logprob t = rig_top(token, index, j);

        out->top[m->n_top_tokens++] = t.token;
        out->logprobs[m->n_logprobs++] = t.logprob;
    }
}

static void add_token(const struct ring *g, const struct ring_said *s,
                      uint32_t i, struct ring_result *out)
{
    Sluice__V1__StageResult *m = &out->m;
    uint32_t width = g->grants[s->grants[i]].width;
    uint32_t token = s->token[i];
    bool damaged = s->grants[i] == g->damaged;
    uint32_t n_accepted = damaged ? 0 : s->drafts[i].n_accepted;
    uint32_t index = s->index[i] + n_accepted;

    out->damaged[m->n_damaged++] = damaged;
    out->tokens[m->n_tokens++] = token;
    out->width[m->n_width++] = width;
    ring_add_drafts(s, i, damaged, out);
    for (uint32_t k = 0; k < n_accepted && width > 0; k++) {
        add_logprobs(s->drafts[i].ids[k], s->index[i] + k, width, out);
    }
    if (width > 0) {
        add_logprobs(token, index, width, out);
    }
}

void ring_result(const struct ring *g, struct ring_result *out)
{
    const struct ring_said *s = ring_said(g, g->n_done);
    Sluice__V1__StageResult *m = &out->m;
    uint32_t wide = 0;

    assert_int_equal(s->method, METHOD_STAGE_FORWARD);
    sluice__v1__stage_result__init(m);
    m->step = s->step;
    m->tokens = out->tokens;
    m->width = out->width;
    m->damaged = out->damaged;
    m->logprobs = out->logprobs;
    m->top_tokens = out->top;
    m->device_us = out->device_us;
    m->accepted = out->accepted;
    m->proposed = out->proposed;
    m->proposals = out->proposals;
    for (uint32_t i = 0; i < g->n_stages; i++) {
        out->device_us[m->n_device_us++] = 11 + i;
    }
    for (uint32_t i = 0; i < s->n_rows && !s->failed; i++) {
        if (s->kind[i] & SLUICE__V1__STAGE_ROW__STAGE_ROW_SAMPLE) {
            add_token(g, s, i, out);
            wide += out->width[m->n_width - 1];
        }
    }
    m->n_width = wide > 0 ? m->n_width : 0;
    m->n_damaged = g->damaged > 0 ? m->n_damaged : 0;
    m->has_failure = s->failed;
    m->failure = wire_text("the leader's");
}

static void answer_forward(struct ring *g)
{
    struct ring_result r;

    ring_result(g, &r);
    if (g->fail_next != NULL || names(ring_said(g, g->n_done), g->fails_with)) {
        r.m.has_failure = true;
        r.m.failure =
            wire_text(g->fail_next != NULL ? g->fail_next : "its fault");
        r.m.n_tokens = r.m.n_width = r.m.n_logprobs = r.m.n_top_tokens = 0;
        r.m.n_damaged = r.m.n_accepted = r.m.n_proposed = 0;
        r.m.n_proposals = 0;
        ring_fail_drafts(g, ring_said(g, g->n_done));
        g->fail_next = NULL;
    }
    g->n_done++;
    g->n_results++;
    ring_say(g, METHOD_STAGE_RESULT, &r.m.base);
}

/* Stage i adds i, so that the stages can be distinguished. */
static void answer_remove(struct ring *g, uint64_t grant)
{
    Sluice__V1__StageRemove m = SLUICE__V1__STAGE_REMOVE__INIT;
    const struct ring_grant *x = &g->grants[grant];
    uint32_t blocks[16], slots[16], checkpoints[16], windows[16];

    m.grant = grant;
    m.n_blocks = m.n_slots = m.n_checkpoints = g->n_stages - 1;
    m.blocks = blocks;
    m.slots = slots;
    m.checkpoints = checkpoints;
    for (uint32_t i = 0; i + 1 < g->n_stages; i++) {
        blocks[i] = x->blocks + i + 1;
        slots[i] = x->slots;
        checkpoints[i] = x->checkpoints;
        windows[i] = 10 + i;
    }
    m.n_windows = g->rig->o.window > 0 ? g->n_stages - 1 : 0;
    m.windows = windows;
    g->n_done++;
    ring_say(g, METHOD_STAGE_REMOVE, &m.base);
}

bool ring_step(struct ring *g)
{
    const struct ring_said *s;

    if (ring_waiting(g) == 0) {
        return false;
    }
    s = ring_said(g, g->n_done);
    if (s->method == METHOD_STAGE_FORWARD) {
        answer_forward(g);
    } else if (s->method == METHOD_STAGE_REMOVE) {
        answer_remove(g, s->grant);
    } else {
        g->n_done++;
    }
    return true;
}

void ring_run(struct ring *g)
{
    for (int i = 0; rig_step(g->rig) || ring_step(g); i++) {
        assert_in_range(i, 0, 100000);
    }
}

void ring_check_empty(const struct ring *g)
{
    for (uint64_t i = g->first_open; i <= g->last_open; i++) {
        const struct ring_grant *x = &g->grants[i];

        assert_true(x->opened);
        if (ring_removes(g, i) != (x->is_void ? 0 : 1)) {
            fail_msg("grant %u was removed %u times", (unsigned)i,
                     ring_removes(g, i));
        }
    }
}

/* ---- made and freed ---- */

void ring_options(struct worker_options *o)
{
    rig_defaults(o);
    o->layer_end = 2;
    o->stage_endpoint = "ipc:///ring/leader";
    o->hidden = RING_HIDDEN;
}

void ring_assemble(struct ring *g)
{
    Sluice__V1__AssembleRequest m = SLUICE__V1__ASSEMBLE_REQUEST__INIT;
    struct session_stage stage = {.index = g->n_stages - 1,
                                  .limits = link_limits_tensors(4, 1 << 20)};
    struct rig *r = g->rig;

    if (g->assembly != 0) {
        session_fini(&g->before, "again");
        greeter_fini(&g->next, "again");
        rig_turn(r);
    }
    for (uint32_t i = 0; i < g->n_from_worker; i++) {
        frame_free(&g->from_worker[i].frame);
    }
    g->n_from_worker = 0;
    g->assembly++;
    g->n_said = g->n_done = g->n_forwards = g->n_results = 0;
    g->last_open = r->grant;
    g->first_open = r->grant + 1;
    memset(g->grants, 0, sizeof g->grants);
    g->keeps.n = 0;
    ring_stages_clear(g->stages);
    snprintf(stage.endpoint, sizeof stage.endpoint, "%s", r->o.stage_endpoint);
    stage.assembly = g->assembly;
    greeter_init(&g->next, &g->io, &greeter_table, &peer_table, g, &g->arena,
                 "next", &stage.limits);
    session_init_stage(&g->before, &g->io, &session_table, &peer_table, g,
                       &g->arena, &stage);
    m.assembly = g->assembly;
    m.n_stages = g->n_stages;
    m.next = wire_text("ipc:///ring/next");
    assert_int_equal(
        peer_call(r->peer, METHOD_WORKER_ASSEMBLE, &m.base, 0, ++r->tag, NULL),
        ST_OK);
    for (int i = 0; i < 3000 && !r->ends[r->tag].ended; i++) {
        rig_advance(r, 1000);
    }
    rig_check_ok(r, r->tag);
    assert_non_null(g->to_leader);
}

void ring_cut(struct ring *g)
{
    struct peer_id id = g->before_id;

    session_lost(&g->before, id);
    worker_node_ops.lost(g->rig->worker, id);
}

struct rig *ring_rig(uint32_t n_stages, const struct worker_options *o)
{
    return ring_rig_with(n_stages, o, NULL);
}

struct rig *ring_rig_with(uint32_t n_stages, const struct worker_options *o,
                          const struct mirror_stage *shapes)
{
    struct ring *g = calloc(1, sizeof *g);
    struct worker_options mine;

    assert_non_null(g);
    ring_options(&mine);
    g->n_stages = n_stages;
    g->next_id.v = FIRST_ID;
    g->before_id.v = FIRST_ID + 1;
    arena_init(&g->arena);
    g->stages = ring_stages_new(o != NULL ? o : &mine, shapes, n_stages - 1);
    g->rig = rig_new(o != NULL ? o : &mine);
    g->rig->ring = g;
    g->io = (struct node_io){.impl = g,
                             .now_us = io_now,
                             .random = io_random,
                             .send = io_send,
                             .open_to = io_open_to,
                             .close = io_close};
    ring_assemble(g);
    return g->rig;
}

void ring_rig_free(struct rig **r)
{
    struct ring *g = (*r)->ring;

    rig_free(r);
    session_fini(&g->before, "the end");
    greeter_fini(&g->next, "the end");
    for (uint32_t i = 0; i < g->n_from_worker; i++) {
        frame_free(&g->from_worker[i].frame);
    }
    for (uint32_t i = 0; i < g->n_to_worker; i++) {
        frame_free(&g->to_worker[i].frame);
    }
    arena_fini(&g->arena);
    ring_stages_free(g->stages);
    free(g);
}

void ring_rig_end(struct rig **r)
{
    ring_check_empty((*r)->ring);
    ring_rig_free(r);
}

void ring_check_refused(const struct rig *r, uint64_t tag, enum status status,
                        const char *text)
{
    assert_true(r->ends[tag].ended);
    assert_int_equal(r->ends[tag].status, status);
    if (strstr(r->ends[tag].text, text) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", r->ends[tag].text, text);
    }
}
