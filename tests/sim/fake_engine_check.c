#include "tests/sim/fake_engine_internal.h"

void fake_engine_wrong(struct fake_engine *e, const struct plan_row *r,
                       const char *what)
{
    sim_fail(e->sim, -1, "worker %u: plan: %s (sequence %llu, position %u)",
             e->w, what, (unsigned long long)(r ? r->sequence : 0),
             r ? r->position : 0);
}

struct tracked *fake_engine_track(struct fake_engine *e, uint64_t sequence)
{
    struct tracked *t = &e->tracked[sequence % TRACKED];

    while (t >= &e->tracked[e->n_tracked]) {
        e->tracked[e->n_tracked++] =
            (struct tracked){.sequence = NOBODY, .request = NO_REQUEST};
    }
    if (t->sequence != sequence) {
        *t = (struct tracked){.sequence = sequence, .request = NO_REQUEST};
    }
    return t;
}

/* Counts a sequence that ended while it was computed again, when another takes
 * memory used since then.  A later stage gives up blocks when it restores. */
static void note_owner(struct fake_engine *e, const struct page *g)
{
    struct tracked *t = &e->tracked[g->sequence % TRACKED];

    if (t < &e->tracked[e->n_tracked] && t->sequence == g->sequence &&
        t->again && g->claim_row >= t->since && !fake_engine_takes_hidden(e)) {
        e->sim->counts.cells.deeds[DEED_AGAIN_ENDED]++;
        t->again = false;
    }
}

/* ---- uses of pages ---- */

/* Returns whether plans in flight name the page, where that matters.  A later
 * stage frees pages when a Remove arrives, because its plans run in order. */
static bool is_in_flight(const struct fake_engine *e, uint32_t page)
{
    return e->pages[page].plans > 0 && !fake_engine_takes_hidden(e);
}

void fake_engine_claim(struct fake_engine *e, const struct plan_row *r,
                       uint32_t page)
{
    struct page *g = &e->pages[page];

    if (g->claim == e->plans && g->claim_row != e->rows) {
        fake_engine_wrong(e, r, "page has two uses in a plan");
    }
    g->claim = e->plans;
    g->claim_row = e->rows;
}

/* Makes the current row a page's only user in this plan, and its owner. */
static void claim(struct fake_engine *e, const struct plan_row *r,
                  uint32_t page)
{
    struct page *g = &e->pages[page];

    /* Two that are computed again may share blocks. */
    if (g->sequence != r->sequence &&
        !fake_engine_track(e, r->sequence)->again) {
        note_owner(e, g);
    }
    fake_engine_claim(e, r, page);
}

/* Claims the pages of a checkpoint to save.  A later plan may take them while
 * this one is in flight: then the checkpoint is not used. */
static void claim_save(struct fake_engine *e, const struct plan_row *r,
                       uint32_t page)
{
    for (uint32_t i = 0; i < e->per_slot; i++) {
        claim(e, r, page + i);
    }
}

static void claim_slot(struct fake_engine *e, struct flown *f,
                       const struct plan_row *r, uint32_t slot)
{
    for (uint32_t i = 0; i < e->per_slot; i++) {
        claim(e, r, slot + i);
        if (fake_memory_is_others(e, slot + i, r->sequence)) {
            fake_engine_wrong(e, r, "slot of another sequence in flight");
        }
        fake_memory_name(e, f, slot + i, r->sequence);
    }
}

/* Returns whether a row of a plan in flight writes this token to the page. */
static bool is_being_written(const struct fake_engine *e, uint32_t page,
                             uint32_t at, uint32_t token)
{
    for (uint32_t f = 0; f < e->n_flying; f++) {
        const struct plan *p = e->flying[f].plan;

        for (uint32_t i = 0; i < p->n_rows && !e->flying[f].done; i++) {
            const struct plan_row *r = &p->rows[i];
            uint32_t k = at / e->draw->block_tokens;

            if (at >= r->position && at - r->position < r->n_tokens &&
                !r->chained && p->blocks[r->block + k] == page &&
                p->tokens[r->token + at - r->position] == token) {
                return true;
            }
        }
    }
    return false;
}

/* Returns whether the sequence that named the page last computes garbage or is
 * computed again too: then the cells may be of a former owner of the page. */
