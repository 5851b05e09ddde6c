/* Forward: the rows of a microbatch, and what the stage before made of them.
 *
 *   1 columns, numbers and the tensor fit each other and the step before
 *   2 each row fits what is known of its sequence
 *   3 its memory is taken, its plan made: into the line
 *
 * One that came as failed has 1, and of each row that its sequence is open:
 * nothing is computed for it. */
#include <inttypes.h>
#include <string.h>

#include "common/base/plant.h"
#include "worker/stages/stage_line.h"

#define KIND_GENERATED ((uint32_t)SLUICE__V1__STAGE_ROW__STAGE_ROW_GENERATED)
#define KIND_SAMPLE    ((uint32_t)SLUICE__V1__STAGE_ROW__STAGE_ROW_SAMPLE)

/* ---- the message ---- */

static enum status check_columns(const struct worker_core *w,
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
    if (n < 1 || n > w->assembly.max_rows) {
        return error_set(e, ST_INVALID_ARGUMENT, "%zu rows, a step has 1 to %u",
                         n, w->assembly.max_rows);
    }
    if (m->n_device_us != w->assembly.stage) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "times of %zu stages, it has passed %u",
                         m->n_device_us, w->assembly.stage);
    }
    return ST_OK;
}

/* In the order of the leader's steps, no more than the ring may hold. */
static enum status check_turn(const struct worker_core *w,
                              const Sluice__V1__StageForward *m,
                              struct error *e)
{
    const struct stage *g = &w->stage;
    uint32_t here = g->n - (g->n > 0 && g->line[0]->over ? 1 : 0);

    if (m->step <= g->step) {
        return error_set(e, ST_INVALID_ARGUMENT, "it came after step %" PRIu64,
                         g->step);
    }
    if (here >= w->assembly.n_stages) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%u are here, at most %u may be under way", here,
                         w->assembly.n_stages);
    }
    if (m->has_failure && !wire_text_ok(m->failure, 1, ERROR_TEXT - 1)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "a failure of %zu bytes, it has 1 to %d of UTF-8",
                         m->failure.len, ERROR_TEXT - 1);
    }
    return ST_OK;
}

/* x [sum of count, H] float32, unless it came as failed. */
static enum status check_tensor(const struct worker_core *w,
                                const Sluice__V1__StageForward *m,
                                uint32_t bytes, struct error *e)
{
    uint64_t row = (uint64_t)w->o.hidden * sizeof(float);
    uint64_t n = 0;

    if (m->has_failure) {
        return bytes == 0
                   ? ST_OK
                   : error_set(e, ST_INVALID_ARGUMENT,
                               "a failure, with a tensor of %u bytes", bytes);
    }
    for (size_t i = 0; i < m->n_count; i++) {
        n += m->count[i];
    }
    if (n > w->assembly.step_tokens) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%" PRIu64 " tokens, a step has at most %u", n,
                         w->assembly.step_tokens);
    }
    if (bytes != n * row) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "a tensor of %u bytes, %" PRIu64 " tokens of %u "
                         "float32 are %" PRIu64,
                         bytes, n, w->o.hidden, n * row);
    }
    return ST_OK;
}

/* ---- a row ---- */

/* Of a sequence that is not spoilt.  The token is chosen after the last known
 * one, and only there. */
static enum status check_place(const struct sequence *s,
                               const Sluice__V1__StageForward *m, size_t i,
                               struct error *e)
{
    bool samples = (m->kind[i] & KIND_SAMPLE) != 0;
    uint32_t end = m->position[i] + m->count[i];
    uint32_t known = sequence_known(s);

    if (m->position[i] != s->n_planned) {
        return error_set(e, ST_INVALID_ARGUMENT, "position %u, the next is %u",
                         m->position[i], s->n_planned);
    }
    if (end > known || samples != (end == known) || s->pending > 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "positions to %u, %s a token; %u are known, %u more "
                         "on their way",
                         end, samples ? "with" : "without", known, s->pending);
    }
    if (m->index[i] != (samples ? s->n_generated : 0) ||
        (samples && s->n_generated >= s->max_tokens)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "index %u, %u of at most %u are generated",
                         m->index[i], s->n_generated, s->max_tokens);
    }
    if (samples && s->n_received < s->n_announced) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "a token is asked for, %u of %u ids are here",
                         s->n_received, s->n_announced);
    }
    return ST_OK;
}

static enum status check_row(const struct sequence *s,
                             const Sluice__V1__StageForward *m, size_t i,
                             struct error *e)
{
    uint64_t end = (uint64_t)m->position[i] + m->count[i];
    bool generated = (m->kind[i] & KIND_GENERATED) != 0;

    if (m->kind[i] > (KIND_GENERATED | KIND_SAMPLE)) {
        return error_set(e, ST_INVALID_ARGUMENT, "kind %u", m->kind[i]);
    }
    if (m->count[i] == 0 || end > (uint64_t)s->n_prompt + s->max_tokens) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%u tokens at %u, there are %u positions", m->count[i],
                         m->position[i], s->n_prompt + s->max_tokens);
    }
    if (generated ? m->position[i] < s->n_prompt : end > s->n_prompt) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s positions %u to %" PRIu64 ", the prompt has %u",
                         generated ? "generated" : "prompt", m->position[i],
                         end, s->n_prompt);
    }
    return s->spoilt ? ST_OK : check_place(s, m, i, e);
}

