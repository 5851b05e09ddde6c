/* stage.c - what comes down the stream but Forward, and its sequences. */
#include "worker/stages/stage.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/plant.h"
#include "common/sampling/sampling_message.h"
#include "worker/stages/stage_line.h"
#include "worker/worker_state.h"

bool stage_is_last(const struct worker_core *w)
{
    return w->o.layer_end == w->o.n_layers;
}

/* ---- Open ---- */

static enum status check_columns(const struct worker_core *w,
                                 const Sluice__V1__StageOpen *m,
                                 struct error *e)
{
    const Sluice__V1__StageGrants *t = m->stages;
    size_t n = w->assembly.n_stages - 1;

    if (t->n_grant != n || (!m->void_ && (t->n_blocks != n || t->n_slots != n ||
                                          t->n_checkpoints != n))) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "grants of %zu stages past the first, blocks of %zu, "
                         "slots of %zu, checkpoints of %zu: there are %zu",
                         t->n_grant, t->n_blocks, t->n_slots, t->n_checkpoints,
                         n);
    }
    return ST_OK;
}

/* The leader's grants and this stage's come in their order, without gaps. */
static enum status check_order(const struct worker_core *w,
                               const Sluice__V1__StageOpen *m, struct error *e)
{
    uint64_t own = m->stages->grant[w->assembly.stage - 1];

    if (m->grant == 0 || (w->stage.opened && m->grant != w->stage.grant + 1)) {
        return error_set(e, ST_INVALID_ARGUMENT, "it came after grant %" PRIu64,
                         w->stage.grant);
    }
    if (own != w->ledger.grant + 1) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "this stage's grant %" PRIu64 " came after %" PRIu64,
                         own, w->ledger.grant);
    }
    return ST_OK;
}

static enum status check_lengths(const struct worker_core *w,
                                 const Sluice__V1__StageOpen *m,
                                 struct error *e)
{
    if (m->sampling == NULL || m->sequence == NULL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "sequence and sampling must be there");
    }
    if (m->n_prompt == 0 || m->max_tokens == 0 ||
        (uint64_t)m->n_prompt + m->max_tokens > w->o.context) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "n_prompt %u and max_tokens %u: each at least 1, "
                         "together at most the context, %u",
                         m->n_prompt, m->max_tokens, w->o.context);
    }
    if (m->n_generated > m->max_tokens ||
        m->n_tokens > m->n_prompt + m->n_generated) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "n_generated %u of max_tokens %u, %zu ids came with "
                         "it, n_prompt is %u",
                         m->n_generated, m->max_tokens, m->n_tokens,
                         m->n_prompt);
    }
    return ST_OK;
}

static struct pool_need need_of(const struct worker_core *w,
                                const Sluice__V1__StageOpen *m)
{
    uint32_t i = w->assembly.stage - 1;

    return (struct pool_need){
        {m->stages->blocks[i], m->stages->slots[i], m->stages->checkpoints[i]}};
}

/* Does this stage keep the ids of what is sampled so? */
static bool keeps_ids(const struct worker_core *w, const struct sampling *s)
{
    return stage_is_last(w) && sampling_penalises(s);
}

static bool fill(struct worker_core *w, struct sequence *s,
                 const Sluice__V1__StageOpen *m,
                 const struct sampling *sampling)
{
    s->n_prompt = m->n_prompt;
    s->max_tokens = m->max_tokens;
    s->n_generated = m->n_generated;
    if (keeps_ids(w, sampling)) {
        s->n_announced = m->n_prompt + m->n_generated;
        s->n_received = (uint32_t)m->n_tokens;
        paged_write(&w->table.slab, &s->tokens, 0, m->tokens, s->n_received);
    }
    return sequence_set_sampling(&w->table, s, sampling);
}

static enum status reserve(struct worker_core *w,
                           const Sluice__V1__StageOpen *m, struct error *e)
{
    struct pool_need need = need_of(w, m);
    struct sampling sampling;
    struct sequence *s;

    sampling_read(&sampling, m->sampling);
    if (pool_grant(&w->pool, &need, e) != ST_OK) {
        return e->code;
    }
    s = sequence_new(&w->table,
                     keeps_ids(w, &sampling) ? m->n_prompt + m->max_tokens : 0,
                     need.n[POOL_BLOCKS]);
    if (s != NULL && !fill(w, s, m, &sampling)) {
        sequence_free(&w->table, &s);
    }
    if (s == NULL) {
        pool_ungrant(&w->pool, &need);
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "%u sequences are here, at most %u, less where their "
                         "ids fill the memory",
                         w->table.n_live, w->table.capacity);
    }
    s->need = need;
    /* A name for logs, and the choice of draws: nobody asks for it here. */
    if (!worker_key(m->sequence, &s->key, e)) {
        return e->code;
    }
    sequence_set_grant(&w->table, s, m->grant);
    if (s->n_received == s->n_announced) {
        sequence_move(&w->table, s, SEQUENCE_QUEUED);
    }
    return ST_OK;
}

