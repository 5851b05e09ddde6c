#include "worker/stages/stage.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/plant.h"
#include "common/sampling/sampling_message.h"
#include "worker/sequence/windows.h"
#include "worker/sequences/ending.h"
#include "worker/sequences/submit.h"

bool stage_is_last(const struct stage *g)
{
    return g->base->o.layer_end == g->base->o.n_layers;
}

/* ---- Open ---- */

static enum status check_columns(const struct stage *g,
                                 const Sluice__V1__StageOpen *m,
                                 struct error *e)
{
    const Sluice__V1__StageGrants *t = m->stages;
    size_t n = g->assembly->n_stages - 1;

    if (t->n_grant != n || (!m->void_ && (t->n_blocks != n || t->n_slots != n ||
                                          t->n_checkpoints != n ||
                                          !stage_column(t->n_windows, n)))) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "grants of %zu stages past the first, blocks of %zu, "
                         "slots of %zu, checkpoints of %zu, windows of %zu; "
                         "there are %zu",
                         t->n_grant, t->n_blocks, t->n_slots, t->n_checkpoints,
                         t->n_windows, n);
    }
    return ST_OK;
}

/* The leader's grants and this stage's own come in order, without gaps. */
static enum status check_order(const struct stage *g,
                               const Sluice__V1__StageOpen *m, struct error *e)
{
    uint64_t own = m->stages->grant[g->assembly->stage - 1];

    if (m->grant == 0 || (g->opened && m->grant != g->grant + 1)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the previous Open had grant %" PRIu64, g->grant);
    }
    if (own != g->sequences->ledger.grant + 1) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "this stage's grant %" PRIu64 " came after %" PRIu64,
                         own, g->sequences->ledger.grant);
    }
    return ST_OK;
}

static enum status check_lengths(const struct stage *g,
                                 const Sluice__V1__StageOpen *m,
                                 struct error *e)
{
    if (m->sampling == NULL || m->sequence == NULL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "sequence and sampling are required");
    }
    if (m->n_prompt == 0 || m->max_tokens == 0 ||
        (uint64_t)m->n_prompt + m->max_tokens > g->base->o.context) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "n_prompt %u and max_tokens %u: each at least 1, "
                         "together at most the context, %u",
                         m->n_prompt, m->max_tokens, g->base->o.context);
    }
    /* A sequence that moved here brings tokens of another worker. */
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

static struct pool_need need_of(const struct stage *g,
                                const Sluice__V1__StageOpen *m)
{
    uint32_t i = g->assembly->stage - 1;

    return (struct pool_need){
        {m->stages->blocks[i], m->stages->slots[i], m->stages->checkpoints[i],
         m->stages->n_windows > 0 ? m->stages->windows[i] : 0}};
}

/* Returns whether this stage keeps the ids of a sequence with that sampling:
 * only penalties need them, and only the last stage samples. */
static bool keeps_ids(const struct stage *g, const struct sampling *s)
{
    return stage_is_last(g) && sampling_penalises(s);
}

static bool fill_sequence(struct stage *g, struct sequence *s,
                          const Sluice__V1__StageOpen *m,
                          const struct sampling *sampling)
{
    s->portable.n_prompt = m->n_prompt;
    s->portable.max_tokens = m->max_tokens;
    s->portable.n_generated = m->n_generated;
    if (keeps_ids(g, sampling)) {
        s->arrival.n_announced = m->n_prompt + m->n_generated;
        s->arrival.n_received = (uint32_t)m->n_tokens;
        paged_write(&g->sequences->table.slab, &s->portable.tokens, 0,
                    m->tokens, s->arrival.n_received);
    }
    return sequence_set_sampling(&g->sequences->table, s, sampling);
}

/* Makes the arrays of a sequence.  Returns NULL if there is no room. */
static struct sequence *new_sequence(struct stage *g,
                                     const Sluice__V1__StageOpen *m,
                                     const struct pool_need *need,
                                     const struct sampling *sampling)
{
    struct sequence_table *t = &g->sequences->table;
    uint32_t n = m->n_prompt + m->max_tokens;
    struct sequence *s =
        sequence_new(t, keeps_ids(g, sampling) ? n : 0, need->n[POOL_BLOCKS]);

    if (s != NULL && (!windows_make(t, s, windows_blocks(&t->windows, n)) ||
                      !fill_sequence(g, s, m, sampling))) {
        sequence_free(t, &s);
    }
    return s;
}