static bool is_named_in_vain(struct fake_engine *e, uint32_t page)
{
    const struct tracked *t = fake_engine_track(e, e->pages[page].sequence);

    return t->tainted || t->again;
}

/* Returns whether the cell has this token, in the row's arithmetic. */
static bool is_same(const struct fake_engine *e, const struct plan_row *r,
                    const struct cell *c, uint32_t at, uint32_t token)
{
    return c->token == token && c->where >> 1 == at &&
           fake_engine_kind(e, c->where & 1) == fake_engine_kind(e, r->kind);
}

/* Returns whether the row writes to a block what it contains already.  What a
 * failed step left there, or did not overwrite, does not count for a sequence
 * that is computed again: the others that share it are computed again too. */
static bool writes_the_same(struct fake_engine *e, const struct plan *p,
                            const struct plan_row *r, uint32_t page, uint32_t k)
{
    uint32_t bt = e->draw->block_tokens;
    bool again = fake_engine_track(e, r->sequence)->again;
    bool cells = e->pages[page].kind == PAGE_CELLS;
    bool same = !r->chained && (cells || again);

    for (uint32_t i = 0; i < r->n_tokens && same && cells; i++) {
        uint32_t at = r->position + i, token = p->tokens[r->token + i];
        const struct cell *c = fake_cell(e, page, at);

        if (at / bt != k ||
            (again && (c->where >> 1 != at || c->token & CELL_SPOILT))) {
            continue;
        }
        same = is_same(e, r, c, at, token) ||
               (again && (is_being_written(e, page, at, token) ||
                          is_named_in_vain(e, page)));
    }
    return same;
}

/* Claims the blocks that the row writes. */
static void claim_blocks(struct fake_engine *e, const struct plan *p,
                         const struct plan_row *r)
{
    uint32_t bt = e->draw->block_tokens;
    uint32_t end = r->position + r->n_tokens;

    for (uint32_t k = r->position / bt; k * bt < end && !e->sim->failed; k++) {
        uint32_t page = p->blocks[r->block + k];

        if (!fake_in_memory(e, page, 1)) {
            fake_engine_wrong(e, r, "block number out of range");
            return;
        }
        if (fake_memory_is_others(e, page, r->sequence) &&
            !writes_the_same(e, p, r, page, k)) {
            fake_engine_wrong(e, r, "block of another sequence in flight");
        }
        claim(e, r, page);
    }
}

/* Makes the plan hold the row's table. */
static void name_table(struct fake_engine *e, const struct plan *p,
                       const struct plan_row *r, struct flown *f, uint64_t row)
{
    for (uint32_t k = 0; k < r->n_blocks && !e->sim->failed; k++) {
        uint32_t page = p->blocks[r->block + k];
        struct page *g = &e->pages[page];

        if (!fake_in_memory(e, page, 1)) {
            fake_engine_wrong(e, r, "block number out of range");
            return;
        }
        if (g->row == row) {
            fake_engine_wrong(e, r, "block is twice in a table");
        }
        g->row = row;
        if (fake_row_is_twin(r) && fake_twin_shares(p, r, k)) {
            continue;
        }
        if (g->claim == e->plans && g->claim_row != row &&
            !fake_row_is_twin(r)) {
            fake_engine_wrong(e, r, "row reads a page that another one writes");
        }
        fake_memory_name(e, f, page, r->sequence);
    }
}

static bool zeroes(const struct plan *p, uint32_t slot)
{
    for (uint32_t i = 0; i < p->n_zero; i++) {
        if (p->zero_slots[i] == slot) {
            return true;
        }
    }
    return false;
}

/* ---- the shape of rows ---- */

static bool is_stage(const struct fake_engine *e)
{
    return fake_engine_takes_hidden(e) || fake_engine_gives_hidden(e);
}

static void check_chain(struct fake_engine *e, const struct plan_row *r)
{
    const struct plan_row *l;
    uint32_t end;

    if (is_stage(e)) {
        fake_engine_wrong(e, r, "chained row on a stage");
    } else if (r->n_tokens != 1 || r->kind != ROW_GENERATED) {
        fake_engine_wrong(e, r, "chained row is not one generated token");
    } else if (r->chain_row >= e->n_last_rows) {
        fake_engine_wrong(e, r, "chained row without a previous plan");
    } else {
        l = &e->last_rows[r->chain_row];
        if (fake_row_is_twin(l)) {
            end = e->last_rows[l->source].position +
                  e->last_rows[l->source].n_tokens;
        } else {
            end = l->position + l->n_tokens;
        }
        if (!l->sample || l->n_drafts > 0 || l->sequence != r->sequence ||
            end != r->position || (r->sample && l->index + 1 != r->index)) {
            fake_engine_wrong(e, r,
                              "chained row does not follow its predecessor");
        }
    }
}

