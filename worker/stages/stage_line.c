/* The line of microbatches: to the engine one at a time, and on to the next
 * stage with the result. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "common/base/plant.h"
#include "common/wire/method_message.h"
#include "worker/sequences/ending.h"
#include "worker/sequences/results.h"
#include "worker/sequences/step.h"
#include "worker/stages/stage.h"

/* ---- the line ---- */

struct microbatch *stage_line_free(struct stage *g)
{
    uint32_t i = 0;

    /* At most n_stages are in line, and one more is allocated. */
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
    relay_arrived(&g->relay);
}

/* Takes the first microbatch off the line, and counts its plan as returned. */
static void line_pop(struct stage *g)
{
    struct microbatch *b = g->line[0];

    g->n--;
    memmove(&g->line[0], &g->line[1], g->n * sizeof(struct microbatch *));
    b->in_line = false;
    frame_free(&b->x);
    for (uint32_t i = 0; i < b->batch.plan.n_rows; i++) {
        stage_plan_back(g, b->batch.owners[i]);
    }
}

/* A plan at the engine runs before any of the next assembly, so what it names
 * is free at once, as at a Remove. */
static void free_all(struct stage *g)
{
    struct sequence_table *t = &g->sequences->table;

    for (struct sequence *s = t->all.head; s != NULL && !PLANT(ASSEMBLY_LEAKS);
         s = sequence_next(s, LIST_ALL)) {
        sequence_release(t, s);
    }
    if (!PLANT(INDEX_OUTLIVES)) {
        stage_cache_clear(&g->cache);
    }
    g->n_copies = g->n_replays = 0;
    relay_clear(&g->relay, 0);
}

/* From the end, so that only the microbatch at the engine, if any, is left. */
void stage_over(struct stage *g)
{
    while (g->n > (g->computing ? 1 : 0)) {
        struct microbatch *b = g->line[--g->n];

        b->in_line = false;
        frame_free(&b->x);
        for (uint32_t i = 0; i < b->batch.plan.n_rows; i++) {
            ending_plan_back(g->sequences, b->batch.owners[i]);
        }
    }
    if (g->computing) {
        g->line[0]->over = true;
    }
    free_all(g);
}

/* ---- results ---- */

/* Fills the columns of rows as they came, and returns the number of twins. */
static uint32_t fill_columns(const struct microbatch *b,
                             struct stage_columns *c)
{
    const struct plan *p = &b->batch.plan;
    uint32_t n_twins = 0;

    for (uint32_t i = 0; i < p->n_rows; i++) {
        const struct plan_row *r = &p->rows[i];

        c->grant[i] = b->batch.owners[i]->grant;
        c->position[i] = r->position;
        c->count[i] = r->n_tokens;
        c->kind[i] =
            (r->kind == ROW_GENERATED
                 ? (uint32_t)SLUICE__V1__STAGE_ROW__STAGE_ROW_GENERATED
                 : (uint32_t)SLUICE__V1__STAGE_ROW__STAGE_ROW_PROMPT) |
            (b->samples[i] ? (uint32_t)SLUICE__V1__STAGE_ROW__STAGE_ROW_SAMPLE
                           : 0u) |
            (b->anew[i] ? (uint32_t)SLUICE__V1__STAGE_ROW__STAGE_ROW_ANEW
                        : 0u) |
            (r->mtp ? (uint32_t)SLUICE__V1__STAGE_ROW__STAGE_ROW_MTP : 0u);
        c->index[i] = r->index;
        if (r->n_tokens == 0) {
            c->source[n_twins++] = r->source;
        }
    }
    return n_twins;
}

static void send_forward(struct stage *g, const struct microbatch *b)
{
    Sluice__V1__StageForward m = SLUICE__V1__STAGE_FORWARD__INIT;
    struct stage_columns *c = g->columns;
    const struct plan *p = &b->batch.plan;

    m.n_source = fill_columns(b, c);
    stage_send_drafts(g, b, &m);
    m.source = c->source;
    m.n_save_row = m.n_save_position = m.n_save_checkpoint = b->n_saves;
    m.save_row = b->save_row;
    m.save_position = b->save_position;
    m.save_checkpoint = b->save_checkpoint;
    m.step = p->step;
    m.n_grant = m.n_position = m.n_count = m.n_kind = m.n_index = p->n_rows;
    m.grant = c->grant;
    m.position = c->position;
    m.count = c->count;
    m.kind = c->kind;
    m.index = c->index;
    /* Each stage adds its own time, so the leader gets one for every stage. */
    m.n_device_us = g->assembly->stage + 1;
    m.device_us = (uint32_t *)(uintptr_t)b->device_us;
    m.has_failure = b->failed;
    m.failure = wire_text(b->failed ? b->failure : "");
    assembly_send_forward(g->assembly, &m,
                          b->failed ? NULL : g->sequences->result.hidden,
                          p->n_tokens);
}

