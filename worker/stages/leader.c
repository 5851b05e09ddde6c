#include "worker/stages/leader.h"

#include <string.h>

#include "common/wire/method_message.h"
#include "worker/sequence/windows.h"
#include "worker/sequences/draft_results.h"
#include "worker/sequences/ending.h"
#include "worker/sequences/results.h"
#include "worker/sequences/step.h"

_Static_assert(STAGES_MAX <= BATCHES_MAX, "a microbatch for each stage");

void leader_init(struct leader *l, struct sequences *q, struct assembly *a)
{
    l->sequences = q;
    l->assembly = a;
}

/* ---- the member of an assembly ---- */

static bool member_begin(void *self)
{
    return leader_reuse_begin(self);
}

static void member_up(void *self)
{
    struct leader *l = self;
    const struct assembly *a = l->assembly;
    struct batcher *b = &l->sequences->batcher;

    batcher_lead(b, a->n_stages, a->max_rows, a->step_tokens);
    leader_drafts_begin(l);
    l->first_step = b->step + 1;
    l->sequences->report.n_stage_us = 0;
}

static void rows_back(struct leader *l, const struct batch *t)
{
    for (uint32_t i = 0; i < t->plan.n_rows; i++) {
        reuse_result(&l->sequences->reuse, t, i, 0, false);
        ending_plan_back(l->sequences, t->owners[i]);
    }
    batcher_return(&l->sequences->batcher);
}

/* Microbatches past this stage never return.  A plan that the engine still has
 * still returns; first_step distinguishes it from those of the next assembly.
 */
static void member_over(void *self)
{
    struct leader *l = self;
    struct batcher *b = &l->sequences->batcher;

    leader_reuse_over(l);
    l->first_step = b->step + 1;
    while (b->inflight > b->here) {
        rows_back(l, batcher_oldest(b));
    }
}

/* ---- Submits ---- */

/* The mirror counts window blocks, which are as many at each stage. */
static enum status check_windows(const struct leader *l,
                                 const Sluice__V1__SubmitRequest *m,
                                 struct error *e)
{
    const Sluice__V1__StageGrants *g = m->stages;
    uint32_t n = windows_blocks(&l->sequences->table.windows,
                                m->n_prompt + m->max_tokens);

    for (uint32_t i = 0; i < l->mirror.n_stages; i++) {
        uint32_t need = n * l->mirror.stages[i].window_pages;
        uint32_t has = g->n_windows > 0 ? g->windows[i] : 0;

        if (has != need) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "stages has %u window pages for stage %u, but %u "
                             "window blocks take %u there",
                             has, i + 1, n, need);
        }
    }
    return ST_OK;
}

static enum status check_stages(const struct leader *l,
                                const Sluice__V1__SubmitRequest *m,
                                struct error *e)
{
    const Sluice__V1__StageGrants *g = m->stages;
    uint32_t n = l->assembly->n_stages - 1;

    if (g == NULL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "stages is missing; this worker leads %u others", n);
    }
    if (g->n_grant != n || g->n_blocks != n || g->n_slots != n ||
        g->n_checkpoints != n || !stage_column(g->n_windows, n)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "stages has %zu grants, %zu blocks, %zu slots, %zu "
                         "checkpoints and %zu windows; this worker leads %u "
                         "others",
                         g->n_grant, g->n_blocks, g->n_slots, g->n_checkpoints,
                         g->n_windows, n);
    }
    return check_windows(l, m, e);
}

static enum status check(const void *self, const Sluice__V1__SubmitRequest *m,
                         struct error *e)
{
    const struct leader *l = self;
    const struct worker_options *o = &l->assembly->base->o;

    if (!assembly_is_up(l->assembly)) {
        return error_set(e, ST_UNAVAILABLE,
                         "this worker has layers %u-%u of %u, and its assembly "
                         "is not up",
                         o->layer_begin, o->layer_end, o->n_layers);
    }
    return check_stages(l, m, e);
}

static uint32_t ids_at_most(size_t n, uint32_t most)
{
    return n < most ? (uint32_t)n : most;
}