static void check_tokens(struct fake_engine *e, const struct plan *p,
                         const struct plan_row *r)
{
    if (r->token > p->n_tokens || r->n_tokens > p->n_tokens - r->token) {
        fake_engine_wrong(e, r, "tokens out of range");
        return;
    }
    for (uint32_t i = 0; i < r->n_tokens && !fake_engine_takes_hidden(e); i++) {
        if (p->tokens[r->token + i] >= e->model->vocab) {
            fake_engine_wrong(e, r, "token id outside the vocabulary");
        }
    }
}

/* Returns whether a checkpoint is neither in the prompt's last unit nor on the
 * grid, so that it must be at a branch point. */
static bool is_branch(const struct fake_engine *e, const struct tracked *t,
                      uint32_t position)
{
    const struct sim_request *q;

    if (t->request == NO_REQUEST) {
        return false;
    }
    q = &e->sim->requests[t->request];
    return !q->continues && position + SAVE_UNIT < q->n_prompt &&
           position % SAVE_GRID != 0;
}

/* Checks the checkpoints that the row saves, and claims their pages. */
static void check_saves(struct fake_engine *e, const struct plan *p,
                        const struct plan_row *r, const struct tracked *t)
{
    uint32_t after = r->position, end = r->position + r->n_tokens;

    if (r->n_saves > PLAN_SAVES_MAX || r->save > p->n_saves ||
        r->n_saves > p->n_saves - r->save || r->slot == SLOT_NONE) {
        fake_engine_wrong(e, r, "saves out of range");
        return;
    }
    for (uint32_t i = 0; i < r->n_saves && !e->sim->failed; i++) {
        const struct plan_save *v = &p->saves[r->save + i];

        if (v->position <= after || v->position > end ||
            v->position % SAVE_UNIT != 0 || !fake_is_slot(e, v->page)) {
            fake_engine_wrong(e, r, "save at a wrong position or page");
            return;
        }
        after = v->position;
        claim_save(e, r, v->page);
        e->sim->counts.cells.deeds[DEED_SAVED] += v->position < end;
        e->sim->counts.cells.deeds[DEED_SAVED_BRANCH] +=
            is_branch(e, t, v->position);
    }
}

static void check_shape(struct fake_engine *e, const struct plan *p,
                        const struct plan_row *r)
{
    const struct worker_draw *d = e->draw;
    uint32_t end = r->position + r->n_tokens;

    if (end > e->model->context) {
        fake_engine_wrong(e, r, "row exceeds the context");
    } else if (r->n_tokens > d->chunk_tokens && !fake_engine_takes_hidden(e)) {
        fake_engine_wrong(e, r, "chunk exceeds chunk_tokens");
    } else if (r->block > p->n_blocks || r->n_blocks > p->n_blocks - r->block) {
        fake_engine_wrong(e, r, "block table out of range");
    } else if (fake_row_is_twin(r)) {
        fake_twin_check(e, p, r);
    } else if (e->shard.attention &&
               (uint64_t)r->n_blocks * d->block_tokens < end) {
        fake_engine_wrong(e, r, "block table does not cover the row");
    } else if ((r->slot == SLOT_NONE) == e->shard.linear ||
               (r->slot != SLOT_NONE && !fake_is_slot(e, r->slot))) {
        fake_engine_wrong(e, r, "invalid slot");
    } else if (r->position == 0 && e->shard.linear && !zeroes(p, r->slot)) {
        fake_engine_wrong(e, r, "slot was not zeroed");
    } else if (r->sample && !r->sampling && !fake_engine_gives_hidden(e)) {
        fake_engine_wrong(e, r, "row to sample has no sampling parameters");
    } else if (r->chained) {
        check_chain(e, r);
    } else {
        check_tokens(e, p, r);
    }
}

/* ---- sequences ---- */

/* Finds the request of a sequence that is new here, where the stage has its
 * sampling. */
