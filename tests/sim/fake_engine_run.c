/* fake_engine_run.c - Computation of a plan, from the contents of memory. */
#include <string.h>

#include "tests/sim/fake_engine_internal.h"

/* Writes the cell of the row's token i.  A row of a damaged state writes
 * damaged cells. */
static void write_cell(struct fake_engine *e, const struct plan *p,
                       const struct plan_row *r, uint32_t token, uint32_t i)
{
    uint32_t at = r->position + i, page;
    const struct tracked *t = fake_engine_track(e, r->sequence);
    struct cell c = {token | (t->tainted ? CELL_SPOILT : 0), at << 1 | r->kind};

    page = p->blocks[r->block + at / e->draw->block_tokens];
    fake_memory_write(e, page, c, t->request);
}

/* Digests the positions from `at` to `end`, which a page has. */
static uint64_t attend_page(struct fake_engine *e, const struct plan_row *r,
                            uint32_t page, uint32_t at, uint32_t end,
                            uint64_t a)
{
    const struct cell *cells = fake_memory_read(e, r, page);
    bool tainted = fake_engine_track(e, r->sequence)->tainted;

    fake_memory_check_owner(e, r, page);
    for (; at < end; at++, cells++) {
        if (cells->where >> 1 != at && !tainted) {
            fake_engine_wrong(e, r, "row reads a cell of another position");
        } else if (cells->token & CELL_SPOILT && !tainted) {
            fake_engine_wrong(e, r, "row reads a damaged cell");
        }
        a = oracle_attend(a, cells->token, cells->where >> 1,
                          fake_engine_kind(e, cells->where & 1));
    }
    return a;
}

uint64_t fake_run_attend(struct fake_engine *e, const struct plan *p,
                         const struct plan_row *r)
{
    uint32_t bt = e->draw->block_tokens, n = r->position + r->n_tokens;
    uint64_t a = 0;

    for (uint32_t k = 0; k * bt < n; k++) {
        uint32_t end = (k + 1) * bt < n ? (k + 1) * bt : n;

        a = attend_page(e, r, p->blocks[r->block + k], k * bt, end, a);
    }
    return a;
}

/* Advances the row's state over its tokens, and saves it where the row has to.
 */
static uint64_t advance(struct fake_engine *e, const struct plan *p,
                        const struct plan_row *r, const uint32_t *tokens)
{
    struct slot_state s = fake_memory_state(e, r, r->slot);
    uint32_t saved = 0;
    const struct tracked *t = fake_engine_track(e, r->sequence);
    bool tainted = t->tainted;

    if (s.n) {
        fake_memory_check_owner(e, r, r->slot);
    }
    if ((!s.whole || s.n != r->position) && !tainted) {
        fake_engine_wrong(e, r, "row continues a state of another position");
    }
    s.n = r->position;
    s.hash ^= tainted ? 0x5b0117 : 0;
    for (uint32_t i = 0; i < r->n_tokens; i++) {
        s.hash =
            oracle_advance(s.hash, tokens[i], fake_engine_kind(e, r->kind));
        s.n++;
        if (saved < r->n_saves && p->saves[r->save + saved].position == s.n) {
            fake_memory_put_state(e, p->saves[r->save + saved].page, s,
                                  t->request);
            saved++;
        }
    }
    fake_memory_put_state(e, r->slot, s, t->request);
    return s.hash;
}

static uint64_t place(uint32_t token, uint32_t position)
{
    return mix64((uint64_t)position << 32 | token);
}

void fake_run_note(struct tracked *t, const struct plan_row *r,
                   const uint32_t *tokens)
{
    for (uint32_t i = 0; i < r->n_tokens; i++) {
        t->ids += place(tokens[i], r->position + i);
    }
    t->mixed = t->mixed || (r->kind == ROW_PROMPT && t->n > t->n_prompt);
    t->n += r->n_tokens;
    t->n_prompt += r->kind == ROW_PROMPT ? r->n_tokens : 0;
}