/* NULL with a sentence if the row's sequence is none that may have one. */
static struct sequence *sequence_of(const struct worker_core *w,
                                    const Sluice__V1__StageForward *m, size_t i,
                                    struct error *e)
{
    struct sequence *s =
        m->grant[i] == 0 ? NULL : sequence_by_grant(&w->table, m->grant[i]);

    if (s == NULL || s->state == SEQUENCE_RELEASING) {
        error_set(e, ST_NOT_FOUND,
                  s == NULL ? "it is not open here" : "it is removed");
        return NULL;
    }
    if (s->last_step == m->step) {
        error_set(e, ST_INVALID_ARGUMENT, "it has a row already");
        return NULL;
    }
    return s;
}

/* ---- the plan ---- */

/* For the columns that go on, and for the engine. */
static void fill_row(struct microbatch *b, struct sequence *s,
                     const Sluice__V1__StageForward *m, size_t i)
{
    struct plan *p = &b->batch.plan;

    p->rows[i] = (struct plan_row){
        .sequence = s->number,
        .kind = m->kind[i] & KIND_GENERATED ? ROW_GENERATED : ROW_PROMPT,
        .position = m->position[i],
        .n_tokens = m->count[i],
        .token = p->n_tokens,
        .slot = SLOT_NONE,
        .sample = (m->kind[i] & KIND_SAMPLE) != 0,
        .index = m->index[i],
        .choice = s->key.choice,
        .sampling = &s->sampling,
    };
    b->samples[i] = p->rows[i].sample;
    b->batch.who[i] = s;
    p->n_rows++;
    s->inflight++;
    s->last_step = m->step;
    s->pending += b->samples[i] ? 1 : 0;
}

static enum status add_row(struct worker_core *w, struct microbatch *b,
                           struct sequence *s,
                           const Sluice__V1__StageForward *m, size_t i,
                           struct error *e)
{
    const struct batcher_limits l = {.block_tokens = w->o.block_tokens,
                                     .n_blocks = w->o.n_blocks,
                                     .n_slots = w->o.n_slots};
    struct plan *p = &b->batch.plan;
    struct plan_row *row = &p->rows[i];
    uint32_t end = m->position[i] + m->count[i];

    if (check_row(s, m, i, e) != ST_OK) {
        return e->code;
    }
    if (!batch_take_memory(&l, &w->table, p, s, end)) {
        return error_set(e, ST_INTERNAL,
                         "the memory promised to the sequence was not there");
    }
    fill_row(b, s, m, i);
    batch_fill_table(&w->table, p, row, s);
    p->n_tokens += row->n_tokens;
    if (row->sample && stage_is_last(w)) {
        row->history = batch_history(&w->table, s);
    }
    s->n_planned = end > s->n_planned ? end : s->n_planned;
    if (s->state == SEQUENCE_QUEUED) {
        sequence_move(&w->table, s, SEQUENCE_PREFILL);
    }
    return ST_OK;
}

static enum status add_rows(struct worker_core *w, struct microbatch *b,
                            const Sluice__V1__StageForward *m, struct error *e)
{
    for (size_t i = 0; i < m->n_grant; i++) {
        struct sequence *s = sequence_of(w, m, i, e);
        enum status st = s == NULL ? e->code : ST_OK;

        if (st == ST_OK && m->has_failure) {
            fill_row(b, s, m, i);
            s->spoilt = !PLANT(SPOILT_FORGOTTEN);
        } else if (st == ST_OK) {
            st = add_row(w, b, s, m, i, e);
        }
        if (st != ST_OK) {
            return error_wrap(e, "row %zu, grant %" PRIu64, i, m->grant[i]);
        }
    }
    return ST_OK;
}

static void fill(struct worker_core *w, struct microbatch *b,
                 const Sluice__V1__StageForward *m, const float *x)
{
    batch_begin(&b->batch, m->step);
    memcpy(b->device_us, m->device_us, m->n_device_us * sizeof *b->device_us);
    b->over = false;
    b->failed = m->has_failure;
    if (b->failed) {
        memcpy(b->failure, m->failure.data, m->failure.len);
        b->failure[m->failure.len] = '\0';
    }
    b->batch.plan.hidden = x;
    b->x = x != NULL ? frame_share(w->assembly.arriving) : NULL;
}

/* The line has it from the first row on, for whoever ends the assembly. */
void stage_recv_forward(struct worker_core *w,
                        const Sluice__V1__StageForward *m, const float *x,
                        uint32_t bytes)
{
    struct stage *g = &w->stage;
    struct microbatch *b;
    struct error e;

    if (check_columns(w, m, &e) == ST_OK && check_turn(w, m, &e) == ST_OK &&
        check_tensor(w, m, bytes, &e) == ST_OK) {
        b = stage_line_free(g);
        fill(w, b, m, x);
        stage_line_add(g, b);
        g->step = m->step;
        w->changed = true;
        if (add_rows(w, b, m, &e) == ST_OK) {
            return;
        }
    }
    assembly_break(w, "Forward of step %" PRIu64 ": %s", m->step, e.text);
}