static void find_request(struct fake_engine *e, const struct plan_row *r,
                         struct tracked *t)
{
    const struct sim *s = e->sim;

    for (uint32_t i = s->n_requests;
         r->sampling && t->request == NO_REQUEST && i > 0; i--) {
        if (s->requests[i - 1].sampling.seed == r->sampling->seed) {
            t->request = i - 1;
        }
    }
}

/* Counts what a sequence that is new here did not compute.  Only a continuation
 * may go on where nothing is to be reused. */
static void count_hit(struct fake_engine *e, const struct plan_row *r,
                      const struct tracked *t)
{
    uint64_t *deeds = e->sim->counts.cells.deeds;
    const struct sim_request *q;

    if (t->restored == 0) {
        return;
    }
    deeds[DEED_RESTORED_STAGED] += fake_engine_takes_hidden(e);
    deeds[DEED_RESTORED_LAST] +=
        e->shard.begin > 0 && !fake_engine_gives_hidden(e);
    if (t->request == NO_REQUEST) {
        return;
    }
    q = &e->sim->requests[t->request];
    deeds[DEED_CONTINUED] += q->continues;
    deeds[DEED_HIT] += !q->continues;
    deeds[DEED_HIT_PARTIAL] +=
        !q->continues && t->restored + SAVE_UNIT < q->n_prompt;
    deeds[DEED_LATE_SIBLING] += r->choice > 0;
    if (!q->continues && (q->no_cache || e->sim->options.pools.no_reuse)) {
        fake_engine_wrong(e, r, "sequence is restored that is not to reuse");
    }
}

/* Begins the sequence anew if this row goes back.  Takes over the marks of the
 * previous stage: this stage may not have run the part that failed.  A row
 * behind one that a later stage refused is damaged. */
static void begin_row(struct fake_engine *e, const struct plan *p,
                      const struct plan_row *r, struct tracked *t)
{
    struct fake_hidden h = {0};

    fake_drafts_settle(e, r, t);
    if (fake_engine_takes_hidden(e) && !e->sim->failed &&
        !fake_hidden_get(&h, p->hidden + (size_t)r->token * FAKE_HIDDEN,
                         e->model->salt, e->shard.begin)) {
        h = (struct fake_hidden){0};
    }
    if (r->position < t->next || h.again ||
        (t->refused && !fake_engine_takes_hidden(e))) {
        /* Else it was suspended, and not on the host.  Replicas of several
         * stages suspend nothing, and a later stage does not taint the first.
         */
        bool failed = is_stage(e) || t->tainted || t->refused;

        *t = (struct tracked){.sequence = r->sequence,
                              .request = t->request,
                              .redone = true,
                              .again = failed,
                              .anew = true,
                              .since = e->rows,
                              .next = r->position,
                              .restored = r->position};
        e->sim->counts.cells.deeds[DEED_AGAIN] += failed;
        e->sim->counts.cells.deeds[DEED_RESUMED_RECOMPUTE] += !failed;
        e->sim->counts.cells.deeds[DEED_AGAIN_STAGED] +=
            fake_engine_takes_hidden(e);
    } else if (t->next == 0) {
        t->next = t->restored = r->position;
        if (!h.tainted && !t->refused) { /* else the rows before it failed */
            count_hit(e, r, t);
        }
    }
    t->tainted = t->tainted || h.tainted || t->refused;
}

static void check_row(struct fake_engine *e, const struct plan *p, uint32_t i,
                      struct flown *f)
{
    const struct plan_row *r = &p->rows[i];
    struct tracked *t = fake_engine_track(e, r->sequence);

    e->rows++;
    check_shape(e, p, r);
    if (e->sim->failed) {
        return;
    }
    find_request(e, r, t);
    if (fake_row_is_twin(r)) {
        fake_twin_begin(e, p, r, t);
    } else {
        begin_row(e, p, r, t);
        if (r->position != t->next && !t->tainted) {
            fake_engine_wrong(e, r, "gap in the positions");
        }
        fake_drafts_check(e, p, r, t);
        t->next = r->position + r->n_tokens;
    }
    if (r->n_saves) {
        check_saves(e, p, r, t);
    }
    if (r->slot != SLOT_NONE && !e->sim->failed) {
        claim_slot(e, f, r, r->slot);
    }
    if (e->shard.attention && !fake_row_is_twin(r) && !e->sim->failed) {
        claim_blocks(e, p, r);
    }
    if (e->tables > 0 && !e->sim->failed) {
        fake_windows_claim(e, p, r);
    }
}