static enum status
reserve_memory(struct stage *g, const Sluice__V1__StageOpen *m, struct error *e)
{
    struct pool_need need = need_of(g, m);
    struct sampling sampling;
    struct sequence *s;

    sampling_read(&sampling, m->sampling);
    if (pool_grant(&g->sequences->pool, &need, e) != ST_OK) {
        return e->code;
    }
    s = new_sequence(g, m, &need, &sampling);
    if (s == NULL) {
        pool_ungrant(&g->sequences->pool, &need);
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "%u sequences are here, at most %u fit, or fewer "
                         "where their ids fill the memory",
                         g->sequences->table.n_live,
                         g->sequences->table.capacity);
    }
    s->memory.need = need;
    *stage_note(g, s) = (struct stage_note){.spoilt_at = UINT32_MAX};
    /* For logs, and for the choice that random draws depend on.  The key is in
     * no hash: the router calls only the leader. */
    if (!sequence_key_read(&s->key, m->sequence, e)) {
        return e->code;
    }
    sequence_set_grant(&g->sequences->table, s, m->grant);
    if (s->arrival.n_received == s->arrival.n_announced) {
        sequence_move(&g->sequences->table, s, SEQUENCE_QUEUED);
    }
    return ST_OK;
}

/* Checkpoints are taken from free pages when a row saves them. */
static enum status check_need(const struct stage *g,
                              const Sluice__V1__StageOpen *m, struct error *e)
{
    struct pool_need need = need_of(g, m);

    if (need.n[POOL_CHECKPOINTS] > 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "need has %u checkpoints, a sequence has none",
                         need.n[POOL_CHECKPOINTS]);
    }
    return submit_check_need(g->sequences, &need, m->n_prompt + m->max_tokens,
                             e);
}

static enum status take_open(struct stage *g, const Sluice__V1__StageOpen *m,
                             struct error *e)
{
    struct sequence_key key;

    if (check_columns(g, m, e) != ST_OK || check_order(g, m, e) != ST_OK) {
        return e->code;
    }
    /* The grants are used up from here on, whatever becomes of the Open. */
    g->opened = true;
    g->grant = m->grant;
    if (!m->void_ || !PLANT(VOID_UNSETTLED)) {
        g->sequences->ledger.grant = m->stages->grant[g->assembly->stage - 1];
    }
    g->sequences->report.changed = true;
    /* A void Open only settles the grants. */
    if (m->void_) {
        return ST_OK;
    }
    if (check_lengths(g, m, e) != ST_OK ||
        !sequence_key_read(&key, m->sequence, e) ||
        sampling_check(m->sampling, g->base->o.vocab, e) != ST_OK ||
        check_need(g, m, e) != ST_OK ||
        submit_check_ids(g->sequences, m->tokens, m->n_tokens, 0, e) != ST_OK) {
        return e->code;
    }
    return reserve_memory(g, m, e);
}

void stage_recv_open(struct stage *g, const Sluice__V1__StageOpen *m)
{
    struct error e;

    if (take_open(g, m, &e) != ST_OK) {
        assembly_break(g->assembly, "Open of grant %" PRIu64 ": %s", m->grant,
                       e.text);
    } else if (!stage_is_last(g)) {
        relay_send(&g->relay, METHOD_STAGE_OPEN, &m->base);
    }
}

/* ---- OpenPart ---- */

static enum status
take_part(struct stage *g, const Sluice__V1__StageOpenPart *m, struct error *e)
{
    struct sequence *s = sequence_by_grant(&g->sequences->table, m->grant);

    if (m->grant == 0 || s == NULL) {
        return error_set(e, ST_NOT_FOUND, "the sequence is not open here");
    }
    /* Without penalties the ids are not needed. */
    if (!keeps_ids(g, &s->portable.sampling)) {
        return ST_OK;
    }
    if (m->offset != s->arrival.n_received || m->n_tokens == 0 ||
        m->n_tokens > s->arrival.n_announced - s->arrival.n_received) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%zu ids at %u, but %u of %u have come", m->n_tokens,
                         m->offset, s->arrival.n_received,
                         s->arrival.n_announced);
    }
    if (submit_check_ids(g->sequences, m->tokens, m->n_tokens, m->offset, e) !=
        ST_OK) {
        return e->code;
    }
    paged_write(&g->sequences->table.slab, &s->portable.tokens,
                s->arrival.n_received, m->tokens, (uint32_t)m->n_tokens);
    s->arrival.n_received += (uint32_t)m->n_tokens;
    if (s->arrival.n_received == s->arrival.n_announced &&
        s->state == SEQUENCE_RECEIVING) {
        sequence_move(&g->sequences->table, s, SEQUENCE_QUEUED);
    }
    return ST_OK;
}

