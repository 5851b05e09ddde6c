/* Forward: the rows of a microbatch, and their hidden states.
 *
 *   1 columns, numbers and the tensor match each other and the previous step
 *   2 each row matches the state of its sequence
 *   3 its memory is taken and its plan made; the microbatch joins the line
 *
 * A Forward that came as failed passes 1, and of 2 only what its memory depends
 * on: it takes memory like any other, but nothing is computed for it. */
#include <inttypes.h>
#include <string.h>

#include "common/base/plant.h"
#include "worker/stages/stage.h"

#define KIND_GENERATED ((uint32_t)SLUICE__V1__STAGE_ROW__STAGE_ROW_GENERATED)
#define KIND_SAMPLE    ((uint32_t)SLUICE__V1__STAGE_ROW__STAGE_ROW_SAMPLE)
#define KIND_ANEW      ((uint32_t)SLUICE__V1__STAGE_ROW__STAGE_ROW_ANEW)
#define KIND_MTP       ((uint32_t)SLUICE__V1__STAGE_ROW__STAGE_ROW_MTP)
#define KIND_ALL       (KIND_GENERATED | KIND_SAMPLE | KIND_ANEW | KIND_MTP)

/* ---- the message ---- */

static enum status check_columns(const struct stage *g,
                                 const Sluice__V1__StageForward *m,
                                 struct error *e)
{
    size_t n = m->n_grant;

    if (m->n_position != n || m->n_count != n || m->n_kind != n ||
        m->n_index != n) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "columns of %zu grants, %zu positions, %zu counts, "
                         "%zu kinds, %zu indices",
                         n, m->n_position, m->n_count, m->n_kind, m->n_index);
    }
    if (m->n_save_position != m->n_save_row ||
        m->n_save_checkpoint != m->n_save_row ||
        m->n_save_row > n * PLAN_SAVES_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "columns of %zu rows, %zu positions and %zu names of "
                         "saves, in %zu rows",
                         m->n_save_row, m->n_save_position,
                         m->n_save_checkpoint, n);
    }
    if (n < 1 || n > g->assembly->max_rows) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%zu rows, but a step has 1 to %u", n,
                         g->assembly->max_rows);
    }
    if (m->n_device_us != g->assembly->stage) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "times of %zu stages, but it passed %u",
                         m->n_device_us, g->assembly->stage);
    }
    return ST_OK;
}

/* Rows without tokens are twins, and only these. */
static enum status check_twins(const Sluice__V1__StageForward *m,
                               struct error *e)
{
    size_t n = 0;

    for (size_t i = 0; i < m->n_count; i++) {
        n += m->count[i] == 0;
    }
    return n == m->n_source
               ? ST_OK
               : error_set(e, ST_INVALID_ARGUMENT,
                           "%zu rows without tokens, but %zu sources", n,
                           m->n_source);
}

/* Forwards come in the order of the leader's steps, and never more at once than
 * the ring has stages.  A microbatch of an assembly that is over does not
 * count. */
static enum status check_turn(const struct stage *g,
                              const Sluice__V1__StageForward *m,
                              struct error *e)
{
    uint32_t here = g->n - (g->n > 0 && g->line[0]->over ? 1 : 0);

    if (m->step <= g->step) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the previous step was %" PRIu64, g->step);
    }
    if (here >= g->assembly->n_stages) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%u steps are here already, at most %u may be", here,
                         g->assembly->n_stages);
    }
    if (m->has_failure && !wire_text_ok(m->failure, 1, ERROR_TEXT - 1)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "a failure of %zu bytes, but it must be 1 to %d "
                         "bytes of UTF-8",
                         m->failure.len, ERROR_TEXT - 1);
    }
    return ST_OK;
}

/* The tensor is [sum of count, H] float32; a failed step has none. */
static enum status check_tensor(const struct stage *g,
                                const Sluice__V1__StageForward *m,
                                uint32_t bytes, struct error *e)
{
    uint64_t row = (uint64_t)g->base->o.hidden * sizeof(float);
    uint64_t n = 0;

    if (m->has_failure) {
        return bytes == 0
                   ? ST_OK
                   : error_set(e, ST_INVALID_ARGUMENT,
                               "a failure with a tensor of %u bytes", bytes);
    }
    for (size_t i = 0; i < m->n_count; i++) {
        n += m->count[i];
    }
    if (n > g->assembly->step_tokens) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%" PRIu64 " tokens, but a step has at most %u", n,
                         g->assembly->step_tokens);
    }
    if (bytes != n * row) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "a tensor of %u bytes, but %" PRIu64 " tokens of %u "
                         "float32 have %" PRIu64,
                         bytes, n, g->base->o.hidden, n * row);
    }
    return ST_OK;
}

