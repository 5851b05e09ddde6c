#include "worker/plan/batcher.h"

#include <assert.h>
#include <string.h>

#include "common/base/minmax.h"
#include "common/base/plant.h"
#include "worker/plan/first_row.h"
#include "worker/plan/prefill.h"
#include "worker/plan/twins.h"

/* A chunk must fit into a step, so a smaller budget lowers the cut. */
static void set_cut(struct batcher *b)
{
    b->cut = min_u32(BATCHER_CUT,
                     min_u32(b->limits.chunk_tokens, b->limits.step_tokens));
}

bool batcher_init(struct batcher *b, const struct batcher_limits *l,
                  struct sequence_table *table, struct reuse *reuse)
{
    bool ok = true;

    assert(l->depth <= l->batches && l->batches <= BATCHES_MAX);
    memset(b, 0, sizeof *b);
    b->limits = *l;
    b->rows_made = l->max_rows;
    b->tokens_made = l->step_tokens;
    set_cut(b);
    b->table = table;
    b->reuse = reuse;
    b->prefill.link = b->decode.link = b->again.link = LIST_PLAN;
    b->twins.link = b->spent.link = LIST_PLAN;
    b->stages = 1;
    b->draft = (struct draft_rows){.limits = &b->limits,
                                   .table = table,
                                   .reuse = reuse,
                                   .decode = &b->decode};
    draft_rows_init(&b->draft);
    step_room_init(&b->room, l->bounded, l->itl_us);
    for (uint32_t i = 0; i < l->batches; i++) {
        ok = batch_init(&b->ring[i], l) && ok;
    }
    if (!ok) {
        batcher_fini(b);
    }
    return ok;
}

void batcher_fini(struct batcher *b)
{
    for (int i = 0; i < BATCHES_MAX; i++) {
        batch_fini(&b->ring[i]);
    }
    memset(b, 0, sizeof *b);
}

void batcher_lead(struct batcher *b, uint32_t n_stages, uint32_t max_rows,
                  uint32_t step_tokens)
{
    assert(n_stages >= 2 && n_stages <= b->limits.batches);
    assert(max_rows > 0 && step_tokens > 0);
    b->stages = n_stages;
    b->draft.leads = true;
    b->limits.max_rows = min_u32(max_rows, b->rows_made);
    b->limits.step_tokens = min_u32(step_tokens, b->tokens_made);
    set_cut(b);
}

void batcher_set_drafts(struct batcher *b, uint32_t drafts,
                        uint32_t keep_tokens, bool has_mtp)
{
    b->limits.drafts = drafts;
    b->limits.keep_tokens = keep_tokens;
    b->limits.proposers.has_mtp = has_mtp;
}

/* Returns how many plans may be under way. */
static uint32_t inflight_max(const struct batcher *b)
{
    return b->stages > 1 ? b->stages : b->limits.depth;
}

/* Returns the ring index of the i-th plan in flight, 0 being the oldest. */
static uint32_t ring_index(const struct batcher *b, uint32_t i)
{
    return (b->oldest + i) % b->limits.batches;
}

void batcher_add(struct batcher *b, struct sequence *s)
{
    if (!twins_join(b, s)) {
        sequence_push(&b->prefill, s);
    }
}

void batcher_again(struct batcher *b, struct sequence *s)
{
    assert(s->plan.inflight == 0);
    recompute_move(s, RECOMPUTE_ALONE);
    if (s->plan.lost == 0) {
        s->plan.lost = s->plan.n_computed;
        s->plan.waste = WASTE_FAILED;
    }
    s->plan.n_planned = s->plan.pending = 0;
    if (!PLANT(RECOMPUTE_LOST)) {
        sequence_push(&b->again, s);
    }
}

void batcher_drop(struct batcher *b, struct sequence *s)
{
    twins_leave(s);
    twins_release(b, s);
    sequence_unlink(s, LIST_PLAN);
}

bool batcher_load(struct batcher *b, uint32_t checkpoint, uint32_t slot)
{
    if (b->n_loads == LOADS_MAX) {
        return false;
    }
    b->loads[b->n_loads++] = (struct plan_copy){
        .from = checkpoint, .to = slot, .n = b->limits.pages_per_slot};
    return true;
}

/* ---- rows ---- */