/* Adds the logprobs of a token; zeros if top is NULL, because the width of the
 * columns follows from the request. */
static void add_logprobs(struct stage_columns *c, float logprob,
                         const struct token_logprob *top, uint32_t n_top,
                         Sluice__V1__StageResult *m)
{
    c->logprobs[m->n_logprobs++] = logprob;
    for (uint32_t j = 0; j < n_top; j++) {
        c->top_tokens[m->n_top_tokens++] = top != NULL ? top[j].token : 0;
        c->logprobs[m->n_logprobs++] = top != NULL ? top[j].logprob : 0;
    }
}

/* Adds those of a row: of its accepted drafts, then of its token. */
static void add_row_logprobs(const struct stage *g, uint32_t i,
                             uint32_t n_accepted, bool has_token,
                             uint32_t n_top, Sluice__V1__StageResult *m)
{
    const struct plan_result *r = &g->sequences->result;

    for (uint32_t k = 0; k < n_accepted; k++) {
        add_logprobs(g->columns, r->draft_logprobs[i][k], r->draft_top[i][k],
                     n_top, m);
    }
    add_logprobs(g->columns, has_token ? r->logprobs[i] : 0,
                 has_token ? r->top[i] : NULL, n_top, m);
}

/* Returns how many drafts of row i were accepted at this stage, the last one.
 */
static uint32_t accepted(const struct stage *g, const struct microbatch *b,
                         uint32_t i)
{
    const struct plan_result *r = &g->sequences->result;

    return b->drafts[i] > 0 && !stage_is_spoilt(g, b->batch.owners[i]) &&
                   r->outcomes[i] == ROW_DONE
               ? r->n_accepted[i]
               : 0;
}

static void add_row(struct stage *g, const struct microbatch *b, uint32_t i,
                    Sluice__V1__StageResult *m)
{
    struct stage_columns *c = g->columns;
    const struct plan_result *r = &g->sequences->result;
    const struct sequence *s = b->batch.owners[i];
    bool damaged = !stage_is_spoilt(g, s) && r->outcomes[i] == ROW_NOT_FINITE;
    bool has_token = !stage_is_spoilt(g, s) && !damaged;
    uint32_t n_accepted = accepted(g, b, i);

    c->width[m->n_tokens] = sampling_width(&s->portable.sampling);
    c->damaged[m->n_tokens] = damaged;
    c->tokens[m->n_tokens++] = has_token ? r->tokens[i] : 0;
    if (s->portable.sampling.logprobs) {
        add_row_logprobs(g, i, n_accepted, has_token,
                         s->portable.sampling.n_top_logprobs, m);
    }
    stage_add_drafts(g, b, i, n_accepted, has_token, m);
}

static void add_tokens(struct stage *g, const struct microbatch *b,
                       Sluice__V1__StageResult *m)
{
    const struct stage_columns *c = g->columns;
    bool has_width = false, any_damaged = false;

    for (uint32_t i = 0; i < b->batch.plan.n_rows; i++) {
        if (b->samples[i]) {
            add_row(g, b, i, m);
            has_width = has_width || c->width[m->n_tokens - 1] > 0;
            any_damaged = any_damaged || c->damaged[m->n_tokens - 1] != 0;
        }
    }
    m->n_width = has_width ? m->n_tokens : 0;
    m->n_damaged = any_damaged ? m->n_tokens : 0;
}

static void send_result(struct stage *g, const struct microbatch *b)
{
    Sluice__V1__StageResult m = SLUICE__V1__STAGE_RESULT__INIT;
    struct stage_columns *c = g->columns;

    m.step = b->batch.plan.step;
    m.tokens = c->tokens;
    m.width = c->width;
    m.damaged = c->damaged;
    m.logprobs = c->logprobs;
    m.top_tokens = c->top_tokens;
    m.n_device_us = g->assembly->n_stages;
    m.device_us = (uint32_t *)(uintptr_t)b->device_us;
    m.has_failure = b->failed;
    m.failure = wire_text(b->failed ? b->failure : "");
    if (!b->failed) {
        m.draft_us = g->sequences->result.draft_us;
        m.has_draft_us = m.draft_us > 0;
        add_tokens(g, b, &m);
    }
    assembly_send(g->assembly, METHOD_STAGE_RESULT, &m.base);
}