static uint32_t history_id(const struct id_pages *p, uint32_t i)
{
    uint32_t page = p->memory[(p->root << p->shift) + (i >> p->shift)];

    return p->memory[(page << p->shift) + (i & ((1u << p->shift) - 1))];
}

/* Returns whether the sequence continues a kept one without a prompt, whose
 * tokens are the end of its own prompt. */
static bool ends_generated(const struct fake_engine *e, const struct tracked *t)
{
    const struct sim_request *q =
        t->request != NO_REQUEST ? &e->sim->requests[t->request] : NULL;

    return q && q->generated && q->generated[q->n_prompt - 1];
}

/* Digests the history for the penalties of a row as the plan provides it, and
 * checks it against the executed ids. */
static uint64_t remember(struct fake_engine *e, const struct plan_row *r,
                         uint32_t chained)
{
    const struct plan_history *y = &r->history;
    const struct tracked *t = fake_engine_track(e, r->sequence);
    uint64_t h = 0, ids = 0;

    for (uint32_t i = 0; i < y->n; i++) {
        uint32_t id = history_id(&y->pages, i);

        h = oracle_remember(h, id,
                            i < y->n_prompt ? ROW_PROMPT : ROW_GENERATED);
        ids += place(id, i);
    }
    if (r->chained) {
        h = oracle_remember(h, chained, ROW_GENERATED);
        ids += place(chained, y->n);
        e->sim->counts.cells.deeds[DEED_CHAINED_PENALTIES]++;
    }
    if (t->tainted) {
        return h;
    }
    if (y->n + r->chained != t->restored + t->n ||
        (!t->restored && !t->mixed && !ends_generated(e, t) &&
         y->n_prompt != t->n_prompt)) {
        fake_engine_wrong(e, r, "history has the wrong length");
    } else if (!t->restored && ids != t->ids) {
        fake_engine_wrong(e, r, "history has the wrong ids");
    }
    return h;
}

/* Returns whether the row has such a damage at one of n indices from `index`
 * on. */
static bool is_hurt(const struct fake_engine *e, const struct plan_row *r,
                    enum damage damage, uint32_t index, uint32_t n)
{
    const struct sim_request *request =
        r->sample ? sim_request_hurt_of(e->sim, r->sampling->seed) : NULL;

    return request && request->damage == damage &&
           request->damage_at >= index && request->damage_at - index < n;
}

bool fake_run_remember(struct fake_engine *e, const struct plan_row *r,
                       uint32_t chained, struct oracle *o)
{
    if (is_hurt(e, r, DAMAGE_ROW, r->index, 1)) {
        return false;
    }
    if (sampling_penalises(r->sampling)) {
        o->h = remember(e, r, chained);
    } else if (r->history.n) {
        fake_engine_wrong(e, r, "history without penalties");
    }
    return true;
}

bool fake_run_choose(struct fake_engine *e, const struct plan_row *r,
                     const struct oracle *o, uint32_t index,
                     struct fake_token *out)
{
    const struct sampling *p = r->sampling;

    if (is_hurt(e, r, DAMAGE_ROW, index, 1)) {
        return false;
    }
    out->token = oracle_next(o, e->model, p, r->choice, index);
    if (p->logprobs) {
        out->logprob = oracle_logprobs(o, e->model, out->token,
                                       p->n_top_logprobs, out->top);
    }
    return true;
}

void fake_run_damaged(struct fake_engine *e, const struct plan_row *r,
                      uint32_t row, struct plan_result *out)
{
    e->sim->counts.cells.deeds[DEED_ROW_DAMAGED] += out->n_rows > 1;
    fake_engine_track(e, r->sequence)->tainted = true;
    out->outcomes[row] = ROW_NOT_FINITE;
}

void fake_run_put(struct plan_result *out, uint32_t row,
                  const struct fake_token *x)
{
    out->tokens[row] = x->token;
    out->logprobs[row] = x->logprob;
    memcpy(out->top[row], x->top, sizeof(out->top[row]));
}