/* ---- copies ---- */

/* Returns whether the pages are in the pool, or in the host tier. */
static bool is_range(const struct fake_engine *e, bool host, uint32_t first,
                     uint32_t n)
{
    uint32_t most = host ? e->pool->host_pages : e->pool->n_pages;

    return first < most && n <= most - first;
}

static bool is_copy(struct fake_engine *e, const struct plan_copy *c)
{
    bool apart = c->kind != COPY_PAGES || c->from + c->n <= c->to ||
                 c->to + c->n <= c->from;

    if (c->n == 0 || !is_range(e, c->kind == COPY_IN, c->from, c->n) ||
        !is_range(e, c->kind == COPY_OUT, c->to, c->n) || !apart) {
        fake_engine_wrong(e, NULL, "copy out of range, or onto itself");
        return false;
    }
    return true;
}

static void check_poison(struct fake_engine *e, const struct plan *p)
{
    for (uint32_t i = 0; i < p->n_poison && !e->sim->failed; i++) {
        const struct plan_copy *c = &p->poison[i];

        if (c->n == 0 || !fake_in_memory(e, c->from, c->n)) {
            fake_engine_wrong(e, NULL, "poison out of range");
            return;
        }
        for (uint32_t k = c->from; k < c->from + c->n; k++) {
            if (is_in_flight(e, k)) {
                fake_engine_wrong(e, NULL, "page in flight is free");
            }
        }
    }
}

/* Pages come back to where no plan in flight reads.  Pages that go out may be
 * read by plans in flight: nothing writes them before. */
static void check_swap(struct fake_engine *e, const struct plan_copy *c)
{
    for (uint32_t k = 0; k < c->n; k++) {
        if (c->kind == COPY_IN && is_in_flight(e, c->to + k)) {
            fake_engine_wrong(e, NULL, "copy to a page in flight");
        }
        e->sim->counts.cells
            .deeds[c->kind == COPY_OUT ? DEED_SWAP_OUT : DEED_SWAP_IN]++;
        e->sim->counts.cells.deeds[DEED_WINDOW_OUT] +=
            c->kind == COPY_OUT && e->pages[c->from + k].kind == PAGE_WINDOW;
    }
}

/* Moves and restores, in order: the source of each may be overwritten then. */
static void check_before(struct fake_engine *e, const struct plan *p)
{
    for (uint32_t i = 0; i < p->n_before && !e->sim->failed; i++) {
        const struct plan_copy *c = &p->before[i];

        if (!is_copy(e, c)) {
            return;
        }
        if (c->kind != COPY_PAGES) {
            check_swap(e, c);
            continue;
        }
        for (uint32_t k = 0; k < c->n; k++) {
            if (is_in_flight(e, c->to + k)) {
                fake_engine_wrong(e, NULL, "copy to a page in flight");
            }
            fake_memory_moved(e, c->from + k);
            e->sim->counts.cells.deeds[DEED_MOVED_BLOCK] +=
                e->pages[c->from + k].kind == PAGE_CELLS;
        }
    }
}

static void check_zeroes(struct fake_engine *e, const struct plan *p)
{
    for (uint32_t i = 0; i < p->n_zero && !e->sim->failed; i++) {
        uint32_t slot = p->zero_slots[i];

        for (uint32_t k = 0; k < e->per_slot && fake_is_slot(e, slot); k++) {
            if (is_in_flight(e, slot + k)) {
                fake_engine_wrong(e, NULL, "slot to zero is in flight");
            }
        }
        if (!fake_is_slot(e, slot)) {
            fake_engine_wrong(e, NULL, "slot to zero is out of range");
        }
    }
}

/* Returns the twin that this copy serves; NULL if it is not known. */
static const struct plan_row *twin_of(const struct fake_engine *e,
                                      const struct plan *p,
                                      const struct plan_copy *c)
{
    for (uint32_t i = 0; i < p->n_rows; i++) {
        const struct plan_row *r = &p->rows[i];

        if (!fake_row_is_twin(r)) {
            continue;
        }
        if (r->slot == c->to) {
            return r;
        }
        for (uint32_t k = 0; k < r->n_blocks; k++) {
            if (p->blocks[r->block + k] == c->to) {
                return r;
            }
        }
        if (fake_windows_has(e, p, r, c->to)) {
            return r;
        }
    }
    return NULL;
}