void stage_recv_open_part(struct stage *g, const Sluice__V1__StageOpenPart *m)
{
    struct error e;

    if (!stage_is_last(g)) {
        relay_send(&g->relay, METHOD_STAGE_OPEN_PART, &m->base);
    } else if (take_part(g, m, &e) != ST_OK) {
        assembly_break(g->assembly, "OpenPart of grant %" PRIu64 ": %s",
                       m->grant, e.text);
    }
}

/* ---- Remove ---- */

/* Passes the Remove on, with what the previous stages and this one freed. */
static void send_remove(struct stage *g, const Sluice__V1__StageRemove *m,
                        const struct pool_need *freed)
{
    Sluice__V1__StageRemove out = SLUICE__V1__STAGE_REMOVE__INIT;
    uint32_t blocks[STAGES_MAX], slots[STAGES_MAX], checkpoints[STAGES_MAX];
    uint32_t windows[STAGES_MAX];
    uint32_t at = g->assembly->stage - 1;

    for (uint32_t i = 0; i < at; i++) {
        blocks[i] = m->blocks[i];
        slots[i] = m->slots[i];
        checkpoints[i] = m->checkpoints[i];
        windows[i] = m->n_windows > 0 ? m->windows[i] : 0;
    }
    blocks[at] = freed->n[POOL_BLOCKS] << PLANT(STAGE_RELEASE_TWICE);
    slots[at] = freed->n[POOL_SLOTS] << PLANT(STAGE_RELEASE_TWICE);
    checkpoints[at] = freed->n[POOL_CHECKPOINTS];
    windows[at] = freed->n[POOL_WINDOWS];
    out.grant = m->grant;
    out.n_blocks = out.n_slots = out.n_checkpoints = g->assembly->stage;
    out.blocks = blocks;
    out.slots = slots;
    out.checkpoints = checkpoints;
    out.n_windows = g->base->o.window > 0 ? g->assembly->stage : 0;
    out.windows = windows;
    relay_send(&g->relay, METHOD_STAGE_REMOVE, &out.base);
}

/* No plan names s any more. */
static void forget_sequence(struct stage *g, struct sequence *s)
{
    sequence_move(&g->sequences->table, s, SEQUENCE_FINISHED);
    sequence_free(&g->sequences->table, &s);
    g->sequences->report.changed = true;
}

void stage_plan_back(struct stage *g, struct sequence *s)
{
    if (s->grant == 0) { /* dropped with its assembly */
        ending_plan_back(g->sequences, s);
        return;
    }
    s->plan.inflight--;
    if (s->state == SEQUENCE_RELEASING && s->plan.inflight == 0) {
        forget_sequence(g, s);
    }
}

/* The memory is free at once: plans that still read it run before any that
 * writes to it.  The ids stay until those plans have returned. */
static struct pool_need release_sequence(struct stage *g, struct sequence *s)
{
    struct pool_need freed = s->memory.need;

    sequence_release(&g->sequences->table, s);
    sequence_move(&g->sequences->table, s, SEQUENCE_RELEASING);
    g->sequences->report.changed = true;
    if (s->plan.inflight == 0 || PLANT(MICROBATCH_OVERTAKES_REMOVE)) {
        forget_sequence(g, s);
    }
    return freed;
}

void stage_recv_remove(struct stage *g, const Sluice__V1__StageRemove *m)
{
    struct sequence *s = sequence_by_grant(&g->sequences->table, m->grant);
    size_t n = g->assembly->stage - 1;
    struct pool_need freed = {{0, 0, 0}};

    if (m->n_blocks != n || m->n_slots != n || m->n_checkpoints != n ||
        !stage_column(m->n_windows, n)) {
        assembly_break(g->assembly,
                       "Remove of grant %" PRIu64 ": receipts of %zu, %zu, %zu "
                       "and %zu stages, but it passed %zu",
                       m->grant, m->n_blocks, m->n_slots, m->n_checkpoints,
                       m->n_windows, n);
        return;
    }
    if (m->grant == 0 || (s != NULL && s->state == SEQUENCE_RELEASING)) {
        assembly_break(g->assembly, "Remove of grant %" PRIu64 ": it %s",
                       m->grant, m->grant == 0 ? "names none" : "came before");
        return;
    }
    if (s != NULL) {
        stage_free_kept(g, s);
        freed = release_sequence(g, s);
    }
    send_remove(g, m, &freed);
}