static void choose(struct fake_engine *e, const struct plan_row *r,
                   struct oracle *o, uint32_t chained, struct plan_result *out,
                   uint32_t row)
{
    struct token_logprob top[TOP_LOGPROBS_MAX] = {{0}};
    struct fake_token x = {.top = top};

    if (fake_run_remember(e, r, chained, o) &&
        fake_run_choose(e, r, o, r->index, &x)) {
        fake_run_put(out, row, &x);
    } else {
        fake_run_damaged(e, r, row, out);
    }
}

/* ---- input and output ---- */

/* Returns the row's ids [r->n_tokens], from the plan or from the hidden states.
 * *last: hidden state of the last token from the previous stages. */
static const uint32_t *take_ids(struct fake_engine *e, const struct plan *p,
                                const struct plan_row *r,
                                struct fake_hidden *last)
{
    bool tainted = fake_engine_track(e, r->sequence)->tainted;

    *last = (struct fake_hidden){0};
    if (!fake_engine_takes_hidden(e)) {
        return &p->tokens[r->token];
    }
    for (uint32_t i = 0; i < r->n_tokens; i++) {
        const float *x = p->hidden + (size_t)(r->token + i) * FAKE_HIDDEN;

        if (!fake_hidden_get(last, x, e->model->salt, e->shard.begin)) {
            fake_engine_wrong(e, r, "hidden states that no stage produced");
        } else if (last->where != ((r->position + i) << 1 | r->kind) &&
                   !tainted) {
            fake_engine_wrong(e, r, "hidden states of another position");
        }
        e->ids[i] = last->token;
    }
    return e->ids;
}

static float *hidden_of(struct fake_engine *e)
{
    return e->hidden +
           e->finished % HIDDEN_RING * e->draw->step_tokens * FAKE_HIDDEN;
}

void fake_engine_give(struct fake_engine *e, const struct plan_row *r,
                      uint32_t i, const struct fake_hidden *h)
{
    fake_hidden_put(hidden_of(e) + (size_t)(r->token + i) * FAKE_HIDDEN, h,
                    e->model->salt, e->shard.end);
}

/* Writes hidden states.  Only the last token has the digests, because a token
 * is chosen only after it. */
static void give_ids(struct fake_engine *e, const struct plan_row *r,
                     const uint32_t *ids, const struct fake_hidden *last)
{
    const struct tracked *t = fake_engine_track(e, r->sequence);

    for (uint32_t i = 0; i < r->n_tokens; i++) {
        struct fake_hidden h = {0};

        h = i + 1 == r->n_tokens ? *last : h;
        h.token = ids[i];
        h.where = (r->position + i) << 1 | r->kind;
        h.tainted = t->tainted;
        h.again = t->anew && r->position == t->restored;
        fake_engine_give(e, r, i, &h);
    }
}

/* ---- rows ---- */

void fake_run_write(struct fake_engine *e, const struct plan *p,
                    const struct plan_row *r, const uint32_t *ids)
{
    for (uint32_t i = 0; i < r->n_tokens && e->shard.attention; i++) {
        write_cell(e, p, r, ids[i], i);
    }
    for (uint32_t i = 0; i < r->n_tokens && e->tables > 0; i++) {
        fake_windows_write(e, p, r, ids[i], i);
    }
}

/* Runs the layers of this shard: writes the ids to memory, and adds the
 * contents of memory to the digests of the last token. */
static void run_layers(struct fake_engine *e, const struct plan *p,
                       const struct plan_row *r, const uint32_t *ids,
                       struct fake_hidden *last)
{
    fake_run_write(e, p, r, ids);
    if (e->shard.attention && (r->sample || fake_engine_gives_hidden(e))) {
        last->a =
            fake_hidden_join(last->has_a, last->a, fake_run_attend(e, p, r));
        last->has_a = true;
    }
    if (e->tables > 0) {
        last->w =
            fake_hidden_join(last->has_w, last->w, fake_windows_see(e, p, r));
        last->has_w = true;
    }
    if (e->shard.linear) {
        last->s = fake_hidden_join(last->has_s, last->s, advance(e, p, r, ids));
        last->has_s = true;
    }
}