/* ---- a row ---- */

/* Returns the end of the row's known ids; drafts follow them. */
static uint32_t known_end(const Sluice__V1__StageForward *m, size_t i)
{
    return m->position[i] + m->count[i] - stage_drafts_of(m, i);
}

/* Checks a row of a sequence that is not spoilt.  It samples if, and only if,
 * it reaches the last known id. */
static enum status check_place(const struct sequence *s,
                               const Sluice__V1__StageForward *m, size_t i,
                               struct error *e)
{
    bool samples = (m->kind[i] & KIND_SAMPLE) != 0;
    uint32_t end = known_end(m, i);
    uint32_t known = sequence_known(s);

    if (m->position[i] != s->plan.n_planned) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "position %u, but the next one is %u", m->position[i],
                         s->plan.n_planned);
    }
    if (end > known || samples != (end == known) || s->plan.pending > 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "positions to %u %s a token, but %u ids are known and "
                         "%u more are being sampled",
                         end, samples ? "with" : "without", known,
                         s->plan.pending);
    }
    if (m->index[i] != (samples || (m->kind[i] & KIND_ANEW) != 0
                            ? s->portable.n_generated
                            : 0) ||
        (samples && s->portable.n_generated >= s->portable.max_tokens)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "index %u, but %u of at most %u tokens are generated",
                         m->index[i], s->portable.n_generated,
                         s->portable.max_tokens);
    }
    if (samples && s->arrival.n_received < s->arrival.n_announced) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "it samples, but only %u of %u ids have come",
                         s->arrival.n_received, s->arrival.n_announced);
    }
    return ST_OK;
}

/* A twin gets its first token from the logits of another row: that of the same
 * prompt's last token. */
static enum status check_twin(const struct stage *g, const struct microbatch *b,
                              const struct sequence *s,
                              const Sluice__V1__StageForward *m, size_t i,
                              uint32_t source, struct error *e)
{
    const struct plan_row *row;

    if (source >= i || m->count[source] == 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the source of a twin is row %u, but it must be a row "
                         "with tokens before it",
                         source);
    }
    row = &b->batch.plan.rows[source];
    if (s->plan.n_planned > 0 || s->portable.n_generated > 0 ||
        s->memory.n_blocks > 0 || stage_note(g, s)->restored ||
        (m->kind[i] & KIND_ANEW) != 0 ||
        (m->kind[i] | KIND_MTP) != (m->kind[source] | KIND_MTP)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "a twin of kind %u, at position %u with %u generated "
                         "tokens, of a row of kind %u",
                         m->kind[i], s->plan.n_planned, s->portable.n_generated,
                         m->kind[source]);
    }
    if (m->position[i] != s->portable.n_prompt ||
        row->position + row->n_tokens != s->portable.n_prompt ||
        b->batch.owners[source]->portable.n_prompt != s->portable.n_prompt ||
        m->index[i] != 0 || (m->kind[i] & KIND_SAMPLE) == 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "a twin at %u, token %u, of a prompt of %u, whose "
                         "source ends at %u",
                         m->position[i], m->index[i], s->portable.n_prompt,
                         row->position + row->n_tokens);
    }
    return ST_OK;
}

/* A run of generated ids may be part of a prompt, so only rows behind the
 * prompt have one possible kind. */
static enum status check_row(const struct stage *g, const struct sequence *s,
                             const Sluice__V1__StageForward *m, size_t i,
                             struct error *e)
{
    uint64_t end = (uint64_t)m->position[i] + m->count[i];
    bool generated = (m->kind[i] & KIND_GENERATED) != 0;