static void fill_ids(struct batcher *b, struct plan *p, struct plan_row *row,
                     const struct sequence *s)
{
    row->token = p->n_tokens;
    p->n_tokens += row->n_tokens;
    if (row->chained) {
        row->chain_row = PLANT(CHAIN_ASTRAY) ? 0 : s->plan.last_row;
        p->tokens[row->token] = TOKEN_NONE;
        return;
    }
    paged_read(&b->table->slab, &s->portable.tokens, row->position,
               &p->tokens[row->token], row->n_tokens - row->n_drafts);
}

void batcher_own_row(struct batcher *b, struct batch *t, struct sequence *s)
{
    struct plan *p = &t->plan;
    const struct plan_row *row = &p->rows[p->n_rows];

    s->plan.pending += row->sample ? 1 + row->n_drafts : 0;
    s->plan.inflight++;
    s->plan.last_step = p->step;
    s->plan.last_row = p->n_rows;
    t->owners[p->n_rows++] = s;
    if (s->state == SEQUENCE_QUEUED) {
        sequence_move(b->table, s, SEQUENCE_PREFILL);
    }
    /* From its first sample on, a sequence decodes; pushing it again moves it
     * to the tail, which is how turns are taken. */
    if (row->sample) {
        sequence_push(&b->decode, s);
    }
}

/* Counts the positions that are computed again from here on. */
static void count_waste(struct batcher *b, struct sequence *s)
{
    if (s->plan.lost > s->plan.n_planned) {
        b->n_wasted[s->plan.waste] += s->plan.lost - s->plan.n_planned;
    }
    s->plan.lost = 0;
}

/* Takes the memory of a row, and the blocks where the engine drafts. */
static bool take_memory(struct batcher *b, struct batch *t, struct sequence *s,
                        const struct draft_row *next)
{
    uint32_t end = s->plan.n_planned + next->n_tokens;

    b->n_back += s->memory.n_host;
    return (s->memory.n_host == 0 ||
            first_row_bring_in(&b->limits, b->table, t, s)) &&
           batch_take_blocks(&b->limits, b->table, s, end + next->propose) &&
           batch_take_memory(&b->limits, b->table, t, s, s->plan.n_planned,
                             end);
}

static void begin_copies(struct batcher *b, struct batch *t,
                         const struct sequence *s, const struct first_row *from)
{
    uint32_t n_host = first_row_copy(&b->limits, b->table, t, s, from);

    if (n_host > 0) {
        b->reuse->n_state_pages += n_host;
    }
}

void batcher_add_row(struct batcher *b, struct batch *t, struct sequence *s,
                     const struct draft_row *next, const struct first_row *from)
{
    struct plan *p = &t->plan;
    uint32_t known = sequence_known(s), i = p->n_rows, n = next->n_tokens, run;
    struct plan_row *row = &p->rows[i];

    count_waste(b, s);
    if (!take_memory(b, t, s, next)) {
        batcher_drop(b, s);
        b->stuck = s;
        return;
    }
    begin_copies(b, t, s, from);
    *row = (struct plan_row){
        .sequence = s->number,
        .kind = sequence_kind(s, s->plan.n_planned, &run),
        .position = s->plan.n_planned,
        .n_tokens = n,
        .n_drafts = s->plan.n_planned < known && s->plan.n_planned + n > known
                        ? s->plan.n_planned + n - known
                        : 0,
        .chained = s->plan.n_planned >= known,
        .sample = s->plan.n_planned + n >= known,
        .index = s->portable.n_generated +
                 (PLANT(INDEX_REUSED) ? 0 : s->plan.pending),
        .choice = s->key.choice,
        .sampling = &s->portable.sampling,
    };
    fill_ids(b, p, row, s);
    draft_rows_fill(&b->draft, t, s, row, next->propose);
    if (row->sample) {
        row->history = batch_history(b->table, s);
    }
    if (row->kind == ROW_PROMPT) {
        t->n_prompt_tokens += n;
    }
    if (b->reuse != NULL) {
        reuse_save(b->reuse, &b->limits, t, s, i);
    }
    s->plan.n_planned += n;
    batcher_own_row(b, t, s);
    if (twins_wait(&s->twins) && row->sample &&
        s->plan.n_planned == s->portable.n_prompt) {
        twins_add(b, t, s, i);
    }
}