/* Leaves garbage in the row's slot and in what it saves. */
static void break_states(struct fake_engine *e, const struct plan *p,
                         const struct plan_row *r)
{
    if (r->slot != SLOT_NONE) {
        fake_memory_spoil(e, r->slot, e->per_slot, PAGE_GARBAGE);
    }
    for (uint32_t i = 0; i < r->n_saves; i++) {
        fake_memory_spoil(e, p->saves[r->save + i].page, e->per_slot,
                          PAGE_GARBAGE);
    }
}

/* Samples for a row, or a twin, from its logits' digest. */
static void sample(struct fake_engine *e, const struct plan *p, uint32_t row,
                   const struct fake_digest *d, uint32_t chained,
                   struct plan_result *out)
{
    const struct plan_row *r = &p->rows[row];
    struct oracle o;

    o.a = d->a;
    o.s = d->s;
    o.w = d->w;
    o.h = 0;

    if (!fake_engine_gives_hidden(e) && r->sample) {
        choose(e, r, &o, chained, out, row);
    }
}

static void run_twin(struct fake_engine *e, const struct plan *p, uint32_t row,
                     struct plan_result *out)
{
    const struct plan_row *r = &p->rows[row];
    uint64_t source = p->rows[r->source].sequence;

    /* The source's step may have failed since the plan was submitted. */
    if (fake_engine_track(e, source)->tainted) {
        fake_engine_track(e, r->sequence)->tainted = true;
    }
    if (out->outcomes[r->source] == ROW_CUT_OFF) {
        out->outcomes[row] = ROW_CUT_OFF;
        return;
    }
    sample(e, p, row, &e->digests[r->source], 0, out);
    if (out->outcomes[row] == ROW_NOT_FINITE) {
        break_states(e, p, r);
    }
}

static void run_row(struct fake_engine *e, const struct plan *p, uint32_t row,
                    struct plan_result *out)
{
    const struct plan_row *r = &p->rows[row];
    uint32_t chained = r->chained ? e->before.tokens[r->chain_row] : 0;
    struct fake_hidden last;
    const uint32_t *ids;

    out->tokens[row] = TOKEN_NONE;
    out->outcomes[row] = ROW_DONE;
    if (fake_row_is_twin(r)) {
        run_twin(e, p, row, out);
        return;
    }
    ids = take_ids(e, p, r, &last);
    if (r->chained && (e->before.status != ST_OK || chained == TOKEN_NONE)) {
        e->sim->counts.cells.deeds[DEED_CUT_OFF]++;
        fake_engine_track(e, r->sequence)->tainted = true;
        out->outcomes[row] = ROW_CUT_OFF;
        break_states(e, p, r);
        return;
    }
    ids = r->chained ? &chained : ids;
    if (fake_drafts_has(r)) {
        fake_drafts_run(e, p, row, ids, out);
    } else {
        fake_run_note(fake_engine_track(e, r->sequence), r, ids);
        run_layers(e, p, r, ids, &last);
        e->digests[row] = (struct fake_digest){last.a, last.s, last.w};
        if (fake_engine_gives_hidden(e)) {
            give_ids(e, r, ids, &last);
        }
        sample(e, p, row, &e->digests[row], chained, out);
    }
    if (out->outcomes[row] == ROW_NOT_FINITE) {
        break_states(e, p, r);
    } else if (r->mtp && !e->sim->failed) {
        fake_drafts_propose(e, p, row, out);
    }
}

/* ---- plans ---- */

