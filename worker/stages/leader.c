#include "worker/stages/leader.h"

#include <string.h>

#include "common/base/quote.h"
#include "worker/stages/assembly.h"
#include "worker/worker_state.h"

_Static_assert(STAGES_MAX <= BATCHES_MAX, "a microbatch for each stage");

void leader_begin(struct worker_core *w)
{
    const struct assembly *a = &w->assembly;

    batcher_lead(&w->batcher, a->n_stages, a->max_rows, a->step_tokens);
    w->leader.first_step = w->batcher.step + 1;
    w->leader.n_stage_us = 0;
}

static void rows_back(struct worker_core *w, const struct batch *t)
{
    for (uint32_t i = 0; i < t->plan.n_rows; i++) {
        worker_plan_back(w, t->who[i]);
    }
    batcher_return(&w->batcher);
}

void leader_over(struct worker_core *w)
{
    w->leader.first_step = w->batcher.step + 1;
    while (w->batcher.inflight > w->batcher.here) {
        rows_back(w, batcher_oldest(&w->batcher));
    }
}

/* ---- Submits ---- */

static enum status check_stages(const struct worker_core *w,
                                const Sluice__V1__StageGrants *g,
                                struct error *e)
{
    uint32_t n = w->assembly.n_stages - 1;

    if (g == NULL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "stages is missing: this worker leads %u more", n);
    }
    if (g->n_grant != n || g->n_blocks != n || g->n_slots != n ||
        g->n_checkpoints != n) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "stages has %zu grants, %zu blocks, %zu slots and "
                         "%zu checkpoints, this worker leads %u more",
                         g->n_grant, g->n_blocks, g->n_slots, g->n_checkpoints,
                         n);
    }
    return ST_OK;
}

enum status leader_check(const struct worker_core *w,
                         const Sluice__V1__SubmitRequest *m, struct error *e)
{
    if (!assembly_leads(w)) {
        return m->stages == NULL
                   ? ST_OK
                   : error_set(e, ST_INVALID_ARGUMENT,
                               "stages is set: this worker has all layers");
    }
    if (!assembly_is_up(w)) {
        return error_set(e, ST_UNAVAILABLE,
                         "this worker has layers %u-%u of %u, and leads no "
                         "assembly",
                         w->o.layer_begin, w->o.layer_end, w->o.n_layers);
    }
    return check_stages(w, m->stages, e);
}

static uint32_t at_most(size_t n, uint32_t most)
{
    return n < most ? (uint32_t)n : most;
}

void leader_open(struct worker_core *w, struct sequence *s,
                 const Sluice__V1__SubmitRequest *m)
{
    Sluice__V1__StageOpen open = SLUICE__V1__STAGE_OPEN__INIT;
    uint32_t first = 0;

    if (!assembly_leads(w)) {
        return;
    }
    if (sampling_penalises(&s->sampling)) {
        first = at_most(m->n_tokens, OPEN_IDS_MAX);
    }
    open.grant = m->grant;
    open.stages = m->stages;
    open.sequence = m->sequence;
    open.has_n_prompt = open.has_n_generated = open.has_max_tokens = true;
    open.n_prompt = m->n_prompt;
    open.n_generated = m->n_generated;
    open.max_tokens = m->max_tokens;
    open.sampling = m->sampling;
    open.n_tokens = first;
    open.tokens = m->tokens;
    s->staged = true;
    assembly_send(w, METHOD_STAGE_OPEN, &open.base);
    if (first < m->n_tokens) {
        leader_ids(w, s, first, m->tokens + first, m->n_tokens - first);
    }
}

/* The grant is settled at every stage all the same.  Where the Submit does not
 * even name their grants there is none to settle. */
void leader_void(struct worker_core *w, const Sluice__V1__SubmitRequest *m)
{
    Sluice__V1__StageOpen open = SLUICE__V1__STAGE_OPEN__INIT;

    if (!assembly_leads(w) || !assembly_is_up(w) || m->stages == NULL ||
        m->stages->n_grant != w->assembly.n_stages - 1) {
        return;
    }
    open.grant = m->grant;
    open.stages = m->stages;
    open.has_void_ = open.void_ = true;
    assembly_send(w, METHOD_STAGE_OPEN, &open.base);
}