static void add_ids(void *self, const struct sequence *s, uint32_t offset,
                    const uint32_t *ids, size_t n)
{
    struct leader *l = self;
    Sluice__V1__StageOpenPart part = SLUICE__V1__STAGE_OPEN_PART__INIT;

    if (!stages_hold(&s->stages) ||
        !sampling_penalises(&s->portable.sampling)) {
        return;
    }
    part.grant = s->grant;
    for (size_t done = 0; done < n; done += part.n_tokens) {
        part.offset = offset + (uint32_t)done;
        part.n_tokens = ids_at_most(n - done, OPEN_IDS_MAX);
        part.tokens = (uint32_t *)(uintptr_t)&ids[done];
        leader_send(l, METHOD_STAGE_OPEN_PART, &part.base);
    }
}

static void open_stages(void *self, struct sequence *s,
                        const Sluice__V1__SubmitRequest *m)
{
    struct leader *l = self;
    Sluice__V1__StageOpen open = SLUICE__V1__STAGE_OPEN__INIT;
    uint32_t first = 0;

    /* The last stage needs the ids for penalties only. */
    if (sampling_penalises(&s->portable.sampling)) {
        first = ids_at_most(m->n_tokens, OPEN_IDS_MAX);
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
    stages_move(s, STAGES_OPEN);
    leader_mirror_open(l, s, m);
    leader_send(l, METHOD_STAGE_OPEN, &open.base);
    if (first < m->n_tokens) {
        add_ids(l, s, first, m->tokens + first, m->n_tokens - first);
    }
}

/* A refused Submit uses up its grants at the other stages too.  If it does not
 * name them correctly, there are none to settle. */
static void refuse_stages(void *self, const Sluice__V1__SubmitRequest *m)
{
    struct leader *l = self;
    Sluice__V1__StageOpen open = SLUICE__V1__STAGE_OPEN__INIT;

    if (!assembly_is_up(l->assembly) || m->stages == NULL ||
        m->stages->n_grant != l->assembly->n_stages - 1) {
        return;
    }
    open.grant = m->grant;
    open.stages = m->stages;
    open.has_void_ = open.void_ = true;
    leader_ask_geometry(l);
    leader_send(l, METHOD_STAGE_OPEN, &open.base);
}

/* ---- Removes ---- */

/* A Remove follows every Forward that names the sequence, so it waits while a
 * plan here does. */
static void remove_stages(void *self, struct sequence *s)
{
    struct leader *l = self;
    Sluice__V1__StageRemove m = SLUICE__V1__STAGE_REMOVE__INIT;

    if (!stages_are_open(&s->stages) ||
        batcher_names(&l->sequences->batcher, s)) {
        return;
    }
    stages_move(s, STAGES_REMOVING);
    m.grant = s->grant;
    leader_drafts_remove(l, s);
    leader_mirror_remove(l, s);
    leader_send(l, METHOD_STAGE_REMOVE, &m.base);
}

/* ---- plans ---- */

static void fill_row(struct leader *l, const struct batch *t, uint32_t i)
{
    struct forward_columns *c = &l->columns;
    const struct plan_row *row = &t->plan.rows[i];
    const struct sequence *s = t->owners[i];

    c->grant[i] = s->grant;
    c->position[i] = row->position;
    c->count[i] = row->n_tokens;
    c->kind[i] = row->kind == ROW_PROMPT
                     ? SLUICE__V1__STAGE_ROW__STAGE_ROW_PROMPT
                     : SLUICE__V1__STAGE_ROW__STAGE_ROW_GENERATED;
    c->kind[i] |= row->sample ? SLUICE__V1__STAGE_ROW__STAGE_ROW_SAMPLE : 0u;
    c->kind[i] |= row->mtp ? SLUICE__V1__STAGE_ROW__STAGE_ROW_MTP : 0u;
    c->index[i] = row->sample ? row->index : 0;
    /* Without the mark a stage would take its position for a mistake.  It may
     * wait for another plan already: one behind this was refused. */
    if (t->plan.step == s->plan.anew_step) {
        c->kind[i] |= SLUICE__V1__STAGE_ROW__STAGE_ROW_ANEW;
        c->index[i] = s->portable.n_generated;
    }
}

/* Adds the saves of a row that has run. */
static void fill_saves(struct leader *l, const struct batch *t, uint32_t i,
                       Sluice__V1__StageForward *m)
{
    struct forward_columns *c = &l->columns;
    const struct plan_row *row = &t->plan.rows[i];

    for (uint32_t k = 0; k < row->n_saves; k++) {
        const struct plan_save *save = &t->plan.saves[row->save + k];

        if (leader_saves(l, t->plan.step, save->page)) {
            c->save_row[m->n_save_row] = i;
            c->save_position[m->n_save_row] = save->position;
            c->save_checkpoint[m->n_save_row++] = save->page;
        }
    }
}

static void fill_columns(struct leader *l, const struct batch *t,
                         Sluice__V1__StageForward *m)
{
    struct forward_columns *c = &l->columns;

    for (uint32_t i = 0; i < t->plan.n_rows; i++) {
        fill_row(l, t, i);
        if (t->plan.rows[i].n_tokens == 0) {
            c->source[m->n_source++] = t->plan.rows[i].source;
        }
        if (!m->has_failure) {
            fill_saves(l, t, i, m);
        }
    }
    m->n_save_position = m->n_save_checkpoint = m->n_save_row;
    m->source = c->source;
    m->save_row = c->save_row;
    m->save_position = c->save_position;
    m->save_checkpoint = c->save_checkpoint;
}

static void send_forward(struct leader *l, const struct batch *t)
{
    struct forward_columns *c = &l->columns;
    const struct plan_result *r = &l->sequences->result;
    Sluice__V1__StageForward m = SLUICE__V1__STAGE_FORWARD__INIT;
    uint32_t device_us = r->device_us;

    m.has_failure = r->status != ST_OK;
    m.failure = wire_text(m.has_failure ? r->error.text : "");
    leader_send_gone(l);
    leader_mirror_twins(l, t);
    fill_columns(l, t, &m);
    leader_fill_drafts(l, t, &m);
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
    assembly_send_forward(l->assembly, &m, m.has_failure ? NULL : r->hidden,
                          t->plan.n_tokens);
}

/* The engine has computed t: the microbatch goes on to the next stage. */
static void pass_on(struct leader *l, const struct batch *t)
{
    struct sequences *q = l->sequences;

    q->n_results++;
    if (t->plan.step < l->first_step) { /* its assembly is over */
        rows_back(l, t);
        return;
    }
    results_check_answer(q, &t->plan);
    send_forward(l, t);
    batcher_pass(&q->batcher);
    /* Removes that waited for this plan can follow its Forward now. */
    for (uint32_t i = 0; i < t->plan.n_rows; i++) {
        if (t->owners[i]->state == SEQUENCE_RELEASING) {
            remove_stages(l, t->owners[i]);
        }
    }
}

static void take_results(void *self)
{
    struct leader *l = self;
    struct sequences *q = l->sequences;
    const struct batch *t;

    while ((t = batcher_here(&q->batcher)) != NULL && step_poll(q, &t->plan)) {
        pass_on(l, t);
    }
}

/* The first plan waits for the geometry: it may already save states. */
static void submit_plans(void *self)
{
    struct leader *l = self;

    if (l->known) {
        step_submit_plans(l->sequences);
    }
    leader_send_gone(l);
}

static uint32_t n_planned(const void *self)
{
    return ((const struct leader *)self)->sequences->batcher.here;
}

static const struct batch *oldest(const void *self)
{
    return batcher_here(&((const struct leader *)self)->sequences->batcher);
}

/* ---- Results ---- */

/* A microbatch takes as long as all stages together. */
static void learn_times(struct leader *l, const struct batch *t,
                        const Sluice__V1__StageResult *m)
{
    struct plan_result *r = &l->sequences->result;
    uint64_t us = 0;

    for (size_t i = 0; i < m->n_device_us; i++) {
        us += m->device_us[i];
    }
    r->device_us = us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
    draft_results_learn(l->sequences, t);
    results_learn(l->sequences, t);
}

static void recv_result(struct leader *l, const Sluice__V1__StageResult *m)
{
    const struct batch *t = batcher_oldest(&l->sequences->batcher);
    uint32_t n_stages = l->assembly->n_stages;
    unsigned long long step = m->step;

    if (l->sequences->batcher.inflight == l->sequences->batcher.here) {
        assembly_break(l->assembly,
                       "Result of step %llu, but no step is under way", step);
        return;
    }
    if (m->step != t->plan.step) {
        assembly_break(l->assembly,
                       "Result of step %llu, but the oldest step under way is "
                       "%llu",
                       step, (unsigned long long)t->plan.step);
        return;
    }
    if (m->n_device_us != n_stages) {
        assembly_break(l->assembly,
                       "Result of step %llu has times of %zu stages, but "
                       "there are %u",
                       step, m->n_device_us, n_stages);
        return;
    }
    if (leader_take_result(l, &t->plan, m)) {
        l->sequences->report.n_stage_us = n_stages;
        memcpy(l->sequences->report.stage_us, m->device_us,
               n_stages * sizeof l->sequences->report.stage_us[0]);
        results_count(l->sequences, t);
        learn_times(l, t, m);
        leader_accept(l, t);
        step_apply(l->sequences, t);
        batcher_return(&l->sequences->batcher);
    }
}

/* ---- receipts of Removes ---- */

static void recv_remove(struct leader *l, const Sluice__V1__StageRemove *m)
{
    struct sequence *s =
        m->grant == 0 ? NULL
                      : sequence_by_grant(&l->sequences->table, m->grant);
    unsigned long long grant = m->grant;
    uint32_t n = l->assembly->n_stages - 1;

    if (s == NULL || s->stages.state != STAGES_REMOVING) {
        assembly_break(l->assembly, "Remove of grant %llu, which was not sent",
                       grant);
        return;
    }
    if (m->n_blocks != n || m->n_slots != n || m->n_checkpoints != n ||
        !stage_column(m->n_windows, n)) {
        assembly_break(l->assembly,
                       "Remove of grant %llu has receipts of %zu, %zu, %zu and "
                       "%zu stages, but there are %u",
                       grant, m->n_blocks, m->n_slots, m->n_checkpoints,
                       m->n_windows, n);
        return;
    }
    /* The ring keeps the order, so no Result can be behind this Remove. */
    if (s->plan.inflight > 0) {
        assembly_break(l->assembly,
                       "Remove of grant %llu overtook the Results of %u "
                       "steps",
                       grant, s->plan.inflight);
        return;
    }
    ending_removed(l->sequences, s, m);
}

/* ---- tables ---- */

static void member_recv(void *self, struct peer *p, const struct method_row *m,
                        const ProtobufCMessage *message)
{
    struct leader *l = self;

    (void)p;
    switch (m->number) {
    case METHOD_STAGE_RESULT:
        recv_result(l, AS_REQUEST(STAGE_RESULT, message));
        break;
    case METHOD_STAGE_REMOVE:
        recv_remove(l, AS_REQUEST(STAGE_REMOVE, message));
        break;
    case METHOD_STAGE_GEOMETRY:
        leader_recv_geometry(l, AS_REQUEST(STAGE_GEOMETRY, message));
        break;
    default:
        assembly_break(l->assembly, "%s came to stage 0, which leads",
                       m->method);
    }
}

const struct member_ops leader_member = {.begin = member_begin,
                                         .up = member_up,
                                         .over = member_over,
                                         .recv = member_recv};

/* Nothing is adopted: a sequence that is submitted again starts anew, under a
 * grant of its own at every stage. */
const struct role_ops leader_role = {.check = check,
                                     .open = open_stages,
                                     .refuse = refuse_stages,
                                     .add_ids = add_ids,
                                     .remove = remove_stages,
                                     .take_results = take_results,
                                     .submit_plans = submit_plans,
                                     .n_planned = n_planned,
                                     .oldest = oldest,
                                     .adopts = false,
                                     .reuses = true,
                                     .make_room = leader_make_room,
                                     .restore = leader_restore,
                                     .freed = leader_freed,
                                     .insert = leader_insert,
                                     .keep = leader_keep,
                                     .replay = leader_replay,
                                     .keep_room = leader_keep_room,
                                     .keep_inputs = leader_keep_inputs,
                                     .refused = leader_refused};