/* ---- made and freed ---- */

static void microbatch_free(struct microbatch *b)
{
    batch_fini(&b->batch);
    free(b->samples);
    free(b->anew);
    free(b->drafts);
    free(b->propose);
    free(b->save_row);
    free(b->save_position);
    free(b->save_checkpoint);
    b->samples = b->anew = NULL;
    b->drafts = b->propose = NULL;
    b->save_row = b->save_position = b->save_checkpoint = NULL;
}

static bool microbatch_make(struct stage *g, struct microbatch *b)
{
    const struct worker_options *o = &g->base->o;
    struct batcher_limits l = batch_limits(o, 1);
    size_t saves = (size_t)o->max_rows * PLAN_SAVES_MAX;

    /* Kept from an earlier assembly: the options do not change. */
    if (b->made) {
        return true;
    }
    b->samples = malloc(o->max_rows * sizeof *b->samples);
    b->anew = malloc(o->max_rows * sizeof *b->anew);
    b->drafts = malloc(o->max_rows * sizeof *b->drafts);
    b->propose = malloc(o->max_rows * sizeof *b->propose);
    b->save_row = malloc(saves * sizeof *b->save_row);
    b->save_position = malloc(saves * sizeof *b->save_position);
    b->save_checkpoint = malloc(saves * sizeof *b->save_checkpoint);
    b->made = batch_init(&b->batch, &l) && b->samples != NULL &&
              b->anew != NULL && b->drafts != NULL && b->propose != NULL &&
              b->save_row != NULL && b->save_position != NULL &&
              b->save_checkpoint != NULL;
    if (!b->made) {
        microbatch_free(b);
    }
    return b->made;
}

void stage_init(struct stage *g, struct sequences *q, struct assembly *a)
{
    memset(g, 0, sizeof *g);
    g->base = q->base;
    g->sequences = q;
    g->assembly = a;
    relay_init(&g->relay, a);
}

struct stage_note *stage_note(const struct stage *g, const struct sequence *s)
{
    return &g->notes[s - g->sequences->table.memory];
}

void stage_spoil(const struct stage *g, struct sequence *s, uint32_t position)
{
    struct stage_note *note = stage_note(g, s);

    if (!PLANT(SPOILT_FORGOTTEN)) {
        note->spoilt_at =
            position < note->spoilt_at ? position : note->spoilt_at;
    }
}

/* Allocates what all assemblies share. */
static bool make_once(struct stage *g)
{
    struct sequence_table *t = &g->sequences->table;

    if (g->columns != NULL) {
        return true;
    }
    if (g->notes == NULL) {
        g->notes = calloc(t->capacity, sizeof *g->notes);
    }
    if (g->copies == NULL) {
        g->copies = malloc(PLAN_COPIES_MAX * sizeof *g->copies);
    }
    if (g->notes == NULL || g->copies == NULL ||
        (g->cache.memory == NULL &&
         !stage_cache_init(&g->cache, t, g->base->o.block_tokens))) {
        return false;
    }
    ledger_set_index(&g->sequences->ledger, stage_cache_walk, &g->cache);
    g->columns = malloc(sizeof *g->columns);
    return g->columns != NULL;
}

bool stage_begin(struct stage *g)
{
    bool ok = make_once(g);

    /* One more than the ring allows: the engine may still have one of the last
     * assembly. */
    for (uint32_t i = 0; i <= g->assembly->n_stages && ok; i++) {
        ok = microbatch_make(g, &g->memory[i]);
    }
    /* Grants and steps start anew in each assembly. */
    g->opened = false;
    g->grant = g->step = 0;
    g->n_copies = g->n_replays = 0;
    keeps_init(&g->keeps, g->base->o.drafting.keep_tokens);
    relay_clear(&g->relay, assembly_stream_bytes(&g->sequences->table));
    return ok;
}

void stage_fini(struct stage *g)
{
    for (uint32_t i = 0; i <= STAGES_MAX; i++) {
        microbatch_free(&g->memory[i]);
        frame_free(&g->memory[i].x);
    }
    relay_fini(&g->relay);
    stage_cache_fini(&g->cache);
    free(g->notes);
    free(g->copies);
    free(g->columns);
    memset(g, 0, sizeof *g);
}
