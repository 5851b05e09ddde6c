#include "worker/stages/stage_line.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "common/base/plant.h"

/* ---- the line ---- */

struct microbatch *stage_line_free(struct stage *g)
{
    uint32_t i = 0;

    while (g->memory[i].in_line) {
        i++;
        assert(i <= STAGES_MAX);
    }
    assert(g->memory[i].made);
    return &g->memory[i];
}

void stage_line_add(struct stage *g, struct microbatch *b)
{
    assert(g->n <= STAGES_MAX && !b->in_line);
    b->in_line = true;
    g->line[g->n++] = b;
}

/* The first leaves; its sequences know. */
static void leave(struct worker_core *w)
{
    struct stage *g = &w->stage;
    struct microbatch *b = g->line[0];

    g->n--;
    memmove(&g->line[0], &g->line[1], g->n * sizeof(struct microbatch *));
    b->in_line = false;
    frame_free(&b->x);
    for (uint32_t i = 0; i < b->batch.plan.n_rows; i++) {
        stage_plan_back(w, b->batch.who[i]);
    }
}

/* The last first, so that the one with the engine, if any, is left. */
void stage_over(struct worker_core *w)
{
    struct stage *g = &w->stage;

    while (g->n > (g->computing ? 1 : 0)) {
        struct microbatch *b = g->line[--g->n];

        b->in_line = false;
        frame_free(&b->x);
        for (uint32_t i = 0; i < b->batch.plan.n_rows; i++) {
            worker_plan_back(w, b->batch.who[i]);
        }
    }
    if (g->computing) {
        g->line[0]->over = true;
    }
}

/* ---- on with what came of it ---- */

static void send_forward(struct worker_core *w, const struct microbatch *b)
{
    Sluice__V1__StageForward m = SLUICE__V1__STAGE_FORWARD__INIT;
    struct stage_columns *c = w->stage.columns;
    const struct plan *p = &b->batch.plan;

    for (uint32_t i = 0; i < p->n_rows; i++) {
        const struct plan_row *r = &p->rows[i];

        c->grant[i] = b->batch.who[i]->grant;
        c->position[i] = r->position;
        c->count[i] = r->n_tokens;
        c->kind[i] =
            (r->kind == ROW_GENERATED
                 ? (uint32_t)SLUICE__V1__STAGE_ROW__STAGE_ROW_GENERATED
                 : (uint32_t)SLUICE__V1__STAGE_ROW__STAGE_ROW_PROMPT) |
            (b->samples[i] ? (uint32_t)SLUICE__V1__STAGE_ROW__STAGE_ROW_SAMPLE
                           : 0u);
        c->index[i] = r->index;
    }
    m.step = p->step;
    m.n_grant = m.n_position = m.n_count = m.n_kind = m.n_index = p->n_rows;
    m.grant = c->grant;
    m.position = c->position;
    m.count = c->count;
    m.kind = c->kind;
    m.index = c->index;
    m.n_device_us = w->assembly.stage + 1;
    m.device_us = (uint32_t *)(uintptr_t)b->device_us;
    m.has_failure = b->failed;
    m.failure = wire_text(b->failed ? b->failure : "");
    assembly_send_forward(w, &m, b->failed ? NULL : w->result.hidden,
                          p->n_tokens);
}

/* The logprobs that row i of the result has, or, of one that is spoilt, as
 * many zeros: the columns are what was asked for. */
static void add_logprobs(const struct worker_core *w, uint32_t i,
                         const struct sequence *s, Sluice__V1__StageResult *m)
{
    struct stage_columns *c = w->stage.columns;
    const struct plan_result *r = &w->result;

    c->logprobs[m->n_logprobs++] = s->spoilt ? 0 : r->logprobs[i];
    for (uint32_t j = 0; j < s->sampling.n_top_logprobs; j++) {
        c->top_tokens[m->n_top_tokens++] = s->spoilt ? 0 : r->top[i][j].token;
        c->logprobs[m->n_logprobs++] = s->spoilt ? 0 : r->top[i][j].logprob;
    }
}

static void add_tokens(const struct worker_core *w, const struct microbatch *b,
                       Sluice__V1__StageResult *m)
{
    struct stage_columns *c = w->stage.columns;
    bool has_width = false;

    for (uint32_t i = 0; i < b->batch.plan.n_rows; i++) {
        const struct sequence *s = b->batch.who[i];
        bool logprobs = s->sampling.logprobs;

        if (!b->samples[i]) {
            continue;
        }
        c->width[m->n_tokens] = logprobs ? 1 + s->sampling.n_top_logprobs : 0;
        c->tokens[m->n_tokens++] = s->spoilt ? 0 : w->result.tokens[i];
        has_width = has_width || logprobs;
        if (logprobs) {
            add_logprobs(w, i, s, m);
        }
    }
    m->n_width = has_width ? m->n_tokens : 0;
}