void leader_ids(struct worker_core *w, const struct sequence *s,
                uint32_t offset, const uint32_t *ids, size_t n)
{
    Sluice__V1__StageOpenPart part = SLUICE__V1__STAGE_OPEN_PART__INIT;

    if (!s->staged || !sampling_penalises(&s->sampling)) {
        return;
    }
    part.grant = s->grant;
    for (size_t done = 0; done < n; done += part.n_tokens) {
        part.offset = offset + (uint32_t)done;
        part.n_tokens = at_most(n - done, OPEN_IDS_MAX);
        part.tokens = (uint32_t *)(uintptr_t)&ids[done];
        assembly_send(w, METHOD_STAGE_OPEN_PART, &part.base);
    }
}

/* ---- plans ---- */

static void fill_columns(struct forward_columns *c, const struct batch *t)
{
    for (uint32_t i = 0; i < t->plan.n_rows; i++) {
        const struct plan_row *row = &t->plan.rows[i];

        c->grant[i] = t->who[i]->grant;
        c->position[i] = row->position;
        c->count[i] = row->n_tokens;
        c->kind[i] = row->kind == ROW_PROMPT
                         ? SLUICE__V1__STAGE_ROW__STAGE_ROW_PROMPT
                         : SLUICE__V1__STAGE_ROW__STAGE_ROW_GENERATED;
        c->kind[i] |=
            row->sample ? SLUICE__V1__STAGE_ROW__STAGE_ROW_SAMPLE : 0u;
        c->index[i] = row->sample ? row->index : 0;
    }
}

static void send_forward(struct worker_core *w, const struct batch *t)
{
    struct forward_columns *c = &w->leader.columns;
    const struct plan_result *r = &w->result;
    Sluice__V1__StageForward m = SLUICE__V1__STAGE_FORWARD__INIT;
    uint32_t device_us = r->device_us;

    fill_columns(c, t);
    m.step = t->plan.step;
    m.n_grant = m.n_position = m.n_count = t->plan.n_rows;
    m.n_kind = m.n_index = t->plan.n_rows;
    m.grant = c->grant;
    m.position = c->position;
    m.count = c->count;
    m.kind = c->kind;
    m.index = c->index;
    m.n_device_us = 1;
    m.device_us = &device_us;
    m.has_failure = r->status != ST_OK;
    m.failure = wire_text(m.has_failure ? r->error.text : "");
    assembly_send_forward(w, &m, m.has_failure ? NULL : r->hidden,
                          t->plan.n_tokens);
}

void leader_pass(struct worker_core *w, const struct batch *t)
{
    w->n_results++;
    if (t->plan.step < w->leader.first_step) { /* its assembly is over */
        rows_back(w, t);
        return;
    }
    step_check_answer(w, &t->plan);
    send_forward(w, t);
    batcher_pass(&w->batcher);
    for (uint32_t i = 0; i < t->plan.n_rows; i++) {
        if (t->who[i]->state == SEQUENCE_RELEASING) {
            leader_remove(w, t->who[i]);
        }
    }
}

/* ---- Results ---- */

/* Where the next row's values start. */
struct places {
    uint32_t row, logprob, top; /* row: of those that sample */
};

/* What row i of the plan chose; false if the columns lack it. */
static bool take_row(struct plan_result *r, const struct sampling *s,
                     uint32_t i, const Sluice__V1__StageResult *m,
                     struct places *at)
{
    uint32_t width = sampling_width(s);

    if (at->row == m->n_tokens ||
        (m->n_width > 0 ? m->width[at->row] : 0) != width ||
        m->n_logprobs - at->logprob < width) {
        return false;
    }
    r->tokens[i] = m->tokens[at->row++];
    if (width == 0) {
        return true;
    }
    if (m->n_top_tokens - at->top < width - 1) {
        return false;
    }
    r->logprobs[i] = m->logprobs[at->logprob++];
    for (uint32_t j = 0; j + 1 < width; j++) {
        r->top[i][j].token = m->top_tokens[at->top++];
        r->top[i][j].logprob = m->logprobs[at->logprob++];
    }
    return true;
}