/* The slots of twins are claimed by their rows. */
static void check_after(struct fake_engine *e, const struct plan *p)
{
    for (uint32_t i = 0; i < p->n_after && !e->sim->failed; i++) {
        const struct plan_copy *c = &p->after[i];
        const struct plan_row *r = twin_of(e, p, c);

        if (!is_copy(e, c) || (r && r->slot == c->to)) {
            continue;
        }
        e->rows++;
        for (uint32_t k = 0; k < c->n; k++) {
            struct page *g = &e->pages[c->to + k];

            if (is_in_flight(e, c->to + k) &&
                !(r && g->sequence == r->sequence && !g->mixed)) {
                fake_engine_wrong(e, r, "copy to a page in flight");
            }
            if (g->claim == e->plans) {
                fake_engine_wrong(e, r, "page has two uses in a plan");
            }
            g->claim = e->plans;
            g->claim_row = e->rows;
        }
    }
}

/* ---- plans ---- */

/* Checks hidden states from the previous stage, and the rows that the next
 * stage reads. */
static void check_hidden(struct fake_engine *e, const struct plan *p)
{
    uint32_t at = 0;

    if ((p->hidden != NULL) != fake_engine_takes_hidden(e)) {
        fake_engine_wrong(e, NULL, "hidden states missing or unexpected");
    }
    for (uint32_t i = 0; i < p->n_rows && is_stage(e); i++) {
        if (p->rows[i].token != at && !fake_row_is_twin(&p->rows[i])) {
            fake_engine_wrong(e, &p->rows[i],
                              "rows are not contiguous in the plan's tokens");
        }
        at += p->rows[i].n_tokens;
    }
    if (is_stage(e) && at != p->n_tokens) {
        fake_engine_wrong(e, NULL, "tokens without a row");
    }
}

/* Returns whether the plan computes a sequence again, which is then its only
 * one.  A row that samples completes this. */
static bool computes_again(struct fake_engine *e, const struct plan *p)
{
    bool again = false;

    for (uint32_t i = 0; i < p->n_rows; i++) {
        struct tracked *t = fake_engine_track(e, p->rows[i].sequence);

        if (t->again && p->n_rows > 1) {
            fake_engine_wrong(e, &p->rows[i],
                              "sequence is computed again beside others");
        }
        again = again || t->again;
        t->again = t->again && !p->rows[i].sample;
    }
    return again;
}

/* Checks the numbers of rows and tokens, and that no sequence has two rows. */
static void check_size(struct fake_engine *e, const struct plan *p)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n_rows; i++) {
        n += p->rows[i].n_tokens;
        for (uint32_t j = 0; j < i; j++) {
            if (p->rows[i].sequence == p->rows[j].sequence) {
                fake_engine_wrong(e, &p->rows[i], "sequence has two rows");
            }
        }
    }
    if (p->n_rows == 0 || p->n_rows > e->draw->max_rows) {
        fake_engine_wrong(e, NULL, "no rows, or more than max_rows");
    }
    if (n > e->draw->step_tokens) {
        fake_engine_wrong(e, NULL, "more tokens than step_tokens");
    }
    if (p->n_before > PLAN_COPIES_MAX || p->n_poison > PLAN_COPIES_MAX ||
        p->n_after > (2 + e->tables) * PLAN_ROWS_MAX) {
        fake_engine_wrong(e, NULL, "more copies than a plan may have");
    }
}

void fake_engine_check(struct fake_engine *e, const struct plan *p,
                       struct flown *f)
{
    uint64_t first = e->rows;

    e->plans++;
    check_hidden(e, p);
    check_size(e, p);
    fake_drafts_check_plan(e, p);
    check_poison(e, p);
    check_before(e, p);
    check_zeroes(e, p);
    for (uint32_t i = 0; i < p->n_rows && !e->sim->failed; i++) {
        check_row(e, p, i, f);
    }
    check_after(e, p);
    fake_twins_check(e, p);
    for (uint32_t i = 0; i < p->n_rows && !e->sim->failed; i++) {
        name_table(e, p, &p->rows[i], f, first + i + 1);
        fake_windows_check(e, p, &p->rows[i], first + i + 1);
    }
    f->alone = computes_again(e, p);
}