static void send_result(struct worker_core *w, const struct microbatch *b)
{
    Sluice__V1__StageResult m = SLUICE__V1__STAGE_RESULT__INIT;
    struct stage_columns *c = w->stage.columns;

    m.step = b->batch.plan.step;
    m.tokens = c->tokens;
    m.width = c->width;
    m.logprobs = c->logprobs;
    m.top_tokens = c->top_tokens;
    m.n_device_us = w->assembly.n_stages;
    m.device_us = (uint32_t *)(uintptr_t)b->device_us;
    m.has_failure = b->failed;
    m.failure = wire_text(b->failed ? b->failure : "");
    if (!b->failed) {
        add_tokens(w, b, &m);
    }
    assembly_send(w, METHOD_STAGE_RESULT, &m.base);
}

/* A token was chosen after the last known one: here if this stage is the
 * last, else it will be. */
static void sampled(struct worker_core *w, struct sequence *s, uint32_t token)
{
    s->pending--;
    if (s->n_announced > 0 && !s->spoilt && !PLANT(STAGE_IDS_STALE)) {
        paged_write(&w->table.slab, &s->tokens, sequence_known(s), &token, 1);
    }
    s->n_generated++;
    if (s->state == SEQUENCE_PREFILL) {
        sequence_move(&w->table, s, SEQUENCE_DECODE);
    }
}

static void rows_back(struct worker_core *w, const struct microbatch *b)
{
    for (uint32_t i = 0; i < b->batch.plan.n_rows; i++) {
        struct sequence *s = b->batch.who[i];

        s->spoilt = s->spoilt || (b->failed && !PLANT(SPOILT_FORGOTTEN));
        if (b->samples[i] && !b->failed) {
            sampled(w, s, w->result.tokens[i]);
        }
    }
}

/* The first in line has been computed, or there is nothing to compute. */
static void pass_on(struct worker_core *w)
{
    struct microbatch *b = w->stage.line[0];

    if (!b->over) {
        if (stage_is_last(w)) {
            send_result(w, b);
        } else {
            send_forward(w, b);
        }
        rows_back(w, b);
    }
    leave(w);
}

/* w->result is of the first in line. */
static void result_back(struct worker_core *w)
{
    struct microbatch *b = w->stage.line[0];

    step_note(w, &b->batch);
    b->device_us[w->assembly.stage] = w->result.device_us;
    if (w->result.status != ST_OK) {
        b->failed = true;
        snprintf(b->failure, sizeof b->failure, "stage %u: %.400s",
                 w->assembly.stage, w->result.error.text);
    }
    pass_on(w);
}

void stage_results(struct worker_core *w)
{
    struct stage *g = &w->stage;

    if (!g->computing || !engine_poll(w->engine, &w->result)) {
        return;
    }
    FP(WORKER_RESULT);
    if (w->result.lost && !w->lost) {
        step_device_lost(w, &g->line[0]->batch.plan);
    }
    g->computing = false;
    result_back(w);
}

/* Of what is spoilt nobody needs a token, and it may not be one that can be
 * drawn. */
static void spare(struct microbatch *b)
{
    for (uint32_t i = 0; i < b->batch.plan.n_rows; i++) {
        if (b->batch.who[i]->spoilt) {
            b->batch.plan.rows[i].sample = false;
        }
    }
}

void stage_plans(struct worker_core *w)
{
    struct stage *g = &w->stage;

    /* What broke it may be half a microbatch. */
    while (g->n > 0 && !g->computing && !w->assembly.broken) {
        struct microbatch *b = g->line[0];
        const struct plan *p = &b->batch.plan;

        if (b->failed) {
            b->device_us[w->assembly.stage] = 0;
            pass_on(w);
            continue;
        }
        spare(b);
        if (FP_FAILS(WORKER_PLAN) || engine_submit(w->engine, p) != ST_OK) {
            step_refused(w, p);
            result_back(w);
            continue;
        }
        g->computing = true;
        b->batch.sent_us = w->io->now_us(w->io);
        FP(WORKER_PLANNED);
    }
}

uint32_t stage_planned(const struct worker_core *w)
{
    return w->stage.computing ? 1 : 0;
}

const struct batch *stage_oldest(const struct worker_core *w)
{
    return w->stage.computing ? &w->stage.line[0]->batch : NULL;
}