static enum status take_in(struct worker_core *w,
                           const Sluice__V1__StageOpen *m, struct error *e)
{
    struct sequence_key key;
    struct pool_need need;

    if (check_columns(w, m, e) != ST_OK || check_order(w, m, e) != ST_OK) {
        return e->code;
    }
    w->stage.opened = true;
    w->stage.grant = m->grant;
    if (!m->void_ || !PLANT(VOID_UNSETTLED)) {
        w->ledger.grant = m->stages->grant[w->assembly.stage - 1];
    }
    w->changed = true;
    if (m->void_) {
        return ST_OK;
    }
    need = need_of(w, m);
    if (check_lengths(w, m, e) != ST_OK || !worker_key(m->sequence, &key, e) ||
        sampling_check(m->sampling, w->o.vocab, e) != ST_OK ||
        submit_check_need(w, &need, m->n_prompt + m->max_tokens, e) != ST_OK ||
        submit_check_ids(w, m->tokens, m->n_tokens, 0, e) != ST_OK) {
        return e->code;
    }
    return reserve(w, m, e);
}

void stage_recv_open(struct worker_core *w, const Sluice__V1__StageOpen *m)
{
    struct error e;

    if (take_in(w, m, &e) != ST_OK) {
        assembly_break(w, "Open of grant %" PRIu64 ": %s", m->grant, e.text);
    } else if (!stage_is_last(w)) {
        assembly_send(w, METHOD_STAGE_OPEN, &m->base);
    }
}

/* ---- OpenPart ---- */

static enum status take_part(struct worker_core *w,
                             const Sluice__V1__StageOpenPart *m,
                             struct error *e)
{
    struct sequence *s = sequence_by_grant(&w->table, m->grant);

    if (m->grant == 0 || s == NULL) {
        return error_set(e, ST_NOT_FOUND, "it is not open here");
    }
    if (!keeps_ids(w, &s->sampling)) {
        return ST_OK;
    }
    if (m->offset != s->n_received || m->n_tokens == 0 ||
        m->n_tokens > s->n_announced - s->n_received) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%zu ids at %u, %u of %u are here", m->n_tokens,
                         m->offset, s->n_received, s->n_announced);
    }
    if (submit_check_ids(w, m->tokens, m->n_tokens, m->offset, e) != ST_OK) {
        return e->code;
    }
    paged_write(&w->table.slab, &s->tokens, s->n_received, m->tokens,
                (uint32_t)m->n_tokens);
    s->n_received += (uint32_t)m->n_tokens;
    if (s->n_received == s->n_announced && s->state == SEQUENCE_RECEIVING) {
        sequence_move(&w->table, s, SEQUENCE_QUEUED);
    }
    return ST_OK;
}

void stage_recv_open_part(struct worker_core *w,
                          const Sluice__V1__StageOpenPart *m)
{
    struct error e;

    if (!stage_is_last(w)) {
        assembly_send(w, METHOD_STAGE_OPEN_PART, &m->base);
    } else if (take_part(w, m, &e) != ST_OK) {
        assembly_break(w, "OpenPart of grant %" PRIu64 ": %s", m->grant,
                       e.text);
    }
}

/* ---- Remove ---- */

/* What the stages passed have freed, and this one. */
static void send_remove(struct worker_core *w, uint64_t grant,
                        struct stage_passed *p, const struct pool_need *freed)
{
    Sluice__V1__StageRemove m = SLUICE__V1__STAGE_REMOVE__INIT;
    uint32_t at = w->assembly.stage - 1;

    p->blocks[at] = freed->n[POOL_BLOCKS] << PLANT(STAGE_RELEASE_TWICE);
    p->slots[at] = freed->n[POOL_SLOTS] << PLANT(STAGE_RELEASE_TWICE);
    p->checkpoints[at] = freed->n[POOL_CHECKPOINTS];
    m.grant = grant;
    m.n_blocks = m.n_slots = m.n_checkpoints = w->assembly.stage;
    m.blocks = p->blocks;
    m.slots = p->slots;
    m.checkpoints = p->checkpoints;
    assembly_send(w, METHOD_STAGE_REMOVE, &m.base);
}