/* Counts a token that was sampled here, or that the last stage will sample. */
static void count_token(struct stage *g, struct sequence *s, uint32_t token)
{
    if (s->arrival.n_announced > 0 && !stage_is_spoilt(g, s) &&
        !PLANT(STAGE_IDS_STALE)) {
        paged_write(&g->sequences->table.slab, &s->portable.tokens,
                    sequence_known(s), &token, 1);
    }
    s->portable.n_generated++;
    if (s->state == SEQUENCE_PREFILL) {
        sequence_move(&g->sequences->table, s, SEQUENCE_DECODE);
    }
}

/* Counts what row i got.  Other stages count accepted drafts with Accept. */
static void count_row(struct stage *g, const struct microbatch *b, uint32_t i)
{
    const struct plan *p = &b->batch.plan;
    struct sequence *s = b->batch.owners[i];
    uint32_t n = stage_is_last(g) ? accepted(g, b, i) : 0;

    s->plan.pending--;
    for (uint32_t k = 0; k < n; k++) {
        count_token(g, s, p->tokens[p->rows[i].token + 1 + k]);
    }
    count_token(g, s, g->sequences->result.tokens[i]);
    s->plan.n_planned += n;
    if (b->drafts[i] > 0) {
        stage_note(g, s)->n_sampled = n + 1;
    }
}

/* Only the last stage has the outcomes of rows that sample. */
static bool is_damaged(const struct stage *g, const struct microbatch *b,
                       uint32_t i)
{
    return stage_is_last(g) && b->samples[i] && !b->failed &&
           g->sequences->result.outcomes[i] == ROW_NOT_FINITE;
}

static void rows_back(struct stage *g, const struct microbatch *b)
{
    for (uint32_t i = 0; i < b->batch.plan.n_rows; i++) {
        struct sequence *s = b->batch.owners[i];

        if (b->failed || is_damaged(g, b, i)) {
            stage_spoil(g, s, b->batch.plan.rows[i].position);
        }
        if (b->samples[i] && !b->failed) {
            count_row(g, b, i);
        }
    }
}

/* Passes on the first in line: it was computed, or there is nothing to
 * compute. */
static void pass_on(struct stage *g)
{
    struct microbatch *b = g->line[0];

    if (!b->over) {
        if (stage_is_last(g)) {
            send_result(g, b);
        } else {
            send_forward(g, b);
        }
        rows_back(g, b);
        relay_passed(&g->relay);
    }
    line_pop(g);
}

/* Passes on the first in line with the engine's result. */
static void result_back(struct stage *g)
{
    struct microbatch *b = g->line[0];

    results_note(g->sequences, &b->batch);
    b->device_us[g->assembly->stage] = g->sequences->result.device_us;
    if (g->sequences->result.status != ST_OK) {
        b->failed = true;
        snprintf(b->failure, sizeof b->failure, "stage %u: %.400s",
                 g->assembly->stage, g->sequences->result.error.text);
    }
    pass_on(g);
}

/* The engine has not made the plan's copies, which later plans rely on. */
static void refuse(struct stage *g)
{
    struct microbatch *b = g->line[0];
    struct error e;

    if (stage_copies_refused(g, &b->batch, &e) != ST_OK) {
        assembly_break(g->assembly, "step %llu was refused: %s",
                       (unsigned long long)b->batch.plan.step, e.text);
    }
    results_refuse(g->sequences, &b->batch.plan);
    result_back(g);
}

static void take_results(void *self)
{
    struct stage *g = self;

    if (g->computing && step_poll(g->sequences, &g->line[0]->batch.plan)) {
        g->computing = false;
        result_back(g);
    }
}

/* Without a token there are no drafts; their ids and counts go on to the next
 * stage all the same.  The MTP layer still computes what the index may have:
 * the positions before the step that failed. */
static void sample_none(const struct stage *g, const struct sequence *s,
                        struct plan_row *row)
{
    bool whole = !row->sample && row->position < stage_note(g, s)->spoilt_at;

    row->sample = false;
    if (stage_is_last(g)) {
        row->n_drafts = row->propose = 0;
        row->mtp = row->mtp && whole;
    }
}