static bool take_columns(struct worker_core *w, const struct plan *p,
                         const Sluice__V1__StageResult *m)
{
    struct plan_result *r = &w->result;
    struct places at = {0, 0, 0};

    if (m->n_width > 0 && m->n_width != m->n_tokens) {
        return false;
    }
    for (uint32_t i = 0; i < p->n_rows; i++) {
        const struct plan_row *row = &p->rows[i];

        r->tokens[i] = TOKEN_NONE;
        if (row->sample && !take_row(r, row->sampling, i, m, &at)) {
            return false;
        }
    }
    return at.row == m->n_tokens && at.logprob == m->n_logprobs &&
           at.top == m->n_top_tokens;
}

static bool has_columns(const Sluice__V1__StageResult *m)
{
    return m->n_tokens + m->n_width + m->n_logprobs + m->n_top_tokens > 0;
}

/* w->result as if the engine had given it; false: the message is wrong. */
static bool take_result(struct worker_core *w, const struct plan *p,
                        const Sluice__V1__StageResult *m)
{
    struct plan_result *r = &w->result;
    unsigned long long step = m->step;

    r->step = p->step;
    r->n_rows = p->n_rows;
    r->hidden = NULL;
    r->lost = false;
    r->device_us = m->device_us[0];
    r->status = ST_OK;
    if (m->has_failure && !has_columns(m)) {
        r->status = error_set(
            &r->error, ST_INTERNAL, "%s",
            quote_bytes((const char *)m->failure.data, m->failure.len).text);
        return true;
    }
    if (m->has_failure || !take_columns(w, p, m)) {
        assembly_break(w,
                       "Result of step %llu has %zu tokens, %zu widths, %zu "
                       "logprobs and %zu top_tokens, which its %u rows did not "
                       "ask for",
                       step, m->n_tokens, m->n_width, m->n_logprobs,
                       m->n_top_tokens, p->n_rows);
        return false;
    }
    step_check_choices(w, p);
    if (r->status != ST_OK) {
        assembly_break(w, "Result of step %llu: %s", step, r->error.text);
        return false;
    }
    return true;
}

void leader_recv_result(struct worker_core *w, const Sluice__V1__StageResult *m)
{
    const struct batch *t = batcher_oldest(&w->batcher);
    uint32_t n_stages = w->assembly.n_stages;
    unsigned long long step = m->step;

    if (w->batcher.inflight == w->batcher.here) {
        assembly_break(w, "Result of step %llu, none is under way", step);
        return;
    }
    if (m->step != t->plan.step) {
        assembly_break(w, "Result of step %llu, the oldest under way is %llu",
                       step, (unsigned long long)t->plan.step);
        return;
    }
    if (m->n_device_us != n_stages) {
        assembly_break(w,
                       "Result of step %llu has the times of %zu stages, "
                       "there are %u",
                       step, m->n_device_us, n_stages);
        return;
    }
    if (take_result(w, &t->plan, m)) {
        w->leader.n_stage_us = n_stages;
        memcpy(w->leader.stage_us, m->device_us,
               n_stages * sizeof w->leader.stage_us[0]);
        step_round(w, t);
        batcher_return(&w->batcher);
    }
}

/* ---- Removes ---- */

void leader_remove(struct worker_core *w, struct sequence *s)
{
    Sluice__V1__StageRemove m = SLUICE__V1__STAGE_REMOVE__INIT;

    if (!s->staged || s->remove_sent || batcher_names(&w->batcher, s)) {
        return;
    }
    s->remove_sent = true;
    m.grant = s->grant;
    assembly_send(w, METHOD_STAGE_REMOVE, &m.base);
}

void leader_recv_remove(struct worker_core *w, const Sluice__V1__StageRemove *m)
{
    struct sequence *s =
        m->grant == 0 ? NULL : sequence_by_grant(&w->table, m->grant);
    unsigned long long grant = m->grant;
    uint32_t n = w->assembly.n_stages - 1;

    if (s == NULL || !s->remove_sent) {
        assembly_break(w, "Remove of grant %llu, which was not sent", grant);
        return;
    }
    if (m->n_blocks != n || m->n_slots != n || m->n_checkpoints != n) {
        assembly_break(w,
                       "Remove of grant %llu says what %zu, %zu and %zu stages "
                       "have freed, there are %u",
                       grant, m->n_blocks, m->n_slots, m->n_checkpoints, n);
        return;
    }
    if (s->inflight > 0) {
        assembly_break(w,
                       "Remove of grant %llu overtook the Results of %u "
                       "steps",
                       grant, s->inflight);
        return;
    }
    worker_removed(w, s, m);
}