static struct stage_passed *passed_of(struct worker_core *w,
                                      const struct sequence *s)
{
    return &w->stage.passed[s - w->table.memory];
}

/* No plan names it: its memory is free from here. */
static void depart(struct worker_core *w, struct sequence *s)
{
    struct pool_need freed = s->need;

    sequence_release(&w->table, s);
    sequence_move(&w->table, s, SEQUENCE_FINISHED);
    send_remove(w, s->grant, passed_of(w, s), &freed);
    sequence_free(&w->table, &s);
    w->changed = true;
}

void stage_plan_back(struct worker_core *w, struct sequence *s)
{
    if (s->grant == 0) { /* dropped with its assembly */
        worker_plan_back(w, s);
        return;
    }
    s->inflight--;
    if (s->state == SEQUENCE_RELEASING && s->inflight == 0) {
        depart(w, s);
    }
}

static void copy(uint32_t *out, const uint32_t *in, size_t n)
{
    if (n > 0) {
        memcpy(out, in, n * sizeof *in);
    }
}

void stage_recv_remove(struct worker_core *w, const Sluice__V1__StageRemove *m)
{
    static const struct pool_need nothing;
    struct sequence *s = sequence_by_grant(&w->table, m->grant);
    size_t n = w->assembly.stage - 1;
    struct stage_passed passed;

    if (m->n_blocks != n || m->n_slots != n || m->n_checkpoints != n) {
        assembly_break(w,
                       "Remove of grant %" PRIu64 ": receipts of %zu, %zu and "
                       "%zu stages, it has passed %zu",
                       m->grant, m->n_blocks, m->n_slots, m->n_checkpoints, n);
        return;
    }
    if (m->grant == 0 || (s != NULL && s->state == SEQUENCE_RELEASING)) {
        assembly_break(w, "Remove of grant %" PRIu64 ": it %s", m->grant,
                       m->grant == 0 ? "names none" : "came before");
        return;
    }
    copy(passed.blocks, m->blocks, n);
    copy(passed.slots, m->slots, n);
    copy(passed.checkpoints, m->checkpoints, n);
    if (s == NULL) {
        send_remove(w, m->grant, &passed, &nothing);
        return;
    }
    *passed_of(w, s) = passed;
    sequence_move(&w->table, s, SEQUENCE_RELEASING);
    if (s->inflight == 0 || PLANT(MICROBATCH_OVERTAKES_REMOVE)) {
        depart(w, s);
    }
}

/* ---- made, begun, ended ---- */

static bool microbatch_make(struct worker_core *w, struct microbatch *b)
{
    const struct worker_options *o = &w->o;
    struct batcher_limits l = {.max_rows = o->max_rows,
                               .step_tokens = o->step_tokens,
                               .block_tokens = o->block_tokens,
                               .n_blocks = o->n_blocks,
                               .n_slots = o->n_slots};

    if (b->made) {
        return true;
    }
    b->samples = malloc(o->max_rows * sizeof *b->samples);
    b->made = batch_init(&b->batch, &l) && b->samples != NULL;
    if (!b->made) {
        batch_fini(&b->batch);
        free(b->samples);
        b->samples = NULL;
    }
    return b->made;
}

bool stage_begin(struct worker_core *w)
{
    struct stage *g = &w->stage;
    bool ok = true;

    if (g->passed == NULL) {
        g->passed = malloc(w->table.capacity * sizeof *g->passed);
    }
    if (g->columns == NULL) {
        g->columns = malloc(sizeof *g->columns);
    }
    /* One more: what the engine has of the last assembly. */
    for (uint32_t i = 0; i <= w->assembly.n_stages && ok; i++) {
        ok = microbatch_make(w, &g->memory[i]);
    }
    g->opened = false;
    g->grant = g->step = 0;
    return ok && g->passed != NULL && g->columns != NULL;
}

void stage_free(struct worker_core *w)
{
    struct stage *g = &w->stage;

    for (uint32_t i = 0; i <= STAGES_MAX; i++) {
        batch_fini(&g->memory[i].batch);
        free(g->memory[i].samples);
        frame_free(&g->memory[i].x);
    }
    free(g->passed);
    free(g->columns);
    memset(g, 0, sizeof *g);
}