/* A spoilt sequence needs no token, and its logits may be such that none can be
 * sampled.  Its twins are spoilt with it: its step may have failed after they
 * came.  Both sample all the same, because the engine takes no twin without
 * logits. */
static void skip_spoilt(struct stage *g, struct microbatch *b)
{
    struct plan_row *rows = b->batch.plan.rows;

    for (uint32_t i = 0; i < b->batch.plan.n_rows; i++) {
        if (rows[i].n_tokens == 0) {
            rows[rows[i].source].sample = b->samples[rows[i].source];
            if (stage_is_spoilt(g, b->batch.owners[rows[i].source])) {
                stage_spoil(g, b->batch.owners[i], 0);
            }
        } else if (stage_is_spoilt(g, b->batch.owners[i])) {
            sample_none(g, b->batch.owners[i], &rows[i]);
        }
    }
}

static void submit_plans(void *self)
{
    struct stage *g = self;

    /* The microbatch that broke the assembly may be incomplete. */
    while (g->n > 0 && !g->computing && !g->assembly->broken) {
        struct microbatch *b = g->line[0];
        const struct plan *p = &b->batch.plan;

        if (b->failed) {
            b->device_us[g->assembly->stage] = 0;
            pass_on(g);
            continue;
        }
        skip_spoilt(g, b);
        if (FP_FAILS(WORKER_PLAN) ||
            engine_submit(g->base->engine, p) != ST_OK) {
            refuse(g);
            continue;
        }
        g->computing = true;
        b->batch.sent_us = base_now_us(g->base);
        FP(WORKER_PLANNED);
    }
}

/* ---- the role ---- */

static uint32_t n_planned(const void *self)
{
    return ((const struct stage *)self)->computing ? 1 : 0;
}

static const struct batch *oldest(const void *self)
{
    const struct stage *g = self;

    return g->computing ? &g->line[0]->batch : NULL;
}

/* A stage has no Submits to check or refuse, and frees memory at the leader's
 * Remove only. */
static void remove_none(void *self, struct sequence *s)
{
    (void)self, (void)s;
}

const struct role_ops stage_role = {.remove = remove_none,
                                    .take_results = take_results,
                                    .submit_plans = submit_plans,
                                    .n_planned = n_planned,
                                    .oldest = oldest};

/* ---- the member of an assembly ---- */

static bool member_begin(void *self)
{
    return stage_begin(self);
}

static void member_up(void *self)
{
    (void)self; /* the leader's first Open comes next */
}

static void member_over(void *self)
{
    stage_over(self);
}

static void member_recv(void *self, struct peer *p, const struct method_row *m,
                        const ProtobufCMessage *message)
{
    struct stage *g = self;
    const void *x;
    uint32_t bytes;

    switch (m->number) {
    case METHOD_STAGE_OPEN:
        stage_recv_open(g, AS_REQUEST(STAGE_OPEN, message));
        break;
    case METHOD_STAGE_OPEN_PART:
        stage_recv_open_part(g, AS_REQUEST(STAGE_OPEN_PART, message));
        break;
    case METHOD_STAGE_FORWARD:
        x = peer_tensor(p, &bytes);
        stage_recv_forward(g, AS_REQUEST(STAGE_FORWARD, message), x, bytes);
        break;
    case METHOD_STAGE_GEOMETRY:
        stage_recv_geometry(g, AS_REQUEST(STAGE_GEOMETRY, message));
        break;
    case METHOD_STAGE_RESTORE:
        stage_recv_restore(g, AS_REQUEST(STAGE_RESTORE, message));
        break;
    case METHOD_STAGE_KEEP:
        stage_recv_keep(g, AS_REQUEST(STAGE_KEEP, message));
        break;
    case METHOD_STAGE_GONE:
        stage_recv_gone(g, AS_REQUEST(STAGE_GONE, message));
        break;
    case METHOD_STAGE_ACCEPT:
        stage_recv_accept(g, AS_REQUEST(STAGE_ACCEPT, message));
        break;
    case METHOD_STAGE_REMOVE:
        stage_recv_remove(g, AS_REQUEST(STAGE_REMOVE, message));
        break;
    default:
        assembly_break(g->assembly, "%s came to stage %u, which does not lead",
                       m->method, g->assembly->stage);
    }
}

const struct member_ops stage_member = {.begin = member_begin,
                                        .up = member_up,
                                        .over = member_over,
                                        .recv = member_recv};