/* ---- decode ---- */

bool batcher_window_open(const struct sequence *s)
{
    return !s->portable.sampling.logprobs || PLANT(WINDOW_IGNORED) ||
           logprobs_room(&s->portable.logprobs, s->portable.acked,
                         s->plan.pending);
}

_Static_assert(ENGINE_DEPTH_MAX == 2, "one row of s is in flight, if any");

/* Returns whether s has a next token to compute, known or chained. */
static bool decode_ready(const struct batcher *b, const struct sequence *s)
{
    if (!batcher_window_open(s)) {
        return false;
    }
    if (s->plan.n_planned < sequence_known(s)) {
        return true;
    }
    /* Behind a row with drafts, whose tokens show only then, none is chained.
     */
    return b->stages == 1 && !b->draft.lockstep && s->plan.pending == 1 &&
           s->plan.last_step == b->step &&
           s->portable.n_generated + s->plan.pending < s->portable.max_tokens;
}

/* Returns whether a plan in flight has rows of decode. */
static bool decodes(const struct batcher *b)
{
    for (uint32_t i = 0; i < b->inflight; i++) {
        if (b->ring[ring_index(b, i)].n_decode > 0) {
            return true;
        }
    }
    return false;
}

/* Returns the most decode rows of this microbatch; the others get the rest. */
static uint32_t decode_share(const struct batcher *b)
{
    uint32_t ready = 0;

    if (b->stages == 1) {
        return UINT32_MAX;
    }
    for (const struct sequence *s = b->decode.head; s != NULL;
         s = sequence_next(s, LIST_PLAN)) {
        ready += decode_ready(b, s);
    }
    return min_u32(ceil_div_u32(ready, inflight_max(b) - b->inflight),
                   ceil_div_u32(b->decode.n, b->stages));
}

/* Reserves a part of the step for prefill while it waits.  Where a step is too
 * small to divide, prefill and decode take turns. */
static void decode_limits(const struct batcher *b, uint32_t *rows,
                          uint32_t *tokens)
{
    bool small = b->limits.max_rows == 1 || b->limits.step_tokens <= b->cut;

    *rows = b->limits.max_rows;
    *tokens = b->limits.step_tokens;
    /* Nothing waits for prefill: decode may use the whole step. */
    if (b->prefill.head == NULL) {
        return;
    }
    if (small) {
        *rows = b->step % 2 == 0 ? 0 : *rows;
        return;
    }
    *rows -= 1;
    *tokens -= b->cut;
}

/* Adds the next row of s, if there is room for it.  room: tokens that the step
 * has left; others: rows that may follow. */
static void add_decode(struct batcher *b, struct batch *t, struct sequence *s,
                       uint32_t room, uint32_t others)
{
    uint32_t spare = room > 1 + others ? room - 1 - others : 0;
    struct draft_row next;

    draft_rows_begin(&b->draft, s);
    next = draft_rows_fit(&b->draft, t, s, spare);
    if (next.n_tokens > 1 || batch_has_room(&b->limits, b->table->pool, t, s,
                                            s->plan.n_planned + 1)) {
        t->n_decode++;
        t->n_decode_tokens += next.n_tokens;
        batcher_add_row(b, t, s, &next, &first_row_none);
    }
}

static void plan_decode(struct batcher *b, struct batch *t)
{
    uint32_t rows, tokens, left = b->decode.n;

    draft_rows_choose(&b->draft);
    if (b->draft.lockstep && decodes(b)) {
        return;
    }
    decode_limits(b, &rows, &tokens);
    rows = min_u32(rows, decode_share(b));
    /* Visit each once, from the head; batcher_add_row() moves it to the tail.
     */
    for (struct sequence *s = b->decode.head, *next; left > 0;
         left--, s = next) {
        next = sequence_next(s, LIST_PLAN);
        if (t->plan.n_rows == rows || t->plan.n_tokens == tokens) {
            return;
        }
        if (decode_ready(b, s)) {
            add_decode(b, t, s, tokens - t->plan.n_tokens, left - 1);
        }
    }
}

/* ---- plans ---- */