    if (m->kind[i] > KIND_ALL) {
        return error_set(e, ST_INVALID_ARGUMENT, "kind %u", m->kind[i]);
    }
    if (end > (uint64_t)s->portable.n_prompt + s->portable.max_tokens) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%u tokens at %u, but there are %u positions",
                         m->count[i], m->position[i],
                         s->portable.n_prompt + s->portable.max_tokens);
    }
    if (generated ? m->position[i] < s->portable.n_prompt &&
                        end > s->portable.n_prompt
                  : end > s->portable.n_prompt) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s positions %u to %" PRIu64
                         ", but the prompt has %u",
                         generated ? "generated" : "prompt", m->position[i],
                         end, s->portable.n_prompt);
    }
    if (stage_check_draft_row(g, s, m, i, e) != ST_OK) {
        return e->code;
    }
    return stage_is_spoilt(g, s) || m->has_failure || m->count[i] == 0
               ? ST_OK
               : check_place(s, m, i, e);
}

/* Lets s begin anew if row i asks for it: the leader computes it again after a
 * failed step, from the begin or from where a Restore put it.  A stage before
 * the one that failed has counted a token that the leader never got, and no
 * stage has counted fewer. */
static enum status begin_anew(const struct stage *g, struct sequence *s,
                              const Sluice__V1__StageForward *m, size_t i,
                              struct error *e)
{
    uint32_t from = stage_note(g, s)->restored ? s->plan.n_planned : 0;

    if ((m->kind[i] & KIND_ANEW) == 0) {
        return ST_OK;
    }
    if ((m->position[i] != 0 && m->position[i] != from) ||
        s->plan.inflight > 0 || m->index[i] > s->portable.n_generated) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "it begins anew at position %u with %u generated "
                         "tokens, but %u are counted here, and %u steps with "
                         "it are on their way",
                         m->position[i], m->index[i], s->portable.n_generated,
                         s->plan.inflight);
    }
    s->plan.n_planned = m->position[i];
    s->plan.pending = 0;
    s->portable.n_generated = m->index[i];
    if (!PLANT(RESTART_SPOILT)) {
        stage_note(g, s)->spoilt_at = UINT32_MAX;
    }
    return ST_OK;
}

/* Returns the sequence of row i; NULL with e set if it may not have a row. */
static struct sequence *sequence_of(const struct stage *g,
                                    const Sluice__V1__StageForward *m, size_t i,
                                    struct error *e)
{
    struct sequence *s =
        m->grant[i] == 0 ? NULL
                         : sequence_by_grant(&g->sequences->table, m->grant[i]);

    if (s == NULL || s->state == SEQUENCE_RELEASING) {
        error_set(e, ST_NOT_FOUND,
                  s == NULL ? "the sequence is not open here"
                            : "the sequence is removed");
        return NULL;
    }
    if (s->plan.last_step == m->step || stage_note(g, s)->cut) {
        error_set(e, ST_INVALID_ARGUMENT, "the sequence %s",
                  s->plan.last_step == m->step
                      ? "has a row already"
                      : "is kept: a range was removed");
        return NULL;
    }
    return s;
}

/* ---- the plan ---- */

/* Fills row i for the engine, and for the columns that go to the next stage. */
static void fill_row(struct microbatch *b, struct sequence *s,
                     const Sluice__V1__StageForward *m,
                     const struct stage_cursor *at)
{
    struct plan *p = &b->batch.plan;
    size_t i = at->row;

    p->rows[i] = (struct plan_row){
        .sequence = s->number,
        .kind = m->kind[i] & KIND_GENERATED ? ROW_GENERATED : ROW_PROMPT,
        .position = m->position[i],
        .n_tokens = m->count[i],
        .token = p->n_tokens,
        .slot = SLOT_NONE,
        .source = m->count[i] == 0 ? m->source[at->twin] : 0,
        .save = p->n_saves,
        .sample = (m->kind[i] & KIND_SAMPLE) != 0,
        .index = m->index[i],
        .choice = s->key.choice,
        .sampling = &s->portable.sampling,
    };
    b->samples[i] = p->rows[i].sample;
    b->anew[i] = (m->kind[i] & KIND_ANEW) != 0;
    b->batch.owners[i] = s;
    p->n_rows++;
    s->plan.inflight++;
    s->plan.last_step = m->step;
    s->plan.pending += b->samples[i] ? 1 : 0;
}