/* Writes some of the row's cells, and leaves others as they were. */
static void break_cells(struct fake_engine *e, const struct plan *p,
                        const struct plan_row *r)
{
    struct fake_hidden last;
    uint32_t chained = r->chained ? e->before.tokens[r->chain_row] : 0;
    const uint32_t *ids = r->chained ? &chained : take_ids(e, p, r, &last);

    if (r->chained && (e->before.status != ST_OK || chained == TOKEN_NONE)) {
        return;
    }
    for (uint32_t i = 0; i < r->n_tokens; i++) {
        if (rng_below(&e->rng, 2)) {
            if (e->shard.attention) {
                write_cell(e, p, r, ids[i], i);
            }
            if (e->tables > 0) {
                fake_windows_write(e, p, r, ids[i], i);
            }
        }
    }
}

static void break_rows(struct fake_engine *e, const struct plan *p)
{
    for (uint32_t i = 0; i < p->n_rows; i++) {
        const struct plan_row *r = &p->rows[i];

        if ((e->shard.attention || e->tables > 0) && !fake_row_is_twin(r)) {
            break_cells(e, p, r);
        }
        break_states(e, p, r);
        fake_drafts_forget(e, r);
        fake_engine_track(e, r->sequence)->tainted = true;
        e->sim->counts.cells.deeds[DEED_DRAFT_FAILED] += r->n_drafts > 0;
    }
    for (uint32_t i = 0; i < p->n_after; i++) {
        fake_memory_spoil(e, p->after[i].to, p->after[i].n, PAGE_GARBAGE);
    }
}

/* Carries out what comes before the rows. */
static void prepare(struct fake_engine *e, const struct plan *p)
{
    for (uint32_t i = 0; i < p->n_poison; i++) {
        fake_memory_spoil(e, p->poison[i].from, p->poison[i].n, PAGE_POISON);
    }
    for (uint32_t i = 0; i < p->n_replays && !e->sim->failed; i++) {
        fake_drafts_replay(e, &p->replays[i]);
    }
    for (uint32_t i = 0; i < p->n_before; i++) {
        fake_memory_copy(e, &p->before[i]);
    }
    for (uint32_t i = 0; i < p->n_zero; i++) {
        fake_memory_put_state(e, p->zero_slots[i],
                              (struct slot_state){0, 0, true}, NO_REQUEST);
    }
}

/* Returns whether the plan fails: by chance, or because of a row. */
static bool fails(struct fake_engine *e, const struct plan *p, bool alone)
{
    uint64_t *deeds = e->sim->counts.cells.deeds;

    for (uint32_t i = 0; i < p->n_rows; i++) {
        const struct plan_row *r = &p->rows[i];

        if (is_hurt(e, r, DAMAGE_STEP, r->index, r->n_drafts + 1) &&
            fake_engine_shows(e,
                              sim_request_hurt_of(e->sim, r->sampling->seed))) {
            deeds[DEED_STEP_DAMAGED] += p->n_rows > 1;
            deeds[DEED_FAILED_ALONE] += alone;
            return true;
        }
    }
    return !alone && !e->sim->calm && rng_chance(&e->rng, e->draw->fail_of);
}

void fake_engine_run(struct fake_engine *e, const struct plan *p, bool alone,
                     struct plan_result *out)
{
    out->step = p->step;
    out->status = ST_OK;
    out->lost = false;
    out->hidden = NULL;
    out->n_rows = p->n_rows;
    out->draft_us = 0;
    prepare(e, p);
    if (fails(e, p, alone)) {
        e->sim->counts.failed_plans++;
        e->sim->counts.cells.deeds[DEED_FAILED_SAVES] += p->n_saves > 0;
        break_rows(e, p);
        (void)error_set(&out->error, ST_INTERNAL, "the fake device is broken");
        out->status = ST_INTERNAL;
        return;
    }
    for (uint32_t i = 0; i < p->n_rows && !e->sim->failed; i++) {
        run_row(e, p, i, out);
    }
    for (uint32_t i = 0; i < p->n_after && !e->sim->failed; i++) {
        fake_memory_copy(e, &p->after[i]);
    }
    out->hidden = fake_engine_gives_hidden(e) ? hidden_of(e) : NULL;
}