/* Starts a plan, with the states that it loads for kept sequences. */
static void begin_batch(struct batcher *b, struct batch *t)
{
    const struct role *role = b->reuse != NULL ? b->reuse->role : NULL;

    batch_begin(t, b->table->pool, b->step + 1);
    if (role != NULL && role->ops->replay != NULL) {
        role->ops->replay(role->self, &t->plan);
    }
    for (t->n_loads = 0; t->n_loads < b->n_loads; t->n_loads++) {
        batch_copy(t, b->table->pool, b->loads[t->n_loads]);
        batch_unpoison(t, &b->loads[t->n_loads]);
    }
}

const struct plan *batcher_plan(struct batcher *b)
{
    struct batch *t;

    /* Rows are added to the ring's next batch in place; it counts as in flight
     * only if it got any. */
    b->stuck = NULL;
    if (b->inflight >= inflight_max(b) || b->here == b->limits.depth) {
        return NULL;
    }
    if (b->prefill.n + b->decode.n + b->again.n == 0) {
        return NULL;
    }
    t = &b->ring[ring_index(b, b->inflight)];
    begin_batch(b, t);
    /* In turns, so that the others go on. */
    if (b->step % 2 == 1) {
        prefill_again(b, t);
    }
    if (t->plan.n_rows == 0 || PLANT(RECOMPUTE_SHARED)) {
        plan_decode(b, t);
        prefill_plan(b, t);
    }
    prefill_again(b, t);
    if (t->plan.n_rows == 0) {
        batch_undo(t, b->table->pool);
        return NULL;
    }
    batch_finish(&b->limits, b->table, t);
    b->n_loads = 0;
    b->n_moves += t->n_moves - t->n_swaps;
    b->step++;
    b->inflight++;
    b->here++;
    return &t->plan;
}

void batcher_sent(struct batcher *b, int64_t now_us)
{
    assert(b->here > 0);
    b->ring[ring_index(b, b->inflight - 1)].sent_us = now_us;
    if (b->inflight == 1) {
        draft_rows_sent(&b->draft, &b->ring[ring_index(b, 0)]);
    }
}

void batcher_learn(struct batcher *b, const struct batch *t, uint32_t us)
{
    if (t->n_swapped == 0) {
        step_cost_note(&b->room.cost, t->n_decode_tokens,
                       t->plan.n_tokens - t->n_decode_tokens, us);
    }
}

const struct batch *batcher_here(const struct batcher *b)
{
    return b->here > 0 ? &b->ring[ring_index(b, b->inflight - b->here)] : NULL;
}

void batcher_pass(struct batcher *b)
{
    assert(b->here > 0);
    b->here--;
}

static bool batch_names(const struct batch *t, const struct sequence *s)
{
    for (uint32_t i = 0; i < t->plan.n_rows; i++) {
        if (t->owners[i] == s) {
            return true;
        }
    }
    return false;
}

bool batcher_names(const struct batcher *b, const struct sequence *s)
{
    for (uint32_t i = b->inflight - b->here; i < b->inflight; i++) {
        const struct batch *t = &b->ring[ring_index(b, i)];

        if (s->plan.last_step >= t->plan.step && batch_names(t, s)) {
            return true;
        }
    }
    return false;
}

const struct batch *batcher_oldest(const struct batcher *b)
{
    return b->inflight > 0 ? &b->ring[b->oldest] : NULL;
}

void batcher_return(struct batcher *b)
{
    assert(b->inflight > 0);
    b->oldest = ring_index(b, 1);
    b->inflight--;
    b->here = min_u32(b->here, b->inflight);
}

/* The states that the plan was to load are not there: the sequences that kept
 * them are computed anew by whoever continues them. */
static void lose_loads(struct batcher *b)
{
    struct sequence *s = b->table->all.head;

    for (; s != NULL; s = sequence_next(s, LIST_ALL)) {
        if (s->state == SEQUENCE_KEPT) {
            s->plan.n_computed = 0;
        }
    }
}

const struct batch *batcher_withdraw(struct batcher *b)
{
    struct batch *t;

    assert(b->here > 0);
    b->here--;
    b->inflight--;
    t = &b->ring[ring_index(b, b->inflight)];
    batch_undo(t, b->table->pool);
    if (t->n_loads > 0) {
        lose_loads(b);
    }
    return t;
}