/* The leader has not counted the moves of this stage: the plan takes as many as
 * an engine does. */
static struct batcher_limits limits(const struct stage *g)
{
    struct batcher_limits l = batch_limits(&g->base->o, 1);

    l.copies = PLAN_COPIES_MAX;
    return l;
}

/* Takes the memory of a row; a twin has its source's full blocks. */
static enum status take_memory(struct stage *g, struct microbatch *b,
                               struct sequence *s,
                               const Sluice__V1__StageForward *m,
                               const struct stage_cursor *at, struct error *e)
{
    struct batcher_limits l = limits(g);
    uint32_t end = m->position[at->row] + m->count[at->row], source;
    uint32_t most = end + stage_propose_of(m, at->row);

    if (m->count[at->row] == 0) {
        source = m->source[at->twin];
        if (check_twin(g, b, s, m, at->row, source, e) != ST_OK ||
            stage_cache_twin(&g->cache, b->batch.owners[source], s, end, e) !=
                ST_OK) {
            return e->code;
        }
        s->plan.n_planned = end;
        if (stage_is_spoilt(g, b->batch.owners[source])) {
            stage_spoil(g, s, 0);
        }
    }
    if (!batch_has_room(&l, &g->sequences->pool, &b->batch, s, most)) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "the step moves more than %u blocks or names more "
                         "than %u",
                         PLAN_COPIES_MAX, PLAN_BLOCKS_MAX);
    }
    return batch_take_blocks(&l, &g->sequences->table, s, most) &&
                   batch_take_memory(&l, &g->sequences->table, &b->batch, s,
                                     m->position[at->row], end)
               ? ST_OK
               : error_set(e, ST_INTERNAL,
                           "the memory granted to the sequence was not there");
}

static enum status check_save(const struct microbatch *b,
                              const Sluice__V1__StageForward *m,
                              const struct stage_cursor *at, struct error *e)
{
    const struct plan_row *row = &b->batch.plan.rows[at->row];
    uint32_t position = m->save_position[at->save];
    uint32_t above = row->position;

    if (row->n_saves > 0) {
        above = m->save_position[at->save - 1];
    }
    if (row->n_drafts > 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "it saves at %u, but a row with drafts saves nothing",
                         position);
    }
    if (row->n_saves == PLAN_SAVES_MAX || position % PREFIX_UNIT != 0 ||
        position <= above || position > row->position + row->n_tokens) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "its save %u is at %u, which is not a multiple of %u "
                         "above %u, at most %u",
                         row->n_saves, position, PREFIX_UNIT, above,
                         row->position + row->n_tokens);
    }
    return ST_OK;
}

/* Takes the checkpoints that the row saves.  A failed step takes them too,
 * because other stages have; the leader gives them up. */
static enum status take_saves(struct stage *g, struct microbatch *b,
                              const Sluice__V1__StageForward *m,
                              struct stage_cursor *at, struct error *e)
{
    struct plan *p = &b->batch.plan;
    struct batcher_limits l = limits(g);

    for (; at->save < m->n_save_row && m->save_row[at->save] == at->row;
         at->save++) {
        struct plan_save *save = &p->saves[p->n_saves];

        if (check_save(b, m, at, e) != ST_OK) {
            return e->code;
        }
        if (!batch_has_copies(&l, &b->batch)) {
            return error_set(e, ST_RESOURCE_EXHAUSTED,
                             "the step moves more than %u blocks",
                             PLAN_COPIES_MAX);
        }
        if (stage_cache_save(&g->cache, m->save_checkpoint[at->save],
                             &save->page, e) != ST_OK) {
            return e->code;
        }
        batch_carry(&b->batch, &g->sequences->pool);
        save->position = m->save_position[at->save];
        if (save->page != SLOT_NONE) {
            p->rows[at->row].n_saves++;
            p->n_saves++;
        }
    }
    return ST_OK;
}

static enum status add_row(struct stage *g, struct microbatch *b,
                           struct sequence *s,
                           const Sluice__V1__StageForward *m,
                           struct stage_cursor *at, struct error *e)
{
    struct plan *p = &b->batch.plan;
    struct plan_row *row = &p->rows[at->row];
    uint32_t end = known_end(m, at->row);

    if (check_row(g, s, m, at->row, e) != ST_OK ||
        take_memory(g, b, s, m, at, e) != ST_OK) {
        return e->code;
    }
    fill_row(b, s, m, at);
    stage_note(g, s)->restored = false;
    if (stage_fill_drafts(g, b, s, m, at, e) != ST_OK ||
        take_saves(g, b, m, at, e) != ST_OK) {
        return e->code;
    }
    at->twin += row->n_tokens == 0;
    if (s->state == SEQUENCE_QUEUED) {
        sequence_move(&g->sequences->table, s, SEQUENCE_PREFILL);
    }
    if (m->has_failure) {
        stage_spoil(g, s, row->position);
        return ST_OK;
    }
    p->n_tokens += row->n_tokens;
    if (row->sample && stage_is_last(g)) {
        row->history = batch_history(&g->sequences->table, s);
    }
    s->plan.n_planned = end > s->plan.n_planned ? end : s->plan.n_planned;
    return ST_OK;
}

static enum status add_rows(struct stage *g, struct microbatch *b,
                            const Sluice__V1__StageForward *m, struct error *e)
{
    struct stage_cursor at = {0, 0, 0, 0, 0, 0};

    for (; at.row < m->n_grant; at.row++) {
        struct sequence *s = sequence_of(g, m, at.row, e);

        if (s == NULL || begin_anew(g, s, m, at.row, e) != ST_OK ||
            add_row(g, b, s, m, &at, e) != ST_OK) {
            return error_wrap(e, "row %zu, grant %" PRIu64, at.row,
                              m->grant[at.row]);
        }
    }
    if (at.save < m->n_save_row) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "save %zu is of row %u, which is out of order",
                         at.save, m->save_row[at.save]);
    }
    return ST_OK;
}

static void copy_saves(struct microbatch *b, const Sluice__V1__StageForward *m)
{
    b->n_saves = (uint32_t)m->n_save_row;
    for (uint32_t i = 0; i < b->n_saves; i++) {
        b->save_row[i] = m->save_row[i];
        b->save_position[i] = m->save_position[i];
        b->save_checkpoint[i] = m->save_checkpoint[i];
    }
}

static void fill_microbatch(struct stage *g, struct microbatch *b,
                            const Sluice__V1__StageForward *m, const float *x)
{
    batch_begin(&b->batch, &g->sequences->pool, m->step);
    memcpy(b->device_us, m->device_us, m->n_device_us * sizeof *b->device_us);
    b->over = false;
    b->n_values = 0;
    b->failed = m->has_failure;
    if (b->failed) {
        memcpy(b->failure, m->failure.data, m->failure.len);
        b->failure[m->failure.len] = '\0';
    }
    b->batch.plan.hidden = x;
    b->x = x != NULL ? frame_share(g->assembly->arriving) : NULL;
    copy_saves(b, m);
}

/* The plan is ready, unless there is nothing to compute. */
static void finish_microbatch(struct stage *g, struct microbatch *b)
{
    struct batcher_limits l = limits(g);

    if (b->failed) {
        stage_copies_keep(g, &b->batch);
    } else {
        batch_finish(&l, &g->sequences->table, &b->batch);
    }
}

/* The microbatch joins the line before its rows are checked: if one is wrong,
 * the end of the assembly finds the rows before it there and undoes them. */
void stage_recv_forward(struct stage *g, const Sluice__V1__StageForward *m,
                        const float *x, uint32_t bytes)
{
    struct microbatch *b;
    struct error e;

    if (check_columns(g, m, &e) == ST_OK && check_twins(m, &e) == ST_OK &&
        stage_check_drafts(m, &e) == ST_OK && check_turn(g, m, &e) == ST_OK &&
        check_tensor(g, m, bytes, &e) == ST_OK) {
        b = stage_line_free(g);
        fill_microbatch(g, b, m, x);
        stage_line_add(g, b);
        g->step = m->step;
        g->sequences->report.changed = true;
        if (stage_copies_take(g, &b->batch, &e) == ST_OK &&
            add_rows(g, b, m, &e) == ST_OK) {
            finish_microbatch(g, b);
            return;
        }
    }
    assembly_break(g->assembly, "Forward of step %" PRIu64 ": %s", m->step,
                   e.text);
}
